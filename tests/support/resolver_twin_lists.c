/* resolver_twin_lists.c -- the twin's policies of several lists, of chance and of the future, from
 * the pseudocode on top of each: plain lists of slots and rows, oldest first, looked through from
 * one end to the other. Parameters have their defaults. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "resolver_twin_policy.h"

enum {
    SMALL = 0, /* of S3-FIFO; 2Q's `in`, ARC's t1 and b1, the only list of others */
    MAIN,      /* of S3-FIFO and 2Q; ARC's t2 and b2 */
    NO_LIST = 2,
    S3FIFO_PROMOTE_HITS = 2,
    LFU_AGEING_PER_SLOT = 10,
    WAYS = 32,
    BUCKETS = 16, /* of bucketed LRU */
    BUCKET_CALLS = 16,
    PAGE_ROWS = 64
};

/* ---- Lists --------------------------------------------------------------------------------------
 */

static int place_in(const struct twin_list *list, int item)
{
    for (int at = 0; at < list->count; at++) {
        if (list->items[at] == item)
            return at;
    }
    return -1;
}

static void drop(struct twin_list *list, int item)
{
    int at = place_in(list, item);

    memmove(list->items + at, list->items + at + 1,
            (size_t)(list->count - at - 1) * sizeof list->items[0]);
    list->count--;
}

static void add(struct twin_list *list, int item)
{
    list->items[list->count++] = item;
}

/* The first slot that the call does not read; -1: it reads all of them. */
static int first_unread(const struct twin *twin, const struct twin_list *list)
{
    for (int at = 0; at < list->count; at++) {
        if (!twin->read[list->items[at]])
            return list->items[at];
    }
    return -1;
}

static int share(double fraction, int slot_count)
{
    return (int)(fraction * slot_count);
}

/* The list of ghosts that has the row, which leaves it; NO_LIST: none. */
static int recall(struct twin *twin, int row)
{
    for (int list = 0; list < 2; list++) {
        if (place_in(&twin->ghosts[list], row) >= 0) {
            drop(&twin->ghosts[list], row);
            return list;
        }
    }
    return NO_LIST;
}

void twin_forget_ghost(struct twin *twin, int row)
{
    (void)recall(twin, row);
}

static void add_ghost(struct twin *twin, int list, int row, int most)
{
    if (most == 0)
        return;
    if (twin->ghosts[list].count == most)
        drop(&twin->ghosts[list], twin->ghosts[list].items[0]);
    add(&twin->ghosts[list], row);
}

/* Misses one by one, into empty slots and then into what the policy gives up. */
static void each_miss(struct twin *twin, int (*give_up)(struct twin *, int from),
                      void (*come_in)(struct twin *, int slot, int from))
{
    for (int i = 0; i < twin->answer.misses.count; i++) {
        int slot = twin_lowest_empty(twin);
        bool any = false;
        for (int other = 0; other < twin->slot_count; other++)
            any = any || !twin->read[other];
        if (!any)
            return;
        int from = twin->learn ? twin->learn(twin, twin->answer.misses.items[i])
                               : recall(twin, twin->answer.misses.items[i]);
        if (slot < 0)
            slot = give_up(twin, from);
        twin_fill(twin, slot);
        come_in(twin, slot, from);
    }
}

/* ---- SIEVE
 * ---------------------------------------------------------------------------------------- */

/* hand: a place in the list, of the oldest where it is past the end. */
static int sieve_give_up(struct twin *twin, int from)
{
    struct twin_list *queue = &twin->lists[SMALL];

    (void)from;
    for (;; twin->hand++) {
        if (twin->hand >= queue->count)
            twin->hand = 0;
        int slot = queue->items[twin->hand];
        if (twin->read[slot])
            continue;
        if (!twin->marked[slot]) {
            drop(queue, slot); /* the next newer one moves to the hand */
            return slot;
        }
        twin->marked[slot] = false;
    }
}

