/* calibrate_report.c -- a calibration as a profile, and for people. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calibrate.h"
#include "kvt/badge.h"
#include "kvt/profile.h"
#include "kvt/version.h"

/* Which family and feature a sum over windows is. Context is scanned by an indexer, where the model
 * has one, and else attended to. */
struct place {
    enum kvt_step_part part;
    enum kvt_profile_feature feature;
};

static struct place place_of(const struct kvt_llm *llm, enum window_sum term)
{
    bool is_dense = llm->index_heads == 0;

    switch (term) {
    case WINDOW_STEPS:
        return (struct place){KVT_PART_DENSE, KVT_FEATURE_STEP};
    case WINDOW_QUERIES:
        return (struct place){KVT_PART_DENSE, KVT_FEATURE_QUERIES};
    case WINDOW_CONTEXT_ROWS:
        return (struct place){is_dense ? KVT_PART_ATTEND : KVT_PART_INDEX,
                              KVT_FEATURE_CONTEXT_ROWS};
    case WINDOW_PREFILL_TOKENS:
        return (struct place){KVT_PART_PREFILL, KVT_FEATURE_PREFILL_TOKENS};
    case WINDOW_PREFILL_CONTEXT_TOKENS:
    case WINDOW_SUMS:
        break;
    }
    return (struct place){KVT_PART_PREFILL, KVT_FEATURE_PREFILL_CONTEXT_TOKENS};
}

const char *calibration_term_name(const struct kvt_llm *llm, enum window_sum term)
{
    static const char *const names[WINDOW_SUMS] = {"dense.step", "dense.queries",
                                                   "index.context_rows", "prefill.prefill_tokens",
                                                   "prefill.prefill_context_tokens"};

    if (term == WINDOW_CONTEXT_ROWS && llm->index_heads == 0)
        return "attend.context_rows";
    return (unsigned)term < WINDOW_SUMS ? names[term] : "unknown";
}

static const char *state_name(enum term_state state)
{
    static const char *const names[] = {"fitted", "absent", "same", "uncertain"};
    return names[state];
}

/* ---- The profile ----------------------------------------------------------------------------- */

/* To whole features outwards, so that a step of the file itself is inside. */
static bool add_range(cJSON *family, const struct windows *windows, enum window_sum sum,
                      enum kvt_profile_feature feature)
{
    const double ends[] = {floor(windows->least[sum]), ceil(windows->most[sum])};
    if (windows->most[sum] <= 0)
        return true;
    cJSON *range = kvt_json_add_object(family, "range");
    return range &&
           kvt_json_add(range, kvt_profile_feature_name(feature), cJSON_CreateDoubleArray(ends, 2));
}

static bool add_term(cJSON *terms, const struct kvt_llm *llm, const struct fit *fit,
                     enum window_sum sum)
{
    const struct fit_term *term = &fit->terms[sum];
    cJSON *entry = kvt_json_add_element(terms);
    bool is_known = term->state == TERM_FITTED || term->state == TERM_UNCERTAIN;

    return entry && kvt_json_add_text(entry, "name", calibration_term_name(llm, sum)) &&
           kvt_json_add_text(entry, "state", state_name(term->state)) &&
           kvt_json_add_number(entry, "ns", is_known ? term->ns : (double)NAN) &&
           kvt_json_add_number(entry, "standard_error_ns",
                               is_known ? term->error_ns : (double)NAN) &&
           kvt_json_add_text(entry, "most_like", calibration_term_name(llm, term->like)) &&
           kvt_json_add_number(entry, "likeness", term->likeness);
}

/* One limit of the family's fitted terms; none where no term of its own can be told, and then its
 * time is within those that can. */
static bool add_family(cJSON *families, const struct calibration *calibration,
                       enum kvt_step_part part, const char *note)
{
    const struct kvt_llm *llm = calibration->scenario->llm;
    const struct fit *fit = &calibration->fit;
    cJSON *family = kvt_json_add_element(families), *limit = NULL;
    bool ok = family && kvt_json_add_text(family, "name", kvt_step_part_name(part));
    cJSON *limits = ok ? cJSON_AddArrayToObject(family, "limits_ns") : NULL;
    cJSON *terms = limits ? cJSON_CreateArray() : NULL;

    ok = terms != NULL;
    for (int t = 0; t < WINDOW_SUMS && ok; t++) {
        enum window_sum sum = (enum window_sum)t;
        const struct place place = place_of(llm, sum);
        if (place.part != part)
            continue;
        ok = add_term(terms, llm, fit, sum);
        if (!ok || fit->terms[t].state != TERM_FITTED)
            continue;
        limit = limit ? limit : kvt_json_add_element(limits);
        ok = limit &&
             kvt_json_add_number(limit, kvt_profile_feature_name(place.feature), fit->terms[t].ns);
    }
    if (ok && part == KVT_PART_DENSE)
        ok = add_range(family, &calibration->windows, WINDOW_QUERIES, KVT_FEATURE_QUERIES);
    if (ok && part == place_of(llm, WINDOW_CONTEXT_ROWS).part)
        ok =
            add_range(family, &calibration->windows, WINDOW_CONTEXT_ROWS, KVT_FEATURE_CONTEXT_ROWS);
    if (ok && cJSON_GetArraySize(terms) > 0) {
        ok = kvt_json_add(family, "terms", terms);
        terms = NULL;
    }
    cJSON_Delete(terms);
    return ok && (!note || kvt_json_add_text(family, "note", note));
}

