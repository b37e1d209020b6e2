/* test_score.c -- the score process against a naive twin, its parameters and its top k. */
#include <check.h>
#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../models/law/score_kernel.h"
#include "../../models/law/score_process.h"
#include "../../models/law/score_top_k.h"
#include "kvt/hash.h"
#include "support/law_setting.h"
#include "support/support.h"

extern const struct kvt_law kvt_law_score;

/* ---- Loops -------------------------------------------------------------------------------- */

/* Parts of all rows, token after token: of unit variance, as correlated over d tokens as a
 * stationary process on a circle is, and at the end where they began. */
START_TEST(a_loop_ends_where_it_began_and_is_stationary)
{
    enum {
        ROWS = 20 * SCORE_BLOCK_ROWS,
        LAG = 40
    };
    static const uint32_t loops[] = {400, 100};
    uint32_t loop = loops[_i];
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_score, 100);
    struct score_shape shape;
    ck_assert_int_eq(score_shape_init(&shape, &setting.env.params, 100, "test", NULL), KVT_OK);
    float *gauss = score_gauss_new();
    struct score_kin kin = {.keys = {5, 6, 7}, .is_alone = 1};
    struct score_extent extent = {
        .rows_max = ROWS, .top_k = 100, .tokens_per_row = 1, .loop_tokens = loop};
    struct score_stream *stream = malloc(score_stream_bytes(&extent));
    float *then = malloc((loop + 1) * (size_t)ROWS * sizeof *then);
    ck_assert(gauss != NULL && stream != NULL && then != NULL);
    score_stream_init(stream, &shape, gauss, &kin, &extent);
    memcpy(then, stream->values, ROWS * sizeof *then);
    for (uint32_t token = 1; token <= loop; token++) {
        score_stream_select(stream, &shape, NULL, ROWS, NULL);
        memcpy(then + (size_t)token * ROWS, stream->values, ROWS * sizeof *then);
    }
    double r = exp(-1 / 100.0), round = pow(r, loop);
    double expected = (pow(r, LAG) + pow(r, loop - LAG)) / (1 + round);
    /* Across the end, and from one quarter to the next. */
    for (uint32_t token = 0; token < loop; token += loop / 4) {
        double variance = 0, product = 0;
        const float *a = then + (size_t)token * ROWS;
        const float *b = then + (size_t)((token + loop - LAG) % loop) * ROWS;
        for (size_t i = 0; i < ROWS; i++) {
            variance += (double)a[i] * (double)a[i] / ROWS;
            product += (double)a[i] * (double)b[i] / ROWS;
        }
        ck_assert_double_eq_tol(variance, 1, .07);
        ck_assert_double_eq_tol(product, expected, .07);
    }
    for (size_t i = 0; i < ROWS; i++)
        ck_assert_double_eq_tol((double)then[(size_t)loop * ROWS + i], (double)then[i], 1e-5);
    free(then);
    free(stream);
    free(gauss);
}
END_TEST

/* ---- The law as its definition says it, row by row, sorted whole -------------------------- */

enum {
    TWIN_ROWS = 1024
};

struct twin {
    struct score_shape shape; /* of the shares and weights only */
    uint64_t keys[3];
    const float *source_weight;
    const struct score_drift *drift;
    uint32_t tokens_per_row;
    float fixed[TWIN_ROWS], slow[TWIN_ROWS], fast[TWIN_ROWS], score[TWIN_ROWS];
};

static float twin_normal(uint64_t word, unsigned piece)
{
    uint64_t index = word >> (16 * piece) & 0xffff;
    uint64_t mirrored = index < 32768 ? 65535 - index : index;
    double quantile = gsl_cdf_ugaussian_Pinv(((double)mirrored + 0.5) / 65536);
    float value = (float)(rint(quantile * 262144) / 262144);
    return index < 32768 ? -value : value;
}

static uint32_t twin_page(const struct twin *twin, uint32_t row)
{
    return row / (64 / twin->tokens_per_row);
}

