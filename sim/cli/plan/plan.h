/* plan.h -- what the parts of `kvtide plan` pass to each other.
 *
 *     question.c choices.c demands.c     bounds, what is wanted most, and the choices
 *     scenario.c                         one choice with one value of the objective
 *     curves.c solve.c search.c runs.c   by mean values, then by simulation around the answer
 *     interval.c                         how sure an answer is
 *     nearest.c                          without an answer: how near each bound was come to
 *     binding.c worth.c                  what binds, what more of something is worth
 *     tree.c looked.c text.c words.c     plan.json, and text
 *     export.c                           the answer as an engine's flags */
#ifndef KVT_CLI_PLAN_H
#define KVT_CLI_PLAN_H

#include "../along.h"
#include "../axis.h"
#include "../cli.h"
#include "../one_run.h"
#include "kvt/compare.h"
#include "search.h"

#define PLAN_SCHEMA "kvtide/plan/1"

enum {
    PLAN_BOUNDS_MAX = CURVE_FIGURES_MAX - 1,
    PLAN_AXES_MAX = 16,
    PLAN_CHOICES_MAX = 1024,
    PLAN_SEEDS_MAX = 64,
    PLAN_SETS_MAX = 32, /* of a choice, with what goes along, and of its objective */
    PLAN_WORTH = 3,
    PLAN_VALUE_BYTES = 48,   /* of a value, as --set takes it */
    PLAN_SCOUTS = 5,         /* values that are run on one seed where mean values cannot answer */
    PLAN_REASON_BYTES = 1040 /* all that an error says */
};

/* ---- The question ------------------------------------------------------------------------- */

struct plan_bound {
    const char *text; /* as asked for */
    enum kvt_condition_op op;
    double limit;
    size_t metric;          /* as kvt_metric_docs() counts; of a class: none */
    const char *class_name; /* NULL: of all requests */
};

enum plan_level {
    PLAN_ANALYTIC = 0,
    PLAN_SIMULATED
};

struct plan_options {
    struct cli_texts scenario, sets, slo, over;
    const char *maximize, *minimize, *fidelity, *cache, *out, *worth, *survive;
    const char *precision, *simulate, *engine, *export;
    uint64_t seeds, threads;
    bool no_analytic, no_report, quiet, json;
};

struct plan_question {
    const struct plan_options *options;
    const char *source;
    const char *name; /* of the scenario */
    struct plan_bound bounds[PLAN_BOUNDS_MAX];
    size_t bound_count;
    bool maximizes;
    const char *path; /* of the input; NULL: a metric is wanted */
    size_t metric;    /* that is wanted; without a path */
    /* What the input may be, the last wanted most; without a path one value that nobody reads. */
    const double *values; /* [value_count] */
    long value_count;
    const char *unit; /* behind each as --set takes it: "", or "k", times top-k */
    double low, high; /* of the input, as asked for */
    struct cli_axis axes[PLAN_AXES_MAX];
    size_t axis_count;
    uint64_t seeds[PLAN_SEEDS_MAX];
    size_t seed_count;
    const char *survive_set; /* NULL: nothing fails */
    double survive_at_s;
    uint32_t survive_ranks, survive_nodes; /* that fail; 0: none, or a fault of the user's own */
    const char *cache_dir;
    unsigned threads;
    bool analytic_only;  /* the scenario, or --fidelity, is for mean values alone */
    size_t simulate_max; /* choices that are taken to simulation, of those solved by mean values */
    bool worth_simulated, worth_none;
    size_t metric_count;
};

/* ---- What is known of a point ---------------------------------------------------------------- */

struct plan_point {
    long at; /* of the question's values */
    enum plan_level level;
    const char *refused; /* why it cannot be run; NULL: it was */
    bool is_stalled;     /* it was begun, and could not go on: an answer, which is no */
    bool is_spared;      /* refused, as what --survive asks for strikes after its end: no answer */
    struct kvt_estimate *metrics; /* [metric_count] over the seeds; NULL where refused */
    struct kvt_estimate *bounds;  /* [bound_count] */
    struct kvt_badge badge;       /* of its runs */
    const char *basis;            /* as one_run.basis */
    const struct cJSON *result;   /* of the first seed; of the plan's life */
    double stranded; /* requests that a fault leaves where nobody serves them, of the worst seed */
};

