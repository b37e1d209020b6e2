/* compare_table.c -- a comparison for people: a row a variant, then the reference. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare.h"

enum {
    NAME_COLUMNS_MIN = 7,
    NAME_COLUMNS_MAX = 24, /* longer names stand on a line of their own */
    FIGURE_BYTES = 24
};

/* 3 or 4 figures, "-" where it is not defined. */
static const char *figure(double value, char out[FIGURE_BYTES])
{
    if (!isfinite(value))
        snprintf(out, FIGURE_BYTES, "-");
    else if (value != 0 && fabs(value) < 0.01)
        snprintf(out, FIGURE_BYTES, "%.2g", value);
    else if (fabs(value) < 100)
        snprintf(out, FIGURE_BYTES, "%.2f", value);
    else
        snprintf(out, FIGURE_BYTES, fabs(value) < 1000 ? "%.1f" : "%.0f", value);
    return out;
}

static kvt_status mean_of(const struct kvt_comparison *comparison, size_t variant,
                          const char *metric, double *out, struct kvt_error *err)
{
    struct kvt_estimate estimate;
    size_t index = 0;
    kvt_status status = kvt_metric_find(metric, "compare", &index, err);

    if (status == KVT_OK)
        status = kvt_comparison_metric(comparison, variant, index, &estimate, err);
    if (status == KVT_OK)
        *out = estimate.mean;
    return status;
}

/* ---- Variants ---------------------------------------------------------------------------- */

int compare_name_columns(const struct kvt_comparison *comparison)
{
    size_t widest = NAME_COLUMNS_MIN;

    for (size_t v = 0; v < comparison->variant_count; v++) {
        size_t length = strlen(comparison->variants[v].name);
        if (length > widest && length <= NAME_COLUMNS_MAX)
            widest = length;
    }
    return (int)widest;
}

static const struct column {
    const char *metric;
    double scale;
    int width;
} columns[] = {
    {"output_throughput_per_gpu", 1, 8},
    {"mean_ttft_ms", 1e-3, 7},
    {"post_wave_mean_ttft_ms", 1e-3, 7},
    {"post_wave_p99_ttft_ms", 1e-3, 7},
    {"mean_tpot_ms", 1, 7},
    {"active_mean", 1, 7},
    {"slots", 1, -5}, /* behind a stroke, to the left */
    {"host_fetch_share", 100, 7},
    {"coverage_mean", 1, 6},
};
enum {
    COLUMNS = sizeof columns / sizeof columns[0]
};

static kvt_status print_ratio(const struct kvt_comparison *comparison, size_t variant,
                              size_t metric, struct kvt_error *err)
{
    struct kvt_estimate ratio;
    kvt_status status = kvt_comparison_ratio(comparison, variant, metric, &ratio, err);

    if (status != KVT_OK)
        return status;
    if (isnan(ratio.mean))
        printf(" %7s", "-");
    else
        printf(" %7.3f", ratio.mean);
    if (!isnan(ratio.low))
        printf(" +-%.3f", (ratio.high - ratio.low) / 2);
    putchar('\n');
    return KVT_OK;
}

static kvt_status print_variant(const struct kvt_comparison *comparison, size_t variant,
                                int name_width, size_t metric, struct kvt_error *err)
{
    const char *name = comparison->variants[variant].name;

    if ((int)strlen(name) > name_width)
        printf("%s\n%*s", name, name_width, "");
    else
        printf("%-*s", name_width, name);
    for (size_t c = 0; c < COLUMNS; c++) {
        char text[FIGURE_BYTES];
        double value = NAN;
        kvt_status status = mean_of(comparison, variant, columns[c].metric, &value, err);
        if (status != KVT_OK)
            return status;
        if (columns[c].width < 0) {
            snprintf(text, sizeof text, "%.0f", value);
            printf("/%-*s", -columns[c].width - 1, text);
        } else {
            printf(" %*s", columns[c].width - 1, figure(value * columns[c].scale, text));
        }
    }
    return print_ratio(comparison, variant, metric, err);
}

