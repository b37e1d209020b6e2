/* plugin_table.c -- is a table that somebody brings whole? */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "keys.h"
#include "kvt/law.h"
#include "kvt/policy.h"
#include "kvt/speculation.h"
#include "load.h"
#include "plugins.h"

enum {
    NAME_MAX_BYTES = 40,
    PARAMS_MAX = 64,
    MEMBERS_MAX = 8,
};

/* A function that a table must have. */
struct member {
    const char *name;
    size_t offset;
};

/* What a table of a kind is. Tables that end before `least_bytes` lack something required; what
 * lies behind that is optional, and was not there in every version. */
struct table_kind {
    size_t bytes, least_bytes;
    struct member required[MEMBERS_MAX];
};

#define MEMBER(table, name)                                                                        \
    {                                                                                              \
#name, offsetof(struct table, name)                                                        \
    }
#define UP_TO(table, name) (offsetof(struct table, name) + sizeof(((struct table *)0)->name))

static const struct table_kind table_kinds[KVT_PLUGIN_KINDS] = {
    [KVT_PLUGIN_RESIDENCY] = {sizeof(struct kvt_residency_policy),
                              UP_TO(kvt_residency_policy, landing),
                              {MEMBER(kvt_residency_policy, state_bytes),
                               MEMBER(kvt_residency_policy, init),
                               MEMBER(kvt_residency_policy, needs)}},
    [KVT_PLUGIN_REPLACEMENT] = {sizeof(struct kvt_replacement_policy),
                                UP_TO(kvt_replacement_policy, wants_hit_order),
                                {MEMBER(kvt_replacement_policy, state_bytes),
                                 MEMBER(kvt_replacement_policy, init),
                                 MEMBER(kvt_replacement_policy, choose_victims),
                                 MEMBER(kvt_replacement_policy, on_resolved),
                                 MEMBER(kvt_replacement_policy, on_invalidate),
                                 MEMBER(kvt_replacement_policy, ranks)}},
    [KVT_PLUGIN_SCHEDULING] = {sizeof(struct kvt_scheduling_policy),
                               UP_TO(kvt_scheduling_policy, wants_entries),
                               {MEMBER(kvt_scheduling_policy, state_bytes),
                                MEMBER(kvt_scheduling_policy, init),
                                MEMBER(kvt_scheduling_policy, next),
                                MEMBER(kvt_scheduling_policy, preempt)}},
    [KVT_PLUGIN_ROUTER] = {sizeof(struct kvt_router_policy),
                           UP_TO(kvt_router_policy, route),
                           {MEMBER(kvt_router_policy, state_bytes), MEMBER(kvt_router_policy, init),
                            MEMBER(kvt_router_policy, route)}},
    [KVT_PLUGIN_LAW] = {sizeof(struct kvt_law),
                        UP_TO(kvt_law, reads_source),
                        {MEMBER(kvt_law, prepare), MEMBER(kvt_law, free), MEMBER(kvt_law, describe),
                         MEMBER(kvt_law, stream_bytes), MEMBER(kvt_law, stream_init),
                         MEMBER(kvt_law, select)}},
    [KVT_PLUGIN_SPECULATION] =
        {sizeof(struct kvt_speculation_method),
         UP_TO(kvt_speculation_method, plan_bytes),
         {MEMBER(kvt_speculation_method, prepare), MEMBER(kvt_speculation_method, free),
          MEMBER(kvt_speculation_method, shape), MEMBER(kvt_speculation_method, request_bytes),
          MEMBER(kvt_speculation_method, request_init), MEMBER(kvt_speculation_method, plan)}},
};

/* ---- Parameters --------------------------------------------------------------------------- */

/* NOLINTBEGIN(misc-no-recursion): as deep as the table of keys */

/* The section of a scenario that a plug-in of the kind is chosen in, at or below key; NULL. */
static const struct kvt_key *find_section(const struct kvt_key *key, enum kvt_plugin_kind kind)
{
    const struct kvt_key *found = key->type == KVT_KEY_PLUGIN && key->kind == kind ? key : NULL;

    for (const struct kvt_key *member = key->members; found == NULL && kvt_key_is_one(member);
         member++)
        found = find_section(member, kind);
    return found;
}

/* NOLINTEND(misc-no-recursion) */

static bool is_param_name(const char *name)
{
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");

    return length > 0 && name[length] == '\0' && name[0] >= 'a' && name[0] <= 'z';
}

