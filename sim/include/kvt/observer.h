/* kvt/observer.h -- what a run tells whoever watches it, as it happens. Watching changes nothing.
 */
#ifndef KVT_OBSERVER_H
#define KVT_OBSERVER_H

#include "kvt/clock.h"
#include "kvt/timing.h"

KVT_BEGIN_DECLS

enum kvt_transfer_kind {
    KVT_TRANSFER_IMPORT = 0, /* a history from outside; many at once */
    KVT_TRANSFER_RECALL,     /* from host to HBM: rows of who was put aside, or found */
    KVT_TRANSFER_FILL,       /* likewise: pages of optional history */
    KVT_TRANSFER_BACKUP,     /* from HBM to host */
    KVT_TRANSFER_KINDS
};
const char *kvt_transfer_kind_name(enum kvt_transfer_kind kind); /* "import", ..; never NULL */

#define KVT_TRANSFER_OF_MANY UINT32_MAX /* requests: the rows that a step has committed */

/* Told as it is queued: it is under way from from_ns on, and there at to_ns. Recalls and fills of a
 * rank go one after the other, and so do its backups. */
struct kvt_transfer {
    enum kvt_transfer_kind kind;
    uint32_t rank, request;
    kvt_ns from_ns, to_ns;
    uint64_t bytes; /* over all GPUs of the rank, or all copies on host */
};

/* A prompt, or what of it nobody has, in the prefill pool. */
struct kvt_observed_prefill {
    uint32_t request, tokens;
    kvt_ns from_ns, to_ns;
};

struct kvt_step_item;

/* A step of one rank; ranks that step together are told one after the other. */
struct kvt_observed_step {
    uint32_t rank;
    kvt_ns from_ns, stall_ns, step_ns; /* it begins by waiting stall_ns for backups */
    const kvt_ns *parts_ns;            /* [KVT_PARTS] of the slowest rank; they add up to step_ns,
                                        * but that no step is shorter than 1 ns */
    const struct kvt_rank_load *load;
    double wire_bytes;                 /* of all rows that cross the link, over the rank's GPUs */
    const struct kvt_step_item *items; /* [item_count] of kvt/backend.h: who decodes */
    uint32_t item_count;
};

/* Each is optional. */
struct kvt_observer {
    void *context;
    void (*on_step)(void *context, const struct kvt_observed_step *step);
    void (*on_transfer)(void *context, const struct kvt_transfer *transfer);
    void (*on_prefill)(void *context, const struct kvt_observed_prefill *prefill);
};

KVT_END_DECLS
#endif
