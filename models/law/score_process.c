/* score_process.c -- scores that drift, row by row, and the top-k of them at each token.
 *
 *     score_i(t) = sqrt(f0) a_i + sqrt(f1) x_i(t) + sqrt(f2) y_i(t) + sqrt(fn) e_i(t)
 *
 * a is drawn once; x and y are stationary Ornstein-Uhlenbeck processes sampled
 * at every token, x(t) = r x(t-1) + sqrt(1 - r^2) g with r = exp(-1/tau); e is
 * white; fn = 1 - f0 - f1 - f2.
 *
 * What rows and streams have in common is in the draws: each g, and each e and a, is a
 * weighted sum of draws from the stream's own key and from keys that it shares, by row
 * and by page. All that is linear from there on, so that scores are correlated by just
 * those weights at any time, and a row has no more state for it. */
#include "score_process.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "kvt/hash.h"
#include "score_kernel.h"
#include "score_mass.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15) /* splitmix64's increment */

enum {
    BLOCK_ROWS = SCORE_BLOCK_ROWS,
    GROUP_STORES = 4, /* neighbours that draw from one key */
    RECENCY_HALF_LIFE_TOKENS = 1024
};

/* What a key is drawn for: links of its chain. */
enum {
    LINK_STREAM = 1,
    LINK_STORE,
    LINK_GROUP,
    LINK_PAGES,
    LINK_WORD
};

kvt_status score_check_top_k(uint32_t top_k, const char *where, struct kvt_error *err)
{
    if (top_k < 1 || top_k > SCORE_ROWS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "a query that selects %u rows has no law; 1 to %u are expected", top_k,
                        SCORE_ROWS_MAX);
    return KVT_OK;
}

kvt_status score_check_rows(uint32_t context_rows, uint32_t rows_max, const char *where,
                            struct kvt_error *err)
{
    if (context_rows > rows_max || rows_max > SCORE_ROWS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "a history cannot go from %u rows to at most %u; the second is expected "
                        "not to be smaller, nor larger than %u",
                        context_rows, rows_max, SCORE_ROWS_MAX);
    return KVT_OK;
}

/* ---- Kin --------------------------------------------------------------------------- */

static uint32_t store_of(const struct score_model *model, uint32_t selector)
{
    return model->stream_store != NULL ? model->stream_store[selector] : selector;
}

static uint64_t key_of(uint64_t base, uint64_t link, uint64_t number)
{
    return kvt_chain64(kvt_chain64(base, link), number);
}

uint32_t score_group_of(const struct score_model *model, uint32_t selector)
{
    return store_of(model, selector) / GROUP_STORES;
}

uint32_t score_place_of(const struct score_model *model, uint32_t selector)
{
    return store_of(model, selector) % GROUP_STORES;
}

struct score_kin score_kin_of(const struct score_model *model, uint64_t entity, uint32_t selector,
                              uint32_t tokens_per_row)
{
    assert(model->stream_count >= 1 && selector < model->stream_count);
    struct kvt_rng rng = kvt_rng_stream(model->run_seed, KVT_RNG_SELECTION, entity);
    uint64_t base = kvt_rng_u64(&rng);
    uint32_t store = store_of(model, selector);
    uint32_t readers = 0;
    for (uint32_t s = 0; s < model->stream_count; s++)
        readers += store_of(model, s) == store;
    uint64_t group = key_of(base, LINK_GROUP, score_group_of(model, selector));
    return (struct score_kin){
        .keys = {[SCORE_SOURCE_OWN] = key_of(base, LINK_STREAM, selector),
                 [SCORE_SOURCE_STORE] = key_of(base, LINK_STORE, store),
                 [SCORE_SOURCE_GROUP] = kvt_chain64(group, tokens_per_row)},
        .band = (uint32_t)((uint64_t)selector * SCORE_BANDS / model->stream_count),
        .is_alone = readers <= 1,
    };
}

