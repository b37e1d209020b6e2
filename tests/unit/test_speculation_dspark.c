/* test_speculation_dspark.c -- confidences, and how many drafts are worth verifying. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../models/speculation/confidence.h"
#include "../../models/speculation/survival.h"
#include "kvt/costs.h"
#include "support/speculation_bench.h"

extern const struct kvt_speculation_method kvt_speculation_dspark;

/* The chances of models/acceptance/v4-pro-dspark.json. */
static const double chances[] = {.74, .72, .70, .68, .66, .64, .62};

enum {
    DRAFTS = 7
};

static void dspark_make(struct speculation_bench *bench)
{
    speculation_bench_make(bench, &kvt_speculation_dspark);
    bench->drafter.block_max = 1 + DRAFTS;
    speculation_bench_table(bench, "acceptance", "v4-pro-dspark");
}

/* ---- Confidences ------------------------------------------------------------------------ */

START_TEST(confidences_have_the_mean_and_the_auc_asked_for)
{
    static const struct {
        double mean, auc;
    } rows[] = {{.93, .85}, {.62, .85}, {.05, .85}, {.5, .6},
                {.5, .95},  {.85, .91}, {.85, .81}, {.999, .85}};
    struct confidence confidence;
    confidence_make(&confidence, rows[_i].mean, rows[_i].auc);

    ck_assert_double_le(fabs(confidence_mean(&confidence) - rows[_i].mean), 1e-6);
    ck_assert_double_le(fabs(confidence_auc(&confidence) - rows[_i].auc), 1e-3);
    for (size_t i = 1; i < CONFIDENCE_SLICES; i++)
        ck_assert_double_ge(confidence.values[i], confidence.values[i - 1]);
    ck_assert_double_ge(confidence.values[0], 0);
    ck_assert_double_le(confidence.values[CONFIDENCE_SLICES - 1], 1);
}
END_TEST

/* AUC of what is drawn, by counting pairs: independent of the closed form. */
START_TEST(drawn_confidences_tell_accepted_from_rejected_as_often)
{
    enum {
        DRAWS = 200000,
        BINS = 4096
    };
    static double accepted[BINS], rejected[BINS];
    struct confidence confidence;
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, 1);
    double all_accepted = 0, all_rejected = 0, sum = 0, pairs = 0, below = 0;
    confidence_make(&confidence, .7, .85);
    for (uint32_t i = 0; i < DRAWS; i++) {
        double value = confidence_draw(&confidence, &rng);
        bool is_accepted = kvt_rng_unit(&rng) < value;
        sum += value;
        (is_accepted ? accepted : rejected)[(size_t)(value * (BINS - 1))]++;
    }
    for (size_t bin = 0; bin < BINS; bin++) {
        pairs += accepted[bin] * (below + rejected[bin] / 2);
        below += rejected[bin];
        all_accepted += accepted[bin];
        all_rejected += rejected[bin];
    }
    ck_assert_double_le(fabs(pairs / (all_accepted * all_rejected) - .85), 0.005);
    ck_assert_double_le(fabs(sum / DRAWS - .7), 0.004);
    ck_assert_double_le(fabs(all_accepted / DRAWS - .7), 0.005); /* calibrated */
}
END_TEST

START_TEST(certain_drafts_have_certain_confidences)
{
    struct confidence confidence;
    confidence_make(&confidence, 1, .85);
    ck_assert_double_eq(confidence.values[0], 1);
    confidence_make(&confidence, 0, .85);
    ck_assert_double_eq(confidence.values[CONFIDENCE_SLICES - 1], 0);
}
END_TEST

/* ---- The heap ----------------------------------------------------------------------------- */

