/* validate_judge.c -- how far each level is from exact, in figures, as JSON and for people. */
#include <cjson/cJSON.h>
#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/metrics.h"
#include "validate.h"

/* Of sampled, as few 99 % intervals may miss the exact value as chance would have miss it, but for
 * one time in a hundred: 1 of 3, 2 of 20. Of analytic, so many errors must be within the tolerance.
 */
#define MISSED_BY_CHANCE 0.01
#define CHANCE_LEAST 0.01
#define IN_RANGE_LEAST 0.9

const struct validate_metric validate_metrics[VALIDATE_METRICS] = {
    {"output_throughput", 0.05, false, true}, {"mean_tpot_ms", 0.05, false, true},
    {"mean_ttft_ms", 0.25, false, false},     {"active_mean", 0.05, false, false},
    {"host_fetch_share", 0.01, true, true},   {"hot_miss_ratio", 0.02, true, true},
    {"coverage_mean", 0.1, true, false},      {"h2d_payload_bytes", 0.15, false, true},
};

const char *const validate_level_names[VALIDATE_LEVELS] = {"sampled", "analytic"};

/* Signed; NaN where either is not defined, or the exact one is 0 and the error relative. */
static double error_of(const struct validate_point *point, size_t m)
{
    double difference = point->ours[m] - point->exact[m];

    if (validate_metrics[m].is_absolute)
        return difference;
    return point->exact[m] != 0 ? difference / fabs(point->exact[m]) : (double)NAN;
}

static bool is_in_range(const struct validate_point *point, size_t m)
{
    if (point->level == VALIDATE_SAMPLED)
        return fabs(point->ours[m] - point->exact[m]) <=
               point->half_width[m] + 1e-12 * fabs(point->exact[m]);
    return fabs(error_of(point, m)) <= validate_metrics[m].tolerance;
}

static bool is_good(enum validate_level level, size_t in_range, size_t count)
{
    unsigned missed = (unsigned)(count - in_range);

    if (level == VALIDATE_ANALYTIC)
        return (double)in_range / (double)count >= IN_RANGE_LEAST;
    /* Of one interval the chance is the least itself, give or take a last bit. */
    return missed == 0 || gsl_cdf_binomial_Q(missed - 1, MISSED_BY_CHANCE, (unsigned)count) >
                              CHANCE_LEAST * (1 + 1e-9);
}

static void judge(const struct validate_outcome *outcome, size_t m, struct validate_family *family)
{
    double absolute[VALIDATE_POINTS_MAX];
    size_t within = 0;
    struct kvt_summary summary;

    for (size_t p = 0; p < outcome->point_count; p++) {
        const struct validate_point *point = &outcome->points[p];
        double error = error_of(point, m);
        if (point->level != family->level || point->refused || isnan(error))
            continue;
        absolute[family->count++] = fabs(error);
        family->bias += error;
        within += is_in_range(point, m);
        if (family->level == VALIDATE_SAMPLED && point->ours[m] != 0)
            family->widest = fmax(family->widest, point->half_width[m] / fabs(point->ours[m]));
    }
    if (family->count == 0)
        return;
    kvt_summary_of(absolute, family->count, &summary);
    family->mape = summary.mean;
    family->p95_abs = summary.p95;
    family->bias /= (double)family->count;
    family->in_range = (double)within / (double)family->count;
    family->good = is_good(family->level, within, family->count);
}

bool validate_judge(const struct validate_outcome *outcome,
                    struct validate_family families[VALIDATE_FAMILIES])
{
    bool good = outcome->failure[0] == '\0';

    for (size_t f = 0; f < VALIDATE_FAMILIES; f++) {
        size_t m = f % VALIDATE_METRICS;
        families[f] = (struct validate_family){.level = (enum validate_level)(f / VALIDATE_METRICS),
                                               .metric = &validate_metrics[m],
                                               .good = true};
        if (families[f].level == VALIDATE_ANALYTIC || validate_metrics[m].is_sampled)
            judge(outcome, m, &families[f]);
        good = good && families[f].good;
    }
    return good;
}

/* ---- As JSON ---------------------------------------------------------------------- */

static bool add_family(cJSON *list, const struct validate_family *family)
{
    cJSON *entry = kvt_json_add_element(list);
    char name[96];

    snprintf(name, sizeof name, "%s %s", validate_level_names[family->level], family->metric->name);
    return entry && kvt_json_add_text(entry, "name", name) &&
           kvt_json_add_number(entry, "n", (double)family->count) &&
           kvt_json_add_number(entry, "mape", family->mape) &&
           kvt_json_add_number(entry, "p95_abs", family->p95_abs) &&
           kvt_json_add_number(entry, "bias", family->bias) &&
           kvt_json_add_number(entry, "in_range", family->in_range) &&
           kvt_json_add_number(entry, "tolerance",
                               family->level == VALIDATE_ANALYTIC ? family->metric->tolerance
                                                                  : family->widest) &&
           kvt_json_add_bool(entry, "good", family->good);
}

static bool add_values(cJSON *entry, const struct validate_point *point)
{
    cJSON *metrics = cJSON_CreateObject();

    if (!kvt_json_add(entry, "metrics", metrics))
        return false;
    for (size_t m = 0; m < VALIDATE_METRICS; m++) {
        cJSON *values = cJSON_CreateObject();
        if (!kvt_json_add(metrics, validate_metrics[m].name, values) ||
            !kvt_json_add_number(values, "exact", point->exact[m]) ||
            !kvt_json_add_number(values, "value", point->refused ? (double)NAN : point->ours[m]) ||
            !kvt_json_add_number(values, "error",
                                 point->refused ? (double)NAN : error_of(point, m)))
            return false;
        if (point->level == VALIDATE_SAMPLED && validate_metrics[m].is_sampled &&
            !kvt_json_add_number(values, "half_width", point->half_width[m]))
            return false;
    }
    return true;
}

