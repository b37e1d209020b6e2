/* llm.c -- a language model's shape, from its file. */
#include "kvt/llm.h"

#include <stdio.h>
#include <string.h>

#include "llm_change.h"
#include "modelfile.h"

#define COUNT(key, least, most)                                                                    \
    {                                                                                              \
#key, KVT_FIELD_U32, least, most, offsetof(struct kvt_llm, key)                            \
    }
#define REAL(key, least, most)                                                                     \
    {                                                                                              \
#key, KVT_FIELD_F64, least, most, offsetof(struct kvt_llm, key)                            \
    }

enum {
    PLACE_BYTES = KVT_WHERE_BYTES + 64,
    LAYERS_MAX = 4096
};

static const struct kvt_field fields[] = {
    COUNT(layers, 1, LAYERS_MAX),
    COUNT(hidden, 1, 1 << 20),
    COUNT(heads, 1, 1 << 16),
    COUNT(latent_dim, 1, 1 << 16),
    COUNT(rope_dim, 0, 1 << 16),
    COUNT(index_heads, 0, 1 << 16),
    COUNT(index_dim, 0, 1 << 16),
    COUNT(top_k, 1, 1u << 31),
    COUNT(max_position_tokens, 1, 1u << 31),
    COUNT(experts, 0, 1 << 20),
    COUNT(experts_active, 0, 1 << 20),
    REAL(weight_bytes, 1, 1e16),
    REAL(dense_weight_bytes, 0, 1e16),
    REAL(active_parameters, 1, 1e16),
    REAL(kv_bytes_per_token_other, 0, 1e9),
    {"window_bytes", KVT_FIELD_U64, 0, 1e15, offsetof(struct kvt_llm, window_bytes)},
    REAL(weights_replicated_gib, 0, 1e7),
    REAL(weights_expert_gib, 0, 1e7),
};

static const struct kvt_field row_fields[] = {
    {"capacity_bytes", KVT_FIELD_U32, 1, 1 << 16, offsetof(struct kvt_row_format, capacity_bytes)},
    {"wire_bytes", KVT_FIELD_U32, 1, 1 << 16, offsetof(struct kvt_row_format, wire_bytes)},
};
static const struct kvt_field index_row_fields[] = {
    {"capacity_bytes", KVT_FIELD_U32, 0, 1 << 16, offsetof(struct kvt_row_format, capacity_bytes)},
    {"wire_bytes", KVT_FIELD_U32, 0, 1 << 16, offsetof(struct kvt_row_format, wire_bytes)},
};

/* A run of stores: repeat of them, the first at first_layer, each stride_layers
 * after the one before. */
struct store_run {
    uint32_t first_layer, layers, compress_ratio, repeat, stride_layers;
};

static const struct kvt_field store_fields[] = {
    {"first_layer", KVT_FIELD_U32, 0, LAYERS_MAX, offsetof(struct store_run, first_layer)},
    {"layers", KVT_FIELD_U32, 1, LAYERS_MAX, offsetof(struct store_run, layers)},
    {"compress_ratio", KVT_FIELD_U32, 1, KVT_PAGE_ROWS, offsetof(struct store_run, compress_ratio)},
    {"repeat", KVT_FIELD_U32, 1, KVT_STORES_MAX, offsetof(struct store_run, repeat)},
    {"stride_layers", KVT_FIELD_U32, 1, LAYERS_MAX, offsetof(struct store_run, stride_layers)},
};

static const struct kvt_field selector_fields[] = {
    {"layer", KVT_FIELD_U32, 0, LAYERS_MAX, offsetof(struct kvt_selector, layer)},
    {"store", KVT_FIELD_U32, 0, KVT_STORES_MAX - 1, offsetof(struct kvt_selector, store)},
};

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* Numbers that only some rows have: another is refused with its key. */
static kvt_status read_extra(const cJSON *object, const char *place, bool is_index,
                             struct kvt_row_format *out, struct kvt_error *err)
{
    uint64_t scan_bytes = 0;
    kvt_status status = KVT_OK;

    if (!is_index)
        return kvt_json_get_f64(object, place, "rebuild_flops", false, 0, 1e12, &out->rebuild_flops,
                                err);
    status = kvt_json_get_u64(object, place, "scan_bytes", false, 1, out->capacity_bytes,
                              &scan_bytes, err);
    out->scan_bytes = (uint32_t)scan_bytes;
    return status;
}

