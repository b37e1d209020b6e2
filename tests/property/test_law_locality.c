/* test_law_locality.c -- the laws' selections are as local as the reconstruction says, and equally
 * so.
 *
 * The oracle is a batch LRU that knows nothing of ours: one list of rows, oldest
 * first, rewritten at each step as [unused][filled][hits]. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/law.h"
#include "kvt/rng.h"
#include "support/plugin_params.h"

extern const struct kvt_law kvt_law_score;
extern const struct kvt_law kvt_law_tape;

/* ---- The batch LRU ------------------------------------------------------------- */

struct lru {
    uint32_t slots, used;
    uint32_t *order, *next; /* [slots] rows, oldest first */
    bool *holds;            /* [rows_max] */
    uint64_t misses;
};

static void lru_init(struct lru *lru, uint32_t slots, uint32_t rows_max)
{
    *lru = (struct lru){.slots = slots};
    lru->order = calloc(slots, sizeof *lru->order);
    lru->next = calloc(slots, sizeof *lru->next);
    lru->holds = calloc(rows_max, sizeof *lru->holds);
    ck_assert(lru->order != NULL && lru->next != NULL && lru->holds != NULL);
}

static void lru_fini(struct lru *lru)
{
    free(lru->order);
    free(lru->next);
    free(lru->holds);
}

/* is_selected[row] for the rows of this step, of which those below tail_row are
 * looked up. */
static uint32_t lru_step(struct lru *lru, const uint32_t *rows, uint32_t count, uint32_t tail_row,
                         const bool *is_selected)
{
    uint32_t misses = 0;
    for (uint32_t i = 0; i < count && rows[i] < tail_row; i++)
        misses += !lru->holds[rows[i]];
    uint32_t empty = lru->slots - lru->used;
    uint32_t evictions = misses > empty ? misses - empty : 0;

    uint32_t kept = 0;
    for (uint32_t i = 0; i < lru->used; i++) {
        if (is_selected[lru->order[i]])
            continue;
        if (evictions > 0) {
            evictions--;
            lru->holds[lru->order[i]] = false;
        } else {
            lru->next[kept++] = lru->order[i];
        }
    }
    ck_assert_uint_eq(evictions, 0);
    for (uint32_t i = 0; i < count && rows[i] < tail_row; i++) {
        if (!lru->holds[rows[i]])
            lru->next[kept++] = rows[i];
    }
    for (uint32_t i = 0; i < lru->used; i++) {
        if (is_selected[lru->order[i]])
            lru->next[kept++] = lru->order[i];
    }
    for (uint32_t i = 0; i < kept; i++)
        lru->holds[lru->next[i]] = true;
    uint32_t *swapped = lru->order;
    lru->order = lru->next;
    lru->next = swapped;
    lru->used = kept;
    lru->misses += misses;
    return misses;
}

/* ---- What is measured of one stream ---------------------------------------------- */

enum {
    SIZES = 6,
    LAGS = 7,
    UNIONS = 8,
    HISTORY = 64,
    STEPS = 2120
};

static const double cache_sizes[SIZES] = {1, 1.5, 2, 3, 4, 8}; /* B/k */
static const uint32_t lags[LAGS] = {1, 2, 4, 8, 16, 32, 63};

/* facts of set A: 2,120 steps from a cold start. */
static const double printed_miss[SIZES] = {.319, .193, .139, .094, .072, .038};
static const double printed_overlap[LAGS] = {.68, .63, .57, .48, .40, .34, .28};
static const double printed_union[UNIONS] = {1, 1.32, 1.54, 1.73, 1.89, 2.04, 2.17, 2.30};

/* GLM-5.3's store, and the same at an eighth of its size and growth: shares are
 * of rows, so that they do not change with the scale. */
struct scale {
    uint32_t context_rows, top_k, tail_rows, tokens_per_row;
};
static const struct scale full_scale = {100032, 2048, 64, 1};
static const struct scale small_scale = {12504, 256, 8, 8};
static const struct scale brief_scale = {12504, 256, 8, 1}; /* grows faster: a tape is soon made */

static uint32_t visible_at(const struct scale *scale, uint32_t step)
{
    return scale->context_rows + step / scale->tokens_per_row;
}

struct locality {
    double miss[SIZES], overlap[LAGS], unions[UNIONS];
    double born;     /* selected rows born since the start, of all selected */
    uint64_t series; /* tells apart streams whose misses differ at any step */
};

