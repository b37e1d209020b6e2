/* launch.h -- the seam: what the host logic (C) asks of kernels (CUDA).
 *
 * A launcher takes raw device pointers, counts and a stream, enqueues and returns; it
 * allocates nothing, waits for nothing and may be captured into a graph. Every fast kernel has
 * a plain one beside it with the same meaning: `reference` chooses.
 *
 * A rank holds one block of device memory, its pool: hot caches, tails, staging and frames of
 * pages of all stores. A *place* is where a row is: a whole number of the store's rows from
 * the pool's first byte, so that one int32_t says it for every kind of place.
 * KVT_GPU_NONE is honoured everywhere.
 *
 * Queries of a step are packed: request i has queries [first_query, first_query + query_count). */
#ifndef KVT_GPU_LAUNCH_H
#define KVT_GPU_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    KVT_GPU_NONE = -1,
    KVT_GPU_PAGE_ROWS = 64, /* tokens of a page; a store of ratio r has 64 / r rows of each */
    KVT_GPU_TAIL_ROWS = 64,
    KVT_GPU_QUERIES_MAX = 32, /* of one request */
    KVT_GPU_LATENT = 512,
    KVT_GPU_ROPE = 64,
    KVT_GPU_HEAD = KVT_GPU_LATENT + KVT_GPU_ROPE
};

/* One request of a step. [request_count] in the order of the batch; written by the host. */
struct kvt_gpu_request {
    uint32_t lane;           /* its place on the rank: hot caches, tail, frames, index keys */
    uint32_t first_query;    /* in packed arrays */
    uint32_t query_count;    /* K, 1 to KVT_GPU_QUERIES_MAX */
    uint32_t context_tokens; /* committed */
    uint32_t frame_count;    /* entries of its row of `frames` that may be looked at; 0: none */
    uint32_t context_id;     /* names what its rows hold (rows.cu) */
};

/* One query of a step. [query_count], packed; written by the host. */
struct kvt_gpu_query {
    uint32_t request; /* index into the step's requests */
    uint32_t depth;   /* below query_count; it sees the rows of context_tokens + depth + 1 tokens */
};

/* ---- Index scan and top-k (scan.cu, topk.cu) ----
 *
 * score[row] = key_scale[row] * sum over heads h of weight[h] * max(0, <query[h], key[row]>)
 * over rows [0, floor((context_tokens + depth + 1) / ratio)) of the query's request.
 * Keys of a lane lie in pages of 64 rows, end to end: 64 x 128 e4m3, then 64 float scales
 * (132 bytes a row, as DeepGEMM's paged layout without its page table). */
enum {
    KVT_GPU_INDEX_DIM = 128,
    KVT_GPU_INDEX_PAGE_BYTES = 64 * (KVT_GPU_INDEX_DIM + 4)
};

struct kvt_gpu_scan {
    uint32_t request_count, query_count;
    uint32_t queries_max; /* of one request in this step */
    uint32_t ratio;
    uint32_t heads;                         /* 32 or 64 */
    const struct kvt_gpu_request *requests; /* [request_count] */
    const struct kvt_gpu_query *queries;    /* [query_count] */
    const uint8_t *keys;                    /* lane l's first page at l * lane_bytes */
    uint64_t lane_bytes;
    const uint8_t *q;      /* e4m3 [query_count][heads][128] */
    const float *weights;  /* [query_count][heads] */
    float *scores;         /* out [query_count][score_stride] */
    uint32_t score_stride; /* a multiple of 64, at least the rows that any query sees */
    uint32_t rows_max;     /* that any query sees in this step: how much to launch */
    bool reference;
};
cudaError_t kvt_gpu_scan(const struct kvt_gpu_scan *scan, cudaStream_t stream);

/* The k best of each query by (score, then lower row first), in ascending row order, exactly,
 * whatever the scores (infinities and ties included; NaN is not promised anything). Where
 * fewer than k rows are visible: all of them, then KVT_GPU_NONE. Requests and queries are read
 * before the kernel that was launched before has ended: it must not write them. */
struct kvt_gpu_topk {
    uint32_t query_count;
    uint32_t k; /* 512, 1,024 or 2,048 */
    uint32_t ratio;
    const struct kvt_gpu_request *requests;
    const struct kvt_gpu_query *queries;
    const float *scores; /* [query_count][score_stride] */
    uint32_t score_stride, rows_max;
    int32_t *rows; /* out [query_count][k] */
    bool reference;
};
cudaError_t kvt_gpu_topk(const struct kvt_gpu_topk *topk, cudaStream_t stream);