/* At a value that was simulated: figures over the curve's. */
struct plan_ratio {
    long at;
    double of[PLAN_BOUNDS_MAX];
};

enum plan_status {
    PLAN_OPEN = 0,
    PLAN_MET,        /* the answer holds all bounds */
    PLAN_UNREACHED,  /* no value does */
    PLAN_UNFINISHED, /* a signal came before that was known */
    PLAN_REFUSED     /* the scenario takes none of the values */
};

struct plan_choice {
    const char *name;        /* "adaptive + dflash2" */
    const char *const *sets; /* [set_count] its own, with what goes along */
    size_t set_count;
    const char *const *axis_sets; /* [axis_count] its own as asked for */
    struct cli_along along;       /* of this choice without what takes others along */
    struct kvt_arena *arena;      /* of what is found out about it */
    enum plan_status status;
    const char *reason; /* why it is refused, or every value of it stalled; else NULL */
    bool is_bound;      /* one of its policies sees the future */
    /* By mean values, or by the first seed alone where those cannot answer: the bounds' figures,
     * and where a metric is wanted that. */
    struct curve curve;
    struct cli_job *job;                    /* in which the curve may ask for more, ... */
    unsigned job_threads;                   /* ... on so many threads */
    struct curve_point scouts[PLAN_SCOUTS]; /* [scout_count] by value */
    size_t scout_count;
    struct plan_ratio *ratios; /* [ratio_count] what simulation made of the curve, by value */
    size_t ratio_count;
    const char *no_analytic; /* why not; NULL: by mean values */
    const char *few;         /* refusals of single values, the last of them; NULL: none */
    long analytic_answer;    /* -1: none meets, or not solved so */
    bool trend_is_down[PLAN_BOUNDS_MAX]; /* the bound is harder to hold at later values */
    /* By simulation. */
    bool is_simulated; /* or to be */
    struct search search;
    long wanted;                /* to be run in this round; -1: nothing */
    struct plan_point **points; /* [point_count] as they were run */
    size_t point_count, point_room;
    bool nothing_left;   /* all that serves fails at every value, and does not come back */
    long answer;         /* -1: none */
    long sure, not_sure; /* of the answer's interval; -1: not known */
};

/* A bound as told of: below 0 it is broken, by so much of its limit. NaN: it cannot be judged. */
double plan_slack(const struct plan_bound *bound, double value);
bool plan_holds(const struct plan_bound *bound, double value);

struct plan_runs;

struct plan {
    struct plan_question question;
    struct plan_choice *choices; /* [choice_count] in the order asked for */
    size_t choice_count;
    size_t *order; /* [choice_count] best first */
    struct kvt_arena *arena;
    struct plan_runs *runs;
    struct kvt_surfaces *surfaces;
    uint64_t idle_sets; /* of the common ones: had no effect on any choice */
    bool is_strict;     /* loading refuses common sets without effect */
    unsigned round;     /* of runs, as progress counts them */
    bool interrupted;
};

/* ---- question.c, choices.c, demands.c -------------------------------------------------------- */

/* From the command line, before anything runs. */
KVT_CHECKED kvt_status plan_read_question(const struct plan_options *options, struct plan *plan,
                                          struct kvt_error *err);
/* Their product; a choice that the scenario refuses is one of them, with its reason. Fails where
 * every choice is refused. */
KVT_CHECKED kvt_status plan_make_choices(struct plan *plan, struct kvt_error *err);

/* demands.c: "classes" or "class:NAME", which the scenario's own bounds stand behind. */
bool plan_is_of_classes(const char *word);
/* Those, and what fails meanwhile, into the question. */
KVT_CHECKED kvt_status plan_read_demands(struct plan *plan, const struct kvt_scenario *scenario,
                                         struct kvt_error *err);

/* Whether as much can fail as --survive says, within the run; refuses it otherwise. */
KVT_CHECKED kvt_status plan_check_survive(const struct plan_question *question,
                                          const struct kvt_scenario *scenario,
                                          struct kvt_error *err);
