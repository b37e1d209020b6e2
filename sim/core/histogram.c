/* histogram.c -- log-linear buckets: 1,024 to each power of two.
 *
 *     shift  = max(0, bits of value - 11)
 *     bucket = shift * 1024 + (value >> shift)
 *
 * Below 2,048 a bucket is one value; above, its width is at most value / 1024,
 * 0.098 %. The scheme is HdrHistogram's (G. Tene, http://hdrhistogram.org). All
 * 56,320 buckets are reserved at once, so that adding cannot fail; pages of them
 * that nothing falls into are never touched. */
#include <math.h>
#include <stdlib.h>

#include "kvt/metrics.h"

__extension__ typedef unsigned __int128 wide;

enum {
    STEPS_PER_OCTAVE_LOG2 = 10,
    STEPS_PER_OCTAVE = 1 << STEPS_PER_OCTAVE_LOG2,
    SHIFTS = 64 - STEPS_PER_OCTAVE_LOG2, /* shift is 0 .. SHIFTS - 1 */
    BUCKETS = (SHIFTS + 1) * STEPS_PER_OCTAVE,
};

struct kvt_histogram {
    uint64_t count;
    wide sum;
    uint32_t lowest; /* bucket in use; BUCKETS while empty */
    uint32_t highest;
    uint64_t counts[BUCKETS];
};

static uint32_t bucket_of(uint64_t value)
{
    if (value < STEPS_PER_OCTAVE)
        return (uint32_t)value;
    uint32_t top_bit = 63 - (uint32_t)__builtin_clzll(value);
    uint32_t shift = top_bit - STEPS_PER_OCTAVE_LOG2;
    return shift * STEPS_PER_OCTAVE + (uint32_t)(value >> shift);
}

/* The mean of the whole numbers that share the bucket. */
static double middle_of(uint32_t bucket)
{
    if (bucket < 2 * STEPS_PER_OCTAVE)
        return (double)bucket;
    uint32_t shift = bucket / STEPS_PER_OCTAVE - 1;
    uint64_t step = bucket - (uint64_t)shift * STEPS_PER_OCTAVE;
    double width = (double)(UINT64_C(1) << shift);
    return (double)step * width + 0.5 * (width - 1.0);
}

struct kvt_histogram *kvt_histogram_new(void)
{
    struct kvt_histogram *histogram = calloc(1, sizeof *histogram);
    if (histogram != NULL)
        histogram->lowest = BUCKETS;
    return histogram;
}

void kvt_histogram_free(struct kvt_histogram *histogram)
{
    free(histogram);
}

void kvt_histogram_add(struct kvt_histogram *histogram, uint64_t value, uint64_t times)
{
    if (times == 0)
        return;
    uint32_t bucket = bucket_of(value);
    histogram->counts[bucket] += times;
    histogram->count += times;
    histogram->sum += (wide)value * times;
    if (bucket < histogram->lowest)
        histogram->lowest = bucket;
    if (bucket > histogram->highest)
        histogram->highest = bucket;
}

void kvt_histogram_merge(struct kvt_histogram *into, const struct kvt_histogram *from)
{
    if (from->count == 0)
        return;
    for (uint32_t bucket = from->lowest; bucket <= from->highest; bucket++)
        into->counts[bucket] += from->counts[bucket];
    into->count += from->count;
    into->sum += from->sum;
    if (from->lowest < into->lowest)
        into->lowest = from->lowest;
    if (from->highest > into->highest)
        into->highest = from->highest;
}

uint64_t kvt_histogram_count(const struct kvt_histogram *histogram)
{
    return histogram->count;
}

double kvt_histogram_mean(const struct kvt_histogram *histogram)
{
    if (histogram->count == 0)
        return NAN;
    return (double)histogram->sum / (double)histogram->count;
}

double kvt_histogram_std(const struct kvt_histogram *histogram)
{
    if (histogram->count == 0)
        return NAN;
    double mean = kvt_histogram_mean(histogram);
    double squares = 0.0;
    for (uint32_t bucket = histogram->lowest; bucket <= histogram->highest; bucket++) {
        double deviation = middle_of(bucket) - mean;
        squares += (double)histogram->counts[bucket] * deviation * deviation;
    }
    return sqrt(squares / (double)histogram->count);
}

double kvt_histogram_quantile(const struct kvt_histogram *histogram, double fraction)
{
    if (histogram->count == 0 || !(fraction >= 0.0 && fraction <= 1.0))
        return NAN;
    double rank = fraction * (double)(histogram->count - 1);
    uint64_t lower_rank = (uint64_t)rank;
    if (lower_rank > histogram->count - 1)
        lower_rank = histogram->count - 1;
    double beyond = rank - (double)lower_rank;

    uint64_t seen = 0;
    uint32_t bucket = histogram->lowest;
    while (bucket < histogram->highest && seen + histogram->counts[bucket] <= lower_rank)
        seen += histogram->counts[bucket++];
    double lower = middle_of(bucket);
    if (seen + histogram->counts[bucket] > lower_rank + 1 || bucket == histogram->highest)
        return lower;

    do
        bucket++;
    while (histogram->counts[bucket] == 0);
    return lower + beyond * (middle_of(bucket) - lower);
}
