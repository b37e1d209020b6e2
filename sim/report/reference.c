/* reference.c -- a reference file: numbers that somebody else has measured or published. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/compare.h"
#include "kvt/json.h"

enum {
    WHERE_BYTES = 320
};

const char *kvt_reference_class_name(enum kvt_reference_class class_of)
{
    switch (class_of) {
    case KVT_REFERENCE_PREDICTED:
        return "predicted";
    case KVT_REFERENCE_EXACT:
        return "exact";
    case KVT_REFERENCE_CALIBRATED:
        return "calibrated";
    case KVT_REFERENCE_CLASSES:
        break;
    }
    return "unknown";
}

/* ---- Reading -------------------------------------------------------------------------- */

static kvt_status read_class(const cJSON *entry, const char *where, enum kvt_reference_class *out,
                             struct kvt_error *err)
{
    const char *name = NULL;
    kvt_status status = kvt_json_get_text(entry, where, "class", true, &name, err);

    if (status != KVT_OK)
        return status;
    for (int i = 0; i < KVT_REFERENCE_CLASSES; i++) {
        if (strcmp(kvt_reference_class_name((enum kvt_reference_class)i), name) == 0) {
            *out = (enum kvt_reference_class)i;
            return KVT_OK;
        }
    }
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "class is \"%.40s\", not predicted, exact or calibrated", name);
}

/* One of the two tolerances; an exact value may do without. */
static kvt_status read_tolerance(const cJSON *entry, const char *where,
                                 struct kvt_reference_value *value, struct kvt_error *err)
{
    double relative = NAN, absolute = NAN;
    kvt_status status =
        kvt_json_get_f64(entry, where, "tolerance_rel", false, 0, 10, &relative, err);

    if (status == KVT_OK)
        status = kvt_json_get_f64(entry, where, "tolerance_abs", false, 0, 1e300, &absolute, err);
    if (status != KVT_OK)
        return status;
    if (isnan(relative) && isnan(absolute) && value->class_of == KVT_REFERENCE_EXACT)
        absolute = 0;
    if (isnan(relative) == isnan(absolute))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%s of tolerance_rel and tolerance_abs; one of them is needed",
                        isnan(relative) ? "there is none" : "there are both");
    value->tolerance = isnan(absolute) ? relative * fabs(value->value) : absolute;
    return KVT_OK;
}

static kvt_status read_value(const cJSON *entry, const char *values_where,
                             struct kvt_reference_value *out, struct kvt_error *err)
{
    static const char *const keys[] = {"value", "class", "tolerance_rel", "tolerance_abs"};
    char where[WHERE_BYTES];
    kvt_status status = kvt_metric_find(entry->string, values_where, &out->metric, err);

    if (status != KVT_OK)
        return status;
    snprintf(where, sizeof where, "%.240s/%.64s", values_where, entry->string);
    if (!cJSON_IsObject(entry))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "this is not an object with value, class and a tolerance");
    status = kvt_json_check_keys(entry, where, keys, sizeof keys / sizeof keys[0], err);
    if (status == KVT_OK)
        status = kvt_json_get_f64(entry, where, "value", true, -1e300, 1e300, &out->value, err);
    if (status == KVT_OK)
        status = read_class(entry, where, &out->class_of, err);
    return status == KVT_OK ? read_tolerance(entry, where, out, err) : status;
}

/* A documented path with the plug-in's name left out: "workload(closed).concurrency" is
 * "workload.concurrency" in a tree. */
static bool is_path_of(const char *documented, const char *path)
{
    while (*documented != '\0' && *path == *documented) {
        path++;
        documented++;
        if (*documented == '(')
            documented += strcspn(documented, ")") + 1;
    }
    return *documented == '\0' && *path == '\0';
}

static kvt_status check_condition(const cJSON *item, const char *where,
                                  const struct kvt_key_doc *keys, size_t key_count,
                                  struct kvt_error *err)
{
    bool is_known = false;

    for (size_t i = 0; i < key_count && !is_known; i++)
        is_known = is_path_of(keys[i].path, item->string);
    if (!is_known)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "\"%.100s\" is no key of a scenario; kvtide list keys has them all",
                        item->string);
    if (!cJSON_IsNumber(item) && !cJSON_IsString(item) && !cJSON_IsBool(item))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%.100s is neither a number, a text nor true or false", item->string);
    return KVT_OK;
}

struct reader {
    struct kvt_arena *arena;
    const struct kvt_key_doc *keys; /* [key_count] */
    size_t key_count;
};

static kvt_status read_values(const struct reader *reader, const cJSON *values, const char *where,
                              struct kvt_reference_row *out, struct kvt_error *err)
{
    size_t count = (size_t)cJSON_GetArraySize(values);
    struct kvt_reference_value *list =
        kvt_arena_array(reader->arena, count, sizeof *list, _Alignof(struct kvt_reference_value));
    const cJSON *entry = NULL;

    if (count == 0)
        return kvt_fail(err, KVT_ERR_INVALID, where, "there is no value in it");
    if (list == NULL)
        return kvt_fail_nomem(err, "a reference");
    cJSON_ArrayForEach(entry, values)
    {
        kvt_status status = read_value(entry, where, &list[out->value_count++], err);
        if (status != KVT_OK)
            return status;
    }
    out->values = list;
    return KVT_OK;
}

