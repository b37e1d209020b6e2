/* resolver_twin_policy.c -- the twin's replacement policies: one row after the other, as the words
 * that define them have it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "resolver_twin_policy.h"

const char *twin_policy_name(enum twin_policy policy)
{
    static const char *const names[TWIN_POLICIES] = {
        "lru", "access-lru", "fifo",   "clock",       "lfu",    "sieve",        "s3fifo",
        "arc", "2q",         "random", "sharded-lru", "belady", "oracle-pages", "bucketed-lru"};
    return names[policy];
}

void twin_make_newest(struct twin *twin, int slot)
{
    int *items = twin->order.items, at = 0;

    while (items[at] != slot)
        at++;
    memmove(items + at, items + at + 1, (size_t)(twin->order.count - at - 1) * sizeof *items);
    items[twin->order.count - 1] = slot;
}

/* ---- Victims ----------------------------------------------------------------------- */

static bool is_empty(const struct twin *twin, int slot)
{
    return twin->slot_rows[slot] == TWIN_EMPTY && !twin->read[slot];
}

int twin_lowest_empty(const struct twin *twin)
{
    for (int slot = 0; slot < twin->slot_count; slot++) {
        if (is_empty(twin, slot))
            return slot;
    }
    return -1;
}

static int oldest(const struct twin *twin)
{
    for (int i = 0; i < twin->order.count; i++) {
        if (!twin->read[twin->order.items[i]])
            return twin->order.items[i];
    }
    return -1;
}

void twin_fill(struct twin *twin, int slot)
{
    twin->answer.fills.items[twin->answer.fills.count++] = slot;
    twin->read[slot] = true;
}

/* ---- Policies of an order: lru, access-lru, fifo ---------------------------------------- */

/* Misses one by one, until every slot is read. */
static void replace_oldest(struct twin *twin)
{
    for (int i = 0; i < twin->answer.misses.count; i++) {
        int slot = twin_lowest_empty(twin);
        if (slot < 0)
            slot = oldest(twin);
        if (slot < 0)
            return;
        twin_fill(twin, slot);
        twin_make_newest(twin, slot);
    }
}

/* Misses, and then everything that hit, which keeps its order. */
static void replace_lru(struct twin *twin)
{
    int *hits = malloc(((size_t)twin->slot_count + 1) * sizeof *hits), hit_count = 0;

    ck_assert_ptr_nonnull(hits);
    for (int i = 0; i < twin->order.count; i++) {
        if (twin->read[twin->order.items[i]])
            hits[hit_count++] = twin->order.items[i];
    }
    replace_oldest(twin);
    for (int i = 0; i < hit_count; i++)
        twin_make_newest(twin, hits[i]);
    free(hits);
}

static void replace_access_lru(struct twin *twin)
{
    for (int i = 0; i < twin->answer.hit_slots.count; i++)
        twin_make_newest(twin, twin->answer.hit_slots.items[i]);
    replace_oldest(twin);
}

/* ---- CLOCK ---------------------------------------------------------------------------------- */

/* Turns a hand until it has found a slot that is neither read nor marked, which it does in the
 * second turn at the latest; -1: all are read. */
static int turn(int slot_count, int *hand, bool *marked, const bool *read)
{
    for (int seen = 0; seen < 2 * slot_count; seen++) {
        int slot = *hand;
        *hand = (*hand + 1) % slot_count;
        if (read[slot])
            continue;
        if (!marked[slot])
            return slot;
        marked[slot] = false;
    }
    return -1;
}

/* As the hand would take them, on a copy, if nothing came in between. */
static void list_by_clock(struct twin *twin)
{
    size_t bytes = (size_t)twin->slot_count * sizeof(bool);
    bool *marked = malloc(bytes), *listed = malloc(bytes);
    int hand = twin->hand, slot;

    ck_assert(marked != NULL && listed != NULL);
    memcpy(marked, twin->marked, bytes);
    memset(listed, 0, bytes);
    twin->order.count = 0;
    for (slot = 0; slot < twin->slot_count; slot++) {
        listed[slot] = is_empty(twin, slot);
        if (listed[slot])
            twin->order.items[twin->order.count++] = slot;
    }
    while ((slot = turn(twin->slot_count, &hand, marked, listed)) >= 0) {
        listed[slot] = true;
        twin->order.items[twin->order.count++] = slot;
    }
    free(listed);
    free(marked);
}

static void replace_clock(struct twin *twin)
{
    for (int i = 0; i < twin->answer.hit_slots.count; i++)
        twin->marked[twin->answer.hit_slots.items[i]] = true;
    for (int i = 0; i < twin->answer.misses.count; i++) {
        int slot = twin_lowest_empty(twin);
        if (slot < 0)
            slot = turn(twin->slot_count, &twin->hand, twin->marked, twin->read);
        if (slot < 0)
            break;
        twin_fill(twin, slot);
    }
    list_by_clock(twin);
}

void twin_replace(struct twin *twin)
{
    static void (*const policies[TWIN_LFU])(struct twin *) = {
        [TWIN_LRU] = replace_lru,
        [TWIN_ACCESS_LRU] = replace_access_lru,
        [TWIN_FIFO] = replace_oldest,
        [TWIN_CLOCK] = replace_clock,
    };
    if (twin->policy >= TWIN_LFU)
        twin_replace_lists(twin);
    else
        policies[twin->policy](twin);
}
