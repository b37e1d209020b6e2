/* paper_files.c -- the files of `kvtide paper`: targets, free parameters, points, figures. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kvt/json.h"
#include "paper.h"

enum {
    FILE_BYTES_MAX = 4 << 20,
    WHERE_BYTES = 256
};

enum {
    FILE_TARGETS,
    FILE_PARAMETERS,
    FILE_POINTS,
    FILE_FIGURES
};

static const struct {
    const char *name, *schema, *list;
} files[] = {
    [FILE_TARGETS] = {"targets.json", "kvtide/paper-targets/1", "targets"},
    [FILE_PARAMETERS] = {"free-parameters.json", "kvtide/free-parameters/1", "parameters"},
    [FILE_POINTS] = {"points.json", "kvtide/paper-points/1", "points"},
    [FILE_FIGURES] = {"figures.json", "kvtide/paper-figures/1", "figures"},
};

static const struct {
    const char *letter, *name;
} classes[PAPER_CLASSES] = {
    [PAPER_EXACT] = {"E", "exact"},           [PAPER_EXACT_IF] = {"E*", "exact under a hypothesis"},
    [PAPER_CALIBRATED] = {"C", "calibrated"}, [PAPER_PREDICTED] = {"P", "predicted"},
    [PAPER_ORDERING] = {"Q", "ordering"},     [PAPER_UNIDENTIFIABLE] = {"U", "not identifiable"},
};

const char *paper_class_letter(enum paper_class class_of)
{
    return classes[class_of].letter;
}

const char *paper_class_name(enum paper_class class_of)
{
    return classes[class_of].name;
}

/* ---- Parts that entries share ----------------------------------------------------------- */

static kvt_status place(struct kvt_arena *arena, const char *file, const char *list, size_t index,
                        const char **out, struct kvt_error *err)
{
    *out = kvt_arena_printf(arena, "%s#/%s/%zu", file, list, index);
    return *out != NULL ? KVT_OK : kvt_fail_nomem(err, file);
}

/* Texts of an optional array, borrowed from the tree. */
static kvt_status read_texts(const cJSON *object, const char *where, const char *key,
                             struct kvt_arena *arena, const char *const **out, size_t *count,
                             struct kvt_error *err)
{
    const cJSON *array = NULL, *item = NULL;
    kvt_status status = kvt_json_get_array(object, where, key, false, &array, err);

    *out = NULL;
    *count = 0;
    if (status != KVT_OK || array == NULL)
        return status;
    const char **list = kvt_arena_array(arena, (size_t)cJSON_GetArraySize(array) + 1, sizeof *list,
                                        _Alignof(const char *));
    if (list == NULL)
        return kvt_fail_nomem(err, where);
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsString(item))
            return kvt_fail(err, KVT_ERR_INVALID, where, "%s holds what is no text", key);
        list[(*count)++] = item->valuestring;
    }
    *out = list;
    return KVT_OK;
}

static kvt_status read_list(const cJSON *tree, const char *file, size_t index, const cJSON **out,
                            struct kvt_error *err)
{
    const char *const keys[] = {KVT_JSON_HEAD_KEYS, files[index].list};
    kvt_status status = kvt_json_check_head(tree, file, files[index].schema, err);

    if (status == KVT_OK)
        status = kvt_json_check_keys(tree, file, keys, sizeof keys / sizeof keys[0], err);
    return status == KVT_OK ? kvt_json_get_array(tree, file, files[index].list, true, out, err)
                            : status;
}

/* ---- Targets ---------------------------------------------------------------------------- */

static kvt_status read_class(const cJSON *entry, const char *where, enum paper_class *out,
                             struct kvt_error *err)
{
    const char *letter = NULL;
    kvt_status status = kvt_json_get_text(entry, where, "class", true, &letter, err);

    for (int c = 0; status == KVT_OK && c < PAPER_CLASSES; c++) {
        if (strcmp(letter, classes[c].letter) == 0) {
            *out = (enum paper_class)c;
            return KVT_OK;
        }
    }
    return status != KVT_OK ? status
                            : kvt_fail(err, KVT_ERR_INVALID, where,
                                       "class \"%.20s\" is none of: E E* C P Q U", letter);
}

