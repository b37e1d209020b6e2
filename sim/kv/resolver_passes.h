/* resolver_passes.h -- the resolver's loops over sets and slots: for this folder, and for
 * the test that holds one implementation against the other. */
#ifndef KVT_KV_RESOLVER_PASSES_H
#define KVT_KV_RESOLVER_PASSES_H

#include "kvt/cpu.h"
#include "kvt/resolver.h"

/* The words of a call's history: rows before the tail. In the last of them only the rows
 * of last_rows are history. */
struct history {
    size_t words;
    uint64_t last_rows;
    const uint64_t *page_rows; /* NULL: none is resident by page */
    const uint64_t *hot_rows;  /* rows in the hot cache before the call */
    uint64_t *union_rows;      /* selected by the queries seen so far */
    uint64_t *looked_up;       /* of those, not resident by page */
};

/* Rows of the history. */
struct pass_counts {
    uint32_t selected, page, missed;
    uint32_t new_missed; /* missed, and not selected by a query before */
};

/* The words that are not zero of a set of missed rows, ascending. Implementations write
 * a vector at a time, so that there is room for MISS_WORDS_SLACK words more. */
enum {
    MISS_WORDS_SLACK = 16
};
struct miss_words {
    uint64_t *words;
    uint32_t *at; /* the place of each in the set */
    uint32_t count;
};

/* One implementation of everything that a call spends its time in. */
struct resolver_passes {
    /* The only query of a call: looked_up, its rows, and the new misses. */
    void (*look_alone)(const struct history *history, const uint64_t *selection,
                       struct pass_counts *counts, struct miss_words *missed);
    /* One query of several: joins union_rows; its new misses. */
    void (*look_query)(const struct history *history, const uint64_t *selection,
                       struct pass_counts *counts, struct miss_words *missed);
    /* All queries seen: looked_up, and the rows of the union. */
    void (*settle)(const struct history *history, struct pass_counts *counts);
    /* Writes the rows of missed to rows, and how many they are. */
    uint32_t (*list)(const struct miss_words *missed, uint32_t *rows);
    /* hit_bits of slots [0, count): their row is in the set. Writes whole words. */
    void (*find_hits)(const uint64_t *looked_up, const uint32_t *slot_rows, uint32_t count,
                      uint64_t *hit_bits);
};

/* NULL where this build has none for the level. */
const struct resolver_passes *kvt_resolver_passes(enum kvt_cpu cpu);
extern const struct resolver_passes kvt_resolver_passes_avx512;

/* From the next call on. False, and nothing has changed, where this machine or build does
 * not have the level. */
bool kvt_resolver_set_cpu(struct kvt_resolver *resolver, enum kvt_cpu cpu);

#endif
