/* report_run.c -- the page of a run: result.json with the files beside it. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "course.h"
#include "kvt/arena.h"
#include "kvt/json.h"
#include "kvt/report.h"
#include "page_tree.h"
#include "report.h"
#include "spread.h"

#define GIB 1073741824.0
#define FAR_TIMES 1.5 /* the end of an axis: what is farther is left outside it */

/* What the parts of the page are made from. */
struct source {
    struct report_page *page;
    const cJSON *tree;
    struct course *course;
    double warmup_s, end_s; /* the end of the last bin of the course */
    struct report_rule rules[32];
    size_t rule_count;
    char rule_texts[32][16];
};

static double metric(const struct source *source, const char *name)
{
    return report_number(kvt_json_find(source->tree, "metrics"), name);
}

static const char *basis(const struct source *source, const char *name)
{
    const char *text =
        name != NULL ? report_text(kvt_json_find(source->tree, "metrics_basis"), name) : "";
    return text[0] != '\0' ? text : NULL;
}

static const char *choice(const cJSON *scenario, const char *object, const char *key)
{
    return report_text(kvt_json_find(scenario, object), key);
}

/* ---- The answer ------------------------------------------------------------------------------ */

/* "4 x b300", of one pool; "" of several, or of hardware that is changed on the spot. */
static const char *machine_text(const cJSON *scenario, char out[128])
{
    const cJSON *decode = kvt_json_find(kvt_json_find(scenario, "cluster"), "decode");
    const char *own = report_text(decode, "hardware"), *all = report_text(scenario, "hardware");
    double gpus = report_number(decode, "gpus");

    out[0] = '\0';
    if (isfinite(gpus) && (own[0] != '\0' || all[0] != '\0'))
        snprintf(out, 128, " on %.0f x %.100s", gpus, own[0] != '\0' ? own : all);
    return out;
}

static void metric_text(const struct source *source, const char *name,
                        char out[REPORT_NUMBER_BYTES])
{
    report_number_text(kvt_json_find(kvt_json_find(source->tree, "metrics"), name), out);
}

static void say_answer(const struct source *source)
{
    const cJSON *scenario = kvt_json_find(source->tree, "scenario");
    struct report_page *page = source->page;
    const char *model = report_text(scenario, "model");
    char output[REPORT_NUMBER_BYTES], tpot[REPORT_NUMBER_BYTES], machine[128];
    char active[REPORT_NUMBER_BYTES], slots[REPORT_NUMBER_BYTES];

    metric_text(source, "output_throughput", output);
    metric_text(source, "mean_tpot_ms", tpot);
    metric_text(source, "active_mean", active);
    metric_text(source, "slots", slots);
    report_say(page,
               "%s%s under %s: %s output tokens a second at %s ms a token on average; %s requests "
               "decode at once, and %s fit.",
               model[0] != '\0' ? model : "The model", machine_text(scenario, machine),
               choice(scenario, "residency", "policy"), output, tpot, active, slots);
    if (strcmp(report_text(source->tree, "ending"), "interrupted") == 0)
        report_say(page, "The run was interrupted: what is here is until then.");
    if (cJSON_IsTrue(kvt_json_find(source->tree, "bound")))
        report_say(page, "A policy of it saw the future: this is a bound, which cannot be had.");
}

/* "p99 2.31" of a latency, in the unit of its figure. */
static const char *at_p99(const struct source *source, const char *name, double scale,
                          const char *unit, char out[48])
{
    double value = metric(source, name) * scale;
    if (!isfinite(value))
        return NULL;
    snprintf(out, 48, "p99 %.4g %s", value, unit);
    return out;
}

