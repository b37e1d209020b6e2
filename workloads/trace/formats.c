/* formats.c -- the formats of trace files, and which one a file has.
 *
 *     look at the first line that is not blank
 *     '{':  its keys (or the whole document's, when the object goes on)
 *     else: the fields of the first row
 *     the first format, in the order below, whose signature is all there
 *
 * A file's name never counts. To add a format: a line in the table, and where
 * its rows are not those of a header or of one object a line, a reader. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "trace_file.h"

enum {
    NAMES_MAX = 256
};

/* The more particular before the more general. */
static const struct kvt_trace_format formats[] = {
    {.name = "kvtide",
     .shape = KVT_TRACE_CSV,
     .signature = {"arrival_s", "input_tokens", "output_tokens"},
     .reader = &kvt_trace_csv_reader},
    {.name = "qwen-bailian",
     .shape = KVT_TRACE_JSON_LINES,
     .signature = {"chat_id", "timestamp", "input_length", "output_length"},
     .unit_ns = KVT_NS_PER_S,
     .block_tokens = 16,
     .reader = &kvt_trace_jsonl_reader},
    {.name = "ragpulse",
     .shape = KVT_TRACE_JSON_LINES,
     .signature = {"timestamp", "input_length", "output_length", "hash_ids/user_input"},
     .unit_ns = KVT_NS_PER_S,
     .wrap_ns = 604800 * KVT_NS_PER_S /* a week */,
     .has_parts = true,
     .reader = &kvt_trace_jsonl_reader},
    {.name = "mooncake",
     .shape = KVT_TRACE_JSON_LINES,
     .signature = {"timestamp", "input_length", "output_length"},
     .unit_ns = KVT_NS_PER_S / 1000,
     .block_tokens = 512,
     .think_name = "delay",
     .think_unit_ns = KVT_NS_PER_S / 1000,
     .reader = &kvt_trace_jsonl_reader},
    {.name = "aiperf",
     .shape = KVT_TRACE_JSON_LINES,
     .signature = {"metadata/x_request_id", "metrics"},
     .reader = &kvt_trace_aiperf_reader},
    {.name = "weka",
     .shape = KVT_TRACE_JSON_NESTED,
     .signature = {"id", "requests"},
     .block_tokens = 64,
     .reader = &kvt_trace_weka_reader},
    {.name = "guidellm",
     .shape = KVT_TRACE_JSON_NESTED,
     .signature = {"benchmarks"},
     .reader = &kvt_trace_guidellm_reader},
    {.name = "blis",
     .shape = KVT_TRACE_CSV,
     .signature = {"arrival_time_us", "round_index", "prefix_group", "input_tokens"},
     .reader = &kvt_trace_blis_reader},
    {.name = "azure",
     .shape = KVT_TRACE_CSV,
     .signature = {"timestamp", "contexttokens", "generatedtokens"},
     .reader = &kvt_trace_csv_reader},
    {.name = "burstgpt",
     .shape = KVT_TRACE_CSV,
     .signature = {"timestamp", "request_tokens", "response_tokens"},
     .unit_ns = KVT_NS_PER_S,
     .reader = &kvt_trace_csv_reader},
    {.name = "servegen", .shape = KVT_TRACE_CSV_BARE, .reader = &kvt_trace_servegen_reader},
    {.name = "llmservingsim-agentic",
     .shape = KVT_TRACE_JSON_LINES,
     .signature = {"arrival_time_ns", "sub_requests"},
     .reader = &kvt_trace_agentic_reader},
    {.name = "llmservingsim",
     .shape = KVT_TRACE_JSON_LINES,
     .signature = {"input_toks", "output_toks"},
     .unit_ns = KVT_NS_PER_S,
     .reader = &kvt_trace_jsonl_reader},
    {.name = "vidur",
     .shape = KVT_TRACE_CSV,
     .signature = {"num_prefill_tokens", "num_decode_tokens"},
     .unit_ns = KVT_NS_PER_S,
     .reader = &kvt_trace_csv_reader},
    {.name = "splitwise",
     .shape = KVT_TRACE_CSV,
     .signature = {"arrival_timestamp", "prompt_size", "token_size"},
     .unit_ns = KVT_NS_PER_S,
     .reader = &kvt_trace_csv_reader},
    {.name = "vllm",
     .shape = KVT_TRACE_JSON_NESTED,
     .signature = {"tokenizer_id", "request_throughput"},
     .reader = &kvt_trace_bench_reader},
    {.name = "sglang",
     .shape = KVT_TRACE_JSON_NESTED,
     .signature = {"request_throughput"},
     .has_infinity = true,
     .reader = &kvt_trace_bench_reader},
    {.name = "apex",
     .shape = KVT_TRACE_JSON_LINES,
     .signature = {"starttimeoffset", "contexttokens", "generatedtokens"},
     .reader = &kvt_trace_jsonl_reader},
    {.name = "csv", .shape = KVT_TRACE_CSV, .reader = &kvt_trace_csv_reader},
    {.name = "jsonl", .shape = KVT_TRACE_JSON_LINES, .reader = &kvt_trace_jsonl_reader},
};
enum {
    FORMAT_COUNT = sizeof formats / sizeof formats[0]
};

