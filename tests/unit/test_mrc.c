/* test_mrc.c -- miss curves against caches written a second time, as simply as can be. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace/mrc.h"
#include "kvt/file.h"
#include "kvt/hash.h"
#include "kvt/rng.h"
#include "support/support.h"

static struct support_folder folder;
static char path[SUPPORT_PATH_BYTES];

static void folder_make(void)
{
    support_folder_make(&folder);
    (void)support_path(&folder, "a.kvsel", path);
}

static void folder_remove(void)
{
    support_folder_remove(&folder);
}

/* ---- Selections drawn for tests ---------------------------------------------------------------
 */

enum {
    TOP_K = 6,
    FIRST_ROWS = 30,
    TOKENS = 150,
    REQUESTS = 2,
    SELECTORS = 3,
    ROWS_MAX = FIRST_ROWS + TOKENS,
};

/* min(k, visible) rows of a token of a stream, half of them of its favourites; ascending. */
static void draw(uint32_t stream, uint32_t token, uint32_t rows[TOP_K])
{
    uint8_t is_in[ROWS_MAX] = {0};
    struct kvt_rng rng = kvt_rng_stream(5, KVT_RNG_TEST, (uint64_t)stream << 32 | token);
    for (uint32_t due = TOP_K; due > 0;) {
        uint32_t among = kvt_rng_below(&rng, 2) == 0 ? FIRST_ROWS + token : 9;
        uint32_t row = (uint32_t)kvt_rng_below(&rng, among);
        due -= !is_in[row];
        is_in[row] = 1;
    }
    for (uint32_t row = 0, i = 0; row < ROWS_MAX; row++) {
        if (is_in[row])
            rows[i++] = row;
    }
}

static void write_file(const char *note)
{
    struct kvt_kvsel_header header = {.top_k = TOP_K,
                                      .request_count = REQUESTS,
                                      .selector_count = SELECTORS,
                                      .note = note,
                                      .note_bytes = note != NULL ? strlen(note) : 0};
    struct kvt_kvsel_shape shapes[REQUESTS * SELECTORS];
    struct kvt_kvsel_writer *writer = NULL;
    for (uint32_t s = 0; s < REQUESTS * SELECTORS; s++)
        shapes[s] =
            (struct kvt_kvsel_shape){.top_k = TOP_K, .first_rows = FIRST_ROWS, .tokens_per_row = 1};
    ck_assert_int_eq(kvt_kvsel_create(path, &header, shapes, &writer, NULL), KVT_OK);
    for (uint32_t s = 0; s < REQUESTS * SELECTORS; s++) {
        struct kvt_kvsel_coder *coder = kvt_kvsel_coder_new(&shapes[s]);
        for (uint32_t t = 0; t < TOKENS; t += 64) {
            uint32_t count = TOKENS - t < 64 ? TOKENS - t : 64;
            unsigned char *block = NULL;
            ck_assert_int_eq(kvt_kvsel_coder_begin(coder, s, t, count, NULL), KVT_OK);
            for (uint32_t i = t; i < t + count; i++) {
                uint32_t rows[TOP_K];
                uint64_t set[ROWS_MAX / 64 + 1] = {0};
                draw(s, i, rows);
                kvt_row_set_add(set, rows, TOP_K);
                ck_assert_int_eq(kvt_kvsel_coder_add(coder, set, NULL, ROWS_MAX / 64 + 1, NULL),
                                 KVT_OK);
            }
            ck_assert_int_eq(kvt_kvsel_coder_finish(coder, &block, NULL), KVT_OK);
            ck_assert_int_eq(kvt_kvsel_put(writer, block, NULL), KVT_OK);
            free(block);
        }
        kvt_kvsel_coder_free(coder);
    }
    ck_assert_int_eq(kvt_kvsel_commit(writer, NULL), KVT_OK);
}

/* ---- Caches as they are told
 * --------------------------------------------------------------------- */

/* Rows, the oldest first. */
struct naive {
    uint32_t slots, count;
    uint32_t rows[ROWS_MAX];
};

