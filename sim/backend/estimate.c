/* estimate.c -- what a round fetches that nobody follows, from those that are followed.
 *
 *     add:   at each level, from the whole stratum to the kind itself
 *                sums += counts; beyond MEMORY_ROUNDS, sums shrink to as many
 *     rates: at each level, in the same order, the widest leaning on none
 *                rate = (sums + LEAN x mean weight x rate) / (weight + LEAN x mean weight)
 *
 * weight: of what is counted in distinct rows, distinct rows at all levels but the kind's,
 * before which the rate is taken times the distinct rows per selection of as many queries. */
#include "estimate.h"

#include <math.h>
#include <stdlib.h>

#include "kvt/speculation.h"

enum {
    OCTAVES = 8, /* of an age, and of a context in units of top_k; the last is open */
    COVERS = 16, /* half octaves of the share that is in no page; the last is open */
    LEVELS = 4   /* stratum; age; age, context and cover; kind */
};

#define MEMORY_ROUNDS 128.0 /* followed rounds that a level remembers, older ones less */
#define LEAN 0.1            /* rounds that the wider level counts for */

struct level {
    double rounds, weight;
    double sums[ESTIMATED_COUNT];
};

struct rates {
    uint64_t made; /* estimator->adds then; 0: never */
    double rates[ESTIMATED_COUNT];
};

struct estimator {
    uint32_t queries_max;
    uint64_t adds;
    struct level strata[KVT_STRATA_MAX];
    struct level ages[KVT_STRATA_MAX][OCTAVES];
    struct level covers[KVT_STRATA_MAX][OCTAVES][OCTAVES][COVERS];
    struct level widths[KVT_STRATA_MAX][OCTAVES][KVT_QUERIES_MAX]; /* of a context: all ages */
    struct level *kinds; /* [strata][ages][contexts][covers][queries_max] */
    struct rates *rates; /* of the kinds */
};

static uint32_t octave(uint64_t value)
{
    uint32_t bits = value > 0 ? 64 - (uint32_t)__builtin_clzll(value) : 0;
    return bits < OCTAVES ? bits : OCTAVES - 1;
}

/* How many halvings, by half steps, lead from 1 down to a share. */
static uint32_t half_octave(double share)
{
    int exponent;
    double mantissa = frexp(share, &exponent); /* share = mantissa x 2^exponent, from 1/2 below 1 */
    int halves = -2 * exponent + (mantissa < 0.70710678118654752);

    if (share <= 0 || halves >= COVERS)
        return COVERS - 1;
    return halves > 0 ? (uint32_t)halves : 0;
}

struct round_kind round_kind_of(uint32_t stratum, uint64_t rounds, uint32_t visible_rows,
                                double uncovered, uint32_t top_k, uint32_t queries)
{
    return (struct round_kind){.stratum = stratum,
                               .age = octave(rounds),
                               .context = octave(visible_rows / top_k),
                               .cover = half_octave(uncovered),
                               .queries = queries};
}

kvt_status estimator_new(uint32_t queries_max, struct estimator **out, struct kvt_error *err)
{
    struct estimator *estimator = calloc(1, sizeof *estimator);
    size_t kinds = (size_t)KVT_STRATA_MAX * OCTAVES * OCTAVES * COVERS * queries_max;

    if (!estimator)
        return kvt_fail_nomem(err, "what followed rounds fetched");
    estimator->queries_max = queries_max;
    estimator->kinds = calloc(kinds, sizeof *estimator->kinds);
    estimator->rates = calloc(kinds, sizeof *estimator->rates);
    if (!estimator->kinds || !estimator->rates) {
        estimator_free(estimator);
        return kvt_fail_nomem(err, "what followed rounds fetched");
    }
    *out = estimator;
    return KVT_OK;
}

void estimator_free(struct estimator *estimator)
{
    if (!estimator)
        return;
    free(estimator->kinds);
    free(estimator->rates);
    free(estimator);
}

static size_t index_of(const struct estimator *estimator, const struct round_kind *kind)
{
    size_t wider = ((size_t)kind->stratum * OCTAVES + kind->age) * OCTAVES + kind->context;
    return (wider * COVERS + kind->cover) * estimator->queries_max + kind->queries - 1;
}

static void levels_of(struct estimator *estimator, const struct round_kind *kind,
                      struct level *levels[LEVELS])
{
    levels[0] = &estimator->strata[kind->stratum];
    levels[1] = &estimator->ages[kind->stratum][kind->age];
    levels[2] = &estimator->covers[kind->stratum][kind->age][kind->context][kind->cover];
    levels[3] = &estimator->kinds[index_of(estimator, kind)];
}

static void forget_beyond_memory(struct level *level)
{
    double kept = MEMORY_ROUNDS / level->rounds;

    if (kept >= 1)
        return;
    level->rounds *= kept;
    level->weight *= kept;
    for (int c = 0; c < ESTIMATED_COUNT; c++)
        level->sums[c] *= kept;
}

static void add_to(struct level *level, double weight, const double counts[ESTIMATED_COUNT])
{
    level->rounds++;
    level->weight += weight;
    for (int c = 0; c < ESTIMATED_COUNT; c++)
        level->sums[c] += counts[c];
    forget_beyond_memory(level);
}

static struct level *width_of(struct estimator *estimator, const struct round_kind *kind)
{
    return &estimator->widths[kind->stratum][kind->context][kind->queries - 1];
}

void estimator_add(struct estimator *estimator, const struct round_kind *kind, double weight,
                   const double counts[ESTIMATED_COUNT])
{
    struct level *levels[LEVELS];

    levels_of(estimator, kind, levels);
    for (int l = 0; l < LEVELS; l++)
        add_to(levels[l], weight, counts);
    add_to(width_of(estimator, kind), weight, counts);
    estimator->adds++;
}

bool estimator_knows(const struct estimator *estimator, const struct round_kind *kind)
{
    return estimator->kinds[index_of(estimator, kind)].rounds > 0;
}

/* One level's rate, which leans on `wider`; NaN: there is no wider one. */
static double lean_on(const struct level *level, double weight, double sum, double wider)
{
    double lean = isnan(wider) ? 0 : LEAN * weight / level->rounds;

    if (weight <= 0)
        return wider;
    return (sum + (lean > 0 ? lean * wider : 0)) / (weight + lean);
}

const double *estimator_rates(struct estimator *estimator, const struct round_kind *kind)
{
    struct rates *rates = &estimator->rates[index_of(estimator, kind)];
    const struct level *width = width_of(estimator, kind);
    struct level *levels[LEVELS];

    if (rates->made == estimator->adds)
        return rates->rates;
    levels_of(estimator, kind, levels);
    if (width->rounds == 0)
        width = levels[0]; /* of any width, and any context */
    for (int c = 0; c < ESTIMATED_COUNT; c++) {
        bool is_distinct = c >= ESTIMATED_DISTINCT;
        double rate = NAN;
        for (int l = 0; l < LEVELS; l++) {
            const struct level *level = levels[l];
            bool by_distinct = is_distinct && l + 1 < LEVELS;
            if (is_distinct && l + 1 == LEVELS && width->weight > 0)
                rate *= width->sums[ESTIMATED_DISTINCT] / width->weight;
            if (level->rounds > 0)
                rate = lean_on(level, by_distinct ? level->sums[ESTIMATED_DISTINCT] : level->weight,
                               level->sums[c], rate);
        }
        rates->rates[c] = isnan(rate) ? 0 : rate;
    }
    rates->made = estimator->adds;
    return rates->rates;
}