struct watch {
    const struct scale *scale;
    uint32_t rows_max;
    struct lru lru[SIZES];
    bool *is_selected; /* [rows_max] */
    uint32_t *seen_at; /* [rows_max] scratch of the unions: 1 + step */
    uint32_t *history; /* [HISTORY][top_k] */
    uint32_t samples;
};

static void watch_history(struct watch *watch, uint32_t step, struct locality *locality)
{
    uint32_t k = watch->scale->top_k;
    for (size_t l = 0; l < LAGS; l++) {
        const uint32_t *then = watch->history + (size_t)((step - lags[l]) % HISTORY) * k;
        uint32_t common = 0;
        for (uint32_t i = 0; i < k; i++)
            common += watch->is_selected[then[i]];
        locality->overlap[l] += (double)common / k;
    }
    uint32_t distinct = 0;
    for (uint32_t u = 0; u < UNIONS; u++) {
        const uint32_t *then = watch->history + (size_t)((step - u) % HISTORY) * k;
        for (uint32_t i = 0; i < k; i++) {
            distinct += watch->seen_at[then[i]] != step + 1;
            watch->seen_at[then[i]] = step + 1;
        }
        locality->unions[u] += (double)distinct / k;
    }
    watch->samples++;
}

static void watch_step(struct watch *watch, uint32_t step, const uint32_t *rows,
                       struct locality *locality)
{
    const struct scale *scale = watch->scale;
    uint32_t visible = visible_at(scale, step);
    for (uint32_t i = 0; i < scale->top_k; i++) {
        watch->is_selected[rows[i]] = true;
        locality->born += rows[i] >= scale->context_rows;
    }
    for (size_t s = 0; s < SIZES; s++) {
        uint32_t misses = lru_step(&watch->lru[s], rows, scale->top_k, visible - scale->tail_rows,
                                   watch->is_selected);
        locality->series = (locality->series ^ misses) * UINT64_C(1099511628211);
    }
    memcpy(watch->history + (size_t)(step % HISTORY) * scale->top_k, rows,
           scale->top_k * sizeof *rows);
    if (step >= HISTORY && step % 8 == 0)
        watch_history(watch, step, locality);
    for (uint32_t i = 0; i < scale->top_k; i++)
        watch->is_selected[rows[i]] = false;
}

static void *stream_new(const struct kvt_law *law, void *data, const struct kvt_law_stream_env *env)
{
    void *stream = calloc(1, law->stream_bytes(data, env));
    ck_assert_ptr_nonnull(stream);
    struct kvt_error err;
    ck_assert_msg(law->stream_init(data, stream, env, &err) == KVT_OK, "%s", err.message);
    return stream;
}

static struct locality locality_of(const struct kvt_law *law, void *data, const struct scale *scale,
                                   uint32_t request)
{
    struct watch watch = {.scale = scale, .rows_max = visible_at(scale, STEPS)};
    for (size_t s = 0; s < SIZES; s++)
        lru_init(&watch.lru[s], (uint32_t)(cache_sizes[s] * scale->top_k), watch.rows_max);
    watch.is_selected = calloc(watch.rows_max, sizeof *watch.is_selected);
    watch.seen_at = calloc(watch.rows_max, sizeof *watch.seen_at);
    watch.history = calloc((size_t)HISTORY * scale->top_k, sizeof *watch.history);
    uint32_t *rows = calloc(scale->top_k, sizeof *rows);
    ck_assert(watch.is_selected && watch.seen_at && watch.history && rows);

    struct kvt_law_stream_env env = {.request = request,
                                     .context_rows = scale->context_rows,
                                     .rows_max = watch.rows_max,
                                     .tokens_per_row = scale->tokens_per_row};
    void *stream = stream_new(law, data, &env);
    struct locality locality = {.series = UINT64_C(14695981039346656037)};
    for (uint32_t step = 0; step < STEPS; step++) {
        ck_assert_uint_eq(law->select(data, stream, visible_at(scale, step), rows), scale->top_k);
        watch_step(&watch, step, rows, &locality);
    }
    double selected = (double)STEPS * scale->top_k;
    for (size_t s = 0; s < SIZES; s++) {
        locality.miss[s] = (double)watch.lru[s].misses / selected;
        lru_fini(&watch.lru[s]);
    }
    for (size_t l = 0; l < LAGS; l++)
        locality.overlap[l] /= watch.samples;
    for (size_t u = 0; u < UNIONS; u++)
        locality.unions[u] /= watch.samples;
    locality.born /= selected;
    free(stream);
    free(rows);
    free(watch.is_selected);
    free(watch.seen_at);
    free(watch.history);
    return locality;
}

