/* I/O-adaptive admission: somebody comes in while a step with him would not wait too much for the
 * link.
 *
 *     next:    of the most urgent class, the first in the queue, where
 *                  nobody runs or is coming in; or
 *                  with him there are no more than twice as many as decoded in the last step, and
 *                  fetch / (rest + fetch) <= fetch_share of a step with him:
 *                      fetch = what a request of the last step waited for the link,
 *                              for all that run, those coming in, and him
 *                      rest = what else the last step took
 *              else nobody
 *     preempt: as fcfs does
 *
 * After PulseInfer's admission by current I/O load (arXiv 2609.34555). A step's waiting is that
 * which is exposed: while compute hides all of it nothing is known of how much is left, and just
 * beyond that point waiting grows faster than the batch. Hence the doubling. Hot caches of
 * newcomers are cold: after an admission the policy waits until what they fetch has fallen. */
#include "urgency.h"

enum {
    PARAM_FETCH_SHARE,
    PARAM_COUNT
};

struct io_adaptive {
    double fetch_share;
};

static const struct kvt_param_spec io_adaptive_params[PARAM_COUNT] = {
    {.name = "fetch_share",
     .type = KVT_PARAM_REAL,
     .minimum = 0,
     .maximum = 1,
     .default_number = 0.2,
     .help =
         "Of a step, how much may be waiting for rows over the link before nobody else comes in; "
         "1: everybody does."},
};

static size_t io_adaptive_state_bytes(const struct kvt_scheduling_env *env)
{
    (void)env;
    return sizeof(struct io_adaptive);
}

static kvt_status io_adaptive_init(void *state, const struct kvt_scheduling_env *env,
                                   struct kvt_error *err)
{
    struct io_adaptive *io_adaptive = state;

    (void)err;
    io_adaptive->fetch_share = env->params.values[PARAM_FETCH_SHARE].number;
    return KVT_OK;
}

/* Whether a step of one more would wait no more than it may. */
static bool has_time(const struct io_adaptive *io_adaptive, const struct kvt_scheduling_view *view)
{
    double requests = (double)view->running + view->coming_in;
    double last_fetch_ns = (double)view->last_fetch_ns;

    if (requests == 0)
        return true;
    if (requests + 1 > 2.0 * view->last_step_requests)
        return false;
    double fetch_ns = last_fetch_ns / view->last_step_requests * (requests + 1);
    double rest_ns = (double)view->last_step_ns - last_fetch_ns;
    return fetch_ns <= io_adaptive->fetch_share * (rest_ns + fetch_ns);
}

static uint32_t io_adaptive_next(void *state, const struct kvt_scheduling_view *view,
                                 const struct kvt_scheduling_request *waiting, uint32_t count)
{
    return has_time(state, view) ? urgency_first(waiting, count) : count;
}

static uint32_t io_adaptive_preempt(void *state, const struct kvt_scheduling_request *running,
                                    uint32_t count)
{
    (void)state;
    return urgency_victim(running, count);
}

const struct kvt_scheduling_policy kvt_scheduling_io_adaptive = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_scheduling_io_adaptive,
             .name = "io-adaptive",
             .summary = "first come, first served, while steps do not wait too much for the link",
             .params = io_adaptive_params,
             .param_count = PARAM_COUNT},
    .state_bytes = io_adaptive_state_bytes,
    .init = io_adaptive_init,
    .next = io_adaptive_next,
    .preempt = io_adaptive_preempt,
    .wants_view = true,
};
