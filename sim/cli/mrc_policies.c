/* mrc_policies.c -- replacement policies by name, with the parameters that they have by default. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "kvt/plugins.h"
#include "mrc.h"

struct kvt_params mrc_policy_params(const struct mrc_policy *policy)
{
    return (struct kvt_params){.values = policy->values, .count = policy->table->info.param_count};
}

/* There is no way to give one here. *missing: a parameter that has no default; NULL. */
static kvt_status find_missing(const struct kvt_plugin_info *info,
                               const struct kvt_param_spec **missing, struct kvt_error *err)
{
    struct kvt_arena *arena = kvt_arena_new(0);
    struct kvt_params params;
    const char *name = NULL;

    *missing = NULL;
    if (arena == NULL)
        return kvt_fail_nomem(err, "a plug-in's parameters");
    kvt_status status = kvt_plugin_defaults(info, cli_data_dir(), arena, &params, &name, err);
    for (size_t i = 0; status == KVT_OK && name != NULL && i < info->param_count; i++) {
        if (strcmp(info->params[i].name, name) == 0)
            *missing = &info->params[i];
    }
    kvt_arena_free(arena);
    return status;
}

/* What sees the future if it is told to is told to. */
static kvt_status set_defaults(struct mrc_policy *policy, struct kvt_error *err)
{
    const struct kvt_plugin_info *info = &policy->table->info;
    kvt_status status = param_defaults(info, policy->values, "trace mrc", err);
    if (status != KVT_OK)
        return status;
    struct kvt_param_value *clairvoyant = param_default_find(info, policy->values, KVT_CLAIRVOYANT);
    policy->sees_future = clairvoyant != NULL;
    if (clairvoyant != NULL)
        clairvoyant->number = 1;
    return KVT_OK;
}

/* One that nobody named and that takes more than its defaults is left out. */
static kvt_status add(const struct kvt_plugin_info *info, bool is_named,
                      struct mrc_policy *policies, size_t *count, struct kvt_error *err)
{
    const struct kvt_param_spec *missing = NULL;
    kvt_status status = find_missing(info, &missing, err);

    if (status != KVT_OK || (missing != NULL && !is_named))
        return status;
    if (missing != NULL)
        return kvt_fail(err, KVT_ERR_INVALID, "trace mrc --policies",
                        "%s takes what has no default: %s is missing: %s", info->name,
                        missing->name, missing->help);
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
        .is_lru = strcmp(info->name, "lru") == 0 || strcmp(info->name, "access-lru") == 0};
    status = set_defaults(policy, err);
    *count += status == KVT_OK;
    return status;
}

kvt_status mrc_policies_find(const char *names, struct mrc_policy *policies, size_t *count,
                             struct kvt_error *err)
{
    kvt_status status = KVT_OK;
    *count = 0;
    if (strcmp(names, "all") == 0) {
        size_t known = 0;
        const struct kvt_plugin_info *const *list =
            kvt_plugin_list(cli_plugins(), KVT_PLUGIN_REPLACEMENT, &known);
        for (size_t i = 0; status == KVT_OK && i < known; i++)
            status = add(list[i], false, policies, count, err);
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
            status = add(info, true, policies, count, err);
        at += length;
        if (*at == '\0')
            break;
    }
    return status;
}
