/* gather_time.c -- copies of rows out of host memory, timed by themselves.
 *
 *     rows of the pool, list by list, by the kernel that fetches what a call misses
 *     step by step, each between events: the first one's time is not told
 *
 * Copies beside it go to streams of their own, all at once, so that they are over while lists are
 * still copied. Several GPUs read one pool at once: the first list of each is launched before the
 * second of any, and nobody is waited for until all lists of all are launched. */
#include "kvt/gather.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* What the launches of one GPU read, in one piece of its memory. */
struct tables {
    uint32_t *missed;       /* [steps][lists][requests][rows_each] */
    int32_t *missed_places; /* [requests][rows_each] */
    struct kvt_gpu_request *requests;
    struct kvt_gpu_counts *counts; /* [requests] */
    uint64_t *zeros;               /* [requests] shared_at and own_at */
    uint32_t *shared_rows;         /* [requests] */
    uint8_t *rows;                 /* where they are copied to */
    uint8_t *inbound, *outbound;   /* of one list, to and from the host */
};

struct gpu {
    uint8_t *pool; /* as this device sees it */
    cudaStream_t stream, inbound, outbound;
    cudaEvent_t begin, end;
    void *memory; /* of the tables, while lists are timed */
    struct tables tables;
};

struct kvt_gather {
    struct host_pool pool;
    uint32_t gpu_count;
    struct gpu gpus[KVT_GATHER_GPUS_MAX]; /* [gpu_count] by device */
};

static kvt_status choose(uint32_t device, struct kvt_error *err)
{
    return kvt_cuda_check(cudaSetDevice((int)device), "choosing a device", err);
}

kvt_status kvt_gather_count_gpus(uint32_t *count, struct kvt_error *err)
{
    int found = 0;
    kvt_status status = kvt_cuda_check(cudaGetDeviceCount(&found), "counting devices", err);

    *count = status == KVT_OK ? (uint32_t)found : 0;
    return status;
}

static kvt_status check_gpus(uint32_t gpus, struct kvt_error *err)
{
    uint32_t count = 0;
    kvt_status status = kvt_gather_count_gpus(&count, err);

    if (status != KVT_OK)
        return status;
    if (gpus < 1 || gpus > KVT_GATHER_GPUS_MAX || gpus > count)
        return kvt_fail(err, KVT_ERR_INVALID, "a gather",
                        "%u GPUs at once; 1 to %d are expected, and this machine has %u", gpus,
                        KVT_GATHER_GPUS_MAX, count);
    return KVT_OK;
}

/* Pinned for every device, wherever it was chosen from. */
static kvt_status open_pool(struct kvt_gather *gather, uint64_t bytes, struct kvt_error *err)
{
    const struct kvt_backend_env env = {.rank_count = 1};
    uint64_t done_bytes = 0;
    int numa_node = -1;
    kvt_status status = choose(0, err);

    if (status == KVT_OK)
        status = host_pool_check(bytes, 0, err);
    if (status == KVT_OK)
        status = kvt_cuda_check(cudaDeviceGetAttribute(&numa_node, cudaDevAttrHostNumaId, 0),
                                "the node of the device", err);
    if (status == KVT_OK)
        status = host_pool_open(&env, bytes, numa_node, &done_bytes, bytes, &gather->pool, err);
    return status;
}

static kvt_status open_gpu(struct kvt_gather *gather, uint32_t device, struct kvt_error *err)
{
    struct gpu *gpu = &gather->gpus[device];
    void *base = NULL;
    kvt_status status = choose(device, err);

    if (status == KVT_OK)
        status = kvt_cuda_check(cudaHostGetDevicePointer(&base, gather->pool.base, 0),
                                "a pool of host rows", err);
    if (status == KVT_OK)
        status = kvt_cuda_check(cudaStreamCreate(&gpu->stream), "a stream", err);
    if (status == KVT_OK)
        status = kvt_cuda_check(cudaStreamCreate(&gpu->inbound), "a stream", err);
    if (status == KVT_OK)
        status = kvt_cuda_check(cudaStreamCreate(&gpu->outbound), "a stream", err);
    if (status == KVT_OK)
        status = kvt_cuda_check(cudaEventCreate(&gpu->begin), "an event", err);
    if (status == KVT_OK)
        status = kvt_cuda_check(cudaEventCreate(&gpu->end), "an event", err);
    gpu->pool = base;
    return status;
}

kvt_status kvt_gather_open(uint64_t pool_bytes, uint32_t gpus, struct kvt_gather **out,
                           struct kvt_error *err)
{
    kvt_status status = check_gpus(gpus, err);

    if (status != KVT_OK)
        return status;
    struct kvt_gather *gather = calloc(1, sizeof *gather);
    if (!gather)
        return kvt_fail_nomem(err, "a pool of host rows");
    gather->gpu_count = gpus;
    status = open_pool(gather, pool_bytes, err);
    for (uint32_t g = 0; g < gpus && status == KVT_OK; g++)
        status = open_gpu(gather, g, err);
    if (status != KVT_OK) {
        kvt_gather_close(gather);
        return status;
    }
    *out = gather;
    return KVT_OK;
}

