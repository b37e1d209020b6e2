/* calibrate_gpu.h -- what the parts of `kvtide calibrate` on a GPU pass to each other. */
#ifndef KVT_CLI_CALIBRATE_GPU_H
#define KVT_CLI_CALIBRATE_GPU_H

#include "family_fit.h"
#include "grid.h"
#include "points.h"

/* Which runs and gathers of a grid. */
struct calibrate_selection {
    bool quick;
    const char *only;     /* text that their names have in them; NULL: any */
    size_t shard, shards; /* every shards-th of them, from number shard on; gathers behind runs */
    uint32_t point_steps; /* of a point */
};

/* index: behind all before it in the grid, of the selection or not. */
bool calibrate_is_wanted(const struct calibrate_selection *selection, const char *name,
                         bool is_quick, size_t index);

/* calibrate_grid.c: points of the runs, in their order; what is left out is told on stderr. plan's
 * callbacks are set here. *out is the caller's to free in any case. Refuses a selection that no
 * name of the grid has (KVT_ERR_NOT_FOUND), and more shards than it has runs and gathers. */
KVT_CHECKED kvt_status calibrate_measure(const struct grid_plan *plan,
                                         const struct calibrate_selection *selection,
                                         struct kvt_arena *arena, struct points *out,
                                         size_t *left_out, struct kvt_error *err);

/* calibrate_gather.c: the grid's gathers behind its runs; out->configurations has room for them.
 * Those of more GPUs than the machine has are told, once, and are not left out: they are for
 * another machine. What ends gathers, a pool that cannot be pinned or a signal, is told and leaves
 * them out where *out has points, which stay. */
KVT_CHECKED kvt_status calibrate_gathers(const struct grid_plan *plan,
                                         const struct calibrate_selection *selection,
                                         struct points *out, size_t *left_out,
                                         struct kvt_error *err);

/* What is fitted to points. */
struct gpu_calibration {
    const struct points *points;
    double mark_ns;                    /* that the GPU takes to take a time */
    size_t mark_runs;                  /* that it was told by */
    struct family_fit fits[KVT_PARTS]; /* where profile.families[].is_there */
    struct family_fit exposed;         /* of fetch, in any case; no samples: not measured */
    struct kvt_profile profile;        /* families alone */
    /* Families that were timed, and are not in profile: too few points, or no term is certain. */
    size_t untold_points[KVT_PARTS]; /* that timed it; 0: told, or not timed */
    /* Of whole steps: predicted by all points, and by those of the other configurations. */
    struct robust_errors step_own, step_left_out;
};

/* calibrate_families.c. points are borrowed. Refuses (KVT_ERR_UNSUPPORTED) points that nothing can
 * be told from. */
KVT_CHECKED kvt_status calibrate_fit(const struct points *points, struct gpu_calibration *out,
                                     struct kvt_error *err);

/* Why a family of untold_points is none: "not told: 3 points ..". */
enum {
    CALIBRATE_WHY_BYTES = 120
};
const char *calibrate_say_untold(const struct gpu_calibration *calibration, enum kvt_step_part part,
                                 char out[CALIBRATE_WHY_BYTES]);

/* calibrate_profile.c: the profile, schema "kvtide/profile/1", and for people. Refuses
 * (KVT_ERR_UNSUPPORTED) what no step can be timed by: of gathers alone, say. */
KVT_CHECKED kvt_status gpu_calibration_tree(const struct gpu_calibration *calibration, cJSON **out,
                                            struct kvt_error *err);
void gpu_calibration_print(const struct gpu_calibration *calibration);

#endif
