/* score_kernel.c -- one token of the score process for one block of rows.
 *
 *     for each source of chances
 *         a, b = two words of 32 bits that depend on (source, token, row)
 *         slow  += unit ((a & 255) + (a >> 8 & 255) - 255)
 *         fast  += unit ((a >> 16 & 255) + (a >> 24) - 255)
 *         white += unit ((b & 65535) + (b >> 16) - 65535)
 *     the same for each page, added to its rows
 *     x = slow_keep x + slow;  y = fast_keep y + fast
 *     score = static_weight a + slow_weight x + fast_weight y + white
 *
 * The words are C. Wellons's 32-bit hash "lowbias32" of the row's number, with a key
 * added before it and another in its middle (github.com/skeeto/hash-prospector). A draw
 * is a sum of two uniform ones: x and y add up dozens and are as good as normal, and
 * white is one part of four.
 *
 * Sums and products are IEEE single precision in one stated order (the build never
 * contracts them), so that any register width gives the same bits. */
#include "score_kernel.h"

#include <string.h>

#define GOLDEN UINT32_C(0x9e3779b9) /* 2^32 / golden ratio, odd */

enum {
    ROWS = SCORE_BLOCK_ROWS,
    RUN_ROWS = 8 /* rows that always belong to one page */
};

static inline __attribute__((always_inline)) uint32_t mixed(uint32_t number, uint32_t key,
                                                            uint32_t inner_key)
{
    uint32_t x = number * GOLDEN + key;
    x = (x ^ x >> 16) * UINT32_C(0x7feb352d) + inner_key;
    x = (x ^ x >> 15) * UINT32_C(0x846ca68b);
    return x ^ x >> 16;
}

static inline float slow_draw(uint32_t word)
{
    return (float)((int32_t)((word & 0xff) + (word >> 8 & 0xff)) - 0xff);
}

static inline float fast_draw(uint32_t word)
{
    return (float)((int32_t)((word >> 16 & 0xff) + (word >> 24)) - 0xff);
}

static inline float white_draw(uint32_t word)
{
    return (float)((int32_t)((word & 0xffff) + (word >> 16)) - 0xffff);
}

/* What a block's rows receive at a token. */
struct kicks {
    float slow[ROWS], fast[ROWS], white[ROWS];
};

static inline __attribute__((always_inline)) void
draw_rows(const struct score_draws *draws, uint32_t first_row, struct kicks *restrict kicks)
{
    const struct score_draws d = *draws;
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t a = mixed(first_row + i, d.key[0], d.key[1]);
        uint32_t b = mixed(first_row + i, d.key[2], d.key[3]);
        kicks->slow[i] = d.slow_unit * slow_draw(a);
        kicks->fast[i] = d.fast_unit * fast_draw(a);
        kicks->white[i] = d.white_unit * white_draw(b);
    }
}

static inline __attribute__((always_inline)) void
add_rows(const struct score_draws *draws, uint32_t first_row, struct kicks *restrict kicks)
{
    const struct score_draws d = *draws;
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t a = mixed(first_row + i, d.key[0], d.key[1]);
        uint32_t b = mixed(first_row + i, d.key[2], d.key[3]);
        kicks->slow[i] += d.slow_unit * slow_draw(a);
        kicks->fast[i] += d.fast_unit * fast_draw(a);
        kicks->white[i] += d.white_unit * white_draw(b);
    }
}

static inline __attribute__((always_inline)) void add_pages(const struct score_draws *draws,
                                                            uint32_t first_row,
                                                            uint32_t rows_per_page,
                                                            struct kicks *restrict kicks)
{
    const struct score_draws d = *draws;
    for (uint32_t run = 0; run < ROWS; run += RUN_ROWS) {
        uint32_t page = (first_row + run) / rows_per_page;
        uint32_t a = mixed(page, d.key[0], d.key[1]);
        float slow = d.slow_unit * slow_draw(a);
        float fast = d.fast_unit * fast_draw(a);
        float white = d.white_unit * white_draw(mixed(page, d.key[2], d.key[3]));
        for (uint32_t i = run; i < run + RUN_ROWS; i++) {
            kicks->slow[i] += slow;
            kicks->fast[i] += fast;
            kicks->white[i] += white;
        }
    }
}