static void sieve_come_in(struct twin *twin, int slot, int from)
{
    bool at_end = twin->hand >= twin->lists[SMALL].count;

    (void)from;
    twin->marked[slot] = false;
    add(&twin->lists[SMALL], slot);
    if (at_end) /* the end is behind the row that came */
        twin->hand = twin->lists[SMALL].count;
}

static void replace_sieve(struct twin *twin)
{
    for (int i = 0; i < twin->answer.hit_slots.count; i++)
        twin->marked[twin->answer.hit_slots.items[i]] = true;
    each_miss(twin, sieve_give_up, sieve_come_in);
}

/* ---- S3-FIFO
 * --------------------------------------------------------------------------------------- */

static int s3fifo_give_up(struct twin *twin, int from)
{
    struct twin_list *small = &twin->lists[SMALL], *main = &twin->lists[MAIN];
    int target = share(0.1, twin->slot_count) > 1 ? share(0.1, twin->slot_count) : 1, slot;
    bool is_small = small->count >= target;

    (void)from;
    if (is_small ? first_unread(twin, small) < 0 : first_unread(twin, main) < 0)
        is_small = !is_small;
    while (is_small && (slot = first_unread(twin, small)) >= 0) {
        drop(small, slot);
        if (twin->uses[slot] < S3FIFO_PROMOTE_HITS) {
            add_ghost(twin, 0, twin->slot_rows[slot], share(0.9, twin->slot_count));
            return slot;
        }
        twin->uses[slot] = 0;
        add(main, slot);
    }
    for (;;) {
        slot = first_unread(twin, main);
        drop(main, slot);
        if (twin->uses[slot]-- == 0)
            return slot;
        add(main, slot);
    }
}

static void s3fifo_come_in(struct twin *twin, int slot, int from)
{
    twin->uses[slot] = 0;
    add(&twin->lists[from == NO_LIST ? SMALL : MAIN], slot);
}

static void replace_s3fifo(struct twin *twin)
{
    for (int i = 0; i < twin->answer.hit_slots.count; i++) {
        int *uses = &twin->uses[twin->answer.hit_slots.items[i]];
        *uses += *uses < 3;
    }
    each_miss(twin, s3fifo_give_up, s3fifo_come_in);
}

/* ---- 2Q
 * ---------------------------------------------------------------------------------------------- */

static int two_q_give_up(struct twin *twin, int from)
{
    struct twin_list *in = &twin->lists[SMALL], *main = &twin->lists[MAIN];
    int oldest_in = first_unread(twin, in), oldest_main = first_unread(twin, main);
    bool is_in = in->count > share(0.25, twin->slot_count) ? oldest_in >= 0 : oldest_main < 0;

    (void)from;
    if (!is_in) {
        drop(main, oldest_main);
        return oldest_main;
    }
    drop(in, oldest_in);
    add_ghost(twin, 0, twin->slot_rows[oldest_in], share(0.5, twin->slot_count));
    return oldest_in;
}

static void two_q_come_in(struct twin *twin, int slot, int from)
{
    add(&twin->lists[from == NO_LIST ? SMALL : MAIN], slot);
}

static void replace_two_q(struct twin *twin)
{
    for (int i = 0; i < twin->answer.hit_slots.count; i++) {
        int slot = twin->answer.hit_slots.items[i];
        if (place_in(&twin->lists[MAIN], slot) < 0)
            continue;
        drop(&twin->lists[MAIN], slot);
        add(&twin->lists[MAIN], slot);
    }
    each_miss(twin, two_q_give_up, two_q_come_in);
}

/* ---- ARC
 * --------------------------------------------------------------------------------------------- */

static int arc_learn(struct twin *twin, int row)
{
    double b1 = twin->ghosts[0].count, b2 = twin->ghosts[1].count, c = twin->slot_count;
    int from = recall(twin, row);

    if (from == 0)
        twin->target += b2 / b1 > 1 ? b2 / b1 : 1;
    if (from == 1)
        twin->target -= b1 / b2 > 1 ? b1 / b2 : 1;
    twin->target = twin->target < 0 ? 0 : twin->target > c ? c : twin->target;
    return from;
}

