/* residency.h -- a residency policy that keeps its contract, for others to break in one place.
 *
 * At a boundary the lowest page on host comes up while a page is free; under pressure the lowest
 * optional pages go. */
#ifndef KVT_TESTS_BROKEN_RESIDENCY_H
#define KVT_TESTS_BROKEN_RESIDENCY_H

#include "kvt/policy.h"

struct pages {
    uint64_t page_bytes;
};

static inline size_t good_state_bytes(const struct kvt_residency_env *env)
{
    (void)env;
    return sizeof(struct pages);
}

static inline kvt_status good_init(void *state, const struct kvt_residency_env *env,
                                   struct kvt_error *err)
{
    (void)err;
    ((struct pages *)state)->page_bytes = env->page_bytes;
    return KVT_OK;
}

static inline void good_needs(const void *state, struct kvt_residency_needs *out)
{
    (void)state;
    *out = (struct kvt_residency_needs){.host_backing = true, .optional_pages = true};
}

static inline bool is_resident(const struct kvt_residency_request *request, uint32_t page)
{
    return request->resident_bits[page / 64] >> page % 64 & 1;
}

static inline bool is_filling(const struct kvt_residency_request *request, uint32_t page)
{
    return request->filling_bits[page / 64] >> page % 64 & 1;
}

/* At most `most` of the pages that are on host only, or that may go. */
static inline uint32_t good_list(const struct kvt_residency_view *view, bool on_host, uint64_t most,
                                 struct kvt_residency_action *actions, uint32_t capacity)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < view->request_count; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        for (uint32_t p = 0; p < request->eligible_pages && count < most && count < capacity; p++) {
            if (is_filling(request, p) || is_resident(request, p) == on_host)
                continue;
            actions[count++] = (struct kvt_residency_action){
                on_host ? KVT_RESIDENCY_REFILL : KVT_RESIDENCY_RELEASE, request->id, p, 1};
        }
    }
    return count;
}

static inline uint32_t good_boundary(void *state, const struct kvt_residency_view *view,
                                     struct kvt_residency_action *actions, uint32_t capacity)
{
    const struct pages *pages = state;
    return good_list(view, true, view->free_bytes / pages->page_bytes, actions, capacity);
}

static inline uint32_t good_reclaim(void *state, const struct kvt_residency_view *view,
                                    uint64_t want_bytes, struct kvt_residency_action *actions,
                                    uint32_t capacity)
{
    uint64_t page_bytes = ((const struct pages *)state)->page_bytes;
    return good_list(view, false, (want_bytes + page_bytes - 1) / page_bytes, actions, capacity);
}

/* The table of the name, with some members other than these. */
#define RESIDENCY(table_name, ...)                                                                 \
    _Pragma("GCC diagnostic ignored \"-Woverride-init\"") static const struct kvt_residency_policy \
        policy = {.info = {.abi = KVT_ABI_VERSION,                                                 \
                           .struct_bytes = sizeof policy,                                          \
                           .name = (table_name),                                                   \
                           .summary = "breaks a contract"},                                        \
                  .state_bytes = good_state_bytes,                                                 \
                  .init = good_init,                                                               \
                  .needs = good_needs,                                                             \
                  .boundary = good_boundary,                                                       \
                  .reclaim = good_reclaim,                                                         \
                  __VA_ARGS__};                                                                    \
    static const struct kvt_plugin_table tables[] = {{KVT_PLUGIN_RESIDENCY, &policy.info}};        \
    KVT_PLUGIN_OBJECT(tables)

#endif
