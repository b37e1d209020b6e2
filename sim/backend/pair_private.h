/* pair_private.h -- two backends side by side: what comparing them needs. */
#ifndef KVT_BACKEND_PAIR_PRIVATE_H
#define KVT_BACKEND_PAIR_PRIVATE_H

#include <pthread.h>

#include "kvt/backend_pair.h"

enum {
    PAIR_SIDES = 2,
    PAIR_TEXT_BYTES = 4096
};

/* A request that decodes on both sides. */
struct pair_lane {
    bool differs;                /* and is not compared any more */
    struct kvt_page_watch watch; /* the second's own; no pages: nobody asks */
    uint64_t *ready_bits;        /* [ready_words] as of the last step */
    uint32_t ready_words;
};

struct backend_pair {
    struct kvt_backend base;
    struct kvt_backend_env env;
    struct kvt_backend *sides[PAIR_SIDES];
    bool second_reads;            /* what the first selects, so that it steps behind it */
    struct kvt_law_source source; /* the first's selections, for the second */
    pthread_mutex_t source_lock;
    kvt_status source_status; /* of the first selection that could not be read */
    struct kvt_error source_error;
    struct pair_lane **lanes; /* [lane_capacity] by request; NULL: does not decode */
    size_t lane_capacity;
    struct kvt_rank_step *ranks; /* [rank_capacity] the second's */
    struct kvt_step_item *items; /* [item_capacity] likewise */
    size_t rank_capacity, item_capacity;
    uint64_t *first_hashes;             /* [stores] of the item that is compared */
    uint64_t *second_hashes;            /* [item_capacity][stores] behind the second's step */
    const uint64_t *hashes[PAIR_SIDES]; /* [stores] of the item that is compared */
    uint32_t *selected[PAIR_SIDES];     /* [top_k] scratch */
    uint32_t *cache_rows,
        *cache_ranks; /* [slots of the largest] the first's, beside the second's */
    struct kvt_pair_report report;
    char text[PAIR_TEXT_BYTES]; /* of the first mismatch */
};

/* Text that is added to, and cut off where there is no room. */
struct pair_text {
    char *out;
    size_t bytes, used;
};
void pair_say(struct pair_text *text, const char *fmt, ...) KVT_PRINTF(2, 3);

/* pair_compare.c: of a resize or a release, whose chains take in how each cache ended. */
void pair_compare_ends(struct backend_pair *pair, uint32_t request, const char *what,
                       uint64_t first, uint64_t second);
/* Of a request's part of a step, on either side. */
KVT_CHECKED kvt_status pair_compare_item(struct backend_pair *pair,
                                         const struct kvt_rank_step *rank,
                                         const struct kvt_step_item *item,
                                         const struct kvt_step_item *other, struct kvt_error *err);
/* Of a rank whose requests all agree. */
void pair_compare_rank(struct backend_pair *pair, const struct kvt_rank_step *rank,
                       const struct kvt_rank_step *other);

/* pair_diff.c: says where a round of a request differs: the first call, its counts and rows, or the
 * cache. states_differ: pair->hashes do. */
void pair_describe_round(struct backend_pair *pair, const struct kvt_step_item *item,
                         const struct kvt_step_item *other, bool states_differ,
                         struct pair_text *text);

#endif
