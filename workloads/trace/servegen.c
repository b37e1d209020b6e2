/* servegen.c -- ServeGen's per-client rates, made into requests.
 *
 * PREFIX-trace.csv has no header; a row is a window of time:
 *
 *     start s, rate requests/s, cv of the gaps, law (Gamma | Weibull), shape, scale
 *
 * with rate 0 and no law where nothing was fitted. PREFIX-dataset.json, beside
 * it, holds histograms of lengths for coarser windows. In the published files
 * rate x window is the whole number of requests that were seen, and the fitted
 * scale only nearly agrees with the rate, so the rate decides how many there are
 * and the law how unevenly they come:
 *
 *     n = round(rate x window)
 *     draw n + 1 gaps of the law's shape; stretch them to fill the window
 *     request i comes after its first i + 1 gaps
 *
 * Gaps come from a stream of the window's own, which is drawn twice: for the sum,
 * then for the requests. A window lasts until the next one; the last is as long
 * as the one before it, a single one 600 s, as all of ServeGen's are. Y. Xiang
 * et al., "ServeGen", NSDI 2026, and the published data. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "servegen_lengths.h"
#include "trace_file.h"

#define WINDOW_S_DEFAULT 600.0
#define TIME_S_MAX 4.0e9
#define RATE_MAX 1.0e6
#define WINDOW_REQUESTS_MAX 1.0e8

enum column {
    START = 0,
    RATE,
    CV,
    LAW,
    SHAPE,
    SCALE,
    COLUMNS
};
static const char *const column_names[COLUMNS] = {"start", "rate", "cv", "law", "shape", "scale"};

enum law {
    LAW_GAMMA = 0,
    LAW_WEIBULL
};

struct rates {
    double start_s, rate_per_s, shape;
    enum law law;
    uint64_t line;
};

struct servegen_reader {
    struct kvt_trace_source source;
    struct kvt_csv *csv;
    struct kvt_servegen_lengths *lengths;
    struct rates ahead; /* the row after the window in hand */
    bool has_ahead;
    double last_length_s; /* of the window before; 0: none */
    uint64_t window_ordinal, request_ordinal;
    /* The window in hand. */
    struct rates window;
    size_t lengths_window;
    uint64_t remaining; /* requests of it still to give */
    uint64_t given;
    struct kvt_rng gaps;
    double stretch, elapsed; /* seconds a drawn unit takes; drawn units so far */
};

static void servegen_close(void *state)
{
    struct servegen_reader *reader = state;
    if (reader == NULL)
        return;
    kvt_csv_close(reader->csv);
    kvt_servegen_lengths_free(reader->lengths);
    free(reader);
}

/* "chunk-10-trace.csv" -> "chunk-10-dataset.json". */
static kvt_status load_lengths(struct servegen_reader *reader, struct kvt_error *err)
{
    static const char ending[] = "-trace.csv";
    static const char other[] = "-dataset.json";
    const char *path = reader->source.path;
    size_t length = strlen(path);
    size_t stem = length - (sizeof ending - 1);
    if (length < sizeof ending - 1 || strcmp(path + stem, ending) != 0)
        return kvt_fail(err, KVT_ERR_INVALID, path,
                        "rates alone have no lengths: a ServeGen file is named *%s and has its "
                        "*%s beside it",
                        ending, other);
    char *sibling = malloc(stem + sizeof other);
    if (sibling == NULL)
        return kvt_fail_nomem(err, "a file's name");
    memcpy(sibling, path, stem);
    memcpy(sibling + stem, other, sizeof other);
    kvt_status status = kvt_servegen_lengths_load(sibling, &reader->lengths, err);
    free(sibling);
    return status;
}

static kvt_status real_at(const struct servegen_reader *reader, char **fields, enum column column,
                          double maximum, double *out, struct kvt_error *err)
{
    const struct kvt_trace_place place = {.path = reader->source.path,
                                          .line = kvt_csv_line(reader->csv),
                                          .column = (size_t)column + 1,
                                          .name = column_names[column]};
    char where[256];
    kvt_trace_where(&place, where);
    return kvt_text_real(fields[column], where, 0, maximum, out, err);
}

static kvt_status law_of(const struct servegen_reader *reader, const char *name,
                         struct rates *rates, struct kvt_error *err)
{
    if (strcmp(name, "Gamma") == 0) {
        rates->law = LAW_GAMMA;
        return KVT_OK;
    }
    if (strcmp(name, "Weibull") == 0) {
        rates->law = LAW_WEIBULL;
        return KVT_OK;
    }
    const struct kvt_trace_place place = {
        .path = reader->source.path, .line = rates->line, .column = LAW + 1};
    char where[256];
    kvt_trace_where(&place, where);
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "\"%.40s\" is no law of gaps that is known; there are: Gamma, Weibull", name);
}

