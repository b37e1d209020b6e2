/* compare.h -- what the parts of `kvtide compare` pass to each other. */
#ifndef KVT_CLI_COMPARE_H
#define KVT_CLI_COMPARE_H

#include "../cli.h"
#include "kvt/compare.h"

enum {
    COMPARE_VARIANTS_MAX = 64,
    COMPARE_PRESETS_MAX = 8,
    COMPARE_SEEDS_MAX = 1024
};

/* What is to be run: every scenario on every seed. */
struct compare_plan {
    struct kvt_variant variants[COMPARE_VARIANTS_MAX];
    struct kvt_scenario scenarios[COMPARE_VARIANTS_MAX];
    size_t variant_count; /* all presets' */
    const char *presets[COMPARE_PRESETS_MAX];
    size_t preset_count; /* 0: each as it stands; else the variants of one preset after another */
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

/* compare_variants.c: puts every variant of the plan under each preset of its law of selections
 * in turn. Refuses laws without presets, and variants that choose one themselves. */
KVT_CHECKED kvt_status compare_spread_presets(const struct cli_texts *sets, struct kvt_arena *arena,
                                              struct compare_plan *plan, struct kvt_error *err);

/* compare_runs.c: fills metrics, hashes and basis of every variant; results do not depend
 * on plan->threads. After a signal *interrupted is true and plan->seed_count the number of
 * seeds that all variants have finished. */
KVT_CHECKED kvt_status compare_run(struct compare_plan *plan, struct kvt_arena *arena,
                                   bool *interrupted, struct kvt_error *err);

/* compare_table.c: for people, on stdout. */
KVT_CHECKED kvt_status compare_print(const struct kvt_comparison *comparison, size_t metric,
                                     const struct kvt_reference *reference, struct kvt_error *err);

/* Parts of that table: the seeds and the heads of its columns, a row for each variant, what the
 * times rest on and the badge. name_columns is how wide names are. */
int compare_name_columns(const struct kvt_comparison *comparison);
void compare_print_head(const struct kvt_comparison *comparison, int name_columns, size_t metric);
KVT_CHECKED kvt_status compare_print_rows(const struct kvt_comparison *comparison, int name_columns,
                                          size_t metric, struct kvt_error *err);
void compare_print_basis(const struct kvt_comparison *comparison);
/* Who saw the future, and what the others miss more than the first whose hot caches did; nothing
 * where nobody did. */
KVT_CHECKED kvt_status compare_print_bounds(const struct kvt_comparison *comparison,
                                            struct kvt_error *err);

/* compare_presets.c: for people, on stdout: the table once for each preset, the order by the
 * metric, and whether it is one. */
KVT_CHECKED kvt_status compare_print_presets(const struct kvt_presets *presets, size_t metric,
                                             struct kvt_error *err);

#endif