/* ---- A stream's memory ---------------------------------------------------------------- */

struct parts {
    float *fixed, *slow, *fast;   /* [padded rows] */
    float *slow_home, *fast_home; /* the same, of a loop */
    uint32_t *rows, *images;      /* [score_candidate_count()] of the candidates */
};

static size_t padded_rows(const struct score_extent *extent)
{
    return ((size_t)extent->rows_max + BLOCK_ROWS - 1) / BLOCK_ROWS * BLOCK_ROWS;
}

static struct parts parts_of(struct score_stream *stream)
{
    size_t rows = padded_rows(&stream->extent);
    bool is_loop = stream->extent.loop_tokens > 0;
    uint32_t *candidates = (uint32_t *)(void *)(stream->values + (is_loop ? 5 : 3) * rows);
    return (struct parts){
        .slow = stream->values,
        .fast = stream->values + rows,
        .fixed = stream->values + 2 * rows,
        .slow_home = is_loop ? stream->values + 3 * rows : NULL,
        .fast_home = is_loop ? stream->values + 4 * rows : NULL,
        .rows = candidates,
        .images = candidates + score_candidate_count(stream->extent.top_k),
    };
}

size_t score_stream_bytes(const struct score_extent *extent)
{
    size_t parts = extent->loop_tokens > 0 ? 5 : 3;
    size_t bytes = sizeof(struct score_stream) + parts * padded_rows(extent) * sizeof(float) +
                   2 * score_candidate_count(extent->top_k) * sizeof(uint32_t);
    return (bytes + 7) / 8 * 8;
}

/* Rows of a page of KVT_PAGE_ROWS tokens, as a power of two that a block is made of. */
static uint32_t rows_per_page(const struct score_extent *extent)
{
    uint32_t rows = KVT_PAGE_ROWS;
    while (rows > SCORE_RUN_ROWS && (uint64_t)rows * extent->tokens_per_row > KVT_PAGE_ROWS)
        rows /= 2;
    return rows;
}

/* ---- The first token -------------------------------------------------------------------- */

/* Adds weight times a normal draw for each part of each of `count` numbers; every number
 * stands for so many rows. */
static void add_start(const struct parts *parts, const float *gauss, uint64_t key, float weight,
                      size_t rows, size_t rows_a_draw)
{
    for (size_t first = 0; first < rows; first += rows_a_draw) {
        uint64_t word = kvt_mix64(key + (first / rows_a_draw + 1) * GOLDEN);
        for (size_t i = first; i < first + rows_a_draw; i++) {
            parts->fixed[i] += weight * gauss[word & 0xffff];
            parts->slow[i] += weight * gauss[word >> 16 & 0xffff];
            parts->fast[i] += weight * gauss[word >> 32 & 0xffff];
        }
    }
}

static const float *source_weights(const struct score_stream *stream,
                                   const struct score_shape *shape)
{
    return stream->kin.is_alone ? shape->source_weight_alone : shape->source_weight;
}

void score_stream_init(struct score_stream *stream, const struct score_shape *shape,
                       const float *gauss, const struct score_kin *kin,
                       const struct score_extent *extent)
{
    *stream = (struct score_stream){.kin = *kin, .extent = *extent};
    if (stream->extent.tokens_per_row == 0)
        stream->extent.tokens_per_row = 1;
    struct parts parts = parts_of(stream);
    size_t rows = padded_rows(extent);
    memset(stream->values, 0, 3 * rows * sizeof(float));
    const float *weights = source_weights(stream, shape);
    for (size_t s = 0; s < SCORE_SOURCES; s++) {
        stream->fixed_key = kvt_chain64(stream->fixed_key, kin->keys[s]);
        uint64_t start = kvt_chain64(kin->keys[s], 0);
        if (weights[s] * shape->row_weight > 0)
            add_start(&parts, gauss, start, weights[s] * shape->row_weight, rows, 1);
        if (weights[s] * shape->page_weight > 0)
            add_start(&parts, gauss, kvt_chain64(start, LINK_PAGES),
                      weights[s] * shape->page_weight, rows, rows_per_page(&stream->extent));
    }
    if (parts.slow_home != NULL) {
        memcpy(parts.slow_home, parts.slow, rows * sizeof(float));
        memcpy(parts.fast_home, parts.fast, rows * sizeof(float));
    }
}

