/* test_import.c -- import times, from a rate and from the paper. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/timing.h"
#include "support/plugin_params.h"

extern const struct kvt_import_law kvt_import_rate;
extern const struct kvt_import_law kvt_import_paper;

static const struct kvt_import_law *const laws[] = {&kvt_import_rate, &kvt_import_paper};

/* A law stood up with its defaults, which a test may change before start(). */
struct bench {
    const struct kvt_import_law *law;
    struct kvt_param_value values[SUPPORT_PARAMS_MAX];
    struct kvt_hardware hardware;
    struct kvt_import_env env;
    uint64_t state[16];
};

static void bench_make(struct bench *bench, const struct kvt_import_law *law)
{
    *bench = (struct bench){.law = law,
                            .hardware = {.name = "h200",
                                         .link_d2h_bytes_per_s = UINT64_C(50000000000),
                                         .link_latency_ns = 20000}};
    bench->env = (struct kvt_import_env){
        .params = support_default_params(&law->info, bench->values),
        .hardware = &bench->hardware,
        .residency = "hisparse",
        .speculation = "none",
        .run_seed = 2385,
    };
}

static kvt_status bench_try(struct bench *bench, struct kvt_error *err)
{
    ck_assert_uint_le(bench->law->state_bytes(&bench->env), sizeof bench->state);
    memset(bench->state, 0, sizeof bench->state);
    return bench->law->init(bench->state, &bench->env, err);
}

static void bench_start(struct bench *bench)
{
    struct kvt_error err = {0};
    kvt_status status = bench_try(bench, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
}

static kvt_ns duration_ns(struct bench *bench, uint32_t request, uint64_t host_bytes,
                          uint64_t hbm_bytes)
{
    return bench->law->duration_ns(bench->state, request, host_bytes, hbm_bytes);
}

/* ---- rate ------------------------------------------------------------------------ */

enum {
    RATE,
    STAGING,
    QUEUE
}; /* in the order of the table */

START_TEST(rows_bound_for_hbm_take_bytes_over_rate)
{
    struct bench bench;
    bench_make(&bench, &kvt_import_rate);
    bench.values[RATE].number = 2.5;
    bench_start(&bench);

    ck_assert_int_eq(duration_ns(&bench, 0, 0, UINT64_C(4750000000)), INT64_C(1900000000));
    ck_assert_int_eq(duration_ns(&bench, 0, 0, 1), 1); /* rounded up */
}
END_TEST

/* 4 GiB at 10 GB/s, drained at 50; 8 halves of half a GiB, of which one is not
 * overlapped. */
START_TEST(rows_bound_for_host_memory_pass_through_staging)
{
    struct bench bench;
    bench_make(&bench, &kvt_import_rate);
    bench_start(&bench);
    double expected_ns = 4.0 * 1073741824 / 10 + 0.5 * 1073741824 / 50 + 8 * 20000;

    kvt_ns ns = duration_ns(&bench, 0, UINT64_C(4) << 30, 0);
    ck_assert_double_le(fabs((double)ns - expected_ns), 2);
}
END_TEST

START_TEST(the_slower_side_of_staging_sets_the_pace)
{
    struct bench bench;
    bench_make(&bench, &kvt_import_rate);
    bench.values[RATE].number = 200;
    bench_start(&bench);
    double expected_ns = 4.0 * 1073741824 / 50 + 0.5 * 1073741824 / 200 + 8 * 20000;

    kvt_ns ns = duration_ns(&bench, 0, UINT64_C(4) << 30, 0);
    ck_assert_double_le(fabs((double)ns - expected_ns), 2);
}
END_TEST

START_TEST(lanes_share_rate_link_and_staging)
{
    struct bench bench;
    bench_make(&bench, &kvt_import_rate);
    bench_start(&bench);
    ck_assert_uint_eq(bench.law->servers(bench.state), 1);

    bench.values[QUEUE].number = 4;
    bench_start(&bench);
    ck_assert_uint_eq(bench.law->servers(bench.state), 4);
    double expected_ns = 4.25 * 1073741824 / 2.5 + 0.125 * 1073741824 / 12.5 + 32 * 20000;
    kvt_ns ns = duration_ns(&bench, 0, UINT64_C(4) << 30, UINT64_C(1) << 28);
    ck_assert_double_le(fabs((double)ns - expected_ns), 3);
}
END_TEST

START_TEST(less_than_a_chunk_is_filled_and_drained_in_turn)
{
    struct bench bench;
    bench_make(&bench, &kvt_import_rate);
    bench_start(&bench);
    double expected_ns = 1048576.0 / 10 + 1048576.0 / 50 + 20000;
    ck_assert_double_le(fabs((double)duration_ns(&bench, 0, 1048576, 0) - expected_ns), 2);
}
END_TEST

START_TEST(nothing_takes_no_time)
{
    struct bench bench;
    bench_make(&bench, &kvt_import_rate);
    bench_start(&bench);
    ck_assert_int_eq(duration_ns(&bench, 7, 0, 0), 0);
}
END_TEST

START_TEST(absurd_sizes_saturate)
{
    struct bench bench;
    bench_make(&bench, &kvt_import_rate);
    bench.values[RATE].number = 0.001;
    bench.values[QUEUE].number = 64;
    bench_start(&bench);
    ck_assert_int_eq(duration_ns(&bench, 7, UINT64_MAX, UINT64_MAX), INT64_MAX);
}
END_TEST

START_TEST(more_bytes_never_come_sooner)
{
    struct bench bench;
    bench_make(&bench, &kvt_import_rate);
    bench_start(&bench);
    kvt_ns last_ns = 0;
    for (uint64_t bytes = 1; bytes < UINT64_C(1) << 40; bytes += bytes / 3 + 1) {
        kvt_ns ns = duration_ns(&bench, 0, bytes, bytes / 16);
        ck_assert_int_ge(ns, last_ns);
        last_ns = ns;
    }
}
END_TEST

START_TEST(hardware_without_a_link_is_refused)
{
    struct bench bench;
    struct kvt_error err = {0};
    bench_make(&bench, &kvt_import_rate);
    bench.hardware.link_d2h_bytes_per_s = 0;

    ck_assert_int_eq(bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "link_d2h_bytes_per_s"));
}
END_TEST

