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

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Rows that a tail which takes `queries` more no longer covers. */
static uint32_t before_tail(uint32_t committed_tokens, uint32_t queries)
{
    uint32_t end = committed_tokens + queries;
    return end > KVT_TAIL_ROWS ? end - KVT_TAIL_ROWS : 0;
}

uint32_t kvt_pages_leaving(uint32_t context_tokens, uint32_t queries)
{
    return (before_tail(context_tokens, queries) + KVT_PAGE_ROWS - 1) / KVT_PAGE_ROWS;
}

/* Whether a page has rows, made or still to come, that are not on host. */
static bool leaves_unbacked(const struct kvt_pages *pages, uint32_t page)
{
    return pages->backed_tokens < (page + 1) * KVT_PAGE_ROWS;
}

static void count_clean(struct kvt_pages *pages)
{
    uint32_t rows =
        smaller(before_tail(pages->committed_tokens, pages->queries), pages->backed_tokens);
    pages->clean_pages = rows / KVT_PAGE_ROWS;
}

kvt_status kvt_pages_init(struct kvt_pages *pages, uint32_t context_tokens, uint32_t max_tokens,
                          uint32_t queries, bool whole, enum kvt_backup_rule rule,
                          struct kvt_error *err)
{
    uint32_t page_count = (max_tokens + queries) / KVT_PAGE_ROWS + 1;
    uint32_t words = page_count / 64 + 1;
    uint64_t *bits = calloc((size_t)words * 3, sizeof *bits);
    uint32_t backed_tokens = rule == KVT_BACKUP_NEVER ? 0 : context_tokens;

    if (!bits)
        return kvt_fail_nomem(err, "a request's page table");
    *pages = (struct kvt_pages){.whole = whole,
                                .rule = (uint8_t)rule,
                                .queries = queries,
                                .committed_tokens = context_tokens,
                                .backed_tokens = backed_tokens,
                                .queued_tokens = backed_tokens,
                                .left_pages = kvt_pages_leaving(context_tokens, queries),
                                .word_count = words,
                                .ready_bits = bits,
                                .filling_bits = bits + words,
                                .resident_bits = bits + 2 * (size_t)words};
    if (whole) {
        memset(pages->ready_bits, 0xff, words * sizeof *bits);
        memset(pages->resident_bits, 0xff, words * sizeof *bits);
    }
    return KVT_OK;
}

void kvt_pages_fini(struct kvt_pages *pages)
{
    free(pages->ready_bits);
    *pages = (struct kvt_pages){0};
}

static void set_ready(struct kvt_pages *pages, uint32_t first, uint32_t end)
{
    for (uint32_t page = first; page < end; page++) {
        pages->ready_bits[page / 64] |= bit_of(page);
        pages->resident_bits[page / 64] |= bit_of(page);
    }
}

void kvt_pages_land(struct kvt_pages *pages, uint32_t count)
{
    uint32_t first = pages->whole ? 0 : pages->left_pages - count;

    pages->backed_tokens = pages->queued_tokens = first * KVT_PAGE_ROWS;
    if (pages->whole)
        return;
    set_ready(pages, first, pages->left_pages);
    pages->kept_pages += count;
}

void kvt_pages_found(struct kvt_pages *pages, uint32_t tokens)
{
    if (pages->backed_tokens < tokens)
        pages->backed_tokens = pages->queued_tokens = tokens;
}

void kvt_pages_take(struct kvt_pages *pages, uint32_t page)
{
    if (pages->whole)
        return;
    set_ready(pages, page, page + 1);
    pages->kept_pages++;
}

void kvt_pages_queue_backup(struct kvt_pages *pages, uint32_t tokens, kvt_ns done_ns)
{
    if (pages->pending_count == KVT_BACKUPS_MAX) /* the newest write takes these rows along */
        pages->pending_count--;
    uint32_t end = (pages->pending_head + pages->pending_count) % KVT_BACKUPS_MAX;
    pages->pending[end] = (struct kvt_backup){tokens, done_ns};
    pages->pending_count++;
    pages->queued_tokens = tokens;
}