static void put_figures(const struct source *source)
{
    struct report_page *page = source->page;
    char note[48];

    report_figure(page, "Output", metric(source, "output_throughput"), "tokens/s", NULL);
    report_figure(page, "Output per GPU", metric(source, "output_throughput_per_gpu"), "tokens/s",
                  NULL);
    report_figure(page, "TTFT, mean", metric(source, "mean_ttft_ms") * 1e-3, "s",
                  at_p99(source, "p99_ttft_ms", 1e-3, "s", note));
    report_figure(page, "TPOT, mean", metric(source, "mean_tpot_ms"), "ms",
                  at_p99(source, "p99_tpot_ms", 1, "ms", note));
    report_figure(page, "Decoding at once", metric(source, "active_mean"), "", NULL);
    report_figure(page, "Host fetch share", metric(source, "host_fetch_share") * 100, "%",
                  "of selected rows");
    report_figure(page, "Coverage, mean", metric(source, "coverage_mean") * 100, "%",
                  "of history in HBM beyond the tail");
    report_figure(page, "HBM peak", metric(source, "hbm_kv_peak_bytes") / GIB, "GiB", "all GPUs");
    report_figure(page, "Host peak", metric(source, "host_peak_bytes") / GIB, "GiB", "all nodes");
    report_figure(page, "Completed", metric(source, "completed"), "requests", NULL);
    if (metric(source, "request_goodput") >= 0)
        report_figure(page, "Goodput", metric(source, "request_goodput"), "requests/s", NULL);
    if (metric(source, "usd_per_hour") >= 0) {
        snprintf(note, sizeof note, "%.4g USD an hour", metric(source, "usd_per_hour"));
        report_figure(page, "A million output tokens",
                      metric(source, "usd_per_million_output_tokens"), "USD", note);
    }
    if (metric(source, "energy_kwh") >= 0) {
        snprintf(note, sizeof note, "%.4g kW on average", metric(source, "mean_power_watts") / 1e3);
        report_figure(page, "An output token", metric(source, "joules_per_output_token"), "J",
                      note);
    }
}

/* What one part of the answer rests on, as the summary's line `basis` has it; of a result of before
 * results explained themselves, a metric's that it reaches. */
static const char *part_basis(const struct source *source, const char *part, const char *name)
{
    const cJSON *own = kvt_json_find(kvt_json_find(source->tree, "explain"), "basis");
    const char *text = report_text(own, part);
    return text[0] != '\0' ? text : own == NULL ? basis(source, name) : NULL;
}

static void put_assumptions(const struct source *source)
{
    struct report_page *page = source->page;
    const cJSON *scenario = kvt_json_find(source->tree, "scenario"), *item = NULL;
    const cJSON *cluster = kvt_json_find(scenario, "cluster");
    const char *prefill = part_basis(source, "prefill", NULL);
    const char *drafts = part_basis(source, "drafts", NULL);
    char text[256];

    report_assume(page, "Which rows are selected, and missed",
                  report_text(source->tree, "selections"),
                  part_basis(source, "rows", "host_fetch_share"));
    snprintf(text, sizeof text, "timing model %s", choice(scenario, "timing", "model"));
    report_assume(page, "Step times", text, part_basis(source, "step_times", "mean_tpot_ms"));
    snprintf(text, sizeof text, "import law %s", choice(cluster, "import", "law"));
    report_assume(page, "Imports", text, part_basis(source, "imports", "mean_ttft_ms"));
    if (prefill != NULL)
        report_assume(page, "Prefill", "", prefill);
    if (drafts != NULL)
        report_assume(page, "Which drafts are accepted", choice(scenario, "speculation", "method"),
                      drafts);
    report_assume(page, "Output, TPOT, TTFT", "the weakest of what they follow from",
                  basis(source, "output_throughput"));
    report_assume(page, "Bytes, slots", "counted from the model's layout", basis(source, "slots"));
    snprintf(text, sizeof text, "%d",
             cJSON_GetArraySize(kvt_json_find(source->tree, "calibrated")));
    if (strcmp(text, "0") != 0)
        report_assume(page, "Constants fitted to something", text, NULL);
    cJSON_ArrayForEach(item, kvt_json_find(source->tree, "calibrated"))
    {
        report_assume_more(page, cJSON_IsString(item) ? item->valuestring : "");
    }
    cJSON_ArrayForEach(
        item, kvt_json_find(kvt_json_find(kvt_json_find(source->tree, "scaled"), "rows"), "strata"))
    {
        snprintf(text, sizeof text,
                 "%.6g of %.6g stores of compress ratio %.6g are followed row by row, and each row "
                 "stands for %.4g",
                 report_number(item, "followed"), report_number(item, "stores"),
                 report_number(item, "compress_ratio"), report_number(item, "scale"));
        report_assume(page, "Scaled", text, NULL);
    }
}

/* ---- Over time ------------------------------------------------------------------------------- */

