/* First come, first served, by urgency.
 *
 *     next:    of the most urgent class that waits, the first in the queue; what does
 *              not fit yet blocks those behind it
 *     preempt: of the least urgent class that runs, the request admitted last, unless
 *              it runs alone
 *
 * Within a class no request is overtaken, and the ones that have held their memory
 * longest keep it, so the run always advances: vLLM's default order, and with classes
 * its priority order. */
#include "urgency.h"

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

static uint32_t fcfs_next(void *state, const struct kvt_scheduling_view *view,
                          const struct kvt_scheduling_request *waiting, uint32_t count)
{
    (void)state;
    (void)view;
    return urgency_first(waiting, count);
}

static uint32_t fcfs_preempt(void *state, const struct kvt_scheduling_request *running,
                             uint32_t count)
{
    (void)state;
    return urgency_victim(running, count);
}

const struct kvt_scheduling_policy kvt_scheduling_fcfs = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_scheduling_fcfs,
             .name = "fcfs",
             .summary = "first come, first served within a class, the most urgent class first"},
    .state_bytes = fcfs_state_bytes,
    .init = fcfs_init,
    .next = fcfs_next,
    .preempt = fcfs_preempt,
};
