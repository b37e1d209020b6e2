/* kvt/pages.h -- the history of one request, page by page.
 *
 *     dirty -> write pending -> backed, pinned -> optional -> host only
 *                                                   ^             |
 *                                                   +-- filling <-+
 *
 * A page is KVT_PAGE_ROWS tokens over all payload layers. Rows up to backed_tokens have a
 * host copy. A request without a hot cache is whole: every row of it is in a page in HBM.
 * With one, its newest rows are in the tail, and a page that they leave is kept in HBM or is
 * not. An eligible page is backed and wholly outside the tail; it is host only, filling
 * (bytes counted, not readable) or optional (in HBM and readable). A page kept before it is
 * eligible is dirty, pending or pinned, readable all the same, and protected; it becomes
 * optional without a transfer. Every committed row has a home: the tail, a page in HBM, or
 * host DRAM. */
#ifndef KVT_PAGES_H
#define KVT_PAGES_H

#include "kvt/error.h"

KVT_BEGIN_DECLS

enum kvt_page_state {
    KVT_PAGE_DIRTY = 0, /* rows without a host copy, none on its way */
    KVT_PAGE_PENDING,   /* the copy is on its way */
    KVT_PAGE_PINNED,    /* backed, but rows of it are still in the tail, or the request is whole */
    KVT_PAGE_OPTIONAL,
    KVT_PAGE_HOST_ONLY,
    KVT_PAGE_FILLING
};

/* When committed rows are written to host. */
enum kvt_backup_rule {
    KVT_BACKUP_NEVER = 0, /* there is no host copy */
    KVT_BACKUP_AT_ONCE,   /* behind the step that made them */
    KVT_BACKUP_LATER      /* when somebody says so */
};

/* Writes under way that are told apart: a tail of them, and the rows of a step that waited for
 * the oldest, which is taken off at the boundary behind that step. Of more, as pages that were
 * kept can cause, the newest is one with that before it. */
enum {
    KVT_BACKUPS_MAX = KVT_TAIL_ROWS + 1
};

struct kvt_backup { /* rows up to `tokens` are on host at done_ns */
    uint32_t tokens;
    kvt_ns done_ns;
};

struct kvt_pages {
    bool whole;       /* no hot cache: every page is in HBM; the counts of pages there stay 0 */
    uint8_t rule;     /* enum kvt_backup_rule */
    uint32_t queries; /* of the widest call: the tail is that of such a call */
    uint32_t committed_tokens;
    uint32_t backed_tokens;
    uint32_t queued_tokens;  /* backed, or on their way: at least backed_tokens */
    uint32_t left_pages;     /* pages [0, left) have a row outside the tail */
    uint32_t clean_pages;    /* pages [0, clean) are backed and wholly outside the tail */
    uint32_t eligible_pages; /* the same with a hot cache, 0 while whole */
    uint32_t optional_pages; /* ready, of the eligible */
    uint32_t filling_pages;  /* of the eligible */
    uint32_t kept_pages;     /* ready, of pages [eligible, left) */
    uint32_t word_count;
    uint64_t *ready_bits;                       /* [word_count] readable in HBM */
    uint64_t *filling_bits;                     /* [word_count] */
    uint64_t *resident_bits;                    /* [word_count] ready or filling */
    struct kvt_backup pending[KVT_BACKUPS_MAX]; /* ring: writes under way, in order */
    uint32_t pending_head, pending_count;
};

/* A history of context_tokens rows that may grow to max_tokens, in calls of at most `queries`
 * queries. All of it is on host, unless the rule is never; all of it is in HBM when whole,
 * else none but the tail. */
KVT_CHECKED kvt_status kvt_pages_init(struct kvt_pages *pages, uint32_t context_tokens,
                                      uint32_t max_tokens, uint32_t queries, bool whole,
                                      enum kvt_backup_rule rule, struct kvt_error *err);
void kvt_pages_fini(struct kvt_pages *pages);

/* Pages with a row outside the tail of the widest call, of a history of so many tokens. */
uint32_t kvt_pages_leaving(uint32_t context_tokens, uint32_t queries);

/* Fresh from kvt_pages_init(): the highest `count` of pages [0, left) have come into HBM and not
 * to host, nor has the tail. Of a whole request that is so for every page, whatever the count. */
void kvt_pages_land(struct kvt_pages *pages, uint32_t count);

