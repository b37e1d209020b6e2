/* compare_tree.c -- compare.json: variants, ratios, conditions and the reference as one tree. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "kvt/compare.h"
#include "kvt/json.h"
#include "kvt/version.h"

/* Adds a member and says whether there was memory for it. */
static bool add(cJSON *object, const char *key, cJSON *item)
{
    if (item != NULL && cJSON_AddItemToObject(object, key, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static cJSON *number(double value)
{
    return isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull();
}

static bool append(cJSON *array, cJSON *item)
{
    if (item != NULL && cJSON_AddItemToArray(array, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static bool add_interval(cJSON *object, const char *key, const struct kvt_estimate *estimate)
{
    cJSON *interval = cJSON_AddArrayToObject(object, key);

    return interval != NULL && append(interval, number(estimate->low)) &&
           append(interval, number(estimate->high));
}

/* ---- Variants --------------------------------------------------------------------------- */

static kvt_status add_metrics(cJSON *entry, const struct kvt_comparison *comparison, size_t variant,
                              struct kvt_error *err)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);
    cJSON *metrics = cJSON_AddObjectToObject(entry, "metrics");
    cJSON *intervals = cJSON_AddObjectToObject(entry, "metrics_ci95");
    bool ok = metrics != NULL && intervals != NULL;

    for (size_t m = 0; ok && m < count; m++) {
        struct kvt_estimate estimate;
        kvt_status status = kvt_comparison_metric(comparison, variant, m, &estimate, err);
        if (status != KVT_OK)
            return status;
        ok = add(metrics, docs[m].name, number(estimate.mean)) &&
             (isnan(estimate.low) || add_interval(intervals, docs[m].name, &estimate));
    }
    return ok ? KVT_OK : kvt_fail_nomem(err, "compare.json");
}

static kvt_status add_ratios(cJSON *entry, const struct kvt_comparison *comparison, size_t variant,
                             struct kvt_error *err)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);
    cJSON *ratios = cJSON_AddObjectToObject(entry, "ratios");
    cJSON *intervals = cJSON_AddObjectToObject(entry, "ratios_ci95");
    bool ok = ratios != NULL && intervals != NULL;

    for (size_t m = 0; ok && m < count; m++) {
        struct kvt_estimate estimate;
        kvt_status status = kvt_comparison_ratio(comparison, variant, m, &estimate, err);
        if (status != KVT_OK)
            return status;
        ok = add(ratios, docs[m].name, number(estimate.mean)) &&
             (isnan(estimate.low) || add_interval(intervals, docs[m].name, &estimate));
    }
    return ok ? KVT_OK : kvt_fail_nomem(err, "compare.json");
}

/* Beside a bound. */
static kvt_status add_regret(cJSON *entry, const struct kvt_comparison *comparison, size_t variant,
                             struct kvt_error *err)
{
    size_t bound = kvt_comparison_bound(comparison);
    struct kvt_estimate regret;

    if (bound == comparison->variant_count)
        return KVT_OK;
    kvt_status status = kvt_comparison_regret(comparison, variant, bound, &regret, err);
    if (status != KVT_OK)
        return status;
    if (!add(entry, "regret", number(regret.mean)) ||
        (!isnan(regret.low) && !add_interval(entry, "regret_ci95", &regret)))
        return kvt_fail_nomem(err, "compare.json");
    return KVT_OK;
}

static bool describe(cJSON *entry, const struct kvt_comparison *comparison, size_t index)
{
    const struct kvt_variant *variant = &comparison->variants[index];
    cJSON *changes = NULL, *hashes = NULL;
    bool ok = add(entry, "name", cJSON_CreateString(variant->name)) &&
              add(entry, "source", cJSON_CreateString(variant->source)) &&
              add(entry, "basis", cJSON_CreateString(variant->basis)) &&
              add(entry, "bound", cJSON_CreateBool(variant->is_bound)) &&
              (changes = cJSON_AddArrayToObject(entry, "changes")) != NULL &&
              (hashes = cJSON_AddArrayToObject(entry, "decision_hashes")) != NULL;

    for (size_t i = 0; ok && i < variant->change_count; i++)
        ok = append(changes, cJSON_CreateString(variant->changes[i]));
    for (size_t s = 0; ok && s < comparison->seed_count; s++) {
        char digits[17];
        snprintf(digits, sizeof digits, "%016" PRIx64, variant->hashes[s]);
        ok = append(hashes,
                    variant->hashes[s] != 0 ? cJSON_CreateString(digits) : cJSON_CreateNull());
    }
    return ok;
}

static kvt_status add_variants(cJSON *tree, const struct kvt_comparison *comparison,
                               struct kvt_error *err)
{
    cJSON *variants = cJSON_AddArrayToObject(tree, "variants");
    kvt_status status = variants != NULL ? KVT_OK : kvt_fail_nomem(err, "compare.json");

    for (size_t v = 0; status == KVT_OK && v < comparison->variant_count; v++) {
        cJSON *entry = cJSON_CreateObject();
        if (!append(variants, entry) || !describe(entry, comparison, v))
            return kvt_fail_nomem(err, "compare.json");
        status = add_metrics(entry, comparison, v, err);
        if (status == KVT_OK)
            status = add_ratios(entry, comparison, v, err);
        if (status == KVT_OK)
            status = add_regret(entry, comparison, v, err);
        if (status == KVT_OK &&
            !add(entry, "scenario", cJSON_Duplicate(comparison->variants[v].scenario, true)))
            status = kvt_fail_nomem(err, "compare.json");
    }
    return status;
}

/* ---- Conditions ---------------------------------------------------------------------------- */

static kvt_status add_conditions(cJSON *tree, const struct kvt_comparison *comparison,
                                 const struct kvt_condition *conditions, size_t condition_count,
                                 struct kvt_error *err)
{
    cJSON *list = cJSON_AddArrayToObject(tree, "fail_if");
    bool ok = list != NULL;

    for (size_t c = 0; ok && c < condition_count; c++) {
        for (size_t v = 1; ok && v < comparison->variant_count; v++) {
            struct kvt_estimate ratio;
            kvt_status status =
                kvt_comparison_ratio(comparison, v, conditions[c].metric, &ratio, err);
            if (status != KVT_OK)
                return status;
            cJSON *entry = cJSON_CreateObject();
            ok = append(list, entry) &&
                 add(entry, "condition", cJSON_CreateString(conditions[c].text)) &&
                 add(entry, "variant", cJSON_CreateString(comparison->variants[v].name)) &&
                 add(entry, "ratio", number(ratio.mean)) &&
                 add(entry, "failed",
                     cJSON_CreateBool(kvt_condition_holds(&conditions[c], ratio.mean)));
        }
    }
    return ok ? KVT_OK : kvt_fail_nomem(err, "compare.json");
}

/* ---- Reference ---------------------------------------------------------------------------------
 */

static kvt_status add_judged(cJSON *list, const struct kvt_comparison *comparison, size_t variant,
                             const struct kvt_reference_value *value, struct kvt_error *err)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);
    struct kvt_reference_verdict verdict;
    struct kvt_estimate ours;
    kvt_status status = kvt_comparison_metric(comparison, variant, value->metric, &ours, err);

    if (status != KVT_OK)
        return status;
    kvt_reference_judge(value, ours.mean, &verdict);
    cJSON *entry = cJSON_CreateObject();
    bool ok = append(list, entry) &&
              add(entry, "variant", cJSON_CreateString(comparison->variants[variant].name)) &&
              add(entry, "metric", cJSON_CreateString(docs[value->metric].name)) &&
              add(entry, "class", cJSON_CreateString(kvt_reference_class_name(value->class_of))) &&
              add(entry, "ours", number(verdict.ours)) &&
              add(entry, "reference", number(value->value)) &&
              add(entry, "error_relative", number(verdict.error_relative)) &&
              add(entry, "tolerance", number(value->tolerance)) &&
              add(entry, "within", cJSON_CreateBool(verdict.is_within));
    return ok ? KVT_OK : kvt_fail_nomem(err, "compare.json");
}

