/* rank_private.h -- what the files of serve/ share. */
#ifndef KVT_RANK_PRIVATE_H
#define KVT_RANK_PRIVATE_H

#include "kvt/observer.h"
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
    DECIDE_KEEP,
    DECIDE_ADOPT,
    DECIDE_KEEP_COPY
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

/* ---- rank.c ---- */

/* Over the link that a transfer of its kind takes; returns when it is there. */
kvt_ns rank_send(struct kvt_rank *rank, enum kvt_transfer_kind kind, uint32_t request,
                 kvt_ns now_ns, uint64_t bytes);
/* Tells the observer, if any. bytes over all GPUs, or copies. */
void rank_tell(const struct kvt_rank *rank, enum kvt_transfer_kind kind, uint32_t request,
               kvt_ns from_ns, kvt_ns to_ns, uint64_t bytes);

/* Gives back what is its own and takes it off the running batch; what it holds of the store it
 * goes on holding. */
void rank_give_up(struct kvt_rank *rank, struct kvt_live *live);
/* As at first: they know of nobody. */
KVT_CHECKED kvt_status rank_restart_policies(struct kvt_rank *rank, struct kvt_error *err);

/* ---- boundary.c ---- */

/* Refuses, naming the scheduling policy, a pick that is neither a request nor the count. */
KVT_CHECKED kvt_status rank_check_pick(const struct kvt_rank *rank, const char *function,
                                       uint32_t pick, uint32_t count, struct kvt_error *err);

/* How many more bytes of each class a request must hold with `tokens` rows and a hot cache of
 * hot_tokens. Pages beside a hot cache are nothing that it must hold. */
KVT_CHECKED kvt_status rank_missing_bytes(const struct kvt_rank *rank, const struct kvt_live *live,
                                          uint32_t tokens, uint32_t hot_tokens,
                                          uint64_t missing[KVT_MEM_CLASSES], uint64_t *host_bytes,
                                          struct kvt_error *err);

/* ---- admission.c ---- */

/* Waiting requests come in while everything they must have fits. */
KVT_CHECKED kvt_status rank_admit_all(const struct boundary *boundary, struct kvt_error *err);

/* ---- view.c ---- */

/* The running batch as the residency policy sees it; borrowed until the next call. */
KVT_CHECKED kvt_status rank_view(struct kvt_rank *rank, kvt_ns now_ns,
                                 struct kvt_residency_view *view, struct kvt_error *err);
/* What a demotion would free of the pool that optional pages live in. */
uint64_t rank_reclaimable_bytes(const struct kvt_rank *rank, const struct kvt_live *live);

/* ---- entries.c ---- */

/* The rank as the scheduling policy sees it; borrowed until the next call. */
KVT_CHECKED kvt_status rank_scheduling_view(struct kvt_rank *rank, kvt_ns now_ns,
                                            struct kvt_scheduling_view *view,
                                            struct kvt_error *err);
/* What it takes to let a waiting request in. */
KVT_CHECKED kvt_status rank_entry_of(const struct kvt_rank *rank, struct kvt_live *live,
                                     struct kvt_scheduling_entry *entry, struct kvt_error *err);

/* ---- moves.c ---- */

/* Refills whose transfer has ended. */
void rank_end_fills(struct kvt_rank *rank, kvt_ns now_ns);
/* Refuses, naming the policy, more actions than it was given room for. */
KVT_CHECKED kvt_status rank_check_action_count(const struct kvt_rank *rank, uint32_t count,
                                               struct kvt_error *err);
/* Carries out one action, or names the policy and what it may not do. */
KVT_CHECKED kvt_status rank_act(const struct boundary *boundary,
                                const struct kvt_residency_action *action, struct kvt_error *err);
/* Sends every committed row of the request to host that is not there or on its way. */
void rank_write_back(struct kvt_rank *rank, struct kvt_live *live, uint32_t tokens, kvt_ns now_ns);
/* Hot caches that are due, as far as there is room. */
KVT_CHECKED kvt_status rank_resize_due(const struct boundary *boundary, struct kvt_error *err);

/* ---- room.c ---- */

