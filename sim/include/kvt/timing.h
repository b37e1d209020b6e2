/* kvt/timing.h -- how long a decode step takes, and an import. */
#ifndef KVT_TIMING_H
#define KVT_TIMING_H

#include "kvt/hardware.h"
#include "kvt/llm.h"
#include "kvt/plugin.h"

KVT_BEGIN_DECLS

/* Of the rows that calls miss, those that were predicted and sent before; and those that were sent
 * and nobody misses. */
struct kvt_ahead_load {
    double rows, layer_rows; /* as missed_rows and missed_layer_rows are counted */
    double wire_bytes, granules;
    double calls; /* that they were sent for */
};

/* What one rank does in one step. Counts of rows are over all its requests and
 * stores, scaled where the run is sampled. */
struct kvt_rank_load {
    uint32_t requests;          /* decoding this step */
    uint32_t queries;           /* token positions verified, the sum of each request's K */
    uint32_t draft_tokens;      /* made for this step's rounds; 0: nothing was drafted */
    double calls;               /* resolves, over requests and selectors; more than one a query set
                                 * where queries are resolved one by one */
    uint64_t context_rows;      /* committed tokens, summed over the requests */
    double selected_rows;       /* with multiplicity, over selectors */
    double attended_layer_rows; /* selected rows x layers of their store */
    double looked_up_rows;      /* rows that were neither in tail nor page */
    /* Rows that cross the link on demand, over stores. Of a row that is read in planes each
     * counts for its share of the row. */
    double missed_rows;
    double missed_layer_rows; /* missed rows x layers of their store */
    double leader_layer_rows; /* of those, rows of a store's first layer */
    double wire_bytes;        /* missed rows as they cross the link, by the model's row format */
    double granules;          /* distinct 64-KiB granules of host memory behind the misses */
    double calls_with_misses;
    double extra_waves;            /* beyond one a selector, of calls that outgrew the staging */
    double extra_wave_layers;      /* layers of their store that attend in each, summed over them */
    uint64_t backup_bytes;         /* device to host, queued by the step before */
    uint64_t import_bytes;         /* host or network to device while the step runs */
    uint64_t fill_bytes;           /* optional pages coming in while the step runs */
    uint32_t group_queries;        /* over all ranks in lockstep with this one; 0: it steps alone */
    uint32_t prefill_tokens;       /* of prompts, computed in this step */
    double prefill_context_tokens; /* of each of those the context up to it, summed */
    struct kvt_ahead_load ahead;   /* beside what is demanded; a model need not look at it */
    double prefill_ns; /* what those prompts take by data sheet, where cluster.prefill says so */
};

/* What ranks in lockstep share: one mixture-of-experts exchange. */
struct kvt_group_load {
    uint32_t queries; /* over all ranks of the group */
    uint32_t ranks;
    uint32_t queries_max;  /* of the busiest rank */
    uint32_t requests;     /* over all ranks */
    uint32_t draft_tokens; /* over all ranks */
};

/* Families of a step's time, ns; the exposed part of each. */
enum kvt_step_part {
    KVT_PART_HOST = 0, /* host scheduling */
    KVT_PART_DENSE,    /* projections, experts, collectives */
    KVT_PART_INDEX,    /* index scan and top-k */
    KVT_PART_RESOLVE,  /* resolver without misses */
    KVT_PART_FETCH,    /* missing rows over the link */
    KVT_PART_ATTEND,   /* sparse attention */
    KVT_PART_DRAFT,    /* the drafter's passes; with paper's constants, sampling too */
    KVT_PART_SAMPLE,   /* choosing tokens */
    KVT_PART_PREFILL,  /* prompts computed beside decoding; the host's, at cluster.prefill's rate */
    KVT_PART_OTHER,    /* terms a calibration does not tell apart */
    KVT_PARTS
};
/* The longest step that a timing model may predict, ns: an hour, of which a run adds up as many as
 * it has. Anything longer is a constant in another unit than was meant. */
#define KVT_STEP_NS_MAX (3600 * KVT_NS_PER_S)

const char *kvt_step_part_name(enum kvt_step_part part); /* "host", "dense", ...; never NULL */

/* Whether a backend that measures its steps runs it. No backend schedules, chooses tokens or
 * computes prompts, and some drafters' passes are not run (kvt_backend_runs_drafts): by a measured
 * clock those parts take what is predicted of them. */
static inline bool kvt_step_part_is_run(enum kvt_step_part part, bool runs_drafts)
{
    return part != KVT_PART_HOST && (part != KVT_PART_DRAFT || runs_drafts) &&
           part != KVT_PART_SAMPLE && part != KVT_PART_PREFILL;
}

