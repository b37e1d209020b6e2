/* pools.c -- what a rank holds in device memory and in pinned memory, and where each piece is.
 *
 *     pool    rows alone, in regions whose first byte is a whole number of the store's rows from
 *             the pool's own: [hot caches][tails][frames] of each store, then the staging arena
 *     tables  the resolver's tables, index keys, and what a step's kernels hand to each other
 *     pinned  what the CPU writes for a step and reads behind it
 *
 * Each is one allocation. A layout function runs twice, to add up and to hand out. */
#include "step.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/rng.h"

enum {
    ALIGNED = 256,
    /* What the driver, graphs and cuBLAS take beside us. */
    SPARE_BYTES = 1 << 30
};

void *carve(struct carver *carver, uint64_t bytes, uint64_t alignment)
{
    uint64_t at = (carver->used_bytes + alignment - 1) / alignment * alignment;

    carver->used_bytes = at + bytes;
    return carver->base ? carver->base + at : NULL;
}

static void *piece(struct carver *carver, uint64_t count, uint64_t bytes)
{
    return carve(carver, count * bytes, ALIGNED);
}

static uint64_t page_bytes(const struct backend_cuda *cuda)
{
    uint64_t bytes = 0;

    for (uint32_t s = 0; s < cuda->llm->store_count; s++)
        bytes += (uint64_t)cuda->stores[s].page_rows * cuda->stores[s].row_bytes;
    return bytes;
}

/* ---- The pool ------------------------------------------------------------------------- */

/* A region of `rows` rows; returns the place of its first. */
static int32_t region(struct carver *carver, uint64_t rows, uint32_t row_bytes)
{
    uint64_t bytes = rows * row_bytes;

    (void)carve(carver, bytes, row_bytes);
    return (int32_t)((carver->used_bytes - bytes) / row_bytes);
}

