/* test_resolver_policy.c -- what the resolver makes of policies that break their contract. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/resolver.h"

enum {
    ROWS = 10,
    SLOTS = 4
};

static struct kvt_resolver *resolver;
static struct kvt_hot_cache *cache;
static struct kvt_error err;

static void open_resolver(void)
{
    ck_assert_int_eq(kvt_resolver_new(ROWS, SLOTS, ROWS, &resolver, &err), KVT_OK);
    cache = NULL;
}

static void close_resolver(void)
{
    kvt_hot_cache_free(cache);
    kvt_resolver_free(resolver);
}

static void open_cache(const struct kvt_replacement_policy *policy)
{
    struct kvt_replacement_env env = {.slot_count = SLOTS, .top_k = 3};
    ck_assert_int_eq(kvt_hot_cache_new(policy, &env, ROWS, &cache, &err), KVT_OK);
}

/* One query, its rows as text ("1 2 9"); rows 8 and 9 are the tail; bit r of page_rows: row r is
 * resident by page. */
static kvt_status try_resolve(uint64_t page_rows, const char *text)
{
    uint64_t rows = 0;
    const uint64_t *selection = &rows;
    struct kvt_resolve_result result;

    for (; *text != '\0'; text++) {
        if (*text != ' ')
            rows |= UINT64_C(1) << (*text - '0');
    }
    struct kvt_resolve_call call = {.visible_rows = ROWS,
                                    .tail_first_row = 8,
                                    .page_rows = &page_rows,
                                    .query_count = 1,
                                    .selections = &selection};
    return kvt_resolve(resolver, cache, &call, &result, &err);
}

static void resolve(uint64_t page_rows, const char *text)
{
    ck_assert_int_eq(try_resolve(page_rows, text), KVT_OK);
}

static void expect_refusal(kvt_status status, kvt_status expected, const char *words)
{
    ck_assert_int_eq(status, expected);
    ck_assert_msg(strstr(err.message, words) != NULL, "\"%s\" lacks \"%s\"", err.message, words);
}

/* ---- Policies ------------------------------------------------------------------- */

static size_t no_state(const struct kvt_replacement_env *env)
{
    (void)env;
    return 0;
}

static kvt_status start(void *state, const struct kvt_replacement_env *env, struct kvt_error *error)
{
    (void)state, (void)env, (void)error;
    return KVT_OK;
}

static kvt_status refuse(void *state, const struct kvt_replacement_env *env,
                         struct kvt_error *error)
{
    (void)state, (void)env;
    return kvt_fail(error, KVT_ERR_UNSUPPORTED, "moody", "does not feel like it");
}

static void ignore(void *state, const struct kvt_replacement_call *call, const kvt_slot *fills,
                   const uint32_t *evicted_rows, uint32_t fill_count)
{
    (void)state, (void)call, (void)fills, (void)evicted_rows, (void)fill_count;
}

/* Slots 0, 1, 2 .. whatever they hold: right only until something hits. */
static uint32_t choose_in_order(void *state, const struct kvt_replacement_call *call, uint32_t want,
                                kvt_slot *victims)
{
    (void)state, (void)call;
    for (uint32_t i = 0; i < want; i++)
        victims[i] = i;
    return want;
}

static uint32_t choose_twice(void *state, const struct kvt_replacement_call *call, uint32_t want,
                             kvt_slot *victims)
{
    (void)state, (void)call;
    for (uint32_t i = 0; i < want; i++)
        victims[i] = 0;
    return want;
}

static uint32_t choose_too_few(void *state, const struct kvt_replacement_call *call, uint32_t want,
                               kvt_slot *victims)
{
    return choose_in_order(state, call, want - 1, victims);
}

static uint32_t choose_outside(void *state, const struct kvt_replacement_call *call, uint32_t want,
                               kvt_slot *victims)
{
    (void)state, (void)call;
    for (uint32_t i = 0; i < want; i++)
        victims[i] = KVT_SLOT_NONE;
    return want;
}

static uint32_t choose_from_the_end(void *state, const struct kvt_replacement_call *call,
                                    uint32_t want, kvt_slot *victims)
{
    (void)state, (void)call;
    for (uint32_t i = 0; i < want; i++)
        victims[i] = 3 - i;
    return want;
}

