/* kvt/rng.h -- independent random streams, named by what they are for.
 *
 * A shared object cannot call these functions: struct kvt_host has those that it may. */
#ifndef KVT_RNG_H
#define KVT_RNG_H

#include "kvt/base.h"

KVT_BEGIN_DECLS

/* Append only: a purpose keeps its number for ever, so that adding one never
 * changes what the others draw. */
enum kvt_rng_purpose {
    KVT_RNG_ARRIVAL = 1,
    KVT_RNG_LENGTH = 2,
    KVT_RNG_SELECTION = 3,
    KVT_RNG_SPECULATION = 4,
    KVT_RNG_POLICY = 5,
    KVT_RNG_SERVICE = 6, /* service times (import) where a law asks for chance */
    KVT_RNG_SAMPLE = 7,  /* which stores a sampled run follows */
    KVT_RNG_CLASS = 8,   /* which SLO class a request belongs to */
    KVT_RNG_ROUTE = 9,
    KVT_RNG_DEVIATION = 10, /* by how much calls that nobody follows differ from their mean */
    KVT_RNG_DEVICE = 11,    /* what kernels work on where no model says it */
    KVT_RNG_PREFETCH = 12,  /* which missed rows were predicted */
    KVT_RNG_DEPTH = 13,     /* which reads need all of a row */
    KVT_RNG_KIND = 14,      /* which kind of the workload a request is */
    KVT_RNG_FAULT = 15,     /* what a fault hits where nobody says it */
    KVT_RNG_TEST = 99
};

/* Counter-based (draw i is a function of key and i), so a copy is a snapshot
 * and streams cost nothing to make. Plain data; nothing to free. */
struct kvt_rng {
    uint64_t key;
    uint64_t counter;
};

/* The stream of one entity for one purpose. Equal arguments give equal
 * streams, whatever the thread count and the order of the calls. */
struct kvt_rng kvt_rng_stream(uint64_t run_seed, enum kvt_rng_purpose purpose, uint64_t entity);

uint64_t kvt_rng_u64(struct kvt_rng *rng);
double kvt_rng_unit(struct kvt_rng *rng); /* uniform in [0, 1), 53 bits */

/* Unbiased, in [0, bound). bound is at least 1. */
uint64_t kvt_rng_below(struct kvt_rng *rng, uint64_t bound);

/* Distributions are GSL's, drawn from the stream through a gsl_rng that wraps
 * it. Every result is rounded to a multiple of 2^-20 relative, so that the
 * last bits of a machine's libm never reach a decision. */
double kvt_rng_exponential(struct kvt_rng *rng, double mean);
double kvt_rng_gamma(struct kvt_rng *rng, double shape, double scale);
/* Log-normal with the given arithmetic mean and coefficient of variation. */
double kvt_rng_lognormal(struct kvt_rng *rng, double mean, double cv);
/* Weibull: P(X > x) = exp(-(x / scale)^shape). */
double kvt_rng_weibull(struct kvt_rng *rng, double shape, double scale);
double kvt_rng_gaussian(struct kvt_rng *rng);

KVT_END_DECLS
#endif