/* ---- The resolver (resolve.cu) ----
 *
 * docs/resolver.md and kvt/resolver.h: one call of every request of the rank against one
 * store, replacement batch LRU, decisions bit for bit those of kvt_resolve(). */

/* Hot caches of one store. slot_count 0: the lane has none, and every row it reads is in a
 * frame or in the tail. A lane that is given a new cache begins with slot_rows all
 * UINT32_MAX, order 0, 1, 2 .. and slot_of_row all 0xffff (kvt_gpu_hot_reset). */
struct kvt_gpu_hot {
    uint32_t slots_max, rows_max; /* strides; slots_max + staged rows of a call stay below 65,535 */
    const uint32_t *slot_counts;  /* [lanes] */
    uint32_t *slot_rows;          /* [lanes][slots_max] the row in it; UINT32_MAX: empty */
    uint16_t *order;              /* [lanes][slots_max] slots, oldest first */
    uint16_t *slot_of_row;        /* [lanes][rows_max] 0xffff: not in the cache */
};

/* Where the rows of one store are, as places. */
struct kvt_gpu_places {
    int32_t hot0, hot_stride; /* slot s of lane l: hot0 + l * hot_stride + s */
    int32_t tail0;            /* row r of lane l in the tail: tail0 + l * 64 + r % 64 */
    int32_t staging0;         /* see kvt_gpu_resolve.staging_share */
    int32_t frame0;           /* row r in frame f: frame0 + f * (64 / ratio) + r % (64 / ratio) */
};

/* Host rows of one store, pinned, as the device sees them. A request's rows are in one piece,
 * or in two: the first shared_rows where somebody else has them too. Row r of layer j of the
 * store is at base + at * row_stride + j * layer_stride, where at = r + (r < shared_rows ?
 * shared_at : own_at) modulo 2^64. Store-contiguous: layer_stride = layer_bytes and row_stride
 * = layers * layer_bytes; layers apart: row_stride = layer_bytes. */
struct kvt_gpu_host_rows {
    uint8_t *base;
    uint64_t row_stride, layer_stride; /* bytes, multiples of 16 */
    const uint64_t *shared_at;         /* [lanes] */
    const uint64_t *own_at;            /* [lanes] */
    const uint32_t *shared_rows;       /* [lanes] in rows of this store */
};

/* What became of one call; counts as in struct kvt_resolve_result. 64 bytes. */
struct kvt_gpu_counts {
    uint32_t union_rows, tail_rows, page_rows, hot_rows, filled_rows, staged_rows;
    uint32_t selected, tail_selected, page_selected, hot_selected, missed_selected;
    uint32_t promoted_rows;
    uint64_t placed_hash; /* as kvt_resolve_result.placed_hash */
    uint32_t skipped;
    uint32_t wave; /* in which it was attended */
};

enum kvt_gpu_fetch {
    KVT_GPU_FETCH_NONE = 0, /* decide only */
    KVT_GPU_FETCH_LEADER,   /* copy the store's first layer of each missing row */
    KVT_GPU_FETCH_GROUP     /* all layers of it */
};

struct kvt_gpu_resolve {
    uint32_t request_count, query_count;
    uint32_t queries_max; /* of one request in this step */
    uint32_t top_k, ratio;
    uint32_t layers, layer_bytes; /* a row is layers * layer_bytes */
    const struct kvt_gpu_request *requests;
    const int32_t *selections; /* [query_count][top_k] ascending, KVT_GPU_NONE behind the last */
    struct kvt_gpu_hot hot;
    struct kvt_gpu_places places;
    const int32_t *frames; /* [lanes][frame_stride] by page; KVT_GPU_NONE: not readable in HBM */
    uint32_t frame_stride;
    uint8_t *pool;
    struct kvt_gpu_host_rows host;
    enum kvt_gpu_fetch fetch;
    /* Rows of the arena that are request i's own: its staged row m goes to
     * staging0 + i * staging_share + m. 0: the arena is shared in waves, and neither the places
     * of staged rows nor their copies are made here (kvt_gpu_waves). */
    uint32_t staging_share;
    bool promote_by_count;
    int32_t
        *row_places; /* out [query_count][top_k] place of each selected row; NONE behind the last */
    uint32_t *missed;       /* out [request_count][missed_stride] rows in miss order */
    int32_t *missed_places; /* out, beside it: where each goes */
    uint32_t missed_stride; /* at least queries_max * top_k */
    uint32_t *promoted;     /* out [request_count][2 * missed_stride]: (place of the staged row,
                             * place of the slot) pairs that kvt_gpu_promote() copies */
    struct kvt_gpu_counts *counts; /* out [request_count] */
    void *workspace;               /* of kvt_gpu_resolve_workspace_bytes(), zeroed once */
    bool reference;
};
size_t kvt_gpu_resolve_workspace_bytes(uint32_t requests_max, uint32_t queries_max, uint32_t top_k,
                                       uint32_t slots_max, uint32_t rows_max);
