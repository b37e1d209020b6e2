/* test_timing_profile.c -- step times from a profile: its file, sums by hand, ranges, what it
 * lacks. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/profile.h"
#include "support/timing_bench.h"
#include "support/written.h"

extern const struct kvt_timing_model kvt_timing_profile;
extern const struct kvt_timing_model kvt_timing_roofline;

#define HEAD "{\"schema\": \"kvtide/profile/1\", \"name\": \"p\", \"summary\": \"made up\", "
#define WHOLE                                                                                      \
    HEAD "\"setting\": {\"model\": \"glm-5.3\", \"hardware\": \"h200\", \"tp\": 1}, "              \
         "\"families\": ["                                                                         \
         "{\"name\": \"host\", \"limits_ns\": [{\"step\": 100000, \"requests\": 200}]},"           \
         "{\"name\": \"dense\", \"limits_ns\": [{\"step\": 5000000}, {\"queries\": 100000}],"      \
         " \"range\": {\"queries\": [1, 64]}},"                                                    \
         "{\"name\": \"index\", \"limits_ns\": [{\"step\": 1000, \"scored_rows\": 0.5}]},"         \
         "{\"name\": \"resolve\", \"limits_ns\": [{\"looked_up_rows\": 0.25}]},"                   \
         "{\"name\": \"fetch\", \"limits_ns\": [{\"wire_bytes\": 0.02, \"inbound_bytes\": 0.02,"   \
         " \"outbound_bytes\": 0.002}, {\"granules\": 30}, {\"node_bytes\": 0.0078125},"           \
         " {\"fetches\": 7000}], \"hidden_by\": {\"attend\": 0.5}},"                               \
         "{\"name\": \"attend\", \"limits_ns\": [{\"attended_layer_rows\": 0.125}],"               \
         " \"range\": {\"requests\": [1, 40]}},"                                                   \
         "{\"name\": \"draft\", \"limits_ns\": [{\"step\": 900, \"draft_tokens\": 10}]},"          \
         "{\"name\": \"sampling\", \"limits_ns\": []}]}"

static void make(struct timing_bench *bench, const char *text)
{
    timing_bench_make(bench, &kvt_timing_profile);
    timing_bench_param(bench, "profile")->text = written("profile.json", text);
}

static void start(struct timing_bench *bench, const char *text)
{
    make(bench, text);
    timing_bench_start(bench);
}

static double group_part_us(const struct timing_bench *bench, const struct kvt_group_load *load,
                            enum kvt_step_part part)
{
    double parts[KVT_PARTS] = {0};
    bench->model->group_step(bench->state, load, parts);
    return parts[part] / 1e3;
}

/* 30 requests on the busiest of four ranks: 100 us + 30 x 0.2 us, and 5 ms while 100 us a query
 * are less. */
START_TEST(what_ranks_share_is_linear_in_the_busiest_of_them)
{
    struct timing_bench bench;
    start(&bench, WHOLE);
    const struct kvt_group_load light = timing_group_load(120, 4),
                                heavy = timing_group_load(240, 4);

    timing_assert_near(group_part_us(&bench, &light, KVT_PART_HOST), 106, 1e-12);
    timing_assert_near(group_part_us(&bench, &light, KVT_PART_DENSE), 5000, 1e-12);
    timing_assert_near(group_part_us(&bench, &heavy, KVT_PART_DENSE), 6000, 1e-12);
    ck_assert_double_eq(group_part_us(&bench, &light, KVT_PART_SAMPLE), 0);
}
END_TEST

/* 106 us as above, 250 of the scheduler, and 2.5 for each of 30 requests. */
START_TEST(an_engines_scheduler_is_added_to_host_as_the_scenario_states_it)
{
    struct timing_bench bench;
    make(&bench, WHOLE);
    timing_bench_param(&bench, "host_us_per_step")->number = 250;
    timing_bench_param(&bench, "host_us_per_request")->number = 2.5;
    timing_bench_start(&bench);
    const struct kvt_group_load load = timing_group_load(120, 4), nobody = {.ranks = 4};

    timing_assert_near(group_part_us(&bench, &load, KVT_PART_HOST), 106 + 250 + 75, 1e-12);
    timing_assert_near(group_part_us(&bench, &load, KVT_PART_DENSE), 5000, 1e-12);
    ck_assert_double_eq(group_part_us(&bench, &nobody, KVT_PART_HOST), 0);
}
END_TEST

