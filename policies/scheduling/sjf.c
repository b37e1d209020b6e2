/* Shortest prompt first, with ageing.
 *
 *     next:    of the most urgent class, the least of input_tokens + ageing_tokens_per_s x arrival:
 *              for each second that it has waited longer, a prompt may be so many tokens longer
 *     preempt: as fcfs does
 *
 * Shortest job first by what is known of a request before it runs. Without ageing a long prompt can
 * wait for ever; with it nobody waits longer than its own length takes to be made up for, behind
 * those who were there. Equals go in queue order. L. Kleinrock, "Queueing Systems", vol. 2, 1976,
 * section 3.3 (time-dependent priorities). */
#include "urgency.h"

enum {
    PARAM_AGEING,
    PARAM_COUNT
};

struct sjf {
    double tokens_per_ns;
};

static const struct kvt_param_spec sjf_params[PARAM_COUNT] = {
    {.name = "ageing_tokens_per_s",
     .type = KVT_PARAM_REAL,
     .minimum = 0,
     .maximum = 1e6,
     .default_number = 1000,
     .help = "Tokens that a second of waiting makes up for; 0: none, and long prompts may wait for "
             "ever."},
};

static size_t sjf_state_bytes(const struct kvt_scheduling_env *env)
{
    (void)env;
    return sizeof(struct sjf);
}

static kvt_status sjf_init(void *state, const struct kvt_scheduling_env *env, struct kvt_error *err)
{
    struct sjf *sjf = state;

    (void)err;
    sjf->tokens_per_ns = env->params.values[PARAM_AGEING].number * 1e-9;
    return KVT_OK;
}

static uint32_t sjf_next(void *state, const struct kvt_scheduling_view *view,
                         const struct kvt_scheduling_request *waiting, uint32_t count)
{
    const struct sjf *sjf = state;
    uint32_t next = 0;
    double least = 0;

    (void)view;
    for (uint32_t i = 0; i < count; i++) {
        const struct kvt_scheduling_request *request = &waiting[i];
        double age = sjf->tokens_per_ns * (double)request->arrival_ns;
        double length = request->input_tokens + age;
        bool is_urgent = request->priority < waiting[next].priority;
        if (i == 0 || is_urgent ||
            (request->priority == waiting[next].priority && length < least)) {
            next = i;
            least = length;
        }
    }
    return next;
}

static uint32_t sjf_preempt(void *state, const struct kvt_scheduling_request *running,
                            uint32_t count)
{
    (void)state;
    return urgency_victim(running, count);
}

const struct kvt_scheduling_policy kvt_scheduling_sjf = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_scheduling_sjf,
             .name = "sjf",
             .summary = "shortest prompt first within a class, longer ones as they age",
             .params = sjf_params,
             .param_count = PARAM_COUNT},
    .state_bytes = sjf_state_bytes,
    .init = sjf_init,
    .next = sjf_next,
    .preempt = sjf_preempt,
};
