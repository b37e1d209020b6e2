/* robust.c -- robust least squares of relative errors.
 *
 *     weights = 1
 *     repeat
 *         value = weighted least squares of y = x value
 *         spread = median |residual| / .6745, at least 1 %
 *         weight of a row = (1 - (residual / 4.685 spread)^2)^2, 0 beyond
 *     until no weight changes
 *
 * J. W. Tukey's bisquare, iterated as in P. J. Huber, "Robust Statistics", 1981. */
#include "robust.h"

#include <gsl/gsl_multifit.h>
#include <gsl/gsl_sort.h>
#include <math.h>
#include <stdlib.h>

#include "kvt/metrics.h"

enum {
    ROUNDS_MAX = 100
};

static const double BISQUARE = 4.685; /* Tukey's, of 95 % efficiency */
static const double MAD_OF_NORMAL = 0.6745;
static const double SPREAD_LEAST = 0.01; /* of a row, that no clock and no average tells */
static const double SETTLED = 1e-6;      /* change of a weight */

/* Scratch of one fit. */
struct solver {
    size_t count, columns;
    gsl_matrix *x, *cov; /* x: columns of about 1 */
    gsl_vector *y, *weights, *residuals, *c;
    gsl_multifit_linear_workspace *work;
    double *scale;  /* [columns] what columns of x were divided by */
    double *sorted; /* [count] */
};

static void solver_free(struct solver *solver)
{
    if (solver->x)
        gsl_matrix_free(solver->x);
    if (solver->cov)
        gsl_matrix_free(solver->cov);
    if (solver->y)
        gsl_vector_free(solver->y);
    if (solver->weights)
        gsl_vector_free(solver->weights);
    if (solver->residuals)
        gsl_vector_free(solver->residuals);
    if (solver->c)
        gsl_vector_free(solver->c);
    if (solver->work)
        gsl_multifit_linear_free(solver->work);
    free(solver->scale);
    free(solver->sorted);
}

/* Columns of about 1, whatever their units. */
static void take_columns(struct solver *solver, const double *x)
{
    for (size_t k = 0; k < solver->columns; k++) {
        double length = 0;
        for (size_t i = 0; i < solver->count; i++)
            length += fabs(x[i * solver->columns + k]) / (double)solver->count;
        solver->scale[k] = length > 0 ? length : 1;
        for (size_t i = 0; i < solver->count; i++)
            gsl_matrix_set(solver->x, i, k, x[i * solver->columns + k] / solver->scale[k]);
    }
}

static kvt_status solver_make(const double *x, const double *y, size_t count, size_t columns,
                              struct solver *solver, struct kvt_error *err)
{
    *solver = (struct solver){.count = count,
                              .columns = columns,
                              .x = gsl_matrix_alloc(count, columns),
                              .cov = gsl_matrix_alloc(columns, columns),
                              .y = gsl_vector_alloc(count),
                              .weights = gsl_vector_alloc(count),
                              .residuals = gsl_vector_alloc(count),
                              .c = gsl_vector_alloc(columns),
                              .work = gsl_multifit_linear_alloc(count, columns),
                              .scale = calloc(columns, sizeof *solver->scale),
                              .sorted = calloc(count, sizeof *solver->sorted)};
    if (!solver->x || !solver->cov || !solver->y || !solver->weights || !solver->residuals ||
        !solver->c || !solver->work || !solver->scale || !solver->sorted)
        return kvt_fail_nomem(err, "a fit");
    for (size_t i = 0; i < count; i++)
        gsl_vector_set(solver->y, i, y ? y[i] : 1);
    gsl_vector_set_all(solver->weights, 1);
    take_columns(solver, x);
    return KVT_OK;
}

/* Bisquare weights of the residuals, about their median size; returns the largest change. */
static double reweigh(struct solver *solver)
{
    double change = 0;

    for (size_t i = 0; i < solver->count; i++)
        solver->sorted[i] = fabs(gsl_vector_get(solver->residuals, i));
    gsl_sort(solver->sorted, 1, solver->count);
    double spread = fmax(solver->sorted[solver->count / 2] / MAD_OF_NORMAL, SPREAD_LEAST);
    for (size_t i = 0; i < solver->count; i++) {
        double far = gsl_vector_get(solver->residuals, i) / (BISQUARE * spread);
        double weight = fabs(far) < 1 ? (1 - far * far) * (1 - far * far) : 0;
        change = fmax(change, fabs(weight - gsl_vector_get(solver->weights, i)));
        gsl_vector_set(solver->weights, i, weight);
    }
    return change;
}

/* *variance: of a row of weight 1. */
static kvt_status iterate(struct solver *solver, double *variance, struct kvt_error *err)
{
    double chi_squared = 0, weight = 0;

    for (int i = 0; i < ROUNDS_MAX; i++) {
        int code = gsl_multifit_wlinear(solver->x, solver->weights, solver->y, solver->c,
                                        solver->cov, &chi_squared, solver->work);
        if (code == 0)
            code =
                gsl_multifit_linear_residuals(solver->x, solver->y, solver->c, solver->residuals);
        if (code != 0)
            return kvt_fail(err, KVT_ERR_UNSUPPORTED, "calibrate",
                            "the terms cannot be fitted to what was measured (GSL: %s)",
                            gsl_strerror(code));
        if (i + 1 < ROUNDS_MAX && reweigh(solver) < SETTLED)
            break;
    }
    for (size_t i = 0; i < solver->count; i++)
        weight += gsl_vector_get(solver->weights, i);
    *variance =
        weight > (double)solver->columns ? chi_squared / (weight - (double)solver->columns) : 0;
    return KVT_OK;
}

kvt_status robust_fit(const double *x, const double *y, size_t count, size_t columns, double *value,
                      double *error, double *weights, struct kvt_error *err)
{
    struct solver solver;
    double variance = 0;
    kvt_status status = solver_make(x, y, count, columns, &solver, err);

    if (status == KVT_OK)
        status = iterate(&solver, &variance, err);
    for (size_t k = 0; k < columns && status == KVT_OK; k++) {
        double spread = fmax(gsl_matrix_get(solver.cov, k, k), 0) * variance;
        value[k] = gsl_vector_get(solver.c, k) / solver.scale[k];
        error[k] = sqrt(spread) / solver.scale[k];
    }
    for (size_t i = 0; i < count && weights && status == KVT_OK; i++)
        weights[i] = gsl_vector_get(solver.weights, i);
    solver_free(&solver);
    return status;
}

void robust_sum_up(double *errors, size_t count, struct robust_errors *out)
{
    struct kvt_summary summary;

    kvt_summary_of(errors, count, &summary);
    *out = (struct robust_errors){.count = count, .bias = summary.mean};
    for (size_t i = 0; i < count; i++)
        errors[i] = fabs(errors[i]);
    kvt_summary_of(errors, count, &summary);
    out->mape = summary.mean;
    out->median_abs = summary.median;
    out->p95_abs = summary.p95;
}