/* More slots, rows or queries than a block's shared memory holds (16,384 slots; about 1 M rows at
 * K 8) take the reference kernel. The ratio is a power of two up to 64. */
cudaError_t kvt_gpu_resolve(const struct kvt_gpu_resolve *resolve, cudaStream_t stream);
/* Whether a fast kernel takes it where the GPU has any: by queries_max, top_k, hot.slots_max,
 * hot.rows_max and reference alone. */
bool kvt_gpu_resolve_is_fast(const struct kvt_gpu_resolve *resolve);
/* Rows that calls of a wave staged and keep: copied within HBM, once every query has been answered,
 * and before the next wave has the arena. Wave 0 is all calls where staging_share is above 0. */
cudaError_t kvt_gpu_promote(const struct kvt_gpu_resolve *resolve, uint32_t wave,
                            cudaStream_t stream);
/* Layers [first_layer, end_layer) of every missing row: followers, behind FETCH_LEADER. With
 * staging_share 0, of the rows that found a slot: staged ones come whole (kvt_gpu_fetch_wave). */
cudaError_t kvt_gpu_fetch_followers(const struct kvt_gpu_resolve *resolve, uint32_t first_layer,
                                    uint32_t end_layer, cudaStream_t stream);
/* Staging in waves, as kvt_waves_make(): counts[i].wave, and the places of staged rows within
 * the arena of arena_rows, behind a resolve with staging_share 0. wave_count: out, one word. */
cudaError_t kvt_gpu_waves(const struct kvt_gpu_resolve *resolve, uint64_t arena_rows,
                          uint32_t *wave_count, cudaStream_t stream);
/* In a graph: the conditional node of this handle runs if *count is above a number. */
cudaError_t kvt_gpu_branch(cudaGraphConditionalHandle handle, const uint32_t *count, uint32_t above,
                           cudaStream_t stream);
/* Copies the staged rows of one wave's requests from host, all layers. */
cudaError_t kvt_gpu_fetch_wave(const struct kvt_gpu_resolve *resolve, uint32_t wave,
                               cudaStream_t stream);
/* lane's cache of the store begins empty. */
cudaError_t kvt_gpu_hot_reset(const struct kvt_gpu_hot *hot, uint32_t lane, cudaStream_t stream);
/* hashes[i] = kvt_hot_cache_state_hash() of lanes[i]'s cache. */
cudaError_t kvt_gpu_state_hash(const struct kvt_gpu_hot *hot, const uint32_t *lanes,
                               uint32_t lane_count, uint64_t *hashes, cudaStream_t stream);

/* A call that was decided on the CPU: copies missing rows to their places, and keeps slot_rows
 * in step with the plan. What was missed and where it goes: `missed`, `missed_places`,
 * counts[].filled_rows and staged_rows as the resolver would leave them, written by the host. */
cudaError_t kvt_gpu_execute_plan(const struct kvt_gpu_resolve *resolve, cudaStream_t stream);

/* ---- Attention (attend.cu) ----
 *
 * Absorbed MLA over selected rows: scores = scale * <q, row> over 576, softmax over the query's
 * places in their order, output = sum of p * row[0..511]. One query at a time reads its own
 * rows; the answer for a query depends on its rows' bytes, their order, splits and nothing else. */
