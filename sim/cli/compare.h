/* compare.h -- what the parts of `kvtide compare` pass to each other. */
#ifndef KVT_CLI_COMPARE_H
#define KVT_CLI_COMPARE_H

#include "cli.h"
#include "kvt/compare.h"

enum {
    COMPARE_VARIANTS_MAX = 64,
    COMPARE_SEEDS_MAX = 1024,
    COMPARE_THREADS_MAX = 256
};

/* What is to be run: every scenario on every seed. */
struct compare_plan {
    struct kvt_variant variants[COMPARE_VARIANTS_MAX];
    struct kvt_scenario scenarios[COMPARE_VARIANTS_MAX];
    size_t variant_count;
    uint64_t seeds[COMPARE_SEEDS_MAX];
    size_t seed_count;
    const char *cache_dir; /* as kvt_sim_options.cache_dir */
    unsigned threads;
    bool quiet;
};

/* compare_variants.c: "SCENARIO[,PATH=VALUE].." of the command line into scenarios, with
 * sets applied to each before its own changes. Lives in the arena. */
KVT_CHECKED kvt_status compare_load_variants(const struct cli_texts *arguments,
                                             const struct cli_texts *sets, struct kvt_arena *arena,
                                             struct compare_plan *plan, struct kvt_error *err);

/* compare_runs.c: fills metrics, hashes and basis of every variant; results do not depend
 * on plan->threads. After a signal *interrupted is true and plan->seed_count the number of
 * seeds that all variants have finished. */
KVT_CHECKED kvt_status compare_run(struct compare_plan *plan, struct kvt_arena *arena,
                                   bool *interrupted, struct kvt_error *err);

/* compare_table.c: for people, on stdout. */
KVT_CHECKED kvt_status compare_print(const struct kvt_comparison *comparison,
                                     const struct kvt_reference *reference, struct kvt_error *err);

#endif
