/* validate_public_report.c -- published measurements beside ours: as JSON, and for people. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "validate_public.h"

/* Claims that decide, and how many hold; numbers, and how many are near. */
struct sums {
    size_t claims, holding, numbers, within;
};

static void add_up(const struct public_setting *setting, struct sums *sums)
{
    for (size_t c = 0; c < setting->claim_count; c++) {
        const struct public_claim *claim = &setting->claims[c];
        if (claim->kind == PUBLIC_NUMBER) {
            sums->numbers += claim->numbers;
            sums->within += claim->within;
            continue;
        }
        sums->claims++;
        sums->holding += claim->holds;
    }
}

static struct sums add_up_all(const struct public_outcome *outcome)
{
    struct sums sums = {0};

    for (size_t s = 0; s < outcome->count; s++)
        add_up(outcome->settings[s], &sums);
    return sums;
}

bool public_is_good(const struct public_outcome *outcome)
{
    const struct sums sums = add_up_all(outcome);
    return sums.holding == sums.claims;
}

static void say_engine(const struct sums *sums, char *out, size_t out_bytes)
{
    (void)snprintf(out, out_bytes, "%zu of %zu published orders and ratios, %zu of %zu numbers",
                   sums->holding, sums->claims, sums->within, sums->numbers);
}

static struct kvt_badge badge_of(const struct sums *sums, const char *engine)
{
    const struct kvt_badge_facts facts = {
        .timing = kvt_basis_name(KVT_BASIS_DATASHEET),
        .in_range_share = (double)NAN,
        .engine = sums->claims > 0 && sums->holding == sums->claims ? "in order" : "no",
        .engine_reason = engine};
    struct kvt_badge badge;

