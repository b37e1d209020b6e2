/* sweep.h -- what the parts of `kvtide sweep` pass to each other.
 *
 * A sweep is a question (a scenario, settings for all points, axes, seeds) and a record for each of
 * its runs: run r is point r div N on seed r mod N. Records go into the journal as runs end, and
 * results are made of question and records alone, so that they are the same whoever ran what, when
 * and where. */
#ifndef KVT_CLI_SWEEP_H
#define KVT_CLI_SWEEP_H

#include "../along.h"
#include "../one_run.h"
#include "sweep_grid.h"
#include "sweep_journal.h"
#include "sweep_team.h"

enum {
    SWEEP_SEEDS_MAX = 1024,
    SWEEP_SETS_MAX = 60, /* as many marks as a scenario has for settings without effect */
    SWEEP_SHARDS_MAX = 999,
    SWEEP_HASH_BYTES = 17 /* 16 hex digits */
};

#define SWEEP_SEED_MAX (UINT64_C(1) << 53) /* as a scenario's seed */

/* ---- The question --------------------------------------------------------------------------- */

/* One point as its scenario was loaded to be looked at. */
struct sweep_point {
    uint64_t hash;       /* of the scenario in force, and of the plug-ins it may use */
    uint64_t idle_sets;  /* as in struct kvt_scenario */
    kvt_status status;   /* KVT_OK, or why it is refused */
    const char *message; /* why, in a sentence; in the question's arena */
    bool is_measured;    /* by a backend that runs steps */
};

struct sweep_question {
    const char *source;
    const char *data_dir;    /* cli_data_dir(), which is not for many threads */
    const char *const *sets; /* [set_count] of all points, before their own */
    size_t set_count;
    struct sweep_grid grid;
    size_t seed_count;
    uint32_t shard, shard_count; /* shard counts from 0: points p with p mod shard_count == shard */
    struct kvt_arena *arena;
    struct sweep_point *points; /* [grid.point_count] what sweep_look() found */
};

static inline bool sweep_is_ours(const struct sweep_question *question, size_t point)
{
    return point % question->shard_count == question->shard;
}

/* sweep_question.c: the scenario that all points start from. KVT_ERR_.. where it cannot be loaded
 * for itself, because axes bring what it lacks. */
KVT_CHECKED kvt_status sweep_load_base(const struct sweep_question *question,
                                       struct kvt_arena *arena, struct kvt_scenario *out,
                                       struct kvt_error *err);

/* sweep_question.c: whether a value of an axis is one that its key takes: KVT_OK too where it is
 * what else the scenario has that does not go with it. */
KVT_CHECKED kvt_status sweep_check_value(const struct sweep_question *question,
                                         const struct cli_axis *axis, const char *value,
                                         struct kvt_error *err);

/* sweep_question.c: the scenario of a point. A key is set before the keys below it, else axes are
 * applied in their order, but that cluster.decode.gpus comes last, and what goes along behind it,
 * as the rest of the point says. *hash as in struct sweep_point; errors name the axis. */
KVT_CHECKED kvt_status sweep_load_point(const struct sweep_question *question, size_t point,
                                        struct kvt_arena *arena, struct kvt_scenario *out,
                                        uint64_t *hash, struct kvt_error *err);

/* sweep_question.c: an error at "--set PATH" of an axis comes to be at "PATH": nobody wrote --set.
 */
void sweep_name_axis(const struct sweep_grid *grid, struct kvt_error *err);

/* sweep_question.c: loads every point, on some threads, and judges them: sweep_judge(). */
KVT_CHECKED kvt_status sweep_look(struct sweep_question *question, unsigned threads, bool quiet,
                                  struct kvt_error *err);

/* sweep_judge.c: a point that is refused is no failure. One is where all are, where a value is
 * refused at every point that has it and is none that its key takes, which is a slip of the pen,
 * and where a setting for all has an effect on none. */
KVT_CHECKED kvt_status sweep_judge(const struct sweep_question *question, struct kvt_error *err);

/* sweep_header.c: the question as the first line of a journal: everything that results are made of
 * beside the records, and what tells it from any other. cJSON_Delete() *out. */
KVT_CHECKED kvt_status sweep_header(const struct sweep_question *question, cJSON **out,
                                    struct kvt_error *err);
/* sweep_header.c: KVT_ERR_INVALID, with what differs and both values, where two headers are not of
 * one question. where: what `theirs` is. with_shard: they are also of one part of it. */
KVT_CHECKED kvt_status sweep_header_check(const cJSON *ours, const cJSON *theirs, const char *where,
                                          bool with_shard, struct kvt_error *err);

/* ---- Records --------------------------------------------------------------------------------- */