static kvt_status add_reference(cJSON *tree, const struct kvt_comparison *comparison,
                                const struct kvt_reference *reference, struct kvt_error *err)
{
    cJSON *object = cJSON_AddObjectToObject(tree, "reference");
    cJSON *list = NULL;
    kvt_status status = KVT_OK;

    if (object == NULL || !add(object, "name", cJSON_CreateString(reference->name)) ||
        !add(object, "source", cJSON_CreateString(reference->source)) ||
        (list = cJSON_AddArrayToObject(object, "values")) == NULL)
        return kvt_fail_nomem(err, "compare.json");
    for (size_t v = 0; v < comparison->variant_count; v++) {
        for (size_t r = 0; r < reference->row_count; r++) {
            const struct kvt_reference_row *row = &reference->rows[r];
            if (!kvt_reference_matches(row, comparison->variants[v].scenario))
                continue;
            for (size_t i = 0; status == KVT_OK && i < row->value_count; i++)
                status = add_judged(list, comparison, v, &row->values[i], err);
        }
    }
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static bool add_head(cJSON *tree, const struct kvt_comparison *comparison)
{
    cJSON *seeds = NULL;
    bool ok = add(tree, "schema", cJSON_CreateString("kvtide/compare/1")) &&
              add(tree, "version", cJSON_CreateString(kvt_version())) &&
              add(tree, "commit", cJSON_CreateString(kvt_commit())) &&
              add(tree, "ending",
                  cJSON_CreateString(comparison->interrupted ? "interrupted" : "complete")) &&
              (seeds = cJSON_AddArrayToObject(tree, "seeds")) != NULL;

    for (size_t s = 0; ok && s < comparison->seed_count; s++)
        ok = append(seeds, cJSON_CreateNumber((double)comparison->seeds[s]));
    return ok;
}

void kvt_comparison_badge(const struct kvt_comparison *comparison, struct kvt_badge *out)
{
    *out = (struct kvt_badge){0};
    for (size_t v = 0; v < comparison->variant_count; v++) {
        for (size_t s = 0; s < comparison->seed_count; s++)
            kvt_badge_join(out, &comparison->variants[v].badges[s]);
    }
}

kvt_status kvt_comparison_tree(const struct kvt_comparison *comparison,
                               const struct kvt_condition *conditions, size_t condition_count,
                               const struct kvt_reference *reference, cJSON **out,
                               struct kvt_error *err)
{
    cJSON *tree = cJSON_CreateObject();
    struct kvt_badge badge;

    kvt_comparison_badge(comparison, &badge);
    kvt_status status = tree != NULL && add_head(tree, comparison) && kvt_badge_add(tree, &badge)
                            ? add_variants(tree, comparison, err)
                            : kvt_fail_nomem(err, "compare.json");

    if (status == KVT_OK)
        status = add_conditions(tree, comparison, conditions, condition_count, err);
    if (status == KVT_OK && reference != NULL)
        status = add_reference(tree, comparison, reference, err);
    if (status == KVT_OK)
        *out = tree;
    else
        cJSON_Delete(tree);
    return status;
}
