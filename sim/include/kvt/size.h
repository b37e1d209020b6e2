/* kvt/size.h -- static capacity of a scenario: what fits, what limits it, how much
 * host DRAM that takes. No queueing, no time. */
#ifndef KVT_SIZE_H
#define KVT_SIZE_H

#include "kvt/layout.h"
#include "kvt/scenario.h"

KVT_BEGIN_DECLS

/* What one session more would not fit into. */
enum kvt_size_limit {
    KVT_SIZE_HBM = 0,   /* the one pool of a GPU */
    KVT_SIZE_HBM_INDEX, /* the index pool, where it is apart */
    KVT_SIZE_HBM_ROWS,  /* the row pool, where it is apart */
    KVT_SIZE_HOST_DRAM, /* of the fullest node */
    KVT_SIZE_WEIGHTS    /* they leave nothing: no session runs */
};
const char *kvt_size_limit_name(enum kvt_size_limit limit); /* "hbm", "hbm_index", ... */

/* One decode pool, full. */
struct kvt_size_pool {
    uint64_t running_per_gpu;     /* sessions whose KV one GPU holds; every GPU of a
                                   * tensor-parallel replica holds the same ones */
    uint64_t running;             /* over the pool's dp replicas */
    uint64_t host_bytes_at_limit; /* in the fullest node's DRAM */
    enum kvt_size_limit limited_by;
};

/* Sessions of one length under one residency. */
struct kvt_size_side {
    struct kvt_session_bytes session;
    struct kvt_size_pool pools[KVT_POOLS_MAX]; /* [scenario.pool_count] */
    uint64_t running;                          /* over all pools */
    uint32_t tightest; /* pool with fewest running_per_gpu; the first of equals */
};

struct kvt_size {
    uint64_t tokens;
    struct kvt_size_side scenario; /* under the scenario's residency policy */
    struct kvt_size_side resident; /* all history in HBM, no host copy: no hierarchy */
};

/* Sessions of `tokens` tokens, as engine lays them out. Speculation counts with its
 * ring and staging. Only what is required counts (session.hbm_bytes): tables and
 * windows stand outside, as in the paper's slots. KVT_ERR_INVALID: no token, or more
 * than the model has positions. */
KVT_CHECKED kvt_status kvt_size_at(const struct kvt_scenario *scenario,
                                   const struct kvt_engine *engine, uint64_t tokens,
                                   struct kvt_size *out, struct kvt_error *err);

/* The context that the scenario's own workload asks for: the longest of its few
 * input lengths, or, where lengths are spread, its longest context. Opens the
 * workload; a trace is read. */
KVT_CHECKED kvt_status kvt_size_own_tokens(const struct kvt_scenario *scenario, uint64_t *tokens,
                                           struct kvt_error *err);

/* The weights leave room for KV on the GPUs of every pool. */
bool kvt_size_weights_fit(const struct kvt_scenario *scenario);

/* sizes[size_count] as `kvtide size --json` prints them, the first one's keys also
 * at the top. NULL when memory is short; cJSON_Delete() it. */
KVT_CHECKED struct cJSON *kvt_size_tree(const struct kvt_scenario *scenario,
                                        const struct kvt_engine *engine,
                                        const struct kvt_size *sizes, size_t size_count);

KVT_END_DECLS
#endif
