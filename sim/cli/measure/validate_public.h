/* validate_public.h -- kvtide validate --suite public: what others measured and published. */
#ifndef KVT_CLI_VALIDATE_PUBLIC_H
#define KVT_CLI_VALIDATE_PUBLIC_H

#include "validate.h"

enum {
    PUBLIC_POINTS_MAX = 64,
    PUBLIC_CLAIMS_MAX = 64,
    PUBLIC_VALUES_MAX = 8, /* of a point */
    PUBLIC_SETS_MAX = 32
};

struct public_value {
    const char *metric;
    double measured, ours; /* NaN: not told; not run */
    bool is_calibrated;    /* something here was set by it: it agrees by construction */
};

/* One run of a setting. */
struct public_point {
    const char *name;
    const char *sets[PUBLIC_SETS_MAX]; /* [set_count] PATH=VALUE, beyond the setting's scenario */
    size_t set_count;
    struct public_value values[PUBLIC_VALUES_MAX]; /* [value_count] */
    size_t value_count;
    const char *basis; /* what its throughput rests on */
};

enum public_kind {
    PUBLIC_NUMBER = 0, /* every measured value of the metric that nothing was calibrated to, within
                        * the tolerance: told, and decides nothing */
    PUBLIC_ORDER,      /* the metric rises along the points */
    PUBLIC_RATIO,      /* of one point over another, from least to most */
    PUBLIC_KINDS
};

/* What was seen, and must be seen here. */
struct public_claim {
    enum public_kind kind;
    const char *metric, *says;
    size_t points[PUBLIC_POINTS_MAX]; /* [point_count] rising; or {of, over} */
    size_t point_count;
    double least, most, tolerance; /* of a ratio, INFINITY: unbounded; of a number */
    /* Filled in by the run. */
    double measured, ours;  /* of a ratio; NaN: not told */
    size_t numbers, within; /* of a number */
    bool holds;
};

/* A file of validation/public. */
struct public_setting {
    const char *name, *summary, *source;
    const char *path;
    const char *scenario;                   /* a shipped name; NULL: it has its own */
    const char *scenario_text;              /* its own, as JSON */
    const char *unknown[PUBLIC_POINTS_MAX]; /* [unknown_count] */
    size_t unknown_count;
    struct public_point points[PUBLIC_POINTS_MAX]; /* [point_count] */
    size_t point_count;
    struct public_claim claims[PUBLIC_CLAIMS_MAX]; /* [claim_count] */
    size_t claim_count;
};

struct public_plan {
    const struct cli_texts *names, *sets; /* no name: every file */
    const char *cache_dir;
    unsigned threads;
    bool quiet;
};

struct public_outcome {
    struct public_setting **settings; /* [count] in the arena */
    size_t count;
};

/* validate_public_file.c: strictly; what *out borrows lives in the arena. */
KVT_CHECKED kvt_status public_setting_load(const char *path, struct kvt_arena *arena,
                                           struct public_setting **out, struct kvt_error *err);

/* validate_public.c: reads and runs everything. */
KVT_CHECKED kvt_status validate_public(const struct public_plan *plan, struct kvt_arena *arena,
                                       struct public_outcome *out, struct kvt_error *err);
/* Fills in what was found of each claim, once every point has its values. */
void public_setting_judge(struct public_setting *setting);

/* validate_public_report.c */

/* Every order and every ratio holds. */
bool public_is_good(const struct public_outcome *outcome);
KVT_CHECKED kvt_status public_tree(const struct public_outcome *outcome, cJSON **out,
                                   struct kvt_error *err);
void public_print(const struct public_outcome *outcome);

#endif