static void twin_start(struct twin *twin)
{
    for (uint32_t i = 0; i < TWIN_ROWS; i++) {
        for (size_t s = 0; s < 3; s++) {
            uint64_t start = kvt_chain64(twin->keys[s], 0);
            uint64_t page_start = kvt_chain64(start, 4);
            float row_weight = twin->source_weight[s] * twin->shape.row_weight;
            float page_weight = twin->source_weight[s] * twin->shape.page_weight;
            uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
            uint64_t word = kvt_mix64(start + (i + 1) * golden);
            uint64_t page_word = kvt_mix64(page_start + (twin_page(twin, i) + 1) * golden);
            twin->fixed[i] += row_weight * twin_normal(word, 0);
            twin->slow[i] += row_weight * twin_normal(word, 1);
            twin->fast[i] += row_weight * twin_normal(word, 2);
            twin->fixed[i] += page_weight * twin_normal(page_word, 0);
            twin->slow[i] += page_weight * twin_normal(page_word, 1);
            twin->fast[i] += page_weight * twin_normal(page_word, 2);
        }
    }
}

/* Slow, fast and white of one number from one key. */
static void twin_kick(const struct twin *twin, uint64_t key, uint32_t number, float weight,
                      float kick[3])
{
    uint32_t x = number * UINT32_C(0x9e3779b9) + (uint32_t)key;
    x = (x ^ x >> 16) * UINT32_C(0x7feb352d);
    uint32_t a = x + (uint32_t)(key >> 32), b = x + (uint32_t)kvt_chain64(key, 5);
    a = (a ^ a >> 15) * UINT32_C(0x846ca68b);
    b = (b ^ b >> 15) * UINT32_C(0xd35a2d97);
    a ^= a >> 16;
    b ^= b >> 16;
    float slow = (float)((int)(a & 255) + (int)(a >> 8 & 255) - 255);
    float fast = (float)((int)(a >> 16 & 255) + (int)(a >> 24) - 255);
    float white = (float)((int)(b & 65535) + (int)(b >> 16) - 65535);
    float bytes = 104.510765F, halves = 26754.96F, straight = 0.84328668F, bend = 0.063645294F;
    float fast_unit = weight * twin->drift->fast_kick / bytes;
    float white_unit = weight * twin->drift->white_weight / halves;
    kick[0] += weight * twin->drift->slow_kick / bytes * slow;
    kick[1] += fast * (fast_unit * straight + fast_unit * bend / (bytes * bytes) * (fast * fast));
    kick[2] +=
        white * (white_unit * straight + white_unit * bend / (halves * halves) * (white * white));
}

static void twin_token(struct twin *twin, uint64_t token, uint32_t visible)
{
    for (uint32_t i = 0; i < TWIN_ROWS; i++) {
        float row[3] = {0}, page[3] = {0};
        for (size_t s = 0; s < 3; s++) {
            uint64_t key = kvt_chain64(twin->keys[s], token);
            float weight = twin->source_weight[s];
            twin_kick(twin, key, i, weight * twin->shape.row_weight, row);
            twin_kick(twin, kvt_chain64(key, 4), twin_page(twin, i),
                      weight * twin->shape.page_weight, page);
        }
        const struct score_drift *d = twin->drift;
        twin->slow[i] = d->slow_keep * twin->slow[i] + (row[0] + page[0]);
        twin->fast[i] = d->fast_keep * twin->fast[i] + (row[1] + page[1]);
        int age = (int)visible - 1 - (int)i;
        float half_lives = (float)twin->tokens_per_row / 1024 * (float)(age > 0 ? age : 0);
        float white = row[2] + page[2];
        if (twin->shape.recency > 0)
            white += twin->shape.recency / (1 + half_lives);
        float score = d->static_weight * twin->fixed[i] + d->slow_weight * twin->slow[i];
        score += d->fast_weight * twin->fast[i];
        twin->score[i] = i < twin->shape.sink_rows ? INFINITY : score + white;
    }
}

/* Whether `row` is among the k best: fewer than k rows are better. */
static bool is_selected(const float *score, uint32_t count, uint32_t k, uint32_t row)
{
    uint32_t better = 0;
    for (uint32_t i = 0; i < count; i++)
        better += score[i] > score[row] || (!(score[i] < score[row]) && i < row);
    return better < k;
}