static kvt_status read_row(const struct reader *reader, const cJSON *row, const char *where,
                           struct kvt_reference_row *out, struct kvt_error *err)
{
    static const char *const keys[] = {"where", "values"};
    char place[WHERE_BYTES];
    const cJSON *values = NULL, *item = NULL;
    kvt_status status = KVT_OK;

    if (!cJSON_IsObject(row))
        return kvt_fail(err, KVT_ERR_INVALID, where, "this is not an object of where and values");
    status = kvt_json_check_keys(row, where, keys, sizeof keys / sizeof keys[0], err);
    if (status == KVT_OK)
        status = kvt_json_get_object(row, where, "where", true, &out->where, err);
    if (status == KVT_OK)
        status = kvt_json_get_object(row, where, "values", true, &values, err);
    if (status != KVT_OK)
        return status;
    snprintf(place, sizeof place, "%.300s/where", where);
    cJSON_ArrayForEach(item, out->where)
    {
        status = check_condition(item, place, reader->keys, reader->key_count, err);
        if (status != KVT_OK)
            return status;
    }
    snprintf(place, sizeof place, "%.300s/values", where);
    return read_values(reader, values, place, out, err);
}

static kvt_status read_rows(const struct reader *reader, const cJSON *rows, const char *path,
                            struct kvt_reference *out, struct kvt_error *err)
{
    size_t count = (size_t)cJSON_GetArraySize(rows);
    struct kvt_reference_row *list =
        kvt_arena_array(reader->arena, count, sizeof *list, _Alignof(struct kvt_reference_row));
    const cJSON *row = NULL;
    char where[WHERE_BYTES];

    if (count > 0 && list == NULL)
        return kvt_fail_nomem(err, "a reference");
    cJSON_ArrayForEach(row, rows)
    {
        snprintf(where, sizeof where, "%.255s#/rows/%zu", path, out->row_count);
        kvt_status status = read_row(reader, row, where, &list[out->row_count++], err);
        if (status != KVT_OK)
            return status;
    }
    out->rows = list;
    return KVT_OK;
}

kvt_status kvt_reference_from_json(const cJSON *tree, const char *path, struct kvt_arena *arena,
                                   const struct kvt_reference **out, struct kvt_error *err)
{
    static const char *const keys[] = {"schema", "name", "source", "rows"};
    char where[WHERE_BYTES];
    const char *schema = NULL;
    const cJSON *rows = NULL;
    struct reader reader = {.arena = arena};
    struct kvt_reference *reference =
        kvt_arena_alloc(arena, sizeof *reference, _Alignof(struct kvt_reference));
    kvt_status status = KVT_OK;

    if (reference == NULL)
        return kvt_fail_nomem(err, "a reference");
    snprintf(where, sizeof where, "%.255s#", path);
    if (!cJSON_IsObject(tree))
        status = kvt_fail(err, KVT_ERR_INVALID, where, "this is not a reference, an object");
    if (status == KVT_OK)
        status = kvt_json_get_text(tree, where, "schema", true, &schema, err);
    if (status == KVT_OK && strcmp(schema, KVT_REFERENCE_SCHEMA) != 0)
        status = kvt_fail(err, KVT_ERR_INVALID, where, "schema is \"%.60s\", not \"%s\"", schema,
                          KVT_REFERENCE_SCHEMA);
    if (status == KVT_OK)
        status = kvt_json_check_keys(tree, where, keys, sizeof keys / sizeof keys[0], err);
    if (status == KVT_OK)
        status = kvt_json_get_text(tree, where, "name", true, &reference->name, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(tree, where, "source", true, &reference->source, err);
    if (status == KVT_OK)
        status = kvt_json_get_array(tree, where, "rows", true, &rows, err);
    if (status == KVT_OK)
        status = kvt_scenario_keys(arena, &reader.keys, &reader.key_count, err);
    if (status == KVT_OK)
        status = read_rows(&reader, rows, path, reference, err);
    if (status == KVT_OK)
        *out = reference;
    return status;
}

/* ---- Matching and judging ----------------------------------------------------------------- */

static const cJSON *at_path(const cJSON *tree, const char *path)
{
    const cJSON *node = tree;

    while (node != NULL && *path != '\0') {
        char part[128];
        size_t length = strcspn(path, ".");
        if (length >= sizeof part)
            return NULL;
        memcpy(part, path, length);
        part[length] = '\0';
        node = kvt_json_find(node, part);
        path += length + (path[length] == '.');
    }
    return node;
}

bool kvt_reference_matches(const struct kvt_reference_row *row, const cJSON *scenario)
{
    const cJSON *wanted = NULL;

    cJSON_ArrayForEach(wanted, row->where)
    {
        if (!cJSON_Compare(wanted, at_path(scenario, wanted->string), true))
            return false;
    }
    return true;
}

void kvt_reference_judge(const struct kvt_reference_value *value, double ours,
                         struct kvt_reference_verdict *out)
{
    /* Decimal bounds such as 3 % of 50.3 are not exact in binary. */
    double slack = 1e-12 * fabs(value->value);

    out->ours = ours;
    out->error_relative = value->value != 0 ? ours / value->value - 1 : (double)NAN;
    out->is_within = fabs(ours - value->value) <= value->tolerance + slack;
}
