/* calibrate_gather.c -- gathers of a grid into points: fetches without a step around them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "calibrate_gpu.h"
#include "gather_rows.h"

#ifdef KVT_CUDA

static kvt_status time_rows(struct kvt_gather *pool, const struct grid_gather *gather,
                            const uint32_t *rows, struct point *point, struct kvt_error *err)
{
    const struct kvt_gather_lists lists = {.row_bytes = (uint32_t)gather->row_bytes,
                                           .lists = GATHER_LISTS,
                                           .requests = (uint32_t)gather->requests,
                                           .rows_each = (uint32_t)gather->rows_each,
                                           .rows = rows};
    double ns = 0;
    kvt_status status = kvt_gather_time(pool, &lists, &ns, err);

    point->step_ns = point->parts_ns[KVT_PART_FETCH] = ns;
    return status;
}

static kvt_status open_pool(double pool_gib, struct kvt_gather **out, struct kvt_error *err)
{
    return kvt_gather_open((uint64_t)ceil(pool_gib * (double)KVT_GIB), out, err);
}

static void close_pool(struct kvt_gather *pool)
{
    kvt_gather_close(pool);
}

#else

static kvt_status time_rows(struct kvt_gather *pool, const struct grid_gather *gather,
                            const uint32_t *rows, struct point *point, struct kvt_error *err)
{
    (void)pool;
    (void)rows;
    (void)point;
    return kvt_fail(err, KVT_ERR_DEVICE, gather->name, "this build of kvtide has no CUDA");
}

static kvt_status open_pool(double pool_gib, struct kvt_gather **out, struct kvt_error *err)
{
    (void)pool_gib;
    (void)out;
    return kvt_fail(err, KVT_ERR_DEVICE, "calibrate", "this build of kvtide has no CUDA");
}

static void close_pool(struct kvt_gather *pool)
{
    (void)pool;
}

#endif

/* A list is a fetch by itself: the features of one. */
static kvt_status measure_one(struct kvt_gather *pool, const struct grid_gather *gather,
                              struct points *points, struct kvt_error *err)
{
    struct point point = {.configuration = (uint32_t)points->configuration_count,
                          .steps = GATHER_LISTS,
                          .is_apart = true};
    double rows = (double)gather->requests * (double)gather->rows_each;
    uint32_t *all = NULL;
    kvt_status status = gather_draw(gather, &all, err);

    if (status == KVT_OK)
        status = gather_translations(gather, all, &point.features[KVT_FEATURE_GRANULES],
                                     &point.features[KVT_FEATURE_GRANULE_BLOCKS], err);
    if (status == KVT_OK)
        status = time_rows(pool, gather, all, &point, err);
    free(all);
    if (status != KVT_OK)
        return status;
    point.features[KVT_FEATURE_WIRE_BYTES] = rows * (double)gather->row_bytes;
    point.features[KVT_FEATURE_MISSED_ROWS] = rows;
    point.features[KVT_FEATURE_FETCHES] = 1;
    points->configurations[points->configuration_count++] = (struct points_configuration){
        .name = gather->name, .sets = "", .is_group = true, .is_gather = true};
    return points_append(points, &point, err);
}

static bool is_wanted(const struct calibrate_selection *selection, const struct grid *grid,
                      size_t index)
{
    const struct grid_gather *gather = &grid->gathers[index];

    return (!selection->quick || gather->is_quick) &&
           (grid->run_count + index) % selection->shards == selection->shard;
}

kvt_status calibrate_gathers(const struct grid_plan *plan,
                             const struct calibrate_selection *selection, struct points *out,
                             size_t *left_out, struct kvt_error *err)
{
    const struct grid *grid = plan->grid;
    struct kvt_gather *pool = NULL;
    double pool_gib = 0;
    kvt_status status = KVT_OK;

    for (size_t g = 0; g < grid->gather_count; g++) {
        if (is_wanted(selection, grid, g))
            pool_gib = fmax(pool_gib, grid->gathers[g].pool_gib);
    }
    if (pool_gib == 0)
        return KVT_OK;
    cli_progress_show(plan->progress, -1, "pinning a pool");
    status = open_pool(pool_gib, &pool, err);
    for (size_t g = 0; g < grid->gather_count && status == KVT_OK; g++) {
        if (!is_wanted(selection, grid, g))
            continue;
        cli_progress_show(plan->progress, (double)g / (double)grid->gather_count,
                          grid->gathers[g].name);
        status = measure_one(pool, &grid->gathers[g], out, err);
        if (status == KVT_OK && cli_interrupted())
            status = kvt_fail(err, KVT_ERR_INTERRUPTED, grid->gathers[g].name, "a signal ended it");
        if (status == KVT_ERR_INVALID) {
            (*left_out)++;
            cli_progress_end(plan->progress);
            fprintf(stderr, "kvtide: left out: %s: %s\n", err->where, err->message);
            status = KVT_OK;
        }
    }
    close_pool(pool);
    return status;
}
