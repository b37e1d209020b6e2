/* resolver_twin.c -- a resolver written from the words of the design, with plain lists. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "resolver_twin_policy.h"

enum place {
    UNSEEN = 0,
    TAIL,
    PAGE,
    HOT,
    MISSED
};

static void *room(int count, size_t size_bytes)
{
    void *memory = calloc((size_t)count + 1, size_bytes);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

/* ---- Lists -------------------------------------------------------------------- */

static void append(struct twin_list *list, int item)
{
    list->items[list->count++] = item;
}

/* All lists of an answer. */
#define ANSWER_LISTS 9
static void answer_lists(struct twin_answer *answer, struct twin_list *lists[ANSWER_LISTS])
{
    struct twin_list *const all[ANSWER_LISTS] = {
        &answer->tail,    &answer->page,      &answer->hits,
        &answer->misses,  &answer->hit_slots, &answer->fills,
        &answer->evicted, &answer->promoted,  &answer->promoted_slots};
    memcpy(lists, all, sizeof all);
}

/* ---- The cache ------------------------------------------------------------------ */

void twin_init(struct twin *twin, enum twin_policy policy, int row_count, int slot_count)
{
    int longest = row_count > slot_count ? row_count : slot_count;
    struct twin_list *lists[ANSWER_LISTS];

    memset(twin, 0, sizeof *twin);
    twin->row_count = row_count;
    twin->slot_count = slot_count;
    twin->policy = policy;
    twin->promoted_are_newest = policy == TWIN_ACCESS_LRU || policy == TWIN_FIFO;
    twin->slot_rows = room(slot_count, sizeof(int));
    twin->slot_of = room(row_count, sizeof(int));
    twin->places = room(row_count, sizeof(int));
    twin->queries = room(row_count, sizeof(int));
    twin->read = room(slot_count, sizeof(bool));
    twin->marked = room(slot_count, sizeof(bool));
    twin->order.items = room(slot_count, sizeof(int));
    for (int list = 0; list < 2; list++) {
        twin->lists[list].items = room(slot_count, sizeof(int));
        twin->ghosts[list].items = room(row_count, sizeof(int));
    }
    twin->uses = room(slot_count, sizeof(int));
    twin->rng = kvt_rng_stream(0, KVT_RNG_POLICY, 0);
    answer_lists(&twin->answer, lists);
    for (int i = 0; i < ANSWER_LISTS; i++)
        lists[i]->items = room(longest, sizeof(int));
    for (int slot = 0; slot < slot_count; slot++) {
        twin->slot_rows[slot] = TWIN_EMPTY;
        append(&twin->order, slot);
    }
    for (int row = 0; row < row_count; row++)
        twin->slot_of[row] = TWIN_EMPTY;
}

void twin_fini(struct twin *twin)
{
    struct twin_list *lists[ANSWER_LISTS];

    answer_lists(&twin->answer, lists);
    for (int i = 0; i < ANSWER_LISTS; i++)
        free(lists[i]->items);
    free(twin->uses);
    for (int list = 0; list < 2; list++) {
        free(twin->ghosts[list].items);
        free(twin->lists[list].items);
    }
    free(twin->order.items);
    free(twin->marked);
    free(twin->read);
    free(twin->queries);
    free(twin->places);
    free(twin->slot_of);
    free(twin->slot_rows);
}

static void put(struct twin *twin, int row, int slot)
{
    if (twin->slot_rows[slot] != TWIN_EMPTY)
        twin->slot_of[twin->slot_rows[slot]] = TWIN_EMPTY;
    twin->slot_rows[slot] = row;
    twin->slot_of[row] = slot;
}

/* ---- A call --------------------------------------------------------------------- */

static void forget_answer(struct twin *twin)
{
    struct twin_list *lists[ANSWER_LISTS];
    struct twin_answer *answer = &twin->answer;

    answer_lists(answer, lists);
    for (int i = 0; i < ANSWER_LISTS; i++)
        lists[i]->count = 0;
    answer->tail_selected = answer->page_selected = 0;
    answer->hot_selected = answer->missed_selected = 0;
    memset(twin->read, 0, (size_t)twin->slot_count * sizeof(bool));
    memset(twin->places, 0, (size_t)twin->row_count * sizeof(int));
    memset(twin->queries, 0, (size_t)twin->row_count * sizeof(int));
}

static enum place place_of(const struct twin *twin, const struct twin_call *call, int row)
{
    if (row >= call->tail_first_row)
        return TAIL;
    if (call->paged != NULL && call->paged[row])
        return PAGE;
    return twin->slot_of[row] == TWIN_EMPTY ? MISSED : HOT;
}

