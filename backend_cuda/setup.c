/* setup.c -- what a model and a run take of the CUDA backend: refusals, settings, shapes. */
#include "step.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kvt/layout.h"

enum {
    USUAL_OUTPUT = 8192 /* tokens */
};

static double number(const struct backend_cuda *cuda, int param)
{
    return cuda->env.params.values[param].number;
}

/* ---- What it can run ------------------------------------------------------------------ */

struct format_of {
    enum kvt_gpu_format format;
    uint32_t layer_bytes, q_dim;
};

static const struct format_of formats[] = {
    {KVT_GPU_ROW_E4M3_576, 576, KVT_GPU_HEAD},
    {KVT_GPU_ROW_MIXED_656, 656, KVT_GPU_HEAD},
    {KVT_GPU_ROW_BF16_1152, 1152, KVT_GPU_HEAD},
    {KVT_GPU_ROW_FP4_288, 288, KVT_GPU_LATENT},
};

static kvt_status choose_format(struct backend_cuda *cuda, struct kvt_error *err)
{
    const struct kvt_llm *llm = cuda->llm;

    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        if (formats[f].layer_bytes != llm->payload.capacity_bytes ||
            formats[f].q_dim != llm->latent_dim + llm->rope_dim)
            continue;
        cuda->format = formats[f].format;
        cuda->q_dim = formats[f].q_dim;
        return KVT_OK;
    }
    return kvt_fail(err, KVT_ERR_UNSUPPORTED, llm->name,
                    "rows of %u bytes a layer for %u + %u values have no kernel; 576, 656 and "
                    "1,152 bytes for 512 + 64 and 288 bytes for 448 + 64 have",
                    llm->payload.capacity_bytes, llm->latent_dim, llm->rope_dim);
}

static kvt_status check_model(const struct backend_cuda *cuda, struct kvt_error *err)
{
    const struct kvt_llm *llm = cuda->llm;

    if (kvt_llm_block_rows(llm) > 1)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, llm->name,
                        "blocks of %u rows have no kernel; rows that are selected one by one have",
                        kvt_llm_block_rows(llm));
    if (llm->top_k != 512 && llm->top_k != 1024 && llm->top_k != 2048)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, llm->name,
                        "a top-k of %u has no kernel; 512, 1,024 and 2,048 have", llm->top_k);
    if ((llm->index_heads != 32 && llm->index_heads != 64) || llm->index_dim != KVT_GPU_INDEX_DIM)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, llm->name,
                        "an indexer of %u heads of %u has no kernel; 32 or 64 of 128 have",
                        llm->index_heads, llm->index_dim);
    if (llm->heads != 64 && llm->heads != 128)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, llm->name,
                        "attention of %u heads has no kernel; 64 and 128 have", llm->heads);
    for (uint32_t s = 1; s < llm->selector_count; s++) {
        if (llm->selectors[s].layer <= llm->selectors[s - 1].layer)
            return kvt_fail(err, KVT_ERR_UNSUPPORTED, llm->name,
                            "selector %u is not behind the one before it", s);
    }
    return KVT_OK;
}

static kvt_status check_run(const struct backend_cuda *cuda, struct kvt_error *err)
{
    const struct kvt_backend_env *env = &cuda->env;

    if (env->sample_stores > 0 || env->sample_requests > 0)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "run.fidelity",
                        "every call is run; fidelity exact is the only one here");
    const struct kvt_law *law = (const struct kvt_law *)(const void *)env->selection.info;
    if (law->varies)
        return kvt_fail(
            err, KVT_ERR_UNSUPPORTED, "selection.law",
            "queries of \"%s\" read as many rows as it takes, and kernels run for top_k "
            "of each; backend \"sim\" is expected",
            law->info.name);
    if (env->scores_pages && cuda->chooser == CHOOSE_INDEXER)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "selection.law",
                        "the residency policy wants scores of pages, which rows that the device "
                        "selects come without");
    if (env->looks_ahead_by && cuda->chooser == CHOOSE_INDEXER)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "selection.law",
                        "the replacement policy sees the future, which rows that the device "
                        "selects do not have");
    if (number(cuda, KVT_CUDA_CORRUPT_STEP) > 0 && number(cuda, KVT_CUDA_CHECK_QUERIES) == 0)
        return kvt_fail(err, KVT_ERR_INVALID, "backend.corrupt_step",
                        "nobody would notice; it wants backend.check_queries of 1 at least");
    if (env->rank_requests == 0 || env->longest_tokens == 0)
        return kvt_fail(err, KVT_ERR_INTERNAL, "backend", "made for no request");
    return KVT_OK;
}