static uint64_t common_multiple(uint64_t a, uint64_t b)
{
    uint64_t x = a, y = b;

    while (y != 0) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

static void lay_pool(const struct backend_cuda *cuda, struct rank *rank, struct carver *carver)
{
    uint64_t multiple = ALIGNED;

    for (uint32_t s = 0; s < cuda->llm->store_count; s++) {
        const struct store_shape *shape = &cuda->stores[s];
        struct kvt_gpu_places *places = &rank->stores[s].places;
        uint32_t slots = cuda->env.hierarchy ? shape->slots_max : 0;
        multiple = common_multiple(multiple, shape->row_bytes);
        places->hot0 = region(carver, (uint64_t)cuda->lanes * slots, shape->row_bytes);
        places->hot_stride = (int32_t)slots;
        places->tail0 = region(carver, (uint64_t)cuda->lanes * KVT_GPU_TAIL_ROWS, shape->row_bytes);
        places->frame0 =
            region(carver, (uint64_t)rank->frame_count * shape->page_rows, shape->row_bytes);
    }
    (void)carve(carver, rank->arena_bytes, multiple);
    for (uint32_t s = 0; s < cuda->llm->store_count; s++)
        rank->stores[s].places.staging0 =
            (int32_t)((carver->used_bytes - rank->arena_bytes) / cuda->stores[s].row_bytes);
}

/* ---- Tables --------------------------------------------------------------------------- */

static void lay_block(const struct backend_cuda *cuda, struct rank *rank, struct carver *carver)
{
    struct step_block *block = &rank->block;
    uint64_t lanes = cuda->lanes, begin;

    block->host = piece(carver, 0, 1);
    begin = carver->used_bytes;
    block->requests = piece(carver, lanes, sizeof *block->requests);
    block->pass_requests = piece(carver, cuda->passes * lanes, sizeof *block->pass_requests);
    block->queries = piece(carver, cuda->query_rows, sizeof *block->queries);
    block->pass_queries = piece(carver, cuda->query_rows, sizeof *block->pass_queries);
    block->pass_counts = piece(carver, cuda->query_rows, sizeof *block->pass_counts);
    block->frames = piece(carver, lanes * cuda->frame_stride, sizeof *block->frames);
    block->proof_copies = piece(carver, (uint64_t)cuda->llm->selector_count * cuda->check_queries,
                                sizeof *block->proof_copies);
    block->hashed_lane = piece(carver, 1, sizeof *block->hashed_lane);
    draft_lay_block(cuda, rank, carver);
    for (uint32_t s = 0; s < cuda->llm->store_count; s++) {
        struct store_state *store = &rank->stores[s];
        store->slot_counts = piece(carver, lanes, sizeof *store->slot_counts);
        store->shared_at = piece(carver, lanes, sizeof *store->shared_at);
        store->own_at = piece(carver, lanes, sizeof *store->own_at);
        store->shared_rows = piece(carver, lanes, sizeof *store->shared_rows);
    }
    (void)piece(carver, 0, 1);
    block->bytes = carver->used_bytes - begin;
}

static void lay_store_tables(const struct backend_cuda *cuda, struct rank *rank, uint32_t s,
                             struct carver *carver)
{
    const struct store_shape *shape = &cuda->stores[s];
    struct store_state *store = &rank->stores[s];
    uint64_t lanes = cuda->lanes, slots = shape->slots_max;

    store->hot.slots_max = shape->slots_max;
    store->hot.rows_max = shape->rows_max;
    store->hot.slot_rows = piece(carver, lanes * slots, sizeof *store->hot.slot_rows);
    store->hot.order = piece(carver, lanes * slots, sizeof *store->hot.order);
    store->hot.slot_of_row = piece(carver, lanes * shape->rows_max, sizeof *store->hot.slot_of_row);
    store->keys = piece(carver, lanes, shape->lane_key_bytes);
}

static size_t resolve_workspace_bytes(const struct backend_cuda *cuda)
{
    uint32_t rows_max = 0, slots_max = 0;

    for (uint32_t s = 0; s < cuda->llm->store_count; s++) {
        rows_max = cuda->stores[s].rows_max > rows_max ? cuda->stores[s].rows_max : rows_max;
        slots_max = cuda->stores[s].slots_max > slots_max ? cuda->stores[s].slots_max : slots_max;
    }
    return kvt_gpu_resolve_workspace_bytes(cuda->lanes, cuda->pass_queries, cuda->llm->top_k,
                                           slots_max, rows_max);
}

static void lay_tables(const struct backend_cuda *cuda, struct rank *rank, struct carver *carver)
{
    const struct kvt_llm *llm = cuda->llm;
    uint64_t queries = cuda->query_rows, top_k = llm->top_k, selectors = llm->selector_count;
    uint64_t lists = selectors * queries * top_k, calls = selectors * cuda->passes * cuda->lanes;
    uint32_t rows_max = 0;

    rank->block.device = carve(carver, rank->block.bytes, ALIGNED);
    for (uint32_t s = 0; s < llm->store_count; s++) {
        rows_max = cuda->stores[s].rows_max > rows_max ? cuda->stores[s].rows_max : rows_max;
        lay_store_tables(cuda, rank, s, carver);
    }
    rank->score_stride = (rows_max + 63) / 64 * 64;
    rank->selections = piece(carver, lists, sizeof *rank->selections);
    rank->scan_rows = piece(carver, queries * top_k, sizeof *rank->scan_rows);
    rank->row_places = piece(carver, lists, sizeof *rank->row_places);
    rank->missed = piece(carver, lists, sizeof *rank->missed);
    rank->missed_places = piece(carver, lists, sizeof *rank->missed_places);
    rank->promoted = piece(carver, 2 * lists, sizeof *rank->promoted);
    rank->counts = piece(carver, calls, sizeof *rank->counts);
    rank->scores = piece(carver, queries * rank->score_stride, sizeof *rank->scores);
    rank->index_q =
        piece(carver, selectors * queries, (uint64_t)llm->index_heads * KVT_GPU_INDEX_DIM);
    rank->index_weights =
        piece(carver, selectors * queries * llm->index_heads, sizeof *rank->index_weights);
    rank->wave_count = piece(carver, 1, sizeof *rank->wave_count);
    rank->q = piece(carver, queries * llm->heads, 2 * (uint64_t)cuda->q_dim);
    rank->out = piece(carver, cuda->layers_max * queries, cuda->out_bytes);
    rank->resolve_workspace = piece(carver, resolve_workspace_bytes(cuda), 1);
    rank->hashes = piece(carver, KVT_STORES_MAX, sizeof *rank->hashes);
    rank->copies = piece(carver, COPIES_MAX, sizeof *rank->copies);
    rank->proof_out = piece(carver, cuda->check_queries, cuda->out_bytes);
    rank->proof_again = piece(carver, 1, cuda->out_bytes);
    rank->proof_rows = piece(carver, top_k, cuda->stores[0].layer_bytes);
    rank->proof_lists = piece(carver, 3 * top_k, sizeof *rank->proof_lists);
    draft_lay(cuda, rank, carver);
    traffic_lay(cuda, rank, carver);
}

/* Lists and plans in pinned memory are as those on the device. */
static void lay_pinned(const struct backend_cuda *cuda, struct rank *rank, struct carver *carver)
{
    const struct kvt_llm *llm = cuda->llm;
    uint64_t queries = cuda->query_rows, top_k = llm->top_k, selectors = llm->selector_count;
    uint64_t lists = selectors * queries * top_k;

    lay_block(cuda, rank, carver);
    rank->selections_pinned = piece(carver, lists, sizeof *rank->selections_pinned);
    rank->counts_pinned =
        piece(carver, selectors * cuda->passes * cuda->lanes, sizeof *rank->counts_pinned);
    if (cuda->decider == DECIDE_ON_HOST) {
        rank->plan_places = piece(carver, lists, sizeof *rank->plan_places);
        rank->plan_missed = piece(carver, lists, sizeof *rank->plan_missed);
        rank->plan_missed_places = piece(carver, lists, sizeof *rank->plan_missed_places);
        rank->plan_promoted = piece(carver, 2 * lists, sizeof *rank->plan_promoted);
    }
    rank->wave_count_pinned = piece(carver, 1, sizeof *rank->wave_count_pinned);
    rank->hashes_pinned = piece(carver, KVT_STORES_MAX, sizeof *rank->hashes_pinned);
    draft_lay_pinned(rank, carver);
    traffic_lay_pinned(cuda, rank, carver);
    rank->copies_pinned = piece(carver, COPIES_MAX, sizeof *rank->copies_pinned);
    rank->proof_lists_pinned = piece(carver, 3 * top_k, sizeof *rank->proof_lists_pinned);
    rank->proof_pinned = piece(carver,
                               2 * (uint64_t)cuda->out_bytes + top_k * cuda->stores[0].layer_bytes +
                                   2 * (uint64_t)llm->heads * cuda->q_dim,
                               1);
}

/* Pointers that one piece has on both sides. */
static void join_block(const struct backend_cuda *cuda, struct rank *rank)
{
    for (uint32_t s = 0; s < cuda->llm->store_count; s++) {
        struct store_state *store = &rank->stores[s];
        store->hot.slot_counts = on_device(&rank->block, store->slot_counts);
        store->host.shared_at = on_device(&rank->block, store->shared_at);
        store->host.own_at = on_device(&rank->block, store->own_at);
        store->host.shared_rows = on_device(&rank->block, store->shared_rows);
    }
}

/* ---- Host rows ------------------------------------------------------------------------ */

enum {
    HOST_STORE_ALIGNED = 1 << 16
};

static uint64_t host_store_rows(const struct backend_cuda *cuda, uint32_t s)
{
    const struct store_shape *shape = &cuda->stores[s];

    return (uint64_t)cuda->shared_contexts * shape->shared_rows +
           (uint64_t)cuda->lanes * shape->own_rows;
}

static void lay_host_rows(const struct backend_cuda *cuda, struct rank *rank, struct carver *carver)
{
    for (uint32_t s = 0; s < cuda->llm->store_count; s++) {
        const struct store_shape *shape = &cuda->stores[s];
        struct store_state *store = &rank->stores[s];
        uint64_t rows = host_store_rows(cuda, s);
        store->host_base = carve(carver, rows * shape->row_bytes, HOST_STORE_ALIGNED);
        store->host.base = store->host_base; /* registered memory has one address */
        store->host.row_stride = cuda->layers_apart ? shape->layer_bytes : shape->row_bytes;
        store->host.layer_stride =
            cuda->layers_apart ? rows * shape->layer_bytes : shape->layer_bytes;
    }
}

uint64_t rank_host_bytes(const struct backend_cuda *cuda)
{
    struct rank scratch = {0};
    struct carver carver = {0};

    if (!cuda->env.hierarchy)
        return 0;
    lay_host_rows(cuda, &scratch, &carver);
    return carver.used_bytes;
}

kvt_status rank_open_host_rows(struct rank *rank, uint64_t *done_bytes, uint64_t total_bytes,
                               struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    struct carver carver = {0};

    if (!cuda->env.hierarchy)
        return KVT_OK;
    kvt_status status = host_pool_open(&cuda->env, rank_host_bytes(cuda), rank->device->numa_node,
                                       done_bytes, total_bytes, &rank->host_rows, err);
    if (status != KVT_OK)
        return status;
    carver.base = rank->host_rows.base;
    lay_host_rows(cuda, rank, &carver);
    return KVT_OK;
}

/* ---- Opening -------------------------------------------------------------------------- */

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)KVT_GIB;
}

