/* mrc_policies.c -- replacement policies by name, with the parameters that they have by default. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "mrc.h"

struct kvt_params mrc_policy_params(const struct mrc_policy *policy)
{
    return (struct kvt_params){.values = policy->values, .count = policy->table->info.param_count};
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

static kvt_status add(const struct kvt_plugin_info *info, struct mrc_policy *policies,
                      size_t *count, struct kvt_error *err)
{
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
    kvt_status status = set_defaults(policy, err);
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
            status = add(list[i], policies, count, err);
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
            status = add(info, policies, count, err);
        at += length;
        if (*at == '\0')
            break;
    }
    return status;
}
