/* two_q.c -- 2Q, full version: a row is kept for long once it has come a second time.
 *
 *     lists: in (first in, first out), main (LRU), and ghosts: rows that `in` gave up
 *     hit:  in main: the slot becomes its newest; in `in`: nothing
 *     miss: is the row a ghost? then it no longer is
 *           fill the lowest empty slot, or one that is given up:
 *               if `in` has more than in_fraction of the slots: its oldest; the row becomes a ghost
 *               else: the oldest of main
 *           a row that was a ghost comes into main, any other into `in`, as the newest
 *
 * Ghosts are at most ghost_fraction of the slots; the oldest is forgotten first. Hits come before
 * misses, in the order of the union. Slots that the call reads are passed by; a list in which all
 * are read gives way to the other. A promoted row takes over slot and place, and is no ghost.
 * Source: T. Johnson and D. Shasha, "2Q: a low overhead high performance buffer management
 * replacement algorithm", VLDB 1994 (A1in, Am, A1out; Kin, Kout). */
#include "ghosts.h"
#include "slot_lists.h"

enum {
    SET_EMPTY,
    SET_MAIN, /* slots of the main list */
    SETS,
    IN = 0,
    MAIN,
    LISTS,
    PARAM_IN_FRACTION = 0,
    PARAM_GHOST_FRACTION,
    PARAMS
};

static const struct kvt_param_spec two_q_params[] = {
    [PARAM_IN_FRACTION] = {.name = "in_fraction",
                           .help = "Share of the slots above which rows that came once are given "
                                   "up first (Kin).",
                           .type = KVT_PARAM_REAL,
                           .minimum = 0,
                           .maximum = 1,
                           .default_number = 0.25},
    [PARAM_GHOST_FRACTION] = {.name = "ghost_fraction",
                              .help = "Rows that came once, were given up and are remembered, as a "
                                      "share of the slots (Kout).",
                              .type = KVT_PARAM_REAL,
                              .minimum = 0,
                              .maximum = 16,
                              .default_number = 0.5},
};

struct two_q {
    uint32_t slot_count, in_slots, ghost_capacity;
    uint32_t counts[LISTS]; /* slots of each list */
    uint32_t unused;        /* words lie on 8 bytes */
    uint64_t words[];
};

/* One call; no slot of `in` before next_in is one that it does not read. */
struct play {
    struct two_q *q;
    struct slot_lists lists;
    struct ghosts ghosts;
    struct slot_play slots;
    uint32_t next_in;
};

static struct slot_lists lists_of(struct two_q *q)
{
    return slot_lists_at(q->words, q->slot_count, SETS);
}

static struct ghosts ghosts_of(struct two_q *q)
{
    return ghosts_at(q->words + slot_lists_words(q->slot_count, SETS, LISTS), q->ghost_capacity);
}

static uint32_t capacity_of(const struct kvt_replacement_env *env)
{
    return ghost_capacity(env, env->params.values[PARAM_GHOST_FRACTION].number);
}

static size_t two_q_state_bytes(const struct kvt_replacement_env *env)
{
    return sizeof(struct two_q) +
           (slot_lists_words(env->slot_count, SETS, LISTS) + ghost_words(capacity_of(env))) *
               sizeof(uint64_t);
}

static kvt_status two_q_init(void *state, const struct kvt_replacement_env *env,
                             struct kvt_error *err)
{
    struct two_q *q = state;

    (void)err;
    q->slot_count = env->slot_count;
    q->in_slots = (uint32_t)(env->params.values[PARAM_IN_FRACTION].number * env->slot_count);
    q->ghost_capacity = capacity_of(env);
    struct slot_lists lists = lists_of(q);
    struct ghosts ghosts = ghosts_of(q);
    slot_lists_init(&lists, LISTS);
    ghosts_init(&ghosts);
    return KVT_OK;
}

/* ---- A call ------------------------------------------------------------------------------------
 */

static void play_hits(const struct slot_lists *lists, const struct kvt_replacement_call *call)
{
    const uint64_t *main = slot_set(lists, SET_MAIN);

    for (uint32_t i = 0; i < call->hit_count; i++) {
        if (!slot_is_in(main, call->hit_slots[i]))
            continue;
        slot_remove(lists, call->hit_slots[i]);
        slot_append(lists, MAIN, call->hit_slots[i]);
    }
}

static void remember(const struct ghosts *ghosts, uint32_t row)
{
    if (ghosts->capacity == 0)
        return;
    if (ghosts->counts->rows[0] == ghosts->capacity)
        ghost_forget(ghosts, ghost_oldest(ghosts, 0));
    ghost_remember(ghosts, 0, row);
}