/* 10 requests of 100,032 tokens, 21 selectors, 2,048 rows each. */
START_TEST(a_ranks_families_are_sums_over_its_load)
{
    struct timing_bench bench;
    start(&bench, WHOLE);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 10, 0);
    const double selected = 10.0 * 21 * 2048, layer_rows = 10.0 * 78 * 2048;

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_INDEX), 1 + 1000.32 * .5, 1e-12);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_RESOLVE), selected / 4e3, 1e-12);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_ATTEND), layer_rows / 8e3,
                       1e-12);
    ck_assert_double_eq(timing_rank_part_us(&bench, &load, KVT_PART_DRAFT), 0);
    load.queries = 40; /* each scores the context of its request */
    load.draft_tokens = 30;
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_INDEX), 1 + 4 * 1000.32 * .5,
                       1e-12);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_DRAFT), 1.2, 1e-12);
}
END_TEST

/* Without attention, so that nothing hides a fetch. */
START_TEST(a_fetch_is_the_slowest_of_link_granules_and_dram)
{
    struct timing_bench bench;
    start(&bench, WHOLE);
    struct kvt_rank_load load = {
        .requests = 1, .queries = 1, .wire_bytes = 1e6, .calls_with_misses = 1};

    /* Four GPUs gather: 4e6 B of the node at 0.0078125 ns each are 31.25 us, the link takes 20. */
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 31.25, 1e-12);
    bench.env.ranks_per_link_node = 1;
    timing_bench_start(&bench);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 20, 1e-12);
    load.granules = 1000;
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 30, 1e-12);
    load.calls_with_misses = 100; /* 21 selectors launch, however many calls miss */
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 147, 1e-12);
}
END_TEST

/* Dense 5,000 us and index 1 beside the fetch's 20, which meets 20 of 5,021 of the
 * traffic, but no more of either way than it moves itself. */
START_TEST(a_fetch_meets_its_share_of_other_traffic)
{
    struct timing_bench bench;
    make(&bench, WHOLE);
    bench.env.ranks_per_link_node = 1;
    timing_bench_start(&bench);
    struct kvt_rank_load load = {
        .requests = 1, .queries = 1, .wire_bytes = 1e6, .calls_with_misses = 1};

    const double share = 20.0 / 5021;
    load.fill_bytes = 250000;
    load.backup_bytes = 500000;
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH),
                       20 + (5 + 1 / (1 + .25 * share)) * share, 1e-12);
    load.import_bytes = UINT64_C(1) << 40;
    load.backup_bytes = UINT64_C(1) << 40;
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 20 + 20 + 1, 1e-12);
}
END_TEST

/* A fetch of 20 us beside 10 of attention, which hide 5 of it; and 1 us a drafted token. */
#define HIDDEN_FETCH                                                                               \
    HEAD "\"setting\": {}, \"families\": ["                                                        \
         "{\"name\": \"host\", \"limits_ns\": []}, {\"name\": \"dense\", \"limits_ns\": []},"      \
         "{\"name\": \"index\", \"limits_ns\": []}, {\"name\": \"resolve\", \"limits_ns\": []},"   \
         "{\"name\": \"attend\", \"limits_ns\": [{\"attended_layer_rows\": 0.125}]},"              \
         "{\"name\": \"draft\", \"limits_ns\": [{\"draft_tokens\": 1000}]},"                       \
         "{\"name\": \"sampling\", \"limits_ns\": []},"                                            \
         "{\"name\": \"fetch\", \"limits_ns\": [{\"wire_bytes\": 0.02, \"inbound_bytes\": 0.02}]," \
         " \"hidden_by\": {\"attend\": 0.5}, \"range\": {\"inbound_bytes\": [0, 100000]}}]}"

static const struct {
    bool leader_first;
    uint32_t draft_tokens;
    double share, exposed_us; /* of the step that is its fetch; of that, without traffic */
} steps_with_traffic[] = {
    {true, 0, 20.0 / 25, 15}, {true, 5, 20.0 / 30, 15}, {false, 0, 20.0 / 30, 20}};

