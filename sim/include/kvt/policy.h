/* kvt/policy.h -- what a policy designer implements.
 *
 * The host owns the state of every policy: it asks state_bytes(), allocates
 * zeroed memory, calls init(). A policy allocates nothing, keeps nothing
 * outside its state and no pointers within it, so that a copy of the bytes is
 * a copy of the policy. Policies never see the future unless they carry a
 * parameter `clairvoyant` (KVT_CLAIRVOYANT) set to true, which marks the result
 * as a bound. */
#ifndef KVT_POLICY_H
#define KVT_POLICY_H

#include "kvt/cpu.h"
#include "kvt/page_watch.h"
#include "kvt/plugin.h"

KVT_BEGIN_DECLS

/* ---- Replacement: which slots of one hot cache to give up ---------------- */

enum {
    KVT_LOOK_AHEAD_CALLS = 192 /* that a clairvoyant policy sees */
};
#define KVT_CALL_NEVER UINT32_MAX /* no call */

struct kvt_replacement_env {
    struct kvt_params params;
    uint32_t slot_count; /* slots of this hot cache */
    uint32_t top_k;      /* rows a query selects */
    uint64_t entity;     /* of (request, store), for random streams */
    uint64_t run_seed;
    const struct kvt_host *host;
    uint32_t rows_max; /* the store's rows are below it; kvt_hot_cache_new() sets it */
    /* Rows of the store in KVT_PAGE_ROWS tokens; 0 is taken as KVT_PAGE_ROWS by
     * kvt_hot_cache_new(). */
    uint32_t rows_per_page;
};

/* One call, as a replacement policy sees it. Bit s of hit_bits is slot s: it
 * holds a row that some query of this call reads. */
struct kvt_replacement_call {
    const uint64_t *hit_bits;    /* [(slot_count + 63) / 64] */
    const uint32_t *slot_rows;   /* [slot_count] row now held; KVT_ROW_NONE when empty */
    const uint32_t *missed_rows; /* [missed_count] in the order they are fetched */
    uint32_t missed_count;
    uint64_t step; /* decode step of the request, 0-based */
    /* Clairvoyant policies only, else NULL: [slot_count] of the row that each slot held as the call
     * began, how many calls of this cache from now a query selects it next: 1 to
     * KVT_LOOK_AHEAD_CALLS, or KVT_CALL_NEVER where none of so many does, or the slot was empty. */
    const uint32_t *next_use;
    kvt_slot *scratch; /* [slot_count] the policy's own until it returns; one scratch
                        * serves all caches, so nothing in it lasts */
    enum kvt_cpu cpu;  /* instructions that the policy's loops may use */
    /* Where the table sets wants_hit_order, else NULL and 0: [hit_count] the slots of hit_bits in
     * the union's order, which is by the first query that selects their row, then by row. */
    const kvt_slot *hit_slots;
    uint32_t hit_count;
};

/* An instance serves one hot cache: one (request, store). A resolve is a
 * batch: the slots that hit are known first, then victims are chosen for the
 * misses, then the policy learns of both at once. A policy that takes misses one
 * by one may do all of it in choose_victims(), which is followed by on_resolved()
 * with the slots that it wrote, and does the hits alone where fill_count is 0. */
struct kvt_replacement_policy {
    struct kvt_plugin_info info;

    size_t (*state_bytes)(const struct kvt_replacement_env *env);
    kvt_status (*init)(void *state, const struct kvt_replacement_env *env, struct kvt_error *err);

    /* Chooses `want` distinct slots outside hit_bits, empty ones first (lowest
     * first), then best victim first; equals in ascending slot order, so that
     * a parallel implementation can agree bit for bit. Returns how many it
     * wrote; fewer than `want` only when everything else hit. */
    uint32_t (*choose_victims)(void *state, const struct kvt_replacement_call *call, uint32_t want,
                               kvt_slot *victims);