/* Makes room for bytes[]: out of what nobody holds, then by having the policy release optional
 * pages and demote. *fits says whether they now fit; nothing is moved where nothing can help. */
KVT_CHECKED kvt_status rank_reclaim(const struct boundary *boundary,
                                    const uint64_t bytes[KVT_MEM_CLASSES], uint64_t host_bytes,
                                    bool growth, bool *fits, struct kvt_error *err);
/* Whether all that could be given up, and the policy may, would make the room. */
bool rank_could_make_room(const struct kvt_rank *rank, const uint64_t bytes[KVT_MEM_CLASSES],
                          uint64_t host_bytes, bool growth);
/* Most bytes that could be free in a pool: what is, what nobody holds, and what is optional. */
uint64_t rank_available_bytes(const struct kvt_rank *rank, uint8_t pool);
/* Room out of what nobody holds alone, for what need not be: returns whether bytes[] fit. */
bool rank_displace_idle(struct kvt_rank *rank, const uint64_t bytes[KVT_MEM_CLASSES],
                        uint64_t host_bytes, bool growth);
/* The same, and takes them. */
bool rank_take(struct kvt_rank *rank, struct kvt_live *live, const uint64_t bytes[KVT_MEM_CLASSES],
               uint64_t host_bytes, bool growth);
/* Host DRAM out of what nobody holds, on this rank and others of the node; then out of copies of
 * requests put aside, spare's never. */
void rank_make_host_room(const struct boundary *boundary, uint64_t host_bytes,
                         const struct kvt_live *spare);

/* ---- reuse.c ---- */

KVT_CHECKED kvt_status rank_open_prefixes(struct kvt_rank *rank, struct kvt_error *err);
/* Pages of the prompt that the store has, of those that this policy can use, and which copies. */
uint32_t rank_look_up(const struct kvt_rank *rank, const struct kvt_shared *shared,
                      uint32_t input_tokens, kvt_prefix_homes *homes);
/* A request that is about to be admitted holds what the store has of its prompt. */
void rank_adopt_prefix(struct kvt_rank *rank, struct kvt_live *live);
/* Of that, payload in HBM: no longer. */
void rank_let_go_of_rows(struct kvt_rank *rank, struct kvt_live *live);
/* It loses its HBM: of what it holds of the store, payload on host from the first page on and index
 * rows there stay held, and nothing else. */
void rank_keep_on_host(struct kvt_rank *rank, struct kvt_live *live);
/* Of the pages held, those with index rows on host. */
uint32_t rank_index_pages_on_host(const struct kvt_rank *rank, const struct kvt_live *live);
/* It is admitted, its pages are fresh: payload in HBM goes over to it where it can be its own, and
 * what has to come up from host is counted. */
void rank_use_prefix(struct kvt_rank *rank, struct kvt_live *live);
/* Its history is in: whole pages of its prompt go to the store, where it holds them. */
KVT_CHECKED kvt_status rank_share_prompt(struct kvt_rank *rank, struct kvt_live *live,
                                         struct kvt_error *err);
/* When the pages that it found are on host, now_ns or later. */
kvt_ns rank_prefix_ready_ns(const struct kvt_rank *rank, const struct kvt_live *live,
                            kvt_ns now_ns);
/* It holds nothing of the store any more. */
void rank_let_go(struct kvt_rank *rank, struct kvt_live *live);

/* ---- aside.c ---- */

/* Takes the request's memory; its rows stay on host where the policy wants that and there is
 * room. */
KVT_CHECKED kvt_status rank_set_aside(struct kvt_rank *rank, struct kvt_live *live, kvt_ns now_ns,
                                      struct kvt_error *err);
/* Copies of requests put aside go, last in the queue first and spare's never, until the node
 * has host_bytes. */
void rank_drop_copies(struct kvt_rank *rank, uint64_t host_bytes, const struct kvt_live *spare);
void rank_drop_copy(struct kvt_rank *rank, struct kvt_live *live);
/* Rows of payload that need not be computed or come from outside: on host since it was put aside,
 * or found. */
uint32_t rank_known_tokens(const struct kvt_live *live);
/* Of those, the ones whose index rows need not either: all, or none. */
uint32_t rank_known_index_tokens(const struct kvt_live *live);

#endif
