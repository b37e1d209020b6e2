/* score_process.h -- the scores of one stream of selections, shared by both laws. */
#ifndef KVT_SCORE_PROCESS_H
#define KVT_SCORE_PROCESS_H

#include "score_shape.h"

/* Largest history of one stream: 12 bytes a row are allocated for it. */
#define SCORE_ROWS_MAX (UINT32_C(1) << 30)

/* KVT_ERR_INVALID for what no stream can be: nothing selected, a history that
 * shrinks or passes SCORE_ROWS_MAX. */
KVT_CHECKED kvt_status score_check_top_k(uint32_t top_k, const char *where, struct kvt_error *err);
KVT_CHECKED kvt_status score_check_rows(uint32_t context_rows, uint32_t rows_max, const char *where,
                                        struct kvt_error *err);

/* The selectors of a model. stream_store as in kvt_law_env; borrowed. */
struct score_model {
    uint64_t run_seed;
    uint32_t stream_count;
    const uint32_t *stream_store;
};

/* What a stream draws from, and where it stands among its model's selectors. */
struct score_kin {
    uint64_t keys[SCORE_SOURCES];
    uint32_t band;
    uint32_t is_alone; /* no other selector reads its store */
};

/* Selectors whose stores are neighbours: only within such a group can streams have chances in
 * common. */
uint32_t score_group_of(const struct score_model *model, uint32_t selector);
/* Which of its group's stores a selector reads. */
uint32_t score_place_of(const struct score_model *model, uint32_t selector);

/* Streams of one entity (a request, or a tape's number) are kin: those that read one
 * store draw from its key, and those of neighbouring stores whose rows are as many
 * tokens from their group's. */
struct score_kin score_kin_of(const struct score_model *model, uint64_t entity, uint32_t selector,
                              uint32_t tokens_per_row);

/* Sets of a size of their own: the least that hold a share of the softmax's mass. */
struct score_budget {
    double share;      /* of the mass of all visible rows, above 0 and below 1 */
    double fall;       /* score_mass_fall() of the stream's temperature */
    uint32_t rows_min; /* of a set, where so many are visible */
};

struct score_extent {
    uint32_t rows_max; /* rows it can ever see */
    uint32_t top_k;
    uint32_t tokens_per_row;
    uint32_t loop_tokens; /* after which the process is where it began; 0: never */
};

/* One stream. Plain bytes of score_stream_bytes(), without pointers: a copy
 * goes on as the original does. */
struct score_stream {
    struct score_kin kin;
    struct score_extent extent;
    uint64_t token;     /* tokens that it has moved on by */
    uint64_t fixed_key; /* of what the static parts are */
    double fall;        /* score_mass_fall() of it, of a law with budgets; its owner's */
    float guess;        /* a score that few more than top_k rows are expected to reach */
    float values[];     /* slow, fast, static and, of a loop, where slow and fast began: [padded
                         * rows_max] each; then the candidates */
};

size_t score_stream_bytes(const struct score_extent *extent);

/* Row i's static, slow and fast parts start at draws of (key, i) from the
 * stationary law. A loop goes through loop_tokens tokens and is then, but for rounding, where
 * it began; it may be asked for no more than those. gauss[SCORE_GAUSS_COUNT] is read here only. */
void score_stream_init(struct score_stream *stream, const struct score_shape *shape,
                       const float *gauss, const struct score_kin *kin,
                       const struct score_extent *extent);

/* Moves on by one token and writes the min(top_k, visible) best rows as a set: all of
 * set[kvt_row_words(visible_rows)]. set NULL: nobody looks. While all rows are selected
 * none is drawn anew: the law is stationary, and no one can tell.
 *
 * budget not NULL: as many of those as it takes, and every sink. */
void score_stream_select(struct score_stream *stream, const struct score_shape *shape,
                         const struct score_budget *budget, uint32_t visible_rows, uint64_t *set);

/* Of the token that it was last moved on by, behind which visible_rows could be seen: the largest
 * score of each page of rows_per_page rows, FLT_MAX with a sink in it. The stream stays as it is.
 */
void score_stream_pages(struct score_stream *stream, const struct score_shape *shape,
                        uint32_t visible_rows, uint32_t rows_per_page, float *scores);

/* Makes `side` a copy at the current token; of score_stream_bytes() of the same extent without
 * a loop, for a fork never goes home. It is zeroed, or a fork already: of a fork of the same
 * stream only what drifts is copied. What it draws from now on
 * belongs to (stream, token, path) alone: not to what else was asked, nor to any other
 * fork. path is at least 1. */
void score_stream_fork(const struct score_stream *stream, uint32_t path, struct score_stream *side);

#endif
