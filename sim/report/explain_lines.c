/* explain_lines.c -- the last four lines of a summary, from the tree. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain_private.h"
#include "kvt/json.h"
#include "text.h"

const cJSON *explain_object(const cJSON *object, const char *key)
{
    const cJSON *item = kvt_json_find(object, key);
    return cJSON_IsObject(item) ? item : NULL;
}

const char *explain_text(const cJSON *object, const char *key)
{
    const cJSON *item = kvt_json_find(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

void explain_words(const char *name, char out[EXPLAIN_WORDS_BYTES])
{
    size_t i = 0;

    for (; name[i] != '\0' && i + 1 < EXPLAIN_WORDS_BYTES; i++) {
        out[i] = name[i];
        if (name[i] == '_')
            out[i] = ' ';
    }
    out[i] = '\0';
}

/* Not what would be "0.0", unless it matters all the same. */
static bool is_told(double part_ms, double ms)
{
    return part_ms > 0.0005 * ms && (part_ms >= 0.05 || part_ms > 0.01 * ms);
}

/* "dense 38.1 + fetch 6.0", of what is no scrap of the whole. */
static void print_parts(const cJSON *latency, double ms, char *out, size_t bytes)
{
    const cJSON *part;
    size_t used = 0;

    out[0] = '\0';
    cJSON_ArrayForEach(part, explain_object(latency, "parts_ms"))
    {
        char name[EXPLAIN_WORDS_BYTES];
        if (!cJSON_IsNumber(part) || !is_told(part->valuedouble, ms) || used >= bytes)
            continue;
        explain_words(part->string, name);
        used += (size_t)snprintf(out + used, bytes - used, "%s%s %.1f", used ? " + " : "", name,
                                 part->valuedouble);
    }
}

static void put_tpot(FILE *stream, const cJSON *tree)
{
    const cJSON *tpot = explain_object(tree, "tpot");
    double ms = explain_number(tpot, "ms");
    char text[300], number[TEXT_FIGURE_BYTES];

    if (!isfinite(ms)) {
        text_line(stream, "TPOT       no request that counts has delivered a second token");
        return;
    }
    print_parts(tpot, ms, text, sizeof text);
    text_line(stream, "TPOT       %s ms = %s", text_figure(ms, number), text);
}

static void put_limit(FILE *stream, const cJSON *tree)
{
    const cJSON *batch = explain_object(tree, "batch");
    double prefilling = explain_number(batch, "prefilling_mean");
    char prefill[48] = "";

    if (prefilling > 0)
        snprintf(prefill, sizeof prefill, "%.1f in or before prefill, ", prefilling);
    text_line(stream,
              "limit      %s (on average %.1f decode, %s%.1f are imported, %.1f wait; %.0f slots)",
              explain_text(batch, "says"), explain_number(batch, "decoding_mean"), prefill,
              explain_number(batch, "importing_mean"), explain_number(batch, "waiting_mean"),
              explain_number(batch, "slots"));
}

const cJSON *explain_change(const cJSON *tree, const char *name)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, kvt_json_find(tree, "worth"))
    {
        if (strcmp(explain_text(item, "change"), name) == 0)
            return item;
    }
    return NULL;
}

/* "-1.2", and never "-0.0". */
static double percent(const cJSON *change)
{
    double value = 100 * explain_number(change, "tpot_change");
    return fabs(value) < 0.05 ? 0 : value;
}

static void put_change(FILE *stream, const cJSON *tree)
{
    const cJSON *link = explain_change(tree, "link_10_percent");
    const cJSON *rank = explain_change(tree, "one_more_rank");
    char a[TEXT_FIGURE_BYTES], b[TEXT_FIGURE_BYTES];

    if (!link || !rank || !isfinite(explain_number(link, "tpot_ms")))
        return;
    text_line(stream,
              "change     10 %% more link: TPOT %s ms (%+.1f %%); one more rank: TPOT %s ms (%+.1f "
              "%%) and %.0f more slots (first order)",
              text_figure(explain_number(link, "tpot_ms"), a), percent(link),
              text_figure(explain_number(rank, "tpot_ms"), b), percent(rank),
              explain_number(rank, "more_slots"));
}

void explain_put_basis(FILE *stream, const cJSON *tree)
{
    const cJSON *basis = explain_object(tree, "basis");
    const char *drafts = explain_text(basis, "drafts"), *added = explain_text(basis, "added");
    const char *prefill = explain_text(basis, "prefill");
    char of_drafts[48] = "", of_added[160] = "", of_prefill[48] = "";

    if (prefill[0])
        snprintf(of_prefill, sizeof of_prefill, "; prefill %.32s", prefill);
    if (drafts[0])
        snprintf(of_drafts, sizeof of_drafts, "; drafts %.32s", drafts);
    if (added[0])
        snprintf(of_added, sizeof of_added, " (%.96s: %.32s)", explain_text(basis, "added_parts"),
                 added);
    text_line(stream, "basis      %srows %s; step times %s%s; imports %s%s%s; selections: %s",
              cJSON_IsTrue(kvt_json_find(basis, "mean_values"))
                  ? "fidelity analytic: mean values, no percentiles; "
                  : "",
              explain_text(basis, "rows"), explain_text(basis, "step_times"), of_added,
              explain_text(basis, "imports"), of_prefill, of_drafts,
              explain_text(basis, "selections"));
}

void kvt_explain_put_lines(FILE *stream, const cJSON *result)
{
    const cJSON *tree = explain_object(result, "explain");

    put_tpot(stream, tree);
    put_limit(stream, tree);
    put_change(stream, tree);
    explain_put_basis(stream, tree);
}
