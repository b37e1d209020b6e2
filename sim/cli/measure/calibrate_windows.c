/* calibrate_windows.c -- a benchmark's requests as windows of its engine's steps.
 *
 *     decoding:  some tokens of one request, one a step, from one delivery to another
 *     prompts:   from when a prompt can begin to its first token, where nobody decodes
 *
 *     steps             tokens of that request; chunks of the prompt
 *     queries           steps x requests decoding meanwhile, as far as each overlaps the window
 *     context rows      these x the context that each has meanwhile
 *     prefill tokens    share of each prompt's time that lies in the window x its tokens
 *
 * A replica makes one token of each running request a step. Where deliveries are not told, a
 * request's tokens are spread evenly over its time; one that was put aside meanwhile has too few of
 * them, and is an outlier to whoever fits. A prompt is taken to be computed from when it was
 * scheduled, or, where that is not told, from its arrival or the last first token before its own,
 * whichever is later: engines serve prompts first come first served. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate.h"

enum {
    WINDOW_TOKENS = 16,    /* at least, where each delivery is told */
    WINDOWS_WANTED = 20000 /* of a run; longer windows beyond */
};

void windows_free(struct windows *windows)
{
    free(windows->items);
    *windows = (struct windows){.items = NULL};
}

static kvt_status append(struct windows *windows, const struct window *window,
                         struct kvt_error *err)
{
    if (windows->count == windows->capacity) {
        size_t capacity = windows->capacity > 0 ? 2 * windows->capacity : 256;
        struct window *grown = realloc(windows->items, capacity * sizeof *grown);
        if (!grown)
            return kvt_fail_nomem(err, "windows of a benchmark");
        windows->items = grown;
        windows->capacity = capacity;
    }
    windows->items[windows->count++] = *window;
    return KVT_OK;
}

/* ---- A request over time -------------------------------------------------------------------- */

static double decoded_tokens(const struct engine_request *request)
{
    return request->output_tokens > 0 ? request->output_tokens - 1.0 : 0;
}

/* Tokens behind the first that were delivered by then, with a share of the one on its way. */
static double delivered(const struct engine_request *request, double at_s)
{
    double since_s = at_s - request->first_s, tokens = decoded_tokens(request);
    double span_s = request->last_s - request->first_s;
    size_t low = 0, high = request->later_count;

    if (since_s <= 0 || span_s <= 0)
        return 0;
    if (since_s >= span_s)
        return tokens;
    if (high == 0)
        return tokens * since_s / span_s;
    while (low < high) { /* deliveries that are over */
        size_t middle = low + (high - low) / 2;
        if (request->later_s[middle] <= since_s)
            low = middle + 1;
        else
            high = middle;
    }
    double begin_s = low > 0 ? request->later_s[low - 1] : 0;
    double share = (since_s - begin_s) / (request->later_s[low] - begin_s);
    return tokens * ((double)low + share) / (double)request->later_count;
}

/* When each prompt began to be computed. */
static void find_begins(const struct engine_run *run, double *begins)
{
    for (size_t i = 0; i < run->request_count; i++) {
        const struct engine_request *request = &run->requests[i];
        begins[i] = request->arrival_s;
        if (!isnan(request->scheduled_s)) {
            begins[i] = request->scheduled_s;
            continue;
        }
        for (size_t j = 0; j < run->request_count; j++) {
            double first_s = run->requests[j].first_s;
            if (first_s < request->first_s && first_s > begins[i])
                begins[i] = first_s;
        }
    }
}

/* Somebody who came before was still without his first token. */
static bool has_waited(const struct engine_run *run, size_t index)
{
    double at_s = run->requests[index].arrival_s;

    for (size_t j = 0; j < run->request_count; j++) {
        if (j != index && run->requests[j].arrival_s <= at_s && run->requests[j].first_s > at_s)
            return true;
    }
    return false;
}

/* ---- Sums over a window -----------------------------------------------------------------------
 */

