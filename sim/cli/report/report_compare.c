/* report_compare.c -- the page of a comparison: ratios with their intervals, what is traded for
 * what, and the order under presets. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/compare.h"
#include "kvt/json.h"
#include "page_tree.h"
#include "report.h"

/* The metrics that are drawn and tabled, of all that compare.json holds. */
static const struct {
    const char *name, *label;
    const char *column, *title; /* of a table, in this unit */
    double scale;
} shown[] = {
    {"output_throughput", "output", "output_tokens_per_s", "output, tokens/s", 1},
    {"mean_ttft_ms", "mean TTFT", "mean_ttft_s", "mean TTFT, s", 1e-3},
    {"post_wave_p99_ttft_ms", "p99 TTFT, post-wave", "post_wave_p99_ttft_s",
     "p99 TTFT post-wave, s", 1e-3},
    {"mean_tpot_ms", "mean TPOT", "mean_tpot_ms", "mean TPOT, ms", 1},
    {"p99_itl_ms", "p99 ITL", "p99_itl_ms", "p99 ITL, ms", 1},
    {"active_mean", "decoding at once", "decoding", "decoding", 1},
    {"host_fetch_share", "host fetch share", "host_fetch_percent", "host fetch, %", 100},
    {"coverage_mean", "coverage", "coverage_percent", "coverage, %", 100},
    {"hbm_kv_peak_bytes", "HBM peak", "hbm_peak_gib", "HBM peak, GiB", 1 / 1073741824.0},
};
enum {
    SHOWN = sizeof shown / sizeof shown[0],
    SAID_MAX = 6 /* variants that the answer speaks of */
};

static double of(const cJSON *variant, const char *object, const char *metric)
{
    return report_number(kvt_json_find(variant, object), metric);
}

