/* test_promotion_twin.c -- a policy that keeps books by row and orders promoted rows its own way:
 * over random calls its books are the cache's rows, and the state hash is the twin's. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/resolver.h"
#include "kvt/rng.h"
#include "support/random_calls.h"

enum {
    SLOTS_MAX = 512,
    CASES = 60,
    CALLS = 60
};

/* ---- Batch LRU in which a promoted row is the newest ------------------------------------- */

struct bookkeeper {
    uint32_t slot_count;
    uint32_t rows[SLOTS_MAX];  /* what it was told of each slot */
    kvt_slot order[SLOTS_MAX]; /* oldest first */
};

static size_t keeper_bytes(const struct kvt_replacement_env *env)
{
    (void)env;
    return sizeof(struct bookkeeper);
}

static kvt_status keeper_init(void *state, const struct kvt_replacement_env *env,
                              struct kvt_error *err)
{
    struct bookkeeper *keeper = state;

    (void)err;
    keeper->slot_count = env->slot_count;
    for (kvt_slot slot = 0; slot < env->slot_count; slot++) {
        keeper->order[slot] = slot;
        keeper->rows[slot] = KVT_ROW_NONE;
    }
    return KVT_OK;
}

static bool hits(const struct kvt_replacement_call *call, kvt_slot slot)
{
    return call->hit_bits[slot / 64] >> slot % 64 & 1;
}

static void expect_books(const struct bookkeeper *keeper, const struct kvt_replacement_call *call)
{
    if (memcmp(keeper->rows, call->slot_rows, keeper->slot_count * sizeof *keeper->rows) != 0)
        ck_abort_msg("step %" PRIu64 ": the slots hold other rows than the policy was told",
                     call->step);
}

static uint32_t keeper_choose(void *state, const struct kvt_replacement_call *call, uint32_t want,
                              kvt_slot *victims)
{
    const struct bookkeeper *keeper = state;
    uint32_t chosen = 0;

    expect_books(keeper, call);
    for (uint32_t i = 0; i < keeper->slot_count && chosen < want; i++) {
        if (!hits(call, keeper->order[i]))
            victims[chosen++] = keeper->order[i];
    }
    return chosen;
}

/* A row leaves the slot that it was last told to be in, and no other. */
static void put(struct bookkeeper *keeper, kvt_slot slot, uint32_t row, uint32_t evicted_row)
{
    if (keeper->rows[slot] != evicted_row)
        ck_abort_msg("slot %u gives up row %u, and held row %u", slot, evicted_row,
                     keeper->rows[slot]);
    keeper->rows[slot] = row;
}

static void make_newest(struct bookkeeper *keeper, kvt_slot slot)
{
    uint32_t at = 0;

    while (keeper->order[at] != slot)
        at++;
    memmove(&keeper->order[at], &keeper->order[at + 1],
            (keeper->slot_count - at - 1) * sizeof *keeper->order);
    keeper->order[keeper->slot_count - 1] = slot;
}

static void keeper_resolved(void *state, const struct kvt_replacement_call *call,
                            const kvt_slot *fills, const uint32_t *evicted_rows,
                            uint32_t fill_count)
{
    struct bookkeeper *keeper = state;
    kvt_slot hit_slots[SLOTS_MAX];
    uint32_t hit_count = 0;

    for (uint32_t i = 0; i < keeper->slot_count; i++) {
        if (hits(call, keeper->order[i]))
            hit_slots[hit_count++] = keeper->order[i];
    }
    for (uint32_t i = 0; i < fill_count; i++) {
        put(keeper, fills[i], call->missed_rows[i], evicted_rows[i]);
        make_newest(keeper, fills[i]);
    }
    for (uint32_t i = 0; i < hit_count; i++)
        make_newest(keeper, hit_slots[i]);
    expect_books(keeper, call);
}

static void keeper_promoted(void *state, const struct kvt_replacement_call *call,
                            const kvt_slot *slots, const uint32_t *rows,
                            const uint32_t *evicted_rows, uint32_t count)
{
    struct bookkeeper *keeper = state;

    for (uint32_t i = 0; i < count; i++) {
        put(keeper, slots[i], rows[i], evicted_rows[i]);
        make_newest(keeper, slots[i]);
    }
    expect_books(keeper, call);
}

static void keeper_ranks(const void *state, uint32_t *ranks)
{
    const struct bookkeeper *keeper = state;

    for (uint32_t rank = 0; rank < keeper->slot_count; rank++)
        ranks[keeper->order[rank]] = rank;
}

static const struct kvt_replacement_policy bookkeeper = {
    .info = {.abi = KVT_ABI_VERSION, .struct_bytes = sizeof bookkeeper, .name = "bookkeeper"},
    .state_bytes = keeper_bytes,
    .init = keeper_init,
    .choose_victims = keeper_choose,
    .on_resolved = keeper_resolved,
    .ranks = keeper_ranks,
    .on_promoted = keeper_promoted,
};

/* ---- Cases --------------------------------------------------------------------------------- */

static struct random_calls request;
static uint32_t promoted_rows;

START_TEST(a_promoted_row_is_where_the_policy_was_told_and_ranks_as_it_says)
{
    struct kvt_rng rng = kvt_rng_stream((uint64_t)_i, KVT_RNG_TEST, 0);
    uint32_t top_k = 4 + (uint32_t)kvt_rng_below(&rng, 40);
    uint32_t slots = 1 + (uint32_t)kvt_rng_below(&rng, 2 * top_k);
    struct kvt_replacement_env env = {.slot_count = slots, .top_k = top_k};
    struct kvt_resolver *resolver = NULL;
    struct kvt_hot_cache *cache = NULL;
    struct twin twin;
    struct kvt_error err;

    random_calls_init(&request, (uint64_t)_i, top_k, slots,
                      200 + (uint32_t)kvt_rng_below(&rng, 800));
    ck_assert_int_eq(kvt_resolver_new(RANDOM_ROWS_MAX, SLOTS_MAX, RANDOM_ROWS_MAX, &resolver, &err),
                     KVT_OK);
    ck_assert_int_eq(kvt_hot_cache_new(&bookkeeper, &env, request.rows_max, &cache, &err), KVT_OK);
    twin_init(&twin, TWIN_LRU, (int)request.rows_max, (int)slots);
    twin.promoted_are_newest = true;
    promoted_rows = 0;
    for (int i = 0; i < CALLS; i++) {
        struct kvt_resolve_result result;
        random_calls_next(&request);
        twin_resolve(&twin, &request.twin_call);
        kvt_status status = kvt_resolve(resolver, cache, &request.call, &result, &err);
        ck_assert_msg(status == KVT_OK, "call %d: %s", i, err.message);
        ck_assert_uint_eq(result.promoted_rows, (uint32_t)twin.answer.promoted.count);
        ck_assert_uint_eq(result.placed_hash, twin_placed_hash(&twin));
        ck_assert_uint_eq(kvt_hot_cache_state_hash(resolver, cache), twin_hash(&twin));
        promoted_rows += result.promoted_rows;
    }
    if (slots > 4 && slots < top_k / 2) /* most calls stage rows; some of those are wanted more */
        ck_assert_uint_gt(promoted_rows, 0);
    twin_fini(&twin);
    kvt_hot_cache_free(cache);
    kvt_resolver_free(resolver);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("promotion twin");
    TCase *tcase = tcase_create("promotion twin");
    SRunner *runner = srunner_create(suite);

    tcase_add_loop_test(tcase, a_promoted_row_is_where_the_policy_was_told_and_ranks_as_it_says, 0,
                        CASES);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
