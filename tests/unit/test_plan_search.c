/* test_plan_search.c -- the last candidate that meets, against looking at every one. */
#include <check.h>
#include <math.h>

#include "cli/plan/search.h"

/* ---- Trials ---------------------------------------------------------------------------------- */

static const long counts[] = {1, 2, 3, 17, 256, 1009};

/* Takes the search to its end where candidates up to `last` meet; the number of tries. */
static unsigned run_search(long count, long first, long last, long guess, struct search *search)
{
    long candidate = -1;
    bool inside = true;

    search_begin(search, count, first);
    while (inside && search_next(search, guess, &candidate)) {
        inside = candidate > search->low && candidate < search->high;
        search_tell(search, candidate, candidate <= last ? SEARCH_MEETS : SEARCH_TOO_HIGH);
    }
    ck_assert(inside);
    return search->tries;
}

START_TEST(every_answer_is_found_whatever_is_guessed)
{
    long count = counts[_i];
    static const long guesses[] = {-1, 0, 5, 100, 1007, 5000};

    for (long last = -1; last<count; last += count> 300 ? 8 : 1) {
        for (size_t g = 0; g < sizeof guesses / sizeof guesses[0]; g++) {
            struct search search;
            unsigned tries = run_search(count, count / 3, last, guesses[g], &search);
            ck_assert_int_eq(search.low, last);
            ck_assert_int_eq(search.low_meets, last >= 0);
            ck_assert_uint_le(tries, 6 + 3 * (unsigned)ceil(log2((double)count + 1)));
        }
    }
}
END_TEST

START_TEST(a_right_guess_takes_two_tries_and_one_that_is_near_takes_few)
{
    long count = 1009;

    for (long last = 0; last < count; last += 4) {
        struct search search;
        unsigned at_ends = last == count - 1;
        ck_assert_uint_eq(run_search(count, last, last, last, &search), 2 - at_ends);
        long near = last + 6 < count ? last + 6 : last - 6;
        ck_assert_uint_le(run_search(count, near, last, near, &search), 10);
    }
}
END_TEST

/* Candidates from `from` to `to` meet: those below are too low. */
START_TEST(a_window_is_found_from_below_and_from_above)
{
    static const struct {
        long first, from, to;
    } windows[] = {{50, 40, 60}, {10, 40, 60}, {90, 40, 60}, {0, 99, 99}, {99, 0, 0}, {5, 6, 6}};
    struct search search;
    long candidate = -1;

    search_begin(&search, 100, windows[_i].first);
    while (search_next(&search, windows[_i].to, &candidate))
        search_tell(&search, candidate,
                    candidate < windows[_i].from ? SEARCH_TOO_LOW
                    : candidate > windows[_i].to ? SEARCH_TOO_HIGH
                                                 : SEARCH_MEETS);
    ck_assert(search.low_meets);
    ck_assert_int_eq(search.low, windows[_i].to);
}
END_TEST

START_TEST(no_window_is_no_answer)
{
    struct search search;
    long candidate = -1;

    search_begin(&search, 100, 30);
    while (search_next(&search, -1, &candidate))
        search_tell(&search, candidate, candidate < 40 ? SEARCH_TOO_LOW : SEARCH_TOO_HIGH);
    ck_assert(!search.low_meets);
    ck_assert_int_eq(search.low, 39);
    ck_assert_int_eq(search.high, 40);
}
END_TEST

/* ---- Curves ------------------------------------------------------------------------------------
 */

enum {
    VALUES_MAX = 4096
};

/* Two figures of a value; both must be at most 1. */
struct shape {
    const char *name;
    long count;
    bool is_monotone;
    double (*first)(double x), (*second)(double x);
};

static double rises(double x)
{
    return x / 700;
}
static double rises_steeply(double x)
{
    return x * x / 40000;
}
static double falls_late(double x)
{
    return 690 / x;
}
static double falls_and_never_meets(double x)
{
    return 1 + 1 / x;
}
static double always(double x)
{
    (void)x;
    return 0.5;
}
static double waves(double x)
{
    return x / 900 + 0.4 * sin(x / 37);
}
static double known_below_300(double x)
{
    return x < 300 ? x / 400 : (double)NAN;
}
static double steps_down(double x)
{
    return x < 64 ? x / 50 : x / 500;
}

static const struct shape shapes[] = {
    {"one that rises", 1009, true, rises, always},
    {"two that rise", 1009, true, rises, rises_steeply},
    {"a window between two looks", 1009, true, rises, falls_late},
    {"never", 1009, true, rises, falls_and_never_meets},
    {"always", 1009, true, always, always},
    {"waves", 500, false, waves, always},
    {"a step down", 500, false, steps_down, always},
    {"known in part", 1009, true, known_below_300, always},
    {"one value", 1, true, rises, always},
};

struct drawn {
    const struct shape *shape;
    double values[VALUES_MAX];
    unsigned asked;
};

