/* rng.c -- counter-based streams, and GSL's distributions drawn from them.
 *
 *     key     = chain of (run seed, purpose, entity)
 *     draw i  = mix64(mix64(key + i * golden) ^ (key * odd))
 *
 * The inner mix is splitmix64, whose streams are windows of one sequence of
 * 2^64 words: two of them could overlap. The key enters again before the outer
 * mix, so that where two windows meet their draws still differ. Sources: G. L.
 * Steele, D. Lea, C. H. Flood, "Fast Splittable Pseudorandom Number
 * Generators", OOPSLA 2014; J. Salmon et al., "Parallel Random Numbers: As Easy
 * as 1, 2, 3", SC 2011, for counters instead of state. */
#include "kvt/rng.h"

#include <assert.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <math.h>
#include <string.h>

#include "kvt/hash.h"

__extension__ typedef unsigned __int128 wide;

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)    /* 2^64 / golden ratio, odd */
#define KEY_ODD UINT64_C(0xd1342543de82ef95)   /* a multiplier of good spectral quality */
#define KEY_START UINT64_C(0x6b76746964652f31) /* "kvtide/1" */

struct kvt_rng kvt_rng_stream(uint64_t run_seed, enum kvt_rng_purpose purpose, uint64_t entity)
{
    uint64_t key = kvt_chain64(KEY_START, run_seed);
    key = kvt_chain64(key, (uint64_t)purpose);
    key = kvt_chain64(key, entity);
    return (struct kvt_rng){.key = key, .counter = 0};
}

uint64_t kvt_rng_u64(struct kvt_rng *rng)
{
    uint64_t inner = kvt_mix64(rng->key + rng->counter * GOLDEN);
    rng->counter++;
    return kvt_mix64(inner ^ (rng->key * KEY_ODD));
}

double kvt_rng_unit(struct kvt_rng *rng)
{
    return (double)(kvt_rng_u64(rng) >> 11) * 0x1p-53;
}

/* The high half of draw * bound. Low halves under 2^64 mod bound belong to
 * values that would come up once too often, and are drawn again. D. Lemire,
 * "Fast Random Integer Generation in an Interval", TOMACS 29(1), 2019. */
uint64_t kvt_rng_below(struct kvt_rng *rng, uint64_t bound)
{
    assert(bound >= 1);
    wide product = (wide)kvt_rng_u64(rng) * bound;
    if ((uint64_t)product < bound) {
        uint64_t surplus = (0 - bound) % bound;
        while ((uint64_t)product < surplus)
            product = (wide)kvt_rng_u64(rng) * bound;
    }
    return (uint64_t)(product >> 64);
}

static void gsl_side_set(void *state, unsigned long seed)
{
    *(struct kvt_rng *)state = kvt_rng_stream(seed, KVT_RNG_TEST, 0);
}

static unsigned long gsl_side_get(void *state)
{
    return kvt_rng_u64(state);
}

static double gsl_side_get_double(void *state)
{
    return kvt_rng_unit(state);
}

/* gsl_rng_uniform_int() must not be used on it: its range is all 64 bits, for
 * which GSL computes a range of 0 and answers 0. kvt_rng_below() is ours. */
static const gsl_rng_type gsl_side_type = {
    .name = "kvt",
    .max = UINT64_MAX,
    .min = 0,
    .size = sizeof(struct kvt_rng),
    .set = gsl_side_set,
    .get = gsl_side_get,
    .get_double = gsl_side_get_double,
};

/* A gsl_rng around the caller's stream: draws advance it, nothing is allocated. */
static gsl_rng gsl_side_of(struct kvt_rng *rng)
{
    return (gsl_rng){.type = &gsl_side_type, .state = rng};
}

/* Keeps 20 bits after the leading one: to nearest, by the representation. */
static double rounded(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + (UINT64_C(1) << 31)) & ~UINT64_C(0xffffffff);
    memcpy(&value, &bits, sizeof bits);
    return value;
}

double kvt_rng_exponential(struct kvt_rng *rng, double mean)
{
    gsl_rng side = gsl_side_of(rng);
    return rounded(gsl_ran_exponential(&side, mean));
}

double kvt_rng_gamma(struct kvt_rng *rng, double shape, double scale)
{
    gsl_rng side = gsl_side_of(rng);
    return rounded(gsl_ran_gamma(&side, shape, scale));
}

double kvt_rng_lognormal(struct kvt_rng *rng, double mean, double cv)
{
    gsl_rng side = gsl_side_of(rng);
    double log_variance = log1p(cv * cv);
    double log_mean = log(mean) - 0.5 * log_variance;
    return rounded(gsl_ran_lognormal(&side, log_mean, sqrt(log_variance)));
}

double kvt_rng_weibull(struct kvt_rng *rng, double shape, double scale)
{
    gsl_rng side = gsl_side_of(rng);
    return rounded(gsl_ran_weibull(&side, scale, shape));
}

double kvt_rng_gaussian(struct kvt_rng *rng)
{
    /* The ziggurat asks libm only at a layer's edge, 1 draw in 40 or so; Box
     * and Muller's takes a logarithm every time. */
    gsl_rng side = gsl_side_of(rng);
    return rounded(gsl_ran_gaussian_ziggurat(&side, 1.0));
}
