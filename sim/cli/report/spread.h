/* spread.h -- how values are spread: shares and the values that so many do not exceed. */
#ifndef KVT_CLI_REPORT_SPREAD_H
#define KVT_CLI_REPORT_SPREAD_H

#include "kvt/error.h"

enum {
    SPREAD_POINTS = 202 /* of many values: in steps of 0.005, and 0.999, as itl.csv has them */
};

struct spread {
    double shares[SPREAD_POINTS], values[SPREAD_POINTS]; /* [count] */
    size_t count;                                        /* 0: there was no value */
};

enum request_latency {
    LATENCY_TTFT_S,
    LATENCY_E2E_S,
    LATENCY_TPOT_MS,
    LATENCIES
};

/* The value that such a share does not exceed, between points in proportion; NaN: there is none. */
double spread_at(const struct spread *spread, double share);
/* Of values in any order, which are sorted in place. */
void spread_of(double *values, size_t count, struct spread *out);
/* Of the requests of requests.csv that arrived from from_s on, as the metrics count them. */
KVT_CHECKED kvt_status spread_load_requests(const char *path, double from_s,
                                            struct spread out[LATENCIES], struct kvt_error *err);
/* itl.csv, in ms. */
KVT_CHECKED kvt_status spread_load_itl(const char *path, struct spread *out, struct kvt_error *err);

#endif
