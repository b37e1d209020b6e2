/* score_shape.h -- parameters of the score process, and what they come to in its arithmetic. */
#ifndef KVT_SCORE_SHAPE_H
#define KVT_SCORE_SHAPE_H

#include "kvt/law.h"

/* The parameters of the process. Both laws open their tables with them, so
 * that each is declared once; the enumerators are their places there. */
enum {
    SCORE_PARAM_PRESET,
    SCORE_PARAM_F0,
    SCORE_PARAM_F1,
    SCORE_PARAM_F2,
    SCORE_PARAM_TAU1,
    SCORE_PARAM_TAU2,
    SCORE_PARAM_SELECTOR_SHARE,
    SCORE_PARAM_PAGE_SHARE,
    SCORE_PARAM_STORE_SHARE,
    SCORE_PARAM_RECENCY,
    SCORE_PARAM_SINK_ROWS,
    SCORE_PARAM_LAYER_SPREAD,
    SCORE_PARAM_COUNT,
};

/* Set A of three that fit as well. */
#define SCORE_FITTED_TO                                                                            \
    "miss shares .32, .14, .04 at B/k 1, 2, 8 (the paper's Table 3 and load step)"
#define SCORE_FITTED_TO_DEEPSEEK                                                                   \
    "miss shares .356 and .093 at the smallest and largest budget of DeepSeek-V4.1-Flash (the "    \
    "paper's Table 3)"

#define SCORE_MASS_FITTED_TO                                                                       \
    "about 30 % of 2,048 rows for mass .99 at 100,032 rows; MOIRA reads 27 to 33 % of a dense "    \
    "model's pages at 128K"

/* clang-format off */
#define SCORE_PARAMS                                                                               \
    {.name = "preset", .type = KVT_PARAM_CHOICE, .choices = "flat|clustered|skewed",               \
     .default_text = "flat",                                                                       \
     .help = "What rows and stores have in common. flat: nothing. clustered: page_share and "      \
             "store_share. skewed: recency, sink_rows and layer_spread."},                         \
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
     .help = "Tokens after which the f2 share is correlated by 1/e."},                             \
    {.name = "selector_share", .type = KVT_PARAM_REAL, .minimum = 0, .maximum = 1,                 \
     .default_number = 0.635, .calibrated_to = SCORE_FITTED_TO_DEEPSEEK,                           \
     .help = "Correlation of a row's scores by selectors of one store; at least store_share."},    \
    {.name = "page_share", .type = KVT_PARAM_REAL, .minimum = -1, .maximum = 1,                    \
     .default_number = -1,                                                                         \
     .help = "Correlation of the scores of rows of one page of 64 tokens; -1: the preset's."},     \
    {.name = "store_share", .type = KVT_PARAM_REAL, .minimum = -1, .maximum = 1,                   \
     .default_number = -1,                                                                         \
     .help = "Correlation of a row's scores in neighbouring stores; -1: the preset's."},           \
    {.name = "recency", .type = KVT_PARAM_REAL, .minimum = -1, .maximum = 10,                      \
     .default_number = -1,                                                                         \
     .help = "Standard deviations by which the newest row scores higher; half of it at an age of " \
             "1,024 tokens; -1: the preset's."},                                                   \
    {.name = "sink_rows", .type = KVT_PARAM_COUNT, .minimum = -1, .maximum = 65536,                 \
     .default_number = -1,                                                                         \
     .help = "First rows, which every query selects; -1: the preset's."},                          \
    {.name = "layer_spread", .type = KVT_PARAM_REAL, .minimum = -1, .maximum = 0.9,                \
     .default_number = -1,                                                                         \
     .help = "How much more of a score drifts over tau2_tokens or is new in the first third of "   \
             "the selectors, and how much less in the last; -1: the preset's."}
/* clang-format on */

/* Selectors by their place among the model's layers: the first, the middle and
 * the last third of them drift at their own rates. */
enum {
    SCORE_BANDS = 3
};

/* One band's score: static_weight a + slow_weight x + fast_weight y + white_weight e,
 * with x(t) = slow_keep x(t - 1) + slow_kick g, and y alike. */
struct score_drift {
    float static_weight, slow_weight, fast_weight, white_weight;
    float slow_keep, slow_kick;
    float fast_keep, fast_kick;
};

/* Whose chances a score is drawn from: its own stream's, those that the selectors of
 * one store share, and those that neighbouring stores share. */
enum {
    SCORE_SOURCE_OWN,
    SCORE_SOURCE_STORE,
    SCORE_SOURCE_GROUP,
    SCORE_SOURCES
};

/* Plain values: equal bytes, equal laws. */
struct score_shape {
    struct score_drift bands[SCORE_BANDS];
    float row_weight, page_weight;            /* of what a row draws alone and with its page */
    float source_weight[SCORE_SOURCES];       /* where several selectors read one store */
    float source_weight_alone[SCORE_SOURCES]; /* where one does */
    float recency;
    uint32_t sink_rows;
};

/* KVT_ERR_INVALID when shares come to more than 1, a value lies between the range and
 * "the preset's", or the sinks are all that a query selects; `where` is the place. */
KVT_CHECKED kvt_status score_shape_init(struct score_shape *shape, const struct kvt_params *params,
                                        uint32_t top_k, const char *where, struct kvt_error *err);

/* The preset's name and what rows have in common by the values in force, for the summary. */
void score_describe_params(const struct kvt_params *params, char *out, size_t bytes);

/* Standard normal quantiles at (i + 1/2) / 65,536, in multiples of 2^-18: so
 * coarse that no libm's last bits show. [SCORE_GAUSS_COUNT], for free(); NULL
 * when memory is short. */
enum {
    SCORE_GAUSS_COUNT = 65536
};
float *score_gauss_new(void);

#endif
