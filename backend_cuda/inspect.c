/* inspect.c -- how the newest step was decided: hashes, calls, caches and selections. */
#include "step.h"

#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"

/* A request that decodes; in_step: that was in the newest step. NULL, with *status: neither. Its
 * device is the thread's. */
static struct lane *find_lane(struct backend_cuda *cuda, uint32_t request, bool in_step,
                              kvt_status *status, struct kvt_error *err)
{
    struct lane *lane = request < cuda->lane_capacity ? cuda->lane_of[request] : NULL;

    if (!lane || (in_step && lane->item < 0)) {
        *status = kvt_fail(err, KVT_ERR_INVALID, "backend", "request %u %s", request,
                           lane ? "was not in the newest step" : "does not decode");
        return NULL;
    }
    *status = rank_use(&cuda->ranks[lane->rank], err);
    return *status == KVT_OK ? lane : NULL;
}

static kvt_status read_back(struct rank *rank, void *to, const void *from, size_t bytes,
                            const char *what, struct kvt_error *err)
{
    kvt_status status = rank_check(
        rank, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, rank->main), what, err);

    return status == KVT_OK ? rank_wait_stream(rank, rank->main, what, err) : status;
}

/* ---- Hashes --------------------------------------------------------------------------- */

/* Of every store's cache, as the device has them. */
static kvt_status device_hashes(struct rank *rank, const struct lane *lane, uint64_t *hashes,
                                struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    uint32_t *lane_list = rank->block.hashed_lane, *on_gpu = on_device(&rank->block, lane_list);

    *lane_list = lane->index;
    kvt_status status = rank_check(
        rank,
        cudaMemcpyAsync(on_gpu, lane_list, sizeof *lane_list, cudaMemcpyHostToDevice, rank->main),
        "a lane's number", err);
    for (uint32_t s = 0; s < cuda->llm->store_count && status == KVT_OK; s++)
        status = rank_check(
            rank, kvt_gpu_state_hash(&rank->stores[s].hot, on_gpu, 1, rank->hashes + s, rank->main),
            "kvt_gpu_state_hash", err);
    if (status == KVT_OK)
        status = read_back(rank, rank->hashes_pinned, rank->hashes,
                           cuda->llm->store_count * sizeof *hashes, "state hashes", err);
    if (status == KVT_OK)
        memcpy(hashes, rank->hashes_pinned, cuda->llm->store_count * sizeof *hashes);
    return status;
}

/* The device knows rows only, each slot in its own place of the order: what it should hash to. */
static uint64_t rows_hash(const struct kvt_hot_cache *cache)
{
    const uint32_t *rows = kvt_hot_cache_rows(cache);
    uint64_t hash = 0;

    for (uint32_t slot = 0; slot < kvt_hot_cache_slot_count(cache); slot++) {
        if (rows[slot] != KVT_ROW_NONE)
            hash += kvt_chain64((uint64_t)slot << 32 | rows[slot], slot);
    }
    return hash;
}

/* Decided on the CPU: its hashes, once the device's tables of rows agree. */
static kvt_status planned_hashes(struct backend_cuda *cuda, const struct lane *lane,
                                 uint64_t *hashes, struct kvt_error *err)
{
    struct rank *rank = &cuda->ranks[lane->rank];

    for (uint32_t s = 0; s < cuda->llm->store_count; s++) {
        const struct kvt_hot_cache *cache = lane->planned[s].cache;
        if (hashes[s] != rows_hash(cache))
            return kvt_fail(err, KVT_ERR_DEVICE, "cuda",
                            "request %u, store %u: the slots on GPU %d hold other rows than were "
                            "planned",
                            lane->request, s, rank->device->ordinal);
        hashes[s] = kvt_hot_cache_state_hash(rank->workers[0].resolver, cache);
    }
    return KVT_OK;
}

kvt_status gpu_lane_state_hashes(struct backend_cuda *cuda, const struct lane *lane,
                                 uint64_t *hashes, struct kvt_error *err)
{
    struct rank *rank = &cuda->ranks[lane->rank];
    kvt_status status;

    memset(hashes, 0, cuda->env.llm->store_count * sizeof *hashes);
    if (lane->hot_tokens == 0)
        return KVT_OK;
    status = rank_use(rank, err);
    if (status == KVT_OK)
        status = device_hashes(rank, lane, hashes, err);
    if (status == KVT_OK && lane->planned)
        status = planned_hashes(cuda, lane, hashes, err);
    return status == KVT_OK ? others_hashes(cuda, lane->request, hashes, err) : status;
}

kvt_status backend_cuda_state_hashes(struct kvt_backend *backend, uint32_t request,
                                     uint64_t *hashes, struct kvt_error *err)
{
    struct backend_cuda *cuda = backend_cuda_of(backend);
    kvt_status status;
    struct lane *lane = find_lane(cuda, request, false, &status, err);

    return lane ? gpu_lane_state_hashes(cuda, lane, hashes, err) : status;
}

/* ---- Calls ---------------------------------------------------------------------------- */

