/* kvt/workload.h -- what arrives: when, and how long it is. */
#ifndef KVT_WORKLOAD_H
#define KVT_WORKLOAD_H

#include "kvt/plugin.h"

KVT_BEGIN_DECLS

enum {
    KVT_SLO_CLASSES_MAX = 16,
    KVT_KINDS_MAX = 16, /* of requests that a workload draws */
    KVT_CLASS_NAME_BYTES = 32,
    KVT_TASKS_MAX = 256, /* distinct names of tasks in one trace */
    KVT_TASK_NAME_BYTES = 64,
    KVT_INPUTS_MAX = 16 /* distinct input lengths that count as few */
};

/* One request as the workload gives it. */
struct kvt_request_spec {
    kvt_ns arrival_ns;
    uint32_t input_tokens;
    uint32_t output_tokens;
    uint64_t session;       /* conversation it belongs to; UINT64_MAX: none */
    uint32_t turn;          /* 0-based within the conversation */
    uint32_t prefix_tokens; /* the prompt's first so many are its group's */
    uint64_t prefix_group;  /* requests that begin alike; 0 without prefix_tokens */
    bool follows; /* not before think_ns after the last of its session given so far has ended,
                   * whatever arrival_ns says; the source that gives it sees to that */
    kvt_ns think_ns;
    char slo_class[KVT_CLASS_NAME_BYTES]; /* empty: drawn from the classes' shares */
    const char *task; /* what it is about; NULL: not said. Borrowed until the source closes */
    uint64_t line;    /* of the trace file; 0 when generated */
    /* [page_key_count] What its history consists of, page by page of KVT_PAGE_ROWS tokens: a key
     * stands for the tokens of its page and all before it, so that equal keys mean histories equal
     * up to there. The prompt's whole pages first, then, where the source can know that a later
     * prompt repeats them, those of the answer: at most (input + output tokens) / KVT_PAGE_ROWS.
     * None: nothing is known of its contents. Borrowed from the source until its next call. */
    const uint64_t *page_keys;
    uint32_t page_key_count;
    uint64_t tag;  /* the source's own: on_finished() gets it back */
    uint16_t kind; /* of kvt_arrival_env.kinds; 0 where there are none */
};

/* Rows of a trace file: rows_read = used + sum of dropped. */
enum kvt_drop_reason {
    KVT_DROP_ZERO_INPUT = 0, /* an empty prompt */
    KVT_DROP_ZERO_OUTPUT,    /* a failed call: no tokens came back */
    KVT_DROP_FAILED,         /* the file itself marks the request as failed */
    KVT_DROP_OUTSIDE_WINDOW, /* outside workload.window */
    KVT_DROP_IDLE,           /* a window of rates in which nothing arrives (servegen) */
    KVT_DROP_REASONS
};
/* "zero_input", "zero_output", "failed", "outside_window", "idle"; never NULL. */
const char *kvt_drop_reason_name(enum kvt_drop_reason reason);

struct kvt_trace_account {
    uint64_t rows_read, used, dropped[KVT_DROP_REASONS];
    uint64_t out_of_order_rows; /* sorted stably into place */
    double rebased_s;           /* first arrival in the file, now 0 */
    double span_s;              /* last minus first arrival, after scaling */
    const char *format;         /* as detected or given */
    uint64_t requests;          /* that will come: used, unless a row stands for many (servegen) */
    uint64_t hash_id_requests;  /* of these, with hash_ids whose block size is known */
    bool hash_ids_left_out;     /* and which their requests come without: ordered_keys_only */
    uint64_t orphan_turns;      /* rows whose parent is not above them, taken as first turns */
    /* "hash_ids, think_s": what the file says beside times and lengths and this version does not
     * simulate; NULL: nothing. Of these, what kvtide's own format cannot take over. Both borrowed
     * from the trace. */
    const char *unused, *unconverted;
};

/* ---- Lengths: tables `fixed`, `lognormal`, `empirical` --------------------- */