/* ---- The way home -----------------------------------------------------------------------
 *
 * A process x(t + 1) = r x(t) + s g that is to be at h after n more tokens moves by its law
 * given that, which is normal too:
 *
 *     mean      (r - p r^n) x + p h,  p = r^(n-1) (1 - r^2) / (1 - r^2n)
 *     variance  (1 - r^2) (1 - r^2(n-1)) / (1 - r^2n)
 *
 * With h = x(0) this is the stationary process on a circle of N tokens, whose variance is
 * (1 + r^N) / (1 - r^N) that of the open one; its kicks are made smaller by the root of that.
 * While r^n is below a thousandth, home is too far to be felt. */

static double power_of(double base, uint64_t exponent)
{
    double power = 1;
    for (; exponent > 0; exponent /= 2) {
        if (exponent % 2 != 0)
            power *= base;
        base *= base;
    }
    return power;
}

/* One token's keep and kick, `left` tokens before home; returns the pull. */
static float lead_home(float *keep, float *kick, uint64_t loop_tokens, uint64_t left)
{
    static const double felt = 1e-3;
    double r = (double)*keep;
    double round = power_of(r, loop_tokens), far = power_of(r, left);
    double circle = (1 - round) / (1 + round);
    double scale = circle, pull = 0;
    if (far >= felt) {
        double near = power_of(r, left - 1);
        pull = near * (1 - r * r) / (1 - far * far);
        scale *= (1 - near * near) / (1 - far * far);
    }
    *keep = (float)(r - pull * far);
    *kick *= (float)sqrt(scale);
    return (float)pull;
}

/* ---- One token -------------------------------------------------------------------------- */

/* The sum of two uniform draws of N values has the variance (N^2 - 1) / 6. Over its deviation,
 * straight d + bend d^3 has unit variance and the fourth moment 3. */
static const float byte_pair_deviation = 104.510765F;
static const float half_pair_deviation = 26754.96F;
static const float pair_straight = 0.84328668F, pair_bend = 0.063645294F;

static struct score_draws draws_of(uint64_t key, float weight, const struct score_drift *drift)
{
    float fast = weight * drift->fast_kick / byte_pair_deviation;
    float white = weight * drift->white_weight / half_pair_deviation;
    return (struct score_draws){
        .key = {(uint32_t)key, (uint32_t)(key >> 32), (uint32_t)kvt_chain64(key, LINK_WORD)},
        .slow_unit = weight * drift->slow_kick / byte_pair_deviation,
        .fast_unit = fast * pair_straight,
        .fast_bend = fast * pair_bend / (byte_pair_deviation * byte_pair_deviation),
        .white_unit = white * pair_straight,
        .white_bend = white * pair_bend / (half_pair_deviation * half_pair_deviation),
    };
}

