/* tape_class.h -- which selectors of a model read the same tapes. */
#ifndef KVT_TAPE_CLASS_H
#define KVT_TAPE_CLASS_H

#include "tape_rack.h"

/* Fills in the plan's classes; its process and model are there. Where streams of a request have
 * chances in common, those of a group stand at one place of one tape. */
void tape_classify(struct rack_plan *plan, const struct kvt_law_env *env);

#endif