/* In a scenario it stands beside the section's own keys. */
static kvt_status check_param_name(const struct kvt_plugin_table *table, const char *where,
                                   const struct kvt_param_spec *spec, struct kvt_error *err)
{
    const struct kvt_key *section = find_section(kvt_keys_root(), table->kind);

    if (!is_param_name(spec->name))
        return kvt_fail(err, KVT_ERR_POLICY, where,
                        "\"%s\": a parameter is named \"%.60s\"; small letters, digits and "
                        "underscores behind a letter are expected",
                        table->info->name, spec->name);
    if (section != NULL &&
        (strcmp(section->name_key, spec->name) == 0 || kvt_key_member(section, spec->name) != NULL))
        return kvt_fail(
            err, KVT_ERR_POLICY, where,
            "\"%s\": a parameter is named \"%s\", as a key of \"%s\" is, where it would "
            "stand; another name is expected",
            table->info->name, spec->name, section->name);
    if (strcmp(spec->name, KVT_CLAIRVOYANT) == 0 && spec->type != KVT_PARAM_BOOL)
        return kvt_fail(err, KVT_ERR_POLICY, where,
                        "\"%s\": parameter \"%s\" is no truth; type KVT_PARAM_BOOL is expected",
                        table->info->name, spec->name);
    return KVT_OK;
}

/* What takes the parameter's effect away is there. */
static kvt_status check_idle(const struct kvt_plugin_info *info, const char *where,
                             const struct kvt_param_spec *spec, struct kvt_error *err)
{
    for (size_t i = 0; i < KVT_IDLE_MAX && spec->idle[i].beside != NULL; i++) {
        const char *beside = spec->idle[i].beside;
        if (strchr(beside, '.') == NULL && kvt_param_find(info, beside) == NULL)
            return kvt_fail(err, KVT_ERR_POLICY, where,
                            "\"%s\": parameter \"%s\" is idle beside \"%.60s\", which it does not "
                            "have; a parameter of its own, or a dotted key, is expected",
                            info->name, spec->name, beside);
        if (spec->idle[i].cure == NULL)
            return kvt_fail(err, KVT_ERR_POLICY, where,
                            "\"%s\": parameter \"%s\" is idle beside \"%.60s\" without a cure; the "
                            "words for what gives its effect back are expected",
                            info->name, spec->name, beside);
    }
    return KVT_OK;
}

static kvt_status check_param(const struct kvt_plugin_info *info, const char *where, size_t index,
                              struct kvt_error *err)
{
    const struct kvt_param_spec *spec = &info->params[index];
    bool has_choices = spec->type == KVT_PARAM_CHOICE || spec->type == KVT_PARAM_RECORDS;

    if (spec->name == NULL || spec->name[0] == '\0' || spec->help == NULL)
        return kvt_fail(err, KVT_ERR_POLICY, where,
                        "\"%s\": parameter %zu has no name or no help; both are expected",
                        info->name, index);
    for (size_t i = 0; i < index; i++) {
        if (strcmp(info->params[i].name, spec->name) == 0)
            return kvt_fail(err, KVT_ERR_POLICY, where,
                            "\"%s\": it has two parameters named \"%s\"", info->name, spec->name);
    }
    if ((unsigned)spec->type > KVT_PARAM_RECORDS)
        return kvt_fail(err, KVT_ERR_POLICY, where,
                        "\"%s\": parameter \"%s\" is of type %d; 0 to %d are known", info->name,
                        spec->name, (int)spec->type, KVT_PARAM_RECORDS);
    if (has_choices && (spec->choices == NULL || spec->choices[0] == '\0'))
        return kvt_fail(err, KVT_ERR_POLICY, where, "\"%s\": parameter \"%s\" lacks its choices",
                        info->name, spec->name);
    if (!(spec->minimum <= spec->maximum))
        return kvt_fail(err, KVT_ERR_POLICY, where,
                        "\"%s\": parameter \"%s\" takes %g to %g, which is nothing", info->name,
                        spec->name, spec->minimum, spec->maximum);
    return KVT_OK;
}

/* A default that its own bounds refuse is none: then the parameter must be given. One that is
 * written down and cannot be read is a mistake. */
static kvt_status check_default(const struct kvt_plugin_info *info, const char *where,
                                const struct kvt_param_spec *spec, struct kvt_error *err)
{
    struct kvt_arena *arena = kvt_arena_new(0);
    struct kvt_layer layer = {
        .kind = KVT_LAYER_DEFAULT, .name = "default", .folder = "", .pointer = ""};
    struct kvt_error cause;
    cJSON *node = NULL;

    if (arena == NULL)
        return kvt_fail_nomem(err, "a plug-in's defaults");
    kvt_status status = kvt_default_param(arena, &layer, spec, &node, &cause);
    if (status == KVT_OK && node == NULL && spec->default_text != NULL)
        status = kvt_fail(err, KVT_ERR_POLICY, where,
                          "\"%s\": the default of parameter \"%s\", %s, is not one it takes",
                          info->name, spec->name, spec->default_text);
    else if (status != KVT_OK)
        status = kvt_fail(err, status, where, "\"%s\": the default of parameter \"%s\": %s",
                          info->name, spec->name, cause.message);
    kvt_arena_free(arena);
    return status;
}

