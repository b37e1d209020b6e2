/* presets_tree.c -- compare.json of a comparison that was made under several presets.
 *
 * Head as ever; what else compare.json holds stands once for each preset in `presets`. */
#include <cjson/cJSON.h>
#include <stdlib.h>

#include "kvt/compare.h"

static bool add(cJSON *object, const char *key, cJSON *item)
{
    if (item != NULL && cJSON_AddItemToObject(object, key, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static bool append(cJSON *array, cJSON *item)
{
    if (item != NULL && cJSON_AddItemToArray(array, item))
        return true;
    cJSON_Delete(item);
    return false;
}

/* Names from the one most ahead on, each with whether the next one can be told from it. */
static kvt_status add_order(cJSON *entry, const struct kvt_comparison *comparison, size_t metric,
                            struct kvt_error *err)
{
    cJSON *list = cJSON_AddArrayToObject(entry, "order");
    size_t *order = calloc(comparison->variant_count, sizeof *order);

    if (list == NULL || order == NULL) {
        free(order);
        return kvt_fail_nomem(err, "compare.json");
    }
    kvt_status status = kvt_comparison_order(comparison, metric, order, err);
    for (size_t i = 0; status == KVT_OK && i < comparison->variant_count; i++) {
        cJSON *place = cJSON_CreateObject();
        int ahead = 1;
        if (i + 1 < comparison->variant_count)
            status = kvt_comparison_ahead(comparison, order[i], order[i + 1], metric, &ahead, err);
        bool ok = append(list, place);
        if (ok && status == KVT_OK)
            ok = add(place, "variant", cJSON_CreateString(comparison->variants[order[i]].name)) &&
                 add(place, "tied_with_next", cJSON_CreateBool(ahead == 0));
        if (!ok)
            status = kvt_fail_nomem(err, "compare.json");
    }
    free(order);
    return status;
}

/* Moves what a comparison of its own would have into the preset's entry; the head stays. */
static kvt_status add_preset(cJSON *list, const char *name, const struct kvt_comparison *comparison,
                             cJSON *tree, size_t metric, struct kvt_error *err)
{
    static const char *const moved[] = {"badge", "variants", "fail_if"};
    cJSON *entry = cJSON_CreateObject();

    if (!append(list, entry) || !add(entry, "preset", cJSON_CreateString(name)))
        return kvt_fail_nomem(err, "compare.json");
    for (size_t i = 0; i < sizeof moved / sizeof moved[0]; i++) {
        if (!add(entry, moved[i], cJSON_DetachItemFromObjectCaseSensitive(tree, moved[i])))
            return kvt_fail_nomem(err, "compare.json");
    }
    return add_order(entry, comparison, metric, err);
}

static bool add_reversal(cJSON *list, const struct kvt_presets *presets,
                         const struct kvt_reversal *reversal)
{
    const struct kvt_variant *variants = presets->comparisons[0].variants;
    cJSON *entry = cJSON_CreateObject();

    return append(list, entry) && add(entry, "a", cJSON_CreateString(variants[reversal->a].name)) &&
           add(entry, "b", cJSON_CreateString(variants[reversal->b].name)) &&
           add(entry, "a_ahead_under", cJSON_CreateString(presets->names[reversal->a_ahead])) &&
           add(entry, "b_ahead_under", cJSON_CreateString(presets->names[reversal->b_ahead]));
}

static kvt_status add_check(cJSON *tree, const struct kvt_presets *presets, size_t metric,
                            struct kvt_error *err)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);
    struct kvt_order_check check;
    kvt_status status = kvt_presets_check_order(presets, metric, &check, err);

    if (status != KVT_OK)
        return status;
    cJSON *object = cJSON_AddObjectToObject(tree, "order");
    cJSON *list = NULL;
    bool ok = object != NULL && add(object, "metric", cJSON_CreateString(docs[metric].name)) &&
              add(object, "changes", cJSON_CreateBool(check.reversal_count > 0)) &&
              add(object, "ties", cJSON_CreateNumber((double)check.tie_count)) &&
              (list = cJSON_AddArrayToObject(object, "reversals")) != NULL;
    for (size_t i = 0; ok && i < check.reversal_count; i++)
        ok = add_reversal(list, presets, &check.reversals[i]);
    free(check.reversals);
    return ok ? KVT_OK : kvt_fail_nomem(err, "compare.json");
}

kvt_status kvt_presets_tree(const struct kvt_presets *presets,
                            const struct kvt_condition *conditions, size_t condition_count,
                            size_t metric, cJSON **out, struct kvt_error *err)
{
    cJSON *tree = NULL;
    cJSON *list = cJSON_CreateArray();
    kvt_status status = list != NULL ? KVT_OK : kvt_fail_nomem(err, "compare.json");

    for (size_t p = 0; status == KVT_OK && p < presets->count; p++) {
        cJSON *one = NULL;
        status = kvt_comparison_tree(&presets->comparisons[p], conditions, condition_count, NULL,
                                     &one, err);
        if (status == KVT_OK)
            status =
                add_preset(list, presets->names[p], &presets->comparisons[p], one, metric, err);
        if (tree == NULL)
            tree = one;
        else
            cJSON_Delete(one);
    }
    if (status == KVT_OK && !add(tree, "presets", list))
        status = kvt_fail_nomem(err, "compare.json");
    else if (status != KVT_OK)
        cJSON_Delete(list);
    if (status == KVT_OK)
        status = add_check(tree, presets, metric, err);
    if (status == KVT_OK)
        *out = tree;
    else
        cJSON_Delete(tree);
    return status;
}
