/* locality.h -- how local a law's selections are, measured by caches that know nothing of ours. */
#ifndef KVT_TESTS_LOCALITY_H
#define KVT_TESTS_LOCALITY_H

#include "kvt/law.h"

/* What a stream is asked for. GLM-5.3's store, or the same in small: shares depend on the
 * shares of rows, not on their number. */
struct locality_scale {
    uint32_t context_rows, top_k, tail_rows, tokens_per_row;
    uint32_t tokens; /* from a cold start */
};
extern const struct locality_scale locality_full_scale;  /* 100,032 rows, 2,120 tokens */
extern const struct locality_scale locality_small_scale; /* an eighth of the rows and of their
                                                          * growth */

enum {
    LOCALITY_SIZES = 7,
    LOCALITY_LAGS = 7,
    LOCALITY_UNIONS = 8,
    LOCALITY_COVERAGES = 6,
    LOCALITY_ROUNDS = 4
};
extern const double locality_sizes[LOCALITY_SIZES];         /* B/k: 1 1.5 2 3 4 8 16 */
extern const uint32_t locality_lags[LOCALITY_LAGS];         /* tokens: 1 2 4 8 16 32 63 */
extern const double locality_coverages[LOCALITY_COVERAGES]; /* .25 .5 .6 .7 .8 .9 */
extern const uint32_t locality_rounds[LOCALITY_ROUNDS];     /* queries: 1 4 6 8 */

/* Figures, shares of top_k all of them; nothing but doubles. */
struct locality {
    double miss[LOCALITY_SIZES];        /* of selections, by batch LRU of so many slots */
    double overlap[LOCALITY_LAGS];      /* rows shared with the selection so long before */
    double unions[LOCALITY_UNIONS];     /* rows of 1, 2, ... selections in a row */
    double covered[LOCALITY_COVERAGES]; /* misses at B = 2k with random pages resident */
    double chosen[LOCALITY_COVERAGES];  /* and with as many, those most selected of late */
    double fetched[LOCALITY_ROUNDS];    /* rows fetched a round at B = 2k, drafts accepted
                                         * with .65, staging behind the cache */
    double born;                        /* selected rows born since the start */
};
enum {
    LOCALITY_FIGURES = sizeof(struct locality) / sizeof(double)
};

/* "miss at B/k 1.5", in words of at most 31 characters. */
void locality_figure_name(size_t figure, char name[32]);
double locality_figure(const struct locality *locality, size_t figure);

/* What locality_measure() spends its time on. */
enum locality_parts {
    LOCALITY_STREAM = 1,   /* miss, overlap, unions, born */
    LOCALITY_COVERAGE = 2, /* covered, chosen */
    LOCALITY_FETCHED = 4,
    LOCALITY_ALL = 7,
    LOCALITY_PUBLISHED = 8 /* misses at B/k 1, 2 and 8 alone, of what LOCALITY_STREAM has */
};

unsigned locality_part_of(size_t figure);

/* Of one selector of one request. data was prepared for one side path of 7 tokens where
 * LOCALITY_FETCHED is asked for. False when memory is short or the law refuses. */
bool locality_measure(const struct kvt_law *law, void *data, const struct locality_scale *scale,
                      uint32_t request, uint32_t selector, unsigned parts,
                      struct locality *locality);

/* Mean and deviation of one figure over several measurements. */
struct locality_spread {
    double mean, deviation;
};
struct locality_spread locality_spread_of(const struct locality *found, size_t count,
                                          size_t figure);

#endif
