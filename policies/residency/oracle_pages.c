/* oracle_pages.c -- a bound: the pages that will be selected most are the ones in HBM.
 *
 *     boundary: as far as the refill rate allows, while nobody waits for memory:
 *                   of all pages on host the one that will be selected most comes up, into
 *                   spare HBM, or for the optional page that will be selected least,
 *                   as long as that is less
 *     reclaim:  the optional pages that will be selected least go first
 *
 * "Will be" is what a look ahead has found: calls to come of each store, KVT_LOOK_AHEAD_CALLS at
 * least (equal: lower id, lower page). No policy can know that, so a run with it is a bound for
 * what a better choice of pages could gain at the same rate. It is greedy, and rows that the hot
 * cache would hold anyhow count as much as others: a bound in practice and not a proof. L. A.
 * Belady's rule (IBM Systems Journal 5(2), 1966), by counts, since a page is many rows. */
#include "ranges.h"

enum {
    PARAM_CLAIRVOYANT,
    PARAM_REFILL_GB_PER_S,
    MOVES = 256 /* at most so many at once; what is left comes next time */
};

static const struct kvt_param_spec oracle_params[] = {
    [PARAM_CLAIRVOYANT] = {.name = KVT_CLAIRVOYANT,
                           .help = "Sees what will be selected; the policy is nothing without.",
                           .type = KVT_PARAM_BOOL,
                           .maximum = 1,
                           .default_number = 1},
    [PARAM_REFILL_GB_PER_S] = {.name = "refill_gb_per_s",
                               .help = "Rate at which a GPU brings optional pages up from host "
                                       "(1e9 bytes/s).",
                               .type = KVT_PARAM_REAL,
                               .minimum = 0,
                               .maximum = 1000,
                               .default_number = 0.6},
};

struct oracle {
    uint64_t page_bytes;
    double refill_bytes_per_ns, credit_bytes; /* the rate, and what of it is not used */
};

struct page {
    uint32_t request, page, uses;
};

static size_t oracle_state_bytes(const struct kvt_residency_env *env)
{
    (void)env;
    return sizeof(struct oracle);
}

static kvt_status oracle_init(void *state, const struct kvt_residency_env *env,
                              struct kvt_error *err)
{
    struct oracle *oracle = state;

    if (env->params.values[PARAM_CLAIRVOYANT].number == 0)
        return env->host->fail(err, KVT_ERR_INVALID, "residency \"oracle-pages\"",
                               "clairvoyant false leaves it nothing to go by; \"adaptive\" is a "
                               "policy that does not see the future");
    oracle->page_bytes = env->page_bytes;
    oracle->refill_bytes_per_ns = env->params.values[PARAM_REFILL_GB_PER_S].number;
    return KVT_OK;
}

static void oracle_needs(const void *state, struct kvt_residency_needs *needs)
{
    (void)state;
    *needs = (struct kvt_residency_needs){
        .host_backing = true, .optional_pages = true, .keeps_aside = true};
}

/* ---- Which pages ------------------------------------------------------------------------- */

/* Puts a page among the best so far, behind those that are as good; what falls off is lost. */
static void keep(struct page *list, uint32_t *count, uint32_t want, struct page page, bool most)
{
    uint32_t at = *count;

    while (at > 0 && (most ? list[at - 1].uses < page.uses : list[at - 1].uses > page.uses))
        at--;
    if (at == want)
        return;
    uint32_t last = *count < want ? (*count)++ : want - 1;
    for (uint32_t i = last; i > at; i--)
        list[i] = list[i - 1];
    list[at] = page;
}

/* The `want` pages on host that will be selected most, or optional ones that will be least. */
static uint32_t choose(const struct kvt_residency_view *view, bool on_host, uint32_t want,
                       struct page *list)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < view->request_count && want > 0; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        for (uint32_t p = 0; p < request->eligible_pages; p++) {
            uint64_t bit = UINT64_C(1) << p % 64;
            bool in_hbm = request->resident_bits[p / 64] & bit;
            bool filling = request->filling_bits[p / 64] & bit;
            struct page page = {request->id, p, request->page_future[p]};
            if (!filling && in_hbm != on_host)
                keep(list, &count, want, page, on_host);
        }
    }
    return count;
}

/* ---- Hooks --------------------------------------------------------------------------------- */

/* Pages that the rate allows now; credit is kept for a second at most. */
static uint32_t allowed_pages(struct oracle *oracle, const struct kvt_residency_view *view)
{
    double second = oracle->refill_bytes_per_ns * (double)KVT_NS_PER_S;

    oracle->credit_bytes += oracle->refill_bytes_per_ns * (double)view->since_boundary_ns;
    if (oracle->credit_bytes > second)
        oracle->credit_bytes = second;
    double pages = oracle->credit_bytes / (double)oracle->page_bytes;
    return pages < MOVES ? (uint32_t)pages : MOVES;
}

static uint32_t oracle_boundary(void *state, const struct kvt_residency_view *view,
                                struct kvt_residency_action *list, uint32_t capacity)
{
    struct oracle *oracle = state;
    struct residency_actions actions = {list, 0, capacity};
    struct page up[MOVES], down[MOVES];
    uint32_t allowed = allowed_pages(oracle, view), gone = 0;
    uint64_t spare = view->free_bytes / oracle->page_bytes;

    if (view->queue_length > 0)
        return 0;
    uint32_t ups = choose(view, true, allowed, up);
    uint32_t downs = spare < ups ? choose(view, false, ups - (uint32_t)spare, down) : 0;
    for (uint32_t i = 0; i < ups && actions.count + 2 <= capacity; i++) {
        if (i >= spare) {
            if (gone == downs || down[gone].uses >= up[i].uses)
                break;
            (void)residency_add(&actions, KVT_RESIDENCY_RELEASE, down[gone].request,
                                down[gone].page, 1);
            gone++;
        }
        (void)residency_add(&actions, KVT_RESIDENCY_REFILL, up[i].request, up[i].page, 1);
        oracle->credit_bytes -= (double)oracle->page_bytes;
    }
    return actions.count;
}

static uint32_t oracle_reclaim(void *state, const struct kvt_residency_view *view,
                               uint64_t want_bytes, struct kvt_residency_action *list,
                               uint32_t capacity)
{
    const struct oracle *oracle = state;
    struct residency_actions actions = {list, 0, capacity};
    struct page down[MOVES];
    uint64_t pages = (want_bytes + oracle->page_bytes - 1) / oracle->page_bytes;
    uint32_t count = choose(view, false, pages < MOVES ? (uint32_t)pages : MOVES, down);

    for (uint32_t i = 0; i < count; i++)
        (void)residency_add(&actions, KVT_RESIDENCY_RELEASE, down[i].request, down[i].page, 1);
    return actions.count;
}

const struct kvt_residency_policy kvt_residency_oracle_pages = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof(struct kvt_residency_policy),
             .name = "oracle-pages",
             .summary = "a bound: pages that will be selected most are in HBM",
             .params = oracle_params,
             .param_count = sizeof oracle_params / sizeof oracle_params[0]},
    .state_bytes = oracle_state_bytes,
    .init = oracle_init,
    .needs = oracle_needs,
    .boundary = oracle_boundary,
    .reclaim = oracle_reclaim,
    .wants_page_future = true,
};
