/* s3fifo.c -- S3-FIFO: a small queue that rows must earn their way out of, and a main one.
 *
 *     queues: small, main, and ghosts: rows that small gave up; all first in, first out
 *     hit:  the slot's count goes up, to 3 at most
 *     miss: is the row a ghost? then it no longer is
 *           fill the lowest empty slot, or one that is given up:
 *               if small has small_fraction of the slots or more, its oldest goes:
 *                   counted promote_hits times or more: to main, its count is 0; the next one
 *                   else: given up, and its row becomes a ghost
 *               else, or where small has run out, main's oldest goes:
 *                   counted: to the new end of main, its count goes down by 1; the next one
 *                   else: given up
 *           a row that was a ghost comes into main, any other into small, with count 0
 *
 * Ghosts are at most ghost_fraction of the slots; the oldest is forgotten first. Slots that the
 * call reads are passed by and keep place and count; a queue in which all are read gives way to the
 * other. Hits come before misses and only count, so that their order is all one. A promoted row
 * takes over slot, place and count, and is no ghost. Sources: J. Yang et al., "FIFO queues are all
 * you need for cache eviction", SOSP 2023; orders within a miss as in libCacheSim,
 * eviction/S3FIFO.c. */
#include "ghosts.h"
#include "slot_lists.h"

enum {
    SET_EMPTY,
    SET_MAIN, /* slots of the main queue */
    SET_LOW,  /* counts, a bit of each */
    SET_HIGH,
    SETS,
    SMALL = 0,
    MAIN,
    LISTS,
    PARAM_SMALL_FRACTION = 0,
    PARAM_GHOST_FRACTION,
    PARAM_PROMOTE_HITS,
    PARAMS
};

static const struct kvt_param_spec s3fifo_params[] = {
    [PARAM_SMALL_FRACTION] = {.name = "small_fraction",
                              .help = "Share of the slots from which on the small queue gives up "
                                      "its oldest.",
                              .type = KVT_PARAM_REAL,
                              .minimum = 0,
                              .maximum = 1,
                              .default_number = 0.1},
    [PARAM_GHOST_FRACTION] = {.name = "ghost_fraction",
                              .help = "Rows that the small queue gave up and that are remembered, "
                                      "as a share of the slots.",
                              .type = KVT_PARAM_REAL,
                              .minimum = 0,
                              .maximum = 16,
                              .default_number = 0.9},
    [PARAM_PROMOTE_HITS] = {.name = "promote_hits",
                            .help = "Hits after which a row goes from the small queue to the "
                                    "main one.",
                            .type = KVT_PARAM_COUNT,
                            .minimum = 1,
                            .maximum = 3,
                            .default_number = 2},
};

struct s3fifo {
    uint32_t slot_count, small_slots, promote_hits, ghost_capacity;
    uint32_t counts[LISTS]; /* slots of each queue */
    uint64_t words[];
};

/* One call: in each queue, slots that it does not read, and no such slot is before `next`. */
struct play {
    struct s3fifo *fifo;
    struct slot_lists lists;
    struct ghosts ghosts;
    struct slot_play slots;
    uint32_t idle[LISTS], next[LISTS];
};

static struct slot_lists lists_of(struct s3fifo *fifo)
{
    return slot_lists_at(fifo->words, fifo->slot_count, SETS);
}

static struct ghosts ghosts_of(struct s3fifo *fifo)
{
    return ghosts_at(fifo->words + slot_lists_words(fifo->slot_count, SETS, LISTS),
                     fifo->ghost_capacity);
}

static uint32_t capacity_of(const struct kvt_replacement_env *env)
{
    return ghost_capacity(env, env->params.values[PARAM_GHOST_FRACTION].number);
}

static size_t s3fifo_state_bytes(const struct kvt_replacement_env *env)
{
    return sizeof(struct s3fifo) +
           (slot_lists_words(env->slot_count, SETS, LISTS) + ghost_words(capacity_of(env))) *
               sizeof(uint64_t);
}

static kvt_status s3fifo_init(void *state, const struct kvt_replacement_env *env,
                              struct kvt_error *err)
{
    struct s3fifo *fifo = state;
    double small_slots = env->params.values[PARAM_SMALL_FRACTION].number * env->slot_count;

    (void)err;
    fifo->slot_count = env->slot_count;
    fifo->small_slots = small_slots >= 1 ? (uint32_t)small_slots : 1;
    fifo->promote_hits = (uint32_t)env->params.values[PARAM_PROMOTE_HITS].number;
    fifo->ghost_capacity = capacity_of(env);
    struct slot_lists lists = lists_of(fifo);
    struct ghosts ghosts = ghosts_of(fifo);
    slot_lists_init(&lists, LISTS);
    ghosts_init(&ghosts);
    return KVT_OK;
}

/* ---- Counts: two bits a slot, 64 slots at a time ----------------------------------------------
 */

