/* kvt/rank.h -- one decoding rank: its queue, its batch, its memory.
 *
 * A rank is a tensor-parallel group; its GPUs hold the same rows. Requests wait
 * here, are admitted when everything they must have fits, are imported first come
 * first served, and decode in the running batch until they finish or are put aside.
 * Memory moves at step boundaries only: what is ready, released or backed up takes
 * effect there. The rank knows no clock of its own; its owner says what time it is. */
#ifndef KVT_RANK_H
#define KVT_RANK_H

#include "kvt/layout.h"
#include "kvt/memory.h"
#include "kvt/page_watch.h"
#include "kvt/pages.h"
#include "kvt/policy.h"
#include "kvt/prefill.h"
#include "kvt/prefix_pool.h"
#include "kvt/request.h"
#include "kvt/timing.h"

KVT_BEGIN_DECLS

/* What a request's history consists of, and what of it the rank's prefix store has. The pages it
 * found when it was admitted are [0, page_count); their bytes stay on the store's account, once
 * for all who hold them, and are nothing that the request must hold itself. */
struct kvt_shared {
    uint64_t *keys;          /* [key_count] as kvt_request_spec.page_keys; its own */
    kvt_prefix_homes *homes; /* [key_count] of the pages found, the copies that it holds */
    uint32_t key_count, page_count;
    uint64_t bytes[KVT_MEM_CLASSES]; /* of the copies held, by class, ... */
    uint64_t host_bytes;             /* ... and payload on host */
    uint64_t recall_bytes;           /* of the pages found, on host and wanted in HBM */
    uint64_t looked_up_at; /* state of the store that `seen` is of; 0: none, nobody has looked */
    struct kvt_scheduling_entry seen; /* while it waits: what is found, nothing in flight */
};

/* A copy of keys[key_count]. On failure nothing is allocated. */
KVT_CHECKED kvt_status kvt_shared_init(struct kvt_shared *shared, const uint64_t *keys,
                                       uint32_t key_count, struct kvt_error *err);
void kvt_shared_fini(struct kvt_shared *shared); /* of one that is zeroed too */

enum {
    KVT_LIVE_WAITS = 8,
    KVT_LIVE_TOKEN_PARTS = 16
};

/* A request that has arrived and not ended. */
struct kvt_live {
    uint32_t id; /* also the index of its record */
    uint32_t input_tokens, output_tokens;
    uint32_t max_tokens;       /* context it may grow to, for sizing its hot caches */
    uint32_t generated_tokens; /* delivered so far; 0 before the first */
    uint32_t priority;
    kvt_ns arrival_ns;
    uint64_t step;                       /* decode steps taken */
    uint64_t selected_rows, missed_rows; /* of its followed calls, so far */
    uint64_t import_bytes_per_s;         /* into HBM, while it is being imported */
    bool has_lane;                       /* known to the backend */
    void *drafting;                      /* the speculation method's state of it; its owner's */
    uint32_t round_tokens;               /* that the step under way commits; 0: it sits out */
    bool blocked;                        /* sits this step out for want of memory */
    uint32_t hot_tokens;      /* of its hot cache, as admitted or resized; 0: it is whole */
    uint64_t hot_cost_bytes;  /* of the largest, with tail and staging */
    uint32_t next_hot_tokens; /* of the one that a resize gives it; 0: none is due */
    uint32_t next_first;      /* its optional pages from here on go as that comes */
    bool writes_later;        /* what landed in HBM; else once its import is over */
    uint32_t aside_tokens;    /* put aside: rows that wait on host, index rows with them */
    kvt_ns aside_ns;          /* when they are all there */
    bool aside_lacks_index;   /* their index rows do not: they were lost with a rank */
    bool was_admitted;        /* what it was admitted with has been counted */
    uint32_t fault;           /* 1 + the fault that interrupted it; 0: none, or it decodes again */
    uint32_t epoch;           /* how often it was interrupted: what was awaited before has gone */
    bool was_prefilled;       /* its prompt has been computed elsewhere, and waits there */
    uint64_t prefill_turn;    /* in which the prefill pool has begun with it */
    uint32_t counted_pages;   /* found when its prefill elsewhere began, and not computed there */
    uint32_t prefill_left;    /* tokens of its history still to be computed on its rank */
    uint32_t prefill_chunk;   /* of those, in the step under way */
    uint32_t load_tokens;     /* of its history, on their way up while it comes in; 0 where the
                               * scheduling policy wants no entries */
    uint32_t passed_by;       /* how often somebody behind it was let in while it waits */
    struct kvt_shared shared;
    struct kvt_page_watch watch;    /* of its pages, once admitted; no pages: nobody asks */
    uint64_t tag;                   /* the workload's own */
    kvt_ns wait_since_ns;           /* before its first token: since when it is where it is, ... */
    uint32_t wait_part;             /* ... and where, its owner's numbers */
    kvt_ns wait_ns[KVT_LIVE_WAITS]; /* and how long it was where */
    kvt_ns token_ns[KVT_LIVE_TOKEN_PARTS]; /* after it: of what the steps that it was in consist */
    struct kvt_holding holding;
    struct kvt_pages pages;
};

