/* slot_lists.h -- what policies share that take a call row by row: slots in lists, the empty ones,
 * and which slots the call reads.
 *
 * A policy keeps the words of it in its state and looks at them through a view, which is made for
 * each call: nothing in the state is a pointer. */
#ifndef KVT_POLICIES_REPLACEMENT_SLOT_LISTS_H
#define KVT_POLICIES_REPLACEMENT_SLOT_LISTS_H

#include "kvt/policy.h"

struct slot_link {
    uint32_t newer, older;
};

/* Sets are bits of slots; set 0 is of those that hold no row. An occupied slot is in one list. List
 * l has a node of its own, slot_count + l, whose newer is the list's oldest slot and whose older
 * its newest. */
struct slot_lists {
    uint32_t slot_count, set_words;
    uint64_t *sets;          /* [sets][set_words] */
    struct slot_link *links; /* [slot_count + lists] */
};

/* Words that a state holds for it; without lists there are no links. */
size_t slot_lists_words(uint32_t slot_count, uint32_t set_count, uint32_t list_count);
struct slot_lists slot_lists_at(uint64_t *words, uint32_t slot_count, uint32_t set_count);
/* Of zeroed words: every slot is empty, the lists are, too. */
void slot_lists_init(const struct slot_lists *lists, uint32_t list_count);

static inline uint64_t *slot_set(const struct slot_lists *lists, uint32_t set)
{
    return lists->sets + (size_t)set * lists->set_words;
}

static inline bool slot_is_in(const uint64_t *set, uint32_t slot)
{
    return set[slot / 64] >> slot % 64 & 1;
}

static inline void slot_put(uint64_t *set, uint32_t slot, bool in)
{
    uint64_t bit = UINT64_C(1) << slot % 64;

    set[slot / 64] = in ? set[slot / 64] | bit : set[slot / 64] & ~bit;
}

/* Whether it is a slot, and not the end of a list. */
static inline bool slot_is_any(const struct slot_lists *lists, uint32_t node)
{
    return node < lists->slot_count;
}

static inline uint32_t slot_oldest(const struct slot_lists *lists, uint32_t list)
{
    return lists->links[lists->slot_count + list].newer;
}

/* Puts a slot that is in no list in front of the node. */
static inline void slot_insert_older(const struct slot_lists *lists, uint32_t node, uint32_t slot)
{
    uint32_t older = lists->links[node].older;

    lists->links[slot] = (struct slot_link){.newer = node, .older = older};
    lists->links[older].newer = slot;
    lists->links[node].older = slot;
}

static inline void slot_append(const struct slot_lists *lists, uint32_t list, uint32_t slot)
{
    slot_insert_older(lists, lists->slot_count + list, slot);
}

static inline void slot_remove(const struct slot_lists *lists, uint32_t slot)
{
    struct slot_link link = lists->links[slot];

    lists->links[link.older].newer = link.newer;
    lists->links[link.newer].older = link.older;
}

/* Ranks of the empty slots, the lowest first; returns how many there are. */
uint32_t slot_rank_empty(const struct slot_lists *lists, uint32_t *ranks);
/* Ranks of a list's slots from the oldest on, which has `rank`; returns the one after. */
uint32_t slot_rank_list(const struct slot_lists *lists, uint32_t list, uint32_t rank,
                        uint32_t *ranks);
/* The empty slots and those of the lists, count[l] in list l, are all there are, each once, and no
 * bit is past the last slot. */
bool slot_lists_are_sane(const struct slot_lists *lists, const uint32_t *counts,
                         uint32_t list_count);

/* Asks memory for a part of the state. Caches that are resolved in turn are cold, and lists are
 * gone along in no order of memory: each step would wait for a line of its own. */
void state_ask_for(const void *state, size_t bytes);

/* ---- A call ---------------------------------------------------------------------------------- */

/* A call's misses, one by one. */
struct slot_play {
    const struct kvt_replacement_call *call;
    uint8_t *filled;     /* [slot_count] by this call; the call's scratch */
    uint32_t empty_word; /* no word before it has an empty slot */
};

struct slot_play slot_play_begin(const struct slot_lists *lists,
                                 const struct kvt_replacement_call *call);

/* Attention reads the slot behind this call: no miss may take it. */
static inline bool slot_is_read(const struct slot_play *play, uint32_t slot)
{
    return slot_is_in(play->call->hit_bits, slot) || play->filled[slot];
}

/* Takes the lowest empty slot; KVT_SLOT_NONE: there is none. */
kvt_slot slot_take_empty(const struct slot_lists *lists, struct slot_play *play);
/* The first slot from the node on, to newer ones, that the call does not read; the list's end where
 * there is none. */
uint32_t slot_next_unread(const struct slot_lists *lists, const struct slot_play *play,
                          uint32_t node);

#endif