static void close_gpu(struct gpu *gpu)
{
    if (gpu->end)
        (void)cudaEventDestroy(gpu->end);
    if (gpu->begin)
        (void)cudaEventDestroy(gpu->begin);
    if (gpu->outbound)
        (void)cudaStreamDestroy(gpu->outbound);
    if (gpu->inbound)
        (void)cudaStreamDestroy(gpu->inbound);
    if (gpu->stream)
        (void)cudaStreamDestroy(gpu->stream);
}

void kvt_gather_close(struct kvt_gather *gather)
{
    if (!gather)
        return;
    for (uint32_t g = 0; g < gather->gpu_count; g++)
        close_gpu(&gather->gpus[g]);
    host_pool_close(&gather->pool);
    free(gather);
}

/* ---- One set of lists ------------------------------------------------------------------ */

/* Of all steps. */
static uint64_t lists_of(const struct kvt_gather_lists *lists)
{
    return (uint64_t)lists->steps * lists->lists;
}

static uint64_t lay_out(const struct kvt_gather_lists *lists, uint8_t *base, struct tables *tables)
{
    uint64_t requests = lists->requests, rows = requests * lists->rows_each;
    struct carver carver = {.base = base};

    tables->missed = carve(&carver, lists_of(lists) * rows * sizeof *tables->missed, 256);
    tables->missed_places = carve(&carver, rows * sizeof *tables->missed_places, 256);
    tables->requests = carve(&carver, requests * sizeof *tables->requests, 256);
    tables->counts = carve(&carver, requests * sizeof *tables->counts, 256);
    tables->zeros = carve(&carver, requests * sizeof *tables->zeros, 256);
    tables->shared_rows = carve(&carver, requests * sizeof *tables->shared_rows, 256);
    tables->rows = carve(&carver, rows * lists->row_bytes, 256);
    tables->inbound = carve(&carver, lists->inbound_bytes, 256);
    tables->outbound = carve(&carver, lists->outbound_bytes, 256);
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
            copy_up(tables->missed, lists->rows, lists_of(lists) * rows * sizeof *lists->rows, err);
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

static kvt_status open_tables(struct gpu *gpu, uint32_t device,
                              const struct kvt_gather_lists *lists, struct kvt_error *err)
{
    uint64_t bytes = lay_out(lists, NULL, &gpu->tables);
    kvt_status status = choose(device, err);

    if (status == KVT_OK)
        status = kvt_cuda_check_device_bytes(cudaMalloc(&gpu->memory, bytes), "rows of a gather",
                                             bytes, err);
    if (status != KVT_OK)
        return status;
    (void)lay_out(lists, gpu->memory, &gpu->tables);
    return fill(lists, &gpu->tables, err);
}

static void close_tables(struct gpu *gpu)
{
    if (gpu->memory)
        (void)cudaFree(gpu->memory);
    gpu->memory = NULL;
}

/* ---- Its time ---------------------------------------------------------------------------- */

static kvt_status launch(const struct gpu *gpu, uint32_t device, uint64_t list,
                         const struct kvt_gather_lists *lists, struct kvt_error *err)
{
    const struct tables *tables = &gpu->tables;
    size_t rows = (size_t)lists->requests * lists->rows_each;
    const struct kvt_gpu_resolve call = {.request_count = lists->requests,
                                         .query_count = lists->requests,
                                         .queries_max = 1,
                                         .layers = 1,
                                         .layer_bytes = lists->row_bytes,
                                         .requests = tables->requests,
                                         .pool = tables->rows,
                                         .host = {.base = gpu->pool,
                                                  .row_stride = lists->row_bytes,
                                                  .layer_stride = lists->row_bytes,
                                                  .shared_at = tables->zeros,
                                                  .own_at = tables->zeros,
                                                  .shared_rows = tables->shared_rows},
                                         .staging_share = 1,
                                         .missed = tables->missed + list * rows,
                                         .missed_places = tables->missed_places,
                                         .missed_stride = lists->rows_each,
                                         .counts = tables->counts};
    kvt_status status = choose(device, err);

    if (status == KVT_OK)
        status = kvt_cuda_check(kvt_gpu_fetch_followers(&call, 0, 1, gpu->stream),
                                "kvt_gpu_fetch_followers", err);
    return status;
}

/* All that is copied beside the lists, from their begin on. */
static kvt_status launch_beside(const struct kvt_gather *gather, uint32_t device,
                                const struct kvt_gather_lists *lists, struct kvt_error *err)
{
    const struct gpu *gpu = &gather->gpus[device];
    cudaError_t error = cudaSetDevice((int)device);

    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(gpu->inbound, gpu->begin, 0);
    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(gpu->outbound, gpu->begin, 0);
    for (uint32_t l = 0; l < lists->lists && error == cudaSuccess; l++) {
        if (lists->inbound_bytes > 0)
            error = cudaMemcpyAsync(gpu->tables.inbound, gather->pool.base, lists->inbound_bytes,
                                    cudaMemcpyHostToDevice, gpu->inbound);
        if (lists->outbound_bytes > 0 && error == cudaSuccess)
            error = cudaMemcpyAsync(gather->pool.base, gpu->tables.outbound, lists->outbound_bytes,
                                    cudaMemcpyDeviceToHost, gpu->outbound);
    }
    return kvt_cuda_check(error, "copies beside a gather", err);
}

static kvt_status record(const struct gpu *gpu, uint32_t device, cudaEvent_t event,
                         struct kvt_error *err)
{
    kvt_status status = choose(device, err);
    return status == KVT_OK ? kvt_cuda_check(cudaEventRecord(event, gpu->stream), "a gather", err)
                            : status;
}

/* A step's lists of each GPU, one behind the other between its events, the GPUs in turn. */
static kvt_status launch_all(const struct kvt_gather *gather, const struct kvt_gather_lists *lists,
                             uint32_t step, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (uint32_t g = 0; g < lists->gpus && status == KVT_OK; g++)
        status = record(&gather->gpus[g], g, gather->gpus[g].begin, err);
    for (uint32_t g = 0; g < lists->gpus && status == KVT_OK; g++)
        status = launch_beside(gather, g, lists, err);
    for (uint32_t l = 0; l < lists->lists && status == KVT_OK; l++) {
        for (uint32_t g = 0; g < lists->gpus && status == KVT_OK; g++) {
            uint64_t first = (uint64_t)g * lists->lists / lists->gpus;
            uint64_t list = (uint64_t)step * lists->lists + (first + l) % lists->lists;
            status = launch(&gather->gpus[g], g, list, lists, err);
        }
    }
    for (uint32_t g = 0; g < lists->gpus && status == KVT_OK; g++)
        status = record(&gather->gpus[g], g, gather->gpus[g].end, err);
    return status;
}

static kvt_status wait_for(const struct gpu *gpu, uint32_t device, float *ms, struct kvt_error *err)
{
    kvt_status status = choose(device, err);

    if (status == KVT_OK)
        status = kvt_cuda_check(cudaEventSynchronize(gpu->end), "a gather", err);
    if (status == KVT_OK)
        status = kvt_cuda_check(cudaEventElapsedTime(ms, gpu->begin, gpu->end), "a gather", err);
    if (status == KVT_OK)
        status = kvt_cuda_check(cudaStreamSynchronize(gpu->inbound), "copies beside a gather", err);
    if (status == KVT_OK)
        status =
            kvt_cuda_check(cudaStreamSynchronize(gpu->outbound), "copies beside a gather", err);
    return status;
}

static kvt_status time_step(const struct kvt_gather *gather, const struct kvt_gather_lists *lists,
                            uint32_t step, double *ns, struct kvt_error *err)
{
    float slowest_ms = 0;
    kvt_status status = launch_all(gather, lists, step, err);

    for (uint32_t g = 0; g < lists->gpus && status == KVT_OK; g++) {
        float ms = 0;
        status = wait_for(&gather->gpus[g], g, &ms, err);
        slowest_ms = ms > slowest_ms ? ms : slowest_ms;
    }
    *ns = 1e6 * (double)slowest_ms / lists->lists;
    return status;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static kvt_status check_lists(const struct kvt_gather *gather, const struct kvt_gather_lists *lists,
                              struct kvt_error *err)
{
    uint64_t most =
        lists->inbound_bytes > lists->outbound_bytes ? lists->inbound_bytes : lists->outbound_bytes;

    if (most > gather->pool.bytes)
        return kvt_fail(err, KVT_ERR_INVALID, "a gather",
                        "%llu B beside each list; at most the %llu of the pool are expected",
                        (unsigned long long)most, (unsigned long long)gather->pool.bytes);
    if (lists->steps < 2)
        return kvt_fail(err, KVT_ERR_INVALID, "a gather",
                        "%u steps; 2 at least are expected, of which one is not timed",
                        lists->steps);
    if (lists->gpus >= 1 && lists->gpus <= gather->gpu_count)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, "a gather",
                    "%u GPUs at once; the pool is open for %u, and 1 to as many are expected",
                    lists->gpus, gather->gpu_count);
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, compare);
    return count % 2 > 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

kvt_status kvt_gather_time(struct kvt_gather *gather, const struct kvt_gather_lists *lists,
                           double *ns, struct kvt_error *err)
{
    kvt_status status = check_lists(gather, lists, err);

    if (status != KVT_OK)
        return status;
    double *times = calloc(lists->steps, sizeof *times);
    if (!times)
        return kvt_fail_nomem(err, "a gather");
    for (uint32_t g = 0; g < lists->gpus && status == KVT_OK; g++)
        status = open_tables(&gather->gpus[g], g, lists, err);
    for (uint32_t step = 0; step < lists->steps && status == KVT_OK; step++)
        status = time_step(gather, lists, step, &times[step], err);
    for (uint32_t g = 0; g < lists->gpus; g++)
        close_tables(&gather->gpus[g]);
    if (status == KVT_OK)
        *ns = median(times + 1, lists->steps - 1);
    free(times);
    return status;
}