/* Rows committed: the prompt, and every generated token but the newest, whose row
 * the next step writes. */
static inline uint32_t kvt_live_context(const struct kvt_live *live)
{
    return live->input_tokens + (live->generated_tokens > 0 ? live->generated_tokens - 1 : 0);
}

struct kvt_live_list {
    struct kvt_live **items; /* [count], in order */
    uint32_t count, capacity;
};

/* Who waits to be admitted, and the same as a scheduling policy sees them. */
struct kvt_wait_queue {
    struct kvt_live **items;              /* [count], in order */
    struct kvt_scheduling_request *views; /* [count] */
    uint32_t count, capacity;
    struct kvt_live **item_places;              /* [capacity], in which items lie */
    struct kvt_scheduling_request *view_places; /* likewise */
};

/* One direction of a rank's link: transfers one after the other. */
struct kvt_link {
    uint64_t bytes_per_s;
    kvt_ns free_ns; /* when the last transfer queued so far ends */
};
/* Queues bytes behind what is under way; returns when they have arrived. */
kvt_ns kvt_link_send(struct kvt_link *link, kvt_ns now_ns, uint64_t bytes);
uint64_t kvt_link_backlog_bytes(const struct kvt_link *link, kvt_ns now_ns);

struct kvt_observer;

struct kvt_rank_env {
    uint32_t index;
    const struct kvt_llm *llm;
    const struct kvt_drafter *drafter;
    const struct kvt_hardware *hardware;
    uint64_t hot_tokens;
    uint32_t queries_max;
    double staging_fraction;                                          /* as in kvt_session_spec */
    uint32_t draft_budget_tokens;                                     /* likewise */
    uint64_t index_pool_bytes, rows_pool_bytes, growth_reserve_bytes; /* per GPU */
    struct kvt_host_pool *host;                                       /* borrowed */
    uint32_t host_copies;
    uint64_t index_offload_bytes; /* host DRAM for index rows of finished requests, of one copy */
    bool prefills_here;           /* what is not found is computed here; else it is imported */
    bool prefill_computes;        /* prompts are computed, here or elsewhere; else they exist */
    const struct kvt_prefill_cost *prefill_cost; /* what they take here; NULL: a rate says it */
    struct kvt_choice residency, scheduling, import;
    const char *speculation; /* name of the method */
    uint64_t run_seed;
    uint32_t gpus;                       /* of the rank: its tensor-parallel peers */
    const struct kvt_observer *observer; /* who watches; borrowed; NULL: nobody */
};

/* What a rank did since its owner last looked. */
struct kvt_rank_counters {
    uint64_t admitted, admitted_input_tokens, preemptions;
    uint64_t prefix_hit_tokens; /* of their prompts, found in the prefix store */
    uint64_t reprefill_tokens; /* of requests let in again whose rows were neither kept nor found */
    uint64_t import_hbm_bytes, import_host_bytes; /* from outside */
    uint64_t pages_filled, pages_released, fill_bytes;
    uint64_t pages_landed;  /* straight in HBM as their history came in */
    uint64_t pages_kept;    /* that stayed in HBM as they left the tail */
    uint64_t backup_bytes;  /* rows written to host, those of requests put aside with them */
    uint64_t backup_forced; /* write-backs that rows leaving the tail could not do without */
    uint64_t resizes;       /* hot caches given or resized, demotions among them */
    uint64_t demotions;
    uint64_t recalled_bytes; /* from host to HBM, of what was put aside or found there */
    uint64_t copies_dropped; /* of requests put aside, for want of host DRAM */
};