START_TEST(survivors_come_in_falling_order_and_by_request_where_equal)
{
    enum {
        COUNT = 60
    };
    struct survivor items[COUNT];
    struct survival_heap heap = {.items = items, .count = COUNT};
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, 2);
    for (uint32_t i = 0; i < COUNT; i++)
        items[i] =
            (struct survivor){.survival = (double)kvt_rng_below(&rng, 10) / 10, .request = i};
    survival_heap_order(&heap);
    struct survivor last = {.survival = 2};
    uint32_t taken = 0;
    while (heap.count > 0) {
        struct survivor best = heap.items[0];
        ck_assert_double_le(best.survival, last.survival);
        if (best.survival == last.survival && best.position == 0 && last.position == 0)
            ck_assert_uint_gt(best.request, last.request);
        last = best;
        taken++;
        if (best.position < 2)
            survival_heap_replace(&heap, best.survival * 0.5);
        else
            survival_heap_remove(&heap);
    }
    ck_assert_uint_eq(taken, 3 * COUNT);
}
END_TEST

/* ---- Acceptance ------------------------------------------------------------------------------ */

START_TEST(fixed_drafts_commit_the_sum_of_products)
{
    struct speculation_bench bench;
    struct speculation_batch batch;
    uint32_t fixed = (uint32_t)_i;
    double expected = 1, reached = 1;
    for (uint32_t i = 0; i < fixed; i++)
        expected += reached *= chances[i];
    dspark_make(&bench);
    speculation_bench_param(&bench, "fixed_drafts")->number = fixed;
    speculation_bench_start(&bench);
    ck_assert_uint_eq(bench.shape.queries_max, 1 + fixed);
    speculation_batch_make(&batch, &bench, 64, 0, 0);
    double tokens = speculation_batch_tokens(&batch, 1000);

    ck_assert_msg(fabs(tokens - expected) < 4 * (1 + fixed) / 2.0 / sqrt(64000), "%.4f, not %.4f",
                  tokens, expected);
    ck_assert_int_eq(bench.shape.basis, KVT_BASIS_ASSUMED);
    speculation_batch_free(&batch);
    speculation_bench_end(&bench);
}
END_TEST

START_TEST(more_fixed_drafts_have_the_luck_of_fewer)
{
    struct speculation_bench few, many;
    struct speculation_batch fews, manys;
    dspark_make(&few);
    dspark_make(&many);
    speculation_bench_param(&few, "fixed_drafts")->number = 2;
    speculation_bench_param(&many, "fixed_drafts")->number = 7;
    speculation_bench_start(&few);
    speculation_bench_start(&many);
    speculation_batch_make(&fews, &few, 16, 0, 0);
    speculation_batch_make(&manys, &many, 16, 0, 0);
    for (uint32_t plan = 0; plan < 300; plan++) {
        speculation_batch_plan(&fews);
        speculation_batch_plan(&manys);
        for (uint32_t i = 0; i < 16; i++) {
            uint32_t committed = manys.rounds[i].committed_tokens;
            ck_assert_uint_eq(fews.rounds[i].committed_tokens, committed < 3 ? committed : 3);
        }
    }
    speculation_batch_free(&fews);
    speculation_batch_free(&manys);
    speculation_bench_end(&few);
    speculation_bench_end(&many);
}
END_TEST

/* ---- Sizing ------------------------------------------------------------------------------------
 */

struct linear_cost {
    double fixed, query;
    uint32_t calls;
};

static double linear_ns(void *context, uint32_t requests, uint32_t draft_tokens, uint32_t queries)
{
    struct linear_cost *cost = context;
    (void)draft_tokens;
    (void)requests;
    cost->calls++;
    return cost->fixed + cost->query * queries;
}

static uint32_t verified_on(const struct speculation_batch *batch, uint32_t first, uint32_t count)
{
    uint32_t verified = 0;
    for (uint32_t i = first; i < first + count; i++)
        verified += batch->rounds[i].query_count - 1;
    return verified;
}

static uint32_t verified_in_all(const struct speculation_batch *batch)
{
    return verified_on(batch, 0, batch->count);
}