const char *const *kvt_trace_formats(void)
{
    static const char *const names[] = {
        "kvtide",        "qwen-bailian", "ragpulse",
        "mooncake",      "aiperf",       "weka",
        "guidellm",      "blis",         "azure",
        "burstgpt",      "servegen",     "llmservingsim-agentic",
        "llmservingsim", "vidur",        "splitwise",
        "vllm",          "sglang",       "apex",
        "csv",           "jsonl",        NULL,
    };
    _Static_assert(sizeof names / sizeof names[0] == FORMAT_COUNT + 1, "a name for each format");
    return names;
}

/* What the beginning of a file shows. */
struct sample {
    bool is_json;
    bool is_document; /* the object goes on over many lines */
    bool is_object;
    bool looks_bare; /* a row of numbers where a header would be */
    size_t count;
    char names[NAMES_MAX][64]; /* [count], spelled alike; longer ones mean nothing */
    size_t too_long_bytes;     /* of the first that is longer; 0: none is */
};

static bool has_name(const struct sample *sample, const char *name)
{
    for (size_t i = 0; i < sample->count; i++) {
        if (strcmp(sample->names[i], name) == 0)
            return true;
    }
    return false;
}

static void add_name(struct sample *sample, const char *name)
{
    if (sample->count == NAMES_MAX)
        return;
    if (kvt_trace_spell(name, sample->names[sample->count]))
        sample->count++;
    else if (sample->too_long_bytes == 0)
        sample->too_long_bytes = strlen(name);
}

/* ---- Looking -------------------------------------------------------------------- */

/* Names of an object, and of the objects in it: their shape tells apart what shares names. */
static void add_names_of(struct sample *sample, const cJSON *object)
{
    for (const cJSON *item = object->child; item != NULL; item = item->next)
        add_name(sample, item->string);
    for (const cJSON *item = object->child; item != NULL; item = item->next) {
        const cJSON *inner = cJSON_IsObject(item) ? item->child : NULL;
        for (; inner != NULL; inner = inner->next) {
            char name[128];
            (void)snprintf(name, sizeof name, "%.60s/%.60s", item->string, inner->string);
            add_name(sample, name);
        }
    }
}

/* What may not be there is for the format's reader to find. */
static kvt_status look_at_json(const char *path, char *text, size_t text_bytes, uint64_t line,
                               struct sample *sample, struct kvt_error *err)
{
    size_t end = text_bytes;
    kvt_json_mend_infinity(text);
    while (end > 1 && strchr(" \t\r", text[end - 1]) != NULL)
        end--;
    sample->is_document = text[end - 1] != '}';
    cJSON *tree = NULL;
    kvt_status status = sample->is_document
                            ? kvt_json_load_mended(path, KVT_TRACE_DOCUMENT_BYTES_MAX, &tree, err)
                            : kvt_json_parse(text, text_bytes, path, line, &tree, err);
    if (status != KVT_OK)
        return status;
    sample->is_object = cJSON_IsObject(tree);
    if (sample->is_object)
        add_names_of(sample, tree);
    cJSON_Delete(tree);
    return KVT_OK;
}

