/* kvt/report.h -- what a run counted, and how it is told. */
#ifndef KVT_REPORT_H
#define KVT_REPORT_H

#include <stdio.h>

#include "kvt/backend.h"
#include "kvt/badge.h"
#include "kvt/metrics.h"
#include "kvt/policy.h"
#include "kvt/request.h"
#include "kvt/row_counts.h"
#include "kvt/sampling.h"
#include "kvt/scenario.h"
#include "kvt/timing.h"

KVT_BEGIN_DECLS

enum {
    KVT_PHASES_MAX = 256,
    KVT_ITL_ROWS = 202 /* of itl.csv */
};

/* Where a request is before its first token: TTFT is the sum of these. The token comes as the
 * history is there; it waits for no step. */
enum kvt_wait_part {
    KVT_WAIT_PREFILL_QUEUE = 0, /* before the prefill pool */
    KVT_WAIT_PREFILL,           /* in it, or its prompt is computed on its rank */
    KVT_WAIT_QUEUE,             /* for a slot of its rank */
    KVT_WAIT_IMPORT_QUEUE,      /* has a slot; others' histories come in before its own */
    KVT_WAIT_IMPORT,            /* its history comes in */
    KVT_WAIT_PARTS
};
const char *kvt_wait_part_name(enum kvt_wait_part part); /* "prefill_queue", ...; never NULL */

/* Between its first token and its last a request is in steps, whose parts it is in; in steps that
 * rows on their way to host held up; or in neither: it waits to join the batch, sits steps out, or
 * was put aside. */
enum kvt_token_part {
    KVT_TOKEN_BACKUP_STALL = KVT_PARTS,
    KVT_TOKEN_BESIDE,
    KVT_TOKEN_PARTS
};
const char *kvt_token_part_name(int part); /* a step part's, or "backup stall", "beside steps" */

/* Parts of latencies, summed over the requests that their means are of. */
struct kvt_latency_parts {
    uint64_t ttft_requests, tpot_requests;
    double ttft_ns[KVT_WAIT_PARTS];
    double tpot_ns[KVT_TOKEN_PARTS]; /* of each request over its tokens after the first */
};

/* How long steps would have been, were something else and every batch the same. */
enum kvt_what_if {
    KVT_IF_FASTER_LINK = 0, /* by a tenth, host to GPU */
    KVT_IF_MORE_RANKS,      /* one rank more shares the requests */
    KVT_IF_HALF_LOAD,       /* half the requests on the same ranks: how steps grow with them */
    KVT_WHAT_IFS
};
#define KVT_IF_LINK_FACTOR 1.1

/* Sums over a stretch of the run: an interval, a phase, all of it. Merging two
 * neighbours gives the tally of both. */
