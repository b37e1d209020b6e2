/* test_analytic.c -- mean values: queues by their closed forms, levelled pages by a page-by-page
 * twin, surfaces kept and thrown away, a small run beside the exact one, and what is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "analytic/march.h"
#include "analytic_scenario.h"
#include "kvt/rng.h"
#include "support/support.h"

#define ADAPTIVE "residency={\"policy\": \"adaptive\", \"hot_tokens\": 32}"

/* ---- Queues ------------------------------------------------------------------------ */

/* The number in a queue that `arrivals_per_s` feed until nothing changes any more. */
static double settled(double arrivals_per_s, double servers, double service_s, double variability)
{
    double there = 0, dt_s = 0.1 * service_s;
    for (int i = 0; i < 20000; i++) {
        there += arrivals_per_s * dt_s;
        there -= queue_served(there, servers, service_s, variability, 0, dt_s);
    }
    return there;
}

START_TEST(a_queue_settles_where_the_closed_form_says)
{
    static const double loads[] = {0.1, 0.5, 0.8, 0.95};
    double rho = loads[_i];
    ck_assert_double_eq_tol(settled(rho / 2.5, 1, 2.5, 1), rho / (1 - rho), 5e-3 * rho / (1 - rho));
    ck_assert_double_eq_tol(settled(rho / 2.5, 1, 2.5, 0.5), rho + rho * rho / (2 * (1 - rho)),
                            5e-3 * rho / (1 - rho));
}
END_TEST

START_TEST(a_queue_serves_no_more_than_it_has_or_can)
{
    for (int i = 0; i < 30; i++) {
        double there = 1.7 * i;
        double served = queue_served(there, 2, 0.5, 1, _i, 3);
        ck_assert_double_ge(served, 0);
        ck_assert_double_le(served, there);
        ck_assert_double_le(served, 12);
    }
    ck_assert_double_gt(queue_served(1000, 1, 0.5, 1, _i, 3), 5.9);
    ck_assert_double_eq(queue_served(4, 1, 0, 1, _i, 1), 4);
    ck_assert_double_eq(queue_served(4, 1, 1, 1, _i, 0), 0);
}
END_TEST

/* A walk with a drift of d services a service, and M/D/1's variance of 1, is idle for 1 / 2d
 * services before it is gone for good: v / d with v = 1/2. */
START_TEST(an_overloaded_queue_loses_as_little_as_a_walk_that_drifts_away)
{
    static const double drifts[] = {0.05, 0.2, 1};
    double drift = drifts[_i], there = 0, served = 0, dt_s = 0.05;
    int cells = (int)(40 / (drift * drift) / dt_s) + 4000;
    for (int i = 0; i < cells; i++) {
        there += (1 + drift) * dt_s;
        double now = queue_served(there, 1, 1, 0.5, 1 + drift, dt_s);
        there -= now;
        served += now;
    }
    ck_assert_double_eq_tol(cells * dt_s - served, 0.5 / drift, 0.15 * 0.5 / drift + 0.5);
}
END_TEST

START_TEST(refills_bring_up_what_is_wanted_and_keep_up_with_a_light_load)
{
    ck_assert_double_eq(refill_done(0, 10, 4, 100), 0);
    ck_assert_double_le(refill_done(30, 10, 4, 5), 5);
    ck_assert_double_ge(refill_done(30, 10, 4, 1e6), 29.9);
    /* The more requests there may be behind one another, the more is left. */
    ck_assert_double_ge(refill_done(30, 10, 2, 20), refill_done(30, 10, 50, 20));
}
END_TEST

/* ---- Levels --------------------------------------------------------------------------- */

enum {
    COHORTS = 6
};

/* One small step at a time, to whoever has least and wants more. */
static void fill_step_by_step(struct cohort *cohorts, const double *eligible, double pages)
{
    const double step = 0.002;
    const int steps = (int)ceil(pages / step);
    for (int i = 0; i < steps; i++) {
        int lowest = -1;
        for (int j = 0; j < COHORTS; j++) {
            if (cohorts[j].alive > 0 && cohorts[j].pages < eligible[j] &&
                (lowest < 0 || cohorts[j].pages < cohorts[lowest].pages))
                lowest = j;
        }
        if (lowest < 0)
            return;
        cohorts[lowest].pages += step / cohorts[lowest].alive;
    }
}