void kvt_pages_commit(struct kvt_pages *pages, uint32_t tokens, kvt_ns done_ns)
{
    pages->committed_tokens += tokens;
    if (pages->rule == KVT_BACKUP_AT_ONCE)
        kvt_pages_queue_backup(pages, pages->committed_tokens, done_ns);
}

/* Of rows below `end`, up to which one must be on host: only rows that leave the tail now can
 * be without another home, those that left it before have one. */
static uint32_t must_be_backed(const struct kvt_pages *pages, uint32_t end)
{
    uint32_t oldest = before_tail(pages->committed_tokens, 0);

    while (end > oldest && end > pages->backed_tokens) {
        uint32_t page = (end - 1) / KVT_PAGE_ROWS;
        if (!is_set(pages->ready_bits, page))
            return end;
        end = page * KVT_PAGE_ROWS;
    }
    return 0;
}

uint32_t kvt_pages_must_be_backed(const struct kvt_pages *pages)
{
    return must_be_backed(pages, before_tail(pages->committed_tokens, pages->queries));
}

kvt_ns kvt_pages_tail_ready_ns(const struct kvt_pages *pages, uint32_t queries, kvt_ns now_ns)
{
    uint32_t must = must_be_backed(pages, before_tail(pages->committed_tokens, queries));

    for (uint32_t i = 0; i < pages->pending_count && must > 0; i++) {
        const struct kvt_backup *write =
            &pages->pending[(pages->pending_head + i) % KVT_BACKUPS_MAX];
        if (write->tokens >= must)
            return write->done_ns > now_ns ? write->done_ns : now_ns;
    }
    return now_ns;
}

void kvt_pages_settle(struct kvt_pages *pages, kvt_ns now_ns)
{
    while (pages->pending_count > 0 && pages->pending[pages->pending_head].done_ns <= now_ns) {
        pages->backed_tokens = pages->pending[pages->pending_head].tokens;
        pages->pending_head = (pages->pending_head + 1) % KVT_BACKUPS_MAX;
        pages->pending_count--;
    }
    count_clean(pages);
    if (pages->whole)
        return;
    for (; pages->eligible_pages < pages->clean_pages; pages->eligible_pages++) {
        uint32_t kept = is_set(pages->ready_bits, pages->eligible_pages);
        pages->kept_pages -= kept;
        pages->optional_pages += kept;
    }
}

uint32_t kvt_pages_begin_to_leave(const struct kvt_pages *pages, uint32_t *unbacked)
{
    uint32_t end = kvt_pages_leaving(pages->committed_tokens, pages->queries);

    *unbacked = 0;
    while (*unbacked < end - pages->left_pages && leaves_unbacked(pages, end - 1 - *unbacked))
        (*unbacked)++;
    return end - pages->left_pages;
}

void kvt_pages_leave(struct kvt_pages *pages, uint32_t keep)
{
    pages->left_pages = kvt_pages_leaving(pages->committed_tokens, pages->queries);
    set_ready(pages, pages->left_pages - keep, pages->left_pages);
    for (uint32_t page = pages->left_pages - keep; page < pages->left_pages; page++) {
        pages->optional_pages += page < pages->eligible_pages;
        pages->kept_pages += page >= pages->eligible_pages;
    }
}

uint32_t kvt_pages_await_backup(const struct kvt_pages *pages)
{
    uint32_t out = before_tail(pages->committed_tokens, pages->queries) / KVT_PAGE_ROWS;
    uint32_t waiting = 0;

    if (pages->whole)
        return out - pages->clean_pages;
    /* Of the pages kept, only the newest may be partly in the tail. */
    for (uint32_t page = out; page < pages->left_pages; page++)
        waiting += is_set(pages->ready_bits, page);
    return pages->kept_pages - waiting;
}

uint32_t kvt_pages_kept_when_parted(const struct kvt_pages *pages)
{
    return kvt_pages_leaving(pages->committed_tokens, pages->queries) - pages->clean_pages;
}

