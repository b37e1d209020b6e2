/* compare.c -- estimates over seeds, ratios seed by seed, and conditions on them.
 *
 *     ratio of variant v, metric m:  r_s = v.m(seed s) / first.m(seed s)
 *     estimate:                      mean(r) -+ t(0.975, n - 1) * sd(r) / sqrt(n)
 *
 * Pairing by seed takes out what both runs owe to the same arrivals and lengths. */
#include "kvt/compare.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"

/* ---- Metrics by name ---------------------------------------------------------------- */

/* How much of b is in a, as a whole or at either end: what a slip of memory leaves whole. */
static size_t likeness(const char *a, const char *b)
{
    size_t a_length = strlen(a), b_length = strlen(b), head = 0, tail = 0;
    size_t shorter = a_length < b_length ? a_length : b_length;

    if (strstr(a, b) != NULL)
        return b_length;
    while (head < shorter && a[head] == b[head])
        head++;
    while (tail < shorter - head && a[a_length - 1 - tail] == b[b_length - 1 - tail])
        tail++;
    return head + tail;
}

kvt_status kvt_metric_find(const char *name, const char *where, size_t *out, struct kvt_error *err)
{
    size_t count = 0, nearest = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(docs[i].name, name) == 0) {
            *out = i;
            return KVT_OK;
        }
        if (likeness(docs[i].name, name) > likeness(docs[nearest].name, name))
            nearest = i;
    }
    if (2 * likeness(docs[nearest].name, name) <= strlen(name))
        return kvt_fail(err, KVT_ERR_NOT_FOUND, where,
                        "no metric \"%.60s\"; kvtide list metrics has them all", name);
    return kvt_fail(err, KVT_ERR_NOT_FOUND, where,
                    "no metric \"%.60s\"; the nearest is %s; kvtide list metrics has them all",
                    name, docs[nearest].name);
}

/* ---- Estimates ------------------------------------------------------------------------ */

void kvt_estimate_of(const double *values, size_t count, struct kvt_estimate *out)
{
    *out = (struct kvt_estimate){NAN, NAN, NAN};
    if (count == 0)
        return;
    out->mean = gsl_stats_mean(values, 1, count);
    if (count < 2 || isnan(out->mean))
        return;
    double half = gsl_cdf_tdist_Pinv(0.975, (double)(count - 1)) *
                  gsl_stats_sd_m(values, 1, count, out->mean) / sqrt((double)count);
    out->low = out->mean - half;
    out->high = out->mean + half;
}

static double value_at(const struct kvt_comparison *comparison, size_t variant, size_t seed,
                       size_t metric)
{
    size_t metrics = 0;

    (void)kvt_metric_docs(&metrics);
    return comparison->variants[variant].metrics[seed * metrics + metric];
}

kvt_status kvt_comparison_metric(const struct kvt_comparison *comparison, size_t variant,
                                 size_t metric, struct kvt_estimate *out, struct kvt_error *err)
{
    double *values = calloc(comparison->seed_count, sizeof *values);

    if (values == NULL)
        return kvt_fail_nomem(err, "an estimate");
    for (size_t s = 0; s < comparison->seed_count; s++)
        values[s] = value_at(comparison, variant, s, metric);
    kvt_estimate_of(values, comparison->seed_count, out);
    free(values);
    return KVT_OK;
}

kvt_status kvt_comparison_ratio(const struct kvt_comparison *comparison, size_t variant,
                                size_t metric, struct kvt_estimate *out, struct kvt_error *err)
{
    double *values = calloc(comparison->seed_count, sizeof *values);

    if (values == NULL)
        return kvt_fail_nomem(err, "an estimate");
    for (size_t s = 0; s < comparison->seed_count; s++) {
        double first = value_at(comparison, 0, s, metric);
        values[s] = first != 0 ? value_at(comparison, variant, s, metric) / first : (double)NAN;
    }
    kvt_estimate_of(values, comparison->seed_count, out);
    free(values);
    return KVT_OK;
}

/* ---- Regret ------------------------------------------------------------------------------- */

/* A metric of ours, which there is. */
static size_t miss_metric(void)
{
    size_t metric = 0;

    kvt_status status = kvt_metric_find("hot_miss_ratio", "compare", &metric, NULL);
    (void)status;
    return metric;
}

size_t kvt_comparison_bound(const struct kvt_comparison *comparison)
{
    size_t bound = comparison->variant_count;
    double least = INFINITY;

    for (size_t v = 0; v < comparison->variant_count; v++) {
        double sum = 0;
        for (size_t s = 0; s < comparison->seed_count; s++)
            sum += value_at(comparison, v, s, miss_metric());
        if (comparison->variants[v].bounds_misses && sum < least) {
            least = sum;
            bound = v;
        }
    }
    return bound;
}

kvt_status kvt_comparison_regret(const struct kvt_comparison *comparison, size_t variant,
                                 size_t bound, struct kvt_estimate *out, struct kvt_error *err)
{
    double *values = calloc(comparison->seed_count, sizeof *values);
    size_t metric = miss_metric();

    if (values == NULL)
        return kvt_fail_nomem(err, "an estimate");
    for (size_t s = 0; s < comparison->seed_count; s++) {
        double least = value_at(comparison, bound, s, metric);
        values[s] = least > 0 ? value_at(comparison, variant, s, metric) / least - 1 : (double)NAN;
    }
    kvt_estimate_of(values, comparison->seed_count, out);
    free(values);
    return KVT_OK;
}

/* ---- Conditions --------------------------------------------------------------------------- */

kvt_status kvt_condition_parse(const char *text, const char *where, const char *of,
                               struct kvt_condition *out, struct kvt_error *err)
{
    char name[64];
    size_t length = strcspn(text, "<>");
    struct kvt_condition condition = {.text = text};

    if (text[length] == '\0' || length == 0 || length >= sizeof name)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "\"%.100s\" is not METRIC<=%s, with <, <=, > or >=", text, of);
    memcpy(name, text, length);
    name[length] = '\0';
    bool has_equal = text[length + 1] == '=';
    if (text[length] == '<')
        condition.op = has_equal ? KVT_LESS_EQUAL : KVT_LESS;
    else
        condition.op = has_equal ? KVT_GREATER_EQUAL : KVT_GREATER;
    kvt_status status = kvt_metric_find(name, where, &condition.metric, err);
    if (status == KVT_OK)
        status =
            kvt_text_real(text + length + 1 + has_equal, where, 0, 1e300, &condition.bound, err);
    if (status == KVT_OK)
        *out = condition;
    return status;
}

bool kvt_condition_holds(const struct kvt_condition *condition, double ratio)
{
    if (isnan(ratio))
        return true;
    switch (condition->op) {
    case KVT_LESS:
        return ratio < condition->bound;
    case KVT_LESS_EQUAL:
        return ratio <= condition->bound;
    case KVT_GREATER:
        return ratio > condition->bound;
    case KVT_GREATER_EQUAL:
        return ratio >= condition->bound;
    }
    return true;
}
