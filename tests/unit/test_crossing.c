/* test_crossing.c -- rows sent ahead, in time, and where the planes of a row lie: by hand. */

#include <check.h>

#include "kvt/crossing.h"
#include "kvt/layout.h"
#include "support/support.h"
#include "support/timing_bench.h"

/* 2 ns a byte on the link, of which `share_hidden` is hidden behind compute. */
struct plain {
    double byte_ns, share_hidden;
};

static void plain_rank_step(const void *state, const struct kvt_rank_load *load,
                            double parts[KVT_PARTS])
{
    const struct plain *plain = state;
    parts[KVT_PART_FETCH] += load->wire_bytes * plain->byte_ns * (1 - plain->share_hidden);
}

static double plain_link_ns(const void *state, const struct kvt_rank_load *load)
{
    const struct plain *plain = state;
    return load->wire_bytes * plain->byte_ns;
}

static const struct kvt_timing_model exposed_model = {.rank_step = plain_rank_step};
static const struct kvt_timing_model hiding_model = {.rank_step = plain_rank_step,
                                                     .link_ns = plain_link_ns};

/* 400 bytes demanded, 600 ahead; 100 ns of index, 210 of attention, 1,000 of dense layers that the
 * group shares, and 50 of the host's. */
static const struct kvt_rank_load load = {.wire_bytes = 400,
                                          .ahead = {.rows = 3, .wire_bytes = 600}};
static const double shared[KVT_PARTS] = {[KVT_PART_DENSE] = 1000, [KVT_PART_HOST] = 50};

static double exposed(const struct kvt_timing_model *model, const struct plain *plain,
                      enum kvt_prefetch_lead lead, uint32_t selectors)
{
    double own[KVT_PARTS] = {[KVT_PART_INDEX] = 100, [KVT_PART_ATTEND] = 210};

    model->rank_step(plain, &load, own);
    return kvt_ahead_exposed_ns(model, plain, lead, selectors, &load, shared, own);
}

START_TEST(what_runs_meanwhile_is_taken_off_the_link_time)
{
    const struct plain slow = {.byte_ns = 2};

    /* 600 x 2 = 1,200 ns, less 100 of the index scan. */
    ck_assert_double_eq(exposed(&exposed_model, &slow, KVT_LEAD_SCAN, 4), 1100);
    /* 1,310 of three of four selectors: 982.5. */
    ck_assert_double_eq(exposed(&exposed_model, &slow, KVT_LEAD_SELECTOR, 4), 1200 - 982.5);
    /* All of them, and the host's 50. */
    ck_assert_double_eq(exposed(&exposed_model, &slow, KVT_LEAD_STEP, 4), 0);
    const struct plain slower = {.byte_ns = 2.5};
    ck_assert_double_eq(exposed(&exposed_model, &slower, KVT_LEAD_STEP, 4), 1500 - 1360);
}
END_TEST

START_TEST(a_model_of_one_selector_has_nothing_before_it)
{
    const struct plain slow = {.byte_ns = 2};
    ck_assert_double_eq(exposed(&exposed_model, &slow, KVT_LEAD_SELECTOR, 1), 1200);
}
END_TEST

/* Of 800 ns that demanded rows take 600 are hidden, so that 760 of 1,360 are left. */
START_TEST(what_hides_demanded_rows_hides_no_others)
{
    const struct plain plain = {.byte_ns = 2, .share_hidden = 0.75};
    ck_assert_double_eq(exposed(&hiding_model, &plain, KVT_LEAD_STEP, 4), 1200 - 760);
}
END_TEST

START_TEST(without_rows_ahead_a_step_takes_what_it_took)
{
    const struct plain slow = {.byte_ns = 2};
    const struct kvt_rank_load demanded = {.wire_bytes = 400};
    double own[KVT_PARTS] = {[KVT_PART_FETCH] = 800};

    for (int l = 0; l < KVT_LEADS; l++)
        ck_assert_double_eq(kvt_ahead_exposed_ns(&exposed_model, &slow, (enum kvt_prefetch_lead)l,
                                                 4, &demanded, shared, own),
                            0);
}
END_TEST

START_TEST(leads_have_the_names_that_scenarios_use)
{
    ck_assert_str_eq(kvt_prefetch_lead_name(KVT_LEAD_SCAN), "scan");
    ck_assert_str_eq(kvt_prefetch_lead_name(KVT_LEAD_SELECTOR), "selector");
    ck_assert_str_eq(kvt_prefetch_lead_name(KVT_LEAD_STEP), "step");
    ck_assert_str_eq(kvt_prefetch_lead_name(KVT_LEADS), "unknown");
}
END_TEST

