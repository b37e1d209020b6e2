/* score_kernel.h -- one token of the score process for one block of rows, for each kind of CPU. */
#ifndef KVT_SCORE_KERNEL_H
#define KVT_SCORE_KERNEL_H

#include "score_shape.h"
#include "score_top_k.h"

/* Draws of one token from one source, for rows or for pages. */
struct score_draws {
    uint32_t key[3];
    float slow_unit, fast_unit, white_unit; /* what a draw of 1 adds to x, y and the score, */
    float fast_bend, white_bend;            /* and with its cube */
};

enum {
    SCORE_RUN_ROWS = 8 /* pages are made of such runs, and blocks of pages */
};

/* What one token does to any block. */
struct score_step {
    struct score_drift drift;
    struct score_draws rows[SCORE_SOURCES];
    struct score_draws pages[SCORE_SOURCES];
    uint32_t row_sources, page_sources; /* how many of each there are */
    uint32_t rows_per_page;             /* a power of two, SCORE_RUN_ROWS to SCORE_BLOCK_ROWS */
    bool is_settled;                    /* x and y are this token's already */
    bool is_bound;                      /* x and y are pulled to where they began */
    float slow_pull, fast_pull;
    float recency;       /* 0: none */
    float age_unit;      /* half-lives a row */
    uint32_t newest_row; /* that is visible */
};

/* The parts of rows first_row .. first_row + SCORE_BLOCK_ROWS - 1. */
struct score_block {
    const float *fixed;
    float *slow, *fast;
    const float *slow_home, *fast_home; /* looked at where a step is bound */
    uint32_t first_row;                 /* a multiple of SCORE_BLOCK_ROWS */
};

/* One kind of CPU. The same bits, whichever it is. */
struct score_kernel {
    const char *name;
    bool (*runs_here)(void);

    /* Advances the block by one token and writes score[SCORE_BLOCK_ROWS]. */
    void (*advance)(const struct score_step *step, const struct score_block *block, float *score);

    /* Sets bit i of reached[SCORE_BLOCK_ROWS / 64] where score[i] >= least, and no other. */
    void (*mark)(const float *score, float least, uint64_t *reached);
};

/* All there are; the first runs everywhere, each is faster than those before it. */
const struct score_kernel *score_kernels(size_t *count);

/* The last that runs here. */
const struct score_kernel *score_kernel_best(void);

#endif