/* Frames of pages: rank_pages, and a page in hand for each request. A page that requests share is
 * counted once there, and is here once for each: up to half of what is free goes to more. */
static kvt_status choose_frames(const struct backend_cuda *cuda, struct rank *rank,
                                uint64_t free_bytes, struct kvt_error *err)
{
    struct carver rows = {0}, tables = {0};
    uint64_t all = (uint64_t)cuda->lanes * cuda->frame_stride;
    uint64_t needed = cuda->env.rank_pages + cuda->lanes;

    lay_pool(cuda, rank, &rows); /* with no frame */
    lay_tables(cuda, rank, &tables);
    uint64_t fixed_bytes = rows.used_bytes + tables.used_bytes + SPARE_BYTES;
    uint64_t of_page = page_bytes(cuda);
    uint64_t room =
        free_bytes > fixed_bytes && of_page > 0 ? (free_bytes - fixed_bytes) / of_page : 0;

    needed = needed < all ? needed : all;
    rank->frame_count = (uint32_t)(needed > room / 2 ? needed : all < room / 2 ? all : room / 2);
    if (fixed_bytes + needed * of_page <= free_bytes)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_NOMEM, "cuda",
                    "rank %u takes %.1f GiB of device memory (%.1f of them rows: hot caches, tails "
                    "and staging of %u requests; %.1f for %" PRIu64 " pages; %.1f index keys, "
                    "draft rings and tables), and %.1f are free for it on GPU %d; fewer requests "
                    "at once, shorter "
                    "contexts or a smaller pool take less",
                    rank->number, gib(fixed_bytes + needed * of_page), gib(rows.used_bytes),
                    cuda->lanes, gib(needed * of_page), needed, gib(tables.used_bytes),
                    gib(free_bytes), rank->device->ordinal);
}

