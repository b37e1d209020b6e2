/* test_timing_paper.c -- the paper's step times, and what holds of every timing model. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/timing.h"
#include "support/plugin_params.h"
#include "support/timing_bench.h"

extern const struct kvt_timing_model kvt_timing_roofline;
extern const struct kvt_timing_model kvt_timing_paper;

static const struct kvt_timing_model *const models[] = {&kvt_timing_roofline, &kvt_timing_paper};

static double sum(const double parts[KVT_PARTS])
{
    double total = 0;
    for (size_t i = 0; i < KVT_PARTS; i++)
        total += parts[i];
    return total;
}

/* ---- paper ------------------------------------------------------------------ */

/* Mean TPOT of Table 2 at its mean active requests. A hundred ranks' worth of
 * requests at once, as requests come whole and the rank's part is linear. */
START_TEST(the_paper_profile_gives_table_2)
{
    static const struct {
        const char *residency;
        uint32_t requests_x100, active;
        double miss, tpot_ms;
    } rows[] = {
        {"hisparse", 3027, 121, 0.142, 50.3},
        {"hisparse", 4762, 190, 0.142, 58.0},
        {"adaptive", 3140, 126, 0.1236, 46.6}, /* coverage .064: (1 - c) u(2 / (1 - c)) */
        {"adaptive", 5040, 202, 0.142, 54.4},
    };
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_paper);
    bench.env.residency = rows[_i].residency;
    timing_bench_start(&bench);

    double group[KVT_PARTS] = {0}, rank[KVT_PARTS] = {0};
    struct kvt_group_load active = timing_group_load(rows[_i].active, 4);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, rows[_i].requests_x100, rows[_i].miss);
    bench.model->group_step(bench.state, &active, group);
    bench.model->rank_step(bench.state, &load, rank);
    double step_ms = (sum(group) + sum(rank) / 100) / 1e6;
    ck_assert_msg(fabs(step_ms - rows[_i].tpot_ms) <= 0.3, "%.2f ms", step_ms);
}
END_TEST

START_TEST(a_missed_selection_of_glm_costs_2437_bytes_at_49_4_gb_per_s)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_paper);
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 1, 1.0);

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 43008 * 2436.57 / 49.4e3,
                       1e-6);
}
END_TEST

START_TEST(the_paper_profile_refuses_other_policies_in_these_words)
{
    static const char *const others[] = {"resident", "vllm-hybrid", "hisparse2", ""};
    struct timing_bench bench;
    struct kvt_error err = {0};
    timing_bench_make(&bench, &kvt_timing_paper);
    bench.env.residency = others[_i];

    ck_assert_int_eq(timing_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_str_eq(err.message,
                     "profile \"paper\" holds constants for hisparse, adaptive only; model "
                     "\"roofline\" takes any (timing.model=roofline)");
}
END_TEST

START_TEST(the_paper_profile_refuses_other_models)
{
    struct timing_bench bench;
    struct kvt_error err = {0};
    timing_bench_make(&bench, &kvt_timing_paper);
    bench.llm.name = "other-57";
    bench.llm.store_count = 20;

    ck_assert_int_eq(timing_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "78 payload layers in 21 stores"));
    ck_assert_ptr_nonnull(strstr(err.message, "\"other-57\" has 74 in 20"));
}
END_TEST

START_TEST(the_paper_profile_refuses_ranks_of_several_gpus)
{
    struct timing_bench bench;
    struct kvt_error err = {0};
    timing_bench_make(&bench, &kvt_timing_paper);
    bench.env.tp = 8;

    ck_assert_int_eq(timing_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "tp 8"));
}
END_TEST

/* ---- every model --------------------------------------------------------------- */

enum {
    PROBES = 4,
    PROBE_VALUES = PROBES * 2 * 2 * KVT_PARTS
};

/* Every part of loads light, usual, just beyond a graph and heavy, in a replica of one
 * GPU and in one of eight short of DRAM, under both policies, one of which speculates. */
static void probe(struct timing_bench *bench, double out[PROBE_VALUES])
{
    static const char *const policies[] = {"hisparse", "adaptive"};
    static const struct kvt_drafter drafter = {.layers = 6, .kv_heads = 8, .weight_bytes = 4.9e9};
    static const uint32_t requests[PROBES] = {1, 40, 1025, 20000};
    double *parts = out;
    memset(out, 0, PROBE_VALUES * sizeof out[0]);
    for (size_t variant = 0; variant < 4; variant++) {
        bool is_wide = variant >= 2 && bench->model == &kvt_timing_roofline;
        bool is_drafting = variant % 2 == 1;
        bench->env.residency = policies[variant % 2];
        bench->env.speculation = is_drafting ? "dflash2" : "none";
        bench->env.drafter = is_drafting ? &drafter : NULL;
        bench->env.draft_passes = is_drafting;
        bench->env.tp = is_wide ? 8 : 1;
        bench->env.dram_bytes_per_s = is_wide ? UINT64_C(50000000000) : 0;
        timing_bench_start(bench);
        for (size_t i = 0; i < PROBES; i++, parts += KVT_PARTS) {
            struct kvt_group_load group = timing_group_load(4 * requests[i], 4);
            struct kvt_rank_load rank = timing_rank_load(&bench->llm, requests[i], 0.2);
            rank.backup_bytes = UINT64_C(100000) * requests[i];
            if (is_drafting) {
                rank.queries *= 4;
                rank.draft_tokens = group.draft_tokens = 3 * requests[i];
            }
            bench->model->group_step(bench->state, &group, parts);
            bench->model->rank_step(bench->state, &rank, parts);
        }
    }
}

