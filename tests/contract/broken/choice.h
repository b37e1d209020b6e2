/* choice.h -- a router and a scheduling policy that keep their contracts, the latter but for the
 * members that are named. */
#ifndef KVT_TESTS_BROKEN_CHOICE_H
#define KVT_TESTS_BROKEN_CHOICE_H

#include "kvt/policy.h"

#define INFO(table_name)                                                                           \
    {                                                                                              \
        .abi = KVT_ABI_VERSION, .struct_bytes = sizeof policy, .name = (table_name),               \
        .summary = "breaks a contract"                                                             \
    }

#define SCHEDULING(table_name, ...)                                                                \
    static size_t state_bytes(const struct kvt_scheduling_env *env)                                \
    {                                                                                              \
        (void)env;                                                                                 \
        return 0;                                                                                  \
    }                                                                                              \
    static kvt_status init(void *state, const struct kvt_scheduling_env *env,                      \
                           struct kvt_error *err)                                                  \
    {                                                                                              \
        (void)state;                                                                               \
        (void)env;                                                                                 \
        (void)err;                                                                                 \
        return KVT_OK;                                                                             \
    }                                                                                              \
    static uint32_t preempt(void *state, const struct kvt_scheduling_request *running,             \
                            uint32_t count)                                                        \
    {                                                                                              \
        (void)state;                                                                               \
        (void)running;                                                                             \
        return count > 1 ? count - 1 : count;                                                      \
    }                                                                                              \
    static const struct kvt_scheduling_policy policy = {.info = INFO(table_name),                  \
                                                        .state_bytes = state_bytes,                \
                                                        .init = init,                              \
                                                        __VA_ARGS__,                               \
                                                        .preempt = preempt};                       \
    static const struct kvt_plugin_table tables[] = {{KVT_PLUGIN_SCHEDULING, &policy.info}};       \
    KVT_PLUGIN_OBJECT(tables)

#define ROUTER(table_name, route_function)                                                         \
    static size_t state_bytes(const struct kvt_router_env *env)                                    \
    {                                                                                              \
        (void)env;                                                                                 \
        return 0;                                                                                  \
    }                                                                                              \
    static kvt_status init(void *state, const struct kvt_router_env *env, struct kvt_error *err)   \
    {                                                                                              \
        (void)state;                                                                               \
        (void)env;                                                                                 \
        (void)err;                                                                                 \
        return KVT_OK;                                                                             \
    }                                                                                              \
    static const struct kvt_router_policy policy = {.info = INFO(table_name),                      \
                                                    .state_bytes = state_bytes,                    \
                                                    .init = init,                                  \
                                                    .route = (route_function)};                    \
    static const struct kvt_plugin_table tables[] = {{KVT_PLUGIN_ROUTER, &policy.info}};           \
    KVT_PLUGIN_OBJECT(tables)

#endif
