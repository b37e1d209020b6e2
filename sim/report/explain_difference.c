/* explain_difference.c -- two results beside each other: what of the difference is whose.
 *
 * Parts sum to their latency in each result, so that their differences sum to its difference. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain_private.h"
#include "kvt/json.h"
#include "text.h"

/* What is not there counts as nothing where the other has it. */
static double or_nothing(double value, double other)
{
    return isnan(value) && !isnan(other) ? 0 : value;
}

static bool add_pair(cJSON *tree, const char *name, double a, double b)
{
    cJSON *pair = kvt_json_add_object(tree, name);
    double of_a = or_nothing(a, b), of_b = or_nothing(b, a);

    return pair && kvt_json_add_number(pair, "a", of_a) && kvt_json_add_number(pair, "b", of_b) &&
           kvt_json_add_number(pair, "difference", of_b - of_a);
}

/* Members that are numbers, of either. */
static bool add_pairs(cJSON *tree, const char *key, const cJSON *a, const cJSON *b)
{
    cJSON *pairs = kvt_json_add_object(tree, key);
    const cJSON *item;
    bool ok = pairs != NULL;

    cJSON_ArrayForEach(item, a)
    {
        if (ok && (cJSON_IsNumber(item) || cJSON_IsNumber(kvt_json_find(b, item->string))))
            ok = add_pair(pairs, item->string, explain_number(a, item->string),
                          explain_number(b, item->string));
    }
    cJSON_ArrayForEach(item, b)
    {
        if (ok && cJSON_IsNumber(item) && !kvt_json_find(a, item->string))
            ok = add_pair(pairs, item->string, (double)NAN, item->valuedouble);
    }
    return ok;
}

static bool add_latency(cJSON *tree, const char *key, const cJSON *a, const cJSON *b)
{
    const cJSON *of_a = explain_object(a, key), *of_b = explain_object(b, key);
    cJSON *latency = kvt_json_add_object(tree, key);

    return latency &&
           add_pair(latency, "ms", explain_number(of_a, "ms"), explain_number(of_b, "ms")) &&
           add_pairs(latency, "parts_ms", explain_object(of_a, "parts_ms"),
                     explain_object(of_b, "parts_ms"));
}

static bool add_flows(cJSON *tree, const cJSON *a, const cJSON *b)
{
    static const char *const flows[] = {"link_in", "link_out", "dram"};
    const cJSON *of_a = explain_object(a, "bytes"), *of_b = explain_object(b, "bytes");
    cJSON *bytes = kvt_json_add_object(tree, "bytes");
    bool ok =
        bytes && add_pairs(bytes, "hbm_peak_by_class", explain_object(of_a, "hbm_peak_by_class"),
                           explain_object(of_b, "hbm_peak_by_class"));

    for (size_t i = 0; i < sizeof flows / sizeof flows[0] && ok; i++)
        ok = add_pairs(bytes, flows[i], explain_object(of_a, flows[i]),
                       explain_object(of_b, flows[i]));
    return ok;
}

static bool add_binds(cJSON *tree, const cJSON *a, const cJSON *b)
{
    cJSON *binds = kvt_json_add_object(tree, "binds");

    return binds &&
           kvt_json_add_text(binds, "a", explain_text(explain_object(a, "batch"), "says")) &&
           kvt_json_add_text(binds, "b", explain_text(explain_object(b, "batch"), "says"));
}

cJSON *kvt_explain_difference(const cJSON *a, const cJSON *b)
{
    const cJSON *of_a = explain_object(a, "explain"), *of_b = explain_object(b, "explain");
    cJSON *tree = cJSON_CreateObject();

    if (tree && kvt_json_add_text(tree, "schema", "kvtide/explain-difference/1") &&
        add_latency(tree, "tpot", of_a, of_b) && add_latency(tree, "ttft", of_a, of_b) &&
        add_latency(tree, "step", of_a, of_b) && add_flows(tree, of_a, of_b) &&
        add_pairs(tree, "rows", explain_object(of_a, "rows"), explain_object(of_b, "rows")) &&
        add_binds(tree, of_a, of_b) &&
        add_pairs(tree, "metrics", explain_object(a, "metrics"), explain_object(b, "metrics")))
        return tree;
    cJSON_Delete(tree);
    return NULL;
}

