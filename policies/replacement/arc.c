/* arc.c -- ARC: rows that came once and rows that came back, in shares that learn from ghosts.
 *
 *     lists: t1 (rows that came once), t2 (rows that came back), LRU both; b1 and b2: ghosts, rows
 *            that t1 and t2 gave up; a target for the slots of t1, from 0 to c, all slots
 *     hit:  the slot becomes the newest of t2
 *     miss: a row in b1: target = min(target + max(|b2| / |b1|, 1), c); it leaves b1, comes into t2
 *           a row in b2: target = max(target - max(|b1| / |b2|, 1), 0); it leaves b2, comes into t2
 *           any other comes into t1
 *           fill the lowest empty slot; if there is none,
 *               for a row that was no ghost:
 *                   where |t1| + |b1| >= c: forget the oldest of b1; where b1 is empty, give up the
 *                       oldest of t1, whose row is not remembered, and be done
 *                   else where all four hold 2c rows: forget the oldest of b2
 *               give up the oldest of t1 where |t1| > target, or |t1| = target and the row was in
 *               b2; else that of t2; its row becomes the newest of b1 or b2
 *
 * Hits come before misses, in the order of the union. Slots that the call reads are passed by; a
 * list in which all are read, or that is empty, gives way to the other. A promoted row takes over
 * slot and place, and is no ghost. Sources: N. Megiddo and D. S. Modha, "ARC: a self-tuning, low
 * overhead replacement cache", FAST 2003; orders within a miss as in libCacheSim, eviction/ARC.c,
 * and as there ghosts are not cut while slots are empty. */
#include "ghosts.h"
#include "slot_lists.h"

enum {
    SET_EMPTY,
    SET_BACK, /* slots of t2 */
    SETS,
    ONCE = 0, /* t1 and b1 */
    BACK,     /* t2 and b2 */
    LISTS
};

struct arc {
    uint32_t slot_count, ghost_capacity;
    uint32_t counts[LISTS]; /* slots of t1 and t2 */
    double target;          /* of t1's slots */
    uint64_t words[];
};

struct play {
    struct arc *arc;
    struct slot_lists lists;
    struct ghosts ghosts;
    struct slot_play slots;
};

static struct slot_lists lists_of(struct arc *arc)
{
    return slot_lists_at(arc->words, arc->slot_count, SETS);
}

static struct ghosts ghosts_of(struct arc *arc)
{
    return ghosts_at(arc->words + slot_lists_words(arc->slot_count, SETS, LISTS),
                     arc->ghost_capacity);
}

static size_t arc_state_bytes(const struct kvt_replacement_env *env)
{
    return sizeof(struct arc) +
           (slot_lists_words(env->slot_count, SETS, LISTS) + ghost_words(ghost_capacity(env, 1))) *
               sizeof(uint64_t);
}

static kvt_status arc_init(void *state, const struct kvt_replacement_env *env,
                           struct kvt_error *err)
{
    struct arc *arc = state;

    (void)err;
    arc->slot_count = env->slot_count;
    arc->ghost_capacity = ghost_capacity(env, 1);
    struct slot_lists lists = lists_of(arc);
    struct ghosts ghosts = ghosts_of(arc);
    slot_lists_init(&lists, LISTS);
    ghosts_init(&ghosts);
    return KVT_OK;
}

/* ---- A call ------------------------------------------------------------------------------------
 */

static void play_hits(struct arc *arc, const struct slot_lists *lists,
                      const struct kvt_replacement_call *call)
{
    uint64_t *back = slot_set(lists, SET_BACK);

    for (uint32_t i = 0; i < call->hit_count; i++) {
        kvt_slot slot = call->hit_slots[i];
        slot_remove(lists, slot);
        slot_append(lists, BACK, slot);
        arc->counts[ONCE] -= !slot_is_in(back, slot);
        arc->counts[BACK] += !slot_is_in(back, slot);
        slot_put(back, slot, true);
    }
}

/* The target moves towards the list whose ghost came back; the other one's ghosts say by how much.
 */
static void learn(struct arc *arc, const struct ghosts *ghosts, uint32_t list)
{
    double own = ghosts->counts->rows[list], other = ghosts->counts->rows[1 - list];
    double step = other > own ? other / own : 1;

    if (list == ONCE)
        arc->target = arc->target + step < arc->slot_count ? arc->target + step : arc->slot_count;
    else
        arc->target = arc->target > step ? arc->target - step : 0;
}

/* Whatever the call has read is at the lists' new ends: the oldest is read where all are. */
static bool gives(const struct play *play, uint32_t list)
{
    uint32_t oldest = slot_oldest(&play->lists, list);

    return slot_is_any(&play->lists, oldest) && !slot_is_read(&play->slots, oldest);
}

static kvt_slot give_up(struct play *play, uint32_t list, bool remembered)
{
    kvt_slot slot = slot_oldest(&play->lists, list);

    slot_remove(&play->lists, slot);
    play->arc->counts[list]--;
    if (remembered)
        ghost_remember(&play->ghosts, list, play->slots.call->slot_rows[slot]);
    return slot;
}