static bool add_families(cJSON *object, const struct calibration *calibration)
{
    const struct kvt_llm *llm = calibration->scenario->llm;
    cJSON *families = cJSON_AddArrayToObject(object, "families");
    bool is_dense = llm->index_heads == 0;
    bool ok = families &&
              add_family(families, calibration, KVT_PART_HOST,
                         "within dense: a benchmark does not tell them apart") &&
              add_family(families, calibration, KVT_PART_DENSE, NULL);

    if (ok && !is_dense)
        ok = add_family(families, calibration, KVT_PART_INDEX, NULL);
    ok = ok &&
         add_family(families, calibration, KVT_PART_ATTEND,
                    is_dense ? NULL : "within dense: rows of a query are always as many") &&
         add_family(families, calibration, KVT_PART_SAMPLE,
                    "within dense: a benchmark does not tell them apart");
    if (ok && calibration->fit.terms[WINDOW_PREFILL_TOKENS].state == TERM_FITTED)
        ok = add_family(families, calibration, KVT_PART_PREFILL, NULL);
    return ok;
}

static bool add_setting(cJSON *object, const struct kvt_scenario *scenario)
{
    const struct kvt_decode_pool *pool = &scenario->pools[0];
    cJSON *setting = kvt_json_add_object(object, "setting");

    return setting && kvt_json_add_text(setting, "model", scenario->llm->name) &&
           kvt_json_add_text(setting, "hardware", pool->hardware->name) &&
           kvt_json_add_number(setting, "tp", pool->tp) &&
           kvt_json_add_number(setting, "ep", pool->ep);
}

/* What it was fitted to is no evidence for it. */
static struct kvt_badge badge_of(const struct calibration *calibration)
{
    char fitted[120];
    struct kvt_badge badge;

    (void)snprintf(fitted, sizeof fitted, "fitted to %s's benchmark", calibration->runs[0].engine);
    const struct kvt_badge_facts facts = {.timing = fitted,
                                          .in_range_share = (double)NAN,
                                          .engine = "no",
                                          .engine_reason = "validate --measured compares them"};
    kvt_badge_of(&facts, &badge);
    return badge;
}

static bool add_made(cJSON *object, const struct calibration *calibration)
{
    const struct kvt_badge badge = badge_of(calibration);
    cJSON *made = kvt_json_add_object(object, "made");
    bool ok =
        made && kvt_json_add_text(made, "by", "kvtide calibrate --from") &&
        kvt_json_add_text(made, "version", kvt_version()) &&
        kvt_json_add_text(made, "commit", kvt_commit()) &&
        kvt_json_add_text(made, "scenario", calibration->scenario->name) &&
        kvt_json_add_number(made, "from_s", calibration->from_s) &&
        kvt_json_add_number(made, "to_s", calibration->to_s > 0 ? calibration->to_s : (double)NAN);
    cJSON *runs = ok ? cJSON_AddArrayToObject(made, "runs") : NULL;

    ok = runs != NULL;
    for (size_t r = 0; r < calibration->run_count && ok; r++) {
        const struct engine_run *run = &calibration->runs[r];
        cJSON *entry = kvt_json_add_element(runs);
        ok = entry && kvt_json_add_text(entry, "file", run->path) &&
             kvt_json_add_number(entry, "line", (double)run->line) &&
             kvt_json_add_text(entry, "engine", run->engine) &&
             kvt_json_add_number(entry, "requests", (double)run->request_count) &&
             kvt_json_add_number(entry, "failed", (double)run->failed);
    }
    return ok && kvt_badge_add(made, &badge);
}

static bool add_errors(cJSON *object, const struct robust_errors *errors)
{
    return kvt_json_add_number(object, "n", (double)errors->count) &&
           kvt_json_add_number(object, "mape", errors->mape) &&
           kvt_json_add_number(object, "median_abs", errors->median_abs) &&
           kvt_json_add_number(object, "p95_abs", errors->p95_abs) &&
           kvt_json_add_number(object, "bias", errors->bias);
}

static bool add_left_out(cJSON *object, const struct fit *fit)
{
    cJSON *left_out = kvt_json_add_object(object, "leave_one_out");
    cJSON *own = NULL;

    if (!left_out ||
        !kvt_json_add_text(left_out, "of", fit->parts_are_runs ? "runs" : "tenths of a run") ||
        !kvt_json_add_number(left_out, "parts", (double)fit->part_count) ||
        !add_errors(left_out, &fit->left_out) ||
        !kvt_json_add_number(left_out, "condition", fit->condition))
        return false;
    own = kvt_json_add_object(left_out, "own");
    return own && add_errors(own, &fit->own) &&
           kvt_json_add_number(own, "outlier_share", fit->outlier_share);
}

