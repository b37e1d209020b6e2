/* validate_time.h -- kvtide validate --suite time: a profile's step times beside a GPU's, in runs
 * that it was not fitted to. */
#ifndef KVT_CLI_VALIDATE_TIME_H
#define KVT_CLI_VALIDATE_TIME_H

#include "../cli.h"
#include "kvt/json.h"
#include "kvt/profile.h"
#include "points.h"
#include "robust.h"

#define TIME_GRID_DEFAULT "time-glm-5.3"
#define TIME_PROFILE_DEFAULT "h200-glm-5.3"

struct time_plan {
    const char *grid, *profile; /* names or paths */
    const struct cli_texts *sets;
    const struct cli_texts *points; /* files of what was measured before: no GPU is asked */
    const char *cache_dir;
    unsigned threads;
    const char *only; /* text that names of what is measured have in them; NULL: any */
    size_t shard, shards;
    bool quick, quiet;
};

/* Predicted against measured: of a family in steps that are timed apart, or of whole steps. */
struct time_family {
    struct robust_errors errors;
    double correlation; /* Pearson's; NaN: of nothing that varies */
    size_t in_range;
};

/* One configuration: its whole steps. */
struct time_run {
    size_t steps, in_range;
    double requests;                  /* mean of a step */
    double measured_ns, predicted_ns; /* sums */
    double mape;
};
/* Output tokens a second, of rounds of one query; NaN: it has no step. */
double time_run_rate(const struct time_run *run, double ns);

struct time_outcome {
    struct points points;
    struct points fitted_points; /* that the profile was fitted to; none where it does not say */
    struct kvt_profile profile;
    const char *profile_name; /* as it was asked for; borrowed */
    const char *profile_path; /* in the arena */
    double mark_ns;           /* as the profile was fitted with */
    struct time_family families[KVT_PARTS], step;
    struct time_family gathers; /* fetches by themselves */
    size_t gathers_within;      /* of these, off by TIME_GATHER_MOST at most */
    struct time_run *runs;      /* [points.configuration_count] in the arena */
    /* Of the ranked runs' rates: pairs that can be told apart, and those that are the other way
     * round. tau: Kendall's of them; NaN: there is no pair. */
    size_t pairs, swapped;
    double tau;
    size_t left_out; /* runs that could not be made */
    /* Configurations of points that the profile was fitted to: by name and sets, or a row. */
    bool *is_fitted; /* [points.configuration_count] in the arena */
    size_t fitted_count;
};

/* What is asked of whole steps. */
#define TIME_MAPE_MOST 0.05
#define TIME_P95_MOST 0.12
#define TIME_BIAS_MOST 0.02
/* And of each gather. */
#define TIME_GATHER_MOST 0.1

/* validate_time.c: measures, or reads what was measured. *out is the caller's to free. */
KVT_CHECKED kvt_status validate_time(const struct time_plan *plan, struct kvt_arena *arena,
                                     struct time_outcome *out, struct kvt_error *err);
void time_outcome_free(struct time_outcome *outcome); /* of one that is zeroed too */
/* Sets points beside the profile: all but what measuring has filled in. */
KVT_CHECKED kvt_status time_judge(struct time_outcome *outcome, struct kvt_arena *arena,
                                  struct kvt_error *err);

/* validate_time_report.c */
bool time_is_good(const struct time_outcome *outcome);
KVT_CHECKED kvt_status time_tree(const struct time_outcome *outcome, cJSON **out,
                                 struct kvt_error *err);
void time_print(const struct time_outcome *outcome);

#endif
