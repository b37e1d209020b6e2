/* backend.c -- the CUDA backend: what it is made of, and the requests that decode in it. */
#include "cuda_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double number(const struct backend_cuda *cuda, int param)
{
    return cuda->env.params.values[param].number;
}

/* ---- Devices -------------------------------------------------------------------------- */

/* -1 where the system does not say. */
static int numa_node_of(int ordinal)
{
    char bus[32] = "", path[128];
    int node = -1;

    if (cudaDeviceGetPCIBusId(bus, sizeof bus, ordinal) != cudaSuccess)
        return -1;
    for (char *c = bus; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'F' ? *c - 'A' + 'a' : *c);
    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", bus);
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    if (fscanf(file, "%d", &node) != 1)
        node = -1;
    (void)fclose(file);
    return node;
}

static kvt_status list_devices(struct backend_cuda *cuda, int visible, struct kvt_error *err)
{
    const struct kvt_param_value *value = &cuda->env.params.values[KVT_CUDA_DEVICES];
    bool all = value->list_length == 1 && value->list[0] < 0;

    cuda->device_count = all ? (uint32_t)visible : (uint32_t)value->list_length;
    cuda->devices = calloc(cuda->device_count, sizeof *cuda->devices);
    if (!cuda->devices)
        return kvt_fail_nomem(err, "the devices");
    for (uint32_t d = 0; d < cuda->device_count; d++) {
        int ordinal = all ? (int)d : (int)value->list[d];
        if (ordinal < 0 || ordinal >= visible)
            return kvt_fail(err, KVT_ERR_INVALID, "backend.devices",
                            "there is no GPU %d; %d are visible, from 0 on", ordinal, visible);
        for (uint32_t other = 0; other < d; other++) {
            if (cuda->devices[other].ordinal == ordinal)
                return kvt_fail(err, KVT_ERR_INVALID, "backend.devices",
                                "GPU %d is named twice; ranks_on_device says how many ranks share "
                                "one",
                                ordinal);
        }
        cuda->devices[d].ordinal = ordinal;
        cuda->devices[d].numa_node = numa_node_of(ordinal);
        (void)pthread_mutex_init(&cuda->devices[d].turn, NULL);
        (void)pthread_mutex_init(&cuda->devices[d].dense_lock, NULL);
    }
    return KVT_OK;
}

/* Ranks in order: so many on the first, or evenly. */
static kvt_status spread_ranks(struct backend_cuda *cuda, struct kvt_error *err)
{
    uint32_t ranks = cuda->env.rank_count, each = (uint32_t)number(cuda, KVT_CUDA_RANKS_ON_DEVICE);

    if (each > 0 && (uint64_t)each * cuda->device_count < ranks)
        return kvt_fail(err, KVT_ERR_INVALID, "backend.ranks_on_device",
                        "%u ranks do not go on %u GPUs with %u on each; %u do", ranks,
                        cuda->device_count, each,
                        (ranks + cuda->device_count - 1) / cuda->device_count);
    cuda->ranks = calloc(ranks, sizeof *cuda->ranks);
    if (!cuda->ranks)
        return kvt_fail_nomem(err, "the ranks");
    for (uint32_t r = 0; r < ranks; r++) {
        cuda->ranks[r].cuda = cuda;
        cuda->ranks[r].number = r;
        cuda->ranks[r].device =
            &cuda->devices[each > 0 ? r / each : (uint64_t)r * cuda->device_count / ranks];
        cuda->ranks[r].device->rank_count++;
    }
    return KVT_OK;
}

/* The free memory of a GPU is shared by the ranks on it that have none yet. */
static kvt_status open_ranks(struct backend_cuda *cuda, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (uint32_t r = 0; r < cuda->env.rank_count && status == KVT_OK; r++) {
        struct rank *rank = &cuda->ranks[r];
        size_t free_bytes = 0, total_bytes = 0;
        status = rank_use(rank, err);
        if (status == KVT_OK && !rank->device->dense)
            status = device_open_dense(cuda, rank->device, err);
        if (status == KVT_OK)
            status =
                kvt_cuda_check(cudaMemGetInfo(&free_bytes, &total_bytes), "a device's memory", err);
        if (status == KVT_OK)
            status = rank_open(
                rank, free_bytes / (rank->device->rank_count - rank->device->opened_count), err);
        rank->device->opened_count++;
    }
    return status;
}

