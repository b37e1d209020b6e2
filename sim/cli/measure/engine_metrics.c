/* engine_metrics.c -- figures out of what engines expose to Prometheus.
 *
 *     NAME{LABELS} VALUE [TIME]      # begins a comment
 *
 * Samples of one name are summed over its labels, which are engines of one server; of SGLang those
 * of tensor-parallel rank 0 alone, for each rank reports the same. A scrape ends where its first
 * sample comes again. Samples of one TIME are one scrape, wherever in the file they stand, so that
 * a file may go metric by metric, and metrics begin at times of their own. Where a file has the
 * names of two engines, as timeline.om has, those of the first one count.
 *
 * Every line ends in a line feed, and OpenMetrics in "# EOF", or the file was cut off. Which of the
 * two formats it is shows in its names and times: a counter's samples end in _total where its
 * # TYPE does not, and times are seconds where Prometheus counts milliseconds. */
#include "engine_metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"

enum {
    SAMPLE_BYTES = 512, /* of a name with its labels */
    WHERE_BYTES = 256
};

/* A time that is less is in seconds: as milliseconds it is of before 1974. */
static const double MILLISECONDS_MIN = 1e11;

enum sample {
    SAMPLE_RUNNING = 0,
    SAMPLE_PREEMPTIONS,
    SAMPLE_HITS,
    SAMPLE_MISSES,
    SAMPLE_OUTPUT_TOKENS,
    SAMPLE_INPUT_TOKENS,
    SAMPLE_TTFT_SUM,
    SAMPLE_TTFT_COUNT,
    SAMPLE_TPOT_SUM,
    SAMPLE_TPOT_COUNT,
    SAMPLE_ITL_SUM,
    SAMPLE_ITL_COUNT,
    SAMPLE_E2E_SUM,
    SAMPLE_E2E_COUNT,
    SAMPLES
};

static const struct {
    const char *name;
    enum sample sample;
} names[] = {
    {"vllm:num_requests_running", SAMPLE_RUNNING},
    {"sglang:num_running_reqs", SAMPLE_RUNNING},
    {"vllm:num_preemptions_total", SAMPLE_PREEMPTIONS},
    {"sglang:num_retracted_requests_total", SAMPLE_PREEMPTIONS},
    {"vllm:hisparse_cache_hits_total", SAMPLE_HITS},
    {"vllm:hisparse_cache_misses_total", SAMPLE_MISSES},
    {"vllm:generation_tokens_total", SAMPLE_OUTPUT_TOKENS},
    {"sglang:generation_tokens_total", SAMPLE_OUTPUT_TOKENS},
    {"vllm:prompt_tokens_total", SAMPLE_INPUT_TOKENS},
    {"sglang:prompt_tokens_total", SAMPLE_INPUT_TOKENS},
    {"vllm:time_to_first_token_seconds_sum", SAMPLE_TTFT_SUM},
    {"vllm:time_to_first_token_seconds_count", SAMPLE_TTFT_COUNT},
    {"sglang:time_to_first_token_seconds_sum", SAMPLE_TTFT_SUM},
    {"sglang:time_to_first_token_seconds_count", SAMPLE_TTFT_COUNT},
    {"vllm:request_time_per_output_token_seconds_sum", SAMPLE_TPOT_SUM},
    {"vllm:request_time_per_output_token_seconds_count", SAMPLE_TPOT_COUNT},
    {"vllm:inter_token_latency_seconds_sum", SAMPLE_ITL_SUM},
    {"vllm:inter_token_latency_seconds_count", SAMPLE_ITL_COUNT},
    {"sglang:inter_token_latency_seconds_sum", SAMPLE_ITL_SUM},
    {"sglang:inter_token_latency_seconds_count", SAMPLE_ITL_COUNT},
    {"vllm:e2e_request_latency_seconds_sum", SAMPLE_E2E_SUM},
    {"vllm:e2e_request_latency_seconds_count", SAMPLE_E2E_COUNT},
    {"sglang:e2e_request_latency_seconds_sum", SAMPLE_E2E_SUM},
    {"sglang:e2e_request_latency_seconds_count", SAMPLE_E2E_COUNT},
};

