/* test_analytic_open.c -- mean values of open loops: queues beside the same ones request by
 * request, by hand and beside exact runs, cut by the clock or not. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <check.h>

#include "analytic_scenario.h"
#include "kvt/rng.h"

/* Half a second a prompt, on so many servers. */
#define PREFILL(servers)                                                                           \
    "cluster.prefill={\"mode\": \"separate\", \"tp\": 1, \"gpus\": " servers                       \
    ", \"tokens_per_s\": 512}"
enum {
    TWIN_RUNS = 400
};

/* TTFT of M/D/servers, request by request: of those that arrive from from_s on and are served by
 * to_s, the mean over runs of their means. */
static double twin_ttft_s(double rate, uint32_t servers, double service_s, double from_s,
                          double to_s)
{
    double sum = 0, runs = 0;
    for (uint64_t n = 0; n < TWIN_RUNS; n++) {
        struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, n);
        double free_s[8] = {0}, at_s = 0, waits_s = 0, count = 0;
        for (;;) {
            at_s -= log(1 - kvt_rng_unit(&rng)) / rate;
            if (at_s >= to_s)
                break;
            uint32_t first = 0;
            for (uint32_t i = 1; i < servers; i++)
                first = free_s[i] < free_s[first] ? i : first;
            free_s[first] = fmax(free_s[first], at_s) + service_s;
            if (at_s >= from_s && free_s[first] <= to_s) {
                waits_s += free_s[first] - at_s;
                count++;
            }
        }
        if (count > 0) {
            sum += waits_s / count;
            runs++;
        }
    }
    return sum / runs;
}

/* Requests a second to two prompts a second each of one server and of four; the import after it
 * takes a millisecond at most. */
static const struct {
    const char *prefill, *rate;
    uint32_t servers;
    double per_s, tolerance;
} prefills[] = {
    {PREFILL("1"), "0.5", 1, 0.5, 0.06}, {PREFILL("1"), "1.6", 1, 1.6, 0.1},
    {PREFILL("1"), "3", 1, 3, 0.03},     {PREFILL("1"), "15", 1, 15, 0.03},
    {PREFILL("4"), "4", 4, 4, 0.06},     {PREFILL("4"), "12", 4, 12, 0.03},
};

static double open_ttft_s(const char *prefill, const char *rate, const char *also, double *load)
{
    char workload[256];
    (void)snprintf(workload, sizeof workload,
                   "workload={\"arrival\": \"open\", \"rate\": %s, \"lengths\": {\"input\": "
                   "{\"law\": \"fixed\", \"tokens\": 256}, \"output\": {\"law\": \"fixed\", "
                   "\"tokens\": 40}}}",
                   rate);
    const char *const sets[] = {workload, prefill, "cluster.import.rate=100", also, NULL};
    struct small_run small;
    small_run_whole(&small, SCENARIO, sets);
    double ttft_s = 1e-3 * metric_of(&small, "mean_ttft_ms");
    *load = small.run->stage_load[KVT_STAGE_PREFILL];
    small_run_close(&small);
    return ttft_s;
}

START_TEST(prompts_wait_for_prefill_as_long_as_one_by_one)
{
    double load;
    double ttft_s =
        open_ttft_s(prefills[_i].prefill, prefills[_i].rate, "run.duration_s=120", &load);
    double twin_s = twin_ttft_s(prefills[_i].per_s, prefills[_i].servers, 0.5, 0, 120);
    ck_assert_double_eq_tol(ttft_s, twin_s, prefills[_i].tolerance * twin_s + 0.02);
    ck_assert_double_eq_tol(load, prefills[_i].per_s * 0.5 / prefills[_i].servers, 1e-9);
}
END_TEST

/* Evenly spaced: of T seconds' arrivals at r a second m a second are served, number k at k / m and
 * k / r after it began; the mean of k up to m T. */
START_TEST(a_backlog_grows_with_the_run_however_long_it_is)
{
    static const char *const durations[] = {"run.duration_s=30", "run.duration_s=300",
                                            "run.duration_s=6000", "run.duration_s=200000"};
    static const double seconds[] = {30, 300, 6000, 200000};
    double load;
    double ttft_s = open_ttft_s(PREFILL("1"), "10", durations[_i], &load);
    double fluid_s = 0.5 * (seconds[_i] + 0.5) * (1 - 2.0 / 10);
    ck_assert_double_eq_tol(ttft_s, fluid_s, 0.02 * fluid_s);
    ck_assert_double_eq_tol(load, 5, 1e-9);
}
END_TEST