static kvt_status read_numbers(const cJSON *value, const char *where, struct paper_target *out,
                               struct kvt_error *err)
{
    const cJSON *item = cJSON_IsArray(value) ? value->child : value;

    out->value = value;
    if (value == NULL || cJSON_IsNull(value))
        return KVT_OK;
    for (; item != NULL; item = cJSON_IsArray(value) ? item->next : NULL) {
        if (!cJSON_IsNumber(item) || out->number_count == PAPER_LIST_MAX)
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "value is a number, a list of at most %d, or null", PAPER_LIST_MAX);
        out->numbers[out->number_count++] = item->valuedouble;
    }
    return KVT_OK;
}

static kvt_status read_tolerance(const cJSON *entry, const char *where, struct paper_target *out,
                                 struct kvt_error *err)
{
    static const struct {
        const char *key;
        enum paper_tolerance kind;
        double maximum;
    } kinds[] = {{"decimals", PAPER_DECIMALS, 9},
                 {"rel", PAPER_RELATIVE, 1},
                 {"abs", PAPER_ABSOLUTE, 1e9},
                 {"range_rel", PAPER_RANGE_RELATIVE, 1},
                 {"range_abs", PAPER_RANGE_ABSOLUTE, 1e9},
                 {"min", PAPER_AT_LEAST, 1e9},
                 {"of_best", PAPER_OF_BEST, 1}};
    const cJSON *object = NULL;
    kvt_status status = kvt_json_get_object(entry, where, "tolerance", false, &object, err);

    if (status != KVT_OK || object == NULL)
        return status;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (object->child == NULL || object->child->next != NULL ||
            strcmp(object->child->string, kinds[i].key) != 0)
            continue;
        out->tolerance = kinds[i].kind;
        return kvt_json_get_f64(object, where, kinds[i].key, true, 0, kinds[i].maximum,
                                &out->allowed, err);
    }
    return kvt_fail(
        err, KVT_ERR_INVALID, where,
        "tolerance has one member of: decimals rel abs range_rel range_abs min of_best");
}

static kvt_status read_target(const cJSON *entry, const char *where, struct paper_target *out,
                              struct kvt_error *err)
{
    static const char *const keys[] = {"id",     "class",     "statement", "value", "unit",
                                       "source", "tolerance", "ours",      "note",  "cause"};
    kvt_status status = KVT_OK;

