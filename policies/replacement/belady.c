/* belady.c -- Belady's MIN: the row that is wanted again last goes first. A bound, not a policy.
 *
 *     victims of a call: empty slots, lowest first; then of the slots that did not hit, by how many
 *         calls from now the row is selected next: never, or farther than is looked ahead, first;
 *         then falling; equals by slot
 *
 * Where each call reads one row and all of the future is seen, no policy that lets in every row
 * that it misses has fewer misses. In calls of more rows, some of them resident by page when they
 * are selected next, and at a horizon of KVT_LOOK_AHEAD_CALLS, that is not proven, but it is as
 * good a bound as there is. The state is room to sort in: what comes is told with each call.
 * Source: L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM
 * Systems Journal 5(2), 1966. */
#include <string.h>

#include "farthest.h"

static const struct kvt_param_spec belady_params[] = {FARTHEST_CLAIRVOYANT};

struct belady {
    uint32_t slot_count;
    kvt_slot spare[]; /* [slot_count] */
};

static size_t belady_state_bytes(const struct kvt_replacement_env *env)
{
    return sizeof(struct belady) + (size_t)env->slot_count * sizeof(kvt_slot);
}

static kvt_status belady_init(void *state, const struct kvt_replacement_env *env,
                              struct kvt_error *err)
{
    struct belady *belady = state;

    belady->slot_count = env->slot_count;
    return farthest_check(env, "replacement \"belady\"", err);
}

/* Told nothing, it has no answer but the empty slots. */
static uint32_t belady_choose_victims(void *state, const struct kvt_replacement_call *call,
                                      uint32_t want, kvt_slot *victims)
{
    struct belady *belady = state;
    uint32_t chosen = farthest_take_empty(call, belady->slot_count, want, victims);

    if (chosen == want || call->next_use == NULL)
        return chosen;
    uint32_t count = farthest_candidates(call, belady->slot_count, call->scratch);
    uint32_t more = want - chosen < count ? want - chosen : count;
    farthest_first(call->scratch, count, call->next_use, belady->spare);
    memcpy(victims + chosen, call->scratch, more * sizeof *victims);
    return chosen + more;
}

static void belady_on_resolved(void *state, const struct kvt_replacement_call *call,
                               const kvt_slot *fills, const uint32_t *evicted_rows,
                               uint32_t fill_count)
{
    (void)state, (void)call, (void)fills, (void)evicted_rows, (void)fill_count;
}

static void belady_on_invalidate(void *state, kvt_slot slot)
{
    (void)state, (void)slot;
}

static void belady_ranks(const void *state, uint32_t *ranks)
{
    farthest_ranks(((const struct belady *)state)->slot_count, ranks);
}

const struct kvt_replacement_policy kvt_replacement_belady = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_replacement_belady,
             .name = "belady",
             .summary = "a bound: the row that is wanted again last goes first",
             .params = belady_params,
             .param_count = sizeof belady_params / sizeof belady_params[0]},
    .state_bytes = belady_state_bytes,
    .init = belady_init,
    .choose_victims = belady_choose_victims,
    .on_resolved = belady_on_resolved,
    .on_invalidate = belady_on_invalidate,
    .ranks = belady_ranks,
};