struct kvt_tally {
    kvt_ns from_ns, to_ns;
    struct kvt_row_counts rows[KVT_STRATA_MAX]; /* of the followed calls */
    double counts[KVT_SAMPLED_COUNTS];          /* of all calls; estimated where sampled */
    uint64_t arrived, admitted, completed, unservable, preemptions;
    uint64_t output_tokens;     /* delivered, first tokens included */
    uint64_t input_tokens;      /* of requests admitted */
    uint64_t prefix_hit_tokens; /* of those, found in prefix stores */
    uint64_t reprefill_tokens;  /* context brought in again after a preemption */
    uint64_t decode_steps;      /* of groups of ranks */
    uint64_t rounds;            /* request x step */
    uint64_t round_tokens;      /* that those rounds deliver */
    uint64_t extrapolated_steps;
    kvt_ns step_ns;                      /* sum of step durations over groups */
    kvt_ns parts_ns[KVT_PARTS];          /* of the group's slowest rank: they sum to step_ns */
    uint64_t measured_steps;             /* by the backend, whatever the clock */
    kvt_ns measured_ns;                  /* sum of what those took */
    kvt_ns measured_parts_ns[KVT_PARTS]; /* of the group's slowest rank */
    kvt_ns added_parts_ns[KVT_PARTS];    /* to those: predicted, of parts that no backend runs */
    kvt_ns rank_ns, barrier_wait_ns; /* summed over ranks: step time, and waiting for the slowest */
    kvt_ns backup_stall_ns;
    double token_ns;            /* predicted steps, each as often as requests decode in it */
    double link_busy_ns;        /* of the group's slowest rank, with missed rows: hidden ones too */
    double if_ns[KVT_WHAT_IFS]; /* instead of token_ns */
    double h2d_payload_bytes, h2d_wire_bytes; /* of missed rows; scaled when sampled */
    double prefetched_rows, prefetch_wasted_rows, deepened_rows; /* likewise */
    uint64_t recall_bytes; /* from host to HBM, of what was put aside or found */
    uint64_t fill_bytes, import_hbm_bytes, import_host_bytes, d2h_bytes;
    uint64_t pages_filled, pages_released;
    uint64_t pages_landed, pages_kept;           /* as in kvt_rank_counters */
    uint64_t backups_forced, resizes, demotions; /* likewise */
    uint64_t staging_waves;                      /* beyond one a selector and step of a rank */
    uint64_t staging_peak_bytes;                 /* most that one of any rank staged */
    /* Time integrals, in unit x ns. */
    double prefilling_ns; /* in the prefill pool, on a rank that computes it, or before either */
    double host_short_ns; /* waiting_ns of ranks whose node has no DRAM for the next request */
    double no_rank_ns;    /* waiting_ns while every rank is down */
    double running_ns, waiting_ns, importing_ns, held_ns; /* held: requests that hold a slot */
    double pool_busy_ns[KVT_POOLS_MAX]; /* ranks of each decode pool with a step under way */
    double import_busy_ns;              /* imports under way */
    double prefill_busy_ns;             /* servers of the prefill pool at work */
    double itl_ns;                      /* gaps between deliveries, summed, ... */
    uint64_t itl_count;                 /* ... and how many: whoever's, the warm-up's too */
    double coverage_ns, covered_ns;     /* coverage, and 1, while rows are eligible; mean = ratio */
    uint64_t hbm_peak_bytes;            /* over all GPUs, every class */
    uint64_t hbm_peak_by_class[KVT_MEM_CLASSES]; /* at that peak */
    uint64_t host_peak_bytes;                    /* over all nodes */
    /* Of faults. */
    uint64_t faults, interrupted; /* that struck; requests that these interrupted */
    uint64_t lost_tokens;         /* of round_tokens, that were never delivered */
    double down_ns;               /* integral of the ranks that are down */
};
/* `from` begins where `into` ends (or into is empty: from_ns == to_ns). */
void kvt_tally_merge(struct kvt_tally *into, const struct kvt_tally *from);

/* Where a run's requests stand at its end: arrived is their sum. */
struct kvt_request_counts {
    uint64_t completed, running, unservable;
    uint64_t waiting; /* also in prefill or import */
};

/* Mean latencies of a run without requests of its own; NaN: not defined. */
struct kvt_mean_latencies {
    double ttft_ms, tpot_ms, itl_ms, e2el_ms;
    double post_wave_ttft_ms, post_wave_tpot_ms, post_wave_itl_ms, post_wave_e2el_ms;
};

/* Where requests of an open loop can queue, in the order in which they come there. */
enum kvt_stage {
    KVT_STAGE_PREFILL = 0,
    KVT_STAGE_SLOTS, /* room to decode in */
    KVT_STAGE_IMPORT,
    KVT_STAGES
};
const char *kvt_stage_name(enum kvt_stage stage); /* "prefill", "slots", "import"; never NULL */

/* What transitions are told by, of each interval that counts. */
struct kvt_interval {
    kvt_ns from_ns, to_ns;
    double coverage;    /* NaN: nothing to cover */
    double mean_itl_ms; /* NaN: no gap ended */
    uint64_t pages_released;
};

