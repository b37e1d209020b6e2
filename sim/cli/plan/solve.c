/* solve.c -- the answer of each choice.
 *
 *     by mean values: its curve, and the last value that meets
 *     by simulation:  round by round; in each, every choice that is not bracketed names the value
 *                     that its corrected curve says would be the last to meet, or that one's
 *                     neighbour, and all of them run at once, on the same seeds
 *
 * A choice ends where a value that meets all bounds stands beside one that does not. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

double plan_margin(const struct plan_question *question, const struct plan_point *point)
{
    double least = INFINITY;

    if (point->refused != NULL)
        return NAN;
    for (size_t b = 0; b < question->bound_count; b++) {
        double slack = plan_slack(&question->bounds[b], point->bounds[b].mean);
        if (isnan(slack))
            return NAN;
        least = fmin(least, slack);
    }
    return least;
}

bool plan_meets(const struct plan_question *question, const struct plan_point *point)
{
    bool meets = point->refused == NULL;

    for (size_t b = 0; meets && b < question->bound_count; b++)
        meets = plan_holds(&question->bounds[b], point->bounds[b].mean);
    return meets;
}

/* A run that could not go on was struck too. */
static bool was_struck(const struct plan_point *point)
{
    return point->refused == NULL || point->is_stalled;
}

static bool any_spared(const struct plan_choice *choice)
{
    for (size_t i = 0; i < choice->point_count; i++) {
        if (choice->points[i]->is_spared)
            return true;
    }
    return false;
}

static const struct plan_point *first_struck(const struct plan_choice *choice)
{
    for (size_t i = 0; i < choice->point_count; i++) {
        if (was_struck(choice->points[i]))
            return choice->points[i];
    }
    return NULL;
}

/* A run that its fault spared says nothing of the bounds, but that the answer lies where runs are
 * longer: whether that is below it. One that was struck says which way; until there is one it is
 * taken to be above. */
static bool is_short(const struct plan_question *question, const struct plan_choice *choice,
                     const struct plan_point *point)
{
    const struct plan_point *struck = first_struck(choice);

    return struck != NULL ? struck->at < point->at : point->at == question->value_count - 1;
}

