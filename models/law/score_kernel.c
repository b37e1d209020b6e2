/* score_kernel.c -- one token of the score process for one block of rows.
 *
 *     for each source of chances
 *         a, b = two words of 32 bits that depend on (source, token, row)
 *         slow  += u ((a & 255) + (a >> 8 & 255) - 255)
 *         fast  += bent((a >> 16 & 255) + (a >> 24) - 255)
 *         white += bent((b & 65535) + (b >> 16) - 65535)
 *     the same for each page, added to its rows
 *     x = slow_keep x + slow;  y = fast_keep y + fast
 *     where the step leads home:  x += slow_pull x(0);  y += fast_pull y(0)
 *     score = static_weight a + slow_weight x + fast_weight y + white
 *
 * The words are a 32-bit hash of the row's number in the manner of C. Wellons's
 * "lowbias32" (github.com/skeeto/hash-prospector), with a key added before it and
 * another, for each word its own, in its middle. A draw is the sum of two uniform ones,
 * d, bent to d (u + v d^2), which has the variance and the fourth moment of a normal one;
 * slow ones, which x adds up by the dozen, are left straight.
 *
 * Sums and products are IEEE single precision in one stated order (the build never
 * contracts them), so that any register width gives the same bits. */
#include "score_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define GOLDEN UINT32_C(0x9e3779b9) /* 2^32 / golden ratio, odd */
#define INLINE static inline __attribute__((always_inline))

enum {
    ROWS = SCORE_BLOCK_ROWS,
    RUN_ROWS = SCORE_RUN_ROWS
};

/* ---- Draws --------------------------------------------------------------------------- */

struct words {
    uint32_t a, b;
};

/* place is a row's or page's number times GOLDEN. */
INLINE struct words words_of(const struct score_draws *draws, uint32_t place)
{
    uint32_t x = place + draws->key[0];
    x = (x ^ x >> 16) * UINT32_C(0x7feb352d);
    uint32_t a = x + draws->key[1];
    uint32_t b = x + draws->key[2];
    a = (a ^ a >> 15) * UINT32_C(0x846ca68b);
    b = (b ^ b >> 15) * UINT32_C(0xd35a2d97);
    return (struct words){.a = a ^ a >> 16, .b = b ^ b >> 16};
}

/* What a row receives at a token. */
struct kick {
    float slow, fast, white;
};

INLINE float bent(float draw, float unit, float bend)
{
    return draw * (unit + bend * (draw * draw));
}

INLINE struct kick kick_of(const struct score_draws *draws, uint32_t place)
{
    struct words w = words_of(draws, place);
    int32_t slow = (int32_t)((w.a & 0xff) + (w.a >> 8 & 0xff)) - 0xff;
    int32_t fast = (int32_t)((w.a >> 16 & 0xff) + (w.a >> 24)) - 0xff;
    int32_t white = (int32_t)((w.b & 0xffff) + (w.b >> 16)) - 0xffff;
    return (struct kick){.slow = draws->slow_unit * (float)slow,
                         .fast = bent((float)fast, draws->fast_unit, draws->fast_bend),
                         .white = bent((float)white, draws->white_unit, draws->white_bend)};
}

/* ---- One block ----------------------------------------------------------------------- */

INLINE float score_of(const struct score_drift *drift, float fixed, float slow, float fast,
                      float white)
{
    return ((drift->static_weight * fixed + drift->slow_weight * slow) +
            drift->fast_weight * fast) +
           white;
}

/* One source, and rows that have nothing in common: all in registers. is_bound is known where
 * this is expanded; without it nothing has a home. */
INLINE void advance_plain(const struct score_step *step, bool is_bound, uint32_t first_row,
                          const float *restrict fixed, float *restrict slow, float *restrict fast,
                          const float *restrict slow_home, const float *restrict fast_home,
                          float *restrict score)
{
    const struct score_drift drift = step->drift;
    const struct score_draws draws = step->rows[0];
    const float slow_pull = step->slow_pull, fast_pull = step->fast_pull;
    uint32_t place = first_row * GOLDEN;
    for (uint32_t i = 0; i < ROWS; i++, place += GOLDEN) {
        struct kick kick = kick_of(&draws, place);
        float x = drift.slow_keep * slow[i] + kick.slow;
        float y = drift.fast_keep * fast[i] + kick.fast;
        if (is_bound) {
            x += slow_pull * slow_home[i];
            y += fast_pull * fast_home[i];
        }
        slow[i] = x;
        fast[i] = y;
        score[i] = score_of(&drift, fixed[i], x, y, kick.white);
    }
}