/* Refuses a metric that no run of the scenario has, with what it takes. */
KVT_CHECKED kvt_status plan_check_metrics(const struct plan_question *question,
                                          const struct kvt_scenario *scenario,
                                          struct kvt_error *err);
/* Of a result: requests that a fault interrupted and that do not decode again by the end, and where
 * nothing that could serve them is left, all that wait. They have no latencies, so that a bound on
 * some would hold by them. */
double plan_stranded(const struct cJSON *result);
/* A bound on latencies of requests, or on a class of them. */
bool plan_is_of_requests(const struct plan_bound *bound);

/* ---- scenario.c ------------------------------------------------------------------------------ */

/* The scenario of a choice at a value. extra[extra_count]: set last but for the level. In the
 * arena. */
KVT_CHECKED kvt_status plan_load(const struct plan *plan, const struct plan_choice *choice, long at,
                                 enum plan_level level, struct kvt_arena *arena,
                                 struct kvt_scenario *out, struct kvt_error *err);
/* What the scenario of a choice has before anything goes along: it need not be one that can be run,
 * as what goes along may make it one. */
KVT_CHECKED kvt_status plan_read_along(const struct plan *plan, const struct plan_choice *choice,
                                       struct cli_along *out, struct kvt_error *err);
/* "PATH=VALUE" and what goes along with it appended to sets, at most PLAN_SETS_MAX in all. */
KVT_CHECKED kvt_status plan_set(const struct plan_question *question, const struct cli_along *along,
                                const char *path, const char *value, struct kvt_arena *arena,
                                const char **sets, size_t *count, struct kvt_error *err);
/* Of the objective, as --set takes it. */
void plan_print_value(const struct plan_question *question, long at, char out[PLAN_VALUE_BYTES]);
/* Whether such a failure is the scenario's, so that it is an answer, and not the machine's. */
bool plan_is_refusal(kvt_status status);

/* ---- runs.c ---------------------------------------------------------------------------------- */

/* One value of a choice, to be run on the first so many seeds. */
struct plan_wish {
    struct plan_choice *choice;
    long at;
    size_t seed_count;
    struct plan_point
        *point; /* out, in the plan's arena; NULL where a signal came before its end */
};
/* Runs what was wished and not run before, all seeds of all wishes at once. After a signal
 * plan->interrupted is set. */
KVT_CHECKED kvt_status plan_run(struct plan *plan, struct plan_wish *wishes, size_t count,
                                const char *what, struct kvt_error *err);
KVT_CHECKED kvt_status plan_runs_new(struct plan *plan, struct kvt_error *err);
void plan_runs_free(struct plan_runs *runs); /* takes NULL */
/* As simulated; NULL: it was not. */
const struct plan_point *plan_point_at(const struct plan_choice *choice, long at);

/* ---- curves.c -------------------------------------------------------------------------------- */

/* By mean values: each choice's curve, its answer by them, and which way its bounds go. A choice
 * that they cannot answer says why. */
KVT_CHECKED kvt_status plan_curves(struct plan *plan, struct plan_choice *choices, size_t count,
                                   struct kvt_error *err);
/* Of those the same by some values on one seed. */
KVT_CHECKED kvt_status plan_scout(struct plan *plan, struct plan_choice *choices, size_t count,
                                  struct kvt_error *err);

/* How a value is judged: by the curve, times what simulation made of it nearby. */
struct plan_judge {
    const struct plan_question *question;
    const struct plan_choice *choice;
    const struct plan_point *spread; /* each figure is moved by its half interval there; NULL: no */
    double direction;                /* 1: to the worse, -1: to the better */
};
double plan_judge_margin(void *judge, long at, const double *figures); /* for curve_last() */
/* Takes points that were simulated into the choice's ratios. Where the curve may ask (job). */
KVT_CHECKED kvt_status plan_correct(struct plan_choice *choice, size_t bound_count,
                                    struct kvt_error *err);
/* A figure of the curve, times what simulation made of it nearby. */
double plan_corrected(const struct plan_choice *choice, size_t b, long at, double figure);
/* All that mean values say of a value: run->metrics[metric_count], which are the caller's, NaN
 * where there are none, and run->result, the caller's to delete; NULL: mean values do not answer
 * there. They may where they have no figure for a bound. */