/* ---- For people ------------------------------------------------------------------------- */

static void put_pair(FILE *stream, const char *title, const cJSON *pair, double scale)
{
    char a[TEXT_FIGURE_BYTES], b[TEXT_FIGURE_BYTES], words[EXPLAIN_WORDS_BYTES];
    char difference[TEXT_FIGURE_BYTES];
    double of_a = explain_number(pair, "a"), of_b = explain_number(pair, "b");
    double change = explain_number(pair, "difference") * scale;

    /* Both are quotients of sums: in the last digits they differ where nothing does. */
    if (fabs(of_b - of_a) <= 1e-12 * fmax(fabs(of_a), fabs(of_b)))
        change = 0;
    explain_words(title, words);
    text_figure(change, difference);
    fprintf(stream, "%-26s %15s %15s %10s%s\n", words, text_figure(of_a * scale, a),
            text_figure(of_b * scale, b), change > 0 ? "+" : "", difference);
}

/* Those of which there is something in either. */
static void put_pairs(FILE *stream, const cJSON *pairs, double scale)
{
    const cJSON *pair;

    cJSON_ArrayForEach(pair, pairs)
    {
        char name[64];
        if (explain_number(pair, "a") == 0 && explain_number(pair, "b") == 0)
            continue;
        (void)snprintf(name, sizeof name, "  %.48s", pair->string);
        put_pair(stream, name, pair, scale);
    }
}

static void put_latency(FILE *stream, const char *title, const cJSON *latency, double scale)
{
    put_pair(stream, title, explain_object(latency, "ms"), scale);
    put_pairs(stream, explain_object(latency, "parts_ms"), scale);
}

static void put_flow(FILE *stream, const char *title, const cJSON *flow)
{
    const cJSON *item;

    fprintf(stream, "%s\n", title);
    cJSON_ArrayForEach(item, flow)
    {
        char name[64];
        const char *end = strstr(item->string, "_bytes");
        if (!end || strcmp(end, "_bytes") != 0 ||
            (explain_number(item, "a") == 0 && explain_number(item, "b") == 0))
            continue;
        (void)snprintf(name, sizeof name, "  %.*s", (int)(end - item->string), item->string);
        put_pair(stream, name, item, 1 / (double)KVT_GIB);
    }
}

static void put_binds(FILE *stream, const cJSON *binds, const char *which)
{
    text_line(stream, "binds %s    %s", which, explain_text(binds, which));
}

void kvt_explain_put_difference(FILE *stream, const cJSON *difference)
{
    static const char *const places[] = {"tail", "optional", "hot", "missed"};
    const cJSON *bytes = explain_object(difference, "bytes");
    const cJSON *rows = explain_object(difference, "rows");
    const cJSON *metrics = explain_object(difference, "metrics");
    const cJSON *binds = explain_object(difference, "binds");

    fprintf(stream, "%-26s %15s %15s %11s\n", "", "a", "b", "b - a");
    put_latency(stream, "TTFT s", explain_object(difference, "ttft"), 1e-3);
    put_latency(stream, "TPOT ms", explain_object(difference, "tpot"), 1);
    put_latency(stream, "step ms", explain_object(difference, "step"), 1);
    fprintf(stream, "rows, of a hundred\n");
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "  %s", places[i]);
        if (explain_object(rows, places[i]))
            put_pair(stream, name, explain_object(rows, places[i]), 100);
    }
    fprintf(stream, "HBM at the peak, GiB\n");
    put_pairs(stream, explain_object(bytes, "hbm_peak_by_class"), 1 / (double)KVT_GIB);
    put_flow(stream, "link in, GiB", explain_object(bytes, "link_in"));
    put_flow(stream, "link out, GiB", explain_object(bytes, "link_out"));
    put_pair(stream, "output tokens/s", explain_object(metrics, "output_throughput"), 1);
    put_pair(stream, "active mean", explain_object(metrics, "active_mean"), 1);
    put_binds(stream, binds, "a");
    put_binds(stream, binds, "b");
}
