/* perfetto_lanes.h -- lanes that are taken for a while, the first free one first. */
#ifndef KVT_CLI_PERFETTO_LANES_H
#define KVT_CLI_PERFETTO_LANES_H

#include <stdint.h>

#include "kvt/base.h"

enum {
    PERFETTO_LANES_MAX = 4096
};

struct perfetto_lanes {
    kvt_ns *free_ns; /* [count] */
    uint32_t count, capacity;
};

/* A lane that is free at from_ns, and taken until to_ns then; UINT32_MAX: all are taken, or memory
 * is short. */
uint32_t perfetto_lanes_take(struct perfetto_lanes *lanes, kvt_ns from_ns, kvt_ns to_ns);
/* An array of them; takes NULL. */
void perfetto_lanes_free(struct perfetto_lanes *lanes, uint32_t count);

#endif
