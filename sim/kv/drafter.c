/* drafter.c -- a draft model's shape, from its file. */
#include "kvt/llm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "modelfile.h"

#define PLACE_BYTES (KVT_WHERE_BYTES + 32)
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

#define OF_PASS(key, least, most)                                                                  \
    {                                                                                              \
#key, KVT_FIELD_U32, least, most, offsetof(struct kvt_draft_pass, key)                     \
    }
static const struct kvt_field pass_fields[] = {
    OF_PASS(hidden, 1, 1 << 20), OF_PASS(heads, 1, 1024),    OF_PASS(inner, 1, 1 << 24),
    OF_PASS(taps, 1, 64),        OF_PASS(lead_tokens, 0, 1),
};

/* Weights of its products: all that the checkpoint has, or less. */
static double pass_weights(const struct kvt_drafter *drafter)
{
    const struct kvt_draft_pass *pass = &drafter->pass;
    double heads = 2.0 * pass->heads + 2.0 * drafter->kv_heads; /* q and out, keys and values */
    double of_layer = pass->hidden * (heads * drafter->head_dim + 3.0 * pass->inner);

    return drafter->layers * of_layer + (double)pass->taps * pass->hidden * pass->hidden;
}

/* Optional: what a pass computes. Without weights of its own a drafter is layers of its model. */
static kvt_status read_pass(const cJSON *tree, const char *where, struct kvt_drafter *drafter,
                            struct kvt_error *err)
{
    char place[PLACE_BYTES];
    const cJSON *object = NULL;
    kvt_status status = kvt_json_get_object(tree, where, "pass", false, &object, err);

    if (status != KVT_OK || object == NULL) {
        return status;
    }
    (void)snprintf(place, sizeof place, "%s/pass", where);
    status = kvt_fields_read(object, place, pass_fields, sizeof pass_fields / sizeof pass_fields[0],
                             NULL, 0, &drafter->pass, err);
    if (status != KVT_OK) {
        return status;
    }
    if (drafter->pass.heads % drafter->kv_heads != 0) {
        return kvt_fail(err, KVT_ERR_INVALID, place, "%u heads do not go evenly on kv_heads of %u",
                        drafter->pass.heads, drafter->kv_heads);
    }
    double bytes = KVT_DRAFT_WEIGHT_BYTES * pass_weights(drafter);
    if (bytes > drafter->weight_bytes) {
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "products of %.0f bytes in bf16, where weight_bytes is %.0f; a drafter "
                        "that is part of its model's checkpoint has no pass of its own",
                        bytes, drafter->weight_bytes);
    }
    return KVT_OK;
}

/* Whom it drafts for: its rows follow the hidden states of those models and of no other. */
static kvt_status read_models(const cJSON *tree, const char *where, struct kvt_arena *arena,
                              struct kvt_drafter *drafter, struct kvt_error *err)
{
    char place[KVT_WHERE_BYTES + 32];
    const cJSON *list = NULL, *item = NULL;
    kvt_status status = kvt_json_get_array(tree, where, "models", true, &list, err);

    if (status != KVT_OK) {
        return status;
    }
    (void)snprintf(place, sizeof place, "%s/models", where);
    if (list->child == NULL) {
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "an empty list; expected the names of the models it was made for");
    }
    const char **names = kvt_arena_array(arena, (size_t)cJSON_GetArraySize(list), sizeof *names,
                                         _Alignof(const char *));
    if (names == NULL) {
        return kvt_fail_nomem(err, where);
    }
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item) || item->valuestring[0] == '\0') {
            return kvt_fail(err, KVT_ERR_INVALID, place,
                            "element %u is no text; expected the name of a model",
                            drafter->model_count);
        }
        names[drafter->model_count] = kvt_arena_strdup(arena, item->valuestring);
        if (names[drafter->model_count++] == NULL) {
            return kvt_fail_nomem(err, where);
        }
    }
    drafter->models = names;
    return KVT_OK;
}

kvt_status kvt_drafter_from_json(const struct cJSON *tree, const char *path,
                                 struct kvt_arena *arena, struct kvt_drafter *out,
                                 struct kvt_error *err)
{
    static const char *const others[] = {KVT_JSON_HEAD_KEYS, "models", "pass"};
    struct kvt_model_head head;
    struct kvt_drafter drafter = {0};
    kvt_status status = kvt_model_head_read(tree, path, "kvtide/drafter/1", arena, &head, err);

    if (status != KVT_OK) {
        return status;
    }
    status = kvt_fields_read(tree, head.where, fields, sizeof fields / sizeof fields[0], others,
                             sizeof others / sizeof others[0], &drafter, err);
    if (status == KVT_OK) {
        status = read_models(tree, head.where, arena, &drafter, err);
    }
    if (status == KVT_OK) {
        status = read_pass(tree, head.where, &drafter, err);
    }
    if (status == KVT_OK) {
        status = kvt_json_check_sources(tree, head.where, err);
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

bool kvt_drafter_fits(const struct kvt_drafter *drafter, const char *model)
{
    for (uint32_t i = 0; i < drafter->model_count; i++) {
        if (strcmp(drafter->models[i], model) == 0) {
            return true;
        }
    }
    return false;
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