static kvt_status look_at_csv(const char *path, struct sample *sample, struct kvt_error *err)
{
    struct kvt_csv *csv = NULL;
    char **fields = NULL;
    size_t field_count = 0;
    kvt_status status = kvt_csv_open(path, &csv, err);
    if (status == KVT_OK)
        status = kvt_csv_next(csv, &fields, &field_count, err);
    if (fields != NULL) {
        double number = 0;
        sample->looks_bare = field_count >= 2 &&
                             kvt_text_real(fields[0], "", -1e18, 1e18, &number, NULL) == KVT_OK &&
                             kvt_text_real(fields[1], "", -1e18, 1e18, &number, NULL) == KVT_OK;
        for (size_t i = 0; i < field_count; i++)
            add_name(sample, fields[i]);
    }
    kvt_csv_close(csv);
    return status;
}

/* By a first line with something in it. */
static kvt_status look_at_line(const char *path, char *text, size_t text_bytes, uint64_t line,
                               struct sample *sample, struct kvt_error *err)
{
    size_t blanks = strspn(text, " \t");
    if (text[blanks] == '[')
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, path,
                        "an array of JSON values has no arrival times; a trace is CSV, JSON "
                        "Lines, or a benchmark's result");
    sample->is_json = text[blanks] == '{';
    if (sample->is_json)
        return look_at_json(path, text + blanks, text_bytes - blanks, line, sample, err);
    return look_at_csv(path, sample, err);
}

static kvt_status look_at(const char *path, struct sample *sample, struct kvt_error *err)
{
    struct kvt_lines *lines = NULL;
    char *text = NULL;
    size_t text_bytes = 0;
    kvt_status status = kvt_lines_open(path, &lines, err);
    do {
        if (status == KVT_OK)
            status = kvt_lines_next(lines, &text, &text_bytes, err);
    } while (status == KVT_OK && text != NULL && text[strspn(text, " \t")] == '\0');
    if (status == KVT_OK && text != NULL)
        status = look_at_line(path, text, text_bytes, kvt_lines_number(lines), sample, err);
    else if (status == KVT_OK)
        status = kvt_fail(err, KVT_ERR_PARSE, path, "the file is empty");
    kvt_lines_close(lines);
    return status;
}

/* ---- Deciding -------------------------------------------------------------------- */

static bool has_required_fields(const struct sample *sample)
{
    for (int field = 0; field < KVT_TRACE_REQUIRED_FIELDS; field++) {
        bool is_there = false;
        for (size_t i = 0; i < sample->count; i++)
            is_there = is_there ||
                       kvt_trace_column_of(sample->names[i]).field == (enum kvt_trace_field)field;
        if (!is_there)
            return false;
    }
    return true;
}

static bool fits_shape(const struct kvt_trace_format *format, const struct sample *sample)
{
    switch (format->shape) {
    case KVT_TRACE_CSV:
    case KVT_TRACE_CSV_BARE:
        return !sample->is_json;
    case KVT_TRACE_JSON_LINES:
        return sample->is_json && !sample->is_document;
    case KVT_TRACE_JSON_NESTED:
        return sample->is_json;
    }
    return false;
}

static bool matches(const struct kvt_trace_format *format, const struct sample *sample)
{
    if (!fits_shape(format, sample))
        return false;
    if (format->shape == KVT_TRACE_CSV_BARE)
        return sample->looks_bare;
    if (format->signature[0] == NULL)
        return has_required_fields(sample);
    for (size_t i = 0; i < KVT_TRACE_SIGNATURE_MAX && format->signature[i] != NULL; i++) {
        if (!has_name(sample, format->signature[i]))
            return false;
    }
    return true;
}

static void list_formats(char *list, size_t list_bytes)
{
    list[0] = '\0';
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        kvt_trace_list(list, list_bytes, formats[i].name);
}

/* The names of a file, for a message. */
static void list_found(const struct sample *sample, char *list, size_t list_bytes)
{
    char too_long[64];

    list[0] = '\0';
    (void)snprintf(too_long, sizeof too_long, "one of %zu characters, too long for a name",
                   sample->too_long_bytes);
    if (sample->too_long_bytes > 0)
        kvt_trace_list(list, list_bytes, too_long);
    for (size_t i = 0; i < sample->count; i++) {
        if (sample->names[i][0] != '\0')
            kvt_trace_list(list, list_bytes, sample->names[i]);
    }
    if (list[0] == '\0')
        kvt_trace_list(list, list_bytes, "none");
}

static bool is_conversation(const struct sample *sample)
{
    return has_name(sample, "requests") || has_name(sample, "conversations");
}