void compare_print_basis(const struct kvt_comparison *comparison)
{
    struct kvt_badge badge;
    bool same = true;

    for (size_t v = 1; v < comparison->variant_count; v++)
        same = same && strcmp(comparison->variants[v].basis, comparison->variants[0].basis) == 0;
    if (same)
        printf("basis: times rest on figures that are %s\n", comparison->variants[0].basis);
    for (size_t v = 0; v < comparison->variant_count && !same; v++)
        printf("basis: times of %s rest on figures that are %s\n", comparison->variants[v].name,
               comparison->variants[v].basis);
    kvt_comparison_badge(comparison, &badge);
    cli_print_badge(&badge);
}

/* What the ratios are of stands over them where it is the output; else in a line of its own. */
void compare_print_head(const struct kvt_comparison *comparison, int name_columns, size_t metric)
{
    size_t count = 0;
    const char *name = kvt_metric_docs(&count)[metric].name;
    bool is_output = strcmp(name, "output_throughput") == 0;

    if (comparison->seed_count == 1)
        printf("seed %" PRIu64, comparison->seeds[0]);
    else
        printf("seeds %" PRIu64 " to %" PRIu64 ", means and 95 %% intervals of the paired ratio",
               comparison->seeds[0], comparison->seeds[comparison->seed_count - 1]);
    puts(comparison->interrupted ? "; interrupted: the seeds that all have finished" : "");
    if (!is_output)
        printf("ratios are of %s\n", name);
    printf("%*s   tok/s   TTFT   post-wave s   TPOT   active       host  cover%s\n", name_columns,
           "", is_output ? "  output" : "");
    printf("%-*s    /GPU      s   mean    p99     ms   /slots          %%   -age   ratio\n",
           name_columns, "variant");
}