static bool differ(const double a[PROBE_VALUES], const double b[PROBE_VALUES])
{
    for (size_t i = 0; i < PROBE_VALUES; i++) {
        if (a[i] != b[i])
            return true;
    }
    return false;
}

START_TEST(every_parameter_changes_a_step)
{
    const struct kvt_timing_model *model = models[_i];
    for (size_t i = 0; i < model->info.param_count; i++) {
        struct timing_bench bench;
        double before[PROBE_VALUES], after[PROBE_VALUES];
        timing_bench_make(&bench, model);
        probe(&bench, before);
        support_change_param(&model->info.params[i], &bench.values[i]);
        probe(&bench, after);
        ck_assert_msg(differ(before, after), "%s.%s changes nothing", model->info.name,
                      model->info.params[i].name);
    }
}
END_TEST

START_TEST(every_parameter_says_what_it_is)
{
    const struct kvt_plugin_info *info = &models[_i]->info;
    ck_assert_uint_eq(info->abi, KVT_ABI_VERSION);
    ck_assert_uint_eq(info->struct_bytes, sizeof(struct kvt_timing_model));
    for (size_t i = 0; i < info->param_count; i++) {
        const struct kvt_param_spec *spec = &info->params[i];
        ck_assert_msg(spec->help[strlen(spec->help) - 1] == '.', "%s: %s", spec->name, spec->help);
        if (spec->type != KVT_PARAM_REAL)
            continue;
        ck_assert_double_ge(spec->default_number, spec->minimum);
        ck_assert_double_le(spec->default_number, spec->maximum);
    }
}
END_TEST

START_TEST(an_empty_load_takes_no_time)
{
    struct timing_bench bench;
    timing_bench_make(&bench, models[_i]);
    timing_bench_start(&bench);
    struct kvt_rank_load rank = {0};
    struct kvt_group_load group = {.ranks = 4};
    double parts[KVT_PARTS] = {0};
    bench.model->group_step(bench.state, &group, parts);
    bench.model->rank_step(bench.state, &rank, parts);

    for (size_t i = 0; i < KVT_PARTS; i++)
        ck_assert_double_eq(parts[i], 0);
}
END_TEST

START_TEST(requests_that_select_nothing_take_finite_time)
{
    struct timing_bench bench;
    timing_bench_make(&bench, models[_i]);
    for (int order = 0; order < 2; order++) {
        if (bench.model == &kvt_timing_roofline)
            timing_bench_param(&bench, "fetch_order")->number = order;
        timing_bench_start(&bench);
        struct kvt_rank_load rank = {.requests = 1, .queries = 1};
        double parts[KVT_PARTS] = {0};
        bench.model->rank_step(bench.state, &rank, parts);
        ck_assert(isfinite(sum(parts)));
        ck_assert_double_eq(parts[KVT_PART_FETCH], 0);
    }
}
END_TEST

START_TEST(parts_are_added_to)
{
    struct timing_bench bench;
    timing_bench_make(&bench, models[_i]);
    timing_bench_start(&bench);
    struct kvt_group_load group = timing_group_load(40, 4);
    struct kvt_rank_load rank = timing_rank_load(&bench.llm, 10, 0.142);
    double once[KVT_PARTS] = {0}, twice[KVT_PARTS] = {0};
    bench.model->group_step(bench.state, &group, once);
    bench.model->rank_step(bench.state, &rank, once);
    for (int i = 0; i < 2; i++) {
        bench.model->group_step(bench.state, &group, twice);
        bench.model->rank_step(bench.state, &rank, twice);
    }

    ck_assert_double_gt(sum(once), 0);
    for (size_t i = 0; i < KVT_PARTS; i++)
        timing_assert_near(twice[i], 2 * once[i], 1e-12);
}
END_TEST

