/* explain_put.c -- all that a result says of where its time and bytes went, on 80 columns. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain_private.h"
#include "kvt/json.h"
#include "text.h"

enum {
    BAR_CELLS = 34
};

/* A bar of so many eighths of a cell; '#' in whole ones where the terminal has no blocks. */
static void print_bar(double share, bool utf8, char out[4 * BAR_CELLS + 1])
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    double cells = fmin(fmax(share, 0), 1) * BAR_CELLS;
    int whole = utf8 ? (int)cells : (int)lround(cells), eighth = (int)((cells - whole) * 8);
    size_t used = 0;

    out[0] = '\0';
    for (int i = 0; i < whole; i++)
        used += (size_t)snprintf(out + used, 4 * BAR_CELLS + 1 - used, "%s", utf8 ? "█" : "#");
    if (utf8)
        snprintf(out + used, 4 * BAR_CELLS + 1 - used, "%s", eighths[eighth]);
}

/* "  dense             38.1    85.2 %  ######": a part, what it is of the whole, and a bar. */
static void put_part(FILE *stream, const char *name, double value, double whole, bool utf8)
{
    char number[TEXT_FIGURE_BYTES], bar[4 * BAR_CELLS + 1], words[EXPLAIN_WORDS_BYTES];

    explain_words(name, words);
    print_bar(value / whole, utf8, bar);
    fprintf(stream, "  %-18s %8s  %5.1f %%%s%s\n", words, text_figure(value, number),
            100 * value / whole, bar[0] ? "  " : "", bar);
}

/* Nothing of what is not there, or is no scrap of the whole. */
static void put_parts(FILE *stream, const cJSON *parts, double whole, bool utf8)
{
    const cJSON *part;

    cJSON_ArrayForEach(part, parts)
    {
        if (cJSON_IsNumber(part) && fabs(part->valuedouble) > 0.0005 * whole)
            put_part(stream, part->string, part->valuedouble, whole, utf8);
    }
}

/* ---- Time ------------------------------------------------------------------------------- */

static void put_latency(FILE *stream, const cJSON *latency, const char *title, const char *nobody,
                        bool utf8)
{
    double ms = explain_number(latency, "ms"), requests = explain_number(latency, "requests");
    char number[TEXT_FIGURE_BYTES], of[64] = "as mean values share it out";

    if (!isfinite(ms)) {
        text_line(stream, "%-10s %s", title, nobody);
        return;
    }
    if (isfinite(requests))
        snprintf(of, sizeof of, "mean of %.0f requests", requests);
    text_line(stream, "%-10s %s ms, %s", title, text_figure(ms, number), of);
    put_parts(stream, explain_object(latency, "parts_ms"), ms, utf8);
}

static void put_step(FILE *stream, const cJSON *tree, bool utf8)
{
    const cJSON *step = explain_object(tree, "step");
    double ms = explain_number(step, "ms"), hidden_ms = explain_number(step, "fetch_hidden_ms");
    double exposed_ms = explain_number(explain_object(step, "parts_ms"), "fetch");
    char a[TEXT_FIGURE_BYTES], b[TEXT_FIGURE_BYTES], c[TEXT_FIGURE_BYTES];

    if (!isfinite(ms)) {
        text_line(stream, "step       there was none");
        return;
    }
    text_line(stream, "step       %s ms, as its slowest rank has it; %s tokens a request",
              text_figure(ms, a), text_figure(explain_number(step, "tokens_per_round"), b));
    put_parts(stream, explain_object(step, "parts_ms"), ms, utf8);
    if (hidden_ms > 0.0005 * ms)
        text_line(stream,
                  "           fetch: %s ms are waited for, %s ms are hidden behind the rest",
                  text_figure(exposed_ms, a), text_figure(hidden_ms, b));
    text_line(stream,
              "           beside it: the mean rank waits %s ms of it for the slowest; "
              "backups hold it up %s ms",
              text_figure(explain_number(step, "barrier_wait_ms"), b),
              text_figure(explain_number(step, "backup_stall_ms"), c));
}

