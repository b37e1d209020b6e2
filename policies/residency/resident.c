/* resident -- every row of every running request stays in HBM: no hierarchy.
 *
 * The baseline: a request needs room for its whole history before it starts, and
 * nothing is ever fetched from host. */
#include "kvt/policy.h"

static size_t resident_state_bytes(const struct kvt_residency_env *env)
{
    (void)env;
    return 0;
}

static kvt_status resident_init(void *state, const struct kvt_residency_env *env,
                                struct kvt_error *err)
{
    (void)state;
    (void)env;
    (void)err;
    return KVT_OK;
}

static void resident_needs(const void *state, struct kvt_residency_needs *needs)
{
    (void)state;
    *needs = (struct kvt_residency_needs){.history_in_hbm = true};
}

const struct kvt_residency_policy kvt_residency_resident = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof(struct kvt_residency_policy),
             .name = "resident",
             .summary = "all history in HBM; nothing on host"},
    .state_bytes = resident_state_bytes,
    .init = resident_init,
    .needs = resident_needs,
};