/* The expected share of a layer's experts that `queries` independent tokens touch:
 * 1 - untouched^queries, where one token leaves the share `untouched` alone. By squaring, because
 * pow() differs in its last bits from one machine's libm to another's, and step times decide what
 * happens next. */
static inline double kvt_experts_touched_share(double untouched, uint32_t queries)
{
    double all_leave = 1.0, factor = untouched;

    for (uint32_t rest = queries; rest > 0; rest >>= 1) {
        if (rest & 1)
            all_leave *= factor;
        factor *= factor;
    }
    return 1.0 - all_leave;
}

struct kvt_timing_env {
    struct kvt_params params;
    const struct kvt_llm *llm;
    const struct kvt_hardware *hardware;
    const char *residency;             /* name of the policy in force */
    const char *speculation;           /* of the method; "none" */
    const struct kvt_drafter *drafter; /* NULL: none */
    uint32_t queries_max;              /* K of the widest round */
    uint32_t draft_passes;             /* as in kvt_speculation_shape */
    uint32_t draft_budget_tokens;      /* likewise */
    uint32_t tp, dp, ep;               /* of the pool; ranks in lockstep = dp when lockstep */
    uint32_t gpus_per_node;
    uint32_t ranks_per_link_node; /* GPUs of a node that gather at once */
    uint64_t dram_bytes_per_s;    /* of one node; 0: never the limit */
    const struct kvt_host *host;
    bool history_in_hbm; /* the residency policy's need of that name: no call is resolved */
    bool takes_turns;    /* staging is smaller than a batch's widest calls: waves are possible */
};

/* Where a load leaves what a model was fitted over. */
struct kvt_outside {
    enum kvt_step_part part;
    const char *feature;       /* by its name, static; NULL: the model has nothing of this part */
    double value, least, most; /* of the load; known from and to */
};

struct kvt_timing_model {
    struct kvt_plugin_info info;
    enum kvt_basis basis;

    size_t (*state_bytes)(const struct kvt_timing_env *env);
    /* Refuses (KVT_ERR_INVALID) what the model has no constants for. */
    kvt_status (*init)(void *state, const struct kvt_timing_env *env, struct kvt_error *err);

    /* step = group part + the slowest rank's part. Each adds its ns to parts[]. A group without
     * queries does not step, and a rank without requests only waits: both add nothing. */
    void (*group_step)(const void *state, const struct kvt_group_load *load,
                       double parts[KVT_PARTS]);
    void (*rank_step)(const void *state, const struct kvt_rank_load *load, double parts[KVT_PARTS]);

    /* Whether a rank's load lies where the model was fitted or measured; steps outside are
     * flagged and counted. Optional: everything is in range. */
    bool (*in_range)(const void *state, const struct kvt_rank_load *load);

    /* What this state's times rest on, where that hangs on how it was set up. Optional: `basis`. */
    enum kvt_basis (*basis_of)(const void *state);

    /* By what a load that is not in range lies outside, by the first where there are several;
     * false: by no single feature. Optional: nobody knows. */
    bool (*find_outside)(const void *state, const struct kvt_rank_load *load,
                         struct kvt_outside *out);

    /* How long the link is busy with the missed rows of a load, hidden or not, ns. Optional: as
     * long as rank_step() has fetches take. */
    double (*link_ns)(const void *state, const struct kvt_rank_load *load);

    /* Times follow from env's hardware and how the weights lie on it. Else a model has figures of
     * its own, and another env says nothing. */
    bool reads_hardware;
};

/* How long one request's history takes to come in, once its turn has come. */
struct kvt_import_env {
    struct kvt_params params;
    const struct kvt_hardware *hardware;
    const char *residency;
    const char *speculation; /* of the method; "none" */
    uint64_t run_seed;
    const struct kvt_host *host;
};
struct kvt_import_law {
    struct kvt_plugin_info info;
    enum kvt_basis basis;
    size_t (*state_bytes)(const struct kvt_import_env *env);
    kvt_status (*init)(void *state, const struct kvt_import_env *env, struct kvt_error *err);
    /* host_bytes land in host DRAM, hbm_bytes in HBM. */
    kvt_ns (*duration_ns)(void *state, uint32_t request, uint64_t host_bytes, uint64_t hbm_bytes);
    /* Requests of one rank that may be imported at once. */
    uint32_t (*servers)(const void *state);
};

KVT_END_DECLS
#endif
