/* test_score_kernel.c -- what the score process is made of: its table of normal draws, and its
 * kernels on every kind of CPU that runs here. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../models/law/score_kernel.h"
#include "../../models/law/score_process.h"
#include "kvt/hash.h"
#include "support/support.h"

START_TEST(the_normal_table_is_symmetric_coarse_and_of_unit_variance)
{
    float *gauss = score_gauss_new();
    ck_assert_ptr_nonnull(gauss);
    double variance = 0;
    size_t fine = 0, lopsided = 0, falling = 0;
    for (size_t i = 0; i < SCORE_GAUSS_COUNT; i++) {
        double scaled = (double)gauss[i] * 0x1p18;
        fine += scaled < rint(scaled) || scaled > rint(scaled);
        lopsided += fabsf(gauss[i] + gauss[SCORE_GAUSS_COUNT - 1 - i]) > 0;
        falling += i > 0 && gauss[i] <= gauss[i - 1];
        variance += (double)gauss[i] * (double)gauss[i] / SCORE_GAUSS_COUNT;
    }
    ck_assert_uint_eq(fine + lopsided + falling, 0);
    ck_assert_double_eq_tol(variance, 1, 1e-4);
    /* Phi^-1 of 0.5 + 1/131072 and of 1 - 1/131072, from tables. */
    ck_assert_double_eq_tol((double)gauss[32768], 1.91238e-5, 0x1p-19);
    ck_assert_double_eq_tol((double)gauss[65535], 4.32566, 1e-3);
    free(gauss);
}
END_TEST

/* ---- Kernels ------------------------------------------------------------------------- */

/* A token's step with everything in it that `kinds` has a bit for. */
static struct score_step step_with(unsigned kinds, struct kvt_rng *rng)
{
    struct score_step step = {
        .drift = {.static_weight = .7F,
                  .slow_weight = .57F,
                  .fast_weight = .39F,
                  .white_weight = .19F,
                  .slow_keep = .99F,
                  .slow_kick = .14F,
                  .fast_keep = .88F,
                  .fast_kick = .47F},
        .row_sources = kinds & 1 ? 3 : 1,
        .page_sources = kinds & 2 ? 2 : 0,
        .rows_per_page = kinds & 4 ? 8 : 64,
        .recency = kinds & 8 ? 1.5F : 0,
        .is_settled = (kinds & 16) != 0,
        .is_bound = (kinds & 32) != 0,
        .slow_pull = .02F,
        .fast_pull = .3F,
        .age_unit = 1 / 1024.0F,
        .newest_row = 1900,
    };
    for (size_t s = 0; s < SCORE_SOURCES; s++) {
        struct score_draws draws = {.slow_unit = 1e-3F,
                                    .fast_unit = 4e-3F,
                                    .white_unit = 6e-6F,
                                    .fast_bend = 3e-8F,
                                    .white_bend = 7e-16F};
        for (size_t k = 0; k < 3; k++)
            draws.key[k] = (uint32_t)kvt_rng_u64(rng);
        step.rows[s] = draws;
        draws.key[0]++;
        step.pages[s] = draws;
    }
    return step;
}

/* Slow, fast, score and the marked bits after some tokens. */
struct kernel_state {
    float fixed[SCORE_BLOCK_ROWS], slow[SCORE_BLOCK_ROWS], fast[SCORE_BLOCK_ROWS];
    float score[SCORE_BLOCK_ROWS];
    uint64_t reached[SCORE_BLOCK_ROWS / 64];
};

static void run_kernel(const struct score_kernel *kernel, unsigned kinds,
                       struct kernel_state *state)
{
    struct kvt_rng rng = kvt_rng_stream(3, KVT_RNG_TEST, kinds);
    for (size_t i = 0; i < SCORE_BLOCK_ROWS; i++) {
        state->fixed[i] = (float)kvt_rng_gaussian(&rng);
        state->slow[i] = (float)kvt_rng_gaussian(&rng);
        state->fast[i] = (float)kvt_rng_gaussian(&rng);
    }
    struct kernel_state home = *state;
    struct score_block block = {.fixed = state->fixed,
                                .slow = state->slow,
                                .fast = state->fast,
                                .slow_home = home.slow,
                                .fast_home = home.fast,
                                .first_row = 1792};
    for (uint32_t token = 0; token < 50; token++) {
        struct score_step step = step_with(kinds, &rng);
        kernel->advance(&step, &block, state->score);
    }
    kernel->mark(state->score, state->score[77], state->reached);
}