/* Raw points, a line each. */
static bool add_points(cJSON *object, const struct windows *windows)
{
    cJSON *points = kvt_json_add_object(object, "points");
    cJSON *columns =
        points
            ? cJSON_CreateStringArray(
                  (const char *const[]){"run", "end_s", "seconds", "steps", "queries",
                                        "context_rows", "prefill_tokens", "prefill_context_tokens"},
                  8)
            : NULL;
    bool ok = points && kvt_json_add(points, "columns", columns);
    cJSON *rows = ok ? cJSON_AddArrayToObject(points, "rows") : NULL;

    ok = rows != NULL;
    for (size_t i = 0; i < windows->count && ok; i++) {
        const struct window *window = &windows->items[i];
        const double values[] = {(double)window->run,
                                 window->end_s,
                                 window->seconds,
                                 window->sums[WINDOW_STEPS],
                                 window->sums[WINDOW_QUERIES],
                                 window->sums[WINDOW_CONTEXT_ROWS],
                                 window->sums[WINDOW_PREFILL_TOKENS],
                                 window->sums[WINDOW_PREFILL_CONTEXT_TOKENS]};
        cJSON *row = cJSON_CreateDoubleArray(values, sizeof values / sizeof values[0]);
        ok = row && cJSON_AddItemToArray(rows, row);
    }
    return ok;
}

kvt_status calibration_tree(const struct calibration *calibration, cJSON **out,
                            struct kvt_error *err)
{
    cJSON *tree = cJSON_CreateObject();
    char summary[200];

    (void)snprintf(summary, sizeof summary, "%s on %s, fitted to %zu windows of %s's benchmark",
                   calibration->scenario->llm->name, calibration->scenario->pools[0].hardware->name,
                   calibration->windows.count, calibration->runs[0].engine);
    if (tree && kvt_json_add_text(tree, "schema", "kvtide/profile/1") &&
        kvt_json_add_text(tree, "name", calibration->scenario->name) &&
        kvt_json_add_text(tree, "summary", summary) && add_setting(tree, calibration->scenario) &&
        add_made(tree, calibration) && add_families(tree, calibration) &&
        add_left_out(tree, &calibration->fit) && add_points(tree, &calibration->windows)) {
        *out = tree;
        return KVT_OK;
    }
    cJSON_Delete(tree);
    return kvt_fail_nomem(err, "a profile");
}

/* ---- For people ------------------------------------------------------------------------------ */

/* Terms have numbers, so that each can say which other it is hard to tell from. */
static void print_term(const struct kvt_llm *llm, const struct fit *fit, enum window_sum sum)
{
    const struct fit_term *term = &fit->terms[sum];
    unsigned number = (unsigned)sum + 1, like = (unsigned)term->like + 1;

    printf("%u %-30s ", number, calibration_term_name(llm, sum));
    switch (term->state) {
    case TERM_FITTED:
        printf("%11.5g %9.2g  yes, %.3f like %u\n", term->ns, term->error_ns, term->likeness, like);
        return;
    case TERM_ABSENT:
        printf("%11s %9s  no: in no window\n", "-", "-");
        return;
    case TERM_SAME:
        printf("%11s %9s  no: as %u here\n", "-", "-", like);
        return;
    case TERM_UNCERTAIN:
        printf("%11.5g %9.2g  no, %.3f like %u\n", term->ns, term->error_ns, term->likeness, like);
        return;
    }
}

static void print_errors(const char *what, const struct robust_errors *errors)
{
    printf("%-27s median %.2f %%, mean %.2f %%, P95 %.2f %%, bias %+.2f %%\n", what,
           100 * errors->median_abs, 100 * errors->mape, 100 * errors->p95_abs, 100 * errors->bias);
}

void calibration_print(const struct calibration *calibration)
{
    const struct kvt_llm *llm = calibration->scenario->llm;
    const struct fit *fit = &calibration->fit;
    const struct kvt_badge badge = badge_of(calibration);

    printf("%s: %zu windows of %zu %s of %s\n\n", calibration->scenario->name,
           calibration->windows.count, calibration->run_count,
           calibration->run_count == 1 ? "run" : "runs", calibration->runs[0].engine);
    printf("%-32s %11s %9s  told\n", "  term", "ns of one", "+-");
    for (int t = 0; t < WINDOW_SUMS; t++)
        print_term(llm, fit, (enum window_sum)t);
    printf("\nhost and sampling are in dense.step, what each request takes of them in\n"
           "dense.queries%s: a benchmark does not tell them apart.\n",
           llm->index_heads == 0 ? "" : ", with its attention");
    if (isfinite(fit->condition))
        printf("condition of all terms %.1f; ", fit->condition);
    else
        printf("condition of all terms unbounded; ");
    printf("%.1f %% of windows are outliers\n\n", 100 * fit->outlier_share);
    print_errors("errors of a window", &fit->own);
    if (fit->part_count > 0)
        print_errors(fit->parts_are_runs ? "each run left out in turn" : "each tenth left out",
                     &fit->left_out);
    else
        puts("nothing can be left out: too few windows would remain");
    cli_print_badge(&badge);
}
