/* hot_pages.c -- keeps, of each request, the pages selected most (docs/writing-a-policy.md).
 *
 *     boundary: while nobody waits, at a rate: the request with fewest pages in HBM gets the pages
 *               selected most of those on host; with HBM full, that with most gives up as many
 *     reclaim:  the request with most optional pages gives up the least selected (ties: lowest) */
#include "kvt/policy.h"

struct hot_pages {
    double page_bytes, bytes_per_ns, credit_bytes; /* of refills: the rate, what it allows so far */
};

static const struct kvt_param_spec rate = {
    .name = "refill_gb_per_s",
    .help = "Rate at which a GPU brings optional pages up (1e9 bytes/s).",
    .type = KVT_PARAM_REAL,
    .maximum = 1000,
    .default_number = 0.6};

static size_t state_bytes(const struct kvt_residency_env *env)
{
    (void)env;
    return sizeof(struct hot_pages);
}

static kvt_status init(void *state, const struct kvt_residency_env *env, struct kvt_error *err)
{
    (void)err;
    *(struct hot_pages *)state =
        (struct hot_pages){(double)env->page_bytes, env->params.values[0].number, 0};
    return KVT_OK;
}

static void needs(const void *state, struct kvt_residency_needs *out)
{
    (void)state;
    *out = (struct kvt_residency_needs){.host_backing = true, .optional_pages = true};
}

static int worth(const struct kvt_residency_request *of, uint32_t page, bool up)
{
    return up ? of->page_hits[page] : -of->page_hits[page];
}

/* Writes a move of each of the request's `want` best pages: of those on host the ones selected
 * most, of optional ones those selected least. Returns how many there were; one more is scratch. */
static uint32_t move_pages(const struct kvt_residency_request *of, bool up, uint32_t want,
                           struct kvt_residency_action *actions)
{
    uint16_t verb = up ? KVT_RESIDENCY_REFILL : KVT_RESIDENCY_RELEASE;
    uint32_t count = 0;

    for (uint32_t page = 0; page < of->eligible_pages && want > 0; page++) {
        uint64_t hbm = of->resident_bits[page / 64], optional = hbm & ~of->filling_bits[page / 64];
        uint32_t at = count;
        if (((up ? ~hbm : optional) >> page % 64 & 1) == 0)
            continue;
        for (; at > 0 && worth(of, actions[at - 1].first, up) < worth(of, page, up); at--)
            actions[at] = actions[at - 1];
        actions[at] = (struct kvt_residency_action){verb, of->id, page, 1};
        count += count < want;
    }
    return count;
}

/* The request with most optional pages, or with fewest pages in HBM of those that lack some. */
static const struct kvt_residency_request *find(const struct kvt_residency_view *view, bool most)
{
    const struct kvt_residency_request *found = NULL;
    uint32_t best = 0;

    for (uint32_t i = 0; i < view->request_count; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        uint32_t pages = request->optional_pages + (most ? 0 : request->filling_pages);
        if (most ? pages > best : pages < request->eligible_pages && (!found || pages < best)) {
            found = request;
            best = pages;
        }
    }
    return found;
}

static uint32_t reclaim(void *state, const struct kvt_residency_view *view, uint64_t want_bytes,
                        struct kvt_residency_action *actions, uint32_t capacity)
{
    const struct kvt_residency_request *most = find(view, true);
    double want = (double)want_bytes / ((struct hot_pages *)state)->page_bytes + 1;

    return most ? move_pages(most, false, want < capacity ? (uint32_t)want : capacity - 1, actions)
                : 0;
}

static uint32_t boundary(void *state, const struct kvt_residency_view *view,
                         struct kvt_residency_action *actions, uint32_t capacity)
{
    struct hot_pages *hot = state;
    const struct kvt_residency_request *fewest = find(view, false);
    uint32_t down = 0;

    hot->credit_bytes += hot->bytes_per_ns * (double)view->since_boundary_ns;
    uint64_t pages = (uint64_t)(hot->credit_bytes / hot->page_bytes);
    hot->credit_bytes -= (double)pages * hot->page_bytes;
    if (!fewest || view->queue_length > 0)
        return 0;
    pages = pages < capacity / 4 ? pages : capacity / 4;
    if ((double)pages * hot->page_bytes > (double)view->free_bytes)
        pages = down = reclaim(state, view, UINT64_MAX, actions, (uint32_t)pages + 1);
    return down + move_pages(fewest, true, (uint32_t)pages, actions + down);
}

static const struct kvt_residency_policy hot_pages = {
    .info = {KVT_ABI_VERSION, sizeof hot_pages, "hot-pages",
             "of each request, the pages selected most stay in HBM", &rate, 1},
    .wants_page_hits = true,
    .state_bytes = state_bytes,
    .init = init,
    .needs = needs,
    .boundary = boundary,
    .reclaim = reclaim};
KVT_PLUGIN(KVT_PLUGIN_RESIDENCY, hot_pages)
