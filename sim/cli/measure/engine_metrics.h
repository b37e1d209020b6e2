/* engine_metrics.h -- what a serving engine counts of itself while it runs. */
#ifndef KVT_CLI_ENGINE_METRICS_H
#define KVT_CLI_ENGINE_METRICS_H

#include "engine_bench.h"

struct engine_scrape; /* private to engine_metrics.c */

/* What was read so far, of one file after the other. */
struct engine_metrics {
    struct engine_scrape *scrapes; /* [count] */
    size_t count, capacity;
    double peak_running; /* of a time series; NaN: none was read */
    bool is_of_kvtide;   /* a file is a timeline.om: no engine, and gauges are means */
};

/* Whether the file is a text of Prometheus from vLLM or SGLang, or a time series of LLMServingSim's
 * benchmark; by its beginning. */
KVT_CHECKED kvt_status engine_metrics_is_one(const char *path, bool *out, struct kvt_error *err);

/* Adds the file's scrapes behind those there are: one file may hold several, one behind the other.
 * Starts from a zeroed struct with peak_running NaN; engine_metrics_free() in any case. */
KVT_CHECKED kvt_status engine_metrics_read(const char *path, struct engine_metrics *metrics,
                                           struct kvt_error *err);
void engine_metrics_free(struct engine_metrics *metrics);

/* Figures that the scrapes tell, the others left alone: peaks of gauges; counters from the first
 * scrape to the last, or, of one scrape, since the engine began. */
void engine_metrics_figures(const struct engine_metrics *metrics, double figures[ENGINE_FIGURES]);

#endif