void kvt_pages_part(struct kvt_pages *pages)
{
    size_t bytes = pages->word_count * sizeof *pages->ready_bits;

    pages->left_pages = kvt_pages_leaving(pages->committed_tokens, pages->queries);
    pages->kept_pages = kvt_pages_kept_when_parted(pages);
    pages->optional_pages = pages->eligible_pages = pages->clean_pages;
    pages->whole = false;
    memset(pages->ready_bits, 0, bytes);
    memset(pages->resident_bits, 0, bytes);
    set_ready(pages, 0, pages->left_pages);
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

uint32_t kvt_pages_release_from(struct kvt_pages *pages, uint32_t first)
{
    uint32_t released = 0;

    for (uint32_t page = first; page < pages->eligible_pages; page++) {
        if (is_set(pages->ready_bits, page)) {
            kvt_pages_release(pages, page, 1);
            released++;
        }
    }
    return released;
}

enum kvt_page_state kvt_pages_state(const struct kvt_pages *pages, uint32_t page)
{
    uint32_t end = smaller((page + 1) * KVT_PAGE_ROWS, pages->committed_tokens);

    if (is_set(pages->filling_bits, page))
        return KVT_PAGE_FILLING;
    if (page < pages->eligible_pages)
        return is_set(pages->ready_bits, page) ? KVT_PAGE_OPTIONAL : KVT_PAGE_HOST_ONLY;
    if (pages->backed_tokens >= end)
        return KVT_PAGE_PINNED;
    return pages->queued_tokens >= end ? KVT_PAGE_PENDING : KVT_PAGE_DIRTY;
}

static uint32_t backed_by(const struct kvt_pages *pages, kvt_ns now_ns)
{
    uint32_t backed = pages->backed_tokens;

    for (uint32_t i = 0; i < pages->pending_count; i++) {
        const struct kvt_backup *write =
            &pages->pending[(pages->pending_head + i) % KVT_BACKUPS_MAX];
        if (write->done_ns <= now_ns)
            backed = write->tokens;
    }
    return backed;
}

bool kvt_pages_have_homes(const struct kvt_pages *pages, kvt_ns now_ns)
{
    uint32_t tail = before_tail(pages->committed_tokens, 0);
    uint32_t row = backed_by(pages, now_ns);

    if (pages->whole)
        return true; /* kvt_pages_is_sane() looks at its bits */
    while (row < tail) {
        if (!is_set(pages->ready_bits, row / KVT_PAGE_ROWS))
            return false;
        row = (row / KVT_PAGE_ROWS + 1) * KVT_PAGE_ROWS;
    }
    return true;
}

static bool is_whole_sane(const struct kvt_pages *pages)
{
    for (uint32_t word = 0; word < pages->word_count; word++) {
        if (pages->ready_bits[word] != UINT64_MAX || pages->resident_bits[word] != UINT64_MAX ||
            pages->filling_bits[word] != 0)
            return false;
    }
    return pages->eligible_pages == 0 && kvt_pages_held(pages) == 0;
}

bool kvt_pages_is_sane(const struct kvt_pages *pages)
{
    uint32_t optional = 0, kept = 0, filling = 0;

    if (pages->backed_tokens > pages->queued_tokens ||
        pages->queued_tokens > pages->committed_tokens)
        return false;
    if (pages->whole)
        return is_whole_sane(pages);
    for (uint32_t word = 0; word < pages->word_count; word++) {
        if ((pages->ready_bits[word] & pages->filling_bits[word]) ||
            pages->resident_bits[word] != (pages->ready_bits[word] | pages->filling_bits[word]))
            return false;
    }
    for (uint32_t page = 0; page / 64 < pages->word_count; page++) {
        if ((page >= pages->left_pages && is_set(pages->ready_bits, page)) ||
            (page >= pages->eligible_pages && is_set(pages->filling_bits, page)))
            return false;
        optional += page < pages->eligible_pages && is_set(pages->ready_bits, page);
        kept += page >= pages->eligible_pages && is_set(pages->ready_bits, page);
        filling += is_set(pages->filling_bits, page);
    }
    return optional == pages->optional_pages && kept == pages->kept_pages &&
           filling == pages->filling_pages;
}