/* ---- paper ----------------------------------------------------------------------- */

static double paper_mean_s(const char *residency, const char *speculation, uint32_t requests)
{
    struct bench bench;
    bench_make(&bench, &kvt_import_paper);
    bench.env.residency = residency;
    bench.env.speculation = speculation;
    bench_start(&bench);
    double sum_s = 0;
    for (uint32_t request = 0; request < requests; request++)
        sum_s += (double)duration_ns(&bench, request, 1, 1) / 1e9;
    return sum_s / requests;
}

/* The mean of n exponential draws is within 4 / sqrt(n) of the mean but for 1 in 16,000. */
START_TEST(the_paper_profile_has_the_fitted_means)
{
    ck_assert_double_le(fabs(paper_mean_s("hisparse", "none", 40000) / 2.25 - 1), 0.02);
    ck_assert_double_le(fabs(paper_mean_s("adaptive", "none", 40000) / 1.45 - 1), 0.02);
    ck_assert_double_le(fabs(paper_mean_s("adaptive", "dflash2", 40000) / 1.2 - 1), 0.02);
}
END_TEST

START_TEST(the_paper_profile_spreads_as_an_exponential)
{
    struct bench bench;
    bench_make(&bench, &kvt_import_paper);
    bench_start(&bench);
    uint32_t longer = 0;
    for (uint32_t request = 0; request < 40000; request++)
        longer += duration_ns(&bench, request, 1, 1) > INT64_C(2250000000);
    ck_assert_double_le(fabs(longer / 40000.0 - exp(-1)), 0.01);
}
END_TEST

START_TEST(a_request_has_its_own_time_in_any_order_of_calls)
{
    struct bench bench;
    bench_make(&bench, &kvt_import_paper);
    bench_start(&bench);
    kvt_ns seventh_ns = duration_ns(&bench, 7, 1, 1);
    kvt_ns eighth_ns = duration_ns(&bench, 8, 1, 1);

    ck_assert_int_ne(seventh_ns, eighth_ns);
    ck_assert_int_eq(duration_ns(&bench, 7, 999, 0), seventh_ns);
    bench.env.run_seed++;
    bench_start(&bench);
    ck_assert_int_ne(duration_ns(&bench, 7, 1, 1), seventh_ns);
}
END_TEST

START_TEST(the_paper_profile_serves_one_at_a_time)
{
    struct bench bench;
    bench_make(&bench, &kvt_import_paper);
    bench_start(&bench);
    ck_assert_uint_eq(bench.law->servers(bench.state), 1);
}
END_TEST

START_TEST(the_paper_profile_refuses_other_policies_in_these_words)
{
    struct bench bench;
    struct kvt_error err = {0};
    bench_make(&bench, &kvt_import_paper);
    bench.env.residency = "resident";

    ck_assert_int_eq(bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.message,
                     "profile \"paper\" holds constants for hisparse, adaptive only; law \"rate\" "
                     "takes any policy (cluster.import.law=rate)");
}
END_TEST

