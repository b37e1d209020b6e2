/* kvt/clock.h -- wall time, which is only ever reported. */
#ifndef KVT_CLOCK_H
#define KVT_CLOCK_H

#include "kvt/base.h"

KVT_BEGIN_DECLS

/* Monotonic host clock. A separate type, so the compiler refuses to mix it
 * with kvt_ns. */
struct kvt_wall {
    int64_t ns;
};
struct kvt_wall kvt_wall_now(void);
double kvt_wall_seconds_since(struct kvt_wall start);

/* bytes / rate as a duration, rounded up, in integers: 0 bytes take 0 ns.
 * bytes_per_s is at least 1; a result past INT64_MAX saturates there. */
kvt_ns kvt_ns_for_bytes(uint64_t bytes, uint64_t bytes_per_s);

/* Seconds to nanoseconds, to the nearest; false when seconds is negative, not
 * finite or past 2^62 ns. */
bool kvt_ns_from_seconds(double seconds, kvt_ns *out);

KVT_END_DECLS
#endif
