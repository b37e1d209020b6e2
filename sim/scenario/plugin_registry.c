/* plugin_registry.c -- plug-ins by kind and name, and what the program lends to them. */
#include "plugins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *kvt_plugin_kind_name(enum kvt_plugin_kind kind)
{
    switch (kind) {
    case KVT_PLUGIN_RESIDENCY:
        return "residency";
    case KVT_PLUGIN_REPLACEMENT:
        return "replacement";
    case KVT_PLUGIN_SCHEDULING:
        return "scheduling";
    case KVT_PLUGIN_ROUTER:
        return "router";
    case KVT_PLUGIN_LAW:
        return "law";
    case KVT_PLUGIN_SPECULATION:
        return "speculation";
    case KVT_PLUGIN_TIMING:
        return "timing";
    case KVT_PLUGIN_IMPORT:
        return "import";
    case KVT_PLUGIN_ARRIVAL:
        return "arrival";
    case KVT_PLUGIN_LENGTH:
        return "length";
    case KVT_PLUGIN_BACKEND:
        return "backend";
    case KVT_PLUGIN_KINDS:
        break;
    }
    return "unknown";
}

const char *kvt_plugin_noun(enum kvt_plugin_kind kind)
{
    static const char *const nouns[KVT_PLUGIN_KINDS] = {
        [KVT_PLUGIN_RESIDENCY] = "residency policy",
        [KVT_PLUGIN_REPLACEMENT] = "replacement policy",
        [KVT_PLUGIN_SCHEDULING] = "scheduling policy",
        [KVT_PLUGIN_ROUTER] = "router policy",
        [KVT_PLUGIN_LAW] = "selection law",
        [KVT_PLUGIN_SPECULATION] = "speculation method",
        [KVT_PLUGIN_TIMING] = "timing model",
        [KVT_PLUGIN_IMPORT] = "import law",
        [KVT_PLUGIN_ARRIVAL] = "arrival",
        [KVT_PLUGIN_LENGTH] = "length law",
        [KVT_PLUGIN_BACKEND] = "backend",
    };
    return nouns[kind];
}

const struct kvt_plugin_info *const *kvt_plugins_built_in(enum kvt_plugin_kind kind, size_t *count)
{
    const struct kvt_plugin_info *const *list = kvt_policies_table(kind, count);
    if (list == NULL)
        list = kvt_models_table(kind, count);
    if (list == NULL)
        list = kvt_workloads_table(kind, count);
    if (list == NULL)
        list = kvt_backends_table(kind, count);
    return list;
}

const struct kvt_plugin_info *const *kvt_plugin_list(const struct kvt_plugins *plugins,
                                                     enum kvt_plugin_kind kind, size_t *count)
{
    if (plugins == NULL || kind >= KVT_PLUGIN_KINDS || plugins->lists[kind].items == NULL)
        return kvt_plugins_built_in(kind, count);
    *count = plugins->lists[kind].count;
    return plugins->lists[kind].items;
}

const char *kvt_idle_cures(const struct kvt_idle *idle, char *out, size_t out_bytes)
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; idle != NULL && i < KVT_IDLE_MAX && idle[i].beside != NULL; i++) {
        if (i > 0 && strcmp(idle[i].cure, idle[i - 1].cure) == 0)
            continue;
        int wrote = snprintf(out + used, out_bytes - used, "%s%s", i > 0 ? "; " : "", idle[i].cure);
        used += wrote > 0 ? (size_t)wrote : 0;
        if (used >= out_bytes)
            break;
    }
    return out;
}

kvt_status kvt_plugin_find(const struct kvt_plugins *plugins, enum kvt_plugin_kind kind,
                           const char *name, const char *where, const struct kvt_plugin_info **out,
                           struct kvt_error *err)
{
    size_t count = 0;
    const struct kvt_plugin_info *const *list = kvt_plugin_list(plugins, kind, &count);
    if (list == NULL)
        return kvt_fail(err, KVT_ERR_INTERNAL, where, "there is no kind of plug-in %d", (int)kind);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i]->name, name) == 0) {
            *out = list[i];
            return KVT_OK;
        }
    }

    char names[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof names; i++) {
        int wrote =
            snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", list[i]->name);
        if (wrote < 0)
            break;
        used += (size_t)wrote;
    }
    return kvt_fail(err, KVT_ERR_NOT_FOUND, where, "\"%.60s\": no such %s; there are: %s%s", name,
                    kvt_plugin_noun(kind), names,
                    kvt_plugin_is_loadable(kind) ? "; --plugin FILE.so brings others" : "");
}

static const struct kvt_host host = {
    .abi = KVT_ABI_VERSION,
    .struct_bytes = sizeof host,
    .fail = kvt_fail,
    .rng_stream = kvt_rng_stream,
    .rng_u64 = kvt_rng_u64,
    .rng_below = kvt_rng_below,
    .rng_unit = kvt_rng_unit,
    .rng_gaussian = kvt_rng_gaussian,
    .rng_exponential = kvt_rng_exponential,
};

const struct kvt_host *kvt_host(void)
{
    return &host;
}

void *kvt_plugin_state_new(size_t bytes)
{
    return calloc(1, bytes ? bytes : 1);
}
