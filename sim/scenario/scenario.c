/* scenario.c -- a scenario from its source to a struct, step by step. */
#include "kvt/scenario.h"

#include <string.h>

#include "load.h"

const char *kvt_fidelity_name(enum kvt_fidelity fidelity)
{
    static const char *const names[KVT_FIDELITIES] = {"exact", "sampled", "analytic"};
    return fidelity < KVT_FIDELITIES ? names[fidelity] : "unknown";
}

/* Owned by the arena: layers and values point here as long as the scenario lives. */
static kvt_status start(const struct kvt_scenario_options *options, struct kvt_arena *arena,
                        struct kvt_load **out, struct kvt_error *err)
{
    struct kvt_load *load = kvt_arena_alloc(arena, sizeof *load, _Alignof(struct kvt_load));
    if (load == NULL)
        return kvt_fail_nomem(err, "a scenario");
    load->options = options;
    load->arena = arena;
    load->defaults = (struct kvt_layer){
        .kind = KVT_LAYER_DEFAULT, .name = "default", .folder = "", .pointer = ""};
    load->derived = (struct kvt_layer){
        .kind = KVT_LAYER_DERIVED, .name = "derived", .folder = "", .pointer = ""};
    load->inputs = kvt_tree_new(arena, &load->derived, cJSON_Object);
    if (load->inputs == NULL)
        return kvt_fail_nomem(err, "a scenario");
    *out = load;
    return KVT_OK;
}

/* From the layers of the file on. */
static kvt_status finish(struct kvt_load *load, const char *path, struct kvt_scenario *out,
                         struct kvt_error *err)
{
    struct kvt_scenario scenario = {.path = kvt_arena_strdup(load->arena, path),
                                    .plugins = load->options->plugins};
    if (scenario.path == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_status status = KVT_OK;
    for (size_t i = 0; status == KVT_OK && i < load->options->set_count; i++)
        status = kvt_layers_add_set(load, i, err);
    if (status == KVT_OK)
        status = kvt_layers_apply(load, err);
    if (status == KVT_OK && !load->options->only_keys) {
        status = kvt_tree_complete(load, err);
        if (status == KVT_OK)
            status = kvt_tree_bind(load, &scenario, err);
        if (status == KVT_OK)
            kvt_tree_forget_idle(load);
    }
    if (status != KVT_OK)
        return status;
    scenario.tree = load->tree;
    scenario.idle_sets = load->idle_sets;
    scenario.inputs = load->inputs;
    scenario.origins = kvt_tree_origins(load->arena, load->tree);
    if (scenario.origins == NULL)
        return kvt_fail_nomem(err, "a scenario");
    *out = scenario;
    return KVT_OK;
}

kvt_status kvt_scenario_load(const char *source, const struct kvt_scenario_options *options,
                             struct kvt_arena *arena, struct kvt_scenario *out,
                             struct kvt_error *err)
{
    struct kvt_load *load = NULL;
    kvt_status status = start(options, arena, &load, err);
    if (status == KVT_OK)
        status = kvt_layers_add_source(load, source, err);
    return status == KVT_OK ? finish(load, source, out, err) : status;
}

kvt_status kvt_scenario_parse(const char *text, size_t text_bytes, const char *name,
                              const struct kvt_scenario_options *options, struct kvt_arena *arena,
                              struct kvt_scenario *out, struct kvt_error *err)
{
    struct kvt_load *load = NULL;
    kvt_status status = start(options, arena, &load, err);
    if (status == KVT_OK)
        status = kvt_layers_add_text(load, text, text_bytes, name, err);
    return status == KVT_OK ? finish(load, name, out, err) : status;
}
