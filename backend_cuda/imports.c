/* imports.c -- histories that come in over the link while others decode.
 *
 *     expected    the request has its place; what it brings is known, and in line
 *     a step      before its clock: as many index keys as the staging area holds are laid there, of
 *                 whoever came first; with it: they travel, by the copy engine, on a stream of
 * their own; behind it: the rest of that is waited for, and the area is free again it joins    what
 * has not come by then is laid and carried now, and waited for; its tail, and at its first step the
 * pages that it begins with, come from its host rows
 *
 * Payload rows of a hierarchy land in host memory, where their place is anyway (lane.c). What lays
 * keys into the area stands for the network that brings them there. A few pages of keys are
 * compared, byte by byte, with those that the CPU makes. */
#include "backend_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/clock.h"
#include "kvt/hash.h"
#include "rows.h"

static double number(const struct backend_cuda *cuda, int param)
{
    return cuda->env.params.values[param].number;
}

/* Pages of index keys of a store that so many tokens have. */
static uint32_t key_pages(const struct store_shape *shape, uint32_t tokens)
{
    return (tokens / shape->ratio + KVT_GPU_PAGE_ROWS - 1) / KVT_GPU_PAGE_ROWS;
}

uint32_t imports_first_row(const struct rank *rank, const struct lane *lane, uint32_t s)
{
    return KVT_GPU_PAGE_ROWS * key_pages(&rank->cuda->stores[s], lane->expected_tokens);
}

/* ---- Opening -------------------------------------------------------------------------- */

/* Half of what the longest context brings: the area is always used again. */
static uint64_t staging_bytes(const struct backend_cuda *cuda)
{
    uint64_t pages = 0;

    for (uint32_t s = 0; s < cuda->llm->store_count; s++)
        pages += key_pages(&cuda->stores[s], cuda->env.longest_tokens);
    uint64_t bytes = (pages + 1) / 2 * KVT_GPU_INDEX_PAGE_BYTES;
    return bytes < IMPORT_BYTES_MAX ? bytes : IMPORT_BYTES_MAX;
}

kvt_status imports_open(struct rank *rank, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    struct imports *imports = &rank->imports;

    if (!cuda->env.hierarchy || number(cuda, KVT_CUDA_IMPORT) == 0)
        return KVT_OK;
    imports->bytes = staging_bytes(cuda);
    cudaError_t error = cudaStreamCreateWithFlags(&imports->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = cudaEventCreate(&imports->begin);
    if (error == cudaSuccess)
        error = cudaEventCreate(&imports->end);
    kvt_status status = rank_check(rank, error, "the stream of imports", err);
    if (status != KVT_OK)
        return status;
    imports->line = calloc(cuda->lanes, sizeof(struct lane *));
    if (!imports->line)
        return kvt_fail_nomem(err, "a line of imports");
    return kvt_cuda_check_pinned_bytes(
        cudaHostAlloc((void **)&imports->staging, imports->bytes, cudaHostAllocDefault),
        "the staging area of imports", imports->bytes, err);
}

void imports_close(struct rank *rank)
{
    struct imports *imports = &rank->imports;

    free(imports->line);
    if (rank->device->lost)
        return;
    if (imports->begin)
        (void)cudaEventDestroy(imports->begin);
    if (imports->end)
        (void)cudaEventDestroy(imports->end);
    if (imports->stream)
        (void)cudaStreamDestroy(imports->stream);
    (void)cudaFreeHost(imports->staging);
}

/* ---- In line -------------------------------------------------------------------------- */

void imports_expect(struct rank *rank, struct lane *lane)
{
    rank->imports.line[rank->imports.count++] = lane;
}

void imports_leave(struct rank *rank, const struct lane *lane)
{
    struct imports *imports = &rank->imports;

    for (uint32_t i = 0; i < imports->count; i++) {
        if (imports->line[i] != lane)
            continue;
        imports->count--;
        memmove(imports->line + i, imports->line + i + 1,
                (imports->count - i) * sizeof(struct lane *));
        return;
    }
}

/* ---- Keys ----------------------------------------------------------------------------- */

/* So many of the lane's next pages, behind what lies in the area. */
static kvt_status stage_pages(struct rank *rank, const struct lane *lane, uint32_t pages,
                              struct kvt_error *err)
{
    const struct store_shape *shape = &rank->cuda->stores[lane->staged_store];
    struct imports *imports = &rank->imports;
    uint64_t bytes = (uint64_t)pages * KVT_GPU_INDEX_PAGE_BYTES;
    struct kvt_gpu_make_keys make = {.context_id = lane->request,
                                     .selector = shape->first_selector,
                                     .first_row = lane->staged_pages * KVT_GPU_PAGE_ROWS,
                                     .row_count = pages * KVT_GPU_PAGE_ROWS,
                                     .lane_keys = imports->staging + imports->staged_bytes};

    imports->pieces[imports->piece_count++] = (struct kvt_gpu_copy){
        .src = make.lane_keys,
        .dst = rank->stores[lane->staged_store].keys + lane->index * shape->lane_key_bytes +
               (uint64_t)lane->staged_pages * KVT_GPU_INDEX_PAGE_BYTES,
        .bytes = bytes};
    imports->staged_bytes += bytes;
    return rank_check(rank, kvt_gpu_make_keys(&make, rank->main), "kvt_gpu_make_keys", err);
}

/* As many pages of the lane as there is room for, store by store. */
static kvt_status stage_lane(struct rank *rank, struct lane *lane, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    const struct imports *imports = &rank->imports;
    kvt_status status = KVT_OK;

    while (lane->staged_store < cuda->llm->store_count && status == KVT_OK) {
        uint64_t room = (imports->bytes - imports->staged_bytes) / KVT_GPU_INDEX_PAGE_BYTES;
        uint32_t left = key_pages(&cuda->stores[lane->staged_store], lane->expected_tokens) -
                        lane->staged_pages;
        uint32_t pages = left < room ? left : (uint32_t)room;
        if (left > 0 && (pages == 0 || imports->piece_count == IMPORT_PIECES_MAX))
            return KVT_OK;
        if (pages > 0)
            status = stage_pages(rank, lane, pages, err);
        lane->staged_pages += pages;
        if (pages == left) {
            lane->staged_store++;
            lane->staged_pages = 0;
        }
    }
    return status;
}

kvt_status imports_stage(struct rank *rank, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; i < rank->imports.count && status == KVT_OK; i++)
        status = stage_lane(rank, rank->imports.line[i], err);
    return status;
}

