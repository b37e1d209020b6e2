/* stage_load.h -- what comes to the stages of a run over what they can do, as reports tell it. */
#ifndef KVT_REPORT_STAGE_LOAD_H
#define KVT_REPORT_STAGE_LOAD_H

#include <stdbool.h>

#include "kvt/report.h"

/* "stage_load": of an analytic run, by stage. False when memory is short. */
bool stage_load_add(struct cJSON *result, const struct kvt_run *run);

#endif