static void add_request(const struct engine_request *request, double begin_s, double from_s,
                        double to_s, struct window *window)
{
    double *sums = window->sums;
    double low_s = fmax(from_s, request->first_s), high_s = fmin(to_s, request->last_s);
    double prompt_s = fmin(to_s, request->first_s) - fmax(from_s, begin_s);

    if (high_s > low_s) {
        double queries = sums[WINDOW_STEPS] * (high_s - low_s) / window->seconds;
        double tokens = 1 + (delivered(request, low_s) + delivered(request, high_s)) / 2;
        sums[WINDOW_QUERIES] += queries;
        sums[WINDOW_CONTEXT_ROWS] += queries * (request->input_tokens + tokens);
    }
    if (prompt_s > 0) {
        double tokens = request->input_tokens * prompt_s / (request->first_s - begin_s);
        sums[WINDOW_PREFILL_TOKENS] += tokens;
        sums[WINDOW_PREFILL_CONTEXT_TOKENS] += tokens * request->input_tokens / 2.0;
    }
}

static struct window window_between(const struct engine_run *run, const double *begins,
                                    double steps, double from_s, double to_s)
{
    struct window window = {
        .sums = {[WINDOW_STEPS] = steps}, .seconds = to_s - from_s, .end_s = to_s};

    for (size_t j = 0; j < run->request_count && run->requests[j].arrival_s < to_s; j++) {
        if (run->requests[j].last_s >= from_s)
            add_request(&run->requests[j], begins[j], from_s, to_s, &window);
    }
    return window;
}

/* ---- What a step can be like --------------------------------------------------------------- */

static void widen(struct windows *windows, enum window_sum sum, double value)
{
    if (windows->most[sum] <= 0 || value < windows->least[sum])
        windows->least[sum] = value;
    windows->most[sum] = fmax(windows->most[sum], value);
}

/* Those that decode in a moment, each with its context. */
static void widen_by_moment(const struct engine_run *run, double at_s, struct windows *windows)
{
    double queries = 0, context_rows = 0;

    for (size_t j = 0; j < run->request_count && run->requests[j].arrival_s < at_s; j++) {
        const struct engine_request *request = &run->requests[j];
        if (request->first_s > at_s || request->last_s < at_s)
            continue;
        queries++;
        context_rows += request->input_tokens + 1.0 + delivered(request, at_s);
    }
    widen(windows, WINDOW_QUERIES, queries);
    widen(windows, WINDOW_CONTEXT_ROWS, context_rows);
}

/* What is asked of a run, and where its windows go. */
struct task {
    const struct engine_run *run;
    const double *begins; /* [request_count] of prompts */
    size_t run_index;
    double from_s, to_s, chunk_tokens;
    struct windows *out;
};

static kvt_status add_window(const struct task *task, double steps, double begin_s, double end_s,
                             bool is_prompt, struct kvt_error *err)
{
    if (begin_s < task->from_s || end_s > task->to_s || end_s <= begin_s || steps <= 0)
        return KVT_OK;
    struct window window = window_between(task->run, task->begins, steps, begin_s, end_s);
    if (is_prompt && window.sums[WINDOW_QUERIES] > 0)
        return KVT_OK; /* how many steps it took is not known */
    if (!is_prompt) {
        widen_by_moment(task->run, begin_s, task->out);
        widen_by_moment(task->run, end_s, task->out);
    }
    window.run = task->run_index;
    return append(task->out, &window, err);
}

