/* I/O-aware scheduling over a prefix cache with a host tier.
 *
 *     next, of the most urgent class, in queue order:
 *         somebody who has been passed by passes_max times comes in at once;
 *         then a follower: everything it has found is in HBM, by a loading-bound one that came in;
 *         then the first that is neither
 *             a delay hit: delay_hit_tokens or more of what it lacks are coming in with another, or
 *             loading-bound: with it, tokens coming up > load_compute_ratio x tokens to compute;
 *         then the first that is no delay hit, loading-bound as it is;
 *         else nobody, until those coming in are there
 *     preempt: as fcfs does
 *
 * After Strata (arXiv 2508.18572, OSDI 2026): transient nodes of its radix tree and delay hits,
 * balanced batches, bundle hits. Its batch is one prefill; here it is everybody who has been let in
 * and is not in the batch yet. A delay hit is put off until what it waits for is there, which is
 * never longer than passes_max others. Who shares what a loading-bound request brings up follows
 * that, instead of coming in beside it, where it would bring the same up a second time. What
 * decodes goes on beside, so that there are no bubbles to fill. */
#include "urgency.h"

enum {
    PARAM_DELAY_HIT,
    PARAM_RATIO,
    PARAM_BUNDLE,
    PARAM_PASSES,
    PARAM_COUNT
};

enum {
    CONTEXTS = 16 /* of loading-bound requests that came in last */
};

struct strata {
    uint32_t delay_hit_tokens, passes_max;
    double load_compute_ratio;
    bool bundles;
    uint32_t newest;
    uint64_t contexts[CONTEXTS]; /* a ring; 0: none */
};

static const struct kvt_param_spec strata_params[PARAM_COUNT] = {
    {.name = "delay_hit_tokens",
     .type = KVT_PARAM_COUNT,
     .minimum = 0,
     .maximum = 1e9,
     .default_number = 100,
     .help = "A request is put off while so many tokens that it lacks, or more, are coming in with "
             "another; 0: none is."},
    {.name = "load_compute_ratio",
     .type = KVT_PARAM_REAL,
     .minimum = 0,
     .maximum = 1e9,
     .default_number = 100,
     .help = "Tokens coming up from host for each that is to be computed, above which others come "
             "first; 0: no limit."},
    {.name = "bundle",
     .idle = {{.beside = "load_compute_ratio", .cure = "a load_compute_ratio above 0"}},
     .type = KVT_PARAM_BOOL,
     .default_number = 1,
     .help =
         "Whether those who begin as a loading-bound request does come in next, once its prefix "
         "is up."},
    {.name = "passes_max",
     .type = KVT_PARAM_COUNT,
     .minimum = 0,
     .maximum = 1e6,
     .default_number = 64,
     .help = "A request that so many others have passed by comes in next."},
};

static size_t strata_state_bytes(const struct kvt_scheduling_env *env)
{
    (void)env;
    return sizeof(struct strata);
}

static kvt_status strata_init(void *state, const struct kvt_scheduling_env *env,
                              struct kvt_error *err)
{
    const struct kvt_param_value *values = env->params.values;
    struct strata *strata = state;

    (void)err;
    strata->delay_hit_tokens = (uint32_t)values[PARAM_DELAY_HIT].number;
    strata->load_compute_ratio = values[PARAM_RATIO].number;
    strata->bundles = values[PARAM_BUNDLE].number > 0;
    strata->passes_max = (uint32_t)values[PARAM_PASSES].number;
    return KVT_OK;
}

static bool is_delay_hit(const struct strata *strata, const struct kvt_scheduling_entry *entry)
{
    return strata->delay_hit_tokens > 0 && entry->in_flight_tokens >= strata->delay_hit_tokens;
}

static bool is_loading_bound(const struct strata *strata, const struct kvt_scheduling_view *view,
                             const struct kvt_scheduling_entry *entry)
{
    double load = (double)(view->coming_load_tokens + entry->load_tokens);
    double new = (double)(view->coming_new_tokens + entry->new_tokens);

    return entry->load_tokens > 0 && strata->load_compute_ratio > 0 &&
           load > strata->load_compute_ratio * new;
}

static bool is_follower(const struct strata *strata, const struct kvt_scheduling_entry *entry)
{
    bool follows = false;

    if (!strata->bundles || entry->context_key == 0 || entry->load_tokens > 0)
        return false;
    for (uint32_t i = 0; i < CONTEXTS; i++)
        follows = follows || strata->contexts[i] == entry->context_key;
    return follows;
}

/* Where there is nobody of a kind, count. */
struct choice {
    uint32_t overdue, follower, plain, bound;
};

static void consider(const struct strata *strata, const struct kvt_scheduling_view *view,
                     uint32_t at, uint32_t count, struct choice *choice)
{
    const struct kvt_scheduling_entry *entry = &view->entries[at];

    if (entry->passed_by >= strata->passes_max && choice->overdue == count)
        choice->overdue = at;
    if (is_delay_hit(strata, entry))
        return;
    if (choice->follower == count && is_follower(strata, entry))
        choice->follower = at;
    if (!is_loading_bound(strata, view, entry))
        choice->plain = choice->plain < count ? choice->plain : at;
    else if (choice->bound == count)
        choice->bound = at;
}

static uint32_t strata_next(void *state, const struct kvt_scheduling_view *view,
                            const struct kvt_scheduling_request *waiting, uint32_t count)
{
    struct strata *strata = state;
    struct choice choice = {count, count, count, count};
    uint32_t first = urgency_first(waiting, count);

    if (first >= view->entry_count) /* nobody, or so far behind that it is not looked up */
        return first;
    for (uint32_t i = first; i < view->entry_count; i++) {
        if (waiting[i].priority == waiting[first].priority)
            consider(strata, view, i, count, &choice);
    }
    if (choice.overdue < count)
        return choice.overdue;
    if (choice.follower < count)
        return choice.follower;
    if (choice.plain < count)
        return choice.plain;
    if (choice.bound < count &&
        view->entries[choice.bound].context_key != strata->contexts[strata->newest]) {
        strata->newest = (strata->newest + 1) % CONTEXTS;
        strata->contexts[strata->newest] = view->entries[choice.bound].context_key;
    }
    return choice.bound;
}

static uint32_t strata_preempt(void *state, const struct kvt_scheduling_request *running,
                               uint32_t count)
{
    (void)state;
    return urgency_victim(running, count);
}

const struct kvt_scheduling_policy kvt_scheduling_strata = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_scheduling_strata,
             .name = "strata",
             .summary = "who waits for a prefix that another brings in stands back, and loads are "
                        "balanced against computing",
             .params = strata_params,
             .param_count = PARAM_COUNT},
    .state_bytes = strata_state_bytes,
    .init = strata_init,
    .next = strata_next,
    .preempt = strata_preempt,
    .wants_entries = true,
};