/* 500,000 B beside the step, of which each that is met takes .02 ns. */
START_TEST(the_less_of_a_step_is_waited_for_the_more_of_its_traffic_a_fetch_meets)
{
    struct timing_bench bench;
    struct kvt_outside outside;
    double met = steps_with_traffic[_i].share * 500000;
    make(&bench, HIDDEN_FETCH);
    timing_bench_param(&bench, "fetch_order")->number = steps_with_traffic[_i].leader_first;
    timing_bench_start(&bench);
    const struct kvt_rank_load load = {.requests = 1,
                                       .queries = 1,
                                       .wire_bytes = 1e6,
                                       .fill_bytes = 500000,
                                       .draft_tokens = steps_with_traffic[_i].draft_tokens,
                                       .calls_with_misses = 1,
                                       .attended_layer_rows = 80000};

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH),
                       steps_with_traffic[_i].exposed_us + met * 2e-5, 1e-12);
    ck_assert(bench.model->find_outside(bench.state, &load, &outside));
    ck_assert_str_eq(outside.feature, "inbound_bytes");
    timing_assert_near(outside.value, met, 1e-12);
}
END_TEST

/* A quarter of 160 B in and of 320 B out, which slows 120 B of the fetch among 160 that come in;
 * on two GPUs. */
START_TEST(what_a_fetch_meets_is_of_the_nodes_bytes)
{
    double met[KVT_FEATURES];
    double features[KVT_FEATURES] = {[KVT_FEATURE_WIRE_BYTES] = 120,
                                     [KVT_FEATURE_INBOUND_BYTES] = 160,
                                     [KVT_FEATURE_OUTBOUND_BYTES] = 320,
                                     [KVT_FEATURE_NODE_BYTES] = 2 * (120 + 160 + 320),
                                     [KVT_FEATURE_GATHERING_GPUS] = 2};

    kvt_profile_meet(features, 0.25, met);
    ck_assert_double_eq(met[KVT_FEATURE_WIRE_BYTES], 120);
    ck_assert_double_eq(met[KVT_FEATURE_INBOUND_BYTES], 40);
    ck_assert_double_eq(met[KVT_FEATURE_OUTBOUND_BYTES], 60);
    ck_assert_double_eq(met[KVT_FEATURE_NODE_BYTES], 2 * (120 + 40 + 60));
    features[KVT_FEATURE_GATHERING_GPUS] = 0; /* not known: the node's bytes as they were counted */
    kvt_profile_meet(features, 0.25, met);
    ck_assert_double_eq(met[KVT_FEATURE_NODE_BYTES], 1200);
}
END_TEST

/* Of a profile that knows no time, whose share of a step is 0 / 0. */
START_TEST(a_fetch_without_a_step_meets_all_that_is_beside_it)
{
    static const struct kvt_profile nothing;
    double met[KVT_FEATURES];
    const double features[KVT_FEATURES] = {[KVT_FEATURE_WIRE_BYTES] = 120,
                                           [KVT_FEATURE_INBOUND_BYTES] = 40,
                                           [KVT_FEATURE_OUTBOUND_BYTES] = 80};

    kvt_profile_meet_predicted(&nothing, true, features, met);
    ck_assert_double_eq(met[KVT_FEATURE_INBOUND_BYTES], 40);
    ck_assert_double_eq(met[KVT_FEATURE_OUTBOUND_BYTES], 60);
}
END_TEST

START_TEST(traffic_of_a_load_is_all_that_is_beside_its_step)
{
    const struct kvt_profile_setting setting = {.selectors = 16, .gathering_gpus = 2};
    const struct kvt_rank_load load = {
        .wire_bytes = 100, .import_bytes = 200, .fill_bytes = 30, .backup_bytes = 400};
    double features[KVT_FEATURES];

    kvt_profile_rank_features(&setting, &load, features);
    ck_assert_double_eq(features[KVT_FEATURE_INBOUND_BYTES], 230);
    ck_assert_double_eq(features[KVT_FEATURE_OUTBOUND_BYTES], 400);
    ck_assert_double_eq(features[KVT_FEATURE_NODE_BYTES], 2 * (100 + 230 + 400));
}
END_TEST

