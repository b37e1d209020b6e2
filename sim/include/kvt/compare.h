/* kvt/compare.h -- scenarios beside each other: paired ratios, and a reference's numbers. */
#ifndef KVT_COMPARE_H
#define KVT_COMPARE_H

#include "kvt/report.h"

KVT_BEGIN_DECLS

/* Index of a metric among kvt_metric_docs(); KVT_ERR_NOT_FOUND names the nearest. */
KVT_CHECKED kvt_status kvt_metric_find(const char *name, const char *where, size_t *out,
                                       struct kvt_error *err);

/* ---- Estimates over seeds ------------------------------------------------------- */

struct kvt_estimate {
    double mean;      /* NaN when a value is */
    double low, high; /* 95 % interval of the mean (Student's t); NaN below two values */
};
void kvt_estimate_of(const double *values, size_t count, struct kvt_estimate *out);

/* One scenario run on every seed. */
struct kvt_variant {
    const char *name;           /* what sets it apart from the others */
    const char *source;         /* as asked for */
    const char *const *changes; /* [change_count] its own PATH=VALUE, in order */
    size_t change_count;
    const struct cJSON *scenario; /* in force, but for the seed */
    const double *metrics;  /* [seed_count][metrics], as kvt_metric_docs() counts; NaN: none */
    const uint64_t *hashes; /* [seed_count] of all decisions; 0: none were taken */
    const char *basis;      /* what its throughput rests on */
    const struct kvt_badge *badges; /* [seed_count] */
    bool is_bound;      /* one of its policies saw the future: what it reaches cannot be had */
    bool bounds_misses; /* its replacement policy did */
};

struct kvt_comparison {
    const struct kvt_variant *variants; /* [variant_count] ratios are to the first */
    size_t variant_count;
    const uint64_t *seeds; /* [seed_count] the same for all */
    size_t seed_count;
    bool interrupted; /* seeds that not every variant has finished are left out */
};

KVT_CHECKED kvt_status kvt_comparison_metric(const struct kvt_comparison *comparison,
                                             size_t variant, size_t metric,
                                             struct kvt_estimate *out, struct kvt_error *err);
/* Of the ratios to the first variant, seed by seed. NaN where the first is 0. */
KVT_CHECKED kvt_status kvt_comparison_ratio(const struct kvt_comparison *comparison, size_t variant,
                                            size_t metric, struct kvt_estimate *out,
                                            struct kvt_error *err);

/* Of the variants that bound misses the one whose hot_miss_ratio is least; variant_count: none
 * does. */
size_t kvt_comparison_bound(const struct kvt_comparison *comparison);
/* What it costs not to see the future: hot_miss_ratio over the bound's, less 1, seed by seed. NaN
 * where the bound misses nothing. A share of what was looked up, since what that is differs with
 * the pages that are in HBM. */
KVT_CHECKED kvt_status kvt_comparison_regret(const struct kvt_comparison *comparison,
                                             size_t variant, size_t bound, struct kvt_estimate *out,
                                             struct kvt_error *err);

/* Of all its runs as one. */
void kvt_comparison_badge(const struct kvt_comparison *comparison, struct kvt_badge *out);

/* ---- Order, and whether it is one under several laws ----------------------------------- */

/* Above 0 where variant a has more of the metric than b, below 0 where it has less, 0 where
 * that cannot be told: the 95 % interval of the differences, seed by seed, holds 0; with one
 * seed, they differ by at most 0.5 % of the larger; one of them is NaN. */
KVT_CHECKED kvt_status kvt_comparison_ahead(const struct kvt_comparison *comparison, size_t a,
                                            size_t b, size_t metric, int *out,
                                            struct kvt_error *err);
/* order: [variant_count] variants from the largest mean to the least. Equal ones stand as they
 * were given, those without a value at the end. */
KVT_CHECKED kvt_status kvt_comparison_order(const struct kvt_comparison *comparison, size_t metric,
                                            size_t *order, struct kvt_error *err);

/* The same variants on the same seeds, once under each preset of the law of selections. */
struct kvt_presets {
    const char *const *names;                 /* [count] */
    const struct kvt_comparison *comparisons; /* [count] */
    size_t count;
};

