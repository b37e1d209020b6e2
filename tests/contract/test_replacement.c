/* test_replacement.c -- what every replacement policy holds to beside its contract
 * (test_contract.c), and what those that keep an order of slots do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/policy.h"
#include "support/plugin_params.h"

enum {
    SLOTS_MAX = 200,
    SLOT_WORDS = (SLOTS_MAX + 63) / 64,
    STATE_BYTES_MAX = 1 << 16,
    CALLS = 300,
    ROWS_MAX = 1 << 17,  /* more than a bench comes to */
    SEEN_BEFORE_MAX = 6, /* rows of a call that may have been in the cache before */
};

static const uint32_t slot_counts[] = {1, 2, 63, 64, 65, SLOTS_MAX};
enum {
    SLOT_COUNTS = sizeof slot_counts / sizeof slot_counts[0]
};

/* Check notes every assertion in a file, and there are millions: only a failure is one. */
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("%s", #condition);                                                        \
    } while (0)

/* One cache as the resolver keeps it, driven by random calls. */
struct bench {
    const struct kvt_replacement_policy *policy;
    struct kvt_param_value values[SUPPORT_PARAMS_MAX];
    size_t state_bytes;
    uint64_t state[STATE_BYTES_MAX / 8];
    struct kvt_rng rng;
    uint32_t slot_count, next_row;
    uint32_t slot_rows[SLOTS_MAX];
    uint64_t hit_bits[SLOT_WORDS];
    uint32_t missed[SLOTS_MAX], evicted[SLOTS_MAX];
    kvt_slot victims[SLOTS_MAX], scratch[SLOTS_MAX];
    kvt_slot hit_slots[SLOTS_MAX]; /* in an order as good as any */
    uint32_t next_use[SLOTS_MAX];
    bool is_clairvoyant;
    uint32_t want, chosen;
    enum kvt_cpu cpu;
    struct kvt_replacement_call call;
};

