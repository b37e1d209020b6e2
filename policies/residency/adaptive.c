/* adaptive -- optional history fills spare HBM and is released under pressure.
 *
 *     boundary: while spare HBM and the refill rate allow:
 *                   the request with fewest pages in HBM (tie: lower id)
 *                   gets its highest missing page
 *     reclaim:  until enough is free:
 *                   the request with most optional pages (tie: lower id)
 *                   gives up its lowest optional page
 *     landing:  a history that comes in fills its share of spare HBM
 *     backup:   new rows are written to host at once; or, while HBM is spare, later
 *
 * Both rules move one page at a time, so that coverage is levelled across
 * requests. They are carried out here as water-filling: find the level that the
 * rule would stop at, move everybody to it, and let the lowest ids make up the
 * remainder -- the same pages, without the loop.
 *
 * Source: "Adaptive DHiSparse: Speculative Decoding over a Load-Adaptive KV
 * Hierarchy", figures 2 and 6. What keeps coverage below 1 at low load there is
 * not stated; optional_capacity_fraction and refill_gb_per_s are the two
 * candidates, and the refill rate is calibrated to its figure 6 (14.2 % of
 * selected rows from host without optional history, 1.4 % with it). Whether its "imported
 * history" fills HBM as it comes in is landing_fraction; docs/residency.md says what either
 * end of it does to figure 6. Deferred backup is the paper's too: "host backup can be
 * deferred while HBM is spare, an unbacked row stays protected". */
#include "ranges.h"

enum {
    PARAM_CAPACITY_FRACTION,
    PARAM_REFILL_GB_PER_S,
    PARAM_LANDING_FRACTION,
    PARAM_BACKUP_BELOW_FRACTION,
    PARAM_BACKUP_GB_PER_S,
    PARAM_LANDING_WRITES_LATER,
    PARAM_RELEASE_ORDER,
    PARAM_REFILL_ORDER
};

#define WRITTEN_AT_ONCE                                                                            \
    {                                                                                              \
        .beside = "backup_below_fraction", .from = 1, .to = 1,                                     \
        .cure = "a backup_below_fraction below 1"                                                  \
    }

static const struct kvt_param_spec adaptive_params[] = {
    [PARAM_CAPACITY_FRACTION] = {.name = "optional_capacity_fraction",
                                 .help = "Share of spare HBM that optional history may take.",
                                 .type = KVT_PARAM_REAL,
                                 .minimum = 0,
                                 .maximum = 1,
                                 .default_number = 1},
    [PARAM_REFILL_GB_PER_S] = {.name = "refill_gb_per_s",
                               .help = "Rate at which a GPU brings optional pages up from host "
                                       "(1e9 bytes/s).",
                               .type = KVT_PARAM_REAL,
                               .minimum = 0,
                               .maximum = 1000,
                               .default_number = 0.6,
                               .calibrated_to = "host share of the paper's load step, Fig 6"},
    [PARAM_LANDING_FRACTION] = {.name = "landing_fraction",
                                .help = "Share of spare HBM that a history may fill as it comes in "
                                        "while nobody waits for room; the rest lands on host.",
                                .type = KVT_PARAM_REAL,
                                .minimum = 0,
                                .maximum = 1,
                                .default_number = 0},
    [PARAM_BACKUP_BELOW_FRACTION] = {.name = "backup_below_fraction",
                                     .help = "New rows are written to host once less than this "
                                             "share of the pool is free, or somebody waits for "
                                             "room; 1: always, behind the step that made them.",
                                     .type = KVT_PARAM_REAL,
                                     .minimum = 0,
                                     .maximum = 1,
                                     .default_number = 1},
    [PARAM_BACKUP_GB_PER_S] = {.name = "backup_gb_per_s",
                               .help = "Rate at which a GPU writes rows to host that could wait "
                                       "(1e9 bytes/s), oldest first.",
                               .type = KVT_PARAM_REAL,
                               .minimum = 0,
                               .maximum = 1000,
                               .default_number = 0,
                               .idle = {WRITTEN_AT_ONCE}},
    [PARAM_LANDING_WRITES_LATER] = {.name = "landing_writes_later",
                                    .help = "Pages that land in HBM get their copy on host later, "
                                            "by the same rule as new rows.",
                                    .type = KVT_PARAM_BOOL,
                                    .maximum = 1,
                                    .idle = {WRITTEN_AT_ONCE,
                                             {.beside = "landing_fraction",
                                              .cure = "a landing_fraction above 0"}}},
    [PARAM_RELEASE_ORDER] = {.name = "release_order",
                             .help = "Which pages of a request go first.",
                             .type = KVT_PARAM_CHOICE,
                             .default_text = "lowest",
                             .choices = RESIDENCY_ORDERS},
    [PARAM_REFILL_ORDER] = {.name = "refill_order",
                            .help = "Which pages of a request come up first.",
                            .idle = {{.beside = "refill_gb_per_s",
                                      .cure = "a refill_gb_per_s above 0"}},
                            .type = KVT_PARAM_CHOICE,
                            .default_text = "highest",
                            .choices = RESIDENCY_ORDERS},
};

