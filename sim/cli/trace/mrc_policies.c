/* mrc_policies.c -- replacement policies by name, with the parameters that they have by default. */
#include <stdio.h>
#include <string.h>

#include "../cli.h"
#include "kvt/plugins.h"
#include "mrc.h"

/* What sees the future if it is told to is told to. */
static kvt_status open_eyes(struct mrc_policy *policy, struct kvt_arena *arena,
                            struct kvt_error *err)
{
    const struct kvt_plugin_info *info = &policy->table->info;
    size_t count = policy->params.count;
    struct kvt_param_value *values =
        kvt_arena_array(arena, count, sizeof *values, _Alignof(struct kvt_param_value));

    if (values == NULL)
        return kvt_fail_nomem(err, "a plug-in's parameters");
    for (size_t i = 0; i < count; i++) {
        bool sees = strcmp(info->params[i].name, KVT_CLAIRVOYANT) == 0;
        values[i] = policy->params.values[i];
        policy->sees_future = policy->sees_future || sees;
        if (sees)
            values[i].number = 1;
    }
    policy->params.values = values;
    return KVT_OK;
}

static const char *help_of(const struct kvt_plugin_info *info, const char *param)
{
    for (size_t i = 0; i < info->param_count; i++) {
        if (strcmp(info->params[i].name, param) == 0)
            return info->params[i].help;
    }
    return "";
}

/* One that nobody named and that takes more than its defaults is left out. */
static kvt_status add(const struct kvt_plugin_info *info, bool is_named, struct kvt_arena *arena,
                      struct mrc_policy *policies, size_t *count, struct kvt_error *err)
{
    const char *missing = NULL;
    struct kvt_params params = {.count = 0};
    kvt_status status = kvt_plugin_defaults(info, cli_data_dir(), arena, &params, &missing, err);

    if (status != KVT_OK || (missing != NULL && !is_named))
        return status;
    if (missing != NULL)
        return kvt_fail(err, KVT_ERR_INVALID, "trace mrc --policies",
                        "%s takes what has no default: %s is missing: %s", info->name, missing,
                        help_of(info, missing));
    if (*count == MRC_POLICIES_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, "trace mrc --policies",
                        "more than %d policies; at most so many are taken", MRC_POLICIES_MAX);
    for (size_t i = 0; i < *count; i++) {
        if (&policies[i].table->info == info)
            return kvt_fail(err, KVT_ERR_INVALID, "trace mrc --policies", "%s is named twice",
                            info->name);
    }
    struct mrc_policy *policy = &policies[*count];
    *policy = (struct mrc_policy){
        .table = (const struct kvt_replacement_policy *)(const void *)info,
        .params = params,
        .is_lru = strcmp(info->name, "lru") == 0 || strcmp(info->name, "access-lru") == 0};
    status = open_eyes(policy, arena, err);
    *count += status == KVT_OK;
    return status;
}

kvt_status mrc_policies_find(const char *names, struct kvt_arena *arena,
                             struct mrc_policy *policies, size_t *count, struct kvt_error *err)
{
    kvt_status status = KVT_OK;
    *count = 0;
    if (strcmp(names, "all") == 0) {
        size_t known = 0;
        const struct kvt_plugin_info *const *list =
            kvt_plugin_list(cli_plugins(), KVT_PLUGIN_REPLACEMENT, &known);
        for (size_t i = 0; status == KVT_OK && i < known; i++)
            status = add(list[i], false, arena, policies, count, err);
        return status;
    }
    for (const char *at = names; status == KVT_OK; at++) {
        char name[64];
        const struct kvt_plugin_info *info = NULL;
        size_t length = strcspn(at, ",");
        (void)snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : 63), at);
        status = kvt_plugin_find(cli_plugins(), KVT_PLUGIN_REPLACEMENT, name,
                                 "trace mrc --policies", &info, err);
        if (status == KVT_OK)
            status = add(info, true, arena, policies, count, err);
        at += length;
        if (*at == '\0')
            break;
    }
    return status;
}
