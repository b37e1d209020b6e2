/* rank_private.h -- what the files of serve/ share. */
#ifndef KVT_RANK_PRIVATE_H
#define KVT_RANK_PRIVATE_H

#include "kvt/rank.h"

enum {
    RANK_ACTIONS = 4096
}; /* that a residency policy can give at once */

enum rank_decision {
    DECIDE_ADMIT = 1,
    DECIDE_PUT_ASIDE,
    DECIDE_RELEASE,
    DECIDE_REFILL,
    DECIDE_BACKUP,
    DECIDE_RESIZE,
    DECIDE_LAND,
    DECIDE_KEEP
};

/* One boundary of one rank. */
struct boundary {
    struct kvt_rank *rank;
    kvt_ns now_ns;
    const struct kvt_rank_hooks *hooks;
};

/* Into the run's chain. */
void rank_decide(struct kvt_rank *rank, enum rank_decision decision, uint32_t request,
                 uint32_t first, uint32_t count);

/* Of a class, from pool and reserve. */
uint64_t rank_held_bytes(const struct kvt_live *live, enum kvt_mem_class mem_class);

/* ---- view.c ---- */

/* The running batch as the residency policy sees it; borrowed until the next call. */
KVT_CHECKED kvt_status rank_view(struct kvt_rank *rank, kvt_ns now_ns,
                                 struct kvt_residency_view *view, struct kvt_error *err);
/* What a demotion would free of the pool that optional pages live in. */
uint64_t rank_reclaimable_bytes(const struct kvt_rank *rank, const struct kvt_live *live);

/* ---- moves.c ---- */

/* Refills whose transfer has ended. */
void rank_end_fills(struct kvt_rank *rank, kvt_ns now_ns);
/* Carries out one action, or names the policy and what it may not do. */
KVT_CHECKED kvt_status rank_act(const struct boundary *boundary,
                                const struct kvt_residency_action *action, struct kvt_error *err);
/* Has the policy release optional pages, and demote, until bytes[] fit. *fits says whether they
 * now do; nothing is moved where nothing can help. */
KVT_CHECKED kvt_status rank_reclaim(const struct boundary *boundary,
                                    const uint64_t bytes[KVT_MEM_CLASSES], uint64_t host_bytes,
                                    bool growth, bool *fits, struct kvt_error *err);
/* Sends every committed row of the request to host that is not there or on its way. */
void rank_write_back(struct kvt_rank *rank, struct kvt_live *live, uint32_t tokens, kvt_ns now_ns);
/* Hot caches that are due, as far as there is room. */
KVT_CHECKED kvt_status rank_resize_due(const struct boundary *boundary, struct kvt_error *err);

/* ---- aside.c ---- */

/* Takes the request's memory; its rows stay on host where the policy wants that and there is
 * room. */
KVT_CHECKED kvt_status rank_set_aside(struct kvt_rank *rank, struct kvt_live *live, kvt_ns now_ns,
                                      struct kvt_error *err);
/* Copies of requests put aside go, last in the queue first and spare's never, until the node
 * has host_bytes. */
void rank_drop_copies(struct kvt_rank *rank, uint64_t host_bytes, const struct kvt_live *spare);
void rank_drop_copy(struct kvt_rank *rank, struct kvt_live *live);

#endif
