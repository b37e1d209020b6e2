/* summary.h -- private to sim/report: lines of the terminal summary. */
#ifndef KVT_REPORT_SUMMARY_H
#define KVT_REPORT_SUMMARY_H

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "kvt/json.h"
#include "kvt/report.h"

enum {
    COLUMNS = 80
};

static inline double metric(const cJSON *result, const char *name)
{
    const cJSON *item = kvt_json_find(kvt_json_find(result, "metrics"), name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

static inline const char *text_at(const cJSON *object, const char *key)
{
    const cJSON *item = kvt_json_find(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

/* A number for people: 3 or 4 figures, "-" where it is not defined. */
static inline const char *figure(double value, char out[16])
{
    if (!isfinite(value))
        snprintf(out, 16, "-");
    else if (value != 0 && fabs(value) < 0.01)
        snprintf(out, 16, "%.2g", value);
    else if (fabs(value) < 10)
        snprintf(out, 16, "%.2f", value);
    else if (fabs(value) < 1000)
        snprintf(out, 16, "%.1f", value);
    else
        snprintf(out, 16, "%.0f", value);
    return out;
}

static inline void put_line(FILE *stream, const char *fmt, ...) KVT_PRINTF(2, 3);
static inline void put_line(FILE *stream, const char *fmt, ...)
{
    char line[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    /* Breaks at a blank; what follows is set in by eleven. */
    const char *rest = line;
    int width = COLUMNS;
    while (strlen(rest) > (size_t)width) {
        int cut = width;
        while (cut > 1 && rest[cut] != ' ')
            cut--;
        if (cut == 1)
            cut = width;
        fprintf(stream, "%.*s\n%11s", cut, rest, "");
        rest += cut;
        while (*rest == ' ')
            rest++;
        width = COLUMNS - 11;
    }
    fprintf(stream, "%s\n", rest);
}

/* ---- summary_service.c: each prints nothing where there is nothing to say ---- */

/* A line a class, what its worst hundredth took. */
void summary_put_classes(FILE *stream, const cJSON *result);
/* What the user's prices and watts come to. */
void summary_put_costs(FILE *stream, const struct kvt_run *run, const cJSON *result);
/* What a prefill pool that is timed by its data sheet makes of prompts as long as these. */
void summary_put_prefill(FILE *stream, const struct kvt_run *run, const cJSON *result);

#endif
