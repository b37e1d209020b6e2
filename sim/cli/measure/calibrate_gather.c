/* calibrate_gather.c -- gathers of a grid into points: fetches without a step around them. */
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate_gpu.h"
#include "gather_rows.h"

enum {
    ROUNDS = 3
};

#ifdef KVT_CUDA

static kvt_status time_rows(struct kvt_gather *pool, const struct grid_gather *gather,
                            const uint32_t *rows, double *ns, struct kvt_error *err)
{
    const struct kvt_gather_lists lists = {.row_bytes = (uint32_t)gather->row_bytes,
                                           .gpus = (uint32_t)gather->gpus,
                                           .steps = GATHER_STEPS,
                                           .lists = GATHER_LISTS,
                                           .requests = (uint32_t)gather->requests,
                                           .rows_each = (uint32_t)gather->rows_each,
                                           .rows = rows,
                                           .inbound_bytes = gather->inbound_mib << 20,
                                           .outbound_bytes = gather->outbound_mib << 20};
    return kvt_gather_time(pool, &lists, ns, err);
}

static kvt_status count_gpus(uint32_t *count, struct kvt_error *err)
{
    return kvt_gather_count_gpus(count, err);
}

static kvt_status open_pool(double pool_gib, uint32_t gpus, struct kvt_gather **out,
                            struct kvt_error *err)
{
    return kvt_gather_open((uint64_t)ceil(pool_gib * (double)KVT_GIB), gpus, out, err);
}

static void close_pool(struct kvt_gather *pool)
{
    kvt_gather_close(pool);
}

#else

static kvt_status time_rows(struct kvt_gather *pool, const struct grid_gather *gather,
                            const uint32_t *rows, double *ns, struct kvt_error *err)
{
    (void)pool;
    (void)rows;
    (void)ns;
    return kvt_fail(err, KVT_ERR_DEVICE, gather->name, "this build of kvtide has no CUDA");
}

static kvt_status count_gpus(uint32_t *count, struct kvt_error *err)
{
    *count = 0;
    return kvt_fail(err, KVT_ERR_DEVICE, "calibrate", "this build of kvtide has no CUDA");
}

static kvt_status open_pool(double pool_gib, uint32_t gpus, struct kvt_gather **out,
                            struct kvt_error *err)
{
    (void)pool_gib;
    (void)gpus;
    (void)out;
    return kvt_fail(err, KVT_ERR_DEVICE, "calibrate", "this build of kvtide has no CUDA");
}

static void close_pool(struct kvt_gather *pool)
{
    (void)pool;
}

#endif

/* A gather of the grid while it is measured. */
struct gathering {
    double features[KVT_FEATURES];
    double ns[ROUNDS];
    uint32_t rounds; /* that it has been through */
};

static kvt_status measure_one(struct kvt_gather *pool, const struct grid_gather *gather,
                              uint32_t round, struct gathering *out, struct kvt_error *err)
{
    uint32_t *rows = NULL;
    kvt_status status = gather_draw(gather, &rows, err);

    if (status == KVT_OK && round == 0)
        status = gather_features(gather, rows, out->features, err);
    if (status == KVT_OK)
        status = time_rows(pool, gather, rows, &out->ns[round], err);
    if (status == KVT_OK)
        out->rounds++;
    free(rows);
    return status;
}

static kvt_status add_point(const struct grid_gather *gather, struct gathering *measured,
                            struct points *points, struct kvt_error *err)
{
    double ns = gsl_stats_median(measured->ns, 1, ROUNDS);
    struct point point = {.configuration = (uint32_t)points->configuration_count,
                          .steps = GATHER_LISTS,
                          .is_apart = true,
                          .step_ns = ns,
                          .parts_ns[KVT_PART_FETCH] = ns};

    memcpy(point.features, measured->features, sizeof point.features);
    points->configurations[points->configuration_count++] = (struct points_configuration){
        .name = gather->name, .sets = "", .is_group = true, .is_gather = true};
    return points_append(points, &point, err);
}

/* What of the grid is measured here. */
struct chosen {
    bool is_chosen[GRID_RUNS_MAX]; /* by gather */
    size_t count, beyond;          /* beyond: wanted, of more GPUs than there are */
    double pool_gib;               /* most of one */
    uint32_t gpus;                 /* likewise */
};

static void choose(const struct calibrate_selection *selection, const struct grid *grid,
                   uint32_t gpus_here, struct chosen *out)
{
    *out = (struct chosen){.count = 0};
    for (size_t g = 0; g < grid->gather_count; g++) {
        const struct grid_gather *gather = &grid->gathers[g];
        if (!calibrate_is_wanted(selection, gather->name, gather->is_quick, grid->run_count + g))
            continue;
        if (gather->gpus > gpus_here) {
            out->beyond++;
            continue;
        }
        out->is_chosen[g] = true;
        out->count++;
        out->pool_gib = fmax(out->pool_gib, gather->pool_gib);
        out->gpus = gather->gpus > out->gpus ? (uint32_t)gather->gpus : out->gpus;
    }
}