/* Doubles one number of the load; false past the last. */
static bool double_field(struct kvt_rank_load *load, size_t field)
{
    double *const reals[] = {
        &load->attended_layer_rows, &load->looked_up_rows,
        &load->wire_bytes,          &load->granules,
        &load->missed_rows,         &load->calls_with_misses,
        &load->extra_waves,         &load->extra_wave_layers,
    };
    uint64_t *const counts[] = {&load->context_rows, &load->backup_bytes, &load->import_bytes,
                                &load->fill_bytes};
    const size_t real_count = sizeof reals / sizeof reals[0];
    const size_t count_count = sizeof counts / sizeof counts[0];
    if (field < real_count)
        *reals[field] *= 2;
    else if (field < real_count + count_count)
        *counts[field - real_count] *= 2;
    else if (field == real_count + count_count)
        load->queries *= 2;
    else if (field == real_count + count_count + 1)
        load->missed_layer_rows *= 2, load->leader_layer_rows *= 2;
    else
        return false;
    return true;
}

START_TEST(more_work_never_takes_less_time)
{
    struct timing_bench bench;
    timing_bench_make(&bench, models[_i]);
    bench.env.dram_bytes_per_s = UINT64_C(200000000000);
    timing_bench_start(&bench);
    for (uint32_t requests = 1; requests <= 512; requests *= 2) {
        struct kvt_rank_load load = timing_rank_load(&bench.llm, requests, 0.142);
        load.backup_bytes = load.import_bytes = load.fill_bytes = UINT64_C(1) << 20;
        load.extra_waves = 3;
        load.extra_wave_layers = 6;
        double before[KVT_PARTS] = {0};
        bench.model->rank_step(bench.state, &load, before);
        struct kvt_rank_load more = load;
        for (size_t field = 0; double_field(&more, field); field++, more = load) {
            double after[KVT_PARTS] = {0};
            bench.model->rank_step(bench.state, &more, after);
            ck_assert_msg(sum(after) >= sum(before), "%u requests, field %zu", requests, field);
        }
        double few[KVT_PARTS] = {0}, many[KVT_PARTS] = {0};
        struct kvt_group_load group = timing_group_load(4 * requests, 4);
        bench.model->group_step(bench.state, &group, few);
        group = timing_group_load(8 * requests, 4);
        bench.model->group_step(bench.state, &group, many);
        ck_assert_double_ge(sum(many), sum(few));
    }
}
END_TEST

START_TEST(a_copy_of_the_state_is_the_model)
{
    struct timing_bench bench, other;
    timing_bench_make(&bench, models[_i]);
    timing_bench_start(&bench);
    other = bench;
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 10, 0.142);
    double first[KVT_PARTS] = {0}, second[KVT_PARTS] = {0};
    bench.model->rank_step(bench.state, &load, first);
    memset(&bench, 0xa5, sizeof bench);
    other.model->rank_step(other.state, &load, second);

    ck_assert_mem_eq(first, second, sizeof first);
}
END_TEST

START_TEST(parts_and_bases_have_names_of_their_own)
{
    for (int i = 0; i < KVT_PARTS; i++) {
        ck_assert_str_ne(kvt_step_part_name((enum kvt_step_part)i), "unknown");
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(kvt_step_part_name((enum kvt_step_part)i),
                             kvt_step_part_name((enum kvt_step_part)j));
    }
    ck_assert_str_eq(kvt_basis_name(KVT_BASIS_EXACT), "exact");
    ck_assert_str_eq(kvt_basis_name(kvt_timing_paper.basis), "fitted-to-paper");
    ck_assert_str_eq(kvt_basis_name(kvt_timing_roofline.basis), "datasheet");
}
END_TEST

static void add_for_every_model(TCase *tcase, const TTest *test)
{
    tcase_add_loop_test(tcase, test, 0, sizeof models / sizeof models[0]);
}

static Suite *timing_paper_suite(void)
{
    Suite *suite = suite_create("timing_paper");

    TCase *paper = tcase_create("paper");
    tcase_add_loop_test(paper, the_paper_profile_gives_table_2, 0, 4);
    tcase_add_test(paper, a_missed_selection_of_glm_costs_2437_bytes_at_49_4_gb_per_s);
    tcase_add_loop_test(paper, the_paper_profile_refuses_other_policies_in_these_words, 0, 4);
    tcase_add_test(paper, the_paper_profile_refuses_other_models);
    tcase_add_test(paper, the_paper_profile_refuses_ranks_of_several_gpus);
    suite_add_tcase(suite, paper);

    TCase *every = tcase_create("every_model");
    add_for_every_model(every, every_parameter_changes_a_step);
    add_for_every_model(every, every_parameter_says_what_it_is);
    add_for_every_model(every, an_empty_load_takes_no_time);
    add_for_every_model(every, requests_that_select_nothing_take_finite_time);
    add_for_every_model(every, parts_are_added_to);
    add_for_every_model(every, more_work_never_takes_less_time);
    add_for_every_model(every, a_copy_of_the_state_is_the_model);
    tcase_add_test(every, parts_and_bases_have_names_of_their_own);
    suite_add_tcase(suite, every);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(timing_paper_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
