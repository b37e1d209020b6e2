/* test_length.c -- the laws of lengths: what they draw, and what they refuse. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/workload.h"
#include "support/support.h"

extern const struct kvt_length_law kvt_length_fixed;
extern const struct kvt_length_law kvt_length_lognormal;
extern const struct kvt_length_law kvt_length_empirical;

enum {
    DRAWS = 20000,
    TOKENS_MAX = 131072
};

static struct support_folder folder;
static char path[SUPPORT_PATH_BYTES];

static void make_folder(void)
{
    support_folder_make(&folder);
    support_path(&folder, "lengths.csv", path);
}

static void remove_folder(void)
{
    support_folder_remove(&folder);
}

/* A law set up with these values; free() the state. NULL and *err where it refuses. */
static void *state_of(const struct kvt_length_law *law, const struct kvt_param_value *values,
                      uint32_t minimum_tokens, uint32_t maximum_tokens, struct kvt_error *err)
{
    const struct kvt_length_env env = {
        .params = {.values = values, .count = law->info.param_count},
        .minimum_tokens = minimum_tokens,
        .maximum_tokens = maximum_tokens,
        .host = kvt_host(),
    };
    void *state = calloc(1, law->state_bytes(&env));
    ck_assert_ptr_nonnull(state);
    if (law->init(state, &env, err) == KVT_OK)
        return state;
    free(state);
    return NULL;
}

static uint32_t draw(const struct kvt_length_law *law, const void *state, uint64_t entity)
{
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_LENGTH, entity);
    return law->draw(state, &rng);
}

START_TEST(a_fixed_law_draws_its_length_and_lies_within_the_model)
{
    struct kvt_error err = {0};
    const struct kvt_param_value values[] = {{.number = 100032}};
    void *state = state_of(&kvt_length_fixed, values, 1, TOKENS_MAX, &err);
    uint32_t distinct[2];
    ck_assert_ptr_nonnull(state);
    ck_assert_uint_eq(draw(&kvt_length_fixed, state, 0), 100032);
    ck_assert_uint_eq(draw(&kvt_length_fixed, state, 1), 100032);
    ck_assert_uint_eq(kvt_length_fixed.typical_max(state), 100032);
    ck_assert_uint_eq(kvt_length_fixed.longest(state), 100032);
    ck_assert_uint_eq(kvt_length_fixed.distinct(state, distinct, 2), 1);
    ck_assert_uint_eq(distinct[0], 100032);
    free(state);

    ck_assert_ptr_null(state_of(&kvt_length_fixed, values, 1, 100031, &err));
    ck_assert_str_eq(err.message, "100032 tokens are not from 1 to 100031, what the model takes");
}
END_TEST

/* Standard error of the mean is cv / sqrt(n) = 0.35 %; the bounds are five of them. */
START_TEST(a_log_normal_law_has_the_mean_and_the_spread_that_were_asked_for)
{
    struct kvt_error err = {0};
    const struct kvt_param_value values[] = {{.number = 2385}, {.number = 0.5}};
    void *state = state_of(&kvt_length_lognormal, values, 1, 1u << 30, &err);
    double sum = 0;
    double squares = 0;
    uint32_t past_typical = 0;
    ck_assert_ptr_nonnull(state);
    uint32_t typical_max = kvt_length_lognormal.typical_max(state);
    for (uint64_t i = 0; i < DRAWS; i++) {
        double tokens = draw(&kvt_length_lognormal, state, i);
        sum += tokens;
        squares += tokens * tokens;
        past_typical += tokens > typical_max;
    }
    double mean = sum / DRAWS;
    double cv = sqrt(squares / DRAWS - mean * mean) / mean;
    ck_assert_double_eq_tol(mean, 2385, 2385 * 5 * 0.5 / sqrt(DRAWS));
    ck_assert_double_eq_tol(cv, 0.5, 0.025);
    ck_assert_double_eq_tol((double)past_typical / DRAWS, 0.01, 0.0036);
    /* exp(mu + 2.3263 sigma) = 6401.6, with sigma^2 = ln(1.25), mu = ln(2385) - sigma^2 / 2. */
    ck_assert_uint_eq(typical_max, 6402);
    free(state);
}
END_TEST

START_TEST(a_cut_law_draws_again_and_never_piles_up_at_its_ends)
{
    struct kvt_error err = {0};
    const struct kvt_param_value values[] = {{.number = 1000}, {.number = 1}};
    void *state = state_of(&kvt_length_lognormal, values, 400, 1600, &err);
    uint32_t at_ends = 0;
    bool is_outside = false;
    ck_assert_ptr_nonnull(state);
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint32_t tokens = draw(&kvt_length_lognormal, state, i);
        is_outside = is_outside || tokens < 400 || tokens > 1600;
        at_ends += tokens == 400 || tokens == 1600;
    }
    ck_assert(!is_outside);
    ck_assert_uint_lt(at_ends, DRAWS / 200);
    ck_assert_uint_eq(kvt_length_lognormal.longest(state), 1600);
    ck_assert_uint_eq(kvt_length_lognormal.typical_max(state), 1600);
    free(state);
}
END_TEST

START_TEST(a_log_normal_law_without_spread_is_its_mean)
{
    struct kvt_error err = {0};
    const struct kvt_param_value values[] = {{.number = 777}, {.number = 0}};
    void *state = state_of(&kvt_length_lognormal, values, 1, TOKENS_MAX, &err);
    ck_assert_ptr_nonnull(state);
    ck_assert_uint_eq(draw(&kvt_length_lognormal, state, 3), 777);
    free(state);
}
END_TEST