START_TEST(those_who_came_in_the_warm_up_are_in_no_mean)
{
    double load, from_s = 40, to_s = 120, served_per_s = 2, rate = 3;
    double ttft_s = open_ttft_s(PREFILL("1"), "3",
                                "run={\"fidelity\": \"analytic\", \"duration_s\": 120, \"warmup\": "
                                "{\"rule\": \"seconds\", \"value\": 40}}",
                                &load);
    double last_s = to_s * served_per_s / rate; /* to come of those that are served */
    double fluid_s = 0.5 * (from_s + last_s) * (rate / served_per_s - 1) + 0.5;
    double twin_s = twin_ttft_s(rate, 1, 0.5, from_s, to_s);
    ck_assert_double_eq_tol(ttft_s, fluid_s, 0.05 * fluid_s);
    ck_assert_double_eq_tol(ttft_s, twin_s, 0.05 * twin_s);
}
END_TEST

/* What would have come after the end of the run changes nothing in it. */
START_TEST(a_run_ends_by_what_comes_first)
{
    static const char *const names[] = {"output_throughput", "mean_tpot_ms", "mean_ttft_ms",
                                        "active_mean"};
    static const char *const requests[] = {"0", "80", "1000000"};
    double found[3][4];
    for (size_t r = 0; r < 3; r++) {
        char workload[256];
        (void)snprintf(
            workload, sizeof workload,
            "workload={\"arrival\": \"open\", \"rate\": 4, \"requests\": %s, \"lengths\": "
            "{\"input\": {\"law\": \"fixed\", \"tokens\": 256}, \"output\": {\"law\": "
            "\"fixed\", \"tokens\": 200}}}",
            requests[r]);
        const char *const sets[] = {workload, "run.duration_s=20", NULL};
        struct small_run small;
        small_run_whole(&small, SCENARIO, sets);
        for (size_t m = 0; m < 4; m++)
            found[r][m] = metric_of(&small, names[m]);
        small_run_close(&small);
    }
    for (size_t r = 1; r < 3; r++) {
        for (size_t m = 0; m < 4; m++)
            ck_assert_double_eq_tol(found[r][m], found[0][m], 0.02 * found[0][m]);
    }
}
END_TEST

/* Nor does where in a cell of the march the clock cuts it: a request that has just begun is not one
 * that took long for its token. */
START_TEST(tpot_does_not_jump_where_the_clock_cuts)
{
    static const char workload[] = "workload={\"arrival\": \"open\", \"rate\": 40, \"requests\": "
                                   "400, \"lengths\": {\"input\": "
                                   "{\"law\": \"fixed\", \"tokens\": 256}, \"output\": {\"law\": "
                                   "\"fixed\", \"tokens\": 2000}}}";
    double last_ms = 0;
    for (int i = 0; i < 12; i++) {
        char cut[48];
        (void)snprintf(cut, sizeof cut, "run.duration_s=%.3f", 1.5 + 0.01 * i);
        const char *const sets[] = {workload, "cluster.import.rate=100", cut, NULL};
        struct small_run small;
        small_run_whole(&small, SCENARIO, sets);
        double tpot_ms = metric_of(&small, "mean_tpot_ms");
        if (i > 0)
            ck_assert_double_eq_tol(tpot_ms, last_ms, 0.008 * last_ms);
        last_ms = tpot_ms;
        small_run_close(&small);
    }
}
END_TEST