static bool add_point(cJSON *list, const struct validate_point *point)
{
    cJSON *entry = kvt_json_add_element(list);

    return entry && kvt_json_add_text(entry, "scenario", point->scenario) &&
           kvt_json_add_number(entry, "seed", (double)point->seed) &&
           kvt_json_add_text(entry, "fidelity", validate_level_names[point->level]) &&
           kvt_json_add_text(entry, "refused", point->refused) && add_values(entry, point);
}

kvt_status validate_tree(const struct validate_outcome *outcome,
                         const struct validate_family families[VALIDATE_FAMILIES], bool good,
                         cJSON **out, struct kvt_error *err)
{
    cJSON *tree = cJSON_CreateObject(), *list = cJSON_CreateArray(), *points = cJSON_CreateArray();
    bool ok = tree && kvt_json_add_text(tree, "schema", "kvtide/validate/1") &&
              kvt_json_add_text(tree, "suite", "fidelity") &&
              kvt_json_add_bool(tree, "good", good) && kvt_badge_add(tree, &outcome->badge) &&
              kvt_json_add_text(tree, "broken_off", outcome->failure[0] ? outcome->failure : NULL);

    ok = kvt_json_add(tree, "families", list) && ok;
    ok = kvt_json_add(tree, "points", points) && ok;
    for (size_t f = 0; f < VALIDATE_FAMILIES && ok; f++)
        ok = families[f].count == 0 || add_family(list, &families[f]);
    for (size_t p = 0; p < outcome->point_count && ok; p++)
        ok = add_point(points, &outcome->points[p]);
    if (!ok) {
        cJSON_Delete(tree);
        return kvt_fail_nomem(err, "the result of a validation");
    }
    *out = tree;
    return KVT_OK;
}

/* ---- For people ------------------------------------------------------------------------ */

static void print_points(const struct validate_outcome *outcome)
{
    printf("%-14s %6s %-9s %11s %9s %9s %9s\n", "scenario", "seed", "level", "output", "TPOT",
           "host", "active");
    for (size_t p = 0; p < outcome->point_count; p++) {
        const struct validate_point *point = &outcome->points[p];
        if (point->level == VALIDATE_SAMPLED)
            printf("%-14s %6llu %-9s %11.1f %9.3f %8.2f%% %9.1f\n", point->scenario,
                   (unsigned long long)point->seed, "exact", point->exact[0], point->exact[1],
                   100 * point->exact[4], point->exact[3]);
        if (point->refused)
            printf("%21s %-9s refused: %s\n", "", validate_level_names[point->level],
                   point->refused);
        else
            printf("%21s %-9s %10.2f%% %8.2f%% %+8.2fpp %8.2f%%\n", "",
                   validate_level_names[point->level], 100 * error_of(point, 0),
                   100 * error_of(point, 1), 100 * error_of(point, 4), 100 * error_of(point, 3));
    }
}

/* On how few points the verdict stands: those of the shortest line. */
static void print_support(const struct validate_family families[VALIDATE_FAMILIES])
{
    size_t fewest = SIZE_MAX;

    for (size_t f = 0; f < VALIDATE_FAMILIES; f++) {
        if (families[f].count > 0 && families[f].count < fewest)
            fewest = families[f].count;
    }
    if (fewest == SIZE_MAX)
        return;
    bool one_decides = !is_good(VALIDATE_ANALYTIC, fewest - 1, fewest);
    printf("it stands on %zu point%s a line%s\n", fewest, fewest == 1 ? "" : "s",
           one_decides ? ": one of analytic that is out of range turns it; --seeds N takes more"
                       : "");
}

void validate_print(const struct validate_outcome *outcome,
                    const struct validate_family families[VALIDATE_FAMILIES], bool good)
{
    print_points(outcome);
    printf("\n%-9s %-19s %3s %8s %8s %8s %9s  %s\n", "level", "metric", "n", "mean abs", "p95 abs",
           "bias", "in range", "of");
    for (size_t f = 0; f < VALIDATE_FAMILIES; f++) {
        const struct validate_family *family = &families[f];
        bool analytic = family->level == VALIDATE_ANALYTIC;
        if (family->count == 0)
            continue;
        printf("%-9s %-19s %3zu %7.2f%% %7.2f%% %+7.2f%% %8.0f%%  %s%.2f%%%s%s\n",
               validate_level_names[family->level], family->metric->name, family->count,
               100 * family->mape, 100 * family->p95_abs, 100 * family->bias,
               100 * family->in_range, analytic ? "+-" : "its interval, at most +-",
               100 * (analytic ? family->metric->tolerance : family->widest),
               family->metric->is_absolute && analytic ? " of 1" : "", family->good ? "" : "  NO");
    }
    putchar('\n');
    cli_print_badge(&outcome->badge);
    if (outcome->failure[0])
        printf("no: broken off, so that this is part of it: %s\n", outcome->failure);
    else
        printf("%s: sampled's 99 %% interval misses exact no more often than chance has it, "
               "analytic is within its tolerance in %.0f %% of the points of each line at least\n",
               good ? "yes" : "no", 100 * IN_RANGE_LEAST);
    print_support(families);
}