/* An end of an interval; NaN where there is none. */
static double bound(const cJSON *variant, const char *object, const char *metric, int which)
{
    const cJSON *item =
        cJSON_GetArrayItem(kvt_json_find(kvt_json_find(variant, object), metric), which);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

static const char *first_name(const cJSON *variants)
{
    return report_text(cJSON_GetArrayItem(variants, 0), "name");
}

/* ---- The answer ------------------------------------------------------------------------------ */

/* "1.010 (1.009 to 1.011)". */
static const char *ratio_text(const cJSON *variant, const char *metric, char out[80])
{
    double low = bound(variant, "ratios_ci95", metric, 0);
    double high = bound(variant, "ratios_ci95", metric, 1);
    double ratio = of(variant, "ratios", metric);

    if (isfinite(low) && isfinite(high))
        snprintf(out, 80, "%.4g (%.4g to %.4g)", ratio, low, high);
    else
        snprintf(out, 80, "%.4g", ratio);
    return out;
}

static void say_variants(struct report_page *page, const cJSON *variants, const char *preset)
{
    const cJSON *variant = NULL;
    int nth = 0;

    cJSON_ArrayForEach(variant, variants)
    {
        char output[80], tpot[80];
        if (nth++ == 0 || nth > SAID_MAX)
            continue;
        report_say(page, "%s%s%s: output is %s times that of %s, time per token %s times.",
                   preset != NULL ? preset : "", preset != NULL ? ", " : "",
                   report_text(variant, "name"), ratio_text(variant, "output_throughput", output),
                   first_name(variants), ratio_text(variant, "mean_tpot_ms", tpot));
    }
    if (nth > SAID_MAX)
        report_say(page, "%d more are below.", nth - SAID_MAX);
}

static void say_order(struct report_page *page, const cJSON *tree)
{
    const cJSON *order = kvt_json_find(tree, "order"), *entry = NULL;
    bool changes = cJSON_IsTrue(kvt_json_find(order, "changes"));

    report_say(page, "By %s, the order %s.", report_text(order, "metric"),
               changes ? "changes between presets of the law" : "is the same under all presets");
    cJSON_ArrayForEach(entry, kvt_json_find(order, "reversals"))
    {
        report_say(page, "%s is ahead of %s under %s, and behind it under %s.",
                   report_text(entry, "a"), report_text(entry, "b"),
                   report_text(entry, "a_ahead_under"), report_text(entry, "b_ahead_under"));
    }
}

static void put_figures(struct report_page *page, const cJSON *variants)
{
    const cJSON *variant = NULL;
    int nth = 0;

    cJSON_ArrayForEach(variant, variants)
    {
        if (nth++ < SAID_MAX)
            report_figure(page, report_text(variant, "name"),
                          of(variant, "metrics", "output_throughput"), "tokens/s",
                          nth == 1 ? "what ratios are to" : NULL);
    }
}

static void put_assumptions(struct report_page *page, const cJSON *tree, const cJSON *variants)
{
    const cJSON *seeds = kvt_json_find(tree, "seeds"), *variant = NULL;
    int count = cJSON_GetArraySize(seeds);
    char text[128];

    snprintf(text, sizeof text, "%d, from %.0f on, the same for all; %s", count,
             cJSON_IsNumber(cJSON_GetArrayItem(seeds, 0))
                 ? cJSON_GetArrayItem(seeds, 0)->valuedouble
                 : (double)NAN,
             count > 1 ? "intervals are of 95 %, over seeds"
                       : "one seed has no interval: small differences prove nothing");
    report_assume(page, "Seeds", text, NULL);
    cJSON_ArrayForEach(variant, variants)
    {
        report_assume(page, report_text(variant, "name"),
                      cJSON_IsTrue(kvt_json_find(variant, "bound"))
                          ? "a policy of it saw the future: a bound, which cannot be had"
                          : "what its output rests on",
                      report_text(variant, "basis"));
    }
}

/* ---- Charts ---------------------------------------------------------------------------------- */

static void put_ratio(struct report_page *page, const cJSON *variant, const char *metric,
                      const char *category, bool is_log)
{
    double ratio = of(variant, "ratios", metric);

    if (isfinite(ratio) && (ratio > 0 || !is_log))
        report_point(page, (struct report_point){.series = report_text(variant, "name"),
                                                 .category = category,
                                                 .x = ratio,
                                                 .low = bound(variant, "ratios_ci95", metric, 0),
                                                 .high = bound(variant, "ratios_ci95", metric, 1)});
}

/* Whether ratios lie so far apart that equal factors should look equal. */
static bool spread_is_wide(const cJSON *variants)
{
    double least = INFINITY, most = 0;
    const cJSON *variant = NULL;

    cJSON_ArrayForEach(variant, variants)
    {
        for (size_t m = 0; m < SHOWN; m++) {
            double ratio = of(variant, "ratios", shown[m].name);
            if (isfinite(ratio) && ratio > 0) {
                least = fmin(least, ratio);
                most = fmax(most, ratio);
            }
        }
    }
    return most > 4 * least;
}

static void put_ratios(struct report_page *page, const cJSON *variants, const char *id,
                       const char *preset)
{
    char title[512];
    const struct report_chart chart = {
        .id = id,
        .title = title,
        .note = spread_is_wide(variants)
                    ? "Equal factors are equally far apart; a ratio of 0 has no "
                      "place here."
                    : NULL,
        .form = REPORT_DOTS,
        .x = {.name = "ratio", .title = "ratio", .is_log = spread_is_wide(variants)},
        .y = {.name = "metric", .title = "metric"},
        .series = "variant",
        .is_wide = true,
        .rules = {{.at = 1, .text = "equal"}},
        .rule_count = 1};
    const cJSON *variant = NULL;

    snprintf(title, sizeof title, "Ratios to %s%s%s", first_name(variants),
             preset != NULL ? ", preset " : "", preset != NULL ? preset : "");
    report_chart(page, &chart);
    for (variant = cJSON_GetArrayItem(variants, 1); variant != NULL; variant = variant->next) {
        for (size_t m = 0; m < SHOWN; m++)
            put_ratio(page, variant, shown[m].name, shown[m].label, chart.x.is_log);
    }
}

static void put_trade(struct report_page *page, const cJSON *variants, const char *id,
                      const char *title, const char *metric, struct report_axis y, double scale)
{
    const struct report_chart chart = {
        .id = id,
        .title = title,
        .form = REPORT_CLOUD,
        .x = {.name = "tokens_per_s_per_gpu", .title = "output, tokens/s a GPU"},
        .y = y,
        .series = "variant"};
    const cJSON *variant = NULL;

    report_chart(page, &chart);
    cJSON_ArrayForEach(variant, variants)
    {
        report_point(page,
                     (struct report_point){.series = report_text(variant, "name"),
                                           .x = of(variant, "metrics", "output_throughput_per_gpu"),
                                           .y = of(variant, "metrics", metric) * scale});
    }
}

static void put_trades(struct report_page *page, const cJSON *variants)
{
    put_trade(page, variants, "tpot-output", "Time per token against output", "mean_tpot_ms",
              (struct report_axis){.name = "tpot_ms", .title = "mean TPOT, ms"}, 1);
    put_trade(page, variants, "ttft-output", "Time to the first token against output",
              "mean_ttft_ms", (struct report_axis){.name = "ttft_s", .title = "mean TTFT, s"},
              1e-3);
}

/* The metric of the order, preset by preset. */
static void put_presets_chart(struct report_page *page, const cJSON *tree)
{
    const char *metric = report_text(kvt_json_find(tree, "order"), "metric");
    const cJSON *preset = NULL, *variant = NULL;
    char title[256];
    const struct report_chart chart = {.id = "presets",
                                       .title = title,
                                       .form = REPORT_DOTS,
                                       .x = {.name = "ratio", .title = "ratio to the first"},
                                       .y = {.name = "preset", .title = "preset"},
                                       .series = "variant",
                                       .is_wide = true,
                                       .rules = {{.at = 1, .text = "equal"}},
                                       .rule_count = 1};

    snprintf(title, sizeof title, "%s under each preset of the law", metric);
    report_chart(page, &chart);
    cJSON_ArrayForEach(preset, kvt_json_find(tree, "presets"))
    {
        cJSON_ArrayForEach(variant, kvt_json_find(preset, "variants"))
        {
            put_ratio(page, variant, metric, report_text(preset, "preset"), false);
        }
    }
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void put_table(struct report_page *page, const cJSON *variants, const char *id,
                      const char *title)
{
    struct report_column columns[SHOWN + 2] = {{"variant", "variant", true},
                                               {"output_ratio", "output ratio", false}};
    const cJSON *variant = NULL;

    for (size_t m = 0; m < SHOWN; m++)
        columns[m + 2] = (struct report_column){shown[m].column, shown[m].title, false};
    report_table(page, id, REPORT_MAIN, title, columns, SHOWN + 2);
    cJSON_ArrayForEach(variant, variants)
    {
        report_row(page);
        report_cell_text(page, report_text(variant, "name"), NULL);
        report_cell(page, of(variant, "ratios", "output_throughput"));
        for (size_t m = 0; m < SHOWN; m++)
            report_cell(page, of(variant, "metrics", shown[m].name) * shown[m].scale);
    }
}

static void put_all(struct report_page *page, const cJSON *variants, const char *id)
{
    static const struct report_column columns[] = {
        {"variant", "variant", true},       {"metric", "metric", true},
        {"value", "value", false},          {"value_low", "from", false},
        {"value_high", "to", false},        {"ratio", "ratio", false},
        {"ratio_low", "ratio from", false}, {"ratio_high", "ratio to", false}};
    const cJSON *variant = NULL, *metric = NULL;

    report_table(page, id, REPORT_FOLDED, "All metrics of all variants", columns,
                 sizeof columns / sizeof columns[0]);
    cJSON_ArrayForEach(variant, variants)
    {
        cJSON_ArrayForEach(metric, kvt_json_find(variant, "metrics"))
        {
            if (!cJSON_IsNumber(metric))
                continue;
            report_row(page);
            report_cell_text(page, report_text(variant, "name"), NULL);
            report_cell_text(page, metric->string, NULL);
            report_cell(page, metric->valuedouble);
            report_cell(page, bound(variant, "metrics_ci95", metric->string, 0));
            report_cell(page, bound(variant, "metrics_ci95", metric->string, 1));
            report_cell(page, of(variant, "ratios", metric->string));
            report_cell(page, bound(variant, "ratios_ci95", metric->string, 0));
            report_cell(page, bound(variant, "ratios_ci95", metric->string, 1));
        }
    }
}

static void put_conditions(struct report_page *page, const cJSON *list)
{
    static const struct report_column columns[] = {{"condition", "fails if", true},
                                                   {"variant", "variant", true},
                                                   {"ratio", "ratio", false},
                                                   {"verdict", "verdict", true}};
    const cJSON *entry = NULL;

    if (cJSON_GetArraySize(list) == 0)
        return;
    report_section(page, "Conditions", NULL);
    report_table(page, "conditions", REPORT_OPEN, NULL, columns,
                 sizeof columns / sizeof columns[0]);
    cJSON_ArrayForEach(entry, list)
    {
        bool failed = cJSON_IsTrue(kvt_json_find(entry, "failed"));
        report_row(page);
        report_cell_text(page, report_text(entry, "condition"), NULL);
        report_cell_text(page, report_text(entry, "variant"), NULL);
        report_cell(page, report_number(entry, "ratio"));
        report_cell_text(page, failed ? "fails" : "holds", failed ? "bad" : "good");
    }
}

static void put_reference(struct report_page *page, const cJSON *reference)
{
    static const struct report_column columns[] = {{"variant", "variant", true},
                                                   {"metric", "metric", true},
                                                   {"class", "class", true},
                                                   {"ours", "here", false},
                                                   {"reference", "there", false},
                                                   {"error_percent", "error, %", false},
                                                   {"tolerance_percent", "allowed, %", false},
                                                   {"verdict", "verdict", true}};
    const cJSON *entry = NULL;

    if (reference == NULL)
        return;
    report_section(page, "Beside published numbers", report_text(reference, "source"));
    report_table(page, "reference", REPORT_OPEN, report_text(reference, "name"), columns,
                 sizeof columns / sizeof columns[0]);
    cJSON_ArrayForEach(entry, kvt_json_find(reference, "values"))
    {
        bool within = cJSON_IsTrue(kvt_json_find(entry, "within"));
        report_row(page);
        report_cell_text(page, report_text(entry, "variant"), NULL);
        report_cell_text(page, report_text(entry, "metric"), NULL);
        report_cell_text(page, report_text(entry, "class"), NULL);
        report_cell(page, report_number(entry, "ours"));
        report_cell(page, report_number(entry, "reference"));
        report_cell(page, 100 * report_number(entry, "error_relative"));
        report_cell(page, 100 * report_number(entry, "tolerance"));
        report_cell_text(page, within ? "within" : "outside", within ? "good" : "bad");
    }
}

static void put_scenarios(struct report_page *page, const cJSON *variants)
{
    const cJSON *variant = NULL;

    report_section(page, "The scenarios in force", NULL);
    cJSON_ArrayForEach(variant, variants)
    {
        char *text = kvt_json_print(kvt_json_find(variant, "scenario"));
        if (text != NULL)
            report_fold(page, report_text(variant, "name"), text);
        free(text);
    }
}

/* ---- The page -------------------------------------------------------------------------------- */

static void put_one(struct report_page *page, const cJSON *tree)
{
    const cJSON *variants = kvt_json_find(tree, "variants");

    say_variants(page, variants, NULL);
    put_figures(page, variants);
    put_assumptions(page, tree, variants);
    report_add_badge(page, tree);
    report_section(page, "Beside each other", NULL);
    put_ratios(page, variants, "ratios", NULL);
    put_trades(page, variants);
    put_table(page, variants, "variants", NULL);
    put_all(page, variants, "all");
    put_conditions(page, kvt_json_find(tree, "fail_if"));
    put_reference(page, kvt_json_find(tree, "reference"));
    put_scenarios(page, variants);
}

static void put_presets(struct report_page *page, const cJSON *tree)
{
    const cJSON *presets = kvt_json_find(tree, "presets"), *preset = NULL;
    const cJSON *first = kvt_json_find(cJSON_GetArrayItem(presets, 0), "variants");

    say_order(page, tree);
    put_assumptions(page, tree, first);
    report_add_badge(page, cJSON_GetArrayItem(presets, 0));
    report_section(page, "Under each preset", NULL);
    put_presets_chart(page, tree);
    cJSON_ArrayForEach(preset, presets)
    {
        const cJSON *variants = kvt_json_find(preset, "variants");
        const char *name = report_text(preset, "preset");
        char id[96], title[96];
        snprintf(title, sizeof title, "Preset %.64s", name);
        report_section(page, title, NULL);
        snprintf(id, sizeof id, "ratios-%.64s", name);
        put_ratios(page, variants, id, name);
        snprintf(id, sizeof id, "variants-%.64s", name);
        put_table(page, variants, id, NULL);
        snprintf(id, sizeof id, "all-%.64s", name);
        put_all(page, variants, id);
        put_conditions(page, kvt_json_find(preset, "fail_if"));
    }
    put_scenarios(page, first);
}

kvt_status report_build_compare(struct report_page *page, const char *dir, const cJSON *tree,
                                struct kvt_error *err)
{
    (void)dir;
    (void)err;
    if (strcmp(report_text(tree, "ending"), "interrupted") == 0)
        report_say(page,
                   "The comparison was interrupted: seeds that not every variant has finished "
                   "are left out.");
    const cJSON *presets = kvt_json_find(tree, "presets");
    const cJSON *variants =
        kvt_json_find(presets != NULL ? cJSON_GetArrayItem(presets, 0) : tree, "variants");
    report_title(page, "%s and %d beside it", first_name(variants),
                 cJSON_GetArraySize(variants) - 1);
    if (presets != NULL)
        put_presets(page, tree);
    else
        put_one(page, tree);
    return KVT_OK;
}