static const struct {
    double preset, page_share, store_share, recency;
    uint32_t tokens_per_row, selector;
} definitions[] = {
    {0, -1, -1, -1, 1, 0},   {0, -1, -1, -1, 1, 3},  {1, -1, -1, -1, 1, 0}, {1, .5, .7, -1, 2, 5},
    {2, -1, -1, -1, 1, 5},   {2, -1, -1, 2.5, 4, 0}, {2, .3, .4, 2, 1, 2},  {0, 1, 0, -1, 1, 0},
    {0, -1, .635, -1, 1, 2}, {0, 0, 1, -1, 2, 1},
};

/* The weights are taken from the shape, whose values have tests of their own. */
static void twin_of(struct twin *twin, const struct law_setting *setting, uint32_t selector,
                    uint32_t tokens_per_row)
{
    struct kvt_error err;
    memset(twin, 0, sizeof *twin);
    ck_assert_int_eq(
        score_shape_init(&twin->shape, &setting->env.params, setting->env.top_k, "", &err), KVT_OK);
    struct score_model model = {.run_seed = setting->env.run_seed,
                                .stream_count = setting->env.stream_count,
                                .stream_store = setting->env.stream_store};
    struct score_kin kin = score_kin_of(&model, 11, selector, tokens_per_row);
    memcpy(twin->keys, kin.keys, sizeof twin->keys);
    twin->source_weight =
        kin.is_alone ? twin->shape.source_weight_alone : twin->shape.source_weight;
    twin->drift = &twin->shape.bands[selector * 3 / setting->env.stream_count];
    twin->tokens_per_row = tokens_per_row;
    twin_start(twin);
}

START_TEST(score_selects_what_its_definition_says)
{
    enum {
        TOP_K = 37,
        CONTEXT = 990, /* all blocks drift from the start */
        TOKENS = 34
    };
    static const uint32_t stores[] = {0, 1, 1, 1, 2, 3};
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_score, TOP_K);
    law_setting_set(&setting, &kvt_law_score, "preset", definitions[_i].preset);
    law_setting_set(&setting, &kvt_law_score, "page_share", definitions[_i].page_share);
    law_setting_set(&setting, &kvt_law_score, "store_share", definitions[_i].store_share);
    law_setting_set(&setting, &kvt_law_score, "recency", definitions[_i].recency);
    setting.env.stream_count = 6;
    setting.env.stream_store = stores;
    void *data = law_prepared(&kvt_law_score, &setting);
    uint32_t tokens_per_row = definitions[_i].tokens_per_row;
    struct kvt_law_stream_env env =
        law_stream_env(11, definitions[_i].selector, CONTEXT, CONTEXT + TOKENS);
    env.tokens_per_row = tokens_per_row;
    void *stream = law_stream_new(&kvt_law_score, data, &env);
    static struct twin twin;
    twin_of(&twin, &setting, env.selector, tokens_per_row);
    for (uint32_t token = 1; token <= TOKENS; token++) {
        uint32_t rows[TWIN_ROWS];
        uint32_t visible = CONTEXT + (token - 1) / tokens_per_row;
        ck_assert_uint_eq(law_select_one(&kvt_law_score, data, stream, visible, rows), TOP_K);
        twin_token(&twin, token, visible);
        for (uint32_t i = 0; i < TOP_K; i++)
            ck_assert_msg(is_selected(twin.score, visible, TOP_K, rows[i]), "row %u at token %u",
                          rows[i], token);
    }
    free(stream);
    kvt_law_score.free(data);
}
END_TEST

/* ---- Parameters ------------------------------------------------------------------------- */

static struct score_shape shape_with(const char *name, double number, const char *other,
                                     double other_number)
{
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_score, 64);
    law_setting_set(&setting, &kvt_law_score, name, number);
    law_setting_set(&setting, &kvt_law_score, other, other_number);
    struct score_shape shape;
    struct kvt_error err;
    ck_assert_msg(score_shape_init(&shape, &setting.env.params, 64, "", &err) == KVT_OK, "%s",
                  err.message);
    return shape;
}

static double square(float weight)
{
    return (double)weight * (double)weight;
}

