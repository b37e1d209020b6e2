/* Keeps every optional page, however short memory is. */
#include "residency.h"

static uint32_t reclaim(void *state, const struct kvt_residency_view *view, uint64_t want_bytes,
                        struct kvt_residency_action *actions, uint32_t capacity)
{
    (void)state;
    (void)view;
    (void)want_bytes;
    (void)actions;
    (void)capacity;
    return 0;
}

RESIDENCY("never-releases", .reclaim = reclaim)
