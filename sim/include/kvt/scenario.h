/* kvt/scenario.h -- a run, as a file: strict on the way in, complete on the way out.
 *
 * A scenario is a JSON tree. Layers (built-in defaults, each file of an `extends`
 * chain, the file itself, --set) are merged key by key; a table of keys
 * (scenario/keys.c, and a file for each section) says what each key is; what comes out is the tree
 * in force, with the origin of every value, and this struct bound to it. */
#ifndef KVT_SCENARIO_H
#define KVT_SCENARIO_H

#include "kvt/arena.h"
#include "kvt/crossing.h"
#include "kvt/faults.h"
#include "kvt/hardware.h"
#include "kvt/llm.h"
#include "kvt/plugin.h"
#include "kvt/prefill.h"
#include "kvt/resolver.h"
#include "kvt/workload.h"

KVT_BEGIN_DECLS

struct cJSON;

enum {
    KVT_POOLS_MAX = 16
};

/* What somebody pays, as the scenario says; 0 where it does not. */
struct kvt_expenses {
    double usd_per_gpu_hour, usd_per_host_gib_hour;
    double idle_watts_per_gpu, busy_watts_per_gpu, watts_per_node;
};

struct kvt_decode_pool {
    const struct kvt_hardware *hardware;
    uint32_t gpus, tp, dp, ep; /* gpus = tp x dp */
    bool lockstep;
    bool pools_given; /* false: derived from HBM - weights - workspace */
    bool pools_unified;
    double unified_gib, index_gib, rows_gib; /* per GPU, as given */
    double speculation_workspace_gib;
    double growth_reserve_gib; /* per GPU, beside the pools */
    double host_dram_gib_per_node;
    double index_offload_gib_per_node; /* host DRAM for index rows of finished requests */
    bool host_pool_per_rank;           /* a copy per tensor-parallel rank instead of a shared one */
    uint32_t gpus_per_node;
    uint64_t dram_bytes_per_s_per_node;
    /* Resolved at load: bytes per GPU that KV may take, by pool, without the share of speculation
     * (the drafter's weights and its workspace, while speculating). index and rows are the same
     * pool when unified or derived (rows_pool_bytes is then 0). Derived: beside the reserve. */
    uint64_t index_pool_bytes, rows_pool_bytes, growth_reserve_bytes;
    double weights_gib_per_gpu;
    bool weights_fit;
    struct kvt_expenses expenses;
    struct kvt_prefill_cost prefill_cost; /* where its ranks compute prompts by data sheet */
};

enum kvt_prefill_mode {
    KVT_PREFILL_NONE = 0,
    KVT_PREFILL_SEPARATE,
    KVT_PREFILL_COLOCATED /* on the decoding ranks, a chunk a step */
};
struct kvt_prefill {
    enum kvt_prefill_mode mode;
    uint32_t gpus, servers; /* of the pool, tp GPUs a server; separate */
    uint32_t tp, ep;
    const struct kvt_hardware *hardware;
    bool is_roofline;             /* timed by cost; the rates below are 0 then */
    struct kvt_prefill_cost cost; /* of a server; of a decoding rank it is its pool's */
    struct kvt_expenses expenses;
    uint32_t chunk_tokens;      /* of one step of a rank, queries included; colocated */
    double tokens_per_s;        /* of one server or rank, at no context */
    double context_half_tokens; /* context at which the rate has halved; 0: never */
    double lone_step_ns; /* of a step that decodes nobody, beside its tokens; 0: the rate has it */
};

struct kvt_slo_class {
    const char *name;
    double share; /* of generated requests; shares sum to 1 */
    uint32_t priority;
    double ttft_ms, tpot_ms, e2el_ms; /* 0: no bound */
    double attain;                    /* share of requests that must meet them */
};

