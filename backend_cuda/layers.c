/* layers.c -- the GPU runs the first layers of a model alone, and they stand for all.
 *
 *     llm            those layers, as a model of their own: all that is allocated, run and proven
 *     others         a simulator of the whole model, told the same: what it decides for the stores
 *                    that are not run is part of what the backend reports
 *     part_scales    by how much each family's time grows, where every layer repeats it
 *
 * Where the device selects, a selector that is not run selects as one that is: those of its
 * compress ratio stand in turn. */
#include "backend_cuda.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_cut(const struct backend_cuda *cuda)
{
    return cuda->llm != cuda->env.llm;
}

/* ---- The cut -------------------------------------------------------------------------- */

/* Layers that attend: those of every selector's store. */
static double attended_layers(const struct kvt_llm *llm)
{
    double layers = 0;

    for (uint32_t s = 0; s < llm->selector_count; s++)
        layers += llm->stores[llm->selectors[s].store].layers;
    return layers;
}

static void scale_parts(struct backend_cuda *cuda)
{
    const struct kvt_llm *run = cuda->llm, *all = cuda->env.llm;
    double layers = (double)all->layers / run->layers;
    double selectors = (double)all->selector_count / run->selector_count;
    double attended = attended_layers(all) / attended_layers(run);

    for (int p = 0; p < KVT_PARTS; p++)
        cuda->part_scales[p] = 1;
    cuda->part_scales[KVT_PART_DENSE] = cuda->part_scales[KVT_PART_OTHER] = layers;
    cuda->part_scales[KVT_PART_INDEX] = cuda->part_scales[KVT_PART_RESOLVE] = selectors;
    cuda->part_scales[KVT_PART_FETCH] = cuda->part_scales[KVT_PART_ATTEND] = attended;
}

uint32_t layers_stand_in(const struct backend_cuda *cuda, uint32_t selector)
{
    const struct kvt_llm *run = cuda->llm, *all = cuda->env.llm;
    uint32_t ratio = all->stores[all->selectors[selector].store].compress_ratio;
    uint32_t alike[KVT_SELECTORS_MAX], count = 0;

    for (uint32_t s = 0; s < run->selector_count; s++) {
        if (run->stores[run->selectors[s].store].compress_ratio == ratio)
            alike[count++] = s;
    }
    return count > 0 ? alike[selector % count] : UINT32_MAX;
}

static kvt_status check_stand_ins(const struct backend_cuda *cuda, struct kvt_error *err)
{
    for (uint32_t s = cuda->llm->selector_count; s < cuda->env.llm->selector_count; s++) {
        if (layers_stand_in(cuda, s) == UINT32_MAX)
            return kvt_fail(err, KVT_ERR_UNSUPPORTED, "backend.layers",
                            "selector %u would select as another of its compress ratio does, and "
                            "none of the first %u layers has it; more layers, or a law of "
                            "selections, is expected",
                            s, cuda->llm->layers);
    }
    return KVT_OK;
}

kvt_status layers_cut(struct backend_cuda *cuda, struct kvt_error *err)
{
    uint32_t layers = (uint32_t)cuda->env.params.values[KVT_CUDA_LAYERS].number;

    if (layers > 0 && layers != cuda->env.llm->layers) {
        kvt_status status =
            kvt_llm_first_layers(cuda->env.llm, layers, "backend.layers", &cuda->first_layers, err);
        if (status != KVT_OK)
            return status;
        cuda->llm = &cuda->first_layers;
        (void)snprintf(cuda->scaled, sizeof cuda->scaled, "times of %u of %u layers, scaled",
                       layers, cuda->env.llm->layers);
    }
    scale_parts(cuda);
    return cuda->env.hierarchy && !cuda->law ? check_stand_ins(cuda, err) : KVT_OK;
}

/* ---- The others ----------------------------------------------------------------------- */

/* For the law "indexer" of the simulator. Lists have come down before. */
static uint32_t read_list(void *context, uint32_t request, uint32_t selector, uint32_t query,
                          uint32_t *rows)
{
    struct backend_cuda *cuda = context;
    struct kvt_error err;
    uint32_t count = 0;
    kvt_status status =
        backend_cuda_selection(&cuda->base, request, selector, query, rows, &count, &err);

    return status == KVT_OK ? count : 0;
}

kvt_status others_open(struct backend_cuda *cuda, const struct kvt_backend_env *env,
                       struct kvt_error *err)
{
    struct kvt_backend_env all = *env;

    if (!is_cut(cuda) || !env->hierarchy) /* without one nothing is decided */
        return KVT_OK;
    cuda->other_steps = calloc(env->rank_count, sizeof *cuda->other_steps);
    if (!cuda->other_steps)
        return kvt_fail_nomem(err, "layers that are not run");
    cuda->source = (struct kvt_law_source){.context = cuda, .read = read_list};
    all.params = (struct kvt_params){0};
    all.is_inspected = true;
    if (!cuda->law)
        all.source = &cuda->source;
    return kvt_backend_sim.open(&all, &cuda->others, err);
}

void others_close(struct backend_cuda *cuda)
{
    if (cuda->others)
        cuda->others->ops->close(cuda->others);
    free(cuda->other_steps);
}

static kvt_status read_lists(struct backend_cuda *cuda, const struct kvt_rank_step *steps,
                             uint32_t count, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (uint32_t r = 0; r < count && status == KVT_OK; r++) {
        struct rank *rank = &cuda->ranks[steps[r].rank];
        if (steps[r].item_count == 0 || rank->selections_read)
            continue;
        status = rank_use(rank, err);
        if (status == KVT_OK)
            status = rank_read_selections(rank, err);
    }
    return status;
}

kvt_status others_step(struct backend_cuda *cuda, struct kvt_rank_step *steps, uint32_t count,
                       struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    if (!cuda->others)
        return KVT_OK;
    if (!cuda->law)
        status = read_lists(cuda, steps, count, err);
    if (status != KVT_OK)
        return status;
    for (uint32_t r = 0; r < count; r++)
        cuda->other_steps[r] = steps[r];
    status = cuda->others->ops->step(cuda->others, cuda->other_steps, count, err);
    /* What it has said of all stores: each is counted by whoever decided it (outcome.c). */
    for (uint32_t r = 0; r < count; r++) {
        for (uint32_t i = 0; i < steps[r].item_count; i++) {
            struct kvt_step_item *item = &steps[r].items[i];
            item->selected_rows = item->missed_rows = item->decisions = 0;
        }
    }
    return status;
}

kvt_status others_hashes(const struct backend_cuda *cuda, uint32_t request, uint64_t *hashes,
                         struct kvt_error *err)
{
    uint64_t all[KVT_STORES_MAX];

    if (!cuda->others)
        return KVT_OK;
    kvt_status status = cuda->others->ops->state_hashes(cuda->others, request, all, err);
    for (uint32_t s = cuda->llm->store_count; s < cuda->env.llm->store_count && status == KVT_OK;
         s++)
        hashes[s] = all[s];
    return status;
}