/* ---- The table ------------------------------------------------------------------------------ */

static bool is_name(const char *name)
{
    size_t length = name != NULL ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") : 0;

    return length > 0 && length <= NAME_MAX_BYTES && name[length] == '\0' && name[0] != '-';
}

static kvt_status check_info(const struct kvt_plugin_table *table, const char *where,
                             struct kvt_error *err)
{
    const struct kvt_plugin_info *info = table->info;

    if (!is_name(info->name))
        return kvt_fail(err, KVT_ERR_POLICY, where,
                        "the table's name is \"%.60s\"; 1 to %d small letters, digits and "
                        "dashes are expected",
                        info->name != NULL ? info->name : "", NAME_MAX_BYTES);
    if (info->summary == NULL || info->summary[0] == '\0')
        return kvt_fail(err, KVT_ERR_POLICY, where, "\"%s\": it has no summary", info->name);
    if (info->param_count > PARAMS_MAX || (info->param_count > 0 && info->params == NULL))
        return kvt_fail(err, KVT_ERR_POLICY, where,
                        "\"%s\": it says that it has %zu parameters; 0 to %d, and a list of them, "
                        "are expected",
                        info->name, info->param_count, PARAMS_MAX);
    for (size_t i = 0; i < info->param_count; i++) {
        kvt_status status = check_param(info, where, i, err);
        if (status == KVT_OK)
            status = check_param_name(table, where, &info->params[i], err);
        if (status == KVT_OK)
            status = check_default(info, where, &info->params[i], err);
        if (status != KVT_OK)
            return status;
    }
    /* Now that each has a name. */
    for (size_t i = 0; i < info->param_count; i++) {
        kvt_status status = check_idle(info, where, &info->params[i], err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

bool kvt_plugin_is_loadable(enum kvt_plugin_kind kind)
{
    return (unsigned)kind < KVT_PLUGIN_KINDS && table_kinds[kind].bytes > 0;
}

kvt_status kvt_plugin_table_check(const struct kvt_plugin_table *table, const char *where,
                                  size_t *table_bytes, struct kvt_error *err)
{
    const struct kvt_plugin_info *info = table->info;

    if (!kvt_plugin_is_loadable(table->kind))
        return kvt_fail(err, KVT_ERR_POLICY, where,
                        "a table is of kind %d (%s); residency, replacement, scheduling, router, "
                        "law and speculation can be loaded",
                        (int)table->kind, kvt_plugin_kind_name(table->kind));
    const struct table_kind *kind = &table_kinds[table->kind];
    if (info == NULL)
        return kvt_fail(err, KVT_ERR_POLICY, where, "a %s has no table",
                        kvt_plugin_noun(table->kind));
    if (info->abi != KVT_ABI_VERSION)
        return kvt_fail(err, KVT_ERR_ABI, where,
                        "a %s was built for ABI %u, and this kvtide has ABI %u: build it "
                        "against this kvtide's headers",
                        kvt_plugin_noun(table->kind), info->abi, KVT_ABI_VERSION);
    if (info->struct_bytes < kind->least_bytes || info->struct_bytes > kind->bytes)
        return kvt_fail(err, KVT_ERR_ABI, where,
                        "the table of a %s has %u bytes, and %zu to %zu are known here: build it "
                        "against this kvtide's headers, with struct_bytes the sizeof of its table",
                        kvt_plugin_noun(table->kind), info->struct_bytes, kind->least_bytes,
                        kind->bytes);
    kvt_status status = check_info(table, where, err);
    if (status != KVT_OK)
        return status;
    for (size_t i = 0; i < MEMBERS_MAX && kind->required[i].name != NULL; i++) {
        void (*function)(void);
        memcpy(&function, (const char *)info + kind->required[i].offset, sizeof function);
        if (function == NULL)
            return kvt_fail(err, KVT_ERR_POLICY, where, "%s \"%s\" has no %s(), which it must have",
                            kvt_plugin_noun(table->kind), info->name, kind->required[i].name);
    }
    *table_bytes = kind->bytes;
    return KVT_OK;
}
