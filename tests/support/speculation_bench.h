/* speculation_bench.h -- speculation methods stood up without a scenario, and requests that
 * go through rounds of theirs. */
#ifndef KVT_TESTS_SPECULATION_BENCH_H
#define KVT_TESTS_SPECULATION_BENCH_H

#include "kvt/speculation.h"

enum {
    SPECULATION_PARAMS_MAX = 16,
    SPECULATION_TASKS = 3
};

/* A method stood up with its defaults, which a test may change before start(). */
struct speculation_bench {
    const struct kvt_speculation_method *method;
    struct kvt_param_value values[SPECULATION_PARAMS_MAX];
    char paths[SPECULATION_PARAMS_MAX][256]; /* of shipped tables */
    struct kvt_drafter drafter;              /* of 32 queries a round */
    struct kvt_speculation_env env;          /* tasks default, code, chat */
    void *data;
    struct kvt_speculation_shape shape;
};

void speculation_bench_make(struct speculation_bench *bench,
                            const struct kvt_speculation_method *method);

/* The value of a parameter that the method must have. */
struct kvt_param_value *speculation_bench_param(struct speculation_bench *bench, const char *name);

/* The shipped table of that name for the parameter. */
void speculation_bench_table(struct speculation_bench *bench, const char *param, const char *name);

/* prepare(); _start() ends the test when the method refuses. _end() after either. */
kvt_status speculation_bench_try(struct speculation_bench *bench, struct kvt_error *err);
void speculation_bench_start(struct speculation_bench *bench);
void speculation_bench_end(struct speculation_bench *bench);

/* Requests that decode together, numbered from first_id on, all of one task. */
struct speculation_batch {
    const struct speculation_bench *bench;
    struct kvt_speculation_request *requests; /* [count] */
    struct kvt_round *rounds;                 /* [count] of the last plan */
    struct kvt_speculation_view view;
    uint32_t count;
    unsigned char *states;
};

void speculation_batch_make(struct speculation_batch *batch, const struct speculation_bench *bench,
                            uint32_t count, uint32_t first_id, uint32_t task);
void speculation_batch_plan(struct speculation_batch *batch);
void speculation_batch_free(struct speculation_batch *batch);

/* Mean committed tokens of a round, over so many plans of the batch. */
double speculation_batch_tokens(struct speculation_batch *batch, uint32_t plans);

#endif
