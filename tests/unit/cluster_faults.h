/* cluster_faults.h -- what tests of faults share: runs that are small enough to be worked out by
 * hand. */
#ifndef KVT_TESTS_CLUSTER_FAULTS_H
#define KVT_TESTS_CLUSTER_FAULTS_H

#include <stdio.h>

#include <check.h>

#include "kvt/clock.h"
#include "sim_private.h"
#include "support/drawn_scenario.h"
#include "support/small_run.h"

/* One request of 640 tokens, in a closed loop of one; two ranks of one GPU on a node. */
#define SCENARIO(decode, prefill, residency)                                                       \
    "{\"schema\": \"kvtide/scenario/1\", \"seed\": 7, \"model\": " DRAWN_MODEL ", "                \
    "\"hardware\": \"b300\", \"cluster\": {\"decode\": {" decode ", \"pools\": "                   \
    "{\"unified_gib\": 0.05}, \"growth_reserve_gib\": 0.01}, " prefill "}, "                       \
    "\"residency\": " residency ", \"timing\": {\"model\": \"roofline\"}, "                        \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 1, \"requests\": 1, \"lengths\": "   \
    "{\"input\": {\"law\": \"fixed\", \"tokens\": 640}, "                                          \
    "\"output\": {\"law\": \"fixed\", \"tokens\": 400}}}}"
#define TWO "\"gpus\": 2"
#define COMPUTED_HERE                                                                              \
    "\"prefill\": {\"mode\": \"colocated\", \"tokens_per_s\": 1000, \"chunk_tokens\": 8192}"
#define COMPUTED_APART "\"prefill\": {\"mode\": \"separate\", \"gpus\": 1, \"tokens_per_s\": 1000}"
#define IMPORTED "\"import\": {\"law\": \"rate\", \"rate\": 0.05}"
#define RESIDENT "{\"policy\": \"resident\"}"
#define HISPARSE                                                                                   \
    "{\"policy\": \"hisparse\", \"hot_tokens\": 64}, \"selection\": {\"law\": \"score\"}"

static const char here_text[] = SCENARIO(TWO, COMPUTED_HERE, RESIDENT);
static const char apart_text[] = SCENARIO(TWO, COMPUTED_APART, RESIDENT);
static const char imported_text[] = SCENARIO(TWO, IMPORTED, HISPARSE);

static inline void open_with(struct small_run *small, const char *text, const char *faults,
                             const char *more)
{
    char set[1024];
    const char *const sets[] = {set, more, NULL};

    (void)snprintf(set, sizeof set, "cluster.faults=%s", faults);
    small_run_open(small, text, sets, NULL);
    ck_assert_msg(small->status == KVT_OK, "%s: %s", small->err.where, small->err.message);
}

static inline void run_with(struct small_run *small, const char *text, const char *faults)
{
    open_with(small, text, faults, NULL);
    small_run_finish(small);
    ck_assert_msg(small->status == KVT_OK, "%s: %s", small->err.where, small->err.message);
}

/* All that happens before that time. */
static inline void advance(struct small_run *small, kvt_ns until_ns)
{
    bool more;

    ck_assert_int_eq(kvt_sim_run_until(small->sim, until_ns, &more, &small->err), KVT_OK);
    ck_assert(more);
}

static inline uint64_t index_bytes(const struct small_run *small, uint32_t tokens)
{
    struct kvt_session_bytes bytes;
    struct kvt_error err = {0};

    ck_assert_int_eq(kvt_rank_required(&small->sim->ranks[1], tokens, 1040, 64, &bytes, &err),
                     KVT_OK);
    return bytes.hbm_by_class[KVT_MEM_INDEX];
}

#endif
