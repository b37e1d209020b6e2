/* compare_presets.c -- a comparison under several presets of the law of selections, for people. */
#include <stdio.h>
#include <stdlib.h>

#include "compare.h"

/* "A > B ~ C", ~ between two that cannot be told apart. */
static kvt_status print_order(const struct kvt_comparison *comparison, size_t metric,
                              struct kvt_error *err)
{
    size_t *order = calloc(comparison->variant_count, sizeof *order);

    if (order == NULL)
        return kvt_fail_nomem(err, "an order");
    kvt_status status = kvt_comparison_order(comparison, metric, order, err);
    for (size_t i = 0; status == KVT_OK && i < comparison->variant_count; i++) {
        int ahead = 1;
        if (i > 0)
            status = kvt_comparison_ahead(comparison, order[i - 1], order[i], metric, &ahead, err);
        if (status == KVT_OK)
            printf("%s%s",
                   i == 0       ? ""
                   : ahead == 0 ? " ~ "
                                : " > ",
                   comparison->variants[order[i]].name);
    }
    free(order);
    return status;
}

static void print_reversals(const struct kvt_presets *presets, const struct kvt_order_check *check)
{
    const struct kvt_variant *variants = presets->comparisons[0].variants;

    printf("warning: the order changes between presets:");
    for (size_t i = 0; i < check->reversal_count; i++) {
        const struct kvt_reversal *reversal = &check->reversals[i];
        const char *a = variants[reversal->a].name, *b = variants[reversal->b].name;
        printf("%s %s %s > %s, %s %s > %s", i == 0 ? "" : ";", presets->names[reversal->a_ahead], a,
               b, presets->names[reversal->b_ahead], b, a);
    }
    putchar('\n');
}

static kvt_status print_check(const struct kvt_presets *presets, size_t metric,
                              struct kvt_error *err)
{
    struct kvt_order_check check;
    kvt_status status = kvt_presets_check_order(presets, metric, &check, err);

    if (status != KVT_OK)
        return status;
    if (check.reversal_count > 0)
        print_reversals(presets, &check);
    else
        printf("the order is the same under all %zu presets%s\n", presets->count,
               check.tie_count > 0 ? ", ties (~) apart" : "");
    free(check.reversals);
    return KVT_OK;
}

kvt_status compare_print_presets(const struct kvt_presets *presets, size_t metric,
                                 struct kvt_error *err)
{
    size_t metric_count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&metric_count);
    int name_columns = compare_name_columns(&presets->comparisons[0]);

    compare_print_head(&presets->comparisons[0], name_columns, metric);
    for (size_t p = 0; p < presets->count; p++) {
        printf("preset %s\n", presets->names[p]);
        kvt_status status = compare_print_rows(&presets->comparisons[p], name_columns, metric, err);
        if (status == KVT_OK)
            status = compare_print_bounds(&presets->comparisons[p], err);
        if (status != KVT_OK)
            return status;
    }
    compare_print_basis(&presets->comparisons[0]);
    printf("order by %s, larger first\n", docs[metric].name);
    for (size_t p = 0; p < presets->count; p++) {
        printf("  %-10s ", presets->names[p]);
        kvt_status status = print_order(&presets->comparisons[p], metric, err);
        putchar('\n');
        if (status != KVT_OK)
            return status;
    }
    return print_check(presets, metric, err);
}