/* ---- Prefixes that requests share ----------------------------------------------------- */

static kvt_status make_prefix(struct rank *rank, uint32_t context, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    kvt_status status = rank_use(rank, err);

    for (uint32_t s = 0; s < cuda->llm->store_count && status == KVT_OK; s++) {
        const struct store_shape *shape = &cuda->stores[s];
        const struct kvt_gpu_host_rows *host = &rank->stores[s].host;
        struct kvt_gpu_make_rows make = {
            .context_id = SHARED_CONTEXT | context,
            .first_layer = shape->first_layer,
            .layers = shape->layers,
            .format = cuda->format,
            .row_count = shape->shared_rows,
            .dst = host->base + (uint64_t)context * shape->shared_rows * host->row_stride,
            .row_stride = host->row_stride,
            .layer_stride = host->layer_stride};
        if (make.row_count > 0)
            status = kvt_cuda_check(kvt_gpu_make_rows(&make, rank->main), "kvt_gpu_make_rows", err);
    }
    return status == KVT_OK ? rank_wait_stream(rank, rank->main, "shared rows", err) : status;
}

static kvt_status make_prefixes(struct backend_cuda *cuda, struct kvt_error *err)
{
    const struct kvt_backend_env *env = &cuda->env;
    uint32_t total = env->rank_count * cuda->shared_contexts;
    kvt_status status = KVT_OK;

    for (uint32_t n = 0; n < total && cuda->shared_tokens > 0 && status == KVT_OK; n++) {
        if (env->on_prepare &&
            !env->on_prepare(env->prepare_context, (double)n / total, "making shared rows"))
            return kvt_fail(err, KVT_ERR_INTERRUPTED, "backend", "stopped while making rows");
        status =
            make_prefix(&cuda->ranks[n / cuda->shared_contexts], n % cuda->shared_contexts, err);
    }
    return status;
}

static kvt_status open_host_rows(struct backend_cuda *cuda, struct kvt_error *err)
{
    uint64_t total_bytes = rank_host_bytes(cuda) * cuda->env.rank_count, done_bytes = 0;
    kvt_status status = host_pool_check(total_bytes, number(cuda, KVT_CUDA_HOST_POOL_GIB), err);

    for (uint32_t r = 0; r < cuda->env.rank_count && status == KVT_OK; r++) {
        status = rank_use(&cuda->ranks[r], err);
        if (status == KVT_OK)
            status = rank_open_host_rows(&cuda->ranks[r], &done_bytes, total_bytes, err);
    }
    return status == KVT_OK ? make_prefixes(cuda, err) : status;
}

/* ---- Opening -------------------------------------------------------------------------- */

static kvt_status count_devices(int *visible, struct kvt_error *err)
{
    kvt_status status = kvt_cuda_check(cudaGetDeviceCount(visible), "backend \"cuda\"", err);

    if (status == KVT_OK && *visible == 0)
        status = kvt_cuda_check(cudaErrorNoDevice, "backend \"cuda\"", err);
    return status;
}

static kvt_status open_law(struct backend_cuda *cuda, struct kvt_error *err)
{
    cuda->ahead_env = (struct look_ahead_env){.llm = cuda->llm,
                                              .law = cuda->law,
                                              .speculation = cuda->env.looks_ahead_by,
                                              .speculation_data = cuda->env.speculation_data,
                                              .queries_max = cuda->queries_max,
                                              .resolve_each_query = cuda->env.resolve_each_query};
    if (!cuda->law)
        return KVT_OK;
    kvt_status status = kvt_calls_prepare_law(&cuda->env, &cuda->strata, true, &cuda->law_streams,
                                              &cuda->law_data, err);
    cuda->ahead_env.law_data = cuda->law_data;
    return status;
}

static kvt_status open_loans(struct backend_cuda *cuda, struct kvt_error *err)
{
    size_t slots = kvt_env_slots_max(&cuda->env);
    size_t missed = (size_t)cuda->queries_max * cuda->llm->top_k;

    missed = missed > slots ? missed : slots;
    cuda->inspected_rows = calloc(slots, sizeof *cuda->inspected_rows);
    cuda->inspected_ranks = calloc(slots, sizeof *cuda->inspected_ranks);
    cuda->inspected_missed = calloc(missed, sizeof *cuda->inspected_missed);
    if (!cuda->inspected_rows || !cuda->inspected_ranks || !cuda->inspected_missed)
        return kvt_fail_nomem(err, "what is compared");
    return KVT_OK;
}

