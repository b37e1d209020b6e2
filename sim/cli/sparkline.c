/* sparkline.c -- the course of a run on one line a quantity.
 *
 * Intervals are put into so many bins by their middle, each weighted by its length; a bin's mean is
 * one of eight heights between 0 and the largest. */
#include "sparkline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kvt/file.h"

enum {
    BINS = 48,
    QUANTITIES = SPARKLINES
};

/* A column of timeline.csv, and what of it is shown. */
static const struct quantity {
    const char *column, *title, *unit;
    double scale;
    bool is_rate; /* a sum over the interval: shown by the second */
} quantities[QUANTITIES] = {
    {"running_mean", "active", "", 1, false}, {"waiting_mean", "waiting", "", 1, false},
    {"coverage", "coverage", "", 1, false},   {"host_fetch_share", "host fetch", " %", 100, false},
    {"mean_itl_ms", "ITL", " ms", 1, false},  {"output_tokens", "output", " tok/s", 1, true},
};

bool sparklines_in_utf8(void)
{
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *terminal = getenv("TERM");

    if (terminal && strcmp(terminal, "dumb") == 0)
        return false;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        if (!value || !*value)
            continue;
        const char *codeset = strrchr(value, '.');
        return codeset &&
               (strncasecmp(codeset, ".utf-8", 6) == 0 || strncasecmp(codeset, ".utf8", 5) == 0);
    }
    return false;
}

/* ---- Gathering -------------------------------------------------------------------------- */

/* values: of the quantities, and from and to. */
static void add_interval(struct sparklines *lines, const double values[QUANTITIES + 2])
{
    double seconds = values[QUANTITIES + 1] - values[QUANTITIES];

    if (!(seconds > 0) || lines->is_short_of_memory)
        return;
    if (lines->count == lines->capacity) {
        size_t capacity = lines->capacity ? lines->capacity * 2 : 1024;
        struct sparkline_interval *intervals =
            realloc(lines->intervals, capacity * sizeof *intervals);
        if (!intervals) {
            lines->is_short_of_memory = true;
            return;
        }
        lines->intervals = intervals;
        lines->capacity = capacity;
    }
    struct sparkline_interval *interval = &lines->intervals[lines->count++];
    interval->from_s = values[QUANTITIES];
    interval->to_s = values[QUANTITIES + 1];
    for (int q = 0; q < QUANTITIES; q++)
        interval->values[q] =
            values[q] * quantities[q].scale / (quantities[q].is_rate ? seconds : 1);
}

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : (double)NAN;
}

void sparklines_add(void *context, const struct kvt_tally *interval, uint32_t stratum_count)
{
    double ns = (double)(interval->to_ns - interval->from_ns);
    /* In the order of the quantities. */
    const double values[QUANTITIES + 2] = {
        ratio(interval->running_ns, ns),
        ratio(interval->waiting_ns, ns),
        ratio(interval->coverage_ns, interval->covered_ns),
        ratio(interval->counts[KVT_SAMPLED_MISSED], interval->counts[KVT_SAMPLED_SELECTED]),
        ratio(interval->itl_ns * 1e-6, (double)interval->itl_count),
        (double)interval->output_tokens,
        (double)interval->from_ns / KVT_NS_PER_S,
        (double)interval->to_ns / KVT_NS_PER_S};

    (void)stratum_count;
    add_interval(context, values);
}

void sparklines_free(struct sparklines *lines)
{
    free(lines->intervals);
    *lines = (struct sparklines){0};
}

/* ---- Reading ---------------------------------------------------------------------------- */

/* Where the columns stand; every one must be there. */
static kvt_status find_columns(char **fields, size_t field_count, const char *path,
                               size_t at[QUANTITIES + 2], struct kvt_error *err)
{
    for (int q = 0; q < QUANTITIES + 2; q++) {
        const char *name = q == QUANTITIES       ? "from_s"
                           : q == QUANTITIES + 1 ? "to_s"
                                                 : quantities[q].column;
        at[q] = SIZE_MAX;
        for (size_t f = 0; f < field_count; f++)
            at[q] = strcmp(fields[f], name) == 0 ? f : at[q];
        if (at[q] == SIZE_MAX)
            return kvt_fail(err, KVT_ERR_PARSE, path,
                            "found no column %s, expected a timeline.csv of this kvtide", name);
    }
    return KVT_OK;
}

static kvt_status read_field(const char *text, const char *path, uint64_t line, double *out,
                             struct kvt_error *err)
{
    char where[4200];