/* `from` is the ghosts' list that the row was in; LISTS: none. */
static kvt_slot replace(struct play *play, uint32_t from)
{
    const struct arc *arc = play->arc;
    const struct ghosts *ghosts = &play->ghosts;
    const uint32_t *once = &ghosts->counts->rows[ONCE], *back = &ghosts->counts->rows[BACK];

    if (from == LISTS && (uint64_t)arc->counts[ONCE] + *once >= arc->slot_count) {
        if (*once == 0)
            return give_up(play, gives(play, ONCE) ? ONCE : BACK, false);
        ghost_forget(ghosts, ghost_oldest(ghosts, ONCE));
    } else if (from == LISTS && *back > 0 &&
               (uint64_t)arc->slot_count + *once + *back >= 2 * (uint64_t)arc->slot_count) {
        ghost_forget(ghosts, ghost_oldest(ghosts, BACK));
    }
    bool is_over =
        arc->counts[ONCE] > arc->target || (from == BACK && !(arc->counts[ONCE] < arc->target));
    uint32_t list = is_over ? ONCE : BACK;
    return give_up(play, gives(play, list) ? list : 1 - list, true);
}

static kvt_slot miss(struct play *play, uint32_t row)
{
    uint32_t ghost = ghost_find(&play->ghosts, row), from = LISTS;

    if (ghost != GHOST_NONE) {
        from = play->ghosts.nodes[ghost].list;
        learn(play->arc, &play->ghosts, from);
        ghost_forget(&play->ghosts, ghost);
    }
    uint32_t list = from == LISTS ? ONCE : BACK;
    kvt_slot slot = slot_take_empty(&play->lists, &play->slots);
    if (slot == KVT_SLOT_NONE)
        slot = replace(play, from);
    slot_put(slot_set(&play->lists, SET_BACK), slot, list == BACK);
    slot_append(&play->lists, list, slot);
    play->arc->counts[list]++;
    play->slots.filled[slot] = 1;
    return slot;
}

static uint32_t arc_choose_victims(void *state, const struct kvt_replacement_call *call,
                                   uint32_t want, kvt_slot *victims)
{
    struct play play = {.arc = state, .lists = lists_of(state), .ghosts = ghosts_of(state)};

    play.slots = slot_play_begin(&play.lists, call);
    ghosts_ask_for(&play.ghosts);
    play_hits(state, &play.lists, call);
    for (uint32_t i = 0; i < want; i++)
        victims[i] = miss(&play, call->missed_rows[i]);
    return want;
}

static void arc_on_resolved(void *state, const struct kvt_replacement_call *call,
                            const kvt_slot *fills, const uint32_t *evicted_rows,
                            uint32_t fill_count)
{
    struct slot_lists lists = lists_of(state);

    (void)fills, (void)evicted_rows;
    if (fill_count == 0)
        play_hits(state, &lists, call);
}

static void arc_on_promoted(void *state, const struct kvt_replacement_call *call,
                            const kvt_slot *slots, const uint32_t *rows,
                            const uint32_t *evicted_rows, uint32_t count)
{
    struct ghosts ghosts = ghosts_of(state);

    (void)call, (void)slots, (void)evicted_rows;
    ghost_forget_rows(&ghosts, rows, count);
}

static void arc_on_invalidate(void *state, kvt_slot slot)
{
    struct arc *arc = state;
    struct slot_lists lists = lists_of(arc);

    if (slot_is_in(lists.sets, slot))
        return;
    arc->counts[slot_is_in(slot_set(&lists, SET_BACK), slot) ? BACK : ONCE]--;
    slot_remove(&lists, slot);
    slot_put(slot_set(&lists, SET_BACK), slot, false);
    slot_put(lists.sets, slot, true);
}

/* ---- What can be asked -------------------------------------------------------------------------
 */

/* The list that gives up a slot for a row that is no ghost, then the other, each from the oldest
 * on. */
static void arc_ranks(const void *state, uint32_t *ranks)
{
    const struct arc *arc = state;
    struct slot_lists lists = lists_of((struct arc *)state);
    struct ghosts ghosts = ghosts_of((struct arc *)state);
    uint32_t rank = slot_rank_empty(&lists, ranks);
    bool fills_once = arc->counts[ONCE] == arc->slot_count && ghosts.counts->rows[ONCE] == 0;
    bool is_over = fills_once || arc->counts[ONCE] > arc->target;
    uint32_t first = (is_over && arc->counts[ONCE] > 0) || arc->counts[BACK] == 0 ? ONCE : BACK;

    rank = slot_rank_list(&lists, first, rank, ranks);
    (void)slot_rank_list(&lists, 1 - first, rank, ranks);
}

static bool arc_is_sane(const void *state)
{
    const struct arc *arc = state;
    struct slot_lists lists = lists_of((struct arc *)state);
    struct ghosts ghosts = ghosts_of((struct arc *)state);
    uint32_t in_back = 0;

    for (uint32_t w = 0; w < lists.set_words; w++) {
        if ((slot_set(&lists, SET_BACK)[w] & lists.sets[w]) != 0)
            return false;
        in_back += (uint32_t)__builtin_popcountll(slot_set(&lists, SET_BACK)[w]);
    }
    return in_back == arc->counts[BACK] && arc->target >= 0 && arc->target <= arc->slot_count &&
           slot_lists_are_sane(&lists, arc->counts, LISTS) && ghosts_are_sane(&ghosts);
}

const struct kvt_replacement_policy kvt_replacement_arc = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_replacement_arc,
             .name = "arc",
             .summary = "ARC: rows that came once and rows that came back, in learnt shares"},
    .state_bytes = arc_state_bytes,
    .init = arc_init,
    .choose_victims = arc_choose_victims,
    .on_resolved = arc_on_resolved,
    .on_invalidate = arc_on_invalidate,
    .ranks = arc_ranks,
    .is_sane = arc_is_sane,
    .on_promoted = arc_on_promoted,
    .wants_hit_order = true,
};
