/* backend.c -- the CUDA backend: what it is made of, and the requests that decode in it. */
#include "backend_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "step.h"

enum {
    TUNED_CAPABILITY = 90
};

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

static kvt_status read_capability(struct device *device, struct kvt_error *err)
{
    int major = 0, minor = 0;
    cudaError_t error =
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device->ordinal);

    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device->ordinal);
    device->capability = 10 * major + minor;
    return kvt_cuda_check(error, "a device's compute capability", err);
}

/* Those of the list, which has been checked. */
static kvt_status list_devices(struct backend_cuda *cuda, int visible, struct kvt_error *err)
{
    const struct kvt_param_value *value = &cuda->env.params.values[KVT_CUDA_DEVICES];
    bool all = value->list[0] < 0;
    uint32_t count = all ? (uint32_t)visible : (uint32_t)value->list_length;

    cuda->devices = calloc(count, sizeof *cuda->devices);
    if (!cuda->devices)
        return kvt_fail_nomem(err, "the devices");
    for (; cuda->device_count < count; cuda->device_count++) {
        struct device *device = &cuda->devices[cuda->device_count];
        (void)pthread_mutex_init(&device->turn, NULL);
        (void)pthread_mutex_init(&device->dense_lock, NULL);
    }
    for (uint32_t d = 0; d < count; d++) {
        int ordinal = all ? (int)d : (int)value->list[d];
        if (ordinal >= visible)
            return kvt_fail(err, KVT_ERR_INVALID, "backend.devices",
                            "there is no GPU %d; %d are visible, from 0 on", ordinal, visible);
        cuda->devices[d].ordinal = ordinal;
        cuda->devices[d].numa_node = numa_node_of(ordinal);
        kvt_status status = read_capability(&cuda->devices[d], err);
        if (status != KVT_OK)
            return status;
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
            status = rank_check(rank, cudaMemGetInfo(&free_bytes, &total_bytes),
                                "a device's memory", err);
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
            status =
                rank_check(rank, kvt_gpu_make_rows(&make, rank->main), "kvt_gpu_make_rows", err);
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
            return kvt_fail(err, KVT_ERR_INTERRUPTED, "cuda", "stopped while making rows");
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
    cuda->ahead_env =
        (struct kvt_look_ahead_env){.llm = cuda->llm,
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

static bool all_calls_are_fast(const struct backend_cuda *cuda)
{
    bool fast = true;

    for (uint32_t s = 0; s < cuda->llm->store_count; s++) {
        struct kvt_gpu_resolve call = {
            .queries_max = cuda->pass_queries,
            .top_k = cuda->llm->top_k,
            .hot = {.slots_max = cuda->stores[s].slots_max, .rows_max = cuda->stores[s].rows_max}};
        fast = fast && kvt_gpu_resolve_is_fast(&call);
    }
    return fast;
}

/* Why step times are not what the GPU could do; NULL: they are. */
static const char *why_not_representative(struct backend_cuda *cuda)
{
    if (cuda->env.hierarchy && cuda->decider == DECIDE_ON_HOST)
        return "calls are planned on the CPU";
    for (uint32_t d = 0; d < cuda->device_count; d++) {
        const struct device *device = &cuda->devices[d];
        if (device->rank_count == 0 || device->capability == TUNED_CAPABILITY)
            continue;
        (void)snprintf(
            cuda->reason, sizeof cuda->reason,
            "plain kernels on GPU %d, of compute capability %d.%d; tuned ones are for 9.0",
            device->ordinal, device->capability / 10, device->capability % 10);
        return cuda->reason;
    }
    if (cuda->reference)
        return "plain kernels, by backend.kernels";
    if (cuda->format != KVT_GPU_ROW_E4M3_576) {
        (void)snprintf(cuda->reason, sizeof cuda->reason,
                       "attention over rows of %u bytes is the plain kernel's",
                       cuda->llm->payload.capacity_bytes);
        return cuda->reason;
    }
    if (!all_calls_are_fast(cuda))
        return "calls are too large for the tuned resolver";
    return NULL;
}

static void cuda_close(struct kvt_backend *backend);

static kvt_status open_parts(struct backend_cuda *cuda, const struct kvt_backend_env *env,
                             struct kvt_error *err)
{
    int visible = 0;
    kvt_status status =
        kvt_cuda_check_devices(&cuda->env.params.values[KVT_CUDA_DEVICES], "backend.devices", err);

    if (status == KVT_OK)
        status = count_devices(&visible, err);
    if (status == KVT_OK)
        status = layers_cut(cuda, err);
    if (status == KVT_OK)
        status = backend_cuda_setup(cuda, err);
    if (status == KVT_OK)
        status = kvt_strata_init(&cuda->strata, cuda->env.llm, 0, err);
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
        status = others_open(cuda, env, err);
    if (status == KVT_OK)
        status = open_host_rows(cuda, err);
    if (status == KVT_OK)
        cuda->not_representative = why_not_representative(cuda);
    return status;
}

static kvt_status cuda_open(const struct kvt_backend_env *env, struct kvt_backend **out,
                            struct kvt_error *err)
{
    if (kvt_predicts_rows(&env->prefetch) || kvt_reads_planes(&env->read_depth))
        return kvt_fail(
            err, KVT_ERR_UNSUPPORTED, "backend \"cuda\"",
            "it fetches every missed row whole and on demand; residency.prefetch.recall "
            "0 and residency.read_depth.shallow_share 0 are expected");
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
    captures_hold();
    kvt_status status = open_parts(cuda, env, err);
    captures_go_on();
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
    captures_hold();
    for (uint32_t r = 0; cuda->ranks && r < cuda->env.rank_count; r++)
        rank_close(&cuda->ranks[r]);
    for (uint32_t d = 0; cuda->devices && d < cuda->device_count; d++) {
        device_close_dense(&cuda->devices[d]);
        (void)pthread_mutex_destroy(&cuda->devices[d].turn);
        (void)pthread_mutex_destroy(&cuda->devices[d].dense_lock);
    }
    others_close(cuda);
    captures_go_on();
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

/* A release has nobody to tell. */
static kvt_status check_releases(const struct backend_cuda *cuda, struct kvt_error *err)
{
    if (cuda->release_status != KVT_OK && err)
        *err = cuda->release_error;
    return cuda->release_status;
}

static kvt_status cuda_expect(struct kvt_backend *backend,
                              const struct kvt_backend_admission *admission, struct kvt_error *err)
{
    struct backend_cuda *cuda = backend_cuda_of(backend);
    kvt_status status = make_room_for_lane(cuda, admission->request, err);

    if (status == KVT_OK)
        status = gpu_lane_expect(cuda, admission, &cuda->lane_of[admission->request], err);
    return status;
}

static kvt_status cuda_admit(struct kvt_backend *backend,
                             const struct kvt_backend_admission *admission, struct kvt_error *err)
{
    struct backend_cuda *cuda = backend_cuda_of(backend);
    kvt_status status = check_releases(cuda, err);

    if (status == KVT_OK)
        status = make_room_for_lane(cuda, admission->request, err);
    if (status == KVT_OK)
        status = gpu_lane_admit(cuda, admission, &cuda->lane_of[admission->request], err);
    if (status != KVT_OK || !cuda->others)
        return status;
    status = cuda->others->ops->admit(cuda->others, admission, err);
    if (status != KVT_OK) {
        gpu_lane_free(cuda, cuda->lane_of[admission->request]);
        cuda->lane_of[admission->request] = NULL;
    }
    return status;
}

static kvt_status cuda_resize(struct kvt_backend *backend, uint32_t request, uint64_t hot_tokens,
                              uint64_t *decisions, struct kvt_error *err)
{
    struct backend_cuda *cuda = backend_cuda_of(backend);
    kvt_status status = check_releases(cuda, err);

    if (status != KVT_OK || !cuda->env.hierarchy)
        return status;
    status = gpu_lane_resize(cuda, cuda->lane_of[request], hot_tokens, decisions, err);
    if (status == KVT_OK && cuda->others) {
        uint64_t told = 0; /* above, store by store */
        status = cuda->others->ops->resize(cuda->others, request, hot_tokens, &told, err);
    }
    return status;
}

/* The first failure is kept for the next call that can report one. */
static void cuda_release(struct kvt_backend *backend, uint32_t request, uint64_t *decisions)
{
    struct backend_cuda *cuda = backend_cuda_of(backend);
    struct lane *lane = cuda->lane_of[request];
    struct kvt_error err;
    kvt_status status = gpu_lane_close_caches(cuda, lane, decisions, &err);

    if (status != KVT_OK && cuda->release_status == KVT_OK) {
        cuda->release_status = status;
        cuda->release_error = err;
    }
    gpu_lane_free(cuda, lane);
    cuda->lane_of[request] = NULL;
    if (cuda->others) {
        uint64_t told = 0; /* above, store by store */
        cuda->others->ops->release(cuda->others, request, &told);
    }
}

static kvt_status cuda_step(struct kvt_backend *backend, struct kvt_rank_step *ranks,
                            uint32_t rank_count, struct kvt_error *err)
{
    struct backend_cuda *cuda = backend_cuda_of(backend);
    kvt_status status = check_releases(cuda, err);

    if (status == KVT_OK)
        status = ranks_step(cuda, ranks, rank_count, err);
    return status == KVT_OK ? kvt_calls_end_step(&cuda->env, cuda->law_data, err) : status;
}

static kvt_status cuda_finish(struct kvt_backend *backend, struct kvt_error *err)
{
    return check_releases(backend_cuda_of(backend), err);
}

/* ---- What it says of itself ----------------------------------------------------------- */

static uint32_t cuda_strata(const struct kvt_backend *backend, struct kvt_stratum *strata)
{
    const struct backend_cuda *cuda = (const struct backend_cuda *)backend;

    memcpy(strata, cuda->strata.strata, sizeof cuda->strata.strata);
    return cuda->strata.count;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)KVT_GIB;
}

/* What nobody gave, and was chosen: lengths, frames, memory, and who is where. */
static void describe_choices(const struct backend_cuda *cuda, char *out, size_t bytes)
{
    uint32_t frames = UINT32_MAX, most_ranks = 0, far = 0;
    uint64_t pinned_bytes = 0;
    int used = 0;

    for (uint32_t r = 0; r < cuda->env.rank_count; r++) {
        const struct rank *rank = &cuda->ranks[r];
        frames = rank->frame_count < frames ? rank->frame_count : frames;
        pinned_bytes += rank->host_rows.bytes;
        most_ranks = rank->device->rank_count > most_ranks ? rank->device->rank_count : most_ranks;
        far +=
            rank->host_rows.bytes > 0 && rank->device->numa_node >= 0 && !rank->host_rows.has_node;
    }
    used = snprintf(out, bytes,
                    "; room for %u tokens a request, %u frames of pages a rank, up to %u ranks a "
                    "GPU; %.1f GiB of host rows pinned",
                    cuda->env.longest_tokens, frames, most_ranks, gib(pinned_bytes));
    if (far > 0 && used > 0 && (size_t)used < bytes)
        (void)snprintf(out + used, bytes - (size_t)used,
                       ", those of %u ranks on no node in particular, as the system refused one",
                       far);
}

static const char *cuda_describe(struct kvt_backend *backend)
{
    struct backend_cuda *cuda = backend_cuda_of(backend);
    const char *reason = cuda->not_representative;
    const char *drafts = cuda->draft.words;
    char law[160] = "rows by the device's own top-k", choices[320], layers[48] = "";

    if (cuda->law)
        cuda->law->describe(cuda->law_data, law, sizeof law);
    describe_choices(cuda, choices, sizeof choices);
    if (cuda->scaled[0])
        (void)snprintf(layers, sizeof layers, "; %u of %u layers run", cuda->llm->layers,
                       cuda->env.llm->layers);
    const char *where = !cuda->env.hierarchy                ? "; everything resident"
                        : cuda->decider == DECIDE_ON_DEVICE ? "; decided on the GPU"
                                                            : ""; /* the reason says it */
    (void)snprintf(cuda->description, sizeof cuda->description, "%s%s%s%s%s%s%s%s", law, where,
                   layers, reason ? "; step times are not representative: " : "",
                   reason ? reason : "", drafts[0] ? "; " : "", drafts, choices);
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

    *out = (struct kvt_backend_proof){.not_representative = cuda->not_representative,
                                      .scaled = cuda->scaled[0] ? cuda->scaled : NULL};
    for (uint32_t r = 0; r < cuda->env.rank_count; r++)
        kvt_backend_proof_add(out, &cuda->ranks[r].proof);
}

static bool cuda_runs_drafts(const struct kvt_backend *backend)
{
    return ((const struct backend_cuda *)backend)->draft.pass != DRAFT_NOT_RUN;
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
    .finish = cuda_finish,
    .expect = cuda_expect,
    .runs_drafts = cuda_runs_drafts,
};
