/* table.c -- the built-in arrivals and lengths, one line each: the only other file that a new one
 * touches. */
#include "table.h"

static const struct kvt_plugin_info *const arrival[] = {
    &kvt_arrival_closed.info,   &kvt_arrival_phases.info, &kvt_arrival_open.info,
    &kvt_arrival_sessions.info, &kvt_arrival_trace.info,
};

static const struct kvt_plugin_info *const length[] = {
    &kvt_length_fixed.info,
    &kvt_length_lognormal.info,
    &kvt_length_empirical.info,
};

#define LIST(table) (*count = sizeof(table) / sizeof(table)[0], (table))

const struct kvt_plugin_info *const *kvt_workloads_table(enum kvt_plugin_kind kind, size_t *count)
{
    switch (kind) {
    case KVT_PLUGIN_ARRIVAL:
        return LIST(arrival);
    case KVT_PLUGIN_LENGTH:
        return LIST(length);
    default:
        *count = 0;
        return NULL;
    }
}
