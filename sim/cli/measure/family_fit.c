/* family_fit.c -- a family's limits, fitted.
 *
 *     each sample belongs to the limit that is largest for it; at first to the one whose least
 *     slope over all samples that tell it reaches highest
 *     repeat
 *         each limit's terms by robust least squares, from its own samples
 *         each sample to the limit that is largest now
 *     until none moves
 *     the least certain term is left out, and all is begun again, until every one is certain
 *
 * Some limits are told by some samples alone, as the form says. Then each configuration is
 * predicted by what is fitted to the others, terms as they are. With one limit it is plain robust
 * regression. */
#include "family_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOVES_MAX = 30, /* rounds of moving samples between limits */
    NOBODY = UINT32_MAX
};

static const double LOWEST = 0.05; /* quantile that a limit's least slope is */
static const double ROOM = 1e-6;   /* of a range, for what is rounded */

struct fitting {
    const struct family_form *form;
    const struct family_sample *samples; /* [count] */
    size_t count;
    struct family_term *terms; /* [term_count] those in the fit are FITTED */
    uint32_t term_count, limit_count;
    uint32_t left_out;                    /* configuration; NOBODY: none */
    uint32_t *limit_of;                   /* [count] */
    double *x, *y, *weights;              /* scratch of the samples that are in */
    uint32_t column_of[FAMILY_TERMS_MAX]; /* of a fit: its terms */
};

static bool is_in(const struct fitting *fitting, size_t i)
{
    return fitting->samples[i].configuration != fitting->left_out;
}

static double weight_ns(const struct family_sample *sample)
{
    return sample->weight_ns > 0 ? sample->weight_ns : sample->ns;
}

static bool tells(const struct family_sample *sample, const struct family_limit *limit)
{
    return !limit->is_told_by_some || sample->features[limit->told_by] > limit->told_above;
}

/* ---- Limits ---------------------------------------------------------------------------- */

static double limit_ns(const struct fitting *fitting, uint32_t limit, const double *features)
{
    double ns = 0;

    for (uint32_t t = 0; t < fitting->term_count; t++) {
        const struct family_term *term = &fitting->terms[t];
        if (term->limit == limit && term->state == FAMILY_TERM_FITTED)
            ns += term->ns * features[term->feature];
    }
    return ns;
}

