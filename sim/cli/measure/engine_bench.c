/* engine_bench.c -- runs out of benchmark files: vLLM's, SGLang's, and LLMServingSim's of vLLM. */
#include "engine_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/json.h"

#define DOCUMENT_BYTES_MAX ((size_t)1 << 30)

enum {
    WHERE_BYTES = 256,
    RUNS_MAX = 4096, /* of one file */
    REQUESTS_MAX = 1 << 24
};

static const double SECONDS_MAX = 1e12; /* of any clock */
static const double TOKENS_MAX = 2147483647.0;

static int by_arrival(const void *a, const void *b)
{
    const struct engine_request *x = a, *y = b;
    const double first[] = {x->arrival_s, x->first_s, x->last_s, x->input_tokens};
    const double second[] = {y->arrival_s, y->first_s, y->last_s, y->input_tokens};

    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
        if (first[i] != second[i])
            return first[i] > second[i] ? 1 : -1;
    }
    return 0;
}

/* From here on the run's clock begins with its first request, which is served as the others are. */
static kvt_status close_run(struct engine_run *run, struct engine_request *requests,
                            struct kvt_error *err)
{
    double computed[ENGINE_FIGURES];

    for (int f = 0; f < ENGINE_FIGURES; f++)
        computed[f] = NAN;
    qsort(requests, run->request_count, sizeof *requests, by_arrival);
    for (size_t i = run->request_count; i-- > 0;) {
        requests[i].scheduled_s -= requests[0].arrival_s;
        requests[i].first_s -= requests[0].arrival_s;
        requests[i].last_s -= requests[0].arrival_s;
        requests[i].arrival_s -= requests[0].arrival_s;
    }
    run->requests = requests;
    kvt_status status = engine_figures_of(requests, run->request_count, computed, err);
    for (int f = 0; f < ENGINE_FIGURES; f++) {
        if (isnan(run->figures[f]))
            run->figures[f] = computed[f];
    }
    return status;
}

/* ---- One object a run: vLLM and SGLang ---------------------------------------------------------
 */

enum array {
    START_TIMES = 0,
    INPUT_LENS,
    OUTPUT_LENS,
    TTFTS,
    ITLS,
    NEEDED, /* the ones above */
    ERRORS = NEEDED,
    ARRAYS
};
static const char *const array_names[ARRAYS] = {"start_times", "input_lens", "output_lens",
                                                "ttfts",       "itls",       "errors"};

/* One entry of an array as a number in [0, most]. */
static kvt_status entry_number(const cJSON *entry, const char *where, const char *array,
                               size_t index, double most, double *out, struct kvt_error *err)
{
    if (!cJSON_IsNumber(entry) || !(entry->valuedouble >= 0) || entry->valuedouble > most)
        return kvt_fail(err, KVT_ERR_PARSE, where, "%s/%zu is no number from 0 to %g", array, index,
                        most);
    *out = entry->valuedouble;
    return KVT_OK;
}

static kvt_status entry_count(const cJSON *entry, const char *where, const char *array,
                              size_t index, uint32_t *out, struct kvt_error *err)
{
    double number = 0;
    kvt_status status = entry_number(entry, where, array, index, TOKENS_MAX, &number, err);

    if (status == KVT_OK && number != floor(number))
        status = kvt_fail(err, KVT_ERR_PARSE, where, "%s/%zu is %g: whole tokens are expected",
                          array, index, number);
    *out = (uint32_t)number;
    return status;
}

/* Deliveries behind the first, out of their gaps. */
static kvt_status read_deliveries(const cJSON *itls, const char *where, size_t index,
                                  struct kvt_arena *arena, struct engine_request *request,
                                  struct kvt_error *err)
{
    size_t count = cJSON_IsArray(itls) ? (size_t)cJSON_GetArraySize(itls) : 0;
    double *later = kvt_arena_array(arena, count, sizeof *later, _Alignof(double));
    const cJSON *gap = NULL;

    if (!cJSON_IsArray(itls))
        return kvt_fail(err, KVT_ERR_PARSE, where, "itls/%zu is no list of gaps", index);
    if (count > 0 && !later)
        return kvt_fail_nomem(err, "a benchmark's gaps");
    request->last_s = request->first_s;
    request->later_s = later;
    cJSON_ArrayForEach(gap, itls)
    {
        double seconds = 0;
        kvt_status status = entry_number(gap, where, "itls", index, SECONDS_MAX, &seconds, err);
        if (status != KVT_OK)
            return status;
        request->last_s += seconds;
        later[request->later_count++] = request->last_s - request->first_s;
    }
    return KVT_OK;
}

