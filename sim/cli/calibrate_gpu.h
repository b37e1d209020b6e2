/* calibrate_gpu.h -- what the parts of `kvtide calibrate` on a GPU pass to each other. */
#ifndef KVT_CLI_CALIBRATE_GPU_H
#define KVT_CLI_CALIBRATE_GPU_H

#include "grid.h"
#include "points.h"

/* Which runs of a grid. */
struct calibrate_selection {
    bool quick;
    size_t shard, shards; /* every shards-th run, from number shard on */
};

/* calibrate_grid.c: points of the runs, in their order; what is left out is told on stderr. plan's
 * callbacks are set here. *out is the caller's to free in any case. */
KVT_CHECKED kvt_status calibrate_measure(const struct grid_plan *plan,
                                         const struct calibrate_selection *selection,
                                         struct kvt_arena *arena, struct points *out,
                                         size_t *left_out, struct kvt_error *err);

#endif
