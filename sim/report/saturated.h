/* saturated.h -- stages that cannot keep up with what comes, as reports tell it. */
#ifndef KVT_REPORT_SATURATED_H
#define KVT_REPORT_SATURATED_H

#include <stdbool.h>

#include "kvt/report.h"

/* "saturated": a list, empty where every stage keeps up. False when memory is short. */
bool saturated_add(struct cJSON *result, const struct kvt_run *run);

#endif