static kvt_status read_request(const cJSON *const cursor[ARRAYS], const char *where, size_t index,
                               struct kvt_arena *arena, struct engine_request *request,
                               struct kvt_error *err)
{
    double ttft = 0;
    kvt_status status = entry_number(cursor[START_TIMES], where, array_names[START_TIMES], index,
                                     SECONDS_MAX, &request->arrival_s, err);

    request->scheduled_s = NAN;
    if (status == KVT_OK)
        status = entry_count(cursor[INPUT_LENS], where, array_names[INPUT_LENS], index,
                             &request->input_tokens, err);
    if (status == KVT_OK)
        status = entry_count(cursor[OUTPUT_LENS], where, array_names[OUTPUT_LENS], index,
                             &request->output_tokens, err);
    if (status == KVT_OK)
        status =
            entry_number(cursor[TTFTS], where, array_names[TTFTS], index, SECONDS_MAX, &ttft, err);
    request->first_s = request->arrival_s + ttft;
    return status == KVT_OK ? read_deliveries(cursor[ITLS], where, index, arena, request, err)
                            : status;
}

static bool has_failed(const cJSON *error, const struct engine_request *request)
{
    if (error && cJSON_IsString(error) && error->valuestring[0] != '\0')
        return true;
    return request->output_tokens == 0 ||
           (request->first_s <= request->arrival_s && request->later_count == 0);
}

/* Every request, where the object has the five arrays that tell them; else figures are all. */
static kvt_status read_requests(const cJSON *object, const char *where, struct kvt_arena *arena,
                                struct engine_run *run, struct kvt_error *err)
{
    const cJSON *cursor[ARRAYS];
    int count = -1;

    for (int a = 0; a < ARRAYS; a++) {
        const cJSON *array = kvt_json_find(object, array_names[a]);
        bool is_there = cJSON_IsArray(array) && array->child;
        if (!is_there && a < NEEDED)
            return KVT_OK;
        cursor[a] = is_there ? array->child : NULL;
        if (is_there && count >= 0 && count != cJSON_GetArraySize(array))
            return kvt_fail(err, KVT_ERR_PARSE, where,
                            "\"%s\" has %d entries, \"%s\" %d: there is one a request",
                            array_names[a], cJSON_GetArraySize(array), array_names[START_TIMES],
                            count);
        count = is_there ? cJSON_GetArraySize(array) : count;
    }
    struct engine_request *requests =
        kvt_arena_array(arena, (size_t)count, sizeof *requests, _Alignof(struct engine_request));
    if (!requests)
        return kvt_fail_nomem(err, "a benchmark's requests");
    for (size_t i = 0; i < (size_t)count; i++) {
        struct engine_request *request = &requests[run->request_count];
        *request = (struct engine_request){.later_count = 0};
        kvt_status status = read_request(cursor, where, i, arena, request, err);
        if (status != KVT_OK)
            return status;
        if (has_failed(cursor[ERRORS], request))
            run->failed++;
        else
            run->request_count++;
        for (int a = 0; a < ARRAYS; a++)
            cursor[a] = cursor[a] ? cursor[a]->next : NULL;
    }
    return close_run(run, requests, err);
}

