/* curves.c -- what is known of a choice before it is simulated: its bounds' figures over the values
 * of the objective.
 *
 *     by mean values:  a few milliseconds a value, any value
 *     else:            PLAN_SCOUTS values on the first seed, straight lines between them
 *
 * Once values were simulated, a curve is judged times the ratio of both there, between two of them
 * by a straight line: the curve gives the slope, simulation the height. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

/* ---- One value by mean values -------------------------------------------------------------------
 */

/* run->metrics are NaN where the scenario is refused, which its choice notes. */
static kvt_status solve_point(struct plan *plan, struct plan_choice *choice, long at,
                              bool wants_result, struct one_run *run, struct kvt_error *err)
{
    struct kvt_error why;
    struct kvt_arena *arena = kvt_arena_new(1 << 17);
    struct kvt_scenario *scenario =
        arena != NULL ? kvt_arena_alloc(arena, sizeof *scenario, _Alignof(struct kvt_scenario))
                      : NULL;
    const struct one_run_options options = {.threads = choice->job_threads,
                                            .cache_dir = plan->question.cache_dir,
                                            .surfaces = plan->surfaces,
                                            .wants_result = wants_result};

    if (scenario == NULL) {
        kvt_arena_free(arena);
        return kvt_fail_nomem(err, "a point");
    }
    kvt_status status = plan_load(plan, choice, at, PLAN_ANALYTIC, arena, scenario, &why);
    if (status == KVT_OK)
        status = one_run(scenario, plan->question.seeds[0], &options, choice->job, run, &why);
    kvt_arena_free(arena);
    if (status == KVT_OK)
        return KVT_OK;
    for (size_t m = 0; m < plan->question.metric_count; m++)
        run->metrics[m] = NAN;
    if (!plan_is_refusal(status)) {
        *err = why;
        return status;
    }
    choice->few = kvt_arena_printf(choice->arena, "%s%s%s", why.where,
                                   why.where[0] != '\0' ? ": " : "", why.message);
    return choice->few != NULL ? KVT_OK : kvt_fail_nomem(err, "a reason");
}

struct asking {
    struct plan *plan;
    struct plan_choice *choice;
};

/* Half of the job is what is looked at first, the rest a scan, where there is one. */
static void note_part(const struct plan_choice *choice, long value_count)
{
    double known = (double)choice->curve.point_count;
    double first = fmin(CURVE_GRID, (double)value_count);
    double all = fmin(CURVE_SCAN, (double)value_count) + 1;

    if (known < first)
        cli_job_part(choice->job, known / first / 2, (known + 1) / first / 2);
    else
        cli_job_part(choice->job, fmin(0.5 + known / all / 2, 1),
                     fmin(0.5 + (known + 1) / all / 2, 1));
}

static kvt_status ask_mean_values(void *context, long at, double *figures, struct kvt_error *err)
{
    const struct asking *asking = context;
    const struct plan_question *question = &asking->plan->question;
    double *metrics = calloc(question->metric_count, sizeof *metrics);
    struct one_run run = {.metrics = metrics};

    if (metrics == NULL)
        return kvt_fail_nomem(err, "a point");
    note_part(asking->choice, question->value_count);
    kvt_status status = solve_point(asking->plan, asking->choice, at, false, &run, err);
    for (size_t b = 0; b < question->bound_count; b++)
        figures[b] = question->bounds[b].class_name != NULL ? (double)NAN
                                                            : metrics[question->bounds[b].metric];
    if (question->path == NULL)
        figures[question->bound_count] = metrics[question->metric];
    free(metrics);
    return status;
}

/* ---- Judging --------------------------------------------------------------------------------- */

