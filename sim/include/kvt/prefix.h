/* kvt/prefix.h -- pages that outlive the request that made them, found again by their content.
 *
 * One store serves one rank and the host DRAM behind it. A page is KVT_PAGE_ROWS tokens of
 * history; its key stands for its tokens and all tokens before them (workload.h), so that equal
 * keys mean equal pages. A page may have several copies, each in a home of its own, each found,
 * held and reclaimed by itself. A copy that somebody holds stays; one that nobody holds stays
 * readable until its bytes are wanted, the least recently used first, and of one prefix the tail
 * before the head: for that, each call's keys run from the prompt's first page on, or what lies
 * before them is still held and let go of afterwards.
 *
 * The store moves no bytes and knows no pools: it says which bytes are on its account, and its
 * owner takes them from the pools and gives them back. */
#ifndef KVT_PREFIX_H
#define KVT_PREFIX_H

#include "kvt/error.h"

KVT_BEGIN_DECLS

enum kvt_prefix_home {
    KVT_PREFIX_INDEX_HBM = 0, /* index rows, scanned in place */
    KVT_PREFIX_INDEX_HOST,    /* index rows, written out; they must come up before use */
    KVT_PREFIX_ROWS_HBM,      /* payload rows of all layers */
    KVT_PREFIX_ROWS_HOST,
    KVT_PREFIX_HOMES
};
/* "index in HBM", ...; never NULL. */
const char *kvt_prefix_home_name(enum kvt_prefix_home home);

/* A set of homes: bit h is enum kvt_prefix_home h. */
typedef uint8_t kvt_prefix_homes;
#define KVT_PREFIX_IN(home) ((kvt_prefix_homes)(1u << (home)))

/* What of a prompt the store has. */
struct kvt_prefix_hit {
    uint32_t pages;       /* from the first on, with index rows and payload: the shorter of */
    uint32_t index_pages; /* ... those whose index rows are there, in either home, and ... */
    uint32_t rows_pages;  /* ... those whose payload is, in either home */
    uint32_t in_home[KVT_PREFIX_HOMES]; /* of the hit's pages, those with a copy in each home */
};

struct kvt_prefix_counters {
    uint64_t adopted_pages;                     /* by requests that found them */
    uint64_t inserted_pages[KVT_PREFIX_HOMES];  /* copies that became new */
    uint64_t duplicate_pages[KVT_PREFIX_HOMES]; /* copies that were there already */
    uint64_t reclaimed_pages[KVT_PREFIX_HOMES];
};

struct kvt_prefix;

/* page_bytes: of one page in each home. None for index rows on host: there pages lie whole, and
 * that home is not used. *out is freed with kvt_prefix_free(). */
KVT_CHECKED kvt_status kvt_prefix_new(const uint64_t page_bytes[KVT_PREFIX_HOMES],
                                      struct kvt_prefix **out, struct kvt_error *err);
void kvt_prefix_free(struct kvt_prefix *store); /* takes NULL */

/* Pages of a prompt that may be found: whole ones, and never its last token, which the request
 * must compute to answer at all. */
static inline uint32_t kvt_prefix_pages_of(uint32_t input_tokens)
{
    return input_tokens > 0 ? (input_tokens - 1) / KVT_PAGE_ROWS : 0;
}

/* Finds keys[0..count), in order. homes[i], for i < the hit's pages, says where page i is; NULL:
 * not wanted. Changes nothing, so that a router may ask many stores. */
void kvt_prefix_lookup(const struct kvt_prefix *store, const uint64_t *keys, uint32_t count,
                       kvt_prefix_homes *homes, struct kvt_prefix_hit *hit);

/* Whether there is a copy of the page in this home. */
bool kvt_prefix_has(const struct kvt_prefix *store, uint64_t key, enum kvt_prefix_home home);

/* Holds the copies in homes[i] of each page keys[i], which must be there: found by a lookup since
 * the last reclaim. They become the most recently used. A copy may be held by any number. */
void kvt_prefix_adopt(struct kvt_prefix *store, const uint64_t *keys, const kvt_prefix_homes *homes,
                      uint32_t count);

/* Lets go of what was adopted, or inserted as held. */
void kvt_prefix_release(struct kvt_prefix *store, const uint64_t *keys,
                        const kvt_prefix_homes *homes, uint32_t count);

/* Adds the copies in homes[i] of each page keys[i]; `held`: by the caller, until it releases them.
 * Copies already there are not added twice, and become as recent (and as held). added_bytes[h] is
 * what came onto the store's account: the rest of what the caller had is a duplicate, and free.
 * On failure (memory) the store is as it was. */
KVT_CHECKED kvt_status kvt_prefix_insert(struct kvt_prefix *store, const uint64_t *keys,
                                         const kvt_prefix_homes *homes, uint32_t count, bool held,
                                         uint64_t added_bytes[KVT_PREFIX_HOMES],
                                         struct kvt_error *err);

/* Gives up one copy if nobody holds it; false (nothing done) when somebody does, or there is none.
 */
bool kvt_prefix_drop(struct kvt_prefix *store, uint64_t key, enum kvt_prefix_home home);

/* Gives up copies in one home until want_bytes of it have come free or nobody's are left. A page
 * that then has index rows without payload, or payload without index rows, in no home, serves
 * nobody: what nobody holds of it in other homes goes with it. freed_bytes[h]: what came free in
 * each home, in whole pages; in the one asked for at least want_bytes, or all there were. */
void kvt_prefix_reclaim(struct kvt_prefix *store, enum kvt_prefix_home home, uint64_t want_bytes,
                        uint64_t freed_bytes[KVT_PREFIX_HOMES]);

/* On the store's account: all copies in a home, and those of them that nobody holds, which count
 * as free. */
uint64_t kvt_prefix_bytes(const struct kvt_prefix *store, enum kvt_prefix_home home);
uint64_t kvt_prefix_reclaimable_bytes(const struct kvt_prefix *store, enum kvt_prefix_home home);

uint32_t kvt_prefix_page_count(const struct kvt_prefix *store); /* distinct, with any copy */
const struct kvt_prefix_counters *kvt_prefix_counters_of(const struct kvt_prefix *store);

/* Every page is found by its key, counts and lists agree. For tests and the end of a run. */
bool kvt_prefix_is_sane(const struct kvt_prefix *store);

KVT_END_DECLS
#endif