/* Fresh, and landed: rows [0, tokens) are on host all the same. */
void kvt_pages_found(struct kvt_pages *pages, uint32_t tokens);
/* Fresh: page [0, left) has a copy in HBM too. Nothing to do where the request is whole. */
void kvt_pages_take(struct kvt_pages *pages, uint32_t page);

/* Tokens committed in a round. Where rows are written at once, their write-back ends at
 * done_ns. */
void kvt_pages_commit(struct kvt_pages *pages, uint32_t tokens, kvt_ns done_ns);

/* The write-back of rows [queued_tokens, tokens) has been sent and ends at done_ns, no earlier
 * than those before it. tokens: more than queued_tokens, at most committed_tokens. */
void kvt_pages_queue_backup(struct kvt_pages *pages, uint32_t tokens, kvt_ns done_ns);

/* When a call with `queries` more rows can begin: now_ns, or when the write-back of the rows
 * whose slots it takes in the tail ends. Rows of pages in HBM need not be awaited. A write that
 * has to be awaited must have been sent. */
kvt_ns kvt_pages_tail_ready_ns(const struct kvt_pages *pages, uint32_t queries, kvt_ns now_ns);

/* At a step boundary: what has been written by now_ns becomes backed, and pages that are backed
 * and have left the tail become eligible, those kept among them optional. */
void kvt_pages_settle(struct kvt_pages *pages, kvt_ns now_ns);

/* Not whole: pages that the tail of the coming call no longer covers whole. unbacked: how many
 * of them, the highest, have rows that are not on host. */
uint32_t kvt_pages_begin_to_leave(const struct kvt_pages *pages, uint32_t *unbacked);
/* They leave: the highest `keep` of them stay in HBM, their rows are in both for a while.
 * Rows that then have no other home must be on their way to host. */
void kvt_pages_leave(struct kvt_pages *pages, uint32_t keep);
/* Rows up to here must be on host before the coming call. Not whole, pages have left. */
uint32_t kvt_pages_must_be_backed(const struct kvt_pages *pages);

/* Pages in HBM, kept or of a whole request, that only want for their write-back to be
 * reclaimable. */
uint32_t kvt_pages_await_backup(const struct kvt_pages *pages);

/* A whole request is given a hot cache and a tail: clean pages become optional, the others
 * outside the tail are kept. */
void kvt_pages_part(struct kvt_pages *pages);
/* How many pages it would keep. */
uint32_t kvt_pages_kept_when_parted(const struct kvt_pages *pages);

/* Eligible pages [first, first + count), each host only; bytes are the caller's. */
bool kvt_pages_can_fill(const struct kvt_pages *pages, uint32_t first, uint32_t count);
void kvt_pages_begin_fill(struct kvt_pages *pages, uint32_t first, uint32_t count);
void kvt_pages_end_fill(struct kvt_pages *pages, uint32_t first, uint32_t count);

/* Optional pages [first, first + count): their HBM copy goes. */
bool kvt_pages_can_release(const struct kvt_pages *pages, uint32_t first, uint32_t count);
void kvt_pages_release(struct kvt_pages *pages, uint32_t first, uint32_t count);
/* Every optional page from `first` on; returns how many went. */
uint32_t kvt_pages_release_from(struct kvt_pages *pages, uint32_t first);

/* Pages whose HBM bytes are held, for a request that is not whole. */
static inline uint32_t kvt_pages_held(const struct kvt_pages *pages)
{
    return pages->optional_pages + pages->filling_pages + pages->kept_pages;
}

/* How many of ready_bits a call has to look at; 0: no page is readable. */
static inline uint32_t kvt_pages_readable(const struct kvt_pages *pages)
{
    if (pages->whole)
        return pages->word_count * 64;
    return pages->optional_pages + pages->kept_pages > 0 ? pages->left_pages : 0;
}

enum kvt_page_state kvt_pages_state(const struct kvt_pages *pages, uint32_t page);

/* Every committed row is in the tail, in a page in HBM, or on host by now_ns. */
bool kvt_pages_have_homes(const struct kvt_pages *pages, kvt_ns now_ns);

/* Counts agree with bits, bits lie inside pages that have left the tail, filling ones inside
 * eligible ones, and nothing is both ready and filling. Checked at the end of every run, and
 * by tests. */
bool kvt_pages_is_sane(const struct kvt_pages *pages);

KVT_END_DECLS
#endif