static kvt_status at(void *context, long candidate, double *figures, struct kvt_error *err)
{
    struct drawn *drawn = context;

    (void)err;
    figures[0] = drawn->shape->first(drawn->values[candidate]);
    figures[1] = drawn->shape->second(drawn->values[candidate]);
    drawn->asked++;
    return KVT_OK;
}

static double margin(void *context, long candidate, const double *figures)
{
    (void)context;
    (void)candidate;
    return isnan(figures[0]) || isnan(figures[1]) ? (double)NAN : 1 - fmax(figures[0], figures[1]);
}

static long by_brute_force(struct drawn *drawn, long low, long high)
{
    double figures[2];
    long found = -1;

    for (long c = low + 1; c < high; c++) {
        kvt_status status = at(drawn, c, figures, NULL);
        if (status == KVT_OK && margin(NULL, c, figures) >= 0)
            found = c;
    }
    return found;
}

START_TEST(the_last_that_meets_is_that_of_looking_at_all)
{
    static struct drawn drawn;
    struct kvt_error err;
    const struct shape *shape = &shapes[_i];

    drawn = (struct drawn){.shape = shape};
    for (long c = 0; c < shape->count; c++)
        drawn.values[c] = 16 + (double)c;
    struct curve curve = {.figure_count = 2, .at = at, .context = &drawn};
    ck_assert_int_eq(curve_look(&curve, shape->count, drawn.values, &err), KVT_OK);
    ck_assert_msg(curve_is_monotone(&curve) == shape->is_monotone, "%s", shape->name);
    ck_assert_int_eq(curve.is_scanned, !shape->is_monotone);
    long found = -2;
    ck_assert_int_eq(curve_last(&curve, -1, shape->count, margin, NULL, &found, &err), KVT_OK);
    unsigned asked = drawn.asked;
    ck_assert_msg(found == by_brute_force(&drawn, -1, shape->count), "%s: %ld", shape->name, found);
    if (shape->is_monotone)
        ck_assert_uint_le(asked, CURVE_GRID + 32);
    /* And within any part of it. */
    for (long low = -1; low < shape->count; low += 197) {
        for (long high = low + 1; high <= shape->count; high += 161) {
            ck_assert_int_eq(curve_last(&curve, low, high, margin, NULL, &found, &err), KVT_OK);
            ck_assert_msg(found == by_brute_force(&drawn, low, high), "%s: %ld in (%ld, %ld)",
                          shape->name, found, low, high);
        }
    }
    curve_free(&curve);
}
END_TEST

START_TEST(each_candidate_is_asked_for_once)
{
    static struct drawn drawn = {.shape = &shapes[0]};
    struct curve curve = {.figure_count = 2, .at = at, .context = &drawn};
    const double *figures = NULL;
    struct kvt_error err;

    for (long c = 0; c < 100; c++)
        drawn.values[c] = (double)c;
    for (int round = 0; round < 3; round++) {
        for (long c = 99; c >= 0; c -= 3) {
            ck_assert_int_eq(curve_at(&curve, c, &figures, &err), KVT_OK);
            ck_assert_double_eq(figures[0], rises((double)c));
        }
    }
    ck_assert_uint_eq(drawn.asked, 34);
    ck_assert_ptr_null(curve_known(&curve, 1));
    ck_assert_ptr_nonnull(curve_known(&curve, 99));
    curve_free(&curve);
}
END_TEST

START_TEST(looks_are_spread_by_ratio_over_wide_ranges)
{
    double wide[1009], narrow[101], down[1009];

    for (long c = 0; c < 1009; c++) {
        wide[c] = 16 + (double)c;
        down[1008 - c] = wide[c];
    }
    for (long c = 0; c < 101; c++)
        narrow[c] = 100 + (double)c;
    ck_assert_double_eq(wide[curve_spread(1009, wide, 0.5)], 128); /* sqrt(16 x 1024) */
    ck_assert_double_eq(down[curve_spread(1009, down, 0.5)], 128);
    ck_assert_double_eq(narrow[curve_spread(101, narrow, 0.5)], 150);
    ck_assert_int_eq(curve_spread(1009, wide, 0), 0);
    ck_assert_int_eq(curve_spread(1009, wide, 1), 1008);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plan_search");
    TCase *tcase = tcase_create("plan_search");

    tcase_add_loop_test(tcase, every_answer_is_found_whatever_is_guessed, 0,
                        sizeof counts / sizeof counts[0]);
    tcase_add_test(tcase, a_right_guess_takes_two_tries_and_one_that_is_near_takes_few);
    tcase_add_loop_test(tcase, a_window_is_found_from_below_and_from_above, 0, 6);
    tcase_add_test(tcase, no_window_is_no_answer);
    tcase_add_loop_test(tcase, the_last_that_meets_is_that_of_looking_at_all, 0,
                        sizeof shapes / sizeof shapes[0]);
    tcase_add_test(tcase, each_candidate_is_asked_for_once);
    tcase_add_test(tcase, looks_are_spread_by_ratio_over_wide_ranges);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