enum kvt_gpu_format {
    KVT_GPU_ROW_E4M3_576 = 0, /* 576 e4m3, one scale for the tensor */
    KVT_GPU_ROW_MIXED_656,    /* 512 e4m3, 4 float scales of 128 each, 64 bf16 */
    KVT_GPU_ROW_BF16_1152,    /* 576 bf16 */
    KVT_GPU_ROW_FP4_288       /* 512 e2m1 (256 bytes, low nibble first), 32 e4m3 scales of 16
                               * each; the last 64 of the 512 are the rope part, keys are 512 wide */
};

struct kvt_gpu_attend {
    uint32_t query_count;
    uint32_t heads; /* 64 or 128 */
    uint32_t k;     /* places a query */
    enum kvt_gpu_format format;
    float row_scale; /* of the tensor (e4m3 576) */
    float softmax_scale;
    const uint8_t *rows;   /* the pool, plus the layer's offset in a row */
    uint32_t row_bytes;    /* stride of places: of all layers of the store */
    const int32_t *places; /* [query_count][k], KVT_GPU_NONE behind the last */
    const void *q;         /* bf16 [query_count][heads][576]; 512 wide for fp4 288 */
    void *out;             /* [query_count][heads][512] bf16, or float */
    bool out_is_float;
    uint32_t splits; /* pieces that each query's rows are cut into, at most 8; 0: the launcher
                      * chooses by query_count, heads and k alone */
    /* Where staging takes turns: queries whose request is in another wave are left alone.
     * NULL: all queries. */
    const struct kvt_gpu_query *queries;
    const struct kvt_gpu_counts *counts;
    uint32_t wave;
    bool reference;
};
/* How many pieces the launcher chooses. */
uint32_t kvt_gpu_attend_splits(uint32_t query_count, uint32_t heads, uint32_t k);
/* KVT_GPU_ROW_E4M3_576 only has a fast kernel; others take reference. */
cudaError_t kvt_gpu_attend(const struct kvt_gpu_attend *attend, cudaStream_t stream);

/* ---- Rows and copies (rows.cu) ----
 *
 * What row r of layer j of a store holds is a function of (context_id, store's first layer + j,
 * r) alone, so that any row can be made again and compared. Every value is finite. */
struct kvt_gpu_make_rows {
    uint32_t context_id, first_layer, layers;
    enum kvt_gpu_format format;
    uint32_t first_row, row_count;
    uint8_t *dst; /* device or pinned host; row first_row + i at dst + i * row_stride */
    uint64_t row_stride, layer_stride;
};
cudaError_t kvt_gpu_make_rows(const struct kvt_gpu_make_rows *make, cudaStream_t stream);
/* Rows of a call's selection made anew, one after the other: row i of rows[] at dst + i *
 * layer_bytes; KVT_GPU_NONE: left alone. */
cudaError_t kvt_gpu_make_selected(const struct kvt_gpu_make_rows *make, const int32_t *rows,
                                  uint32_t row_count, cudaStream_t stream);
/* The rows that this step's queries bring, all layers of a store: token positions
 * [context_tokens, context_tokens + query_count) of each request, into the tail. */
struct kvt_gpu_append {
    uint32_t request_count, ratio, first_layer, layers, layer_bytes;
    enum kvt_gpu_format format;
    const struct kvt_gpu_request *requests;
    int32_t tail0;
    uint8_t *pool;
};
cudaError_t kvt_gpu_append(const struct kvt_gpu_append *append, cudaStream_t stream);

/* Index keys of rows [first_row, first_row + row_count) of a lane, by (context_id, selector, row);
 * and queries that drift slowly with the step, by (context_id, selector, position). */
struct kvt_gpu_make_keys {
    uint32_t context_id, selector, first_row, row_count; /* first_row: a multiple of 64 */
    uint8_t *lane_keys;                                  /* first_row's page; may be pinned */
};
cudaError_t kvt_gpu_make_keys(const struct kvt_gpu_make_keys *make, cudaStream_t stream);
struct kvt_gpu_make_queries {
    uint32_t request_count, query_count, heads, selector;
    const struct kvt_gpu_request *requests;
    const struct kvt_gpu_query *queries;
    float drift;    /* 0 to 1: how much of a query is new from token to token */
    uint8_t *q;     /* out e4m3 [query_count][heads][128] */
    float *weights; /* out [query_count][heads] */
};
cudaError_t kvt_gpu_make_queries(const struct kvt_gpu_make_queries *make, cudaStream_t stream);