/* ---- Bytes ------------------------------------------------------------------------------ */

static double gib(double bytes)
{
    return bytes / (double)KVT_GIB;
}

static void put_flow(FILE *stream, const char *title, const cJSON *flow)
{
    double use = explain_number(flow, "utilisation");
    char rate[TEXT_FIGURE_BYTES], most[TEXT_FIGURE_BYTES], of[64] = "";
    char what[200] = "", amount[TEXT_FIGURE_BYTES];
    const cJSON *item;
    size_t used = 0;

    if (isfinite(use))
        snprintf(of, sizeof of, ", %.1f %% of %s", 100 * use,
                 text_figure(explain_number(flow, "capacity_bytes_per_s") * 1e-9, most));
    cJSON_ArrayForEach(item, flow)
    {
        const char *end = strstr(item->string, "_bytes");
        if (!end || strcmp(end, "_bytes") != 0 || !(item->valuedouble > 0) || used >= sizeof what)
            continue;
        used += (size_t)snprintf(what + used, sizeof what - used, "%s%.*s %s", used ? ", " : "",
                                 (int)(end - item->string), item->string,
                                 text_figure(gib(item->valuedouble), amount));
    }
    text_line(stream, "%-10s %s GB/s%s%s%s%s", title,
              text_figure(explain_number(flow, "bytes_per_s") * 1e-9, rate), of,
              used ? " (GiB: " : "", what, used ? ")" : "");
}

static void put_bytes(FILE *stream, const cJSON *tree, bool utf8)
{
    const cJSON *bytes = explain_object(tree, "bytes"), *item;
    double peak = explain_number(bytes, "hbm_peak_bytes");
    char a[TEXT_FIGURE_BYTES], b[TEXT_FIGURE_BYTES];

    text_line(stream, "HBM        %s GiB at the peak, over all GPUs; host %s GiB",
              text_figure(gib(peak), a),
              text_figure(gib(explain_number(bytes, "host_peak_bytes")), b));
    cJSON_ArrayForEach(item, explain_object(bytes, "hbm_peak_by_class"))
    {
        if (item->valuedouble > 0)
            put_part(stream, item->string, gib(item->valuedouble), gib(peak), utf8);
    }
    put_flow(stream, "link in", explain_object(bytes, "link_in"));
    put_flow(stream, "link out", explain_object(bytes, "link_out"));
    put_flow(stream, "host DRAM", explain_object(bytes, "dram"));
}

static void put_rows(FILE *stream, const cJSON *tree, bool utf8)
{
    static const char *const places[] = {"tail", "optional", "hot", "missed"};
    const cJSON *rows = explain_object(tree, "rows");

    if (!(explain_number(rows, "selected") > 0)) {
        text_line(stream, "rows       none was selected");
        return;
    }
    text_line(stream, "rows       where selected rows were found, of a hundred");
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        double share = explain_number(rows, places[i]);
        if (share > 0)
            put_part(stream, places[i], 100 * share, 100, utf8);
    }
}

/* ---- What binds ------------------------------------------------------------------------- */

static void put_uses(FILE *stream, const cJSON *tree, bool utf8)
{
    const cJSON *item;

    text_line(stream, "how full   on average");
    cJSON_ArrayForEach(item, kvt_json_find(explain_object(tree, "batch"), "uses"))
    {
        char words[EXPLAIN_WORDS_BYTES], bar[4 * BAR_CELLS + 1], of[TEXT_FIGURE_BYTES + 4] = "";
        double use = explain_number(item, "utilisation");
        double capacity = explain_number(item, "capacity");
        if (isfinite(capacity))
            snprintf(of, sizeof of, "of %.0f", capacity);
        explain_words(explain_text(item, "what"), words);
        print_bar(use, utf8, bar);
        fprintf(stream, "  %-18s %8s  %5.1f %%%s%s\n", words, of, 100 * use, bar[0] ? "  " : "",
                bar);
    }
}

