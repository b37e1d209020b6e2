/* kvt/speculation.h -- how drafts are made, how many are verified, and what is accepted.
 *
 * A round of a request verifies K queries in one pass: the anchor, which is the newest
 * token, and K - 1 drafts. It commits the anchor and the accepted drafts, delivers as
 * many tokens (the last is the target's own, whose row the next round writes), and
 * drops the rest. */
#ifndef KVT_SPECULATION_H
#define KVT_SPECULATION_H

#include "kvt/law.h"
#include "kvt/llm.h"
#include "kvt/plugin.h"

KVT_BEGIN_DECLS

enum {
    KVT_QUERIES_MAX = KVT_TAIL_ROWS / 2 /* K of any round: the tail holds two rounds */
};

/* One round of one request, with how it will end: acceptance is drawn when the round is
 * planned, and nobody but the law and the books may look at it. */
struct kvt_round {
    uint32_t draft_tokens;                         /* made for it, verified or not */
    uint32_t query_count;                          /* K, at least 1 */
    uint32_t committed_tokens;                     /* the anchor and what is accepted, at least 1 */
    struct kvt_law_query queries[KVT_QUERIES_MAX]; /* [query_count] the anchor first */
};

/* What a law is asked for `round` of a request with context_tokens before it. visible_rows
 * ([KVT_QUERIES_MAX], the caller's) is filled and borrowed by the answer; *out_visible is what the
 * deepest query sees. */
static inline struct kvt_law_round kvt_round_of_store(const struct kvt_round *round,
                                                      const struct kvt_store *store,
                                                      uint32_t context_tokens,
                                                      uint32_t *visible_rows, uint32_t *out_visible)
{
    uint32_t deepest = 0;

    for (uint32_t q = 0; q < round->query_count; q++)
        deepest = round->queries[q].depth > deepest ? round->queries[q].depth : deepest;
    for (uint32_t depth = 0; depth <= deepest; depth++)
        visible_rows[depth] = kvt_store_rows(store, context_tokens + depth + 1);
    *out_visible = visible_rows[deepest];
    return (struct kvt_law_round){.queries = round->queries,
                                  .query_count = round->query_count,
                                  .committed_tokens = round->committed_tokens,
                                  .visible_rows = visible_rows};
}

/* What a method needs beside the model, and what may be asked of it. */
struct kvt_speculation_shape {
    uint32_t queries_max; /* K of its widest round; 1: it does not speculate */
    uint32_t side_paths;  /* rejected paths that one round can have */
    uint32_t side_tokens; /* queries of the longest */
    /* For the timing model and the memory of a request. */
    uint32_t draft_passes;        /* passes of the drafter for a round at most: 1 where it makes a
                                   * block at once, one a token of a chain; 0: nothing drafts */
    uint32_t draft_budget_tokens; /* the model drafts for itself, reading so many tokens' rows that
                                   * it keeps in HBM beside all others; 0: it does not */
    enum kvt_basis basis;         /* of what is accepted, by the table in force */
    bool rounds_by_load; /* how many queries a round has depends on who else decodes, or on what a
                          * step costs: nobody can know a request's rounds beforehand */
};

/* K of a request's round at most: what the model's longest context leaves, the anchor at least. */
static inline uint32_t kvt_queries_left(const struct kvt_llm *llm, uint32_t context_tokens,
                                        uint32_t queries_max)
{
    uint32_t left = llm->max_position_tokens - context_tokens;

    if (left > queries_max)
        left = queries_max;
    return left > 0 ? left : 1;
}

struct kvt_speculation_env {
    struct kvt_params params;
    const struct kvt_llm *llm;
    const struct kvt_drafter *drafter; /* NULL: none */
    const char *const *tasks;          /* [task_count] names that requests carry; at least one, the
                                        * first is what a request without a task has */
    uint32_t task_count;
    uint64_t run_seed;
    const struct kvt_host *host;
};

/* A request that decodes in the coming step. */
struct kvt_speculation_request {
    void *state; /* request_bytes() of it */
    uint32_t id;
    uint32_t rank;           /* where it decodes: ranks that decode something, counted from 0 */
    uint32_t context_tokens; /* committed */
    uint32_t generated_tokens;
    uint32_t queries_max; /* this round's K at most: what the model's longest context leaves */
};

/* Drafts of a rank with so many of the requests, of so many that are verified in all: its
 * share, rounded up. What step_ns() takes for granted. */
static inline uint32_t kvt_rank_drafts(uint32_t drafts, uint32_t rank_requests, uint32_t requests)
{
    return (uint32_t)(((uint64_t)drafts * rank_requests + requests - 1) / requests);
}

/* All requests of the ranks that step together, rank by rank. */
struct kvt_speculation_view {
    const struct kvt_speculation_request *requests; /* [request_count] */
    uint32_t request_count;
    /* What a step of so many requests and queries in all would take, as the run's timing model
     * has it, with rows missed as in the last step and kvt_rank_drafts() on each rank; for
     * methods without costs of their own. NULL where one request's rounds are planned ahead of
     * time, which is asked of no method whose rounds_by_load is true. */
    double (*step_ns)(void *context, uint32_t requests, uint32_t draft_tokens, uint32_t queries);
    void *step_context;
    void *scratch; /* plan_bytes() of it, aligned for any type; holds nothing from call to call */
};

struct kvt_speculation_method {
    struct kvt_plugin_info info;
    enum kvt_basis basis; /* of what is accepted by default; shape() has it for a run */

    /* Reads and checks what its parameters name. *out is freed by free(). */
    kvt_status (*prepare)(const struct kvt_speculation_env *env, void **out, struct kvt_error *err);
    void (*free)(void *method); /* takes NULL */
    void (*shape)(const void *method, struct kvt_speculation_shape *shape);

    /* Host-owned state of one request, zeroed before init. */
    size_t (*request_bytes)(const void *method);
    void (*request_init)(const void *method, void *state, uint32_t request, uint32_t task);

    /* rounds[i] of requests[i]. What is drawn depends on the request and how many rounds it has
     * had, never on the others or on their order. */
    void (*plan)(const void *method, const struct kvt_speculation_view *view,
                 struct kvt_round *rounds);

    /* Memory that plan() works in, for so many requests at once. Optional: it needs none. */
    size_t (*plan_bytes)(const void *method, uint32_t request_count);
};

/* A round of one path: `query_count` queries of which the first `committed_tokens` will be
 * committed; all its drafts are verified. A shared object cannot call it: it fills a round itself.
 */
void kvt_round_chain(struct kvt_round *round, uint32_t query_count, uint32_t committed_tokens);

/* Reads a file of schema "kvtide/acceptance/1" as strictly as the methods do, and keeps nothing. */
KVT_CHECKED kvt_status kvt_acceptance_check(const char *path, struct kvt_error *err);

KVT_END_DECLS
#endif
