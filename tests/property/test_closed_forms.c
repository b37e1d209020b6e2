/* test_closed_forms.c -- queues that have closed forms: the import server of one rank, fed by
 * requests of one token, is M/D/1 under law "rate" and M/M/1 under law "paper". */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "support/small_run.h"

enum {
    REQUESTS = 60000,
    CUT = 2000,   /* while the queue fills up */
    BATCHES = 29, /* of 2,000: far longer than the queue remembers */
};

#define QUEUE                                                                                      \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"queue\", \"seed\": 2385, "                    \
    "\"model\": {\"base\": \"glm-5.3\", \"weight_bytes\": 2147483648, "                            \
    "\"dense_weight_bytes\": 1073741824, \"weights_replicated_gib\": 1, "                          \
    "\"weights_expert_gib\": 1}, \"hardware\": \"b300\", "                                         \
    "\"cluster\": {\"decode\": {\"gpus\": 1, \"pools\": {\"unified_gib\": 200}}, "                 \
    "\"import\": {\"law\": \"rate\", \"rate\": 10}}, "                                             \
    "\"residency\": {\"policy\": \"resident\"}, \"timing\": {\"model\": \"roofline\"}, "           \
    "\"workload\": {\"arrival\": \"open\", \"rate\": 100, \"requests\": 60000, \"lengths\": "      \
    "{\"input\": {\"law\": \"fixed\", \"tokens\": 1000}, "                                         \
    "\"output\": {\"law\": \"fixed\", \"tokens\": 1}}}}"

/* Mean and the half-width of its 99.9 % interval, from means of batches. */
struct estimate {
    double mean, half_width;
};

static struct estimate mean_time_in_system_s(const struct kvt_run *run)
{
    double means[BATCHES] = {0}, sum = 0, squares = 0;
    const size_t batch = (REQUESTS - CUT) / BATCHES;
    for (size_t b = 0; b < BATCHES; b++) {
        for (size_t i = CUT + b * batch; i < CUT + (b + 1) * batch; i++)
            means[b] += (double)(run->records[i].first_token_ns - run->records[i].arrival_ns) *
                        1e-9 / (double)batch;
        sum += means[b];
    }
    for (size_t b = 0; b < BATCHES; b++)
        squares += (means[b] - sum / BATCHES) * (means[b] - sum / BATCHES);
    const double t_999 = 3.674; /* two-sided, 28 degrees of freedom */
    return (struct estimate){sum / BATCHES, t_999 * sqrt(squares / (BATCHES - 1) / BATCHES)};
}

static void check_queue(const struct kvt_run *run, double arrivals_per_s, double theory_s)
{
    struct estimate found = mean_time_in_system_s(run);
    ck_assert_msg(fabs(found.mean - theory_s) <= found.half_width,
                  "%g s in the system, %g s by the closed form, half-width %g s", found.mean,
                  theory_s, found.half_width);
    /* An interval so wide that anything passes would be no test. */
    ck_assert_double_lt(found.half_width, 0.15 * theory_s);

    /* Little's law with the clock's own averages: L = lambda W. */
    double seconds = (double)run->end_ns * 1e-9;
    double in_system = (run->total.waiting_ns + run->total.importing_ns) / (double)run->end_ns;
    double stay_s = 0;
    for (size_t i = 0; i < run->record_count; i++)
        stay_s += (double)(run->records[i].finished_ns - run->records[i].arrival_ns) * 1e-9;
    ck_assert_double_eq_tol(in_system, (double)run->record_count / seconds * stay_s / REQUESTS,
                            1e-9 * in_system);
    ck_assert_double_eq_tol((double)run->record_count / seconds, arrivals_per_s,
                            0.02 * arrivals_per_s);
}

/* Service of a resident request of 1,000 tokens: 1,000 x (78 x 576 + 21 x 132) B at 10 GB/s. */
#define SERVICE_S 0.00477

START_TEST(deterministic_imports_are_m_d_1)
{
    static const struct {
        const char *rate;
        double arrivals_per_s;
    } loads[] = {{"workload.rate=60", 60}, {"workload.rate=120", 120}, {"workload.rate=170", 170}};
    const char *const sets[] = {loads[_i].rate, NULL};
    struct small_run small;
    small_run_whole(&small, QUEUE, sets);
    /* Pollaczek and Khinchine with no variance of service. */
    double rho = loads[_i].arrivals_per_s * SERVICE_S;
    check_queue(small.run, loads[_i].arrivals_per_s, SERVICE_S * (1 + rho / (2 * (1 - rho))));
    small_run_close(&small);
}
END_TEST

START_TEST(exponential_imports_are_m_m_1)
{
    static const struct {
        const char *rate;
        double arrivals_per_s;
    } loads[] = {{"workload.rate=30", 30}, {"workload.rate=60", 60}, {"workload.rate=75", 75}};
    const char *const sets[] = {
        loads[_i].rate, "residency={\"policy\": \"hisparse\", \"hot_tokens\": 2048}",
        "cluster.import={\"law\": \"paper\", \"hisparse_mean_s\": 0.01}", NULL};
    struct small_run small;
    small_run_whole(&small, QUEUE, sets);
    check_queue(small.run, loads[_i].arrivals_per_s, 1 / (100 - loads[_i].arrivals_per_s));
    small_run_close(&small);
}
END_TEST

START_TEST(an_idle_server_imports_in_its_service_time)
{
    static const char *const sets[] = {"workload.rate=0.001", "workload.requests=20", NULL};
    struct small_run small;
    small_run_whole(&small, QUEUE, sets);
    for (size_t i = 0; i < 20; i++)
        ck_assert_int_eq(small.run->records[i].first_token_ns - small.run->records[i].arrival_ns,
                         4770000);
    small_run_close(&small);
}
END_TEST

static Suite *closed_forms_suite(void)
{
    Suite *suite = suite_create("closed_forms");
    TCase *tcase = tcase_create("closed_forms");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, deterministic_imports_are_m_d_1, 0, 3);
    tcase_add_loop_test(tcase, exponential_imports_are_m_m_1, 0, 3);
    tcase_add_test(tcase, an_idle_server_imports_in_its_service_time);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(closed_forms_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
