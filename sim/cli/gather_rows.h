/* gather_rows.h -- which rows a gather copies, and how often their addresses are translated. */
#ifndef KVT_CLI_GATHER_ROWS_H
#define KVT_CLI_GATHER_ROWS_H

#include "grid.h"
#include "kvt/gather.h"

enum {
    GATHER_LISTS = 21,               /* in turn, as the stores of GLM-5.3 */
    GATHER_GRANULE_BYTES = 65536,    /* of host memory, that a GPU translates at once */
    GATHER_GRANULES_CACHED = 1 << 15 /* translations that it keeps (facts of one H200) */
};

/* Draws them, the same for the same gather: of each list and request distinct rows of a context of
 * at most 102,400, in a part of the pool that is the list's own, or in pages anywhere in it.
 * *rows is the caller's to free. Refuses contexts that are shorter than what is missed of them. */
KVT_CHECKED kvt_status gather_draw(const struct grid_gather *gather, uint32_t **rows,
                                   struct kvt_error *err);

/* Granules that are translated in a list once all lists have been copied before: those that are not
 * among the newest GATHER_GRANULES_CACHED, mean of all lists. */
KVT_CHECKED kvt_status gather_translations(const struct grid_gather *gather, const uint32_t *rows,
                                           double *granules, struct kvt_error *err);

#endif
