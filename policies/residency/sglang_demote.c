/* sglang-demote -- requests are wholly in HBM until it runs short, then whole requests go.
 *
 *     start:    whole where the history fits, else with a hot cache; backed up on entry, and
 *               every new row behind its step
 *     boundary: while less than free_fraction of the pool is free: demote the next
 *     reclaim:  until enough is free: demote the next
 *     the next: in demote_order among whole requests for which it pays
 *
 * A demoted request keeps a hot cache and its tail; nothing of its history comes back.
 *
 * Source: what SGLang's HiSparse does at the hand-over from prefill (all layers copied to
 * host, then the hot buffer is allocated and the device pages freed; hisparse_coordinator.py
 * @009e640a), done under pressure instead of always, which its users ask for: #23935 and
 * #30266, "residency while HBM is spare". */
#include "ranges.h"

enum {
    PARAM_FREE_FRACTION,
    PARAM_DEMOTE_ORDER
};

enum {
    DEMOTE_LARGEST = 0,
    DEMOTE_OLDEST,
    DEMOTE_NEWEST
};

static const struct kvt_param_spec demote_params[] = {
    [PARAM_FREE_FRACTION] = {.name = "free_fraction",
                             .help = "Share of the pool that is kept free by demoting; 0: only "
                                     "what is asked for is made room for.",
                             .type = KVT_PARAM_REAL,
                             .minimum = 0,
                             .maximum = 1,
                             .default_number = 0},
    [PARAM_DEMOTE_ORDER] = {.name = "demote_order",
                            .help = "Who goes first: the request that frees most bytes, or the "
                                    "one with the lowest or highest id.",
                            .type = KVT_PARAM_CHOICE,
                            .default_text = "largest",
                            .choices = "largest|oldest|newest"},
};

struct demote {
    double free_bytes;
    uint32_t order;
};

static size_t demote_state_bytes(const struct kvt_residency_env *env)
{
    (void)env;
    return sizeof(struct demote);
}

static kvt_status demote_init(void *state, const struct kvt_residency_env *env,
                              struct kvt_error *err)
{
    struct demote *demote = state;
    const struct kvt_param_value *values = env->params.values;

    (void)err;
    *demote =
        (struct demote){.free_bytes = values[PARAM_FREE_FRACTION].number * (double)env->pool_bytes,
                        .order = (uint32_t)values[PARAM_DEMOTE_ORDER].number};
    return KVT_OK;
}

static void demote_needs(const void *state, struct kvt_residency_needs *needs)
{
    (void)state;
    *needs = (struct kvt_residency_needs){
        .starts_whole = true, .host_backing = true, .optional_pages = true, .keeps_aside = true};
}

/* The request after `previous` in the order; request_count: none. */
static uint32_t next(const struct demote *demote, const struct kvt_residency_view *view,
                     uint32_t previous)
{
    uint32_t count = view->request_count;

    if (demote->order == DEMOTE_LARGEST)
        return residency_next(view, residency_reclaimable_bytes, previous);
    uint32_t step = demote->order == DEMOTE_OLDEST ? 1 : UINT32_MAX;
    uint32_t i = previous == count ? (step == 1 ? 0 : count - 1) : previous + step;
    while (i < count && view->requests[i].reclaimable_bytes == 0)
        i += step;
    return i < count ? i : count;
}

/* Pages that a demoted request had to keep, and now need not, go with it. */
static void make_free(const struct demote *demote, const struct kvt_residency_view *view,
                      double want_bytes, struct residency_actions *actions)
{
    double freed_bytes = 0;

    for (uint32_t i = next(demote, view, view->request_count);
         i < view->request_count && freed_bytes < want_bytes; i = next(demote, view, i)) {
        if (!residency_add(actions, KVT_RESIDENCY_DEMOTE, view->requests[i].id, 0, 0))
            return;
        freed_bytes += (double)view->requests[i].reclaimable_bytes;
    }
}

static uint32_t demote_boundary(void *state, const struct kvt_residency_view *view,
                                struct kvt_residency_action *list, uint32_t capacity)
{
    const struct demote *demote = state;
    struct residency_actions actions = {list, 0, capacity};

    make_free(demote, view, demote->free_bytes - (double)view->free_bytes, &actions);
    return actions.count;
}

static uint32_t demote_reclaim(void *state, const struct kvt_residency_view *view,
                               uint64_t want_bytes, struct kvt_residency_action *list,
                               uint32_t capacity)
{
    struct residency_actions actions = {list, 0, capacity};

    make_free(state, view, (double)want_bytes, &actions);
    return actions.count;
}

const struct kvt_residency_policy kvt_residency_sglang_demote = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof(struct kvt_residency_policy),
             .name = "sglang-demote",
             .summary = "all in HBM until it runs short, then whole requests keep a hot cache",
             .params = demote_params,
             .param_count = sizeof demote_params / sizeof demote_params[0]},
    .state_bytes = demote_state_bytes,
    .init = demote_init,
    .needs = demote_needs,
    .boundary = demote_boundary,
    .reclaim = demote_reclaim,
};
