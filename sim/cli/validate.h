/* validate.h -- what the parts of `kvtide validate` pass to each other. */
#ifndef KVT_CLI_VALIDATE_H
#define KVT_CLI_VALIDATE_H

#include "cli.h"

struct cJSON;
struct kvt_surfaces;

enum {
    VALIDATE_METRICS = 8,
    VALIDATE_POINTS_MAX = 1024
};

/* A metric that the levels are judged by. */
struct validate_metric {
    const char *name;
    double tolerance; /* of analytic: of the exact value, or absolute for a share of 1 */
    bool is_absolute;
    bool is_sampled; /* a sampled run gives an interval for it */
};
extern const struct validate_metric validate_metrics[VALIDATE_METRICS];

enum validate_level {
    VALIDATE_SAMPLED,
    VALIDATE_ANALYTIC,
    VALIDATE_LEVELS
};
extern const char *const validate_level_names[VALIDATE_LEVELS];

/* One level against exact, on one scenario and seed. NaN: not defined. */
struct validate_point {
    const char *scenario;
    uint64_t seed;
    enum validate_level level;
    const char *refused; /* NULL, or why the level cannot stand for this scenario */
    double exact[VALIDATE_METRICS], ours[VALIDATE_METRICS];
    double half_width[VALIDATE_METRICS]; /* sampled only */
};

struct validate_plan {
    const struct cli_texts *scenarios, *sets; /* no scenario: the suite's own */
    uint64_t seeds;
    unsigned threads;
    const char *cache_dir;
    bool quiet;
};

struct validate_outcome {
    struct validate_point *points; /* [point_count] */
    size_t point_count;
    /* Wall time, for stderr only. */
    double exact_s, sampled_s, exact_simulated_s, sampled_simulated_s, solve_s;
    size_t solves;
};

/* validate_fidelity.c: runs everything. Lives in the arena. */
KVT_CHECKED kvt_status validate_fidelity(const struct validate_plan *plan, struct kvt_arena *arena,
                                         struct validate_outcome *out, struct kvt_error *err);

/* How a metric of a level did over all points: families of DESIGN's validate --json. */
struct validate_family {
    enum validate_level level;
    const struct validate_metric *metric;
    size_t count;
    double mape, p95_abs, bias;
    double in_range; /* share: within the interval, or within the tolerance */
    double widest;   /* half-width over value; sampled only */
    bool good;
};
enum {
    VALIDATE_FAMILIES = VALIDATE_LEVELS * VALIDATE_METRICS
};

/* validate_judge.c: all of them, and whether every one is good. */
bool validate_judge(const struct validate_outcome *outcome,
                    struct validate_family families[VALIDATE_FAMILIES]);
KVT_CHECKED kvt_status validate_tree(const struct validate_outcome *outcome,
                                     const struct validate_family families[VALIDATE_FAMILIES],
                                     bool good, struct cJSON **out, struct kvt_error *err);
void validate_print(const struct validate_outcome *outcome,
                    const struct validate_family families[VALIDATE_FAMILIES], bool good);

#endif
