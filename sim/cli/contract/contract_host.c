/* contract_host.c -- requests and their pages, counted one by one; actions checked. */
#include "contract_host.h"

#include <string.h>

static const char *const tail = "the tail is never lent: pages of it, and pages without a copy on "
                                "host, are neither released nor refilled";

static bool is_set(const uint64_t *bits, uint32_t page)
{
    return bits[page / 64] >> page % 64 & 1;
}

static void set(uint64_t *bits, uint32_t page, bool on)
{
    uint64_t bit = UINT64_C(1) << page % 64;
    bits[page / 64] = on ? bits[page / 64] | bit : bits[page / 64] & ~bit;
}

static uint32_t count_bits(const uint64_t *bits)
{
    uint32_t count = 0;

    for (uint32_t page = 0; page < HOST_PAGES_MAX; page++)
        count += is_set(bits, page);
    return count;
}

/* ---- What there is ---------------------------------------------------------------------- */

static uint32_t page_count(const struct host_request *request)
{
    return (request->context_tokens + KVT_PAGE_ROWS - 1) / KVT_PAGE_ROWS;
}

/* Rows before the tail. */
static uint32_t left_tokens(uint32_t context_tokens)
{
    return context_tokens > KVT_TAIL_ROWS ? context_tokens - KVT_TAIL_ROWS : 0;
}

uint32_t host_landing_pages(uint32_t tokens)
{
    return (left_tokens(tokens) + KVT_PAGE_ROWS - 1) / KVT_PAGE_ROWS;
}

uint32_t host_clean_pages(const struct host_request *request)
{
    uint32_t left = left_tokens(request->context_tokens);
    return (request->backed_tokens < left ? request->backed_tokens : left) / KVT_PAGE_ROWS;
}

/* Of one with a hot cache: those that have rows outside the tail and cannot go. */
uint32_t host_kept_pages(const struct host_request *request)
{
    return host_landing_pages(request->context_tokens) - host_clean_pages(request);
}

static uint32_t held_pages(const struct host_request *request)
{
    if (request->hot_tokens == 0)
        return page_count(request);
    return HOST_HOT_PAGES + host_kept_pages(request) + count_bits(request->ready) +
           count_bits(request->filling);
}

uint32_t host_held_pages(const struct host *host)
{
    uint32_t held = 0;

    for (uint32_t i = 0; i < host->count; i++)
        held += held_pages(&host->requests[i]);
    return held;
}

uint32_t host_free_pages(const struct host *host)
{
    uint32_t held = host_held_pages(host);
    return held < HOST_POOL_PAGES ? HOST_POOL_PAGES - held : 0;
}

static uint32_t reclaimable_of(const struct host *host, const struct host_request *request)
{
    if (request->hot_tokens > 0)
        return count_bits(request->ready);
    if (host->needs.history_in_hbm)
        return 0;
    uint32_t parted = HOST_HOT_PAGES + host_kept_pages(request), whole = page_count(request);
    return whole > parted ? whole - parted : 0;
}

uint32_t host_reclaimable_pages(const struct host *host)
{
    uint32_t pages = 0;

    for (uint32_t i = 0; i < host->count; i++)
        pages += reclaimable_of(host, &host->requests[i]);
    return pages;
}

static struct kvt_residency_request view_of(const struct host *host, struct host_request *request,
                                            bool sees_future)
{
    bool whole = request->hot_tokens == 0;

    for (uint32_t page = 0; page < HOST_PAGES_MAX; page++)
        set(request->resident, page,
            is_set(request->ready, page) || is_set(request->filling, page) ||
                (page < page_count(request) && (whole || page >= host_clean_pages(request))));
    return (struct kvt_residency_request){
        .id = request->id,
        .context_tokens = request->context_tokens,
        .generated_tokens = request->generated_tokens,
        .page_count = page_count(request),
        .eligible_pages = whole ? 0 : host_clean_pages(request),
        .optional_pages = count_bits(request->ready),
        .filling_pages = count_bits(request->filling),
        .missed_rows = request->missed_rows,
        .selected_rows = request->selected_rows,
        .resident_bits = request->resident,
        .filling_bits = request->filling,
        .page_hits = host->shows_hits ? request->hits : NULL,
        .page_scores = host->shows_scores ? request->scores : NULL,
        .future_output_tokens = sees_future ? request->left_tokens : 0,
        .hot_tokens = request->hot_tokens,
        .next_hot_tokens = request->next_hot_tokens,
        .backed_tokens = request->backed_tokens,
        .queued_tokens = request->queued_tokens,
        .clean_pages = host_clean_pages(request),
        .kept_pages = whole ? 0 : host_kept_pages(request),
        .hot_cost_bytes = (uint64_t)HOST_HOT_PAGES * HOST_PAGE_BYTES,
        .reclaimable_bytes = (uint64_t)reclaimable_of(host, request) * HOST_PAGE_BYTES,
        .page_future = host->shows_page_future ? request->future : NULL};
}