START_TEST(every_kernel_gives_the_same_bits)
{
    size_t count;
    const struct score_kernel *kernels = score_kernels(&count);
    ck_assert(kernels[0].runs_here());
    for (unsigned kinds = 0; kinds < 64; kinds++) {
        static struct kernel_state portable, other;
        run_kernel(&kernels[0], kinds, &portable);
        for (size_t i = 0; i < SCORE_BLOCK_ROWS; i++)
            ck_assert_uint_eq(portable.reached[i / 64] >> i % 64 & 1,
                              portable.score[i] >= portable.score[77]);
        for (size_t k = 1; k < count; k++) {
            if (!kernels[k].runs_here())
                continue;
            run_kernel(&kernels[k], kinds, &other);
            ck_assert_mem_eq(portable.slow, other.slow, sizeof other.slow);
            ck_assert_mem_eq(portable.fast, other.fast, sizeof other.fast);
            ck_assert_mem_eq(portable.score, other.score, sizeof other.score);
            ck_assert_mem_eq(portable.reached, other.reached, sizeof other.reached);
        }
    }
}
END_TEST

/* Moments of what one token adds, over many rows and tokens: of normal draws where a share of
 * the score depends on single ones. */
START_TEST(draws_are_independent_and_nearly_normal)
{
    const struct score_kernel *kernel = score_kernel_best();
    struct score_step step = {.row_sources = 1, .rows_per_page = 64};
    step.drift = (struct score_drift){.white_weight = 1};
    float fast_unit = 0.84328668F / 104.510765F, fast_bend = 0.063645294F / 1141505.9F;
    step.rows[0] = (struct score_draws){.slow_unit = 1 / 104.510765F,
                                        .fast_unit = fast_unit,
                                        .fast_bend = fast_bend,
                                        .white_unit = 0.84328668F / 26754.96F,
                                        .white_bend = 0.063645294F / 1.9152228e13F};
    double second[3] = {0}, fourth[3] = {0}, cross[3] = {0}, lag[3] = {0}, first[3] = {0};
    double beyond_2 = 0;
    enum {
        TOKENS = 4000
    };
    struct kvt_rng rng = kvt_rng_stream(4, KVT_RNG_TEST, 0);
    for (uint32_t token = 0; token < TOKENS; token++) {
        for (size_t k = 0; k < 3; k++)
            step.rows[0].key[k] = (uint32_t)kvt_rng_u64(&rng);
        float fixed[SCORE_BLOCK_ROWS] = {0}, drawn[3][SCORE_BLOCK_ROWS] = {{0}};
        struct score_block block = {.fixed = fixed, .slow = drawn[0], .fast = drawn[1]};
        kernel->advance(&step, &block, drawn[2]);
        for (size_t i = 0; i < SCORE_BLOCK_ROWS; i++) {
            for (size_t p = 0; p < 3; p++) {
                double d = (double)drawn[p][i];
                first[p] += d;
                second[p] += d * d;
                fourth[p] += d * d * d * d;
                cross[p] += d * (double)drawn[(p + 1) % 3][i];
                lag[p] += i > 0 ? d * (double)drawn[p][i - 1] : 0;
            }
            beyond_2 += fabs((double)drawn[2][i]) > 2;
        }
    }
    double n = (double)TOKENS * SCORE_BLOCK_ROWS; /* a million: errors of about .001 */
    for (size_t p = 0; p < 3; p++) {
        ck_assert_double_eq_tol(first[p] / n, 0, .005);
        ck_assert_double_eq_tol(second[p] / n, 1, .005);
        ck_assert_double_eq_tol(fourth[p] / n, p == 0 ? 2.4 : 3, .03);
        ck_assert_double_eq_tol(cross[p] / n, 0, .005);
        ck_assert_double_eq_tol(lag[p] / n, 0, .005);
    }
    /* Bounded at three deviations, they make up for it here. */
    ck_assert_double_eq_tol(beyond_2 / n, .0455, .012);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("score_kernel");
    TCase *kernels = tcase_create("kernels");
    tcase_set_timeout(kernels, 60);
    tcase_add_test(kernels, the_normal_table_is_symmetric_coarse_and_of_unit_variance);
    tcase_add_test(kernels, every_kernel_gives_the_same_bits);
    tcase_add_test(kernels, draws_are_independent_and_nearly_normal);
    suite_add_tcase(suite, kernels);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