/* A kind of requests that the workload draws (workload.classes). */
struct kvt_kind {
    const char *name;
    double share; /* of the requests; shares sum to 1 */
    struct kvt_choice input_length, output_length;
    const char *slo_class; /* NULL: drawn from the shares of the classes */
    const char *task;      /* NULL: workload.task */
    uint32_t shared_prefix_tokens;
};

enum kvt_warmup_rule {
    KVT_WARMUP_NONE = 0,
    KVT_WARMUP_SECONDS,
    KVT_WARMUP_REQUESTS
};
enum kvt_fidelity {
    KVT_FIDELITY_EXACT = 0,
    KVT_FIDELITY_SAMPLED,
    KVT_FIDELITY_ANALYTIC,
    KVT_FIDELITIES
};
const char *kvt_fidelity_name(enum kvt_fidelity fidelity); /* "exact", ..; never NULL */
enum kvt_clock {
    KVT_CLOCK_PREDICTED = 0, /* a step takes what the timing model says */
    KVT_CLOCK_MEASURED       /* what it took on the backend, which measures it */
};

struct kvt_scenario {
    const char *name;
    const char *path; /* file it came from, or the shipped name */
    uint64_t seed;
    const struct kvt_llm *llm;
    const struct kvt_hardware *hardware;
    uint32_t pool_count;
    struct kvt_decode_pool pools[KVT_POOLS_MAX];
    struct kvt_prefill prefill;
    bool has_usd, has_watts; /* whether money and energy are known, of every GPU */
    double usd_per_kwh;      /* 0: not given */
    double pue;              /* power of the site over that of its machines; 1 unless given */
    struct kvt_choice import, router, scheduling;
    const struct kvt_fault *faults; /* [fault_count], as they were given */
    uint32_t fault_count;
    struct kvt_choice arrival, input_length, output_length;
    uint32_t kind_count; /* 0: all requests are alike */
    struct kvt_kind kinds[KVT_KINDS_MAX];
    uint32_t slo_class_count;
    struct kvt_slo_class slo_classes[KVT_SLO_CLASSES_MAX];
    struct kvt_choice residency, replacement, selection, speculation, timing;
    uint64_t hot_tokens;
    struct kvt_prefetch prefetch;
    struct kvt_read_depth read_depth;
    const struct kvt_drafter *drafter; /* NULL: none */
    const char *const *tasks; /* [task_count] what requests may be about, workload.task first */
    uint32_t task_count;
    bool has_task_table;  /* tasks[] are the lists of speculation.acceptance; else it is all one */
    uint32_t queries_max; /* K of the widest round: 1 without speculation */
    uint32_t draft_budget_tokens; /* as in kvt_speculation_shape */
    bool resolve_each_query;      /* K calls of one query instead of one of K */
    double staging_fraction;      /* as in kvt_session_spec */
    enum kvt_promotion promotion; /* of staged rows */
    double duration_s;            /* hard stop; 0: none */
    enum kvt_warmup_rule warmup_rule;
    double warmup_value; /* seconds or requests */
    double interval_s;
    enum kvt_fidelity fidelity;
    uint32_t sample_stores;   /* stores followed exactly per request when sampled */
    uint32_t sample_requests; /* requests followed at once per rank when sampled; 0: all */
    struct kvt_choice backend;
    enum kvt_clock clock;
    uint64_t idle_sets; /* bit i: common set i has no effect here */
    /* The scenario in force, every default written out. Lies in the arena: never for
     * cJSON_Delete(). */
    const struct cJSON *tree;
    const struct cJSON *origins;       /* flat object: dotted path -> origin, in tree order */
    const struct kvt_plugins *plugins; /* that could be chosen; NULL: built-in ones */
    const struct cJSON
        *inputs; /* flat object: path of every file read -> 16 hex digits of its hash */
};

/* Where shipped models, hardware and scenarios lie: share folder holding
 * models/ and scenarios/. Borrowed text. */