/* Requests of the workload's usual input that fit at once by one thing alone, over all ranks;
 * UINT64_MAX: they take none of it. */
struct kvt_slots_by {
    uint64_t pool[2]; /* index rows and the rest, or the one pool */
    uint64_t host;
};

/* Everything a finished run leaves. Borrowed by the report functions. */
struct kvt_run {
    const struct kvt_scenario *scenario;
    const struct kvt_request_record *records; /* [record_count], in order of arrival */
    size_t record_count;
    uint64_t first_wave; /* the first so many are left out of post-wave metrics; 0: open loop */
    bool closed_loop;
    kvt_ns end_ns;          /* of the run */
    kvt_ns warmup_ns;       /* requests that arrived before it, and its intervals, are cut */
    struct kvt_tally total; /* without the warm-up */
    uint32_t phase_count;
    struct kvt_tally phases[KVT_PHASES_MAX];
    struct kvt_histogram *itl; /* ns between deliveries; whole run after warm-up */
    struct kvt_histogram *phase_itl[KVT_PHASES_MAX];
    struct kvt_histogram *post_wave_itl;
    uint32_t stratum_count;
    struct kvt_stratum strata[KVT_STRATA_MAX];
    struct kvt_sampling sampling;      /* of what is in total */
    double active_mean, coverage_mean; /* over the central half of the run; NaN: nothing to cover */
    double phase_active_mean[KVT_PHASES_MAX],
        phase_coverage_mean[KVT_PHASES_MAX]; /* over each phase's
                                              * central half */
    double max_output_tokens_per_s;          /* of the best interval */
    uint64_t max_concurrent_requests;
    uint64_t slots; /* requests of the workload's usual input that fit, all ranks */
    struct kvt_slots_by slots_by;
    uint64_t slots_of_twice_hot; /* with hot caches twice as large; 0: there are none */
    uint64_t import_servers;     /* imports that may be under way at once, all ranks */
    bool times_read_hardware;    /* if_ns[] are of other hardware; else of other loads alone */
    struct kvt_latency_parts latency_parts[KVT_PHASES_MAX]; /* by the phase of arrival */
    double phase_load[KVT_PHASES_MAX];    /* requests offered at once; NaN: not known */
    const struct kvt_interval *intervals; /* [interval_count]; none where there is one phase */
    size_t interval_count;
    uint32_t gpus, ranks;
    uint64_t decision_hash; /* 0: nothing was decided, as by mean values */
    enum kvt_basis timing_basis, import_basis, law_basis;
    enum kvt_basis added_basis;       /* of what is added to measured steps: the timing model's */
    enum kvt_basis acceptance_basis;  /* exact where nothing is drafted */
    struct kvt_residency_needs needs; /* of the policy in force */
    const char *law_description;
    const struct kvt_trace_account *account; /* NULL: no file was read */
    uint64_t events, tied_events;
    bool analytic; /* no records and no histograms: what follows stands instead */
    struct kvt_mean_latencies mean_latencies;
    struct kvt_request_counts mean_counts; /* to the nearest whole request */
    bool stopped_early; /* duration_s or a signal ended it with requests under way */
    bool interrupted;
    bool is_bound;                  /* a policy saw the future */
    struct kvt_backend_proof proof; /* of what a backend that runs steps has attended */
    bool runs_drafts;               /* as in struct kvt_step_times */
    bool says_outside;              /* outside is known */
    struct kvt_outside outside; /* what of steps out of range was so most often, as first seen */
    const struct kvt_fault_report *faults; /* [fault_count] as the scenario lists them */
    uint32_t fault_count;
    bool few_for_means; /* analytic: fewer requests or shorter answers than mean values stand for */
    /* Analytic, of an open loop: work that comes to each stage over what it can do; from 1 on its
     * queue grows for as long as requests come. NaN: there is no such stage; slots: nobody waits
     * for one. */
    double stage_load[KVT_STAGES];
};

