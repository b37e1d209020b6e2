/* lfu.c -- LFU with ageing: the row used least often goes first, and uses are forgotten in time.
 *
 *     order: the slots by uses; equal ones in the order in which they came to that number
 *     hit:  the slot's uses go up by 1: it becomes the last among its new equals
 *     miss: fill the lowest empty slot; if there is none, the first slot of the order that the call
 *           does not read; the row comes in with 1 use
 *     ageing: after ageing_accesses_per_slot accesses for each slot, hits and misses alike, all
 * uses are halved, rounded down, which leaves the order as it is
 *
 * Without ageing a row that was popular once stays for ever. Hits come before misses, in the order
 * of the union. A promoted row takes over slot and uses. Slots of equal uses are one group of the
 * order, so that a hit moves a slot past its group and no further. Sources: K. Shah, A. Mitra, D.
 * Matani, "An O(1) algorithm for implementing the LFU cache eviction scheme", 2010; ageing as the
 * reset of G. Einziger et al., "TinyLFU", ACM Transactions on Storage 13(4), 2017. */
#include "slot_lists.h"

enum {
    SETS = 1,
    ORDER = 0,
    LISTS,
    PARAM_AGEING = 0,
    PARAMS
};
#define NO_GROUP UINT32_MAX

static const struct kvt_param_spec lfu_params[] = {
    [PARAM_AGEING] = {.name = "ageing_accesses_per_slot",
                      .help = "Accesses for each slot after which all uses are halved; 0: never.",
                      .type = KVT_PARAM_COUNT,
                      .minimum = 0,
                      .maximum = 1000000,
                      .default_number = 10},
};

/* Slots that are side by side in the order and have equal uses. */
struct group {
    uint32_t uses;
    uint32_t last; /* its slot at the new end; the next free group, where it has none */
};

struct lfu {
    uint64_t accesses;      /* since uses were halved */
    uint64_t ageing_period; /* accesses; 0: none */
    uint32_t slot_count, held;
    uint32_t free_group; /* the first; NO_GROUP: none */
    uint32_t unused;     /* words lie on 8 bytes */
    uint64_t words[];    /* of slot lists, then group_of[slot_count], then groups[slot_count] */
};

struct view {
    struct lfu *lfu;
    struct slot_lists lists;
    uint32_t *group_of;
    struct group *groups;
};

static struct view view_of(struct lfu *lfu)
{
    struct view view = {.lfu = lfu, .lists = slot_lists_at(lfu->words, lfu->slot_count, SETS)};

    view.groups = (struct group *)(lfu->words + slot_lists_words(lfu->slot_count, SETS, LISTS));
    view.group_of = (uint32_t *)(view.groups + lfu->slot_count);
    return view;
}

static size_t lfu_state_bytes(const struct kvt_replacement_env *env)
{
    return sizeof(struct lfu) + slot_lists_words(env->slot_count, SETS, LISTS) * sizeof(uint64_t) +
           (size_t)env->slot_count * (sizeof(struct group) + sizeof(uint32_t));
}

static kvt_status lfu_init(void *state, const struct kvt_replacement_env *env,
                           struct kvt_error *err)
{
    struct lfu *lfu = state;

    (void)err;
    lfu->slot_count = env->slot_count;
    lfu->ageing_period =
        (uint64_t)env->params.values[PARAM_AGEING].number * (uint64_t)env->slot_count;
    lfu->free_group = NO_GROUP;
    struct view view = view_of(lfu);
    slot_lists_init(&view.lists, LISTS);
    for (uint32_t group = env->slot_count; group-- > 0; lfu->free_group = group)
        view.groups[group].last = lfu->free_group;
    return KVT_OK;
}

/* ---- Groups ------------------------------------------------------------------------------------
 */

static void free_group(const struct view *view, uint32_t group)
{
    view->groups[group].last = view->lfu->free_group;
    view->lfu->free_group = group;
}

/* The slot, which is in the order, leaves its group. */
static void leave_group(const struct view *view, uint32_t slot)
{
    uint32_t group = view->group_of[slot], older = view->lists.links[slot].older;

    if (view->groups[group].last != slot)
        return;
    if (slot_is_any(&view->lists, older) && view->group_of[older] == group)
        view->groups[group].last = older;
    else
        free_group(view, group);
}

/* Puts a slot that is in no group and not in the order before the node, which begins a group or is
 * the order's end: into the group that ends there, if that has as many uses, or its own. */
static void place(const struct view *view, uint32_t slot, uint32_t node, uint32_t uses)
{
    uint32_t older = view->lists.links[node].older;

    slot_insert_older(&view->lists, node, slot);
    uint32_t group = slot_is_any(&view->lists, older) ? view->group_of[older] : NO_GROUP;
    if (group == NO_GROUP || view->groups[group].uses != uses) {
        group = view->lfu->free_group;
        view->lfu->free_group = view->groups[group].last;
        view->groups[group].uses = uses;
    }
    view->groups[group].last = slot;
    view->group_of[slot] = group;
}

/* The node behind the group that begins with this one. */
static uint32_t behind(const struct view *view, uint32_t node)
{
    return view->lists.links[view->groups[view->group_of[node]].last].newer;
}

