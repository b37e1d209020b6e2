/* choices.c -- the product of what --over lists; each choice with its name and what goes along. */
#include <stdio.h>
#include <string.h>

#include "plan.h"

/* The last of a key's names: "hot_tokens". */
static const char *last_name(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot != NULL ? dot + 1 : path;
}

/* A word speaks for itself; a number, or an object, is told with its key; of none with what there
 * is none of. */
static const char *told(const char *path, const char *value, struct kvt_arena *arena)
{
    bool is_word = (value[0] >= 'a' && value[0] <= 'z') || (value[0] >= 'A' && value[0] <= 'Z');

    if (strcmp(value, "none") == 0)
        return kvt_arena_printf(arena, "no %.*s", (int)strcspn(path, "."), path);
    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0 || strcmp(value, "auto") == 0)
        is_word = false;
    return is_word ? value : kvt_arena_printf(arena, "%s=%s", last_name(path), value);
}

/* index counts through the product, the last axis fastest. */
static kvt_status make_choice(struct plan *plan, size_t index, struct plan_choice *choice,
                              struct kvt_error *err)
{
    const struct plan_question *question = &plan->question;
    const char **asked =
        kvt_arena_array(plan->arena, PLAN_AXES_MAX, sizeof *asked, _Alignof(const char *));
    size_t stride = plan->choice_count;

    choice->name = "";
    choice->wanted = choice->answer = choice->analytic_answer = choice->sure = choice->not_sure =
        -1;
    if (asked == NULL)
        return kvt_fail_nomem(err, "a choice");
    for (size_t a = 0; a < question->axis_count; a++) {
        const struct cli_axis *axis = &question->axes[a];
        stride /= axis->value_count;
        const char *value = axis->values[index / stride % axis->value_count];
        const char *word = told(axis->path, value, plan->arena);
        asked[a] = kvt_arena_printf(plan->arena, "%s=%s", axis->path, value);
        choice->name = word == NULL ? NULL
                                    : kvt_arena_printf(plan->arena, "%s%s%s", choice->name,
                                                       a > 0 ? " + " : "", word);
        if (choice->name == NULL || asked[a] == NULL)
            return kvt_fail_nomem(err, "a choice");
    }
    if (question->axis_count == 0)
        choice->name = question->name;
    choice->axis_sets = asked;
    return KVT_OK;
}

/* Nothing of what has no axes: the scenario itself. */
static kvt_status set_axes(struct plan *plan, struct plan_choice *choice, bool leaders,
                           const char **sets, struct kvt_error *err)
{
    size_t count = choice->axis_sets != NULL ? plan->question.axis_count : 0;
    kvt_status status = KVT_OK;

    for (size_t a = 0; status == KVT_OK && a < count; a++) {
        const char *path = plan->question.axes[a].path;
        if (cli_along_is_leader(path) == leaders)
            status = plan_set(&plan->question, &choice->along, path,
                              choice->axis_sets[a] + strlen(path) + 1, plan->arena, sets,
                              &choice->set_count, err);
    }
    return status;
}

/* Those last that take others along, as the rest of the choice says. KVT_OK with *is_set false
 * where the scenario refuses that: *why says so. */
static kvt_status set_choice(struct plan *plan, struct plan_choice *choice, bool *is_set,
                             struct kvt_error *why, struct kvt_error *err)
{
    const char **sets =
        kvt_arena_array(plan->arena, PLAN_SETS_MAX, sizeof *sets, _Alignof(const char *));

    if (sets == NULL)
        return kvt_fail_nomem(err, "a choice");
    choice->sets = sets;
    kvt_status status = set_axes(plan, choice, false, sets, err);
    if (status != KVT_OK)
        return status;
    status = plan_read_along(plan, choice, &choice->along, why);
    *is_set = status == KVT_OK;
    if (status == KVT_OK)
        return set_axes(plan, choice, true, sets, err);
    if (plan_is_refusal(status))
        return KVT_OK;
    *err = *why;
    return status;
}

/* ---- What the scenario says to them -----------------------------------------------------------
 */

