/* question.c -- the command line of `kvtide plan`: what must hold, what is wanted most. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/json.h"
#include "plan.h"

static const char where_slo[] = "plan --slo";

/* ---- Bounds ------------------------------------------------------------------------------------
 */

double plan_slack(const struct plan_bound *bound, double value)
{
    double scale = bound->limit != 0 ? fabs(bound->limit) : 1;
    bool is_upper = bound->op == KVT_LESS || bound->op == KVT_LESS_EQUAL;

    return (is_upper ? bound->limit - value : value - bound->limit) / scale;
}

bool plan_holds(const struct plan_bound *bound, double value)
{
    const struct kvt_condition condition = {.op = bound->op, .bound = bound->limit};

    return !isnan(value) && kvt_condition_holds(&condition, value);
}

static kvt_status read_condition(const char *text, struct plan_bound *out, struct kvt_error *err)
{
    struct kvt_condition condition;
    kvt_status status = kvt_condition_parse(text, where_slo, "LIMIT", &condition, err);

    if (status == KVT_OK)
        *out = (struct plan_bound){
            .text = text, .op = condition.op, .limit = condition.bound, .metric = condition.metric};
    return status;
}

static kvt_status read_bounds(const struct plan_options *options, struct plan_question *question,
                              struct kvt_error *err)
{
    if (options->slo.count > PLAN_BOUNDS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where_slo, "given %zu times, at most %d are taken",
                        options->slo.count, PLAN_BOUNDS_MAX);
    for (size_t i = 0; i < options->slo.count; i++) {
        if (plan_is_of_classes(options->slo.items[i]))
            continue; /* once the scenario is known */
        kvt_status status =
            read_condition(options->slo.items[i], &question->bounds[question->bound_count], err);
        if (status != KVT_OK)
            return status;
        question->bound_count++;
    }
    return KVT_OK;
}

/* ---- What is wanted most --------------------------------------------------------------------- */

