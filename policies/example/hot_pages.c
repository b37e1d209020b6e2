/* hot_pages.c -- a residency policy of one's own: pages that are selected most stay in HBM.
 *
 *     boundary: as long as the refill rate allows and nobody waits for memory:
 *                   the most selected page on host (tie: lower id, lower page) comes up,
 *                   into spare HBM, or for the least selected optional page if that one
 *                   was selected less than half as often
 *     reclaim:  the least selected optional pages go first
 *
 * It sees nothing that an engine could not count. docs/writing-a-policy.md takes it apart. */
#include "kvt/policy.h"

enum { MOVES = 64 }; /* at most so many at once; reclaim() is asked again */

struct hot_pages {
    uint64_t page_bytes;
    double refill_bytes_per_ns, credit_bytes;
};

struct page {
    uint32_t request, page, hits;
};

static const struct kvt_param_spec params[] = {
    {.name = "refill_gb_per_s",
     .help = "Rate at which a GPU brings optional pages up from host (1e9 bytes/s).",
     .type = KVT_PARAM_REAL,
     .minimum = 0,
     .maximum = 1000,
     .default_number = 0.6},
};

static size_t state_bytes(const struct kvt_residency_env *env)
{
    (void)env;
    return sizeof(struct hot_pages);
}

static kvt_status init(void *state, const struct kvt_residency_env *env, struct kvt_error *err)
{
    struct hot_pages *hot = state;

    (void)err;
    hot->page_bytes = env->page_bytes;
    hot->refill_bytes_per_ns = env->params.values[0].number;
    return KVT_OK;
}

static void needs(const void *state, struct kvt_residency_needs *out)
{
    (void)state;
    *out = (struct kvt_residency_needs){
        .host_backing = true, .optional_pages = true, .keeps_aside = true};
}

/* The `want` most selected pages on host, or least selected optional ones, best first. */
static uint32_t choose(const struct kvt_residency_view *view, bool on_host, uint32_t want,
                       struct page *list)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < view->request_count && want > 0; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        for (uint32_t p = 0; p < request->eligible_pages; p++) {
            bool resident = request->resident_bits[p / 64] >> p % 64 & 1;
            bool filling = request->filling_bits[p / 64] >> p % 64 & 1;
            struct page page = {request->id, p, request->page_hits[p]};
            if (filling || resident == on_host)
                continue;
            uint32_t at = count < want ? count++ : want;
            for (; at > 0 && (on_host ? list[at - 1].hits < page.hits
                                      : list[at - 1].hits > page.hits); at--) {
                if (at < want)
                    list[at] = list[at - 1];
            }
            if (at < want)
                list[at] = page;
        }
    }
    return count;
}

static uint32_t boundary(void *state, const struct kvt_residency_view *view,
                         struct kvt_residency_action *actions, uint32_t capacity)
{
    struct hot_pages *hot = state;
    struct page up[MOVES], down[MOVES];
    double second = hot->refill_bytes_per_ns * (double)KVT_NS_PER_S;
    uint64_t spare = view->free_bytes / hot->page_bytes;
    uint32_t written = 0, gone = 0;

    hot->credit_bytes += hot->refill_bytes_per_ns * (double)view->since_boundary_ns;
    hot->credit_bytes = hot->credit_bytes < second ? hot->credit_bytes : second;
    double allowed = hot->credit_bytes / (double)hot->page_bytes;
    uint32_t want = view->queue_length > 0 ? 0 : allowed < MOVES ? (uint32_t)allowed : MOVES;
    uint32_t ups = choose(view, true, want, up);
    uint32_t downs = spare < ups ? choose(view, false, ups, down) : 0;

    for (uint32_t i = 0; i < ups && written + 2 <= capacity; i++) {
        if (i >= spare && (gone == downs || down[gone].hits * 2 >= up[i].hits))
            break;
        if (i >= spare) {
            actions[written++] = (struct kvt_residency_action){
                KVT_RESIDENCY_RELEASE, down[gone].request, down[gone].page, 1};
            gone++;
        }
        actions[written++] = (struct kvt_residency_action){KVT_RESIDENCY_REFILL, up[i].request,
                                                           up[i].page, 1};
        hot->credit_bytes -= (double)hot->page_bytes;
    }
    return written;
}

static uint32_t reclaim(void *state, const struct kvt_residency_view *view, uint64_t want_bytes,
                        struct kvt_residency_action *actions, uint32_t capacity)
{
    const struct hot_pages *hot = state;
    uint64_t pages = (want_bytes + hot->page_bytes - 1) / hot->page_bytes;
    uint32_t most = capacity < MOVES ? capacity : MOVES;
    struct page down[MOVES];
    uint32_t count = choose(view, false, pages < most ? (uint32_t)pages : most, down);

    for (uint32_t i = 0; i < count; i++)
        actions[i] = (struct kvt_residency_action){KVT_RESIDENCY_RELEASE, down[i].request,
                                                   down[i].page, 1};
    return count;
}

static const struct kvt_residency_policy hot_pages = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof hot_pages,
             .name = "hot-pages",
             .summary = "pages that are selected most stay in HBM",
             .params = params,
             .param_count = sizeof params / sizeof params[0]},
    .wants_page_hits = true,
    .state_bytes = state_bytes,
    .init = init,
    .needs = needs,
    .boundary = boundary,
    .reclaim = reclaim,
};

static const struct kvt_plugin_table tables[] = {{KVT_PLUGIN_RESIDENCY, &hot_pages.info}};
KVT_PLUGIN_OBJECT(tables)