/* Ratios lie by value. NaN ones say nothing. */
static double ratio_at(const struct plan_choice *choice, size_t figure, long at)
{
    const struct plan_ratio *below = NULL, *above = NULL;

    for (size_t i = 0; i < choice->ratio_count; i++) {
        const struct plan_ratio *ratio = &choice->ratios[i];
        if (isnan(ratio->of[figure]))
            continue;
        if (ratio->at <= at)
            below = ratio;
        else if (above == NULL)
            above = ratio;
    }
    if (below == NULL && above == NULL)
        return 1;
    if (below == NULL || above == NULL)
        return below != NULL ? below->of[figure] : above->of[figure];
    double share = (double)(at - below->at) / (double)(above->at - below->at);
    return below->of[figure] + share * (above->of[figure] - below->of[figure]);
}

double plan_corrected(const struct plan_choice *choice, size_t b, long at, double figure)
{
    return figure * ratio_at(choice, b, at);
}

/* By how much of itself a figure is worse at the far end of its interval. */
static double half_interval(const struct plan_judge *judge, size_t b)
{
    const struct kvt_estimate *estimate = &judge->spread->bounds[b];
    bool is_upper = judge->question->bounds[b].op == KVT_LESS ||
                    judge->question->bounds[b].op == KVT_LESS_EQUAL;
    double half = (estimate->high - estimate->low) / 2 / fabs(estimate->mean);

    return isfinite(half) ? judge->direction * (is_upper ? half : -half) : 0;
}

double plan_judge_margin(void *context, long at, const double *figures)
{
    const struct plan_judge *judge = context;
    double least = INFINITY;

    for (size_t b = 0; b < judge->question->bound_count; b++) {
        const struct plan_bound *bound = &judge->question->bounds[b];
        double value = plan_corrected(judge->choice, b, at, figures[b]);
        if (judge->spread != NULL)
            value *= 1 + half_interval(judge, b);
        if (isnan(value))
            return NAN;
        double slack = plan_slack(bound, value);
        if (slack == 0 && !plan_holds(bound, value)) /* on a limit that is not to be touched */
            slack = -1e-12;
        least = fmin(least, slack);
    }
    return least;
}

kvt_status plan_correct(struct plan_choice *choice, size_t bound_count, struct kvt_error *err)
{
    const double *figures = NULL;

    choice->ratios = kvt_arena_array(choice->arena, choice->point_count + 1, sizeof *choice->ratios,
                                     _Alignof(struct plan_ratio));
    if (choice->ratios == NULL)
        return kvt_fail_nomem(err, "a curve");
    choice->ratio_count = 0;
    for (size_t i = 0; i < choice->point_count; i++) {
        const struct plan_point *point = choice->points[i];
        if (point->refused != NULL)
            continue;
        kvt_status status = curve_at(&choice->curve, point->at, &figures, err);
        if (status != KVT_OK)
            return status;
        struct plan_ratio ratio = {.at = point->at};
        for (size_t b = 0; b < bound_count; b++) {
            double value = point->bounds[b].mean / figures[b];
            ratio.of[b] = isfinite(value) && value != 0 ? value : (double)NAN;
        }
        size_t place = choice->ratio_count++;
        for (; place > 0 && choice->ratios[place - 1].at > ratio.at; place--)
            choice->ratios[place] = choice->ratios[place - 1];
        choice->ratios[place] = ratio;
    }
    return KVT_OK;
}

/* Which way each bound goes: harder or easier to hold at later values, by the ends that are known.
 */
static void read_trends(const struct plan_question *question, struct plan_choice *choice)
{
    for (size_t b = 0; b < question->bound_count; b++) {
        double first = NAN, last = NAN;
        for (size_t i = 0; i < choice->curve.point_count; i++) {
            double slack = plan_slack(&question->bounds[b], choice->curve.points[i].figures[b]);
            if (isnan(slack))
                continue;
            first = isnan(first) ? slack : first;
            last = slack;
        }
        choice->trend_is_down[b] = !(last > first + 0.01);
    }
}

/* ---- By mean values ----------------------------------------------------------------------------
 */

static bool is_known(const struct curve *curve, size_t figure)
{
    for (size_t i = 0; i < curve->point_count; i++) {
        if (!isnan(curve->points[i].figures[figure]))
            return true;
    }
    return false;
}