struct kvt_length_env {
    struct kvt_params params;
    uint32_t minimum_tokens; /* 1 */
    uint32_t maximum_tokens;
    const struct kvt_host *host;
};
struct kvt_length_law {
    struct kvt_plugin_info info;
    size_t (*state_bytes)(const struct kvt_length_env *env);
    kvt_status (*init)(void *state, const struct kvt_length_env *env, struct kvt_error *err);
    /* A draw from the request's own stream, in [minimum_tokens, maximum_tokens]; values
     * outside are drawn again (a truncated law), never clipped. */
    uint32_t (*draw)(const void *state, struct kvt_rng *rng);
    uint32_t (*typical_max)(const void *state); /* about its 99th percentile */
    uint32_t (*longest)(const void *state);     /* the largest that draw() can answer */
    /* All lengths that draw() can answer, ascending, into values[capacity]; 0 when they are
     * more than that. Optional: without it they are many. */
    size_t (*distinct)(const void *state, uint32_t *values, size_t capacity);
};

/* ---- Arrivals: tables `closed`, `phases`, `open`, `sessions`, `trace` -------- */

struct kvt_lengths {
    const struct kvt_length_law *law;
    const void *state;
};

/* Requests that are alike, drawn by share. Texts are borrowed by open(). */
struct kvt_request_kind {
    double share; /* of the requests; shares sum to 1 */
    struct kvt_lengths input, output;
    const char *slo_class; /* NULL: not said */
    const char *task;      /* NULL: not said */
    /* The first so many tokens of every prompt, or all of one that is shorter, are the same. */
    uint32_t shared_prefix_tokens;
};

struct kvt_arrival_env {
    struct kvt_params params;
    struct kvt_lengths input, output; /* unused by traces that carry lengths */
    uint32_t max_position_tokens;
    uint64_t run_seed;
    const struct kvt_host *host;
    /* [slo_class_count] names that requests may give; 0: not checked. Borrowed by open(). */
    const char *const *slo_classes;
    size_t slo_class_count;
    /* [task_count] likewise; 0: requests carry none. */
    const char *const *tasks;
    size_t task_count;
    /* [kind_count] what requests are drawn from, each with lengths of its own; 0: all are alike,
     * of `input` and `output`. With uses_lengths only. Borrowed until close(). */
    const struct kvt_request_kind *kinds;
    size_t kind_count;
};

/* What the source did when asked for the next request. */
enum kvt_arrival_answer {
    KVT_ARRIVAL_NOW,   /* *spec is a request that arrives at now_ns */
    KVT_ARRIVAL_LATER, /* ask again at *due_ns, or when a request has finished, if earlier */
    KVT_ARRIVAL_WAIT,  /* ask again when a request has finished */
    KVT_ARRIVAL_END    /* no request will come any more */
};

struct kvt_arrival {
    struct kvt_plugin_info info;
    bool uses_lengths; /* takes workload.lengths and .classes; otherwise those keys are refused */
    bool closed_loop;  /* the "first C submitted" exist: post-wave metrics apply */

    /* Reads and checks everything that can be wrong before the first event
     * (a trace is scanned once, and streamed again during the run). */
    kvt_status (*open)(const struct kvt_arrival_env *env, void **out, struct kvt_error *err);
    void (*close)(void *source); /* takes NULL */

    /* now_ns never goes back. in_flight: arrived and not finished or dropped. */
    kvt_status (*poll)(void *source, kvt_ns now_ns, uint64_t in_flight,
                       enum kvt_arrival_answer *answer, struct kvt_request_spec *spec,
                       kvt_ns *due_ns, struct kvt_error *err);

