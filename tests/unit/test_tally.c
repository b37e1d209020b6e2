/* test_tally.c -- sums of two stretches are the sums of both; rows are where they were found. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/report.h"
#include "kvt/rng.h"

enum {
    ROW_COUNTS = sizeof(struct kvt_row_counts) / sizeof(uint64_t) /* counts, and nothing else */
};

/* Everything of a tally that is a sum, as words and as reals. */
/* clang-format off */
#define SUMS(X)                                                                                    \
    X(arrived) X(admitted) X(completed) X(unservable) X(preemptions) X(output_tokens)              \
    X(input_tokens) X(prefix_hit_tokens) X(reprefill_tokens) X(decode_steps) X(rounds)             \
    X(round_tokens) X(extrapolated_steps) X(step_ns) X(rank_ns) X(barrier_wait_ns)                 \
    X(backup_stall_ns) X(h2d_payload_bytes) X(h2d_wire_bytes) X(fill_bytes) X(import_hbm_bytes)    \
    X(import_host_bytes) X(d2h_bytes) X(pages_filled) X(pages_released) X(pages_landed)            \
    X(pages_kept) X(backups_forced) X(resizes) X(demotions) X(running_ns) X(waiting_ns)            \
    X(importing_ns) X(held_ns) X(coverage_ns) X(covered_ns) X(prefilling_ns) X(host_short_ns)      \
    X(recall_bytes) X(staging_waves) X(measured_steps) X(measured_ns) X(prefetched_rows)           \
    X(prefetch_wasted_rows) X(deepened_rows)                                                       \
    X(token_ns) X(link_busy_ns) X(import_busy_ns) X(prefill_busy_ns) X(itl_ns) X(itl_count)        \
    X(faults) X(interrupted) X(lost_tokens) X(down_ns) X(no_rank_ns)
/* clang-format on */

/* What is not a sum: the stretch and the peaks. With the arrays this is all of it, so that
 * a member added later and forgotten here does not compile. */
struct sums {
#define MEMBER(member) uint64_t member;
    SUMS(MEMBER)
#undef MEMBER
};
_Static_assert(sizeof(struct kvt_tally) == sizeof(struct sums) + 2 * sizeof(kvt_ns) +
                                               KVT_STRATA_MAX * sizeof(struct kvt_row_counts) +
                                               3 * KVT_PARTS * sizeof(kvt_ns) +
                                               KVT_SAMPLED_COUNTS * sizeof(double) +
                                               (KVT_POOLS_MAX + KVT_WHAT_IFS) * sizeof(double) +
                                               (3 + KVT_MEM_CLASSES) * sizeof(uint64_t),
               "a member of kvt_tally is not in SUMS");

static struct kvt_tally drawn(struct kvt_rng *rng, kvt_ns from_ns, kvt_ns to_ns)
{
    struct kvt_tally tally = {.from_ns = from_ns, .to_ns = to_ns};
#define DRAW(member)                                                                               \
    tally.member = 0;                                                                              \
    while (tally.member == 0)                                                                      \
        tally.member += (uint32_t)kvt_rng_below(rng, 100000);
    SUMS(DRAW)
#undef DRAW
    for (int p = 0; p < KVT_PARTS; p++) {
        tally.parts_ns[p] = 1 + (kvt_ns)kvt_rng_below(rng, 1000);
        tally.measured_parts_ns[p] = 1 + (kvt_ns)kvt_rng_below(rng, 1000);
        tally.added_parts_ns[p] = 1 + (kvt_ns)kvt_rng_below(rng, 1000);
    }
    for (int w = 0; w < KVT_WHAT_IFS; w++)
        tally.if_ns[w] = 1 + (double)kvt_rng_below(rng, 1000);
    for (int c = 0; c < KVT_SAMPLED_COUNTS; c++)
        tally.counts[c] = 1 + (double)kvt_rng_below(rng, 1000);
    for (int p = 0; p < KVT_POOLS_MAX; p++)
        tally.pool_busy_ns[p] = 1 + (double)kvt_rng_below(rng, 1000);
    for (int s = 0; s < KVT_STRATA_MAX; s++) {
        uint64_t words[sizeof tally.rows[s] / sizeof(uint64_t)] = {0};
        for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
            words[w] = 1 + kvt_rng_below(rng, 1000);
        memcpy(&tally.rows[s], words, sizeof words);
    }
    tally.hbm_peak_bytes = 1 + kvt_rng_below(rng, 1000);
    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        tally.hbm_peak_by_class[c] = 1 + kvt_rng_below(rng, 1000);
    tally.host_peak_bytes = 1 + kvt_rng_below(rng, 1000);
    tally.staging_peak_bytes = 1 + kvt_rng_below(rng, 1000);
    return tally;
}

START_TEST(every_sum_adds_up)
{
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, (uint64_t)_i);
    struct kvt_tally a = drawn(&rng, 10, 20), b = drawn(&rng, 20, 45), both = a;
    kvt_tally_merge(&both, &b);
#define SUMMED(member) ck_assert_uint_eq((uint64_t)both.member, (uint64_t)(a.member + b.member));
    SUMS(SUMMED)
