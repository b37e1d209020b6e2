/* course.c -- the course of a run: its intervals, in bins, as columns of numbers. */
#include "course.h"

#include <math.h>

static const char *const names[COURSE_COLUMNS] = {
    [COURSE_FROM_S] = "from_s",
    [COURSE_TO_S] = "to_s",
    [COURSE_SLOTS] = "slots",
    [COURSE_RUNNING] = "running",
    [COURSE_HOST_FETCH_SHARE] = "host_fetch_share",
    [COURSE_COVERAGE] = "coverage",
    [COURSE_MEAN_STEP_MS] = "mean_step_ms",
};

const char *course_column_name(enum course_column column)
{
    return names[column];
}

kvt_status course_open(struct course *course, double bin_s, struct kvt_error *err)
{
    *course = (struct course){.bin_s = bin_s, .tree = cJSON_CreateObject()};
    for (int c = 0; c < COURSE_COLUMNS; c++) {
        course->columns[c] = cJSON_AddArrayToObject(course->tree, names[c]);
        if (!course->columns[c]) {
            course_discard(course);
            return kvt_fail_nomem(err, "the course of a run");
        }
    }
    return KVT_OK;
}

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : (double)NAN;
}

static void close_bin(struct course *course)
{
    const struct kvt_tally *bin = &course->bin;
    double ns = (double)(bin->to_ns - bin->from_ns);
    const double values[COURSE_COLUMNS] = {
        /* Divided, they are the doubles nearest to the nanosecond. */
        [COURSE_FROM_S] = (double)bin->from_ns / KVT_NS_PER_S,
        [COURSE_TO_S] = (double)bin->to_ns / KVT_NS_PER_S,
        [COURSE_SLOTS] = ratio(bin->held_ns, ns),
        [COURSE_RUNNING] = ratio(bin->running_ns, ns),
        [COURSE_HOST_FETCH_SHARE] =
            ratio(bin->counts[KVT_SAMPLED_MISSED], bin->counts[KVT_SAMPLED_SELECTED]),
        [COURSE_COVERAGE] = ratio(bin->coverage_ns, bin->covered_ns),
        [COURSE_MEAN_STEP_MS] = ratio((double)bin->step_ns * 1e-6, (double)bin->decode_steps),
    };

    if (ns <= 0)
        return;
    for (int c = 0; c < COURSE_COLUMNS; c++) {
        cJSON *item = isfinite(values[c]) ? cJSON_CreateNumber(values[c]) : cJSON_CreateNull();
        if (!cJSON_AddItemToArray(course->columns[c], item)) {
            cJSON_Delete(item);
            course->is_short_of_memory = true;
        }
    }
    course->bin = (struct kvt_tally){0};
}

void course_add(void *context, const struct kvt_tally *interval, uint32_t stratum_count)
{
    struct course *course = context;

    (void)stratum_count;
    kvt_tally_merge(&course->bin, interval);
    if ((double)(course->bin.to_ns - course->bin.from_ns) * 1e-9 >= course->bin_s)
        close_bin(course);
}

kvt_status course_close(struct course *course, cJSON **out, struct kvt_error *err)
{
    close_bin(course);
    if (course->is_short_of_memory) {
        course_discard(course);
        return kvt_fail_nomem(err, "the course of a run");
    }
    *out = course->tree;
    *course = (struct course){0};
    return KVT_OK;
}

void course_discard(struct course *course)
{
    cJSON_Delete(course->tree);
    *course = (struct course){0};
}