static uint32_t count_of(const struct slot_lists *lists, uint32_t slot)
{
    return 2U * slot_is_in(slot_set(lists, SET_HIGH), slot) +
           slot_is_in(slot_set(lists, SET_LOW), slot);
}

static void set_count(const struct slot_lists *lists, uint32_t slot, uint32_t count)
{
    slot_put(slot_set(lists, SET_LOW), slot, count & 1);
    slot_put(slot_set(lists, SET_HIGH), slot, count & 2);
}

static void count_hits(const struct slot_lists *lists, const uint64_t *hit_bits)
{
    uint64_t *low = slot_set(lists, SET_LOW), *high = slot_set(lists, SET_HIGH);

    for (uint32_t w = 0; w < lists->set_words; w++) {
        uint64_t up = hit_bits[w] & ~(low[w] & high[w]);
        high[w] |= up & low[w];
        low[w] ^= up;
    }
}

/* ---- A call ------------------------------------------------------------------------------------
 */

static struct play play_begin(struct s3fifo *fifo, const struct kvt_replacement_call *call)
{
    struct play play = {.fifo = fifo, .lists = lists_of(fifo), .ghosts = ghosts_of(fifo)};
    const uint64_t *main = slot_set(&play.lists, SET_MAIN);

    play.slots = slot_play_begin(&play.lists, call);
    ghosts_ask_for(&play.ghosts);
    for (uint32_t list = 0; list < LISTS; list++) {
        play.idle[list] = fifo->counts[list];
        play.next[list] = slot_oldest(&play.lists, list);
    }
    for (uint32_t w = 0; w < play.lists.set_words; w++) {
        play.idle[SMALL] -= (uint32_t)__builtin_popcountll(call->hit_bits[w] & ~main[w]);
        play.idle[MAIN] -= (uint32_t)__builtin_popcountll(call->hit_bits[w] & main[w]);
    }
    count_hits(&play.lists, call->hit_bits);
    return play;
}

/* The oldest slot of the queue that is not read leaves it: there is one. */
static kvt_slot take_oldest(struct play *play, uint32_t list)
{
    const struct slot_lists *lists = &play->lists;
    uint32_t node = slot_next_unread(lists, &play->slots, play->next[list]);

    if (!slot_is_any(lists, node)) /* slots have come to the new end since */
        node = slot_next_unread(lists, &play->slots, slot_oldest(lists, list));
    play->next[list] = lists->links[node].newer;
    slot_remove(lists, node);
    play->fifo->counts[list]--;
    play->idle[list]--;
    return node;
}

static void put_back(struct play *play, kvt_slot slot, uint32_t list, uint32_t count)
{
    set_count(&play->lists, slot, count);
    slot_put(slot_set(&play->lists, SET_MAIN), slot, list == MAIN);
    slot_append(&play->lists, list, slot);
    play->fifo->counts[list]++;
}

static void remember(struct play *play, uint32_t row)
{
    const struct ghosts *ghosts = &play->ghosts;

    if (ghosts->capacity == 0)
        return;
    if (ghosts->counts->rows[0] == ghosts->capacity)
        ghost_forget(ghosts, ghost_oldest(ghosts, 0));
    ghost_remember(ghosts, 0, row);
}

static kvt_slot give_up(struct play *play)
{
    const struct s3fifo *fifo = play->fifo;
    bool is_small = fifo->counts[SMALL] >= fifo->small_slots;

    if (play->idle[is_small ? SMALL : MAIN] == 0)
        is_small = !is_small;
    while (is_small && play->idle[SMALL] > 0) {
        kvt_slot slot = take_oldest(play, SMALL);
        if (count_of(&play->lists, slot) < fifo->promote_hits) {
            remember(play, play->slots.call->slot_rows[slot]);
            return slot;
        }
        put_back(play, slot, MAIN, 0);
        play->idle[MAIN]++;
    }
    for (;;) {
        kvt_slot slot = take_oldest(play, MAIN);
        uint32_t count = count_of(&play->lists, slot);
        if (count == 0)
            return slot;
        put_back(play, slot, MAIN, count - 1);
        play->idle[MAIN]++;
    }
}

static kvt_slot miss(struct play *play, uint32_t row)
{
    uint32_t ghost = ghost_find(&play->ghosts, row);

    if (ghost != GHOST_NONE)
        ghost_forget(&play->ghosts, ghost);
    kvt_slot slot = slot_take_empty(&play->lists, &play->slots);
    if (slot == KVT_SLOT_NONE)
        slot = give_up(play);
    put_back(play, slot, ghost != GHOST_NONE ? MAIN : SMALL, 0);
    play->slots.filled[slot] = 1;
    return slot;
}

static uint32_t s3fifo_choose_victims(void *state, const struct kvt_replacement_call *call,
                                      uint32_t want, kvt_slot *victims)
{
    struct play play = play_begin(state, call);

    for (uint32_t i = 0; i < want; i++)
        victims[i] = miss(&play, call->missed_rows[i]);
    return want;
}