/* What became of the requests of a class of slo.classes, or of a kind of workload.classes: those
 * that had not ended when the warm-up did. Figures are NaN where they are not defined, as those of
 * bounds without classes. */
struct kvt_class_report {
    const char *name; /* the scenario's */
    uint64_t requests, completed, dropped;
    uint64_t met;           /* of the completed, within every bound of their class */
    uint64_t late;          /* of the others, not dropped, that can meet theirs no more */
    double attain;          /* as asked; of a class */
    double attained_share;  /* met / (completed + dropped + late) */
    double request_goodput; /* met / duration, a second */
    double slo_violation_s; /* as the metric, of this class alone */
    struct kvt_summary ttft_ms, tpot_ms, e2el_ms; /* as the metrics */
};
/* By class, in the order of the scenario; *count is 0 where it has none, and in an analytic run. */
KVT_CHECKED kvt_status kvt_run_classes(const struct kvt_run *run,
                                       struct kvt_class_report out[KVT_SLO_CLASSES_MAX],
                                       uint32_t *count, struct kvt_error *err);
/* By kind, likewise. */
KVT_CHECKED kvt_status kvt_run_kinds(const struct kvt_run *run,
                                     struct kvt_class_report out[KVT_KINDS_MAX], uint32_t *count,
                                     struct kvt_error *err);

struct kvt_request_counts kvt_run_count_requests(const struct kvt_run *run);
uint64_t kvt_run_arrived(const struct kvt_run *run);

struct cJSON;

/* One metric, for `kvtide list metrics`. */
struct kvt_metric_doc {
    const char *name, *unit, *help;
};
const struct kvt_metric_doc *kvt_metric_docs(size_t *count);

/* The whole of result.json as a tree; free with cJSON_Delete(). */
KVT_CHECKED kvt_status kvt_report_result(const struct kvt_run *run, struct cJSON **out,
                                         struct kvt_error *err);

enum {
    KVT_SATURATED_BYTES = 96
};
/* Of an analytic run the stages whose load is from `least` to below `most`, "prefill (7.52 times)";
 * false: there is none, or the run was simulated, and text is empty. */
bool kvt_run_loaded(const struct kvt_run *run, double least, double most,
                    char text[KVT_SATURATED_BYTES]);

/* An array of what came of each step of the load; NULL when memory is short. */
struct cJSON *kvt_transitions_tree(const struct kvt_run *run);

/* What a run's figures rest on. gpu: the name of the one that ran its steps; NULL: not known. */
void kvt_run_badge(const struct kvt_run *run, const char *gpu, struct kvt_badge *out);

/* A figure of a result by its name: of a metric as it is ("slo_margin"), of a class or a kind as
 * "classes.NAME.attained_share", "kinds.NAME.p99_ttft_ms". *value is NaN where it is not defined.
 * False: there is none of that name. */
bool kvt_report_figure(const struct cJSON *result, const char *name, double *value);

/* requests.csv, in order of arrival. */
void kvt_report_requests_csv(const struct kvt_run *run, FILE *stream);

/* itl.csv: the gap between deliveries that so large a share of them does not exceed, from 0 to 1
 * in steps of 0.005, and 0.999; of an analytic run its head alone. */
void kvt_report_itl_csv(const struct kvt_run *run, FILE *stream);

/* timeline.csv, row by row while the run goes on. */
void kvt_report_timeline_header(FILE *stream);
void kvt_report_timeline_row(FILE *stream, const struct kvt_tally *interval,
                             uint32_t stratum_count);

/* The terminal summary: fits 80 columns, ends with four lines of explanation.
 * result is what kvt_report_result() made. */
void kvt_report_summary(FILE *stream, const struct kvt_run *run, const struct cJSON *result);

KVT_END_DECLS
#endif