static kvt_status add_decoding(const struct task *task, const struct engine_request *request,
                               size_t tokens_a_window, struct kvt_error *err)
{
    double scale =
        request->later_count > 0 ? decoded_tokens(request) / (double)request->later_count : 0;

    if (request->later_count == 0)
        return add_window(task, decoded_tokens(request), request->first_s, request->last_s, false,
                          err);
    for (size_t from = 0; from < request->later_count; from += tokens_a_window) {
        size_t to = from + tokens_a_window;
        to = to < request->later_count ? to : request->later_count;
        double begin_s = request->first_s + (from > 0 ? request->later_s[from - 1] : 0);
        kvt_status status = add_window(task, (double)(to - from) * scale, begin_s,
                                       request->first_s + request->later_s[to - 1], false, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

/* A file without requests is one window: the mean step, beside the mean batch. */
static kvt_status add_figures(const struct task *task, struct kvt_error *err)
{
    const double *figures = task->run->figures;
    double requests = figures[ENGINE_COMPLETED], duration_s = figures[ENGINE_DURATION];
    double input = figures[ENGINE_INPUT_TOKENS] / requests;
    double output = figures[ENGINE_OUTPUT_TOKENS] / requests;
    double step_s = figures[ENGINE_MEAN_TPOT] * 1e-3;
    double active = requests * step_s * (output - 1) / duration_s;
    struct window window = {.seconds = step_s, .end_s = duration_s, .run = task->run_index};

    if (!(requests > 0) || !(duration_s > 0) || !(step_s > 0) || !(active > 0))
        return kvt_fail(err, KVT_ERR_INVALID, task->run->path,
                        "line %llu has neither requests (vLLM: --save-detailed, SGLang: "
                        "--output-details) nor completed, duration, mean_tpot_ms and token counts "
                        "above 0",
                        (unsigned long long)task->run->line);
    window.sums[WINDOW_STEPS] = 1;
    window.sums[WINDOW_QUERIES] = active;
    window.sums[WINDOW_CONTEXT_ROWS] = active * (input + output / 2);
    if (active > 1) { /* the prompts of others */
        window.sums[WINDOW_PREFILL_TOKENS] =
            figures[ENGINE_INPUT_TOKENS] / duration_s * step_s * (active - 1) / active;
        window.sums[WINDOW_PREFILL_CONTEXT_TOKENS] = window.sums[WINDOW_PREFILL_TOKENS] * input / 2;
    }
    widen(task->out, WINDOW_QUERIES, active);
    widen(task->out, WINDOW_CONTEXT_ROWS, window.sums[WINDOW_CONTEXT_ROWS]);
    return append(task->out, &window, err);
}

static kvt_status add_requests(const struct task *task, struct kvt_error *err)
{
    const struct engine_run *run = task->run;
    size_t tokens = 0;

    for (size_t i = 0; i < run->request_count; i++)
        tokens += run->requests[i].output_tokens;
    size_t tokens_a_window = tokens / WINDOWS_WANTED + 1;
    tokens_a_window = tokens_a_window > WINDOW_TOKENS ? tokens_a_window : WINDOW_TOKENS;
    for (size_t i = 0; i < run->request_count; i++) {
        const struct engine_request *request = &run->requests[i];
        double chunks = ceil(request->input_tokens / task->chunk_tokens);
        kvt_status status = add_decoding(task, request, tokens_a_window, err);
        if (status == KVT_OK && (!isnan(request->scheduled_s) || !has_waited(run, i)))
            status = add_window(task, chunks, task->begins[i], request->first_s, true, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

static int by_end(const void *a, const void *b)
{
    const struct window *x = a, *y = b;

    if (x->end_s != y->end_s)
        return x->end_s > y->end_s ? 1 : -1;
    if (x->seconds != y->seconds)
        return x->seconds > y->seconds ? 1 : -1;
    return (x->sums[WINDOW_STEPS] > y->sums[WINDOW_STEPS]) -
           (x->sums[WINDOW_STEPS] < y->sums[WINDOW_STEPS]);
}

kvt_status windows_of_run(const struct engine_run *run, size_t run_index, double from_s,
                          double to_s, double chunk_tokens, struct windows *out,
                          struct kvt_error *err)
{
    size_t had = out->count;
    double *begins = calloc(run->request_count + 1, sizeof *begins);
    const struct task task = {.run = run,
                              .begins = begins,
                              .run_index = run_index,
                              .from_s = from_s,
                              .to_s = to_s > 0 ? to_s : (double)INFINITY,
                              .chunk_tokens = chunk_tokens,
                              .out = out};

    if (!begins)
        return kvt_fail_nomem(err, "windows of a benchmark");
    find_begins(run, begins);
    kvt_status status = run->request_count > 0 ? add_requests(&task, err) : add_figures(&task, err);
    if (status == KVT_OK && out->count > had)
        qsort(out->items + had, out->count - had, sizeof *out->items, by_end);
    free(begins);
    return status;
}