static void step_of(const struct score_stream *stream, const struct score_shape *shape,
                    uint32_t visible_rows, struct score_step *step)
{
    struct score_drift drift = shape->bands[stream->kin.band];
    uint64_t loop = stream->extent.loop_tokens;
    float slow_pull = 0, fast_pull = 0;
    if (loop > 0) {
        assert(stream->token <= loop);
        uint64_t left = loop - stream->token + 1;
        slow_pull = lead_home(&drift.slow_keep, &drift.slow_kick, loop, left);
        fast_pull = lead_home(&drift.fast_keep, &drift.fast_kick, loop, left);
    }
    const float *weights = source_weights(stream, shape);
    *step = (struct score_step){
        .drift = drift,
        .is_bound = slow_pull > 0 || fast_pull > 0,
        .slow_pull = slow_pull,
        .fast_pull = fast_pull,
        .rows_per_page = rows_per_page(&stream->extent),
        .recency = shape->recency,
        .age_unit = (float)stream->extent.tokens_per_row / (float)RECENCY_HALF_LIFE_TOKENS,
        .newest_row = visible_rows - 1,
    };
    for (size_t s = 0; s < SCORE_SOURCES; s++) {
        uint64_t key = kvt_chain64(stream->kin.keys[s], stream->token);
        float row_weight = weights[s] * shape->row_weight;
        float page_weight = weights[s] * shape->page_weight;
        if (row_weight > 0)
            step->rows[step->row_sources++] = draws_of(key, row_weight, &drift);
        if (page_weight > 0)
            step->pages[step->page_sources++] =
                draws_of(kvt_chain64(key, LINK_PAGES), page_weight, &drift);
    }
}

/* Scores all visible rows and keeps those that may be among the best; candidates NULL: only
 * moves on; mass not NULL: counts what all of them score, sinks too. Rows of the last block that
 * are not visible yet drift unseen, which changes nothing about the law they appear with. */
static void score_rows(const struct score_step *step, const struct parts *parts,
                       uint32_t visible_rows, uint32_t sink_rows,
                       struct score_candidates *candidates, struct score_mass *mass)
{
    const struct score_kernel *kernel = score_kernel_best();
    float score[BLOCK_ROWS];
    for (uint32_t row = 0; row < visible_rows; row += BLOCK_ROWS) {
        struct score_block block = {.fixed = parts->fixed + row,
                                    .slow = parts->slow + row,
                                    .fast = parts->fast + row,
                                    .first_row = row};
        if (step->is_bound) {
            block.slow_home = parts->slow_home + row;
            block.fast_home = parts->fast_home + row;
        }
        kernel->advance(step, &block, score);
        if (candidates == NULL)
            continue;
        uint32_t rows = visible_rows - row < BLOCK_ROWS ? visible_rows - row : BLOCK_ROWS;
        if (mass != NULL)
            score_mass_add(mass, score, rows);
        for (uint32_t i = row; i < sink_rows && i < row + BLOCK_ROWS; i++)
            score[i - row] = INFINITY;
        for (uint32_t i = visible_rows; i < row + BLOCK_ROWS; i++)
            score[i - row] = -INFINITY;
        uint64_t reached[BLOCK_ROWS / 64];
        kernel->mark(score, candidates->least, reached);
        score_candidates_add(candidates, score, row, reached);
    }
}

static void select_all(uint32_t visible_rows, uint64_t *set)
{
    size_t words = kvt_row_words(visible_rows);
    memset(set, 0xff, words * sizeof *set);
    if (visible_rows % 64 != 0)
        set[words - 1] = (UINT64_C(1) << visible_rows % 64) - 1;
}

/* Candidates for the `most` best rows; mass NULL: nobody asks for it. */
static void find_candidates(const struct score_stream *stream, const struct score_shape *shape,
                            uint32_t visible_rows, uint32_t most, struct parts *parts,
                            struct score_candidates *candidates, struct score_mass *mass)
{
    struct score_step step;

    step_of(stream, shape, visible_rows, &step);
    score_rows(&step, parts, visible_rows, shape->sink_rows, candidates, mass);
    if (candidates->count >= most)
        return;
    step.is_settled = true;
    candidates->count = 0;
    candidates->least = -FLT_MAX;
    score_rows(&step, parts, visible_rows, shape->sink_rows, candidates, NULL);
}