struct kvt_rank;

/* What the rank tells its owner as it happens. */
struct kvt_rank_hooks {
    void *context;
    /* It loses its memory and waits again; still as it was. */
    void (*put_aside)(void *context, struct kvt_live *live);
    /* From the coming step on it has a hot cache of live->hot_tokens: its first, which is empty,
     * or another one than before. */
    kvt_status (*resized)(void *context, struct kvt_live *live, struct kvt_error *err);
    /* It is the next to be admitted, and of the pages counted on some have been reclaimed: it has
     * left the queue and must be prefilled again so far. Optional where nobody counts on pages. */
    kvt_status (*prefill_again)(void *context, struct kvt_live *live, struct kvt_error *err);
    /* Its node's DRAM is short by host_bytes of one of its copies: other ranks of the node give up
     * what nobody holds (kvt_rank_yield_host()). Optional: they do not. */
    void (*make_host_room)(void *context, const struct kvt_rank *rank, uint64_t host_bytes);
};

/* Who was refused last for want of HBM, and what there could have been: nothing is looked up for
 * him again before there could be more. */
struct kvt_refused {
    const struct kvt_live *live; /* NULL: nobody */
    uint64_t available_bytes[2]; /* of each pool: free, idle and optional */
    uint64_t reserve_bytes;      /* that were left, for whoever has grown */
    uint64_t inserted_pages;     /* that the prefix store has ever been given */
};

struct kvt_fill {          /* optional pages on their way up */
    struct kvt_live *live; /* NULL: it has lost its memory meanwhile */
    uint32_t first, count;
    kvt_ns done_ns;
};

struct kvt_prefix_write { /* pages of a prompt that begins with this key */
    uint64_t first_key;
    kvt_ns done_ns;
};

struct kvt_rank {
    struct kvt_rank_env env;
    struct kvt_rank_memory memory;
    struct kvt_residency_needs needs;
    uint32_t hot_tokens;          /* of the largest hot cache; 0: nobody is given one */
    bool sees_future;             /* the residency policy does: it is clairvoyant */
    uint64_t page_bytes;          /* of one page of history over all payload layers */
    uint64_t row_bytes_per_token; /* payload over all layers, rounded up */
    const struct kvt_residency_policy *residency;
    const struct kvt_scheduling_policy *scheduling;
    const struct kvt_import_law *import;
    void *residency_state, *scheduling_state, *import_state;
    struct kvt_wait_queue waiting;  /* put aside ones first, then by arrival */
    struct kvt_live_list importing; /* admitted, first come first served */
    uint32_t imports_under_way;     /* the first so many of importing */
    uint64_t import_bytes_per_s;    /* of those, into each GPU's HBM */
    struct kvt_live_list arrived;   /* imported, joining the batch at the next boundary */
    struct kvt_live_list running;   /* in order of admission */
    struct kvt_link h2d, d2h;
    struct kvt_holding staging;             /* beside what its sessions hold of it */
    struct kvt_prefix_pool prefixes;        /* pages that finished requests left */
    struct kvt_prefix_write *prefix_writes; /* [prefix_write_count] of them on their way to host */
    uint32_t prefix_write_count, prefix_write_capacity;
    struct kvt_live_list prefilling; /* of importing, those whose prompts are computed here */
    struct kvt_fill *fills;          /* ring [fill_capacity] */
    uint32_t fill_head, fill_count, fill_capacity;
    kvt_ns last_boundary_ns, last_step_ns;
    kvt_ns last_fetch_ns; /* of the last step, waiting for rows over the link */
    uint32_t last_step_requests;
    struct kvt_refused refused;
    bool host_short;     /* the next request in the queue found no host DRAM */
    bool admission_held; /* somebody was put aside: nobody comes in until somebody has finished */
    struct kvt_residency_request *views; /* scratch [view_capacity] */
    uint32_t view_capacity;
    struct kvt_residency_action *actions; /* scratch */
    kvt_prefix_homes *homes;              /* scratch [home_capacity] */
    uint32_t home_capacity;
    struct kvt_scheduling_request *candidates; /* scratch [candidate_capacity] */
    uint32_t candidate_capacity;
    struct kvt_scheduling_entry *entries; /* scratch [KVT_SCHEDULING_ENTRIES]; NULL: nobody asks */
    struct kvt_rank_counters counters;
    uint64_t *decisions;                /* borrowed: the run's chain */
    uint64_t ready_rows, eligible_rows; /* of the running batch at the last boundary */
};