KVT_CHECKED kvt_status plan_mean_values(struct plan *plan, struct plan_choice *choice, long at,
                                        struct one_run *run, struct kvt_error *err);

/* ---- solve.c --------------------------------------------------------------------------------- */

/* Everything about these choices: status, answer. */
KVT_CHECKED kvt_status plan_solve(struct plan *plan, struct plan_choice *choices, size_t count,
                                  struct kvt_error *err);
/* One that was run into the choice's; it stays the plan's. */
KVT_CHECKED kvt_status plan_add_point(struct plan_choice *choice, struct plan_point *point,
                                      struct kvt_error *err);
/* Where no choice has an answer: simulates for each bound the value that was found best for it
 * otherwise, so that what is nearest was run. */
KVT_CHECKED kvt_status plan_run_nearest(struct plan *plan, struct kvt_error *err);
/* Sorts plan->order, the best first. */
void plan_rank(struct plan *plan);
/* The least slack of a point's bounds; NaN where one cannot be judged, or it was refused. */
double plan_margin(const struct plan_question *question, const struct plan_point *point);
bool plan_meets(const struct plan_question *question, const struct plan_point *point);

/* ---- interval.c ------------------------------------------------------------------------------ */

/* Of a choice's answer: the values that surely hold and surely break a bound. */
KVT_CHECKED kvt_status plan_interval(struct plan *plan, struct plan_choice *choice,
                                     struct kvt_error *err);

/* ---- nearest.c ------------------------------------------------------------------------------- */

/* The best that a bound was found to be over all that was looked at. */
struct plan_nearest {
    const struct plan_choice *choice; /* NULL: it has no value anywhere */
    long at;
    double value;
    const char *by;   /* "simulated", "first_seed", "analytic" */
    const char *says; /* why it has no value, or none on all seeds; NULL: it has */
};
struct plan_nearest plan_nearest(const struct plan *plan, size_t b);
/* The value at which a bound would be better than at any that was simulated, as far as is known of
 * choices that are simulated; false: there is none. */
bool plan_nearest_untried(const struct plan *plan, size_t b, struct plan_choice **choice, long *at);
/* Without the fault that is asked about, which mean values know nothing of. */
bool plan_knows_no_fault(const struct plan_question *question, const struct plan_choice *choice);

/* ---- binding.c ------------------------------------------------------------------------------- */

/* What stops the answer. Texts are of the plan's life; NULL: not known. */
struct plan_binding {
    const char *kind;       /* "bound", "range", "refused", "choices"; NULL: nobody knows */
    const char *constraint; /* the bound as asked for; the range's end; why it is refused */
    double value, limit;    /* of the bound, at the value beside the answer; else NaN */
    const char *says;       /* why it has no value there; NULL: it has */
    long at;                /* that value; -1: none */
    const char *because;    /* what requests wait for there, as explain says; NULL: nothing */
    const char *next;       /* of everything else what is fullest, or the bound that is nearest */
    double next_slack;      /* what is left of it, as a share; NaN: nothing is known of it */
};
KVT_CHECKED kvt_status plan_bind(struct plan *plan, struct plan_choice *choice,
                                 struct plan_binding *out, struct kvt_error *err);

/* ---- worth.c --------------------------------------------------------------------------------- */

/* The same question with more of something. */
struct plan_worth {
    const char *change; /* "one more GPU" */
    const char *const *sets;
    size_t set_count;
    const char *refused; /* why it is not answered; NULL: it is */
    bool is_untold;      /* by mean values, which cannot: runs can */
    enum plan_level level;
    double value, difference; /* the answer then, and less the answer now; NaN: none */
    bool is_range_end;        /* more is not asked for */
};
KVT_CHECKED kvt_status plan_weigh(struct plan *plan, struct plan_choice *best,
                                  struct plan_worth *out, struct kvt_error *err);

/* ---- words.c --------------------------------------------------------------------------------- */

