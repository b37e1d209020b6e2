/* timeline_columns.c -- the intervals of a run, in bins, as columns of numbers. */
#include "timeline_columns.h"

#include <math.h>

static const char *const names[TIMELINE_COLUMNS] = {
    [TIMELINE_FROM_S] = "from_s",
    [TIMELINE_TO_S] = "to_s",
    [TIMELINE_SLOTS] = "slots",
    [TIMELINE_RUNNING] = "running",
    [TIMELINE_HOST_FETCH_SHARE] = "host_fetch_share",
    [TIMELINE_COVERAGE] = "coverage",
    [TIMELINE_MEAN_STEP_MS] = "mean_step_ms",
};

const char *timeline_column_name(enum timeline_column column)
{
    return names[column];
}

kvt_status timeline_columns_open(struct timeline_columns *columns, double bin_s,
                                 struct kvt_error *err)
{
    *columns = (struct timeline_columns){.bin_s = bin_s, .tree = cJSON_CreateObject()};
    for (int c = 0; c < TIMELINE_COLUMNS; c++) {
        columns->arrays[c] = cJSON_AddArrayToObject(columns->tree, names[c]);
        if (!columns->arrays[c]) {
            timeline_columns_discard(columns);
            return kvt_fail_nomem(err, "the course of a run");
        }
    }
    return KVT_OK;
}

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : (double)NAN;
}

static void close_bin(struct timeline_columns *columns)
{
    const struct kvt_tally *bin = &columns->bin;
    double ns = (double)(bin->to_ns - bin->from_ns);
    const double values[TIMELINE_COLUMNS] = {
        /* Divided, they are the doubles nearest to the nanosecond. */
        [TIMELINE_FROM_S] = (double)bin->from_ns / KVT_NS_PER_S,
        [TIMELINE_TO_S] = (double)bin->to_ns / KVT_NS_PER_S,
        [TIMELINE_SLOTS] = ratio(bin->held_ns, ns),
        [TIMELINE_RUNNING] = ratio(bin->running_ns, ns),
        [TIMELINE_HOST_FETCH_SHARE] =
            ratio(bin->counts[KVT_SAMPLED_MISSED], bin->counts[KVT_SAMPLED_SELECTED]),
        [TIMELINE_COVERAGE] = ratio(bin->coverage_ns, bin->covered_ns),
        [TIMELINE_MEAN_STEP_MS] = ratio((double)bin->step_ns * 1e-6, (double)bin->decode_steps),
    };

    if (ns <= 0)
        return;
    for (int c = 0; c < TIMELINE_COLUMNS; c++) {
        cJSON *item = isfinite(values[c]) ? cJSON_CreateNumber(values[c]) : cJSON_CreateNull();
        if (!cJSON_AddItemToArray(columns->arrays[c], item)) {
            cJSON_Delete(item);
            columns->is_short_of_memory = true;
        }
    }
    columns->bin = (struct kvt_tally){0};
}

void timeline_columns_add(void *context, const struct kvt_tally *interval, uint32_t stratum_count)
{
    struct timeline_columns *columns = context;

    (void)stratum_count;
    kvt_tally_merge(&columns->bin, interval);
    if ((double)(columns->bin.to_ns - columns->bin.from_ns) * 1e-9 >= columns->bin_s)
        close_bin(columns);
}

kvt_status timeline_columns_close(struct timeline_columns *columns, cJSON **out,
                                  struct kvt_error *err)
{
    close_bin(columns);
    if (columns->is_short_of_memory) {
        timeline_columns_discard(columns);
        return kvt_fail_nomem(err, "the course of a run");
    }
    *out = columns->tree;
    *columns = (struct timeline_columns){0};
    return KVT_OK;
}

void timeline_columns_discard(struct timeline_columns *columns)
{
    cJSON_Delete(columns->tree);
    *columns = (struct timeline_columns){0};
}
