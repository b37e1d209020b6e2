/* points.h -- what steps of a backend took, beside what they did: the raw side of a calibration. */
#ifndef KVT_CLI_POINTS_H
#define KVT_CLI_POINTS_H

#include "kvt/arena.h"
#include "kvt/json.h"
#include "kvt/sim.h"

/* A few steps of a run that decoded the same number of requests and queries and were timed alike:
 * as a whole, or apart, every copy exposed and each part by itself. */
struct point {
    uint32_t configuration; /* index of whose run it is */
    uint32_t steps;
    bool is_apart;
    /* Medians of the steps. */
    double features[KVT_FEATURES];
    double step_ns;
    double parts_ns[KVT_PARTS]; /* where is_apart; "host" in any case: the wall time of a step that
                                 * is not in step_ns */
    uint32_t marks[KVT_PARTS];  /* how often the GPU stopped to take the time of each */
    double spread;              /* of step_ns: (most - least) / median */
};

/* One run of a grid. */
struct points_configuration {
    const char *name;
    const char *sets; /* what of the grid's scenario it changes, blanks between; "" */
    bool is_group;    /* all layers of a missing row come at once, exposed: backend.fetch_order */
    bool is_gather;   /* copies by themselves, no run: a point has a fetch alone */
    bool is_ranked;   /* one of those that are compared in order */
};

extern const char *const points_order_names[2]; /* by is_group */

struct points {
    struct point *items; /* [count] by configuration */
    size_t count, capacity;
    struct points_configuration *configurations; /* [configuration_count] in the arena */
    size_t configuration_count;
    /* What was measured: a profile's setting. */
    const char *grid, *model, *hardware; /* in the arena */
    uint32_t tp, ep;
    bool runs_drafts;
    cJSON *machine; /* as `check --machine` has it; NULL: not known */
};

KVT_CHECKED kvt_status points_append(struct points *points, const struct point *point,
                                     struct kvt_error *err);
void points_free(struct points *points); /* of one that is zeroed too */

/* Steps on their way to points. */
enum {
    POINT_STEPS_MAX = 16,
    POINT_STEPS = 4,     /* of a point, where what is wanted is its median */
    POINT_STEPS_SKIP = 2 /* first steps of a run: memory, graphs and clocks warm up */
};
struct point_steps {
    uint32_t configuration;
    uint32_t wanted; /* steps of a point, at most POINT_STEPS_MAX */
    uint64_t seen;   /* of the run */
    struct point_stretch {
        uint32_t count;
        struct kvt_step_times steps[POINT_STEPS_MAX];
    } whole, apart;
};
/* Takes a step in, and adds a point once there are enough alike. A stretch that is too short is
 * left out, and so are steps that are timed otherwise. */
KVT_CHECKED kvt_status point_steps_add(struct point_steps *steps,
                                       const struct kvt_step_times *times, struct points *points,
                                       struct kvt_error *err);

/* ---- Beside a profile: points_predict.c ---- */

/* Whether its steps have anything of the part: nothing is fetched without misses, say. */
bool point_has_part(const struct point *point, enum kvt_step_part part);
/* The part's time, less mark_ns for each stop to take one; 0 where it was not taken. */
double point_part_ns(const struct point *point, enum kvt_step_part part, double mark_ns);
/* What the profile says of a part by itself; and of the step as it was run, which step_ns is
 * beside. */
double point_predict_part(const struct kvt_profile *profile, const struct points *points,
                          const struct point *point, enum kvt_step_part part);
double point_predict_step(const struct kvt_profile *profile, const struct points *points,
                          const struct point *point);
/* Whether the profile's family was measured over what the point has of it, and each family: what
 * either has nothing of is in range. */
bool point_part_is_in_range(const struct kvt_profile *profile, const struct points *points,
                            const struct point *point, enum kvt_step_part part);
bool point_is_in_range(const struct kvt_profile *profile, const struct points *points,
                       const struct point *point);

/* What a configuration may be called, and what of it a report can print in a line: 1 to 120 bytes,
 * and no control characters. */
KVT_CHECKED kvt_status points_check_name(const char *name, const char *where,
                                         struct kvt_error *err);
KVT_CHECKED kvt_status points_check_text(const char *text, const char *where, const char *key,
                                         struct kvt_error *err);

/* What a fetch's time may hang on: a file with fetches has all of it, for what is missing would
 * read as none. */
bool points_fetch_needs(enum kvt_profile_feature feature);

/* As JSON, schema "kvtide/points/1"; the same is a profile's member "points". */
KVT_CHECKED kvt_status points_tree(const struct points *points, cJSON **out, struct kvt_error *err);
/* From such a file, or from a profile that was made of one. Adds to what is there: of several files
 * of one setting, whose configurations are all different. What is not a number lives in the arena.
 */
KVT_CHECKED kvt_status points_load(const char *path, struct kvt_arena *arena, struct points *points,
                                   struct kvt_error *err);

#endif
