/* along.c -- a key that is changed alone would make another kind of scenario of it, or one that is
 * refused. */
#include "along.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/json.h"

static const struct {
    const char *leader;
    const char *led[CLI_ALONG_MAX];
} together[] = {
    {CLI_ALONG_GPUS, {"cluster.decode.dp", "cluster.decode.ep"}},
    {"workload.concurrency", {"workload.requests", "workload.conversations"}},
    {"workload.closed.concurrency", {"workload.requests", "workload.conversations"}},
};

bool cli_along_leads(const char *leader, const char *path)
{
    for (size_t i = 0; i < sizeof together / sizeof *together; i++) {
        for (size_t k = 0; k < CLI_ALONG_MAX && strcmp(leader, together[i].leader) == 0; k++) {
            if (strcmp(path, together[i].led[k]) == 0)
                return true;
        }
    }
    return false;
}

bool cli_along_is_leader(const char *path)
{
    for (size_t i = 0; i < sizeof together / sizeof *together; i++) {
        if (strcmp(path, together[i].leader) == 0)
            return true;
    }
    return false;
}

static bool is_set(const struct kvt_scenario *scenario, const char *path)
{
    const cJSON *origin = kvt_json_find(scenario->origins, path);

    return cJSON_IsString(origin) && strcmp(origin->valuestring, "--set") == 0;
}

void cli_along_read(const struct kvt_scenario *scenario, struct cli_along *out)
{
    const cJSON *workload = kvt_json_find(scenario->tree, "workload");
    const cJSON *pool = kvt_json_find(kvt_json_find(scenario->tree, "cluster"), "decode");

    *out = (struct cli_along){.concurrency = kvt_json_number_or(workload, "concurrency", 0),
                              .requests = kvt_json_number_or(workload, "requests", 0),
                              .conversations = kvt_json_number_or(workload, "conversations", 0),
                              .keeps_dp = is_set(scenario, "cluster.decode.dp"),
                              .keeps_ep = is_set(scenario, "cluster.decode.ep")};
    if (cJSON_IsArray(pool) && cJSON_GetArraySize(pool) == 1)
        pool = pool->child;
    if (cJSON_IsObject(pool)) {
        out->gpus = kvt_json_number_or(
            pool, "gpus", kvt_json_number_or(pool, "tp", 1) * kvt_json_number_or(pool, "dp", 1));
        out->expert_gpus = kvt_json_number_or(pool, "ep", 1);
    }
}

kvt_status cli_settings_add(struct cli_settings *sets, const char *path, const char *value,
                            struct kvt_error *err)
{
    if (sets->count == sets->most)
        return kvt_fail(err, KVT_ERR_INVALID, path, "a choice of more than %zu settings",
                        sets->most);
    sets->items[sets->count] = kvt_arena_printf(sets->arena, "%s=%s", path, value);
    if (sets->items[sets->count] == NULL)
        return kvt_fail_nomem(err, "a setting");
    sets->count++;
    return KVT_OK;
}

static kvt_status add_unless_taken(struct cli_settings *sets, const char *path, const char *value,
                                   struct kvt_error *err)
{
    return sets->is_taken(sets->context, path) ? KVT_OK : cli_settings_add(sets, path, value, err);
}

static kvt_status add_count(struct cli_settings *sets, const char *path, double value,
                            struct kvt_error *err)
{
    char text[32];

    kvt_json_print_number(value, text);
    return add_unless_taken(sets, path, text, err);
}

static bool is_number(const char *value, double *out)
{
    return kvt_text_real(value, "", -DBL_MAX, DBL_MAX, out, NULL) == KVT_OK;
}

kvt_status cli_along_gpus(const struct cli_along *along, const char *path, const char *value,
                          struct cli_settings *sets, struct kvt_error *err)
{
    double gpus = 0;
    kvt_status status = KVT_OK;

    /* Of several pools each is set by its number, and says its replicas itself. */
    if (along->gpus == 0 || strcmp(path, CLI_ALONG_GPUS) != 0 || !is_number(value, &gpus))
        return KVT_OK;
    if (!along->keeps_dp)
        status = add_unless_taken(sets, "cluster.decode.dp", "auto", err);
    if (status == KVT_OK && !along->keeps_ep && along->expert_gpus == along->gpus &&
        along->gpus > 1)
        status = add_count(sets, "cluster.decode.ep", gpus, err);
    return status;
}

kvt_status cli_along_concurrency(const struct cli_along *along, const char *path, const char *value,
                                 struct cli_settings *sets, struct kvt_error *err)
{
    double concurrency = 0;
    kvt_status status = KVT_OK;

    if (along->concurrency <= 0 || !cli_along_leads(path, "workload.requests") ||
        !is_number(value, &concurrency))
        return KVT_OK;
    if (along->requests > 0)
        status = add_count(sets, "workload.requests",
                           ceil(along->requests / along->concurrency * concurrency), err);
    if (status == KVT_OK && along->conversations > 0)
        status = add_count(sets, "workload.conversations",
                           ceil(along->conversations / along->concurrency * concurrency), err);
    return status;
}