static bool is_whole(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Takes the k of "8k" away, which is the unit of all values or of none. */
static bool take_unit(char *text)
{
    size_t length = strlen(text);
    bool has_unit = length > 1 && text[length - 1] == 'k';

    if (has_unit)
        text[length - 1] = '\0';
    return has_unit;
}

/* "PATH=LOW:HIGH" with a step put behind it: 1 between whole numbers, else the largest factor of at
 * most 1 + precision, or difference of so much of the range, that meets HIGH. Any other text as it
 * is. NULL: no memory. */
static const char *with_step(const char *text, double precision, struct kvt_arena *arena)
{
    const char *equals = strchr(text, '=');
    const char *low_text = equals != NULL ? equals + 1 : "";
    const char *colon = strchr(low_text, ':');
    const char *high_text = colon != NULL ? colon + 1 : "";
    double low = 0, high = 0;
    char head[64], tail[64];

    if (colon == NULL || (size_t)(colon - low_text) >= sizeof head ||
        strlen(high_text) >= sizeof tail)
        return text;
    memcpy(head, low_text, (size_t)(colon - low_text));
    head[colon - low_text] = '\0';
    memcpy(tail, high_text, strlen(high_text) + 1);
    bool has_unit = take_unit(head);
    if (has_unit != take_unit(tail) ||
        kvt_text_real(head, "", -1e300, 1e300, &low, NULL) != KVT_OK ||
        kvt_text_real(tail, "", -1e300, 1e300, &high, NULL) != KVT_OK)
        return text;
    if ((is_whole(head) && is_whole(tail)) || !(high > low)) /* one value, or an empty range */
        return kvt_arena_printf(arena, "%s:1%s", text, has_unit ? "k" : "");
    if (low > 0)
        return kvt_arena_printf(arena, "%s:*%.17g", text,
                                pow(high / low, 1 / ceil(log(high / low) / log1p(precision))));
    return kvt_arena_printf(arena, "%s:%.17g%s", text, (high - low) / ceil(1 / precision),
                            has_unit ? "k" : "");
}

/* What the schema says of a path: everything in *found that a value of it may be. */
struct kinds {
    bool is_whole, is_other; /* number: other than whole */
};

/* NOLINTBEGIN(misc-no-recursion): as deep as a schema is */
static void add_kinds(const cJSON *schema, const char *path, struct kinds *found)
{
    const cJSON *form, *type = kvt_json_find(schema, "type");
    size_t length = strcspn(path, ".");
    const char *rest = path[length] == '.' ? path + length + 1 : path + length;

    cJSON_ArrayForEach(form, kvt_json_find(schema, "anyOf"))
    {
        add_kinds(form, path, found);
    }
    if (length == 0) {
        found->is_whole =
            found->is_whole || (cJSON_IsString(type) && strcmp(type->valuestring, "integer") == 0);
        found->is_other =
            found->is_other || (cJSON_IsString(type) && strcmp(type->valuestring, "number") == 0);
        return;
    }
    cJSON_ArrayForEach(form, kvt_json_find(schema, "properties"))
    {
        if (strlen(form->string) == length && strncmp(form->string, path, length) == 0)
            add_kinds(form, rest, found);
    }
    if (strspn(path, "0123456789") == length)
        add_kinds(kvt_json_find(schema, "items"), rest, found);
}
/* NOLINTEND(misc-no-recursion) */

/* Whether the numbers that a key takes are whole ones alone. */
static kvt_status takes_whole(const char *path, bool *out, struct kvt_error *err)
{
    char *text = kvt_scenario_schema();
    cJSON *schema = text != NULL ? cJSON_Parse(text) : NULL;
    struct kinds found = {false, false};

    if (schema != NULL)
        add_kinds(schema, path, &found);
    *out = found.is_whole && !found.is_other;
    free(text);
    bool is_known = schema != NULL;
    cJSON_Delete(schema);
    return is_known ? KVT_OK : kvt_fail_nomem(err, "the keys of a scenario");
}

/* Of a key that takes whole numbers each one in the text is whole, but for a factor. Multiples of
 * top-k are not its numbers, and what is no number is told by others. */
static kvt_status check_whole(const char *text, const char *path, const char *where,
                              struct kvt_error *err)
{
    const char *at = strchr(text, '=') + 1;

    while (*at != '\0') {
        size_t bytes = strcspn(at, ":,");
        char number[64] = "";
        double value = 0;
        if (bytes < sizeof number)
            memcpy(number, at, bytes);
        if (number[0] != '*' && kvt_text_real(number, "", -1e300, 1e300, &value, NULL) == KVT_OK &&
            value != floor(value))
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "found %s in \"%.100s\", expected whole numbers, as %.100s takes them",
                            number, text, path);
        at += bytes + (at[bytes] != '\0');
    }
    return KVT_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Values in order, the one that is wanted most at the end, none twice. What a factor makes of whole
 * numbers is rounded where only those are taken. */
static kvt_status take_values(const struct cli_axis *axis, bool is_whole, const char *where,
                              struct plan *plan, struct kvt_error *err)
{
    struct plan_question *question = &plan->question;
    double *values =
        kvt_arena_array(plan->arena, axis->value_count, sizeof *values, _Alignof(double));
    size_t kept = 0;

    if (values == NULL)
        return kvt_fail_nomem(err, "the values of an objective");
    for (size_t i = 0; i < axis->value_count; i++) {
        char text[64] = "";
        size_t length = strlen(axis->values[i]);
        bool is_short = length < sizeof text;
        if (is_short)
            memcpy(text, axis->values[i], length + 1);
        bool has_unit = is_short && take_unit(text);
        const char *unit = has_unit ? "k" : "";
        kvt_status status =
            kvt_text_real(is_short ? text : axis->values[i], where, -1e300, 1e300, &values[i], err);
        if (status != KVT_OK)
            return status;
        if (i > 0 && strcmp(unit, question->unit) != 0)
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "found %.100s beside %.100s; all values with a k, times top-k, or none "
                            "are expected",
                            axis->values[i], axis->values[0]);
        question->unit = unit;
        if (is_whole && !has_unit)
            values[i] = round(values[i]);
    }
    qsort(values, axis->value_count, sizeof *values, by_value);
    for (size_t i = 0; i < axis->value_count; i++) {
        if (i == 0 || values[i] != values[kept - 1])
            values[kept++] = values[i];
    }
    question->low = values[0];
    question->high = values[kept - 1];
    for (size_t i = 0; !question->maximizes && i < kept / 2; i++) {
        double other = values[i];
        values[i] = values[kept - 1 - i];
        values[kept - 1 - i] = other;
    }
    question->values = values;
    question->value_count = (long)kept;
    return KVT_OK;
}