static void begin_course(const struct source *source, const char *id, const char *title,
                         const char *series, struct report_axis y, enum report_form form)
{
    struct report_chart chart = {.id = id,
                                 .title = title,
                                 .form = form,
                                 .x = {.name = "time_s", .title = "time, s", .is_from_zero = true},
                                 .y = y,
                                 .series = series,
                                 .rule_count = source->rule_count};

    memcpy(chart.rules, source->rules, sizeof chart.rules);
    report_chart(source->page, &chart);
}

/* A column over the middles of the bins. by: COURSE_COLUMNS: as it stands, or divided by the bin's
 * seconds (COURSE_TO_S). */
static void put_column(const struct source *source, const char *name, enum course_column column,
                       bool is_rate, double scale)
{
    const struct course *course = source->course;
    bool is_zero = true;

    for (size_t b = 0; b < course->bin_count; b++)
        is_zero = is_zero && !(fabs(course->bins[b][column]) > 0);
    if (is_zero) /* a thing that never happens has no line */
        return;
    for (size_t b = 0; b < course->bin_count; b++) {
        const double *bin = course->bins[b];
        double span_s = bin[COURSE_TO_S] - bin[COURSE_FROM_S];
        double y = bin[column] * scale / (is_rate ? span_s : 1);
        report_point(source->page,
                     (struct report_point){
                         .series = name, .x = (bin[COURSE_FROM_S] + bin[COURSE_TO_S]) / 2, .y = y});
    }
}

static void put_courses(const struct source *source)
{
    char note[128] = "";

    if (source->course->bin_count == 0)
        return;
    if (source->course->rows_per_bin > 1)
        snprintf(note, sizeof note, "Each point is a mean over %zu intervals of timeline.csv.",
                 source->course->rows_per_bin);
    report_section(source->page, "Over time", note);
    begin_course(source, "requests", "Requests that decode, are imported, and wait", "state",
                 (struct report_axis){"requests", "requests", .is_from_zero = true}, REPORT_LINES);
    put_column(source, "decoding", COURSE_DECODING, false, 1);
    put_column(source, "importing", COURSE_IMPORTING, false, 1);
    put_column(source, "waiting", COURSE_WAITING, false, 1);
    begin_course(source, "output", "Output", "series",
                 (struct report_axis){"tokens_per_s", "tokens/s", .is_from_zero = true},
                 REPORT_LINES);
    put_column(source, "all ranks", COURSE_OUTPUT_TOKENS, true, 1);
    begin_course(source, "shares", "History in HBM, and selected rows that cross the link",
                 "share of", (struct report_axis){"percent", "%", .is_from_zero = true},
                 REPORT_LINES);
    put_column(source, "coverage", COURSE_COVERAGE, false, 100);
    put_column(source, "host fetch share", COURSE_HOST_FETCH_SHARE, false, 100);
    begin_course(source, "step", "Mean duration of a step", "series",
                 (struct report_axis){"step_ms", "ms", .is_from_zero = true}, REPORT_LINES);
    put_column(source, "step", COURSE_STEP_MS, false, 1);
    begin_course(source, "link", "Bytes over the link, both ways", "what",
                 (struct report_axis){"gb_per_s", "GB/s", .is_from_zero = true}, REPORT_AREAS);
    put_column(source, "missed rows", COURSE_H2D_BYTES, true, 1e-9);
    put_column(source, "pages filled", COURSE_FILL_BYTES, true, 1e-9);
    put_column(source, "imports", COURSE_IMPORT_BYTES, true, 1e-9);
    put_column(source, "written back", COURSE_D2H_BYTES, true, 1e-9);
    begin_course(source, "memory", "Most KV bytes held in an interval", "where",
                 (struct report_axis){"gib", "GiB", .is_from_zero = true}, REPORT_LINES);
    put_column(source, "HBM, all GPUs", COURSE_HBM_PEAK_BYTES, false, 1 / GIB);
    put_column(source, "host, all nodes", COURSE_HOST_PEAK_BYTES, false, 1 / GIB);
    begin_course(source, "preemptions", "Requests put aside for want of memory", "series",
                 (struct report_axis){"per_s", "requests/s", .is_from_zero = true}, REPORT_LINES);
    put_column(source, "preemptions", COURSE_PREEMPTIONS, true, 1);
}

/* ---- Spreads and parts ----------------------------------------------------------------------- */

static void put_spread(struct report_page *page, const char *name, const struct spread *spread)
{
    for (size_t i = 0; i < spread->count; i++)
        report_point(page, (struct report_point){.series = name,
                                                 .x = spread->values[i],
                                                 .y = 100 * spread->shares[i]});
}

