/* report_explain.c -- what binds, and where time and bytes went: `explain` of a result, drawn. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/json.h"
#include "page_tree.h"
#include "report.h"

enum {
    NAME_BYTES = 64
};

/* "beside_steps" as people write it, and "misses_bytes" as what it is of. */
static const char *words(const char *name, char out[NAME_BYTES])
{
    size_t i = 0;

    for (; name[i] != '\0' && strcmp(name + i, "_bytes") != 0 && i + 1 < NAME_BYTES; i++) {
        out[i] = name[i];
        if (name[i] == '_')
            out[i] = ' ';
    }
    out[i] = '\0';
    return out;
}

static double at(const cJSON *tree, const char *path)
{
    return report_number(tree, path);
}

/* ---- Parts of latencies ---------------------------------------------------------------------- */

/* Members of an object as parts of one bar; nothing where none is above 0. */
static void put_parts(struct report_page *page, const char *bar, const cJSON *parts, double scale)
{
    const cJSON *part = NULL;
    char name[NAME_BYTES];

    cJSON_ArrayForEach(part, parts)
    {
        if (cJSON_IsNumber(part) && part->valuedouble > 0)
            report_point(page, (struct report_point){.series = words(part->string, name),
                                                     .category = bar,
                                                     .x = part->valuedouble * scale});
    }
}

static void begin_bars(struct report_page *page, const char *id, const char *title,
                       const char *note, const char *name, const char *unit)
{
    const struct report_chart chart = {.id = id,
                                       .title = title,
                                       .note = note,
                                       .form = REPORT_BARS,
                                       .x = {.name = name, .title = unit, .is_from_zero = true},
                                       .y = {.name = "of", .title = "of"},
                                       .series = "part"};

    report_chart(page, &chart);
}

/* One latency, of the run and of each of its phases. */
static void put_latency(struct report_page *page, const cJSON *result, const char *latency,
                        double scale)
{
    const cJSON *phases = kvt_json_find(result, "phases"), *phase = NULL;
    const cJSON *whole = kvt_json_find(kvt_json_find(result, "explain"), latency);

    put_parts(page, "the run", kvt_json_find(whole, "parts_ms"), scale);
    if (cJSON_GetArraySize(phases) < 2)
        return;
    cJSON_ArrayForEach(phase, phases)
    {
        const cJSON *own = kvt_json_find(kvt_json_find(phase, "explain"), latency);
        char bar[NAME_BYTES];
        snprintf(bar, sizeof bar, "phase %.0f", at(phase, "phase"));
        put_parts(page, bar, kvt_json_find(own, "parts_ms"), scale);
    }
}

/* ---- Bytes, rows, room ----------------------------------------------------------------------- */

static void put_bytes(struct report_page *page, const cJSON *bytes)
{
    static const struct {
        const char *key, *name;
    } ways[] = {{"link_in", "link, in"}, {"link_out", "link, out"}, {"dram", "host DRAM"}};

    begin_bars(page, "bytes", "What crossed links and host DRAM", NULL, "gb", "GB");
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        const cJSON *part = NULL;
        char name[NAME_BYTES];
        cJSON_ArrayForEach(part, kvt_json_find(bytes, ways[w].key))
        {
            size_t length = strlen(part->string);
            if (length > 6 && strcmp(part->string + length - 6, "_bytes") == 0 &&
                cJSON_IsNumber(part) && part->valuedouble > 0)
                report_point(page, (struct report_point){.series = words(part->string, name),
                                                         .category = ways[w].name,
                                                         .x = part->valuedouble * 1e-9});
        }
    }
}

static void put_rows(struct report_page *page, const cJSON *rows)
{
    static const char *const places[] = {"tail", "optional", "hot", "missed"};

    begin_bars(page, "rows", "Where selected rows were found", NULL, "percent", "% of selections");
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        double share = at(rows, places[i]);
        if (share > 0)
            report_point(page, (struct report_point){
                                   .series = places[i], .category = "selected", .x = 100 * share});
    }
}

