/* vllm-hybrid -- pages stay pinned in HBM until it runs short, then requests get a hot region.
 *
 *     start:    whole where the history fits, else with a hot region
 *     boundary: pages that are full are written to host, within a budget a step
 *               free < max(hot region, watermark), or somebody waits:
 *                   each whole request for which it pays gets a hot region from the next
 *                   boundary on; its clean pages are then unpinned, and where the region
 *                   finds no room, the highest of them go for it
 *     reclaim:  the request with most unpinned pages gives them up, tail first, so that the
 *               head of its prefix is evicted last; then the next one; then whole requests
 *               give up everything that is clean, most bytes first
 *
 * Source: vLLM's write-back resident tier, #56109 @056d40b3: eager write-back of sealed
 * pages within a per-step budget; transition watermark max(hot_cost, num_blocks // 10);
 * hot region allocated in the next scheduling pass; clean sealed pages unpinned tail first;
 * and of its forerunner in #53781 the rule that a conversion must pay: pages freed > hot
 * cost. There unpinned blocks of all requests are evicted in the order in which they were
 * unpinned; here most pages first, as #53781 sorts. Differs from it in the tail, one page
 * here and two there; and rows that would leave the tail while memory is short are written
 * at once, not by the page. */
#include "ranges.h"

enum {
    PARAM_WATERMARK_FRACTION,
    PARAM_BACKUP_PAGES,
    PARAM_RELEASE_ORDER
};

static const struct kvt_param_spec hybrid_params[] = {
    [PARAM_WATERMARK_FRACTION] = {.name = "watermark_fraction",
                                  .help = "Share of the pool below which free bytes are short; "
                                          "one hot region is the least.",
                                  .type = KVT_PARAM_REAL,
                                  .minimum = 0,
                                  .maximum = 1,
                                  .default_number = 0.1},
    [PARAM_BACKUP_PAGES] = {.name = "backup_pages",
                            .help = "Full pages that a rank may begin to write to host at one step "
                                    "boundary.",
                            .type = KVT_PARAM_COUNT,
                            .minimum = 1,
                            .maximum = 1e6,
                            .default_number = 256},
    [PARAM_RELEASE_ORDER] = {.name = "release_order",
                             .help = "Which unpinned pages of a request go first.",
                             .type = KVT_PARAM_CHOICE,
                             .default_text = "highest",
                             .choices = RESIDENCY_ORDERS},
};

struct hybrid {
    double watermark_bytes;
    uint64_t page_bytes;
    uint32_t hot_tokens;
    uint32_t backup_pages;
    uint32_t release_order;
};

static size_t hybrid_state_bytes(const struct kvt_residency_env *env)
{
    (void)env;
    return sizeof(struct hybrid);
}

static kvt_status hybrid_init(void *state, const struct kvt_residency_env *env,
                              struct kvt_error *err)
{
    struct hybrid *hybrid = state;
    const struct kvt_param_value *values = env->params.values;

    (void)err;
    *hybrid = (struct hybrid){.watermark_bytes =
                                  values[PARAM_WATERMARK_FRACTION].number * (double)env->pool_bytes,
                              .page_bytes = env->page_bytes,
                              .hot_tokens = (uint32_t)env->hot_tokens,
                              .backup_pages = (uint32_t)values[PARAM_BACKUP_PAGES].number,
                              .release_order = (uint32_t)values[PARAM_RELEASE_ORDER].number};
    return KVT_OK;
}

static void hybrid_needs(const void *state, struct kvt_residency_needs *needs)
{
    (void)state;
    *needs = (struct kvt_residency_needs){.starts_whole = true,
                                          .host_backing = true,
                                          .optional_pages = true,
                                          .deferred_backup = true,
                                          .keeps_aside = true};
}

static bool is_short(const struct hybrid *hybrid, const struct kvt_residency_view *view,
                     const struct kvt_residency_request *request)
{
    return view->queue_length > 0 || view->free_bytes < request->hot_cost_bytes ||
           (double)view->free_bytes < hybrid->watermark_bytes;
}

/* Full pages; row by row for a hot region in a full pool, whose tail could keep no page. */
static void write_back(const struct hybrid *hybrid, const struct kvt_residency_view *view,
                       struct residency_actions *actions)
{
    uint32_t budget_tokens = hybrid->backup_pages * KVT_PAGE_ROWS;