struct adaptive {
    double capacity_fraction;
    double refill_bytes_per_ns;
    double credit_bytes; /* refill allowed so far and not used */
    uint64_t page_bytes, pool_bytes;
    double landing_fraction;
    double backup_below_fraction;
    double backup_bytes_per_ns;
    double backup_credit_bytes; /* as credit_bytes */
    bool landing_writes_later;
    uint32_t release_order, refill_order;
};

static size_t adaptive_state_bytes(const struct kvt_residency_env *env)
{
    (void)env;
    return sizeof(struct adaptive);
}

static kvt_status adaptive_init(void *state, const struct kvt_residency_env *env,
                                struct kvt_error *err)
{
    struct adaptive *adaptive = state;

    (void)err;
    adaptive->capacity_fraction = env->params.values[PARAM_CAPACITY_FRACTION].number;
    adaptive->refill_bytes_per_ns = env->params.values[PARAM_REFILL_GB_PER_S].number;
    adaptive->page_bytes = env->page_bytes;
    adaptive->pool_bytes = env->pool_bytes;
    adaptive->landing_fraction = env->params.values[PARAM_LANDING_FRACTION].number;
    adaptive->backup_below_fraction = env->params.values[PARAM_BACKUP_BELOW_FRACTION].number;
    adaptive->backup_bytes_per_ns = env->params.values[PARAM_BACKUP_GB_PER_S].number;
    adaptive->landing_writes_later = env->params.values[PARAM_LANDING_WRITES_LATER].number != 0 &&
                                     adaptive->backup_below_fraction < 1;
    adaptive->release_order = (uint32_t)env->params.values[PARAM_RELEASE_ORDER].number;
    adaptive->refill_order = (uint32_t)env->params.values[PARAM_REFILL_ORDER].number;
    return KVT_OK;
}

static void adaptive_needs(const void *state, struct kvt_residency_needs *needs)
{
    const struct adaptive *adaptive = state;

    *needs = (struct kvt_residency_needs){.host_backing = true,
                                          .optional_pages = true,
                                          .deferred_backup = adaptive->backup_below_fraction < 1,
                                          .keeps_aside = true};
}

static uint32_t in_hbm(const struct kvt_residency_request *request)
{
    return request->optional_pages + request->filling_pages;
}

/* Pages that would come in if every request were filled up to `level`. */
static uint64_t pages_to_level(const struct kvt_residency_view *view, uint32_t level)
{
    uint64_t pages = 0;

    for (uint32_t i = 0; i < view->request_count; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        uint32_t top = level < request->eligible_pages ? level : request->eligible_pages;
        if (top > in_hbm(request))
            pages += top - in_hbm(request);
    }
    return pages;
}

/* Pages that would go if every request were cut down to `level`. */
static uint64_t pages_above_level(const struct kvt_residency_view *view, uint32_t level)
{
    uint64_t pages = 0;

    for (uint32_t i = 0; i < view->request_count; i++) {
        if (view->requests[i].optional_pages > level)
            pages += view->requests[i].optional_pages - level;
    }
    return pages;
}

static uint32_t most_pages(const struct kvt_residency_view *view)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < view->request_count; i++) {
        if (view->requests[i].eligible_pages > most)
            most = view->requests[i].eligible_pages;
    }
    return most;
}

/* Bytes of spare HBM that optional history may take and has not. */
static double spare_bytes(const struct adaptive *adaptive, const struct kvt_residency_view *view)
{
    double optional_bytes = (double)view->used_bytes[KVT_MEM_PAYLOAD];
    double limit = adaptive->capacity_fraction * ((double)view->free_bytes + optional_bytes);
    double room = limit - optional_bytes;

    return room < (double)view->free_bytes ? room : (double)view->free_bytes;
}

/* Credit is kept for a second at most: an idle spell is no licence for a burst. */
static void give_credit(double *credit_bytes, double bytes_per_ns, kvt_ns since_ns)
{
    double second = bytes_per_ns * (double)KVT_NS_PER_S;

    *credit_bytes += bytes_per_ns * (double)since_ns;
    if (*credit_bytes > second)
        *credit_bytes = second;
}

/* Pages that may come in now: what the rate has allowed, and what fits. */
static uint64_t refill_budget(struct adaptive *adaptive, const struct kvt_residency_view *view)
{
    double room = spare_bytes(adaptive, view);

    give_credit(&adaptive->credit_bytes, adaptive->refill_bytes_per_ns, view->since_boundary_ns);
    double bytes = adaptive->credit_bytes < room ? adaptive->credit_bytes : room;
    return bytes > 0 ? (uint64_t)bytes / adaptive->page_bytes : 0;
}

static void refill_pages(struct adaptive *adaptive, const struct kvt_residency_view *view,
                         struct residency_actions *actions)
{
    uint64_t budget = refill_budget(adaptive, view);
    uint32_t low = 0, high = most_pages(view);

