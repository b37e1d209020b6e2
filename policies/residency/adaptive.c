/* adaptive -- optional history fills spare HBM and is released under pressure.
 *
 *     boundary: while spare HBM and the refill rate allow:
 *                   the request with fewest pages in HBM (tie: lower id)
 *                   gets its highest missing page
 *     reclaim:  until enough is free:
 *                   the request with most optional pages (tie: lower id)
 *                   gives up its lowest optional page
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
 * selected rows from host without optional history, 1.4 % with it). */
#include "kvt/policy.h"

enum {
    PARAM_CAPACITY_FRACTION,
    PARAM_REFILL_GB_PER_S
};

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
};

struct adaptive {
    double capacity_fraction;
    double refill_bytes_per_ns;
    double credit_bytes; /* refill allowed so far and not used */
    uint64_t page_bytes;
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
    return KVT_OK;
}

static void adaptive_needs(const void *state, struct kvt_residency_needs *needs)
{
    (void)state;
    *needs = (struct kvt_residency_needs){.host_backing = true, .optional_pages = true};
}

static bool is_set(const uint64_t *bits, uint32_t page)
{
    return bits[page / 64] >> page % 64 & 1;
}

static bool is_optional(const struct kvt_residency_request *request, uint32_t page)
{
    return is_set(request->resident_bits, page) && !is_set(request->filling_bits, page);
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

/* Refills the `want` highest missing pages of one request, as ranges. */
static uint32_t refill(const struct kvt_residency_request *request, uint32_t want,
                       struct kvt_residency_action *actions, uint32_t capacity)
{
    uint32_t written = 0;

    for (uint32_t page = request->eligible_pages; page-- > 0 && want > 0;) {
        if (is_set(request->resident_bits, page))
            continue;
        if (written > 0 && actions[written - 1].first == page + 1) {
            actions[written - 1].first--;
            actions[written - 1].count++;
        } else {
            if (written == capacity)
                break;
            actions[written++] =
                (struct kvt_residency_action){KVT_RESIDENCY_REFILL, request->id, page, 1};
        }
        want--;
    }
    return written;
}

/* Releases the `want` lowest optional pages of one request, as ranges. */
static uint32_t release(const struct kvt_residency_request *request, uint32_t want,
                        struct kvt_residency_action *actions, uint32_t capacity)
{
    uint32_t written = 0;

    for (uint32_t page = 0; page < request->eligible_pages && want > 0; page++) {
        if (!is_optional(request, page))
            continue;
        if (written > 0 && actions[written - 1].first + actions[written - 1].count == page) {
            actions[written - 1].count++;
        } else {
            if (written == capacity)
                break;
            actions[written++] =
                (struct kvt_residency_action){KVT_RESIDENCY_RELEASE, request->id, page, 1};
        }
        want--;
    }
    return written;
}

/* Pages that may come in now: what the rate has allowed, and what fits. */
static uint64_t refill_budget(struct adaptive *adaptive, const struct kvt_residency_view *view)
{
    double optional_bytes = (double)view->used_bytes[KVT_MEM_PAYLOAD];
    double limit = adaptive->capacity_fraction * ((double)view->free_bytes + optional_bytes);
    double room = limit - optional_bytes;
    double second = adaptive->refill_bytes_per_ns * (double)KVT_NS_PER_S;

    if (room > (double)view->free_bytes)
        room = (double)view->free_bytes;
    /* Credit is kept for a second at most: an idle spell is no licence for a burst. */
    adaptive->credit_bytes += adaptive->refill_bytes_per_ns * (double)view->since_boundary_ns;
    if (adaptive->credit_bytes > second)
        adaptive->credit_bytes = second;
    double bytes = adaptive->credit_bytes < room ? adaptive->credit_bytes : room;
    return bytes > 0 ? (uint64_t)bytes / adaptive->page_bytes : 0;
}

static uint32_t adaptive_boundary(void *state, const struct kvt_residency_view *view,
                                  struct kvt_residency_action *actions, uint32_t capacity)
{
    struct adaptive *adaptive = state;
    uint64_t budget = refill_budget(adaptive, view);
    uint32_t low = 0, high = most_pages(view), written = 0;

    /* With requests waiting for memory, a page brought up now goes again at once. */
    if (view->queue_length > 0)
        return 0;
    uint64_t wanted = pages_to_level(view, high);
    if (budget > wanted)
        budget = wanted;
    if (budget == 0)
        return 0;
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
    for (uint32_t i = 0; i < view->request_count && written < capacity; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        uint32_t eligible = request->eligible_pages, level = high - 1;
        uint32_t below = level < eligible ? level : eligible;
        uint32_t want = below > in_hbm(request) ? below - in_hbm(request) : 0;
        if (remainder > 0 && eligible >= high && in_hbm(request) < high) {
            want++;
            remainder--;
        }
        uint32_t more = refill(request, want, actions + written, capacity - written);
        for (uint32_t a = 0; a < more; a++)
            taken += actions[written + a].count;
        written += more;
    }
    adaptive->credit_bytes -= (double)(taken * adaptive->page_bytes);
    return written;
}

static uint32_t adaptive_reclaim(void *state, const struct kvt_residency_view *view,
                                 uint64_t want_bytes, struct kvt_residency_action *actions,
                                 uint32_t capacity)
{
    const struct adaptive *adaptive = state;
    uint64_t want = (want_bytes + adaptive->page_bytes - 1) / adaptive->page_bytes;
    uint64_t all = pages_above_level(view, 0);
    uint32_t low = 0, high = most_pages(view), written = 0;

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
    for (uint32_t i = 0; i < view->request_count && written < capacity; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        uint32_t pages = request->optional_pages;
        uint32_t go = pages > low + 1 ? pages - (low + 1) : 0;
        if (remainder > 0 && pages > low) {
            go++;
            remainder--;
        }
        written += release(request, go, actions + written, capacity - written);
    }
    return written;
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
};
