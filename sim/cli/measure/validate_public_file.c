/* validate_public_file.c -- a published measurement from its file: schema "kvtide/public/1". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validate_public.h"

enum {
    FILE_BYTES_MAX = 1 << 20,
    WHERE_BYTES = 160,
    PLACE_BYTES = 240
};

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static const double VALUE_MAX = 1e18;

static const char *const kind_names[PUBLIC_KINDS] = {"number", "order", "ratio"};

static kvt_status copy_texts(const cJSON *object, const char *where, const char *key,
                             struct kvt_arena *arena, const char **out, size_t most, size_t *count,
                             struct kvt_error *err)
{
    const cJSON *array = NULL, *item = NULL;
    kvt_status status = kvt_json_get_array(object, where, key, true, &array, err);

    if (status != KVT_OK)
        return status;
    *count = 0;
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsString(item) || *count == most)
            return kvt_fail(err, KVT_ERR_INVALID, where, "%s/%zu: at most %zu texts are expected",
                            key, *count, most);
        out[*count] = kvt_arena_strdup(arena, item->valuestring);
        if (!out[(*count)++])
            return kvt_fail_nomem(err, "a published measurement");
    }
    return KVT_OK;
}

static kvt_status read_values(const cJSON *object, const char *where, struct kvt_arena *arena,
                              struct public_point *point, struct kvt_error *err)
{
    const cJSON *measured = NULL, *item = NULL;
    kvt_status status = kvt_json_get_object(object, where, "measured", true, &measured, err);

    cJSON_ArrayForEach(item, measured)
    {
        if (point->value_count == PUBLIC_VALUES_MAX)
            return kvt_fail(err, KVT_ERR_INVALID, where, "more than %d measured values",
                            PUBLIC_VALUES_MAX);
        struct public_value *value = &point->values[point->value_count++];
        value->ours = NAN;
        value->metric = kvt_arena_strdup(arena, item->string);
        if (!value->metric)
            return kvt_fail_nomem(err, "a published measurement");
        status = kvt_json_get_f64(measured, where, item->string, true, 0, VALUE_MAX,
                                  &value->measured, err);
        if (status != KVT_OK)
            return status;
    }
    return status;
}

/* "calibrated": which of the measured values set something of the setting; may be left out. */
static kvt_status read_calibrated(const cJSON *object, const char *where,
                                  struct public_point *point, struct kvt_error *err)
{
    const cJSON *array = NULL, *item = NULL;
    kvt_status status = kvt_json_get_array(object, where, "calibrated", false, &array, err);

    cJSON_ArrayForEach(item, array)
    {
        const char *name = cJSON_IsString(item) ? item->valuestring : "";
        struct public_value *found = NULL;
        for (size_t v = 0; v < point->value_count; v++) {
            if (strcmp(point->values[v].metric, name) == 0)
                found = &point->values[v];
        }
        if (!found)
            return kvt_fail(err, KVT_ERR_NOT_FOUND, where,
                            "calibrated \"%.60s\": no such metric in measured", name);
        found->is_calibrated = true;
    }
    return status;
}

static kvt_status read_point(const cJSON *object, const char *where, struct kvt_arena *arena,
                             struct public_point *point, struct kvt_error *err)
{
    static const char *const keys[] = {"name", "sets", "measured", "calibrated"};
    kvt_status status = kvt_json_check_keys(object, where, keys, LENGTH(keys), err);

    if (status == KVT_OK)
        status = kvt_json_copy_text(object, where, "name", arena, &point->name, err);
    if (status == KVT_OK)
        status = copy_texts(object, where, "sets", arena, point->sets, PUBLIC_SETS_MAX,
                            &point->set_count, err);
    if (status == KVT_OK)
        status = read_values(object, where, arena, point, err);
    return status == KVT_OK ? read_calibrated(object, where, point, err) : status;
}

static kvt_status find_point(const struct public_setting *setting, const char *where,
                             const char *name, struct public_claim *claim, struct kvt_error *err)
{
    for (size_t p = 0; p < setting->point_count; p++) {
        if (strcmp(setting->points[p].name, name) != 0)
            continue;
        if (claim->point_count == PUBLIC_POINTS_MAX)
            break;
        claim->points[claim->point_count++] = p;
        return KVT_OK;
    }
    return kvt_fail(err, KVT_ERR_NOT_FOUND, where, "\"%.60s\": no such point in this file", name);
}