/* The largest parts of a step, by name: the first and the second. */
static void largest_parts(const cJSON *step, const char *names[2])
{
    const cJSON *part;
    double largest[2] = {0, 0};

    names[0] = names[1] = "";
    cJSON_ArrayForEach(part, explain_object(step, "parts_ms"))
    {
        int at = part->valuedouble > largest[0] ? 0 : part->valuedouble > largest[1] ? 1 : 2;
        if (!cJSON_IsNumber(part) || at == 2)
            continue;
        if (at == 0) {
            largest[1] = largest[0];
            names[1] = names[0];
        }
        largest[at] = part->valuedouble;
        names[at] = part->string;
    }
}

static void put_binds(FILE *stream, const cJSON *tree, bool utf8)
{
    const cJSON *batch = explain_object(tree, "batch");
    double times = explain_number(batch, "next_at_times");
    const char *names[2];
    char words[EXPLAIN_WORDS_BYTES], number[TEXT_FIGURE_BYTES];

    put_uses(stream, tree, utf8);
    text_line(stream, "binds now  %s", explain_text(batch, "says"));
    explain_words(explain_text(batch, "next"), words);
    if (isfinite(times) && times >= 1)
        text_line(stream, "next       %s, at %s times the requests (all else in proportion)", words,
                  text_figure(times, number));
    else if (isfinite(times))
        text_line(stream, "next       %s, which is past its measure already", words);
    largest_parts(explain_object(tree, "step"), names);
    if (names[0][0])
        text_line(stream, "in a step  %s%s%s", names[0], names[1][0] ? ", then " : "", names[1]);
}

static void put_worth(FILE *stream, const cJSON *tree)
{
    const cJSON *item;

    if (cJSON_GetArraySize(kvt_json_find(tree, "worth")) == 0)
        return;
    fprintf(stream, "%-20s %12s %9s %11s %12s\n", "worth, first order", "TPOT ms", "", "slots",
            "tokens/s");
    cJSON_ArrayForEach(item, kvt_json_find(tree, "worth"))
    {
        char words[EXPLAIN_WORDS_BYTES], tpot[TEXT_FIGURE_BYTES], output[TEXT_FIGURE_BYTES];
        char change[16] = "", slots[TEXT_FIGURE_BYTES + 2] = "-";
        double percent = 100 * explain_number(item, "tpot_change");
        double more = explain_number(item, "more_slots");
        if (isfinite(percent))
            snprintf(change, sizeof change, "%+.1f %%", fabs(percent) < 0.05 ? 0 : percent);
        if (isfinite(more))
            snprintf(slots, sizeof slots, "%+.0f", more);
        explain_words(explain_text(item, "change"), words);
        fprintf(stream, "  %-18s %12s %9s %11s %12s\n", words,
                text_figure(explain_number(item, "tpot_ms"), tpot), change, slots,
                text_figure(explain_number(item, "output_tokens_per_s"), output));
        text_line(stream, "           %s", explain_text(item, "assumes"));
    }
}

/* ---- Phases ----------------------------------------------------------------------------- */

static void put_phase(FILE *stream, const cJSON *phase)
{
    const cJSON *tree = explain_object(phase, "explain");
    const cJSON *tpot = explain_object(tree, "tpot"), *ttft = explain_object(tree, "ttft");
    double ms = explain_number(tpot, "ms");
    double fetch = explain_number(explain_object(tpot, "parts_ms"), "fetch");
    const cJSON *rows = explain_object(tree, "rows"), *batch = explain_object(tree, "batch");
    char text[6][TEXT_FIGURE_BYTES], words[EXPLAIN_WORDS_BYTES];

    explain_words(explain_text(batch, "now"), words);
    fprintf(stream, "%-5.0f %9s %9s %9s %9s %9s %9s  %s\n", explain_number(phase, "phase"),
            text_figure(explain_number(ttft, "ms") * 1e-3, text[0]), text_figure(ms, text[1]),
            text_figure(fetch, text[2]),
            text_figure(100 * explain_number(rows, "optional"), text[3]),
            text_figure(100 * explain_number(rows, "missed"), text[4]),
            text_figure(explain_number(batch, "decoding_mean"), text[5]), words);
}