static enum search_verdict verdict_of(const struct plan_question *question,
                                      const struct plan_choice *choice,
                                      const struct plan_point *point)
{
    if (plan_meets(question, point))
        return SEARCH_MEETS;
    if (point->is_spared)
        return is_short(question, choice, point) ? SEARCH_TOO_HIGH : SEARCH_TOO_LOW;
    if (point->refused != NULL)
        return SEARCH_TOO_HIGH;
    for (size_t b = 0; b < question->bound_count; b++) {
        if (!plan_holds(&question->bounds[b], point->bounds[b].mean) && choice->trend_is_down[b])
            return SEARCH_TOO_HIGH;
    }
    return SEARCH_TOO_LOW;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

kvt_status plan_add_point(struct plan_choice *choice, struct plan_point *point,
                          struct kvt_error *err)
{
    if (choice->point_count == choice->point_room) {
        size_t room = choice->point_room > 0 ? 2 * choice->point_room : 16;
        struct plan_point **points = realloc(choice->points, room * sizeof(struct plan_point *));
        if (points == NULL)
            return kvt_fail_nomem(err, "a point");
        choice->points = points;
        choice->point_room = room;
    }
    choice->points[choice->point_count++] = point;
    return KVT_OK;
}

struct naming {
    struct plan *plan;
    struct plan_choice *choice;
};

/* Nothing is left once the fault has struck: any other value ends as the one that was struck. */
static bool is_lost(const struct plan_question *question, const struct plan_choice *choice)
{
    for (size_t i = 0; choice->nothing_left && i < choice->point_count; i++) {
        const struct plan_point *point = choice->points[i];
        if ((point->refused == NULL || point->is_stalled) && !plan_meets(question, point))
            return true;
    }
    return false;
}

static bool is_spared_at(const struct plan_choice *choice, long at)
{
    const struct plan_point *point = plan_point_at(choice, at);

    return point != NULL && point->is_spared;
}

/* What is known beforehand does not know how long runs are: towards an end that was spared it leads
 * nowhere, and the middle is as good. */
static long guess_between(const struct plan_choice *choice, long guess)
{
    const struct search *search = &choice->search;
    bool leads_nowhere = (guess <= search->low && is_spared_at(choice, search->low)) ||
                         (guess >= search->high - 1 && is_spared_at(choice, search->high));

    return leads_nowhere ? search->low + (search->high - search->low) / 2 : guess;
}

/* The value that a choice wants run next; -1: it is bracketed, or nothing can meet. */
static kvt_status name_next(void *context, size_t index, unsigned threads, struct cli_job *job,
                            struct kvt_error *err)
{
    const struct naming *naming = (const struct naming *)context + index;
    struct plan_choice *choice = naming->choice;
    const struct plan_question *question = &naming->plan->question;
    struct search *search = &choice->search;
    struct plan_judge judge = {.question = question, .choice = choice};
    long guess = -1;

    choice->job = job;
    choice->job_threads = threads;
    choice->wanted = -1;
    if (is_lost(question, choice))
        return KVT_OK;
    kvt_status status = plan_correct(choice, question->bound_count, err);
    if (status == KVT_OK && search->high - search->low > 1)
        status = curve_last(&choice->curve, search->low, search->high, plan_judge_margin, &judge,
                            &guess, err);
    if (status != KVT_OK)
        return status;
    if (search->tries == 0) {
        long best = guess >= 0 ? guess : curve_best(&choice->curve, plan_judge_margin, &judge);
        search->first = best >= 0 ? best : 0;
    }
    /* Where some were spared the value that is wanted least may be one of them: the one next to
     * those stands for it, and is closed in on. */
    bool is_hopeless = guess < 0 && !search->low_meets && search->tries >= 2 && !any_spared(choice);
    if (is_hopeless || !search_next(search, guess_between(choice, guess), &choice->wanted))
        choice->wanted = -1;
    /* What is known beforehand may be wrong altogether: nothing is given up before the value that
     * is wanted least, which most bounds hold at if at any, has failed as well. */
    if (choice->wanted < 0 && !search->low_meets && plan_point_at(choice, 0) == NULL)
        choice->wanted = 0;
    return KVT_OK;
}

static kvt_status name_all(struct plan *plan, struct plan_choice *choices, size_t count,
                           struct naming *namings, size_t *named, struct kvt_error *err)
{
    size_t failed = 0;

    *named = 0;
    for (size_t i = 0; i < count; i++) {
        if (choices[i].is_simulated && choices[i].status == PLAN_OPEN)
            namings[(*named)++] = (struct naming){.plan = plan, .choice = &choices[i]};
    }
    const struct cli_jobs jobs = {.count = *named,
                                  .threads = plan->question.threads,
                                  .quiet = true,
                                  .what = "naming values",
                                  .run = name_next,
                                  .context = namings};
    kvt_status status = cli_jobs_run(&jobs, &failed, err);
    plan->interrupted = plan->interrupted || cli_interrupted();
    return status;
}

/* A choice of which every value was refused is itself, and so is one without the metric that is
 * wanted. */
static void end_choice(const struct plan_question *question, struct plan_choice *choice)
{
    const struct plan_point *only = question->path == NULL ? plan_point_at(choice, 0) : NULL;
    size_t count = 0;
    bool runs = choice->scout_count > 0, stalls = false;

    for (size_t i = 0; i < choice->point_count; i++) {
        runs = runs || choice->points[i]->refused == NULL;
        stalls = stalls || choice->points[i]->is_stalled;
    }
    if (!runs && choice->point_count > 0) {
        choice->status = stalls ? PLAN_UNREACHED : PLAN_REFUSED;
        choice->reason = choice->points[choice->point_count - 1]->refused;
        return;
    }
    if (only != NULL && only->metrics != NULL && isnan(only->metrics[question->metric].mean)) {
        choice->status = PLAN_REFUSED;
        choice->reason = kvt_arena_printf(choice->arena, "%s has no value in the runs of all seeds",
                                          kvt_metric_docs(&count)[question->metric].name);
        return;
    }
    choice->status = choice->search.low_meets ? PLAN_MET : PLAN_UNREACHED;
    choice->answer = choice->search.low_meets ? choice->search.low : -1;
}

/* The lowest value that was run and does not meet; value_count: none. */
static long first_failing(const struct plan_question *question, const struct plan_choice *choice)
{
    long first = question->value_count;

    for (size_t i = 0; i < choice->point_count; i++) {
        if (choice->points[i]->at < first && !plan_meets(question, choice->points[i]))
            first = choice->points[i]->at;
    }
    return first;
}

static void tell(const struct plan_question *question, struct plan_choice *choice,
                 const struct plan_point *point)
{
    enum search_verdict verdict = verdict_of(question, choice, point);

    if (verdict == SEARCH_MEETS && !choice->search.low_meets && point->at < choice->search.low)
        search_restart(&choice->search, point->at, first_failing(question, choice));
    else
        search_tell(&choice->search, point->at, verdict);
}

/* Into the choice's points and its search. The first one that a fault strikes tells on which side
 * of it runs are short, so that those before it are judged anew. */
static kvt_status take_in(const struct plan_question *question, struct plan_choice *choice,
                          struct plan_point *point, struct kvt_error *err)
{
    bool is_first = was_struck(point) && any_spared(choice) && first_struck(choice) == NULL;
    kvt_status status = plan_add_point(choice, point, err);

    if (status != KVT_OK)
        return status;
    if (!is_first) {
        tell(question, choice, point);
        return KVT_OK;
    }
    search_begin(&choice->search, question->value_count, choice->search.first);
    for (size_t i = 0; i < choice->point_count; i++)
        tell(question, choice, choice->points[i]);
    return KVT_OK;
}

/* One round; *more is false once nobody wants anything. */
static kvt_status run_round(struct plan *plan, struct plan_choice *choices, size_t count,
                            struct naming *namings, struct plan_wish *wishes, bool *more,
                            struct kvt_error *err)
{
    const struct plan_question *question = &plan->question;
    size_t named = 0, wished = 0;
    kvt_status status = name_all(plan, choices, count, namings, &named, err);

    for (size_t i = 0; status == KVT_OK && !plan->interrupted && i < named; i++) {
        struct plan_choice *choice = namings[i].choice;
        if (choice->wanted >= 0)
            wishes[wished++] = (struct plan_wish){
                .choice = choice, .at = choice->wanted, .seed_count = question->seed_count};
        else
            end_choice(question, choice);
    }
    *more = wished > 0;
    if (status == KVT_OK && wished > 0)
        status = plan_run(plan, wishes, wished, "simulating", err);
    for (size_t i = 0; status == KVT_OK && i < wished; i++) {
        struct plan_choice *choice = wishes[i].choice;
        if (wishes[i].point == NULL)
            continue;
        status = take_in(question, choice, wishes[i].point, err);
    }
    return status;
}

static kvt_status run_rounds(struct plan *plan, struct plan_choice *choices, size_t count,
                             struct kvt_error *err)
{
    struct naming *namings = calloc(count + 1, sizeof *namings);
    struct plan_wish *wishes = calloc(count + 1, sizeof *wishes);
    bool more = true;
    kvt_status status = namings != NULL && wishes != NULL ? KVT_OK : kvt_fail_nomem(err, "rounds");

    while (status == KVT_OK && more && !plan->interrupted)
        status = run_round(plan, choices, count, namings, wishes, &more, err);
    for (size_t i = 0; i < count; i++) {
        if (!choices[i].is_simulated || choices[i].status != PLAN_OPEN)
            continue;
        choices[i].status = choices[i].search.low_meets ? PLAN_MET : PLAN_UNFINISHED;
        choices[i].answer = choices[i].search.low_meets ? choices[i].search.low : -1;
    }
    free(wishes);
    free(namings);
    return status;
}

static kvt_status add_untried(struct plan *plan, const struct plan_wish *wishes, size_t count,
                              bool *meets, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (size_t i = 0; status == KVT_OK && i < count; i++) {
        struct plan_choice *choice = wishes[i].choice;
        if (wishes[i].point == NULL)
            continue;
        status = take_in(&plan->question, choice, wishes[i].point, err);
        if (plan_meets(&plan->question, wishes[i].point)) {
            choice->status = PLAN_OPEN; /* there is an answer after all, from here on */
            *meets = true;
        }
    }
    return status;
}

kvt_status plan_run_nearest(struct plan *plan, struct kvt_error *err)
{
    struct plan_wish wishes[PLAN_BOUNDS_MAX];
    size_t count = 0;
    bool meets = false;

    for (size_t i = 0; i < plan->choice_count; i++) {
        if (plan->choices[i].status == PLAN_MET)
            return KVT_OK;
    }
    for (size_t b = 0; b < plan->question.bound_count && !plan->interrupted; b++) {
        struct plan_wish wish = {.seed_count = plan->question.seed_count};
        bool is_new = plan_nearest_untried(plan, b, &wish.choice, &wish.at);
        for (size_t i = 0; i < count; i++)
            is_new = is_new && (wishes[i].choice != wish.choice || wishes[i].at != wish.at);
        if (is_new)
            wishes[count++] = wish;
    }
    if (count == 0)
        return KVT_OK;
    kvt_status status = plan_run(plan, wishes, count, "nearest", err);
    if (status == KVT_OK)
        status = add_untried(plan, wishes, count, &meets, err);
    return status == KVT_OK && meets ? run_rounds(plan, plan->choices, plan->choice_count, err)
                                     : status;
}

/* ---- Who is simulated ------------------------------------------------------------------------ */

/* Whether a is ahead of b by mean values. */
static bool is_ahead(const struct plan_question *question, const struct plan_choice *a,
                     const struct plan_choice *b)
{
    struct plan_judge judge_a = {.question = question, .choice = a};
    struct plan_judge judge_b = {.question = question, .choice = b};

    if ((a->analytic_answer >= 0) != (b->analytic_answer >= 0))
        return a->analytic_answer >= 0;
    if (a->analytic_answer >= 0 && question->path != NULL)
        return a->analytic_answer > b->analytic_answer;
    const double *of_a = curve_known(&a->curve, 0), *of_b = curve_known(&b->curve, 0);
    if (a->analytic_answer >= 0 && of_a != NULL && of_b != NULL) {
        size_t f = question->bound_count;
        return question->maximizes ? of_a[f] > of_b[f] : of_a[f] < of_b[f];
    }
    long best_a = curve_best(&a->curve, plan_judge_margin, &judge_a);
    long best_b = curve_best(&b->curve, plan_judge_margin, &judge_b);
    if (best_a < 0 || best_b < 0)
        return best_a >= 0 && best_b < 0;
    return plan_judge_margin(&judge_a, best_a, curve_known(&a->curve, best_a)) >
           plan_judge_margin(&judge_b, best_b, curve_known(&b->curve, best_b));
}

static bool is_solved(const struct plan_choice *choice)
{
    return choice->status != PLAN_REFUSED && choice->no_analytic == NULL;
}

static void choose_simulated(const struct plan_question *question, struct plan_choice *choices,
                             size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct plan_choice *choice = &choices[i];
        size_t ahead = 0;
        if (choice->status == PLAN_REFUSED)
            continue;
        for (size_t k = 0; choice->no_analytic == NULL && k < count; k++) {
            if (k == i || !is_solved(&choices[k]))
                continue;
            ahead += is_ahead(question, &choices[k], choice) ||
                     (k < i && !is_ahead(question, choice, &choices[k]));
        }
        choice->is_simulated = !question->analytic_only && ahead < question->simulate_max;
        search_begin(&choice->search, question->value_count, 0);
        if (!choice->is_simulated) {
            choice->status = choice->no_analytic != NULL    ? PLAN_REFUSED
                             : choice->analytic_answer >= 0 ? PLAN_MET
                                                            : PLAN_UNREACHED;
            choice->reason = choice->no_analytic;
            choice->answer = choice->analytic_answer;
        }
    }
}