    for (uint32_t i = 0; i < view->request_count && budget_tokens > 0; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        uint32_t tokens = request->context_tokens;
        if (request->hot_tokens == 0 || !is_short(hybrid, view, request))
            tokens -= tokens % KVT_PAGE_ROWS;
        if (tokens <= request->queued_tokens)
            continue;
        uint32_t count = tokens - request->queued_tokens;
        count = count < budget_tokens ? count : budget_tokens;
        if (!residency_add(actions, KVT_RESIDENCY_BACKUP, request->id, 0,
                           request->queued_tokens + count))
            return;
        budget_tokens -= count;
    }
}

/* Whole requests get their hot regions: out of free bytes as long as these last, then out of
 * their own pages. */
static void mark(const struct hybrid *hybrid, const struct kvt_residency_view *view,
                 struct residency_actions *actions)
{
    uint64_t free_bytes = view->free_bytes;

    for (uint32_t i = 0; i < view->request_count; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        if (request->hot_tokens > 0 || request->next_hot_tokens > 0 ||
            request->reclaimable_bytes == 0 || !is_short(hybrid, view, request))
            continue;
        uint64_t cost_bytes = request->hot_cost_bytes;
        uint64_t go = (cost_bytes + hybrid->page_bytes - 1) / hybrid->page_bytes;
        uint32_t stay = request->clean_pages;
        if (cost_bytes <= free_bytes)
            free_bytes -= cost_bytes;
        else
            stay -= go < stay ? (uint32_t)go : stay;
        if (!residency_add(actions, KVT_RESIDENCY_RESIZE, request->id, stay, hybrid->hot_tokens))
            return;
    }
}

static uint32_t hybrid_boundary(void *state, const struct kvt_residency_view *view,
                                struct kvt_residency_action *list, uint32_t capacity)
{
    const struct hybrid *hybrid = state;
    struct residency_actions actions = {list, 0, capacity};

    mark(hybrid, view, &actions);
    write_back(hybrid, view, &actions);
    return actions.count;
}

static uint32_t hybrid_reclaim(void *state, const struct kvt_residency_view *view,
                               uint64_t want_bytes, struct kvt_residency_action *list,
                               uint32_t capacity)
{
    const struct hybrid *hybrid = state;
    struct residency_actions actions = {list, 0, capacity};
    uint64_t freed_bytes = 0;

    for (uint32_t i = residency_next(view, residency_optional_pages, view->request_count);
         i < view->request_count && freed_bytes < want_bytes && actions.count < capacity;
         i = residency_next(view, residency_optional_pages, i)) {
        uint64_t want = (want_bytes - freed_bytes + hybrid->page_bytes - 1) / hybrid->page_bytes;
        uint32_t pages = view->requests[i].optional_pages;
        freed_bytes += hybrid->page_bytes *
                       residency_move(&actions, KVT_RESIDENCY_RELEASE, &view->requests[i],
                                      hybrid->release_order, want < pages ? (uint32_t)want : pages);
    }
    for (uint32_t i = residency_next(view, residency_reclaimable_bytes, view->request_count);
         i < view->request_count && freed_bytes < want_bytes;
         i = residency_next(view, residency_reclaimable_bytes, i)) {
        if (view->requests[i].hot_tokens > 0)
            continue;
        if (!residency_add(&actions, KVT_RESIDENCY_DEMOTE, view->requests[i].id, 0, 0))
            break;
        freed_bytes += view->requests[i].reclaimable_bytes;
    }
    return actions.count;
}

const struct kvt_residency_policy kvt_residency_vllm_hybrid = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof(struct kvt_residency_policy),
             .name = "vllm-hybrid",
             .summary = "pages pinned in HBM until it runs short, then a hot region and eviction",
             .params = hybrid_params,
             .param_count = sizeof hybrid_params / sizeof hybrid_params[0]},
    .state_bytes = hybrid_state_bytes,
    .init = hybrid_init,
    .needs = hybrid_needs,
    .boundary = hybrid_boundary,
    .reclaim = hybrid_reclaim,
};