    /* fills[i] now holds missed_rows[i], for i < fill_count; evicted_rows[i] is
     * what it held before (KVT_ROW_NONE when it was empty). fills are the
     * victims just chosen, in their order. Called with fill_count 0 when every
     * looked-up row hit; not called when nothing was looked up. */
    void (*on_resolved)(void *state, const struct kvt_replacement_call *call, const kvt_slot *fills,
                        const uint32_t *evicted_rows, uint32_t fill_count);

    /* The row in this slot was moved away: the slot is empty. No call is open. */
    void (*on_invalidate)(void *state, kvt_slot slot);

    /* The slot's rank, for the state hash: 0 is the next victim for a row that the cache has never
     * seen, if it may take any slot; of a policy that sees the future any order will do. Writes
     * ranks[slot_count], a permutation. */
    void (*ranks)(const void *state, uint32_t *ranks);

    bool (*is_sane)(const void *state); /* optional */

    /* After on_resolved() of the same call: rows that were staged have taken the slots of rows
     * that the call has read (kvt/resolver.h). slots[i] now holds rows[i], and evicted_rows[i]
     * before; a row that this call filled may be among those. Optional: each slot keeps its place
     * in the order, whatever is in it. */
    void (*on_promoted)(void *state, const struct kvt_replacement_call *call, const kvt_slot *slots,
                        const uint32_t *rows, const uint32_t *evicted_rows, uint32_t count);

    bool wants_hit_order; /* of a policy that takes hits one by one: hit_slots is given to it */

    /* Rows have their part of the cache, so that a victim may be occupied while slots of other
     * parts are empty; those that are given up are still the lowest, in their order. */
    bool is_partitioned;
};

/* ---- Residency: what of a request's history stays in HBM ------------------ */

enum kvt_mem_class {
    KVT_MEM_INDEX = 0, /* index rows of all tokens */
    KVT_MEM_HOT,       /* hot caches */
    KVT_MEM_TAIL,      /* ring of newest rows */
    KVT_MEM_RING,      /* draft rows */
    KVT_MEM_STAGING,   /* rows of one call that found no hot slot */
    KVT_MEM_PAYLOAD,   /* pages of history: required (resident) or optional */
    KVT_MEM_CLASSES
};
const char *kvt_mem_class_name(enum kvt_mem_class mem_class);

/* What must be in HBM for a request under this policy, and what of it is on host.
 *
 * A request with a hot cache holds tail, hot cache and staging; pages of its history
 * are optional. A request without one is *whole*: every row of it is in HBM. */
struct kvt_residency_needs {
    bool history_in_hbm;  /* every request is whole, for ever: nobody is given a hot cache */
    bool starts_whole;    /* a request starts whole where that fits, else with a hot cache, which
                           * it may be given later too */
    bool host_backing;    /* rows have a copy in host DRAM, and room for all of it from the start */
    bool optional_pages;  /* spare HBM may hold pages of history */
    bool deferred_backup; /* rows are written back when the policy says so, or when they must be;
                           * otherwise behind the step that made them */
    bool keeps_aside;     /* rows of a request that is put aside wait on host, where it has room;
                           * otherwise they are computed again */
    bool offloads_whole;  /* pages of finished requests are written to host, index rows with
                           * payload, where it has room; without host_backing only, with which
                           * payload is there already */
};

/* For keys and parameters that only matter where calls are resolved: beside the policies whose
 * needs() say history_in_hbm they are without effect. */
#define KVT_IDLE_WITHOUT_HOT_CACHES                                                                \
    {                                                                                              \
        .beside = "residency.policy", .values = "resident|prefix-offload",                         \
        .cure = "a residency.policy with hot caches, such as \"hisparse\""                         \
    }

struct kvt_residency_env {
    struct kvt_params params;
    uint32_t rank;
    uint64_t page_bytes;       /* of one page of history over all payload layers */
    uint64_t pool_bytes;       /* of the pool that optional pages live in, per GPU */
    uint64_t link_bytes_per_s; /* host to HBM, per GPU */
    uint64_t run_seed;
    const struct kvt_host *host;
    uint64_t hot_tokens; /* of the largest hot cache that a request can be given */
};