static uint32_t place_of(const struct naive *cache, uint32_t row)
{
    uint32_t i = 0;
    while (i < cache->count && cache->rows[i] != row)
        i++;
    return i;
}

static void take_out(struct naive *cache, uint32_t at)
{
    cache->count--;
    memmove(cache->rows + at, cache->rows + at + 1, (cache->count - at) * sizeof cache->rows[0]);
}

/* LRU, one row at a time: 1 for a miss. */
static uint32_t naive_lru(struct naive *cache, uint32_t row)
{
    uint32_t at = place_of(cache, row);
    bool is_miss = at == cache->count;
    if (!is_miss)
        take_out(cache, at);
    else if (cache->count == cache->slots)
        take_out(cache, 0);
    cache->rows[cache->count++] = row;
    return is_miss;
}

static uint32_t naive_fifo(struct naive *cache, uint32_t row)
{
    if (place_of(cache, row) < cache->count)
        return 0;
    if (cache->count == cache->slots)
        take_out(cache, 0);
    cache->rows[cache->count++] = row;
    return 1;
}

/* Batch LRU: rows that hit stay; what is missed takes the place of the oldest others, and is older
 * than what hit. Returns the misses. */
static uint32_t naive_batch(struct naive *cache, const uint32_t rows[TOP_K])
{
    uint32_t hits[TOP_K] = {0}, missed[TOP_K] = {0}, hit_count = 0, missed_count = 0;
    for (uint32_t i = 0; i < cache->count; i++) {
        for (uint32_t j = 0; j < TOP_K; j++) {
            if (rows[j] == cache->rows[i])
                hits[hit_count++] = rows[j]; /* in their old order */
        }
    }
    for (uint32_t j = 0; j < TOP_K; j++) {
        if (place_of(cache, rows[j]) == cache->count)
            missed[missed_count++] = rows[j];
    }
    for (uint32_t i = 0; i < hit_count; i++)
        take_out(cache, place_of(cache, hits[i]));
    for (uint32_t i = 0; i < missed_count && hit_count + i < cache->slots; i++) {
        if (cache->count + hit_count == cache->slots)
            take_out(cache, 0);
        cache->rows[cache->count++] = missed[i];
    }
    memcpy(cache->rows + cache->count, hits, hit_count * sizeof hits[0]);
    cache->count += hit_count;
    return missed_count;
}

/* The accesses of a lane: selectors of one store in turn, token by token. */
struct accesses {
    uint32_t rows[TOKENS * SELECTORS * TOP_K], count;
};

static void list_accesses(struct accesses *all, uint32_t request, const uint32_t *stores,
                          uint32_t store, uint32_t from, uint32_t to)
{
    all->count = 0;
    for (uint32_t t = from; t < to; t++) {
        for (uint32_t s = 0; s < SELECTORS; s++) {
            if (stores[s] != store)
                continue;
            draw(request * SELECTORS + s, t, all->rows + all->count);
            all->count += TOP_K;
        }
    }
}

/* Belady's optimum, asking the future anew each time. */
static uint32_t naive_belady(const struct accesses *all, uint32_t slots)
{
    struct naive cache = {.slots = slots};
    uint32_t missed = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        if (place_of(&cache, all->rows[i]) < cache.count)
            continue;
        missed++;
        if (cache.count == slots) {
            uint32_t victim = 0, farthest = 0;
            for (uint32_t c = 0; c < cache.count; c++) {
                uint32_t next = i + 1;
                while (next < all->count && all->rows[next] != cache.rows[c])
                    next++;
                if (next > farthest) {
                    farthest = next;
                    victim = c;
                }
            }
            take_out(&cache, victim);
        }
        cache.rows[cache.count++] = all->rows[i];
    }
    return missed;
}

/* ---- A policy that sees the future, and remembers nothing ---------------------------------------
 */

static size_t spy_state_bytes(const struct kvt_replacement_env *env)
{
    (void)env;
    return 8;
}

static kvt_status spy_init(void *state, const struct kvt_replacement_env *env,
                           struct kvt_error *err)
{
    (void)err;
    *(uint32_t *)state = env->slot_count;
    return KVT_OK;
}