/* ---- Settings and shapes -------------------------------------------------------------- */

/* Lengths of outputs mostly have no bound but the model's, which nobody has the memory for. */
static uint32_t longest_tokens(const struct backend_cuda *cuda)
{
    const struct kvt_backend_env *env = &cuda->env;
    uint32_t given = (uint32_t)number(cuda, KVT_CUDA_LONGEST_TOKENS), input = 0;

    if (given > 0 || env->input_count == 0)
        return given > 0 && given < env->longest_tokens ? given : env->longest_tokens;
    for (size_t i = 0; i < env->input_count; i++)
        input = env->input_tokens[i] > input ? env->input_tokens[i] : input;
    return env->longest_tokens - input > USUAL_OUTPUT ? input + USUAL_OUTPUT : env->longest_tokens;
}

static void read_settings(struct backend_cuda *cuda)
{
    cuda->env.longest_tokens = longest_tokens(cuda);
    cuda->leader_first = (int)number(cuda, KVT_CUDA_FETCH_ORDER) == KVT_CUDA_FETCH_LEADER_FIRST;
    cuda->layers_apart = (int)number(cuda, KVT_CUDA_HOST_LAYOUT) == KVT_CUDA_LAYOUT_LAYER;
    cuda->reference = (int)number(cuda, KVT_CUDA_KERNELS) == KVT_CUDA_KERNELS_REFERENCE;
    cuda->out_is_float = (int)number(cuda, KVT_CUDA_OUTPUT) == KVT_CUDA_OUTPUT_F32;
    cuda->shared_contexts = (uint32_t)number(cuda, KVT_CUDA_SHARED_CONTEXTS);
    cuda->check_queries = (uint32_t)number(cuda, KVT_CUDA_CHECK_QUERIES);
    cuda->apart_steps = (uint64_t)number(cuda, KVT_CUDA_APART_STEPS);
    cuda->beside_bytes[WAY_INBOUND] = (uint64_t)number(cuda, KVT_CUDA_BESIDE_INBOUND_MIB) << 20;
    cuda->beside_bytes[WAY_OUTBOUND] = (uint64_t)number(cuda, KVT_CUDA_BESIDE_OUTBOUND_MIB) << 20;
    cuda->corrupt_step = (uint64_t)number(cuda, KVT_CUDA_CORRUPT_STEP);
    cuda->drift = (float)number(cuda, KVT_CUDA_INDEXER_DRIFT);
    cuda->shared_tokens = cuda->env.hierarchy ? (uint32_t)number(cuda, KVT_CUDA_SHARED_TOKENS) : 0;
    if (cuda->shared_tokens > cuda->env.longest_tokens)
        cuda->shared_tokens = cuda->env.longest_tokens;
    if (cuda->shared_tokens == 0)
        cuda->shared_contexts = 1;
}

