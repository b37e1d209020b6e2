/* test_sim_course.c -- integrals over a run of unknown length, against plain sums. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "../../sim/sim_course.h"
#include "kvt/rng.h"

enum {
    STRETCHES = 3000
};

struct stretch {
    kvt_ns from_ns, to_ns;
    double values[COURSE_QUANTITIES];
};

static double overlap(double from, double to, double low, double high)
{
    double begin = fmax(from, low), end = fmin(to, high);
    return end > begin ? end - begin : 0;
}

static void naive(const struct stretch *stretches, double low, double high, double *integrals)
{
    for (int q = 0; q < COURSE_QUANTITIES; q++) {
        integrals[q] = 0;
        for (int i = 0; i < STRETCHES; i++)
            integrals[q] += stretches[i].values[q] * overlap((double)stretches[i].from_ns,
                                                             (double)stretches[i].to_ns, low, high);
    }
}

/* Stretches of up to longest_ns, with gaps. */
static void fill(struct sim_course *course, struct stretch *stretches, kvt_ns longest_ns)
{
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, (uint64_t)longest_ns);
    kvt_ns now_ns = 0;

    for (int i = 0; i < STRETCHES; i++) {
        now_ns += (kvt_ns)kvt_rng_below(&rng, (uint64_t)longest_ns / 8);
        stretches[i].from_ns = now_ns;
        now_ns += (kvt_ns)kvt_rng_below(&rng, (uint64_t)longest_ns);
        stretches[i].to_ns = now_ns;
        for (int q = 0; q < COURSE_QUANTITIES; q++)
            stretches[i].values[q] = 10 * kvt_rng_unit(&rng);
        sim_course_add(course, stretches[i].from_ns, stretches[i].to_ns, stretches[i].values);
    }
}

/* 1 ms: cells as they are; 50 ms: widened a few times; 100 s: many times. */
static const kvt_ns longest[] = {1000000, 50000000, 100 * KVT_NS_PER_S};

START_TEST(integrals_agree_with_plain_sums_to_a_cell)
{
    static struct stretch stretches[STRETCHES];
    struct sim_course course;
    struct kvt_error err;

    ck_assert_int_eq(sim_course_open(&course, &err), KVT_OK);
    fill(&course, stretches, longest[_i]);
    double end = (double)stretches[STRETCHES - 1].to_ns;
    static const double parts[][2] = {{0, 1}, {.25, .75}, {.1, .101}, {.999, 1}};
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
        double ours[COURSE_QUANTITIES], theirs[COURSE_QUANTITIES];
        sim_course_integrate(&course, parts[p][0] * end, parts[p][1] * end, ours);
        naive(stretches, parts[p][0] * end, parts[p][1] * end, theirs);
        for (int q = 0; q < COURSE_QUANTITIES; q++)
            ck_assert_double_eq_tol(ours[q], theirs[q], 2 * 10 * (double)course.cell_ns);
    }
    ck_assert_double_ge((double)course.cell_ns * COURSE_CELLS, end);
    sim_course_close(&course);
}
END_TEST

START_TEST(nothing_added_is_nothing_integrated)
{
    struct sim_course course;
    struct kvt_error err;
    double integrals[COURSE_QUANTITIES] = {1, 1, 1};

    ck_assert_int_eq(sim_course_open(&course, &err), KVT_OK);
    sim_course_integrate(&course, 0, 1e15, integrals);
    for (int q = 0; q < COURSE_QUANTITIES; q++)
        ck_assert_double_eq(integrals[q], 0);
    sim_course_close(&course);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim_course");
    TCase *tcase = tcase_create("integrals");
    tcase_add_loop_test(tcase, integrals_agree_with_plain_sums_to_a_cell, 0,
                        sizeof longest / sizeof longest[0]);
    tcase_add_test(tcase, nothing_added_is_nothing_integrated);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
