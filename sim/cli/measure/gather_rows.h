/* gather_rows.h -- which rows a gather copies, and how often their addresses are translated. */
#ifndef KVT_CLI_GATHER_ROWS_H
#define KVT_CLI_GATHER_ROWS_H

#include "grid.h"
#include "kvt/gather.h"
#include "kvt/profile.h"

enum {
    GATHER_LISTS = 21, /* in turn, as the stores of GLM-5.3 */
    GATHER_STEPS = 6,  /* each with rows of its own; the first one warms what will be warm */
    /* A GPU translates addresses of host memory a granule at a time, and finds the granules of a
     * block together. How many of either it keeps is what explains gathers on an H200 best. */
    GATHER_GRANULES_CACHED = 8192,
    GATHER_BLOCKS_CACHED = 256
};

/* Draws them, the same for the same gather: for each step, list and request distinct rows of a
 * context of at most 102,400, in a part of the pool that is the list's own, or in pages anywhere in
 * it. Steps miss other rows of the same contexts. *rows is the caller's to free. Refuses contexts
 * that are shorter than what is missed of them. */
KVT_CHECKED kvt_status gather_draw(const struct grid_gather *gather, uint32_t **rows,
                                   struct kvt_error *err);

/* What is translated in a list behind the first step, mean of all lists. */
struct gather_translations {
    double granules;     /* that are not among the newest */
    double blocks;       /* of these, likewise */
    double far_granules; /* of these, by the memory that contexts lie in */
};
KVT_CHECKED kvt_status gather_translate(const struct grid_gather *gather, const uint32_t *rows,
                                        struct gather_translations *out, struct kvt_error *err);

/* Of a list, which is a fetch by itself, on each GPU: with all that moves beside it. Sets those
 * that a gather has. */
KVT_CHECKED kvt_status gather_features(const struct grid_gather *gather, const uint32_t *rows,
                                       double features[KVT_FEATURES], struct kvt_error *err);

#endif
