/* runs.c -- the runs behind the points: each scenario on each seed once, many at a time. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "plan.h"

struct plan_run {
    const char *key; /* the scenario in force, as text; of the plan's arena */
    size_t seed;     /* of the question's */
    bool is_done;
    /* Stalled: refused by the run itself, which could not go on; spared: it ended before the fault.
     */
    bool is_refused, is_stalled, is_spared;
    char reason[PLAN_REASON_BYTES]; /* then why */
    struct one_run outcome;
    double bounds[PLAN_BOUNDS_MAX], stranded;
    const struct kvt_scenario *scenario; /* while it is to be run */
};

struct plan_runs {
    struct plan_run **all; /* [count] */
    size_t count, room;
};

const struct plan_point *plan_point_at(const struct plan_choice *choice, long at)
{
    for (size_t i = 0; i < choice->point_count; i++) {
        if (choice->points[i]->at == at)
            return choice->points[i];
    }
    return NULL;
}

kvt_status plan_runs_new(struct plan *plan, struct kvt_error *err)
{
    plan->runs = kvt_arena_alloc(plan->arena, sizeof *plan->runs, _Alignof(struct plan_runs));
    return plan->runs != NULL ? KVT_OK : kvt_fail_nomem(err, "a plan");
}

void plan_runs_free(struct plan_runs *runs)
{
    for (size_t i = 0; runs != NULL && i < runs->count; i++)
        cJSON_Delete(runs->all[i]->outcome.result);
    if (runs != NULL)
        free(runs->all);
}

/* ---- One run --------------------------------------------------------------------------------- */

/* Of those that the class's requests attained. NaN: nothing is said of it. Where some are stranded
 * nobody waits for those that have not ended: they have not met what was promised. */
static double attained(const cJSON *result, const char *name, bool is_stranded)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, kvt_json_find(result, "classes"))
    {
        const cJSON *its_name = kvt_json_find(item, "name");
        if (!cJSON_IsString(its_name) || strcmp(its_name->valuestring, name) != 0)
            continue;
        return is_stranded ? kvt_json_number_or(item, "met", NAN) /
                                 kvt_json_number_or(item, "requests", NAN)
                           : kvt_json_number_or(item, "attained_share", NAN);
    }
    return NAN;
}

/* A request that nobody will ever serve takes for ever: what bounds the latencies of all is broken
 * by it, however fast the others were. */
static void read_bounds(const struct plan_question *question, struct plan_run *run)
{
    const struct one_run *outcome = &run->outcome;

    run->stranded = plan_stranded(outcome->result);
    for (size_t b = 0; b < question->bound_count; b++) {
        const struct plan_bound *bound = &question->bounds[b];
        if (bound->class_name != NULL)
            run->bounds[b] = attained(outcome->result, bound->class_name, run->stranded > 0);
        else if (run->stranded > 0 && plan_is_of_requests(bound))
            run->bounds[b] = INFINITY;
        else
            run->bounds[b] = outcome->metrics[bound->metric];
    }
}

/* A fault that the run ends before says nothing of what survives it. */
static bool was_spared(const struct plan_question *question, struct plan_run *run)
{
    size_t struck = 0, duration = 0;

    if (question->survive_set == NULL ||
        kvt_metric_find("faults", "plan", &struck, NULL) != KVT_OK ||
        kvt_metric_find("duration", "plan", &duration, NULL) != KVT_OK ||
        run->outcome.metrics[struck] > 0)
        return false;
    (void)snprintf(run->reason, sizeof run->reason,
                   "plan --survive: %s never strikes: the run ends after %.4g s; an earlier "
                   "@SECONDS, or a longer run, is expected",
                   question->options->survive, run->outcome.metrics[duration]);
    return true;
}

struct batch {
    struct plan *plan;
    struct plan_run **runs; /* [count] */
};

static kvt_status run_job(void *context, size_t index, unsigned threads, struct cli_job *job,
                          struct kvt_error *err)
{
    const struct batch *batch = context;
    const struct plan_question *question = &batch->plan->question;
    struct plan_run *run = batch->runs[index];
    const struct one_run_options options = {.threads = threads,
                                            .cache_dir = question->cache_dir,
                                            .surfaces = batch->plan->surfaces,
                                            .wants_result = true};
    kvt_status status =
        one_run(run->scenario, question->seeds[run->seed], &options, job, &run->outcome, err);

    if (status == KVT_OK) {
        read_bounds(question, run);
        run->is_refused = run->is_spared = was_spared(question, run);
        if (run->seed > 0) {
            cJSON_Delete(run->outcome.result);
            run->outcome.result = NULL;
        }
        run->is_done = true;
    } else if (plan_is_refusal(status)) {
        (void)snprintf(run->reason, sizeof run->reason, "%s%s%s", err->where,
                       err->where[0] != '\0' ? ": " : "", err->message);
        run->is_refused = true;
        run->is_stalled = status == KVT_ERR_STALLED;
        run->is_done = true;
        status = KVT_OK;
    }
    return status;
}

