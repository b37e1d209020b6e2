/* report_faults.c -- what failed in a run, who was hit, and when all was well again: `faults` of a
 * result. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/json.h"
#include "page_tree.h"
#include "report.h"

#define GIB 1073741824.0

enum {
    WORDS_BYTES = 400
};

static double at(const cJSON *fault, const char *path)
{
    return report_number(fault, path);
}

static double hbm_lost_bytes(const cJSON *fault)
{
    const cJSON *class = NULL;
    double bytes = 0;

    cJSON_ArrayForEach(class, kvt_json_find(kvt_json_find(fault, "lost"), "hbm_bytes"))
    {
        bytes += cJSON_IsNumber(class) ? class->valuedouble : 0;
    }
    return bytes;
}

/* "rank 2", "link of rank 2", "prefill servers". */
static const char *name_of(const cJSON *fault, char out[WORDS_BYTES])
{
    const char *kind = report_text(fault, "kind");
    double which = at(fault, "which");

    if (strcmp(kind, "prefill") == 0)
        snprintf(out, WORDS_BYTES, "prefill servers");
    else if (!isfinite(which))
        snprintf(out, WORDS_BYTES, "%.60s", kind);
    else if (strcmp(kind, "link") == 0)
        snprintf(out, WORDS_BYTES, "link of rank %.0f", which);
    else
        snprintf(out, WORDS_BYTES, "%.60s %.0f", kind, which);
    return out;
}

static bool has_struck(const cJSON *fault)
{
    return cJSON_IsTrue(kvt_json_find(fault, "struck"));
}

/* ---- In words --------------------------------------------------------------------------------
 */

/* "70 decoded, 1 came in": of requests by what they did, those there are. */
static const char *interrupted_text(const cJSON *fault, char out[WORDS_BYTES])
{
    static const struct {
        const char *key, *did;
    } ways[] = {{"requests.running", "decoded"},
                {"requests.importing", "came in"},
                {"requests.prefilling", "had their prompts computed by servers that failed"}};
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        double count = at(fault, ways[i].key);
        if (count > 0)
            used += (size_t)snprintf(out + used, WORDS_BYTES - used, "%s%.0f %s",
                                     used > 0 ? ", " : "", count, ways[i].did);
    }
    return out;
}

static void say_requests(struct report_page *page, const cJSON *fault)
{
    double interrupted = at(fault, "requests.interrupted"),
           left = at(fault, "requests.not_recovered");
    double recovery_s = at(fault, "recovery_s"), full_s = at(fault, "full_s");
    char rows[REPORT_NUMBER_BYTES], kept[REPORT_NUMBER_BYTES];
    char who[WORDS_BYTES], after[128] = "", full[128] = "";

    if (!(interrupted > 0)) {
        report_paragraph(page, "Nobody was interrupted; %.0f who waited there went elsewhere.",
                         at(fault, "requests.waiting"));
        return;
    }
    if (isfinite(recovery_s))
        snprintf(after, sizeof after, "all of them decoded again or had ended after %.3g s",
                 recovery_s);
    else
        snprintf(after, sizeof after, "%.0f of them do not decode again by the end", left);
    if (isfinite(full_s))
        snprintf(full, sizeof full, "; as many as before decoded after %.3g s", full_s);
    report_paragraph(page,
                     "%.0f requests were interrupted: %s; %.0f who waited there went elsewhere. Of "
                     "their %s rows %s were kept on host; the others had to be computed or "
                     "imported again. From the fault on, %s%s.",
                     interrupted, interrupted_text(fault, who), at(fault, "requests.waiting"),
                     report_value_text(at(fault, "context_tokens"), rows),
                     report_value_text(at(fault, "kept.tokens"), kept), after, full);
}

static void say_fault(struct report_page *page, const cJSON *fault)
{
    double back_s = at(fault, "back_at_s"), down = at(fault, "ranks_down");
    char name[WORDS_BYTES], back[64] = "it does not come back";

    if (!has_struck(fault)) {
        report_paragraph(page, "At %.4g s a fault (%s) was due, and did not strike.",
                         at(fault, "at_s"), name_of(fault, name));
        return;
    }
    if (isfinite(back_s))
        snprintf(back, sizeof back, "it is back at %.4g s", back_s);
    report_paragraph(
        page,
        "At %.4g s: %s fails; %s. %.0f rank%s went down. Lost: %.2f GiB of HBM (of each GPU "
        "of a rank), %.2f GiB of host copies, %.0f prefix pages, %.0f tokens of the "
        "step under way; kept on host: %.2f GiB.",
        at(fault, "at_s"), name_of(fault, name), back, down, down == 1 ? "" : "s",
        hbm_lost_bytes(fault) / GIB, at(fault, "lost.host_bytes") / GIB,
        at(fault, "lost.prefix_pages"), at(fault, "lost.step_tokens"),
        at(fault, "kept.host_bytes") / GIB);
    say_requests(page, fault);
}

/* ---- As a table ------------------------------------------------------------------------------
 */

static void put_row(struct report_page *page, const cJSON *fault)
{
    static const char *const numbers[] = {"at_s",
                                          "back_at_s",
                                          "ranks_down",
                                          "requests.running",
                                          "requests.importing",
                                          "requests.prefilling",
                                          "requests.waiting",
                                          "requests.not_recovered",
                                          "context_tokens",
                                          "kept.tokens"};
    char name[WORDS_BYTES];

    report_row(page);
    report_cell_text(page, name_of(fault, name), NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        report_cell(page, at(fault, numbers[i]));
    report_cell(page, has_struck(fault) ? hbm_lost_bytes(fault) / GIB : (double)NAN);
    report_cell(page, at(fault, "lost.host_bytes") / GIB);
    report_cell(page, at(fault, "kept.host_bytes") / GIB);
    report_cell(page, at(fault, "recovery_s"));
    report_cell(page, at(fault, "full_s"));
}

void report_add_faults(struct report_page *page, const cJSON *result)
{
    static const struct report_column columns[] = {{"fault", "fault", true},
                                                   {"at_s", "at, s", false},
                                                   {"back_at_s", "back, s", false},
                                                   {"ranks_down", "ranks", false},
                                                   {"decoded", "decoded", false},
                                                   {"came_in", "came in", false},
                                                   {"prefilled", "prefilled", false},
                                                   {"waited", "waited", false},
                                                   {"not_recovered", "not again", false},
                                                   {"context_tokens", "rows", false},
                                                   {"kept_tokens", "kept", false},
                                                   {"hbm_lost_gib", "HBM lost, GiB", false},
                                                   {"host_lost_gib", "host lost", false},
                                                   {"host_kept_gib", "host kept", false},
                                                   {"recovery_s", "recovered, s", false},
                                                   {"full_s", "as before, s", false}};
    const cJSON *faults = kvt_json_find(result, "faults"), *fault = NULL;

    if (cJSON_GetArraySize(faults) == 0)
        return;
    report_section(page, "What failed", NULL);
    cJSON_ArrayForEach(fault, faults)
    {
        say_fault(page, fault);
    }
    report_table(page, "faults", REPORT_OPEN, NULL, columns, sizeof columns / sizeof columns[0]);
    cJSON_ArrayForEach(fault, faults)
    {
        put_row(page, fault);
    }
}