static void *prepared(const struct kvt_law *law, const struct scale *scale, double tapes,
                      uint64_t run_seed)
{
    struct kvt_param_value values[SUPPORT_PARAMS_MAX];
    struct kvt_law_env env = {.params = support_default_params(&law->info, values),
                              .top_k = scale->top_k,
                              .stream_count = 1,
                              .context_rows = &scale->context_rows,
                              .context_tokens_per_row = &scale->tokens_per_row,
                              .context_count = 1,
                              .output_tokens = STEPS,
                              .run_seed = run_seed,
                              .threads = 2};
    for (size_t i = 0; i < law->info.param_count; i++) {
        if (strcmp(law->info.params[i].name, "tapes") == 0)
            values[i].number = tapes;
    }
    void *data = NULL;
    struct kvt_error err;
    ck_assert_msg(law->prepare(&env, &data, &err) == KVT_OK, "%s", err.message);
    return data;
}

/* ---- Against the reconstruction ---------------------------------------------------- */

static void check_printed(const char *what, const struct locality *found)
{
    for (size_t s = 0; s < SIZES; s++)
        ck_assert_msg(fabs(found->miss[s] - printed_miss[s]) <= 0.002 + 0.025 * printed_miss[s],
                      "%s: misses at B/k %g are %.4f, printed %.3f", what, cache_sizes[s],
                      found->miss[s], printed_miss[s]);
    for (size_t l = 0; l < LAGS; l++)
        ck_assert_msg(fabs(found->overlap[l] - printed_overlap[l]) <= 0.02,
                      "%s: overlap at lag %u is %.4f, printed %.2f", what, lags[l],
                      found->overlap[l], printed_overlap[l]);
    for (size_t u = 0; u < UNIONS; u++)
        ck_assert_msg(fabs(found->unions[u] - printed_union[u]) <= 0.03,
                      "%s: the union of %zu is %.4f k, printed %.2f", what, u + 1, found->unions[u],
                      printed_union[u]);
}

static void check_law_at(const struct kvt_law *law, const struct scale *scale, double tapes)
{
    void *data = prepared(law, scale, tapes, 2385);
    struct locality found = locality_of(law, data, scale, 0);
    law->free(data);
    check_printed(law->info.name, &found);
}

START_TEST(score_is_as_local_as_the_reconstruction_at_full_size)
{
    check_law_at(&kvt_law_score, &full_scale, 1);
}
END_TEST

START_TEST(tape_is_as_local_as_the_reconstruction_at_full_size)
{
    check_law_at(&kvt_law_tape, &full_scale, 1);
}
END_TEST

/* ---- Tape against score, within the spread between streams --------------------------- */

enum {
    STREAMS = 12,
    TAPES = 4,
    FIGURES = SIZES + LAGS + UNIONS + 1
};

struct spread {
    double mean, sd;
};

static void figures_of(const struct locality *locality, double figures[FIGURES])
{
    memcpy(figures, locality->miss, sizeof locality->miss);
    memcpy(figures + SIZES, locality->overlap, sizeof locality->overlap);
    memcpy(figures + SIZES + LAGS, locality->unions, sizeof locality->unions);
    figures[FIGURES - 1] = locality->born;
}

static void measure(const struct kvt_law *law, struct locality found[STREAMS],
                    struct spread spreads[FIGURES])
{
    void *data = prepared(law, &small_scale, TAPES, 7);
    double sum[FIGURES] = {0}, squares[FIGURES] = {0};
    for (uint32_t request = 0; request < STREAMS; request++) {
        double figures[FIGURES];
        found[request] = locality_of(law, data, &small_scale, request);
        figures_of(&found[request], figures);
        for (size_t f = 0; f < FIGURES; f++) {
            sum[f] += figures[f];
            squares[f] += figures[f] * figures[f];
        }
    }
    law->free(data);
    for (size_t f = 0; f < FIGURES; f++) {
        spreads[f].mean = sum[f] / STREAMS;
        double variance = squares[f] / STREAMS - spreads[f].mean * spreads[f].mean;
        spreads[f].sd = sqrt(fmax(variance, 0) * STREAMS / (STREAMS - 1));
    }
}

