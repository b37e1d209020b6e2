/* speculation.h -- a method that keeps its contract: four queries, of which as many are committed
 * as the request's own count of rounds says. */
#ifndef KVT_TESTS_BROKEN_SPECULATION_H
#define KVT_TESTS_BROKEN_SPECULATION_H

#include "kvt/speculation.h"

enum {
    QUERIES = 4
};

struct drafting {
    uint32_t rounds;
};

static inline kvt_status good_prepare(const struct kvt_speculation_env *env, void **out,
                                      struct kvt_error *err)
{
    (void)env;
    (void)err;
    *out = NULL;
    return KVT_OK;
}

static inline void good_free(void *method)
{
    (void)method;
}

static inline void good_shape(const void *method, struct kvt_speculation_shape *shape)
{
    (void)method;
    *shape = (struct kvt_speculation_shape){.queries_max = QUERIES,
                                            .side_paths = 1,
                                            .side_tokens = QUERIES - 1,
                                            .draft_passes = 1,
                                            .basis = KVT_BASIS_ASSUMED};
}

static inline size_t good_request_bytes(const void *method)
{
    (void)method;
    return sizeof(struct drafting);
}

static inline void good_request_init(const void *method, void *state, uint32_t request,
                                     uint32_t task)
{
    (void)method;
    (void)task;
    ((struct drafting *)state)->rounds = request;
}

static inline void plan_one(const struct kvt_speculation_request *request, uint32_t queries,
                            struct kvt_round *round)
{
    struct drafting *drafting = request->state;

    queries = queries < request->queries_max ? queries : request->queries_max;
    round->query_count = queries;
    round->draft_tokens = queries - 1;
    round->committed_tokens = 1 + drafting->rounds++ % queries;
    for (uint32_t q = 0; q < queries; q++) {
        bool rejected = q >= round->committed_tokens;
        round->queries[q] = (struct kvt_law_query){
            .depth = q, .path = rejected, .fork = rejected ? round->committed_tokens : 0};
    }
}

static inline void good_plan(const void *method, const struct kvt_speculation_view *view,
                             struct kvt_round *rounds)
{
    (void)method;
    for (uint32_t i = 0; i < view->request_count; i++)
        plan_one(&view->requests[i], QUERIES, &rounds[i]);
}

#define SPECULATION(table_name, plan_function)                                                     \
    static const struct kvt_speculation_method policy = {.info = {.abi = KVT_ABI_VERSION,          \
                                                                  .struct_bytes = sizeof policy,   \
                                                                  .name = (table_name),            \
                                                                  .summary = "breaks a contract"}, \
                                                         .basis = KVT_BASIS_ASSUMED,               \
                                                         .prepare = good_prepare,                  \
                                                         .free = good_free,                        \
                                                         .shape = good_shape,                      \
                                                         .request_bytes = good_request_bytes,      \
                                                         .request_init = good_request_init,        \
                                                         .plan = (plan_function)};                 \
    static const struct kvt_plugin_table tables[] = {{KVT_PLUGIN_SPECULATION, &policy.info}};      \
    KVT_PLUGIN_OBJECT(tables)

#endif
