/* compare_variants.c -- the scenarios that are compared, as the command line gives them. */
#include <assert.h>
#include <string.h>

#include "../axis.h"
#include "compare.h"
#include "kvt/json.h"

static size_t count_changes(const char *argument)
{
    size_t count = 0;

    for (argument += cli_piece_length(argument); *argument == ','; count++)
        argument += 1 + cli_piece_length(argument + 1);
    return count;
}

/* "A,P=V,Q=W": source "A" and changes "P=V" and "Q=W". */
static kvt_status split(const char *argument, struct kvt_arena *arena, struct kvt_variant *out,
                        struct kvt_error *err)
{
    size_t count = count_changes(argument);
    size_t length = cli_piece_length(argument);
    const char **changes =
        kvt_arena_array(arena, count + 1, sizeof *changes, _Alignof(const char *));

    out->source = kvt_arena_printf(arena, "%.*s", (int)length, argument);
    if (changes == NULL || out->source == NULL)
        return kvt_fail_nomem(err, "a variant");
    if (length == 0)
        return kvt_fail(err, KVT_ERR_INVALID, "compare",
                        "\"%.100s\" names no scenario; it is SCENARIO[,PATH=VALUE]..", argument);
    for (size_t i = 0; i < count; i++) {
        argument += length + 1;
        length = cli_piece_length(argument);
        char *change = kvt_arena_printf(arena, "%.*s", (int)length, argument);
        if (change == NULL)
            return kvt_fail_nomem(err, "a variant");
        if (strchr(change, '=') == NULL)
            return kvt_fail(err, KVT_ERR_INVALID, "compare",
                            "\"%.100s\" after a comma is not PATH=VALUE", change);
        changes[i] = change;
    }
    out->changes = changes;
    out->change_count = count;
    return KVT_OK;
}

/* last: one more change after the variant's own, or NULL. The first `common` of sets may be
 * without effect on this variant. */
static kvt_status load(const struct kvt_variant *variant, const struct cli_texts *sets,
                       size_t common, const char *last, struct kvt_arena *arena,
                       struct kvt_scenario *out, struct kvt_error *err)
{
    size_t count = sets->count + variant->change_count + (last != NULL);
    const char **all = kvt_arena_array(arena, count + 1, sizeof *all, _Alignof(const char *));

    if (all == NULL)
        return kvt_fail_nomem(err, "a variant");
    for (size_t i = 0; i < sets->count; i++)
        all[i] = sets->items[i];
    for (size_t i = 0; i < variant->change_count; i++)
        all[sets->count + i] = variant->changes[i];
    if (last != NULL)
        all[count - 1] = last;
    const struct kvt_scenario_options options = {.data_dir = cli_data_dir(),
                                                 .plugins = cli_plugins(),
                                                 .sets = all,
                                                 .set_count = count,
                                                 .common_sets = common};
    return kvt_scenario_load(variant->source, &options, arena, out, err);
}

/* What differs: the changes where all start from one scenario, else the scenario too. */
static const char *name_of(const struct kvt_variant *variant, bool same_source,
                           struct kvt_arena *arena)
{
    const char *name = same_source && variant->change_count > 0 ? "" : variant->source;

    for (size_t i = 0; name != NULL && i < variant->change_count; i++)
        name = kvt_arena_printf(arena, "%s%s%s", name, name[0] != '\0' ? "," : "",
                                variant->changes[i]);
    return name;
}

static kvt_status name_variants(struct compare_plan *plan, struct kvt_arena *arena,
                                struct kvt_error *err)
{
    bool same_source = true;

    for (size_t i = 1; i < plan->variant_count; i++)
        same_source =
            same_source && strcmp(plan->variants[i].source, plan->variants[0].source) == 0;
    for (size_t i = 0; i < plan->variant_count; i++) {
        plan->variants[i].name = name_of(&plan->variants[i], same_source, arena);
        if (plan->variants[i].name == NULL)
            return kvt_fail_nomem(err, "a variant");
    }
    return KVT_OK;
}

/* A setting given to all has an effect on one at least: otherwise the first says why not. */
static kvt_status check_common(const struct cli_texts *sets, struct kvt_arena *arena,
                               struct compare_plan *plan, struct kvt_error *err)
{
    uint64_t idle = UINT64_MAX;

    for (size_t i = 0; i < plan->variant_count; i++)
        idle &= plan->scenarios[i].idle_sets;
    return idle == 0 ? KVT_OK
                     : load(&plan->variants[0], sets, 0, NULL, arena, &plan->scenarios[0], err);
}

kvt_status compare_load_variants(const struct cli_texts *arguments, const struct cli_texts *sets,
                                 struct kvt_arena *arena, struct compare_plan *plan,
                                 struct kvt_error *err)
{
    for (size_t i = 0; i < arguments->count; i++) {
        struct kvt_variant *variant = &plan->variants[i];
        kvt_status status = split(arguments->items[i], arena, variant, err);
        if (status == KVT_OK)
            status = load(variant, sets, sets->count, NULL, arena, &plan->scenarios[i], err);
        if (status != KVT_OK)
            return status;
        variant->scenario = plan->scenarios[i].tree;
        if (plan->scenarios[i].seed != plan->scenarios[0].seed)
            return kvt_fail(err, KVT_ERR_INVALID, arguments->items[i],
                            "its seed is %llu and the first scenario's %llu; ratios are of runs on "
                            "equal seeds, which --set seed=N gives to all",
                            (unsigned long long)plan->scenarios[i].seed,
                            (unsigned long long)plan->scenarios[0].seed);
    }
    plan->variant_count = arguments->count;
    kvt_status status = check_common(sets, arena, plan, err);
    return status == KVT_OK ? name_variants(plan, arena, err) : status;
}