struct engine_scrape {
    double at;    /* the TIME of its first sample; NaN: it has none */
    size_t place; /* in the order of reading */
    bool begins;  /* with the file's first sample: no part of one that stands before */
    bool has[SAMPLES];
    double values[SAMPLES];
};

void engine_metrics_free(struct engine_metrics *metrics)
{
    free(metrics->scrapes);
    metrics->scrapes = NULL;
    metrics->count = metrics->capacity = 0;
}

/* SAMPLES: a name that means nothing here. */
static enum sample sample_of(const char *text, size_t name_bytes)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i].name) == name_bytes && memcmp(names[i].name, text, name_bytes) == 0)
            return names[i].sample;
    }
    return SAMPLES;
}

static bool is_another_rank(const char *labels)
{
    const char *rank = strstr(labels, "tp_rank=\"");
    return rank && strncmp(rank, "tp_rank=\"0\"", 11) != 0;
}

static kvt_status add_scrape(struct engine_metrics *metrics, double at, bool begins,
                             struct kvt_error *err)
{
    if (metrics->count == metrics->capacity) {
        size_t capacity = metrics->capacity > 0 ? 2 * metrics->capacity : 16;
        struct engine_scrape *grown = realloc(metrics->scrapes, capacity * sizeof *grown);
        if (!grown)
            return kvt_fail_nomem(err, "an engine's metrics");
        metrics->scrapes = grown;
        metrics->capacity = capacity;
    }
    metrics->scrapes[metrics->count] =
        (struct engine_scrape){.at = at, .place = metrics->count, .begins = begins};
    metrics->count++;
    return KVT_OK;
}

/* What is read of one file: the sample that begins each of its scrapes. */
struct reading {
    struct engine_metrics *metrics;
    char first[SAMPLE_BYTES];
    size_t begin;   /* its scrapes begin there */
    bool has_times; /* its first sample has */
    bool lacks_end; /* OpenMetrics, and no # EOF yet */
};

/* What stands behind the value, if it is a number. */
static double time_of(const char *text)
{
    char number[64];
    double at = 0;

    text += strspn(text, " \t");
    (void)snprintf(number, sizeof number, "%.*s", (int)strcspn(text, " \t"), text);
    return kvt_text_real(number, "", 0, 1e18, &at, NULL) == KVT_OK ? at : (double)NAN;
}

/* The scrape that a sample goes into is the last one; of another time than the sample before, a
 * part, which join_scrapes() adds to the rest. Where the file's first sample has no time, none
 * counts, and a sample without one in a file of times is of the scrape before. */
static kvt_status find_scrape(struct reading *reading, double at, bool begins, const char *where,
                              struct kvt_error *err)
{
    struct engine_metrics *metrics = reading->metrics;

    if (metrics->count == reading->begin)
        reading->has_times = !isnan(at);
    if (!reading->has_times)
        at = NAN;
    if (begins && reading->has_times && isnan(at))
        return kvt_fail(err, KVT_ERR_PARSE, where,
                        "found no time, expected one, as the file's first sample has");
    bool is_another = begins || (!isnan(at) && metrics->scrapes[metrics->count - 1].at != at);
    return is_another ? add_scrape(metrics, at, begins, err) : KVT_OK;
}

/* By time; what is of one time stays as it was read. */
static int by_time(const void *a, const void *b)
{
    const struct engine_scrape *first = a, *second = b;

    if (first->at != second->at)
        return first->at < second->at ? -1 : 1;
    return (first->place > second->place) - (first->place < second->place);
}