kvt_status imports_launch(struct rank *rank, struct kvt_error *err)
{
    struct imports *imports = &rank->imports;

    if (imports->piece_count == 0)
        return KVT_OK;
    cudaError_t error = cudaEventRecord(imports->begin, imports->stream);
    for (uint32_t p = 0; p < imports->piece_count && error == cudaSuccess; p++) {
        const struct kvt_gpu_copy *piece = &imports->pieces[p];
        error = cudaMemcpyAsync(piece->dst, piece->src, piece->bytes, cudaMemcpyHostToDevice,
                                imports->stream);
    }
    if (error == cudaSuccess)
        error = cudaEventRecord(imports->end, imports->stream);
    return rank_check(rank, error, "an import", err);
}

/* Between the two events, which have come. */
static kvt_status take_time(struct rank *rank, uint64_t bytes, uint64_t *sum_bytes, double *sum_ns,
                            struct kvt_error *err)
{
    float ms = 0;
    kvt_status status =
        rank_check(rank, cudaEventElapsedTime(&ms, rank->imports.begin, rank->imports.end),
                   "an import's time", err);

    *sum_bytes += bytes;
    *sum_ns += 1e6 * (double)ms;
    return status;
}

kvt_status imports_end(struct rank *rank, bool beside, struct kvt_error *err)
{
    struct imports *imports = &rank->imports;
    struct kvt_backend_imports *told = &rank->proof.imports;
    struct kvt_wall start = kvt_wall_now();

    if (imports->piece_count == 0)
        return KVT_OK;
    kvt_status status = rank_wait_stream(rank, imports->stream, "an import", err);
    told->waited_ns += 1e9 * kvt_wall_seconds_since(start);
    if (status == KVT_OK)
        status = take_time(rank, imports->staged_bytes,
                           beside ? &told->beside_bytes : &told->joining_bytes,
                           beside ? &told->beside_ns : &told->joining_ns, err);
    imports->piece_count = 0;
    imports->staged_bytes = 0;
    return status;
}

/* ---- Joining -------------------------------------------------------------------------- */

