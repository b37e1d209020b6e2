/* engine_bench.h -- what a serving engine's own benchmark says of a run: requests with their
 * times, and the figures that it prints. */
#ifndef KVT_CLI_ENGINE_BENCH_H
#define KVT_CLI_ENGINE_BENCH_H

#include "kvt/arena.h"
#include "kvt/error.h"

/* A request that was served, seconds on the run's own clock. */
struct engine_request {
    double arrival_s;
    double scheduled_s; /* NaN: the file does not say */
    double first_s, last_s;
    uint32_t input_tokens, output_tokens;
    const double *later_s; /* [later_count] of deliveries behind the first, since it; NULL: the file
                            * does not say */
    size_t later_count;
};

/* Figures by vLLM's names, which are ours too. NaN: the file has none. */
enum engine_figure {
    ENGINE_DURATION = 0,
    ENGINE_COMPLETED,
    ENGINE_INPUT_TOKENS,
    ENGINE_OUTPUT_TOKENS,
    ENGINE_OUTPUT_THROUGHPUT,
    ENGINE_REQUEST_THROUGHPUT,
    ENGINE_MEAN_TTFT,
    ENGINE_MEDIAN_TTFT,
    ENGINE_P99_TTFT,
    ENGINE_MEAN_TPOT,
    ENGINE_MEDIAN_TPOT,
    ENGINE_P99_TPOT,
    ENGINE_MEAN_ITL,
    ENGINE_MEAN_E2EL,
    ENGINE_PEAK_RUNNING, /* requests at once, at most */
    ENGINE_PREEMPTIONS,
    ENGINE_HOT_MISS_RATIO,
    ENGINE_FIGURES
};
/* The metric of ours that it stands beside: "mean_ttft_ms"; never NULL. */
const char *engine_figure_name(enum engine_figure figure);

struct engine_run {
    const char *path;
    uint64_t line;                         /* where it begins */
    const char *engine;                    /* "vllm", "sglang" */
    const struct engine_request *requests; /* [request_count] by arrival; 0: figures only */
    size_t request_count;
    uint64_t failed; /* requests that the file itself marks as failed: left out */
    double figures[ENGINE_FIGURES];
};

/* Reads vLLM's `bench serve` results, one or several joined by line ends, SGLang's
 * `bench_serving` lines, or the requests.jsonl of LLMServingSim's vLLM benchmark: told by content.
 * Runs, and all they hold, lie in the arena. Figures that a file with requests does not print are
 * computed from them. */
KVT_CHECKED kvt_status engine_bench_load(const char *path, struct kvt_arena *arena,
                                         struct engine_run **out, size_t *count,
                                         struct kvt_error *err);

/* Figures of requests [0, count), as the engines compute theirs; those that requests do not tell
 * stay as they are. */
KVT_CHECKED kvt_status engine_figures_of(const struct engine_request *requests, size_t count,
                                         double figures[ENGINE_FIGURES], struct kvt_error *err);

#endif