/* recency / (1 + age in half-lives): half of it after one. */
static inline __attribute__((always_inline)) void
add_recency(const struct score_step *step, uint32_t first_row, struct kicks *restrict kicks)
{
    const float recency = step->recency, age_unit = step->age_unit;
    int32_t newest = (int32_t)step->newest_row - (int32_t)first_row;
    for (int32_t i = 0; i < ROWS; i++) {
        int32_t age = newest > i ? newest - i : 0;
        kicks->white[i] += recency / (1.0F + age_unit * (float)age);
    }
}

static inline __attribute__((always_inline)) void drift(const struct score_drift *drift,
                                                        const struct kicks *restrict kicks,
                                                        float *restrict slow, float *restrict fast)
{
    const float slow_keep = drift->slow_keep, fast_keep = drift->fast_keep;
    for (uint32_t i = 0; i < ROWS; i++) {
        slow[i] = slow_keep * slow[i] + kicks->slow[i];
        fast[i] = fast_keep * fast[i] + kicks->fast[i];
    }
}

static inline __attribute__((always_inline)) void
advance(const struct score_step *step, const struct score_block *block, float *restrict score)
{
    const struct score_drift d = step->drift;
    const float *restrict fixed = block->fixed;
    float *restrict slow = block->slow;
    float *restrict fast = block->fast;
    struct kicks kicks;
    draw_rows(&step->rows[0], block->first_row, &kicks);
    for (uint32_t s = 1; s < step->row_draws; s++)
        add_rows(&step->rows[s], block->first_row, &kicks);
    for (uint32_t s = 0; s < step->page_draws; s++)
        add_pages(&step->pages[s], block->first_row, step->rows_per_page, &kicks);
    if (step->recency > 0)
        add_recency(step, block->first_row, &kicks);
    if (!step->is_settled)
        drift(&d, &kicks, slow, fast);
    for (uint32_t i = 0; i < ROWS; i++)
        score[i] =
            ((d.static_weight * fixed[i] + d.slow_weight * slow[i]) + d.fast_weight * fast[i]) +
            kicks.white[i];
}

/* Without a branch: one row in forty would mispredict it. */
static inline __attribute__((always_inline)) void
collect(const float *score, uint32_t first_row, uint32_t count, struct score_candidates *candidates)
{
    const float least = candidates->least;
    uint32_t found = candidates->count;
    for (uint32_t i = 0; i < count; i++) {
        candidates->rows[found] = first_row + i;
        candidates->scores[found] = score[i];
        found += score[i] >= least;
    }
    candidates->count = found;
}

/* ---- For each kind of CPU ---------------------------------------------------------- */

#define SCORE_KERNEL(suffix, attributes)                                                           \
    attributes static void advance_##suffix(const struct score_step *step,                         \
                                            const struct score_block *block, float *score)         \
    {                                                                                              \
        advance(step, block, score);                                                               \
    }                                                                                              \
    attributes static void collect_##suffix(const float *score, uint32_t first_row,                \
                                            uint32_t count, struct score_candidates *candidates)   \
    {                                                                                              \
        collect(score, first_row, count, candidates);                                              \
    }

SCORE_KERNEL(portable, )
#if defined(__x86_64__)
SCORE_KERNEL(avx2, __attribute__((target("avx2"))))
#endif

static bool runs_everywhere(void)
{
    return true;
}

#if defined(__x86_64__)
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}
#endif

static const struct score_kernel kernels[] = {
    {.name = "portable",
     .runs_here = runs_everywhere,
     .advance = advance_portable,
     .collect = collect_portable},
#if defined(__x86_64__)
    {.name = "avx2", .runs_here = has_avx2, .advance = advance_avx2, .collect = collect_avx2},
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