static const struct {
    uint64_t context_rows;
    double granules, blocks, far;
} contexts[] = {{1 << 21, 800, 800, 400},       /* 32 GiB, of which 16 are near */
                {1 << 21, 20000, 16384, 10000}, /* more granules than blocks */
                {1 << 20, 800, 800, 0},         /* 16 GiB: all of them */
                {1 << 15, 800, 256, 0}};

/* Rows of 1 KiB in 16 selectors' stores. */
START_TEST(translations_of_a_load_hang_on_what_its_contexts_lie_in)
{
    const struct kvt_profile_setting setting = {.selectors = 16, .gathering_gpus = 1};
    const struct kvt_rank_load load = {.context_rows = contexts[_i].context_rows,
                                       .missed_rows = 1000,
                                       .wire_bytes = 1024000,
                                       .granules = contexts[_i].granules};
    double features[KVT_FEATURES];

    kvt_profile_rank_features(&setting, &load, features);
    ck_assert_double_eq(features[KVT_FEATURE_GRANULES], contexts[_i].granules);
    ck_assert_double_eq(features[KVT_FEATURE_GRANULE_BLOCKS], contexts[_i].blocks);
    ck_assert_double_eq(features[KVT_FEATURE_FAR_GRANULES], contexts[_i].far);
}
END_TEST

START_TEST(what_attention_hides_of_a_fetch_is_not_waited_for)
{
    struct timing_bench bench;
    make(&bench, WHOLE);
    bench.env.ranks_per_link_node = 1;
    timing_bench_start(&bench);
    struct kvt_rank_load load = {.requests = 1,
                                 .queries = 1,
                                 .wire_bytes = 1e6,
                                 .calls_with_misses = 1,
                                 .attended_layer_rows = 80000};

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 20 - 5, 1e-12);
    load.attended_layer_rows *= 10;
    ck_assert_double_eq(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 0);
}
END_TEST

/* 20 us of which 5 are hidden, or what is exposed in any case: .0125 ns a byte and 7 us a launch;
 * and nothing is hidden of whole stores. */
#define EXPOSED_FETCH                                                                              \
    HEAD "\"setting\": {}, \"families\": ["                                                        \
         "{\"name\": \"attend\", \"limits_ns\": [{\"attended_layer_rows\": 0.125}]},"              \
         "{\"name\": \"fetch\", \"limits_ns\": [{\"wire_bytes\": 0.02}], \"hidden_by\": "          \
         "{\"attend\": 0.5}, \"exposed_ns\": {\"wire_bytes\": 0.0125, \"fetches\": 7000}}]}"

START_TEST(what_is_exposed_in_any_case_is_waited_for)
{
    struct timing_bench bench;
    make(&bench, EXPOSED_FETCH);
    timing_bench_param(&bench, "lacking")->number = 1;
    timing_bench_start(&bench);
    struct kvt_rank_load load = {.requests = 1,
                                 .queries = 1,
                                 .wire_bytes = 1e6,
                                 .calls_with_misses = 1,
                                 .attended_layer_rows = 8000};

    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 12.5 + 7, 1e-12);
    load.wire_bytes = 4e6;
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 80 - 0.5, 1e-12);
    timing_bench_param(&bench, "fetch_order")->number = 0; /* group */
    timing_bench_start(&bench);
    timing_assert_near(timing_rank_part_us(&bench, &load, KVT_PART_FETCH), 80, 1e-12);
}
END_TEST

/* What they take was not measured. */
START_TEST(steps_whose_staging_takes_turns_are_out_of_range)
{
    struct timing_bench bench;
    make(&bench, WHOLE);
    bench.env.takes_turns = true;
    timing_bench_start(&bench);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 40, .1);

    ck_assert(!bench.model->in_range(bench.state, &load));
}
END_TEST

START_TEST(a_load_outside_what_was_measured_is_told)
{
    struct timing_bench bench;
    start(&bench, WHOLE);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 40, .1);

    ck_assert(bench.model->in_range(bench.state, &load));
    load.requests = 41;
    ck_assert(!bench.model->in_range(bench.state, &load));
    load.requests = 40;
    load.queries = 65;
    ck_assert(!bench.model->in_range(bench.state, &load));
}
END_TEST