static kvt_status open_frames(struct rank *rank, struct kvt_error *err)
{
    rank->free_frames = calloc((size_t)rank->frame_count + 1, sizeof *rank->free_frames);
    if (!rank->free_frames)
        return kvt_fail_nomem(err, "the frames of pages");
    for (uint32_t f = 0; f < rank->frame_count; f++)
        rank->free_frames[f] = rank->frame_count - 1 - f;
    rank->free_frame_count = rank->frame_count;
    return KVT_OK;
}

/* Queries of attention, N(0, 1) in bf16: what comes of rows must differ from query to query. */
static kvt_status fill_q(struct rank *rank, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    size_t count = (size_t)cuda->query_rows * cuda->llm->heads * cuda->q_dim;
    uint16_t *q = malloc(count * sizeof *q);
    struct kvt_rng rng = kvt_rng_stream(cuda->env.run_seed, KVT_RNG_DEVICE, rank->number);

    if (!q)
        return kvt_fail_nomem(err, "the queries of attention");
    for (size_t i = 0; i < count; i++) {
        uint64_t word = kvt_rng_u64(&rng);
        /* The sum of eight bytes, less its mean, over its deviation of 209. */
        uint64_t pairs =
            (word & UINT64_C(0x00ff00ff00ff00ff)) + (word >> 8 & UINT64_C(0x00ff00ff00ff00ff));
        int sum = (int)(pairs * UINT64_C(0x0001000100010001) >> 48);
        float value = (float)(sum - 1020) * (1.0f / 209);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        q[i] = (uint16_t)(bits >> 16);
    }
    kvt_status status =
        rank_check(rank, cudaMemcpy(rank->q, q, count * sizeof *q, cudaMemcpyHostToDevice),
                   "a query's upload", err);
    free(q);
    return status;
}

