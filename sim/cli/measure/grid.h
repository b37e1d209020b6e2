/* grid.h -- runs on a GPU that something is measured in: a file of schema "kvtide/grid/1", a
 * scenario and what of it each run changes. */
#ifndef KVT_CLI_GRID_H
#define KVT_CLI_GRID_H

#include "../cli.h"
#include "points.h"

enum {
    GRID_RUNS_MAX = 256,
    GRID_SETS_MAX = 32
};

#define GRID_DEFAULT "glm-5.3" /* what calibrate measures unless told */

struct grid_run {
    const char *name;
    const char *sets[GRID_SETS_MAX]; /* [set_count] PATH=VALUE */
    size_t set_count;
    uint64_t steps; /* it ends after so many */
    bool is_quick;  /* it is among those of --quick */
    bool is_ranked; /* it is compared with the others that are, in order */
};

/* Copies of rows that are timed by themselves (gather_rows.h), by one GPU or by several at once:
 * what no run does. */
struct grid_gather {
    const char *name;
    uint64_t row_bytes, requests, rows_each;
    uint64_t gpus;                      /* that copy them all at once, 1 unless said */
    uint64_t inbound_mib, outbound_mib; /* that each copies beside a list */
    double pool_gib;
    bool
        is_shuffled; /* pages of 64 rows lie anywhere in the pool; else contexts are in one piece */
    bool is_sorted;  /* each request's rows rise; else they are in no order */
    bool is_quick;
};

/* Everything lives in the arena. */
struct grid {
    const char *name, *summary, *path;
    const char *scenario_text;           /* as JSON */
    struct grid_run runs[GRID_RUNS_MAX]; /* [run_count] names differ */
    size_t run_count;
    struct grid_gather gathers[GRID_RUNS_MAX]; /* [gather_count] */
    size_t gather_count;
};

/* A path (it has a '/' or ends in ".json"), or the name of one that is shipped. */
KVT_CHECKED kvt_status grid_load(const char *name, struct kvt_arena *arena, struct grid **out,
                                 struct kvt_error *err);

/* How a run of a grid is made. */
struct grid_plan {
    const struct grid *grid;
    const struct cli_texts *sets; /* that all runs have in common, before their own */
    const char *cache_dir;
    unsigned threads;
    struct cli_progress *progress;
    /* Called behind each step. */
    kvt_status (*on_step)(void *context, const struct kvt_step_times *times, struct kvt_error *err);
    /* Called once the scenario is loaded. Optional. */
    kvt_status (*on_scenario)(void *context, const struct kvt_scenario *scenario,
                              struct kvt_error *err);
    void *context;
};

KVT_CHECKED kvt_status grid_run_scenario(const struct grid_plan *plan, const struct grid_run *run,
                                         struct kvt_arena *arena, struct kvt_scenario *out,
                                         struct kvt_error *err);
/* Each run's scenario, as it would be made. */
KVT_CHECKED kvt_status grid_check(const struct grid *grid, const struct cli_texts *sets,
                                  struct kvt_arena *arena, struct kvt_error *err);
/* To its last step. A signal ends it with KVT_ERR_INTERRUPTED. */
KVT_CHECKED kvt_status grid_run_do(const struct grid_plan *plan, const struct grid_run *run,
                                   struct kvt_arena *arena, double done_fraction,
                                   struct kvt_error *err);

#endif