    *out = (struct paper_target){.where = where, .id = "", .note = "", .cause = ""};
    if (!cJSON_IsObject(entry))
        return kvt_fail(err, KVT_ERR_INVALID, where, "this is not a target, an object");
    status = kvt_json_check_keys(entry, where, keys, sizeof keys / sizeof keys[0], err);
    if (status == KVT_OK)
        status = kvt_json_get_text(entry, where, "id", true, &out->id, err);
    if (status == KVT_OK)
        status = read_class(entry, where, &out->class_of, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(entry, where, "statement", true, &out->statement, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(entry, where, "unit", true, &out->unit, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(entry, where, "source", true, &out->source, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(entry, where, "note", false, &out->note, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(entry, where, "cause", false, &out->cause, err);
    if (status == KVT_OK)
        status = read_numbers(kvt_json_find(entry, "value"), where, out, err);
    if (status == KVT_OK)
        status = read_tolerance(entry, where, out, err);
    if (status == KVT_OK && (out->number_count > 0) != (out->tolerance != PAPER_NO_TOLERANCE))
        status = kvt_fail(err, KVT_ERR_INVALID, where,
                          "a value has a tolerance, and a tolerance a value");
    if (status == KVT_OK && out->number_count != 2 &&
        (out->tolerance == PAPER_RANGE_RELATIVE || out->tolerance == PAPER_RANGE_ABSOLUTE))
        status = kvt_fail(err, KVT_ERR_INVALID, where, "a range has two ends");
    return status == KVT_OK ? kvt_json_get_object(entry, where, "ours", true, &out->ours, err)
                            : status;
}

kvt_status paper_read_targets(const cJSON *tree, const char *name, struct kvt_arena *arena,
                              struct paper *out, struct kvt_error *err)
{
    const cJSON *list = NULL, *entry = NULL;
    kvt_status status = read_list(tree, name, FILE_TARGETS, &list, err);

    if (status == KVT_OK)
        status = kvt_json_get_text(tree, name, "name", true, &out->name, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(tree, name, "summary", true, &out->summary, err);
    if (status != KVT_OK)
        return status;
    struct paper_target *targets = kvt_arena_array(arena, (size_t)cJSON_GetArraySize(list) + 1,
                                                   sizeof *targets, _Alignof(struct paper_target));
    if (targets == NULL)
        return kvt_fail_nomem(err, name);
    out->targets = targets;
    out->target_count = 0;
    cJSON_ArrayForEach(entry, list)
    {
        const char *where = NULL;
        struct paper_target *target = &targets[out->target_count];
        status = place(arena, name, "targets", out->target_count, &where, err);
        if (status == KVT_OK)
            status = read_target(entry, where, target, err);
        for (size_t i = 0; status == KVT_OK && i < out->target_count; i++) {
            if (strcmp(targets[i].id, target->id) == 0)
                status =
                    kvt_fail(err, KVT_ERR_INVALID, where, "there are two of id %s", target->id);
        }
        if (status != KVT_OK)
            return status;
        out->target_count++;
    }
    return KVT_OK;
}

/* ---- Free parameters -------------------------------------------------------------------- */

static kvt_status check_set_by(const struct paper *paper, const struct paper_parameter *parameter,
                               const char *where, struct kvt_error *err)
{
    if (parameter->set_by_count == 0)
        return kvt_fail(err, KVT_ERR_INVALID, where, "set_by names no target");
    for (size_t i = 0; i < parameter->set_by_count; i++) {
        size_t t = 0;
        while (t < paper->target_count && strcmp(paper->targets[t].id, parameter->set_by[i]) != 0)
            t++;
        if (t == paper->target_count)
            return kvt_fail(err, KVT_ERR_INVALID, where, "set_by: there is no target %.80s",
                            parameter->set_by[i]);
    }
    return KVT_OK;
}

static kvt_status read_parameter(const struct paper *paper, const cJSON *entry, const char *where,
                                 struct kvt_arena *arena, struct paper_parameter *out,
                                 struct kvt_error *err)
{
    static const char *const keys[] = {"key", "value", "unit", "set_by", "how", "times", "model"};
    kvt_status status = KVT_OK;

    *out = (struct paper_parameter){.is_shipped = true};
    if (!cJSON_IsObject(entry))
        return kvt_fail(err, KVT_ERR_INVALID, where, "this is not a parameter, an object");
    status = kvt_json_check_keys(entry, where, keys, sizeof keys / sizeof keys[0], err);
    if (status == KVT_OK)
        status = kvt_json_get_text(entry, where, "key", true, &out->key, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(entry, where, "unit", true, &out->unit, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(entry, where, "how", true, &out->how, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(entry, where, "times", false, &out->times, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(entry, where, "model", false, &out->model, err);
    if (status == KVT_OK)
        status = read_texts(entry, where, "set_by", arena, &out->set_by, &out->set_by_count, err);
    if (status != KVT_OK)
        return status;
    out->value = kvt_json_find(entry, "value");
    if (!cJSON_IsNumber(out->value) && !cJSON_IsString(out->value))
        return kvt_fail(err, KVT_ERR_INVALID, where, "value is a number or a name");
    return check_set_by(paper, out, where, err);
}

static kvt_status read_parameters(const cJSON *tree, struct kvt_arena *arena, struct paper *out,
                                  struct kvt_error *err)
{
    const char *name = files[FILE_PARAMETERS].name;
    const cJSON *list = NULL, *entry = NULL;
    kvt_status status = read_list(tree, name, FILE_PARAMETERS, &list, err);

    if (status != KVT_OK)
        return status;
    size_t count = (size_t)cJSON_GetArraySize(list);
    if (count > PAPER_PARAMETERS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, name, "more than %d parameters",
                        PAPER_PARAMETERS_MAX);
    out->parameters = kvt_arena_array(arena, count + 1, sizeof *out->parameters,
                                      _Alignof(struct paper_parameter));
    if (out->parameters == NULL)
        return kvt_fail_nomem(err, name);
    cJSON_ArrayForEach(entry, list)
    {
        const char *where = NULL;
        status = place(arena, name, "parameters", out->parameter_count, &where, err);
        if (status == KVT_OK)
            status = read_parameter(out, entry, where, arena,
                                    &out->parameters[out->parameter_count], err);
        if (status != KVT_OK)
            return status;
        out->parameter_count++;
    }
    return KVT_OK;
}

/* ---- Points ----------------------------------------------------------------------------- */

static kvt_status read_kind(const cJSON *entry, const char *where, enum paper_kind *out,
                            struct kvt_error *err)
{
    static const char *const names[PAPER_KINDS] = {"run",   "size",       "model",
                                                   "calls", "properties", "measured"};
    const char *name = names[PAPER_RUN];
    kvt_status status = kvt_json_get_text(entry, where, "kind", false, &name, err);

    for (int k = 0; status == KVT_OK && k < PAPER_KINDS; k++) {
        if (strcmp(name, names[k]) == 0) {
            *out = (enum paper_kind)k;
            return KVT_OK;
        }
    }
    return status != KVT_OK
               ? status
               : kvt_fail(err, KVT_ERR_INVALID, where,
                          "kind \"%.40s\" is none of: run size model calls properties measured",
                          name);
}

/* One entry without its values. */
static kvt_status read_point(const cJSON *entry, const char *where, struct kvt_arena *arena,
                             struct paper_point *out, struct kvt_error *err)
{
    static const char *const keys[] = {"id",  "kind", "scenario", "file",
                                       "set", "vary", "values",   "timeline"};
    kvt_status status = KVT_OK;

    *out = (struct paper_point){.x = (double)NAN};
    if (!cJSON_IsObject(entry))
        return kvt_fail(err, KVT_ERR_INVALID, where, "this is not a point, an object");
    status = kvt_json_check_keys(entry, where, keys, sizeof keys / sizeof keys[0], err);
    if (status == KVT_OK)
        status = kvt_json_get_text(entry, where, "id", true, &out->id, err);
    if (status == KVT_OK)
        status = read_kind(entry, where, &out->kind, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(entry, where, out->kind == PAPER_MEASURED ? "file" : "scenario",
                                   true, &out->source, err);
    if (status == KVT_OK)
        status = kvt_json_get_bool(entry, where, "timeline", false, &out->has_timeline, err);
    if (status == KVT_OK)
        status = read_texts(entry, where, "set", arena, &out->sets, &out->set_count, err);
    out->family = out->id;
    return status;
}

/* The family's point at a value: "hisparse/128" with workload.concurrency=128 behind its sets. A
 * size takes its value as tokens. */
static kvt_status make_member(const struct paper_point *family, const char *vary,
                              const cJSON *value, const char *where, struct kvt_arena *arena,
                              struct paper_point *out, struct kvt_error *err)
{
    char number[32];
    const char **sets =
        kvt_arena_array(arena, family->set_count + 1, sizeof *sets, _Alignof(const char *));

    if (!cJSON_IsNumber(value) || value->valuedouble < 0)
        return kvt_fail(err, KVT_ERR_INVALID, where, "values holds what is no number");
    kvt_json_print_number(value->valuedouble, number);
    *out = *family;
    out->x = value->valuedouble;
    out->id = kvt_arena_printf(arena, "%s/%s", family->family, number);
    if (sets == NULL || out->id == NULL)
        return kvt_fail_nomem(err, where);
    for (size_t i = 0; i < family->set_count; i++)
        sets[i] = family->sets[i];
    out->sets = sets;
    if (family->kind == PAPER_SIZE) {
        out->tokens = (uint64_t)value->valuedouble;
        return KVT_OK;
    }
    if (vary == NULL)
        return kvt_fail(err, KVT_ERR_INVALID, where, "values stand without vary");
    sets[out->set_count++] = kvt_arena_printf(arena, "%s=%s", vary, number);
    return sets[out->set_count - 1] != NULL ? KVT_OK : kvt_fail_nomem(err, where);
}

static kvt_status read_family(const cJSON *entry, const char *where, struct kvt_arena *arena,
                              struct paper *out, struct kvt_error *err)
{
    struct paper_point family;
    const cJSON *values = NULL, *value = NULL;
    const char *vary = NULL;
    kvt_status status = read_point(entry, where, arena, &family, err);

    if (status == KVT_OK)
        status = kvt_json_get_text(entry, where, "vary", false, &vary, err);
    if (status == KVT_OK)
        status = kvt_json_get_array(entry, where, "values", false, &values, err);
    if (status == KVT_OK && values == NULL)
        out->points[out->point_count++] = family;
    cJSON_ArrayForEach(value, values)
    {
        if (status == KVT_OK)
            status = make_member(&family, vary, value, where, arena,
                                 &out->points[out->point_count++], err);
    }
    return status;
}

static kvt_status read_points(const cJSON *tree, struct kvt_arena *arena, struct paper *out,
                              struct kvt_error *err)
{
    const char *name = files[FILE_POINTS].name;
    const cJSON *list = NULL, *entry = NULL;
    size_t count = 0, index = 0;
    kvt_status status = read_list(tree, name, FILE_POINTS, &list, err);

    cJSON_ArrayForEach(entry, list)
    {
        count += 1 + (size_t)cJSON_GetArraySize(kvt_json_find(entry, "values"));
    }
    if (status != KVT_OK)
        return status;
    out->points =
        kvt_arena_array(arena, count + 1, sizeof *out->points, _Alignof(struct paper_point));
    if (out->points == NULL)
        return kvt_fail_nomem(err, name);
    cJSON_ArrayForEach(entry, list)
    {
        const char *where = NULL;
        status = place(arena, name, "points", index++, &where, err);
        if (status == KVT_OK)
            status = read_family(entry, where, arena, out, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

struct paper_point *paper_find_point(const struct paper *paper, const char *id)
{
    for (size_t i = 0; i < paper->point_count; i++) {
        if (strcmp(paper->points[i].id, id) == 0)
            return &paper->points[i];
    }
    return NULL;
}

/* ---- All four --------------------------------------------------------------------------- */

static kvt_status load_file(const char *data_dir, size_t index, struct kvt_arena *arena,
                            struct paper *out, struct kvt_error *err)
{
    const char *path = kvt_arena_printf(arena, "%s/paper/%s", data_dir, files[index].name);

    return path != NULL ? kvt_json_load(path, FILE_BYTES_MAX, &out->files[index], err)
                        : kvt_fail_nomem(err, files[index].name);
}

kvt_status paper_load(const char *data_dir, struct kvt_arena *arena, struct paper *out,
                      struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    static_assert(sizeof out->files / sizeof out->files[0] == sizeof files / sizeof files[0],
                  "a text for each file");
    for (size_t i = 0; status == KVT_OK && i < sizeof files / sizeof files[0]; i++)
        status = load_file(data_dir, i, arena, out, err);
    if (status == KVT_OK)
        status =
            paper_read_targets(out->files[FILE_TARGETS], files[FILE_TARGETS].name, arena, out, err);
    if (status == KVT_OK)
        status = read_parameters(out->files[FILE_PARAMETERS], arena, out, err);
    if (status == KVT_OK)
        status = read_points(out->files[FILE_POINTS], arena, out, err);
    return status == KVT_OK ? read_list(out->files[FILE_FIGURES], files[FILE_FIGURES].name,
                                        FILE_FIGURES, &out->figures, err)
                            : status;
}

void paper_free_trees(struct paper *paper)
{
    for (size_t i = 0; i < paper->point_count; i++)
        cJSON_Delete(paper->points[i].tree);
    for (size_t i = 0; i < sizeof paper->files / sizeof paper->files[0]; i++)
        cJSON_Delete(paper->files[i]);
}
