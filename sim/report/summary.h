/* summary.h -- private to sim/report: lines of the terminal summary. */
#ifndef KVT_REPORT_SUMMARY_H
#define KVT_REPORT_SUMMARY_H

#include <cjson/cJSON.h>
#include <math.h>

#include "kvt/json.h"
#include "kvt/report.h"

static inline double metric(const cJSON *result, const char *name)
{
    const cJSON *item = kvt_json_find(kvt_json_find(result, "metrics"), name);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

static inline const char *text_at(const cJSON *object, const char *key)
{
    const cJSON *item = kvt_json_find(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

/* ---- summary_service.c: each prints nothing where there is nothing to say ---- */

/* A line a class, what its worst hundredth took. */
void summary_put_classes(FILE *stream, const cJSON *result);
/* What the user's prices and watts come to. */
void summary_put_expenses(FILE *stream, const struct kvt_run *run, const cJSON *result);
/* What a prefill pool that is timed by its data sheet makes of prompts as long as these. */
void summary_put_prefill(FILE *stream, const struct kvt_run *run, const cJSON *result);

#endif