    kvt_badge_of(&facts, &badge);
    return badge;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static const char *const kind_names[PUBLIC_KINDS] = {"number", "order", "ratio"};

static bool add_point(cJSON *points, const struct public_point *point)
{
    cJSON *item = kvt_json_add_element(points);
    bool ok = item && kvt_json_add_text(item, "name", point->name) &&
              kvt_json_add_text(item, "basis", point->basis);
    cJSON *values = ok ? kvt_json_add_object(item, "values") : NULL;

    ok = values != NULL;
    for (size_t v = 0; v < point->value_count && ok; v++) {
        const struct public_value *value = &point->values[v];
        cJSON *entry = kvt_json_add_object(values, value->metric);
        ok = entry && kvt_json_add_number(entry, "measured", value->measured) &&
             kvt_json_add_number(entry, "ours", value->ours) &&
             kvt_json_add_number(entry, "error", value->ours / value->measured - 1) &&
             kvt_json_add_bool(entry, "calibrated", value->is_calibrated);
    }
    return ok;
}

static bool add_claim(cJSON *claims, const struct public_claim *claim)
{
    cJSON *item = kvt_json_add_element(claims);
    bool ok = item && kvt_json_add_text(item, "kind", kind_names[claim->kind]) &&
              kvt_json_add_text(item, "metric", claim->metric);

    if (ok && claim->kind == PUBLIC_NUMBER)
        return kvt_json_add_number(item, "tolerance", claim->tolerance) &&
               kvt_json_add_number(item, "n", (double)claim->numbers) &&
               kvt_json_add_number(item, "within", (double)claim->within);
    if (ok && claim->kind == PUBLIC_RATIO)
        ok = kvt_json_add_number(item, "measured", claim->measured) &&
             kvt_json_add_number(item, "ours", claim->ours) &&
             kvt_json_add_number(item, "least", claim->least) &&
             kvt_json_add_number(item, "most", claim->most);
    return ok && kvt_json_add_text(item, "says", claim->says) &&
           kvt_json_add_bool(item, "holds", claim->holds);
}

static bool add_setting(cJSON *settings, const struct public_setting *setting)
{
    cJSON *item = kvt_json_add_element(settings);
    bool ok = item && kvt_json_add_text(item, "name", setting->name) &&
              kvt_json_add_text(item, "summary", setting->summary) &&
              kvt_json_add_text(item, "source", setting->source);
    cJSON *unknown = ok ? cJSON_AddArrayToObject(item, "unknown") : NULL;
    cJSON *points = unknown ? cJSON_AddArrayToObject(item, "points") : NULL;
    cJSON *claims = points ? cJSON_AddArrayToObject(item, "claims") : NULL;

    ok = claims != NULL;
    for (size_t u = 0; u < setting->unknown_count && ok; u++) {
        cJSON *text = cJSON_CreateString(setting->unknown[u]);
        ok = text && cJSON_AddItemToArray(unknown, text);
    }
    for (size_t p = 0; p < setting->point_count && ok; p++)
        ok = add_point(points, &setting->points[p]);
    for (size_t c = 0; c < setting->claim_count && ok; c++)
        ok = add_claim(claims, &setting->claims[c]);
    return ok;
}

kvt_status public_tree(const struct public_outcome *outcome, cJSON **out, struct kvt_error *err)
{
    const struct sums sums = add_up_all(outcome);
    char engine[128];
    cJSON *tree = cJSON_CreateObject();
    bool ok = tree && kvt_json_add_text(tree, "suite", "public");
    cJSON *settings = ok ? cJSON_AddArrayToObject(tree, "settings") : NULL;

    ok = settings != NULL;
    for (size_t s = 0; s < outcome->count && ok; s++)
        ok = add_setting(settings, outcome->settings[s]);
    say_engine(&sums, engine, sizeof engine);
    const struct kvt_badge badge = badge_of(&sums, engine);
    ok = ok && kvt_json_add_number(tree, "claims", (double)sums.claims) &&
         kvt_json_add_number(tree, "holding", (double)sums.holding) &&
         kvt_json_add_number(tree, "numbers", (double)sums.numbers) &&
         kvt_json_add_number(tree, "within", (double)sums.within) &&
         kvt_json_add_bool(tree, "good", public_is_good(outcome)) && kvt_badge_add(tree, &badge);
    if (ok) {
        *out = tree;
        return KVT_OK;
    }
    cJSON_Delete(tree);
    return kvt_fail_nomem(err, "the result of a validation");
}

/* ---- For people ------------------------------------------------------------------------------ */

static void print_value(const struct public_point *point, const struct public_value *value)
{
    char measured[24] = "-", error[24] = "-";

    if (!isnan(value->measured)) {
        (void)snprintf(measured, sizeof measured, "%.5g", value->measured);
        (void)snprintf(error, sizeof error, "%+.0f %%", 100 * (value->ours / value->measured - 1));
    }
    printf("  %-16s %-32s %9s %9.5g %7s%s\n", point->name, value->metric, measured, value->ours,
           error, value->is_calibrated ? " *" : "");
}

static void print_claim(const struct public_setting *setting, const struct public_claim *claim)
{
    const char *verdict = claim->holds ? "holds" : "DOES NOT HOLD";

    switch (claim->kind) {
    case PUBLIC_NUMBER:
        printf("  %zu of %zu numbers of %s within %.0f %%\n", claim->within, claim->numbers,
               claim->metric, 100 * claim->tolerance);
        return;
    case PUBLIC_ORDER:
        printf("  order: %s (%s .. %s): %s\n", claim->says, setting->points[claim->points[0]].name,
               setting->points[claim->points[claim->point_count - 1]].name, verdict);
        return;
    case PUBLIC_RATIO:
        printf("  ratio: %s (%s / %s): ", claim->says, setting->points[claim->points[0]].name,
               setting->points[claim->points[1]].name);
        if (!isnan(claim->measured))
            printf("measured %.2f, ", claim->measured);
        printf("ours %.2f: %s\n", claim->ours, verdict);
        return;
    case PUBLIC_KINDS:
        return;
    }
}

static bool has_calibrated(const struct public_setting *setting)
{
    for (size_t p = 0; p < setting->point_count; p++) {
        for (size_t v = 0; v < setting->points[p].value_count; v++) {
            if (setting->points[p].values[v].is_calibrated)
                return true;
        }
    }
    return false;
}

static void print_setting(const struct public_setting *setting)
{
    printf("%s: %s\n  source: %s\n", setting->name, setting->summary, setting->source);
    for (size_t u = 0; u < setting->unknown_count; u++)
        printf("  %s %s\n", setting->point_count > 0 ? "unknown:" : "-", setting->unknown[u]);
    if (setting->point_count > 0)
        printf("\n  %-16s %-32s %9s %9s %7s\n", "", "", "measured", "ours", "error");
    for (size_t p = 0; p < setting->point_count; p++) {
        for (size_t v = 0; v < setting->points[p].value_count; v++)
            print_value(&setting->points[p], &setting->points[p].values[v]);
    }
    if (has_calibrated(setting))
        puts("  * calibrated: set something of the setting, is no evidence, and is not counted");
    if (setting->claim_count > 0)
        putchar('\n');
    for (size_t c = 0; c < setting->claim_count; c++)
        print_claim(setting, &setting->claims[c]);
    putchar('\n');
}

void public_print(const struct public_outcome *outcome)
{
    const struct sums sums = add_up_all(outcome);
    char engine[128];

    for (size_t s = 0; s < outcome->count; s++)
        print_setting(outcome->settings[s]);
    say_engine(&sums, engine, sizeof engine);
    const struct kvt_badge badge = badge_of(&sums, engine);
    cli_print_badge(&badge);
}