/* Whether what --survive takes away is all that there is, at the first value and so at every other
 * one, and some bound is broken by requests that nobody serves. */
static kvt_status find_nothing_left(const struct plan *plan, struct plan_choice *choice,
                                    struct kvt_error *err)
{
    const struct plan_question *question = &plan->question;
    bool bounds_requests = false;
    struct kvt_error why;

    for (size_t b = 0; b < question->bound_count; b++)
        bounds_requests = bounds_requests || plan_is_of_requests(&question->bounds[b]);
    if (question->survive_ranks + question->survive_nodes == 0 || !bounds_requests ||
        (question->path != NULL && strncmp(question->path, "cluster", 7) == 0))
        return KVT_OK;
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    struct kvt_scenario *scenario =
        arena != NULL ? kvt_arena_alloc(arena, sizeof *scenario, _Alignof(struct kvt_scenario))
                      : NULL;
    if (scenario == NULL) {
        kvt_arena_free(arena);
        return kvt_fail_nomem(err, "a choice");
    }
    kvt_status status = plan_load(plan, choice, 0, PLAN_SIMULATED, arena, scenario, &why);
    if (status == KVT_OK)
        choice->nothing_left = question->survive_nodes == kvt_scenario_node_count(scenario) ||
                               question->survive_ranks == kvt_scenario_rank_count(scenario);
    else if (!plan_is_refusal(status))
        *err = why;
    else
        status = KVT_OK;
    kvt_arena_free(arena);
    return status;
}

