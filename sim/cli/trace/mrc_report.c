/* mrc_report.c -- miss curves as a table, as CSV and as JSON. */
#include "mrc_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kvt/json.h"

enum {
    COLUMNS_AT_ONCE = 7 /* sizes beside each other in 80 columns */
};

static const char *name_of(const struct mrc_report *report, size_t p)
{
    return report->plan->policies[p].table->info.name;
}

static double ratio(uint64_t part, uint64_t of)
{
    return of > 0 ? (double)part / (double)of : (double)NAN;
}

/* Misses over Belady's, less 1; NaN where Belady's are not known. */
static double regret(const struct mrc_report *report, size_t p, size_t i)
{
    for (size_t b = 0; b < report->plan->policy_count; b++) {
        uint64_t least = report->counts->missed[b][i];
        if (strcmp(name_of(report, b), "belady") == 0 && least > 0)
            return (double)report->counts->missed[p][i] / (double)least - 1;
    }
    return (double)NAN;
}

/* ---- Table ----------------------------------------------------------------------------------- */

static void print_heads(const struct mrc_report *report, size_t from, size_t to)
{
    printf("  %-18s", "B/k");
    for (size_t i = from; i < to; i++)
        printf(" %7g", report->at[i]);
    printf("\n  %-18s", "slots");
    for (size_t i = from; i < to; i++)
        printf(" %7" PRIu32, report->plan->slots[i]);
    (void)putchar('\n');
}

static void print_curves(const struct mrc_report *report, size_t from, size_t to)
{
    printf("\n  missed / selected\n");
    print_heads(report, from, to);
    for (size_t p = 0; p < report->plan->policy_count; p++) {
        printf("  %-18.18s", name_of(report, p));
        for (size_t i = from; i < to; i++)
            printf(" %7.4f", ratio(report->counts->missed[p][i], report->counts->selected));
        (void)putchar('\n');
    }
}

static void print_regrets(const struct mrc_report *report, size_t from, size_t to)
{
    bool is_known = false;
    for (size_t i = from; i < to; i++)
        is_known = is_known || !isnan(regret(report, 0, i));
    if (!is_known)
        return;
    printf("\n  misses over belady's, less 1\n");
    for (size_t p = 0; p < report->plan->policy_count; p++) {
        printf("  %-18.18s", name_of(report, p));
        for (size_t i = from; i < to; i++) {
            if (isnan(regret(report, p, i)))
                printf(" %7s", "-");
            else
                printf(" %7.4f", regret(report, p, i));
        }
        (void)putchar('\n');
    }
}

void mrc_report_print(const struct mrc_report *report)
{
    const struct mrc_counts *counts = report->counts;
    for (size_t i = 0; i < report->path_count; i++)
        printf("%s\n", report->paths[i]);
    printf("  k               %" PRIu32 "\n", report->top_k);
    printf("  caches          %" PRIu64 " of a request's store each, from empty; %s\n",
           counts->lanes,
           report->plan->stream == MRC_CALLS ? "a selection is a call" : "a row is an access");
    printf("  selected        %" PRIu64 " rows in %" PRIu64 " selections\n", counts->selected,
           counts->selections);
    printf("  compulsory      %.4f of them for the first time\n",
           ratio(counts->first, counts->selected));
    for (size_t from = 0; from < report->plan->size_count; from += COLUMNS_AT_ONCE) {
        size_t left = report->plan->size_count - from;
        size_t to = from + (left < COLUMNS_AT_ONCE ? left : COLUMNS_AT_ONCE);
        print_curves(report, from, to);
        print_regrets(report, from, to);
    }
}

/* ---- Files ----------------------------------------------------------------------------------- */

void mrc_report_csv(const struct mrc_report *report, FILE *stream)
{
    (void)fputs("policy,b_over_k,slots,selected,missed,miss_ratio,regret\n", stream);
    for (size_t p = 0; p < report->plan->policy_count; p++) {
        for (size_t i = 0; i < report->plan->size_count; i++) {
            char at[32], missed[32], over[32];
            kvt_json_print_number(report->at[i], at);
            kvt_json_print_number(ratio(report->counts->missed[p][i], report->counts->selected),
                                  missed);
            kvt_json_print_number(regret(report, p, i), over);
            (void)fprintf(stream, "%s,%s,%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%s,%s\n",
                          name_of(report, p), at, report->plan->slots[i], report->counts->selected,
                          report->counts->missed[p][i], missed,
                          isnan(regret(report, p, i)) ? "" : over);
        }
    }
}

static bool add_curve(cJSON *curves, const struct mrc_report *report, size_t p)
{
    cJSON *curve = kvt_json_add_element(curves);
    bool is_whole = curve != NULL && kvt_json_add_text(curve, "policy", name_of(report, p));
    cJSON *points = is_whole ? cJSON_AddArrayToObject(curve, "points") : NULL;
    is_whole = is_whole && points != NULL;
    for (size_t i = 0; is_whole && i < report->plan->size_count; i++) {
        cJSON *point = kvt_json_add_element(points);
        uint64_t missed = report->counts->missed[p][i];
        is_whole =
            point != NULL && kvt_json_add_number(point, "b_over_k", report->at[i]) &&
            kvt_json_add_number(point, "slots", report->plan->slots[i]) &&
            kvt_json_add_number(point, "missed", (double)missed) &&
            kvt_json_add_number(point, "miss_ratio", ratio(missed, report->counts->selected)) &&
            kvt_json_add_number(point, "regret", regret(report, p, i));
    }
    return is_whole;
}

static bool add_all(cJSON *tree, const struct mrc_report *report)
{
    const struct mrc_counts *counts = report->counts;
    cJSON *files = cJSON_AddArrayToObject(tree, "files");
    bool is_whole = files != NULL;
    for (size_t i = 0; is_whole && i < report->path_count; i++) {
        cJSON *path = cJSON_CreateString(report->paths[i]);
        is_whole = path != NULL && cJSON_AddItemToArray(files, path);
    }
    is_whole =
        is_whole && kvt_json_add_text(tree, "schema", "kvtide/mrc/1") &&
        kvt_json_add_text(tree, "stream", report->plan->stream == MRC_CALLS ? "calls" : "rows") &&
        kvt_json_add_number(tree, "top_k", report->top_k) &&
        kvt_json_add_number(tree, "caches", (double)counts->lanes) &&
        kvt_json_add_number(tree, "selections", (double)counts->selections) &&
        kvt_json_add_number(tree, "selected", (double)counts->selected) &&
        kvt_json_add_number(tree, "compulsory", ratio(counts->first, counts->selected));
    cJSON *curves = is_whole ? cJSON_AddArrayToObject(tree, "curves") : NULL;
    is_whole = curves != NULL;
    for (size_t p = 0; is_whole && p < report->plan->policy_count; p++)
        is_whole = add_curve(curves, report, p);
    return is_whole;
}

char *mrc_report_json(const struct mrc_report *report)
{
    cJSON *tree = cJSON_CreateObject();
    char *text = tree != NULL && add_all(tree, report) ? kvt_json_print(tree) : NULL;
    cJSON_Delete(tree);
    return text;
}