void host_view_make(struct host *host, bool sees_future, struct host_view *out)
{
    uint32_t pages = 0;

    out->view =
        (struct kvt_residency_view){.now_ns = host->now_ns,
                                    .last_step_ns = host->now_ns > 0 ? 30 * KVT_NS_PER_S / 1000 : 0,
                                    .since_boundary_ns = 30 * KVT_NS_PER_S / 1000,
                                    .queue_length = host->queue_length,
                                    .free_bytes = (uint64_t)host_free_pages(host) * HOST_PAGE_BYTES,
                                    .requests = out->requests,
                                    .request_count = host->count};
    for (uint32_t i = 0; i < host->count; i++) {
        struct host_request *request = &host->requests[i];
        out->requests[i] = view_of(host, request, sees_future);
        pages += held_pages(request) - (request->hot_tokens > 0 ? HOST_HOT_PAGES : 0);
        out->view.used_bytes[KVT_MEM_HOT] +=
            request->hot_tokens > 0 ? (uint64_t)HOST_HOT_PAGES * HOST_PAGE_BYTES : 0;
    }
    out->view.used_bytes[KVT_MEM_PAYLOAD] = (uint64_t)pages * HOST_PAGE_BYTES;
}

/* ---- Actions ----------------------------------------------------------------------------- */

static struct host_request *find(struct host *host, uint32_t id)
{
    for (uint32_t i = 0; i < host->count; i++) {
        if (host->requests[i].id == id)
            return &host->requests[i];
    }
    return NULL;
}

/* Pages [first, first + count) of a request that has so many; count 0 is none of them. */
static kvt_status check_pages(const struct host *host, const struct host_request *request,
                              const struct kvt_residency_action *action, const char *verb,
                              struct kvt_error *err)
{
    uint32_t pages = page_count(request);
    uint32_t eligible = request->hot_tokens > 0 ? host_clean_pages(request) : 0;

    if (action->count == 0 || action->first >= pages || action->count > pages - action->first)
        return contract_broken(host->play, err, "at least one page, and of those that there are",
                               "%s() %s %u pages from page %u on of request %u, which has %u",
                               host->play->note->function, verb, action->count, action->first,
                               request->id, pages);
    if (action->first + action->count > eligible)
        return contract_broken(host->play, err, tail,
                               "%s() %s pages %u to %u of request %u, of which pages below %u are "
                               "eligible",
                               host->play->note->function, verb, action->first,
                               action->first + action->count - 1, request->id, eligible);
    return KVT_OK;
}

static kvt_status release(struct host *host, struct host_request *request,
                          const struct kvt_residency_action *action, struct kvt_error *err)
{
    kvt_status status = check_pages(host, request, action, "releases", err);

    for (uint32_t n = 0; n < action->count && status == KVT_OK; n++) {
        if (!is_set(request->ready, action->first + n))
            return contract_broken(host->play, err, "only optional pages in HBM are released",
                                   "%s() releases page %u of request %u, which is %s",
                                   host->play->note->function, action->first + n, request->id,
                                   is_set(request->filling, action->first + n) ? "still on its way"
                                                                               : "on host only");
        set(request->ready, action->first + n, false);
    }
    return status;
}