/* Begins the chart of these spreads. A few that are far longer than all others would leave the rest
 * no room: where they are, the axis ends where 99.9 % of each are. The points are all there. */
static void begin_spread(struct report_page *page, const char *id, const char *title,
                         struct report_axis x, const struct spread *a, const struct spread *b)
{
    double end = fmax(spread_at(a, 0.999), spread_at(b, 0.999));
    double longest = fmax(spread_at(a, 1), spread_at(b, 1));
    char note[192] = "", at_end[REPORT_NUMBER_BYTES], farthest[REPORT_NUMBER_BYTES];

    x.is_from_zero = true;
    if (longest > FAR_TIMES * end) {
        snprintf(note, sizeof note,
                 "The axis ends at %s %s, which 99.9 %% of each do not exceed; the longest is "
                 "%s %s.",
                 report_value_text(end, at_end), x.title, report_value_text(longest, farthest),
                 x.title);
        x.most = end;
    }
    const struct report_chart chart = {
        .id = id,
        .title = title,
        .note = note,
        .form = REPORT_LINES,
        .x = x,
        .y = {.name = "percent_at_most", .title = "% of them, at most", .is_from_zero = true},
        .series = "latency"};

    report_chart(page, &chart);
}

static kvt_status put_spreads(const struct source *source, const char *dir, struct kvt_arena *arena,
                              struct kvt_error *err)
{
    struct spread *of = kvt_arena_array(arena, LATENCIES + 1, sizeof *of, _Alignof(struct spread));
    const char *requests = kvt_arena_printf(arena, "%s/requests.csv", dir);
    const char *itl = kvt_arena_printf(arena, "%s/itl.csv", dir);

    if (of == NULL || requests == NULL || itl == NULL)
        return kvt_fail_nomem(err, "a report");
    kvt_status status = spread_load_requests(requests, source->warmup_s, of, err);
    if (status == KVT_OK)
        status = spread_load_itl(itl, &of[LATENCIES], err);
    if (status != KVT_OK)
        return status;
    report_section(source->page, "How latencies are spread", NULL);
    begin_spread(source->page, "ttft", "Time to the first token, and to the last",
                 (struct report_axis){.name = "seconds", .title = "s"}, &of[LATENCY_TTFT_S],
                 &of[LATENCY_E2E_S]);
    put_spread(source->page, "TTFT", &of[LATENCY_TTFT_S]);
    put_spread(source->page, "E2E", &of[LATENCY_E2E_S]);
    begin_spread(source->page, "tpot", "Time per token: by request, and between deliveries",
                 (struct report_axis){.name = "milliseconds", .title = "ms"}, &of[LATENCY_TPOT_MS],
                 &of[LATENCIES]);
    put_spread(source->page, "TPOT", &of[LATENCY_TPOT_MS]);
    put_spread(source->page, "ITL", &of[LATENCIES]);
    return KVT_OK;
}

/* Members of an object as parts of one bar. */
static void put_parts(struct report_page *page, const cJSON *object, const char *bar, double scale)
{
    const cJSON *part = NULL;

    cJSON_ArrayForEach(part, object)
    {
        if (cJSON_IsNumber(part) && part->valuedouble > 0)
            report_point(page, (struct report_point){.series = part->string,
                                                     .category = bar,
                                                     .x = part->valuedouble * scale});
    }
}