static void s3fifo_on_resolved(void *state, const struct kvt_replacement_call *call,
                               const kvt_slot *fills, const uint32_t *evicted_rows,
                               uint32_t fill_count)
{
    struct slot_lists lists = lists_of(state);

    (void)fills, (void)evicted_rows;
    if (fill_count == 0)
        count_hits(&lists, call->hit_bits);
}

static void s3fifo_on_promoted(void *state, const struct kvt_replacement_call *call,
                               const kvt_slot *slots, const uint32_t *rows,
                               const uint32_t *evicted_rows, uint32_t count)
{
    struct ghosts ghosts = ghosts_of(state);

    (void)call, (void)slots, (void)evicted_rows;
    ghost_forget_rows(&ghosts, rows, count);
}

static void s3fifo_on_invalidate(void *state, kvt_slot slot)
{
    struct s3fifo *fifo = state;
    struct slot_lists lists = lists_of(fifo);

    if (slot_is_in(lists.sets, slot))
        return;
    fifo->counts[slot_is_in(slot_set(&lists, SET_MAIN), slot) ? MAIN : SMALL]--;
    slot_remove(&lists, slot);
    slot_put(slot_set(&lists, SET_MAIN), slot, false);
    set_count(&lists, slot, 0);
    slot_put(lists.sets, slot, true);
}

/* ---- What can be asked -------------------------------------------------------------------------
 */

/* The oldest slot of the queue with the lowest count. */
static uint32_t least_counted(const struct slot_lists *lists, uint32_t list)
{
    uint32_t best = slot_oldest(lists, list);

    for (uint32_t slot = best; slot_is_any(lists, slot); slot = lists->links[slot].newer) {
        if (count_of(lists, slot) < count_of(lists, best))
            best = slot;
    }
    return best;
}

/* What a miss would take where no slot is empty. Of a small queue that has earned its way out the
 * oldest goes, unless main has one that was not counted. */
static uint32_t next_victim(const struct s3fifo *fifo, const struct slot_lists *lists)
{
    uint32_t least = least_counted(lists, MAIN), slot = slot_oldest(lists, SMALL);

    if (fifo->counts[SMALL] < fifo->small_slots && fifo->counts[MAIN] > 0)
        return least;
    while (slot_is_any(lists, slot) && count_of(lists, slot) >= fifo->promote_hits)
        slot = lists->links[slot].newer;
    if (slot_is_any(lists, slot))
        return slot;
    if (fifo->counts[MAIN] > 0 && count_of(lists, least) == 0)
        return least;
    return slot_oldest(lists, SMALL);
}

/* The next victim, then the small queue, then main, each from the oldest on. */
static void s3fifo_ranks(const void *state, uint32_t *ranks)
{
    const struct s3fifo *fifo = state;
    struct slot_lists lists = lists_of((struct s3fifo *)state);
    uint32_t first = slot_rank_empty(&lists, ranks);

    if (first == fifo->slot_count)
        return;
    uint32_t victim = next_victim(fifo, &lists);
    uint32_t rank = slot_rank_list(&lists, SMALL, first, ranks);
    (void)slot_rank_list(&lists, MAIN, rank, ranks);
    for (kvt_slot slot = 0; slot < fifo->slot_count; slot++)
        ranks[slot] += ranks[slot] >= first && ranks[slot] < ranks[victim] && slot != victim;
    ranks[victim] = first;
}

static bool s3fifo_is_sane(const void *state)
{
    const struct s3fifo *fifo = state;
    struct slot_lists lists = lists_of((struct s3fifo *)state);
    struct ghosts ghosts = ghosts_of((struct s3fifo *)state);
    uint32_t in_main = 0;

    for (uint32_t w = 0; w < lists.set_words; w++) {
        if (((slot_set(&lists, SET_MAIN)[w] | slot_set(&lists, SET_LOW)[w] |
              slot_set(&lists, SET_HIGH)[w]) &
             lists.sets[w]) != 0)
            return false;
        in_main += (uint32_t)__builtin_popcountll(slot_set(&lists, SET_MAIN)[w]);
    }
    return in_main == fifo->counts[MAIN] && slot_lists_are_sane(&lists, fifo->counts, LISTS) &&
           ghosts_are_sane(&ghosts);
}

const struct kvt_replacement_policy kvt_replacement_s3fifo = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_replacement_s3fifo,
             .name = "s3fifo",
             .summary = "S3-FIFO: a small queue that rows must earn their way out of, and a main "
                        "one",
             .params = s3fifo_params,
             .param_count = PARAMS},
    .state_bytes = s3fifo_state_bytes,
    .init = s3fifo_init,
    .choose_victims = s3fifo_choose_victims,
    .on_resolved = s3fifo_on_resolved,
    .on_invalidate = s3fifo_on_invalidate,
    .ranks = s3fifo_ranks,
    .is_sane = s3fifo_is_sane,
    .on_promoted = s3fifo_on_promoted,
};