struct kicks {
    float slow[ROWS], fast[ROWS], white[ROWS];
};

/* The first source finds nothing to add to; is_first is known where this is expanded. */
INLINE void add_rows(const struct score_draws *source, bool is_first, uint32_t first_row,
                     struct kicks *restrict kicks)
{
    const struct score_draws draws = *source;
    uint32_t place = first_row * GOLDEN;
    for (uint32_t i = 0; i < ROWS; i++, place += GOLDEN) {
        struct kick kick = kick_of(&draws, place);
        if (is_first)
            kicks->slow[i] = kicks->fast[i] = kicks->white[i] = 0.0F;
        kicks->slow[i] += kick.slow;
        kicks->fast[i] += kick.fast;
        kicks->white[i] += kick.white;
    }
}

INLINE void add_to_run(float *restrict run, float value)
{
    for (uint32_t i = 0; i < RUN_ROWS; i++)
        run[i] += value;
}

INLINE void add_pages(const struct score_step *step, uint32_t first_row,
                      struct kicks *restrict kicks)
{
    for (uint32_t first = 0; first < ROWS; first += step->rows_per_page) {
        uint32_t page = (first_row + first) / step->rows_per_page;
        struct kick sum = {.slow = 0.0F};
        for (uint32_t s = 0; s < step->page_sources; s++) {
            struct kick kick = kick_of(&step->pages[s], page * GOLDEN);
            sum.slow += kick.slow;
            sum.fast += kick.fast;
            sum.white += kick.white;
        }
        for (uint32_t run = first; run < first + step->rows_per_page; run += RUN_ROWS) {
            add_to_run(kicks->slow + run, sum.slow);
            add_to_run(kicks->fast + run, sum.fast);
            add_to_run(kicks->white + run, sum.white);
        }
    }
}

/* Half of it at an age of 1 / age_unit rows. */
INLINE void add_recency(const struct score_step *step, uint32_t first_row,
                        struct kicks *restrict kicks)
{
    const float recency = step->recency, age_unit = step->age_unit;
    const int32_t newest = (int32_t)step->newest_row - (int32_t)first_row;
    for (int32_t i = 0; i < ROWS; i++) {
        int32_t age = newest > i ? newest - i : 0; /* 0 of rows to come */
        kicks->white[i] += recency / (1.0F + age_unit * (float)age);
    }
}

INLINE void add_drift(const struct score_drift *of, const struct kicks *restrict kicks,
                      float *restrict slow, float *restrict fast)
{
    const struct score_drift drift = *of;
    for (uint32_t i = 0; i < ROWS; i++) {
        slow[i] = drift.slow_keep * slow[i] + kicks->slow[i];
        fast[i] = drift.fast_keep * fast[i] + kicks->fast[i];
    }
}

INLINE void add_pull(const struct score_step *step, const float *restrict slow_home,
                     const float *restrict fast_home, float *restrict slow, float *restrict fast)
{
    const float slow_pull = step->slow_pull, fast_pull = step->fast_pull;
    for (uint32_t i = 0; i < ROWS; i++) {
        slow[i] += slow_pull * slow_home[i];
        fast[i] += fast_pull * fast_home[i];
    }
}

INLINE void score_rows(const struct score_drift *of, const struct kicks *restrict kicks,
                       const float *restrict fixed, const float *restrict slow,
                       const float *restrict fast, float *restrict score)
{
    const struct score_drift drift = *of;
    for (uint32_t i = 0; i < ROWS; i++)
        score[i] = score_of(&drift, fixed[i], slow[i], fast[i], kicks->white[i]);
}

