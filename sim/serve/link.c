/* link.c -- one direction of a rank's link: transfers one after the other. */
#include "kvt/clock.h"
#include "kvt/rank.h"

kvt_ns kvt_link_send(struct kvt_link *link, kvt_ns now_ns, uint64_t bytes)
{
    if (link->free_ns < now_ns)
        link->free_ns = now_ns;
    kvt_ns duration_ns = kvt_ns_for_bytes(bytes, link->bytes_per_s);
    link->free_ns =
        duration_ns < INT64_MAX - link->free_ns ? link->free_ns + duration_ns : INT64_MAX;
    return link->free_ns;
}

uint64_t kvt_link_backlog_bytes(const struct kvt_link *link, kvt_ns now_ns)
{
    if (link->free_ns <= now_ns)
        return 0;
    return (uint64_t)((double)(link->free_ns - now_ns) * 1e-9 * (double)link->bytes_per_s);
}