static void check_unit_variance(const struct score_shape *shape)
{
    for (size_t b = 0; b < SCORE_BANDS; b++) {
        const struct score_drift *d = &shape->bands[b];
        ck_assert_double_eq_tol(square(d->static_weight) + square(d->slow_weight) +
                                    square(d->fast_weight) + square(d->white_weight),
                                1, 1e-6);
        ck_assert_double_eq_tol(square(d->slow_keep) + square(d->slow_kick), 1, 1e-6);
        ck_assert_double_eq_tol(square(d->fast_keep) + square(d->fast_kick), 1, 1e-6);
    }
    double sources = 0, alone = 0;
    for (size_t s = 0; s < SCORE_SOURCES; s++) {
        sources += square(shape->source_weight[s]);
        alone += square(shape->source_weight_alone[s]);
    }
    ck_assert_double_eq_tol(sources, 1, 1e-6);
    ck_assert_double_eq_tol(alone, 1, 1e-6);
    ck_assert_double_eq_tol(square(shape->row_weight) + square(shape->page_weight), 1, 1e-6);
}

START_TEST(shares_are_of_one_variance_whatever_they_are)
{
    static const char *const names[] = {"f0", "page_share", "store_share", "selector_share",
                                        "layer_spread"};
    for (int preset = 0; preset < 3; preset++) {
        for (size_t p = 0; p < 5; p++) {
            for (int tenths = 0; tenths <= 5; tenths++) {
                struct score_shape shape = shape_with("preset", preset, names[p], tenths * .1);
                check_unit_variance(&shape);
            }
        }
    }
    struct score_shape all_new = shape_with("f0", 0, "layer_spread", .9);
    check_unit_variance(&all_new);
}
END_TEST

START_TEST(a_preset_fills_what_is_left_to_it_and_nothing_else)
{
    struct score_shape flat = shape_with("preset", 0, "", 0);
    ck_assert_double_le(square(flat.page_weight), 0);
    ck_assert_double_le(square(flat.source_weight_alone[SCORE_SOURCE_GROUP]), 0);
    ck_assert_uint_eq(flat.sink_rows, 0);
    ck_assert_mem_eq(&flat.bands[0], &flat.bands[2], sizeof flat.bands[0]);

    struct score_shape clustered = shape_with("preset", 1, "page_share", .2385);
    ck_assert_double_eq_tol(square(clustered.page_weight), .2385, 1e-6);
    ck_assert_double_eq_tol(square(clustered.source_weight_alone[SCORE_SOURCE_GROUP]), .4, 1e-6);
    struct score_shape skewed = shape_with("preset", 2, "recency", 0);
    ck_assert_uint_eq(skewed.sink_rows, 4);
    ck_assert_double_le(square(skewed.recency), 0);
    /* The first third forgets sooner, the last later. */
    ck_assert_double_eq_tol(square(skewed.bands[0].white_weight), .035 * 1.4, 1e-6);
    ck_assert_double_eq_tol(square(skewed.bands[1].white_weight), .035, 1e-6);
    ck_assert_double_eq_tol(square(skewed.bands[2].fast_weight), .155 * .6, 1e-6);
    ck_assert_mem_eq(&skewed.bands[1], &flat.bands[1], sizeof flat.bands[1]);
}
END_TEST

START_TEST(the_description_says_what_is_in_force)
{
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_score, 64);
    law_setting_set(&setting, &kvt_law_score, "preset", 2);
    law_setting_set(&setting, &kvt_law_score, "page_share", .2385);
    law_setting_set(&setting, &kvt_law_score, "sink_rows", 0);
    void *data = law_prepared(&kvt_law_score, &setting);
    char text[160];
    kvt_law_score.describe(data, text, sizeof text);
    ck_assert_str_eq(text, "scores of all visible rows, top 64 of them; skewed, page share 0.238, "
                           "recency 1, layer spread 0.4");
    kvt_law_score.describe(data, text, 8);
    ck_assert_str_eq(text, "scores ");
    kvt_law_score.free(data);
}
END_TEST