/* Points of an order, or the two of a ratio. */
static kvt_status read_claim_points(const cJSON *object, const char *where,
                                    const struct public_setting *setting,
                                    struct public_claim *claim, struct kvt_error *err)
{
    const cJSON *points = NULL, *item = NULL;
    const char *of = NULL, *over = NULL;
    kvt_status status = KVT_OK;

    if (claim->kind == PUBLIC_RATIO) {
        status = kvt_json_get_text(object, where, "of", true, &of, err);
        if (status == KVT_OK)
            status = kvt_json_get_text(object, where, "over", true, &over, err);
        if (status == KVT_OK)
            status = find_point(setting, where, of, claim, err);
        return status == KVT_OK ? find_point(setting, where, over, claim, err) : status;
    }
    status = kvt_json_get_array(object, where, "points", true, &points, err);
    cJSON_ArrayForEach(item, points)
    {
        if (status == KVT_OK)
            status = find_point(setting, where, cJSON_IsString(item) ? item->valuestring : "",
                                claim, err);
    }
    if (status == KVT_OK && claim->point_count < 2)
        status = kvt_fail(err, KVT_ERR_INVALID, where,
                          "an order of %zu points; at least 2 are "
                          "expected",
                          claim->point_count);
    return status;
}

static kvt_status read_bounds(const cJSON *object, const char *where, struct public_claim *claim,
                              struct kvt_error *err)
{
    kvt_status status =
        kvt_json_get_f64(object, where, "least", false, 0, VALUE_MAX, &claim->least, err);

    if (status == KVT_OK)
        status = kvt_json_get_f64(object, where, "most", false, 0, VALUE_MAX, &claim->most, err);
    if (status == KVT_OK && claim->least <= 0 && !isfinite(claim->most))
        status = kvt_fail(err, KVT_ERR_INVALID, where,
                          "a ratio without a bound; \"least\", \"most\" or both are expected");
    return status;
}

static kvt_status read_claim(const cJSON *object, const char *where, struct kvt_arena *arena,
                             const struct public_setting *setting, struct public_claim *claim,
                             struct kvt_error *err)
{
    static const char *const keys[PUBLIC_KINDS][7] = {
        {"kind", "metric", "tolerance"},
        {"kind", "metric", "says", "points"},
        {"kind", "metric", "says", "of", "over", "least", "most"}};
    static const size_t key_counts[PUBLIC_KINDS] = {3, 4, 7};
    const char *kind = NULL;
    kvt_status status = kvt_json_get_text(object, where, "kind", true, &kind, err);

    if (status != KVT_OK)
        return status;
    *claim =
        (struct public_claim){.kind = PUBLIC_KINDS, .most = INFINITY, .measured = NAN, .ours = NAN};
    for (int k = 0; k < PUBLIC_KINDS; k++)
        claim->kind = strcmp(kind, kind_names[k]) == 0 ? (enum public_kind)k : claim->kind;
    if (claim->kind == PUBLIC_KINDS)
        return kvt_fail(err, KVT_ERR_NOT_FOUND, where,
                        "kind \"%.40s\": there are: number order ratio", kind);
    status = kvt_json_check_keys(object, where, keys[claim->kind], key_counts[claim->kind], err);
    if (status == KVT_OK)
        status = kvt_json_copy_text(object, where, "metric", arena, &claim->metric, err);
    if (status == KVT_OK && claim->kind == PUBLIC_NUMBER)
        return kvt_json_get_f64(object, where, "tolerance", true, 0, 10, &claim->tolerance, err);
    if (status == KVT_OK)
        status = kvt_json_copy_text(object, where, "says", arena, &claim->says, err);
    if (status == KVT_OK)
        status = read_claim_points(object, where, setting, claim, err);
    return status == KVT_OK && claim->kind == PUBLIC_RATIO ? read_bounds(object, where, claim, err)
                                                           : status;
}

/* "scenario" is a shipped name, or a scenario. */
static kvt_status read_scenario(const cJSON *tree, const char *where, struct kvt_arena *arena,
                                struct public_setting *setting, struct kvt_error *err)
{
    const cJSON *member = kvt_json_find(tree, "scenario");

