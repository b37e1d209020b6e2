/* along.c -- a key that is changed alone would make another kind of scenario of it, or one that is
 * refused. */
#include "along.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/json.h"

static double number_at(const struct cJSON *tree, const char *holder, const char *name)
{
    const cJSON *item = kvt_json_find(kvt_json_find(tree, holder), name);

    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

void cli_along_read(const struct kvt_scenario *scenario, struct cli_along *out)
{
    const struct cJSON *tree = scenario->tree;

    *out = (struct cli_along){.concurrency = number_at(tree, "workload", "concurrency"),
                              .requests = number_at(tree, "workload", "requests"),
                              .conversations = number_at(tree, "workload", "conversations")};
    if (scenario->pool_count == 1) {
        out->gpus = scenario->pools[0].gpus;
        out->expert_gpus = scenario->pools[0].ep;
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

    /* Of several pools each is set by its number, and says its replicas itself. */
    if (along->gpus == 0 || strcmp(path, "cluster.decode.gpus") != 0 || !is_number(value, &gpus))
        return KVT_OK;
    kvt_status status = add_unless_taken(sets, "cluster.decode.dp", "auto", err);
    if (status == KVT_OK && along->expert_gpus == along->gpus && along->gpus > 1)
        status = add_count(sets, "cluster.decode.ep", gpus, err);
    return status;
}

kvt_status cli_along_concurrency(const struct cli_along *along, const char *path, const char *value,
                                 struct cli_settings *sets, struct kvt_error *err)
{
    double concurrency = 0;
    kvt_status status = KVT_OK;

    if (along->concurrency <= 0 ||
        (strcmp(path, "workload.concurrency") != 0 &&
         strcmp(path, "workload.closed.concurrency") != 0) ||
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