/* Rows of a budget's set, of at most so many. */
static uint32_t rows_of(const struct score_budget *budget, const struct score_mass *mass,
                        uint32_t sink_rows, uint32_t most)
{
    uint32_t rows = score_mass_rows(mass, budget->share, budget->fall);

    rows = rows > budget->rows_min ? rows : budget->rows_min;
    rows = rows > sink_rows ? rows : sink_rows;
    return rows < most ? rows : most;
}

void score_stream_select(struct score_stream *stream, const struct score_shape *shape,
                         const struct score_budget *budget, uint32_t visible_rows, uint64_t *set)
{
    /* The scores have unit variance, and the k-th moves by hundredths a token. */
    static const float margin = 0.08F;
    uint32_t top_k = stream->extent.top_k, most = visible_rows < top_k ? visible_rows : top_k;
    struct parts parts = parts_of(stream);

    assert(visible_rows <= stream->extent.rows_max);
    stream->token++;
    if (visible_rows <= top_k && budget == NULL) {
        if (set != NULL)
            select_all(visible_rows, set);
        return;
    }
    if (set == NULL) {
        struct score_step step;
        step_of(stream, shape, visible_rows, &step);
        score_rows(&step, &parts, visible_rows, 0, NULL, NULL);
        return;
    }
    struct score_candidates candidates = {
        .rows = parts.rows, .images = parts.images, .top_k = top_k, .least = stream->guess};
    memset(set, 0, kvt_row_words(visible_rows) * sizeof *set);
    if (budget == NULL) {
        find_candidates(stream, shape, visible_rows, most, &parts, &candidates, NULL);
        stream->guess = score_candidates_select(&candidates, most, set) - margin;
        return;
    }
    struct score_mass mass = {{0}};
    find_candidates(stream, shape, visible_rows, most, &parts, &candidates, &mass);
    stream->guess = score_candidates_worst(&candidates, most) - margin;
    (void)score_candidates_select(&candidates, rows_of(budget, &mass, shape->sink_rows, most), set);
}

static float largest_of(const float *scores, uint32_t count)
{
    float largest = scores[0];
    for (uint32_t i = 1; i < count; i++)
        largest = scores[i] > largest ? scores[i] : largest;
    return largest;
}

/* A block holds whole pages. */
void score_stream_pages(struct score_stream *stream, const struct score_shape *shape,
                        uint32_t visible_rows, uint32_t rows_per_page, float *scores)
{
    const struct score_kernel *kernel = score_kernel_best();
    struct parts parts = parts_of(stream);
    struct score_step step;
    float score[BLOCK_ROWS];

    step_of(stream, shape, visible_rows, &step);
    step.is_settled = true;
    for (uint32_t row = 0; row < visible_rows; row += BLOCK_ROWS) {
        struct score_block block = {.fixed = parts.fixed + row,
                                    .slow = parts.slow + row,
                                    .fast = parts.fast + row,
                                    .first_row = row};
        kernel->advance(&step, &block, score);
        for (uint32_t i = row; i < shape->sink_rows && i < row + BLOCK_ROWS; i++)
            score[i - row] = FLT_MAX;
        uint32_t rows = visible_rows - row < BLOCK_ROWS ? visible_rows - row : BLOCK_ROWS;
        for (uint32_t first = 0; first < rows; first += rows_per_page)
            *scores++ = largest_of(score + first,
                                   rows - first < rows_per_page ? rows - first : rows_per_page);
    }
}

void score_stream_fork(const struct score_stream *stream, uint32_t path, struct score_stream *side)
{
    assert(path >= 1);
    size_t rows = padded_rows(&stream->extent);
    bool has_fixed = side->fixed_key == stream->fixed_key && padded_rows(&side->extent) == rows;
    memcpy(side->values, stream->values, (has_fixed ? 2 : 3) * rows * sizeof(float));
    *side = *stream; /* all but the values */
    side->extent.loop_tokens = 0;
    for (size_t s = 0; s < SCORE_SOURCES; s++)
        side->kin.keys[s] = key_of(stream->kin.keys[s], stream->token, path);
}
