/* kvt/source.h -- what arrives in a run, opened from its scenario. */
#ifndef KVT_SOURCE_H
#define KVT_SOURCE_H

#include "kvt/scenario.h"

KVT_BEGIN_DECLS

/* All members belong to the two functions below but for `arrival` and `source`, which are there to
 * be called. It must not be moved while it is open. */
struct kvt_source {
    const struct kvt_arrival *arrival;
    void *source;
    size_t state_count;
    void *states[2 + 2 * KVT_KINDS_MAX]; /* [state_count] of length laws */
    struct kvt_request_kind kinds[KVT_KINDS_MAX];
};

/* Opens the lengths and the arrivals of the scenario, which must outlive them. After a failure
 * kvt_source_close() has nothing to do, and may be called. */
KVT_CHECKED kvt_status kvt_source_open(const struct kvt_scenario *scenario, struct kvt_source *out,
                                       struct kvt_error *err);
/* Takes one that was never opened, if it is all zero. */
void kvt_source_close(struct kvt_source *source);

KVT_END_DECLS
#endif