/* Rows that two streams of one request both select at one token, of those that each does. */
static double shared_rows(const struct law_setting *setting, uint32_t one, uint32_t other)
{
    enum {
        ROWS = 20000,
        TOP_K = 400
    };
    static uint32_t rows[2][TOP_K];
    void *data = law_prepared(&kvt_law_score, setting);
    for (size_t i = 0; i < 2; i++) {
        struct kvt_law_stream_env env = law_stream_env(4, i == 0 ? one : other, ROWS, ROWS + 40);
        void *stream = law_stream_new(&kvt_law_score, data, &env);
        for (uint32_t t = 0; t < 40; t++)
            (void)law_select_one(&kvt_law_score, data, stream, ROWS + t, rows[i]);
        free(stream);
    }
    kvt_law_score.free(data);
    uint32_t shared = 0;
    for (uint32_t i = 0; i < TOP_K; i++)
        shared += law_rows_contain(rows[1], TOP_K, rows[0][i]);
    return (double)shared / TOP_K;
}

START_TEST(streams_share_rows_by_their_kinship)
{
    /* Selectors 3 and 4 read store 3, in the group of stores 0 to 3; store 4 begins another. */
    static const uint32_t stores[] = {0, 1, 2, 3, 3, 4, 5};
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_score, 400);
    setting.env.stream_count = 7;
    setting.env.stream_store = stores;
    ck_assert_double_lt(shared_rows(&setting, 0, 1), .05);
    double one_store = shared_rows(&setting, 3, 4);
    ck_assert_double_ge(one_store, .2); /* two normal scores correlated by .635, at the top 2 % */
    ck_assert_double_le(one_store, .4);

    law_setting_set(&setting, &kvt_law_score, "store_share", .8);
    double neighbours = shared_rows(&setting, 1, 2);
    one_store = shared_rows(&setting, 3, 4);
    ck_assert_double_ge(neighbours, .35);
    ck_assert_double_eq_tol(one_store, neighbours, .08); /* at least as much: here the same */
    ck_assert_double_eq_tol(shared_rows(&setting, 2, 3), neighbours, .08);
    ck_assert_double_lt(shared_rows(&setting, 4, 5), .05);
    ck_assert_double_eq_tol(shared_rows(&setting, 5, 6), neighbours, .08);
}
END_TEST

START_TEST(sinks_are_always_selected_and_new_rows_more_often)
{
    enum {
        ROWS = 8192,
        TOP_K = 160
    };
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_score, TOP_K);
    law_setting_set(&setting, &kvt_law_score, "recency", 1);
    law_setting_set(&setting, &kvt_law_score, "sink_rows", 5);
    void *data = law_prepared(&kvt_law_score, &setting);
    uint32_t newest = 0, oldest = 0;
    for (uint32_t request = 0; request < 20; request++) {
        struct kvt_law_stream_env env = law_stream_env(request, 0, ROWS, ROWS);
        void *stream = law_stream_new(&kvt_law_score, data, &env);
        uint32_t rows[TOP_K];
        (void)law_select_one(&kvt_law_score, data, stream, ROWS, rows);
        for (uint32_t i = 0; i < 5; i++)
            ck_assert_uint_eq(rows[i], i);
        for (uint32_t i = 5; i < TOP_K; i++) {
            newest += rows[i] >= ROWS - 512;
            oldest += rows[i] < 512;
        }
        free(stream);
    }
    kvt_law_score.free(data);
    ck_assert_uint_gt(newest, 3 * oldest);
}
END_TEST

/* ---- Top k ---------------------------------------------------------------------------- */

/* Scores drawn from `values`, so that most of them are tied. */
static void check_top_k(const float *values, size_t value_count, uint32_t count, uint32_t top_k,
                        float least, struct kvt_rng *rng)
{
    static float scores[8192 + SCORE_BLOCK_ROWS];
    static uint32_t rows[2 * 8192], images[2 * 8192];
    static uint64_t set[8192 / 64];
    size_t room = score_candidate_count(top_k);
    ck_assert_uint_lt(room, sizeof rows / sizeof rows[0]);
    rows[room] = images[room] = 0xcafe;
    uint32_t reaching = 0;
    for (uint32_t i = 0; i < count; i++) {
        scores[i] = values[kvt_rng_below(rng, value_count)];
        reaching += scores[i] >= least;
    }
    struct score_candidates candidates = {.rows = rows,
                                          .images = images,
                                          .top_k = top_k,
                                          .least = reaching < top_k ? -INFINITY : least};
    for (uint32_t first = 0; first < count; first += SCORE_BLOCK_ROWS) {
        uint64_t reached[SCORE_BLOCK_ROWS / 64] = {0};
        for (uint32_t i = first; i < count && i < first + SCORE_BLOCK_ROWS; i++)
            reached[(i - first) / 64] |= (uint64_t)(scores[i] >= candidates.least) << i % 64;
        score_candidates_add(&candidates, scores + first, first, reached);
    }
    memset(set, 0, sizeof set);
    float worst = score_candidates_select(&candidates, candidates.top_k, set);
    ck_assert_uint_eq(rows[room], 0xcafe);
    ck_assert_uint_eq(images[room], 0xcafe);
    uint32_t wrong = 0, worse = 0;
    for (uint32_t i = 0; i < count; i++) {
        wrong += kvt_row_is_in(set, i) != is_selected(scores, count, top_k, i);
        worse += kvt_row_is_in(set, i) && scores[i] < worst;
    }
    ck_assert_uint_eq(wrong + worse, 0);
}

