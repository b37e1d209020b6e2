/* oracle_pages.c -- a bound for policies that keep and give up whole pages.
 *
 *     a page's next use: the nearest of its rows in the cache, those that the call reads included
 *     victims of a call: empty slots, lowest first; then the slots that did not hit, of the page
 *         whose next use is farthest; equal pages by number; in a page, rows by falling next use;
 *         equals by slot
 *
 * A page is KVT_PAGE_ROWS tokens, hence fewer rows in a store that compresses. What belady.c gains
 * over this is what it costs that rows of a page share their fate. The state is room to sort in. */
#include <string.h>

#include "farthest.h"

static const struct kvt_param_spec oracle_params[] = {FARTHEST_CLAIRVOYANT};

struct oracle {
    uint32_t slot_count, rows_per_page, page_count;
    uint32_t room[]; /* spare[slot_count], keys[slot_count], next_use[page_count] */
};

static uint32_t page_count_of(const struct kvt_replacement_env *env)
{
    return env->rows_max / env->rows_per_page + (env->rows_max % env->rows_per_page != 0);
}

static size_t oracle_state_bytes(const struct kvt_replacement_env *env)
{
    return sizeof(struct oracle) +
           (2 * (size_t)env->slot_count + page_count_of(env)) * sizeof(uint32_t);
}

static kvt_status oracle_init(void *state, const struct kvt_replacement_env *env,
                              struct kvt_error *err)
{
    struct oracle *oracle = state;

    oracle->slot_count = env->slot_count;
    oracle->rows_per_page = env->rows_per_page;
    oracle->page_count = page_count_of(env);
    return farthest_check(env, "replacement \"oracle-pages\"", err);
}

static void find_pages_next_use(const struct oracle *oracle,
                                const struct kvt_replacement_call *call, uint32_t *next_use)
{
    memset(next_use, 0xff, oracle->page_count * sizeof *next_use);
    for (kvt_slot slot = 0; slot < oracle->slot_count; slot++) {
        uint32_t row = call->slot_rows[slot];
        if (row == KVT_ROW_NONE)
            continue;
        uint32_t *pages = &next_use[row / oracle->rows_per_page];
        *pages = call->next_use[slot] < *pages ? call->next_use[slot] : *pages;
    }
}

/* By the last key first, since each order keeps what was before where its keys are equal. */
static void order(struct oracle *oracle, const struct kvt_replacement_call *call, kvt_slot *slots,
                  uint32_t count)
{
    uint32_t *spare = oracle->room, *keys = spare + oracle->slot_count;
    uint32_t *next_use = keys + oracle->slot_count;

    find_pages_next_use(oracle, call, next_use);
    farthest_first(slots, count, call->next_use, spare);
    for (uint32_t i = 0; i < count; i++)
        keys[slots[i]] = oracle->page_count - call->slot_rows[slots[i]] / oracle->rows_per_page;
    farthest_first(slots, count, keys, spare);
    for (uint32_t i = 0; i < count; i++)
        keys[slots[i]] = next_use[call->slot_rows[slots[i]] / oracle->rows_per_page];
    farthest_first(slots, count, keys, spare);
}

/* Told nothing, it has no answer but the empty slots. */
static uint32_t oracle_choose_victims(void *state, const struct kvt_replacement_call *call,
                                      uint32_t want, kvt_slot *victims)
{
    struct oracle *oracle = state;
    uint32_t chosen = farthest_take_empty(call, oracle->slot_count, want, victims);

    if (chosen == want || call->next_use == NULL)
        return chosen;
    uint32_t count = farthest_candidates(call, oracle->slot_count, call->scratch);
    uint32_t more = want - chosen < count ? want - chosen : count;
    order(oracle, call, call->scratch, count);
    memcpy(victims + chosen, call->scratch, more * sizeof *victims);
    return chosen + more;
}

static void oracle_on_resolved(void *state, const struct kvt_replacement_call *call,
                               const kvt_slot *fills, const uint32_t *evicted_rows,
                               uint32_t fill_count)
{
    (void)state, (void)call, (void)fills, (void)evicted_rows, (void)fill_count;
}

static void oracle_on_invalidate(void *state, kvt_slot slot)
{
    (void)state, (void)slot;
}

static void oracle_ranks(const void *state, uint32_t *ranks)
{
    farthest_ranks(((const struct oracle *)state)->slot_count, ranks);
}

const struct kvt_replacement_policy kvt_replacement_oracle_pages = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_replacement_oracle_pages,
             .name = "oracle-pages",
             .summary = "a bound of whole pages: the page that is wanted again last goes first",
             .params = oracle_params,
             .param_count = sizeof oracle_params / sizeof oracle_params[0]},
    .state_bytes = oracle_state_bytes,
    .init = oracle_init,
    .choose_victims = oracle_choose_victims,
    .on_resolved = oracle_on_resolved,
    .on_invalidate = oracle_on_invalidate,
    .ranks = oracle_ranks,
};
