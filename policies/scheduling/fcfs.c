/* First come, first served.
 *
 *     next:    the head of the queue; what does not fit yet blocks those behind it
 *     preempt: the request admitted last, unless it runs alone
 *
 * No request is overtaken, and the ones that have held their memory longest
 * keep it, so the run always advances: vLLM's default order. */
#include "kvt/policy.h"

static size_t fcfs_state_bytes(const struct kvt_scheduling_env *env)
{
    (void)env;
    return 0;
}

static kvt_status fcfs_init(void *state, const struct kvt_scheduling_env *env,
                            struct kvt_error *err)
{
    (void)state;
    (void)env;
    (void)err;
    return KVT_OK;
}

static uint32_t fcfs_next(void *state, const struct kvt_scheduling_request *waiting, uint32_t count)
{
    (void)state;
    (void)waiting;
    (void)count;
    return 0; /* which is `count`, none, when nobody waits */
}

/* Putting the only request aside would free memory for itself alone. */
static uint32_t fcfs_preempt(void *state, const struct kvt_scheduling_request *running,
                             uint32_t count)
{
    (void)state;
    (void)running;
    return count > 1 ? count - 1 : count;
}

const struct kvt_scheduling_policy kvt_scheduling_fcfs = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_scheduling_fcfs,
             .name = "fcfs",
             .summary = "first come, first served; the last admitted is put aside first"},
    .state_bytes = fcfs_state_bytes,
    .init = fcfs_init,
    .next = fcfs_next,
    .preempt = fcfs_preempt,
};
