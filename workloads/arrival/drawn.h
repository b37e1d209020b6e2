/* drawn.h -- private to workloads/arrival: what requests without a trace share. */
#ifndef KVT_ARRIVAL_DRAWN_H
#define KVT_ARRIVAL_DRAWN_H

#include "kvt/workload.h"

/* Lengths for requests by their number: no draw depends on another request's. */
struct kvt_drawn {
    struct kvt_lengths input, output;
    uint64_t run_seed;
};

struct kvt_drawn kvt_drawn_of(const struct kvt_arrival_env *env);
struct kvt_request_spec kvt_drawn_request(const struct kvt_drawn *drawn, uint64_t ordinal,
                                          kvt_ns arrival_ns);
/* As kvt_arrival.extent(). */
void kvt_drawn_extent(const struct kvt_drawn *drawn, uint32_t *longest_tokens,
                      uint32_t *output_tokens, uint32_t *inputs, size_t *input_count);

#endif
