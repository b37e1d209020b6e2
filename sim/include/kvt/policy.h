/* kvt/policy.h -- what a policy designer implements.
 *
 * The host owns the state of every policy: it asks state_bytes(), allocates
 * zeroed memory, calls init(). A policy allocates nothing, keeps nothing
 * outside its state and no pointers within it, so that a copy of the bytes is
 * a copy of the policy. Policies never see the future unless they carry a
 * parameter `clairvoyant` set to true, which marks the result as a bound. */
#ifndef KVT_POLICY_H
#define KVT_POLICY_H

#include "kvt/plugin.h"

KVT_BEGIN_DECLS

/* ---- Replacement: which slots of one hot cache to give up ---------------- */

struct kvt_replacement_env {
    struct kvt_params params;
    uint32_t slot_count; /* slots of this hot cache */
    uint32_t top_k;      /* rows a query selects */
    uint64_t entity;     /* of (request, store), for random streams */
    uint64_t run_seed;
    const struct kvt_host *host;
};

/* One call, as a replacement policy sees it. Bit s of hit_bits is slot s: it
 * holds a row that some query of this call reads. */
struct kvt_replacement_call {
    const uint64_t *hit_bits;    /* [(slot_count + 63) / 64] */
    const uint32_t *slot_rows;   /* [slot_count] row now held; KVT_SLOT_NONE when empty */
    const uint32_t *missed_rows; /* [missed_count] in the order they are fetched */
    uint32_t missed_count;
    uint64_t step;            /* decode step of the request, 0-based */
    const uint32_t *next_use; /* optional [slot_count], only for clairvoyant policies */
    kvt_slot *scratch;        /* [slot_count] the policy's own until it returns; one scratch
                               * serves all caches, so nothing in it lasts */
};

/* An instance serves one hot cache: one (request, store). A resolve is a
 * batch: the slots that hit are known first, then victims are chosen for the
 * misses, then the policy learns of both at once. */
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
     * what it held before (KVT_SLOT_NONE when it was empty). fills are the
     * victims just chosen, in their order. Called with fill_count 0 when every
     * looked-up row hit; not called when nothing was looked up. */
    void (*on_resolved)(void *state, const struct kvt_replacement_call *call, const kvt_slot *fills,
                        const uint32_t *evicted_rows, uint32_t fill_count);

    /* The row in this slot was moved away: the slot is empty. No call is open. */
    void (*on_invalidate)(void *state, kvt_slot slot);

    /* The slot's recency rank, for the state hash: 0 is the next victim. Writes
     * ranks[slot_count]. */
    void (*ranks)(const void *state, uint32_t *ranks);

    bool (*is_sane)(const void *state); /* optional */
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

/* What must be in HBM for a request under this policy. */
struct kvt_residency_needs {
    bool history_in_hbm; /* every row stays in HBM: no hot cache, no tail, no host copy */
    bool host_backing;   /* a full copy in host DRAM */
    bool optional_pages; /* spare HBM may hold pages of history */
};

struct kvt_residency_env {
    struct kvt_params params;
    uint32_t rank;
    uint64_t page_bytes;       /* of one page of history over all payload layers */
    uint64_t pool_bytes;       /* of the pool that optional pages live in, per GPU */
    uint64_t link_bytes_per_s; /* host to HBM, per GPU */
    uint64_t run_seed;
    const struct kvt_host *host;
};

/* One running request of the rank, as it stands at the step boundary. */
struct kvt_residency_request {
    uint32_t id;
    uint32_t context_tokens; /* committed rows */
    uint32_t generated_tokens;
    uint32_t page_count;     /* pages that exist, the newest may be partly filled */
    uint32_t eligible_pages; /* backed and wholly outside the tail: pages [0, eligible) */
    uint32_t optional_pages; /* of those, ready in HBM */
    uint32_t filling_pages;  /* on their way: bytes counted, not readable yet */
    uint64_t missed_rows;    /* so far */
    uint64_t selected_rows;
    const uint64_t *resident_bits; /* [(page_count + 63) / 64] optional or filling */
    const uint64_t *filling_bits;  /* [(page_count + 63) / 64] */
    const uint16_t *page_hits;     /* optional [page_count] selections a page, decayed by half every
                                    * 64 steps; NULL unless wants_page_hits */
    const float
        *page_scores; /* optional [page_count] indexer scores; NULL unless wants_page_scores */
    uint32_t future_output_tokens; /* 0 unless clairvoyant */
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

enum kvt_residency_verb {
    KVT_RESIDENCY_RELEASE, /* pages [first, first + count): drop their HBM copy */
    KVT_RESIDENCY_REFILL,  /* pages [first, first + count): bring them up from host */
    KVT_RESIDENCY_BACKUP,  /* rows up to `count` tokens: write them to host */
    KVT_RESIDENCY_RESIZE,  /* hot cache of `count` slots from the next boundary on */
    KVT_RESIDENCY_DEMOTE   /* the whole request leaves HBM but for what must stay */
};

struct kvt_residency_action {
    uint16_t verb; /* enum kvt_residency_verb */
    uint32_t request;
    uint32_t first, count;
};

/* An instance serves one rank. Actions take effect at this boundary (releases)
 * or when their transfer is done, at the next boundary after it (refills). The
 * host checks each action and names the policy when one is not allowed. */
struct kvt_residency_policy {
    struct kvt_plugin_info info;
    bool wants_page_hits, wants_page_scores;

    size_t (*state_bytes)(const struct kvt_residency_env *env);
    kvt_status (*init)(void *state, const struct kvt_residency_env *env, struct kvt_error *err);

    void (*needs)(const void *state, struct kvt_residency_needs *needs);

    /* At a step boundary with memory to spare or not: any actions. Returns how
     * many it wrote, at most capacity. Optional; without it nothing moves. */
    uint32_t (*boundary)(void *state, const struct kvt_residency_view *view,
                         struct kvt_residency_action *actions, uint32_t capacity);

    /* HBM is short of want_bytes for something required: RELEASE actions only,
     * first to go first. Optional; without it only preemption helps. */
    uint32_t (*reclaim)(void *state, const struct kvt_residency_view *view, uint64_t want_bytes,
                        struct kvt_residency_action *actions, uint32_t capacity);

    /* May this request be admitted now, memory allowing? Optional: yes. */
    bool (*admit)(void *state, const struct kvt_residency_view *view, uint32_t input_tokens);
};

/* ---- Scheduling: who is admitted next, who is put aside ------------------- */

struct kvt_scheduling_request {
    kvt_ns arrival_ns;
    uint32_t id;
    uint32_t input_tokens, generated_tokens;
    uint32_t priority; /* of its SLO class; lower is more urgent */
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
     * queue order: preempted ones first, then by arrival. */
    uint32_t (*next)(void *state, const struct kvt_scheduling_request *waiting, uint32_t count);

    /* Required memory is short and no optional page is left: index of the running
     * request to put aside, or count for none (then the run stalls). running is in
     * order of admission. */
    uint32_t (*preempt)(void *state, const struct kvt_scheduling_request *running, uint32_t count);
};

/* ---- Router: which rank an arriving request goes to ------------------------ */

/* A rank on which the request could run to its end. */
struct kvt_router_rank {
    uint32_t waiting, running;  /* requests; running includes those being imported */
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