static uint32_t spy_choose(void *state, const struct kvt_replacement_call *call, uint32_t want,
                           kvt_slot *victims)
{
    uint32_t slots = *(uint32_t *)state, chosen = 0;
    for (kvt_slot slot = 0; slot < slots && chosen < want; slot++) {
        if (call->slot_rows[slot] == KVT_ROW_NONE)
            victims[chosen++] = slot;
    }
    while (chosen < want) {
        kvt_slot best = KVT_SLOT_NONE;
        for (kvt_slot slot = 0; slot < slots; slot++) {
            bool is_taken = (call->hit_bits[slot / 64] >> slot % 64 & 1) != 0 ||
                            call->slot_rows[slot] == KVT_ROW_NONE;
            for (uint32_t i = 0; i < chosen; i++)
                is_taken = is_taken || victims[i] == slot;
            if (!is_taken && (best == KVT_SLOT_NONE || call->next_use[slot] > call->next_use[best]))
                best = slot;
        }
        if (best == KVT_SLOT_NONE)
            break;
        victims[chosen++] = best;
    }
    return chosen;
}

static void spy_resolved(void *state, const struct kvt_replacement_call *call,
                         const kvt_slot *fills, const uint32_t *evicted, uint32_t count)
{
    (void)state;
    (void)call;
    (void)fills;
    (void)evicted;
    (void)count;
}

static const struct kvt_replacement_policy spy = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof spy,
             .name = "belady",
             .summary = "of this test"},
    .state_bytes = spy_state_bytes,
    .init = spy_init,
    .choose_victims = spy_choose,
    .on_resolved = spy_resolved,
};

/* What the calls of store 0 of request 0 are, for a policy that checks what it is told. */
static uint32_t calls_seen;

static uint32_t check_choose(void *state, const struct kvt_replacement_call *call, uint32_t want,
                             kvt_slot *victims)
{
    uint32_t slots = *(uint32_t *)state, token = (uint32_t)call->step;
    for (kvt_slot slot = 0; slot < slots; slot++) {
        uint32_t row = call->slot_rows[slot], next = token + 1, rows[TOP_K];
        bool is_found = false;
        for (; !is_found && row != KVT_ROW_NONE && next < TOKENS; next += !is_found) {
            draw(0, next, rows);
            for (uint32_t i = 0; i < TOP_K; i++)
                is_found = is_found || rows[i] == row;
        }
        ck_assert_uint_eq(call->next_use[slot], is_found ? next - token : KVT_CALL_NEVER);
    }
    calls_seen++;
    return spy_choose(state, call, want, victims);
}

/* ---- Running
 * ------------------------------------------------------------------------------------- */

static const uint32_t sizes[] = {1, 2, 5, 6, 9, 12, 24, 60, ROWS_MAX + 5};
enum {
    SIZES = sizeof sizes / sizeof sizes[0]
};

static struct mrc_plan plan_of(enum mrc_stream stream, const struct mrc_policy *policies,
                               size_t policy_count)
{
    struct mrc_plan plan = {.stream = stream,
                            .policies = policies,
                            .policy_count = policy_count,
                            .size_count = SIZES,
                            .to_token = UINT32_MAX,
                            .memory_bytes = 1 << 20,
                            .threads = 2,
                            .quiet = true};
    memcpy(plan.slots, sizes, sizeof sizes);
    return plan;
}

static kvt_status run(const struct mrc_plan *plan, struct mrc_counts *counts, struct kvt_error *err)
{
    struct mrc_file file;
    memset(counts, 0, sizeof *counts);
    kvt_status status = mrc_file_open(path, NULL, NULL, &file, err);
    if (status != KVT_OK)
        return status;
    status = mrc_run(plan, &file, 1, counts, err);
    mrc_file_close(&file);
    return status;
}

static void run_well(const struct mrc_plan *plan, struct mrc_counts *counts)
{
    struct kvt_error err;
    ck_assert_msg(run(plan, counts, &err) == KVT_OK, "%s: %s", err.where, err.message);
}

static struct kvt_arena *arena; /* of the policies' parameters */