/* One running request of the rank, as it stands at the step boundary. */
struct kvt_residency_request {
    uint32_t id;
    uint32_t context_tokens; /* committed rows */
    uint32_t generated_tokens;
    uint32_t page_count;     /* pages that exist, the newest may be partly filled */
    uint32_t eligible_pages; /* backed and wholly outside the tail: pages [0, eligible); 0 while it
                              * is whole */
    uint32_t optional_pages; /* of those, ready in HBM */
    uint32_t filling_pages;  /* on their way: bytes counted, not readable yet */
    uint64_t missed_rows;    /* so far */
    uint64_t selected_rows;
    const uint64_t *resident_bits; /* [(page_count + 63) / 64] in HBM or filling */
    const uint64_t *filling_bits;  /* [(page_count + 63) / 64] */
    /* [page_count] how often rows of the page were selected, summed over the queries of all calls,
     * drafts that were rejected with them, and halved every KVT_PAGE_HITS_HALF_LIFE rounds of the
     * request; UINT16_MAX: so often or more. NULL unless wants_page_hits. */
    const uint16_t *page_hits;
    /* [page_count] the largest score that the newest committed query gave a row of the page, the
     * mean over the selectors; 0 before its first round, -INFINITY of a page that some store has
     * no row in yet. NULL unless wants_page_scores. */
    const float *page_scores;
    uint32_t future_output_tokens; /* that it will still generate; 0 unless clairvoyant */

    uint32_t hot_tokens;      /* of its hot cache; 0: none, it is whole */
    uint32_t next_hot_tokens; /* of the one that a resize gives it, from a later boundary on; 0:
                               * no resize is under way */
    uint32_t backed_tokens;   /* rows [0, backed) are on host */
    uint32_t queued_tokens;   /* rows [0, queued) are, or on their way; at least backed */
    uint32_t clean_pages;     /* backed and wholly outside the tail, also while it is whole */
    uint32_t kept_pages;      /* in HBM and protected: not backed, or partly in the tail. 0 while
                               * it is whole */
    uint64_t hot_cost_bytes;  /* of hot cache, tail and staging, were it given the largest */
    uint64_t
        reclaimable_bytes; /* free for others after a demotion now: of its optional pages, or
                            * of its clean pages less hot_cost_bytes; 0 where it does not pay */

    /* [page_count] how often rows of the page will be selected in the calls to come, a row once a
     * call, as far as is looked ahead: KVT_LOOK_AHEAD_CALLS calls of each store, and a round or
     * two more. 0 before its first round. NULL unless wants_page_future. */
    const uint32_t *page_future;
};

struct kvt_residency_view {
    kvt_ns now_ns;
    kvt_ns last_step_ns;      /* duration of the rank's last step, 0 before the first */
    kvt_ns since_boundary_ns; /* since the previous step boundary of this rank */
    uint32_t queue_length;    /* requests waiting for admission on this rank */
    uint64_t free_bytes;      /* of the pool that optional pages live in */
    uint64_t used_bytes[KVT_MEM_CLASSES];
    uint64_t h2d_backlog_bytes, d2h_backlog_bytes;
    const struct kvt_residency_request *requests; /* [request_count] ascending id */
    uint32_t request_count;
};

/* Effect at this boundary: release and demote. A refill is readable at the first boundary
 * behind its transfer, a backup counts there. A resize is due at the next boundary, or at the
 * first one after it that finds room. */
enum kvt_residency_verb {
    KVT_RESIDENCY_RELEASE, /* optional pages [first, first + count): drop their HBM copy */
    KVT_RESIDENCY_REFILL,  /* pages [first, first + count): bring them up from host */
    KVT_RESIDENCY_BACKUP,  /* rows up to `count` tokens: write them to host */
    KVT_RESIDENCY_RESIZE,  /* hot cache of `count` tokens, 1 to env.hot_tokens; optional pages from
                            * page `first` on go as it comes */
    KVT_RESIDENCY_DEMOTE   /* a hot cache of env.hot_tokens where it has none, and no page but
                            * what must stay */
};