    /* Phases for reports: [0, phase_count). 1 where the workload has no parts. */
    uint32_t (*phase_count)(const void *source);
    uint32_t (*phase_at)(const void *source, kvt_ns now_ns);
    /* When the last phase ends; KVT_NS_NEVER where it ends with its requests. */
    kvt_ns (*end_ns)(const void *source);
    /* The number of requests in the first burst (offered concurrency). */
    uint64_t (*first_wave)(const void *source);
    /* How many requests will come in all; 0: not known. For progress. */
    uint64_t (*expected)(const void *source);
    /* Longest context (input + output) that can arrive, and the distinct input lengths when
     * they are few (<= 16): what memory and tapes are prepared for. */
    void (*extent)(const void *source, uint32_t *longest_tokens, uint32_t *output_tokens,
                   uint32_t *inputs, size_t *input_count /* in: capacity, out: used or 0 */);
    /* NULL for sources that read no file. */
    const struct kvt_trace_account *(*account)(const void *source);
    /* Optional. The request that came with `tag` has ended at now_ns: it finished, or it was
     * dropped because it could never be served (then is_completed is false). Once for each request,
     * before the next poll(). */
    void (*on_finished)(void *source, uint64_t tag, bool is_completed, kvt_ns now_ns);
    /* Optional. Requests that are in flight at once, at most; without it nobody knows. */
    uint64_t (*most_in_flight)(const void *source);
    /* Optional. Requests that a phase offers at once; without it nobody knows. */
    uint64_t (*phase_load)(const void *source, uint32_t phase);
};

/* ---- Trace files, by themselves ---------------------------------------------- */

struct kvt_trace_options {
    const char *path;
    const char *format; /* "auto" or a name from kvt_trace_formats() */
    double rate_scale;  /* 2: twice as fast */
    /* Of the file's own time, counted from its first arrival: [from, to), from becomes time 0.
     * to 0: no end. */
    double window_from_s, window_to_s;
    uint64_t run_seed; /* for formats that give rates (servegen) */
    /* [slo_class_count] classes that a used request may name; 0: not checked. */
    const char *const *slo_classes;
    size_t slo_class_count;
    /* [task_count] tasks that a used request may name; 0: not checked. */
    const char *const *tasks;
    size_t task_count;
    bool any_task;  /* without tasks[]: requests come with theirs all the same */
    bool page_keys; /* requests come with page_keys, where the file says anything about contents */
    bool ordered_keys_only; /* with page_keys: in a file that is out of order, whose rows are held,
                             * they come without hash ids' and chats'; not so where an object is a
                             * conversation, which no sorting could put in order */
};

/* "600:1200", "600:" or ":1200" as a window of seconds; no text, or none in it: all. */
KVT_CHECKED kvt_status kvt_trace_parse_window(const char *text, const char *where, double *from_s,
                                              double *to_s, struct kvt_error *err);

/* Names of the formats, NULL-terminated. */
const char *const *kvt_trace_formats(void);

struct kvt_trace;
/* Detects the format, reads the whole file once, checks every row, and stands at
 * its first request. */
KVT_CHECKED kvt_status kvt_trace_open(const struct kvt_trace_options *options,
                                      struct kvt_trace **out, struct kvt_error *err);
void kvt_trace_close(struct kvt_trace *trace);
/* *more is false at the end. Arrivals never go back. Requests that follow another stand at the
 * time that the file gives, which is the first turn's where there is one row a conversation: the
 * caller holds them back. */
KVT_CHECKED kvt_status kvt_trace_next(struct kvt_trace *trace, struct kvt_request_spec *spec,
                                      bool *more, struct kvt_error *err);
const struct kvt_trace_account *kvt_trace_account_of(const struct kvt_trace *trace);
/* Whether any request follows another (kvt_request_spec.follows). */
bool kvt_trace_has_followers(const struct kvt_trace *trace);
/* As kvt_arrival.extent(), of the requests that are used. */
void kvt_trace_extent(const struct kvt_trace *trace, uint32_t *longest_tokens,
                      uint32_t *output_tokens, uint32_t *inputs, size_t *input_count);

KVT_END_DECLS
#endif