static void bench_start(struct bench *bench, const struct kvt_plugin_info *info,
                        uint32_t slot_count)
{
    struct kvt_error err = {0};
    *bench = (struct bench){.policy = (const struct kvt_replacement_policy *)info,
                            .slot_count = slot_count,
                            .cpu = kvt_cpu_best(),
                            .rng = kvt_rng_stream(slot_count, KVT_RNG_TEST, 0)};
    struct kvt_replacement_env env = {
        .params = support_default_params(info, bench->values),
        .slot_count = slot_count,
        .top_k = slot_count,
        .run_seed = 2385,
        .host = kvt_host(),
        .rows_max = ROWS_MAX,
        .rows_per_page = 16,
    };
    struct kvt_choice choice = {.info = info, .params = env.params};

    bench->is_clairvoyant = kvt_choice_has(&choice, KVT_CLAIRVOYANT);
    memset(bench->slot_rows, 0xff, sizeof bench->slot_rows);
    bench->state_bytes = bench->policy->state_bytes(&env);
    ck_assert_uint_le(bench->state_bytes, STATE_BYTES_MAX);
    kvt_status status = bench->policy->init(bench->state, &env, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
}

static void bench_nth(struct bench *bench, int index, uint32_t slot_count)
{
    size_t count;
    bench_start(bench, kvt_plugin_list(NULL, KVT_PLUGIN_REPLACEMENT, &count)[index], slot_count);
}

static bool is_row_known(const struct bench *bench, uint32_t row, uint32_t missed_count)
{
    for (kvt_slot slot = 0; slot < bench->slot_count; slot++) {
        if (bench->slot_rows[slot] == row)
            return true;
    }
    for (uint32_t i = 0; i < missed_count; i++) {
        if (bench->missed[i] == row)
            return true;
    }
    return false;
}

/* A row that came not long ago, and may have left again, or a new one. */
static uint32_t draw_missed(struct bench *bench, uint32_t missed_count)
{
    uint32_t reach =
        bench->next_row < 3 * bench->slot_count ? bench->next_row : 3 * bench->slot_count;

    if (reach > 0 && missed_count < SEEN_BEFORE_MAX) {
        uint32_t row = bench->next_row - 1 - (uint32_t)kvt_rng_below(&bench->rng, reach);
        if (!is_row_known(bench, row, missed_count))
            return row;
    }
    return bench->next_row++;
}

static void draw_next_use(struct bench *bench)
{
    for (kvt_slot slot = 0; slot < bench->slot_count; slot++) {
        bool never = bench->slot_rows[slot] == KVT_ROW_NONE || kvt_rng_below(&bench->rng, 3) == 0;
        bench->next_use[slot] =
            never ? KVT_CALL_NEVER : 1 + (uint32_t)kvt_rng_below(&bench->rng, KVT_LOOK_AHEAD_CALLS);
    }
}

/* Some occupied slots hit, some rows are missed; the policy answers. */
static void bench_choose(struct bench *bench)
{
    uint64_t hit_percent = kvt_rng_below(&bench->rng, 101);
    uint32_t hits = 0;
    uint32_t missed_count = (uint32_t)kvt_rng_below(&bench->rng, bench->slot_count + 1);

    memset(bench->hit_bits, 0, sizeof bench->hit_bits);
    for (kvt_slot slot = 0; slot < bench->slot_count; slot++) {
        if (bench->slot_rows[slot] == KVT_ROW_NONE ||
            kvt_rng_below(&bench->rng, 100) >= hit_percent)
            continue;
        bench->hit_bits[slot / 64] |= UINT64_C(1) << slot % 64;
        uint32_t place = (uint32_t)kvt_rng_below(&bench->rng, ++hits);
        bench->hit_slots[hits - 1] = bench->hit_slots[place];
        bench->hit_slots[place] = slot;
    }
    for (uint32_t i = 0; i < missed_count; i++)
        bench->missed[i] = draw_missed(bench, i);
    memset(bench->scratch, (int)kvt_rng_below(&bench->rng, 256), sizeof bench->scratch);
    memset(bench->victims, 0xff, sizeof bench->victims);
    bench->call = (struct kvt_replacement_call){.hit_bits = bench->hit_bits,
                                                .slot_rows = bench->slot_rows,
                                                .missed_rows = bench->missed,
                                                .missed_count = missed_count,
                                                .step = bench->call.step + 1,
                                                .scratch = bench->scratch,
                                                .cpu = bench->cpu};
    if (bench->is_clairvoyant) {
        draw_next_use(bench);
        bench->call.next_use = bench->next_use;
    }
    if (bench->policy->wants_hit_order) {
        bench->call.hit_slots = bench->hit_slots;
        bench->call.hit_count = hits;
    }
    uint32_t free_slots = bench->slot_count - hits;
    bench->want = missed_count < free_slots ? missed_count : free_slots;
    bench->chosen = 0;
    if (bench->want > 0)
        bench->chosen =
            bench->policy->choose_victims(bench->state, &bench->call, bench->want, bench->victims);
}

/* Rows that found no slot take some of those that the call has read, which all are. */
static void bench_promote(struct bench *bench)
{
    static kvt_slot slots[SLOTS_MAX];
    uint32_t staged_count = bench->call.missed_count - bench->chosen, count = 0;
    uint32_t percent = (uint32_t)kvt_rng_below(&bench->rng, 101);

    for (kvt_slot slot = 0; slot < bench->slot_count && count < staged_count; slot++) {
        if (kvt_rng_below(&bench->rng, 100) >= percent)
            continue;
        bench->evicted[count] = bench->slot_rows[slot];
        bench->slot_rows[slot] = bench->missed[bench->chosen + count];
        slots[count++] = slot;
    }
    memset(bench->scratch, (int)percent, sizeof bench->scratch);
    if (count > 0 && bench->policy->on_promoted)
        bench->policy->on_promoted(bench->state, &bench->call, slots, bench->missed + bench->chosen,
                                   bench->evicted, count);
}

static void bench_commit(struct bench *bench)
{
    for (uint32_t i = 0; i < bench->chosen; i++) {
        bench->evicted[i] = bench->slot_rows[bench->victims[i]];
        bench->slot_rows[bench->victims[i]] = bench->missed[i];
    }
    bench->policy->on_resolved(bench->state, &bench->call, bench->victims, bench->evicted,
                               bench->chosen);
    if (bench->chosen < bench->call.missed_count)
        bench_promote(bench);
}

/* Now and then an occupied slot loses its row. */
static void bench_invalidate(struct bench *bench)
{
    kvt_slot slot = (kvt_slot)kvt_rng_below(&bench->rng, bench->slot_count);
    if (bench->slot_rows[slot] == KVT_ROW_NONE || kvt_rng_below(&bench->rng, 4) != 0)
        return;
    bench->slot_rows[slot] = KVT_ROW_NONE;
    bench->policy->on_invalidate(bench->state, slot);
}

static void bench_play(struct bench *bench)
{
    bench_choose(bench);
    bench_commit(bench);
    bench_invalidate(bench);
}

/* The next victim of a copy, so that asking changes nothing. */
static kvt_slot next_victim(const struct bench *bench)
{
    static struct bench copy;
    kvt_slot victim = KVT_SLOT_NONE;

    copy = *bench;
    memset(copy.hit_bits, 0, sizeof copy.hit_bits);
    copy.missed[0] = copy.next_row;
    copy.call = (struct kvt_replacement_call){.hit_bits = copy.hit_bits,
                                              .slot_rows = copy.slot_rows,
                                              .missed_rows = copy.missed,
                                              .missed_count = 1,
                                              .step = bench->call.step + 1,
                                              .scratch = copy.scratch,
                                              .cpu = bench->cpu};
    if (bench->is_clairvoyant)
        copy.call.next_use = copy.next_use;
    EXPECT(copy.policy->choose_victims(copy.state, &copy.call, 1, &victim) == 1);
    return victim;
}

static void expect_equal(const struct bench *a, const struct bench *b)
{
    uint32_t ranks_a[SLOTS_MAX], ranks_b[SLOTS_MAX];

    EXPECT(a->chosen == b->chosen);
    EXPECT(memcmp(a->victims, b->victims, sizeof a->victims) == 0);
    EXPECT(memcmp(a->state, b->state, a->state_bytes) == 0);
    a->policy->ranks(a->state, ranks_a);
    b->policy->ranks(b->state, ranks_b);
    EXPECT(memcmp(ranks_a, ranks_b, a->slot_count * sizeof ranks_a[0]) == 0);
}

/* ---- every policy --------------------------------------------------------------------- */

START_TEST(every_level_of_the_processor_gets_the_same_answers)
{
    static struct bench bench, plain;
    for (size_t n = 0; n < SLOT_COUNTS; n++) {
        for (int cpu = 0; cpu <= (int)kvt_cpu_best(); cpu++) {
            bench_nth(&bench, _i, slot_counts[n]);
            bench_nth(&plain, _i, slot_counts[n]);
            bench.cpu = (enum kvt_cpu)cpu;
            plain.cpu = KVT_CPU_PLAIN;
            for (uint32_t i = 0; i < CALLS; i++) {
                bench_play(&bench);
                bench_play(&plain);
                expect_equal(&bench, &plain);
            }
        }
    }
}
END_TEST

/* Of parts each has a next victim of its own, and what comes is not in the state of those that see
 * it. */
START_TEST(an_invalidated_slot_is_the_next_victim)
{
    static struct bench bench;
    bench_nth(&bench, _i, SLOTS_MAX);
    for (uint32_t i = 0; i < CALLS; i++) {
        bench_choose(&bench);
        bench_commit(&bench);
    }
    for (kvt_slot slot = SLOTS_MAX; slot-- > 0;) {
        EXPECT(bench.slot_rows[slot] != KVT_ROW_NONE);
        bench.slot_rows[slot] = KVT_ROW_NONE;
        bench.policy->on_invalidate(bench.state, slot);
        if (!bench.policy->is_partitioned || slot == 0) /* all parts are empty then */
            EXPECT(next_victim(&bench) == slot);
    }
}
END_TEST

/* ---- policies that keep an order of slots --------------------------------------------- */

/* The first of them keep it as struct slot_order does. */
static const char *const ordered[] = {"lru", "access-lru", "fifo",  "clock",
                                      "lfu", "sieve",      "random"};
enum {
    ORDERED = sizeof ordered / sizeof ordered[0],
    CHOOSE_AND_DO_NOTHING = 4, /* the state is as before until the call is resolved */
    SLOT_ORDERS = 3
};

static void bench_named(struct bench *bench, const char *name, uint32_t slot_count)
{
    const struct kvt_plugin_info *info = NULL;
    struct kvt_error err = {0};
    ck_assert_int_eq(
        kvt_plugin_find(NULL, KVT_PLUGIN_REPLACEMENT, name, "replacement", &info, &err), KVT_OK);
    bench_start(bench, info, slot_count);
}

START_TEST(ranks_are_the_order_in_which_a_call_without_hits_gives_up_every_slot)
{
    static struct bench bench, copy;
    for (size_t n = 0; n < SLOT_COUNTS; n++) {
        bench_named(&bench, ordered[_i], slot_counts[n]);
        for (uint32_t i = 0; i < CALLS; i++) {
            uint32_t ranks[SLOTS_MAX];
            kvt_slot victims[SLOTS_MAX];
            bench_play(&bench);
            bench.policy->ranks(bench.state, ranks);
            memset(bench.hit_bits, 0, sizeof bench.hit_bits);
            bench.call.hit_count = 0;
            copy = bench;
            ck_assert_uint_eq(
                bench.policy->choose_victims(copy.state, &bench.call, bench.slot_count, victims),
                bench.slot_count);
            for (uint32_t rank = 0; rank < bench.slot_count; rank++)
                EXPECT(ranks[victims[rank]] == rank);
        }
    }
}
END_TEST

START_TEST(an_invalidated_slot_goes_back_among_the_empty_ones)
{
    static struct bench bench;
    static const uint32_t expected[] = {3, 0, 1, 4, 2}; /* order 1 2 4, all empty; 0 3 */
    uint32_t ranks[5];

    bench_named(&bench, ordered[_i], 5); /* slots 0 to 3 filled in turn, 4 empty */
    for (kvt_slot slot = 0; slot < 4; slot++) {
        uint32_t none = KVT_ROW_NONE;
        bench.call = (struct kvt_replacement_call){
            .hit_bits = bench.hit_bits, .missed_count = 1, .scratch = bench.scratch};
        bench.policy->on_resolved(bench.state, &bench.call, &slot, &none, 1);
    }
    bench.policy->on_invalidate(bench.state, 2);
    bench.policy->on_invalidate(bench.state, 1);
    bench.policy->on_invalidate(bench.state, 2); /* empty already: nothing changes */
    bench.policy->ranks(bench.state, ranks);
    EXPECT(memcmp(ranks, expected, sizeof expected) == 0);
}
END_TEST

/* A slot order is two counts of 32 bits and slots of 16. */
START_TEST(an_order_that_is_no_permutation_is_noticed)
{
    static struct bench bench;
    unsigned char *bytes = (unsigned char *)bench.state;

    bench_named(&bench, ordered[_i], SLOTS_MAX);
    for (size_t at = 2 * sizeof(uint32_t); at < bench.state_bytes; at += sizeof(uint16_t)) {
        uint16_t slot;
        memcpy(&slot, bytes + at, sizeof slot);
        slot ^= 0x4000; /* no slot is that large */
        memcpy(bytes + at, &slot, sizeof slot);
        EXPECT(!bench.policy->is_sane(bench.state));
        slot ^= 0x4001; /* in range, and another one's */
        memcpy(bytes + at, &slot, sizeof slot);
        EXPECT(!bench.policy->is_sane(bench.state));
        slot ^= 1;
        memcpy(bytes + at, &slot, sizeof slot);
        EXPECT(bench.policy->is_sane(bench.state));
    }
    uint32_t too_many = SLOTS_MAX + 1;
    memcpy(bytes + sizeof(uint32_t), &too_many, sizeof too_many);
    EXPECT(!bench.policy->is_sane(bench.state));
}
END_TEST

START_TEST(an_order_of_more_slots_than_it_can_hold_is_refused)
{
    static struct bench bench;
    struct kvt_replacement_env env = {.slot_count = 65537, .host = kvt_host()};
    struct kvt_error err = {0};
    char place[64];

    bench_named(&bench, ordered[_i], 1);
    ck_assert_int_eq(bench.policy->init(bench.state, &env, &err), KVT_ERR_UNSUPPORTED);
    (void)snprintf(place, sizeof place, "replacement \"%s\"", ordered[_i]);
    ck_assert_str_eq(err.where, place);
    ck_assert_str_eq(err.message,
                     "a hot cache of 65537 slots is too large; its order holds at most 65536");
}
END_TEST

/* CLOCK's state is two numbers of 32 bits and three sets, word by word. */
START_TEST(a_clock_notices_a_slot_in_no_set_or_in_two_and_a_hand_beside_the_dial)
{
    static struct bench bench;
    uint32_t counts[2];

    bench_named(&bench, "clock", SLOTS_MAX);
    for (uint32_t i = 0; i < CALLS; i++)
        bench_play(&bench);
    for (uint32_t w = 0; w < SLOT_WORDS; w++) {
        for (uint32_t bit = 0; bit < 64; bit++) {
            for (uint32_t set = 0; set < 3; set++) {
                uint64_t *word = &bench.state[1 + 3 * w + set];
                *word ^= UINT64_C(1) << bit;
                ck_assert(!bench.policy->is_sane(bench.state));
                *word ^= UINT64_C(1) << bit;
            }
        }
    }
    ck_assert(bench.policy->is_sane(bench.state));
    memcpy(counts, bench.state, sizeof counts);
    counts[1] = SLOTS_MAX;
    memcpy(bench.state, counts, sizeof counts);
    ck_assert(!bench.policy->is_sane(bench.state));
}
END_TEST

static Suite *replacement_suite(void)
{
    Suite *suite = suite_create("replacement");
    size_t listed;
    (void)kvt_plugin_list(NULL, KVT_PLUGIN_REPLACEMENT, &listed);
    const int count = (int)listed;

    TCase *every = tcase_create("every_policy");
    tcase_add_loop_test(every, every_level_of_the_processor_gets_the_same_answers, 0, count);
    tcase_add_loop_test(every, an_invalidated_slot_is_the_next_victim, 0, count);
    suite_add_tcase(suite, every);

    TCase *order = tcase_create("order");
    tcase_add_loop_test(order, ranks_are_the_order_in_which_a_call_without_hits_gives_up_every_slot,
                        0, ORDERED);
    tcase_add_loop_test(order, an_invalidated_slot_goes_back_among_the_empty_ones, 0,
                        CHOOSE_AND_DO_NOTHING);
    tcase_add_loop_test(order, an_order_that_is_no_permutation_is_noticed, 0, SLOT_ORDERS);
    tcase_add_loop_test(order, an_order_of_more_slots_than_it_can_hold_is_refused, 0, SLOT_ORDERS);
    tcase_add_test(order, a_clock_notices_a_slot_in_no_set_or_in_two_and_a_hand_beside_the_dial);
    suite_add_tcase(suite, order);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(replacement_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
