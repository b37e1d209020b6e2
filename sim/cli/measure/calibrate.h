/* calibrate.h -- what the parts of `kvtide calibrate` pass to each other. */
#ifndef KVT_CLI_CALIBRATE_H
#define KVT_CLI_CALIBRATE_H

#include "../cli.h"
#include "engine_bench.h"
#include "kvt/json.h"
#include "robust.h"

/* ---- Windows: what an engine did in a stretch of time ------------------------------------- */

/* What a step's time may be linear in, as far as a benchmark tells it; summed over the steps of a
 * window. */
enum window_sum {
    WINDOW_STEPS = 0,
    WINDOW_QUERIES,                /* one a decoding request */
    WINDOW_CONTEXT_ROWS,           /* of the decoding requests */
    WINDOW_PREFILL_TOKENS,         /* of prompts computed beside */
    WINDOW_PREFILL_CONTEXT_TOKENS, /* context of each of those */
    WINDOW_SUMS
};

struct window {
    double sums[WINDOW_SUMS];
    double seconds;
    double end_s; /* on its run's clock */
    size_t run;
};

struct windows {
    struct window *items; /* [count] by run, then by end */
    size_t count, capacity;
    /* Least and most of one step, of queries and context rows, where a window of decoding begins
     * or ends. most is 0 where there is none. */
    double least[WINDOW_SUMS], most[WINDOW_SUMS];
};

/* Of runs' requests, those that lie in [from_s, to_s) of their run's clock; to_s 0: to its end.
 * chunk_tokens: most that one step computes of prompts. Appends; windows_free() in any case. */
KVT_CHECKED kvt_status windows_of_run(const struct engine_run *run, size_t run_index, double from_s,
                                      double to_s, double chunk_tokens, struct windows *out,
                                      struct kvt_error *err);
void windows_free(struct windows *windows);

/* ---- Fit ------------------------------------------------------------------------------------ */

enum term_state {
    TERM_FITTED = 0,
    TERM_ABSENT,   /* it occurs in no window */
    TERM_SAME,     /* its sums are nothing but a multiple of another term's */
    TERM_UNCERTAIN /* its standard error is more than half of it, or it came out below 0 */
};

struct fit_term {
    enum term_state state;
    double ns, error_ns;  /* of one; as they were when it was left out */
    enum window_sum like; /* the term that it cannot be told from best */
    double likeness;      /* cosine of the two, 0 to 1 */
};

struct fit {
    struct fit_term terms[WINDOW_SUMS];
    double condition; /* of all terms' columns at unit length; INFINITY where two are one */
    struct robust_errors own, left_out;
    double outlier_share; /* of windows that the robust fit gives no weight */
    size_t part_count;    /* that were left out in turn */
    bool parts_are_runs;
};

/* Weighted by what each window took, robust against windows in which a request stood still.
 * KVT_ERR_UNSUPPORTED: no term can be told. */
KVT_CHECKED kvt_status fit_windows(const struct windows *windows, struct fit *out,
                                   struct kvt_error *err);

/* ---- The answer ------------------------------------------------------------------------------ */

struct calibration {
    const struct kvt_scenario *scenario;
    const struct engine_run *runs; /* [run_count] */
    size_t run_count;
    struct windows windows;
    struct fit fit;
    double from_s, to_s;
};

/* "dense.step": what a term is called in a profile of this model. */
const char *calibration_term_name(const struct kvt_llm *llm, enum window_sum term);
/* The profile, schema "kvtide/profile/1". */
KVT_CHECKED kvt_status calibration_tree(const struct calibration *calibration, cJSON **out,
                                        struct kvt_error *err);
void calibration_print(const struct calibration *calibration);

#endif