static void put_bars(const struct source *source)
{
    const cJSON *measured = kvt_json_find(source->tree, "measured");
    const struct report_chart parts = {.id = "step-parts",
                                       .title = "What a step is made of, on average",
                                       .form = REPORT_BARS,
                                       .x = {.name = "ms", .title = "ms", .is_from_zero = true},
                                       .y = {.name = "step", .title = "step"},
                                       .series = "part"};
    const struct report_chart memory = {.id = "hbm-classes",
                                        .title = "What HBM holds at its peak, all GPUs",
                                        .form = REPORT_BARS,
                                        .x = {.name = "gib", .title = "GiB", .is_from_zero = true},
                                        .y = {.name = "memory", .title = "memory"},
                                        .series = "class"};

    report_section(source->page, "Parts", NULL);
    report_chart(source->page, &parts);
    put_parts(source->page, kvt_json_find(source->tree, "step_parts_ms"), "predicted", 1);
    put_parts(source->page, kvt_json_find(measured, "step_parts_ms"), "measured", 1);
    report_chart(source->page, &memory);
    put_parts(source->page, kvt_json_find(source->tree, "hbm_kv_peak_by_class"), "HBM", 1 / GIB);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void put_metric(const struct source *source, const struct kvt_metric_doc *doc)
{
    double value = metric(source, doc->name);
    const char *rests_on = basis(source, doc->name);

    if (!isfinite(value))
        return;
    report_row(source->page);
    report_cell_text(source->page, doc->name, NULL);
    report_cell(source->page, value);
    report_cell_text(source->page, strcmp(doc->unit, "1") == 0 ? "" : doc->unit, NULL);
    report_cell_text(source->page, rests_on != NULL ? rests_on : "", NULL);
    report_cell_text(source->page, doc->help, "soft");
}

static bool is_main(const char *name)
{
    static const char *const names[] = {"output_throughput",  "output_throughput_per_gpu",
                                        "request_throughput", "request_goodput",
                                        "mean_ttft_ms",       "p99_ttft_ms",
                                        "mean_tpot_ms",       "p99_tpot_ms",
                                        "mean_itl_ms",        "p99_itl_ms",
                                        "active_mean",        "slots",
                                        "host_fetch_share",   "hot_miss_ratio",
                                        "coverage_mean",      "tokens_per_round",
                                        "hbm_kv_peak_bytes",  "host_peak_bytes",
                                        "preemptions"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0)
            return true;
    }
    return false;
}

static void put_metrics(const struct source *source)
{
    static const struct report_column columns[] = {{"metric", "metric", true},
                                                   {"value", "value", false},
                                                   {"unit", "unit", true},
                                                   {"basis", "rests on", true},
                                                   {"help", "what it is", true}};
    const size_t column_count = sizeof columns / sizeof columns[0];
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);

    report_section(source->page, "Metrics", NULL);
    report_table(source->page, "metrics", REPORT_MAIN, NULL, columns, column_count);
    for (size_t m = 0; m < count; m++) {
        if (is_main(docs[m].name))
            put_metric(source, &docs[m]);
    }
    report_table(source->page, "all-metrics", REPORT_FOLDED, "All of them", columns, column_count);
    for (size_t m = 0; m < count; m++)
        put_metric(source, &docs[m]);
}

static void put_phases(const struct source *source)
{
    static const char *const shown[] = {"output_throughput", "active_mean",      "mean_ttft_ms",
                                        "mean_tpot_ms",      "host_fetch_share", "coverage_mean"};
    static const struct report_column columns[] = {{"phase", "phase", false},
                                                   {"from_s", "from, s", false},
                                                   {"to_s", "to, s", false},
                                                   {"output_throughput", "output, tokens/s", false},
                                                   {"active_mean", "decoding", false},
                                                   {"mean_ttft_ms", "mean TTFT, ms", false},
                                                   {"mean_tpot_ms", "mean TPOT, ms", false},
                                                   {"host_fetch_share", "host fetch share", false},
                                                   {"coverage_mean", "coverage", false}};
    const cJSON *phases = kvt_json_find(source->tree, "phases"), *phase = NULL;

    if (cJSON_GetArraySize(phases) < 2)
        return;
    report_section(source->page, "Phases of the load", NULL);
    report_table(source->page, "phases", REPORT_OPEN, NULL, columns,
                 sizeof columns / sizeof columns[0]);
    cJSON_ArrayForEach(phase, phases)
    {
        report_row(source->page);
        report_cell(source->page, report_number(phase, "phase"));
        report_cell(source->page, report_number(phase, "from_s"));
        report_cell(source->page, report_number(phase, "to_s"));
        for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
            report_cell(source->page, report_number(kvt_json_find(phase, "metrics"), shown[i]));
    }
}

