/* place.c -- where the scenario says what somebody complains of. */
#include <stdio.h>
#include <string.h>

#include "bind.h"
#include "kvt/scenario.h"
#include "load.h"

enum {
    PATHS_BYTES = 512
};

/* The best place found so far. */
struct found {
    size_t turn; /* of the layer that gave the value; 0: nobody did */
    char place[KVT_PLACE_BYTES];
};

/* "#/a/b" of a file, " a.b" of a setting, after what is in `out`. Names hold neither '.' nor '/'.
 */
static void add_path(char out[KVT_PLACE_BYTES], const char *dotted, bool is_pointer)
{
    size_t used = strlen(out);
    (void)snprintf(out + used, KVT_PLACE_BYTES - used, "%s", dotted);
    for (; is_pointer && out[used] != '\0'; used++) {
        if (out[used] == '.')
            out[used] = '/';
    }
}

/* Where `layer` gave the value at a dotted path: what was noted on the way there, and the rest. */
static void write_place(const cJSON *tree, const struct kvt_layer *layer, const char *dotted,
                        char out[KVT_PLACE_BYTES])
{
    char path[KVT_DOTTED_BYTES];
    bool is_set = layer->kind == KVT_LAYER_SET;
    const char *rest = NULL;

    (void)snprintf(path, sizeof path, "%s", dotted);
    for (size_t length = strlen(path); rest == NULL && length > 0; length--) {
        if (dotted[length] != '.' && dotted[length] != '\0')
            continue;
        path[length] = '\0';
        const cJSON *node = kvt_tree_at(tree, path);
        if (node == NULL || kvt_tree_layer(node) != layer || kvt_tree_place(node) == NULL)
            continue;
        (void)snprintf(out, KVT_PLACE_BYTES, "%s", kvt_tree_place(node));
        rest = dotted + length;
    }
    if (rest == NULL) {
        (void)snprintf(out, KVT_PLACE_BYTES, is_set ? "%s " : "%s#%s/", layer->name,
                       layer->pointer);
        rest = dotted;
    }
    add_path(out, rest, !is_set);
}

/* NOLINTBEGIN(misc-no-recursion): as deep as a scenario, which the parser bounds */

/* The value at `path` or below it that was given last: a file is named with `path` itself, which
 * holds the value; a setting with the value. */
static void offer(const cJSON *tree, const char *path, const cJSON *node, const char *dotted,
                  struct found *found)
{
    const struct kvt_layer *layer = kvt_tree_layer(node);
    unsigned index = 0;

    if (layer->turn > found->turn) {
        found->turn = layer->turn;
        write_place(tree, layer, layer->kind == KVT_LAYER_SET ? dotted : path, found->place);
    }
    for (const cJSON *item = node->child; item != NULL; item = item->next) {
        char below[KVT_DOTTED_BYTES];
        char number[16];
        (void)snprintf(number, sizeof number, "%u", index++);
        int length = snprintf(below, sizeof below, "%s.%s", dotted,
                              item->string != NULL ? item->string : number);
        if (length > 0 && (size_t)length < sizeof below)
            offer(tree, path, item, below, found);
    }
}

/* NOLINTEND(misc-no-recursion) */

/* Of the nearest part of a path that is there and was given itself, such as the list in which a
 * member is missing: the layer; `otherwise` where nobody gave any. */
static const struct kvt_layer *giver_of(const cJSON *tree, const struct kvt_layer *otherwise,
                                        const char *dotted)
{
    char path[KVT_DOTTED_BYTES];

    (void)snprintf(path, sizeof path, "%s", dotted);
    for (char *dot = strrchr(path, '.'); dot != NULL; dot = strrchr(path, '.')) {
        *dot = '\0';
        const cJSON *node = kvt_tree_at(tree, path);
        if (node != NULL && kvt_tree_layer(node)->turn > 0)
            return kvt_tree_layer(node);
    }
    return otherwise;
}

/* "a.b|c.d": of several paths the one that was given last, and the first where nobody gave any. */
static void place_of(const cJSON *tree, const struct kvt_layer *otherwise, const char *paths,
                     char out[KVT_PLACE_BYTES])
{
    struct found found = {.turn = 0};
    size_t count = kvt_choice_count(paths);
    char path[KVT_DOTTED_BYTES];
    size_t length = 0;

    for (size_t i = 0; i < count; i++) {
        const char *at = kvt_choice_at(paths, i, &length);
        (void)snprintf(path, sizeof path, "%.*s", (int)length, at);
        const cJSON *node = kvt_tree_at(tree, path);
        if (node != NULL)
            offer(tree, path, node, path, &found);
    }
    if (found.turn == 0) {
        const char *first = kvt_choice_at(paths, 0, &length);
        (void)snprintf(path, sizeof path, "%.*s", (int)length, first);
        write_place(tree, giver_of(tree, otherwise, path), path, found.place);
    }
    (void)snprintf(out, KVT_PLACE_BYTES, "%s", found.place);
}

