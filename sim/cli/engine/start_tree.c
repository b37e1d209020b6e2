/* start_tree.c -- the scenario that an engine's flags come to, as a tree. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kvt/json.h"
#include "start.h"

enum {
    OUTPUT_TOKENS = 512, /* of the scenario that is printed: nothing in the flags says them */
    REQUESTS_EACH = 4    /* of it, for each that runs at once */
};

static double fact(const struct engine_start *start, const char *name, double otherwise)
{
    return kvt_engine_number(&start->facts, name, otherwise);
}

const char *engine_row_format(const struct engine_start *start, const char *hardware)
{
    const char *dtype = kvt_engine_text(&start->facts, "kv_dtype");
    const char *other = "file";

    if (dtype != NULL && strcmp(dtype, "auto") != 0)
        return dtype;
    for (uint32_t i = 0; i < start->engine->auto_row_count; i++) {
        const struct kvt_engine_word *word = &start->engine->auto_rows[i];
        if (strcmp(word->theirs, hardware) == 0)
            return word->ours;
        if (strcmp(word->theirs, "other") == 0)
            other = word->ours;
    }
    return other;
}

double engine_format_bytes(const char *format, const struct kvt_llm *llm)
{
    if (llm->index_heads == 0)
        return 0;
    if (strcmp(format, "bf16") == 0)
        return 2.0 * (llm->latent_dim + llm->rope_dim);
    if (strcmp(format, "fp8_ds_mla") == 0)
        return llm->latent_dim + 4.0 * (double)(llm->latent_dim / 128) + 2.0 * llm->rope_dim;
    return 0;
}

static bool add_model(cJSON *tree, const char *model, const char *format, double row_bytes)
{
    cJSON *object = NULL, *payload = NULL, *sources = NULL;

    if (row_bytes <= 0)
        return kvt_json_add_text(tree, "model", model);
    object = kvt_json_add_object(tree, "model");
    payload = object != NULL && kvt_json_add_text(object, "base", model)
                  ? kvt_json_add_object(object, "payload")
                  : NULL;
    sources = payload != NULL && kvt_json_add_text(payload, "name", format) &&
                      kvt_json_add_number(payload, "capacity_bytes", row_bytes) &&
                      kvt_json_add_number(payload, "wire_bytes", ceil(row_bytes / 64) * 64)
                  ? kvt_json_add_object(object, "sources")
                  : NULL;
    return sources != NULL &&
           kvt_json_add_text(sources, "payload",
                             "the engine's KV format: latent and rope values of the model's shape; "
                             "host reads are filled in 64-byte units (sglang #37617)");
}

static bool add_hardware(cJSON *tree, const struct engine_start *start, const char *hardware,
                         double fraction)
{
    cJSON *object = kvt_json_add_object(tree, "hardware");

    return object != NULL && kvt_json_add_text(object, "base", hardware) &&
           kvt_json_add_number(object, "usable_fraction", fraction) &&
           kvt_json_add_number(object, "workspace_gib", start->engine->workspace_gib);
}

static bool add_residency(cJSON *tree, const struct engine_start *start)
{
    cJSON *object = kvt_json_add_object(tree, "residency");
    bool hierarchy = kvt_engine_is(&start->facts, "hierarchy");
    const char *policy = hierarchy                                 ? start->engine->hierarchy_policy
                         : kvt_engine_is(&start->facts, "offload") ? "prefix-offload"
                                                                   : "resident";

    return object != NULL && kvt_json_add_text(object, "policy", policy) &&
           (!hierarchy ||
            kvt_json_add_number(object, "hot_tokens", fact(start, "hot_tokens", 4096)));
}

static bool add_speculation(cJSON *tree, const struct engine_start *start)
{
    const char *method = kvt_engine_text(&start->facts, "method");
    double queries = fact(start, "queries", 1);
    cJSON *object = NULL;

    if (method == NULL || strcmp(method, "none") == 0)
        return true;
    object = kvt_json_add_object(tree, "speculation");
    if (object == NULL || !kvt_json_add_text(object, "method", method))
        return false;
    if (strcmp(method, "mtp") == 0 || strcmp(method, "eagle") == 0 ||
        strcmp(method, "dspark") == 0) {
        if (!kvt_json_add_number(object, "drafts", queries - 1))
            return false;
    } else if (strcmp(method, "dflash2") == 0 && !kvt_json_add_number(object, "block", queries)) {
        return false;
    }
    return !kvt_engine_is(&start->facts, "hierarchy") ||
           kvt_json_add_text(object, "overflow", "none");
}