struct kvt_residency_action {
    uint16_t verb; /* enum kvt_residency_verb */
    uint32_t request;
    uint32_t first, count;
};

/* A history about to come in. */
struct kvt_residency_import {
    uint32_t id;
    uint32_t context_tokens;
    uint32_t page_count; /* pages that may land: those with a row outside the tail */
    uint64_t free_bytes; /* for them */
};

/* Where it lands: the highest `pages` of its pages straight in HBM, the rest on host. */
struct kvt_residency_landing {
    uint32_t pages;
    bool write_later; /* their copy on host is made when the policy backs them up, which needs
                       * deferred_backup; otherwise once they are all in */
};

/* An instance serves one rank. The host checks each action and names the policy when one
 * is not allowed. */
struct kvt_residency_policy {
    struct kvt_plugin_info info;
    /* Asked for in exact runs only, and by no policy that holds every request whole for ever;
     * scores of laws that have them (kvt_law.page_scores). A run is refused otherwise. */
    bool wants_page_hits, wants_page_scores;

    size_t (*state_bytes)(const struct kvt_residency_env *env);
    kvt_status (*init)(void *state, const struct kvt_residency_env *env, struct kvt_error *err);

    void (*needs)(const void *state, struct kvt_residency_needs *needs);

    /* At a step boundary. Writes at most `capacity` actions, returns how many.
     * Optional: nothing moves. */
    uint32_t (*boundary)(void *state, const struct kvt_residency_view *view,
                         struct kvt_residency_action *actions, uint32_t capacity);

    /* A required allocation is short by want_bytes: write releases and demotions, first to go
     * first, whose bytes cover it. Asked again until there is enough; writing none while optional
     * pages are in the way ends the run. Optional for a policy without optional_pages: nothing is
     * released. */
    uint32_t (*reclaim)(void *state, const struct kvt_residency_view *view, uint64_t want_bytes,
                        struct kvt_residency_action *actions, uint32_t capacity);

    /* May this request be admitted now, memory allowing? Optional: yes. */
    bool (*admit)(void *state, const struct kvt_residency_view *view, uint32_t input_tokens);

    /* Not asked for a request that is whole. Needs optional_pages. More pages than there are, or
     * than free_bytes holds, are as many as there are. Optional: all lands on host. */
    void (*landing)(void *state, const struct kvt_residency_view *view,
                    const struct kvt_residency_import *import,
                    struct kvt_residency_landing *landing);

    bool wants_page_future; /* as wants_page_hits, of a policy that is clairvoyant; a run refuses
                             * it where rounds to come cannot be known, and on a GPU */
};

/* ---- Scheduling: who is admitted next, who is put aside ------------------- */

struct kvt_scheduling_request {
    kvt_ns arrival_ns;
    uint32_t id;
    uint32_t input_tokens, generated_tokens;
    uint32_t priority; /* of its SLO class; lower is more urgent */
};

enum {
    KVT_SCHEDULING_ENTRIES = 128 /* of the waiting, that a policy is shown entries of */
};

/* What it would take to let a waiting request in. A token is found where the rank's store has its
 * page, in HBM or on host, or a copy of its own waits on host since it was put aside. */
struct kvt_scheduling_entry {
    uint32_t found_tokens;
    uint32_t load_tokens;      /* of those, some bytes must come up from host first */
    uint32_t new_tokens;       /* that are not found: computed here, or brought in from outside */
    uint32_t in_flight_tokens; /* of load_tokens and new_tokens: a request that begins alike is
                                * coming in, and with it they will be there. 0 of one that was put
                                * aside */
    uint64_t load_bytes;
    uint64_t context_key; /* of the last page found: who has the same has found the same pages; 0
                           * where no page was */
    uint32_t passed_by;   /* how often somebody behind it was let in while it waits */
};

