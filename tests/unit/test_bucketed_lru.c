/* test_bucketed_lru.c -- bucketed LRU against a twin that keeps ages and looks for the best slot
 * again for each victim, and by hand. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/plugin.h"
#include "kvt/policy.h"
#include "kvt/rng.h"

enum {
    SLOTS_MAX = 150,
    WORDS = (SLOTS_MAX + 63) / 64,
    EMPTY = -1,
    CASES = 16,
    CALLS = 80
};

struct bench {
    const struct kvt_replacement_policy *policy;
    void *state;
    int slots, buckets, bucket_calls;
    int ages[SLOTS_MAX]; /* the twin's: calls since one read it, or EMPTY */
};

static void bench_open(struct bench *bench, int slots, int buckets, int bucket_calls)
{
    const struct kvt_param_value values[] = {{.number = buckets}, {.number = bucket_calls}};
    struct kvt_replacement_env env = {
        .params = {.values = values, .count = 2}, .slot_count = (uint32_t)slots, .top_k = 8};
    const struct kvt_plugin_info *info;
    struct kvt_error err;

    ck_assert_int_eq(
        kvt_plugin_find(NULL, KVT_PLUGIN_REPLACEMENT, "bucketed-lru", "test", &info, &err), KVT_OK);
    *bench = (struct bench){.policy = (const struct kvt_replacement_policy *)(const void *)info,
                            .slots = slots,
                            .buckets = buckets,
                            .bucket_calls = bucket_calls};
    bench->state = calloc(1, bench->policy->state_bytes(&env));
    ck_assert_ptr_nonnull(bench->state);
    ck_assert_int_eq(bench->policy->init(bench->state, &env, &err), KVT_OK);
    for (int slot = 0; slot < slots; slot++)
        bench->ages[slot] = EMPTY;
}

static int bucket_of(const struct bench *bench, int slot)
{
    int bucket = bench->ages[slot] / bench->bucket_calls;

    if (bench->ages[slot] == EMPTY)
        return bench->buckets; /* before the oldest */
    return bucket < bench->buckets - 1 ? bucket : bench->buckets - 1;
}

/* The lowest of the oldest that is not taken. */
static int best(const struct bench *bench, const bool *taken)
{
    int found = EMPTY;

    for (int slot = 0; slot < bench->slots; slot++) {
        if (!taken[slot] && (found == EMPTY || bucket_of(bench, slot) > bucket_of(bench, found)))
            found = slot;
    }
    return found;
}

static void expect_ranks(const struct bench *bench)
{
    bool taken[SLOTS_MAX] = {false};
    uint32_t ranks[SLOTS_MAX];

    bench->policy->ranks(bench->state, ranks);
    for (int rank = 0; rank < bench->slots; rank++) {
        int slot = best(bench, taken);
        taken[slot] = true;
        ck_assert_int_eq(ranks[slot], rank);
    }
    ck_assert(bench->policy->is_sane(bench->state));
}

/* A call that reads the slots of `hits` and misses `want` rows; returns how many found a slot, with
 * them in victims. */
static int call(struct bench *bench, const bool *hits, int want, kvt_slot victims[SLOTS_MAX])
{
    uint64_t hit_bits[WORDS] = {0};
    uint32_t evicted[SLOTS_MAX];
    struct kvt_replacement_call given = {.hit_bits = hit_bits, .missed_count = (uint32_t)want};
    bool read[SLOTS_MAX];

    memcpy(read, hits, sizeof read);
    for (int slot = 0; slot < bench->slots; slot++)
        hit_bits[slot / 64] |= (uint64_t)hits[slot] << slot % 64;
    int chosen = (int)bench->policy->choose_victims(bench->state, &given, (uint32_t)want, victims);
    for (int i = 0; i < chosen; i++) {
        int slot = best(bench, read);
        ck_assert_int_eq(victims[i], slot);
        read[slot] = true;
        evicted[i] = KVT_ROW_NONE;
    }
    if (chosen < want)
        ck_assert_int_eq(best(bench, read), EMPTY);
    bench->policy->on_resolved(bench->state, &given, victims, evicted, (uint32_t)chosen);
    for (int slot = 0; slot < bench->slots; slot++)
        bench->ages[slot] = read[slot] ? 0 : bench->ages[slot] + (bench->ages[slot] != EMPTY);
    expect_ranks(bench);
    return chosen;
}

START_TEST(victims_and_ranks_are_those_of_the_twin)
{
    struct kvt_rng rng = kvt_rng_stream((uint64_t)_i, KVT_RNG_TEST, 0);
    struct bench bench;

    bench_open(&bench, 1 + (int)kvt_rng_below(&rng, SLOTS_MAX), 2 + (int)kvt_rng_below(&rng, 7),
               1 + (int)kvt_rng_below(&rng, 5));
    for (int n = 0; n < CALLS; n++) {
        bool hits[SLOTS_MAX] = {false};
        kvt_slot victims[SLOTS_MAX];
        uint64_t of = 1 + kvt_rng_below(&rng, 12);
        for (int slot = 0; slot < bench.slots; slot++)
            hits[slot] = bench.ages[slot] != EMPTY && kvt_rng_below(&rng, of) == 0;
        (void)call(&bench, hits, (int)kvt_rng_below(&rng, (uint64_t)bench.slots + 1), victims);
        int gone = (int)kvt_rng_below(&rng, (uint64_t)bench.slots * 3);
        if (gone < bench.slots) {
            bench.policy->on_invalidate(bench.state, (kvt_slot)gone);
            bench.ages[gone] = EMPTY;
            expect_ranks(&bench);
        }
    }
    free(bench.state);
}
END_TEST

/* Slots 0 .. 3 are filled in turn, one a call, and have ages 3, 2, 1 and 0. With two calls a bucket
 * 0 and 1 are in one, 2 and 3 in the other. */
START_TEST(those_of_one_bucket_go_from_the_lowest_slot_on)
{
    const bool none[SLOTS_MAX] = {false};
    bool second[SLOTS_MAX] = {false, true};
    kvt_slot victims[SLOTS_MAX];
    struct bench bench;

    bench_open(&bench, 4, 3, 2);
    for (uint32_t slot = 0; slot < 4; slot++) {
        ck_assert_int_eq(call(&bench, none, 1, victims), 1);
        ck_assert_uint_eq(victims[0], slot);
    }
    ck_assert_int_eq(call(&bench, none, 2, victims), 2);
    ck_assert_uint_eq(victims[0], 0);
    ck_assert_uint_eq(victims[1], 1);
    ck_assert_int_eq(call(&bench, second, 2, victims), 2); /* 2 has age 2, 3 age 1, 0 age 0 */
    ck_assert_uint_eq(victims[0], 2);
    ck_assert_uint_eq(victims[1], 0); /* the same bucket as 3 */
    ck_assert_int_eq(call(&bench, second, 4, victims), 3);
    free(bench.state);
}
END_TEST

static Suite *bucketed_suite(void)
{
    Suite *suite = suite_create("bucketed_lru");
    TCase *order = tcase_create("order");

    tcase_add_loop_test(order, victims_and_ranks_are_those_of_the_twin, 0, CASES);
    tcase_add_test(order, those_of_one_bucket_go_from_the_lowest_slot_on);
    suite_add_tcase(suite, order);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(bucketed_suite());
    int failed = 0;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