/* Why mean values cannot answer for the choice; NULL: they can. */
static const char *why_not(const struct plan_question *question, const struct plan_choice *choice)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);

    for (size_t f = 0; f < choice->curve.figure_count; f++) {
        if (is_known(&choice->curve, f))
            continue;
        bool is_bound = f < question->bound_count;
        const char *name = !is_bound ? docs[question->metric].name
                           : question->bounds[f].class_name != NULL
                               ? question->bounds[f].text
                               : docs[question->bounds[f].metric].name;
        if (choice->few != NULL)
            return choice->few;
        return kvt_arena_printf(choice->arena, "mean values have no %s", name);
    }
    return NULL;
}

static kvt_status curve_job(void *context, size_t index, unsigned threads, struct cli_job *job,
                            struct kvt_error *err)
{
    struct asking *asking = (struct asking *)context + index;
    struct plan_choice *choice = asking->choice;
    const struct plan_question *question = &asking->plan->question;
    struct plan_judge judge = {.question = question, .choice = choice};

    choice->job = job;
    choice->job_threads = threads;
    choice->curve.figure_count = question->bound_count + (question->path == NULL);
    choice->curve.at = ask_mean_values;
    choice->curve.context = asking;
    kvt_status status = curve_look(&choice->curve, question->value_count, question->values, err);
    if (status != KVT_OK)
        return status;
    choice->no_analytic = why_not(question, choice);
    if (choice->no_analytic != NULL)
        return KVT_OK;
    read_trends(question, choice);
    return curve_last(&choice->curve, -1, question->value_count, plan_judge_margin, &judge,
                      &choice->analytic_answer, err);
}

kvt_status plan_curves(struct plan *plan, struct plan_choice *choices, size_t count,
                       struct kvt_error *err)
{
    struct asking *all = kvt_arena_array(plan->arena, count, sizeof *all, _Alignof(struct asking));
    size_t asked = 0, failed = 0;

    if (all == NULL)
        return kvt_fail_nomem(err, "a plan");
    for (size_t i = 0; i < count; i++) {
        if (choices[i].status == PLAN_REFUSED)
            continue;
        choices[i].arena = kvt_arena_new(1 << 14);
        if (choices[i].arena == NULL)
            return kvt_fail_nomem(err, "a plan");
        if (plan->question.options->no_analytic)
            choices[i].no_analytic = "--no-analytic";
        else
            all[asked++] = (struct asking){.plan = plan, .choice = &choices[i]};
    }
    if (asked == 0)
        return KVT_OK;
    const struct cli_jobs jobs = {.count = asked,
                                  .threads = plan->question.threads,
                                  .quiet = plan->question.options->quiet,
                                  .what = "mean values",
                                  .run = curve_job,
                                  .context = all};
    kvt_status status = cli_jobs_run(&jobs, &failed, err);
    plan->interrupted = plan->interrupted || cli_interrupted();
    return status;
}

/* ---- By some values on one seed ----------------------------------------------------------------
 */

static kvt_status between_scouts(void *context, long at, double *figures, struct kvt_error *err)
{
    const struct asking *asking = context;
    const struct plan_choice *choice = asking->choice;
    const double *values = asking->plan->question.values;

    (void)err;
    for (size_t f = 0; f < choice->curve.figure_count; f++) {
        const struct curve_point *below = NULL, *above = NULL;
        for (size_t i = 0; i < choice->scout_count; i++) {
            const struct curve_point *scout = &choice->scouts[i];
            if (isnan(scout->figures[f]))
                continue;
            if (scout->candidate <= at)
                below = scout;
            else if (above == NULL)
                above = scout;
        }
        figures[f] = NAN;
        if (below != NULL && (above == NULL || below->candidate == at))
            figures[f] = below->figures[f];
        else if (above != NULL && below == NULL)
            figures[f] = above->figures[f];
        else if (above != NULL)
            figures[f] =
                below->figures[f] + (above->figures[f] - below->figures[f]) *
                                        (values[at] - values[below->candidate]) /
                                        (values[above->candidate] - values[below->candidate]);
    }
    return KVT_OK;
}