static void put_conservation(const struct source *source)
{
    const cJSON *requests = kvt_json_find(source->tree, "requests");
    const cJSON *rows = kvt_json_find(source->tree, "rows_followed");
    struct report_page *page = source->page;

    report_section(page, "What must add up", "A run in which it does not ends with an error.");
    report_line(page,
                "requests: arrived %.0f = completed %.0f + running %.0f + waiting %.0f + dropped "
                "%.0f (unservable)",
                report_number(requests, "arrived"), report_number(requests, "completed"),
                report_number(requests, "running"), report_number(requests, "waiting"),
                report_number(requests, "dropped.unservable"));
    report_line(page,
                "selected %.0f of followed calls = tail %.0f + optional %.0f + hot %.0f + missed "
                "%.0f",
                report_number(rows, "selected"), report_number(rows, "tail"),
                report_number(rows, "optional"), report_number(rows, "hot"),
                report_number(rows, "missed"));
    report_line(page,
                "distinct %.0f of followed calls = tail %.0f + optional %.0f + hot %.0f + filled "
                "%.0f + staged %.0f",
                report_number(rows, "distinct"), report_number(rows, "distinct_tail"),
                report_number(rows, "distinct_optional"), report_number(rows, "distinct_hot"),
                report_number(rows, "filled"), report_number(rows, "staged"));
    const char *hash = report_text(source->tree, "decision_hash");
    report_line(page, "decision hash %s, seed %.0f",
                hash[0] != '\0' ? hash : "none (mean values decide nothing)",
                report_number(source->tree, "scenario.seed"));
}

/* ---- The page -------------------------------------------------------------------------------- */

static void add_rule(struct source *source, double at_s, const char *text)
{
    size_t r = source->rule_count;

    if (!isfinite(at_s) || r == sizeof source->rules / sizeof source->rules[0])
        return;
    snprintf(source->rule_texts[r], sizeof source->rule_texts[r], "%s", text);
    source->rules[r] = (struct report_rule){.at = at_s, .text = source->rule_texts[r]};
    source->rule_count++;
}

/* Where phases of the load begin, but for the first; and where something fails and is back. */
static void find_rules(struct source *source)
{
    const cJSON *phase = NULL, *fault = NULL;
    char text[16];

    cJSON_ArrayForEach(phase, kvt_json_find(source->tree, "phases"))
    {
        double nth = report_number(phase, "phase");
        snprintf(text, sizeof text, "phase %.0f", nth);
        if (nth > 0)
            add_rule(source, report_number(phase, "from_s"), text);
    }
    cJSON_ArrayForEach(fault, kvt_json_find(source->tree, "faults"))
    {
        double which = report_number(fault, "which");
        if (!cJSON_IsTrue(kvt_json_find(fault, "struck")))
            continue;
        if (isfinite(which))
            snprintf(text, sizeof text, "%.6s %.0f fails", report_text(fault, "kind"), which);
        else
            snprintf(text, sizeof text, "%.7s fails", report_text(fault, "kind"));
        add_rule(source, report_number(fault, "at_s"), text);
        if (report_number(fault, "back_at_s") <= source->end_s)
            add_rule(source, report_number(fault, "back_at_s"), "back");
    }
}

static kvt_status load_course(struct source *source, const char *dir, struct kvt_arena *arena,
                              struct kvt_error *err)
{
    const char *path = kvt_arena_printf(arena, "%s/timeline.csv", dir);

    source->course = kvt_arena_alloc(arena, sizeof *source->course, _Alignof(struct course));
    if (path == NULL || source->course == NULL)
        return kvt_fail_nomem(err, "a report");
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return kvt_fail(err, KVT_ERR_NOT_FOUND, path,
                        "found none; the page of a run is drawn from result.json and from "
                        "timeline.csv, requests.csv and itl.csv beside it, which kvtide run "
                        "result.json --out DIR makes again");
    return course_load(path, source->course, err);
}

kvt_status report_build_run(struct report_page *page, const char *dir, const cJSON *tree,
                            struct kvt_error *err)
{
    struct source source = {
        .page = page, .tree = tree, .warmup_s = report_number(tree, "warmup_s")};
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    kvt_status status =
        arena != NULL ? load_course(&source, dir, arena, err) : kvt_fail_nomem(err, "a report");

    if (status == KVT_OK) {
        if (source.course->bin_count > 0)
            source.end_s = source.course->bins[source.course->bin_count - 1][COURSE_TO_S];
        find_rules(&source);
        say_answer(&source);
        put_figures(&source);
        put_assumptions(&source);
        report_add_badge(page, tree);
        (void)report_add_explain(page, tree);
        report_add_faults(page, tree);
        put_courses(&source);
        status = put_spreads(&source, dir, arena, err);
    }
    if (status == KVT_OK) {
        put_bars(&source);
        put_phases(&source);
        put_conservation(&source);
        put_metrics(&source);
        report_add_scenario(page, "The scenario in force", kvt_json_find(tree, "scenario"));
    }
    kvt_arena_free(arena);
    return status;
}
