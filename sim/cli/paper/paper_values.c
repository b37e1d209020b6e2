/* paper_values.c -- a target's own number, out of what the points gave.
 *
 *     {"point": ID, "at": PATH}            the number at a path of a tree; "named": of the figure
 *                                          of that name, in a file of measurements
 *     {.., "divide": D}                    in the paper's unit
 *     {.., "over": {"point", "at"}}        a ratio
 *     {"judge": NAME, "points": [..]}      what takes more than a path; "families": whole sweeps */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "paper.h"

/* ---- Trees ------------------------------------------------------------------------------ */

const cJSON *paper_at(const cJSON *tree, const char *path)
{
    const cJSON *node = tree;

    while (node != NULL && *path != '\0') {
        char part[64];
        size_t length = strcspn(path, ".");
        if (length >= sizeof part)
            return NULL;
        memcpy(part, path, length);
        part[length] = '\0';
        node =
            cJSON_IsArray(node) ? cJSON_GetArrayItem(node, atoi(part)) : kvt_json_find(node, part);
        path += length + (path[length] == '.');
    }
    return node;
}

double paper_number(const cJSON *tree, const char *path)
{
    const cJSON *item = paper_at(tree, path);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

const cJSON *paper_measured(const cJSON *measured, const char *name)
{
    const cJSON *command = NULL, *result = NULL;

    cJSON_ArrayForEach(command, kvt_json_find(measured, "commands"))
    {
        cJSON_ArrayForEach(result, kvt_json_find(command, "results"))
        {
            const cJSON *text = kvt_json_find(result, "name");
            if (cJSON_IsString(text) && strcmp(text->valuestring, name) == 0)
                return result;
        }
    }
    return NULL;
}

/* ---- References ------------------------------------------------------------------------- */

static kvt_status find_point(const struct paper *paper, const char *id, const char *where,
                             struct paper_point **out, struct kvt_error *err)
{
    *out = paper_find_point(paper, id);
    return *out != NULL ? KVT_OK
                        : kvt_fail(err, KVT_ERR_INVALID, where,
                                   "there is no point \"%.80s\" in points.json", id);
}

/* NaN: what it is read from is not here. */
static kvt_status read_number(const struct paper *paper, const cJSON *reference, const char *where,
                              double *out, struct kvt_error *err)
{
    const char *id = NULL, *at = NULL, *named = NULL;
    struct paper_point *point = NULL;
    kvt_status status = kvt_json_get_text(reference, where, "point", true, &id, err);

    if (status == KVT_OK)
        status = kvt_json_get_text(reference, where, "at", true, &at, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(reference, where, "named", false, &named, err);
    if (status == KVT_OK)
        status = find_point(paper, id, where, &point, err);
    if (status != KVT_OK)
        return status;
    *out = (double)NAN;
    if (point->tree == NULL)
        return KVT_OK;
    const cJSON *tree = named != NULL ? paper_measured(point->tree, named) : point->tree;
    if (paper_at(tree, at) == NULL)
        return kvt_fail(err, KVT_ERR_INVALID, where, "point %s gives no %s%s%s", id, at,
                        named != NULL ? " of " : "", named != NULL ? named : "");
    *out = paper_number(tree, at);
    return KVT_OK;
}

static kvt_status gather_points(const struct paper *paper, const struct paper_target *target,
                                struct paper_judge_call *call, struct kvt_error *err)
{
    const cJSON *id = NULL, *family = NULL;

    cJSON_ArrayForEach(id, kvt_json_find(target->ours, "points"))
    {
        struct paper_point *point = NULL;
        if (!cJSON_IsString(id) || call->point_count == PAPER_LIST_MAX)
            return kvt_fail(err, KVT_ERR_INVALID, target->where,
                            "points are at most %d names of points", PAPER_LIST_MAX);
        kvt_status status = find_point(paper, id->valuestring, target->where, &point, err);
        if (status != KVT_OK)
            return status;
        call->points[call->point_count++] = point;
    }
    cJSON_ArrayForEach(family, kvt_json_find(target->ours, "families"))
    {
        if (!cJSON_IsString(family) || call->family_count == PAPER_LIST_MAX)
            return kvt_fail(err, KVT_ERR_INVALID, target->where,
                            "families are at most %d names of families", PAPER_LIST_MAX);
        call->families[call->family_count++] = family->valuestring;
    }
    return KVT_OK;
}

static bool is_there(const struct paper_judge_call *call)
{
    for (size_t i = 0; i < call->point_count; i++) {
        if (call->points[i]->tree == NULL)
            return false;
    }
    return true;
}

static kvt_status judged(const struct paper *paper, const struct paper_target *target,
                         const char *name, struct kvt_arena *arena, struct paper_value *out,
                         struct kvt_error *err)
{
    struct paper_judge_call call = {.paper = paper, .target = target, .arena = arena};
    kvt_status status = gather_points(paper, target, &call, err);

    if (status != KVT_OK)
        return status;
    if (!is_there(&call)) {
        out->found = PAPER_ABSENT;
        return KVT_OK;
    }
    return paper_judge(name, &call, out, err);
}

static kvt_status read_ratio(const struct paper *paper, const struct paper_target *target,
                             struct paper_value *out, struct kvt_error *err)
{
    static const char *const keys[] = {"point", "at"};
    const cJSON *over = NULL;
    double above = 0, below = 1;
    kvt_status status = read_number(paper, target->ours, target->where, &above, err);

    if (status == KVT_OK)
        status = kvt_json_get_object(target->ours, target->where, "over", false, &over, err);
    if (status == KVT_OK && over != NULL)
        status = kvt_json_check_keys(over, target->where, keys, sizeof keys / sizeof keys[0], err);
    if (status == KVT_OK && over != NULL)
        status = read_number(paper, over, target->where, &below, err);
    if (status != KVT_OK)
        return status;
    out->found = isnan(above) || isnan(below) ? PAPER_ABSENT : PAPER_NUMBERS;
    out->numbers[out->count++] = above / below;
    return KVT_OK;
}

kvt_status paper_value_of(const struct paper *paper, const struct paper_target *target,
                          struct kvt_arena *arena, struct paper_value *out, struct kvt_error *err)
{
    static const char *const keys[] = {"point", "at",    "named",  "divide",
                                       "over",  "judge", "points", "families"};
    const char *judge = NULL;
    double divide = 1;

    *out = (struct paper_value){0};
    kvt_status status =
        kvt_json_check_keys(target->ours, target->where, keys, sizeof keys / sizeof keys[0], err);
    if (status == KVT_OK)
        status = kvt_json_get_text(target->ours, target->where, "judge", false, &judge, err);
    if (status == KVT_OK)
        status = kvt_json_get_f64(target->ours, target->where, "divide", false, 1e-12, 1e18,
                                  &divide, err);
    if (status == KVT_OK)
        status = judge != NULL ? judged(paper, target, judge, arena, out, err)
                               : read_ratio(paper, target, out, err);
    for (size_t i = 0; status == KVT_OK && i < out->count; i++)
        out->numbers[i] /= divide;
    return status;
}

/* ---- Which points make a target --------------------------------------------------------- */

/* Indices of points. */
struct point_list {
    size_t *items; /* [count] */
    size_t count;
};

static void add_once(struct point_list *list, size_t index)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i] == index)
            return;
    }
    list->items[list->count++] = index;
}