/* ---- What is wished and was not run yet ------------------------------------------------------ */

static struct plan_run *find_run(const struct plan_runs *runs, const char *key, size_t seed)
{
    for (size_t i = 0; i < runs->count; i++) {
        if (runs->all[i]->seed == seed && strcmp(runs->all[i]->key, key) == 0)
            return runs->all[i];
    }
    return NULL;
}

static struct plan_run *add_run(struct plan *plan, const char *key, size_t seed)
{
    struct plan_runs *runs = plan->runs;
    struct plan_run *run = kvt_arena_alloc(plan->arena, sizeof *run, _Alignof(struct plan_run));
    double *metrics = kvt_arena_array(plan->arena, plan->question.metric_count, sizeof *metrics,
                                      _Alignof(double));

    if (run == NULL || metrics == NULL)
        return NULL;
    if (runs->count == runs->room) {
        size_t room = runs->room > 0 ? 2 * runs->room : 64;
        struct plan_run **all = realloc(runs->all, room * sizeof(struct plan_run *));
        if (all == NULL)
            return NULL;
        runs->all = all;
        runs->room = room;
    }
    *run = (struct plan_run){.key = key, .seed = seed, .outcome.metrics = metrics};
    runs->all[runs->count++] = run;
    return run;
}

/* The scenario of a wish, and the text that tells it from any other; *key NULL where it is refused,
 * with the reason in why. */
static kvt_status load_wish(struct plan *plan, const struct plan_wish *wish,
                            struct kvt_arena *arena, const struct kvt_scenario **scenario,
                            const char **key, struct kvt_error *why, struct kvt_error *err)
{
    struct kvt_scenario *loaded =
        kvt_arena_alloc(arena, sizeof *loaded, _Alignof(struct kvt_scenario));

    *key = NULL;
    if (loaded == NULL)
        return kvt_fail_nomem(err, "a point");
    kvt_status status = plan_load(plan, wish->choice, wish->at, PLAN_SIMULATED, arena, loaded, why);
    if (status != KVT_OK) {
        if (plan_is_refusal(status))
            return KVT_OK;
        *err = *why;
        return status;
    }
    char *text = kvt_json_print(loaded->tree);
    if (text == NULL)
        return kvt_fail_nomem(err, "a point");
    *key = kvt_arena_strdup(plan->arena, text);
    *scenario = loaded;
    free(text);
    return *key != NULL ? KVT_OK : kvt_fail_nomem(err, "a point");
}

/* What a wish needs: its runs, seed by seed; runs[0] NULL where it is refused. */
struct need {
    struct plan_run *runs[PLAN_SEEDS_MAX];
    struct kvt_error why;
};

static kvt_status find_needs(struct plan *plan, const struct plan_wish *wish,
                             struct kvt_arena *arena, struct need *need, struct batch *batch,
                             size_t *pending, bool *is_measured, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = NULL;
    const char *key = NULL;
    kvt_status status = load_wish(plan, wish, arena, &scenario, &key, &need->why, err);

    if (status != KVT_OK || key == NULL)
        return status;
    *is_measured = *is_measured || kvt_backend_runs(&scenario->backend);
    for (size_t s = 0; s < wish->seed_count; s++) {
        struct plan_run *run = find_run(plan->runs, key, s);
        if (run == NULL && (run = add_run(plan, key, s)) == NULL)
            return kvt_fail_nomem(err, "a run");
        if (!run->is_done && run->scenario == NULL) {
            run->scenario = scenario;
            batch->runs[(*pending)++] = run;
        }
        need->runs[s] = run;
    }
    return KVT_OK;
}

/* ---- Points ---------------------------------------------------------------------------------- */

/* One that is without end has the mean be so, whatever the others are. */
static void estimate_bound(const double *values, size_t count, struct kvt_estimate *out)
{
    kvt_estimate_of(values, count, out);
    for (size_t s = 0; s < count; s++) {
        if (isinf(values[s]))
            *out = (struct kvt_estimate){values[s], NAN, NAN};
    }
}

static bool estimate(const struct plan_question *question, const struct need *need, size_t seeds,
                     struct plan_point *point, struct kvt_arena *arena)
{
    double values[PLAN_SEEDS_MAX];