static void release_step_by_step(struct cohort *cohorts, double pages)
{
    const double step = 0.002;
    const int steps = (int)ceil(pages / step);
    for (int i = 0; i < steps; i++) {
        int highest = -1;
        for (int j = 0; j < COHORTS; j++) {
            if (cohorts[j].alive > 0 && cohorts[j].pages > 0 &&
                (highest < 0 || cohorts[j].pages > cohorts[highest].pages))
                highest = j;
        }
        if (highest < 0)
            return;
        cohorts[highest].pages -= step / cohorts[highest].alive;
    }
}

START_TEST(pages_are_levelled_as_one_by_one)
{
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, (uint64_t)_i);
    struct cohort cohorts[COHORTS] = {{0}}, twin[COHORTS];
    double eligible[COHORTS], level = 30;
    for (int j = 0; j < COHORTS; j++) {
        level *= kvt_rng_below(&rng, 3) ? kvt_rng_unit(&rng) : 1;
        cohorts[j].alive = kvt_rng_below(&rng, 4) ? 0.2 + kvt_rng_unit(&rng) : 0;
        eligible[j] = 34 - j;
        cohorts[j].pages = fmin(level, eligible[j]);
    }
    memcpy(twin, cohorts, sizeof twin);
    double pages = 60 * kvt_rng_unit(&rng), sum = 0;
    double filled = spare_fill(cohorts, 0, COHORTS, eligible, pages);
    fill_step_by_step(twin, eligible, pages);
    for (int j = 0; j < COHORTS; j++) {
        if (cohorts[j].alive > 0)
            ck_assert_double_eq_tol(cohorts[j].pages, twin[j].pages, 0.05);
        sum += cohorts[j].alive * cohorts[j].pages;
    }
    ck_assert_double_le(filled, pages + 1e-9);
    double given = spare_release(cohorts, 0, COHORTS, 0.6 * sum), left = 0;
    release_step_by_step(twin, 0.6 * sum);
    for (int j = 0; j < COHORTS; j++) {
        if (cohorts[j].alive > 0)
            ck_assert_double_eq_tol(cohorts[j].pages, twin[j].pages, 0.1);
        left += cohorts[j].alive * cohorts[j].pages;
    }
    ck_assert_double_eq_tol(given, 0.6 * sum, 1e-9 * sum + 1e-12);
    ck_assert_double_eq_tol(left, 0.4 * sum, 1e-9 * sum + 1e-12);
}
END_TEST

/* ---- Whole runs --------------------------------------------------------------------------- */

static char *text_with(const char *const *sets, const struct kvt_sim_options *options)
{
    struct small_run small;
    small_run_open(&small, SCENARIO, sets, options);
    small_run_finish(&small);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    char *text = small_run_result_text(&small);
    small_run_close(&small);
    return text;
}

START_TEST(means_are_near_those_of_the_exact_run)
{
    static const struct {
        const char *name;
        double tolerance;
    } near[] = {{"output_throughput", 0.05}, {"mean_tpot_ms", 0.05},
                {"active_mean", 0.05},       {"host_fetch_share", 0.05},
                {"h2d_payload_bytes", 0.05}, {"mean_ttft_ms", 0.2},
                {"mean_e2el_ms", 0.05},      {"slots", 1e-12},
                {"completed", 1e-12}};
    static const char *const residencies[] = {"residency.hot_tokens=32", "residency=resident"};
    const char *const ours[] = {residencies[_i], NULL};
    const char *const theirs[] = {residencies[_i], "run.fidelity=exact", NULL};
    struct small_run analytic, exact;
    small_run_whole(&analytic, SCENARIO, ours);
    small_run_whole(&exact, SCENARIO, theirs);
    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
        double a = metric_of(&analytic, near[i].name), b = metric_of(&exact, near[i].name);
        ck_assert_msg(fabs(a - b) <= near[i].tolerance * fabs(b), "%s: %g, exact %g", near[i].name,
                      a, b);
    }
    small_run_close(&analytic);
    small_run_close(&exact);
}
END_TEST