#define HOST_ONLY                                                                                  \
    HEAD "\"setting\": {}, \"families\": [{\"name\": \"host\", \"limits_ns\": [{\"step\": 5}]}]}"

START_TEST(what_of_a_load_lies_outside_is_named)
{
    struct timing_bench bench;
    struct kvt_outside outside;
    start(&bench, WHOLE);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 40, .1);

    ck_assert(!bench.model->find_outside(bench.state, &load, &outside));
    load.requests = 41;
    ck_assert(bench.model->find_outside(bench.state, &load, &outside));
    ck_assert_str_eq(outside.feature, "requests");
    ck_assert_double_eq(outside.value, 41);
    ck_assert_double_le(outside.least, 40);
    ck_assert_double_eq(outside.most, 40);
    make(&bench, HOST_ONLY);
    timing_bench_param(&bench, "lacking")->number = 1;
    timing_bench_start(&bench);
    ck_assert(bench.model->find_outside(bench.state, &load, &outside));
    ck_assert_int_eq(outside.part, KVT_PART_DENSE);
    ck_assert_ptr_null(outside.feature);
}
END_TEST

START_TEST(families_that_it_lacks_are_refused_by_name)
{
    struct timing_bench bench;
    struct kvt_error err = {0};
    make(&bench, HOST_ONLY);

    ck_assert_int_eq(timing_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(
        strstr(err.message, "no family dense, index, resolve, fetch, attend, sampling, which"));
    bench.env.history_in_hbm = true; /* then nothing is resolved or fetched */
    ck_assert_int_eq(timing_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "no family dense, index, attend, sampling, which"));
}
END_TEST

/* Its own host, roofline's everything else; then it rests on data sheets, and no step is in range.
 */
START_TEST(families_that_it_lacks_are_rooflines_where_asked_for)
{
    struct timing_bench bench, sheet;
    make(&bench, HOST_ONLY);
    timing_bench_param(&bench, "lacking")->number = 1;
    timing_bench_start(&bench);
    timing_bench_make(&sheet, &kvt_timing_roofline);
    timing_bench_start(&sheet);
    const struct kvt_group_load group = timing_group_load(120, 4);
    struct kvt_rank_load load = timing_rank_load(&bench.llm, 30, .142);

    for (int p = 0; p < KVT_PARTS; p++) {
        enum kvt_step_part part = (enum kvt_step_part)p;
        double group_us = group_part_us(&sheet, &group, part);
        if (part == KVT_PART_HOST)
            group_us = .005;
        timing_assert_near(group_part_us(&bench, &group, part), group_us, 1e-12);
        timing_assert_near(timing_rank_part_us(&bench, &load, part),
                           timing_rank_part_us(&sheet, &load, part), 1e-12);
    }
    ck_assert_int_eq(bench.model->basis_of(bench.state), KVT_BASIS_DATASHEET);
    ck_assert(!bench.model->in_range(bench.state, &load));
    start(&bench, WHOLE);
    ck_assert_int_eq(bench.model->basis_of(bench.state), KVT_BASIS_PROFILE);
}
END_TEST

START_TEST(a_profile_is_refused_where_it_was_not_measured)
{
    struct timing_bench bench;
    struct kvt_error err = {0};
    make(&bench, WHOLE);
    bench.env.tp = 2;
    ck_assert_int_eq(timing_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "tp 1 and ep 0 (0: any); the pool has tp 2"));
    bench.env.tp = 1;
    bench.hardware.name = "h100";
    ck_assert_int_eq(timing_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "on hardware \"h200\"; the pool has \"h100\""));
    bench.llm.name = "glm-5";
    ck_assert_int_eq(timing_bench_try(&bench, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "for model \"glm-5.3\"; the scenario has \"glm-5\""));
}
END_TEST