/* Copies of whole rows and pages by the GPU's own loads and stores: [copy_count], device memory
 * or pinned host, multiples of 16 bytes. */
struct kvt_gpu_copy {
    const uint8_t *src;
    uint8_t *dst;
    uint64_t bytes;
};
cudaError_t kvt_gpu_copy(const struct kvt_gpu_copy *copies, uint32_t copy_count,
                         cudaStream_t stream);

/* ---- The drafter's rows and attention (draft_rows.cu, draft_attend.cu) ----
 *
 * A request's draft rows lie in a ring of its lane's: position p of layer j of lane l at
 * rows + ((l * layers + j) * ring_rows + p % ring_rows) * row_bytes. A pass reads committed
 * positions, [.., context_tokens), and behind them those of its own block, [context_tokens,
 * context_tokens + block_tokens), which are the round's alone: the next one finds what was
 * committed in their place. Token d of a block sees [first(d), context_tokens + block_tokens),
 * where first(d) = max(lost_tokens, context_tokens + d + 1 - window_tokens). */
struct kvt_gpu_draft_request {
    uint32_t lane, context_id;
    uint32_t context_tokens; /* committed */
    uint32_t settled_tokens; /* of those, the ring holds what was committed up to here, ... */
    uint32_t lost_tokens;    /* ... and nothing from before here, which blocks, this round's and
                              * longer ones before, have been written over */
    uint32_t block_tokens;   /* of the pass; 0: nothing is drafted in this round */
    uint32_t first_token;    /* in packed arrays of the pass */
};

struct kvt_gpu_draft_ring {
    uint8_t *rows;
    uint32_t layers, ring_rows, row_bytes; /* row_bytes of one layer, a multiple of 16 */
    uint32_t window_tokens;                /* at most ring_rows */
    /* What rows are made of: E4M3_576 e4m3 throughout, MIXED_656 512 e4m3 and 4 float scales,
     * BF16_1152 bf16 throughout, whatever row_bytes is. */
    enum kvt_gpu_format values;
};

/* Rows that the ring lacks, all layers: what was committed since, and the round's block. They are
 * functions of (context_id, layer, position), and of context_tokens for a block's. */
cudaError_t kvt_gpu_draft_append(const struct kvt_gpu_draft_ring *ring,
                                 const struct kvt_gpu_draft_request *requests,
                                 uint32_t request_count, cudaStream_t stream);

/* Every row that the pass of one request reads, made anew and compared. */
struct kvt_gpu_draft_verdict {
    uint64_t unequal_chunks; /* of 16 bytes */
    uint64_t first;          /* layer << 32 | position of the first; UINT64_MAX: none */
};
cudaError_t kvt_gpu_draft_compare(const struct kvt_gpu_draft_ring *ring,
                                  const struct kvt_gpu_draft_request *request,
                                  struct kvt_gpu_draft_verdict *verdict, cudaStream_t stream);

/* Attention of one layer, grouped heads of 128: a row is [2][kv_heads][128] e4m3, keys and values.
 * Softmax in float; the answer depends on a token's own rows, q and splits alone. */
enum {
    KVT_GPU_DRAFT_DIM = 128,
    KVT_GPU_DRAFT_ROWS_MIN = 64, /* of a ring */
    KVT_GPU_DRAFT_SPLITS_MAX = 8
};
struct kvt_gpu_draft_attend {
    struct kvt_gpu_draft_ring ring;
    uint32_t layer;
    uint32_t request_count, token_count; /* tokens of all blocks */
    uint32_t block_max;                  /* tokens of one block, at most */
    uint32_t heads, kv_heads;            /* heads a multiple of kv_heads */
    float softmax_scale;
    const struct kvt_gpu_draft_request *requests;
    const void *q;   /* bf16 [token_count][heads][128] */
    void *out;       /* bf16 [token_count][heads][128] */
    uint32_t splits; /* pieces that a request's rows are cut into; 0: the launcher chooses by
                      * request_count, block_max and heads alone */
    void *workspace; /* of kvt_gpu_draft_workspace_bytes(); not zeroed */
    bool reference;
};
uint64_t kvt_gpu_draft_workspace_bytes(uint32_t token_count, uint32_t heads);
cudaError_t kvt_gpu_draft_attend(const struct kvt_gpu_draft_attend *attend, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