    *out = NAN;
    if (text[0] == '\0')
        return KVT_OK;
    (void)snprintf(where, sizeof where, "%.4096s:%llu", path, (unsigned long long)line);
    return kvt_text_real(text, where, -1e300, 1e300, out, err);
}

static kvt_status read_row(struct sparklines *lines, char **fields, size_t field_count,
                           const size_t at[QUANTITIES + 2], const char *path, uint64_t line,
                           struct kvt_error *err)
{
    double values[QUANTITIES + 2];

    for (int q = 0; q < QUANTITIES + 2; q++) {
        if (at[q] >= field_count)
            return kvt_fail(err, KVT_ERR_PARSE, path, "line %llu: found %zu fields, expected more",
                            (unsigned long long)line, field_count);
        kvt_status status = read_field(fields[at[q]], path, line, &values[q], err);
        if (status != KVT_OK)
            return status;
    }
    add_interval(lines, values);
    return KVT_OK;
}

kvt_status sparklines_read(struct sparklines *lines, const char *path, struct kvt_error *err)
{
    struct kvt_csv *csv = NULL;
    char **fields = NULL;
    size_t field_count = 0, at[QUANTITIES + 2];
    kvt_status status = kvt_csv_open(path, &csv, err);

    if (status == KVT_OK)
        status = kvt_csv_next(csv, &fields, &field_count, err);
    if (status == KVT_OK)
        status = find_columns(fields, fields ? field_count : 0, path, at, err);
    while (status == KVT_OK) {
        status = kvt_csv_next(csv, &fields, &field_count, err);
        if (status != KVT_OK || !fields)
            break;
        status = read_row(lines, fields, field_count, at, path, kvt_csv_line(csv), err);
    }
    kvt_csv_close(csv);
    return status;
}

/* ---- Drawing ---------------------------------------------------------------------------- */

static void fill_bins(const struct sparklines *lines, int quantity, double bins[BINS])
{
    double weights[BINS] = {0};
    double from_s = lines->intervals[0].from_s;
    double span_s = lines->intervals[lines->count - 1].to_s - from_s;

    memset(bins, 0, BINS * sizeof *bins);
    for (size_t i = 0; i < lines->count; i++) {
        const struct sparkline_interval *interval = &lines->intervals[i];
        double value = interval->values[quantity];
        double low = (interval->from_s - from_s) / span_s * BINS;
        double high = (interval->to_s - from_s) / span_s * BINS;
        if (isnan(value))
            continue;
        for (int b = (int)low; b < BINS && b < high; b++) {
            double both = fmin(high, b + 1) - fmax(low, b);
            if (both > 0) {
                bins[b] += both * value;
                weights[b] += both;
            }
        }
    }
    for (int b = 0; b < BINS; b++)
        bins[b] = weights[b] > 0 ? bins[b] / weights[b] : (double)NAN;
}

static const char *cell_of(double value, double largest, bool utf8)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[] = {"_", ".", ",", "-", "=", "+", "*", "#"};
    int height = largest > 0 ? (int)(value / largest * 7 + 0.5) : 0;

    if (isnan(value))
        return " ";
    height = height < 0 ? 0 : height > 7 ? 7 : height;
    return utf8 ? blocks[height] : plain[height];
}

static void put_quantity(const struct sparklines *lines, int q, bool utf8)
{
    double bins[BINS], largest = -INFINITY, last = NAN;

    fill_bins(lines, q, bins);
    for (int b = 0; b < BINS; b++) {
        if (isnan(bins[b]))
            continue;
        largest = fmax(largest, bins[b]);
        last = bins[b];
    }
    if (isnan(last) || largest <= 0)
        return;
    printf("%-10s ", quantities[q].title);
    for (int b = 0; b < BINS; b++)
        fputs(cell_of(bins[b], largest, utf8), stdout);
    printf(" to %.3g%s\n", largest, quantities[q].unit);
}

kvt_status sparklines_put(const struct sparklines *lines, bool utf8, struct kvt_error *err)
{
    if (lines->is_short_of_memory)
        return kvt_fail_nomem(err, "the course of a run");
    if (lines->count == 0)
        return KVT_OK;
    for (int q = 0; q < QUANTITIES; q++)
        put_quantity(lines, q, utf8);
    printf("%-10s %.4g s%*s%.4g s\n", "", lines->intervals[0].from_s, BINS - 12, "",
           lines->intervals[lines->count - 1].to_s);
    return KVT_OK;
}
