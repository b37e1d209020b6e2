/* validate_timeline.h -- kvtide validate SCENARIO --measured VALIDATE.json: the course of a run in
 * lockstep, by the GPU's clock, beside that of the same scenario simulated by its own. */
#ifndef KVT_CLI_VALIDATE_TIMELINE_H
#define KVT_CLI_VALIDATE_TIMELINE_H

#include "../timeline_columns.h"
#include "validate.h"

enum timeline_side {
    TIMELINE_MEASURED,
    TIMELINE_PREDICTED,
    TIMELINE_SIDES
};

/* What is set side by side. */
enum {
    TIMELINE_QUANTITIES = 4
};
struct timeline_quantity {
    enum timeline_column column;
    const char *title, *unit; /* of a table */
    double scale;             /* from the column to the unit */
};
extern const struct timeline_quantity timeline_quantities[TIMELINE_QUANTITIES];

/* Columns as timeline_columns.h has them. */
struct timeline {
    double *columns[TIMELINE_COLUMNS]; /* [count] each, in the arena; NaN: not defined */
    size_t count;
};

/* Means over the time in which both sides have the quantity; NaN: they never do. */
struct timeline_difference {
    double means[TIMELINE_SIDES], mean_abs;
};
/* Over the bins of both from from_s to to_s. */
void timeline_compare(const struct timeline sides[TIMELINE_SIDES], enum timeline_column column,
                      double from_s, double to_s, struct timeline_difference *out);

struct timeline_phase {
    double from_s, to_s; /* of the measured run */
    struct timeline_difference of[TIMELINE_QUANTITIES];
};

struct timeline_plan {
    const char *scenario, *file, *cache_dir;
    const struct cli_texts *sets;
    unsigned threads;
    bool quiet;
};

struct timeline_outcome {
    const char *scenario;
    uint64_t seed;
    cJSON *file;            /* all of it */
    const cJSON *document;  /* of it: the answer in which the run is */
    bool was_good;          /* that answer's own */
    bool was_interrupted;   /* the run, by a signal */
    const char *broken_off; /* why another fault ended the answer; NULL: none did */
    struct timeline sides[TIMELINE_SIDES];
    struct timeline_phase *phases; /* [phase_count] in the arena */
    size_t phase_count;
    const char *timing; /* the model by which the simulator's clock went */
    enum kvt_basis timing_basis;
    double in_range_share; /* of its steps */
};

/* Whether the file holds answers of `kvtide validate SCENARIO`, by itself or as
 * validation/device.sh keeps them. Who cannot read it finds out why by taking it for another. */
bool timeline_is_one(const char *path);
/* Reads the file and runs the scenario. What *out borrows lives in the arena; to be freed on
 * failure too. */
KVT_CHECKED kvt_status validate_timeline(const struct timeline_plan *plan, struct kvt_arena *arena,
                                         struct timeline_outcome *out, struct kvt_error *err);
void timeline_free(struct timeline_outcome *outcome);

/* validate_timeline_report.c */

KVT_CHECKED kvt_status timeline_tree(const struct timeline_plan *plan,
                                     const struct timeline_outcome *outcome, cJSON **out,
                                     struct kvt_error *err);
void timeline_print(const struct timeline_outcome *outcome);

#endif
