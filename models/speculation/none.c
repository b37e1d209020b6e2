/* none.c -- no speculation: every round is the newest token alone. */
#include "kvt/speculation.h"

/* There is nothing to hold: the method is NULL. */
static kvt_status none_prepare(const struct kvt_speculation_env *env, void **out,
                               struct kvt_error *err)
{
    (void)env;
    (void)err;
    *out = NULL;
    return KVT_OK;
}

static void none_free(void *method)
{
    (void)method;
}

static void none_shape(const void *method, struct kvt_speculation_shape *shape)
{
    (void)method;
    *shape = (struct kvt_speculation_shape){.queries_max = 1, .basis = KVT_BASIS_EXACT};
}

static size_t none_request_bytes(const void *method)
{
    (void)method;
    return 0;
}

static void none_request_init(const void *method, void *state, uint32_t request, uint32_t task)
{
    (void)method;
    (void)state;
    (void)request;
    (void)task;
}

static void none_plan(const void *method, const struct kvt_speculation_view *view,
                      struct kvt_round *rounds)
{
    (void)method;
    for (uint32_t i = 0; i < view->request_count; i++)
        kvt_round_chain(&rounds[i], 1, 1);
}

const struct kvt_speculation_method kvt_speculation_none = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_speculation_none,
             .name = "none",
             .summary = "one query a step"},
    .basis = KVT_BASIS_EXACT,
    .prepare = none_prepare,
    .free = none_free,
    .shape = none_shape,
    .request_bytes = none_request_bytes,
    .request_init = none_request_init,
    .plan = none_plan,
};
