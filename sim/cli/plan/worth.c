/* worth.c -- what one more GPU, twice the DRAM, or twice the link would change in the answer.
 *
 * The question is asked again of the best choice with that changed: by mean values, times what
 * simulation made of them at the answer, so that the change is the curve's and the height is not;
 * or, where asked, by simulation on the same seeds. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "plan.h"

/* ---- The changes ----------------------------------------------------------------------------- */

static kvt_status add_number(struct plan *plan, const struct plan_choice *best, const char *path,
                             double value, const char **sets, size_t *count, struct kvt_error *err)
{
    char text[32];

    kvt_json_print_number(value, text);
    return plan_set(&plan->question, &best->along, path, text, plan->arena, sets, count, err);
}

static kvt_status more_gpus(struct plan *plan, const struct plan_choice *best,
                            const struct kvt_scenario *scenario, struct plan_worth *out,
                            const char **sets, struct kvt_error *err)
{
    const struct kvt_decode_pool *pool = &scenario->pools[0];
    const char *path = plan->question.path;

    out->change = pool->tp == 1
                      ? "one more GPU"
                      : kvt_arena_printf(plan->arena, "one more replica of %u GPUs", pool->tp);
    if (out->change == NULL)
        return kvt_fail_nomem(err, "a plan");
    if (scenario->pool_count != 1)
        out->refused = "there are several pools; which one grows is for --over to say";
    else if (path != NULL && strncmp(path, "cluster.decode.", 15) == 0 &&
             (strcmp(path + 15, "gpus") == 0 || strcmp(path + 15, "dp") == 0))
        out->refused = "GPUs are what is asked for";
    else
        return add_number(plan, best, "cluster.decode.gpus", (double)pool->gpus + pool->tp, sets,
                          &out->set_count, err);
    return KVT_OK;
}

static kvt_status more_dram(struct plan *plan, const struct plan_choice *best,
                            const struct kvt_scenario *scenario, struct plan_worth *out,
                            const char **sets, struct kvt_error *err)
{
    const char *path = "cluster.decode.host_dram_gib_per_node";

    out->change = "twice the host DRAM";
    if (scenario->pool_count != 1)
        out->refused = "there are several pools; whose DRAM grows is for --over to say";
    else if (plan->question.path != NULL && strcmp(plan->question.path, path) == 0)
        out->refused = "host DRAM is what is asked for";
    else
        return add_number(plan, best, path, 2 * scenario->pools[0].host_dram_gib_per_node, sets,
                          &out->set_count, err);
    return KVT_OK;
}

/* Both ways of the hardware's link, and that of constants that have one of their own. */
static kvt_status faster_link(struct plan *plan, const struct plan_choice *best,
                              const struct kvt_scenario *scenario, struct plan_worth *out,
                              const char **sets, struct kvt_error *err)
{
    const struct kvt_hardware *hardware = scenario->pools[0].hardware;
    const cJSON *timing = kvt_json_find(scenario->tree, "timing");
    const cJSON *own = kvt_json_find(timing, "link_gb_per_s");
    const cJSON *model = kvt_json_find(timing, "model");
    const cJSON *decode = kvt_json_find(kvt_json_find(scenario->tree, "cluster"), "decode");
    const char *of =
        kvt_json_find(decode, "hardware") != NULL ? "cluster.decode.hardware" : "hardware";
    kvt_status status = KVT_OK;

    out->change = "twice the link";
    if (scenario->pool_count != 1) {
        out->refused = "there are several pools; whose link it is is for --over to say";
        return KVT_OK;
    }
    if (cJSON_IsString(model) && strcmp(model->valuestring, "profile") == 0) {
        out->refused = "a profile was measured over the link that it was measured over";
        return KVT_OK;
    }
    if (cJSON_IsNumber(own)) /* these constants read no other */
        return add_number(plan, best, "timing.link_gb_per_s", 2 * own->valuedouble, sets,
                          &out->set_count, err);
    const char *up = kvt_arena_printf(plan->arena, "%s.link_h2d_bytes_per_s", of);
    const char *down = kvt_arena_printf(plan->arena, "%s.link_d2h_bytes_per_s", of);
    if (up == NULL || down == NULL)
        return kvt_fail_nomem(err, "a plan");
    status = add_number(plan, best, up, 2 * (double)hardware->link_h2d_bytes_per_s, sets,
                        &out->set_count, err);
    return status == KVT_OK
               ? add_number(plan, best, down, 2 * (double)hardware->link_d2h_bytes_per_s, sets,
                            &out->set_count, err)
               : status;
}

/* ---- Asking again ---------------------------------------------------------------------------- */

/* The best choice with the change behind it, as one that nothing is known of. */
static kvt_status make_choice(struct plan *plan, const struct plan_choice *best,
                              const struct plan_worth *worth, struct plan_choice *out,
                              struct kvt_error *err)
{
    const char **sets = kvt_arena_array(plan->arena, best->set_count + worth->set_count + 1,
                                        sizeof *sets, _Alignof(const char *));

