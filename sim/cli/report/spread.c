/* spread.c -- how latencies are spread. */
#include "spread.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

#include "csv_columns.h"

double spread_at(const struct spread *spread, double share)
{
    size_t i = 0;

    if (spread->count == 0)
        return NAN;
    while (i + 1 < spread->count && spread->shares[i] < share)
        i++;
    if (i == 0 || spread->shares[i] <= share)
        return spread->values[i];
    double from = spread->shares[i - 1], part = (share - from) / (spread->shares[i] - from);
    return spread->values[i - 1] + part * (spread->values[i] - spread->values[i - 1]);
}

void spread_of(double *values, size_t count, struct spread *out)
{
    enum {
        STEPS = SPREAD_POINTS - 2
    };

    out->count = 0;
    if (count == 0)
        return;
    gsl_sort(values, 1, count);
    out->count = count < SPREAD_POINTS ? count : SPREAD_POINTS;
    for (size_t i = 0; i < out->count; i++) {
        double share = count < SPREAD_POINTS ? (count > 1 ? (double)i / (double)(count - 1) : 1)
                       : i < STEPS           ? (double)i / STEPS
                       : i == STEPS          ? 0.999
                                             : 1;
        out->shares[i] = share;
        out->values[i] = gsl_stats_quantile_from_sorted_data(values, 1, count, share);
    }
}

enum {
    ARRIVAL,
    FIRST_TOKEN,
    LAST_TOKEN,
    FINISHED,
    GENERATED,
    READ
};
static const char *const names[READ] = {"arrival_ns", "first_token_ns", "last_token_ns",
                                        "finished_ns", "generated_tokens"};

/* NaN where the request has none. */
static void latencies_of(const double *row, double out[LATENCIES])
{
    out[LATENCY_TTFT_S] = (row[FIRST_TOKEN] - row[ARRIVAL]) * 1e-9;
    out[LATENCY_E2E_S] = (row[FINISHED] - row[ARRIVAL]) * 1e-9;
    out[LATENCY_TPOT_MS] = row[GENERATED] < 2
                               ? (double)NAN
                               : (row[LAST_TOKEN] - row[FIRST_TOKEN]) * 1e-6 / (row[GENERATED] - 1);
}

struct growing {
    double *values;
    size_t count, room;
};

static kvt_status push(struct growing *list, double value, struct kvt_error *err)
{
    if (list->count == list->room) {
        size_t room = list->room > 0 ? 2 * list->room : 1024;
        double *grown = realloc(list->values, room * sizeof *grown);
        if (grown == NULL)
            return kvt_fail_nomem(err, "the latencies of requests");
        list->values = grown;
        list->room = room;
    }
    list->values[list->count++] = value;
    return KVT_OK;
}

kvt_status spread_load_requests(const char *path, double from_s, struct spread out[LATENCIES],
                                struct kvt_error *err)
{
    struct growing lists[LATENCIES] = {{0}};
    struct csv_columns csv;
    bool more = true;
    kvt_status status = csv_columns_open(&csv, path, names, READ, err);

    while (status == KVT_OK && more) {
        double row[READ], found[LATENCIES];
        status = csv_columns_next(&csv, row, &more, err);
        if (status != KVT_OK || !more || row[ARRIVAL] < from_s * 1e9)
            continue;
        latencies_of(row, found);
        for (int l = 0; l < LATENCIES && status == KVT_OK; l++) {
            if (!isnan(found[l]))
                status = push(&lists[l], found[l], err);
        }
    }
    csv_columns_close(&csv);
    for (int l = 0; l < LATENCIES; l++) {
        if (status == KVT_OK)
            spread_of(lists[l].values, lists[l].count, &out[l]);
        free(lists[l].values);
    }
    return status;
}

kvt_status spread_load_itl(const char *path, struct spread *out, struct kvt_error *err)
{
    static const char *const both[] = {"share", "itl_ms"};
    struct csv_columns csv;
    bool more = true;
    kvt_status status = csv_columns_open(&csv, path, both, 2, err);

    out->count = 0;
    while (status == KVT_OK && more && out->count < SPREAD_POINTS) {
        double row[2];
        status = csv_columns_next(&csv, row, &more, err);
        if (status != KVT_OK || !more)
            continue;
        out->shares[out->count] = row[0];
        out->values[out->count++] = row[1];
    }
    csv_columns_close(&csv);
    return status;
}
