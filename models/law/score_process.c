/* score_process.c -- scores that drift, row by row, and the exact top-k of them.
 *
 *     score_i(t) = sqrt(f0) a_i + sqrt(f1) x_i(t) + sqrt(f2) y_i(t) + sqrt(fn) e_i(t)
 *
 * a is drawn once; x and y are stationary Ornstein-Uhlenbeck processes sampled
 * at every token, x(t) = r x(t-1) + sqrt(1 - r^2) g with r = exp(-1/tau); e is
 * white; fn = 1 - f0 - f1 - f2. A row's three normal draws of a step are three
 * 16-bit pieces of one splitmix64 word that depends on (key, step, row) only.
 *
 * The same bits come out on every x86-64: products and sums are IEEE single
 * precision in one stated order (the build never contracts them), whatever the
 * width of the registers they are done in, and what libm computes is rounded
 * coarsely before use. */
#include "score_process.h"

#include <assert.h>
#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15) /* splitmix64's increment */

/* Rows done at a time: their draws stay in the L1 cache, and loops of a known
 * length are what -O2 vectorises. */
enum {
    BLOCK_ROWS = 256
};

static double rounded(double value, double steps_per_unit)
{
    return rint(value * steps_per_unit) / steps_per_unit;
}

kvt_status score_shape_init(struct score_shape *shape, const struct kvt_params *params,
                            const char *where, struct kvt_error *err)
{
    assert(params->count >= SCORE_PARAM_COUNT);
    double f0 = params->values[SCORE_PARAM_F0].number;
    double f1 = params->values[SCORE_PARAM_F1].number;
    double f2 = params->values[SCORE_PARAM_F2].number;
    double white = 1.0 - f0 - f1 - f2;
    /* Decimal shares that make up 1 may come to a little more in binary. */
    if (white < -1e-9)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "f0, f1 and f2 are shares of one variance and come to %.6g; at most 1 is "
                        "expected",
                        f0 + f1 + f2);

    double slow_keep = rounded(exp(-1.0 / params->values[SCORE_PARAM_TAU1].number), 0x1p22);
    double fast_keep = rounded(exp(-1.0 / params->values[SCORE_PARAM_TAU2].number), 0x1p22);
    *shape = (struct score_shape){
        .static_weight = (float)sqrt(f0),
        .slow_weight = (float)sqrt(f1),
        .fast_weight = (float)sqrt(f2),
        .white_weight = (float)sqrt(fmax(white, 0.0)),
        .slow_keep = (float)slow_keep,
        .slow_kick = (float)sqrt(1.0 - slow_keep * slow_keep),
        .fast_keep = (float)fast_keep,
        .fast_kick = (float)sqrt(1.0 - fast_keep * fast_keep),
    };
    return KVT_OK;
}

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

struct kvt_rng score_stream_rng(uint64_t run_seed, const struct kvt_law_stream_env *env)
{
    return kvt_rng_stream(run_seed, KVT_RNG_SELECTION,
                          (uint64_t)env->request * KVT_SELECTORS_MAX + env->selector);
}

float *score_gauss_new(void)
{
    float *gauss = malloc(SCORE_GAUSS_COUNT * sizeof *gauss);
    if (gauss == NULL)
        return NULL;
    for (size_t i = SCORE_GAUSS_COUNT / 2; i < SCORE_GAUSS_COUNT; i++) {
        double quantile = gsl_cdf_ugaussian_Pinv(((double)i + 0.5) / SCORE_GAUSS_COUNT);
        gauss[i] = (float)rounded(quantile, 0x1p18);
        gauss[SCORE_GAUSS_COUNT - 1 - i] = -gauss[i];
    }
    return gauss;
}

/* ---- One step of the process ----------------------------------------------- */

/* The parts of a stream's memory. */
struct parts {
    float *fixed, *slow, *fast, *score; /* [padded rows] */
    uint32_t *candidates;
};

static size_t padded_rows(uint32_t rows_max)
{
    return ((size_t)rows_max + BLOCK_ROWS - 1) / BLOCK_ROWS * BLOCK_ROWS;
}

