/* scenario.c -- a choice at a value, as a scenario.
 *
 *     the scenario, --set, the choice, the objective, what fails, the level
 *
 * Each with what goes along with it: a key that is changed alone would make another kind of
 * scenario of it, or one that is refused. */
#include <stdio.h>
#include <string.h>

#include "kvt/json.h"
#include "plan.h"

bool plan_is_refusal(kvt_status status)
{
    return status == KVT_ERR_INVALID || status == KVT_ERR_PARSE || status == KVT_ERR_NOT_FOUND ||
           status == KVT_ERR_UNSUPPORTED || status == KVT_ERR_STALLED || status == KVT_ERR_POLICY;
}

/* ---- What goes along ---------------------------------------------------------------------------
 */

/* Whether somebody asks for values of the path, or of something that holds it. */
static bool is_asked_for(const void *context, const char *path)
{
    const struct plan_question *question = context;

    for (size_t i = 0; i <= question->axis_count; i++) {
        const char *asked = i < question->axis_count ? question->axes[i].path : question->path;
        if (asked != NULL && cli_path_holds(asked, path))
            return true;
    }
    return false;
}

kvt_status plan_set(const struct plan_question *question, const struct cli_along *along,
                    const char *path, const char *value, struct kvt_arena *arena, const char **sets,
                    size_t *count, struct kvt_error *err)
{
    struct cli_settings all = {.items = sets,
                               .count = *count,
                               .most = PLAN_SETS_MAX,
                               .arena = arena,
                               .is_taken = is_asked_for,
                               .context = question};
    kvt_status status = cli_settings_add(&all, path, value, err);

    if (status == KVT_OK)
        status = cli_along_gpus(along, path, value, &all, err);
    if (status == KVT_OK)
        status = cli_along_concurrency(along, path, value, &all, err);
    *count = all.count;
    return status;
}

void plan_print_value(const struct plan_question *question, long at, char out[PLAN_VALUE_BYTES])
{
    char number[32];

    kvt_json_print_number(question->values[at], number);
    (void)snprintf(out, PLAN_VALUE_BYTES, "%s%s", number, question->unit);
}

/* ---- Loading ------------------------------------------------------------------------------------
 */

static kvt_status collect(const struct plan *plan, const struct plan_choice *choice, long at,
                          enum plan_level level, struct kvt_arena *arena, const char **sets,
                          size_t *count, struct kvt_error *err)
{
    const struct plan_question *question = &plan->question;
    const struct plan_options *options = question->options;
    const char *objective[PLAN_SETS_MAX] = {NULL};
    size_t objective_count = 0;
    char value[PLAN_VALUE_BYTES];
    kvt_status status = KVT_OK;

    for (size_t i = 0; i < options->sets.count; i++)
        sets[(*count)++] = options->sets.items[i];
    for (size_t i = 0; i < choice->set_count; i++)
        sets[(*count)++] = choice->sets[i];
    if (question->path != NULL && at >= 0) {
        plan_print_value(question, at, value);
        status = plan_set(question, &choice->along, question->path, value, arena, objective,
                          &objective_count, err);
    }
    for (size_t i = 0; i < objective_count; i++)
        sets[(*count)++] = objective[i];
    if (question->survive_set != NULL) /* mean values know of no events */
        sets[(*count)++] = level != PLAN_ANALYTIC ? question->survive_set : "cluster.faults=[]";
    if (level == PLAN_ANALYTIC)
        sets[(*count)++] = "run.fidelity=analytic";
    else if (options->fidelity != NULL) {
        sets[*count] = kvt_arena_printf(arena, "run.fidelity=%s", options->fidelity);
        if (sets[(*count)++] == NULL)
            status = kvt_fail_nomem(err, "a choice");
    }
    return status;
}

/* ---- Where it is refused -----------------------------------------------------------------------
 */

static const char *last_set_of(const char *path, const char *const *sets, size_t count)
{
    size_t length = strlen(path);

    for (size_t i = count; i > 0; i--) {
        if (strncmp(sets[i - 1], path, length) == 0 && sets[i - 1][length] == '=')
            return sets[i - 1];
    }
    return NULL;
}

