/* place.c -- where the scenario says what somebody complains of. */
#include <stdio.h>
#include <string.h>

#include "kvt/scenario.h"
#include "load.h"

/* The place of the value at a dotted path, as its layer gave it; `otherwise` where nobody did. */
static const char *place_of(const cJSON *tree, const struct kvt_layer *otherwise,
                            const char *dotted, char out[KVT_PLACE_BYTES])
{
    const cJSON *node = kvt_tree_at(tree, dotted);
    const struct kvt_layer *layer = node != NULL ? kvt_tree_layer(node) : otherwise;
    if (layer->kind == KVT_LAYER_SET) {
        (void)snprintf(out, KVT_PLACE_BYTES, "--set %s", dotted);
        return out;
    }
    if (layer->kind != KVT_LAYER_FILE)
        layer = otherwise;
    int used = snprintf(out, KVT_PLACE_BYTES, "%s#%s/%s", layer->name, layer->pointer, dotted);
    /* Names of keys hold neither '.' nor '/'. */
    size_t start = strlen(layer->name) + 1 + strlen(layer->pointer) + 1;
    for (size_t i = start; used > 0 && i < (size_t)used && i < KVT_PLACE_BYTES - 1; i++) {
        if (out[i] == '.')
            out[i] = '/';
    }
    return out;
}

const char *kvt_load_place(const struct kvt_load *load, const char *dotted,
                           char out[KVT_PLACE_BYTES])
{
    return place_of(load->tree, load->main, dotted, out);
}

/* ---- What others say ----------------------------------------------------------------------- */

/* The key that a plug-in or a part of a run means by its `where`: itself, a key, or a parameter of
 * the arrival's; false where it is no word of a scenario. */
static bool find_key(const cJSON *tree, const char *where, char out[KVT_PLACE_BYTES])
{
    static const struct {
        const char *kind, *key;
    } plugins[] = {
        {"import \"", "cluster.import.law"},
        {"timing \"", "timing.model"},
        {"law \"", "selection.law"},
        {"speculation \"", "speculation.method"},
    };
    for (size_t i = 0; i < sizeof plugins / sizeof plugins[0]; i++) {
        if (strncmp(where, plugins[i].kind, strlen(plugins[i].kind)) == 0) {
            (void)snprintf(out, KVT_PLACE_BYTES, "%s", plugins[i].key);
            return true;
        }
    }
    (void)snprintf(out, KVT_PLACE_BYTES, "%s", where);
    if (where[0] != '\0' && kvt_tree_at(tree, out) != NULL)
        return true;
    (void)snprintf(out, KVT_PLACE_BYTES, "workload.%.200s", where);
    return where[0] != '\0' && kvt_tree_at(tree, out) != NULL;
}

void kvt_tree_locate(const cJSON *tree, const struct kvt_layer *otherwise, struct kvt_error *err)
{
    char key[KVT_PLACE_BYTES];
    char place[KVT_PLACE_BYTES];

    if (err == NULL || !find_key(tree, err->where, key))
        return;
    (void)place_of(tree, otherwise, key, place);
    (void)snprintf(err->where, sizeof err->where, "%s", place);
}

void kvt_scenario_locate(const struct kvt_scenario *scenario, struct kvt_error *err)
{
    /* Every file of a scenario says what it is; the last one is the one asked for. */
    const cJSON *schema = kvt_tree_find(scenario->tree, "schema");
    kvt_tree_locate(scenario->tree, kvt_tree_layer(schema), err);
}
