/* urgency.h -- classes of requests, which no scheduling policy here passes over. */
#ifndef KVT_URGENCY_H
#define KVT_URGENCY_H

#include "kvt/policy.h"

/* The first of the most urgent class, or count, which is 0, for nobody. */
static inline uint32_t urgency_first(const struct kvt_scheduling_request *waiting, uint32_t count)
{
    uint32_t first = 0;

    for (uint32_t i = 1; i < count && waiting[first].priority > 0; i++) {
        if (waiting[i].priority < waiting[first].priority)
            first = i;
    }
    return first;
}

/* The last of the least urgent class, or count where there is nobody else: to put the only request
 * aside would free memory for itself alone. */
static inline uint32_t urgency_victim(const struct kvt_scheduling_request *running, uint32_t count)
{
    uint32_t victim = 0;

    if (count < 2)
        return count;
    for (uint32_t i = 1; i < count; i++) {
        if (running[i].priority >= running[victim].priority)
            victim = i;
    }
    return victim;
}

#endif
