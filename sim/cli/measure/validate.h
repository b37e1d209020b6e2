/* validate.h -- what the parts of `kvtide validate` pass to each other. */
#ifndef KVT_CLI_VALIDATE_H
#define KVT_CLI_VALIDATE_H

#include "../cli.h"
#include "kvt/backend_pair.h"
#include "kvt/badge.h"
#include "kvt/json.h"
#include "kvt/report.h"
#include "kvt/sim.h"

/* ---- validate --suite fidelity ------------------------------------------------------------ */

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
    struct kvt_badge badge; /* of all runs that were finished */
    char failure[1088];     /* why it broke off; "": it did not */
};

/* validate_fidelity.c: runs everything. Lives in the arena. On failure what is there is part of an
 * answer. */
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
                                     bool good, cJSON **out, struct kvt_error *err);
void validate_print(const struct validate_outcome *outcome,
                    const struct validate_family families[VALIDATE_FAMILIES], bool good);

/* ---- What every comparison with a GPU says: validate_proof.c -------------------------------- */

/* Copies of what a proof borrows from its backend. */
struct validate_texts {
    char *first_unequal, *not_representative, *scaled; /* NULL: none */
};
/* From here on the proof's texts are these. */
KVT_CHECKED kvt_status validate_keep_texts(struct kvt_backend_proof *proof,
                                           struct validate_texts *texts, struct kvt_error *err);
void validate_free_texts(struct validate_texts *texts);

/* Of attention against double precision, by what it writes. */
double validate_tolerance_of(const struct kvt_choice *backend);
/* DESIGN's "attention" of validate --json, and the same for people. Tolerance NaN: of runs that
 * have several. */
bool validate_add_attention(cJSON *object, const struct kvt_backend_proof *proof, double tolerance);
/* What came in over the link, where anything did; people are told with the attention. */
bool validate_add_imports(cJSON *object, const struct kvt_backend_imports *imports);
void validate_print_attention(const struct kvt_backend_proof *proof, double tolerance);

/* Of an answer's machine; NULL: it has none. */
const char *validate_gpu_name(const cJSON *machine);

/* ---- validate SCENARIO: two backends on one schedule --------------------------------------- */

enum {
    LOCKSTEP_FAMILIES = KVT_PARTS + 1, /* and the whole step, last */
    LOCKSTEP_RUNS_MAX = 1024
};

struct lockstep_plan {
    const struct cli_texts *scenarios, *sets;
    uint64_t seeds, steps; /* steps 0: to the end of each run */
    unsigned threads;
    const char *cache_dir, *out_dir; /* out_dir NULL: nothing is written */
    bool on_gpu;                     /* else the simulator beside itself */
    bool corrupt;                    /* a byte of host memory is flipped, and must be found */
    bool quiet;
};

/* Predicted against measured, over the steps of a run or of all: ns, and relative to measured. A
 * part that no backend runs has what is predicted alone, and is no part of "step". */
struct lockstep_family {
    double *errors; /* [count] signed */
    size_t count, capacity;
    size_t in_range;                  /* of what the timing model was fitted to */
    double predicted_ns, measured_ns; /* sums */
};

struct lockstep_run {
    const char *scenario;
    uint64_t seed;
    char hash[20]; /* of the run's decisions */
    struct kvt_pair_report report;
    char *first_mismatch; /* NULL: none */
    struct kvt_backend_proof proof;
    struct validate_texts texts; /* of the proof */
    double tolerance;            /* of attention, relative to double precision */
    uint64_t decode_steps;
    double simulated_s, wall_s;
    cJSON *result;   /* as result.json has it; NULL: the run broke off */
    cJSON *timeline; /* its course (timeline_columns.h), by the run's clock; NULL as result */
    bool interrupted;
};

struct lockstep_outcome {
    struct lockstep_run *runs; /* [run_count] */
    size_t run_count;
    struct lockstep_family families[LOCKSTEP_FAMILIES];
    bool runs_drafts;   /* as in struct kvt_step_times */
    char failure[1088]; /* why the last run broke off; "": it did not */
    cJSON *machine;     /* as `check --machine` has it; NULL: not asked */
};

/* validate_lockstep.c: runs everything. On failure what is there is still to be freed, and is
 * part of an answer where any step was made. */
KVT_CHECKED kvt_status validate_lockstep(const struct lockstep_plan *plan, struct kvt_arena *arena,
                                         struct lockstep_outcome *out, struct kvt_error *err);
void lockstep_free(struct lockstep_outcome *outcome); /* of one that is zeroed too */

/* validate_lockstep_report.c */

/* Every decision the same, every attention equal; with flipped bytes: they are found, and nothing
 * else. */
bool lockstep_is_good(const struct lockstep_plan *plan, const struct lockstep_outcome *outcome);
KVT_CHECKED kvt_status lockstep_tree(const struct lockstep_plan *plan,
                                     const struct lockstep_outcome *outcome, cJSON **out,
                                     struct kvt_error *err);
void lockstep_print(const struct lockstep_plan *plan, const struct lockstep_outcome *outcome);

#endif
