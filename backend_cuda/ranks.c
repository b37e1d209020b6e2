/* ranks.c -- a thread a rank, and all that a rank opens and closes. */
#include "step.h"

#include <stdlib.h>
#include <string.h>

/* ---- Threads -------------------------------------------------------------------------- */

static void *stand_by(void *argument)
{
    struct rank *rank = argument;
    struct backend_cuda *cuda = rank->cuda;

    (void)pthread_mutex_lock(&cuda->mutex);
    while (!cuda->quits) {
        if (!rank->work) {
            (void)pthread_cond_wait(&cuda->changed, &cuda->mutex);
            continue;
        }
        (void)pthread_mutex_unlock(&cuda->mutex);
        rank->status = rank_step(rank, rank->work, &rank->error);
        (void)pthread_mutex_lock(&cuda->mutex);
        rank->work = NULL;
        cuda->working--;
        (void)pthread_cond_broadcast(&cuda->changed);
    }
    (void)pthread_mutex_unlock(&cuda->mutex);
    return NULL;
}

/* Of the ranks that failed, the first that found out why itself; NULL: none failed. */
static const struct rank *find_failed(const struct backend_cuda *cuda,
                                      const struct kvt_rank_step *steps, uint32_t count)
{
    const struct rank *failed = NULL;

    for (uint32_t r = 0; r < count; r++) {
        const struct rank *rank = &cuda->ranks[steps[r].rank];
        if (steps[r].item_count == 0 || rank->status == KVT_OK)
            continue;
        if (!failed || (failed->is_late && !rank->is_late))
            failed = rank;
    }
    return failed;
}

/* One alone is run by the caller: no thread is woken for it. */
static kvt_status run(struct backend_cuda *cuda, struct kvt_rank_step *steps, uint32_t count,
                      struct kvt_error *err)
{
    uint32_t busy = 0, last = 0;

    for (uint32_t r = 0; r < count; r++) {
        struct kvt_step_outcome *outcome = &steps[r].outcome;
        *outcome = (struct kvt_step_outcome){.measured_ns = KVT_NS_NEVER};
        cuda->ranks[steps[r].rank].status = KVT_OK;
        busy += steps[r].item_count > 0;
        last = steps[r].item_count > 0 ? r : last;
    }
    if (busy == 0)
        return KVT_OK;
    if (busy == 1)
        return rank_step(&cuda->ranks[steps[last].rank], &steps[last], err);
    (void)pthread_mutex_lock(&cuda->mutex);
    for (uint32_t r = 0; r < count; r++) {
        if (steps[r].item_count > 0)
            cuda->ranks[steps[r].rank].work = &steps[r];
    }
    cuda->working = busy;
    (void)pthread_cond_broadcast(&cuda->changed);
    while (cuda->working > 0)
        (void)pthread_cond_wait(&cuda->changed, &cuda->mutex);
    (void)pthread_mutex_unlock(&cuda->mutex);
    const struct rank *failed = find_failed(cuda, steps, count);
    if (failed && err)
        *err = failed->error;
    return failed ? failed->status : KVT_OK;
}

kvt_status ranks_step(struct backend_cuda *cuda, struct kvt_rank_step *steps, uint32_t count,
                      struct kvt_error *err)
{
    kvt_status status = run(cuda, steps, count, err);

    if (status == KVT_OK)
        status = others_step(cuda, steps, count, err);
    for (uint32_t r = 0; r < count && status == KVT_OK; r++) {
        if (steps[r].item_count > 0)
            status = rank_count(&cuda->ranks[steps[r].rank], &steps[r], err);
    }
    return status;
}

/* ---- Opening and closing -------------------------------------------------------------- */

static kvt_status open_tables(struct rank *rank, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    size_t lanes = cuda->lanes;

    rank->lanes = calloc(lanes, sizeof(struct lane *));
    rank->items = calloc(lanes, sizeof(struct lane *));
    rank->first_query = calloc(lanes, sizeof *rank->first_query);
    rank->pass_place = calloc(lanes * cuda->passes, sizeof *rank->pass_place);
    rank->staged_rows = calloc(lanes, sizeof *rank->staged_rows);
    rank->wave_of = calloc(lanes, sizeof *rank->wave_of);
    rank->graphs = calloc(GRAPHS_MAX + 1, sizeof *rank->graphs);
    rank->checks = calloc(cuda->check_queries + 1, sizeof *rank->checks);
    if (!rank->lanes || !rank->items || !rank->first_query || !rank->pass_place ||
        !rank->staged_rows || !rank->wave_of || !rank->graphs || !rank->checks)
        return kvt_fail_nomem(err, "a rank");
    return KVT_OK;
}

static kvt_status open_crew(struct rank *rank, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    unsigned threads = cuda->env.threads / cuda->env.rank_count;
    kvt_status status = kvt_crew_new(threads > 0 ? threads : 1, &rank->crew, err);

    if (status != KVT_OK)
        return status;
    unsigned size = kvt_crew_size(rank->crew);
    rank->workers = calloc(size, sizeof *rank->workers);
    if (!rank->workers)
        return kvt_fail_nomem(err, "the scratch of a step");
    for (unsigned w = 0; w < size && status == KVT_OK; w++)
        status = gpu_worker_open(cuda, &rank->workers[w], err);
    return status;
}

