/* paper.h -- what the parts of `kvtide paper` pass to each other.
 *
 *     files       targets, free parameters, points, figures: share/kvt/paper
 *     points      what is run, sized or read, each giving a JSON tree
 *     values      a target's own number, out of those trees
 *     verdicts    how near it comes
 *     report      table, paper.json, paper.html */
#ifndef KVT_CLI_PAPER_H
#define KVT_CLI_PAPER_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "../cli.h"
#include "kvt/badge.h"

enum {
    PAPER_LIST_MAX = 8,       /* numbers of a value */
    PAPER_PARAMETERS_MAX = 64 /* bits of a mask */
};

/* ---- Files ------------------------------------------------------------------------------ */

enum paper_class {
    PAPER_EXACT = 0,      /* E: accounting, protocol, invariant: must come out as printed */
    PAPER_EXACT_IF,       /* E*: exact under a stated hypothesis */
    PAPER_CALIBRATED,     /* C: a parameter was fitted to it: no evidence */
    PAPER_PREDICTED,      /* P: evidence */
    PAPER_ORDERING,       /* Q: an order, or a protocol */
    PAPER_UNIDENTIFIABLE, /* U: nothing published decides it */
    PAPER_CLASSES
};
const char *paper_class_letter(enum paper_class class_of); /* "E", "E*", .. */
const char *paper_class_name(enum paper_class class_of);   /* "exact", .. */

enum paper_tolerance {
    PAPER_NO_TOLERANCE = 0, /* it holds or fails */
    PAPER_DECIMALS,         /* equal when printed with so many decimals */
    PAPER_RELATIVE,         /* of the paper's value, of each where there are several */
    PAPER_ABSOLUTE,
    PAPER_RANGE_RELATIVE, /* the paper's two are the ends of a range: each of ours lies in it, or */
    PAPER_RANGE_ABSOLUTE, /* so near to the nearer end */
    PAPER_AT_LEAST,
    PAPER_OF_BEST /* list: the judge's own; how far from the best still counts */
};

struct paper_target {
    const char *id, *statement, *unit, *source;
    const char *note;  /* "" : none */
    const char *cause; /* of a miss, as far as it is known; "": not known */
    enum paper_class class_of;
    const cJSON *value; /* as printed: a number, two or more, or null */
    double numbers[PAPER_LIST_MAX];
    size_t number_count;
    enum paper_tolerance tolerance;
    double allowed;
    const cJSON *ours; /* which points, and what of them */
    const char *where; /* "targets.json#/targets/3" */
};

struct paper_parameter {
    const char *key;    /* dotted path of a scenario */
    const cJSON *value; /* a number or a name */
    const char *unit, *how;
    const char *times;         /* key whose value it is multiplied with; NULL: none */
    const char *model;         /* of scenarios of that model alone; NULL: of any */
    const char *const *set_by; /* [set_by_count] target ids */
    size_t set_by_count;
    bool is_shipped; /* no scenario that it reaches has another value of its own */
};

enum paper_kind {
    PAPER_RUN = 0,    /* result.json of a run */
    PAPER_SIZE,       /* kvtide size */
    PAPER_MODEL,      /* facts of a model and the hot cache that a scenario gives it */
    PAPER_CALLS,      /* payload of calls of eight queries, shared and disjoint */
    PAPER_PROPERTIES, /* a run in which every call and every step is looked at */
    PAPER_MEASURED,   /* figures of a GPU, of a file */
    PAPER_KINDS
};

struct paper_point {
    const char *id;     /* "hisparse/128" */
    const char *family; /* "hisparse"; the id where there is no other */
    double x;           /* of the family's points; NaN: none */
    enum paper_kind kind;
    const char *source;      /* scenario, or file */
    const char *const *sets; /* [set_count] PATH=VALUE */
    size_t set_count;
    uint64_t tokens;   /* sizes */
    bool has_timeline; /* keep the run's course in bins */
    bool is_wanted;
    uint64_t parameters;    /* bit i: parameters[i] is in force in it */
    struct kvt_badge badge; /* of its run; zeroed: it has none */
    cJSON *tree;            /* what it gave; NULL: nothing yet, or no such file */
};

struct paper {
    const struct paper_target *targets; /* [target_count] */
    size_t target_count;
    struct paper_parameter *parameters; /* [parameter_count] */
    size_t parameter_count;
    struct paper_point *points; /* [point_count] */
    size_t point_count;
    const cJSON *figures; /* the array of figures.json */
    const char *name, *summary;
    const char *cache_dir; /* as kvt_sim_options.cache_dir */
    unsigned threads;
    bool quiet;
    cJSON *files[4]; /* parsed, borrowed from by all of it */
};

/* paper_files.c: reads DATA_DIR/paper. Everything in *out lives in the arena but for the
 * trees, which paper_free_trees() frees, also after a failure. */
KVT_CHECKED kvt_status paper_load(const char *data_dir, struct kvt_arena *arena, struct paper *out,
                                  struct kvt_error *err);
void paper_free_trees(struct paper *paper);
/* paper_files.c: targets of their own, for tests; name stands for the file. */
KVT_CHECKED kvt_status paper_read_targets(const cJSON *tree, const char *name,
                                          struct kvt_arena *arena, struct paper *out,
                                          struct kvt_error *err);

/* NULL where there is none of that id. */
struct paper_point *paper_find_point(const struct paper *paper, const char *id);

/* ---- Points ----------------------------------------------------------------------------- */