struct kvt_scenario_options {
    const char *data_dir;
    const char *const *sets; /* [set_count] "PATH=VALUE", left to right */
    size_t set_count;
    size_t common_sets; /* the first so many are for several scenarios at once: one that has no
                         * effect on this one is no fault, but noted in idle_sets */
    const struct kvt_plugins *plugins; /* of the scenario's life; NULL: built-in ones */
    bool only_keys; /* stop once every key and value was looked at by itself: *out has the tree as
                     * far, with its origins, and nothing that is made of it */
    bool for_size;  /* accept what can be sized though not run (speculation; weights that
                     * do not fit: weights_fit is then false and the pools are 0) */
};

/* How long a server of the prefill pool computes tokens [from, to) of a prompt. */
double kvt_prefill_seconds(const struct kvt_prefill *prefill, double from_tokens, double to_tokens);

/* Nodes that the pool's GPUs stand in. */
static inline uint32_t kvt_pool_nodes(const struct kvt_decode_pool *pool)
{
    return (pool->gpus + pool->gpus_per_node - 1) / pool->gpus_per_node;
}

/* Whether it has a '/' or ends in ".json"; else it is a shipped name. */
bool kvt_is_path(const char *text);

/* source: a path (it has a '/' or ends in ".json"), or a shipped name, or a
 * result.json (its scenario is taken). Everything in *out lives in the arena. On
 * failure nothing is usable. Paths in the tree are as seen from the working
 * folder. */
KVT_CHECKED kvt_status kvt_scenario_load(const char *source,
                                         const struct kvt_scenario_options *options,
                                         struct kvt_arena *arena, struct kvt_scenario *out,
                                         struct kvt_error *err);

/* The same from memory, name standing for the file: what tests and fuzzers call. */
KVT_CHECKED kvt_status kvt_scenario_parse(const char *text, size_t text_bytes, const char *name,
                                          const struct kvt_scenario_options *options,
                                          struct kvt_arena *arena, struct kvt_scenario *out,
                                          struct kvt_error *err);

/* Calls of a step may outgrow their rank's staging. */
static inline bool kvt_scenario_takes_turns(const struct kvt_scenario *scenario)
{
    return scenario->staging_fraction > 0 && scenario->staging_fraction < 1;
}

/* An error that names a plug-in ('timing "paper"') or a key ("run.duration_s") comes to name where
 * the scenario says so: "--set timing.model", or "FILE#/timing/model". Others stay; err may be
 * NULL. */
void kvt_scenario_locate(const struct kvt_scenario *scenario, struct kvt_error *err);

/* Ranks and nodes of all decode pools, in the order of pools. */
uint32_t kvt_scenario_rank_count(const struct kvt_scenario *scenario);
uint32_t kvt_scenario_node_count(const struct kvt_scenario *scenario);
/* Whether a fault takes this rank down, were `which` what it hits; of a link: slows its own. */
bool kvt_fault_hits(const struct kvt_scenario *scenario, const struct kvt_fault *fault,
                    uint32_t which, uint32_t rank);

/* One documented key, for `check`, the schema and the tests that change each. */
struct kvt_key_doc {
    const char *path;  /* "cluster.decode.gpus"; plug-in parameters as "residency(adaptive).name",
                        * members of a list's elements as "slo.classes[].name" */
    const char *type;  /* "count", "real", "text", "choice", "bool", "list", "object" */
    const char *range; /* "1 to 4096", "a | b", or "" */
    const char *dflt;  /* default as JSON, or "" */
    const char *help;
    const char *takes;   /* what else it takes to have an effect, or "" */
    const char *refused; /* NULL, or why this version refuses it */
};
/* Lives in the arena. */
KVT_CHECKED kvt_status kvt_scenario_keys(struct kvt_arena *arena, const struct kvt_key_doc **out,
                                         size_t *count, struct kvt_error *err);

/* The JSON Schema of scenarios, generated from the same table, as it lies in
 * docs/schema without the last line end. NULL when memory is short; free() it. */
KVT_CHECKED char *kvt_scenario_schema(void);

KVT_END_DECLS
#endif