/* Steps 1 to 3: each row of U once, in order, goes to where it was found. */
static void look(struct twin *twin, const struct twin_call *call)
{
    struct twin_answer *answer = &twin->answer;
    struct twin_list *const lists[] = {NULL, &answer->tail, &answer->page, &answer->hits,
                                       &answer->misses};
    int *const selected[] = {NULL, &answer->tail_selected, &answer->page_selected,
                             &answer->hot_selected, &answer->missed_selected};

    for (int query = 0; query < call->query_count; query++) {
        for (int i = 0; i < call->selections[query].count; i++) {
            int row = call->selections[query].items[i];
            enum place place = place_of(twin, call, row);
            ++*selected[place];
            twin->queries[row]++;
            if (twin->places[row] != UNSEEN)
                continue;
            twin->places[row] = place;
            append(lists[place], row);
            if (place == HOT) {
                append(&answer->hit_slots, twin->slot_of[row]);
                twin->read[twin->slot_of[row]] = true;
            }
        }
    }
    answer->skipped = answer->hits.count == 0 && answer->misses.count == 0;
}

/* ---- Promotion -------------------------------------------------------------------- */

/* The index of the first of the largest values; -1 when there is no value >= 0. */
static int first_largest(const int *values, int count)
{
    int best = -1;
    for (int i = 0; i < count; i++) {
        if (values[i] >= 0 && (best < 0 || values[i] > values[best]))
            best = i;
    }
    return best;
}

static void promote(struct twin *twin, const struct twin_call *call)
{
    struct twin_answer *answer = &twin->answer;
    int filled = answer->fills.count, staged_count = answer->misses.count - filled;
    int *staged = room(staged_count, sizeof(int));    /* queries of each; -1: promoted */
    int *spare = room(twin->slot_count, sizeof(int)); /* queries that pass it by; -1: given up */

    for (int i = 0; i < staged_count; i++)
        staged[i] = twin->queries[answer->misses.items[filled + i]];
    for (int slot = 0; slot < twin->slot_count; slot++)
        spare[slot] = call->query_count - twin->queries[twin->slot_rows[slot]];
    for (;;) {
        int best = first_largest(staged, staged_count);
        int slot = first_largest(spare, twin->slot_count);
        if (best < 0 || slot < 0 || staged[best] <= call->query_count - spare[slot])
            break;
        append(&answer->promoted, answer->misses.items[filled + best]);
        append(&answer->promoted_slots, slot);
        put(twin, answer->misses.items[filled + best], slot);
        twin_forget_ghost(twin, answer->misses.items[filled + best]);
        if (twin->promoted_are_newest)
            twin_make_newest(twin, slot);
        staged[best] = spare[slot] = -1;
    }
    free(spare);
    free(staged);
}

void twin_resolve(struct twin *twin, const struct twin_call *call)
{
    struct twin_answer *answer = &twin->answer;

    forget_answer(twin);
    look(twin, call);
    if (answer->skipped)
        return;
    twin->next_use = call->next_use;
    twin_replace(twin);
    for (int i = 0; i < answer->fills.count; i++) {
        append(&answer->evicted, twin->slot_rows[answer->fills.items[i]]);
        put(twin, answer->misses.items[i], answer->fills.items[i]);
    }
    if (call->promote_by_count && answer->misses.count > answer->fills.count)
        promote(twin, call);
    if (twin->policy >= TWIN_LFU)
        twin_order_lists(twin);
}

/* ---- Hashes ------------------------------------------------------------------------- */

uint64_t twin_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(13787848793156543929);
    x ^= x >> 27;
    x *= UINT64_C(10723151780598845931);
    return x ^ x >> 31;
}

uint64_t twin_chain(uint64_t chain, uint64_t value)
{
    return twin_mix(chain * UINT64_C(11400714819323198485) + value + 1);
}

static uint64_t sum_placed(const struct twin_list *slots, const struct twin_list *rows)
{
    uint64_t sum = 0;

    for (int i = 0; i < slots->count; i++)
        sum += twin_mix(((uint64_t)slots->items[i] << 32) + (uint64_t)rows->items[i] + 1);
    return sum;
}

uint64_t twin_placed_hash(const struct twin *twin)
{
    const struct twin_answer *answer = &twin->answer;
    return sum_placed(&answer->fills, &answer->misses) +
           sum_placed(&answer->promoted_slots, &answer->promoted);
}

uint64_t twin_hash(const struct twin *twin)
{
    uint64_t sum = 0;

    for (int rank = 0; rank < twin->order.count; rank++) {
        int slot = twin->order.items[rank], row = twin->slot_rows[slot];
        if (row != TWIN_EMPTY)
            sum += twin_chain(((uint64_t)slot << 32) + (uint64_t)row, (uint64_t)rank);
    }
    return sum;
}
