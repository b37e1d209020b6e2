/* score_process.h -- the scores of one stream of selections, shared by both laws. */
#ifndef KVT_SCORE_PROCESS_H
#define KVT_SCORE_PROCESS_H

#include "kvt/law.h"

/* The parameters of the process. Both laws open their tables with them, so
 * that each is declared once; the enumerators are their places there. */
enum {
    SCORE_PARAM_F0,
    SCORE_PARAM_F1,
    SCORE_PARAM_F2,
    SCORE_PARAM_TAU1,
    SCORE_PARAM_TAU2,
    SCORE_PARAM_COUNT,
};

/* Set A of three that fit as well. */
#define SCORE_FITTED_TO                                                                            \
    "miss shares .32, .14, .04 at B/k 1, 2, 8 (the paper's Table 3 and load step)"

/* clang-format off */
#define SCORE_PARAMS                                                                               \
    {.name = "f0", .type = KVT_PARAM_REAL, .minimum = 0, .maximum = 1, .default_number = 0.487,    \
     .calibrated_to = SCORE_FITTED_TO,                                                             \
     .help = "Share of a score's variance that never changes."},                                   \
    {.name = "f1", .type = KVT_PARAM_REAL, .minimum = 0, .maximum = 1, .default_number = 0.323,    \
     .calibrated_to = SCORE_FITTED_TO,                                                             \
     .help = "Share that drifts over tau1_tokens."},                                               \
    {.name = "f2", .type = KVT_PARAM_REAL, .minimum = 0, .maximum = 1, .default_number = 0.155,    \
     .calibrated_to = SCORE_FITTED_TO,                                                             \
     .help = "Share that drifts over tau2_tokens; what f0, f1, f2 leave is new at each token."},   \
    {.name = "tau1_tokens", .type = KVT_PARAM_REAL, .minimum = 1, .maximum = 1e5,                  \
     .default_number = 100, .calibrated_to = SCORE_FITTED_TO,                                      \
     .help = "Tokens after which the f1 share is correlated by 1/e."},                             \
    {.name = "tau2_tokens", .type = KVT_PARAM_REAL, .minimum = 1, .maximum = 1e5,                  \
     .default_number = 8, .calibrated_to = SCORE_FITTED_TO,                                        \
     .help = "Tokens after which the f2 share is correlated by 1/e."}
/* clang-format on */

/* What the parameters come to in the arithmetic of a step. */
struct score_shape {
    float static_weight, slow_weight, fast_weight, white_weight;
    float slow_keep, slow_kick; /* x(t) = keep x(t-1) + kick g */
    float fast_keep, fast_kick;
};

/* KVT_ERR_INVALID when the shares come to more than 1; `where` is the place. */
KVT_CHECKED kvt_status score_shape_init(struct score_shape *shape, const struct kvt_params *params,
                                        const char *where, struct kvt_error *err);

/* Largest history of one stream: 16 bytes a row are allocated for it. */
#define SCORE_ROWS_MAX (UINT32_C(1) << 30)

/* KVT_ERR_INVALID for what no stream can be: nothing selected, a history that
 * shrinks or passes SCORE_ROWS_MAX. */
KVT_CHECKED kvt_status score_check_top_k(uint32_t top_k, const char *where, struct kvt_error *err);
KVT_CHECKED kvt_status score_check_rows(uint32_t context_rows, uint32_t rows_max, const char *where,
                                        struct kvt_error *err);

/* What one (request, selector) draws from, in either law. */
struct kvt_rng score_stream_rng(uint64_t run_seed, const struct kvt_law_stream_env *env);

enum {
    SCORE_GAUSS_COUNT = 65536
};

/* Standard normal quantiles at (i + 1/2) / 65,536, in multiples of 2^-18: so
 * coarse that no libm's last bits show. [SCORE_GAUSS_COUNT], for free(); NULL
 * when memory is short. */
float *score_gauss_new(void);

/* One stream. Plain bytes of score_stream_bytes(), without pointers: a copy
 * goes on as the original does. */
struct score_stream {
    uint64_t key;
    uint64_t step;     /* selections made while more than top_k rows were visible */
    uint32_t rows_max; /* rows it can ever see */
    uint32_t top_k;
    float guess;    /* a score that few more than top_k rows are expected to reach */
    float values[]; /* static, slow, fast, score: [rows_max] each; then candidates[] */
};

size_t score_stream_bytes(uint32_t rows_max, uint32_t top_k);

/* Row i's static, slow and fast parts start at draws of (key, i) from the
 * stationary law. */
void score_stream_init(struct score_stream *stream, const float *gauss, uint64_t key,
                       uint32_t rows_max, uint32_t top_k);

/* Advances the visible rows by one token and writes the min(top_k, visible)
 * best, ascending. While all rows are selected nothing advances: the law is
 * stationary, and no one can tell. */
uint32_t score_stream_select(struct score_stream *stream, const struct score_shape *shape,
                             const float *gauss, uint32_t visible_rows, uint32_t *rows);

/* Entries of the candidate list that score_top_k() works on. */
static inline size_t score_candidate_count(uint32_t top_k)
{
    return 4 * (size_t)top_k + 512;
}

/* The top_k best of count scores (count > top_k >= 1), ascending; of equal
 * scores the lower index is better. *guess only decides how long it takes: it
 * should lie a little under the worst score selected, and is set so for a next
 * call on similar scores. candidates[score_candidate_count(top_k)] is scratch.
 * No score is NaN. */
void score_top_k(const float *scores, uint32_t count, uint32_t top_k, float *guess,
                 uint32_t *candidates, uint32_t *rows);

#endif