/* An occupied slot, the lowest empty one, an occupied one; for the first two rows their slots. */
static uint32_t choose_by_parts(void *state, const struct kvt_replacement_call *call, uint32_t want,
                                kvt_slot *victims)
{
    static const kvt_slot slots[] = {0, 2, 1};

    if (call->slot_rows[0] == KVT_ROW_NONE)
        return choose_in_order(state, call, want, victims);
    ck_assert_uint_le(want, sizeof slots / sizeof slots[0]);
    for (uint32_t i = 0; i < want; i++)
        victims[i] = slots[i];
    return want;
}

static struct kvt_replacement_policy
policy_double(const char *name,
              uint32_t (*choose)(void *, const struct kvt_replacement_call *, uint32_t, kvt_slot *))
{
    return (struct kvt_replacement_policy){
        .info = {.name = name},
        .state_bytes = no_state,
        .init = start,
        .choose_victims = choose,
        .on_resolved = ignore,
    };
}

START_TEST(where_rows_have_their_part_an_empty_slot_of_another_may_be_left)
{
    struct kvt_replacement_policy parts = policy_double("parts", choose_by_parts);

    for (int is_partitioned = 0; is_partitioned < 2; is_partitioned++) {
        parts.is_partitioned = is_partitioned;
        open_cache(&parts);
        resolve(0, "1 2");
        if (is_partitioned) {
            resolve(0, "5 6 7");
            ck_assert_uint_eq(kvt_hot_cache_rows(cache)[0], 5);
            ck_assert_uint_eq(kvt_hot_cache_rows(cache)[1], 7);
            ck_assert_uint_eq(kvt_hot_cache_rows(cache)[2], 6);
            ck_assert_uint_eq(kvt_hot_cache_rows(cache)[3], KVT_ROW_NONE);
        } else {
            expect_refusal(try_resolve(0, "5 6 7"), KVT_ERR_POLICY,
                           "empty slots go first, lowest slot first");
        }
        kvt_hot_cache_free(cache);
        cache = NULL;
    }
    struct kvt_replacement_policy breaker = policy_double("breaker", choose_from_the_end);
    breaker.is_partitioned = true;
    open_cache(&breaker);
    expect_refusal(try_resolve(0, "1 6 7"), KVT_ERR_POLICY, "of empty slots the lowest goes first");
}
END_TEST

START_TEST(a_policy_that_breaks_its_contract_is_named_with_the_contract)
{
    static const struct {
        uint32_t (*choose)(void *, const struct kvt_replacement_call *, uint32_t, kvt_slot *);
        const char *words;
        const char *after; /* the call it breaks in comes after these rows */
    } breakers[] = {
        {choose_in_order, "a slot that hit is never a victim", "1 2 3 4"},
        {choose_twice, "no slot is a victim twice in one call", ""},
        {choose_too_few, "returned 2 slots for 3 misses", ""},
        {choose_outside, "a victim is a slot of this cache", ""},
        {choose_from_the_end, "empty slots go first, lowest slot first", ""},
    };

    for (size_t i = 0; i < sizeof breakers / sizeof breakers[0]; i++) {
        struct kvt_replacement_policy breaker = policy_double("breaker", breakers[i].choose);
        open_cache(&breaker);
        resolve(0, breakers[i].after);
        uint32_t first_row = kvt_hot_cache_rows(cache)[0];
        expect_refusal(try_resolve(0, "1 6 7"), KVT_ERR_POLICY, breakers[i].words);
        ck_assert_str_eq(err.where, "breaker");
        ck_assert_uint_eq(kvt_hot_cache_rows(cache)[0], first_row);
        kvt_hot_cache_free(cache);
        cache = NULL;
    }
    struct kvt_replacement_policy honest = policy_double("honest", choose_in_order);
    open_cache(&honest); /* the resolver is as good as new */
    resolve(0, "1 6 7");
    static const uint32_t expected[SLOTS] = {1, 6, 7, KVT_ROW_NONE};
    ck_assert_mem_eq(kvt_hot_cache_rows(cache), expected, sizeof expected);
}
END_TEST

static int resolved_calls;

