/* servegen_lengths.c -- histograms of lengths: windows of time, each with two of them. */
#include "servegen_lengths.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/json.h"
#include "trace_file.h"

#define DATASET_BYTES_MAX ((size_t)256 << 20)
#define WINDOW_SECONDS_MAX UINT64_C(4000000000)

struct histogram {
    uint32_t *values; /* [count], ascending */
    double *sums;     /* [count], of the weights up to and with each */
    size_t count;
};

struct window {
    uint64_t start_s;
    struct histogram input, output;
};

struct kvt_servegen_lengths {
    struct window *windows; /* [count], by start */
    size_t count;
};

struct bin {
    uint32_t value;
    double weight;
};

/* ---- "{104: 0.25, 313: 0.75}" ------------------------------------------------- */

static const char *skip_blanks(const char *text)
{
    return text + strspn(text, " \t\r\n");
}

/* Copies the number that text begins with, and steps over it. */
static bool take_number(const char **text, char out[40])
{
    size_t length = strspn(*text, "0123456789.eE+-");
    if (length == 0 || length >= 40)
        return false;
    memcpy(out, *text, length);
    out[length] = '\0';
    *text = skip_blanks(*text + length);
    return true;
}

static kvt_status fail_histogram(const char *where, const char *text, struct kvt_error *err)
{
    return kvt_fail(err, KVT_ERR_PARSE, where,
                    "a histogram is written {length: share, ...}; this does not go on as one: "
                    "\"%.24s\"",
                    text);
}

static kvt_status take_bin(const char **text, const char *where, struct bin *out,
                           struct kvt_error *err)
{
    char number[40];
    uint64_t value = 0;
    const char *begin = *text;
    if (!take_number(text, number))
        return fail_histogram(where, begin, err);
    kvt_status status = kvt_text_count(number, where, KVT_TRACE_TOKENS_MAX, &value, err);
    if (status != KVT_OK)
        return status;
    if (**text != ':')
        return fail_histogram(where, *text, err);
    *text = skip_blanks(*text + 1);
    begin = *text;
    if (!take_number(text, number))
        return fail_histogram(where, begin, err);
    out->value = (uint32_t)value;
    return kvt_text_real(number, where, 0, 1e15, &out->weight, err);
}

static kvt_status take_bins(const char *text, const char *where, struct bin *bins, size_t capacity,
                            size_t *out_count, struct kvt_error *err)
{
    size_t count = 0;
    text = skip_blanks(text);
    if (*text != '{')
        return fail_histogram(where, text, err);
    text = skip_blanks(text + 1);
    while (*text != '}') {
        if (count == capacity)
            return fail_histogram(where, text, err);
        kvt_status status = take_bin(&text, where, &bins[count], err);
        if (status != KVT_OK)
            return status;
        count++;
        if (*text != ',' && *text != '}')
            return fail_histogram(where, text, err);
        if (*text == ',')
            text = skip_blanks(text + 1);
    }
    if (*skip_blanks(text + 1) != '\0')
        return fail_histogram(where, skip_blanks(text + 1), err);
    *out_count = count;
    return KVT_OK;
}

static int by_value(const void *a, const void *b)
{
    uint32_t first = ((const struct bin *)a)->value;
    uint32_t second = ((const struct bin *)b)->value;
    return (first > second) - (first < second);
}

static kvt_status sum_bins(const struct bin *bins, size_t bin_count, const char *where,
                           uint32_t *values, double *sums, size_t *out_count, struct kvt_error *err)
{
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < bin_count; i++) {
        if (i > 0 && bins[i].value == bins[i - 1].value)
            return kvt_fail(err, KVT_ERR_PARSE, where, "length %" PRIu32 " is here twice",
                            bins[i].value);
        if (bins[i].value == 0 || bins[i].weight <= 0)
            continue;
        sum += bins[i].weight;
        values[count] = bins[i].value;
        sums[count] = sum;
        count++;
    }
    *out_count = count;
    return KVT_OK;
}

/* Into arrays of `capacity` entries each, one of them for work. */
static kvt_status parse_into(const char *text, const char *where, size_t capacity, struct bin *bins,
                             uint32_t *values, double *sums, size_t *count, struct kvt_error *err)
{
    size_t bin_count = 0;
    kvt_status status = take_bins(text, where, bins, capacity, &bin_count, err);
    if (status != KVT_OK)
        return status;
    qsort(bins, bin_count, sizeof *bins, by_value);
    return sum_bins(bins, bin_count, where, values, sums, count, err);
}

kvt_status kvt_servegen_parse_histogram(const char *text, const char *where, uint32_t **values,
                                        double **sums, size_t *count, struct kvt_error *err)
{
    size_t capacity = 1;
    for (const char *colon = strchr(text, ':'); colon != NULL; colon = strchr(colon + 1, ':'))
        capacity++;
    struct bin *bins = malloc(capacity * sizeof *bins);
    uint32_t *new_values = malloc(capacity * sizeof *new_values);
    double *new_sums = malloc(capacity * sizeof *new_sums);
    kvt_status status = KVT_ERR_NOMEM;
    if (bins != NULL && new_values != NULL && new_sums != NULL)
        status = parse_into(text, where, capacity, bins, new_values, new_sums, count, err);
    else
        status = kvt_fail_nomem(err, "a histogram of lengths");
    free(bins);
    if (status != KVT_OK) {
        free(new_values);
        free(new_sums);
        return status;
    }
    *values = new_values;
    *sums = new_sums;
    return KVT_OK;
}