static void add_part(struct engine_scrape *scrape, const struct engine_scrape *part)
{
    for (int s = 0; s < SAMPLES; s++) {
        scrape->has[s] |= part->has[s];
        scrape->values[s] += part->values[s];
    }
}

/* Of a file that has times: puts scrapes in their order, and parts of one time into one. */
static void join_scrapes(const struct reading *reading)
{
    struct engine_metrics *metrics = reading->metrics;
    struct engine_scrape *scrapes = metrics->scrapes + reading->begin;
    size_t count = metrics->count - reading->begin, kept = 0;

    if (!reading->has_times)
        return;
    qsort(scrapes, count, sizeof *scrapes, by_time);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && !scrapes[i].begins && scrapes[kept - 1].at == scrapes[i].at)
            add_part(&scrapes[kept - 1], &scrapes[i]);
        else
            scrapes[kept++] = scrapes[i];
    }
    metrics->count = reading->begin + kept;
}

/* "# TYPE vllm:num_preemptions counter", of samples that end in _total, is OpenMetrics; Prometheus
 * has the samples' names there. */
static void read_comment(struct reading *reading, const char *text)
{
    char kind[8] = "", name[SAMPLE_BYTES] = "", type[16] = "";

    int words = sscanf(text, "# %7s %511s %15s", kind, name, type);
    if (words == 1 && strcmp(kind, "EOF") == 0) {
        reading->lacks_end = false;
        return;
    }
    size_t length = strlen(name);
    bool is_of_engine = strncmp(name, "vllm:", 5) == 0 || strncmp(name, "sglang:", 7) == 0;
    bool has_total = length > 6 && strcmp(name + length - 6, "_total") == 0;
    bool is_counter = strcmp(kind, "TYPE") == 0 && strcmp(type, "counter") == 0;
    if (words >= 2 && strncmp(name, "kvtide:", 7) == 0)
        reading->metrics->is_of_kvtide = reading->lacks_end = true;
    if (is_counter && is_of_engine && !has_total)
        reading->lacks_end = true;
}

/* One line that is no comment; labels end where the value begins, and hold blanks only inside
 * quotes. */
static kvt_status read_sample(struct reading *reading, const char *text, const char *where,
                              struct kvt_error *err)
{
    size_t name_bytes = strcspn(text, "{ \t"), bytes = name_bytes;
    bool is_quoted = false;
    char value_text[64];
    double value = 0;

    for (; text[bytes] != '\0' && (is_quoted || (text[bytes] != ' ' && text[bytes] != '\t'));
         bytes++)
        is_quoted ^= text[bytes] == '"' && (bytes == 0 || text[bytes - 1] != '\\');
    enum sample sample = sample_of(text, name_bytes);
    bool is_other_engine = reading->first[0] != '\0' && reading->first[0] != text[0];
    if (strncmp(text, "kvtide:", 7) == 0)
        reading->metrics->is_of_kvtide = reading->lacks_end = true;
    if (sample == SAMPLES || is_another_rank(text) || is_other_engine)
        return KVT_OK;
    const char *begin = text + bytes + strspn(text + bytes, " \t");
    size_t length = strcspn(begin, " \t");
    if (bytes >= SAMPLE_BYTES || length >= sizeof value_text)
        return kvt_fail(err, KVT_ERR_PARSE, where, "a sample of more than %d bytes", SAMPLE_BYTES);
    memcpy(value_text, begin, length);
    value_text[length] = '\0';
    kvt_status status = kvt_text_real(value_text, where, 0, 1e18, &value, err);
    bool is_again = strncmp(reading->first, text, bytes) == 0 && reading->first[bytes] == '\0';
    double at = time_of(begin + length);
    bool begins = reading->first[0] == '\0' || is_again;
    reading->lacks_end |= at < MILLISECONDS_MIN;
    if (status == KVT_OK)
        status = find_scrape(reading, at, begins, where, err);
    if (status != KVT_OK)
        return status;
    if (reading->first[0] == '\0') {
        memcpy(reading->first, text, bytes);
        reading->first[bytes] = '\0';
    }
    struct engine_scrape *scrape = &reading->metrics->scrapes[reading->metrics->count - 1];
    scrape->has[sample] = true;
    scrape->values[sample] += value;
    return KVT_OK;
}