/* paper_points.c: runs every wanted point on paper->threads. After a signal KVT_ERR_INTERRUPTED. */
KVT_CHECKED kvt_status paper_run_points(struct paper *paper, struct kvt_arena *arena,
                                        struct kvt_error *err);

struct kvt_scenario;
/* paper_calls.c: shared_bytes and disjoint_bytes. */
KVT_CHECKED kvt_status paper_resolve_calls(const struct kvt_scenario *scenario, cJSON **out,
                                           struct kvt_error *err);
/* paper_properties.c: for each property {checks, faults, occasions, what}, of a run on a backend
 * without parameters. */
struct cli_job;
struct kvt_backend_ops;
KVT_CHECKED kvt_status paper_watch_run(const struct kvt_scenario *scenario,
                                       const struct kvt_backend_ops *backend, const char *cache_dir,
                                       struct cli_job *job, cJSON **out, struct kvt_error *err);

/* ---- Values ----------------------------------------------------------------------------- */

enum paper_found {
    PAPER_NUMBERS = 0,
    PAPER_HOLDS, /* yes or no */
    PAPER_ABSENT /* what it takes is not here */
};

struct paper_value {
    enum paper_found found;
    double numbers[PAPER_LIST_MAX];
    size_t count;
    bool holds;       /* PAPER_HOLDS; PAPER_NUMBERS of a judge that decides itself */
    bool is_decided;  /* the judge has decided; tolerance is its own */
    const char *says; /* one line behind the number; NULL: none. In the arena */
};

/* paper_values.c: what the target's `ours` asks for. Fails where the files ask for what no point
 * gives. */
KVT_CHECKED kvt_status paper_value_of(const struct paper *paper, const struct paper_target *target,
                                      struct kvt_arena *arena, struct paper_value *out,
                                      struct kvt_error *err);
/* A value at a dotted path ("phases.0.metrics.slots"); NULL: none there. */
const cJSON *paper_at(const cJSON *tree, const char *path);
/* A number at a path; NaN: none there, or null. */
double paper_number(const cJSON *tree, const char *path);

/* The figure of that name among those of any command in a file of measurements; NULL: none. */
const cJSON *paper_measured(const cJSON *measured, const char *name);

/* paper_judges.c: values that take more than a path. Points of call->ours are there. */
struct paper_judge_call {
    const struct paper *paper;
    const struct paper_target *target;
    struct kvt_arena *arena;
    const struct paper_point *points[PAPER_LIST_MAX]; /* [point_count] of "points" */
    size_t point_count;
    const char *families[PAPER_LIST_MAX]; /* [family_count] of "families" */
    size_t family_count;
};
KVT_CHECKED kvt_status paper_judge(const char *name, const struct paper_judge_call *call,
                                   struct paper_value *out, struct kvt_error *err);

/* ---- Verdicts --------------------------------------------------------------------------- */

enum paper_verdict_kind {
    PAPER_WITHIN = 0,
    PAPER_OUTSIDE,
    PAPER_HOLDS_TRUE,
    PAPER_FAILS,
    PAPER_NOT_MEASURED,
    PAPER_NOT_IDENTIFIABLE,
    PAPER_VERDICTS
};
const char *paper_verdict_name(enum paper_verdict_kind kind); /* "within", .. */

struct paper_verdict {
    enum paper_verdict_kind kind;
    double error; /* relative; of the worst where there are several; NaN: there is none */
};

/* paper_verdict.c */
void paper_judge_value(const struct paper_target *target, const struct paper_value *value,
                       struct paper_verdict *out);
static inline bool paper_is_good(enum paper_verdict_kind kind)
{
    return kind == PAPER_WITHIN || kind == PAPER_HOLDS_TRUE;
}

/* ---- Report ----------------------------------------------------------------------------- */

/* A target that was asked for, with what came out. */
struct paper_line {
    const struct paper_target *target;
    struct paper_value value;
    struct paper_verdict verdict;
    const size_t *points; /* [point_count] that made it, of paper->points */
    size_t point_count;
};

struct paper_answer {
    const struct paper *paper;
    const struct paper_line *lines; /* [line_count] */
    size_t line_count;
};

struct paper_score {
    size_t asked, good, bad, open; /* open: not measured, or not identifiable */
};
void paper_score_of(const struct paper_answer *answer, enum paper_class class_of,
                    struct paper_score *out);

/* paper_values.c: the points that a target's `ours` names, each once, by index: in the arena. */
KVT_CHECKED kvt_status paper_points_of(const struct paper *paper, const struct paper_target *target,
                                       struct kvt_arena *arena, const size_t **out, size_t *count,
                                       struct kvt_error *err);

/* paper_report.c */

/* Of all points that were run. */
struct kvt_badge paper_badge_of(const struct paper_answer *answer);
void paper_print(const struct paper_answer *answer);
KVT_CHECKED kvt_status paper_tree(const struct paper_answer *answer, cJSON **out,
                                  struct kvt_error *err);
/* "1.14", "24 to 28", "holds", "-": a value as a person reads it, into out. */
enum {
    PAPER_TEXT_BYTES = 96
};
void paper_print_value(const struct paper_line *line, char out[PAPER_TEXT_BYTES]);
void paper_print_claim(const struct paper_target *target, char out[PAPER_TEXT_BYTES]);

/* paper_html.c: one page, whole in itself. */
KVT_CHECKED kvt_status paper_write_page(const struct paper_answer *answer, struct kvt_arena *arena,
                                        FILE *stream, struct kvt_error *err);

#endif