static const char *keep_reason(const struct kvt_error *why, struct kvt_arena *arena)
{
    return kvt_arena_printf(arena, "%s%s%s", why->where, why->where[0] != '\0' ? ": " : "",
                            why->message);
}

/* Which values are tried: all, or so many evenly, the ends among them. */
static long tried_count(const struct plan_question *question)
{
    enum {
        TRIED_MAX = 33
    };

    return question->value_count < TRIED_MAX ? question->value_count : TRIED_MAX;
}

static long tried(const struct plan_question *question, long nth)
{
    long count = tried_count(question);

    return count > 1 ? (question->value_count - 1) * nth / (count - 1) : 0;
}

/* A choice is refused where none of the values that are tried can be loaded. */
static kvt_status try_values(struct plan *plan, struct plan_choice *choice, struct kvt_error *why,
                             bool *loads, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    *loads = false;
    for (long i = 0; i < tried_count(&plan->question) && status == KVT_OK && !*loads; i++) {
        struct kvt_arena *arena = kvt_arena_new(1 << 16);
        struct kvt_scenario *scenario =
            arena != NULL ? kvt_arena_alloc(arena, sizeof *scenario, _Alignof(struct kvt_scenario))
                          : NULL;
        if (scenario == NULL)
            status = kvt_fail_nomem(err, "a choice");
        else
            status = plan_load(plan, choice, tried(&plan->question, i), PLAN_SIMULATED, arena,
                               scenario, why);
        if (status == KVT_OK && plan_check_metrics(&plan->question, scenario, why) != KVT_OK)
            status = why->status;
        *loads = status == KVT_OK;
        if (*loads)
            plan->idle_sets &= scenario->idle_sets;
        if (*loads && scenario->fidelity == KVT_FIDELITY_ANALYTIC)
            plan->question.analytic_only = true;
        if (scenario != NULL && status == KVT_OK)
            choice->is_bound = kvt_choice_has(&scenario->replacement, KVT_CLAIRVOYANT) ||
                               kvt_choice_has(&scenario->residency, KVT_CLAIRVOYANT);
        if (scenario != NULL && status != KVT_OK) {
            if (plan_is_refusal(status))
                status = KVT_OK;
            else
                *err = *why;
        }
        kvt_arena_free(arena);
    }
    return status;
}

static kvt_status look_over(struct plan *plan, struct plan_choice *choice, struct kvt_error *why,
                            struct kvt_error *err)
{
    bool is_set = false, loads = false;
    kvt_status status = set_choice(plan, choice, &is_set, why, err);

    if (status == KVT_OK && is_set)
        status = try_values(plan, choice, why, &loads, err);
    if (status == KVT_OK && !loads) {
        choice->status = PLAN_REFUSED;
        choice->reason = keep_reason(why, plan->arena);
        if (choice->reason == NULL)
            return kvt_fail_nomem(err, "a choice");
    }
    return status;
}

/* Without a value, or with the first that it takes, as one may bring what the choice lacks.
 * KVT_OK with *loads false: *why says why not. */
static kvt_status load_any(struct plan *plan, struct plan_choice *choice,
                           struct kvt_scenario *scenario, bool *loads, struct kvt_error *why,
                           struct kvt_error *err)
{
    bool is_set = false;
    kvt_status status = set_choice(plan, choice, &is_set, why, err);

    *loads = false;
    for (long i = -1; status == KVT_OK && is_set && !*loads && i < tried_count(&plan->question);
         i++) {
        struct kvt_error other = {0}, *told = i < 0 ? why : &other;
        status = plan_load(plan, choice, i < 0 ? i : tried(&plan->question, i), PLAN_SIMULATED,
                           plan->arena, scenario, told);
        *loads = status == KVT_OK;
        if (plan_is_refusal(status))
            status = KVT_OK;
        else if (status != KVT_OK)
            *err = *told;
    }
    return status;
}

/* What all choices have in common is read off the scenario itself; where it is refused by itself,
 * because they bring what it lacks, off the first that is not. */
