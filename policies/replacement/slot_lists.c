/* slot_lists.c -- what policies share that take a call row by row: slots in lists, the empty ones,
 * and which slots the call reads. */
#include "slot_lists.h"

#include <string.h>

/* ---- State ------------------------------------------------------------------------------------
 */

static uint32_t set_words_of(uint32_t slot_count)
{
    return slot_count / 64 + (slot_count % 64 != 0);
}

size_t slot_lists_words(uint32_t slot_count, uint32_t set_count, uint32_t list_count)
{
    size_t links = list_count > 0 ? (size_t)slot_count + list_count : 0;

    return (size_t)set_count * set_words_of(slot_count) +
           links * (sizeof(struct slot_link) / sizeof(uint64_t));
}

struct slot_lists slot_lists_at(uint64_t *words, uint32_t slot_count, uint32_t set_count)
{
    uint32_t set_words = set_words_of(slot_count);

    return (struct slot_lists){.slot_count = slot_count,
                               .set_words = set_words,
                               .sets = words,
                               .links =
                                   (struct slot_link *)(words + (size_t)set_count * set_words)};
}

void slot_lists_init(const struct slot_lists *lists, uint32_t list_count)
{
    for (uint32_t w = 0; w < lists->set_words; w++) {
        uint32_t left = lists->slot_count - 64 * w;
        lists->sets[w] = left < 64 ? ~(UINT64_MAX << left) : UINT64_MAX;
    }
    for (uint32_t list = 0; list < list_count; list++) {
        uint32_t end = lists->slot_count + list;
        lists->links[end] = (struct slot_link){.newer = end, .older = end};
    }
}

/* ---- What can be asked -------------------------------------------------------------------------
 */

uint32_t slot_rank_empty(const struct slot_lists *lists, uint32_t *ranks)
{
    uint32_t rank = 0;

    for (uint32_t w = 0; w < lists->set_words; w++) {
        for (uint64_t left = lists->sets[w]; left != 0; left &= left - 1)
            ranks[64 * w + (uint32_t)__builtin_ctzll(left)] = rank++;
    }
    return rank;
}

uint32_t slot_rank_list(const struct slot_lists *lists, uint32_t list, uint32_t rank,
                        uint32_t *ranks)
{
    for (uint32_t slot = slot_oldest(lists, list); slot_is_any(lists, slot);
         slot = lists->links[slot].newer)
        ranks[slot] = rank++;
    return rank;
}

/* Links that agree in both directions and come to the list's end within as many steps as it has
 * slots make a list without repeats; a slot is in one list only, or its links would not agree. */
bool slot_lists_are_sane(const struct slot_lists *lists, const uint32_t *counts,
                         uint32_t list_count)
{
    uint64_t slots = 0;

    for (uint32_t w = 0; w < lists->set_words; w++) {
        uint32_t left = lists->slot_count - 64 * w;
        if (left < 64 && lists->sets[w] >> left != 0)
            return false;
        slots += (uint64_t)__builtin_popcountll(lists->sets[w]);
    }
    for (uint32_t list = 0; list < list_count; list++) {
        uint32_t end = lists->slot_count + list, node = end, steps = 0;
        do {
            uint32_t newer = lists->links[node].newer;
            if ((newer != end && !slot_is_any(lists, newer)) || lists->links[newer].older != node ||
                (newer != end && slot_is_in(lists->sets, newer)))
                return false;
            node = newer;
            steps++;
        } while (node != end && steps <= counts[list]);
        if (node != end || steps != counts[list] + 1)
            return false;
        slots += counts[list];
    }
    return slots == lists->slot_count;
}

void state_ask_for(const void *state, size_t bytes)
{
    enum {
        LINE_BYTES = 64
    };

    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        __builtin_prefetch((const char *)state + at, 1);
}

/* ---- A call -------------------------------------------------------------------------------------
 */

struct slot_play slot_play_begin(const struct slot_lists *lists,
                                 const struct kvt_replacement_call *call)
{
    struct slot_play play = {.call = call, .filled = (uint8_t *)call->scratch};

    state_ask_for(lists->links, lists->slot_count * sizeof *lists->links);
    memset(play.filled, 0, lists->slot_count);
    return play;
}

kvt_slot slot_take_empty(const struct slot_lists *lists, struct slot_play *play)
{
    for (; play->empty_word < lists->set_words; play->empty_word++) {
        uint64_t *word = &lists->sets[play->empty_word];
        if (*word != 0) {
            kvt_slot slot = 64 * play->empty_word + (uint32_t)__builtin_ctzll(*word);
            *word &= *word - 1;
            return slot;
        }
    }
    return KVT_SLOT_NONE;
}

uint32_t slot_next_unread(const struct slot_lists *lists, const struct slot_play *play,
                          uint32_t node)
{
    while (slot_is_any(lists, node) && slot_is_read(play, node))
        node = lists->links[node].newer;
    return node;
}