/* ---- The file ------------------------------------------------------------------ */

void kvt_servegen_lengths_free(struct kvt_servegen_lengths *lengths)
{
    if (lengths == NULL)
        return;
    for (size_t i = 0; i < lengths->count; i++) {
        free(lengths->windows[i].input.values);
        free(lengths->windows[i].input.sums);
        free(lengths->windows[i].output.values);
        free(lengths->windows[i].output.sums);
    }
    free(lengths->windows);
    free(lengths);
}

static kvt_status load_histogram(const cJSON *object, const char *where, const char *key,
                                 struct histogram *out, struct kvt_error *err)
{
    const char *text = NULL;
    char place[256];
    kvt_status status = kvt_json_get_text(object, where, key, true, &text, err);
    if (status != KVT_OK)
        return status;
    (void)snprintf(place, sizeof place, "%s/%s", where, key);
    return kvt_servegen_parse_histogram(text, place, &out->values, &out->sums, &out->count, err);
}

static kvt_status load_window(const cJSON *item, const char *path, struct window *window,
                              struct kvt_error *err)
{
    char where[256];
    (void)snprintf(where, sizeof where, "%s#/%.40s", path, item->string);
    kvt_status status =
        kvt_text_count(item->string, where, WINDOW_SECONDS_MAX, &window->start_s, err);
    if (status != KVT_OK)
        return status;
    if (!cJSON_IsObject(item))
        return kvt_fail(err, KVT_ERR_PARSE, where,
                        "a window is an object of input_tokens and output_tokens");
    status = load_histogram(item, where, "input_tokens", &window->input, err);
    if (status == KVT_OK)
        status = load_histogram(item, where, "output_tokens", &window->output, err);
    return status;
}

static kvt_status load_windows(const cJSON *tree, const char *path,
                               struct kvt_servegen_lengths *lengths, struct kvt_error *err)
{
    if (!cJSON_IsObject(tree) || tree->child == NULL)
        return kvt_fail(err, KVT_ERR_PARSE, path,
                        "an object of windows is expected: {\"0\": {\"input_tokens\": ...}}");
    lengths->windows = calloc((size_t)cJSON_GetArraySize(tree), sizeof *lengths->windows);
    if (lengths->windows == NULL)
        return kvt_fail_nomem(err, "the lengths of a trace");
    for (const cJSON *item = tree->child; item != NULL; item = item->next) {
        struct window *window = &lengths->windows[lengths->count];
        lengths->count++;
        kvt_status status = load_window(item, path, window, err);
        if (status != KVT_OK)
            return status;
        if (lengths->count > 1 && window->start_s <= window[-1].start_s)
            return kvt_fail(err, KVT_ERR_PARSE, path,
                            "window %" PRIu64 " comes after window %" PRIu64
                            "; windows ascend in time",
                            window->start_s, window[-1].start_s);
    }
    return KVT_OK;
}

kvt_status kvt_servegen_lengths_load(const char *path, struct kvt_servegen_lengths **out,
                                     struct kvt_error *err)
{
    cJSON *tree = NULL;
    kvt_status status = kvt_json_load(path, DATASET_BYTES_MAX, &tree, err);
    if (status != KVT_OK)
        return status;
    struct kvt_servegen_lengths *lengths = calloc(1, sizeof *lengths);
    status = lengths != NULL ? load_windows(tree, path, lengths, err)
                             : kvt_fail_nomem(err, "the lengths of a trace");
    cJSON_Delete(tree);
    if (status != KVT_OK) {
        kvt_servegen_lengths_free(lengths);
        return status;
    }
    *out = lengths;
    return KVT_OK;
}

/* ---- Draws ---------------------------------------------------------------------- */

size_t kvt_servegen_lengths_at(const struct kvt_servegen_lengths *lengths, double time_s)
{
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < lengths->count && (double)lengths->windows[i].start_s <= time_s; i++)
        found = i;
    if (found == SIZE_MAX || lengths->windows[found].input.count == 0 ||
        lengths->windows[found].output.count == 0)
        return SIZE_MAX;
    return found;
}

/* Inverts the running sums: the first one past the draw. */
static uint32_t draw_from(const struct histogram *histogram, struct kvt_rng rng)
{
    size_t low = 0;
    size_t high = histogram->count - 1;
    double target = kvt_rng_unit(&rng) * histogram->sums[high];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (histogram->sums[middle] > target)
            high = middle;
        else
            low = middle + 1;
    }
    return histogram->values[low];
}

void kvt_servegen_lengths_draw(const struct kvt_servegen_lengths *lengths, size_t window,
                               uint64_t run_seed, uint64_t ordinal, uint32_t *input_tokens,
                               uint32_t *output_tokens)
{
    const struct window *now = &lengths->windows[window];
    *input_tokens = draw_from(&now->input, kvt_rng_stream(run_seed, KVT_RNG_LENGTH, 2 * ordinal));
    *output_tokens =
        draw_from(&now->output, kvt_rng_stream(run_seed, KVT_RNG_LENGTH, 2 * ordinal + 1));
}