static kvt_status take_scouts(struct plan *plan, struct plan_choice *choice,
                              const struct plan_wish *wishes, size_t count, struct kvt_error *err)
{
    const struct plan_question *question = &plan->question;
    const double *figures = NULL;
    struct asking *asking = kvt_arena_alloc(plan->arena, sizeof *asking, _Alignof(struct asking));
    kvt_status status = KVT_OK;

    if (asking == NULL)
        return kvt_fail_nomem(err, "a plan");
    *asking = (struct asking){.plan = plan, .choice = choice};
    curve_free(&choice->curve);
    choice->curve = (struct curve){
        .figure_count = question->bound_count, .at = between_scouts, .context = asking};
    for (size_t i = 0; i < count; i++) {
        const struct plan_point *point = wishes[i].point;
        struct curve_point *scout = &choice->scouts[choice->scout_count];
        if (wishes[i].choice != choice || point == NULL || point->refused != NULL)
            continue;
        scout->candidate = point->at;
        for (size_t b = 0; b < question->bound_count; b++)
            scout->figures[b] = point->bounds[b].mean;
        choice->scout_count++;
    }
    for (size_t i = 0; status == KVT_OK && i < choice->scout_count; i++)
        status = curve_at(&choice->curve, choice->scouts[i].candidate, &figures, err);
    curve_check(&choice->curve);
    read_trends(question, choice);
    return status;
}

kvt_status plan_scout(struct plan *plan, struct plan_choice *choices, size_t count,
                      struct kvt_error *err)
{
    const struct plan_question *question = &plan->question;
    struct plan_wish *wishes = calloc(count * PLAN_SCOUTS + 1, sizeof *wishes);
    size_t wished = 0;

    if (wishes == NULL)
        return kvt_fail_nomem(err, "a plan");
    for (size_t i = 0; i < count; i++) {
        long before = -1;
        /* Of one value nothing can be known before it is simulated. */
        int scouts = question->value_count == 1 ? 0 : choices[i].nothing_left ? 1 : PLAN_SCOUTS;
        for (int s = 0; choices[i].no_analytic != NULL && s < scouts; s++) {
            long at = curve_spread(question->value_count, question->values,
                                   (double)s / (PLAN_SCOUTS - 1));
            if (at == before)
                continue;
            before = at;
            wishes[wished++] = (struct plan_wish){.choice = &choices[i], .at = at, .seed_count = 1};
        }
    }
    kvt_status status = wished > 0 ? plan_run(plan, wishes, wished, "one seed", err) : KVT_OK;
    for (size_t i = 0; status == KVT_OK && i < count; i++) {
        if (choices[i].no_analytic != NULL)
            status = take_scouts(plan, &choices[i], wishes, wished, err);
    }
    free(wishes);
    return status;
}

/* ---- All of one value ------------------------------------------------------------------------ */

struct one_value {
    struct plan *plan;
    struct plan_choice *choice;
    long at;
    struct one_run *run;
};

static kvt_status value_job(void *context, size_t index, unsigned threads, struct cli_job *job,
                            struct kvt_error *err)
{
    const struct one_value *value = context;

    (void)index;
    value->choice->job = job;
    value->choice->job_threads = threads;
    return solve_point(value->plan, value->choice, value->at, true, value->run, err);
}

kvt_status plan_mean_values(struct plan *plan, struct plan_choice *choice, long at,
                            struct one_run *run, struct kvt_error *err)
{
    struct one_value value = {.plan = plan, .choice = choice, .at = at, .run = run};
    const struct cli_jobs jobs = {
        .count = 1, .threads = 1, .quiet = true, .run = value_job, .context = &value};
    size_t failed = 0;

    run->result = NULL;
    for (size_t m = 0; m < plan->question.metric_count; m++)
        run->metrics[m] = NAN;
    return !plan->question.options->no_analytic ? cli_jobs_run(&jobs, &failed, err) : KVT_OK;
}
