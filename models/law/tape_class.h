/* tape_class.h -- which selectors of a model read the same tapes. */
#ifndef KVT_TAPE_CLASS_H
#define KVT_TAPE_CLASS_H

#include "tape_rack.h"

/* Fills in the plan's classes; its process and model are there. True where streams of a
 * request have chances in common: then tape t of all classes of a group is recorded of one
 * kin, and the streams of a group stand at one place of one tape. */
bool tape_classify(struct rack_plan *plan, const struct kvt_law_env *env);

#endif
