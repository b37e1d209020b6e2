/* trace_prefixes.c -- the hits of a cache without end, counted in memory that has one.
 *
 *     found = pages of prompts that may be found - those that are the first of their key
 *
 * for a page's key stands for all before it, so that a page that was seen was found, and the pages
 * before it too. So distinct keys are to be counted. They are kept up to PAGES_MAX; beyond that
 * every second one, chosen by its hash, then every fourth, ...: adaptive sampling (Wegman; P.
 * Flajolet, "On adaptive sampling", Computing 43, 1990). Counting distinct keys, and not hits,
 * keeps one page that everybody begins with from weighing more than another: the error is about
 * 1/sqrt(PAGES_MAX / 2), 0.1 %, of the pages that are not found. */
#include "trace_prefixes.h"

#include <stdlib.h>

#include "kvt/hash.h"

enum {
    SLOTS_FIRST = 1 << 12,
    SLOTS_MAX = 1 << 22,           /* 32 MiB, twice that while it grows */
    PAGES_MAX = SLOTS_MAX / 4 * 3, /* 3,145,728 */
};

/* Three quarters of the slots are used at most. */
static bool is_full(const struct trace_prefixes *prefixes)
{
    return prefixes->page_count >= prefixes->slot_count / 4 * 3;
}

static bool is_kept(const struct trace_prefixes *prefixes, uint64_t hash)
{
    return prefixes->level == 0 || hash >> (64 - prefixes->level) == 0;
}

/* The slot of this hash, or the empty one where it belongs. Bit 0 is not the hash's. */
static uint64_t *place_of(uint64_t *slots, uint32_t slot_count, uint64_t hash)
{
    uint32_t at = (uint32_t)(hash >> 1) & (slot_count - 1);

    while (slots[at] != 0 && slots[at] >> 1 != hash >> 1)
        at = (at + 1) & (slot_count - 1);
    return &slots[at];
}

/* Into slot_count slots what is kept at the level in force. */
static kvt_status rebuild(struct trace_prefixes *prefixes, uint32_t slot_count,
                          struct kvt_error *err)
{
    uint64_t *slots = calloc(slot_count, sizeof *slots);

    if (!slots)
        return kvt_fail_nomem(err, "the pages of a trace");
    prefixes->page_count = prefixes->first_in_prompt = 0;
    for (uint32_t i = 0; i < prefixes->slot_count; i++) {
        uint64_t page = prefixes->slots[i];
        if (page == 0 || !is_kept(prefixes, page))
            continue;
        *place_of(slots, slot_count, page) = page;
        prefixes->page_count++;
        prefixes->first_in_prompt += page & 1;
    }
    free(prefixes->slots);
    prefixes->slots = slots;
    prefixes->slot_count = slot_count;
    return KVT_OK;
}

/* Room for another page. */
static kvt_status make_room(struct trace_prefixes *prefixes, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    if (prefixes->slot_count == 0)
        return rebuild(prefixes, SLOTS_FIRST, err);
    if (is_full(prefixes) && prefixes->slot_count < SLOTS_MAX)
        return rebuild(prefixes, 2 * prefixes->slot_count, err);
    while (status == KVT_OK && is_full(prefixes)) {
        prefixes->level++;
        status = rebuild(prefixes, prefixes->slot_count, err);
    }
    return status;
}

static kvt_status add_page(struct trace_prefixes *prefixes, uint64_t key, bool is_eligible,
                           struct kvt_error *err)
{
    uint64_t hash = kvt_mix64(key) & ~UINT64_C(1);

    hash = hash == 0 ? 2 : hash; /* 0 is an empty slot */
    if (!is_kept(prefixes, hash))
        return KVT_OK;
    kvt_status status = make_room(prefixes, err);
    if (status != KVT_OK || !is_kept(prefixes, hash))
        return status;
    uint64_t *place = place_of(prefixes->slots, prefixes->slot_count, hash);
    if (*place != 0)
        return KVT_OK;
    *place = hash | is_eligible;
    prefixes->page_count++;
    prefixes->first_in_prompt += is_eligible;
    return KVT_OK;
}

kvt_status trace_prefixes_add(struct trace_prefixes *prefixes, const struct kvt_request_spec *spec,
                              struct kvt_error *err)
{
    uint32_t whole = spec->input_tokens / KVT_PAGE_ROWS;
    uint32_t eligible = spec->input_tokens > 0 ? (spec->input_tokens - 1) / KVT_PAGE_ROWS : 0;
    kvt_status status = KVT_OK;

    whole = whole < spec->page_key_count ? whole : spec->page_key_count;
    eligible = eligible < spec->page_key_count ? eligible : spec->page_key_count;
    prefixes->prompt_tokens += spec->input_tokens;
    prefixes->requests += spec->page_key_count > 0;
    prefixes->pages += whole;
    prefixes->eligible += eligible;
    for (uint32_t i = 0; status == KVT_OK && i < spec->page_key_count; i++)
        status = add_page(prefixes, spec->page_keys[i], i < eligible, err);
    return status;
}

void trace_prefixes_free(struct trace_prefixes *prefixes)
{
    free(prefixes->slots);
    *prefixes = (struct trace_prefixes){0};
}

double trace_prefixes_found_share(const struct trace_prefixes *prefixes)
{
    double firsts = (double)prefixes->first_in_prompt * (double)(UINT64_C(1) << prefixes->level);
    double found = (double)prefixes->eligible - firsts;

    if (prefixes->prompt_tokens == 0 || found <= 0)
        return 0;
    return found * KVT_PAGE_ROWS / (double)prefixes->prompt_tokens;
}