/* The first round knows no confidences: its size follows from the table, by trying every one. */
START_TEST(the_first_round_has_the_best_size_of_all)
{
    enum {
        REQUESTS = 24
    };
    static const double query_costs[] = {0, .02, .05, .1, .2, .4, .5, .73, .75, 2};
    struct linear_cost cost = {.fixed = 10, .query = query_costs[_i]};
    struct speculation_bench bench;
    struct speculation_batch batch;
    dspark_make(&bench);
    speculation_bench_start(&bench);
    speculation_batch_make(&batch, &bench, REQUESTS, 0, 0);
    batch.view.step_ns = linear_ns;
    batch.view.step_context = &cost;
    speculation_batch_plan(&batch);

    double tokens = REQUESTS, best_rate = REQUESTS / (10 + cost.query * REQUESTS), survival = 1;
    uint32_t best = 0;
    for (uint32_t depth = 0; depth < DRAFTS; depth++) {
        survival *= chances[depth];
        for (uint32_t i = 0; i < REQUESTS; i++) {
            uint32_t verified = depth * REQUESTS + i + 1;
            tokens += survival;
            double rate = tokens / (10 + cost.query * (REQUESTS + verified));
            if (rate > best_rate * (1 + 1e-12))
                best_rate = rate, best = verified;
        }
    }
    ck_assert_uint_eq(verified_in_all(&batch), best);
    for (uint32_t i = 0; i < REQUESTS; i++)
        ck_assert_uint_eq(batch.rounds[i].draft_tokens, DRAFTS);
    ck_assert_uint_gt(cost.calls, 0);
    speculation_batch_free(&batch);
    speculation_bench_end(&bench);
}
END_TEST

static uint32_t verified_at(double query_cost, double lag, bool early_stop)
{
    struct linear_cost cost = {.fixed = 10, .query = query_cost};
    struct speculation_bench bench;
    struct speculation_batch batch;
    uint32_t verified = 0;
    dspark_make(&bench);
    speculation_bench_param(&bench, "confidence_lag_rounds")->number = lag;
    speculation_bench_param(&bench, "early_stop")->number = early_stop;
    speculation_bench_start(&bench);
    speculation_batch_make(&batch, &bench, 32, 0, 0);
    batch.view.step_ns = linear_ns;
    batch.view.step_context = &cost;
    for (uint32_t plan = 0; plan < 50; plan++) {
        speculation_batch_plan(&batch);
        verified += verified_in_all(&batch);
    }
    speculation_batch_free(&batch);
    speculation_bench_end(&bench);
    return verified;
}

START_TEST(dearer_queries_never_verify_more)
{
    uint32_t last = UINT32_MAX;
    for (uint32_t quarters = 0; quarters < 16; quarters++) {
        uint32_t verified = verified_at(0.25 * quarters, 2, false);
        ck_assert_uint_le(verified, last);
        last = verified;
    }
    ck_assert_uint_eq(verified_at(0, 2, false), 50 * 32 * DRAFTS);
    ck_assert_uint_eq(verified_at(1e6, 2, false), 0);
}
END_TEST

START_TEST(early_stop_takes_the_same_where_costs_are_smooth)
{
    ck_assert_uint_eq(verified_at(.3, 2, true), verified_at(.3, 2, false));
}
END_TEST

START_TEST(the_age_of_confidences_changes_the_size)
{
    ck_assert_uint_ne(verified_at(.3, 0, false), verified_at(.3, 2, false));
}
END_TEST