/* While a queue grows those that are done by the end had waited less than all that are served. */
START_TEST(those_that_are_done_in_a_cut_run_had_come_early)
{
    static const char workload[] =
        "workload={\"arrival\": \"open\", \"rate\": 6, \"requests\": 400, \"lengths\": {\"input\": "
        "{\"law\": \"fixed\", \"tokens\": 256}, \"output\": {\"law\": \"fixed\", \"tokens\": "
        "16000}}}";
    static const char prefill[] = PREFILL("1");
    const char *const sets[] = {workload, prefill, "residency=resident", "run.duration_s=50", NULL};
    const char *const exact_sets[] = {
        workload, prefill, "residency=resident", "run.duration_s=50", "run.fidelity=exact", NULL};
    struct small_run small, exact;
    small_run_whole(&small, SCENARIO, sets);
    small_run_whole(&exact, SCENARIO, exact_sets);
    double ttft_ms = metric_of(&exact, "mean_ttft_ms"), e2el_ms = metric_of(&exact, "mean_e2el_ms");
    double tpot_ms = metric_of(&exact, "mean_tpot_ms");
    /* What the two sums differ by is what this is about. */
    ck_assert_double_lt(e2el_ms, 0.9 * (ttft_ms + 15999 * tpot_ms));
    ck_assert_double_eq_tol(metric_of(&small, "mean_ttft_ms"), ttft_ms, 0.1 * ttft_ms);
    ck_assert_double_eq_tol(metric_of(&small, "mean_e2el_ms"), e2el_ms, 0.1 * e2el_ms);
    small_run_close(&small);
    small_run_close(&exact);
}
END_TEST

START_TEST(slots_that_cannot_take_what_comes_say_so)
{
    static const char reserve[] = "cluster.decode.growth_reserve_gib=0.05";
    static const char *const pools[] = {"cluster.decode.pools.unified_gib=0.062",
                                        "cluster.decode.pools.unified_gib=1"};
    static const char workload[] = "workload={\"arrival\": \"open\", \"rate\": 400, \"requests\": "
                                   "800, \"lengths\": {\"input\": "
                                   "{\"law\": \"fixed\", \"tokens\": 256}, \"output\": {\"law\": "
                                   "\"fixed\", \"tokens\": 200}}}";
    const char *const sets[] = {
        workload, "residency=resident", "cluster.import.rate=100", pools[_i], reserve, NULL};
    const char *const exact_sets[] = {workload,
                                      "residency=resident",
                                      "cluster.import.rate=100",
                                      pools[_i],
                                      reserve,
                                      "run.fidelity=exact",
                                      NULL};
    struct small_run small, exact;
    small_run_whole(&small, SCENARIO, sets);
    small_run_whole(&exact, SCENARIO, exact_sets);
    double load = small.run->stage_load[KVT_STAGE_SLOTS];
    ck_assert(_i == 0 ? load > 1.2 : isnan(load));
    ck_assert(isnan(small.run->stage_load[KVT_STAGE_PREFILL]));
    double ttft_ms = metric_of(&small, "mean_ttft_ms"),
           wanted_ms = metric_of(&exact, "mean_ttft_ms");
    ck_assert_double_eq_tol(ttft_ms, wanted_ms, 0.1 * wanted_ms + 1);
    small_run_close(&small);
    small_run_close(&exact);
}
END_TEST

/* ---- Ranks that step alone, and together ---- */

enum {
    SEEDS = 2,
    LOCKSTEPS = 2
};

/* Four replicas whose step is half again as long for a second request. */
#define RANKS                                                                                      \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"ranks\", \"seed\": 1, \"model\": "            \
    "\"glm-5.3\", "                                                                                \
    "\"hardware\": \"h200\", \"cluster\": {\"decode\": {\"gpus\": 8, \"tp\": 2, \"ep\": 2, "       \
    "\"dp\": 4, \"pools\": \"derived\", \"host_dram_gib_per_node\": 4096}, "                       \
    "\"import\": {\"law\": \"rate\", \"rate\": 20, \"queue\": 2}}, "                               \
    "\"residency\": {\"policy\": \"hisparse\", \"hot_tokens\": 4096}, "                            \
    "\"timing\": {\"model\": \"roofline\"}, "                                                      \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 32, \"requests\": 200, "             \
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 16384}, "                           \
    "\"output\": {\"law\": \"lognormal\", \"mean_tokens\": 300, \"cv\": 0.25}}}, "                 \
    "\"run\": {\"fidelity\": \"sampled\"}}"

/* Means over seeds. */
struct ranks_means {
    double tpot_ms, active, ttft_ms;
};

static struct ranks_means ranks_run(const char *const more[], bool lockstep, const char *fidelity)
{
    struct ranks_means means = {0};