INLINE void advance(const struct score_step *step, const struct score_block *block,
                    float *restrict score)
{
    if (step->row_sources == 1 && step->page_sources == 0 && step->recency <= 0 &&
        !step->is_settled) {
        if (step->is_bound)
            advance_plain(step, true, block->first_row, block->fixed, block->slow, block->fast,
                          block->slow_home, block->fast_home, score);
        else
            advance_plain(step, false, block->first_row, block->fixed, block->slow, block->fast,
                          NULL, NULL, score);
        return;
    }
    struct kicks kicks;
    add_rows(&step->rows[0], true, block->first_row, &kicks);
    for (uint32_t s = 1; s < step->row_sources; s++)
        add_rows(&step->rows[s], false, block->first_row, &kicks);
    if (step->page_sources > 0)
        add_pages(step, block->first_row, &kicks);
    if (step->recency > 0)
        add_recency(step, block->first_row, &kicks);
    if (!step->is_settled)
        add_drift(&step->drift, &kicks, block->slow, block->fast);
    if (step->is_bound && !step->is_settled)
        add_pull(step, block->slow_home, block->fast_home, block->slow, block->fast);
    score_rows(&step->drift, &kicks, block->fixed, block->slow, block->fast, score);
}

/* ---- For each kind of CPU ---------------------------------------------------------------- */

static bool runs_everywhere(void)
{
    return true;
}

static void advance_portable(const struct score_step *step, const struct score_block *block,
                             float *score)
{
    advance(step, block, score);
}

static void mark_portable(const float *score, float least, uint64_t *reached)
{
    for (uint32_t word = 0; word < ROWS / 64; word++) {
        reached[word] = 0;
        for (uint32_t i = 0; i < 64; i++)
            reached[word] |= (uint64_t)(score[64 * word + i] >= least) << i;
    }
}

#if defined(__x86_64__)
#define FOR_AVX2 __attribute__((target("avx2")))

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

FOR_AVX2 static void advance_avx2(const struct score_step *step, const struct score_block *block,
                                  float *score)
{
    advance(step, block, score);
}

FOR_AVX2 static void mark_avx2(const float *score, float least, uint64_t *reached)
{
    const __m256 bar = _mm256_set1_ps(least);
    for (size_t word = 0; word < ROWS / 64; word++) {
        reached[word] = 0;
        for (size_t i = 0; i < 64; i += 8) {
            __m256 reaches = _mm256_cmp_ps(_mm256_loadu_ps(score + 64 * word + i), bar, _CMP_GE_OQ);
            reached[word] |= (uint64_t)(uint32_t)_mm256_movemask_ps(reaches) << i;
        }
    }
}

#if defined(__clang__) /* does not take a width by function */
#define FOR_AVX512 __attribute__((target("avx512f,avx512dq")))
#else
#define FOR_AVX512 __attribute__((target("avx512f,avx512dq,prefer-vector-width=512")))
#endif

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
}

FOR_AVX512 static void advance_avx512(const struct score_step *step,
                                      const struct score_block *block, float *score)
{
    advance(step, block, score);
}

FOR_AVX512 static void mark_avx512(const float *score, float least, uint64_t *reached)
{
    const __m512 bar = _mm512_set1_ps(least);
    for (size_t word = 0; word < ROWS / 64; word++) {
        reached[word] = 0;
        for (size_t i = 0; i < 64; i += 16) {
            __m512 lane = _mm512_loadu_ps(score + 64 * word + i);
            reached[word] |= (uint64_t)_mm512_cmp_ps_mask(lane, bar, _CMP_GE_OQ) << i;
        }
    }
}
#endif

static const struct score_kernel kernels[] = {
    {.name = "portable",
     .runs_here = runs_everywhere,
     .advance = advance_portable,
     .mark = mark_portable},
#if defined(__x86_64__)
    {.name = "avx2", .runs_here = has_avx2, .advance = advance_avx2, .mark = mark_avx2},
    {.name = "avx512", .runs_here = has_avx512, .advance = advance_avx512, .mark = mark_avx512},
#endif
};

const struct score_kernel *score_kernels(size_t *count)
{
    *count = sizeof kernels / sizeof kernels[0];
    return kernels;
}

const struct score_kernel *score_kernel_best(void)
{
    size_t best = sizeof kernels / sizeof kernels[0] - 1;
    while (!kernels[best].runs_here())
        best--;
    return &kernels[best];
}