/* What was set that a key goes along with, or else the key itself. */
static const char *who_set(const char *path, const char *const *sets, size_t count)
{
    char leader[64]; /* which is longer than any */

    for (size_t i = count; i > 0; i--) {
        int length = (int)strcspn(sets[i - 1], "=");
        if (length >= (int)sizeof leader)
            continue;
        (void)snprintf(leader, sizeof leader, "%.*s", length, sets[i - 1]);
        if (cli_along_leads(leader, path))
            return sets[i - 1];
    }
    return last_set_of(path, sets, count);
}

/* "--set PATH" of a key that nobody set becomes what was asked for: the value of a choice or of the
 * objective, that which the key went along with, or the option that stands behind it. */
static void name_who_asked(const struct plan *plan, const char *const *sets, size_t count,
                           enum plan_level level, struct kvt_error *err)
{
    static const char head[] = "--set ";
    const struct cli_texts *own = &plan->question.options->sets;
    const char *path = err->where + strlen(head), *asked = NULL;
    char where[sizeof err->where];

    if (strncmp(err->where, head, strlen(head)) != 0)
        return;
    (void)snprintf(where, sizeof where, "%s", path);
    if (strcmp(where, "run.fidelity") == 0 && level == PLAN_ANALYTIC)
        asked = "mean values";
    else if (strcmp(where, "run.fidelity") == 0 && plan->question.options->fidelity != NULL)
        asked = "--fidelity";
    else if (strncmp(where, "cluster.faults", 14) == 0 && plan->question.survive_set != NULL)
        asked = "--survive";
    else if (last_set_of(where, own->items, own->count) == NULL)
        asked = is_asked_for(&plan->question, where) ? last_set_of(where, sets, count)
                                                     : who_set(where, sets, count);
    if (asked != NULL)
        (void)snprintf(err->where, sizeof err->where, "%.*s", (int)sizeof err->where - 1, asked);
}

static kvt_status load(const struct plan *plan, const struct plan_choice *choice, long at,
                       enum plan_level level, bool only_keys, struct kvt_arena *arena,
                       struct kvt_scenario *out, struct kvt_error *err)
{
    const struct cli_texts *common = &plan->question.options->sets;
    size_t count = 0, room = common->count + choice->set_count + PLAN_SETS_MAX + 3;
    const char **sets = kvt_arena_array(arena, room, sizeof *sets, _Alignof(const char *));

    if (sets == NULL)
        return kvt_fail_nomem(err, "a choice");
    kvt_status status = collect(plan, choice, at, level, arena, sets, &count, err);
    if (status != KVT_OK)
        return status;
    const struct kvt_scenario_options options = {.data_dir = cli_data_dir(),
                                                 .plugins = cli_plugins(),
                                                 .sets = sets,
                                                 .set_count = count,
                                                 .common_sets = plan->is_strict ? 0 : common->count,
                                                 .only_keys = only_keys};
    status = kvt_scenario_load(plan->question.source, &options, arena, out, err);
    if (status != KVT_OK)
        name_who_asked(plan, sets, count, level, err);
    return status;
}

kvt_status plan_load(const struct plan *plan, const struct plan_choice *choice, long at,
                     enum plan_level level, struct kvt_arena *arena, struct kvt_scenario *out,
                     struct kvt_error *err)
{
    kvt_status status = load(plan, choice, at, level, false, arena, out, err);

    if (status == KVT_OK && level == PLAN_SIMULATED && at >= 0 &&
        plan->question.survive_set != NULL)
        status = plan_check_survive(&plan->question, out, err);
    return status;
}

kvt_status plan_read_along(const struct plan *plan, const struct plan_choice *choice,
                           struct cli_along *out, struct kvt_error *err)
{
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    struct kvt_scenario scenario;

    if (arena == NULL)
        return kvt_fail_nomem(err, "a choice");
    kvt_status status = load(plan, choice, -1, PLAN_SIMULATED, true, arena, &scenario, err);
    if (status == KVT_OK)
        cli_along_read(&scenario, out);
    kvt_arena_free(arena);
    return status;
}