static int arc_give_up(struct twin *twin, int from)
{
    struct twin_list *t = twin->lists, *b = twin->ghosts;
    bool remembers = true, is_first;

    if (from == NO_LIST && t[0].count + b[0].count >= twin->slot_count) {
        remembers = b[0].count > 0;
        if (remembers)
            drop(&b[0], b[0].items[0]);
    } else if (from == NO_LIST && b[1].count > 0 &&
               t[0].count + t[1].count + b[0].count + b[1].count >= 2 * twin->slot_count) {
        drop(&b[1], b[1].items[0]);
    }
    is_first = !remembers || t[0].count > twin->target ||
               (from == 1 && (double)t[0].count == twin->target);
    int list = is_first ? 0 : 1;
    if (first_unread(twin, &t[list]) < 0)
        list = 1 - list;
    int slot = first_unread(twin, &t[list]);
    drop(&t[list], slot);
    if (remembers)
        add(&b[list], twin->slot_rows[slot]);
    return slot;
}

static void arc_come_in(struct twin *twin, int slot, int from)
{
    add(&twin->lists[from == NO_LIST ? 0 : 1], slot);
}

static void replace_arc(struct twin *twin)
{
    for (int i = 0; i < twin->answer.hit_slots.count; i++) {
        int slot = twin->answer.hit_slots.items[i];
        drop(&twin->lists[place_in(&twin->lists[0], slot) >= 0 ? 0 : 1], slot);
        add(&twin->lists[1], slot);
    }
    twin->learn = arc_learn;
    each_miss(twin, arc_give_up, arc_come_in);
}

/* ---- LFU
 * --------------------------------------------------------------------------------------------- */

/* Behind all that were used as often or less. */
static void lfu_use(struct twin *twin, int slot, int uses)
{
    struct twin_list *order = &twin->lists[SMALL];
    int at = order->count++;

    twin->uses[slot] = uses;
    for (; at > 0 && twin->uses[order->items[at - 1]] > uses; at--)
        order->items[at] = order->items[at - 1];
    order->items[at] = slot;
    if (++twin->accesses < LFU_AGEING_PER_SLOT * twin->slot_count)
        return;
    twin->accesses = 0;
    for (int other = 0; other < twin->slot_count; other++)
        twin->uses[other] /= 2;
}

static int lfu_give_up(struct twin *twin, int from)
{
    int slot = first_unread(twin, &twin->lists[SMALL]);

    (void)from;
    drop(&twin->lists[SMALL], slot);
    return slot;
}

static void lfu_come_in(struct twin *twin, int slot, int from)
{
    (void)from;
    lfu_use(twin, slot, 1);
}

static void replace_lfu(struct twin *twin)
{
    for (int i = 0; i < twin->answer.hit_slots.count; i++) {
        int slot = twin->answer.hit_slots.items[i];
        drop(&twin->lists[SMALL], slot);
        lfu_use(twin, slot, twin->uses[slot] + 1);
    }
    each_miss(twin, lfu_give_up, lfu_come_in);
}

/* ---- Random
 * ------------------------------------------------------------------------------------------ */

/* Draws all slots that nobody reads behind the empty ones, in front of which a call takes some. */
static void draw(const struct twin *twin, struct kvt_rng *rng, int draws, struct twin_list *out)
{
    int *left = calloc((size_t)twin->slot_count + 1, sizeof *left), count = 0;

    ck_assert_ptr_nonnull(left);
    for (int slot = 0; slot < twin->slot_count; slot++) {
        if (!twin->read[slot] && twin->slot_rows[slot] != TWIN_EMPTY)
            left[count++] = slot;
    }
    for (int i = 0; i < draws; i++) {
        int at = i + (int)kvt_rng_below(rng, (uint64_t)(count - i)), drawn = left[at];
        left[at] = left[i];
        left[i] = drawn;
        add(out, drawn);
    }
    free(left);
}