static double largest_ns(const struct fitting *fitting, const double *features, uint32_t *limit)
{
    double most = -1;

    for (uint32_t l = 0; l < fitting->limit_count; l++) {
        double ns = limit_ns(fitting, l, features);
        if (ns > most) {
            most = ns;
            *limit = l;
        }
    }
    return most > 0 ? most : 0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* No limit is above what was measured: the slope that few samples undercut. */
static double least_slope(struct fitting *fitting, const struct family_limit *limit)
{
    enum kvt_profile_feature feature = limit->features[0];
    size_t count = 0;

    for (size_t i = 0; i < fitting->count; i++) {
        const struct family_sample *sample = &fitting->samples[i];
        if (sample->features[feature] > 0 && tells(sample, limit))
            fitting->weights[count++] = sample->ns / sample->features[feature];
    }
    if (count == 0)
        return 0;
    qsort(fitting->weights, count, sizeof *fitting->weights, compare);
    return fitting->weights[(size_t)(LOWEST * (double)count)];
}

static void begin(struct fitting *fitting)
{
    const struct family_form *form = fitting->form;
    double slopes[KVT_PROFILE_LIMITS_MAX] = {0};

    for (uint32_t l = 0; l < form->limit_count; l++)
        slopes[l] = least_slope(fitting, &form->limits[l]);
    for (size_t i = 0; i < fitting->count; i++) {
        double most = -1;
        for (uint32_t l = 0; l < form->limit_count; l++) {
            double ns = slopes[l] * fitting->samples[i].features[form->limits[l].features[0]];
            if (ns > most) {
                most = ns;
                fitting->limit_of[i] = l;
            }
        }
    }
}

/* ---- One fit --------------------------------------------------------------------------- */

/* Whether the sample has a say in the limit's terms. */
static bool is_of(const struct fitting *fitting, size_t i, uint32_t limit)
{
    return is_in(fitting, i) && fitting->limit_of[i] == limit;
}

/* Columns of the limit's fitted terms that occur; those that do not are ABSENT. */
static uint32_t choose_columns(struct fitting *fitting, uint32_t limit)
{
    uint32_t columns = 0;

    for (uint32_t t = 0; t < fitting->term_count; t++) {
        struct family_term *term = &fitting->terms[t];
        bool occurs = false;
        if (term->limit != limit || term->state != FAMILY_TERM_FITTED)
            continue;
        for (size_t i = 0; i < fitting->count; i++)
            occurs = occurs ||
                     (is_of(fitting, i, limit) && fitting->samples[i].features[term->feature] > 0);
        term->ns = term->error_ns = 0;
        if (occurs)
            fitting->column_of[columns++] = t;
    }
    return columns;
}

static size_t fill_rows(struct fitting *fitting, uint32_t limit, uint32_t columns)
{
    size_t rows = 0;

    for (size_t i = 0; i < fitting->count; i++) {
        const struct family_sample *sample = &fitting->samples[i];
        if (!is_of(fitting, i, limit))
            continue;
        for (uint32_t c = 0; c < columns; c++) {
            const struct family_term *term = &fitting->terms[fitting->column_of[c]];
            fitting->x[rows * columns + c] = sample->features[term->feature] / weight_ns(sample);
        }
        fitting->y[rows++] = sample->ns / weight_ns(sample);
    }
    return rows;
}

/* One limit's terms, from its own samples: what is an outlier among these may not be one among
 * another limit's. With too few of them it is no limit: all its terms are 0. */
static kvt_status fit_limit(struct fitting *fitting, uint32_t limit, size_t *fitted,
                            size_t *outliers, struct kvt_error *err)
{
    double value[FAMILY_TERMS_MAX], error[FAMILY_TERMS_MAX];
    uint32_t columns = choose_columns(fitting, limit);
    size_t rows = fill_rows(fitting, limit, columns);

    if (columns == 0 || rows <= columns + 1)
        return KVT_OK;
    kvt_status status =
        robust_fit(fitting->x, fitting->y, rows, columns, value, error, fitting->weights, err);
    if (status != KVT_OK)
        return status;
    for (uint32_t c = 0; c < columns; c++) {
        fitting->terms[fitting->column_of[c]].ns = value[c];
        fitting->terms[fitting->column_of[c]].error_ns = error[c];
    }
    for (size_t i = 0; i < rows; i++)
        *outliers += fitting->weights[i] <= 0;
    *fitted += rows;
    return KVT_OK;
}

/* Terms by the samples' limits as they are. *outliers: samples without a say. */
static kvt_status fit_once(struct fitting *fitting, size_t *outliers, struct kvt_error *err)
{
    size_t fitted = 0;
    kvt_status status = KVT_OK;

    *outliers = 0;
    for (uint32_t l = 0; l < fitting->limit_count && status == KVT_OK; l++)
        status = fit_limit(fitting, l, &fitted, outliers, err);
    if (status == KVT_OK && fitted == 0)
        status =
            kvt_fail(err, KVT_ERR_UNSUPPORTED, "calibrate",
                     "%zu points of %s, too few for any of its limits; more points are expected",
                     fitting->count, kvt_step_part_name(fitting->form->part));
    return status;
}

static size_t move(struct fitting *fitting)
{
    size_t moved = 0;

    for (size_t i = 0; i < fitting->count; i++) {
        uint32_t limit = fitting->limit_of[i];
        (void)largest_ns(fitting, fitting->samples[i].features, &limit);
        moved += limit != fitting->limit_of[i];
        fitting->limit_of[i] = limit;
    }
    return moved;
}

static kvt_status fit_limits(struct fitting *fitting, size_t *outliers, struct kvt_error *err)
{
    for (int round = 0; round < MOVES_MAX; round++) {
        kvt_status status = fit_once(fitting, outliers, err);
        if (status != KVT_OK)
            return status;
        if (move(fitting) == 0)
            break;
    }
    return KVT_OK;
}

/* NULL: all are certain. */
static struct family_term *least_certain(struct fitting *fitting)
{
    struct family_term *worst = NULL;
    double least = ROBUST_CERTAIN;

    for (uint32_t t = 0; t < fitting->term_count; t++) {
        struct family_term *term = &fitting->terms[t];
        if (term->state != FAMILY_TERM_FITTED || (term->ns == 0 && term->error_ns == 0))
            continue;
        double certainty = term->error_ns > 0 ? term->ns / term->error_ns
                           : term->ns > 0     ? (double)INFINITY
                                              : 0;
        if (!(certainty >= least)) {
            least = certainty;
            worst = term;
        }
    }
    return worst;
}

static kvt_status fit_certain(struct fitting *fitting, size_t *outliers, struct kvt_error *err)
{
    for (;;) {
        begin(fitting);
        kvt_status status = fit_limits(fitting, outliers, err);
        if (status != KVT_OK)
            return status;
        struct family_term *worst = least_certain(fitting);
        if (!worst)
            break;
        worst->state = FAMILY_TERM_UNCERTAIN;
    }
    for (uint32_t t = 0; t < fitting->term_count; t++) {
        struct family_term *term = &fitting->terms[t];
        if (term->state == FAMILY_TERM_FITTED && term->ns == 0)
            term->state = FAMILY_TERM_ABSENT;
    }
    return KVT_OK;
}

/* ---- Errors ---------------------------------------------------------------------------- */

static double error_of(const struct fitting *fitting, const struct family_sample *sample)
{
    uint32_t limit = 0;
    return (largest_ns(fitting, sample->features, &limit) - sample->ns) / weight_ns(sample);
}

static bool is_first_of(const struct fitting *fitting, size_t i)
{
    for (size_t before = 0; before < i; before++) {
        if (fitting->samples[before].configuration == fitting->samples[i].configuration)
            return false;
    }
    return true;
}

/* errors[count] scratch. Terms are as they were behind it. */
static kvt_status leave_out(struct fitting *fitting, double *errors, struct family_fit *out,
                            struct kvt_error *err)
{
    struct family_term kept[FAMILY_TERMS_MAX];
    size_t count = 0, outliers = 0;
    kvt_status status = KVT_OK;

    memcpy(kept, fitting->terms, sizeof kept);
    for (size_t i = 0; i < fitting->count && status == KVT_OK; i++) {
        if (!is_first_of(fitting, i))
            continue;
        fitting->left_out = fitting->samples[i].configuration;
        memcpy(fitting->terms, kept, sizeof kept);
        (void)move(fitting);
        status = fit_limits(fitting, &outliers, err);
        if (status == KVT_ERR_UNSUPPORTED) { /* nothing is left to fit to */
            out->configurations = count = 0;
            status = KVT_OK;
            break;
        }
        for (size_t j = i; j < fitting->count && status == KVT_OK; j++) {
            if (!is_in(fitting, j))
                errors[count++] = error_of(fitting, &fitting->samples[j]);
        }
        out->configurations++;
    }
    fitting->left_out = NOBODY;
    memcpy(fitting->terms, kept, sizeof kept);
    robust_sum_up(errors, count, &out->left_out);
    return status;
}

static kvt_status find_errors(struct fitting *fitting, bool leaves_out, struct family_fit *out,
                              struct kvt_error *err)
{
    double *errors = calloc(fitting->count, sizeof *errors);

    if (!errors)
        return kvt_fail_nomem(err, "errors of a fit");
    for (size_t i = 0; i < fitting->count; i++)
        errors[i] = error_of(fitting, &fitting->samples[i]);
    robust_sum_up(errors, fitting->count, &out->own);
    kvt_status status = leaves_out ? leave_out(fitting, errors, out, err) : KVT_OK;
    free(errors);
    return status;
}

/* ---- The family ------------------------------------------------------------------------ */

/* Configurations whose samples have the feature and tell the limit; 2: two or more. */
static uint32_t count_telling(const struct family_sample *samples, size_t count,
                              const struct family_limit *limit, enum kvt_profile_feature feature)
{
    uint32_t configuration = NOBODY;

    for (size_t i = 0; i < count; i++) {
        if (samples[i].features[feature] <= 0 || !tells(&samples[i], limit))
            continue;
        if (configuration != NOBODY && samples[i].configuration != configuration)
            return 2;
        configuration = samples[i].configuration;
    }
    return configuration != NOBODY;
}

/* What could be told of a feature, even that it is nothing, holds over what was seen of it. */
static void set_range(const struct fitting *fitting, const struct family_term *term,
                      struct kvt_profile_family *family)
{
    const struct family_limit *limit = &fitting->form->limits[term->limit];
    enum kvt_profile_feature feature = term->feature;

    if (feature == KVT_FEATURE_STEP || family->has_range[feature])
        return;
    if (limit->is_told_by_some &&
        count_telling(fitting->samples, fitting->count, limit, feature) < 2)
        return;
    family->has_range[feature] = true;
    if (term->state == FAMILY_TERM_ALONE)
        return;
    family->least[feature] = (double)INFINITY;
    for (size_t i = 0; i < fitting->count; i++) {
        double value = fitting->samples[i].features[feature];
        family->least[feature] = fmin(family->least[feature], value * (1 - ROOM));
        family->most[feature] = fmax(family->most[feature], value * (1 + ROOM));
    }
}

/* Limits without a fitted term are no limits. */
static void make_family(const struct fitting *fitting, struct kvt_profile_family *family)
{
    uint32_t places[KVT_PROFILE_LIMITS_MAX];

    *family = (struct kvt_profile_family){.is_there = true};
    for (uint32_t l = 0; l < fitting->limit_count; l++)
        places[l] = NOBODY;
    for (uint32_t t = 0; t < fitting->term_count; t++) {
        const struct family_term *term = &fitting->terms[t];
        set_range(fitting, term, family);
        if (term->state != FAMILY_TERM_FITTED)
            continue;
        if (places[term->limit] == NOBODY)
            places[term->limit] = family->limit_count++;
        family->ns_per[places[term->limit]][term->feature] = term->ns;
    }
}

static enum family_term_state first_state(const struct family_sample *samples, size_t count,
                                          const struct family_limit *limit,
                                          enum kvt_profile_feature feature)
{
    uint32_t telling = count_telling(samples, count, limit, feature);

    if (telling == 1 && feature != KVT_FEATURE_STEP)
        return FAMILY_TERM_ALONE;
    return telling == 0 && limit->is_told_by_some ? FAMILY_TERM_ABSENT : FAMILY_TERM_FITTED;
}

static void list_terms(const struct family_form *form, const struct family_sample *samples,
                       size_t count, struct family_fit *out)
{
    for (uint32_t l = 0; l < form->limit_count; l++) {
        const struct family_limit *limit = &form->limits[l];
        for (uint32_t f = 0; f < limit->count; f++)
            out->terms[out->term_count++] = (struct family_term){
                .limit = l,
                .feature = limit->features[f],
                .state = first_state(samples, count, limit, limit->features[f])};
    }
}

kvt_status family_fit(const struct family_form *form, const struct family_sample *samples,
                      size_t count, bool leaves_out, struct family_fit *out, struct kvt_error *err)
{
    struct family_fit fit = {.samples = count};

    list_terms(form, samples, count, &fit);
    struct fitting fitting = {.form = form,
                              .samples = samples,
                              .count = count,
                              .terms = fit.terms,
                              .term_count = fit.term_count,
                              .limit_count = form->limit_count,
                              .left_out = NOBODY,
                              .limit_of = calloc(count + 1, sizeof *fitting.limit_of),
                              .x = calloc(count * fit.term_count + 1, sizeof *fitting.x),
                              .y = calloc(count + 1, sizeof *fitting.y),
                              .weights = calloc(count + 1, sizeof *fitting.weights)};
    bool has_room = fitting.limit_of && fitting.x && fitting.y && fitting.weights;
    kvt_status status =
        has_room ? fit_certain(&fitting, &fit.outliers, err) : kvt_fail_nomem(err, "a fit");
    if (has_room && status == KVT_OK)
        make_family(&fitting, &fit.family);
    if (has_room && status == KVT_OK)
        status = find_errors(&fitting, leaves_out, &fit, err);
    free(fitting.limit_of);
    free(fitting.x);
    free(fitting.y);
    free(fitting.weights);
    if (status == KVT_OK)
        *out = fit;
    return status;
}
