/* layers.c -- who says what, in which order: a file's `extends` first, the file, then --set. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "load.h"

/* NOLINTBEGIN(misc-no-recursion): as deep as a scenario, which the parser bounds */

enum {
    EXTENDS_DEPTH_MAX = 16,
    SET_NAME_BYTES_MAX = 128,
    SET_PARTS_MAX = 16 /* of a path; the deepest key has far fewer */
};

/* The files being read, innermost first: what a circle is found in. */
struct reading {
    const struct reading *up;
    const char *name;
    bool is_file;
    dev_t device;
    ino_t inode;
    unsigned depth;
};

static kvt_status push_layer(struct kvt_load *load, const struct kvt_layer *layer,
                             const char *where, struct kvt_error *err)
{
    if (load->layer_count == KVT_LAYERS_MAX) {
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "more than %d files and settings make up this scenario", KVT_LAYERS_MAX);
    }
    struct kvt_layer *copy = kvt_arena_alloc(load->arena, sizeof *copy, _Alignof(struct kvt_layer));
    if (copy == NULL)
        return kvt_fail_nomem(err, "a scenario");
    *copy = *layer;
    load->layers[load->layer_count++] = copy;
    copy->turn = load->layer_count;
    return KVT_OK;
}

/* ---- Files --------------------------------------------------------------------- */

/* "a.json -> b.json -> a.json", outermost first. */
static size_t print_chain(const struct reading *reading, const struct reading *from, char *out,
                          size_t out_bytes)
{
    size_t used = 0;
    if (reading != from)
        used = print_chain(reading->up, from, out, out_bytes);
    int wrote = snprintf(out + used, out_bytes - used, "%s -> ", reading->name);
    if (wrote < 0 || (size_t)wrote >= out_bytes - used)
        return used;
    return used + (size_t)wrote;
}

static kvt_status refuse_circle(const struct reading *reading, const struct kvt_found *found,
                                const char *where, struct kvt_error *err)
{
    struct stat facts;
    if (stat(found->path, &facts) != 0)
        return KVT_OK; /* reading it says why */
    for (const struct reading *outer = reading; outer != NULL; outer = outer->up) {
        if (!outer->is_file || outer->device != facts.st_dev || outer->inode != facts.st_ino)
            continue;
        char chain[512] = "";
        (void)print_chain(reading, outer, chain, sizeof chain);
        return kvt_fail(err, KVT_ERR_INVALID, where, "extends goes round in a circle: %s%s", chain,
                        found->name);
    }
    return KVT_OK;
}

static kvt_status add_tree(struct kvt_load *load, const cJSON *tree, const struct kvt_found *found,
                           const struct reading *up, struct kvt_error *err);

static kvt_status add_extended(struct kvt_load *load, const struct kvt_at *at, const cJSON *name,
                               const struct reading *reading, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    char described[KVT_DESCRIBED_BYTES];
    struct kvt_found found;
    const cJSON *tree = NULL;
    (void)kvt_at_place(at, place);
    if (!cJSON_IsString(name) || name->valuestring[0] == '\0') {
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "%s is not the name of a scenario, nor a list of names",
                        kvt_value_describe(name, described));
    }
    if (reading->depth == EXTENDS_DEPTH_MAX) {
        return kvt_fail(err, KVT_ERR_INVALID, place, "extends is more than %d files deep",
                        EXTENDS_DEPTH_MAX);
    }
    kvt_status status = kvt_find_file(load, name->valuestring, "scenarios", "scenario",
                                      at->layer->folder, place, &found, err);
    if (status == KVT_OK)
        status = refuse_circle(reading, &found, place, err);
    if (status == KVT_OK)
        status = kvt_read_tree(load, &found, &tree, err);
    return status == KVT_OK ? add_tree(load, tree, &found, reading, err) : status;
}