static kvt_status read_precision(const char *text, double *out, struct kvt_error *err)
{
    *out = 0.01;
    return text == NULL ? KVT_OK : kvt_text_real(text, "plan --precision", 1e-6, 0.5, out, err);
}

static kvt_status read_objective(const struct plan_options *options, struct plan *plan,
                                 struct kvt_error *err)
{
    struct plan_question *question = &plan->question;
    const char *text = options->maximize != NULL ? options->maximize : options->minimize;
    const char *where = options->maximize != NULL ? "plan --maximize" : "plan --minimize";
    static const double nothing[] = {0};
    struct cli_axis axis;
    double precision = 0;

    if ((options->maximize != NULL) == (options->minimize != NULL))
        return kvt_fail(err, KVT_ERR_INVALID, "plan",
                        "%s; one of --maximize and --minimize is expected, with PATH=LOW:HIGH or "
                        "a METRIC",
                        text != NULL ? "two objectives are given" : "no objective is given");
    question->maximizes = options->maximize != NULL;
    kvt_status status = read_precision(options->precision, &precision, err);
    if (status != KVT_OK)
        return status;
    if (strchr(text, '=') == NULL) {
        question->values = nothing;
        question->value_count = 1;
        if (strchr(text, '.') != NULL) /* no metric's name has one, and every key of worth does */
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "found the key \"%.100s\" without its range; %.100s=LOW:HIGH, or a "
                            "METRIC, is expected",
                            text, text);
        return kvt_metric_find(text, where, &question->metric, err);
    }
    const char *stepped = with_step(text, precision, plan->arena);
    if (stepped == NULL)
        return kvt_fail_nomem(err, "an objective");
    status = cli_axis_parse(stepped, where, plan->arena, &axis, err);
    bool takes_whole_alone = false;
    if (status == KVT_OK)
        status = takes_whole(axis.path, &takes_whole_alone, err);
    if (status == KVT_OK && takes_whole_alone)
        status = check_whole(text, axis.path, where, err);
    if (status == KVT_OK)
        status = take_values(&axis, takes_whole_alone, where, plan, err);
    question->path = axis.path;
    if (status == KVT_OK && options->slo.count == 0)
        status = kvt_fail(err, KVT_ERR_INVALID, where,
                          "without a bound the answer is the end of the range; at least one --slo "
                          "'METRIC<=LIMIT' is expected");
    return status;
}

/* ---- Choices, and how to go about it ------------------------------------------------------------
 */

/* As a value, not as a text: 8 and 8.0 are the same. */
static bool is_same(const char *a, const char *b)
{
    double x = 0, y = 0;

    return strcmp(a, b) == 0 || (kvt_text_real(a, "", -1e300, 1e300, &x, NULL) == KVT_OK &&
                                 kvt_text_real(b, "", -1e300, 1e300, &y, NULL) == KVT_OK && x == y);
}

/* Lists that are too long are told of where the product is. */
static kvt_status check_twice(const struct cli_axis *axis, struct kvt_error *err)
{
    for (size_t i = 0; i < axis->value_count && axis->value_count <= PLAN_CHOICES_MAX; i++) {
        for (size_t k = 0; k < i; k++) {
            if (is_same(axis->values[i], axis->values[k]))
                return kvt_fail(err, KVT_ERR_INVALID, "plan --over",
                                "found %.100s twice in the list of %.100s, expected each value "
                                "once",
                                axis->values[i], axis->path);
        }
    }
    return KVT_OK;
}

static kvt_status read_axes(const struct plan_options *options, struct plan *plan,
                            struct kvt_error *err)
{
    struct plan_question *question = &plan->question;