static void count_calls(void *state, const struct kvt_replacement_call *call, const kvt_slot *fills,
                        const uint32_t *evicted_rows, uint32_t fill_count)
{
    ignore(state, call, fills, evicted_rows, fill_count);
    resolved_calls++;
}

START_TEST(the_policy_hears_of_every_call_that_looks_a_row_up_and_of_no_other)
{
    struct kvt_replacement_policy counter = policy_double("counter", choose_in_order);

    counter.on_resolved = count_calls;
    resolved_calls = 0;
    open_cache(&counter);
    resolve(0, "1 2 9");
    ck_assert_int_eq(resolved_calls, 1);
    resolve(0, "1 2"); /* all hit: they age */
    ck_assert_int_eq(resolved_calls, 2);
    resolve(0, "8 9");
    resolve(0xf, "1 2 9");
    ck_assert_int_eq(resolved_calls, 2);
}
END_TEST

static char hits_told[SLOTS + 1]; /* the rows in hit_slots; empty also where there are none */
static bool were_hits_told;

static void note_hits(void *state, const struct kvt_replacement_call *call, const kvt_slot *fills,
                      const uint32_t *evicted_rows, uint32_t fill_count)
{
    ignore(state, call, fills, evicted_rows, fill_count);
    were_hits_told = call->hit_slots != NULL;
    ck_assert(were_hits_told || call->hit_count == 0);
    for (uint32_t i = 0; were_hits_told && i < call->hit_count; i++)
        hits_told[i] = (char)('0' + call->slot_rows[call->hit_slots[i]]);
    hits_told[call->hit_count] = '\0';
}

START_TEST(hits_come_in_the_unions_order_to_a_policy_that_wants_them_and_to_no_other)
{
    for (int wants = 0; wants <= 1; wants++) {
        struct kvt_replacement_policy listener = policy_double("listener", choose_in_order);
        listener.on_resolved = note_hits;
        listener.wants_hit_order = wants == 1;
        open_cache(&listener);
        resolve(0, "7 6 3 1"); /* slots 0 to 3 for rows 1, 3, 6, 7 */
        ck_assert_int_eq(were_hits_told, wants == 1);
        ck_assert_str_eq(hits_told, "");
        static const uint64_t first = 1 << 7 | 1 << 9, second = 1 << 1 | 1 << 6 | 1 << 7,
                              third = 1 << 3 | 1 << 6;
        static const uint64_t *const selections[] = {&first, &second, &third};
        struct kvt_resolve_call call = {
            .visible_rows = ROWS, .tail_first_row = 8, .query_count = 3, .selections = selections};
        struct kvt_resolve_result result;
        ck_assert_int_eq(kvt_resolve(resolver, cache, &call, &result, &err), KVT_OK);
        ck_assert_str_eq(hits_told, wants == 1 ? "7163" : "");
        kvt_hot_cache_free(cache);
        cache = NULL;
    }
}
END_TEST

START_TEST(a_policy_that_cannot_start_leaves_no_cache)
{
    struct kvt_replacement_policy moody = policy_double("moody", choose_in_order);
    struct kvt_replacement_env env = {.slot_count = 4};

    moody.init = refuse;
    expect_refusal(kvt_hot_cache_new(&moody, &env, ROWS, &cache, &err), KVT_ERR_UNSUPPORTED,
                   "feel");
    ck_assert_ptr_null(cache);
}
END_TEST

static Suite *resolver_policy_suite(void)
{
    Suite *suite = suite_create("resolver policy");
    TCase *contract = tcase_create("contract");

    tcase_add_checked_fixture(contract, open_resolver, close_resolver);
    tcase_add_test(contract, a_policy_that_breaks_its_contract_is_named_with_the_contract);
    tcase_add_test(contract, where_rows_have_their_part_an_empty_slot_of_another_may_be_left);
    tcase_add_test(contract, the_policy_hears_of_every_call_that_looks_a_row_up_and_of_no_other);
    tcase_add_test(contract,
                   hits_come_in_the_unions_order_to_a_policy_that_wants_them_and_to_no_other);
    tcase_add_test(contract, a_policy_that_cannot_start_leaves_no_cache);
    suite_add_tcase(suite, contract);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(resolver_policy_suite());
    int failed = 0;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