/* Squaring's 1 - .96875^n against a loop of products. */
START_TEST(experts_are_touched_by_queries_of_replicas_that_share_them)
{
    struct timing_bench bench;
    timing_bench_make(&bench, &kvt_timing_profile);
    const struct kvt_profile_setting setting = kvt_profile_setting_of(&bench.env);
    const struct kvt_group_load load = timing_group_load(12, 4);
    double features[KVT_FEATURES], untouched = 1;

    kvt_profile_group_features(&setting, &load, features);
    for (int i = 0; i < 12; i++) /* ep 4: all four ranks meet */
        untouched *= 1 - 8 / 256.0;
    timing_assert_near(features[KVT_FEATURE_EXPERTS_SHARE], 1 - untouched, 1e-12);
}
END_TEST

#define FAMILIES(text) HEAD "\"setting\": {}, \"families\": [" text "]}"

static const struct {
    const char *text, *where, *words;
} refused[] = {
    {"", "", ""},
    {"{}", "#/schema", "missing"},
    {HEAD "\"setting\": {}}", "#/families", "missing"},
    {HEAD "\"families\": []}", "#/setting", "missing"},
    {HEAD "\"setting\": {}, \"families\": []}", "#", "families is empty"},
    {HEAD "\"setting\": {}, \"families\": [], \"more\": 1}", "#/more", "no such key"},
    {HEAD "\"setting\": {\"tp\": 0}, \"families\": []}", "#/setting/tp", "0"},
    {HEAD "\"setting\": {\"gpus\": 1}, \"families\": []}", "#/setting/gpus", "no such key"},
    {FAMILIES("{\"name\": \"hose\", \"limits_ns\": []}"), "#/families/0", "no such family"},
    {FAMILIES("{\"name\": \"host\"}"), "#/families/0/limits_ns", ""},
    {FAMILIES("{\"name\": \"host\", \"limits_ns\": []}, {\"name\": \"host\", \"limits_ns\": []}"),
     "#/families/1", "a second family"},
    {FAMILIES("{\"name\": \"host\", \"limits_ns\": [{}]}"), "#/families/0/limits_ns/0",
     "at least one feature"},
    {FAMILIES("{\"name\": \"host\", \"limits_ns\": [{\"steps\": 1}]}"), "#/families/0/limits_ns/0",
     "there are: step requests queries experts_share"},
    {FAMILIES("{\"name\": \"dense\", \"limits_ns\": [{\"wire_bytes\": 1}]}"),
     "#/families/0/limits_ns/0", "no such feature of what ranks share"},
    {FAMILIES("{\"name\": \"fetch\", \"limits_ns\": [{\"wire_bytes\": -1}]}"),
     "#/families/0/limits_ns/0/wire_bytes", "-1"},
    {FAMILIES("{\"name\": \"fetch\", \"limits_ns\": [{\"step\": 1}, {\"step\": 1}, {\"step\": 1}, "
              "{\"step\": 1}, {\"step\": 1}]}"),
     "#/families/0", "5 limits_ns"},
    {FAMILIES("{\"name\": \"attend\", \"limits_ns\": [], \"range\": {\"step\": [2, 1]}}"),
     "#/families/0/range", "step is no range"},
    {FAMILIES("{\"name\": \"attend\", \"limits_ns\": [], \"range\": {\"step\": 4}}"),
     "#/families/0/range", "step is no range"},
    {FAMILIES("{\"name\": \"attend\", \"limits_ns\": [], \"hidden_by\": {\"dense\": 1}}"),
     "#/families/0/hidden_by", "only \"fetch\""},
    {FAMILIES("{\"name\": \"index\", \"limits_ns\": [], \"exposed_ns\": {\"step\": 1}}"),
     "#/families/0/exposed_ns", "only \"fetch\""},
    {FAMILIES("{\"name\": \"fetch\", \"limits_ns\": [], \"exposed_ns\": {\"bytes\": 1}}"),
     "#/families/0/exposed_ns", "\"bytes\": no such feature"},
    {FAMILIES("{\"name\": \"fetch\", \"limits_ns\": [], \"exposed_ns\": {\"step\": 1}}"),
     "#/families/0/exposed_ns", "whose limits_ns are empty"},
    {FAMILIES("{\"name\": \"fetch\", \"limits_ns\": [{\"gathering_gpus\": 1}]}"),
     "#/families/0/limits_ns/0", "no time is linear in \"gathering_gpus\""},
    {FAMILIES("{\"name\": \"fetch\", \"limits_ns\": [], \"hidden_by\": {\"dense\": 2}}"),
     "#/families/0/hidden_by/dense", "2"},
    {FAMILIES("{\"name\": \"fetch\", \"limits_ns\": [], \"hidden_by\": {\"host\": 1}}"),
     "#/families/0/hidden_by", "there are: dense attend"},
    {FAMILIES("{\"name\": \"prefill\", \"limits_ns\": [{\"step\": 1}]}"), "#/families/0",
     "prefill is one limit"},
};