/* One round over all that is chosen. What cannot be measured here is not chosen any more. */
static kvt_status measure_round(const struct grid_plan *plan, struct kvt_gather *pool,
                                uint32_t round, struct chosen *chosen, struct gathering *measured,
                                size_t *left_out, struct kvt_error *err)
{
    const struct grid *grid = plan->grid;
    kvt_status status = KVT_OK;

    for (size_t g = 0; g < grid->gather_count && status == KVT_OK; g++) {
        double done = (double)(round * grid->gather_count + g);
        if (!chosen->is_chosen[g])
            continue;
        cli_progress_show(plan->progress, done / (double)(ROUNDS * grid->gather_count),
                          grid->gathers[g].name);
        status = measure_one(pool, &grid->gathers[g], round, &measured[g], err);
        if (status == KVT_OK && cli_interrupted())
            status = kvt_fail(err, KVT_ERR_INTERRUPTED, grid->gathers[g].name, "a signal ended it");
        if (status == KVT_ERR_INVALID) {
            chosen->is_chosen[g] = false;
            (*left_out)++;
            cli_progress_end(plan->progress);
            fprintf(stderr, "kvtide: left out: %s: %s\n", err->where, err->message);
            status = KVT_OK;
        }
    }
    return status;
}

/* What went through all rounds is a point, however the others ended. */
static kvt_status add_points(const struct grid *grid, const struct chosen *chosen,
                             struct gathering *measured, struct points *out, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (size_t g = 0; g < grid->gather_count && status == KVT_OK; g++) {
        if (chosen->is_chosen[g] && measured[g].rounds == ROUNDS)
            status = add_point(&grid->gathers[g], &measured[g], out, err);
    }
    return status;
}

/* All that is chosen, out of one pool, in rounds: what disturbs the machine for a while is in one
 * of a gather's times, and not in their median. On failure *out has what was measured before it. */
static kvt_status measure_chosen(const struct grid_plan *plan, struct chosen *chosen,
                                 struct points *out, size_t *left_out, struct kvt_error *err)
{
    struct kvt_error adding;
    const struct grid *grid = plan->grid;
    struct gathering *measured = calloc(grid->gather_count, sizeof *measured);
    struct kvt_gather *pool = NULL;

    if (!measured)
        return kvt_fail_nomem(err, "gathers of a grid");
    kvt_status status = open_pool(chosen->pool_gib, chosen->gpus, &pool, err);
    for (uint32_t round = 0; round < ROUNDS && status == KVT_OK; round++)
        status = measure_round(plan, pool, round, chosen, measured, left_out, err);
    kvt_status added = add_points(grid, chosen, measured, out, &adding);
    close_pool(pool);
    free(measured);
    if (added != KVT_OK && err)
        *err = adding;
    return added != KVT_OK ? added : status;
}

static kvt_status measure_here(const struct grid_plan *plan,
                               const struct calibrate_selection *selection, struct chosen *chosen,
                               struct points *out, size_t *left_out, struct kvt_error *err)
{
    uint32_t gpus = 0;
    kvt_status status = count_gpus(&gpus, err);

    if (status != KVT_OK)
        return status;
    choose(selection, plan->grid, gpus, chosen);
    if (chosen->beyond > 0) {
        cli_progress_end(plan->progress);
        fprintf(stderr,
                "kvtide: not measured: %zu gathers of more GPUs at once than this machine "
                "has (%u)\n",
                chosen->beyond, gpus);
    }
    if (chosen->count == 0)
        return KVT_OK;
    cli_progress_show(plan->progress, -1, "pinning a pool");
    return measure_chosen(plan, chosen, out, left_out, err);
}

kvt_status calibrate_gathers(const struct grid_plan *plan,
                             const struct calibrate_selection *selection, struct points *out,
                             size_t *left_out, struct kvt_error *err)
{
    size_t had = out->configuration_count, were_left_out = *left_out;
    struct chosen chosen;
    struct kvt_error why;

    choose(selection, plan->grid, KVT_GATHER_GPUS_MAX, &chosen);
    if (chosen.count == 0)
        return KVT_OK;
    kvt_status status = measure_here(plan, selection, &chosen, out, left_out, &why);
    if (status == KVT_OK)
        return KVT_OK;
    if (out->count == 0) { /* nothing is lost */
        if (err)
            *err = why;
        return status;
    }
    size_t lost = chosen.count - (out->configuration_count - had) - (*left_out - were_left_out);
    *left_out += lost;
    cli_progress_end(plan->progress);
    fprintf(stderr, "kvtide: left out: %zu gathers: %s: %s\n", lost, why.where, why.message);
    return KVT_OK;
}
