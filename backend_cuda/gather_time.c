/* gather_time.c -- copies of rows out of host memory, timed by themselves.
 *
 *     rows of the pool, list by list, by the kernel that fetches what a call misses
 *     all lists once, so that everything is warm that will be; then a few times between events */
#include "kvt/gather.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

enum {
    REPETITIONS = 5
};

struct kvt_gather {
    struct host_pool pool;
    uint8_t *device_base; /* the pool, as the device sees it */
    cudaStream_t stream;
    cudaEvent_t begin, end;
};

kvt_status kvt_gather_open(uint64_t pool_bytes, struct kvt_gather **out, struct kvt_error *err)
{
    const struct kvt_backend_env env = {.rank_count = 1};
    struct kvt_gather *gather = calloc(1, sizeof *gather);
    uint64_t done_bytes = 0;
    void *base = NULL;
    int numa_node = -1;

    if (!gather)
        return kvt_fail_nomem(err, "a pool of host rows");
    kvt_status status = kvt_cuda_check(cudaSetDevice(0), "choosing a device", err);
    if (status == KVT_OK)
        status = host_pool_check(pool_bytes, 0, err);
    if (status == KVT_OK)
        status = kvt_cuda_check(cudaDeviceGetAttribute(&numa_node, cudaDevAttrHostNumaId, 0),
                                "the node of the device", err);
    if (status == KVT_OK)
        status = host_pool_open(&env, pool_bytes, numa_node, &done_bytes, pool_bytes, &gather->pool,
                                err);
    if (status == KVT_OK)
        status = kvt_cuda_check(cudaHostGetDevicePointer(&base, gather->pool.base, 0),
                                "a pool of host rows", err);
    if (status == KVT_OK)
        status = kvt_cuda_check(cudaStreamCreate(&gather->stream), "a stream", err);
    if (status == KVT_OK)
        status = kvt_cuda_check(cudaEventCreate(&gather->begin), "an event", err);
    if (status == KVT_OK)
        status = kvt_cuda_check(cudaEventCreate(&gather->end), "an event", err);
    gather->device_base = base;
    if (status != KVT_OK) {
        kvt_gather_close(gather);
        return status;
    }
    *out = gather;
    return KVT_OK;
}

void kvt_gather_close(struct kvt_gather *gather)
{
    if (!gather)
        return;
    if (gather->end)
        (void)cudaEventDestroy(gather->end);
    if (gather->begin)
        (void)cudaEventDestroy(gather->begin);
    if (gather->stream)
        (void)cudaStreamDestroy(gather->stream);
    host_pool_close(&gather->pool);
    free(gather);
}

/* ---- One set of lists ------------------------------------------------------------------ */

/* What the launches read, in one piece of device memory. */
struct tables {
    uint32_t *missed;       /* [lists][requests][rows_each] */
    int32_t *missed_places; /* [requests][rows_each] */
    struct kvt_gpu_request *requests;
    struct kvt_gpu_counts *counts; /* [requests] */
    uint64_t *zeros;               /* [requests] shared_at and own_at */
    uint32_t *shared_rows;         /* [requests] */
    uint8_t *rows;                 /* where they are copied to */
};

static uint64_t lay_out(const struct kvt_gather_lists *lists, uint8_t *base, struct tables *tables)
{
    uint64_t requests = lists->requests, rows = requests * lists->rows_each;
    struct carver carver = {.base = base};

    tables->missed = carve(&carver, lists->lists * rows * sizeof *tables->missed, 256);
    tables->missed_places = carve(&carver, rows * sizeof *tables->missed_places, 256);
    tables->requests = carve(&carver, requests * sizeof *tables->requests, 256);
    tables->counts = carve(&carver, requests * sizeof *tables->counts, 256);
    tables->zeros = carve(&carver, requests * sizeof *tables->zeros, 256);
    tables->shared_rows = carve(&carver, requests * sizeof *tables->shared_rows, 256);
    tables->rows = carve(&carver, rows * lists->row_bytes, 256);
    return carver.used_bytes;
}

static kvt_status copy_up(void *to, const void *from, size_t bytes, struct kvt_error *err)
{
    return kvt_cuda_check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "tables of a gather",
                          err);
}

static kvt_status clear(void *to, size_t bytes, struct kvt_error *err)
{
    return kvt_cuda_check(cudaMemset(to, 0, bytes), "tables of a gather", err);
}