extern const struct kvt_timing_model kvt_timing_roofline;

/* With no time to hide in, rows cost on the link what they cost on demand, whoever sent them. */
START_TEST(roofline_charges_rows_sent_ahead_as_if_they_were_demanded_in_one_piece)
{
    struct timing_bench bench;
    const double none[KVT_PARTS] = {0};
    double own[KVT_PARTS] = {0};

    timing_bench_make(&bench, &kvt_timing_roofline);
    timing_bench_param(&bench, "fetch_order")->number = _i;
    timing_bench_start(&bench);
    struct kvt_rank_load whole = timing_rank_load(&bench.llm, 32, 0.15), split = whole;
    double whole_ns = kvt_timing_roofline.link_ns(bench.state, &whole);
    ck_assert_double_ge(whole_ns, 1e3 * timing_rank_part_us(&bench, &whole, KVT_PART_FETCH));

    split.missed_rows /= 4;
    split.missed_layer_rows /= 4;
    split.leader_layer_rows /= 4;
    split.wire_bytes /= 4;
    split.granules /= 4;
    split.calls_with_misses = 0;
    split.ahead = (struct kvt_ahead_load){.rows = whole.missed_rows * 0.75,
                                          .layer_rows = whole.missed_layer_rows * 0.75,
                                          .wire_bytes = whole.wire_bytes * 0.75,
                                          .granules = whole.granules * 0.75,
                                          .calls = whole.calls_with_misses};
    own[KVT_PART_FETCH] = kvt_timing_roofline.link_ns(bench.state, &split);
    double ahead_ns = kvt_ahead_exposed_ns(&kvt_timing_roofline, bench.state, KVT_LEAD_STEP, 21,
                                           &split, none, own);
    timing_assert_near(own[KVT_PART_FETCH] + ahead_ns, whole_ns, 1e-9);
}
END_TEST

/* Of a page of `rows` rows, row i's two parts are as far apart as the layout has them; a page
 * begins at any byte of a granule. */
static double apart_by_counting(uint32_t rows, uint32_t first_bytes, uint32_t rest_bytes)
{
    double apart = 0;

    for (uint32_t i = 0; i < rows; i++) {
        uint32_t first_at = i * first_bytes, rest_at = rows * first_bytes + i * rest_bytes;
        double distance = rest_at - first_at;
        apart += distance < KVT_GRANULE_BYTES ? distance / KVT_GRANULE_BYTES : 1;
    }
    return apart / rows;
}

START_TEST(planes_of_a_page_are_apart_as_counted_row_by_row)
{
    static const struct {
        uint32_t first_bytes, rest_bytes; /* of a row of the whole store */
    } rows[] = {{144, 432},  {288, 288},   {432, 144}, {576, 1728},
                {864, 1440}, {2000, 6000}, {9, 2999}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double bytes = rows[i].first_bytes + rows[i].rest_bytes;
        double found = kvt_planes_apart_share(64 * bytes, rows[i].first_bytes / bytes);
        double counted = apart_by_counting(64, rows[i].first_bytes, rows[i].rest_bytes);
        ck_assert_double_eq_tol(found, counted, 0.02);
    }
    /* A fifth of 576 B, by hand: 7,372.8 to 29,491.2 B apart, in the middle 18,432 of 65,536. */
    ck_assert_double_eq_tol(kvt_planes_apart_share(64 * 576, 0.2), 18432.0 / 65536, 1e-12);
    ck_assert_double_eq(kvt_planes_apart_share(1e9, 0.5), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("crossing");

    TCase *time = tcase_create("time");
    tcase_add_test(time, what_runs_meanwhile_is_taken_off_the_link_time);
    tcase_add_test(time, a_model_of_one_selector_has_nothing_before_it);
    tcase_add_test(time, what_hides_demanded_rows_hides_no_others);
    tcase_add_test(time, without_rows_ahead_a_step_takes_what_it_took);
    tcase_add_test(time, leads_have_the_names_that_scenarios_use);
    tcase_add_loop_test(
        time, roofline_charges_rows_sent_ahead_as_if_they_were_demanded_in_one_piece, 0, 2);
    suite_add_tcase(suite, time);
    TCase *planes = tcase_create("planes");
    tcase_add_test(planes, planes_of_a_page_are_apart_as_counted_row_by_row);
    suite_add_tcase(suite, planes);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
