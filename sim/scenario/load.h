/* load.h -- one scenario being loaded: what its parts pass to each other. */
#ifndef KVT_SCENARIO_LOAD_H
#define KVT_SCENARIO_LOAD_H

#include "check.h"
#include "keys.h"
#include "kvt/scenario.h"
#include "tree.h"

enum {
    KVT_LAYERS_MAX = 64
};

/* A value in the tree that has no effect. */
struct kvt_idle_value {
    const struct kvt_idle_value *next;
    cJSON *object; /* that holds it */
    const char *name;
};

struct kvt_load {
    const struct kvt_scenario_options *options;
    struct kvt_arena *arena;
    struct kvt_layer defaults, derived;
    const struct kvt_layer *layers[KVT_LAYERS_MAX]; /* [layer_count] first to last */
    size_t layer_count;
    const struct kvt_layer *main; /* the file asked for: where what is missing is missing */
    cJSON *tree;
    cJSON *inputs;
    const char *model_name; /* of the model's file, whatever the scenario changes in it */
    const struct kvt_idle_value *idle; /* found so far */
    uint64_t idle_sets;                /* common settings that have no effect, so far */
};

/* ---- files.c: names to files, files to trees -------------------------------------- */

struct kvt_found {
    const char *path; /* to open */
    const char *name; /* for messages, origins and inputs: shipped files without their folder */
};

/* A shipped name (folder is below the data folder) or, with a '/' or ending in
 * ".json", a path, relative to `from`. */
KVT_CHECKED kvt_status kvt_find_file(struct kvt_load *load, const char *text, const char *folder,
                                     const char *noun, const char *from, const char *where,
                                     struct kvt_found *out, struct kvt_error *err);

/* `text` as seen from the working folder; NULL when memory is short. */
const char *kvt_path_from(struct kvt_arena *arena, const char *folder, const char *text);
const char *kvt_folder_of(struct kvt_arena *arena, const char *path);

/* Reads, hashes into load->inputs, parses; *out lies in the arena. */
KVT_CHECKED kvt_status kvt_read_tree(struct kvt_load *load, const struct kvt_found *found,
                                     const cJSON **out, struct kvt_error *err);
KVT_CHECKED kvt_status kvt_parse_tree(struct kvt_load *load, const char *text, size_t text_bytes,
                                      const char *name, const cJSON **out, struct kvt_error *err);

/* Hashes a file that somebody else will read; it must be a regular file. */
KVT_CHECKED kvt_status kvt_hash_input(struct kvt_load *load, const struct kvt_found *file,
                                      const char *where, struct kvt_error *err);

/* ---- layers.c: who says what, in which order --------------------------------------- */

/* The layers of a file: those of its `extends` first. */
KVT_CHECKED kvt_status kvt_layers_add_source(struct kvt_load *load, const char *source,
                                             struct kvt_error *err);
KVT_CHECKED kvt_status kvt_layers_add_text(struct kvt_load *load, const char *text,
                                           size_t text_bytes, const char *name,
                                           struct kvt_error *err);
/* Setting `index` of the options. */
KVT_CHECKED kvt_status kvt_layers_add_set(struct kvt_load *load, size_t index,
                                          struct kvt_error *err);

/* ---- apply.c: layers into the tree in force ------------------------------------------ */

/* load->tree becomes the defaults with every layer laid over them, in table order. */
KVT_CHECKED kvt_status kvt_layers_apply(struct kvt_load *load, struct kvt_error *err);

/* ---- defaults.c ---------------------------------------------------------------------- */

/* An object of key's members, each at its default. */
KVT_CHECKED kvt_status kvt_default_object(struct kvt_load *load, const struct kvt_key *key,
                                          cJSON **out, struct kvt_error *err);
/* The parameter's default, checked. *out is NULL when it has none. */
KVT_CHECKED kvt_status kvt_default_param(struct kvt_arena *arena, const struct kvt_layer *layer,
                                         const struct kvt_param_spec *spec, cJSON **out,
                                         struct kvt_error *err);
/* Adds a member's default to object, where it has one. */
KVT_CHECKED kvt_status kvt_default_member(struct kvt_load *load, const struct kvt_key *member,
                                          cJSON *object, struct kvt_error *err);
/* Makes object that of this plug-in: its name, its parameters' defaults, and
 * those members of key that go with it. */
KVT_CHECKED kvt_status kvt_default_plugin(struct kvt_load *load, const struct kvt_key *key,
                                          const struct kvt_plugin_info *info,
                                          const struct kvt_layer *chosen_by, cJSON *object,
                                          struct kvt_error *err);

/* ---- complete.c: order, and what is missing -------------------------------------------- */

KVT_CHECKED kvt_status kvt_tree_complete(struct kvt_load *load, struct kvt_error *err);

/* ---- idle.c: what has no effect ----------------------------------------------------------- */

/* Refuses a member of object, or a parameter, that somebody gave though nothing comes of it; given
 * by nobody, or before what took its effect away, it is put back to its default, to be forgotten.
 */
KVT_CHECKED kvt_status kvt_idle_member(struct kvt_load *load, const struct kvt_key *member,
                                       const struct kvt_at *at, cJSON *object,
                                       struct kvt_error *err);
KVT_CHECKED kvt_status kvt_idle_param(struct kvt_load *load, const struct kvt_param_spec *spec,
                                      const struct kvt_at *at, cJSON *object,
                                      struct kvt_error *err);

/* Takes out of the tree what has no effect. For the end: binding reads it. */
void kvt_tree_forget_idle(struct kvt_load *load);

/* Was anything at or below node given by the layer `since`, or after it? Its place; settings of
 * one command line are given at once. Those that are common to several scenarios are only noted. */
bool kvt_find_given(struct kvt_load *load, const cJSON *node, const struct kvt_at *at,
                    const struct kvt_layer *since, char place[KVT_PLACE_BYTES]);

/* ---- place.c: where the scenario says so ------------------------------------------------- */

/* The place of the value at a dotted path or below it that was given last, as its layer gave it.
 * Of several paths ("a.b|c.d") whose values contradict each other, the last one given is meant.
 * Where nobody gave any: the file that gave what they stand in, or the one asked for. */
const char *kvt_load_place(const struct kvt_load *load, const char *paths,
                           char out[KVT_PLACE_BYTES]);

/* kvt_scenario_locate(), of a tree; `otherwise` where nobody gave the value. */
void kvt_tree_locate(const cJSON *tree, const struct kvt_layer *otherwise, struct kvt_error *err);

/* ---- bind.c: the tree as a struct ---------------------------------------------- */

KVT_CHECKED kvt_status kvt_tree_bind(struct kvt_load *load, struct kvt_scenario *out,
                                     struct kvt_error *err);

/* The plug-in an object of the tree in force has chosen. */
const struct kvt_plugin_info *kvt_chosen(const struct kvt_load *load, const struct kvt_key *key,
                                         const cJSON *object);

#endif