    *out = (struct plan_choice){.name = worth->change,
                                .sets = sets,
                                .along = best->along,
                                .wanted = -1,
                                .answer = -1,
                                .analytic_answer = -1,
                                .sure = -1,
                                .not_sure = -1};
    if (sets == NULL)
        return kvt_fail_nomem(err, "a plan");
    for (size_t i = 0; i < best->set_count; i++)
        sets[out->set_count++] = best->sets[i];
    for (size_t i = 0; i < worth->set_count; i++)
        sets[out->set_count++] = worth->sets[i];
    return KVT_OK;
}

/* The last value that the changed curve meets, judged by the ratios of the best. */
static kvt_status last_of(const struct plan *plan, const struct plan_choice *ratios_of,
                          struct plan_choice *choice, long *out, struct kvt_error *err)
{
    choice->ratios = ratios_of->ratios;
    choice->ratio_count = ratios_of->ratio_count;
    struct plan_judge judge = {.question = &plan->question, .choice = choice};
    return curve_last(&choice->curve, -1, plan->question.value_count, plan_judge_margin, &judge,
                      out, err);
}

/* What lies in the last digits of a double is rounding, and no difference. */
static double gained(double after, double before)
{
    double difference = after - before;

    return fabs(difference) <= 1e-12 * fabs(before) ? 0 : difference;
}

struct weighing {
    struct plan *plan;
    struct plan_choice *best;
    struct plan_choice *choices[PLAN_WORTH];
    struct plan_worth *worth[PLAN_WORTH];
    size_t count;
};

static kvt_status weigh_job(void *context, size_t index, unsigned threads, struct cli_job *job,
                            struct kvt_error *err)
{
    struct weighing *weighing = context;
    const struct plan_question *question = &weighing->plan->question;
    struct plan_choice *base = weighing->best;
    long before = -1, after = -1;

    (void)index;
    base->job = job;
    base->job_threads = threads;
    kvt_status status = last_of(weighing->plan, weighing->best, base, &before, err);
    for (size_t i = 0; status == KVT_OK && i < weighing->count; i++) {
        struct plan_choice *choice = weighing->choices[i];
        struct plan_worth *worth = weighing->worth[i];
        if (choice->no_analytic != NULL) {
            worth->refused = choice->no_analytic;
            worth->is_untold = true;
            continue;
        }
        choice->job = job;
        choice->job_threads = threads;
        status = last_of(weighing->plan, weighing->best, choice, &after, err);
        if (status != KVT_OK || before < 0 || after < 0)
            continue;
        /* The base's own answer by the same curve is a value off at times: the step is the curve's.
         */
        long moved = weighing->best->answer + (after - before);
        long last = question->value_count - 1;
        moved = moved < 0 ? 0 : moved > last ? last : moved;
        worth->is_range_end = after == last;
        worth->value = question->values[after == last ? last : moved];
        worth->difference = gained(worth->value, question->values[weighing->best->answer]);
    }
    return status;
}

/* A metric: as many times its own as the curve says. */
static void weigh_metric(const struct weighing *weighing)
{
    const struct plan_question *question = &weighing->plan->question;
    const struct plan_point *point = plan_point_at(weighing->best, weighing->best->answer);
    const double *before = curve_known(&weighing->best->curve, 0);

    for (size_t i = 0; i < weighing->count; i++) {
        struct plan_worth *worth = weighing->worth[i];
        const double *after = curve_known(&weighing->choices[i]->curve, 0);
        if (weighing->choices[i]->no_analytic != NULL || before == NULL || after == NULL) {
            worth->refused = weighing->choices[i]->no_analytic;
            worth->is_untold = true;
            continue;
        }
        size_t f = question->bound_count;
        double now = point != NULL && point->metrics != NULL ? point->metrics[question->metric].mean
                                                             : before[f];
        worth->value = now * after[f] / before[f];
        worth->difference = gained(worth->value, now);
    }
}

static void take_simulated(const struct plan *plan, const struct plan_choice *best,
                           const struct plan_choice *choice, struct plan_worth *worth)
{
    const struct plan_question *question = &plan->question;

    worth->level = PLAN_SIMULATED;
    if (choice->status == PLAN_REFUSED) {
        worth->refused = choice->reason;
        return;
    }
    if (choice->answer < 0)
        return;
    if (question->path != NULL) {
        worth->value = question->values[choice->answer];
        worth->difference = gained(worth->value, question->values[best->answer]);
        worth->is_range_end = choice->answer == question->value_count - 1;
        return;
    }
    const struct plan_point *before = plan_point_at(best, 0), *after = plan_point_at(choice, 0);
    if (before != NULL && after != NULL && after->metrics != NULL) {
        worth->value = after->metrics[question->metric].mean;
        worth->difference = gained(worth->value, before->metrics[question->metric].mean);
    }
}