/* What was never written is NaN in every format, and no row or slot. */
static kvt_status poison(struct rank *rank, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    cudaError_t error = cudaMemset(rank->pool, 0xff, rank->pool_bytes);

    if (error == cudaSuccess)
        error = cudaMemset(rank->tables, 0xff, rank->tables_bytes);
    if (error == cudaSuccess)
        error = cudaMemset(rank->resolve_workspace, 0, resolve_workspace_bytes(cuda));
    return rank_check(rank, error, "setting device memory", err);
}

kvt_status rank_open_pools(struct rank *rank, uint64_t free_bytes, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    struct carver pool = {0}, tables = {0}, pinned = {0};

    rank->arena_bytes = kvt_staging_arena_bytes(&cuda->env.staging, cuda->lanes);
    lay_pinned(cuda, rank, &pinned); /* the block's size is the tables' too */
    kvt_status status = choose_frames(cuda, rank, free_bytes, err);
    if (status != KVT_OK)
        return status;
    lay_pool(cuda, rank, &pool);
    lay_tables(cuda, rank, &tables);
    rank->pool_bytes = pool.used_bytes;
    rank->tables_bytes = tables.used_bytes;
    status = kvt_cuda_check_device_bytes(cudaMalloc((void **)&rank->pool, rank->pool_bytes),
                                         "a rank's pool of rows", rank->pool_bytes, err);
    if (status == KVT_OK)
        status = kvt_cuda_check_device_bytes(cudaMalloc((void **)&rank->tables, rank->tables_bytes),
                                             "a rank's tables", rank->tables_bytes, err);
    if (status == KVT_OK)
        status = kvt_cuda_check_pinned_bytes(
            cudaHostAlloc((void **)&rank->pinned, pinned.used_bytes, cudaHostAllocDefault),
            "what steps exchange", pinned.used_bytes, err);
    if (status != KVT_OK)
        return status;
    memset(rank->pinned, 0, pinned.used_bytes);
    tables = (struct carver){.base = rank->tables};
    pinned = (struct carver){.base = rank->pinned};
    lay_pinned(cuda, rank, &pinned);
    lay_tables(cuda, rank, &tables);
    join_block(cuda, rank);
    status = open_frames(rank, err);
    if (status == KVT_OK)
        status = poison(rank, err);
    if (status == KVT_OK)
        status = fill_q(rank, err);
    if (status == KVT_OK)
        status = draft_fill(rank, err);
    memset(rank->block.frames, 0xff,
           (size_t)cuda->lanes * cuda->frame_stride * sizeof *rank->block.frames);
    return status;
}

void rank_close_pools(struct rank *rank)
{
    if (!rank->device->lost) { /* else freeing would wait for what never ends */
        (void)cudaFree(rank->pool);
        (void)cudaFree(rank->tables);
        (void)cudaFreeHost(rank->pinned);
        host_pool_close(&rank->host_rows);
    }
    free(rank->free_frames);
}