static struct parts parts_of(struct score_stream *stream)
{
    size_t rows = padded_rows(stream->rows_max);
    return (struct parts){
        .fixed = stream->values,
        .slow = stream->values + rows,
        .fast = stream->values + 2 * rows,
        .score = stream->values + 3 * rows,
        .candidates = (uint32_t *)(void *)(stream->values + 4 * rows),
    };
}

size_t score_stream_bytes(uint32_t rows_max, uint32_t top_k)
{
    return sizeof(struct score_stream) + 4 * padded_rows(rows_max) * sizeof(float) +
           score_candidate_count(top_k) * sizeof(uint32_t);
}

void score_stream_init(struct score_stream *stream, const float *gauss, uint64_t key,
                       uint32_t rows_max, uint32_t top_k)
{
    stream->key = key;
    stream->step = 0;
    stream->rows_max = rows_max;
    stream->top_k = top_k;
    stream->guess = 0.0F;
    struct parts parts = parts_of(stream);
    uint64_t start_key = kvt_chain64(key, 0);
    for (size_t i = 0; i < padded_rows(rows_max); i++) {
        uint64_t word = kvt_mix64(start_key + (i + 1) * GOLDEN);
        parts.fixed[i] = gauss[word & 0xffff];
        parts.slow[i] = gauss[(word >> 16) & 0xffff];
        parts.fast[i] = gauss[(word >> 32) & 0xffff];
    }
}

/* The draws of one block of rows. */
struct draws {
    float slow[BLOCK_ROWS], fast[BLOCK_ROWS], white[BLOCK_ROWS];
};

static void draw_block(const float *gauss, uint64_t step_key, size_t first, struct draws *draws)
{
    uint64_t word = step_key + (first + 1) * GOLDEN;
    for (size_t i = 0; i < BLOCK_ROWS; i++, word += GOLDEN) {
        uint64_t bits = kvt_mix64(word);
        draws->slow[i] = gauss[bits & 0xffff];
        draws->fast[i] = gauss[(bits >> 16) & 0xffff];
        draws->white[i] = gauss[(bits >> 32) & 0xffff];
    }
}

static void score_block(const struct score_shape *shape, const struct draws *restrict draws,
                        const float *restrict fixed, float *restrict slow, float *restrict fast,
                        float *restrict score)
{
    const struct score_shape s = *shape;
    for (size_t i = 0; i < BLOCK_ROWS; i++) {
        float x = s.slow_keep * slow[i] + s.slow_kick * draws->slow[i];
        float y = s.fast_keep * fast[i] + s.fast_kick * draws->fast[i];
        slow[i] = x;
        fast[i] = y;
        score[i] = ((s.static_weight * fixed[i] + s.slow_weight * x) + s.fast_weight * y) +
                   s.white_weight * draws->white[i];
    }
}

/* Advances and scores whole blocks. Rows of the last one that are not visible
 * yet drift unseen, which changes nothing about the law they appear with. */
static void advance(const struct score_shape *shape, const float *gauss, uint64_t step_key,
                    const struct parts *parts, size_t rows)
{
    struct draws draws;
    for (size_t row = 0; row < rows; row += BLOCK_ROWS) {
        draw_block(gauss, step_key, row, &draws);
        score_block(shape, &draws, parts->fixed + row, parts->slow + row, parts->fast + row,
                    parts->score + row);
    }
}

uint32_t score_stream_select(struct score_stream *stream, const struct score_shape *shape,
                             const float *gauss, uint32_t visible_rows, uint32_t *rows)
{
    assert(visible_rows <= stream->rows_max);
    if (visible_rows <= stream->top_k) {
        for (uint32_t i = 0; i < visible_rows; i++)
            rows[i] = i;
        return visible_rows;
    }
    struct parts parts = parts_of(stream);
    stream->step++;
    advance(shape, gauss, kvt_chain64(stream->key, stream->step), &parts, visible_rows);
    score_top_k(parts.score, visible_rows, stream->top_k, &stream->guess, parts.candidates, rows);
    return stream->top_k;
}

