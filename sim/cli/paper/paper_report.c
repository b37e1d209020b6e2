/* paper_report.c -- ours beside the paper's: a table for people, paper.json for programs. */
#include <math.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/version.h"
#include "paper.h"

/* ---- Values as text --------------------------------------------------------------------- */

/* Four digits, or four behind the point; whole numbers whole. */
static void print_ours(double value, char out[32])
{
    double size = fabs(value);
    int decimals = size >= 1000 || value == floor(value) ? 0
                   : size >= 100                         ? 1
                   : size >= 10                          ? 2
                   : size >= 1                           ? 3
                                                         : 4;

    (void)snprintf(out, 32, "%.*f", decimals, value);
}

/* "24 to 28"; one number where both print alike; more than two with blanks between. */
static void print_numbers(const double *numbers, size_t count,
                          void (*print)(double value, char out[32]), char out[PAPER_TEXT_BYTES])
{
    char first[32], one[32];
    size_t used = 0;

    print(numbers[0], first);
    out[0] = '\0';
    for (size_t i = 0; i < count && used < PAPER_TEXT_BYTES; i++) {
        print(numbers[i], one);
        if (count == 2 && i == 1 && strcmp(one, first) == 0)
            break;
        const char *between = i == 0 ? "" : count == 2 ? " to " : " ";
        int wrote = snprintf(out + used, PAPER_TEXT_BYTES - used, "%s%s", between, one);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

void paper_print_claim(const struct paper_target *target, char out[PAPER_TEXT_BYTES])
{
    if (target->number_count == 0)
        (void)snprintf(out, PAPER_TEXT_BYTES, "holds");
    else
        print_numbers(target->numbers, target->number_count, kvt_json_print_number, out);
}

void paper_print_value(const struct paper_line *line, char out[PAPER_TEXT_BYTES])
{
    const struct paper_value *value = &line->value;

    if (value->found == PAPER_ABSENT)
        (void)snprintf(out, PAPER_TEXT_BYTES, "-");
    else if (value->found == PAPER_HOLDS)
        (void)snprintf(out, PAPER_TEXT_BYTES, "%s", value->holds ? "holds" : "fails");
    else if (line->target->tolerance == PAPER_DECIMALS && value->count == 1)
        (void)snprintf(out, PAPER_TEXT_BYTES, "%.*f", (int)line->target->allowed,
                       value->numbers[0]);
    else
        print_numbers(value->numbers, value->count, print_ours, out);
}

struct kvt_badge paper_badge_of(const struct paper_answer *answer)
{
    struct kvt_badge badge = {0};

    for (size_t p = 0; p < answer->paper->point_count; p++)
        kvt_badge_join(&badge, &answer->paper->points[p].badge);
    return badge;
}

/* ---- For people ------------------------------------------------------------------------- */

void paper_score_of(const struct paper_answer *answer, enum paper_class class_of,
                    struct paper_score *out)
{
    *out = (struct paper_score){0};
    for (size_t i = 0; i < answer->line_count; i++) {
        const struct paper_line *line = &answer->lines[i];
        if (line->target->class_of != class_of)
            continue;
        out->asked++;
        out->good += paper_is_good(line->verdict.kind);
        out->open += line->verdict.kind == PAPER_NOT_MEASURED ||
                     line->verdict.kind == PAPER_NOT_IDENTIFIABLE;
    }
    out->bad = out->asked - out->good - out->open;
}

static void print_line(const struct paper_line *line)
{
    char claim[PAPER_TEXT_BYTES], value[PAPER_TEXT_BYTES], error[16] = "";

    paper_print_claim(line->target, claim);
    paper_print_value(line, value);
    if (isfinite(line->verdict.error))
        (void)snprintf(error, sizeof error, "%+.1f %%", 100 * line->verdict.error);
    printf("%-36s %15s %15s %-10.10s %8s  %s\n", line->target->id, claim, value, line->target->unit,
           error, paper_verdict_name(line->verdict.kind));
}

static const char *meaning_of(enum paper_class class_of)
{
    static const char *const meanings[PAPER_CLASSES] = {
        [PAPER_EXACT] = "accounting and invariants: must come out",
        [PAPER_EXACT_IF] = "if ring and staging are what their sum says",
        [PAPER_CALIBRATED] = "a parameter was fitted to it: no evidence",
        [PAPER_PREDICTED] = "nothing was fitted to it: evidence",
        [PAPER_ORDERING] = "an order, or a protocol",
        [PAPER_UNIDENTIFIABLE] = "what decides it is not published",
    };
    return meanings[class_of];
}

static void print_class(const struct paper_answer *answer, enum paper_class class_of)
{
    struct paper_score score;

    paper_score_of(answer, class_of, &score);
    if (score.asked == 0)
        return;
    printf("\n%s  %s: %s\n%-36s %15s %15s\n", paper_class_letter(class_of),
           paper_class_name(class_of), meaning_of(class_of), "", "paper", "here");
    for (size_t i = 0; i < answer->line_count; i++) {
        if (answer->lines[i].target->class_of == class_of)
            print_line(&answer->lines[i]);
    }
}

/* A miss of what was fitted, or cannot be known, is told in its line alone. */
static bool is_miss(const struct paper_line *line)
{
    enum paper_class class_of = line->target->class_of;
    return (class_of == PAPER_EXACT || class_of == PAPER_EXACT_IF || class_of == PAPER_PREDICTED ||
            class_of == PAPER_ORDERING) &&
           !paper_is_good(line->verdict.kind) && line->verdict.kind != PAPER_NOT_MEASURED;
}

/* "miss       ID: why", wrapped. */
static void print_paragraph(const char *head, const char *name, const char *text)
{
    printf("%-10s %s:", head, name);
    (void)cli_put_wrapped(text, 12 + (int)strlen(name), 11);
    puts("");
}

static void print_misses(const struct paper_answer *answer)
{
    bool any = false;

    for (size_t i = 0; i < answer->line_count; i++) {
        const struct paper_line *line = &answer->lines[i];
        if (!is_miss(line))
            continue;
        if (!any)
            puts("");
        any = true;
        print_paragraph("miss", line->target->id,
                        line->target->cause[0] != '\0' ? line->target->cause
                                                       : "the cause is not known");
        if (line->value.says != NULL && line->value.says[0] != '\0')
            print_paragraph("", "here", line->value.says);
    }
}

static void print_parameters(const struct paper *paper)
{
    size_t changed = 0;

    for (size_t p = 0; p < paper->parameter_count; p++)
        changed += !paper->parameters[p].is_shipped;
    printf("parameters %zu fitted or chosen (share/kvt/paper/free-parameters.json)",
           paper->parameter_count);
    if (changed > 0)
        printf("; %zu of them are not what scenarios and models have", changed);
    puts("");
    for (size_t p = 0; p < paper->parameter_count; p++) {
        if (!paper->parameters[p].is_shipped)
            printf("           %s\n", paper->parameters[p].key);
    }
}

void paper_print(const struct paper_answer *answer)
{
    const struct kvt_badge badge = paper_badge_of(answer);

    printf("%s, as printed and as it comes out here\n", answer->paper->name);
    for (int c = 0; c < PAPER_CLASSES; c++)
        print_class(answer, (enum paper_class)c);
    print_misses(answer);
    puts("");
    for (int c = 0; c < PAPER_CLASSES; c++) {
        struct paper_score score;
        paper_score_of(answer, (enum paper_class)c, &score);
        if (score.asked == 0)
            continue;
        printf("%-10s %zu of %zu", paper_class_letter((enum paper_class)c), score.good,
               score.asked);
        if (score.open > 0)
            printf(", %zu open", score.open);
        printf(" (%s)\n", meaning_of((enum paper_class)c));
    }
    print_parameters(answer->paper);
    cli_print_badge(&badge);
}

/* ---- For programs ----------------------------------------------------------------------- */

static bool add_value(cJSON *object, const struct paper_value *value)
{
    if (value->found == PAPER_ABSENT)
        return kvt_json_add(object, "ours", cJSON_CreateNull());
    if (value->found == PAPER_HOLDS)
        return kvt_json_add_bool(object, "ours", value->holds);
    if (value->count == 1)
        return kvt_json_add_number(object, "ours", value->numbers[0]);
    cJSON *list = cJSON_AddArrayToObject(object, "ours");
    bool ok = list != NULL;
    for (size_t i = 0; ok && i < value->count; i++)
        ok = cJSON_AddItemToArray(list, cJSON_CreateNumber(value->numbers[i]));
    return ok;
}

static bool add_points(cJSON *object, const struct paper *paper, const struct paper_line *line)
{
    cJSON *list = cJSON_AddArrayToObject(object, "made_by");
    bool ok = list != NULL;

    for (size_t i = 0; ok && i < line->point_count; i++) {
        const struct paper_point *point = &paper->points[line->points[i]];
        cJSON *entry = kvt_json_add_element(list);
        ok = entry != NULL && kvt_json_add_text(entry, "point", point->id) &&
             kvt_json_add_text(entry, "source", point->source);
        cJSON *sets = ok ? cJSON_AddArrayToObject(entry, "set") : NULL;
        ok = sets != NULL;
        for (size_t s = 0; ok && s < point->set_count; s++)
            ok = cJSON_AddItemToArray(sets, cJSON_CreateString(point->sets[s]));
    }
    return ok;
}

static bool add_target(cJSON *list, const struct paper *paper, const struct paper_line *line)
{
    const struct paper_target *target = line->target;
    cJSON *object = kvt_json_add_element(list);
    cJSON *claim =
        target->number_count > 0 ? cJSON_Duplicate(target->value, true) : cJSON_CreateNull();

    return object != NULL && kvt_json_add_text(object, "id", target->id) &&
           kvt_json_add_text(object, "class", paper_class_letter(target->class_of)) &&
           kvt_json_add_text(object, "statement", target->statement) &&
           kvt_json_add(object, "paper", claim) && add_value(object, &line->value) &&
           kvt_json_add_text(object, "unit", target->unit) &&
           kvt_json_add_number(object, "error", line->verdict.error) &&
           kvt_json_add_text(object, "verdict", paper_verdict_name(line->verdict.kind)) &&
           (line->value.says == NULL || kvt_json_add_text(object, "says", line->value.says)) &&
           (target->note[0] == '\0' || kvt_json_add_text(object, "note", target->note)) &&
           (!is_miss(line) || kvt_json_add_text(object, "cause", target->cause)) &&
           add_points(object, paper, line);
}

/* The asked targets one of whose points the parameter is in force in. */
static bool add_reached(cJSON *object, const struct paper_answer *answer, size_t parameter)
{
    cJSON *list = cJSON_AddArrayToObject(object, "reaches");
    bool ok = list != NULL;

    for (size_t i = 0; ok && i < answer->line_count; i++) {
        uint64_t reached = 0;
        for (size_t p = 0; p < answer->lines[i].point_count; p++)
            reached |= answer->paper->points[answer->lines[i].points[p]].parameters;
        if (reached >> parameter & 1)
            ok = cJSON_AddItemToArray(list, cJSON_CreateString(answer->lines[i].target->id));
    }
    return ok;
}

static bool add_parameters(cJSON *tree, const struct paper_answer *answer)
{
    cJSON *list = cJSON_AddArrayToObject(tree, "parameters");
    bool ok = list != NULL;

    for (size_t p = 0; ok && p < answer->paper->parameter_count; p++) {
        const struct paper_parameter *parameter = &answer->paper->parameters[p];
        cJSON *object = kvt_json_add_element(list);
        ok = object != NULL && kvt_json_add_text(object, "key", parameter->key) &&
             kvt_json_add(object, "value", cJSON_Duplicate(parameter->value, true)) &&
             kvt_json_add_text(object, "unit", parameter->unit) &&
             kvt_json_add_bool(object, "shipped", parameter->is_shipped);
        cJSON *set_by = ok ? cJSON_AddArrayToObject(object, "set_by") : NULL;
        ok = set_by != NULL;
        for (size_t t = 0; ok && t < parameter->set_by_count; t++)
            ok = cJSON_AddItemToArray(set_by, cJSON_CreateString(parameter->set_by[t]));
        ok = ok && add_reached(object, answer, p);
    }
    return ok;
}

static bool add_scores(cJSON *tree, const struct paper_answer *answer)
{
    cJSON *classes = kvt_json_add_object(tree, "classes");
    bool ok = classes != NULL;

    for (int c = 0; ok && c < PAPER_CLASSES; c++) {
        struct paper_score score;
        paper_score_of(answer, (enum paper_class)c, &score);
        cJSON *object = kvt_json_add_object(classes, paper_class_letter((enum paper_class)c));
        ok = object != NULL && kvt_json_add_number(object, "asked", (double)score.asked) &&
             kvt_json_add_number(object, "good", (double)score.good) &&
             kvt_json_add_number(object, "bad", (double)score.bad) &&
             kvt_json_add_number(object, "open", (double)score.open);
    }
    return ok;
}

kvt_status paper_tree(const struct paper_answer *answer, cJSON **out, struct kvt_error *err)
{
    const struct kvt_badge badge = paper_badge_of(answer);
    cJSON *tree = cJSON_CreateObject();
    bool ok = tree != NULL && kvt_json_add_text(tree, "schema", "kvtide/paper/1") &&
              kvt_json_add_text(tree, "version", kvt_version()) &&
              kvt_json_add_text(tree, "commit", kvt_commit()) &&
              kvt_json_add_text(tree, "paper", answer->paper->name) &&
              kvt_badge_add(tree, &badge) && add_scores(tree, answer);
    cJSON *targets = ok ? cJSON_AddArrayToObject(tree, "targets") : NULL;

    ok = targets != NULL;
    for (size_t i = 0; ok && i < answer->line_count; i++)
        ok = add_target(targets, answer->paper, &answer->lines[i]);
    ok = ok && add_parameters(tree, answer);
    if (!ok) {
        cJSON_Delete(tree);
        return kvt_fail_nomem(err, "paper.json");
    }
    *out = tree;
    return KVT_OK;
}