    /* With requests waiting for memory, a page brought up now goes again at once. */
    if (view->queue_length > 0)
        return;
    uint64_t wanted = pages_to_level(view, high);
    if (budget > wanted)
        budget = wanted;
    if (budget == 0)
        return;
    /* The lowest level whose filling takes the whole budget. */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (pages_to_level(view, middle) >= budget)
            high = middle;
        else
            low = middle + 1;
    }
    uint64_t remainder = budget - pages_to_level(view, high - 1);
    uint64_t taken = 0;
    for (uint32_t i = 0; i < view->request_count && actions->count < actions->capacity; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        uint32_t eligible = request->eligible_pages, level = high - 1;
        uint32_t below = level < eligible ? level : eligible;
        uint32_t want = below > in_hbm(request) ? below - in_hbm(request) : 0;
        if (remainder > 0 && eligible >= high && in_hbm(request) < high) {
            want++;
            remainder--;
        }
        taken +=
            residency_move(actions, KVT_RESIDENCY_REFILL, request, adaptive->refill_order, want);
    }
    adaptive->credit_bytes -= (double)(taken * adaptive->page_bytes);
}

/* Rows whose write-back was put off: all of them once HBM is no longer spare, else the pages
 * that the rate allows, from the lowest id on. */
static void write_back(struct adaptive *adaptive, const struct kvt_residency_view *view,
                       struct residency_actions *actions)
{
    double floor = adaptive->backup_below_fraction * (double)adaptive->pool_bytes;
    bool all = view->queue_length > 0 || (double)view->free_bytes < floor;

    if (adaptive->backup_below_fraction >= 1)
        return;
    give_credit(&adaptive->backup_credit_bytes, adaptive->backup_bytes_per_ns,
                view->since_boundary_ns);
    for (uint32_t i = 0; i < view->request_count; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        uint32_t pages = (uint32_t)(adaptive->backup_credit_bytes / (double)adaptive->page_bytes);
        uint32_t first = request->queued_tokens / KVT_PAGE_ROWS;
        uint32_t whole = request->context_tokens / KVT_PAGE_ROWS;
        uint32_t upto = pages < whole - first ? first + pages : whole;
        uint32_t tokens = all ? request->context_tokens : upto * KVT_PAGE_ROWS;
        if (tokens <= request->queued_tokens)
            continue;
        if (!residency_add(actions, KVT_RESIDENCY_BACKUP, request->id, 0, tokens))
            return;
        if (!all)
            adaptive->backup_credit_bytes -= (double)((upto - first) * adaptive->page_bytes);
    }
}

static uint32_t adaptive_boundary(void *state, const struct kvt_residency_view *view,
                                  struct kvt_residency_action *list, uint32_t capacity)
{
    struct residency_actions actions = {list, 0, capacity};

    write_back(state, view, &actions);
    refill_pages(state, view, &actions);
    return actions.count;
}

static uint32_t adaptive_reclaim(void *state, const struct kvt_residency_view *view,
                                 uint64_t want_bytes, struct kvt_residency_action *list,
                                 uint32_t capacity)
{
    const struct adaptive *adaptive = state;
    struct residency_actions actions = {list, 0, capacity};
    uint64_t want = (want_bytes + adaptive->page_bytes - 1) / adaptive->page_bytes;
    uint64_t all = pages_above_level(view, 0);
    uint32_t low = 0, high = most_pages(view);

    if (want > all)
        want = all;
    if (want == 0)
        return 0;
    /* The highest level whose cutting frees enough. */
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (pages_above_level(view, middle) >= want)
            low = middle;
        else
            high = middle - 1;
    }
    uint64_t remainder = want - pages_above_level(view, low + 1);
    for (uint32_t i = 0; i < view->request_count && actions.count < capacity; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        uint32_t pages = request->optional_pages;
        uint32_t go = pages > low + 1 ? pages - (low + 1) : 0;
        if (remainder > 0 && pages > low) {
            go++;
            remainder--;
        }
        (void)residency_move(&actions, KVT_RESIDENCY_RELEASE, request, adaptive->release_order, go);
    }
    return actions.count;
}

/* Spare HBM is filled as histories come in, unless others wait for it. */
static void adaptive_landing(void *state, const struct kvt_residency_view *view,
                             const struct kvt_residency_import *import,
                             struct kvt_residency_landing *landing)
{
    const struct adaptive *adaptive = state;
    double bytes = adaptive->landing_fraction * spare_bytes(adaptive, view);
    double pages = bytes / (double)adaptive->page_bytes;

    if (view->queue_length > 0 || pages < 1)
        return;
    landing->pages = pages < (double)import->page_count ? (uint32_t)pages : import->page_count;
    landing->write_later = adaptive->landing_writes_later;
}

const struct kvt_residency_policy kvt_residency_adaptive = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof(struct kvt_residency_policy),
             .name = "adaptive",
             .summary = "optional history fills spare HBM and is released under pressure",
             .params = adaptive_params,
             .param_count = sizeof adaptive_params / sizeof adaptive_params[0]},
    .state_bytes = adaptive_state_bytes,
    .init = adaptive_init,
    .needs = adaptive_needs,
    .boundary = adaptive_boundary,
    .reclaim = adaptive_reclaim,
    .landing = adaptive_landing,
};