static kvt_status add_each_extended(struct kvt_load *load, const struct kvt_at *root,
                                    const struct reading *reading, struct kvt_error *err)
{
    const cJSON *extends = kvt_tree_find(root->layer->tree, "extends");
    const struct kvt_at at = kvt_at_member(root, "extends");
    if (extends == NULL)
        return KVT_OK;
    if (!cJSON_IsArray(extends))
        return add_extended(load, &at, extends, reading, err);
    unsigned index = 0;
    for (const cJSON *item = extends->child; item != NULL; item = item->next) {
        char name[16];
        (void)snprintf(name, sizeof name, "%u", index++);
        const struct kvt_at element = kvt_at_member(&at, name);
        kvt_status status = add_extended(load, &element, item, reading, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

/* A result echoes the scenario it ran: that is what runs again. The paths in it
 * were written as seen from the working folder. */
static void open_result(struct kvt_layer *layer)
{
    const cJSON *schema = kvt_tree_find(layer->tree, "schema");
    const cJSON *scenario = kvt_tree_find(layer->tree, "scenario");
    if (!cJSON_IsString(schema) || strcmp(schema->valuestring, KVT_RESULT_SCHEMA) != 0 ||
        scenario == NULL)
        return;
    layer->tree = scenario;
    layer->pointer = "/scenario";
    layer->folder = "";
}

static kvt_status check_schema(const struct kvt_at *root, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    char described[KVT_DESCRIBED_BYTES];
    const cJSON *tree = root->layer->tree;
    if (!cJSON_IsObject(tree)) {
        return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(root, place),
                        "%s is not a scenario, which is an object",
                        kvt_value_describe(tree, described));
    }
    const cJSON *schema = kvt_tree_find(tree, "schema");
    if (schema == NULL) {
        return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(root, place),
                        "there is no \"schema\"; a scenario says \"schema\": \"%s\"",
                        KVT_SCENARIO_SCHEMA);
    }
    if (!cJSON_IsString(schema) || strcmp(schema->valuestring, KVT_SCENARIO_SCHEMA) != 0) {
        const struct kvt_at at = kvt_at_member(root, "schema");
        return kvt_fail(err, KVT_ERR_INVALID, kvt_at_place(&at, place),
                        "%s is not \"%s\", which this version reads",
                        kvt_value_describe(schema, described), KVT_SCENARIO_SCHEMA);
    }
    return KVT_OK;
}

static kvt_status add_tree(struct kvt_load *load, const cJSON *tree, const struct kvt_found *found,
                           const struct reading *up, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    struct kvt_layer layer = {.kind = KVT_LAYER_FILE,
                              .name = found->name,
                              .folder = kvt_folder_of(load->arena, found->path),
                              .pointer = "",
                              .tree = tree};
    if (layer.folder == NULL)
        return kvt_fail_nomem(err, "a scenario");
    open_result(&layer);
    const struct kvt_at root = {.name = "", .layer = &layer};
    kvt_status status = check_schema(&root, err);
    if (status != KVT_OK)
        return status;

    struct reading reading = {
        .up = up, .name = found->name, .depth = up != NULL ? up->depth + 1 : 1};
    struct stat facts;
    if (stat(found->path, &facts) == 0) {
        reading.is_file = true;
        reading.device = facts.st_dev;
        reading.inode = facts.st_ino;
    }
    status = add_each_extended(load, &root, &reading, err);
    if (status == KVT_OK)
        status = push_layer(load, &layer, kvt_at_place(&root, place), err);
    if (status == KVT_OK)
        load->main = load->layers[load->layer_count - 1]; /* the outermost comes last */
    return status;
}

kvt_status kvt_layers_add_source(struct kvt_load *load, const char *source, struct kvt_error *err)
{
    struct kvt_found found;
    const cJSON *tree = NULL;
    kvt_status status =
        kvt_find_file(load, source, "scenarios", "scenario", "", source, &found, err);
    if (status == KVT_OK)
        status = kvt_read_tree(load, &found, &tree, err);
    return status == KVT_OK ? add_tree(load, tree, &found, NULL, err) : status;
}

kvt_status kvt_layers_add_text(struct kvt_load *load, const char *text, size_t text_bytes,
                               const char *name, struct kvt_error *err)
{
    const cJSON *tree = NULL;
    const struct kvt_found found = {.path = name, .name = kvt_arena_strdup(load->arena, name)};
    if (found.name == NULL)
        return kvt_fail_nomem(err, "a scenario");
    kvt_status status = kvt_parse_tree(load, text, text_bytes, name, &tree, err);
    return status == KVT_OK ? add_tree(load, tree, &found, NULL, err) : status;
}

/* ---- Settings -------------------------------------------------------------------- */

/* JSON where it is JSON, else text; what begins like an object or a list was
 * meant as one, so that its fault is told. */
static kvt_status parse_set_value(struct kvt_load *load, const struct kvt_layer *layer,
                                  const char *set, const char *text, cJSON **out,
                                  struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    cJSON *parsed = NULL;
    (void)snprintf(place, sizeof place, "--set %.*s", (int)strcspn(set, "="), set);
    kvt_status status = kvt_json_parse(text, strlen(text), place, 1, &parsed, err);
    if (status == KVT_ERR_NOMEM || (status != KVT_OK && (text[0] == '{' || text[0] == '[')))
        return status;
    *out = status == KVT_OK ? kvt_tree_copy(load->arena, layer, parsed)
                            : kvt_tree_text(load->arena, layer, text);
    cJSON_Delete(parsed);
    return *out != NULL ? KVT_OK : kvt_fail_nomem(err, "a scenario");
}

/* Wraps value into the objects that PATH names, from the last part to the first. */
static kvt_status wrap(struct kvt_load *load, const struct kvt_layer *layer, const char *set,
                       size_t path_bytes, cJSON *value, cJSON **out, struct kvt_error *err)
{
    size_t end = path_bytes;
    cJSON *inner = value;
    for (unsigned parts = 1;; parts++) {
        size_t start = end;
        while (start > 0 && set[start - 1] != '.')
            start--;
        if (start == end || end - start > SET_NAME_BYTES_MAX || parts > SET_PARTS_MAX) {
            return kvt_fail(err, KVT_ERR_INVALID, "--set",
                            "\"%.200s\" is not PATH=VALUE with PATH as "
                            "\"cluster.decode.gpus\"",
                            set);
        }
        char *name = kvt_arena_printf(load->arena, "%.*s", (int)(end - start), set + start);
        cJSON *outer = kvt_tree_new(load->arena, layer, cJSON_Object);
        if (name == NULL || outer == NULL)
            return kvt_fail_nomem(err, "a scenario");
        kvt_tree_set(outer, name, inner);
        inner = outer;
        if (start == 0)
            break;
        end = start - 1;
    }
    *out = inner;
    return KVT_OK;
}

kvt_status kvt_layers_add_set(struct kvt_load *load, size_t index, struct kvt_error *err)
{
    const char *set = load->options->sets[index];
    const char *equals = strchr(set, '=');
    if (equals == NULL) {
        return kvt_fail(err, KVT_ERR_INVALID, "--set", "\"%.200s\" has no '='; it is PATH=VALUE",
                        set);
    }
    struct kvt_layer *layer =
        kvt_arena_alloc(load->arena, sizeof *layer, _Alignof(struct kvt_layer));
    if (layer == NULL)
        return kvt_fail_nomem(err, "a scenario");
    *layer = (struct kvt_layer){
        .kind = KVT_LAYER_SET, .name = "--set", .folder = "", .pointer = "", .set = index};

    cJSON *value = NULL;
    cJSON *tree = NULL;
    kvt_status status = parse_set_value(load, layer, set, equals + 1, &value, err);
    if (status == KVT_OK)
        status = wrap(load, layer, set, (size_t)(equals - set), value, &tree, err);
    if (status != KVT_OK)
        return status;
    layer->tree = tree;
    return push_layer(load, layer, "--set", err);
}

/* NOLINTEND(misc-no-recursion) */