START_TEST(tape_and_score_agree_within_the_spread_between_streams)
{
    static struct locality by_score[STREAMS], by_tape[STREAMS];
    static struct spread score[FIGURES], tape[FIGURES];
    measure(&kvt_law_score, by_score, score);
    measure(&kvt_law_tape, by_tape, tape);
    for (size_t f = 0; f < FIGURES; f++) {
        /* Streams share four tapes, so that many means are independent. */
        double error = score[f].sd * sqrt(1.0 / STREAMS + 1.0 / TAPES);
        ck_assert_msg(fabs(tape[f].mean - score[f].mean) <= 3.5 * error + 1e-9,
                      "figure %zu: tape %.5f, score %.5f +- %.5f", f, tape[f].mean, score[f].mean,
                      error);
        ck_assert_msg(tape[f].sd >= score[f].sd / 3 && tape[f].sd <= score[f].sd * 3,
                      "figure %zu: spread of tape %.6f, of score %.6f", f, tape[f].sd, score[f].sd);
    }
    struct locality mean = {.series = 0};
    for (size_t f = 0; f < SIZES; f++)
        mean.miss[f] = score[f].mean;
    for (size_t f = 0; f < LAGS; f++)
        mean.overlap[f] = score[SIZES + f].mean;
    for (size_t f = 0; f < UNIONS; f++)
        mean.unions[f] = score[SIZES + LAGS + f].mean;
    check_printed("score at an eighth of the size", &mean);
}
END_TEST

START_TEST(streams_on_one_tape_do_not_miss_in_step)
{
    void *data = prepared(&kvt_law_tape, &brief_scale, 1, 11);
    enum {
        REPLAYED = 6
    };
    uint64_t series[REPLAYED];
    for (uint32_t request = 0; request < REPLAYED; request++) {
        series[request] = locality_of(&kvt_law_tape, data, &brief_scale, request).series;
        for (uint32_t other = 0; other < request; other++)
            ck_assert_msg(series[other] != series[request], "requests %u and %u miss alike", other,
                          request);
    }
    kvt_law_tape.free(data);
}
END_TEST

/* Two independent selections share k/n of their rows; two turned by nothing
 * would share what never changes about a row, f0, and more. */
START_TEST(streams_on_one_tape_prefer_different_rows)
{
    enum {
        PAIRED = 24,
        AT_STEP = 300
    };
    const struct scale *scale = &brief_scale;
    void *data = prepared(&kvt_law_tape, scale, 1, 13);
    uint32_t(*rows)[256] = calloc(PAIRED, sizeof *rows);
    ck_assert_ptr_nonnull(rows);
    for (uint32_t request = 0; request < PAIRED; request++) {
        struct kvt_law_stream_env env = {.request = request,
                                         .context_rows = scale->context_rows,
                                         .rows_max = visible_at(scale, STEPS),
                                         .tokens_per_row = scale->tokens_per_row};
        void *stream = stream_new(&kvt_law_tape, data, &env);
        for (uint32_t step = 0; step <= AT_STEP; step++)
            (void)kvt_law_tape.select(data, stream, visible_at(scale, step), rows[request]);
        free(stream);
    }
    double shared = 0;
    for (uint32_t a = 0; a < PAIRED; a++) {
        for (uint32_t b = 0; b < a; b++) {
            for (uint32_t i = 0, j = 0; i < 256 && j < 256;) {
                shared += rows[a][i] == rows[b][j];
                bool is_less = rows[a][i] < rows[b][j];
                bool is_more = rows[a][i] > rows[b][j];
                i += !is_more;
                j += !is_less;
            }
        }
    }
    shared /= 256.0 * PAIRED * (PAIRED - 1) / 2;
    ck_assert_msg(shared < 0.04, "two streams share %.3f of their rows, expected %.3f", shared,
                  256.0 / scale->context_rows);
    free(rows);
    kvt_law_tape.free(data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("law_locality");
    TCase *small = tcase_create("small");
    tcase_set_timeout(small, 60);
    tcase_add_test(small, tape_and_score_agree_within_the_spread_between_streams);
    tcase_add_test(small, streams_on_one_tape_do_not_miss_in_step);
    tcase_add_test(small, streams_on_one_tape_prefer_different_rows);
    suite_add_tcase(suite, small);

    TCase *full = tcase_create("full");
    tcase_set_tags(full, "slow");
    tcase_set_timeout(full, 120);
    tcase_add_test(full, score_is_as_local_as_the_reconstruction_at_full_size);
    tcase_add_test(full, tape_is_as_local_as_the_reconstruction_at_full_size);
    suite_add_tcase(suite, full);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
