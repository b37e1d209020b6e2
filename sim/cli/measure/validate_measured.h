/* validate_measured.h -- kvtide validate SCENARIO --measured FILE..: a run beside an engine's. */
#ifndef KVT_CLI_VALIDATE_MEASURED_H
#define KVT_CLI_VALIDATE_MEASURED_H

#include "engine_bench.h"
#include "validate.h"

/* A figure of both, and how it is judged. */
enum measured_rule {
    MEASURED_RELATIVE = 0, /* ours / measured - 1, within the tolerance */
    MEASURED_BOTH_OR_NONE, /* either neither has any, or both have */
    MEASURED_ABSOLUTE,     /* ours - measured, of a share of 1, within the tolerance */
    MEASURED_SHOWN         /* is told, and decides nothing */
};
struct measured_figure {
    enum engine_figure figure;
    enum measured_rule rule;
    double measured, ours; /* NaN: not told */
    double error;          /* by the rule; relative where it is shown alone; NaN: none */
    bool is_judged, is_good;
};

/* Of requests that are the same on both sides. */
struct measured_family {
    const char *name; /* "ttft", "tpot", "e2el" */
    size_t count;
    double mape, median_abs, p95_abs, bias;
};

enum {
    MEASURED_FAMILIES = 3,
    MEASURED_FIGURES = ENGINE_FIGURES
};

struct measured_plan {
    const char *scenario, *window, *cache_dir;
    const struct cli_texts *sets, *files;
    double tolerance; /* share of 1 */
    unsigned threads;
    bool quiet;
};

struct measured_outcome {
    const char *scenario, *engine; /* engine NULL: metrics alone */
    bool is_of_kvtide; /* a file is a run's timeline.om: agreeing with it says nothing of an engine
                        */
    struct measured_figure figures[MEASURED_FIGURES];
    size_t figure_count;
    struct measured_family families[MEASURED_FAMILIES]; /* all 0 where requests are not matched */
    size_t matched, measured_requests;
    enum kvt_basis timing_basis;
    double in_range_share; /* of steps, of the timing model */
};

/* Runs the scenario and reads the files. What *out borrows lives in the arena. */
KVT_CHECKED kvt_status validate_measured(const struct measured_plan *plan, struct kvt_arena *arena,
                                         struct measured_outcome *out, struct kvt_error *err);

/* validate_measured_report.c */

/* Every judged figure is good, and at least one is judged. */
bool measured_is_good(const struct measured_outcome *outcome);
KVT_CHECKED kvt_status measured_tree(const struct measured_plan *plan,
                                     const struct measured_outcome *outcome, cJSON **out,
                                     struct kvt_error *err);
void measured_print(const struct measured_plan *plan, const struct measured_outcome *outcome);

#endif