/* ---- Presets ------------------------------------------------------------------------------- */

static const char preset_path[] = "selection.preset";

static const struct kvt_param_spec *find_preset(const struct kvt_scenario *scenario)
{
    const struct kvt_plugin_info *law = scenario->selection.info;

    for (size_t i = 0; i < law->param_count; i++) {
        if (law->params[i].type == KVT_PARAM_CHOICE && strcmp(law->params[i].name, "preset") == 0)
            return &law->params[i];
    }
    return NULL;
}

/* A variant that keeps all history in HBM asks no law. */
static bool selects_rows(const struct kvt_scenario *scenario)
{
    return kvt_json_find(scenario->tree, "selection") != NULL;
}

static bool chooses_preset(const char *change)
{
    size_t length = sizeof preset_path - 1;

    return strncmp(change, preset_path, length) == 0 && change[length] == '=';
}

static kvt_status check_free_of_presets(const struct compare_plan *plan,
                                        const struct cli_texts *sets, struct kvt_error *err)
{
    for (size_t i = 0; i < sets->count; i++) {
        if (chooses_preset(sets->items[i]))
            return kvt_fail(err, KVT_ERR_INVALID, "compare --presets",
                            "--set %s chooses one preset; --presets runs all of them",
                            sets->items[i]);
    }
    for (size_t v = 0; v < plan->variant_count; v++) {
        const struct kvt_variant *variant = &plan->variants[v];
        for (size_t i = 0; i < variant->change_count; i++) {
            if (chooses_preset(variant->changes[i]))
                return kvt_fail(err, KVT_ERR_INVALID, "compare --presets",
                                "variant \"%.100s\" chooses one preset; --presets runs all of them",
                                variant->name);
        }
    }
    return KVT_OK;
}

/* Names of the presets: those of the first variant's law, which all others must have. */
static kvt_status find_presets(struct compare_plan *plan, struct kvt_arena *arena,
                               struct kvt_error *err)
{
    const char *choices = NULL;

    for (size_t v = 0; v < plan->variant_count; v++) {
        const struct kvt_param_spec *spec = find_preset(&plan->scenarios[v]);
        if (spec == NULL)
            return kvt_fail(err, KVT_ERR_INVALID, "compare --presets",
                            "variant \"%.100s\" has the law of selections \"%s\", which has no "
                            "presets; a law with the parameter preset is expected: tape or score",
                            plan->variants[v].name, plan->scenarios[v].selection.info->name);
        if (choices != NULL && strcmp(choices, spec->choices) != 0)
            return kvt_fail(err, KVT_ERR_INVALID, "compare --presets",
                            "the laws of the variants have different presets, %s and %s", choices,
                            spec->choices);
        choices = spec->choices;
    }
    assert(choices != NULL); /* there is a variant */
    plan->preset_count = 0;
    while (*choices != '\0' && plan->preset_count < COMPARE_PRESETS_MAX) {
        size_t length = strcspn(choices, "|");
        const char *name = kvt_arena_printf(arena, "%.*s", (int)length, choices);
        if (name == NULL)
            return kvt_fail_nomem(err, "a preset");
        plan->presets[plan->preset_count++] = name;
        choices += length + (choices[length] == '|');
    }
    return KVT_OK;
}

kvt_status compare_spread_presets(const struct cli_texts *sets, struct kvt_arena *arena,
                                  struct compare_plan *plan, struct kvt_error *err)
{
    size_t count = plan->variant_count;
    kvt_status status = check_free_of_presets(plan, sets, err);

    if (status == KVT_OK)
        status = find_presets(plan, arena, err);
    if (status == KVT_OK && count * plan->preset_count > COMPARE_VARIANTS_MAX)
        status = kvt_fail(err, KVT_ERR_INVALID, "compare --presets",
                          "%zu scenarios under %zu presets are more than %d", count,
                          plan->preset_count, COMPARE_VARIANTS_MAX);
    for (size_t i = 0; status == KVT_OK && i < count * plan->preset_count; i++) {
        const char *preset = plan->presets[i / count];
        const char *change = kvt_arena_printf(arena, "%s=%s", preset_path, preset);
        if (change == NULL)
            return kvt_fail_nomem(err, "a variant");
        if (!selects_rows(&plan->scenarios[i % count]))
            change = NULL;
        plan->variants[i] = plan->variants[i % count];
        status =
            load(&plan->variants[i], sets, sets->count, change, arena, &plan->scenarios[i], err);
        plan->variants[i].scenario = plan->scenarios[i].tree;
    }
    plan->variant_count = count * plan->preset_count;
    return status;
}