/* Of a file that has been read to its end, which is the last line's. */
static kvt_status check_end(const struct reading *reading, bool is_ended, const char *where,
                            struct kvt_error *err)
{
    if (reading->lacks_end)
        return kvt_fail(err, KVT_ERR_PARSE, where,
                        "found the end of the file, expected \"# EOF\", which ends OpenMetrics: it "
                        "was cut off");
    return is_ended ? KVT_OK
                    : kvt_fail(err, KVT_ERR_PARSE, where,
                               "found the end of the file, expected that of the line: it was cut "
                               "off");
}

static kvt_status read_line(struct reading *reading, const char *text, const char *where,
                            struct kvt_error *err)
{
    text += strspn(text, " \t");
    if (text[0] == '#')
        read_comment(reading, text);
    return text[0] != '\0' && text[0] != '#' ? read_sample(reading, text, where, err) : KVT_OK;
}

static kvt_status read_text(const char *path, struct engine_metrics *metrics, struct kvt_error *err)
{
    struct reading reading = {.metrics = metrics, .begin = metrics->count};
    struct kvt_lines *lines = NULL;
    char *text = NULL, where[WHERE_BYTES];
    size_t text_bytes = 0;
    bool is_ended = true;
    kvt_status status = kvt_lines_open(path, &lines, err);

    (void)snprintf(where, sizeof where, "%s", path);
    while (status == KVT_OK) {
        status = kvt_lines_next(lines, &text, &text_bytes, err);
        if (status != KVT_OK || !text)
            break;
        (void)snprintf(where, sizeof where, "%s:%llu", path,
                       (unsigned long long)kvt_lines_number(lines));
        is_ended = kvt_lines_is_ended(lines) || strcmp(text, "# EOF") == 0;
        /* What is left of a line means nothing: "12" may have been 1234. */
        status = is_ended ? read_line(&reading, text, where, err)
                          : check_end(&reading, false, where, err);
    }
    kvt_lines_close(lines);
    if (status == KVT_OK)
        status = check_end(&reading, is_ended, where, err);
    if (status == KVT_OK && reading.first[0] == '\0')
        status = kvt_fail(err, KVT_ERR_PARSE, path,
                          "no sample that is known of vLLM's or SGLang's metrics");
    if (status == KVT_OK)
        join_scrapes(&reading);
    return status;
}

/* ---- A time series --------------------------------------------------------------------------- */

static const char series_begins[] = "t,prompt_throughput,gen_throughput,running,";

static kvt_status read_series(const char *path, struct engine_metrics *metrics,
                              struct kvt_error *err)
{
    struct kvt_csv *csv = NULL;
    char **fields = NULL, where[WHERE_BYTES];
    size_t count = 0;
    bool is_header = true;
    kvt_status status = kvt_csv_open(path, &csv, err);

    while (status == KVT_OK) {
        double running = 0;
        status = kvt_csv_next(csv, &fields, &count, err);
        if (status != KVT_OK || !fields)
            break;
        (void)snprintf(where, sizeof where, "%s:%llu", path, (unsigned long long)kvt_csv_line(csv));
        if (is_header) {
            is_header = false;
            continue;
        }
        if (count < 4)
            status =
                kvt_fail(err, KVT_ERR_PARSE, where, "%zu fields; running is the fourth", count);
        if (status == KVT_OK)
            status = kvt_text_real(fields[3], where, 0, 1e9, &running, err);
        if (status == KVT_OK)
            metrics->peak_running = fmax(metrics->peak_running, running); /* of NaN, the other */
    }
    kvt_csv_close(csv);
    return status;
}