static kvt_status ask_again(struct plan *plan, struct weighing *weighing,
                            struct plan_choice *choices, struct kvt_error *err)
{
    bool simulates = plan->question.worth_simulated && !plan->question.analytic_only;
    size_t failed = 0;
    const struct cli_jobs jobs = {.count = 1,
                                  .threads = 1,
                                  .quiet = true,
                                  .what = "worth",
                                  .run = weigh_job,
                                  .context = weighing};
    kvt_status status = KVT_OK;

    if (simulates) {
        status = plan_solve(plan, choices, weighing->count, err);
        for (size_t i = 0; status == KVT_OK && i < weighing->count; i++)
            take_simulated(plan, weighing->best, &choices[i], weighing->worth[i]);
        return status;
    }
    if (weighing->best->no_analytic != NULL) {
        for (size_t i = 0; i < weighing->count; i++) {
            weighing->worth[i]->refused = weighing->best->no_analytic;
            weighing->worth[i]->is_untold = true;
        }
        return KVT_OK;
    }
    status = plan_curves(plan, choices, weighing->count, err);
    if (status == KVT_OK && plan->question.path != NULL && !plan->interrupted)
        status = cli_jobs_run(&jobs, &failed, err);
    else if (status == KVT_OK)
        weigh_metric(weighing);
    return status;
}

/* A change that the scenario refuses says so; it is tried at the answer. */
static kvt_status try_change(struct plan *plan, const struct plan_choice *best,
                             struct plan_choice *choice, struct plan_worth *worth,
                             struct kvt_error *err)
{
    struct kvt_error why;
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    struct kvt_scenario *scenario =
        arena != NULL ? kvt_arena_alloc(arena, sizeof *scenario, _Alignof(struct kvt_scenario))
                      : NULL;
    kvt_status status = scenario != NULL ? plan_load(plan, choice, best->answer, PLAN_SIMULATED,
                                                     arena, scenario, &why)
                                         : kvt_fail_nomem(&why, "a plan");

    kvt_arena_free(arena);
    if (status == KVT_OK)
        return KVT_OK;
    if (!plan_is_refusal(status)) {
        *err = why;
        return status;
    }
    worth->refused = kvt_arena_printf(plan->arena, "%s: %s", why.where, why.message);
    return worth->refused != NULL ? KVT_OK : kvt_fail_nomem(err, "a plan");
}

kvt_status plan_weigh(struct plan *plan, struct plan_choice *best, struct plan_worth *out,
                      struct kvt_error *err)
{
    typedef kvt_status change(struct plan *, const struct plan_choice *,
                              const struct kvt_scenario *, struct plan_worth *, const char **,
                              struct kvt_error *);
    static change *const changes[PLAN_WORTH] = {more_gpus, more_dram, faster_link};
    struct kvt_scenario *scenario =
        kvt_arena_alloc(plan->arena, sizeof *scenario, _Alignof(struct kvt_scenario));
    struct plan_choice *choices =
        kvt_arena_array(plan->arena, PLAN_WORTH, sizeof *choices, _Alignof(struct plan_choice));
    struct weighing weighing = {.plan = plan, .best = best};

    if (scenario == NULL || choices == NULL)
        return kvt_fail_nomem(err, "a plan");
    kvt_status status =
        plan_load(plan, best, best->answer, PLAN_SIMULATED, plan->arena, scenario, err);
    for (int i = 0; status == KVT_OK && i < PLAN_WORTH; i++) {
        const char **sets =
            kvt_arena_array(plan->arena, PLAN_SETS_MAX, sizeof *sets, _Alignof(const char *));
        struct plan_choice *choice = &choices[weighing.count];
        out[i] = (struct plan_worth){.sets = sets, .value = NAN, .difference = NAN};
        if (sets == NULL)
            return kvt_fail_nomem(err, "a plan");
        status = changes[i](plan, best, scenario, &out[i], sets, err);
        if (status == KVT_OK && out[i].refused == NULL)
            status = make_choice(plan, best, &out[i], choice, err);
        if (status == KVT_OK && out[i].refused == NULL)
            status = try_change(plan, best, choice, &out[i], err);
        if (status != KVT_OK || out[i].refused != NULL)
            continue;
        weighing.choices[weighing.count] = choice;
        weighing.worth[weighing.count++] = &out[i];
    }
    if (status == KVT_OK && weighing.count > 0)
        status = ask_again(plan, &weighing, choices, err);
    for (size_t i = 0; i < weighing.count; i++) {
        curve_free(&choices[i].curve);
        kvt_arena_free(choices[i].arena);
        free(choices[i].points);
    }
    return status;
}