/* What is read in main is at its new end: its oldest slot is read where all are. */
static kvt_slot give_up(struct play *play)
{
    struct two_q *q = play->q;
    const struct slot_lists *lists = &play->lists;
    uint32_t oldest = slot_oldest(lists, MAIN);

    play->next_in = slot_next_unread(lists, &play->slots, play->next_in);
    bool has_in = slot_is_any(lists, play->next_in);
    bool has_main = slot_is_any(lists, oldest) && !slot_is_read(&play->slots, oldest);
    uint32_t list = has_in && (q->counts[IN] > q->in_slots || !has_main) ? IN : MAIN;
    kvt_slot slot = list == IN ? play->next_in : oldest;
    if (list == IN) {
        play->next_in = lists->links[slot].newer;
        remember(&play->ghosts, play->slots.call->slot_rows[slot]);
    }
    slot_remove(lists, slot);
    q->counts[list]--;
    return slot;
}

static kvt_slot miss(struct play *play, uint32_t row)
{
    uint32_t ghost = ghost_find(&play->ghosts, row), list = ghost != GHOST_NONE ? MAIN : IN;

    if (ghost != GHOST_NONE)
        ghost_forget(&play->ghosts, ghost);
    kvt_slot slot = slot_take_empty(&play->lists, &play->slots);
    if (slot == KVT_SLOT_NONE)
        slot = give_up(play);
    slot_put(slot_set(&play->lists, SET_MAIN), slot, list == MAIN);
    slot_append(&play->lists, list, slot);
    play->q->counts[list]++;
    play->slots.filled[slot] = 1;
    return slot;
}

static uint32_t two_q_choose_victims(void *state, const struct kvt_replacement_call *call,
                                     uint32_t want, kvt_slot *victims)
{
    struct play play = {.q = state, .lists = lists_of(state), .ghosts = ghosts_of(state)};

    play.slots = slot_play_begin(&play.lists, call);
    ghosts_ask_for(&play.ghosts);
    play.next_in = slot_oldest(&play.lists, IN);
    play_hits(&play.lists, call);
    for (uint32_t i = 0; i < want; i++)
        victims[i] = miss(&play, call->missed_rows[i]);
    return want;
}

static void two_q_on_resolved(void *state, const struct kvt_replacement_call *call,
                              const kvt_slot *fills, const uint32_t *evicted_rows,
                              uint32_t fill_count)
{
    struct slot_lists lists = lists_of(state);

    (void)fills, (void)evicted_rows;
    if (fill_count == 0)
        play_hits(&lists, call);
}

static void two_q_on_promoted(void *state, const struct kvt_replacement_call *call,
                              const kvt_slot *slots, const uint32_t *rows,
                              const uint32_t *evicted_rows, uint32_t count)
{
    struct ghosts ghosts = ghosts_of(state);

    (void)call, (void)slots, (void)evicted_rows;
    ghost_forget_rows(&ghosts, rows, count);
}

static void two_q_on_invalidate(void *state, kvt_slot slot)
{
    struct two_q *q = state;
    struct slot_lists lists = lists_of(q);

    if (slot_is_in(lists.sets, slot))
        return;
    q->counts[slot_is_in(slot_set(&lists, SET_MAIN), slot) ? MAIN : IN]--;
    slot_remove(&lists, slot);
    slot_put(slot_set(&lists, SET_MAIN), slot, false);
    slot_put(lists.sets, slot, true);
}

/* ---- What can be asked -------------------------------------------------------------------------
 */

/* The list that gives up the next victim, then the other, each from the oldest on. */
static void two_q_ranks(const void *state, uint32_t *ranks)
{
    const struct two_q *q = state;
    struct slot_lists lists = lists_of((struct two_q *)state);
    uint32_t rank = slot_rank_empty(&lists, ranks);
    uint32_t first = q->counts[IN] > q->in_slots || q->counts[MAIN] == 0 ? IN : MAIN;

    rank = slot_rank_list(&lists, first, rank, ranks);
    (void)slot_rank_list(&lists, first == IN ? MAIN : IN, rank, ranks);
}

static bool two_q_is_sane(const void *state)
{
    const struct two_q *q = state;
    struct slot_lists lists = lists_of((struct two_q *)state);
    struct ghosts ghosts = ghosts_of((struct two_q *)state);
    uint32_t in_main = 0;

    for (uint32_t w = 0; w < lists.set_words; w++) {
        if ((slot_set(&lists, SET_MAIN)[w] & lists.sets[w]) != 0)
            return false;
        in_main += (uint32_t)__builtin_popcountll(slot_set(&lists, SET_MAIN)[w]);
    }
    return in_main == q->counts[MAIN] && slot_lists_are_sane(&lists, q->counts, LISTS) &&
           ghosts_are_sane(&ghosts);
}

const struct kvt_replacement_policy kvt_replacement_two_q = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_replacement_two_q,
             .name = "2q",
             .summary = "2Q: rows that came once in a queue, rows that came back in an LRU",
             .params = two_q_params,
             .param_count = PARAMS},
    .state_bytes = two_q_state_bytes,
    .init = two_q_init,
    .choose_victims = two_q_choose_victims,
    .on_resolved = two_q_on_resolved,
    .on_invalidate = two_q_on_invalidate,
    .ranks = two_q_ranks,
    .is_sane = two_q_is_sane,
    .on_promoted = two_q_on_promoted,
    .wants_hit_order = true,
};