static bool add_workload(cJSON *tree, double tokens, double concurrency)
{
    cJSON *workload = kvt_json_add_object(tree, "workload");
    double output = tokens > 2 * OUTPUT_TOKENS ? OUTPUT_TOKENS : 1 + floor(tokens / 4);
    cJSON *lengths = NULL, *input = NULL, *outputs = NULL;

    if (workload == NULL || !kvt_json_add_text(workload, "arrival", "closed") ||
        !kvt_json_add_number(workload, "concurrency", concurrency) ||
        !kvt_json_add_number(workload, "requests", concurrency * REQUESTS_EACH))
        return false;
    lengths = kvt_json_add_object(workload, "lengths");
    input = lengths != NULL ? kvt_json_add_object(lengths, "input") : NULL;
    outputs = lengths != NULL ? kvt_json_add_object(lengths, "output") : NULL;
    return input != NULL && outputs != NULL && kvt_json_add_text(input, "law", "fixed") &&
           kvt_json_add_number(input, "tokens", tokens - output) &&
           kvt_json_add_text(outputs, "law", "fixed") &&
           kvt_json_add_number(outputs, "tokens", output);
}

static bool add_cluster(cJSON *tree, const struct engine_start *start,
                        const struct engine_budget *budget)
{
    cJSON *cluster = kvt_json_add_object(tree, "cluster");
    cJSON *decode = cluster != NULL ? kvt_json_add_object(cluster, "decode") : NULL;
    cJSON *import = cluster != NULL ? kvt_json_add_object(cluster, "import") : NULL;
    cJSON *pools = NULL;
    double dp = fact(start, "dp", 1), ep = fact(start, "ep", 1);

    if (decode == NULL || import == NULL || !kvt_json_add_text(import, "law", "rate") ||
        !kvt_json_add_number(decode, "gpus", fact(start, "gpus", 1)) ||
        !kvt_json_add_number(decode, "tp", fact(start, "tp", 1)) ||
        !kvt_json_add_number(decode, "ep", ep) ||
        !kvt_json_add_bool(decode, "lockstep", dp > 1 && ep > 1))
        return false;
    if (budget->unified_gib > 0) {
        pools = kvt_json_add_object(decode, "pools");
        if (pools == NULL || !kvt_json_add_number(pools, "unified_gib", budget->unified_gib))
            return false;
    } else if (budget->rows_gib > 0) {
        pools = kvt_json_add_object(decode, "pools");
        if (pools == NULL || !kvt_json_add_number(pools, "index_gib", budget->index_gib) ||
            !kvt_json_add_number(pools, "rows_gib", budget->rows_gib))
            return false;
    } else if (!kvt_json_add_text(decode, "pools", "derived")) {
        return false;
    }
    if (budget->host_gib_per_node <= 0)
        return true;
    return kvt_json_add_number(decode, "host_dram_gib_per_node", budget->host_gib_per_node) &&
           kvt_json_add_text(decode, "host_pool", budget->per_rank ? "per_rank" : "shared");
}

static bool add_run(cJSON *tree)
{
    cJSON *timing = kvt_json_add_object(tree, "timing");
    cJSON *run = kvt_json_add_object(tree, "run");

    return timing != NULL && run != NULL && kvt_json_add_text(timing, "model", "roofline") &&
           kvt_json_add_text(run, "fidelity", "sampled");
}

cJSON *engine_make_tree(const struct engine_start *start, const struct engine_recipe *recipe)
{
    cJSON *tree = cJSON_CreateObject();
    char name[128];

    (void)snprintf(name, sizeof name, "%.60s-start", start->engine->name);
    bool ok = tree != NULL && kvt_json_add_text(tree, "schema", "kvtide/scenario/1") &&
              kvt_json_add_text(tree, "name", name) &&
              kvt_json_add_number(tree, "seed", fact(start, "seed", 1)) &&
              add_model(tree, recipe->model, recipe->format, recipe->row_bytes) &&
              add_hardware(tree, start, recipe->hardware, recipe->budget.fraction) &&
              add_cluster(tree, start, &recipe->budget) && add_residency(tree, start) &&
              add_speculation(tree, start) && add_run(tree) &&
              add_workload(tree, recipe->tokens, recipe->concurrency);
    if (ok)
        return tree;
    cJSON_Delete(tree);
    return NULL;
}
