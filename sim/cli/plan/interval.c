/* interval.c -- how sure an answer is: of simulated values the nearest at which all bounds hold at
 * the far end of their intervals, and at which one is broken even at the near end. */
#include <math.h>

#include "plan.h"

/* Judged by the far end of the interval of every bound: whether it holds there. */
static bool surely_meets(const struct plan_question *question, const struct plan_point *point)
{
    bool meets = point->refused == NULL;

    for (size_t b = 0; meets && b < question->bound_count; b++) {
        const struct kvt_estimate *estimate = &point->bounds[b];
        meets = plan_holds(&question->bounds[b], estimate->low) &&
                plan_holds(&question->bounds[b], estimate->high);
    }
    return meets;
}

static bool surely_fails(const struct plan_question *question, const struct plan_point *point)
{
    if (point->refused != NULL)
        return !point->is_spared;
    for (size_t b = 0; b < question->bound_count; b++) {
        const struct kvt_estimate *estimate = &point->bounds[b];
        if (!isnan(estimate->low) && !plan_holds(&question->bounds[b], estimate->low) &&
            !plan_holds(&question->bounds[b], estimate->high))
            return true;
    }
    return false;
}

/* An end of the interval is a search of its own: below the answer for the last value that surely
 * holds, above it, counted from the far end, for the last that surely is broken. */
struct seeking {
    struct plan *plan;
    struct plan_choice *choice;
    struct search below, above;
    long below_guess, above_guess; /* by the corrected curve, moved by half an interval */
};

static long mirrored(const struct plan_question *question, long at)
{
    return question->value_count - 1 - at;
}

static void tell_ends(struct seeking *seeking, const struct plan_point *point)
{
    const struct plan_question *question = &seeking->plan->question;
    struct plan_choice *choice = seeking->choice;

    /* One that the fault spared is no end, and one nearer to the answer may be. */
    enum search_verdict otherwise = point->is_spared ? SEARCH_TOO_LOW : SEARCH_TOO_HIGH;

    if (point->at <= choice->answer)
        search_tell(&seeking->below, point->at,
                    surely_meets(question, point) ? SEARCH_MEETS : otherwise);
    else
        search_tell(&seeking->above, mirrored(question, point->at),
                    surely_fails(question, point) ? SEARCH_MEETS : otherwise);
    choice->sure = seeking->below.low_meets ? seeking->below.low : -1;
    choice->not_sure = seeking->above.low_meets ? mirrored(question, seeking->above.low) : -1;
}

/* Where the corrected curve, moved by half an interval, crosses. */
static kvt_status seek(void *context, size_t index, unsigned threads, struct cli_job *job,
                       struct kvt_error *err)
{
    struct seeking *seeking = context;
    struct plan_choice *choice = seeking->choice;
    const struct plan_question *question = &seeking->plan->question;
    struct plan_judge judge = {.question = question,
                               .choice = choice,
                               .spread = plan_point_at(choice, choice->answer),
                               .direction = 1};
    long last = -1;

    (void)index;
    choice->job = job;
    choice->job_threads = threads;
    kvt_status status = plan_correct(choice, question->bound_count, err);
    if (status == KVT_OK)
        status = curve_last(&choice->curve, -1, choice->answer + 1, plan_judge_margin, &judge,
                            &seeking->below_guess, err);
    judge.direction = -1;
    if (status == KVT_OK)
        status = curve_last(&choice->curve, choice->answer, question->value_count,
                            plan_judge_margin, &judge, &last, err);
    seeking->above_guess = mirrored(question, (last > choice->answer ? last : choice->answer) + 1);
    return status;
}

static kvt_status try_ends(struct seeking *seeking, bool *more, struct kvt_error *err)
{
    struct plan *plan = seeking->plan;
    struct plan_choice *choice = seeking->choice;
    struct plan_wish wishes[2];
    size_t wished = 0, failed = 0;
    long at = 0;
    const struct cli_jobs jobs = {
        .count = 1, .threads = 1, .quiet = true, .what = "", .run = seek, .context = seeking};
    kvt_status status = cli_jobs_run(&jobs, &failed, err);

    if (status == KVT_OK && search_next(&seeking->below, seeking->below_guess, &at))
        wishes[wished++] =
            (struct plan_wish){.choice = choice, .at = at, .seed_count = plan->question.seed_count};
    if (status == KVT_OK && search_next(&seeking->above, seeking->above_guess, &at))
        wishes[wished++] = (struct plan_wish){.choice = choice,
                                              .at = mirrored(&plan->question, at),
                                              .seed_count = plan->question.seed_count};
    *more = wished > 0;
    if (status == KVT_OK && wished > 0)
        status = plan_run(plan, wishes, wished, "interval", err);
    for (size_t i = 0; status == KVT_OK && i < wished; i++) {
        if (wishes[i].point == NULL)
            continue;
        status = plan_add_point(choice, wishes[i].point, err);
        tell_ends(seeking, wishes[i].point);
    }
    return status;
}

kvt_status plan_interval(struct plan *plan, struct plan_choice *choice, struct kvt_error *err)
{
    enum {
        ENDS_TRIED = 5
    };
    const struct plan_question *question = &plan->question;
    struct seeking seeking = {.plan = plan, .choice = choice};
    kvt_status status = KVT_OK;
    bool more = true;

    if (!choice->is_simulated || choice->answer < 0 || question->seed_count < 2)
        return KVT_OK;
    search_begin(&seeking.below, choice->answer + 1, choice->answer);
    search_begin(&seeking.above, mirrored(question, choice->answer), 0);
    for (size_t i = 0; i < choice->point_count; i++)
        tell_ends(&seeking, choice->points[i]);
    for (int tries = 0; status == KVT_OK && tries < ENDS_TRIED && question->path != NULL && more &&
                        !plan->interrupted;
         tries++)
        status = try_ends(&seeking, &more, err);
    return status;
}
