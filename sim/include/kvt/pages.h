/* kvt/pages.h -- the history of one request, page by page.
 *
 *     dirty -> write pending -> backed, pinned -> optional -> host only
 *                                                   ^             |
 *                                                   +-- filling <-+
 *
 * A page is KVT_PAGE_ROWS tokens over all payload layers. Rows up to backed_tokens
 * have a host copy. A page is eligible once it is backed and wholly outside the
 * tail; an eligible page is host only, filling (bytes counted, not readable) or
 * optional (in HBM and readable). Every committed row has a home: the tail, a
 * page in HBM, or host DRAM. */
#ifndef KVT_PAGES_H
#define KVT_PAGES_H

#include "kvt/error.h"

KVT_BEGIN_DECLS

enum kvt_page_state {
    KVT_PAGE_DIRTY = 0, /* rows without a host copy, none on its way */
    KVT_PAGE_PENDING,   /* the copy is on its way */
    KVT_PAGE_PINNED,    /* backed, but rows of it are still in the tail */
    KVT_PAGE_OPTIONAL,
    KVT_PAGE_HOST_ONLY,
    KVT_PAGE_FILLING
};

/* Writes under way at once: a tail of them, and the row of a step that waited for
 * the oldest, which is taken off at the boundary behind that step. */
enum {
    KVT_BACKUPS_MAX = KVT_TAIL_ROWS + 1
};

struct kvt_backup { /* rows up to `tokens` are on host at done_ns */
    uint32_t tokens;
    kvt_ns done_ns;
};

struct kvt_pages {
    bool all_ready; /* every page is in HBM, for ever; the counts below stay 0 */
    uint32_t committed_tokens;
    uint32_t backed_tokens;
    uint32_t eligible_pages; /* pages [0, eligible) */
    uint32_t optional_pages; /* ready, of those */
    uint32_t filling_pages;
    uint32_t word_count;
    uint64_t *ready_bits;                       /* [word_count] */
    uint64_t *filling_bits;                     /* [word_count] */
    uint64_t *resident_bits;                    /* [word_count] ready or filling */
    struct kvt_backup pending[KVT_BACKUPS_MAX]; /* ring: writes under way, in order */
    uint32_t pending_head, pending_count;
};

/* A history of context_tokens rows, all backed, none in HBM. all_ready (the
 * resident policy) has every page in HBM, for ever. */
KVT_CHECKED kvt_status kvt_pages_init(struct kvt_pages *pages, uint32_t context_tokens,
                                      uint32_t max_tokens, bool all_ready, struct kvt_error *err);
void kvt_pages_fini(struct kvt_pages *pages);

/* Tokens committed in a step; their write-back ends at done_ns. */
KVT_CHECKED kvt_status kvt_pages_commit(struct kvt_pages *pages, uint32_t tokens, kvt_ns done_ns,
                                        struct kvt_error *err);

/* When the tail can hold `queries` more rows: now_ns, or when the write-back of
 * the row whose slot is rewritten ends. */
kvt_ns kvt_pages_tail_ready_ns(const struct kvt_pages *pages, uint32_t queries, kvt_ns now_ns);

/* At a step boundary: what has been written by now_ns becomes backed, and pages
 * that have left the tail become eligible. queries: of the coming call. */
void kvt_pages_settle(struct kvt_pages *pages, uint32_t queries, kvt_ns now_ns);

/* Eligible pages [first, first + count), each host only; bytes are the caller's. */
bool kvt_pages_can_fill(const struct kvt_pages *pages, uint32_t first, uint32_t count);
void kvt_pages_begin_fill(struct kvt_pages *pages, uint32_t first, uint32_t count);
void kvt_pages_end_fill(struct kvt_pages *pages, uint32_t first, uint32_t count);

/* Optional pages [first, first + count): their HBM copy goes. */
bool kvt_pages_can_release(const struct kvt_pages *pages, uint32_t first, uint32_t count);
void kvt_pages_release(struct kvt_pages *pages, uint32_t first, uint32_t count);

enum kvt_page_state kvt_pages_state(const struct kvt_pages *pages, uint32_t page, uint32_t queries);

/* Counts agree with bits, bits lie inside eligible pages, nothing is both ready
 * and filling. Checked at the end of every run, and by tests. */
bool kvt_pages_is_sane(const struct kvt_pages *pages);

KVT_END_DECLS
#endif
