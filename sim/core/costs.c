/* costs.c -- measured step times: their file, and what lies between its points. */
#include "kvt/costs.h"

#include <stdio.h>

#include "kvt/json.h"

enum {
    FILE_BYTES_MAX = 1 << 20,
    WHERE_BYTES = 200, /* leaves room for a place in the file */
    POINT_SIZE_MAX = 1 << 24
};

static const double MS_MAX = 1e7;

/* One list of the file, and the sizes that its points may have. */
struct list {
    const char *key;
    const char *size_key;
    uint32_t minimum, maximum;
    bool may_be_absent;
};

static kvt_status read_point(const cJSON *item, const char *place, const struct list *list,
                             struct kvt_cost_curve *curve, struct kvt_error *err)
{
    const char *const keys[] = {list->size_key, "ms"};
    uint64_t size = 0;
    double ms = 0;
    kvt_status status = kvt_json_check_keys(item, place, keys, 2, err);
    if (status == KVT_OK)
        status = kvt_json_get_u64(item, place, list->size_key, true, list->minimum, list->maximum,
                                  &size, err);
    if (status == KVT_OK)
        status = kvt_json_get_f64(item, place, "ms", true, 0, MS_MAX, &ms, err);
    if (status != KVT_OK)
        return status;
    if (ms <= 0)
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "ms is %g: a step that takes no time; expected more than 0", ms);

    uint32_t count = curve->count;
    if (count > 0 && size <= curve->sizes[count - 1])
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "%s is %llu after %u: each point is larger than the one before it",
                        list->size_key, (unsigned long long)size, curve->sizes[count - 1]);
    if (count > 0 && ms < curve->ms[count - 1])
        ms = curve->ms[count - 1];
    curve->sizes[count] = (uint32_t)size;
    curve->ms[count] = ms;
    curve->count = count + 1;
    return KVT_OK;
}

static kvt_status read_curve(const cJSON *tree, const char *where, const struct list *list,
                             struct kvt_cost_curve *curve, struct kvt_error *err)
{
    const cJSON *points = NULL;
    kvt_status status =
        kvt_json_get_array(tree, where, list->key, !list->may_be_absent, &points, err);
    if (status != KVT_OK || points == NULL)
        return status;

    char place[sizeof err->where];
    (void)snprintf(place, sizeof place, "%s/%s", where, list->key);
    int count = cJSON_GetArraySize(points);
    if (count < 1 || count > KVT_COSTS_POINTS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, place, "%d points; expected 1 to %d", count,
                        KVT_COSTS_POINTS_MAX);
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, points)
    {
        (void)snprintf(place, sizeof place, "%s/%s/%u", where, list->key, curve->count);
        status = read_point(item, place, list, curve, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

static double last_ms(const struct kvt_cost_curve *curve)
{
    return curve->ms[curve->count - 1];
}

static kvt_status read_costs(const cJSON *tree, const char *where, struct kvt_costs *costs,
                             struct kvt_error *err)
{
    static const char *const keys[] = {KVT_JSON_HEAD_KEYS, "draft", "verify", "graph_limit_tokens",
                                       "cliff"};
    uint64_t limit = 0;
    kvt_status status = kvt_json_check_head(tree, where, "kvtide/costs/1", err);
    if (status == KVT_OK)
        status = kvt_json_check_keys(tree, where, keys, sizeof keys / sizeof keys[0], err);
    if (status == KVT_OK)
        status = kvt_json_get_u64(tree, where, "graph_limit_tokens", true, 1, POINT_SIZE_MAX - 1,
                                  &limit, err);
    if (status != KVT_OK)
        return status;
    costs->graph_limit_tokens = (uint32_t)limit;

    const struct list draft = {"draft", "requests", 1, POINT_SIZE_MAX, false};
    const struct list verify = {"verify", "tokens", 1, costs->graph_limit_tokens, false};
    const struct list cliff = {"cliff", "tokens", costs->graph_limit_tokens + 1, POINT_SIZE_MAX,
                               true};
    status = read_curve(tree, where, &draft, &costs->draft, err);
    if (status == KVT_OK)
        status = read_curve(tree, where, &verify, &costs->verify, err);
    if (status == KVT_OK)
        status = read_curve(tree, where, &cliff, &costs->cliff, err);
    for (uint32_t i = 0; status == KVT_OK && i < costs->cliff.count; i++) {
        if (costs->cliff.ms[i] < last_ms(&costs->verify))
            costs->cliff.ms[i] = last_ms(&costs->verify);
    }
    return status == KVT_OK ? kvt_json_check_sources(tree, where, err) : status;
}

kvt_status kvt_costs_load(const char *path, struct kvt_costs *out, struct kvt_error *err)
{
    cJSON *tree = NULL;
    kvt_status status = kvt_json_load(path, FILE_BYTES_MAX, &tree, err);
    if (status != KVT_OK)
        return status;
    char where[WHERE_BYTES];
    (void)snprintf(where, sizeof where, "%s#", path);
    struct kvt_costs costs = {.graph_limit_tokens = 0};
    status = read_costs(tree, where, &costs, err);
    cJSON_Delete(tree);
    if (status == KVT_OK)
        *out = costs;
    return status;
}

/* The first point of at least `size`, by bisection; the curve has one. */
static double step_ms(const struct kvt_cost_curve *curve, uint32_t size)
{
    uint32_t low = 0;
    uint32_t high = curve->count - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (curve->sizes[middle] < size)
            low = middle + 1;
        else
            high = middle;
    }
    return curve->ms[low];
}

static double curve_ms(const struct kvt_cost_curve *curve, uint32_t size)
{
    uint32_t last = curve->sizes[curve->count - 1];
    if (size <= last)
        return step_ms(curve, size);
    return last_ms(curve) * ((double)size / last);
}

double kvt_costs_draft_ms(const struct kvt_costs *costs, uint32_t requests)
{
    return requests == 0 ? 0 : curve_ms(&costs->draft, requests);
}

/* Up to the largest graph, the last point stands for what is captured above it. */
double kvt_costs_verify_ms(const struct kvt_costs *costs, uint32_t tokens)
{
    const struct kvt_cost_curve *verify = &costs->verify;
    if (tokens == 0)
        return 0;
    if (tokens > costs->graph_limit_tokens)
        return curve_ms(costs->cliff.count > 0 ? &costs->cliff : verify, tokens);
    uint32_t last = verify->sizes[verify->count - 1];
    return step_ms(verify, tokens < last ? tokens : last);
}

bool kvt_costs_in_range(const struct kvt_costs *costs, uint32_t requests, uint32_t tokens)
{
    uint32_t requests_max = costs->draft.sizes[costs->draft.count - 1];
    uint32_t tokens_max = costs->graph_limit_tokens;
    if (costs->cliff.count > 0)
        tokens_max = costs->cliff.sizes[costs->cliff.count - 1];
    return requests <= requests_max && tokens <= tokens_max;
}