/* ---- Memory ---------------------------------------------------------------------------- */

/* Loads that leave HBM empty, share it with history, and fill it. */
static const struct {
    const char *residency, *concurrency, *pool;
} memories[] = {
    {"residency.hot_tokens=32", "workload.concurrency=4", "cluster.decode.pools.unified_gib=1"},
    {"residency=resident", "workload.concurrency=24", "cluster.decode.pools.unified_gib=1"},
    {ADAPTIVE, "workload.concurrency=4", "cluster.decode.pools.unified_gib=1"},
    {ADAPTIVE, "workload.concurrency=24", "cluster.decode.pools.unified_gib=0.012"},
    {ADAPTIVE, "workload.concurrency=48", "cluster.decode.pools.unified_gib=0.012"},
};

static void ck_assert_near(uint64_t found, uint64_t wanted)
{
    ck_assert_double_ge((double)found, 0.85 * (double)wanted);
    ck_assert_double_le((double)found, 1.15 * (double)wanted);
}

START_TEST(memory_peaks_near_where_the_exact_run_does_and_inside_its_pool)
{
    const char *const ours[] = {memories[_i].residency, memories[_i].concurrency, memories[_i].pool,
                                "workload.requests=192", NULL};
    const char *const theirs[] = {memories[_i].residency, memories[_i].concurrency,
                                  memories[_i].pool,      "workload.requests=192",
                                  "run.fidelity=exact",   NULL};
    struct small_run analytic, exact;
    small_run_whole(&analytic, SCENARIO, ours);
    small_run_whole(&exact, SCENARIO, theirs);
    const struct kvt_tally *found = &analytic.run->total, *wanted = &exact.run->total;
    const struct kvt_decode_pool *pool = &analytic.run->scenario->pools[0];
    uint64_t sum = 0;
    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        sum += found->hbm_peak_by_class[c];
    ck_assert_uint_eq(found->hbm_peak_bytes, sum);
    uint64_t room = pool->index_pool_bytes + pool->rows_pool_bytes + pool->growth_reserve_bytes;
    ck_assert_uint_le(sum, room * analytic.run->gpus);
    ck_assert_near(sum, wanted->hbm_peak_bytes);
    ck_assert_near(found->host_peak_bytes, wanted->host_peak_bytes);
    small_run_close(&analytic);
    small_run_close(&exact);
}
END_TEST

/* Answers of 2, 3, 20 and 200 tokens. */
static const char *const outputs[] = {"2", "3", "20", "200"};

START_TEST(a_round_without_drafts_commits_one_token)
{
    char set[128];
    (void)snprintf(set, sizeof set, "workload.lengths.output={\"law\": \"fixed\", \"tokens\": %s}",
                   outputs[_i]);
    const char *const sets[] = {set, NULL};
    struct small_run small;
    small_run_whole(&small, SCENARIO, sets);
    ck_assert_double_eq_tol(metric_of(&small, "tokens_per_round"), 1, 1e-3);
    double tpot_ms = metric_of(&small, "mean_tpot_ms");
    ck_assert_double_eq_tol(metric_of(&small, "mean_itl_ms"), tpot_ms, 0.03 * tpot_ms);
    double rounds = atof(outputs[_i]) - 1;
    ck_assert_double_eq_tol((double)small.run->total.rounds, 96 * rounds, 0.02 * 96 * rounds);
    ck_assert_uint_le(small.run->total.decode_steps, small.run->total.rounds);
    small_run_close(&small);
}
END_TEST

/* Twelve at once: what is few, and what is not. */
static const struct {
    const char *set;
    bool few;
} amounts[] = {{"workload.requests=96", false},   {"workload.requests=32", false},
               {"workload.requests=31", true},    {"workload.concurrency=17", false},
               {"workload.concurrency=49", true}, {"workload.lengths.output.mean_tokens=10", true}};

