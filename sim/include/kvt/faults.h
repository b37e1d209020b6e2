/* kvt/faults.h -- what fails during a run, and what became of it.
 *
 * A rank's failure takes its HBM; what its node's DRAM holds of its requests is lost with it or
 * kept, as the scenario says. docs/faults.md has the semantics. */
#ifndef KVT_FAULTS_H
#define KVT_FAULTS_H

#include "kvt/policy.h"

KVT_BEGIN_DECLS

enum {
    KVT_FAULTS_MAX = 256
};

enum kvt_fault_kind {
    KVT_FAULT_RANK = 0, /* a replica: the GPUs that hold the same rows */
    KVT_FAULT_NODE,     /* every rank with a GPU there, and the node's DRAM */
    KVT_FAULT_LINK,     /* between a rank's GPUs and host: slower for a time */
    KVT_FAULT_PREFILL,  /* servers of the prefill pool */
    KVT_FAULT_KINDS
};
const char *kvt_fault_kind_name(enum kvt_fault_kind kind); /* "rank", ..; never NULL */

enum kvt_fault_target {
    KVT_FAULT_NAMED = 0,
    KVT_FAULT_BUSIEST, /* of those that are up, with most requests; equals: the lower one */
    KVT_FAULT_RANDOM   /* of those that are up */
};

/* What happens to the other ranks of the pool. */
enum kvt_fault_group {
    KVT_FAULT_GROUP_AUTO = 0, /* they stop where they share experts with it (ep above 1) */
    KVT_FAULT_GROUP_GOES_ON,
    KVT_FAULT_GROUP_STOPS /* and lose what it loses: they are started anew with it */
};

struct kvt_fault {
    enum kvt_fault_kind kind;
    enum kvt_fault_target target;
    enum kvt_fault_group group; /* rank, node */
    uint32_t which;             /* named: rank, node, or the rank whose link it is */
    uint32_t servers;           /* prefill: that fail */
    kvt_ns at_ns;
    kvt_ns back_ns;          /* after at_ns, all told; KVT_NS_NEVER: not repaired */
    bool keeps_host;         /* rank: host copies outlive it ... */
    bool keeps_index;        /* ... and index rows have such copies, too */
    double bandwidth_factor; /* link: what is left, above 0 and below 1 */
};

/* What one fault did. */
struct kvt_fault_report {
    const struct kvt_fault *fault;
    bool has_struck;         /* the run got so far, and there was something to hit */
    uint32_t which;          /* rank, node or link that was hit */
    uint32_t ranks;          /* that went down and were up before; of a link or of prefill: 0 */
    uint32_t running;        /* requests that decoded there, or were about to, ... */
    uint32_t importing;      /* ... came in, or had their prompts computed there, ... */
    uint32_t prefilling;     /* ... had them computed by servers that failed, ... */
    uint32_t waiting;        /* ... or waited there: these only go elsewhere */
    uint64_t context_tokens; /* of running and importing: rows that they had, or were to have; of
                              * waiting what they had on host since they were put aside */
    uint64_t kept_tokens;    /* of those, rows whose copies on host can be used again */
    uint64_t step_tokens;    /* that the step under way would have delivered */
    uint64_t prefix_pages;   /* of finished requests, that nobody finds any more */
    uint64_t hbm_bytes[KVT_MEM_CLASSES];       /* of each GPU, summed over ranks, all lost */
    uint64_t host_lost_bytes, host_kept_bytes; /* of one copy */
    uint32_t outstanding;                      /* interrupted ones that do not decode again yet */
    uint64_t decoding;                         /* requests of the run that decoded when it struck */
    kvt_ns recovered_ns; /* when all it interrupted decoded again or had ended; or KVT_NS_NEVER */
    kvt_ns full_ns;      /* when as many as before decoded again; or KVT_NS_NEVER */
};

/* Requests that lost what they had: of waiting ones there was nothing. */
static inline uint32_t kvt_fault_interrupted(const struct kvt_fault_report *report)
{
    return report->running + report->importing + report->prefilling;
}

KVT_END_DECLS
#endif