/* The step's own stream comes first where kernels compete for the device. */
static kvt_status open_streams(struct rank *rank, struct kvt_error *err)
{
    int least = 0, greatest = 0;
    cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    cudaEvent_t *events[] = {&rank->ready, &rank->forked, &rank->joined, &rank->backed};

    if (error == cudaSuccess)
        error = cudaStreamCreateWithPriority(&rank->main, cudaStreamNonBlocking, greatest);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithPriority(&rank->beside, cudaStreamNonBlocking, least);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithPriority(&rank->copier, cudaStreamNonBlocking, least);
    for (uint32_t w = 0; w < WAVES_MAX && error == cudaSuccess; w++)
        error = cudaStreamCreateWithFlags(&rank->inner[w], cudaStreamNonBlocking);
    for (size_t e = 0; e < sizeof events / sizeof *events && error == cudaSuccess; e++)
        error = cudaEventCreateWithFlags(events[e], cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaEventCreate(&rank->begin);
    if (error == cudaSuccess)
        error = cudaEventCreate(&rank->end);
    for (uint32_t m = 0; m < MARKS_MAX && error == cudaSuccess; m++)
        error = cudaEventCreate(&rank->marks[m]);
    rank->launches = rank->main;
    return rank_check(rank, error, "streams and events", err);
}

kvt_status rank_open(struct rank *rank, uint64_t free_bytes, struct kvt_error *err)
{
    kvt_status status = rank_use(rank, err);

    if (status == KVT_OK)
        status = open_tables(rank, err);
    if (status == KVT_OK)
        status = open_streams(rank, err);
    if (status == KVT_OK)
        status = rank_open_pools(rank, free_bytes, err);
    if (status == KVT_OK)
        status = imports_open(rank, err);
    if (status == KVT_OK)
        status = traffic_open(rank, err);
    if (status == KVT_OK)
        status = open_crew(rank, err);
    if (status == KVT_OK && rank->cuda->env.rank_count > 1) {
        int error = pthread_create(&rank->thread, NULL, stand_by, rank);
        if (error != 0)
            return kvt_fail(err, KVT_ERR_NOMEM, "cuda", "no thread for rank %u: %s", rank->number,
                            strerror(error));
        rank->has_thread = true;
    }
    return status;
}

static void close_streams(struct rank *rank)
{
    cudaEvent_t events[] = {rank->begin,  rank->end,    rank->ready,
                            rank->forked, rank->joined, rank->backed};
    cudaStream_t streams[] = {rank->main, rank->beside, rank->copier};

    for (size_t e = 0; e < sizeof events / sizeof events[0]; e++) {
        if (events[e])
            (void)cudaEventDestroy(events[e]);
    }
    for (uint32_t m = 0; m < MARKS_MAX && rank->marks[m]; m++)
        (void)cudaEventDestroy(rank->marks[m]);
    for (size_t s = 0; s < sizeof streams / sizeof streams[0]; s++) {
        if (streams[s])
            (void)cudaStreamDestroy(streams[s]);
    }
    for (uint32_t w = 0; w < WAVES_MAX && rank->inner[w]; w++)
        (void)cudaStreamDestroy(rank->inner[w]);
}

/* A step that failed may have left copies under way, whose memory and events go next. A stream
 * that does not come to its end has the device lost, and nothing of it is touched then. */
static void drain(struct rank *rank)
{
    cudaStream_t streams[] = {rank->main,
                              rank->beside,
                              rank->copier,
                              rank->imports.stream,
                              rank->traffic[WAY_INBOUND].stream,
                              rank->traffic[WAY_OUTBOUND].stream};
    struct kvt_error err;
    kvt_status status = rank_use(rank, &err);

    for (size_t s = 0; s < sizeof streams / sizeof streams[0] && !rank->device->lost; s++) {
        if (status == KVT_OK && streams[s])
            status = rank_wait_stream(rank, streams[s], "what a step left behind", &err);
    }
}

void rank_close(struct rank *rank)
{
    if (rank->has_thread)
        (void)pthread_join(rank->thread, NULL);
    if (rank->device)
        drain(rank);
    if (rank->device && !rank->device->lost &&
        cudaSetDevice(rank->device->ordinal) == cudaSuccess) {
        graphs_close(rank);
        close_streams(rank);
        traffic_close(rank);
    }
    if (rank->device)
        imports_close(rank);
    rank_close_pools(rank);
    for (unsigned w = 0; rank->workers && w < kvt_crew_size(rank->crew); w++)
        gpu_worker_close(&rank->workers[w]);
    free(rank->workers);
    kvt_crew_free(rank->crew);
    free(rank->lanes);
    free(rank->items);
    free(rank->first_query);
    free(rank->pass_place);
    free(rank->staged_rows);
    free(rank->wave_of);
    free(rank->graphs);
    free(rank->checks);
}
