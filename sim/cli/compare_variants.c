/* compare_variants.c -- the scenarios that are compared, as the command line gives them. */
#include <string.h>

#include "compare.h"

/* Length of text up to the next comma that parts two changes: those inside brackets,
 * braces and quotes belong to a value. */
static size_t piece_length(const char *text)
{
    unsigned depth = 0;
    bool quoted = false;
    size_t i = 0;

    for (; text[i] != '\0'; i++) {
        if (quoted && text[i] == '\\' && text[i + 1] != '\0')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted && (text[i] == '[' || text[i] == '{'))
            depth++;
        else if (!quoted && (text[i] == ']' || text[i] == '}') && depth > 0)
            depth--;
        else if (!quoted && depth == 0 && text[i] == ',')
            break;
    }
    return i;
}

static size_t count_changes(const char *argument)
{
    size_t count = 0;

    for (argument += piece_length(argument); *argument == ','; count++)
        argument += 1 + piece_length(argument + 1);
    return count;
}

/* "A,P=V,Q=W": source "A" and changes "P=V" and "Q=W". */
static kvt_status split(const char *argument, struct kvt_arena *arena, struct kvt_variant *out,
                        struct kvt_error *err)
{
    size_t count = count_changes(argument);
    size_t length = piece_length(argument);
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
        length = piece_length(argument);
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

static kvt_status load(const struct kvt_variant *variant, const struct cli_texts *sets,
                       struct kvt_arena *arena, struct kvt_scenario *out, struct kvt_error *err)
{
    size_t count = sets->count + variant->change_count;
    const char **all = kvt_arena_array(arena, count + 1, sizeof *all, _Alignof(const char *));

    if (all == NULL)
        return kvt_fail_nomem(err, "a variant");
    for (size_t i = 0; i < sets->count; i++)
        all[i] = sets->items[i];
    for (size_t i = 0; i < variant->change_count; i++)
        all[sets->count + i] = variant->changes[i];
    const struct kvt_scenario_options options = {
        .data_dir = cli_data_dir(), .sets = all, .set_count = count};
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

kvt_status compare_load_variants(const struct cli_texts *arguments, const struct cli_texts *sets,
                                 struct kvt_arena *arena, struct compare_plan *plan,
                                 struct kvt_error *err)
{
    for (size_t i = 0; i < arguments->count; i++) {
        struct kvt_variant *variant = &plan->variants[i];
        kvt_status status = split(arguments->items[i], arena, variant, err);
        if (status == KVT_OK)
            status = load(variant, sets, arena, &plan->scenarios[i], err);
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
    return name_variants(plan, arena, err);
}
