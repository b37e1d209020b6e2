/* prefix-offload -- no hierarchy while a request runs; whole histories go to host and back.
 *
 * A running request has all its history in HBM. One that is put aside is written to host
 * whole, index rows with it, and comes back whole, without being prefilled again; where host
 * DRAM is short, copies are dropped and it is. Pages of a finished request are written to host
 * whole too, for prompts that begin with them; the least recently used make room.
 *
 * Source: vLLM's offloading connector without HiSparse, the baseline of its hybrid HiSparse
 * measurements (GLM-5.3, OpenHands replay), which collapses once the working set of the
 * sessions no longer fits: prefixes are evicted between turns and prefilled again. */
#include "kvt/policy.h"

static size_t offload_state_bytes(const struct kvt_residency_env *env)
{
    (void)env;
    return 0;
}

static kvt_status offload_init(void *state, const struct kvt_residency_env *env,
                               struct kvt_error *err)
{
    (void)state;
    (void)env;
    (void)err;
    return KVT_OK;
}

static void offload_needs(const void *state, struct kvt_residency_needs *needs)
{
    (void)state;
    *needs = (struct kvt_residency_needs){
        .history_in_hbm = true, .keeps_aside = true, .offloads_whole = true};
}

const struct kvt_residency_policy kvt_residency_prefix_offload = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof(struct kvt_residency_policy),
             .name = "prefix-offload",
             .summary = "all history in HBM while it runs, whole histories to host and back"},
    .state_bytes = offload_state_bytes,
    .init = offload_init,
    .needs = offload_needs,
};