static size_t find(const char *names, struct mrc_policy *policies)
{
    size_t count = 0;
    struct kvt_error err;
    ck_assert_msg(mrc_policies_find(names, arena, policies, &count, &err) == KVT_OK, "%s",
                  err.message);
    return count;
}

static const uint32_t own_stores[SELECTORS] = {0, 1, 2};
static struct mrc_policy policies[MRC_POLICIES_MAX];
static struct mrc_counts counts, others;

/* ---- Tests
 * --------------------------------------------------------------------------------------- */

START_TEST(one_pass_counts_what_each_lru_cache_would_miss)
{
    struct kvt_rng rng = kvt_rng_stream(9, KVT_RNG_TEST, 0);
    struct mrc_stack *stack = NULL;
    struct naive caches[SIZES];
    uint64_t missed[SIZES] = {0}, first = 0;
    bool is_seen[ROWS_MAX] = {false};
    ck_assert_int_eq(mrc_stack_new(ROWS_MAX, sizes, SIZES, &stack, NULL), KVT_OK);
    for (size_t i = 0; i < SIZES; i++)
        caches[i] = (struct naive){.slots = sizes[i]};
    for (uint32_t access = 0; access < 20000; access++) {
        uint32_t row = (uint32_t)kvt_rng_below(&rng, 1 + kvt_rng_below(&rng, ROWS_MAX));
        mrc_stack_touch(stack, &row, 1);
        first += !is_seen[row];
        is_seen[row] = true;
        for (size_t i = 0; i < SIZES; i++) {
            missed[i] += naive_lru(&caches[i], row);
            if (access % 500 == 0)
                ck_assert_uint_eq(mrc_stack_missed(stack, i), missed[i]);
        }
    }
    for (size_t i = 0; i < SIZES; i++)
        ck_assert_uint_eq(mrc_stack_missed(stack, i), missed[i]);
    ck_assert_uint_eq(mrc_stack_first(stack), first);
    mrc_stack_free(stack);
}
END_TEST

START_TEST(rows_of_any_policy_are_missed_as_point_by_point)
{
    struct accesses all;
    write_file(NULL);
    size_t count = find("lru,access-lru,fifo", policies);
    struct mrc_plan plan = plan_of(MRC_ROWS, policies, count);
    run_well(&plan, &counts);
    policies[0].is_lru = false; /* its table, one size at a time */
    run_well(&plan, &others);
    ck_assert_mem_eq(&counts, &others, sizeof counts);
    for (size_t i = 0; i < SIZES; i++) {
        uint64_t lru = 0, fifo = 0;
        for (uint32_t lane = 0; lane < REQUESTS * SELECTORS; lane++) {
            struct naive a = {.slots = sizes[i]}, b = a;
            list_accesses(&all, lane / SELECTORS, own_stores, lane % SELECTORS, 0, TOKENS);
            for (uint32_t n = 0; n < all.count; n++) {
                lru += naive_lru(&a, all.rows[n]);
                fifo += naive_fifo(&b, all.rows[n]);
            }
        }
        ck_assert_uint_eq(counts.missed[0][i], lru);
        ck_assert_uint_eq(counts.missed[1][i], lru);
        ck_assert_uint_eq(counts.missed[2][i], fifo);
    }
    ck_assert_uint_eq(counts.lanes, REQUESTS * SELECTORS);
    ck_assert_uint_eq(counts.selections, REQUESTS * SELECTORS * TOKENS);
    ck_assert_uint_eq(counts.selected, REQUESTS * SELECTORS * TOKENS * TOP_K);
    ck_assert_uint_eq(counts.first, counts.missed[0][SIZES - 1]);
}
END_TEST

