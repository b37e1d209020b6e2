/* table.h -- the built-in arrivals and lengths: declarations, and the list of them. */
#ifndef KVT_WORKLOADS_TABLE_H
#define KVT_WORKLOADS_TABLE_H

#include "kvt/workload.h"

extern const struct kvt_arrival kvt_arrival_closed;
extern const struct kvt_arrival kvt_arrival_phases;
extern const struct kvt_arrival kvt_arrival_open;
extern const struct kvt_arrival kvt_arrival_sessions;
extern const struct kvt_arrival kvt_arrival_trace;

extern const struct kvt_length_law kvt_length_fixed;
extern const struct kvt_length_law kvt_length_lognormal;
extern const struct kvt_length_law kvt_length_empirical;

#endif