START_TEST(a_run_of_too_few_for_means_says_so)
{
    const char *const sets[] = {amounts[_i].set, NULL};
    struct small_run small;
    small_run_whole(&small, SCENARIO, sets);
    ck_assert_int_eq(small.run->few_for_means, amounts[_i].few);
    char *text = small_run_result_text(&small);
    ck_assert((strstr(text, "\"few_for_means\": true") != NULL) == amounts[_i].few);
    free(text);
    small_run_close(&small);
}
END_TEST

START_TEST(no_percentile_is_answered)
{
    static const char *const names[] = {"p50_ttft_ms",     "p99_tpot_ms",    "std_e2el_ms",
                                        "median_itl_ms",   "p90_ttft_ms",    "post_wave_p99_itl_ms",
                                        "request_goodput", "slo_violation_s"};
    struct small_run small;
    small_run_whole(&small, SCENARIO, NULL);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_assert_msg(isnan(metric_of(&small, names[i])), "%s is answered", names[i]);
    ck_assert(kvt_row_counts_conserve(&small.run->total.rows[0]));
    struct kvt_request_counts counts = kvt_run_count_requests(small.run);
    ck_assert_uint_eq(counts.completed + counts.running + counts.waiting, 96);
    small_run_close(&small);
}
END_TEST

START_TEST(the_same_bytes_on_any_threads_and_with_surfaces_at_hand)
{
    struct kvt_error err;
    struct kvt_sim_options options = {.threads = 1};
    char *one = text_with(NULL, &options);
    options.threads = 3;
    ck_assert_int_eq(kvt_surfaces_new(&options.surfaces, &err), KVT_OK);
    char *three = text_with(NULL, &options), *again = text_with(NULL, &options);
    ck_assert_str_eq(one, three);
    ck_assert_str_eq(one, again);
    free(one);
    free(three);
    free(again);
    kvt_surfaces_free(options.surfaces);
}
END_TEST

/* ---- The folder ----------------------------------------------------------------------------- */

static struct support_folder folder;

static void make_folder(void)
{
    support_folder_make(&folder);
}

static void remove_folder(void)
{
    support_folder_remove(&folder);
}

static size_t list_surfaces(char path[SUPPORT_PATH_BYTES])
{
    char command[2 * SUPPORT_PATH_BYTES];
    size_t count = 0;
    ck_assert(snprintf(command, sizeof command, "ls %s/surface-*.bin", folder.path) > 0);
    FILE *list = popen(command, "r");
    ck_assert_ptr_nonnull(list);
    while (fgets(path, SUPPORT_PATH_BYTES, list)) {
        path[strcspn(path, "\n")] = '\0';
        count++;
    }
    (void)pclose(list);
    return count;
}

START_TEST(a_surface_is_kept_and_a_damaged_one_is_measured_again)
{
    char path[SUPPORT_PATH_BYTES];
    size_t bytes, damaged_bytes;
    const struct kvt_sim_options options = {.cache_dir = folder.path};
    char *fresh = text_with(NULL, &options);
    ck_assert_uint_eq(list_surfaces(path), 1);
    char *kept = support_read(path, &bytes);
    ck_assert_ptr_nonnull(kept);

    /* Read back; a byte of a number changed; cut short; empty: one answer. */
    for (int damage = 0; damage < 4; damage++) {
        char *damaged = malloc(bytes);
        memcpy(damaged, kept, bytes);
        damaged_bytes = damage == 2 ? bytes - 1 : damage == 3 ? 0 : bytes;
        if (damage == 1)
            damaged[bytes / 2] ^= 1;
        support_write(path, damaged, damaged_bytes);
        char *text = text_with(NULL, &options);
        ck_assert_str_eq(text, fresh);
        free(text);
        free(damaged);
        size_t now_bytes;
        char *now = support_read(path, &now_bytes);
        ck_assert_uint_eq(now_bytes, bytes);
        ck_assert_mem_eq(now, kept, bytes);
        free(now);
    }
    free(kept);
    free(fresh);
}
END_TEST