static kvt_status load_scenario(struct plan *plan, struct kvt_scenario *out, struct kvt_error *err)
{
    struct plan_choice choice = {.name = ""};
    struct kvt_error first = {0}, other;
    bool loads = false;
    kvt_status status = load_any(plan, &choice, out, &loads, &first, err);

    for (size_t i = 0; status == KVT_OK && !loads && i < plan->choice_count; i++) {
        choice = (struct plan_choice){.name = ""};
        status = make_choice(plan, i, &choice, err);
        if (status == KVT_OK)
            status = load_any(plan, &choice, out, &loads, &other, err);
    }
    if (status == KVT_OK && !loads) {
        *err = first;
        status = first.status;
    }
    return status;
}

static kvt_status read_scenario(struct plan *plan, struct kvt_error *err)
{
    struct plan_question *question = &plan->question;
    struct kvt_scenario *scenario =
        kvt_arena_alloc(plan->arena, sizeof *scenario, _Alignof(struct kvt_scenario));

    if (scenario == NULL)
        return kvt_fail_nomem(err, "a plan");
    kvt_status status = load_scenario(plan, scenario, err);
    if (status != KVT_OK)
        return status;
    question->name = scenario->name;
    if (question->seed_count > (UINT64_C(1) << 53) - scenario->seed)
        return kvt_fail(err, KVT_ERR_INVALID, "plan --seeds",
                        "%zu seeds from %llu on go past 2^53, the largest", question->seed_count,
                        (unsigned long long)scenario->seed);
    for (size_t s = 0; s < question->seed_count; s++)
        question->seeds[s] = scenario->seed + s;
    return plan_read_demands(plan, scenario, err);
}

/* A setting given to all has an effect on one at least: otherwise the first says why not. */
static kvt_status check_common(struct plan *plan, struct kvt_error *err)
{
    size_t first = 0;

    if (plan->idle_sets == 0)
        return KVT_OK;
    while (plan->choices[first].status == PLAN_REFUSED)
        first++;
    struct kvt_scenario *scenario =
        kvt_arena_alloc(plan->arena, sizeof *scenario, _Alignof(struct kvt_scenario));
    if (scenario == NULL)
        return kvt_fail_nomem(err, "a plan");
    plan->is_strict = true;
    kvt_status status = plan_load(plan, &plan->choices[first], plan->question.value_count - 1,
                                  PLAN_SIMULATED, plan->arena, scenario, err);
    plan->is_strict = false;
    return status;
}

kvt_status plan_make_choices(struct plan *plan, struct kvt_error *err)
{
    const struct plan_question *question = &plan->question;
    struct kvt_error why = {.status = KVT_OK};
    size_t count = 1, refused = 0;

    for (size_t a = 0; a < question->axis_count; a++) {
        if (question->axes[a].value_count > PLAN_CHOICES_MAX / count)
            return kvt_fail(err, KVT_ERR_INVALID, "plan --over",
                            "the lists make more than %d choices", PLAN_CHOICES_MAX);
        count *= question->axes[a].value_count;
    }
    plan->choices =
        kvt_arena_array(plan->arena, count, sizeof *plan->choices, _Alignof(struct plan_choice));
    plan->order = kvt_arena_array(plan->arena, count, sizeof *plan->order, _Alignof(size_t));
    if (plan->choices == NULL || plan->order == NULL)
        return kvt_fail_nomem(err, "the choices");
    plan->choice_count = count;
    plan->idle_sets = UINT64_MAX;
    kvt_status status = read_scenario(plan, err);
    if (status != KVT_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        plan->order[i] = i;
        status = make_choice(plan, i, &plan->choices[i], err);
        if (status == KVT_OK)
            status = look_over(plan, &plan->choices[i], &why, err);
        if (status != KVT_OK)
            return status;
        refused += plan->choices[i].status == PLAN_REFUSED;
    }
    if (refused == count)
        return kvt_fail(err, KVT_ERR_INVALID, why.where, "%s%s", why.message,
                        count > 1 ? " (the last choice; every one is refused)" : "");
    return check_common(plan, err);
}
