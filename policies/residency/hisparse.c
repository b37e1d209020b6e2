/* hisparse -- a fixed hot cache per request, all history on host, nothing optional.
 *
 * One budget at every load: what HBM has to spare stays unused. Rows are written to host
 * behind the step that made them. The published HiSparse of SGLang (hisparse_coordinator.py
 * @009e640a), and the reference paper's baseline. Whoever is put aside keeps its rows on
 * host, as SGLang's retraction does with a host copy. */
#include "kvt/policy.h"

static size_t hisparse_state_bytes(const struct kvt_residency_env *env)
{
    (void)env;
    return 0;
}

static kvt_status hisparse_init(void *state, const struct kvt_residency_env *env,
                                struct kvt_error *err)
{
    (void)state;
    (void)env;
    (void)err;
    return KVT_OK;
}

static void hisparse_needs(const void *state, struct kvt_residency_needs *needs)
{
    (void)state;
    *needs = (struct kvt_residency_needs){.host_backing = true, .keeps_aside = true};
}

const struct kvt_residency_policy kvt_residency_hisparse = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof(struct kvt_residency_policy),
             .name = "hisparse",
             .summary = "a fixed hot cache per request, all history on host"},
    .state_bytes = hisparse_state_bytes,
    .init = hisparse_init,
    .needs = hisparse_needs,
};
