/* service.h -- private to sim/report: what requests took, and what they had been promised. */
#ifndef KVT_REPORT_SERVICE_H
#define KVT_REPORT_SERVICE_H

#include <math.h>

#include "kvt/report.h"
#include "metrics_table.h"

enum latency {
    TTFT,
    TPOT,
    E2EL,
    LATENCIES
};

/* One request's latency in ms, or NaN where it has none. A request still decoding
 * when the run was stopped counts in TPOT with what it has delivered. */
static inline double record_latency_ms(const struct kvt_request_record *record,
                                       enum latency latency)
{
    if (record->first_token_ns == KVT_NS_NEVER)
        return NAN;
    if (latency == TTFT)
        return (double)(record->first_token_ns - record->arrival_ns) / 1e6;
    if (latency == TPOT)
        return record->generated_tokens < 2
                   ? (double)NAN
                   : (double)(record->last_token_ns - record->first_token_ns) / 1e6 /
                         (record->generated_tokens - 1);
    return record->finished_ns == KVT_NS_NEVER
               ? (double)NAN
               : (double)(record->finished_ns - record->arrival_ns) / 1e6;
}

/* Whether request i is in latencies of the phase; of the run: -1. */
static inline bool record_counts(const struct kvt_run *run, size_t i, int phase)
{
    return run->records[i].arrival_ns >= run->warmup_ns &&
           (phase < 0 || run->records[i].phase == phase);
}

/* Whether a request that has ended, and was not dropped, met every bound of its class. There are
 * classes. */
bool record_meets_bounds(const struct kvt_run *run, const struct kvt_request_record *record);

/* The metrics of service; false when memory is short. */
bool service_levels(const struct kvt_run *run, int phase, struct metric_values *out);

/* "classes" and "kinds" of result.json, where the scenario has any; false when memory is short. */
bool service_add(struct cJSON *result, const struct kvt_run *run);

#endif