static kvt_status read_row_format(const cJSON *tree, const char *where, const char *key,
                                  struct kvt_arena *arena, struct kvt_row_format *out,
                                  struct kvt_error *err)
{
    bool is_index = strcmp(key, "index") == 0;
    const struct kvt_field *numbers = is_index ? index_row_fields : row_fields;
    const char *const others[] = {"name", is_index ? "scan_bytes" : "rebuild_flops"};
    char place[PLACE_BYTES];
    const cJSON *object = NULL;
    const char *name = NULL;
    kvt_status status = kvt_json_get_object(tree, where, key, true, &object, err);

    if (status != KVT_OK) {
        return status;
    }
    (void)snprintf(place, sizeof place, "%s/%s", where, key);
    status = kvt_fields_read(object, place, numbers, LENGTH(row_fields), others, LENGTH(others),
                             out, err);
    if (status == KVT_OK) {
        status = read_extra(object, place, is_index, out, err);
    }
    if (status == KVT_OK) {
        status = kvt_json_get_text(object, place, "name", true, &name, err);
    }
    if (status != KVT_OK) {
        return status;
    }
    out->name = kvt_arena_strdup(arena, name);
    return out->name != NULL ? KVT_OK : kvt_fail_nomem(err, place);
}

/* Appends a run's stores. They stand in layer order and share no layer, so that
 * "the store of a layer" has one answer. */
static kvt_status append_stores(const struct store_run *run, const char *place, struct kvt_llm *llm,
                                struct kvt_error *err)
{
    if (KVT_PAGE_ROWS % run->compress_ratio != 0) {
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "compress_ratio %u: a page of %d tokens holds whole rows for 1, 2, 4, 8, "
                        "16, 32 and 64 only",
                        run->compress_ratio, KVT_PAGE_ROWS);
    }
    for (uint32_t i = 0; i < run->repeat; i++) {
        struct kvt_store store = {.first_layer = run->first_layer + i * run->stride_layers,
                                  .layers = run->layers,
                                  .compress_ratio = run->compress_ratio};
        uint32_t taken = 0;

        if (llm->store_count == KVT_STORES_MAX) {
            return kvt_fail(err, KVT_ERR_INVALID, place, "more than %d stores", KVT_STORES_MAX);
        }
        if (llm->store_count > 0) {
            const struct kvt_store *last = &llm->stores[llm->store_count - 1];

            taken = last->first_layer + last->layers;
        }
        if (store.first_layer < taken || store.first_layer + store.layers > llm->layers) {
            return kvt_fail(err, KVT_ERR_INVALID, place,
                            "store %u takes layers %u to %u; free are %u to %u", llm->store_count,
                            store.first_layer, store.first_layer + store.layers - 1, taken,
                            llm->layers - 1);
        }
        llm->stores[llm->store_count++] = store;
    }
    return KVT_OK;
}

static kvt_status read_stores(const cJSON *tree, const char *where, struct kvt_llm *llm,
                              struct kvt_error *err)
{
    const cJSON *array = NULL;
    const cJSON *item = NULL;
    kvt_status status = kvt_json_get_array(tree, where, "stores", true, &array, err);
    uint32_t index = 0;

    if (status != KVT_OK) {
        return status;
    }
    cJSON_ArrayForEach(item, array)
    {
        char place[PLACE_BYTES];
        struct store_run run = {0};

        (void)snprintf(place, sizeof place, "%s/stores/%u", where, index++);
        status =
            kvt_fields_read(item, place, store_fields, LENGTH(store_fields), NULL, 0, &run, err);
        if (status == KVT_OK) {
            status = append_stores(&run, place, llm, err);
        }
        if (status != KVT_OK) {
            return status;
        }
    }
    if (llm->store_count == 0) {
        return kvt_fail(err, KVT_ERR_INVALID, where, "no store: rows need one to lie in");
    }
    return KVT_OK;
}

/* A selector stands at or behind the layer that fills its store, behind the
 * selector before it. */
static kvt_status append_selector(const struct kvt_selector *selector, const char *place,
                                  struct kvt_llm *llm, struct kvt_error *err)
{
    if (llm->selector_count == KVT_SELECTORS_MAX) {
        return kvt_fail(err, KVT_ERR_INVALID, place, "more than %d selectors", KVT_SELECTORS_MAX);
    }
    if (selector->store >= llm->store_count) {
        return kvt_fail(err, KVT_ERR_INVALID, place, "store %u: there are %u, counted from 0",
                        selector->store, llm->store_count);
    }
    if (selector->layer >= llm->layers ||
        selector->layer < llm->stores[selector->store].first_layer) {
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "layer %u cannot select from store %u: that is for layers %u to %u",
                        selector->layer, selector->store, llm->stores[selector->store].first_layer,
                        llm->layers - 1);
    }
    if (llm->selector_count > 0 &&
        selector->layer <= llm->selectors[llm->selector_count - 1].layer) {
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "layer %u after layer %u: selectors stand in ascending layer order",
                        selector->layer, llm->selectors[llm->selector_count - 1].layer);
    }
    llm->selectors[llm->selector_count++] = *selector;
    return KVT_OK;
}