static kvt_status first_line(const char *path, char out[SAMPLE_BYTES], struct kvt_error *err)
{
    struct kvt_lines *lines = NULL;
    char *text = NULL;
    size_t text_bytes = 0;
    kvt_status status = kvt_lines_open(path, &lines, err);

    if (status == KVT_OK)
        status = kvt_lines_next(lines, &text, &text_bytes, err);
    if (status == KVT_OK)
        (void)snprintf(out, SAMPLE_BYTES, "%.*s", SAMPLE_BYTES - 1, text ? text : "");
    kvt_lines_close(lines);
    return status;
}

static bool begins_with(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

kvt_status engine_metrics_is_one(const char *path, bool *out, struct kvt_error *err)
{
    char line[SAMPLE_BYTES] = "";
    kvt_status status = first_line(path, line, err);

    *out = begins_with(line, "#") || begins_with(line, "vllm:") || begins_with(line, "sglang:") ||
           begins_with(line, series_begins);
    return status;
}

kvt_status engine_metrics_read(const char *path, struct engine_metrics *metrics,
                               struct kvt_error *err)
{
    char line[SAMPLE_BYTES] = "";
    kvt_status status = first_line(path, line, err);

    if (status != KVT_OK)
        return status;
    return begins_with(line, series_begins) ? read_series(path, metrics, err)
                                            : read_text(path, metrics, err);
}

/* ---- Figures ------------------------------------------------------------------------------------
 */

/* Growth from the first scrape that has it to the last; NaN where none has. */
static double growth(const struct engine_metrics *metrics, enum sample sample)
{
    double first = NAN, last = NAN;
    size_t having = 0;

    for (size_t i = 0; i < metrics->count; i++) {
        if (!metrics->scrapes[i].has[sample])
            continue;
        last = metrics->scrapes[i].values[sample];
        first = having++ == 0 ? last : first;
    }
    return having > 1 ? last - first : last;
}

static void put(double value, double *out)
{
    if (isfinite(value))
        *out = value;
}

void engine_metrics_figures(const struct engine_metrics *metrics, double figures[ENGINE_FIGURES])
{
    double peak = metrics->peak_running;
    double hits = growth(metrics, SAMPLE_HITS), misses = growth(metrics, SAMPLE_MISSES);

    for (size_t i = 0; i < metrics->count; i++) {
        if (metrics->scrapes[i].has[SAMPLE_RUNNING])
            peak = fmax(peak, metrics->scrapes[i].values[SAMPLE_RUNNING]);
    }
    put(peak, &figures[ENGINE_PEAK_RUNNING]);
    put(growth(metrics, SAMPLE_PREEMPTIONS), &figures[ENGINE_PREEMPTIONS]);
    put(misses / (hits + misses), &figures[ENGINE_HOT_MISS_RATIO]);
    put(growth(metrics, SAMPLE_OUTPUT_TOKENS), &figures[ENGINE_OUTPUT_TOKENS]);
    put(growth(metrics, SAMPLE_INPUT_TOKENS), &figures[ENGINE_INPUT_TOKENS]);
    put(1e3 * growth(metrics, SAMPLE_TTFT_SUM) / growth(metrics, SAMPLE_TTFT_COUNT),
        &figures[ENGINE_MEAN_TTFT]);
    put(1e3 * growth(metrics, SAMPLE_TPOT_SUM) / growth(metrics, SAMPLE_TPOT_COUNT),
        &figures[ENGINE_MEAN_TPOT]);
    put(1e3 * growth(metrics, SAMPLE_ITL_SUM) / growth(metrics, SAMPLE_ITL_COUNT),
        &figures[ENGINE_MEAN_ITL]);
    put(1e3 * growth(metrics, SAMPLE_E2E_SUM) / growth(metrics, SAMPLE_E2E_COUNT),
        &figures[ENGINE_MEAN_E2EL]);
}