/* ---- Exact top-k ------------------------------------------------------------
 *
 *     collect the rows whose score reaches the guess; too few or too many of
 *     them: take all rows instead
 *     find the k-th largest score by three histograms over an integer image of
 *     the scores, from its high bits to its low ones
 *     write the rows above it, and of those equal to it the first that are due */

enum {
    DIGIT_BITS = 11,
    DIGIT_COUNT = 1 << DIGIT_BITS
};

/* Orders as the floats do, with -0 = +0. */
static inline uint32_t ordered_image(float score)
{
    float positive_zero = score + 0.0F;
    uint32_t bits;
    memcpy(&bits, &positive_zero, sizeof bits);
    return bits ^ ((bits >> 31) != 0 ? UINT32_MAX : UINT32_C(1) << 31);
}

/* Of the rows (those listed, or 0..count-1 where the list is NULL) the image of
 * the k-th largest score; *ties_due is how many rows of just that score belong
 * to the top k. */
static uint32_t kth_image(const float *scores, const uint32_t *listed, uint32_t count, uint32_t k,
                          uint32_t *ties_due)
{
    uint32_t found = 0, due = k;
    for (int shift = 32; shift > 0;) {
        int bits = shift < DIGIT_BITS ? shift : DIGIT_BITS;
        uint64_t settled = shift == 32 ? 0 : (uint64_t)found >> shift;
        uint32_t histogram[DIGIT_COUNT] = {0};
        for (uint32_t i = 0; i < count; i++) {
            uint32_t image = ordered_image(scores[listed != NULL ? listed[i] : i]);
            if ((uint64_t)image >> shift == settled)
                histogram[(image >> (shift - bits)) & ((1U << bits) - 1)]++;
        }
        uint32_t digit = (1U << bits) - 1;
        while (histogram[digit] < due)
            due -= histogram[digit--];
        shift -= bits;
        found |= digit << shift;
    }
    *ties_due = due;
    return found;
}

static void write_selected(const float *scores, const uint32_t *listed, uint32_t count,
                           uint32_t threshold, uint32_t ties_due, uint32_t *rows)
{
    uint32_t written = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = listed != NULL ? listed[i] : i;
        uint32_t image = ordered_image(scores[row]);
        if (image < threshold)
            continue;
        if (image == threshold) {
            if (ties_due == 0)
                continue;
            ties_due--;
        }
        rows[written++] = row;
    }
}

/* Rows whose score reaches the guess, ascending; UINT32_MAX when they may not
 * fit. Written without a branch: one row in forty would mispredict it. */
static uint32_t collect(const float *scores, uint32_t count, float guess, uint32_t *candidates,
                        size_t capacity)
{
    uint32_t found = 0;
    for (uint32_t first = 0; first < count; first += BLOCK_ROWS) {
        uint32_t end = count - first < BLOCK_ROWS ? count : first + BLOCK_ROWS;
        if (found + (end - first) > capacity)
            return UINT32_MAX;
        for (uint32_t i = first; i < end; i++) {
            candidates[found] = i;
            found += scores[i] >= guess;
        }
    }
    return found;
}

void score_top_k(const float *scores, uint32_t count, uint32_t top_k, float *guess,
                 uint32_t *candidates, uint32_t *rows)
{
    /* The scores have unit variance, and the k-th moves by hundredths a step. */
    static const float margin = 0.08F;

    const uint32_t *listed = candidates;
    uint32_t listed_count =
        collect(scores, count, *guess, candidates, score_candidate_count(top_k));
    if (listed_count < top_k || listed_count == UINT32_MAX) {
        listed = NULL;
        listed_count = count;
    }
    uint32_t ties_due;
    uint32_t threshold = kth_image(scores, listed, listed_count, top_k, &ties_due);
    write_selected(scores, listed, listed_count, threshold, ties_due, rows);

    float worst = scores[rows[0]];
    for (uint32_t i = 1; i < top_k; i++)
        worst = scores[rows[i]] < worst ? scores[rows[i]] : worst;
    *guess = worst - margin;
}
