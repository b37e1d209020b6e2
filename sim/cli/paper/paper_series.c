/* paper_series.c -- what is drawn in a chart of paper.html, out of what the points gave. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "paper_page.h"

const struct paper_target *page_find_target(const struct page *page, const char *id)
{
    const struct paper *paper = page->answer->paper;

    for (size_t i = 0; i < paper->target_count; i++) {
        if (strcmp(paper->targets[i].id, id) == 0)
            return &paper->targets[i];
    }
    return NULL;
}

/* Room for so many points in the arena. */
static kvt_status make_room(struct page *page, size_t count, double **x, double **y,
                            struct kvt_error *err)
{
    *x = kvt_arena_array(page->arena, count + 1, sizeof **x, _Alignof(double));
    *y = kvt_arena_array(page->arena, count + 1, sizeof **y, _Alignof(double));
    return *x != NULL && *y != NULL ? KVT_OK : kvt_fail_nomem(err, "a chart");
}

const char *page_text(const cJSON *object, const char *key)
{
    const cJSON *item = kvt_json_find(object, key);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

double page_scale(const cJSON *spec, const char *key)
{
    double divide = paper_number(spec, key);
    return isnan(divide) ? 1 : 1 / divide;
}

/* A point for each of a family's that there is. */
static kvt_status fill_family(struct page *page, const cJSON *spec, const char *family,
                              struct page_series *out, struct kvt_error *err)
{
    const struct paper *paper = page->answer->paper;
    const char *x_path = page_text(spec, "x"), *y_path = page_text(spec, "y");
    double *x = NULL, *y = NULL;
    kvt_status status = make_room(page, paper->point_count, &x, &y, err);

    for (size_t i = 0; status == KVT_OK && y_path != NULL && i < paper->point_count; i++) {
        const struct paper_point *point = &paper->points[i];
        if (strcmp(point->family, family) != 0 || point->tree == NULL)
            continue;
        x[out->count] = page_scale(spec, "x_divide") *
                        (x_path != NULL ? paper_number(point->tree, x_path) : point->x);
        y[out->count++] = page_scale(spec, "y_divide") * paper_number(point->tree, y_path);
    }
    out->x = x;
    out->y = y;
    return status;
}

/* Two arrays of one tree. */
static kvt_status fill_course(struct page *page, const cJSON *spec, const cJSON *tree,
                              struct page_series *out, struct kvt_error *err)
{
    const char *x_path = page_text(spec, "x"), *y_path = page_text(spec, "y");
    const cJSON *xs = x_path != NULL ? paper_at(tree, x_path) : NULL;
    const cJSON *ys = y_path != NULL ? paper_at(tree, y_path) : NULL;
    size_t count = (size_t)cJSON_GetArraySize(xs);
    double *x = NULL, *y = NULL;
    kvt_status status = make_room(page, count, &x, &y, err);
    const cJSON *item = xs != NULL ? xs->child : NULL, *other = ys != NULL ? ys->child : NULL;

    for (; status == KVT_OK && item != NULL && other != NULL;
         item = item->next, other = other->next) {
        x[out->count] = cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
        y[out->count++] = page_scale(spec, "y_divide") *
                          (cJSON_IsNumber(other) ? other->valuedouble : (double)NAN);
    }
    out->x = x;
    out->y = y;
    return status;
}

/* The number behind a text of a figure's name: "figure 8b, batch 8, B 512" behind ", B ". */
static double number_behind(const char *name, const char *text)
{
    const char *found = strstr(name, text);
    return found != NULL ? strtod(found + strlen(text), NULL) : (double)NAN;
}

static bool is_of_series(const char *name, const cJSON *spec)
{
    const char *begins = page_text(spec, "begins"), *ends = page_text(spec, "ends");
    size_t length = strlen(name), tail = ends != NULL ? strlen(ends) : 0;

    return begins != NULL && strncmp(name, begins, strlen(begins)) == 0 && length >= tail &&
           (ends == NULL || strcmp(name + length - tail, ends) == 0);
}

/* Measured figures whose names begin, and end, so. */
static kvt_status fill_measured(struct page *page, const cJSON *spec, const cJSON *tree,
                                struct page_series *out, struct kvt_error *err)
{
    const char *x_path = page_text(spec, "x"), *behind = page_text(spec, "x_behind");
    const char *y_path = page_text(spec, "y");
    const cJSON *command = NULL, *result = NULL;
    size_t room = 0;
    double *x = NULL, *y = NULL;

    cJSON_ArrayForEach(command, kvt_json_find(tree, "commands"))
    {
        room += (size_t)cJSON_GetArraySize(kvt_json_find(command, "results"));
    }
    kvt_status status = make_room(page, room, &x, &y, err);
    cJSON_ArrayForEach(command, kvt_json_find(tree, "commands"))
    {
        cJSON_ArrayForEach(result, kvt_json_find(command, "results"))
        {
            const char *name = page_text(result, "name");
            if (status != KVT_OK || name == NULL || y_path == NULL || !is_of_series(name, spec))
                continue;
            double at = behind != NULL   ? number_behind(name, behind)
                        : x_path != NULL ? paper_number(result, x_path)
                                         : (double)NAN;
            if (isnan(at) || isnan(paper_number(result, y_path)))
                continue;
            x[out->count] = at * page_scale(spec, "x_divide");
            y[out->count++] = paper_number(result, y_path) * page_scale(spec, "y_divide");
        }
    }
    out->x = x;
    out->y = y;
    return status;
}

/* A least-squares line as it was measured: from no payload to `to`, in the chart's unit. */
static kvt_status fill_line(struct page *page, const cJSON *spec, const char *name,
                            const cJSON *tree, struct page_series *out, struct kvt_error *err)
{
    const cJSON *line = paper_measured(tree, name);
    double to = paper_number(spec, "to"), bytes = to / page_scale(spec, "x_divide");
    double *x = NULL, *y = NULL;
    kvt_status status = make_room(page, 2, &x, &y, err);

    if (status != KVT_OK || line == NULL)
        return status;
    x[1] = to;
    y[0] = paper_number(line, "at_zero_us");
    y[1] = y[0] + bytes / (1e3 * paper_number(line, "gb_per_s"));
    *out = (struct page_series){.name = out->name, .x = x, .y = y, .count = 2};
    return KVT_OK;
}

/* The paper's own: [x, target] or [target, target]. */
static kvt_status fill_paper(struct page *page, const cJSON *spec, struct page_series *out,
                             struct kvt_error *err)
{
    const cJSON *pairs = kvt_json_find(spec, "paper"), *pair = NULL;
    double *x = NULL, *y = NULL;
    kvt_status status = make_room(page, (size_t)cJSON_GetArraySize(pairs), &x, &y, err);

    out->is_paper = true;
    cJSON_ArrayForEach(pair, pairs)
    {
        double at[2] = {(double)NAN, (double)NAN};
        for (int i = 0; status == KVT_OK && i < 2; i++) {
            const cJSON *item = cJSON_GetArrayItem(pair, i);
            const struct paper_target *target =
                cJSON_IsString(item) ? page_find_target(page, item->valuestring) : NULL;
            at[i] = cJSON_IsNumber(item)                         ? item->valuedouble
                    : target != NULL && target->number_count > 0 ? target->numbers[0]
                                                                 : (double)NAN;
        }
        if (status == KVT_OK) {
            x[out->count] = at[0];
            y[out->count++] = at[1];
        }
    }
    out->x = x;
    out->y = y;
    return status;
}

kvt_status page_fill_series(struct page *page, const cJSON *spec, struct page_series *out,
                            struct kvt_error *err)
{
    const char *family = page_text(spec, "family"), *id = page_text(spec, "point");

    out->is_cloud = cJSON_IsTrue(kvt_json_find(spec, "cloud"));
    if (kvt_json_find(spec, "paper") != NULL)
        return fill_paper(page, spec, out, err);
    if (family != NULL)
        return fill_family(page, spec, family, out, err);
    const struct paper_point *point = id != NULL ? paper_find_point(page->answer->paper, id) : NULL;
    const char *line = page_text(spec, "line");
    if (point == NULL || point->tree == NULL)
        return KVT_OK;
    if (line != NULL)
        return fill_line(page, spec, line, point->tree, out, err);
    return point->kind == PAPER_MEASURED ? fill_measured(page, spec, point->tree, out, err)
                                         : fill_course(page, spec, point->tree, out, err);
}