enum sweep_outcome {
    SWEEP_OK = 0,
    SWEEP_REFUSED, /* the scenario could not be loaded */
    SWEEP_FAILED,  /* in its run */
    SWEEP_OUTCOMES
};
const char *sweep_outcome_name(enum sweep_outcome outcome);

/* One run, as its line of the journal has it. */
struct sweep_record {
    size_t run;
    enum sweep_outcome outcome;
    bool may_pass;       /* it failed for a want of the machine's: --resume tries it again */
    const char *message; /* of a failure, or a warning; "" */
    bool is_bound;       /* a policy of it saw the future */
    const char *basis;   /* of output_throughput; "" */
    uint64_t scenario_hash, decision_hash;
    const double *metrics; /* [metrics] as kvt_metric_docs() counts, NaN: none; NULL but for
                            * SWEEP_OK */
    struct kvt_badge badge;
};

/* sweep_record.c: the text of a journal's line; free() it, NULL when memory is short. */
KVT_CHECKED char *sweep_record_print(const struct sweep_record *record);
/* sweep_record.c: read back. metrics: [metrics] where they go; texts are borrowed from the tree. */
KVT_CHECKED kvt_status sweep_record_read(const cJSON *tree, const char *where, double *metrics,
                                         struct sweep_record *out, struct kvt_error *err);
/* sweep_record.c: tree on one line; free() it, NULL when memory is short. */
KVT_CHECKED char *sweep_print_line(const cJSON *tree);

/* sweep_record.c: whether a failure with this status may pass: it is of the machine, and no answer
 * to the question. */
bool sweep_may_pass(kvt_status status);

/* ---- Running --------------------------------------------------------------------------------- */

struct sweep_run_options {
    unsigned jobs;    /* runs at once, of this process */
    unsigned threads; /* of each */
    const char *cache_dir;
    bool quiet;
    struct sweep_team *team;
};

/* sweep_job.c: one run to its record's text, for free(). surfaces: of analytic runs, shared. hash:
 * of the point's scenario, which must be what is loaded here. Whatever becomes of the run is a
 * record, but for KVT_ERR_INTERRUPTED after a signal and a device that hangs. */
KVT_CHECKED kvt_status sweep_run_one(const struct sweep_question *question,
                                     const struct sweep_run_options *options,
                                     struct kvt_surfaces *surfaces, size_t run, uint64_t hash,
                                     unsigned threads, struct cli_job *job, char **text,
                                     struct kvt_error *err);
/* sweep_job.c: the record of a run of a point that is refused. */
KVT_CHECKED kvt_status sweep_refuse_one(const struct sweep_question *question, size_t run,
                                        char **text, struct kvt_error *err);

/* sweep_run.c: runs what of the shard is not in the journal yet, and puts it there. *interrupted:
 * a signal ended it; what had ended by then is kept, as after a failure. */
KVT_CHECKED kvt_status sweep_run(const struct sweep_question *question,
                                 const struct sweep_run_options *options,
                                 struct sweep_journal *journal, bool *interrupted,
                                 struct kvt_error *err);
/* sweep_serve.c: the same on a rank other than 0, which asks that one for runs and gives it
 * records. */
KVT_CHECKED kvt_status sweep_serve(const struct sweep_question *question,
                                   const struct sweep_run_options *options, struct kvt_error *err);

/* ---- Results --------------------------------------------------------------------------------- */

/* sweep_results.c: where the records of all runs are. */
struct sweep_results {
    const cJSON *header;
    struct sweep_journal *const *journals; /* [journal_count] of disjoint parts */
    size_t journal_count;
};

/* How it went, for the last words. */
struct sweep_counts {
    size_t points, failed_points, ok_points;
    char first_message[512]; /* of the first point that failed, with its number; "" */
};

/* sweep_results.c: writes results.csv, results.json and, of several seeds, runs.csv into the
 * folder, each whole or not at all, results.json last; with print_json also that on stdout. Every
 * run must have its record. */
KVT_CHECKED kvt_status sweep_results_write(const struct sweep_results *results, const char *dir,
                                           bool print_json, struct sweep_counts *counts,
                                           struct kvt_error *err);

/* sweep_merge.c: journals of all shards in these folders into the results of one run, in dir. */
KVT_CHECKED kvt_status sweep_merge(const struct cli_texts *dirs, const char *dir, bool print_json,
                                   struct sweep_counts *counts, struct kvt_error *err);

/* sweep_dry.c: what would be run, on stdout: nothing is written. */
KVT_CHECKED kvt_status sweep_dry(const struct sweep_question *question,
                                 const struct sweep_run_options *options, bool json,
                                 struct kvt_error *err);

#endif