static void cuda_close(struct kvt_backend *backend);

static kvt_status open_parts(struct backend_cuda *cuda, struct kvt_error *err)
{
    int visible = 0;
    kvt_status status = count_devices(&visible, err);

    if (status == KVT_OK)
        status = backend_cuda_setup(cuda, err);
    if (status == KVT_OK)
        status = kvt_strata_init(&cuda->strata, cuda->llm, 0, err);
    if (status == KVT_OK)
        status = list_devices(cuda, visible, err);
    if (status == KVT_OK)
        status = spread_ranks(cuda, err);
    if (status == KVT_OK)
        status = open_loans(cuda, err);
    if (status == KVT_OK)
        status = open_ranks(cuda, err);
    if (status == KVT_OK)
        status = open_law(cuda, err);
    if (status == KVT_OK)
        status = open_host_rows(cuda, err);
    return status;
}

static kvt_status cuda_open(const struct kvt_backend_env *env, struct kvt_backend **out,
                            struct kvt_error *err)
{
    struct backend_cuda *cuda = calloc(1, sizeof *cuda);

    if (!cuda)
        return kvt_fail_nomem(err, "the backend");
    cuda->base.ops = &kvt_backend_cuda;
    cuda->env = *env;
    cuda->llm = env->llm;
    cuda->replacement = (const struct kvt_replacement_policy *)(const void *)env->replacement.info;
    const struct kvt_law *law = (const struct kvt_law *)(const void *)env->selection.info;
    cuda->chooser = !env->hierarchy || law->reads_source ? CHOOSE_INDEXER : CHOOSE_LAW;
    if (cuda->chooser == CHOOSE_LAW)
        cuda->law = law;
    (void)pthread_mutex_init(&cuda->mutex, NULL);
    (void)pthread_cond_init(&cuda->changed, NULL);
    kvt_status status = open_parts(cuda, err);
    if (status != KVT_OK) {
        cuda_close(&cuda->base);
        return status;
    }
    *out = &cuda->base;
    return KVT_OK;
}

static void cuda_close(struct kvt_backend *backend)
{
    struct backend_cuda *cuda = backend_cuda_of(backend);

    for (size_t i = 0; i < cuda->lane_capacity; i++)
        gpu_lane_free(cuda, cuda->lane_of[i]);
    free(cuda->lane_of);
    (void)pthread_mutex_lock(&cuda->mutex);
    cuda->quits = true;
    (void)pthread_cond_broadcast(&cuda->changed);
    (void)pthread_mutex_unlock(&cuda->mutex);
    for (uint32_t r = 0; cuda->ranks && r < cuda->env.rank_count; r++)
        rank_close(&cuda->ranks[r]);
    for (uint32_t d = 0; cuda->devices && d < cuda->device_count; d++) {
        device_close_dense(&cuda->devices[d]);
        (void)pthread_mutex_destroy(&cuda->devices[d].turn);
        (void)pthread_mutex_destroy(&cuda->devices[d].dense_lock);
    }
    if (cuda->law)
        cuda->law->free(cuda->law_data);
    (void)pthread_cond_destroy(&cuda->changed);
    (void)pthread_mutex_destroy(&cuda->mutex);
    free(cuda->ranks);
    free(cuda->devices);
    free(cuda->inspected_rows);
    free(cuda->inspected_ranks);
    free(cuda->inspected_missed);
    free(cuda);
}

/* ---- Requests ------------------------------------------------------------------------- */

static kvt_status make_room_for_lane(struct backend_cuda *cuda, uint32_t request,
                                     struct kvt_error *err)
{
    if (request < cuda->lane_capacity)
        return KVT_OK;
    size_t capacity = cuda->lane_capacity ? cuda->lane_capacity : 256;
    while (capacity <= request)
        capacity *= 2;
    struct lane **lanes = realloc(cuda->lane_of, capacity * sizeof(struct lane *));
    if (!lanes)
        return kvt_fail_nomem(err, "the table of decoding requests");
    memset(lanes + cuda->lane_capacity, 0,
           (capacity - cuda->lane_capacity) * sizeof(struct lane *));
    cuda->lane_of = lanes;
    cuda->lane_capacity = capacity;
    return KVT_OK;
}