/* One request: a single old round says little of the next, and 64 of them say what is best. */
START_TEST(few_requests_are_sized_by_several_rounds)
{
    uint32_t sizes[2] = {0, 0};
    for (size_t pooled = 0; pooled < 2; pooled++) {
        struct speculation_bench bench;
        struct speculation_batch batch;
        dspark_make(&bench);
        speculation_bench_param(&bench, "confidence_pool_requests")->number = pooled ? 64 : 1;
        speculation_bench_table(&bench, "costs", "deepseek-v4-flash-b300");
        speculation_bench_start(&bench);
        speculation_batch_make(&batch, &bench, 1, 0, 0);
        for (uint32_t plan = 0; plan < 200; plan++) {
            speculation_batch_plan(&batch);
            sizes[pooled] += verified_in_all(&batch) == DRAFTS;
        }
        speculation_batch_free(&batch);
        speculation_bench_end(&bench);
    }
    ck_assert_uint_eq(sizes[1], 200);
    ck_assert_uint_lt(sizes[0], 200);
}
END_TEST

/* A stair of costs: early stop ends before it, the full search looks beyond. */
static double stair_ns(void *context, uint32_t requests, uint32_t draft_tokens, uint32_t queries)
{
    (void)context;
    (void)requests;
    (void)draft_tokens;
    return queries <= 40 ? 10 : 11;
}

START_TEST(early_stop_ends_at_a_stair)
{
    for (int early_stop = 0; early_stop < 2; early_stop++) {
        struct speculation_bench bench;
        struct speculation_batch batch;
        dspark_make(&bench);
        speculation_bench_param(&bench, "early_stop")->number = early_stop;
        speculation_bench_start(&bench);
        speculation_batch_make(&batch, &bench, 32, 0, 0);
        batch.view.step_ns = stair_ns;
        speculation_batch_plan(&batch);
        ck_assert_uint_eq(verified_in_all(&batch), early_stop ? 8 : 32 * DRAFTS);
        speculation_batch_free(&batch);
        speculation_bench_end(&bench);
    }
}
END_TEST

START_TEST(a_cost_table_takes_the_place_of_the_runs_timing)
{
    struct speculation_bench bench;
    struct speculation_batch batch;
    dspark_make(&bench);
    speculation_bench_table(&bench, "costs", "deepseek-v4-flash-b300");
    speculation_bench_start(&bench);
    speculation_batch_make(&batch, &bench, 256, 0, 0); /* and no step_ns */
    for (uint32_t plan = 0; plan < 20; plan++) {
        speculation_batch_plan(&batch);
        ck_assert_uint_le(256 + verified_in_all(&batch), 1024); /* short of the cliff */
        ck_assert_uint_gt(verified_in_all(&batch), 256);
    }
    speculation_batch_free(&batch);
    speculation_bench_end(&bench);
}
END_TEST

/* Of 32 requests 24 decode on one rank and 8 on another; beside them, all on one. The size is the
 * same, as costs and confidences are, and without shares one rank often has more than its own. */
START_TEST(no_rank_verifies_more_than_its_share)
{
    enum {
        REQUESTS = 32,
        FIRST = 24
    };
    struct linear_cost cost = {.fixed = 10, .query = .2};
    struct speculation_bench bench;
    struct speculation_batch apart, together;
    uint32_t beyond = 0;
    dspark_make(&bench);
    speculation_bench_start(&bench);
    speculation_batch_make(&apart, &bench, REQUESTS, 0, 0);
    speculation_batch_make(&together, &bench, REQUESTS, 0, 0);
    for (uint32_t i = FIRST; i < REQUESTS; i++)
        apart.requests[i].rank = 1;
    apart.view.step_ns = together.view.step_ns = linear_ns;
    apart.view.step_context = together.view.step_context = &cost;
    for (uint32_t plan = 0; plan < 100; plan++) {
        speculation_batch_plan(&apart);
        speculation_batch_plan(&together);
        uint32_t all = verified_in_all(&together);
        uint32_t first_share = (3 * all + 3) / 4, other_share = (all + 3) / 4;
        ck_assert_uint_eq(verified_in_all(&apart), all);
        ck_assert_uint_le(verified_on(&apart, 0, FIRST), first_share);
        ck_assert_uint_le(verified_on(&apart, FIRST, REQUESTS - FIRST), other_share);
        beyond += verified_on(&together, 0, FIRST) > first_share ||
                  verified_on(&together, FIRST, REQUESTS - FIRST) > other_share;
    }
    ck_assert_uint_gt(beyond, 50);
    speculation_batch_free(&apart);
    speculation_batch_free(&together);
    speculation_bench_end(&bench);
}
END_TEST