KVT_CHECKED kvt_status kvt_rank_init(struct kvt_rank *rank, const struct kvt_rank_env *env,
                                     uint64_t *decisions, struct kvt_error *err);
/* Frees the lists, not the requests in them. */
void kvt_rank_fini(struct kvt_rank *rank);

/* What a request must hold with `tokens` rows and a hot cache of hot_tokens, 0: none; and what
 * of it is on host. */
KVT_CHECKED kvt_status kvt_rank_required(const struct kvt_rank *rank, uint32_t tokens,
                                         uint32_t max_tokens, uint32_t hot_tokens,
                                         struct kvt_session_bytes *out, struct kvt_error *err);
/* Whether a request could ever run to its last token on this rank, were it empty. */
KVT_CHECKED kvt_status kvt_rank_can_ever_fit(const struct kvt_rank *rank, uint32_t input_tokens,
                                             uint32_t last_tokens, uint32_t max_tokens, bool *fits,
                                             struct kvt_error *err);
/* floor(pool / required), the pool less the staging that the rank keeps: how many such requests the
 * rank's pools hold at once, each as small as the policy allows, and how many its node's DRAM does
 * (by_host may be NULL). */
KVT_CHECKED kvt_status kvt_rank_slots(const struct kvt_rank *rank, uint32_t input_tokens,
                                      uint32_t max_tokens, uint64_t *by_pools, uint64_t *by_host,
                                      struct kvt_error *err);

/* The same by each of its pools, in the best of the ways that the policy has, with hot caches
 * hot_factor times as large; UINT64_MAX: nothing of such a request is in that pool. */
KVT_CHECKED kvt_status kvt_rank_slots_by_pool(const struct kvt_rank *rank, uint32_t input_tokens,
                                              uint32_t max_tokens, uint32_t hot_factor,
                                              uint64_t by_pool[2], uint64_t *by_host,
                                              struct kvt_error *err);

KVT_CHECKED kvt_status kvt_rank_enqueue(struct kvt_rank *rank, struct kvt_live *live,
                                        struct kvt_error *err);

/* Everything that happens between two steps: transfers that have ended, pages that have left
 * the tail, requests that have been imported, hot caches that are due, room for another round
 * of each (releasing optional pages, then putting requests aside), admissions, and what the
 * residency policy moves. Before the coming step each request wants
 * kvt_pages_tail_ready_ns(). */
KVT_CHECKED kvt_status kvt_rank_boundary(struct kvt_rank *rank, kvt_ns now_ns,
                                         const struct kvt_rank_hooks *hooks, struct kvt_error *err);

/* When the next transfer ends that a blocked request may be waiting for; KVT_NS_NEVER: none. */
kvt_ns kvt_rank_due_ns(const struct kvt_rank *rank);

/* The next import to begin, if its turn has come: NULL when none. The policy says how much of
 * it lands in HBM. A request that had been put aside is brought back from host as far as it
 * is there. */
KVT_CHECKED kvt_status kvt_rank_begin_import(struct kvt_rank *rank, kvt_ns now_ns,
                                             struct kvt_live **live, kvt_ns *duration_ns,
                                             struct kvt_error *err);
/* It has come in; it joins the batch at the next boundary unless it is at its end. */
KVT_CHECKED kvt_status kvt_rank_end_import(struct kvt_rank *rank, kvt_ns now_ns,
                                           struct kvt_live *live, bool joins,
                                           struct kvt_error *err);

/* After a step: the round's tokens are committed; where they are written at once, their
 * write-back, which kvt_rank_queue_backup() has queued, ends at done_ns. */