static void leave_open(struct plan_choice *choices, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (choices[i].status == PLAN_OPEN)
            choices[i].status = PLAN_UNFINISHED;
    }
}

kvt_status plan_solve(struct plan *plan, struct plan_choice *choices, size_t count,
                      struct kvt_error *err)
{
    kvt_status status = plan_curves(plan, choices, count, err);

    for (size_t i = 0; status == KVT_OK && i < count; i++) {
        if (choices[i].status != PLAN_REFUSED)
            status = find_nothing_left(plan, &choices[i], err);
    }
    if (status == KVT_OK && !plan->interrupted && !plan->question.analytic_only)
        status = plan_scout(plan, choices, count, err);
    if (status != KVT_OK)
        return status;
    if (plan->interrupted) {
        leave_open(choices, count);
        return KVT_OK;
    }
    choose_simulated(&plan->question, choices, count);
    return run_rounds(plan, choices, count, err);
}

/* ---- Order ----------------------------------------------------------------------------------- */

static double figure_of(const struct plan *plan, const struct plan_choice *choice, size_t metric)
{
    const struct plan_point *point = plan_point_at(choice, choice->answer);

    (void)plan;
    return point != NULL && point->metrics != NULL ? point->metrics[metric].mean : (double)NAN;
}

/* What is wanted, the larger the better; of a metric by simulation, or by mean values. */
static double worth_of(const struct plan *plan, const struct plan_choice *choice)
{
    const struct plan_question *question = &plan->question;

    if (question->path != NULL)
        return (double)choice->answer;
    double value = figure_of(plan, choice, question->metric);
    const double *figures = curve_known(&choice->curve, 0);
    if (isnan(value) && choice->no_analytic == NULL && figures != NULL)
        value = figures[question->bound_count];
    if (isnan(value))
        return -INFINITY;
    return question->maximizes ? value : -value;
}