static kvt_status refill(struct host *host, struct host_request *request,
                         const struct kvt_residency_action *action, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    if (!host->needs.optional_pages)
        return contract_broken(host->play, err, "pages are optional where needs() says so",
                               "%s() refills pages of request %u, and needs() says no "
                               "optional_pages",
                               host->play->note->function, request->id);
    status = check_pages(host, request, action, "refills", err);
    for (uint32_t n = 0; n < action->count && status == KVT_OK; n++) {
        uint32_t page = action->first + n;
        if (is_set(request->ready, page) || is_set(request->filling, page))
            return contract_broken(host->play, err, "only pages that are on host only come up",
                                   "%s() refills page %u of request %u, which is in HBM or on its "
                                   "way",
                                   host->play->note->function, page, request->id);
        if (host_free_pages(host) == 0)
            return contract_broken(host->play, err, "refills as far as the pool has room",
                                   "%s() refills page %u of request %u, and no byte is free",
                                   host->play->note->function, page, request->id);
        set(request->filling, page, true);
    }
    return status;
}

static kvt_status back_up(const struct host *host, struct host_request *request,
                          const struct kvt_residency_action *action, struct kvt_error *err)
{
    if (!host->needs.deferred_backup)
        return contract_broken(host->play, err,
                               "rows are backed up where needs() says "
                               "deferred_backup",
                               "%s() backs up request %u, and needs() does not",
                               host->play->note->function, request->id);
    if (action->count <= request->queued_tokens || action->count > request->context_tokens)
        return contract_broken(host->play, err,
                               "backups go on behind queued_tokens, up to context_tokens",
                               "%s() backs up %u rows of request %u, of which %u are committed and "
                               "%u on host or on their way",
                               host->play->note->function, action->count, request->id,
                               request->context_tokens, request->queued_tokens);
    request->queued_tokens = action->count;
    return KVT_OK;
}

static kvt_status resize(const struct host *host, struct host_request *request,
                         const struct kvt_residency_action *action, struct kvt_error *err)
{
    if (host->needs.history_in_hbm || action->count == 0 || action->count > HOST_HOT_TOKENS)
        return contract_broken(
            host->play, err, "hot caches of 1 to env.hot_tokens, none beside history_in_hbm",
            "%s() gives request %u a hot cache of %u tokens; env.hot_tokens is "
            "%d",
            host->play->note->function, request->id, action->count, HOST_HOT_TOKENS);
    request->next_hot_tokens = action->count;
    request->next_first = action->first;
    return KVT_OK;
}

/* Pages from `first` on go; whole ones part from theirs. */
static void give_hot_cache(struct host_request *request, uint32_t hot_tokens, uint32_t first)
{
    uint32_t clean = host_clean_pages(request);

    for (uint32_t page = 0; page < clean && request->hot_tokens == 0; page++)
        set(request->ready, page, true);
    for (uint32_t page = first; page < clean; page++)
        set(request->ready, page, false);
    request->hot_tokens = hot_tokens;
    request->next_hot_tokens = 0;
}

static kvt_status demote(const struct host *host, struct host_request *request,
                         struct kvt_error *err)
{
    if (reclaimable_of(host, request) == 0)
        return contract_broken(host->play, err,
                               "a demotion frees something: reclaimable_bytes is not 0",
                               "%s() demotes request %u, which frees nothing",
                               host->play->note->function, request->id);
    give_hot_cache(request, request->hot_tokens > 0 ? request->hot_tokens : HOST_HOT_TOKENS, 0);
    return KVT_OK;
}

kvt_status host_act(struct host *host, const struct kvt_residency_action *action, bool reclaims,
                    struct kvt_error *err)
{
    struct host_request *request = find(host, action->request);

