/* ranges.c -- what residency policies share: pages as ranges, requests in an order. */
#include "ranges.h"

static bool is_set(const uint64_t *bits, uint32_t page)
{
    return bits[page / 64] >> page % 64 & 1;
}

/* Whether a page can move that way. */
static bool can_move(const struct kvt_residency_request *request, enum kvt_residency_verb verb,
                     uint32_t page)
{
    bool resident = is_set(request->resident_bits, page);

    if (verb == KVT_RESIDENCY_REFILL)
        return !resident;
    return resident && !is_set(request->filling_bits, page);
}

bool residency_add(struct residency_actions *actions, enum kvt_residency_verb verb,
                   uint32_t request, uint32_t first, uint32_t count)
{
    if (actions->count == actions->capacity)
        return false;
    actions->list[actions->count++] =
        (struct kvt_residency_action){(uint16_t)verb, request, first, count};
    return true;
}

/* The page joins the newest range where it borders on it. */
static bool extend(struct residency_actions *actions, uint32_t before, uint32_t page)
{
    if (actions->count == before)
        return false;
    struct kvt_residency_action *last = &actions->list[actions->count - 1];
    bool above = last->first + last->count == page, below = last->first == page + 1;
    last->first -= below;
    last->count += above || below;
    return above || below;
}

uint32_t residency_move(struct residency_actions *actions, enum kvt_residency_verb verb,
                        const struct kvt_residency_request *request, uint32_t order, uint32_t want)
{
    uint32_t end = request->eligible_pages, before = actions->count, moved = 0;

    for (uint32_t i = 0; i < end && moved < want; i++) {
        uint32_t page = order == ORDER_LOWEST ? i : end - 1 - i;
        if (!can_move(request, verb, page))
            continue;
        if (!extend(actions, before, page) && !residency_add(actions, verb, request->id, page, 1))
            break;
        moved++;
    }
    return moved;
}

uint32_t residency_next(const struct kvt_residency_view *view,
                        uint64_t (*key)(const struct kvt_residency_request *request),
                        uint32_t previous)
{
    uint32_t best = view->request_count;
    uint64_t best_key = 0;
    bool first = previous == view->request_count;
    uint64_t bound = first ? 0 : key(&view->requests[previous]);

    for (uint32_t i = 0; i < view->request_count; i++) {
        uint64_t value = key(&view->requests[i]);
        bool comes_later = first || value < bound || (value == bound && i > previous);
        if (comes_later && value > best_key) {
            best = i;
            best_key = value;
        }
    }
    return best;
}

uint64_t residency_optional_pages(const struct kvt_residency_request *request)
{
    return request->optional_pages;
}

uint64_t residency_reclaimable_bytes(const struct kvt_residency_request *request)
{
    return request->reclaimable_bytes;
}