static kvt_status cuda_admit(struct kvt_backend *backend,
                             const struct kvt_backend_admission *admission, struct kvt_error *err)
{
    struct backend_cuda *cuda = backend_cuda_of(backend);
    kvt_status status = make_room_for_lane(cuda, admission->request, err);

    if (status == KVT_OK)
        status = gpu_lane_admit(cuda, admission, &cuda->lane_of[admission->request], err);
    return status;
}

static kvt_status cuda_resize(struct kvt_backend *backend, uint32_t request, uint64_t hot_tokens,
                              uint64_t *decisions, struct kvt_error *err)
{
    struct backend_cuda *cuda = backend_cuda_of(backend);

    if (!cuda->env.hierarchy)
        return KVT_OK;
    return gpu_lane_resize(cuda, cuda->lane_of[request], hot_tokens, decisions, err);
}

/* It cannot fail; a device that does not answer any more is noticed by the next step. */
static void cuda_release(struct kvt_backend *backend, uint32_t request, uint64_t *decisions)
{
    struct backend_cuda *cuda = backend_cuda_of(backend);
    struct lane *lane = cuda->lane_of[request];
    struct kvt_error err;

    if (gpu_lane_close_caches(cuda, lane, decisions, &err) != KVT_OK)
        cuda->ranks[lane->rank].device->lost = true;
    gpu_lane_free(cuda, lane);
    cuda->lane_of[request] = NULL;
}

static kvt_status cuda_step(struct kvt_backend *backend, struct kvt_rank_step *ranks,
                            uint32_t rank_count, struct kvt_error *err)
{
    return ranks_step(backend_cuda_of(backend), ranks, rank_count, err);
}

/* ---- What it says of itself ----------------------------------------------------------- */

static uint32_t cuda_strata(const struct kvt_backend *backend, struct kvt_stratum *strata)
{
    const struct backend_cuda *cuda = (const struct backend_cuda *)backend;

    memcpy(strata, cuda->strata.strata, sizeof cuda->strata.strata);
    return cuda->strata.count;
}

static const char *cuda_describe(struct kvt_backend *backend)
{
    struct backend_cuda *cuda = backend_cuda_of(backend);
    char law[160] = "rows by the device's own top-k";

    if (cuda->law)
        cuda->law->describe(cuda->law_data, law, sizeof law);
    (void)snprintf(cuda->description, sizeof cuda->description, "%s; %s", law,
                   !cuda->env.hierarchy ? "everything resident"
                   : cuda->decider == DECIDE_ON_DEVICE
                       ? "decided on the GPU"
                       : "planned on the CPU: step times are not representative");
    return cuda->description;
}

/* Every call is followed: sampling leaves nothing open. */
static void cuda_restart_sampling(struct kvt_backend *backend)
{
    (void)backend;
}

static void cuda_sampling(const struct kvt_backend *backend, struct kvt_sampling *out)
{
    (void)backend;
    *out = (struct kvt_sampling){0};
}

static void cuda_proof(const struct kvt_backend *backend, struct kvt_backend_proof *out)
{
    const struct backend_cuda *cuda = (const struct backend_cuda *)backend;

    *out = (struct kvt_backend_proof){0};
    for (uint32_t r = 0; r < cuda->env.rank_count; r++)
        kvt_backend_proof_add(out, &cuda->ranks[r].proof);
}

const struct kvt_backend_ops kvt_backend_cuda = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_backend_cuda,
             .name = KVT_CUDA_NAME,
             .summary = KVT_CUDA_SUMMARY,
             .params = kvt_cuda_params,
             .param_count = KVT_CUDA_PARAM_COUNT},
    .open = cuda_open,
    .close = cuda_close,
    .strata = cuda_strata,
    .describe = cuda_describe,
    .admit = cuda_admit,
    .resize = cuda_resize,
    .release = cuda_release,
    .step = cuda_step,
    .restart_sampling = cuda_restart_sampling,
    .sampling = cuda_sampling,
    .state_hashes = backend_cuda_state_hashes,
    .inspect_call = backend_cuda_inspect_call,
    .inspect_cache = backend_cuda_inspect_cache,
    .selection = backend_cuda_selection,
    .proof = cuda_proof,
};