    if (request == NULL)
        return contract_broken(host->play, err, "actions are on running requests",
                               "%s() moves pages of request %u, which is not running",
                               host->play->note->function, action->request);
    if (reclaims && action->verb != KVT_RESIDENCY_RELEASE && action->verb != KVT_RESIDENCY_DEMOTE)
        return contract_broken(host->play, err, "reclaim() writes releases and demotions",
                               "reclaim() asks for action %u on request %u", action->verb,
                               action->request);
    switch (action->verb) {
    case KVT_RESIDENCY_RELEASE:
        return release(host, request, action, err);
    case KVT_RESIDENCY_REFILL:
        return refill(host, request, action, err);
    case KVT_RESIDENCY_BACKUP:
        return back_up(host, request, action, err);
    case KVT_RESIDENCY_RESIZE:
        return resize(host, request, action, err);
    case KVT_RESIDENCY_DEMOTE:
        return demote(host, request, err);
    default:
        return contract_broken(host->play, err,
                               "there are release, refill, backup, resize and demote, 0 to 4",
                               "%s() asks for action %u", host->play->note->function, action->verb);
    }
}

/* ---- Time ---------------------------------------------------------------------------------- */

void host_drop(struct host *host, uint32_t index)
{
    memmove(&host->requests[index], &host->requests[index + 1],
            (host->count - index - 1) * sizeof host->requests[0]);
    host->count--;
}

static void count_selections(struct contract_draws *draws, struct host_request *request)
{
    uint32_t pages = page_count(request);

    for (int i = 0; i < 4; i++) {
        uint32_t page = contract_draw(draws, pages), hits = contract_draw(draws, 64);
        request->hits[page] = (uint16_t)(request->hits[page] / 2 + hits);
        request->scores[page] = (float)contract_draw(draws, 1000) / 100;
        request->future[page] = contract_draw(draws, 1000);
    }
    request->selected_rows += 2048;
    request->missed_rows += contract_draw(draws, 600);
}

/* What is eligible is so for ever while it has a hot cache; what needs no deferred backup is on
 * host a step later. */
static void grow(const struct host *host, struct host_request *request)
{
    uint32_t tokens = contract_draw_from(&host->play->draws, 1, 8);

    request->backed_tokens = request->queued_tokens;
    for (uint32_t w = 0; w < HOST_PAGE_WORDS; w++) {
        request->ready[w] |= request->filling[w];
        request->filling[w] = 0;
    }
    tokens = tokens < request->left_tokens ? tokens : request->left_tokens;
    request->context_tokens += tokens;
    request->generated_tokens += tokens;
    request->left_tokens -= tokens;
    if (host->needs.host_backing && !host->needs.deferred_backup)
        request->queued_tokens = request->context_tokens;
    count_selections(&host->play->draws, request);
}

void host_step(struct host *host)
{
    host->now_ns += 30 * KVT_NS_PER_S / 1000;
    for (uint32_t i = host->count; i-- > 0;) {
        struct host_request *request = &host->requests[i];
        if (request->left_tokens == 0) {
            host_drop(host, i);
            continue;
        }
        grow(host, request);
        bool fits = request->hot_tokens > 0 || host_free_pages(host) > HOST_HOT_PAGES;
        if (request->next_hot_tokens > 0 && fits)
            give_hot_cache(request, request->next_hot_tokens, request->next_first);
    }
}

struct host_request *host_admit(struct host *host, uint32_t tokens, uint32_t landed,
                                bool write_later)
{
    uint32_t pages = (tokens + KVT_PAGE_ROWS - 1) / KVT_PAGE_ROWS;
    uint32_t room = host_free_pages(host), may_land = host_landing_pages(tokens);
    bool whole = host->needs.history_in_hbm || (host->needs.starts_whole && room >= pages);

    if (host->count == HOST_REQUESTS_MAX || (whole ? pages : HOST_HOT_PAGES + 2 + landed) > room)
        return NULL;
    struct host_request *request = &host->requests[host->count++];
    *request = (struct host_request){.id = host->next_id,
                                     .context_tokens = tokens,
                                     .left_tokens = contract_draw_from(&host->play->draws, 1, 400),
                                     .hot_tokens = whole ? 0 : HOST_HOT_TOKENS};
    host->next_id += contract_draw_from(&host->play->draws, 1, 3);
    if (host->needs.host_backing && !(whole && host->needs.deferred_backup))
        request->backed_tokens = write_later ? (may_land - landed) * KVT_PAGE_ROWS : tokens;
    request->queued_tokens = request->backed_tokens;
    for (uint32_t page = may_land - landed; page < host_clean_pages(request) && !whole; page++)
        set(request->ready, page, true);
    return request;
}
