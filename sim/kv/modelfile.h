/* modelfile.h -- what model, drafter and hardware files share: a head, numbers by
 * table, and a source for each number. */
#ifndef KVT_KV_MODELFILE_H
#define KVT_KV_MODELFILE_H

#include "kvt/arena.h"
#include "kvt/json.h"

enum kvt_field_kind {
    KVT_FIELD_U32,
    KVT_FIELD_U64,
    KVT_FIELD_NS,
    KVT_FIELD_F64
};

/* One number of an object and the member of a struct that takes it. */
struct kvt_field {
    const char *key;
    enum kvt_field_kind kind;
    double minimum, maximum; /* counts: whole, up to 2^53 */
    size_t offset;
};

enum {
    KVT_FIELDS_MAX = 40,
    KVT_WHERE_BYTES = 200
};

/* What each of the three kinds of file begins with. Texts live in the arena. */
struct kvt_model_head {
    const char *name, *path, *summary;
    char where[KVT_WHERE_BYTES]; /* "glm-5.3.json#" */
};

/* Checks that the tree is an object of this schema and reads its head. The file's
 * other keys, and the sources, are the caller's. */
KVT_CHECKED kvt_status kvt_model_head_read(const cJSON *tree, const char *path, const char *schema,
                                           struct kvt_arena *arena, struct kvt_model_head *head,
                                           struct kvt_error *err);

/* Reads every field of object into out; all are required. Keys that are neither a
 * field nor one of others[other_count] are refused. At most KVT_FIELDS_MAX in all. */
KVT_CHECKED kvt_status kvt_fields_read(const cJSON *object, const char *where,
                                       const struct kvt_field *fields, size_t field_count,
                                       const char *const *others, size_t other_count, void *out,
                                       struct kvt_error *err);

#endif