/* The rank as it stands when somebody is to be let in. */
struct kvt_scheduling_view {
    kvt_ns now_ns;
    kvt_ns last_step_ns;         /* of the rank's last step, 0 before the first */
    kvt_ns last_fetch_ns;        /* of that, waiting for rows over the link */
    uint32_t last_step_requests; /* of this rank, that decoded in it */
    uint32_t running;            /* requests that decode */
    uint32_t coming_in;          /* let in, and not in the batch yet */
    uint64_t free_bytes; /* of the pool that payload lives in, optional pages not among them */
    uint64_t h2d_backlog_bytes, d2h_backlog_bytes;
    /* NULL and 0 unless the table sets wants_entries. */
    const struct kvt_scheduling_entry *entries; /* [entry_count] of the first of the waiting */
    uint32_t entry_count;        /* all of them, but no more than KVT_SCHEDULING_ENTRIES */
    uint64_t coming_load_tokens; /* of those coming in: on their way up from host, ... */
    uint64_t coming_new_tokens;  /* ... and to be computed, or on their way from outside */
};

struct kvt_scheduling_env {
    struct kvt_params params;
    uint64_t run_seed;
    const struct kvt_host *host;
};

struct kvt_scheduling_policy {
    struct kvt_plugin_info info;
    size_t (*state_bytes)(const struct kvt_scheduling_env *env);
    kvt_status (*init)(void *state, const struct kvt_scheduling_env *env, struct kvt_error *err);

    /* Index of the waiting request to try next, or count for none. waiting is in
     * queue order: preempted ones first, then by arrival. view is NULL unless wants_view or
     * wants_entries is set. While nobody runs or is coming in somebody must be named, or nothing
     * will ever happen: without a view, which would tell, whenever somebody waits. */
    uint32_t (*next)(void *state, const struct kvt_scheduling_view *view,
                     const struct kvt_scheduling_request *waiting, uint32_t count);

    /* Required memory is short and no optional page is left: index of the running
     * request to put aside, or count for none (then the run stalls). running is in
     * order of admission. */
    uint32_t (*preempt)(void *state, const struct kvt_scheduling_request *running, uint32_t count);

    bool wants_view; /* next() is shown the rank, which costs little */

    /* The view, whether wants_view is set or not, and its entries. Prompts of the waiting are
     * looked up for them, which costs about a microsecond per 20 pages whenever the store has
     * changed. */
    bool wants_entries;
};

static inline bool kvt_scheduling_sees_rank(const struct kvt_scheduling_policy *policy)
{
    return policy->wants_view || policy->wants_entries;
}

/* ---- Router: which rank an arriving request goes to ------------------------ */

/* A rank on which the request could run to its end. */
struct kvt_router_rank {
    uint32_t waiting, running;  /* requests; waiting includes those whose prompt is computed
                                 * elsewhere for it, running those being imported */
    uint32_t slots;             /* requests of the scenario's input length that fit */
    uint64_t free_bytes;        /* optional pages counted as free */
    uint32_t prefix_hit_tokens; /* of this prompt, found in the rank's store of prefixes */
};

struct kvt_router_env {
    struct kvt_params params;
    uint32_t rank_count;
    uint64_t run_seed;
    const struct kvt_host *host;
};

struct kvt_router_policy {
    struct kvt_plugin_info info;
    size_t (*state_bytes)(const struct kvt_router_env *env);
    kvt_status (*init)(void *state, const struct kvt_router_env *env, struct kvt_error *err);
    /* The index in ranks[rank_count] of the one to take it; rank_count is at least 1. */
    uint32_t (*route)(void *state, uint32_t request, uint32_t input_tokens,
                      const struct kvt_router_rank *ranks, uint32_t rank_count);
};

KVT_END_DECLS
#endif