/* Summaries by the tools whose other files are taken. */
static const char *summary_of(const struct sample *sample)
{
    if (sample->is_json)
        return has_name(sample, "input_config") && has_name(sample, "request_latency/avg")
                   ? "profile_export.jsonl"
                   : NULL;
    if (has_name(sample, "timings") && has_name(sample, "request_counts"))
        return "GuideLLM's benchmarks.json";
    return has_name(sample, "metric") && has_name(sample, "avg") && has_name(sample, "p99")
               ? "AIPerf's profile_export.jsonl"
               : NULL;
}

static kvt_status find_match(const char *path, const struct sample *sample,
                             const struct kvt_trace_format **out, struct kvt_error *err)
{
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        if (matches(&formats[i], sample)) {
            *out = &formats[i];
            return KVT_OK;
        }
    }
    const char *whole = summary_of(sample);
    if (whole != NULL)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, path,
                        "a summary, without a single request; give %s of the same run", whole);
    if (sample->is_json && is_conversation(sample))
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, path,
                        "one object a conversation, of a format that is not taken; convert it to "
                        "one request a line, or to LLMServingSim's sub_requests");
    char found[256];
    char known[320];
    list_found(sample, found, sizeof found);
    list_formats(known, sizeof known);
    return kvt_fail(err, KVT_ERR_PARSE, path,
                    "the names here (%s) are no format's; there are: %s; any CSV or JSON Lines "
                    "with an arrival time, an input and an output length will do",
                    found, known);
}

/* A named format that the file does not have: what it has, and which format that would be. */
static kvt_status fail_other(const char *path, const struct kvt_trace_format *format,
                             const struct sample *sample, struct kvt_error *err)
{
    char found[256], wanted[160] = "";
    const struct kvt_trace_format *like = NULL;
    struct kvt_error unused;

    list_found(sample, found, sizeof found);
    for (size_t i = 0; i < KVT_TRACE_SIGNATURE_MAX && format->signature[i] != NULL; i++)
        kvt_trace_list(wanted, sizeof wanted, format->signature[i]);
    if (format->shape == KVT_TRACE_CSV_BARE)
        (void)snprintf(wanted, sizeof wanted, "rows of numbers, without a header");
    bool is_like = find_match(path, sample, &like, &unused) == KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, path, "format %s has %s; found: %s%s%s", format->name,
                    wanted, found, is_like ? "; this looks like format " : "",
                    is_like ? like->name : "");
}

static kvt_status find_named(const char *path, const char *wanted, const struct sample *sample,
                             const struct kvt_trace_format **out, struct kvt_error *err)
{
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        if (strcmp(formats[i].name, wanted) != 0)
            continue;
        if (!fits_shape(&formats[i], sample))
            return kvt_fail(err, KVT_ERR_INVALID, path, "format %s is %s; this file is %s", wanted,
                            formats[i].shape <= KVT_TRACE_CSV_BARE ? "CSV" : "JSON",
                            sample->is_json ? "JSON" : "CSV");
        bool is_general = formats[i].signature[0] == NULL && formats[i].shape != KVT_TRACE_CSV_BARE;
        if (!is_general && !matches(&formats[i], sample))
            return fail_other(path, &formats[i], sample, err);
        *out = &formats[i];
        return KVT_OK;
    }
    char known[320];
    list_formats(known, sizeof known);
    return kvt_fail(err, KVT_ERR_NOT_FOUND, path,
                    "\"%.40s\" is no trace format; there are: auto, %s", wanted, known);
}

kvt_status kvt_trace_detect(const char *path, const char *wanted, struct kvt_trace_source *out,
                            struct kvt_error *err)
{
    struct sample *sample = calloc(1, sizeof *sample);
    if (sample == NULL)
        return kvt_fail_nomem(err, "a look at a trace");
    kvt_status status = look_at(path, sample, err);
    const struct kvt_trace_format *format = NULL;
    if (status == KVT_OK)
        status = strcmp(wanted, "auto") == 0 ? find_match(path, sample, &format, err)
                                             : find_named(path, wanted, sample, &format, err);
    if (status == KVT_OK)
        *out = (struct kvt_trace_source){.path = path,
                                         .format = format,
                                         .is_document = sample->is_document,
                                         .has_parts =
                                             format->has_parts && kvt_trace_parts_are_beside(path)};
    free(sample);
    return status;
}
