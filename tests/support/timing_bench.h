/* timing_bench.h -- timing models stood up without a scenario, and loads to time. */
#ifndef KVT_TESTS_TIMING_BENCH_H
#define KVT_TESTS_TIMING_BENCH_H

#include "kvt/timing.h"
#include "plugin_params.h"

/* A model stood up with its defaults, which a test may change before start(). */
struct timing_bench {
    const struct kvt_timing_model *model;
    struct kvt_param_value values[SUPPORT_PARAMS_MAX];
    struct kvt_llm llm;
    struct kvt_hardware hardware;
    struct kvt_timing_env env;
    uint64_t state[4096];
};

/* GLM-5.3 on four H200s that share its experts, under hisparse. */
void timing_bench_make(struct timing_bench *bench, const struct kvt_timing_model *model);

/* The value of a parameter that the model must have. */
struct kvt_param_value *timing_bench_param(struct timing_bench *bench, const char *name);

/* init(), as often as wanted; _start() ends the test when the model refuses. */
kvt_status timing_bench_try(struct timing_bench *bench, struct kvt_error *err);
void timing_bench_start(struct timing_bench *bench);

/* `requests` at 100,032 tokens, each selecting 2,048 rows in every selector, of
 * which the share `miss` crosses the link. */
struct kvt_rank_load timing_rank_load(const struct kvt_llm *llm, uint32_t requests, double miss);

/* A query a request; the busiest of the ranks has its share of the queries, rounded up. */
struct kvt_group_load timing_group_load(uint32_t queries, uint32_t ranks);

/* One part of a rank's step. */
double timing_rank_part_us(const struct timing_bench *bench, const struct kvt_rank_load *load,
                           enum kvt_step_part part);

/* Fails the test where value is further from expected than this share of it. */
void timing_assert_near(double value, double expected, double relative);

#endif