START_TEST(another_hot_cache_has_another_surface)
{
    char path[SUPPORT_PATH_BYTES];
    const struct kvt_sim_options options = {.cache_dir = folder.path};
    static const char *const larger[] = {"residency.hot_tokens=64", NULL};
    static const char *const seed[] = {"seed=77", NULL};
    static const char *const loaded[] = {"workload.concurrency=6", NULL};
    free(text_with(NULL, &options));
    free(text_with(seed, &options));
    free(text_with(loaded, &options));
    ck_assert_uint_eq(list_surfaces(path), 1);
    free(text_with(larger, &options));
    ck_assert_uint_eq(list_surfaces(path), 2);
}
END_TEST

/* What the drafter takes, and a GiB as without one. */
static const char room[] = "cluster.decode.pools.unified_gib=6.1";

START_TEST(every_seed_reads_one_surface_where_rounds_are_drawn)
{
    char path[SUPPORT_PATH_BYTES];
    const struct kvt_sim_options options = {.cache_dir = folder.path};
    static const char *const seeds[] = {"seed=1", "seed=2", "seed=3"};
    char *texts[3];
    for (size_t i = 0; i < 3; i++) {
        const char *const sets[] = {"speculation.method=dflash2", room, seeds[i], NULL};
        texts[i] = text_with(sets, &options);
        ck_assert_uint_eq(list_surfaces(path), 1);
    }
    ck_assert_str_ne(texts[0], texts[1]); /* lengths are drawn by the run's seed */
    for (size_t i = 0; i < 3; i++)
        free(texts[i]);
}
END_TEST

/* Seeds share a surface: their means lie where exact runs of the same seeds lie, within four
 * deviations between those, and closer together. */
enum {
    SEEDS = 4,
    COMPARED = 3
};

static void means_of_seeds(const char *fidelity, double found[COMPARED][SEEDS])
{
    static const char *const seeds[SEEDS] = {"seed=1", "seed=2", "seed=3", "seed=4"};
    static const char *const metrics[COMPARED] = {"output_throughput", "mean_tpot_ms",
                                                  "host_fetch_share"};
    for (size_t i = 0; i < SEEDS; i++) {
        const char *const sets[] = {"speculation.method=dflash2", room, seeds[i], fidelity, NULL};
        struct small_run small;
        small_run_whole(&small, SCENARIO, sets);
        for (size_t m = 0; m < COMPARED; m++)
            found[m][i] = metric_of(&small, metrics[m]);
        small_run_close(&small);
    }
}

static double deviation_of(const double found[SEEDS], double *mean)
{
    double squares = 0;
    *mean = 0;
    for (size_t i = 0; i < SEEDS; i++)
        *mean += found[i] / SEEDS;
    for (size_t i = 0; i < SEEDS; i++)
        squares += (found[i] - *mean) * (found[i] - *mean);
    return sqrt(squares / (SEEDS - 1));
}

START_TEST(means_of_every_seed_lie_among_those_of_exact_runs)
{
    double analytic[COMPARED][SEEDS], exact[COMPARED][SEEDS];
    means_of_seeds("run.fidelity=analytic", analytic);
    means_of_seeds("run.fidelity=exact", exact);
    for (size_t m = 0; m < COMPARED; m++) {
        double mean, own_mean, deviation = deviation_of(exact[m], &mean);
        ck_assert_double_le(deviation_of(analytic[m], &own_mean), deviation);
        for (size_t i = 0; i < SEEDS; i++)
            ck_assert_double_eq_tol(analytic[m][i], mean, 4 * deviation);
    }
}
END_TEST

/* ---- What is refused ---------------------------------------------------------------- */