const char *kvt_load_place(const struct kvt_load *load, const char *paths,
                           char out[KVT_PLACE_BYTES])
{
    place_of(load->tree, load->main, paths, out);
    return out;
}

/* ---- What others say ----------------------------------------------------------------------- */

/* Is the name a word of the text? Names consist of these. */
static bool is_word_of(const char *text, const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";

    for (const char *at = text; *at != '\0';) {
        size_t length = strspn(at, letters);
        if (length > 0 && length == strlen(name) && memcmp(at, name, length) == 0)
            return true;
        at += length > 0 ? length : 1;
    }
    return false;
}

/* Of a plug-in's parameters those that its message speaks of, as far as they were given: "a.b|a.c",
 * or "" for none. */
static void list_mentioned(const cJSON *tree, const char *object, const char *message,
                           char out[PATHS_BYTES])
{
    size_t used = 0;

    out[0] = '\0';
    for (const cJSON *item = kvt_tree_at(tree, object)->child; item != NULL; item = item->next) {
        if (kvt_tree_layer(item)->turn == 0 || !is_word_of(message, item->string))
            continue;
        int wrote = snprintf(out + used, PATHS_BYTES - used, "%s%s.%s", used > 0 ? "|" : "", object,
                             item->string);
        if (wrote < 0 || (size_t)wrote >= PATHS_BYTES - used)
            break;
        used += (size_t)wrote;
    }
    out[used] = '\0';
}

/* The keys that a plug-in or a part of a run means by its `where`: of a plug-in those that its
 * message speaks of, or its name; keys; or a parameter of the arrival's, "phases/0". False where it
 * is no word of a scenario. */
static bool find_keys(const cJSON *tree, const struct kvt_error *err, char out[PATHS_BYTES])
{
    static const struct {
        const char *kind, *object, *name;
    } plugins[] = {
        {"residency \"", "residency", "policy"},
        {"replacement \"", "replacement", "policy"},
        {"scheduling \"", "cluster.scheduling", "policy"},
        {"router \"", "cluster.router", "policy"},
        {"import \"", "cluster.import", "law"},
        {"timing \"", "timing", "model"},
        {"law \"", "selection", "law"},
        {"speculation \"", "speculation", "method"},
        {"backend \"", "backend", "name"},
    };
    const char *where = err->where;
    for (size_t i = 0; i < sizeof plugins / sizeof plugins[0]; i++) {
        if (strncmp(where, plugins[i].kind, strlen(plugins[i].kind)) != 0)
            continue;
        list_mentioned(tree, plugins[i].object, err->message, out);
        if (out[0] == '\0')
            (void)snprintf(out, PATHS_BYTES, "%s.%s", plugins[i].object, plugins[i].name);
        return true;
    }
    char first[KVT_DOTTED_BYTES];
    (void)snprintf(out, PATHS_BYTES, "%s", where);
    (void)snprintf(first, sizeof first, "%.*s", (int)strcspn(where, "|"), where);
    if (first[0] != '\0' && kvt_tree_at(tree, first) != NULL)
        return true;
    (void)snprintf(out, PATHS_BYTES, "workload.%.200s", where);
    for (char *slash = strchr(out, '/'); slash != NULL; slash = strchr(slash, '/'))
        *slash = '.';
    return where[0] != '\0' && kvt_tree_at(tree, out) != NULL;
}

void kvt_tree_locate(const cJSON *tree, const struct kvt_layer *otherwise, struct kvt_error *err)
{
    char keys[PATHS_BYTES];
    char place[KVT_PLACE_BYTES];

    if (err == NULL || !find_keys(tree, err, keys))
        return;
    place_of(tree, otherwise, keys, place);
    /* Only keys that were given are listed: memory that somebody allowed too little of is no lack
     * of ours. */
    if (err->status == KVT_ERR_NOMEM && strstr(keys, ".memory_mib") != NULL)
        err->status = KVT_ERR_INVALID;
    (void)snprintf(err->where, sizeof err->where, "%s", place);
}

void kvt_scenario_locate(const struct kvt_scenario *scenario, struct kvt_error *err)
{
    /* Every file of a scenario says what it is; the last one is the one asked for. */
    const cJSON *schema = kvt_tree_find(scenario->tree, "schema");
    kvt_tree_locate(scenario->tree, kvt_tree_layer(schema), err);
}
