/* course.c -- timeline.csv in bins.
 *
 *     a row goes into the last bin while that has fewer rows than a bin takes
 *     no bin left: neighbours are joined two by two, and a bin takes twice as many from here on
 *
 * So one pass is enough, and the bins of a file are the same whoever reads it. */
#include "course.h"

#include <math.h>

#include "csv_columns.h"

enum how {
    FIRST,
    LAST,
    SUM,
    MOST,
    MEAN /* weighed */
};

static const struct {
    const char *name;
    enum how how;
    enum course_column by; /* what a mean is weighed by; COURSE_TO_S: the row's time */
} columns[COURSE_COLUMNS] = {
    [COURSE_FROM_S] = {"from_s", FIRST, 0},
    [COURSE_TO_S] = {"to_s", LAST, 0},
    [COURSE_DECODING] = {"running_mean", MEAN, COURSE_TO_S},
    [COURSE_WAITING] = {"waiting_mean", MEAN, COURSE_TO_S},
    [COURSE_IMPORTING] = {"importing_mean", MEAN, COURSE_TO_S},
    [COURSE_SLOTS_HELD] = {"allocated_slots_mean", MEAN, COURSE_TO_S},
    [COURSE_COVERAGE] = {"coverage", MEAN, COURSE_TO_S},
    [COURSE_HOST_FETCH_SHARE] = {"host_fetch_share", MEAN, COURSE_SELECTED_ROWS},
    [COURSE_SELECTED_ROWS] = {"followed_selected_rows", SUM, 0},
    [COURSE_OUTPUT_TOKENS] = {"output_tokens", SUM, 0},
    [COURSE_H2D_BYTES] = {"h2d_wire_bytes", SUM, 0},
    [COURSE_FILL_BYTES] = {"fill_bytes", SUM, 0},
    [COURSE_D2H_BYTES] = {"d2h_bytes", SUM, 0},
    [COURSE_IMPORT_BYTES] = {"import_bytes", SUM, 0},
    [COURSE_PREEMPTIONS] = {"preemptions", SUM, 0},
    [COURSE_STEPS] = {"decode_steps", SUM, 0},
    [COURSE_STEP_MS] = {"mean_step_ms", MEAN, COURSE_STEPS},
    [COURSE_HBM_PEAK_BYTES] = {"hbm_kv_peak_bytes", MOST, 0},
    [COURSE_HOST_PEAK_BYTES] = {"host_peak_bytes", MOST, 0},
};

/* Takes one bin, or one row of the file, into another that comes before it. */
static void join(double *into, double *into_weights, const double *from, const double *weights)
{
    for (int c = 0; c < COURSE_COLUMNS; c++) {
        double both = into_weights[c] + weights[c];
        if (weights[c] == 0) /* nothing to add */
            continue;
        if (columns[c].how == LAST || into_weights[c] == 0)
            into[c] = from[c];
        else if (columns[c].how == SUM)
            into[c] += from[c];
        else if (columns[c].how == MOST)
            into[c] = fmax(into[c], from[c]);
        else if (columns[c].how == MEAN)
            into[c] = (into[c] * into_weights[c] + from[c] * weights[c]) / both;
        into_weights[c] = both;
    }
}

/* How much a row's values count; 0 where they are not defined. */
static void weigh(const double *row, double *weights)
{
    double span_s = row[COURSE_TO_S] - row[COURSE_FROM_S];

    for (int c = 0; c < COURSE_COLUMNS; c++) {
        double weight = columns[c].how != MEAN         ? 1
                        : columns[c].by == COURSE_TO_S ? span_s
                                                       : row[columns[c].by];
        weights[c] = isfinite(row[c]) && weight > 0 ? weight : 0;
    }
}

static void halve(struct course *course)
{
    size_t kept = 0;

    for (size_t b = 0; b < course->bin_count; b += 2) {
        for (int c = 0; c < COURSE_COLUMNS; c++) {
            course->bins[kept][c] = course->bins[b][c];
            course->weights[kept][c] = course->weights[b][c];
        }
        if (b + 1 < course->bin_count)
            join(course->bins[kept], course->weights[kept], course->bins[b + 1],
                 course->weights[b + 1]);
        kept++;
    }
    course->bin_count = kept;
    course->rows_per_bin *= 2;
}

static void add_row(struct course *course, const double *row, size_t nth)
{
    double weights[COURSE_COLUMNS];

    weigh(row, weights);
    if (nth % course->rows_per_bin == 0) {
        if (course->bin_count == COURSE_BINS_MAX)
            halve(course); /* an even number of full bins: none is left half full */
        for (int c = 0; c < COURSE_COLUMNS; c++) {
            course->bins[course->bin_count][c] = (double)NAN;
            course->weights[course->bin_count][c] = 0;
        }
        course->bin_count++;
    }
    join(course->bins[course->bin_count - 1], course->weights[course->bin_count - 1], row, weights);
}

kvt_status course_load(const char *path, struct course *out, struct kvt_error *err)
{
    const char *names[COURSE_COLUMNS];
    struct csv_columns csv;
    bool more = true;

    for (int c = 0; c < COURSE_COLUMNS; c++)
        names[c] = columns[c].name;
    out->bin_count = 0;
    out->rows_per_bin = 1;
    kvt_status status = csv_columns_open(&csv, path, names, COURSE_COLUMNS, err);
    for (size_t nth = 0; status == KVT_OK && more; nth++) {
        double row[COURSE_COLUMNS];
        status = csv_columns_next(&csv, row, &more, err);
        if (status == KVT_OK && more)
            add_row(out, row, nth);
    }
    csv_columns_close(&csv);
    return status;
}