START_TEST(a_file_is_read_strictly)
{
    const char *path = written("profile.json", refused[_i].text);
    struct kvt_profile profile = {.tp = 77};
    struct kvt_error err = {0};
    char where[600];

    ck_assert_int_ne(kvt_profile_load(path, &profile, &err), KVT_OK);
    (void)snprintf(where, sizeof where, "%s%s", path, refused[_i].where);
    ck_assert_msg(strncmp(err.where, where, strlen(where)) == 0, "%s: %s", err.where, err.message);
    ck_assert_msg(strstr(err.message, refused[_i].words) != NULL, "%s: %s", err.where, err.message);
    ck_assert_uint_eq(profile.tp, 77);
}
END_TEST

START_TEST(each_feature_has_a_name_of_its_own)
{
    for (int f = 0; f < KVT_FEATURES; f++) {
        for (int g = 0; g < f; g++)
            ck_assert_str_ne(kvt_profile_feature_name((enum kvt_profile_feature)f),
                             kvt_profile_feature_name((enum kvt_profile_feature)g));
    }
    ck_assert_str_eq(kvt_profile_feature_name(KVT_FEATURES), "unknown");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timing_profile");
    TCase *steps = tcase_create("steps");
    TCase *file = tcase_create("file");

    tcase_add_checked_fixture(steps, written_folder_make, written_folder_remove);
    tcase_add_checked_fixture(file, written_folder_make, written_folder_remove);

    tcase_add_test(steps, what_ranks_share_is_linear_in_the_busiest_of_them);
    tcase_add_test(steps, an_engines_scheduler_is_added_to_host_as_the_scenario_states_it);
    tcase_add_test(steps, a_ranks_families_are_sums_over_its_load);
    tcase_add_test(steps, a_fetch_is_the_slowest_of_link_granules_and_dram);
    tcase_add_test(steps, a_fetch_meets_its_share_of_other_traffic);
    tcase_add_loop_test(steps,
                        the_less_of_a_step_is_waited_for_the_more_of_its_traffic_a_fetch_meets, 0,
                        sizeof steps_with_traffic / sizeof steps_with_traffic[0]);
    tcase_add_test(steps, what_a_fetch_meets_is_of_the_nodes_bytes);
    tcase_add_test(steps, a_fetch_without_a_step_meets_all_that_is_beside_it);
    tcase_add_test(steps, traffic_of_a_load_is_all_that_is_beside_its_step);
    tcase_add_loop_test(steps, translations_of_a_load_hang_on_what_its_contexts_lie_in, 0,
                        sizeof contexts / sizeof contexts[0]);
    tcase_add_test(steps, what_attention_hides_of_a_fetch_is_not_waited_for);
    tcase_add_test(steps, what_is_exposed_in_any_case_is_waited_for);
    tcase_add_test(steps, steps_whose_staging_takes_turns_are_out_of_range);
    tcase_add_test(steps, a_load_outside_what_was_measured_is_told);
    tcase_add_test(steps, what_of_a_load_lies_outside_is_named);
    tcase_add_test(steps, families_that_it_lacks_are_refused_by_name);
    tcase_add_test(steps, families_that_it_lacks_are_rooflines_where_asked_for);
    tcase_add_test(steps, a_profile_is_refused_where_it_was_not_measured);
    tcase_add_test(steps, experts_are_touched_by_queries_of_replicas_that_share_them);
    tcase_add_loop_test(file, a_file_is_read_strictly, 0, sizeof refused / sizeof refused[0]);
    tcase_add_test(file, each_feature_has_a_name_of_its_own);
    suite_add_tcase(suite, steps);
    suite_add_tcase(suite, file);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
