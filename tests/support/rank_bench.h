/* rank_bench.h -- one rank without a run around it, for tests of what happens at its boundaries. */
#ifndef KVT_TESTS_RANK_BENCH_H
#define KVT_TESTS_RANK_BENCH_H

#include <check.h>

#include "kvt/rank.h"
#include "plugin_params.h"

enum {
    LIVES = 16,
    INPUT = 1000,
    OUTPUT = 200,
    LONGEST = INPUT + OUTPUT,
    LONG = 10000,
    TOP_K = 2048,
    /* GLM-5.3: index rows of a token, payload rows of a token, by hand. */
    INDEX_TOKEN = 21 * 132,
    PAYLOAD_TOKEN = 78 * 576,
    PAGE_BYTES = 64 * PAYLOAD_TOKEN
};

/* Of hot slots for the longest context and a tail, beside the index rows. */
#define FIXED_BYTES ((uint64_t)(LONGEST + 64) * PAYLOAD_TOKEN)
#define HOT_BYTES ((uint64_t)(TOP_K + 64) * PAYLOAD_TOKEN) /* the same of LONG tokens */

struct rank_bench {
    struct kvt_arena *arena;
    struct kvt_host_pool host;
    struct kvt_param_value values[3][SUPPORT_PARAMS_MAX];
    struct kvt_rank_env env;
    struct kvt_rank rank;
    uint64_t decisions;
    struct kvt_live lives[LIVES];
    uint32_t live_count;
    uint32_t put_aside[LIVES], put_aside_count;
    uint32_t resized[LIVES], resized_count;
    kvt_ns now_ns; /* of the newest boundary */
};

/* The one that a test works on. */
extern struct rank_bench bench;

/* A rank whose pool holds `requests` of INPUT tokens to the byte, and more_bytes more. */
void bench_start(const char *residency, uint32_t requests, uint64_t more_bytes,
                 uint64_t reserve_bytes);

/* The same with a policy of the test's own. */
void bench_restart(const struct kvt_plugin_info *residency,
                   const struct kvt_plugin_info *scheduling);

/* Frees what the rank and the requests hold. */
void bench_stop(void);

/* One request more, of INPUT and OUTPUT tokens, at the end of the queue. */
struct kvt_live *bench_enqueue(void);

/* A boundary, whatever comes of it; then one that must be well, and leave the rank sane. */
kvt_status bench_try_boundary(kvt_ns now_ns, struct kvt_error *err);
void bench_boundary(kvt_ns now_ns);

/* All imports that are admitted, one after the other, each with its first token. */
void bench_import_all(void);

/* A token for each request that decodes and is not blocked. */
void bench_step(kvt_ns now_ns);

/* Starts a rank and runs one adaptive request until its pages are under way: after a second. */
void bench_start_filling(uint64_t spare_pages);

/* What a request holds of a class, its part of the reserve included. */
uint64_t bench_held(const struct kvt_live *live, enum kvt_mem_class mem_class);

/* ---- A policy of the test's own ------------------------------------------------------ */

/* What bench_try_to_obey() makes, to be changed afterwards, and what it does at the next
 * boundaries. */
extern struct kvt_residency_policy bench_rogue;
extern struct kvt_residency_action bench_next_action;

extern const struct kvt_residency_needs bench_plain, bench_lazy, bench_hybrid;

/* The same action where pages are reclaimed. */
uint32_t bench_reclaim_once(void *state, const struct kvt_residency_view *view, uint64_t want_bytes,
                            struct kvt_residency_action *actions, uint32_t capacity);

/* The rank anew, under a policy of such needs that does bench_next_action at each boundary. */
kvt_status bench_try_to_obey(struct kvt_residency_needs needs, struct kvt_error *err);

/* The same, which must be well; it does nothing yet. */
void bench_obey(struct kvt_residency_needs needs);

/* A boundary at which the policy does this to request 0. */
void bench_act(kvt_ns now_ns, enum kvt_residency_verb verb, uint32_t first, uint32_t count);

#endif
