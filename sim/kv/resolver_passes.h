/* resolver_passes.h -- the resolver's loops over sets and slots: for this folder, and for
 * the test that holds one implementation against the other. */
#ifndef KVT_KV_RESOLVER_PASSES_H
#define KVT_KV_RESOLVER_PASSES_H

#include "kvt/cpu.h"
#include "kvt/resolver.h"
#include "kvt/speculation.h"

/* What a call's queries ask of its history: the rows before the tail. In the last word
 * only the rows of last_rows are history. */
struct history {
    size_t words;
    uint64_t last_rows;
    const uint64_t *const *selections; /* [query_count] */
    uint32_t query_count;
    const uint64_t *page_rows; /* NULL: none is resident by page */
    const uint64_t *hot_rows;  /* rows in the hot cache */
    uint64_t *looked_up;       /* out: rows of the union that are not resident by page */
};

/* Rows of the history. */
struct row_counts {
    uint32_t selected, page, missed;
};

/* For each query, the words that are not zero of the set of its new misses: rows that no
 * query before it selects. Implementations write whole vectors: there is room for
 * MISS_SLACK words, and where rows are listed MISS_SLACK rows, more. */
enum {
    MISS_SLACK = 16
};
struct misses {
    uint64_t *words; /* [queries][stride] ascending */
    uint32_t *at;    /* [queries][stride] the place of each in its set */
    size_t stride;
    uint32_t counts[KVT_QUERIES_MAX];
};

/* One implementation of everything that a call spends its time in. */
struct resolver_passes {
    /* Counts with multiplicity, and each row once. */
    void (*look)(const struct history *history, struct row_counts *selections,
                 struct row_counts *rows, struct misses *misses);
    /* Writes a query's new misses, and how many they are. */
    uint32_t (*list)(const struct misses *misses, uint32_t query, uint32_t *rows);
    /* hit_bits of slots [0, count): their row is in the set. Writes whole words. */
    void (*find_hits)(const uint64_t *looked_up, const uint32_t *slot_rows, uint32_t count,
                      uint64_t *hit_bits);
    /* Whether these slots are below slot_count, distinct and none of them in hit_bits. Uses
     * taken[slot_count rounded up to 64, and 64 more]. */
    bool (*are_victims)(const kvt_slot *slots, uint32_t count, const uint64_t *hit_bits,
                        uint32_t slot_count, uint8_t *taken);
    /* Joins the second set to the first. */
    void (*join)(uint64_t *rows, const uint64_t *more, size_t words);
    /* kvt_resolve_result.placed_hash of rows that took slots. */
    uint64_t (*sum_placed)(const kvt_slot *slots, const uint32_t *rows, uint32_t count);
};

/* NULL where this build has none for the level. */
const struct resolver_passes *kvt_resolver_passes(enum kvt_cpu cpu);
extern const struct resolver_passes kvt_resolver_passes_avx512;

/* From the next call on. False, and nothing has changed, where this machine or build does
 * not have the level. */
bool kvt_resolver_set_cpu(struct kvt_resolver *resolver, enum kvt_cpu cpu);

#endif