static kvt_status read_selector_list(const cJSON *array, const char *where, struct kvt_llm *llm,
                                     struct kvt_error *err)
{
    const cJSON *item = NULL;
    uint32_t index = 0;

    cJSON_ArrayForEach(item, array)
    {
        char place[PLACE_BYTES];
        struct kvt_selector selector = {0};
        kvt_status status = KVT_OK;

        (void)snprintf(place, sizeof place, "%s/selectors/%u", where, index++);
        status = kvt_fields_read(item, place, selector_fields, LENGTH(selector_fields), NULL, 0,
                                 &selector, err);
        if (status == KVT_OK) {
            status = append_selector(&selector, place, llm, err);
        }
        if (status != KVT_OK) {
            return status;
        }
    }
    return KVT_OK;
}

static kvt_status check_each_store_is_selected(const char *where, const struct kvt_llm *llm,
                                               struct kvt_error *err)
{
    for (uint32_t store = 0; store < llm->store_count; store++) {
        bool selected = false;

        for (uint32_t i = 0; i < llm->selector_count && !selected; i++) {
            selected = llm->selectors[i].store == store;
        }
        if (!selected) {
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "store %u has no selector: what no layer selects from needs no "
                            "hierarchy",
                            store);
        }
    }
    return KVT_OK;
}

/* "one_per_store", at each store's first layer, or a list. */
static kvt_status read_selectors(const cJSON *tree, const char *where, struct kvt_llm *llm,
                                 struct kvt_error *err)
{
    const cJSON *member = kvt_json_find(tree, "selectors");
    const cJSON *array = NULL;
    kvt_status status = KVT_OK;

    if (cJSON_IsString(member) && strcmp(member->valuestring, "one_per_store") == 0) {
        for (uint32_t i = 0; i < llm->store_count; i++) {
            llm->selectors[i] = (struct kvt_selector){llm->stores[i].first_layer, i};
        }
        llm->selector_count = llm->store_count;
        return KVT_OK;
    }
    if (cJSON_IsString(member)) {
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "selectors is \"%s\"; expected \"one_per_store\" or a list of {layer, "
                        "store}",
                        member->valuestring);
    }
    status = kvt_json_get_array(tree, where, "selectors", true, &array, err);
    if (status == KVT_OK) {
        status = read_selector_list(array, where, llm, err);
    }
    return status == KVT_OK ? check_each_store_is_selected(where, llm, err) : status;
}

/* A dense model has no indexer, and then selects every row there can be; any other has one, with
 * rows to scan. */
static kvt_status check_indexer(const char *where, const struct kvt_llm *llm, struct kvt_error *err)
{
    bool has_any = llm->index_heads > 0 || llm->index_dim > 0 || llm->index.capacity_bytes > 0 ||
                   llm->index.wire_bytes > 0;
    bool has_all = llm->index_heads > 0 && llm->index_dim > 0 && llm->index.capacity_bytes > 0 &&
                   llm->index.wire_bytes > 0;

    if (has_any && !has_all)
        return kvt_fail(
            err, KVT_ERR_INVALID, where,
            "index_heads %u, index_dim %u and index rows of %u B: an indexer has all of "
            "them, and a dense model none",
            llm->index_heads, llm->index_dim, llm->index.capacity_bytes);
    if (!has_any && llm->top_k < llm->max_position_tokens)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "top_k is %u without an indexer: a dense model attends to all of its %u "
                        "max_position_tokens",
                        llm->top_k, llm->max_position_tokens);
    return KVT_OK;
}

static kvt_status check_whole(const char *where, const struct kvt_llm *llm, struct kvt_error *err)
{
    if (llm->experts_active > llm->experts) {
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "experts_active is %u of %u experts: no more can be active than there are",
                        llm->experts_active, llm->experts);
    }
    if (llm->dense_weight_bytes > llm->weight_bytes) {
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "dense_weight_bytes %.0f is more than weight_bytes %.0f, of which it is a "
                        "part",
                        llm->dense_weight_bytes, llm->weight_bytes);
    }
    return KVT_OK;
}

kvt_status kvt_llm_from_json(const struct cJSON *tree, const char *path, struct kvt_arena *arena,
                             struct kvt_llm *out, struct kvt_error *err)
{
    static const char *const others[] = {KVT_JSON_HEAD_KEYS, "payload",   "index",
                                         "stores",           "selectors", LLM_CHANGE_KEYS};
    struct kvt_model_head head;
    struct kvt_llm llm = {0};
    kvt_status status = kvt_model_head_read(tree, path, "kvtide/llm/1", arena, &head, err);