kvt_status backend_cuda_inspect_call(struct kvt_backend *backend, uint32_t request,
                                     uint32_t selector, uint32_t query,
                                     struct kvt_resolve_result *out, struct kvt_error *err)
{
    struct backend_cuda *cuda = backend_cuda_of(backend);
    uint32_t pass = cuda->passes > 1 ? query : 0;
    kvt_status status;
    struct lane *lane = find_lane(cuda, request, true, &status, err);

    if (!lane)
        return status;
    if (selector >= cuda->llm->selector_count)
        return cuda->others->ops->inspect_call(cuda->others, request, selector, query, out, err);
    struct rank *rank = &cuda->ranks[lane->rank];
    size_t call = call_at(rank, selector, pass, (uint32_t)lane->item);
    struct kvt_resolve_result result = outcome_of_call(&rank->counts_pinned[call]);
    if (lane->hot_tokens == 0) /* nothing was resolved */
        result = (struct kvt_resolve_result){.skipped = true};
    uint32_t missed = result.filled_rows + result.staged_rows;
    if (missed > 0)
        status = read_back(rank, cuda->inspected_missed,
                           rank->missed + call * cuda->pass_queries * cuda->llm->top_k,
                           missed * sizeof *cuda->inspected_missed, "missed rows", err);
    *out = result;
    out->missed = cuda->inspected_missed;
    return status;
}

/* ---- Caches --------------------------------------------------------------------------- */

static kvt_status read_cache(struct rank *rank, const struct lane *lane, uint32_t store,
                             uint32_t slots, struct kvt_error *err)
{
    struct backend_cuda *cuda = rank->cuda;
    const struct kvt_gpu_hot *hot = &rank->stores[store].hot;
    size_t first = (size_t)lane->index * hot->slots_max;
    uint16_t *order = (uint16_t *)(void *)cuda->inspected_missed;
    kvt_status status = read_back(rank, cuda->inspected_rows, hot->slot_rows + first,
                                  slots * sizeof *hot->slot_rows, "a hot cache", err);

    if (status == KVT_OK)
        status =
            read_back(rank, order, hot->order + first, slots * sizeof *order, "a hot cache", err);
    for (uint32_t rank_of = 0; rank_of < slots && status == KVT_OK; rank_of++) {
        if (order[rank_of] >= slots)
            return kvt_fail(err, KVT_ERR_DEVICE, "cuda",
                            "request %u, store %u: the order of %u slots on GPU %d has slot %u",
                            lane->request, store, slots, rank->device->ordinal, order[rank_of]);
        cuda->inspected_ranks[order[rank_of]] = rank_of;
    }
    return status;
}

kvt_status backend_cuda_inspect_cache(struct kvt_backend *backend, uint32_t request, uint32_t store,
                                      struct kvt_backend_cache *out, struct kvt_error *err)
{
    struct backend_cuda *cuda = backend_cuda_of(backend);
    uint64_t hashes[KVT_STORES_MAX];
    kvt_status status;
    struct lane *lane = find_lane(cuda, request, false, &status, err);

    if (!lane)
        return status;
    if (store >= cuda->llm->store_count)
        return cuda->others->ops->inspect_cache(cuda->others, request, store, out, err);
    struct rank *rank = &cuda->ranks[lane->rank];
    status = gpu_lane_state_hashes(cuda, lane, hashes, err);
    if (status != KVT_OK)
        return status;
    *out = (struct kvt_backend_cache){.state_hash = hashes[store],
                                      .slot_count = rank->stores[store].slot_counts[lane->index],
                                      .rows = cuda->inspected_rows,
                                      .ranks = cuda->inspected_ranks};
    if (lane->hot_tokens == 0)
        return KVT_OK;
    if (!lane->planned)
        return read_cache(rank, lane, store, out->slot_count, err);
    out->rows = kvt_hot_cache_rows(lane->planned[store].cache);
    kvt_hot_cache_ranks(lane->planned[store].cache, cuda->inspected_ranks);
    return KVT_OK;
}

/* ---- Selections ----------------------------------------------------------------------- */

kvt_status backend_cuda_selection(struct kvt_backend *backend, uint32_t request, uint32_t selector,
                                  uint32_t query, uint32_t *rows, uint32_t *count,
                                  struct kvt_error *err)
{
    struct backend_cuda *cuda = backend_cuda_of(backend);
    kvt_status status;
    struct lane *lane = find_lane(cuda, request, true, &status, err);

    if (!lane)
        return status;
    if (selector >= cuda->llm->selector_count && cuda->law)
        return cuda->others->ops->selection(cuda->others, request, selector, query, rows, count,
                                            err);
    if (selector >= cuda->llm->selector_count)
        selector = layers_stand_in(cuda, selector);
    struct rank *rank = &cuda->ranks[lane->rank];
    if (!rank->selections_read)
        status = rank_read_selections(rank, err);
    if (status != KVT_OK)
        return status;
    const int32_t *list =
        rank->selections_pinned + list_at(rank, selector, (uint32_t)lane->item, query);
    *count = list_count(list, cuda->llm->top_k);
    memcpy(rows, list, *count * sizeof *rows);
    return KVT_OK;
}
