/* pages.c -- the history of one request, page by page. */
#include "kvt/pages.h"

#include <stdlib.h>
#include <string.h>

static uint64_t bit_of(uint32_t page)
{
    return UINT64_C(1) << page % 64;
}

static bool is_set(const uint64_t *bits, uint32_t page)
{
    return bits[page / 64] & bit_of(page);
}

kvt_status kvt_pages_init(struct kvt_pages *pages, uint32_t context_tokens, uint32_t max_tokens,
                          bool all_ready, struct kvt_error *err)
{
    uint32_t page_count = max_tokens / KVT_PAGE_ROWS + 1;
    uint32_t words = page_count / 64 + 1;
    uint64_t *bits = calloc((size_t)words * 3, sizeof *bits);

    if (!bits)
        return kvt_fail_nomem(err, "a request's page table");
    *pages = (struct kvt_pages){.all_ready = all_ready,
                                .committed_tokens = context_tokens,
                                .backed_tokens = context_tokens,
                                .word_count = words,
                                .ready_bits = bits,
                                .filling_bits = bits + words,
                                .resident_bits = bits + 2 * (size_t)words};
    if (all_ready)
        memset(pages->ready_bits, 0xff, words * sizeof *bits);
    return KVT_OK;
}

void kvt_pages_fini(struct kvt_pages *pages)
{
    free(pages->ready_bits);
    *pages = (struct kvt_pages){0};
}

kvt_status kvt_pages_commit(struct kvt_pages *pages, uint32_t tokens, kvt_ns done_ns,
                            struct kvt_error *err)
{
    if (pages->all_ready) {
        pages->committed_tokens += tokens;
        pages->backed_tokens = pages->committed_tokens;
        return KVT_OK;
    }
    if (pages->pending_count == KVT_BACKUPS_MAX)
        return kvt_fail(err, KVT_ERR_INTERNAL, "pages",
                        "%u write-backs are under way and the tail has no slot for another",
                        pages->pending_count);
    pages->committed_tokens += tokens;
    uint32_t end = (pages->pending_head + pages->pending_count) % KVT_BACKUPS_MAX;
    pages->pending[end] = (struct kvt_backup){pages->committed_tokens, done_ns};
    pages->pending_count++;
    return KVT_OK;
}

kvt_ns kvt_pages_tail_ready_ns(const struct kvt_pages *pages, uint32_t queries, kvt_ns now_ns)
{
    /* The call's rows take the slots of positions below this one. */
    uint32_t end = pages->committed_tokens + queries;
    uint32_t must_be_backed = end > KVT_TAIL_ROWS ? end - KVT_TAIL_ROWS : 0;

    if (pages->backed_tokens >= must_be_backed)
        return now_ns;
    for (uint32_t i = 0; i < pages->pending_count; i++) {
        const struct kvt_backup *write =
            &pages->pending[(pages->pending_head + i) % KVT_BACKUPS_MAX];
        if (write->tokens >= must_be_backed)
            return write->done_ns > now_ns ? write->done_ns : now_ns;
    }
    return now_ns;
}

/* Pages wholly before the tail of a call with `queries` rows, and backed. */
static uint32_t eligible(const struct kvt_pages *pages, uint32_t queries)
{
    uint32_t end = pages->committed_tokens + queries;
    uint32_t before_tail = end > KVT_TAIL_ROWS ? end - KVT_TAIL_ROWS : 0;
    uint32_t rows = before_tail < pages->backed_tokens ? before_tail : pages->backed_tokens;
    return rows / KVT_PAGE_ROWS;
}

void kvt_pages_settle(struct kvt_pages *pages, uint32_t queries, kvt_ns now_ns)
{
    while (pages->pending_count > 0 && pages->pending[pages->pending_head].done_ns <= now_ns) {
        pages->backed_tokens = pages->pending[pages->pending_head].tokens;
        pages->pending_head = (pages->pending_head + 1) % KVT_BACKUPS_MAX;
        pages->pending_count--;
    }
    pages->eligible_pages = pages->all_ready ? 0 : eligible(pages, queries);
}

static bool in_range(const struct kvt_pages *pages, uint32_t first, uint32_t count)
{
    return count > 0 && first < pages->eligible_pages && count <= pages->eligible_pages - first;
}

bool kvt_pages_can_fill(const struct kvt_pages *pages, uint32_t first, uint32_t count)
{
    if (!in_range(pages, first, count))
        return false;
    for (uint32_t page = first; page < first + count; page++) {
        if (is_set(pages->resident_bits, page))
            return false;
    }
    return true;
}

void kvt_pages_begin_fill(struct kvt_pages *pages, uint32_t first, uint32_t count)
{
    for (uint32_t page = first; page < first + count; page++) {
        pages->filling_bits[page / 64] |= bit_of(page);
        pages->resident_bits[page / 64] |= bit_of(page);
    }
    pages->filling_pages += count;
}

void kvt_pages_end_fill(struct kvt_pages *pages, uint32_t first, uint32_t count)
{
    for (uint32_t page = first; page < first + count; page++) {
        pages->filling_bits[page / 64] &= ~bit_of(page);
        pages->ready_bits[page / 64] |= bit_of(page);
    }
    pages->filling_pages -= count;
    pages->optional_pages += count;
}

bool kvt_pages_can_release(const struct kvt_pages *pages, uint32_t first, uint32_t count)
{
    if (!in_range(pages, first, count))
        return false;
    for (uint32_t page = first; page < first + count; page++) {
        if (!is_set(pages->ready_bits, page))
            return false;
    }
    return true;
}

void kvt_pages_release(struct kvt_pages *pages, uint32_t first, uint32_t count)
{
    for (uint32_t page = first; page < first + count; page++) {
        pages->ready_bits[page / 64] &= ~bit_of(page);
        pages->resident_bits[page / 64] &= ~bit_of(page);
    }
    pages->optional_pages -= count;
}

enum kvt_page_state kvt_pages_state(const struct kvt_pages *pages, uint32_t page, uint32_t queries)
{
    uint32_t end = (page + 1) * KVT_PAGE_ROWS;

    if (is_set(pages->filling_bits, page))
        return KVT_PAGE_FILLING;
    if (page < pages->eligible_pages && is_set(pages->ready_bits, page))
        return KVT_PAGE_OPTIONAL;
    if (pages->backed_tokens >= end || pages->backed_tokens == pages->committed_tokens)
        return page < eligible(pages, queries) ? KVT_PAGE_HOST_ONLY : KVT_PAGE_PINNED;
    return pages->pending_count > 0 ? KVT_PAGE_PENDING : KVT_PAGE_DIRTY;
}

bool kvt_pages_is_sane(const struct kvt_pages *pages)
{
    uint32_t ready = 0, filling = 0;

    if (pages->all_ready)
        return pages->optional_pages == 0 && pages->filling_pages == 0;
    for (uint32_t word = 0; word < pages->word_count; word++) {
        if ((pages->ready_bits[word] & pages->filling_bits[word]) ||
            pages->resident_bits[word] != (pages->ready_bits[word] | pages->filling_bits[word]))
            return false;
    }
    for (uint32_t page = 0; page / 64 < pages->word_count; page++) {
        if (page >= pages->eligible_pages && is_set(pages->resident_bits, page))
            return false;
        ready += is_set(pages->ready_bits, page);
        filling += is_set(pages->filling_bits, page);
    }
    return ready == pages->optional_pages && filling == pages->filling_pages &&
           pages->backed_tokens <= pages->committed_tokens;
}