    if (options->over.count > PLAN_AXES_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, "plan --over",
                        "given %zu times, at most %d are taken", options->over.count,
                        PLAN_AXES_MAX);
    for (size_t i = 0; i < options->over.count; i++) {
        struct cli_axis *axis = &question->axes[i];
        kvt_status status =
            cli_axis_parse(options->over.items[i], "plan --over", plan->arena, axis, err);
        if (status != KVT_OK)
            return status;
        question->axis_count++;
        status = check_twice(axis, err);
        if (status != KVT_OK)
            return status;
        for (size_t k = 0; k < i; k++) {
            if (strcmp(question->axes[k].path, axis->path) == 0)
                return kvt_fail(err, KVT_ERR_INVALID, "plan --over",
                                "%s is given twice; its values belong into one list", axis->path);
        }
        if (question->path != NULL && strcmp(question->path, axis->path) == 0)
            return kvt_fail(err, KVT_ERR_INVALID, "plan --over",
                            "%s is the objective; it cannot be a choice as well", axis->path);
    }
    return KVT_OK;
}

static kvt_status read_simulate(const char *text, size_t *out, struct kvt_error *err)
{
    uint64_t count = 8;

    if (text != NULL && strcmp(text, "all") == 0)
        count = PLAN_CHOICES_MAX;
    else if (text != NULL) {
        kvt_status status = kvt_text_count(text, "plan --simulate", PLAN_CHOICES_MAX, &count, err);
        if (status != KVT_OK)
            return status;
        if (count == 0)
            return kvt_fail(err, KVT_ERR_INVALID, "plan --simulate",
                            "found 0, expected 1 to %d, or all; --fidelity analytic simulates none",
                            PLAN_CHOICES_MAX);
    }
    *out = (size_t)count;
    return KVT_OK;
}

static kvt_status read_worth(const char *text, struct plan_question *question,
                             struct kvt_error *err)
{
    question->worth_none = text != NULL && strcmp(text, "none") == 0;
    question->worth_simulated = text != NULL && strcmp(text, "simulated") == 0;
    if (text != NULL && !question->worth_none && !question->worth_simulated &&
        strcmp(text, "analytic") != 0)
        return kvt_fail(err, KVT_ERR_INVALID, "plan --worth",
                        "found \"%.100s\", expected analytic, simulated or none", text);
    return KVT_OK;
}

static kvt_status read_fidelity(const struct plan_options *options, struct plan_question *question,
                                struct kvt_error *err)
{
    static const char *const names[] = {"exact", "sampled", "analytic"};
    bool known = options->fidelity == NULL;

    for (size_t i = 0; options->fidelity != NULL && i < sizeof names / sizeof names[0]; i++)
        known = known || strcmp(options->fidelity, names[i]) == 0;
    if (!known)
        return kvt_fail(err, KVT_ERR_INVALID, "plan --fidelity",
                        "found \"%.100s\", expected exact, sampled or analytic", options->fidelity);
    question->analytic_only =
        options->fidelity != NULL && strcmp(options->fidelity, "analytic") == 0;
    if (question->analytic_only && options->no_analytic)
        return kvt_fail(err, KVT_ERR_INVALID, "plan --no-analytic",
                        "--fidelity analytic asks for nothing else");
    return KVT_OK;
}

kvt_status plan_read_question(const struct plan_options *options, struct plan *plan,
                              struct kvt_error *err)
{
    struct plan_question *question = &plan->question;

    question->options = options;
    question->unit = "";
    question->source = options->scenario.items[0];
    question->threads = (unsigned)options->threads;
    question->seed_count = (size_t)options->seeds;
    (void)kvt_metric_docs(&question->metric_count);
    kvt_status status = read_bounds(options, question, err);
    if (status == KVT_OK)
        status = read_objective(options, plan, err);
    if (status == KVT_OK)
        status = read_axes(options, plan, err);
    if (status == KVT_OK)
        status = read_simulate(options->simulate, &question->simulate_max, err);
    if (status == KVT_OK)
        status = read_worth(options->worth, question, err);
    if (status == KVT_OK)
        status = read_fidelity(options, question, err);
    if (status == KVT_OK)
        status = cli_cache_dir(options->cache, plan->arena, &question->cache_dir, err);
    return status;
}