/* From the first group on; halves of neighbours that become equal make one group. */
static void halve(const struct view *view)
{
    uint32_t node = slot_oldest(&view->lists, ORDER), before = NO_GROUP;

    while (slot_is_any(&view->lists, node)) {
        uint32_t group = view->group_of[node], last = view->groups[group].last;
        uint32_t next = view->lists.links[last].newer, uses = view->groups[group].uses / 2;
        if (before == NO_GROUP || view->groups[before].uses != uses) {
            view->groups[group].uses = uses;
            before = group;
        } else {
            for (; node != next; node = view->lists.links[node].newer)
                view->group_of[node] = before;
            view->groups[before].last = last;
            free_group(view, group);
        }
        node = next;
    }
}

/* ---- A call ------------------------------------------------------------------------------------
 */

static void count_access(const struct view *view)
{
    struct lfu *lfu = view->lfu;

    if (lfu->ageing_period == 0 || ++lfu->accesses < lfu->ageing_period)
        return;
    lfu->accesses = 0;
    halve(view);
}

static void play_hits(const struct view *view, const struct kvt_replacement_call *call)
{
    for (uint32_t i = 0; i < call->hit_count; i++) {
        uint32_t slot = call->hit_slots[i], group = view->group_of[slot];
        uint32_t uses = view->groups[group].uses;
        uint32_t next = view->lists.links[view->groups[group].last].newer;
        uses += uses < UINT32_MAX;
        if (slot_is_any(&view->lists, next) && view->groups[view->group_of[next]].uses == uses)
            next = behind(view, next);
        leave_group(view, slot);
        slot_remove(&view->lists, slot);
        place(view, slot, next, uses);
        count_access(view);
    }
}

/* Takes an empty slot, or the first from *next on, before which all are read. */
static kvt_slot miss(const struct view *view, struct slot_play *play, uint32_t *next)
{
    kvt_slot slot = slot_take_empty(&view->lists, play);

    if (slot == KVT_SLOT_NONE) {
        slot = slot_next_unread(&view->lists, play, *next);
        *next = view->lists.links[slot].newer;
        leave_group(view, slot);
        slot_remove(&view->lists, slot);
        view->lfu->held--;
    }
    uint32_t node = slot_oldest(&view->lists, ORDER);
    while (slot_is_any(&view->lists, node) && view->groups[view->group_of[node]].uses <= 1)
        node = behind(view, node);
    place(view, slot, node, 1);
    view->lfu->held++;
    play->filled[slot] = 1;
    count_access(view);
    return slot;
}

static uint32_t lfu_choose_victims(void *state, const struct kvt_replacement_call *call,
                                   uint32_t want, kvt_slot *victims)
{
    struct view view = view_of(state);
    struct slot_play play = slot_play_begin(&view.lists, call);

    state_ask_for(view.groups, view.lfu->slot_count * sizeof *view.groups);
    state_ask_for(view.group_of, view.lfu->slot_count * sizeof *view.group_of);
    play_hits(&view, call);
    uint32_t next = slot_oldest(&view.lists, ORDER);
    for (uint32_t i = 0; i < want; i++)
        victims[i] = miss(&view, &play, &next);
    return want;
}

static void lfu_on_resolved(void *state, const struct kvt_replacement_call *call,
                            const kvt_slot *fills, const uint32_t *evicted_rows,
                            uint32_t fill_count)
{
    struct view view = view_of(state);

    (void)fills, (void)evicted_rows;
    if (fill_count == 0)
        play_hits(&view, call);
}

static void lfu_on_invalidate(void *state, kvt_slot slot)
{
    struct view view = view_of(state);

    if (slot_is_in(view.lists.sets, slot))
        return;
    leave_group(&view, slot);
    slot_remove(&view.lists, slot);
    view.lfu->held--;
    slot_put(view.lists.sets, slot, true);
}

/* ---- What can be asked -------------------------------------------------------------------------
 */

static void lfu_ranks(const void *state, uint32_t *ranks)
{
    struct view view = view_of((struct lfu *)state);

    (void)slot_rank_list(&view.lists, ORDER, slot_rank_empty(&view.lists, ranks), ranks);
}

/* Uses rise from group to group, and each group ends where the next begins. */
static bool lfu_is_sane(const void *state)
{
    struct view view = view_of((struct lfu *)state);
    const struct lfu *lfu = state;

    if (!slot_lists_are_sane(&view.lists, &lfu->held, LISTS))
        return false;
    for (uint32_t slot = slot_oldest(&view.lists, ORDER); slot_is_any(&view.lists, slot);
         slot = view.lists.links[slot].newer) {
        uint32_t group = view.group_of[slot], next = view.lists.links[slot].newer;
        if (group >= lfu->slot_count)
            return false;
        uint32_t next_group = slot_is_any(&view.lists, next) ? view.group_of[next] : NO_GROUP;
        if ((view.groups[group].last == slot) != (next_group != group))
            return false;
        if (next_group != group && next_group < lfu->slot_count &&
            view.groups[next_group].uses <= view.groups[group].uses)
            return false;
    }
    return true;
}

const struct kvt_replacement_policy kvt_replacement_lfu = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_replacement_lfu,
             .name = "lfu",
             .summary = "LFU with ageing: the row used least often goes first",
             .params = lfu_params,
             .param_count = PARAMS},
    .state_bytes = lfu_state_bytes,
    .init = lfu_init,
    .choose_victims = lfu_choose_victims,
    .on_resolved = lfu_on_resolved,
    .on_invalidate = lfu_on_invalidate,
    .ranks = lfu_ranks,
    .is_sane = lfu_is_sane,
    .wants_hit_order = true,
};