START_TEST(calls_are_missed_as_in_a_batch_lru_of_the_selectors_of_a_store)
{
    static const uint32_t stores[SELECTORS] = {0, 0, 1};
    struct accesses all;
    write_file("{\"stores\": [0, 0, 1]}");
    struct mrc_plan plan = plan_of(MRC_CALLS, policies, find("lru", policies));
    plan.from_token = 3;
    plan.to_token = 141;
    run_well(&plan, &counts);
    for (size_t i = 0; i < SIZES; i++) {
        uint64_t missed = 0;
        for (uint32_t lane = 0; lane < REQUESTS * 2; lane++) {
            struct naive cache = {.slots = sizes[i]};
            list_accesses(&all, lane / 2, stores, lane % 2, 3, 141);
            for (uint32_t n = 0; n < all.count; n += TOP_K)
                missed += naive_batch(&cache, all.rows + n);
        }
        ck_assert_uint_eq(counts.missed[0][i], missed);
    }
    ck_assert_uint_eq(counts.lanes, REQUESTS * 2);
    ck_assert_uint_eq(counts.selected, REQUESTS * SELECTORS * 138 * TOP_K);
}
END_TEST

START_TEST(by_rows_who_sees_the_next_access_is_beladys_optimum_and_never_beaten)
{
    struct accesses all;
    write_file(NULL);
    size_t count = find("lru,fifo,clock", policies);
    policies[count] = (struct mrc_policy){.table = &spy, .sees_future = true};
    struct mrc_plan plan = plan_of(MRC_ROWS, policies, count + 1);
    run_well(&plan, &counts);
    for (size_t i = 0; i < SIZES; i++) {
        uint64_t least = 0;
        for (uint32_t lane = 0; lane < REQUESTS * SELECTORS; lane++) {
            list_accesses(&all, lane / SELECTORS, own_stores, lane % SELECTORS, 0, TOKENS);
            least += naive_belady(&all, sizes[i]);
        }
        ck_assert_uint_eq(counts.missed[count][i], least);
        for (size_t p = 0; p < count; p++)
            ck_assert_uint_ge(counts.missed[p][i], least);
    }
}
END_TEST

START_TEST(by_calls_a_policy_is_told_exactly_which_call_comes_next)
{
    struct kvt_replacement_policy checking = spy;
    struct mrc_file file;
    struct kvt_error err;
    checking.choose_victims = check_choose;
    struct mrc_policy policy = {.table = &checking, .sees_future = true};
    write_file(NULL);
    ck_assert_int_eq(mrc_file_open(path, NULL, NULL, &file, &err), KVT_OK);
    struct mrc_plan plan = plan_of(MRC_CALLS, &policy, 1);
    plan.slots[0] = 20;
    plan.size_count = 1;
    calls_seen = 0;
    memset(&counts, 0, sizeof counts);
    ck_assert_int_eq(mrc_lane_run(&plan, &file, 0, 0, NULL, NULL, &counts, &err), KVT_OK);
    ck_assert_uint_gt(calls_seen, 100);
    ck_assert_uint_eq(mrc_lane_future_bytes(&plan, &file, 0, 0), TOKENS * TOP_K * 4);
    mrc_file_close(&file);
}
END_TEST

START_TEST(threads_change_nothing)
{
    write_file(NULL);
    struct mrc_plan plan = plan_of(MRC_CALLS, policies, find("all", policies));
    plan.threads = 1;
    run_well(&plan, &counts);
    for (unsigned threads = 2; threads < 8; threads += 3) {
        plan.threads = threads;
        run_well(&plan, &others);
        ck_assert_mem_eq(&counts, &others, sizeof counts);
    }
}
END_TEST

static uint32_t choose_the_last(void *state, const struct kvt_replacement_call *call, uint32_t want,
                                kvt_slot *victims)
{
    (void)call;
    (void)want;
    victims[0] = *(uint32_t *)state - 1;
    return 1;
}

