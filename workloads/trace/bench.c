/* bench.c -- results of vLLM's and SGLang's serving benchmarks, read as workloads.
 *
 * One object a run, with arrays that have one entry a request. Runs may follow
 * each other as JSON Lines (--append-result), or one object may be spread over
 * many lines. A request failed where `errors` has text, or where it has neither
 * a first token (ttfts 0) nor any other (itls empty).
 *
 * SGLang keeps no start times. With request_rate infinite, its default, all requests are there
 * when the run begins, behind the client's semaphore: they arrive at 0. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_file.h"

enum array {
    START_TIMES = 0,
    INPUT_LENS,
    OUTPUT_LENS,
    REQUIRED,
    TTFTS = REQUIRED,
    ITLS,
    ERRORS,
    ARRAYS
};

static const char *const array_names[ARRAYS] = {
    "start_times", "input_lens", "output_lens", "ttfts", "itls", "errors",
};

struct bench_reader {
    struct kvt_trace_source source;
    struct kvt_trace_objects *objects;
    const cJSON *run;            /* the object in hand; NULL: none */
    uint64_t line;               /* where it begins */
    uint64_t ordinal;            /* 1-based */
    bool has_starts;             /* it says when its requests came */
    size_t index;                /* of the next request in it */
    const cJSON *cursor[ARRAYS]; /* that request's entry of each array; NULL: no such array */
};

static void bench_close(void *state)
{
    struct bench_reader *reader = state;
    if (reader == NULL)
        return;
    kvt_trace_objects_close(reader->objects);
    free(reader);
}

static kvt_status bench_open(const struct kvt_trace_source *source, void **out,
                             struct kvt_error *err)
{
    struct bench_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return kvt_fail_nomem(err, "the reader of a trace");
    reader->source = *source;
    kvt_status status = kvt_trace_objects_open(source, &reader->objects, err);
    if (status != KVT_OK) {
        bench_close(reader);
        return status;
    }
    *out = reader;
    return KVT_OK;
}

static void run_where(const struct bench_reader *reader, char where[256])
{
    (void)snprintf(where, 256, "%s:%" PRIu64, reader->source.path, reader->line);
}

/* Whether a run without start times says itself that all its requests came at once. */
static kvt_status check_burst(const struct bench_reader *reader, const char *where,
                              struct kvt_error *err)
{
    const cJSON *rate = kvt_json_find(reader->run, "request_rate");
    if (cJSON_IsString(rate) && strcmp(rate->valuestring, "inf") == 0) {
        if (reader->ordinal == 1)
            return KVT_OK;
        return kvt_fail(err, KVT_ERR_PARSE, where,
                        "a second run, and neither says when it began (\"start_times\"); one run "
                        "to a file is expected");
    }
    return kvt_fail(err, KVT_ERR_PARSE, where,
                    "no array \"start_times\", and request_rate is not infinite: when its requests "
                    "came was not kept");
}

/* Finds the arrays of a run and holds their lengths against each other. */
static kvt_status check_run(struct bench_reader *reader, struct kvt_error *err)
{
    char where[256];
    run_where(reader, where);
    int expected = -1;
    int first = -1;
    bool may_lack_starts = kvt_json_find(reader->run, array_names[INPUT_LENS]) != NULL;
    for (int i = 0; i < ARRAYS; i++) {
        const cJSON *array = kvt_json_find(reader->run, array_names[i]);
        reader->cursor[i] = NULL;
        bool is_there = array != NULL && !cJSON_IsNull(array);
        if (!is_there && (i >= REQUIRED || (i == START_TIMES && may_lack_starts)))
            continue;
        if (!is_there)
            return kvt_fail(err, KVT_ERR_PARSE, where,
                            "no array \"%s\": only a result saved with every request can be "
                            "replayed (vLLM: --save-detailed, SGLang: --output-details)",
                            array_names[i]);
        if (!cJSON_IsArray(array))
            return kvt_fail(err, KVT_ERR_PARSE, where, "\"%s\" is not an array", array_names[i]);
        int count = cJSON_GetArraySize(array);
        if (first >= 0 && count != expected)
            return kvt_fail(err, KVT_ERR_PARSE, where,
                            "\"%s\" has %d entries, \"%s\" %d: there is one a request",
                            array_names[i], count, array_names[first], expected);
        if (first < 0)
            first = i;
        expected = count;
        reader->cursor[i] = array->child;
    }
    reader->index = 0;
    reader->has_starts = first == START_TIMES;
    return reader->has_starts ? KVT_OK : check_burst(reader, where, err);
}

/* The next object into reader->run; NULL at the end. */
static kvt_status next_run(struct bench_reader *reader, struct kvt_error *err)
{
    kvt_status status = kvt_trace_objects_next(reader->objects, &reader->run, err);
    reader->line = kvt_trace_objects_line(reader->objects);
    reader->ordinal++;
    return status;
}

static bool has_failed(const struct bench_reader *reader)
{
    const cJSON *error = reader->cursor[ERRORS];
    if (error != NULL && cJSON_IsString(error) && error->valuestring[0] != '\0')
        return true;
    const cJSON *ttft = reader->cursor[TTFTS];
    const cJSON *itls = reader->cursor[ITLS];
    return ttft != NULL && itls != NULL && cJSON_IsNumber(ttft) && ttft->valuedouble == 0 &&
           cJSON_IsArray(itls) && itls->child == NULL;
}

static kvt_status put_entry(const struct bench_reader *reader, enum array array,
                            struct kvt_trace_row *row, struct kvt_error *err)
{
    static const struct kvt_trace_column columns[REQUIRED] = {
        [START_TIMES] = {KVT_TRACE_ARRIVAL, KVT_NS_PER_S},
        [INPUT_LENS] = {KVT_TRACE_INPUT, 0},
        [OUTPUT_LENS] = {KVT_TRACE_OUTPUT, 0},
    };
    char name[48];
    (void)snprintf(name, sizeof name, "%s/%zu", array_names[array], reader->index);
    const struct kvt_trace_place place = {
        .path = reader->source.path, .line = reader->line, .name = name};
    struct kvt_trace_value value = {.text = NULL};
    kvt_status status = kvt_trace_value_of_json(reader->cursor[array], &place, &value, err);
    if (status != KVT_OK)
        return status;
    return kvt_trace_put(columns[array], &value, &place, row, err);
}

static kvt_status bench_next(void *state, struct kvt_trace_row *row, bool *more,
                             struct kvt_error *err)
{
    struct bench_reader *reader = state;
    *more = false;
    while (reader->run == NULL || reader->cursor[INPUT_LENS] == NULL) {
        kvt_status status = next_run(reader, err);
        if (status != KVT_OK || reader->run == NULL)
            return status;
        status = check_run(reader, err);
        if (status != KVT_OK)
            return status;
    }
    *row = kvt_trace_row_at(reader->line);
    row->kind = has_failed(reader) ? KVT_TRACE_ROW_FAILED : KVT_TRACE_ROW_REQUEST;
    for (int i = reader->has_starts ? START_TIMES : INPUT_LENS; i < REQUIRED; i++) {
        kvt_status status = put_entry(reader, (enum array)i, row, err);
        if (status != KVT_OK)
            return status;
    }
    for (int i = 0; i < ARRAYS; i++) {
        if (reader->cursor[i] != NULL)
            reader->cursor[i] = reader->cursor[i]->next;
    }
    reader->index++;
    *more = true;
    return KVT_OK;
}

const struct kvt_trace_reader kvt_trace_bench_reader = {
    .open = bench_open,
    .next = bench_next,
    .close = bench_close,
};