    if (status == KVT_OK) {
        status = kvt_fields_read(tree, head.where, fields, LENGTH(fields), others, LENGTH(others),
                                 &llm, err);
    }
    if (status == KVT_OK) {
        status = read_row_format(tree, head.where, "payload", arena, &llm.payload, err);
    }
    if (status == KVT_OK) {
        status = read_row_format(tree, head.where, "index", arena, &llm.index, err);
    }
    if (status == KVT_OK) {
        status = read_stores(tree, head.where, &llm, err);
    }
    if (status == KVT_OK) {
        status = read_selectors(tree, head.where, &llm, err);
    }
    if (status == KVT_OK) {
        status = check_whole(head.where, &llm, err);
    }
    if (status == KVT_OK) {
        status = check_indexer(head.where, &llm, err);
    }
    if (status == KVT_OK) {
        status = llm_check_sources(tree, head.where, err);
    }
    if (status != KVT_OK) {
        return status;
    }
    llm.name = head.name;
    llm.path = head.path;
    llm.summary = head.summary;
    status = llm_change(&llm, tree, head.where, err);
    if (status == KVT_OK) {
        *out = llm;
    }
    return status;
}

/* Selectors of the first `layers` layers, where whole selectors and stores are; 0: a cut goes
 * through one, or nothing is selected before it. */
static uint32_t whole_selectors(const struct kvt_llm *llm, uint32_t layers)
{
    uint32_t count = 0, stores = 0;

    while (count < llm->selector_count && llm->selectors[count].layer < layers) {
        if (llm->selectors[count].store >= stores)
            stores = llm->selectors[count].store + 1;
        count++;
    }
    if (layers != (count < llm->selector_count ? llm->selectors[count].layer : llm->layers))
        return 0;
    for (uint32_t s = count; s < llm->selector_count; s++) {
        if (llm->selectors[s].store < stores)
            return 0;
    }
    return count;
}

static kvt_status refuse_cut(const struct kvt_llm *llm, uint32_t layers, const char *where,
                             struct kvt_error *err)
{
    uint32_t below = layers, above = layers;

    if (layers > llm->layers)
        return kvt_fail(err, KVT_ERR_INVALID, where, "%u layers, and %s has %u", layers, llm->name,
                        llm->layers);
    while (below > 0 && whole_selectors(llm, below) == 0)
        below--;
    while (above < llm->layers && whole_selectors(llm, above) == 0)
        above++;
    if (below == 0)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%u of the %u layers of %s are less than its first store, which %u hold",
                        layers, llm->layers, llm->name, above);
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "%u of the %u layers of %s hold a part of a store; %u and %u hold whole ones",
                    layers, llm->layers, llm->name, below, above);
}

kvt_status kvt_llm_first_layers(const struct kvt_llm *llm, uint32_t layers, const char *where,
                                struct kvt_llm *out, struct kvt_error *err)
{
    uint32_t selectors = layers <= llm->layers ? whole_selectors(llm, layers) : 0;

    if (selectors == 0)
        return refuse_cut(llm, layers, where, err);
    *out = *llm;
    out->layers = layers;
    out->selector_count = selectors;
    out->store_count = 0;
    for (uint32_t s = 0; s < selectors; s++) {
        if (llm->selectors[s].store >= out->store_count)
            out->store_count = llm->selectors[s].store + 1;
    }
    return KVT_OK;
}

double kvt_llm_payload_bytes_per_token(const struct kvt_llm *llm)
{
    double rows = 0;

    for (uint32_t i = 0; i < llm->store_count; i++) {
        rows += (double)llm->stores[i].layers / llm->stores[i].compress_ratio;
    }
    return rows * llm->payload.capacity_bytes;
}

double kvt_llm_index_bytes_per_token(const struct kvt_llm *llm)
{
    double rows = 0;

    for (uint32_t i = 0; i < llm->store_count; i++) {
        rows += 1.0 / llm->stores[i].compress_ratio;
    }
    return rows * llm->index.capacity_bytes;
}

double kvt_llm_weights_gib_per_gpu(const struct kvt_llm *llm, uint32_t tp, uint32_t dp, uint32_t ep)
{
    double gpus = (double)tp * dp;

    if (llm->weights_replicated_gib + llm->weights_expert_gib <= 0) {
        return llm->weight_bytes / gpus / (double)KVT_GIB;
    }
    return llm->weights_replicated_gib / tp + llm->weights_expert_gib / (ep > 1 ? gpus : tp);
}