static kvt_status add_named(const struct paper *paper, const cJSON *reference, const char *where,
                            struct point_list *list, struct kvt_error *err)
{
    struct paper_point *point = NULL;
    const cJSON *id = kvt_json_find(reference, "point");

    if (!cJSON_IsString(id))
        return KVT_OK;
    kvt_status status = find_point(paper, id->valuestring, where, &point, err);
    if (status == KVT_OK)
        add_once(list, (size_t)(point - paper->points));
    return status;
}

kvt_status paper_points_of(const struct paper *paper, const struct paper_target *target,
                           struct kvt_arena *arena, const size_t **out, size_t *count,
                           struct kvt_error *err)
{
    struct paper_judge_call call = {.paper = paper, .target = target, .arena = arena};
    struct point_list list = {.items = kvt_arena_array(arena, paper->point_count + 1,
                                                       sizeof *list.items, _Alignof(size_t))};

    if (list.items == NULL)
        return kvt_fail_nomem(err, target->id);
    kvt_status status = add_named(paper, target->ours, target->where, &list, err);
    if (status == KVT_OK)
        status = add_named(paper, kvt_json_find(target->ours, "over"), target->where, &list, err);
    if (status == KVT_OK)
        status = gather_points(paper, target, &call, err);
    for (size_t i = 0; i < call.point_count; i++)
        add_once(&list, (size_t)(call.points[i] - paper->points));
    for (size_t f = 0; f < call.family_count; f++) {
        for (size_t i = 0; i < paper->point_count; i++) {
            if (strcmp(paper->points[i].family, call.families[f]) == 0)
                add_once(&list, i);
        }
    }
    *out = list.items;
    *count = list.count;
    return status;
}
