/* servegen_lengths.h -- the histograms of lengths beside a ServeGen rate file. */
#ifndef KVT_SERVEGEN_LENGTHS_H
#define KVT_SERVEGEN_LENGTHS_H

#include "kvt/rng.h"
#include "kvt/workload.h"

struct kvt_servegen_lengths;

KVT_CHECKED kvt_status kvt_servegen_lengths_load(const char *path,
                                                 struct kvt_servegen_lengths **out,
                                                 struct kvt_error *err);
void kvt_servegen_lengths_free(struct kvt_servegen_lengths *lengths);

/* The window of lengths that holds at a time: the last one that has begun.
 * SIZE_MAX where there is none, or where it has no lengths to draw from. */
size_t kvt_servegen_lengths_at(const struct kvt_servegen_lengths *lengths, double time_s);
/* One draw each, from streams of the request's own. */
void kvt_servegen_lengths_draw(const struct kvt_servegen_lengths *lengths, size_t window,
                               uint64_t run_seed, uint64_t ordinal, uint32_t *input_tokens,
                               uint32_t *output_tokens);

/* Histogram written as a Python dictionary, "{104: 0.25, 313: 0.75}": values
 * ascending into values[], their running sums into sums[], both of *count
 * entries and the caller's to free(). Lengths of 0 are left out: such a call
 * failed. An empty dictionary gives none. */
KVT_CHECKED kvt_status kvt_servegen_parse_histogram(const char *text, const char *where,
                                                    uint32_t **values, double **sums, size_t *count,
                                                    struct kvt_error *err);

#endif