/* ---- Refusals -----------------------------------------------------------------------------------
 */

START_TEST(drafts_that_cannot_be_are_refused)
{
    static const struct {
        const char *param;
        double number;
        const char *message;
    } rows[] = {
        {"drafts", 8, "a block of 8 drafts, where drafter \"any\" was made for at most 7"},
        {"fixed_drafts", 8, "fixed_drafts is 8, of blocks of 7 drafts"},
    };
    struct speculation_bench bench;
    struct kvt_error err = {0};
    dspark_make(&bench);
    speculation_bench_param(&bench, rows[_i].param)->number = rows[_i].number;

    ck_assert_int_eq(speculation_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_msg(strstr(err.message, rows[_i].message) != NULL, "%s", err.message);
    speculation_bench_end(&bench);
}
END_TEST

START_TEST(missing_tables_and_drafters_are_refused)
{
    struct speculation_bench bench;
    struct kvt_error err = {0};
    dspark_make(&bench);
    speculation_bench_param(&bench, "costs")->text = "no/such/costs.json";
    ck_assert_int_ne(speculation_bench_try(&bench, &err), KVT_OK);
    ck_assert_ptr_nonnull(strstr(err.where, "no/such/costs.json"));
    speculation_bench_param(&bench, "acceptance")->text = "no/such/chances.json";
    ck_assert_int_ne(speculation_bench_try(&bench, &err), KVT_OK);
    ck_assert_ptr_nonnull(strstr(err.where, "no/such/chances.json"));
    bench.env.drafter = NULL;
    ck_assert_int_eq(speculation_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "no drafter"));
    speculation_bench_end(&bench);
}
END_TEST

static Suite *speculation_dspark_suite(void)
{
    Suite *suite = suite_create("speculation_dspark");

    TCase *confidences = tcase_create("confidences");
    tcase_add_loop_test(confidences, confidences_have_the_mean_and_the_auc_asked_for, 0, 8);
    tcase_add_test(confidences, drawn_confidences_tell_accepted_from_rejected_as_often);
    tcase_add_test(confidences, certain_drafts_have_certain_confidences);
    tcase_add_test(confidences, survivors_come_in_falling_order_and_by_request_where_equal);
    suite_add_tcase(suite, confidences);

    TCase *chain = tcase_create("acceptance");
    tcase_add_loop_test(chain, fixed_drafts_commit_the_sum_of_products, 1, 8);
    tcase_add_test(chain, more_fixed_drafts_have_the_luck_of_fewer);
    suite_add_tcase(suite, chain);

    TCase *sizing = tcase_create("sizing");
    tcase_add_loop_test(sizing, the_first_round_has_the_best_size_of_all, 0, 10);
    tcase_add_test(sizing, dearer_queries_never_verify_more);
    tcase_add_test(sizing, early_stop_takes_the_same_where_costs_are_smooth);
    tcase_add_test(sizing, no_rank_verifies_more_than_its_share);
    tcase_add_test(sizing, the_age_of_confidences_changes_the_size);
    tcase_add_test(sizing, few_requests_are_sized_by_several_rounds);
    tcase_add_test(sizing, early_stop_ends_at_a_stair);
    tcase_add_test(sizing, a_cost_table_takes_the_place_of_the_runs_timing);
    suite_add_tcase(suite, sizing);

    TCase *refusals = tcase_create("refusals");
    tcase_add_loop_test(refusals, drafts_that_cannot_be_are_refused, 0, 2);
    tcase_add_test(refusals, missing_tables_and_drafters_are_refused);
    suite_add_tcase(suite, refusals);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(speculation_dspark_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
