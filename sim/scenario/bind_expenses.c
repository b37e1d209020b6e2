/* bind_expenses.c -- what somebody pays for GPUs, host DRAM and energy.
 *
 * A sum that lacks a part is no sum: where any GPU has a price, or watts, all have. */
#include <stdio.h>

#include "bind.h"

enum {
    POOLS_MAX = KVT_POOLS_MAX + 1 /* with the prefill pool */
};

struct payers {
    const char *dotted[POOLS_MAX]; /* [count] of the pools' objects */
    struct kvt_expenses *expenses[POOLS_MAX];
    char names[KVT_POOLS_MAX][32];
    uint32_t count;
};

static bool has(const struct kvt_load *load, const char *dotted, const char *name)
{
    return cJSON_IsNumber(kvt_tree_find(kvt_tree_at(load->tree, dotted), name));
}

static bool any_has(const struct kvt_load *load, const struct payers *payers, const char *name)
{
    for (uint32_t p = 0; p < payers->count; p++) {
        if (has(load, payers->dotted[p], name))
            return true;
    }
    return false;
}

static void list_payers(const struct kvt_load *load, struct kvt_scenario *scenario,
                        struct payers *out)
{
    bool is_list = cJSON_IsArray(kvt_tree_at(load->tree, "cluster.decode"));

    *out = (struct payers){.count = scenario->pool_count};
    for (uint32_t p = 0; p < scenario->pool_count; p++) {
        (void)snprintf(out->names[p], sizeof out->names[p],
                       is_list ? "cluster.decode.%u" : "cluster.decode", p);
        out->dotted[p] = out->names[p];
        out->expenses[p] = &scenario->pools[p].expenses;
    }
    if (scenario->prefill.mode != KVT_PREFILL_SEPARATE)
        return;
    out->dotted[out->count] = "cluster.prefill";
    out->expenses[out->count++] = &scenario->prefill.expenses;
}

/* The pool lacks what another has, or what goes with something of its own. */
static kvt_status refuse_lacking(const struct kvt_load *load, const char *dotted, const char *lacks,
                                 const char *why, struct kvt_error *err)
{
    char path[KVT_DOTTED_BYTES];
    char place[KVT_PLACE_BYTES];

    (void)snprintf(path, sizeof path, "%s.%s", dotted, lacks);
    return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, path, place),
                    "%s is missing: %s; a number is expected, 0 for what costs nothing", lacks,
                    why);
}

static void read_expenses(const struct kvt_load *load, const char *dotted, struct kvt_expenses *out)
{
    const cJSON *object = kvt_tree_at(load->tree, dotted);
    const struct {
        const char *name;
        double *value;
    } fields[] = {{"usd_per_gpu_hour", &out->usd_per_gpu_hour},
                  {"usd_per_host_gib_hour", &out->usd_per_host_gib_hour},
                  {"idle_watts_per_gpu", &out->idle_watts_per_gpu},
                  {"busy_watts_per_gpu", &out->busy_watts_per_gpu},
                  {"watts_per_node", &out->watts_per_node}};

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (kvt_tree_find(object, fields[i].name) != NULL)
            *fields[i].value = kvt_real_at(object, fields[i].name);
    }
}

static kvt_status check_pool(const struct kvt_load *load, const struct kvt_scenario *scenario,
                             const char *dotted, const struct kvt_expenses *expenses,
                             struct kvt_error *err)
{
    static const char *const watts[] = {"idle_watts_per_gpu", "busy_watts_per_gpu"};
    char path[KVT_DOTTED_BYTES];
    char place[KVT_PLACE_BYTES];

    if (scenario->has_usd && !has(load, dotted, "usd_per_gpu_hour"))
        return refuse_lacking(load, dotted, "usd_per_gpu_hour",
                              "other parts of the cluster have a price", err);
    for (size_t i = 0; i < 2 && scenario->has_watts; i++) {
        if (!has(load, dotted, watts[i]))
            return refuse_lacking(load, dotted, watts[i], "energy is of every GPU, idle and busy",
                                  err);
    }
    if (expenses->busy_watts_per_gpu >= expenses->idle_watts_per_gpu)
        return KVT_OK;
    (void)snprintf(path, sizeof path, "%s.busy_watts_per_gpu|%s.idle_watts_per_gpu", dotted,
                   dotted);
    return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, path, place),
                    "a GPU that draws %g W idle and %g W busy; no less busy than idle is expected",
                    expenses->idle_watts_per_gpu, expenses->busy_watts_per_gpu);
}

/* What is of energy has no effect where no GPU says what it draws. */
static kvt_status bind_energy(const struct kvt_load *load, struct kvt_scenario *out,
                              struct kvt_error *err)
{
    static const char *const names[] = {"usd_per_kwh", "pue"};
    double *values[] = {&out->usd_per_kwh, &out->pue};

    out->pue = 1;
    for (size_t i = 0; i < 2; i++) {
        char path[KVT_DOTTED_BYTES];
        char place[KVT_PLACE_BYTES];
        if (!has(load, "cluster", names[i]))
            continue;
        *values[i] = kvt_real_at(kvt_tree_at(load->tree, "cluster"), names[i]);
        (void)snprintf(path, sizeof path, "cluster.%s", names[i]);
        if (!out->has_watts)
            return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, path, place),
                            "%s has no effect while no GPU says what it draws; it takes "
                            "cluster.decode.idle_watts_per_gpu and busy_watts_per_gpu",
                            names[i]);
    }
    return KVT_OK;
}

kvt_status kvt_bind_expenses(struct kvt_load *load, struct kvt_scenario *out, struct kvt_error *err)
{
    struct payers payers;
    kvt_status status = KVT_OK;

    list_payers(load, out, &payers);
    out->has_usd = any_has(load, &payers, "usd_per_gpu_hour") ||
                   any_has(load, &payers, "usd_per_host_gib_hour");
    out->has_watts = any_has(load, &payers, "idle_watts_per_gpu") ||
                     any_has(load, &payers, "busy_watts_per_gpu") ||
                     any_has(load, &payers, "watts_per_node");
    for (uint32_t p = 0; p < payers.count && status == KVT_OK; p++) {
        read_expenses(load, payers.dotted[p], payers.expenses[p]);
        status = check_pool(load, out, payers.dotted[p], payers.expenses[p], err);
    }
    if (status == KVT_OK)
        status = bind_energy(load, out, err);
    /* Energy that is paid for is money too, whoever has paid for the machines. */
    out->has_usd = out->has_usd || out->usd_per_kwh > 0;
    return status;
}