START_TEST(the_paper_profile_refuses_other_speculation_in_these_words)
{
    static const struct {
        const char *residency, *speculation;
    } others[] = {{"hisparse", "dflash2"}, {"adaptive", "dspark"}, {"resident", "mtp"}};
    struct bench bench;
    struct kvt_error err = {0};
    bench_make(&bench, &kvt_import_paper);
    bench.env.residency = others[_i].residency;
    bench.env.speculation = others[_i].speculation;

    ck_assert_int_eq(bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.message, "profile \"paper\" holds constants for dflash2 with adaptive "
                                  "only, where there is speculation; law \"rate\" takes any "
                                  "method (cluster.import.law=rate)");
}
END_TEST

/* ---- every law -------------------------------------------------------------------- */

enum {
    PROBE_REQUESTS = 4,
    PROBE_SETTINGS = 3,
    PROBE_VALUES = PROBE_SETTINGS * (PROBE_REQUESTS + 1)
};

static void probe(struct bench *bench, kvt_ns out[PROBE_VALUES])
{
    static const struct {
        const char *residency, *speculation;
    } settings[PROBE_SETTINGS] = {
        {"hisparse", "none"}, {"adaptive", "none"}, {"adaptive", "dflash2"}};
    for (size_t i = 0; i < PROBE_SETTINGS; i++) {
        bench->env.residency = settings[i].residency;
        bench->env.speculation = settings[i].speculation;
        bench_start(bench);
        for (uint32_t request = 0; request < PROBE_REQUESTS; request++)
            *out++ = duration_ns(bench, request, UINT64_C(4494327808), UINT64_C(277288704));
        *out++ = bench->law->servers(bench->state);
    }
}

START_TEST(every_parameter_changes_an_import)
{
    const struct kvt_import_law *law = laws[_i];
    for (size_t i = 0; i < law->info.param_count; i++) {
        struct bench bench;
        kvt_ns before[PROBE_VALUES], after[PROBE_VALUES];
        bench_make(&bench, law);
        probe(&bench, before);
        support_change_param(&law->info.params[i], &bench.values[i]);
        probe(&bench, after);
        ck_assert_msg(memcmp(before, after, sizeof before) != 0, "%s.%s changes nothing",
                      law->info.name, law->info.params[i].name);
    }
}
END_TEST

START_TEST(a_copy_of_the_state_is_the_law)
{
    struct bench bench, other;
    bench_make(&bench, laws[_i]);
    bench_start(&bench);
    other = bench;
    kvt_ns ns = duration_ns(&bench, 3, 1 << 20, 1 << 20);
    memset(&bench, 0xa5, sizeof bench);

    ck_assert_int_eq(duration_ns(&other, 3, 1 << 20, 1 << 20), ns);
}
END_TEST

static Suite *import_suite(void)
{
    Suite *suite = suite_create("import");

    TCase *rate = tcase_create("rate");
    tcase_add_test(rate, rows_bound_for_hbm_take_bytes_over_rate);
    tcase_add_test(rate, rows_bound_for_host_memory_pass_through_staging);
    tcase_add_test(rate, the_slower_side_of_staging_sets_the_pace);
    tcase_add_test(rate, lanes_share_rate_link_and_staging);
    tcase_add_test(rate, less_than_a_chunk_is_filled_and_drained_in_turn);
    tcase_add_test(rate, nothing_takes_no_time);
    tcase_add_test(rate, absurd_sizes_saturate);
    tcase_add_test(rate, more_bytes_never_come_sooner);
    tcase_add_test(rate, hardware_without_a_link_is_refused);
    suite_add_tcase(suite, rate);

    TCase *paper = tcase_create("paper");
    tcase_add_test(paper, the_paper_profile_has_the_fitted_means);
    tcase_add_test(paper, the_paper_profile_spreads_as_an_exponential);
    tcase_add_test(paper, a_request_has_its_own_time_in_any_order_of_calls);
    tcase_add_test(paper, the_paper_profile_serves_one_at_a_time);
    tcase_add_test(paper, the_paper_profile_refuses_other_policies_in_these_words);
    tcase_add_loop_test(paper, the_paper_profile_refuses_other_speculation_in_these_words, 0, 3);
    suite_add_tcase(suite, paper);

    TCase *every = tcase_create("every_law");
    tcase_add_loop_test(every, every_parameter_changes_an_import, 0, 2);
    tcase_add_loop_test(every, a_copy_of_the_state_is_the_law, 0, 2);
    suite_add_tcase(suite, every);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(import_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