#undef SUMMED
    for (int w = 0; w < KVT_WHAT_IFS; w++)
        ck_assert_double_eq(both.if_ns[w], a.if_ns[w] + b.if_ns[w]);
    for (int c = 0; c < KVT_SAMPLED_COUNTS; c++)
        ck_assert_double_eq(both.counts[c], a.counts[c] + b.counts[c]);
    for (int p = 0; p < KVT_POOLS_MAX; p++)
        ck_assert_double_eq(both.pool_busy_ns[p], a.pool_busy_ns[p] + b.pool_busy_ns[p]);
    for (int p = 0; p < KVT_PARTS; p++) {
        ck_assert_int_eq(both.parts_ns[p], a.parts_ns[p] + b.parts_ns[p]);
        ck_assert_int_eq(both.measured_parts_ns[p],
                         a.measured_parts_ns[p] + b.measured_parts_ns[p]);
    }
    for (int s = 0; s < KVT_STRATA_MAX; s++) {
        uint64_t of_a[ROW_COUNTS], of_b[ROW_COUNTS], of_both[ROW_COUNTS];
        memcpy(of_a, &a.rows[s], sizeof of_a);
        memcpy(of_b, &b.rows[s], sizeof of_b);
        memcpy(of_both, &both.rows[s], sizeof of_both);
        for (int w = 0; w < ROW_COUNTS; w++)
            ck_assert_uint_eq(of_both[w], of_a[w] + of_b[w]);
    }
}
END_TEST

START_TEST(the_stretch_is_both_and_the_peak_is_the_higher_with_its_classes)
{
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, (uint64_t)_i);
    struct kvt_tally a = drawn(&rng, 10, 20), b = drawn(&rng, 20, 45), both = a;
    kvt_tally_merge(&both, &b);
    ck_assert_int_eq(both.from_ns, 10);
    ck_assert_int_eq(both.to_ns, 45);
    const struct kvt_tally *higher = b.hbm_peak_bytes > a.hbm_peak_bytes ? &b : &a;
    ck_assert_uint_eq(both.hbm_peak_bytes, higher->hbm_peak_bytes);
    ck_assert_mem_eq(both.hbm_peak_by_class, higher->hbm_peak_by_class,
                     sizeof both.hbm_peak_by_class);
    ck_assert_uint_eq(both.host_peak_bytes, b.host_peak_bytes > a.host_peak_bytes
                                                ? b.host_peak_bytes
                                                : a.host_peak_bytes);
    ck_assert_uint_eq(both.staging_peak_bytes, b.staging_peak_bytes > a.staging_peak_bytes
                                                   ? b.staging_peak_bytes
                                                   : a.staging_peak_bytes);
}
END_TEST

START_TEST(an_empty_tally_takes_over_the_other)
{
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, (uint64_t)_i);
    struct kvt_tally a = drawn(&rng, 10, 20), empty = {0}, whole, parts;
    kvt_tally_merge(&empty, &a);
    ck_assert_mem_eq(&empty, &a, sizeof a);

    /* (a + b) + c = a + (b + c); draws are whole, so that reals add up exactly too. */
    struct kvt_tally b = drawn(&rng, 20, 30), c = drawn(&rng, 30, 31);
    parts = a;
    kvt_tally_merge(&parts, &b);
    kvt_tally_merge(&parts, &c);
    kvt_tally_merge(&b, &c);
    whole = a;
    kvt_tally_merge(&whole, &b);
    if (a.hbm_peak_bytes != b.hbm_peak_bytes)
        ck_assert_mem_eq(&parts, &whole, sizeof parts);
}
END_TEST

START_TEST(each_count_of_rows_is_held_to_a_conservation_line)
{
    const struct kvt_row_counts good = {.calls = 3,
                                        .skipped_calls = 1,
                                        .selected = 100,
                                        .tail = 10,
                                        .page = 20,
                                        .hot = 30,
                                        .missed = 40,
                                        .union_rows = 80,
                                        .union_tail = 8,
                                        .union_page = 16,
                                        .union_hot = 24,
                                        .filled = 25,
                                        .staged = 7};
    ck_assert(kvt_row_counts_conserve(&good));
    struct kvt_row_counts sum = good;
    kvt_row_counts_add(&sum, &good);
    ck_assert(kvt_row_counts_conserve(&sum));
    ck_assert(kvt_row_counts_conserve(&(struct kvt_row_counts){0}));
    uint64_t words[ROW_COUNTS] = {0};
    for (int w = 2; w < ROW_COUNTS; w++) { /* all but the two counts of calls */
        struct kvt_row_counts bad;
        memcpy(words, &good, sizeof words);
        words[w]++;
        memcpy(&bad, words, sizeof words);
        ck_assert_msg(!kvt_row_counts_conserve(&bad), "count %d is in no line", w);
    }
}
END_TEST

static Suite *tally_suite(void)
{
    Suite *suite = suite_create("tally");
    TCase *tcase = tcase_create("tally");
    tcase_add_loop_test(tcase, every_sum_adds_up, 0, 8);
    tcase_add_loop_test(tcase, the_stretch_is_both_and_the_peak_is_the_higher_with_its_classes, 0,
                        8);
    tcase_add_loop_test(tcase, an_empty_tally_takes_over_the_other, 0, 8);
    tcase_add_test(tcase, each_count_of_rows_is_held_to_a_conservation_line);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(tally_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