static double best_margin(const struct plan *plan, const struct plan_choice *choice)
{
    struct plan_judge judge = {.question = &plan->question, .choice = choice};
    double best = -INFINITY;

    for (size_t i = 0; i < choice->point_count; i++)
        best = fmax(best, plan_margin(&plan->question, choice->points[i]));
    long at = curve_best(&choice->curve, plan_judge_margin, &judge);
    if (choice->point_count == 0 && at >= 0)
        best = plan_judge_margin(&judge, at, curve_known(&choice->curve, at));
    return best;
}

/* Whether choice a comes before b. */
static bool comes_first(const struct plan *plan, size_t a_index, size_t b_index)
{
    const struct plan_choice *a = &plan->choices[a_index], *b = &plan->choices[b_index];
    size_t output = 0;

    if (a->status != b->status)
        return a->status < b->status;
    if (a->status == PLAN_MET) {
        double of_a = worth_of(plan, a), of_b = worth_of(plan, b);
        if (of_a != of_b)
            return of_a > of_b;
        if (a->is_simulated != b->is_simulated)
            return a->is_simulated;
        if (kvt_metric_find("output_throughput_per_gpu", "plan", &output, NULL) == KVT_OK) {
            double out_a = figure_of(plan, a, output), out_b = figure_of(plan, b, output);
            if (out_a > out_b || out_b > out_a)
                return out_a > out_b;
        }
    } else if (a->status == PLAN_UNREACHED) {
        double of_a = best_margin(plan, a), of_b = best_margin(plan, b);
        if (of_a != of_b)
            return of_a > of_b;
    }
    return a_index < b_index;
}

void plan_rank(struct plan *plan)
{
    for (size_t i = 1; i < plan->choice_count; i++) {
        size_t moved = plan->order[i], place = i;
        for (; place > 0 && comes_first(plan, moved, plan->order[place - 1]); place--)
            plan->order[place] = plan->order[place - 1];
        plan->order[place] = moved;
    }
}
