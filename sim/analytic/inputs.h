/* inputs.h -- what a march is told: lengths, imports, places and memory of a scenario. */
#ifndef KVT_ANALYTIC_INPUTS_H
#define KVT_ANALYTIC_INPUTS_H

#include "march.h"

/* What is asked of the scenario once, before its surfaces. */
struct inputs {
    uint32_t *input_tokens, *output_tokens; /* [length_count] of the first requests */
    size_t length_count;
    double mean_input_tokens, mean_output_tokens;
    uint32_t output_cap;               /* longest usual output */
    double requests;                   /* in all; INFINITY: no end */
    struct kvt_session_bytes required; /* of a request of the mean input */
    uint64_t slots;                    /* of one rank */
    struct kvt_slots_by slots_by;      /* likewise */
    uint64_t slots_of_twice_hot;       /* likewise; 0: no hot caches */
};

/* inputs_free() in any case. */
KVT_CHECKED kvt_status inputs_read(const struct kvt_analytic_env *run, struct inputs *out,
                                   struct kvt_error *err);
void inputs_free(struct inputs *inputs);

/* Everything of *march but its surfaces, which inputs_lengths() is told of. cells: how many a
 * march should have about. */
KVT_CHECKED kvt_status inputs_places(const struct kvt_analytic_env *run,
                                     const struct inputs *inputs, struct march_env *march,
                                     struct kvt_error *err);
void inputs_lengths(const struct inputs *inputs, double step_s, struct march_env *march);

#endif
