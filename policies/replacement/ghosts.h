/* ghosts.h -- rows that have left a cache and are remembered for a while, oldest first, in one list
 * or two. Found by row through a table of chains, so that they take memory by their own number and
 * not by that of a store's rows. */
#ifndef KVT_POLICIES_REPLACEMENT_GHOSTS_H
#define KVT_POLICIES_REPLACEMENT_GHOSTS_H

#include "kvt/policy.h"

enum {
    GHOST_LISTS = 2
};
#define GHOST_NONE UINT32_MAX

struct ghost {
    uint32_t newer, older, chain, row, list;
};

struct ghost_counts {
    uint32_t rows[GHOST_LISTS]; /* in each list */
    uint32_t used, free;        /* nodes that have ever been taken; the first that is free again */
};

/* A view of them, made for each call: nothing in the state is a pointer. */
struct ghosts {
    struct ghost_counts *counts;
    struct ghost *nodes; /* [capacity + GHOST_LISTS] list l has its own, capacity + l */
    uint32_t *heads;     /* [mask + 1] first node + 1 of each chain */
    uint32_t capacity, mask;
};

/* As many as `fraction` of the slots, and never more than the store has rows. */
uint32_t ghost_capacity(const struct kvt_replacement_env *env, double fraction);
/* Words that a state holds for them. */
size_t ghost_words(uint32_t capacity);
struct ghosts ghosts_at(uint64_t *words, uint32_t capacity);
/* Of zeroed words. */
void ghosts_init(const struct ghosts *ghosts);

/* Before many of them are looked for. */
void ghosts_ask_for(const struct ghosts *ghosts);

/* GHOST_NONE where the row is not remembered. */
uint32_t ghost_find(const struct ghosts *ghosts, uint32_t row);
void ghost_forget(const struct ghosts *ghosts, uint32_t node);
/* The row, which is not remembered, becomes the newest of the list; there is room. */
void ghost_remember(const struct ghosts *ghosts, uint32_t list, uint32_t row);
/* The list has some. */
static inline uint32_t ghost_oldest(const struct ghosts *ghosts, uint32_t list)
{
    return ghosts->nodes[ghosts->capacity + list].newer;
}

/* on_promoted() of policies that remember rows: what is in the cache is not remembered. */
void ghost_forget_rows(const struct ghosts *ghosts, const uint32_t *rows, uint32_t count);
/* Every row is in one list and found by its chain. */
bool ghosts_are_sane(const struct ghosts *ghosts);

#endif
