/* drawn.h -- private to workloads/arrival: what requests without a trace share. */
#ifndef KVT_ARRIVAL_DRAWN_H
#define KVT_ARRIVAL_DRAWN_H

#include "kvt/page_keys.h"
#include "kvt/workload.h"

/* Kinds and lengths for requests by their number: no draw depends on another request's. */
struct kvt_drawn {
    struct kvt_request_kind alike;        /* what all are, where there are no kinds */
    const struct kvt_request_kind *kinds; /* [kind_count] of the env; none: all are alike */
    size_t kind_count;
    uint64_t run_seed;
    struct kvt_page_keys keys; /* of the request last given */
};

struct kvt_drawn kvt_drawn_of(const struct kvt_arrival_env *env);
void kvt_drawn_free(struct kvt_drawn *drawn);
/* Page keys are borrowed until the next call. */
KVT_CHECKED kvt_status kvt_drawn_request(struct kvt_drawn *drawn, uint64_t ordinal,
                                         kvt_ns arrival_ns, struct kvt_request_spec *out,
                                         struct kvt_error *err);
/* As kvt_arrival.extent(). */
void kvt_drawn_extent(const struct kvt_drawn *drawn, uint32_t *longest_tokens,
                      uint32_t *output_tokens, uint32_t *inputs, size_t *input_count);

#endif
