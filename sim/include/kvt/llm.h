/* kvt/llm.h -- the shape of a language model, as far as its KV cache and its
 * step time go. Loaded from models/llm/NAME.json; every number there carries
 * its source. */
#ifndef KVT_LLM_H
#define KVT_LLM_H

#include "kvt/arena.h"
#include "kvt/error.h"

KVT_BEGIN_DECLS

struct cJSON;

/* A set of payload layers that share one hot cache and one recency order. */
struct kvt_store {
    uint32_t first_layer;
    uint32_t layers;         /* payload layers in the store, not necessarily adjacent in use */
    uint32_t compress_ratio; /* tokens of one row; divides KVT_PAGE_ROWS */
    uint32_t block_rows;     /* of the model in one row, where that is a block; else 0 or 1 */
};

struct kvt_selector {
    uint32_t layer;
    uint32_t store; /* the store whose rows it selects */
};

struct kvt_row_format {
    const char *name;
    uint32_t capacity_bytes; /* of one row in one layer, as it is stored */
    uint32_t wire_bytes;     /* as it crosses the link */
    uint32_t scan_bytes;     /* of an index row, what a scan reads; 0: all of it */
    double rebuild_flops;    /* of a payload row, where it was fetched, in each layer; 0: none */
};

struct kvt_llm {
    const char *name;
    const char *path;    /* where it was loaded from */
    const char *summary; /* one line for `kvtide list` */
    uint32_t layers;
    uint32_t hidden, heads, latent_dim, rope_dim, index_heads, index_dim;
    uint32_t top_k;
    uint32_t max_position_tokens;
    uint32_t experts, experts_active; /* routed; 0 for a dense model */
    double weight_bytes;              /* of all weights, in the checkpoint's format */
    double dense_weight_bytes;        /* read by every token whatever the experts */
    double active_parameters;         /* of one token */
    double kv_bytes_per_token_other;  /* state outside the hierarchy that grows; bytes per token */
    uint64_t window_bytes;            /* fixed per request, outside the hierarchy */
    /* Weights as engines shard them; both 0: weight_bytes / gpus. */
    double weights_replicated_gib; /* sharded over tp only */
    double weights_expert_gib;     /* sharded over dp x tp where ep is on, else over tp */
    struct kvt_row_format payload, index;
    uint32_t store_count, selector_count;
    struct kvt_store stores[KVT_STORES_MAX];
    struct kvt_selector selectors[KVT_SELECTORS_MAX];
};

enum {
    KVT_DRAFT_WEIGHT_BYTES = 2 /* of a drafter's own weights: bf16 */
};

/* What a drafter with weights of its own computes for a block. hidden 0: its file does not
 * say. */
struct kvt_draft_pass {
    uint32_t hidden, heads, inner; /* heads: of queries; inner: of the gated MLP */
    uint32_t taps;                 /* hidden states of the model that make a committed row */
    uint32_t lead_tokens;          /* of a block beside one a draft: 1 where the anchor's own place
                                    * predicts nothing */
};

/* A drafter's shape: models/drafters/NAME.json. */
struct kvt_drafter {
    const char *name;
    const char *path;
    const char *summary;
    uint32_t layers, kv_heads, head_dim;
    uint32_t window_tokens, slack_tokens; /* the ring holds both; 0 window: no ring */
    uint32_t block_max;                   /* queries of its widest round */
    double value_bytes;                   /* of one KV element */
    double weight_bytes;
    struct kvt_draft_pass pass;
    const char *const *models; /* [model_count] names of those it was made for; at least one */
    uint32_t model_count;
};

/* path is a file, or text with its name for messages. Everything in *out lives
 * in the arena. */
KVT_CHECKED kvt_status kvt_llm_from_json(const struct cJSON *tree, const char *path,
                                         struct kvt_arena *arena, struct kvt_llm *out,
                                         struct kvt_error *err);
KVT_CHECKED kvt_status kvt_drafter_from_json(const struct cJSON *tree, const char *path,
                                             struct kvt_arena *arena, struct kvt_drafter *out,
                                             struct kvt_error *err);

/* The selectors i with is_full[i] run (llm->selector_count of them, the first among them); the
 * layers of each other one go to the store of the nearest that runs before it, whose selection they
 * follow, and its index rows are kept no longer. Refuses (KVT_ERR_INVALID), without effect, where
 * that cannot be: a first selector that does not run, stores of several selectors, stores of
 * different ratios. */
KVT_CHECKED kvt_status kvt_llm_share_index(struct kvt_llm *llm, const bool *is_full,
                                           const char *where, struct kvt_error *err);

/* Rows become blocks of `rows` rows, scored, selected, kept and fetched whole: ratios and payload
 * bytes grow by it, top_k falls by it, and there is one index row a block. Refuses
 * (KVT_ERR_INVALID), without effect, a dense model, a block that top_k is no multiple of or that a
 * page cannot hold, and rows too long. */
KVT_CHECKED kvt_status kvt_llm_make_blocks(struct kvt_llm *llm, uint32_t rows, const char *where,
                                           struct kvt_error *err);

/* The first `layers` layers as a model of their own, with the same layers in it: those selectors
 * and stores that lie there whole. Refuses (KVT_ERR_INVALID) where a selector's layers would be
 * cut, or a store's selectors parted, and says which numbers near it do not. */
KVT_CHECKED kvt_status kvt_llm_first_layers(const struct kvt_llm *llm, uint32_t layers,
                                            const char *where, struct kvt_llm *out,
                                            struct kvt_error *err);

/* Was it made for the model of that name? */
bool kvt_drafter_fits(const struct kvt_drafter *drafter, const char *model);

/* Payload rows of a store after `tokens` tokens: floor(tokens / ratio). */
static inline uint32_t kvt_store_rows(const struct kvt_store *store, uint32_t tokens)
{
    return tokens / store->compress_ratio;
}

/* Rows of the model in one row: those of a block, else 1. */
static inline uint32_t kvt_store_block_rows(const struct kvt_store *store)
{
    return store->block_rows > 1 ? store->block_rows : 1;
}
static inline uint32_t kvt_llm_block_rows(const struct kvt_llm *llm)
{
    return kvt_store_block_rows(&llm->stores[0]); /* all stores have blocks of the same size */
}

static inline uint32_t kvt_llm_scan_bytes(const struct kvt_llm *llm)
{
    return llm->index.scan_bytes > 0 ? llm->index.scan_bytes : llm->index.capacity_bytes;
}

/* Bytes of one token's payload rows over all layers, and of its index rows, as
 * stored (ratios give fractions of a row: hence double). */
double kvt_llm_payload_bytes_per_token(const struct kvt_llm *llm);
double kvt_llm_index_bytes_per_token(const struct kvt_llm *llm);

/* Weights on each of tp x dp GPUs. Experts are spread over all of them where ep
 * is above 1, and over tp alone where it is not. */
double kvt_llm_weights_gib_per_gpu(const struct kvt_llm *llm, uint32_t tp, uint32_t dp,
                                   uint32_t ep);

/* Bytes of a request's draft rows: window and slack, keys and values, every
 * layer. 0 for a drafter without a window. */
uint64_t kvt_drafter_ring_bytes(const struct kvt_drafter *drafter);

KVT_END_DECLS
#endif