START_TEST(what_cannot_be_counted_is_refused)
{
    struct kvt_error err;
    struct mrc_policy seeing = {.table = &spy, .sees_future = true};
    write_file(NULL);
    struct mrc_plan plan = plan_of(MRC_ROWS, &seeing, 1);
    plan.memory_bytes = TOKENS * TOP_K * 4 * 2 - 1; /* two threads' */
    ck_assert_int_eq(run(&plan, &counts, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "--memory-mib"));
    plan.memory_bytes++;
    ck_assert_int_eq(run(&plan, &counts, &err), KVT_OK);
    plan.from_token = TOKENS;
    ck_assert_int_eq(run(&plan, &counts, &err), KVT_ERR_INVALID);

    struct kvt_replacement_policy broken = spy;
    broken.choose_victims = choose_the_last;
    seeing.table = &broken;
    plan.from_token = 0;
    for (enum mrc_stream stream = MRC_CALLS; stream <= MRC_ROWS; stream++) {
        plan.stream = stream;
        plan.slots[0] = 8;
        plan.size_count = 1;
        ck_assert_int_eq(run(&plan, &counts, &err), KVT_ERR_POLICY);
        ck_assert_str_eq(err.where, "belady");
    }
}
END_TEST

START_TEST(a_note_must_name_a_store_for_each_selector)
{
    static const struct {
        const char *note, *says;
    } bad[] = {
        {"{\"stores\": [0, 1]}", "\"stores\" has 2 entries"},
        {"{\"stores\": [0, 1, 3]}", "entry 2 is no store"},
        {"{\"stores\": [0, 1, -1]}", "entry 2 is no store"},
        {"{\"stores\": [0, \"1\", 1]}", "entry 1 is no store"},
        {"{\"stores\": 3}", "stores"},
        {"{\"stores\"", "note"},
    };
    struct mrc_file file;
    struct kvt_error err;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char said[1100];
        write_file(bad[i].note);
        ck_assert_int_ne(mrc_file_open(path, NULL, NULL, &file, &err), KVT_OK);
        (void)snprintf(said, sizeof said, "%s: %s", err.where, err.message);
        ck_assert_msg(strstr(said, bad[i].says) != NULL, "%s", said);
    }
    write_file("{\"schema\": \"of others\"}");
    ck_assert_int_eq(mrc_file_open(path, NULL, NULL, &file, &err), KVT_OK);
    ck_assert_uint_eq(file.store_count, SELECTORS);
    mrc_file_close(&file);
}
END_TEST

START_TEST(rows_are_listed_as_they_are)
{
    struct kvt_rng rng = kvt_rng_stream(4, KVT_RNG_TEST, 0);
    uint64_t set[20];
    uint32_t expected[20 * 64], found[20 * 64 + MRC_LIST_SLACK];
    for (uint32_t round = 0; round < 300; round++) {
        for (size_t w = 0; w < 20; w++) {
            set[w] = kvt_rng_u64(&rng);
            for (uint32_t thin = 0; thin < round % 7; thin++)
                set[w] &= kvt_rng_u64(&rng);
        }
        set[round % 20] = round % 3 == 0 ? UINT64_MAX : 0;
        uint32_t count = kvt_row_set_list(set, 20, expected);
        ck_assert_uint_eq(mrc_list(set, 20, found), count);
        ck_assert_mem_eq(found, expected, count * sizeof found[0]);
    }
}
END_TEST

static void open_arena(void)
{
    arena = kvt_arena_new(0);
    ck_assert_ptr_nonnull(arena);
}

static void close_arena(void)
{
    kvt_arena_free(arena);
}

int main(void)
{
    Suite *suite = suite_create("mrc");
    TCase *cases = tcase_create("mrc");
    tcase_add_checked_fixture(cases, folder_make, folder_remove);
    tcase_add_checked_fixture(cases, open_arena, close_arena);
    tcase_set_timeout(cases, 20);
    tcase_add_test(cases, one_pass_counts_what_each_lru_cache_would_miss);
    tcase_add_test(cases, rows_of_any_policy_are_missed_as_point_by_point);
    tcase_add_test(cases, calls_are_missed_as_in_a_batch_lru_of_the_selectors_of_a_store);
    tcase_add_test(cases, by_rows_who_sees_the_next_access_is_beladys_optimum_and_never_beaten);
    tcase_add_test(cases, by_calls_a_policy_is_told_exactly_which_call_comes_next);
    tcase_add_test(cases, threads_change_nothing);
    tcase_add_test(cases, what_cannot_be_counted_is_refused);
    tcase_add_test(cases, a_note_must_name_a_store_for_each_selector);
    tcase_add_test(cases, rows_are_listed_as_they_are);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