static kvt_status rates_of(const struct servegen_reader *reader, char **fields, size_t field_count,
                           struct rates *out, struct kvt_error *err)
{
    char where[256];
    out->line = kvt_csv_line(reader->csv);
    (void)snprintf(where, sizeof where, "%s:%" PRIu64, reader->source.path, out->line);
    if (field_count != COLUMNS)
        return kvt_fail(err, KVT_ERR_PARSE, where, "the row has %zu fields; there are %d: %s",
                        field_count, COLUMNS, "start, rate, cv, law, shape, scale");
    double unused = 0;
    kvt_status status = real_at(reader, fields, START, TIME_S_MAX, &out->start_s, err);
    if (status == KVT_OK)
        status = real_at(reader, fields, RATE, RATE_MAX, &out->rate_per_s, err);
    if (status == KVT_OK)
        status = real_at(reader, fields, CV, 1e15, &unused, err);
    if (status == KVT_OK)
        status = real_at(reader, fields, SHAPE, 1e6, &out->shape, err);
    if (status == KVT_OK)
        status = real_at(reader, fields, SCALE, 1e15, &unused, err);
    if (status != KVT_OK || out->rate_per_s <= 0)
        return status;
    if (out->shape < 0.01)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "the shape %s of a window with requests is below 0.01", fields[SHAPE]);
    return law_of(reader, fields[LAW], out, err);
}

/* Reads the row after the one in hand, so that a window knows its end. */
static kvt_status look_ahead(struct servegen_reader *reader, struct kvt_error *err)
{
    char **fields = NULL;
    size_t field_count = 0;
    kvt_status status = kvt_csv_next(reader->csv, &fields, &field_count, err);
    reader->has_ahead = status == KVT_OK && fields != NULL;
    if (!reader->has_ahead)
        return status;
    return rates_of(reader, fields, field_count, &reader->ahead, err);
}

static kvt_status servegen_open(const struct kvt_trace_source *source, void **out,
                                struct kvt_error *err)
{
    struct servegen_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return kvt_fail_nomem(err, "the reader of a trace");
    reader->source = *source;
    kvt_status status = load_lengths(reader, err);
    if (status == KVT_OK)
        status = kvt_csv_open(source->path, &reader->csv, err);
    if (status == KVT_OK)
        status = look_ahead(reader, err);
    if (status != KVT_OK) {
        servegen_close(reader);
        return status;
    }
    *out = reader;
    return KVT_OK;
}

/* A gap of the law's shape; its scale is divided out by whoever sums them. */
static double gap_of(const struct rates *window, struct kvt_rng *rng)
{
    if (window->law == LAW_GAMMA)
        return kvt_rng_gamma(rng, window->shape, 1.0);
    return kvt_rng_weibull(rng, window->shape, 1.0);
}

/* Takes the row ahead as the window in hand. */
static kvt_status begin_window(struct servegen_reader *reader, struct kvt_error *err)
{
    reader->window = reader->ahead;
    const struct rates *window = &reader->window;
    kvt_status status = look_ahead(reader, err);
    if (status != KVT_OK)
        return status;

    char where[256];
    (void)snprintf(where, sizeof where, "%s:%" PRIu64, reader->source.path, window->line);
    double length_s = reader->last_length_s > 0 ? reader->last_length_s : WINDOW_S_DEFAULT;
    if (reader->has_ahead)
        length_s = reader->ahead.start_s - window->start_s;
    if (length_s <= 0)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "the window after this one does not start later; windows ascend in time");
    reader->last_length_s = length_s;

    double expected = window->rate_per_s * length_s;
    if (expected > WINDOW_REQUESTS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "this window would hold more than 100,000,000 requests");
    reader->remaining = (uint64_t)llround(expected);
    reader->given = 0;
    reader->window_ordinal++;
    if (reader->remaining == 0)
        return KVT_OK;
    reader->lengths_window = kvt_servegen_lengths_at(reader->lengths, window->start_s);
    if (reader->lengths_window == SIZE_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "requests arrive here, but the dataset has no lengths for this time");

    reader->gaps = kvt_rng_stream(reader->source.run_seed, KVT_RNG_ARRIVAL, reader->window_ordinal);
    struct kvt_rng copy = reader->gaps;
    double sum = 0;
    for (uint64_t i = 0; i <= reader->remaining; i++)
        sum += gap_of(window, &copy);
    reader->stretch = sum > 0 ? length_s / sum : 0;
    reader->elapsed = 0;
    return KVT_OK;
}

static void give_request(struct servegen_reader *reader, struct kvt_trace_row *row)
{
    reader->elapsed += gap_of(&reader->window, &reader->gaps);
    double time_s = reader->window.start_s + reader->elapsed * reader->stretch;
    row->kind = reader->given == 0 ? KVT_TRACE_ROW_REQUEST : KVT_TRACE_ROW_MORE;
    row->time_ns = (int64_t)llround(time_s * 1e9);
    kvt_servegen_lengths_draw(reader->lengths, reader->lengths_window, reader->source.run_seed,
                              reader->request_ordinal, &row->input_tokens, &row->output_tokens);
    reader->request_ordinal++;
    reader->given++;
    reader->remaining--;
}

static kvt_status servegen_next(void *state, struct kvt_trace_row *row, bool *more,
                                struct kvt_error *err)
{
    struct servegen_reader *reader = state;
    *more = false;
    bool is_new = reader->remaining == 0;
    if (is_new) {
        if (!reader->has_ahead)
            return KVT_OK;
        kvt_status status = begin_window(reader, err);
        if (status != KVT_OK)
            return status;
    }
    *row = kvt_trace_row_at(reader->window.line);
    *more = true;
    if (reader->remaining == 0)
        row->kind = KVT_TRACE_ROW_IDLE;
    else
        give_request(reader, row);
    return KVT_OK;
}

const struct kvt_trace_reader kvt_trace_servegen_reader = {
    .open = servegen_open,
    .next = servegen_next,
    .close = servegen_close,
};
