/* kvt/strata.h -- stores that are alike, and which of them a request follows. */
#ifndef KVT_STRATA_H
#define KVT_STRATA_H

#include "kvt/error.h"
#include "kvt/llm.h"
#include "kvt/row_counts.h"

KVT_BEGIN_DECLS

/* A stratum's stores differ in their number of layers at most, which changes how
 * many bytes a missing row is and nothing about which rows are missing. */
struct kvt_strata {
    uint32_t count;
    struct kvt_stratum strata[KVT_STRATA_MAX];
    uint32_t stratum_of[KVT_STORES_MAX];
    uint32_t selectors_of[KVT_STORES_MAX];
};

/* sample_stores followed in each stratum, 0 or more than there are: all. */
KVT_CHECKED kvt_status kvt_strata_init(struct kvt_strata *strata, const struct kvt_llm *llm,
                                       uint32_t sample_stores, struct kvt_error *err);

/* How many stores a request follows in all. */
uint32_t kvt_strata_followed(const struct kvt_strata *strata);

/* The stores that this request follows, ascending; a draw without replacement in
 * each stratum from the request's own stream. Returns kvt_strata_followed(). */
uint32_t kvt_strata_draw(const struct kvt_strata *strata, uint32_t store_count, uint64_t run_seed,
                         uint32_t request, uint32_t *stores);

KVT_END_DECLS
#endif