/* Variant a is ahead of b under one preset, and b ahead of a under another: the first of each. */
struct kvt_reversal {
    size_t a, b;             /* a < b */
    size_t a_ahead, b_ahead; /* presets */
};

struct kvt_order_check {
    struct kvt_reversal *reversals; /* [reversal_count] by a, then b; free() it */
    size_t reversal_count;
    size_t tie_count; /* pairs under a preset that cannot be told apart */
};
KVT_CHECKED kvt_status kvt_presets_check_order(const struct kvt_presets *presets, size_t metric,
                                               struct kvt_order_check *out, struct kvt_error *err);

/* ---- Conditions: 'output_throughput<0.98' ------------------------------------------ */

enum kvt_condition_op {
    KVT_LESS = 0,
    KVT_LESS_EQUAL,
    KVT_GREATER,
    KVT_GREATER_EQUAL
};

struct kvt_condition {
    const char *text; /* borrowed */
    size_t metric;
    enum kvt_condition_op op;
    double bound;
};
/* "METRIC<=NUMBER"; of: what the number is, for messages: "RATIO". */
KVT_CHECKED kvt_status kvt_condition_parse(const char *text, const char *where, const char *of,
                                           struct kvt_condition *out, struct kvt_error *err);
/* Does it hold of this ratio? Of NaN it does: what cannot be judged has not passed. */
bool kvt_condition_holds(const struct kvt_condition *condition, double ratio);

/* ---- A reference: somebody else's numbers for some scenarios ------------------------- */

#define KVT_REFERENCE_SCHEMA "kvtide/reference/1"

enum kvt_reference_class {
    KVT_REFERENCE_PREDICTED = 0, /* nothing was fitted to it: evidence */
    KVT_REFERENCE_EXACT,         /* accounting: to the last unit, unless a tolerance says else */
    KVT_REFERENCE_CALIBRATED,    /* a parameter was fitted to it: no evidence */
    KVT_REFERENCE_CLASSES
};
const char *kvt_reference_class_name(enum kvt_reference_class class_of);

struct kvt_reference_value {
    size_t metric;
    double value;
    double tolerance; /* absolute */
    enum kvt_reference_class class_of;
};

/* Values of the scenarios whose tree agrees with all members of where: dotted path to
 * number, text or bool. */
struct kvt_reference_row {
    const struct cJSON *where;
    const struct kvt_reference_value *values; /* [value_count] */
    size_t value_count;
};

struct kvt_reference {
    const char *name, *source;
    const struct kvt_reference_row *rows; /* [row_count] */
    size_t row_count;
};

/* tree must outlive *out, which lies in the arena. */
KVT_CHECKED kvt_status kvt_reference_from_json(const struct cJSON *tree, const char *path,
                                               struct kvt_arena *arena,
                                               const struct kvt_reference **out,
                                               struct kvt_error *err);
bool kvt_reference_matches(const struct kvt_reference_row *row, const struct cJSON *scenario);

struct kvt_reference_verdict {
    double ours, error_relative; /* ours / value - 1; NaN where either is missing or value is 0 */
    bool is_within;
};
void kvt_reference_judge(const struct kvt_reference_value *value, double ours,
                         struct kvt_reference_verdict *out);

/* ---- compare.json ---------------------------------------------------------------------- */

/* conditions and reference may be absent (0, NULL). cJSON_Delete() *out. */
KVT_CHECKED kvt_status kvt_comparison_tree(const struct kvt_comparison *comparison,
                                           const struct kvt_condition *conditions,
                                           size_t condition_count,
                                           const struct kvt_reference *reference,
                                           struct cJSON **out, struct kvt_error *err);

/* The same for several presets: `presets` has variants, conditions and order of each, `order`
 * says by which metric, and what is reversed. cJSON_Delete() *out. */
KVT_CHECKED kvt_status kvt_presets_tree(const struct kvt_presets *presets,
                                        const struct kvt_condition *conditions,
                                        size_t condition_count, size_t metric, struct cJSON **out,
                                        struct kvt_error *err);

KVT_END_DECLS
#endif
