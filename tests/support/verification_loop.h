/* verification_loop.h -- DSpark alone in a loop: requests that never end, a cost table for a
 * clock, no simulator. */
#ifndef KVT_TESTS_VERIFICATION_LOOP_H
#define KVT_TESTS_VERIFICATION_LOOP_H

#include "kvt/costs.h"
#include "kvt/speculation.h"

enum {
    VERIFICATION_DRAFTS = 7, /* of a block, as in vLLM's figure */
    VERIFICATION_NONE = -1,
    VERIFICATION_ADAPTIVE = 0 /* above 0: so many fixed drafts */
};

struct verification_loop {
    const char *acceptance_path, *costs_path;
    uint32_t requests;
    int scheme;
    double lag_rounds;
    uint32_t rounds;
    uint64_t seed;
};

struct verification_rate {
    double user_tokens_per_s;                    /* of one request */
    double tokens_per_round, verified_per_round; /* of one request */
};

KVT_CHECKED kvt_status verification_run(const struct verification_loop *loop,
                                        struct verification_rate *out, struct kvt_error *err);

#endif