kvt_status compare_print_rows(const struct kvt_comparison *comparison, int name_columns,
                              size_t metric, struct kvt_error *err)
{
    for (size_t v = 0; v < comparison->variant_count; v++) {
        kvt_status status = print_variant(comparison, v, name_columns, metric, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

/* ---- Bounds --------------------------------------------------------------------------------- */

static kvt_status print_regret(const struct kvt_comparison *comparison, size_t bound,
                               struct kvt_error *err)
{
    printf("regret to %s, of hot_miss_ratio:\n", comparison->variants[bound].name);
    for (size_t v = 0; v < comparison->variant_count; v++) {
        struct kvt_estimate regret;
        char text[FIGURE_BYTES];
        if (v == bound)
            continue;
        kvt_status status = kvt_comparison_regret(comparison, v, bound, &regret, err);
        if (status != KVT_OK)
            return status;
        printf("  %-*s %8s", NAME_COLUMNS_MAX, comparison->variants[v].name,
               figure(regret.mean, text));
        if (!isnan(regret.low))
            printf(" +-%s", figure((regret.high - regret.low) / 2, text));
        putchar('\n');
    }
    return KVT_OK;
}

kvt_status compare_print_bounds(const struct kvt_comparison *comparison, struct kvt_error *err)
{
    size_t bound = kvt_comparison_bound(comparison);

    for (size_t v = 0; v < comparison->variant_count; v++) {
        if (comparison->variants[v].is_bound)
            printf("bound: a policy of %s saw the future; what it reaches cannot be had\n",
                   comparison->variants[v].name);
    }
    if (bound == comparison->variant_count || comparison->variant_count == 1)
        return KVT_OK;
    return print_regret(comparison, bound, err);
}

/* ---- Reference ------------------------------------------------------------------------------ */

static const char *const class_heads[KVT_REFERENCE_CLASSES] = {
    [KVT_REFERENCE_PREDICTED] = "predicted: nothing was fitted to these",
    [KVT_REFERENCE_EXACT] = "exact: accounting, no time in it",
    [KVT_REFERENCE_CALIBRATED] = "calibrated: parameters were fitted to these; no evidence",
};

struct score {
    size_t within, judged;
};

static kvt_status print_judged(const struct kvt_comparison *comparison, size_t variant,
                               const struct kvt_reference_value *value, struct score *score,
                               struct kvt_error *err)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);
    struct kvt_estimate ours;
    struct kvt_reference_verdict verdict;
    char texts[3][FIGURE_BYTES];
    kvt_status status = kvt_comparison_metric(comparison, variant, value->metric, &ours, err);

    if (status != KVT_OK)
        return status;
    kvt_reference_judge(value, ours.mean, &verdict);
    score->judged++;
    score->within += verdict.is_within;
    printf("  %-26s %10s %10s %+8.1f %9s  %s\n", docs[value->metric].name,
           figure(verdict.ours, texts[0]), figure(value->value, texts[1]),
           100 * verdict.error_relative, figure(value->tolerance, texts[2]),
           verdict.is_within ? "yes" : "no");
    return KVT_OK;
}

/* The values of one class that speak of this variant, in the reference's order. */
static kvt_status print_class(const struct kvt_comparison *comparison, size_t variant,
                              const struct kvt_reference *reference,
                              enum kvt_reference_class class_of, struct score *score,
                              struct kvt_error *err)
{
    bool has_head = false;
    const char *name = comparison->variants[variant].name;

    for (size_t r = 0; r < reference->row_count; r++) {
        const struct kvt_reference_row *row = &reference->rows[r];
        if (!kvt_reference_matches(row, comparison->variants[variant].scenario))
            continue;
        for (size_t i = 0; i < row->value_count; i++) {
            if (row->values[i].class_of != class_of)
                continue;
            if (!has_head)
                printf(" %s\n", name);
            has_head = true;
            kvt_status status = print_judged(comparison, variant, &row->values[i], score, err);
            if (status != KVT_OK)
                return status;
        }
    }
    return KVT_OK;
}

static bool speaks_of(const struct kvt_reference *reference, const struct kvt_variant *variant)
{
    for (size_t r = 0; r < reference->row_count; r++) {
        if (kvt_reference_matches(&reference->rows[r], variant->scenario))
            return true;
    }
    return false;
}

static bool has_class(const struct kvt_reference *reference, enum kvt_reference_class class_of)
{
    for (size_t r = 0; r < reference->row_count; r++) {
        for (size_t i = 0; i < reference->rows[r].value_count; i++) {
            if (reference->rows[r].values[i].class_of == class_of)
                return true;
        }
    }
    return false;
}

static kvt_status print_reference(const struct kvt_comparison *comparison,
                                  const struct kvt_reference *reference, struct kvt_error *err)
{
    struct score scores[KVT_REFERENCE_CLASSES] = {{0, 0}};
    size_t spoken_of = 0;

    printf("\nreference %s: %s\n", reference->name, reference->source);
    for (size_t v = 0; v < comparison->variant_count; v++) {
        if (speaks_of(reference, &comparison->variants[v]))
            spoken_of++;
        else
            printf("%s: no row of the reference is of this scenario\n",
                   comparison->variants[v].name);
    }
    if (spoken_of == 0)
        return KVT_OK;
    printf("  %-26s %10s %10s %8s %9s  %s\n", "metric", "ours", "reference", "error %", "tolerance",
           "within");
    for (int c = 0; c < KVT_REFERENCE_CLASSES; c++) {
        if (!has_class(reference, (enum kvt_reference_class)c))
            continue;
        puts(class_heads[c]);
        for (size_t v = 0; v < comparison->variant_count; v++) {
            kvt_status status =
                print_class(comparison, v, reference, (enum kvt_reference_class)c, &scores[c], err);
            if (status != KVT_OK)
                return status;
        }
    }
    printf("within tolerance: predicted %zu of %zu, exact %zu of %zu; calibrated %zu of %zu\n",
           scores[KVT_REFERENCE_PREDICTED].within, scores[KVT_REFERENCE_PREDICTED].judged,
           scores[KVT_REFERENCE_EXACT].within, scores[KVT_REFERENCE_EXACT].judged,
           scores[KVT_REFERENCE_CALIBRATED].within, scores[KVT_REFERENCE_CALIBRATED].judged);
    return KVT_OK;
}

kvt_status compare_print(const struct kvt_comparison *comparison, size_t metric,
                         const struct kvt_reference *reference, struct kvt_error *err)
{
    int name_columns = compare_name_columns(comparison);

    compare_print_head(comparison, name_columns, metric);
    kvt_status status = compare_print_rows(comparison, name_columns, metric, err);
    if (status != KVT_OK)
        return status;
    status = compare_print_bounds(comparison, err);
    if (status != KVT_OK)
        return status;
    compare_print_basis(comparison);
    return reference != NULL ? print_reference(comparison, reference, err) : KVT_OK;
}