    for (int seed = 1; seed <= SEEDS; seed++) {
        char seed_set[32], fidelity_set[48];
        (void)snprintf(seed_set, sizeof seed_set, "seed=%d", seed);
        (void)snprintf(fidelity_set, sizeof fidelity_set, "run.fidelity=%s", fidelity);
        const char *const sets[] = {seed_set,
                                    fidelity_set,
                                    lockstep ? "cluster.decode.lockstep=true"
                                             : "cluster.decode.lockstep=false",
                                    more[0],
                                    more[1],
                                    "workload.requests=200",
                                    "selection.tapes=2",
                                    "selection.steps=256",
                                    NULL};
        struct small_run small;
        small_run_whole(&small, RANKS, sets);
        means.tpot_ms += metric_of(&small, "mean_tpot_ms") / SEEDS;
        means.active += metric_of(&small, "active_mean") / SEEDS;
        means.ttft_ms += metric_of(&small, "mean_ttft_ms") / SEEDS;
        small_run_close(&small);
    }
    return means;
}

static const char *const rates[] = {"2", "4"};

/* Requests see the few of their own rank, whose share is even, and not the chance of all. */
START_TEST(ranks_step_as_long_as_simulated_alone_or_together)
{
    char rate[32];
    (void)snprintf(rate, sizeof rate, "workload.rate=%s", rates[_i]);
    const char *const more[] = {"workload.arrival=open", rate};
    struct ranks_means found[LOCKSTEPS];
    for (int lockstep = 0; lockstep < LOCKSTEPS; lockstep++) {
        struct ranks_means wanted = ranks_run(more, lockstep, "sampled");
        found[lockstep] = ranks_run(more, lockstep, "analytic");
        ck_assert_double_eq_tol(found[lockstep].tpot_ms, wanted.tpot_ms, 0.08 * wanted.tpot_ms);
        ck_assert_double_eq_tol(found[lockstep].active, wanted.active, 0.12 * wanted.active);
        ck_assert_double_eq_tol(found[lockstep].ttft_ms, wanted.ttft_ms, 0.12 * wanted.ttft_ms);
    }
    ck_assert_double_gt(found[1].tpot_ms, 1.01 * found[0].tpot_ms);
}
END_TEST

/* The requests that a prefill pool lets through come to ranks as those of an open loop. */
START_TEST(a_closed_loop_with_prefill_is_no_even_batch)
{
    const char *const more[] = {"workload.concurrency=32",
                                "cluster.prefill={\"mode\": \"separate\", \"tp\": 1, "
                                "\"gpus\": 8, \"tokens_per_s\": 20000}"};
    for (int lockstep = 0; lockstep < LOCKSTEPS; lockstep++) {
        struct ranks_means wanted = ranks_run(more, lockstep, "sampled");
        struct ranks_means found = ranks_run(more, lockstep, "analytic");
        ck_assert_double_eq_tol(found.tpot_ms, wanted.tpot_ms, 0.1 * wanted.tpot_ms);
        ck_assert_double_eq_tol(found.active, wanted.active, 0.1 * wanted.active);
        ck_assert_double_eq_tol(found.ttft_ms, wanted.ttft_ms, 0.12 * wanted.ttft_ms);
    }
}
END_TEST

static Suite *analytic_open_suite(void)
{
    Suite *suite = suite_create("analytic_open");
    TCase *runs = tcase_create("runs");
    tcase_set_timeout(runs, 30);
    tcase_add_loop_test(runs, prompts_wait_for_prefill_as_long_as_one_by_one, 0,
                        sizeof prefills / sizeof prefills[0]);
    tcase_add_loop_test(runs, a_backlog_grows_with_the_run_however_long_it_is, 0, 4);
    tcase_add_test(runs, those_who_came_in_the_warm_up_are_in_no_mean);
    tcase_add_test(runs, a_run_ends_by_what_comes_first);
    tcase_add_test(runs, tpot_does_not_jump_where_the_clock_cuts);
    tcase_add_test(runs, those_that_are_done_in_a_cut_run_had_come_early);
    tcase_add_loop_test(runs, slots_that_cannot_take_what_comes_say_so, 0, 2);
    TCase *ranks = tcase_create("ranks");
    tcase_set_timeout(ranks, 120);
    tcase_add_loop_test(ranks, ranks_step_as_long_as_simulated_alone_or_together, 0,
                        sizeof rates / sizeof rates[0]);
    tcase_add_test(ranks, a_closed_loop_with_prefill_is_no_even_batch);
    suite_add_tcase(suite, ranks);
    suite_add_tcase(suite, runs);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(analytic_open_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
