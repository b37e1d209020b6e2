/* perfetto_lanes.c -- lanes that are taken for a while. */
#include "perfetto_lanes.h"

#include <stdlib.h>

uint32_t perfetto_lanes_take(struct perfetto_lanes *lanes, kvt_ns from_ns, kvt_ns to_ns)
{
    uint32_t lane = 0;

    while (lane < lanes->count && lanes->free_ns[lane] > from_ns)
        lane++;
    if (lane == lanes->capacity) {
        uint32_t capacity = lanes->capacity > 0 ? 2 * lanes->capacity : 4;
        kvt_ns *grown = capacity <= PERFETTO_LANES_MAX
                            ? realloc(lanes->free_ns, capacity * sizeof *grown)
                            : NULL;
        if (!grown)
            return UINT32_MAX;
        lanes->free_ns = grown;
        lanes->capacity = capacity;
    }
    if (lane == lanes->count)
        lanes->count++;
    lanes->free_ns[lane] = to_ns;
    return lane;
}

void perfetto_lanes_free(struct perfetto_lanes *lanes, uint32_t count)
{
    for (uint32_t i = 0; lanes && i < count; i++)
        free(lanes[i].free_ns);
    free(lanes);
}
