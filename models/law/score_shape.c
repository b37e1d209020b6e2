/* score_shape.c -- parameters of the score process, checked, and what they come to. */
#include "score_shape.h"

#include <assert.h>
#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* What the preset decides where a parameter leaves it. */
enum {
    PRESET_FIRST = SCORE_PARAM_PAGE_SHARE,
    PRESET_VALUES = SCORE_PARAM_COUNT - PRESET_FIRST
};

static const double preset_values[][PRESET_VALUES] = {
    /*            page_share store_share recency sink_rows layer_spread */
    /* flat      */ {0, 0, 0, 0, 0},
    /* clustered */ {0.3, 0.4, 0, 0, 0},
    /* skewed    */ {0, 0, 1, 4, 0.4},
};

/* By which of the three thirds of the selectors a share that is soon forgotten
 * is more, as a multiple of layer_spread. */
static const double band_side[SCORE_BANDS] = {1, 0, -1};

static double value_of(const struct kvt_params *params, size_t param)
{
    double given = params->values[param].number;
    if (param < PRESET_FIRST || given >= 0)
        return given;
    size_t preset = (size_t)params->values[SCORE_PARAM_PRESET].number;
    return preset_values[preset][param - PRESET_FIRST];
}

static double rounded(double value, double steps_per_unit)
{
    return rint(value * steps_per_unit) / steps_per_unit;
}

static struct score_drift drift_of(const struct kvt_params *params, double spread)
{
    double f0 = value_of(params, SCORE_PARAM_F0);
    double f1 = value_of(params, SCORE_PARAM_F1);
    double f2 = value_of(params, SCORE_PARAM_F2);
    /* The share that is soon forgotten grows by the spread, at the cost of the other. */
    double kept = f0 + f1;
    double lost = fmax(1.0 - kept, 0.0);
    double lost_scale = 1.0 + spread;
    if (lost * lost_scale > 1.0)
        lost_scale = 1.0 / lost;
    double kept_scale = kept > 0 ? (1.0 - lost * lost_scale) / kept : 1.0;
    double white = fmax(1.0 - f0 - f1 - f2, 0.0);

    double slow_keep = rounded(exp(-1.0 / value_of(params, SCORE_PARAM_TAU1)), 0x1p22);
    double fast_keep = rounded(exp(-1.0 / value_of(params, SCORE_PARAM_TAU2)), 0x1p22);
    return (struct score_drift){
        .static_weight = (float)sqrt(f0 * kept_scale),
        .slow_weight = (float)sqrt(f1 * kept_scale),
        .fast_weight = (float)sqrt(f2 * lost_scale),
        .white_weight = (float)sqrt(white * lost_scale),
        .slow_keep = (float)slow_keep,
        .slow_kick = (float)sqrt(1.0 - slow_keep * slow_keep),
        .fast_keep = (float)fast_keep,
        .fast_kick = (float)sqrt(1.0 - fast_keep * fast_keep),
    };
}

static kvt_status check_shares(const struct kvt_params *params, const char *where,
                               struct kvt_error *err)
{
    double sum = value_of(params, SCORE_PARAM_F0) + value_of(params, SCORE_PARAM_F1) +
                 value_of(params, SCORE_PARAM_F2);
    /* Decimal shares that make up 1 may come to a little more in binary. */
    if (sum > 1.0 + 1e-9)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "f0, f1 and f2 are shares of one variance and come to %.6g; at most 1 is "
                        "expected",
                        sum);
    return KVT_OK;
}

/* Below 0 there is only -1. */
static kvt_status check_left_to_preset(const struct kvt_params *params, const char *where,
                                       struct kvt_error *err)
{
    static const struct kvt_param_spec specs[] = {SCORE_PARAMS};
    for (size_t p = PRESET_FIRST; p < SCORE_PARAM_COUNT; p++) {
        double given = params->values[p].number;
        if (given < 0 && (given < -1 || given > -1))
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "%s is %.6g; 0 to %.6g is expected, or -1 for what the preset has",
                            specs[p].name, given, specs[p].maximum);
    }
    return KVT_OK;
}

static void weigh_sources(float *weights, double same_store, double neighbours)
{
    weights[SCORE_SOURCE_OWN] = (float)sqrt(1.0 - same_store);
    weights[SCORE_SOURCE_STORE] = (float)sqrt(same_store - neighbours);
    weights[SCORE_SOURCE_GROUP] = (float)sqrt(neighbours);
}

kvt_status score_shape_init(struct score_shape *shape, const struct kvt_params *params,
                            uint32_t top_k, const char *where, struct kvt_error *err)
{
    assert(params->count >= SCORE_PARAM_COUNT);
    kvt_status status = check_shares(params, where, err);
    if (status == KVT_OK)
        status = check_left_to_preset(params, where, err);
    if (status != KVT_OK)
        return status;
    double sinks = value_of(params, SCORE_PARAM_SINK_ROWS);
    if (sinks > 0 && sinks >= top_k)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "sink_rows is %.0f of the %u rows that a query selects; fewer are expected",
                        sinks, top_k);

    double page_share = value_of(params, SCORE_PARAM_PAGE_SHARE);
    double store_share = value_of(params, SCORE_PARAM_STORE_SHARE);
    double selector_share = fmax(value_of(params, SCORE_PARAM_SELECTOR_SHARE), store_share);
    double spread = value_of(params, SCORE_PARAM_LAYER_SPREAD);
    *shape = (struct score_shape){
        .row_weight = (float)sqrt(1.0 - page_share),
        .page_weight = (float)sqrt(page_share),
        .recency = (float)value_of(params, SCORE_PARAM_RECENCY),
        .sink_rows = (uint32_t)sinks,
    };
    for (size_t b = 0; b < SCORE_BANDS; b++)
        shape->bands[b] = drift_of(params, spread * band_side[b]);
    weigh_sources(shape->source_weight, selector_share, store_share);
    weigh_sources(shape->source_weight_alone, store_share, store_share);
    return KVT_OK;
}

void score_describe_params(const struct kvt_params *params, char *out, size_t bytes)
{
    static const char *const presets[] = {"flat", "clustered", "skewed"};
    static const char *const words[PRESET_VALUES] = {"page share", "store share", "recency",
                                                     "sink rows", "layer spread"};
    size_t used = (size_t)snprintf(out, bytes, "%s",
                                   presets[(size_t)params->values[SCORE_PARAM_PRESET].number]);
    for (size_t v = 0; v < PRESET_VALUES && used < bytes; v++) {
        double value = value_of(params, PRESET_FIRST + v);
        if (value > 0)
            used += (size_t)snprintf(out + used, bytes - used, ", %s %.3g", words[v], value);
    }
}

float *score_gauss_new(void)
{
    float *gauss = malloc(SCORE_GAUSS_COUNT * sizeof *gauss);
    if (gauss == NULL)
        return NULL;
    for (size_t i = SCORE_GAUSS_COUNT / 2; i < SCORE_GAUSS_COUNT; i++) {
        double quantile = gsl_cdf_ugaussian_Pinv(((double)i + 0.5) / SCORE_GAUSS_COUNT);
        gauss[i] = (float)rounded(quantile, 0x1p18);
        gauss[SCORE_GAUSS_COUNT - 1 - i] = -gauss[i];
    }
    return gauss;
}