START_TEST(top_k_is_exact_whatever_the_ties_and_the_bar)
{
    static const float few[] = {-1.5F, -0.0F, 0.0F, 2.385F};
    static const float one[] = {0.25F};
    static const float close[] = {1.0F, 1.0000001F, 1.0000002F, 1.0000004F, 0.9999999F};
    static const float wide[] = {-INFINITY, -3e38F, -1e-45F, 1e-45F, 1e-38F, 7.0F, 3e38F, INFINITY};
    static const float negative[] = {-1.0F, -2.0F, -3.0F, -1.0000001F};
    static const struct {
        const float *values;
        size_t count;
    } kinds[] = {{few, 4}, {one, 1}, {close, 5}, {wide, 8}, {negative, 4}};
    static const float bars[] = {-INFINITY, -2.0F, 0.0F, 1.0F, 2.385F};
    static const uint32_t sizes[][2] = {{2, 1},     {100, 99},  {255, 10}, {256, 255},
                                        {257, 256}, {600, 150}, {900, 1},  {1500, 700}};
    struct kvt_rng rng = kvt_rng_stream(1, KVT_RNG_TEST, 0);
    for (size_t v = 0; v < sizeof kinds / sizeof kinds[0]; v++) {
        for (size_t b = 0; b < sizeof bars / sizeof bars[0]; b++) {
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
                check_top_k(kinds[v].values, kinds[v].count, sizes[s][0], sizes[s][1], bars[b],
                            &rng);
        }
    }
}
END_TEST

/* More rows reach the bar than there is room for. */
START_TEST(top_k_is_exact_when_its_candidates_run_over)
{
    static const float values[] = {0.5F, 1.0F, 1.5F};
    static float many[1000];
    for (size_t i = 0; i < 1000; i++)
        many[i] = (float)i * (float)i;
    struct kvt_rng rng = kvt_rng_stream(2, KVT_RNG_TEST, 0);
    for (uint32_t count = 1000; count < 1040; count++)
        check_top_k(values, 3, count, 3, 0.0F, &rng);
    check_top_k(values, 3, 8000, 5, 0.0F, &rng);
    check_top_k(many, 1000, 8000, 300, 0.0F, &rng);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("score");
    TCase *process = tcase_create("process");
    tcase_set_timeout(process, 60);
    tcase_add_loop_test(process, a_loop_ends_where_it_began_and_is_stationary, 0, 2);
    tcase_add_loop_test(process, score_selects_what_its_definition_says, 0,
                        (int)(sizeof definitions / sizeof definitions[0]));
    tcase_add_test(process, shares_are_of_one_variance_whatever_they_are);
    tcase_add_test(process, a_preset_fills_what_is_left_to_it_and_nothing_else);
    tcase_add_test(process, the_description_says_what_is_in_force);
    tcase_add_test(process, streams_share_rows_by_their_kinship);
    tcase_add_test(process, sinks_are_always_selected_and_new_rows_more_often);
    suite_add_tcase(suite, process);

    TCase *top_k = tcase_create("top k");
    tcase_set_timeout(top_k, 60);
    tcase_add_test(top_k, top_k_is_exact_whatever_the_ties_and_the_bar);
    tcase_add_test(top_k, top_k_is_exact_when_its_candidates_run_over);
    suite_add_tcase(suite, top_k);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