/* "49.3"; "-" where it is not finite. */
const char *plan_figure(double value, char out[PLAN_VALUE_BYTES]);
/* The same with as many digits more as it takes to tell it from the limit that it is not. */
const char *plan_figure_beside(double value, double limit, char out[PLAN_VALUE_BYTES]);
/* Of the objective's values, with its unit. */
const char *plan_value(const struct plan_question *question, double value,
                       char out[PLAN_VALUE_BYTES]);
/* Why a bound is broken, or cannot be judged, though nothing was measured beyond its limit; NULL:
 * it has a value, or memory is short. In the arena. */
const char *plan_says(const struct plan_question *question, size_t b,
                      const struct plan_point *point, struct kvt_arena *arena);
/* On stderr, once it was run. */
void plan_tell_point(const struct plan *plan, const struct plan_wish *wish);
/* That many wait at the answer, where no bound asked for counts how long; NULL: they do not. */
const char *plan_note_waiting(const struct plan_question *question, const struct cJSON *result,
                              struct kvt_arena *arena);
/* That bounds hold at the answer because few requests come, or for a short time: by what comes to
 * the stages over what they can do, of mean values, or in a simulated open loop by when it comes.
 * Either may be NULL. NULL: it is not so. */
const char *plan_note_loaded(const struct cJSON *result, const struct cJSON *mean_values,
                             bool is_closed_loop, struct kvt_arena *arena);
/* At which of the values that were run what --survive asks for was not tested, as the run ended
 * before it struck; *out NULL: at none. */
KVT_CHECKED kvt_status plan_note_untested(const struct plan *plan, const struct plan_choice *choice,
                                          const char **out, struct kvt_error *err);
/* That a rank that fails takes its whole group along, where nobody said how it is to be, or that
 * nothing is left. */
const char *plan_note_group(const struct plan *plan, const struct plan_choice *choice);

/* ---- tree.c, looked.c, text.c ---------------------------------------------------------------- */

/* What is told of a plan that was solved. */
struct plan_answer {
    struct plan_choice *best; /* NULL: every choice is refused, or none was finished */
    bool is_met;
    struct plan_binding binding;
    struct plan_worth worth[PLAN_WORTH];
    size_t worth_count;
    const char *note; /* what should be known beside it; NULL: nothing */
    /* [choice_count] by mean values at the answer, or the best that was found. */
    struct one_run *mean_values; /* metrics NULL: none */
};
/* The run that the answer, or the best that was found, is told by; result NULL: there is none. */
struct plan_rests {
    const struct cJSON *result;
    const char *basis; /* as one_run.basis */
    const struct kvt_badge *badge;
};
struct plan_rests plan_rests_on(const struct plan *plan, const struct plan_answer *answer);
/* export.c: the answer's scenario as an engine's flags, or why it runs none. */
struct plan_export {
    struct kvt_arena *arena;
    const struct engine_export *found; /* NULL: was not asked for, or there is no answer */
    struct cJSON *tree;                /* for plan.json, which takes it */
    bool runs;
};
KVT_CHECKED kvt_status plan_export(const struct plan *plan, const struct plan_answer *answer,
                                   struct plan_export *out, struct kvt_error *err);
KVT_CHECKED kvt_status plan_export_print(struct plan_export *export, struct kvt_error *err);
void plan_export_free(struct plan_export *export);

/* plan.json; cJSON_Delete() it. NULL: no memory. */
KVT_CHECKED struct cJSON *plan_tree(const struct plan *plan, const struct plan_answer *answer);
/* looked.c: looked_at[] of a choice into its object; false: no memory. */
KVT_CHECKED bool plan_add_looked(struct cJSON *object, const struct plan *plan,
                                 const struct plan_choice *choice);
/* The choice's untested[], where there are any: values whose run ended before what --survive asks
 * for. False: out of memory. */
KVT_CHECKED bool plan_add_untested(struct cJSON *object, const struct plan *plan,
                                   const struct plan_choice *choice);
void plan_print(const struct plan *plan, const struct plan_answer *answer);
/* Where a choice is told of: its answer, or where its bounds come nearest to holding; -1: nowhere.
 */
long plan_told_at(const struct plan *plan, const struct plan_choice *choice);

#endif