static void replace_random(struct twin *twin)
{
    int left = twin->answer.misses.count, free_slots = 0, slot;
    struct twin_list drawn = {.items = malloc(((size_t)twin->slot_count + 1) * sizeof(int))};

    ck_assert_ptr_nonnull(drawn.items);
    for (slot = 0; slot < twin->slot_count; slot++)
        free_slots += !twin->read[slot] && twin->slot_rows[slot] != TWIN_EMPTY;
    for (; left > 0 && (slot = twin_lowest_empty(twin)) >= 0; left--)
        twin_fill(twin, slot);
    draw(twin, &twin->rng, left < free_slots ? left : free_slots, &drawn);
    for (int i = 0; i < drawn.count; i++)
        twin_fill(twin, drawn.items[i]);
    free(drawn.items);
}

/* ---- Coarse ages ------------------------------------------------------------------- */

/* uses: the calls since one read the slot. */
static int bucket_of(const struct twin *twin, int slot)
{
    int bucket = twin->uses[slot] / BUCKET_CALLS;
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static void replace_bucketed(struct twin *twin)
{
    for (int i = 0; i < twin->answer.misses.count; i++) {
        int slot = twin_lowest_empty(twin);
        for (int bucket = BUCKETS - 1; bucket >= 0 && slot < 0; bucket--) {
            for (int s = twin->slot_count - 1; s >= 0; s--)
                slot = !twin->read[s] && bucket_of(twin, s) == bucket ? s : slot;
        }
        if (slot < 0)
            break;
        twin_fill(twin, slot);
    }
    for (int slot = 0; slot < twin->slot_count; slot++)
        twin->uses[slot] = twin->read[slot] ? 0 : twin->uses[slot] + 1;
}

/* ---- Shards
 * ------------------------------------------------------------------------------------------- */

static int shard_count(const struct twin *twin)
{
    return twin->slot_count > WAYS ? twin->slot_count / WAYS : 1;
}

/* -1: the call reads all of its slots. */
static int shard_slot(const struct twin *twin, int shard)
{
    int held = 0, shards = shard_count(twin);

    for (int slot = 0; slot < twin->slot_count; slot++)
        held += twin->uses[slot] == shard + 1;
    if (held < twin->slot_count / shards + (shard < twin->slot_count % shards))
        return twin_lowest_empty(twin);
    for (int i = 0; i < twin->lists[SMALL].count; i++) {
        int slot = twin->lists[SMALL].items[i];
        if (twin->uses[slot] == shard + 1 && !twin->read[slot])
            return slot;
    }
    return -1;
}

/* uses: the shard that has the slot, and 1. The list is of all slots: what is true of it is true of
 * each shard's part. */
static void replace_sharded(struct twin *twin)
{
    struct twin_list *list = &twin->lists[SMALL];
    struct twin_list hits = {.items = malloc(((size_t)twin->slot_count + 1) * sizeof(int))};
    int slot;

    ck_assert_ptr_nonnull(hits.items);
    for (int i = 0; i < list->count; i++) {
        if (twin->read[list->items[i]])
            add(&hits, list->items[i]);
    }
    for (int i = 0; i < twin->answer.misses.count && i < twin->slot_count - hits.count; i++) {
        int shard =
            (int)(twin_mix((uint64_t)twin->answer.misses.items[i]) % (uint64_t)shard_count(twin));
        while ((slot = shard_slot(twin, shard)) < 0)
            shard = (shard + 1) % shard_count(twin);
        twin->uses[slot] = shard + 1;
        twin_fill(twin, slot);
    }
    for (int i = 0; i < twin->answer.fills.count; i++) {
        if (place_in(list, twin->answer.fills.items[i]) >= 0)
            drop(list, twin->answer.fills.items[i]);
        add(list, twin->answer.fills.items[i]);
    }
    for (int i = 0; i < hits.count; i++) {
        drop(list, hits.items[i]);
        add(list, hits.items[i]);
    }
    free(hits.items);
}

/* ---- Bounds
 * -------------------------------------------------------------------------------------------- */

static uint64_t page_next_use(const struct twin *twin, int page)
{
    uint64_t nearest = UINT64_MAX;

    for (int slot = 0; slot < twin->slot_count; slot++) {
        int row = twin->slot_rows[slot];
        if (row != TWIN_EMPTY && row / PAGE_ROWS == page && twin->next_use[slot] < nearest)
            nearest = twin->next_use[slot];
    }
    return nearest;
}

/* Whether a goes before b, which has the lower slot. */
static bool goes_before(const struct twin *twin, const uint64_t *pages, int a, int b)
{
    int page_a = twin->slot_rows[a] / PAGE_ROWS, page_b = twin->slot_rows[b] / PAGE_ROWS;

    if (twin->policy == TWIN_ORACLE_PAGES && page_a != page_b)
        return pages[a] != pages[b] ? pages[a] > pages[b] : page_a < page_b;
    return twin->next_use[a] > twin->next_use[b];
}

static void replace_farthest(struct twin *twin)
{
    uint64_t *pages = calloc((size_t)twin->slot_count, sizeof *pages);

    ck_assert_ptr_nonnull(pages);
    for (int slot = 0; slot < twin->slot_count && twin->policy == TWIN_ORACLE_PAGES; slot++) {
        if (twin->slot_rows[slot] != TWIN_EMPTY)
            pages[slot] = page_next_use(twin, twin->slot_rows[slot] / PAGE_ROWS);
    }
    for (int i = 0; i < twin->answer.misses.count; i++) {
        int best = twin_lowest_empty(twin);
        for (int slot = 0;
             slot < twin->slot_count && !(best >= 0 && twin->slot_rows[best] == TWIN_EMPTY);
             slot++) {
            if (!twin->read[slot] && (best < 0 || goes_before(twin, pages, slot, best)))
                best = slot;
        }
        if (best < 0)
            break;
        twin_fill(twin, best);
    }
    free(pages);
}

/* ---- Ranks
 * ---------------------------------------------------------------------------------------------- */

static void order_empty(struct twin *twin)
{
    twin->order.count = 0;
    for (int slot = 0; slot < twin->slot_count; slot++) {
        if (twin->slot_rows[slot] == TWIN_EMPTY)
            add(&twin->order, slot);
    }
}

static struct twin_list copied(const struct twin_list *list, int room)
{
    struct twin_list copy = {.items = malloc(((size_t)room + 1) * sizeof(int)),
                             .count = list->count};

    ck_assert_ptr_nonnull(copy.items);
    memcpy(copy.items, list->items, (size_t)list->count * sizeof(int));
    return copy;
}

/* Of a copy that nobody reads, for a row that is not known; the copy's own lists go. */
static int next_victim(const struct twin *twin, int (*give_up)(struct twin *, int from))
{
    struct twin copy = *twin;
    struct twin_list uses = {.items = twin->uses, .count = twin->slot_count};

    for (int list = 0; list < 2; list++) {
        copy.lists[list] = copied(&twin->lists[list], twin->slot_count);
        copy.ghosts[list] = copied(&twin->ghosts[list], twin->row_count);
    }
    uses = copied(&uses, twin->slot_count);
    copy.uses = uses.items;
    copy.read = calloc((size_t)twin->slot_count, sizeof *copy.read);
    ck_assert_ptr_nonnull(copy.read);
    int victim = twin->lists[0].count + twin->lists[1].count > 0 ? give_up(&copy, NO_LIST) : -1;
    free(copy.read);
    free(copy.uses);
    for (int list = 0; list < 2; list++) {
        free(copy.ghosts[list].items);
        free(copy.lists[list].items);
    }
    return victim;
}

static void order_lists(struct twin *twin, int first)
{
    for (int i = 0; i < 2; i++) {
        const struct twin_list *list = &twin->lists[i == 0 ? first : 1 - first];
        for (int at = 0; at < list->count; at++)
            add(&twin->order, list->items[at]);
    }
}

static void order_by_giver(struct twin *twin, int (*give_up)(struct twin *, int from))
{
    int victim = next_victim(twin, give_up);

    order_lists(twin, victim >= 0 && place_in(&twin->lists[MAIN], victim) >= 0 ? MAIN : SMALL);
}

static void order_s3fifo(struct twin *twin)
{
    int victim = next_victim(twin, s3fifo_give_up), first = twin->order.count;

    order_lists(twin, SMALL);
    if (victim < 0)
        return;
    int at = place_in(&twin->order, victim);
    memmove(twin->order.items + first + 1, twin->order.items + first,
            (size_t)(at - first) * sizeof(int));
    twin->order.items[first] = victim;
}

static void order_sieve(struct twin *twin)
{
    const struct twin_list *queue = &twin->lists[SMALL];

    for (int marked = 0; marked < 2; marked++) {
        for (int i = 0; i < queue->count; i++) {
            int slot = queue->items[(twin->hand + i) % queue->count];
            if (twin->hand >= queue->count)
                slot = queue->items[i];
            if (twin->marked[slot] == (marked == 1))
                add(&twin->order, slot);
        }
    }
}

static void order_random(struct twin *twin)
{
    struct kvt_rng rng = twin->rng;

    memset(twin->read, 0, (size_t)twin->slot_count * sizeof(bool));
    draw(twin, &rng, twin->slot_count - twin->order.count, &twin->order);
}

static void order_shards(struct twin *twin)
{
    int *seen = calloc((size_t)shard_count(twin), sizeof *seen);

    ck_assert_ptr_nonnull(seen);
    for (int place = 0; twin->order.count < twin->slot_count; place++) {
        for (int shard = 0; shard < shard_count(twin); shard++) {
            seen[shard] = 0;
            for (int i = 0; i < twin->lists[SMALL].count; i++) {
                int slot = twin->lists[SMALL].items[i];
                if (twin->uses[slot] == shard + 1 && seen[shard]++ == place)
                    add(&twin->order, slot);
            }
        }
    }
    free(seen);
}

static void order_buckets(struct twin *twin)
{
    for (int bucket = BUCKETS - 1; bucket >= 0; bucket--) {
        for (int slot = 0; slot < twin->slot_count; slot++) {
            if (bucket_of(twin, slot) == bucket && twin->slot_rows[slot] != TWIN_EMPTY)
                add(&twin->order, slot);
        }
    }
}

/* The slots in the order of their ranks, after the call. */
void twin_order_lists(struct twin *twin)
{
    order_empty(twin);
    switch (twin->policy) {
    case TWIN_SIEVE:
        order_sieve(twin);
        break;
    case TWIN_S3FIFO:
        order_s3fifo(twin);
        break;
    case TWIN_TWO_Q:
        order_by_giver(twin, two_q_give_up);
        break;
    case TWIN_ARC:
        order_by_giver(twin, arc_give_up);
        break;
    case TWIN_RANDOM:
        order_random(twin);
        break;
    case TWIN_SHARDED_LRU:
        order_shards(twin);
        break;
    case TWIN_BUCKETED_LRU:
        order_buckets(twin);
        break;
    case TWIN_BELADY:
    case TWIN_ORACLE_PAGES:
        for (int slot = twin->order.count = 0; slot < twin->slot_count; slot++)
            add(&twin->order, slot);
        break;
    default:
        order_lists(twin, SMALL);
    }
}

void twin_replace_lists(struct twin *twin)
{
    static void (*const policies[TWIN_POLICIES])(struct twin *) = {
        [TWIN_LFU] = replace_lfu,
        [TWIN_SIEVE] = replace_sieve,
        [TWIN_S3FIFO] = replace_s3fifo,
        [TWIN_ARC] = replace_arc,
        [TWIN_TWO_Q] = replace_two_q,
        [TWIN_RANDOM] = replace_random,
        [TWIN_SHARDED_LRU] = replace_sharded,
        [TWIN_BELADY] = replace_farthest,
        [TWIN_ORACLE_PAGES] = replace_farthest,
        [TWIN_BUCKETED_LRU] = replace_bucketed,
    };
    policies[twin->policy](twin);
}