/* A page of keys as the CPU makes it. */
static void make_page(const struct lane *lane, uint32_t selector, uint32_t page, uint8_t *out)
{
    uint8_t *scales = out + (size_t)KVT_GPU_PAGE_ROWS * KVT_GPU_INDEX_DIM;

    for (uint32_t r = 0; r < KVT_GPU_PAGE_ROWS; r++) {
        struct kvt_made_key key =
            kvt_made_key(lane->request, selector, page * KVT_GPU_PAGE_ROWS + r);
        float scale = kvt_made_key_scale(&key);
        for (uint32_t d = 0; d < KVT_GPU_INDEX_DIM; d += 2)
            kvt_made_key_pair(&key, d, out + (size_t)r * KVT_GPU_INDEX_DIM + d);
        memcpy(scales + r * sizeof scale, &scale, sizeof scale);
    }
}

static kvt_status check_page(struct rank *rank, const struct lane *lane, uint32_t s, uint32_t page,
                             struct kvt_error *err)
{
    const struct store_shape *shape = &rank->cuda->stores[s];
    const uint8_t *keys = rank->stores[s].keys + lane->index * shape->lane_key_bytes;
    uint8_t made[KVT_GPU_INDEX_PAGE_BYTES];
    kvt_status status = rank_check(rank,
                                   cudaMemcpyAsync(rank->imports.staging,
                                                   keys + (uint64_t)page * KVT_GPU_INDEX_PAGE_BYTES,
                                                   sizeof made, cudaMemcpyDeviceToHost, rank->main),
                                   "keys of a proof", err);

    if (status == KVT_OK)
        status = rank_wait_stream(rank, rank->main, "keys of a proof", err);
    if (status != KVT_OK)
        return status;
    make_page(lane, shape->first_selector, page, made);
    rank->proof.imports.checked_pages++;
    if (memcmp(made, rank->imports.staging, sizeof made) == 0 || rank->proof.unequal_queries++ > 0)
        return KVT_OK;
    (void)snprintf(rank->first_unequal, sizeof rank->first_unequal,
                   "rank %u, request %u, store %u: index keys of page %u are not those that were "
                   "sent",
                   rank->number, lane->request, s, page);
    rank->proof.first_unequal = rank->first_unequal;
    return KVT_OK;
}

static kvt_status check_keys(struct rank *rank, const struct lane *lane, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    kvt_status status = KVT_OK;

    for (uint32_t n = 0; n < cuda->check_queries && status == KVT_OK; n++) {
        uint64_t draw = kvt_mix64((uint64_t)lane->request << 32 | n);
        uint32_t s = (uint32_t)(draw % cuda->llm->store_count);
        uint32_t pages = key_pages(&cuda->stores[s], lane->expected_tokens);
        if (pages > 0)
            status = check_page(rank, lane, s, (uint32_t)((draw >> 32) % pages), err);
    }
    return status;
}

kvt_status imports_join(struct rank *rank, struct lane *lane, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    imports_leave(rank, lane);
    while (lane->staged_store < rank->cuda->llm->store_count && status == KVT_OK) {
        status = stage_lane(rank, lane, err);
        if (status == KVT_OK)
            status = rank_wait_stream(rank, rank->main, "laying an import", err);
        if (status == KVT_OK)
            status = imports_launch(rank, err);
        if (status == KVT_OK)
            status = imports_end(rank, false, err);
    }
    rank->proof.imports.requests++;
    return status == KVT_OK ? check_keys(rank, lane, err) : status;
}

kvt_status imports_copy(struct copy_list *list, struct kvt_error *err)
{
    struct rank *rank = list->rank;
    struct kvt_backend_imports *told = &rank->proof.imports;

    if (list->count == 0)
        return KVT_OK;
    kvt_status status = rank_wait_stream(rank, rank->main, "a request's rows", err);
    struct kvt_wall start = kvt_wall_now();
    if (status == KVT_OK)
        status = rank_check(rank, cudaEventRecord(rank->imports.begin, rank->main),
                            "the beginning of an import", err);
    if (status == KVT_OK)
        status = copies_launch(list, err);
    if (status == KVT_OK)
        status = rank_check(rank, cudaEventRecord(rank->imports.end, rank->main),
                            "the end of an import", err);
    if (status == KVT_OK)
        status = rank_wait_stream(rank, rank->main, "rows that a request begins with", err);
    told->waited_ns += 1e9 * kvt_wall_seconds_since(start);
    return status == KVT_OK
               ? take_time(rank, list->bytes, &told->joining_bytes, &told->joining_ns, err)
               : status;
}
