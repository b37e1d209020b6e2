/* figures.h -- how local selections are: figures of streams of them, recorded or a law's. */
#ifndef KVT_CLI_FIGURES_H
#define KVT_CLI_FIGURES_H

#include "kvt/kvsel.h"

enum {
    FIGURES_SIZES = 4,   /* B/k = 1, 2, 4, 8 */
    FIGURES_AGES = 32,   /* powers of two of tokens */
    FIGURES_DEPTHS = 29, /* B/k = 2^-1 to 2^6, four steps to a power of two */
    FIGURES_HOT = 3,     /* the hottest 1, 10 and 50 % of pages */
};
extern const double figures_hot_shares[FIGURES_HOT];
/* Upper end of depth i, over k. */
double figures_depth(size_t i);

/* Sums over the selections that see more rows than they select. */
struct figures {
    uint64_t selections, selected;
    uint64_t first;              /* selected rows that their stream had not selected before */
    uint64_t ages[FIGURES_AGES]; /* others, by tokens since: [2^i, 2^(i+1)) */
    uint64_t depths[FIGURES_DEPTHS + 1]; /* others, by rows selected since, the last: any deeper */
    uint64_t pages;                      /* that a selection touches */
    uint64_t hot[FIGURES_HOT];           /* selected rows of the pages that are selected most */
    uint64_t missed[FIGURES_SIZES];      /* by batch LRU, from empty */
    double overlap[KVT_KVSEL_LAGS], unions[KVT_KVSEL_UNIONS]; /* rows */
    uint64_t overlap_count[KVT_KVSEL_LAGS], union_count[KVT_KVSEL_UNIONS];
};

enum figures_parts {
    FIGURES_ROWS, /* first, ages, depths, pages, hot */
    FIGURES_ALL   /* and what a law is known by */
};

/* Takes the selections of one stream, token by token. */
struct figures_meter;
KVT_CHECKED kvt_status figures_meter_new(enum figures_parts parts, uint32_t top_k,
                                         uint32_t rows_max, uint32_t rows_per_page,
                                         struct figures_meter **out, struct kvt_error *err);
void figures_meter_free(struct figures_meter *meter); /* takes NULL */
KVT_CHECKED kvt_status figures_take(struct figures_meter *meter, const uint64_t *set,
                                    uint32_t visible_rows, struct kvt_error *err);
/* Adds what it has taken. */
void figures_add(const struct figures_meter *meter, struct figures *figures);

/* Rows of a page of 64 tokens, where that is a whole number of them; else 64. */
uint32_t figures_page_rows(uint32_t tokens_per_row);

/* The root of the mean over four kinds of figures, overlap by lag, unions, misses and pages, of
 * their mean square difference; each figure is a share. */
double figures_distance(const struct figures *a, const struct figures *b, uint32_t top_k);

#endif