START_TEST(a_law_that_hardly_ever_fits_the_model_is_refused)
{
    struct kvt_error err = {0};
    const struct kvt_param_value values[] = {{.number = 1e6}, {.number = 0.1}};
    ck_assert_ptr_null(state_of(&kvt_length_lognormal, values, 1, TOKENS_MAX, &err));
    ck_assert_int_eq(err.status, KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "at least 1 % must be"));
}
END_TEST

static void *empirical_of(const char *text, struct kvt_error *err)
{
    const struct kvt_param_value values[] = {{.text = path}};
    support_write(path, text, strlen(text));
    return state_of(&kvt_length_empirical, values, 1, 1000, err);
}

/* Four lines, one of them outside what the model takes: shares of 1/3 and 2/3. */
START_TEST(an_empirical_law_draws_the_lines_of_its_file_alike)
{
    struct kvt_error err = {0};
    void *state = empirical_of("tokens\n17\n238.0\r\n2385\n17", &err);
    ck_assert_msg(state != NULL, "%s", err.message);
    uint32_t short_ones = 0;
    uint32_t long_ones = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint32_t tokens = draw(&kvt_length_empirical, state, i);
        short_ones += tokens == 17;
        long_ones += tokens == 238;
    }
    ck_assert_uint_eq(short_ones + long_ones, DRAWS);
    ck_assert_double_eq_tol((double)short_ones / DRAWS, 2.0 / 3, 5 * 0.4714 / sqrt(DRAWS));
    ck_assert_uint_eq(kvt_length_empirical.longest(state), 238);
    ck_assert_uint_eq(kvt_length_empirical.typical_max(state), 238);
    uint32_t distinct[2];
    ck_assert_uint_eq(kvt_length_empirical.distinct(state, distinct, 2), 2);
    ck_assert_uint_eq(distinct[0], 17);
    ck_assert_uint_eq(distinct[1], 238);
    ck_assert_uint_eq(kvt_length_empirical.distinct(state, distinct, 1), 0);
    free(state);
}
END_TEST

START_TEST(a_rare_long_line_is_past_the_typical_maximum)
{
    char text[2048];
    size_t used = 0;
    struct kvt_error err = {0};
    for (int i = 0; i < 199; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "5\n");
    (void)snprintf(text + used, sizeof text - used, "900\n");
    void *state = empirical_of(text, &err);
    ck_assert_ptr_nonnull(state);
    ck_assert_uint_eq(kvt_length_empirical.longest(state), 900);
    ck_assert_uint_eq(kvt_length_empirical.typical_max(state), 5);
    free(state);
}
END_TEST

START_TEST(a_file_of_lengths_is_refused_with_its_line)
{
    static const struct {
        const char *text, *where, *says;
    } cases[] = {
        {"", "", "no length in this file is from 1 to 1000 tokens"},
        {"tokens\n", "", "no length in this file"},
        {"0\n1001\n", "", "no length in this file"},
        {"5\n6,7\n", ":2", "a line holds one length, not 2 fields"},
        {"tokens\nmore\n5\n", ":2", ""},
        {"5\n-6\n", ":2", ""},
        {"5\n6.5\n", ":2", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kvt_error err = {0};
        ck_assert_ptr_null(empirical_of(cases[i].text, &err));
        ck_assert_str_eq(err.where + strlen(path), cases[i].where);
        ck_assert_ptr_nonnull(strstr(err.message, cases[i].says));
    }
    struct kvt_error err = {0};
    const struct kvt_param_value none[] = {{.text = NULL}};
    ck_assert_ptr_null(state_of(&kvt_length_empirical, none, 1, 1000, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "path is required"));
}
END_TEST

START_TEST(more_distinct_lengths_than_the_state_holds_are_refused)
{
    struct kvt_error err = {0};
    const struct kvt_param_value values[] = {{.text = path}};
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 1; i <= 32769; i++)
        (void)fprintf(file, "%d\n", i);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_ptr_null(state_of(&kvt_length_empirical, values, 1, TOKENS_MAX, &err));
    ck_assert_int_eq(err.status, KVT_ERR_UNSUPPORTED);
    void *state = state_of(&kvt_length_empirical, values, 1, 32768, &err);
    ck_assert_ptr_nonnull(state);
    free(state);
}
END_TEST

static Suite *length_suite(void)
{
    Suite *suite = suite_create("length");

    TCase *laws = tcase_create("laws");
    tcase_add_test(laws, a_fixed_law_draws_its_length_and_lies_within_the_model);
    tcase_add_test(laws, a_log_normal_law_has_the_mean_and_the_spread_that_were_asked_for);
    tcase_add_test(laws, a_cut_law_draws_again_and_never_piles_up_at_its_ends);
    tcase_add_test(laws, a_log_normal_law_without_spread_is_its_mean);
    tcase_add_test(laws, a_law_that_hardly_ever_fits_the_model_is_refused);
    suite_add_tcase(suite, laws);

    TCase *files = tcase_create("files");
    tcase_add_checked_fixture(files, make_folder, remove_folder);
    tcase_add_test(files, an_empirical_law_draws_the_lines_of_its_file_alike);
    tcase_add_test(files, a_rare_long_line_is_past_the_typical_maximum);
    tcase_add_test(files, a_file_of_lengths_is_refused_with_its_line);
    tcase_add_test(files, more_distinct_lengths_than_the_state_holds_are_refused);
    suite_add_tcase(suite, files);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(length_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