static const struct {
    const char *set, *also, *where, *words;
} refusals[] = {
    {"workload={\"phases\": [{\"concurrency\": 4, \"seconds\": 1}], \"lengths\": {\"input\": "
     "{\"law\": \"fixed\", \"tokens\": 256}, \"output\": {\"law\": \"fixed\", \"tokens\": 9}}}",
     NULL, "--set workload.phases", "not steady"},
    {"residency={\"policy\": \"vllm-hybrid\", \"hot_tokens\": 32}", NULL, "--set residency.policy",
     "no policy that moves pages"},
    {"residency={\"policy\": \"adaptive\", \"hot_tokens\": 32, \"landing_fraction\": 0.5}", NULL,
     "--set residency.landing_fraction", "landing_fraction at its default only"},
    {"speculation={\"method\": \"mtp\", \"staging_fraction\": 0.5}",
     "cluster.decode.speculation_workspace_gib=0", "--set speculation.staging_fraction",
     "makes no waves of calls that outgrow their staging"},
    {"cluster.decode={\"gpus\": 2, \"dp\": 2, \"ep\": 2, \"pools\": {\"unified_gib\": 0.001}}",
     "residency.hot_tokens=1024", "small", "fits no rank"},
    {"cluster.scheduling=io-adaptive", NULL, "--set cluster.scheduling", "no scheduling but"},
    {"workload.lengths.output={\"law\": \"fixed\", \"tokens\": 1}", NULL,
     "--set workload.lengths.output.law", "has no decode step"},
};

START_TEST(what_mean_values_cannot_stand_for_is_refused)
{
    const char *const sets[] = {refusals[_i].set, refusals[_i].also, NULL};
    struct small_run small;
    small_run_open(&small, SCENARIO, sets, NULL);
    ck_assert_int_ne(small.status, KVT_OK);
    ck_assert_str_eq(small.err.where, refusals[_i].where);
    ck_assert_msg(strstr(small.err.message, refusals[_i].words) != NULL, "\"%s\"",
                  small.err.message);
    small_run_close(&small);
}
END_TEST

static Suite *analytic_suite(void)
{
    Suite *suite = suite_create("analytic");
    TCase *parts = tcase_create("parts"), *runs = tcase_create("runs");
    tcase_add_loop_test(parts, a_queue_settles_where_the_closed_form_says, 0, 4);
    tcase_add_loop_test(parts, a_queue_serves_no_more_than_it_has_or_can, 0, 3);
    tcase_add_loop_test(parts, an_overloaded_queue_loses_as_little_as_a_walk_that_drifts_away, 0,
                        3);
    tcase_add_test(parts, refills_bring_up_what_is_wanted_and_keep_up_with_a_light_load);
    tcase_add_loop_test(parts, pages_are_levelled_as_one_by_one, 0, 30);
    suite_add_tcase(suite, parts);
    tcase_add_checked_fixture(runs, make_folder, remove_folder);
    tcase_set_timeout(runs, 30);
    tcase_add_loop_test(runs, means_are_near_those_of_the_exact_run, 0, 2);
    tcase_add_loop_test(runs, memory_peaks_near_where_the_exact_run_does_and_inside_its_pool, 0,
                        sizeof memories / sizeof memories[0]);
    tcase_add_loop_test(runs, a_round_without_drafts_commits_one_token, 0,
                        sizeof outputs / sizeof outputs[0]);
    tcase_add_loop_test(runs, a_run_of_too_few_for_means_says_so, 0,
                        sizeof amounts / sizeof amounts[0]);
    tcase_add_test(runs, no_percentile_is_answered);
    tcase_add_test(runs, the_same_bytes_on_any_threads_and_with_surfaces_at_hand);
    tcase_add_test(runs, a_surface_is_kept_and_a_damaged_one_is_measured_again);
    tcase_add_test(runs, every_seed_reads_one_surface_where_rounds_are_drawn);
    tcase_add_test(runs, means_of_every_seed_lie_among_those_of_exact_runs);
    tcase_add_test(runs, another_hot_cache_has_another_surface);
    tcase_add_loop_test(runs, what_mean_values_cannot_stand_for_is_refused, 0,
                        sizeof refusals / sizeof refusals[0]);
    suite_add_tcase(suite, runs);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(analytic_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