void kvt_live_commit(struct kvt_live *live, kvt_ns done_ns);
/* When the write-backs of a step that commits so many tokens will be done; now_ns where rows are
 * not written at once. */
kvt_ns kvt_rank_queue_backup(struct kvt_rank *rank, kvt_ns now_ns, uint64_t tokens);

/* Gives back everything a request holds and takes it off the running batch. */
void kvt_rank_release(struct kvt_rank *rank, struct kvt_live *live);
/* The same at its end: whole pages whose keys are known stay with the prefix store, readable until
 * their bytes are wanted. Rows of them that are not on host and belong there are sent. */
KVT_CHECKED kvt_status kvt_rank_finish(struct kvt_rank *rank, struct kvt_live *live, kvt_ns now_ns,
                                       struct kvt_error *err);

/* How many pages of the prompt a request would find on this rank, from the first on. */
uint32_t kvt_rank_prefix_pages(const struct kvt_rank *rank, const struct kvt_live *live);
/* What nobody holds counts as free: of the pool that optional pages live in. */
uint64_t kvt_rank_free_bytes(const struct kvt_rank *rank);
/* Gives up payload on host that nobody holds, want_bytes of it or all; returns how much of one
 * copy has come free, times the copies that the node keeps. */
uint64_t kvt_rank_yield_host(struct kvt_rank *rank, uint64_t want_bytes);

/* Prompts computed here. A request whose import is over and that has prefill_left waits its turn;
 * it counts as being imported until kvt_rank_end_import(). */
KVT_CHECKED kvt_status kvt_rank_queue_prefill(struct kvt_rank *rank, struct kvt_live *live,
                                              struct kvt_error *err);
/* Shares out up to budget_tokens of the coming step, first come first served, and adds them to
 * *load. */
void kvt_rank_share_prefill(struct kvt_rank *rank, uint32_t budget_tokens,
                            struct kvt_rank_load *load);
/* After the step: the next request whose prompt is computed leaves, NULL when there is none. Its
 * rows that belong on host are there at *done_ns. */
struct kvt_live *kvt_rank_end_prefill(struct kvt_rank *rank, kvt_ns now_ns, kvt_ns *done_ns);

/* ---- loss.c: a rank fails ---- */

/* What becomes of host copies as the rank's HBM goes. */
struct kvt_rank_fate {
    bool keeps_host;  /* rows that are on host by then outlive it ... */
    bool keeps_index; /* ... and so do their index rows, of which there are copies */
};
/* Added to: what went, and what of host DRAM is kept. Host bytes of one copy. */
struct kvt_rank_loss {
    uint64_t hbm_bytes[KVT_MEM_CLASSES]; /* of each GPU, staging that the rank keeps left out */
    uint64_t host_bytes, host_kept_bytes;
    uint64_t prefix_pages;
};
/* The rank is empty afterwards, as it was at first, with its queue: everybody in its lists belongs
 * to the caller. requests[count] are all of them, in the order in which they may keep what is left
 * of them on host: live->aside_tokens rows, held in the DRAM of this rank's node until the request
 * is let in by a rank of that node, or kvt_rank_forget_copy(). */
KVT_CHECKED kvt_status kvt_rank_lose(struct kvt_rank *rank, kvt_ns now_ns,
                                     const struct kvt_rank_fate *fate,
                                     struct kvt_live *const *requests, uint32_t count,
                                     struct kvt_rank_loss *loss, struct kvt_error *err);
/* Of a request in no list: what it holds on host goes. rank: any of that node. */
void kvt_rank_forget_copy(struct kvt_rank *rank, struct kvt_live *live);
/* Before everybody who waits. */
KVT_CHECKED kvt_status kvt_rank_enqueue_first(struct kvt_rank *rank, struct kvt_live *live,
                                              struct kvt_error *err);
/* What is sent from now on takes the link at this share of its hardware's rates. */
void kvt_rank_set_link(struct kvt_rank *rank, double factor);

/* Bytes, pages and counts agree, and every committed row has a home by now_ns. Checked at the
 * end of every run, and by tests. */
bool kvt_rank_is_sane(const struct kvt_rank *rank, kvt_ns now_ns);

KVT_END_DECLS
#endif