    point->metrics = kvt_arena_array(arena, question->metric_count, sizeof *point->metrics,
                                     _Alignof(struct kvt_estimate));
    point->bounds = kvt_arena_array(arena, question->bound_count + 1, sizeof *point->bounds,
                                    _Alignof(struct kvt_estimate));
    if (point->metrics == NULL || point->bounds == NULL)
        return false;
    for (size_t m = 0; m < question->metric_count; m++) {
        for (size_t s = 0; s < seeds; s++)
            values[s] = need->runs[s]->outcome.metrics[m];
        kvt_estimate_of(values, seeds, &point->metrics[m]);
    }
    for (size_t b = 0; b < question->bound_count; b++) {
        for (size_t s = 0; s < seeds; s++)
            values[s] = need->runs[s]->bounds[b];
        estimate_bound(values, seeds, &point->bounds[b]);
    }
    return true;
}

static kvt_status make_point(struct plan *plan, struct plan_wish *wish, const struct need *need,
                             struct kvt_error *err)
{
    struct plan_point *point =
        kvt_arena_alloc(plan->arena, sizeof *point, _Alignof(struct plan_point));

    if (point == NULL)
        return kvt_fail_nomem(err, "a point");
    *point = (struct plan_point){.at = wish->at, .level = PLAN_SIMULATED};
    if (need->runs[0] == NULL)
        point->refused =
            kvt_arena_printf(plan->arena, "%s%s%s", need->why.where,
                             need->why.where[0] != '\0' ? ": " : "", need->why.message);
    for (size_t s = 0; need->runs[0] != NULL && s < wish->seed_count; s++) {
        struct plan_run *run = need->runs[s];
        if (!run->is_done)
            return KVT_OK; /* a signal came before */
        if (run->is_refused && (point->refused == NULL || (run->is_stalled && !point->is_stalled)))
            point->refused = run->reason;
        point->is_stalled = point->is_stalled || run->is_stalled;
        point->is_spared = (point->is_spared || run->is_spared) && !point->is_stalled;
        point->stranded = fmax(point->stranded, run->stranded);
        if (!run->is_refused)
            kvt_badge_join(&point->badge, &run->outcome.badge);
    }
    if (need->runs[0] != NULL && point->refused == NULL) {
        point->basis = need->runs[0]->outcome.basis;
        point->result = need->runs[0]->outcome.result;
        if (!estimate(&plan->question, need, wish->seed_count, point, plan->arena))
            return kvt_fail_nomem(err, "a point");
    }
    wish->point = point;
    return KVT_OK;
}

static kvt_status run_batch(struct batch *batch, size_t pending, bool is_measured, const char *what,
                            struct kvt_error *err)
{
    struct plan *plan = batch->plan;
    size_t failed = 0;
    struct kvt_error why;
    char what_of[64];
    const struct cli_jobs jobs = {.count = pending,
                                  .threads = plan->question.threads,
                                  .at_once = is_measured ? 1 : 0,
                                  .quiet = plan->question.options->quiet,
                                  .what = what_of,
                                  .run = run_job,
                                  .context = batch};

    if (pending > 0)
        plan->round++;
    (void)snprintf(what_of, sizeof what_of, "%s, round %u", what, plan->round);
    kvt_status status = cli_jobs_run(&jobs, &failed, &why);

    for (size_t i = 0; i < pending; i++)
        batch->runs[i]->scenario = NULL;
    plan->interrupted = plan->interrupted || cli_interrupted();
    return status == KVT_OK ? KVT_OK : kvt_fail(err, status, why.where, "%s", why.message);
}

kvt_status plan_run(struct plan *plan, struct plan_wish *wishes, size_t count, const char *what,
                    struct kvt_error *err)
{
    struct kvt_arena *arena = kvt_arena_new(1 << 18); /* of the scenarios, while they run */
    struct need *needs = calloc(count, sizeof *needs);
    struct batch batch = {.plan = plan,
                          .runs = calloc(count * PLAN_SEEDS_MAX, sizeof(struct plan_run *))};
    size_t pending = 0;
    bool is_measured = false;
    kvt_status status = arena != NULL && needs != NULL && batch.runs != NULL
                            ? KVT_OK
                            : kvt_fail_nomem(err, "a round of runs");

    for (size_t i = 0; status == KVT_OK && i < count; i++) {
        wishes[i].point = NULL;
        status =
            find_needs(plan, &wishes[i], arena, &needs[i], &batch, &pending, &is_measured, err);
    }
    if (status == KVT_OK)
        status = run_batch(&batch, pending, is_measured, what, err);
    for (size_t i = 0; status == KVT_OK && i < count; i++) {
        status = make_point(plan, &wishes[i], &needs[i], err);
        if (status == KVT_OK && pending > 0)
            plan_tell_point(plan, &wishes[i]);
    }
    free(batch.runs);
    free(needs);
    kvt_arena_free(arena);
    return status;
}
