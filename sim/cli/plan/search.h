/* search.h -- the last of some candidates in order that meets what is asked, by as few trials of
 * them as a guess allows. Knows nothing of what a candidate is. */
#ifndef KVT_CLI_PLAN_SEARCH_H
#define KVT_CLI_PLAN_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "kvt/error.h"

/* ---- Trials of candidates 0 .. count - 1, of which the last are wanted most ------------------ */

enum search_verdict {
    SEARCH_MEETS = 0,
    SEARCH_TOO_HIGH, /* fails, and so would all above it */
    SEARCH_TOO_LOW   /* fails, and so would all below it */
};

struct search {
    long count;
    long low, high; /* the answer lies in [low, high); -1 and count: nothing was tried yet */
    bool low_meets; /* low itself does; otherwise it is too low */
    long first;     /* to try first */
    unsigned tries, rises, falls, stale; /* in all; in a row; since the bracket was halved */
    long width;                          /* when it was last halved */
};

void search_begin(struct search *search, long count, long first);
/* The candidate to try next. guess: the last that would meet as far as anybody knows; -1: none
 * would. False once the answer is bracketed: low meets and low + 1 does not, or none meets. */
bool search_next(const struct search *search, long guess, long *out);
void search_tell(struct search *search, long candidate, enum search_verdict verdict);

/* low meets after all: what was held to be too low was not a matter of order. high does not. */
void search_restart(struct search *search, long low, long high);

/* ---- What is known of the candidates beforehand -------------------------------------------------
 */

enum {
    CURVE_FIGURES_MAX = 32,
    CURVE_GRID = 17, /* candidates on which the curve is looked at first */
    CURVE_SCAN = 512 /* that are looked at where it is not monotone */
};

/* Figures of candidates, each asked for once. */
struct curve {
    size_t figure_count;
    /* figures[figure_count]; NaN: not known. */
    kvt_status (*at)(void *context, long candidate, double *figures, struct kvt_error *err);
    void *context;
    struct curve_point *points; /* [point_count] by candidate */
    size_t point_count, room;
    bool is_monotone[CURVE_FIGURES_MAX]; /* that figure, on the candidates that were looked at */
    bool is_scanned;
};
struct curve_point {
    long candidate;
    double figures[CURVE_FIGURES_MAX];
};

/* What is known without asking; NULL: nothing. Borrowed until something is asked for. */
const double *curve_known(const struct curve *curve, long candidate);
void curve_free(struct curve *curve);
KVT_CHECKED kvt_status curve_at(struct curve *curve, long candidate, const double **figures,
                                struct kvt_error *err);

/* The candidate whose value is nearest to a share of the way from the first to the last: by
 * difference where the larger of both is less than four times the smaller, else by ratio. */
long curve_spread(long count, const double *values, double share);

/* Looks at CURVE_GRID candidates, spread as above; where a figure turns round between them at
 * CURVE_SCAN (all, if there are no more). values[count]: ascending or descending. */
KVT_CHECKED kvt_status curve_look(struct curve *curve, long count, const double *values,
                                  struct kvt_error *err);

/* The same of what was put in by curve_at(): says which figures turn round. */
void curve_check(struct curve *curve);

/* How far a candidate with these figures is within what is asked: below 0 it fails. NaN: not
 * known, which counts as failing. */
typedef double (*curve_margin)(void *context, long candidate, const double *figures);

/* The last candidate in (low, high) with a margin of 0 or more; -1: none. Where all figures are
 * monotone, to the candidate, by bisection between what was looked at; otherwise the last stretch
 * between two that were looked at which it leaves. */
KVT_CHECKED kvt_status curve_last(struct curve *curve, long low, long high, curve_margin margin,
                                  void *context, long *out, struct kvt_error *err);
/* Of those looked at the one with the largest margin; -1: none has one. */
long curve_best(const struct curve *curve, curve_margin margin, void *context);
bool curve_is_monotone(const struct curve *curve);

#endif
