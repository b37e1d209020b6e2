/* drafter.c -- a draft model's shape, from its file. */
#include "kvt/llm.h"

#include <math.h>

#include "modelfile.h"

#define COUNT(key, least, most)                                                                    \
    {                                                                                              \
#key, KVT_FIELD_U32, least, most, offsetof(struct kvt_drafter, key)                        \
    }
#define REAL(key, least, most)                                                                     \
    {                                                                                              \
#key, KVT_FIELD_F64, least, most, offsetof(struct kvt_drafter, key)                        \
    }

static const struct kvt_field fields[] = {
    COUNT(layers, 1, 1024),           COUNT(kv_heads, 1, 1024),        COUNT(head_dim, 1, 8192),
    COUNT(window_tokens, 0, 1 << 24), COUNT(slack_tokens, 0, 1 << 24), COUNT(block_max, 1, 64),
    REAL(value_bytes, 0.0625, 8),     REAL(weight_bytes, 0, 1e15),
};

kvt_status kvt_drafter_from_json(const struct cJSON *tree, const char *path,
                                 struct kvt_arena *arena, struct kvt_drafter *out,
                                 struct kvt_error *err)
{
    static const char *const others[] = {KVT_MODEL_HEAD_KEYS};
    struct kvt_model_head head;
    struct kvt_drafter drafter = {0};
    kvt_status status = kvt_model_head_read(tree, path, "kvtide/drafter/1", arena, &head, err);

    if (status != KVT_OK) {
        return status;
    }
    status = kvt_fields_read(tree, head.where, fields, sizeof fields / sizeof fields[0], others,
                             sizeof others / sizeof others[0], &drafter, err);
    if (status == KVT_OK) {
        status = kvt_sources_check(tree, head.where, err);
    }
    if (status != KVT_OK) {
        return status;
    }
    if (drafter.window_tokens == 0 && drafter.slack_tokens > 0) {
        return kvt_fail(err, KVT_ERR_INVALID, head.where,
                        "slack_tokens is %u beside a window_tokens of 0: without a window there is "
                        "no ring, and slack_tokens is 0",
                        drafter.slack_tokens);
    }
    drafter.name = head.name;
    drafter.path = head.path;
    drafter.summary = head.summary;
    *out = drafter;
    return KVT_OK;
}

/* The limits of the fields above keep this below 2^63: 2^25 rows, 2^34 values in
 * each, 8 bytes a value. */
uint64_t kvt_drafter_ring_bytes(const struct kvt_drafter *drafter)
{
    double rows = (double)drafter->window_tokens + (double)drafter->slack_tokens;
    double keys_and_values = 2.0 * drafter->layers * drafter->kv_heads * drafter->head_dim;

    if (drafter->window_tokens == 0) {
        return 0;
    }
    return (uint64_t)ceil(rows * keys_and_values * drafter->value_bytes);
}