static void put_uses(struct report_page *page, const cJSON *batch)
{
    const cJSON *use = NULL;
    char name[NAME_BYTES];

    begin_bars(page, "uses", "How full each thing is, on average", NULL, "percent", "% in use");
    cJSON_ArrayForEach(use, kvt_json_find(batch, "uses"))
    {
        double share = at(use, "utilisation");
        if (isfinite(share))
            report_point(page,
                         (struct report_point){.series = "in use",
                                               .category = words(report_text(use, "what"), name),
                                               .x = 100 * share});
    }
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void put_worth(struct report_page *page, const cJSON *explain)
{
    static const struct report_column columns[] = {
        {"change", "a change", true},
        {"tpot_ms", "TPOT, ms", false},
        {"tpot_change_percent", "change, %", false},
        {"more_slots", "more slots", false},
        {"output_tokens_per_s", "output, tokens/s", false},
        {"assumes", "to first order, assuming", true}};
    const cJSON *entry = NULL;
    char name[NAME_BYTES];

    report_table(page, "worth", REPORT_OPEN, "What a change would be worth", columns,
                 sizeof columns / sizeof columns[0]);
    cJSON_ArrayForEach(entry, kvt_json_find(explain, "worth"))
    {
        report_row(page);
        report_cell_text(page, words(report_text(entry, "change"), name), NULL);
        report_cell(page, at(entry, "tpot_ms"));
        report_cell(page, 100 * at(entry, "tpot_change"));
        report_cell(page, at(entry, "more_slots"));
        report_cell(page, at(entry, "output_tokens_per_s"));
        report_cell_text(page, report_text(entry, "assumes"), "soft");
    }
}

/* A row a step of the load; what one lacks is left open. */
static void put_transitions(struct report_page *page, const cJSON *list)
{
    static const struct report_column columns[] = {
        {"at_s", "step at, s", false},
        {"from_concurrency", "from", false},
        {"to_concurrency", "to", false},
        {"admission_after_step_s", "all admitted after, s", false},
        {"first_tokens_after_step_s", "first tokens after, s", false},
        {"worst_itl_second_ms", "worst second of ITL, ms", false},
        {"coverage_before", "coverage before", false},
        {"coverage_regain_s", "regained after, s", false},
        {"slo_violation_s", "bounds missed for, s", false}};
    const cJSON *entry = NULL;

    if (cJSON_GetArraySize(list) == 0)
        return;
    report_table(page, "transitions", REPORT_OPEN, "Steps of the load", columns,
                 sizeof columns / sizeof columns[0]);
    cJSON_ArrayForEach(entry, list)
    {
        report_row(page);
        for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++)
            report_cell(page, at(entry, columns[c].name));
    }
}

static void say_limit(struct report_page *page, const cJSON *batch)
{
    const char *next = report_text(batch, "next");
    double times = at(batch, "next_at_times");
    double prefilling = at(batch, "prefilling_mean");
    char name[NAME_BYTES], prefill[48] = "";

    if (prefilling > 0)
        snprintf(prefill, sizeof prefill, "%.1f are in or before prefill, ", prefilling);
    report_paragraph(
        page,
        "The batch: %s. On average %.1f decode, %s%.1f are imported, %.1f wait; there are "
        "%.0f slots.",
        report_text(batch, "says"), at(batch, "decoding_mean"), prefill,
        at(batch, "importing_mean"), at(batch, "waiting_mean"), at(batch, "slots"));
    if (next[0] != '\0' && isfinite(times))
        report_paragraph(page, "What would bind next: %s, at %.3g times the requests.",
                         words(next, name), times);
}

bool report_add_explain(struct report_page *page, const cJSON *result)
{
    const cJSON *explain = kvt_json_find(result, "explain");
    const cJSON *batch = kvt_json_find(explain, "batch");

    if (explain == NULL)
        return false;
    report_section(page, "What binds", NULL);
    say_limit(page, batch);
    begin_bars(page, "tpot-parts", "What a token takes: TPOT",
               "Of the requests, each of which counts alike.", "ms", "ms");
    put_latency(page, result, "tpot", 1);
    begin_bars(page, "ttft-parts", "What the first token waits for: TTFT", NULL, "s", "s");
    put_latency(page, result, "ttft", 1e-3);
    put_uses(page, batch);
    put_rows(page, kvt_json_find(explain, "rows"));
    put_bytes(page, kvt_json_find(explain, "bytes"));
    put_worth(page, explain);
    put_transitions(page, kvt_json_find(result, "transitions"));
    return true;
}