static void put_transitions(FILE *stream, const cJSON *result)
{
    const cJSON *step;

    cJSON_ArrayForEach(step, kvt_json_find(result, "transitions"))
    {
        char a[TEXT_FIGURE_BYTES], b[TEXT_FIGURE_BYTES], c[TEXT_FIGURE_BYTES], slo[64] = "";
        double violated_s = explain_number(step, "slo_violation_s");
        bool is_up = strcmp(explain_text(step, "direction"), "up") == 0;
        if (isfinite(violated_s))
            snprintf(slo, sizeof slo, "; a class fell short in %s s", text_figure(violated_s, c));
        if (is_up)
            text_line(stream,
                      "step       up to %.0f at %.0f s: %.0f of %.0f admitted in %s s, their first "
                      "tokens in %s s; worst ITL while pages go %s ms%s",
                      explain_number(step, "to_concurrency"), explain_number(step, "at_s"),
                      explain_number(step, "burst_admitted"),
                      explain_number(step, "burst_requests"),
                      text_figure(explain_number(step, "admission_after_step_s"), a),
                      text_figure(explain_number(step, "first_tokens_after_step_s"), b),
                      text_figure(explain_number(step, "worst_itl_second_ms"), c), slo);
        else
            text_line(stream,
                      "step       down to %.0f at %.0f s: nine tenths of coverage %s again after "
                      "%s s%s",
                      explain_number(step, "to_concurrency"), explain_number(step, "at_s"),
                      text_figure(explain_number(step, "coverage_before"), a),
                      text_figure(explain_number(step, "coverage_regain_s"), b), slo);
    }
}

static void put_phases(FILE *stream, const cJSON *result)
{
    const cJSON *phases = kvt_json_find(result, "phases"), *phase;

    if (cJSON_GetArraySize(phases) < 2)
        return;
    fprintf(stream, "%-5s %9s %9s %9s %9s %9s %9s  %s\n", "phase", "TTFT s", "TPOT ms", "of fetch",
            "optional%", "missed%", "decoding", "binds");
    cJSON_ArrayForEach(phase, phases)
    {
        put_phase(stream, phase);
    }
    put_transitions(stream, result);
}

/* ---- All of it -------------------------------------------------------------------------- */

/* A plug-in's name, given as a text or as an object of itself and its parameters. */
static const char *choice_of(const cJSON *scenario, const char *key, const char *name)
{
    const cJSON *choice = kvt_json_find(scenario, key);
    return cJSON_IsString(choice) ? choice->valuestring : explain_text(choice, name);
}

static void put_head(FILE *stream, const cJSON *result)
{
    const cJSON *scenario = explain_object(result, "scenario");
    const char *ending = explain_text(result, "ending");

    text_line(stream, "%s: %s, %s, %s, seed %.0f%s%s (kvtide %s)", explain_text(scenario, "name"),
              choice_of(scenario, "residency", "policy"),
              explain_text(explain_object(scenario, "run"), "fidelity"),
              choice_of(scenario, "timing", "model"), explain_number(scenario, "seed"),
              strcmp(ending, "interrupted") == 0 ? ", " : "",
              strcmp(ending, "interrupted") == 0 ? ending : "", explain_text(result, "version"));
    text_rule(stream);
}

void kvt_explain_put(FILE *stream, const cJSON *result, bool utf8)
{
    const cJSON *tree = explain_object(result, "explain");

    put_head(stream, result);
    put_latency(stream, explain_object(tree, "ttft"), "TTFT",
                "no request that counts has delivered a token", utf8);
    put_latency(stream, explain_object(tree, "tpot"), "TPOT",
                "no request that counts has delivered a second token", utf8);
    put_step(stream, tree, utf8);
    put_bytes(stream, tree, utf8);
    put_rows(stream, tree, utf8);
    put_binds(stream, tree, utf8);
    put_worth(stream, tree);
    put_phases(stream, result);
    explain_put_basis(stream, tree);
}