/* Tables that are the same for every list: a request is a lane, and row r goes to place r. */
static kvt_status fill_from(const struct kvt_gather_lists *lists, struct tables *tables,
                            struct kvt_gpu_request *requests, struct kvt_gpu_counts *counts,
                            int32_t *places, struct kvt_error *err)
{
    size_t count = lists->requests, rows = count * lists->rows_each;

    for (size_t i = 0; i < count; i++) {
        requests[i] = (struct kvt_gpu_request){.lane = (uint32_t)i, .query_count = 1};
        counts[i].filled_rows = lists->rows_each;
    }
    for (size_t r = 0; r < rows; r++)
        places[r] = (int32_t)r;
    kvt_status status = clear(tables->zeros, count * sizeof *tables->zeros, err);
    if (status == KVT_OK)
        status = clear(tables->shared_rows, count * sizeof *tables->shared_rows, err);
    if (status == KVT_OK)
        status = copy_up(tables->requests, requests, count * sizeof *requests, err);
    if (status == KVT_OK)
        status = copy_up(tables->counts, counts, count * sizeof *counts, err);
    if (status == KVT_OK)
        status = copy_up(tables->missed_places, places, rows * sizeof *places, err);
    if (status == KVT_OK)
        status =
            copy_up(tables->missed, lists->rows, lists->lists * rows * sizeof *lists->rows, err);
    return status;
}

static kvt_status fill(const struct kvt_gather_lists *lists, struct tables *tables,
                       struct kvt_error *err)
{
    size_t count = lists->requests, rows = count * lists->rows_each;
    struct kvt_gpu_request *requests = calloc(count, sizeof *requests);
    struct kvt_gpu_counts *counts = calloc(count, sizeof *counts);
    int32_t *places = calloc(rows, sizeof *places);
    kvt_status status = requests && counts && places
                            ? fill_from(lists, tables, requests, counts, places, err)
                            : kvt_fail_nomem(err, "a gather");

    free(requests);
    free(counts);
    free(places);
    return status;
}

/* All lists, one behind the other. */
static kvt_status launch(struct kvt_gather *gather, const struct kvt_gather_lists *lists,
                         const struct tables *tables, struct kvt_error *err)
{
    size_t rows = (size_t)lists->requests * lists->rows_each;
    kvt_status status = KVT_OK;

    for (uint32_t l = 0; l < lists->lists && status == KVT_OK; l++) {
        struct kvt_gpu_resolve call = {.request_count = lists->requests,
                                       .query_count = lists->requests,
                                       .queries_max = 1,
                                       .layers = 1,
                                       .layer_bytes = lists->row_bytes,
                                       .requests = tables->requests,
                                       .pool = tables->rows,
                                       .host = {.base = gather->device_base,
                                                .row_stride = lists->row_bytes,
                                                .layer_stride = lists->row_bytes,
                                                .shared_at = tables->zeros,
                                                .own_at = tables->zeros,
                                                .shared_rows = tables->shared_rows},
                                       .staging_share = 1,
                                       .missed = tables->missed + l * rows,
                                       .missed_places = tables->missed_places,
                                       .missed_stride = lists->rows_each,
                                       .counts = tables->counts};
        status = kvt_cuda_check(kvt_gpu_fetch_followers(&call, 0, 1, gather->stream),
                                "kvt_gpu_fetch_followers", err);
    }
    return status;
}

static kvt_status time_once(struct kvt_gather *gather, const struct kvt_gather_lists *lists,
                            const struct tables *tables, double *ns, struct kvt_error *err)
{
    float ms = 0;
    kvt_status status =
        kvt_cuda_check(cudaEventRecord(gather->begin, gather->stream), "a gather", err);

    if (status == KVT_OK)
        status = launch(gather, lists, tables, err);
    if (status == KVT_OK)
        status = kvt_cuda_check(cudaEventRecord(gather->end, gather->stream), "a gather", err);
    if (status == KVT_OK)
        status = kvt_cuda_check(cudaEventSynchronize(gather->end), "a gather", err);
    if (status == KVT_OK)
        status =
            kvt_cuda_check(cudaEventElapsedTime(&ms, gather->begin, gather->end), "a gather", err);
    *ns = 1e6 * (double)ms / lists->lists;
    return status;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

kvt_status kvt_gather_time(struct kvt_gather *gather, const struct kvt_gather_lists *lists,
                           double *ns, struct kvt_error *err)
{
    struct tables tables;
    double times[REPETITIONS];
    uint64_t bytes = lay_out(lists, NULL, &tables);
    void *base = NULL;
    kvt_status status =
        kvt_cuda_check_device_bytes(cudaMalloc(&base, bytes), "rows of a gather", bytes, err);

    if (status != KVT_OK)
        return status;
    (void)lay_out(lists, base, &tables);
    status = fill(lists, &tables, err);
    if (status == KVT_OK)
        status = time_once(gather, lists, &tables, &times[0], err);
    for (int r = 0; r < REPETITIONS && status == KVT_OK; r++)
        status = time_once(gather, lists, &tables, &times[r], err);
    (void)cudaFree(base);
    if (status != KVT_OK)
        return status;
    qsort(times, REPETITIONS, sizeof *times, compare);
    *ns = times[REPETITIONS / 2];
    return KVT_OK;
}