    if (setting->point_count == 0 && !member)
        return KVT_OK;
    if (cJSON_IsString(member))
        return kvt_json_copy_text(tree, where, "scenario", arena, &setting->scenario, err);
    if (!cJSON_IsObject(member))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "scenario is missing: a shipped name, or an object, is expected");
    char *text = kvt_json_print(member);
    setting->scenario_text = text ? kvt_arena_strdup(arena, text) : NULL;
    free(text);
    return setting->scenario_text ? KVT_OK : kvt_fail_nomem(err, "a published measurement");
}

static kvt_status read_lists(const cJSON *tree, const char *where, struct kvt_arena *arena,
                             struct public_setting *setting, struct kvt_error *err)
{
    const cJSON *points = NULL, *claims = NULL, *item = NULL;
    char place[PLACE_BYTES];
    kvt_status status = kvt_json_get_array(tree, where, "points", true, &points, err);

    if (status == KVT_OK)
        status = kvt_json_get_array(tree, where, "claims", true, &claims, err);
    if (status == KVT_OK && (cJSON_GetArraySize(points) > PUBLIC_POINTS_MAX ||
                             cJSON_GetArraySize(claims) > PUBLIC_CLAIMS_MAX))
        status = kvt_fail(err, KVT_ERR_INVALID, where, "more than %d points, or %d claims",
                          PUBLIC_POINTS_MAX, PUBLIC_CLAIMS_MAX);
    cJSON_ArrayForEach(item, points)
    {
        (void)snprintf(place, sizeof place, "%s/points/%zu", where, setting->point_count);
        if (status == KVT_OK)
            status = read_point(item, place, arena, &setting->points[setting->point_count++], err);
    }
    cJSON_ArrayForEach(item, claims)
    {
        (void)snprintf(place, sizeof place, "%s/claims/%zu", where, setting->claim_count);
        if (status == KVT_OK)
            status = read_claim(item, place, arena, setting,
                                &setting->claims[setting->claim_count++], err);
    }
    return status;
}

static kvt_status read_setting(const cJSON *tree, const char *where, struct kvt_arena *arena,
                               struct public_setting *setting, struct kvt_error *err)
{
    static const char *const keys[] = {"schema",  "name",     "summary", "source",
                                       "unknown", "scenario", "points",  "claims"};
    kvt_status status = kvt_json_check_head(tree, where, "kvtide/public/1", err);

    if (status == KVT_OK)
        status = kvt_json_check_keys(tree, where, keys, LENGTH(keys), err);
    if (status == KVT_OK)
        status = kvt_json_copy_text(tree, where, "name", arena, &setting->name, err);
    if (status == KVT_OK)
        status = kvt_json_copy_text(tree, where, "summary", arena, &setting->summary, err);
    if (status == KVT_OK)
        status = kvt_json_copy_text(tree, where, "source", arena, &setting->source, err);
    if (status == KVT_OK)
        status = copy_texts(tree, where, "unknown", arena, setting->unknown, PUBLIC_POINTS_MAX,
                            &setting->unknown_count, err);
    if (status == KVT_OK)
        status = read_lists(tree, where, arena, setting, err);
    return status == KVT_OK ? read_scenario(tree, where, arena, setting, err) : status;
}

kvt_status public_setting_load(const char *path, struct kvt_arena *arena,
                               struct public_setting **out, struct kvt_error *err)
{
    char where[WHERE_BYTES];
    cJSON *tree = NULL;
    struct public_setting *setting =
        kvt_arena_alloc(arena, sizeof *setting, _Alignof(struct public_setting));

    if (!setting)
        return kvt_fail_nomem(err, "a published measurement");
    setting->path = kvt_arena_strdup(arena, path);
    kvt_status status = setting->path ? kvt_json_load(path, FILE_BYTES_MAX, &tree, err)
                                      : kvt_fail_nomem(err, "a published measurement");
    if (status != KVT_OK)
        return status;
    (void)snprintf(where, sizeof where, "%s#", path);
    status = read_setting(tree, where, arena, setting, err);
    cJSON_Delete(tree);
    if (status == KVT_OK)
        *out = setting;
    return status;
}
