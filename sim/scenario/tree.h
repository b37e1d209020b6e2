/* tree.h -- the tree in force: cJSON nodes in the arena that know which layer set them. */
#ifndef KVT_SCENARIO_TREE_H
#define KVT_SCENARIO_TREE_H

#include "kvt/arena.h"
#include "kvt/json.h"

enum {
    KVT_PLACE_BYTES = 256
};

enum kvt_layer_kind {
    KVT_LAYER_DEFAULT,
    KVT_LAYER_DERIVED,
    KVT_LAYER_FILE,
    KVT_LAYER_SET
};

/* One source of values. Layers are applied in order; the last word counts. */
struct kvt_layer {
    enum kvt_layer_kind kind;
    const char *name;    /* origin of its values: a file's name, "--set", "default", "derived" */
    const char *folder;  /* what relative paths in it start from; "" is the working folder */
    const char *pointer; /* where the scenario lies in the file: "", or "/scenario" of a result */
    const cJSON *tree;
    size_t set;  /* SET: which of the command line's, from 0 */
    size_t turn; /* of files and settings, in the order in which they speak, from 1; 0: nobody */
};

/* Where a value stands within its layer: a chain of member names on the stack. */
struct kvt_at {
    const struct kvt_at *up; /* NULL at the root */
    const char *name;
    const struct kvt_layer *layer;
};
static inline struct kvt_at kvt_at_member(const struct kvt_at *up, const char *name)
{
    return (struct kvt_at){.up = up, .name = name, .layer = up->layer};
}

/* "FILE#/cluster/decode/gpus" or "--set cluster.decode.gpus", by the layer of `at` itself; into
 * out, which is returned. */
const char *kvt_at_place(const struct kvt_at *at, char out[KVT_PLACE_BYTES]);

/* "cluster.decode.gpus" */
const char *kvt_at_dotted(const struct kvt_at *at, char out[KVT_PLACE_BYTES]);

/* Nodes of a type of cJSON's, without name, neighbours or children; NULL when memory is short. The
 * readers of kvt/json.h take them; cJSON_Delete() must not see them. */
KVT_CHECKED cJSON *kvt_tree_new(struct kvt_arena *arena, const struct kvt_layer *layer, int type);
KVT_CHECKED cJSON *kvt_tree_text(struct kvt_arena *arena, const struct kvt_layer *layer,
                                 const char *text);
KVT_CHECKED cJSON *kvt_tree_number(struct kvt_arena *arena, const struct kvt_layer *layer,
                                   double number);

/* A deep copy, all of it set by `layer`. The name of the root is not copied. */
KVT_CHECKED cJSON *kvt_tree_copy(struct kvt_arena *arena, const struct kvt_layer *layer,
                                 const cJSON *from);

/* Member by exact name, NULL when absent. */
cJSON *kvt_tree_find(const cJSON *object, const char *name);

/* Puts child under parent (an object) as `name`, in the place of an older member
 * of that name if there is one; name must live as long. */
void kvt_tree_set(cJSON *parent, const char *name, cJSON *child);
void kvt_tree_append(cJSON *array, cJSON *child);
void kvt_tree_remove(cJSON *parent, const char *name);
void kvt_tree_move_last(cJSON *parent, cJSON *child);

/* Where the layer of the node gave it, which need not be where it stands in the tree: text that
 * lives as long. NULL where nothing was noted. */
void kvt_tree_note_place(cJSON *node, const char *place);
const char *kvt_tree_place(const cJSON *node);

/* Which layer set the node. Only for nodes made here. */
const struct kvt_layer *kvt_tree_layer(const cJSON *node);

/* Element by "0", "1", ...: NULL when index is not such text or too large. */
cJSON *kvt_tree_element(const cJSON *array, const char *index);

/* Node at a dotted path ("cluster.decode.0.gpus"), NULL when there is none. */
cJSON *kvt_tree_at(const cJSON *tree, const char *dotted);

/* A flat object: dotted path of each leaf -> origin. Objects, and lists of
 * objects, are gone into; other lists are leaves. NULL when memory is short. */
KVT_CHECKED cJSON *kvt_tree_origins(struct kvt_arena *arena, const cJSON *tree);

#endif