static void shape_store(struct backend_cuda *cuda, uint32_t s)
{
    const struct kvt_backend_env *env = &cuda->env;
    const struct kvt_store *store = &cuda->llm->stores[s];
    struct store_shape *shape = &cuda->stores[s];
    uint32_t layer_bytes = cuda->llm->payload.capacity_bytes;
    /* Behind what is shared: the rest of the longest context, or all of an output where a prompt
     * is no longer than that. */
    uint32_t rest = env->longest_tokens - cuda->shared_tokens;
    uint32_t output = env->output_tokens < USUAL_OUTPUT ? env->output_tokens : USUAL_OUTPUT;
    uint32_t own_tokens = cuda->shared_tokens > 0 && output > rest ? output : rest;

    *shape = (struct store_shape){
        .layers = store->layers,
        .first_layer = store->first_layer,
        .layer_bytes = layer_bytes,
        .row_bytes = store->layers * layer_bytes,
        .ratio = store->compress_ratio,
        .page_rows = KVT_GPU_PAGE_ROWS / store->compress_ratio,
        .rows_max = kvt_store_rows(store, env->longest_tokens + cuda->queries_max),
        .slots_max = kvt_calls_slots(cuda->llm, s, env->hot_tokens, cuda->llm->max_position_tokens),
        .own_rows = kvt_store_rows(store, own_tokens + cuda->queries_max) + 1,
        .shared_rows = kvt_store_rows(store, cuda->shared_tokens)};
    shape->lane_key_bytes = (uint64_t)((shape->rows_max + 63) / 64) * KVT_GPU_INDEX_PAGE_BYTES;
    for (uint32_t i = cuda->llm->selector_count; i > 0; i--) {
        if (cuda->llm->selectors[i - 1].store == s)
            shape->first_selector = i - 1;
    }
    if (shape->layers > cuda->layers_max)
        cuda->layers_max = shape->layers;
}

/* Batch LRU is decided on the device, as long as 16 bits number a cache's slots and what a call
 * stages; any other policy on the CPU. */
static kvt_status choose_decider(struct backend_cuda *cuda, struct kvt_error *err)
{
    uint64_t most = kvt_env_slots_max(&cuda->env);
    uint64_t staged = (uint64_t)cuda->pass_queries * cuda->llm->top_k;

    if (most >= UINT16_MAX && cuda->env.hierarchy)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "residency.hot_tokens",
                        "hot caches of %" PRIu64 " slots are more than the device numbers: %u",
                        most, UINT16_MAX - 1);
    cuda->decider = strcmp(cuda->replacement->info.name, "lru") == 0 && most + staged < UINT16_MAX
                        ? DECIDE_ON_DEVICE
                        : DECIDE_ON_HOST;
    if (!cuda->env.hierarchy) /* nothing is decided */
        cuda->decider = DECIDE_ON_DEVICE;
    return KVT_OK;
}

/* Behind read_settings(). */
static kvt_status make_shapes(struct backend_cuda *cuda, struct kvt_error *err)
{
    const struct kvt_backend_env *env = &cuda->env;

    cuda->lanes = env->rank_requests;
    cuda->queries_max = env->speculation.queries_max > 0 ? env->speculation.queries_max : 1;
    cuda->query_rows = cuda->lanes * cuda->queries_max;
    cuda->passes = env->resolve_each_query && env->hierarchy ? cuda->queries_max : 1;
    cuda->pass_queries = cuda->passes > 1 ? 1 : cuda->queries_max;
    cuda->frame_stride =
        (env->longest_tokens + cuda->queries_max + KVT_GPU_PAGE_ROWS - 1) / KVT_GPU_PAGE_ROWS;
    cuda->out_bytes = cuda->llm->heads * KVT_GPU_LATENT * (cuda->out_is_float ? 4 : 2);
    cuda->softmax_scale = 1 / sqrtf((float)cuda->q_dim);
    for (uint32_t s = 0; s < cuda->llm->store_count; s++)
        shape_store(cuda, s);
    if (cuda->passes > 1 && env->staging.call_bytes > 0 &&
        (uint64_t)cuda->lanes * cuda->llm->top_k * cuda->layers_max *
                cuda->llm->payload.capacity_bytes >
            kvt_staging_arena_bytes(&env->staging, cuda->lanes))
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "residency.staging_fraction",
                        "queries that are resolved one by one do not take turns here, so that the "
                        "arena must hold one query's rows of every request");
    return choose_decider(cuda, err);
}

kvt_status backend_cuda_setup(struct backend_cuda *cuda, struct kvt_error *err)
{
    kvt_status status = check_run(cuda, err);

    if (status == KVT_OK)
        status = check_model(cuda, err);
    if (status == KVT_OK)
        status = choose_format(cuda, err);
    if (status != KVT_OK)
        return status;
    read_settings(cuda);
    draft_setup(cuda);
    return make_shapes(cuda, err);
}