static kvt_status read_figures(const cJSON *object, const char *where, struct engine_run *run,
                               struct kvt_error *err)
{
    for (int f = 0; f < ENGINE_FIGURES; f++) {
        const char *key = engine_figure_name((enum engine_figure)f);
        const cJSON *item = kvt_json_find(object, key);
        if (!item && f == ENGINE_MEAN_E2EL) {
            key = "mean_e2e_latency_ms"; /* SGLang's */
            item = kvt_json_find(object, key);
        }
        run->figures[f] = NAN;
        if (!item || cJSON_IsNull(item))
            continue;
        kvt_status status =
            kvt_json_get_f64(object, where, key, true, 0, SECONDS_MAX, &run->figures[f], err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

static kvt_status read_object(const cJSON *object, const char *where, struct kvt_arena *arena,
                              struct engine_run *run, struct kvt_error *err)
{
    if (!cJSON_IsObject(object) || !kvt_json_find(object, "completed") ||
        !kvt_json_find(object, "mean_ttft_ms"))
        return kvt_fail(err, KVT_ERR_PARSE, where,
                        "no benchmark's result: one of vLLM (bench serve --save-result) or SGLang "
                        "(bench_serving --output-file) has \"completed\" and \"mean_ttft_ms\"");
    run->engine = kvt_json_find(object, "tokenizer_id") ? "vllm" : "sglang";
    kvt_status status = read_figures(object, where, run, err);
    return status == KVT_OK ? read_requests(object, where, arena, run, err) : status;
}

/* ---- A line a request: LLMServingSim's benchmark of vLLM ---------------------------------------
 */

static bool is_request_line(const cJSON *object)
{
    return kvt_json_find(object, "first_token_ts") && kvt_json_find(object, "input_toks");
}

/* The wall clock of arrival_time and the steady clock of the rest are told apart: *ahead_s is how
 * far the one is ahead of the other, by this request. */
static kvt_status read_request_line(const cJSON *object, const char *where,
                                    struct engine_request *request, double *ahead_s,
                                    struct kvt_error *err)
{
    uint64_t input = 0, output = 0;
    double queued_s = 0;
    const struct {
        const char *key;
        double *out;
    } times[] = {{"arrival_time", &request->arrival_s},
                 {"queued_ts", &queued_s},
                 {"scheduled_ts", &request->scheduled_s},
                 {"first_token_ts", &request->first_s},
                 {"last_token_ts", &request->last_s}};
    kvt_status status =
        kvt_json_get_u64(object, where, "input_toks", true, 1, (uint64_t)TOKENS_MAX, &input, err);

    if (status == KVT_OK)
        status = kvt_json_get_u64(object, where, "output_toks", true, 1, (uint64_t)TOKENS_MAX,
                                  &output, err);
    for (size_t i = 0; i < sizeof times / sizeof times[0] && status == KVT_OK; i++)
        status =
            kvt_json_get_f64(object, where, times[i].key, true, 0, SECONDS_MAX, times[i].out, err);
    if (status == KVT_OK &&
        (request->scheduled_s < queued_s || request->first_s < request->scheduled_s ||
         request->last_s < request->first_s))
        status = kvt_fail(err, KVT_ERR_PARSE, where,
                          "queued_ts, scheduled_ts, first_token_ts and last_token_ts do not rise");
    request->input_tokens = (uint32_t)input;
    request->output_tokens = (uint32_t)output;
    *ahead_s = request->arrival_s - queued_s;
    return status;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* What is read so far of one file. */
struct reading {
    const char *path;
    struct kvt_arena *arena;
    struct engine_run runs[RUNS_MAX];
    size_t run_count;
    struct engine_request *lines; /* [line_count] of a file with a request a line */
    size_t line_count, line_capacity;
    double ahead_s; /* most that any request's wall clock was ahead */
};

static kvt_status add_line(struct reading *reading, const cJSON *object, const char *where,
                           struct kvt_error *err)
{
    double ahead_s = 0;

    if (reading->line_count == reading->line_capacity) {
        size_t capacity = reading->line_capacity > 0 ? 2 * reading->line_capacity : 256;
        struct engine_request *grown =
            capacity <= REQUESTS_MAX ? realloc(reading->lines, capacity * sizeof *grown) : NULL;
        if (!grown)
            return kvt_fail_nomem(err, "a benchmark's requests");
        reading->lines = grown;
        reading->line_capacity = capacity;
    }
    struct engine_request *request = &reading->lines[reading->line_count];
    *request = (struct engine_request){.later_count = 0};
    kvt_status status = read_request_line(object, where, request, &ahead_s, err);
    if (status != KVT_OK)
        return status;
    if (reading->line_count == 0 || ahead_s > reading->ahead_s)
        reading->ahead_s = ahead_s;
    reading->line_count++;
    return KVT_OK;
}

static kvt_status add_object(struct reading *reading, const cJSON *object, uint64_t line,
                             struct kvt_error *err)
{
    char where[WHERE_BYTES];

    (void)snprintf(where, sizeof where, "%s:%llu", reading->path, (unsigned long long)line);
    if (reading->run_count == 0 && is_request_line(object))
        return add_line(reading, object, where, err);
    if (reading->line_count > 0)
        return kvt_fail(err, KVT_ERR_PARSE, where, "no request, after %zu of them",
                        reading->line_count);
    if (reading->run_count == RUNS_MAX)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, where, "more than %d runs in a file", RUNS_MAX);
    struct engine_run *run = &reading->runs[reading->run_count];
    *run = (struct engine_run){.path = reading->path, .line = line};
    kvt_status status = read_object(object, where, reading->arena, run, err);
    reading->run_count += status == KVT_OK;
    return status;
}

/* Every line an object. Where the first is none, *is_document: the file may be one over many
 * lines. */
static kvt_status read_lines(struct reading *reading, bool *is_document, struct kvt_error *err)
{
    struct kvt_lines *lines = NULL;
    char *text = NULL;
    size_t text_bytes = 0, objects = 0;
    kvt_status status = kvt_lines_open(reading->path, &lines, err);

    *is_document = false;
    while (status == KVT_OK) {
        cJSON *object = NULL;
        status = kvt_lines_next(lines, &text, &text_bytes, err);
        if (status != KVT_OK || !text)
            break;
        if (text[strspn(text, " \t")] == '\0')
            continue;
        uint64_t line = kvt_lines_number(lines);
        kvt_json_mend_infinity(text);
        status = kvt_json_parse(text, text_bytes, reading->path, line, &object, err);
        if (status == KVT_ERR_PARSE && objects == 0) {
            *is_document = true;
            break;
        }
        if (status == KVT_OK)
            status = add_object(reading, object, line, err);
        objects++;
        cJSON_Delete(object);
    }
    kvt_lines_close(lines);
    return *is_document ? KVT_OK : status;
}

static kvt_status read_document(struct reading *reading, struct kvt_error *err)
{
    cJSON *object = NULL;
    kvt_status status = kvt_json_load_mended(reading->path, DOCUMENT_BYTES_MAX, &object, err);

    if (status == KVT_OK)
        status = add_object(reading, object, 1, err);
    cJSON_Delete(object);
    return status;
}

/* Requests of lines, on one clock: nobody is queued before he arrives. */
static kvt_status close_lines(struct reading *reading, struct kvt_error *err)
{
    struct engine_run *run = &reading->runs[0];
    struct engine_request *requests = kvt_arena_array(
        reading->arena, reading->line_count, sizeof *requests, _Alignof(struct engine_request));

    if (!requests)
        return kvt_fail_nomem(err, "a benchmark's requests");
    memcpy(requests, reading->lines, reading->line_count * sizeof *requests);
    *run = (struct engine_run){
        .path = reading->path, .line = 1, .engine = "vllm", .request_count = reading->line_count};
    for (int f = 0; f < ENGINE_FIGURES; f++)
        run->figures[f] = NAN;
    for (size_t i = 0; i < reading->line_count; i++)
        requests[i].arrival_s -= reading->ahead_s;
    reading->run_count = 1;
    return close_run(run, requests, err);
}

static kvt_status keep(const struct reading *reading, struct engine_run **out, size_t *count,
                       struct kvt_error *err)
{
    if (reading->run_count == 0)
        return kvt_fail(err, KVT_ERR_PARSE, reading->path,
                        "nothing in it: a benchmark's result is expected");
    *out = kvt_arena_array(reading->arena, reading->run_count, sizeof **out,
                           _Alignof(struct engine_run));
    if (!*out)
        return kvt_fail_nomem(err, "a benchmark's runs");
    memcpy(*out, reading->runs, reading->run_count * sizeof **out);
    *count = reading->run_count;
    return KVT_OK;
}

kvt_status engine_bench_load(const char *path, struct kvt_arena *arena, struct engine_run **out,
                             size_t *count, struct kvt_error *err)
{
    struct reading *reading = calloc(1, sizeof *reading);
    bool is_document = false;

    if (!reading)
        return kvt_fail_nomem(err, "a benchmark");
    reading->path = path;
    reading->arena = arena;
    kvt_status status = read_lines(reading, &is_document, err);
    if (status == KVT_OK && is_document)
        status = read_document(reading, err);
    if (status == KVT_OK && reading->line_count > 0)
        status = close_lines(reading, err);
    if (status == KVT_OK)
        status = keep(reading, out, count, err);
    free(reading->lines);
    free(reading);
    return status;
}
