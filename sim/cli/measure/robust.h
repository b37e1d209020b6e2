/* robust.h -- robust least squares of relative errors: what calibrations are fitted with. */
#ifndef KVT_CLI_ROBUST_H
#define KVT_CLI_ROBUST_H

#include "kvt/error.h"

/* Finds value[] so that every row's sum of x[row][column] * value[column] is near y[row]; NULL: 1.
 * A row is what it counts, over what it took, so that errors count as shares. Reweighted by Tukey's
 * bisquare: a row far from the others has no say; its weight is 0. Columns may be of any size.
 *
 * error[]: standard errors. weights[]: of each row, 0 to 1; NULL: nobody asks. Refuses
 * (KVT_ERR_UNSUPPORTED) rows that nothing can be fitted to; count must be above columns. */
KVT_CHECKED kvt_status robust_fit(const double *x /* [count][columns] */,
                                  const double *y /* [count] */, size_t count, size_t columns,
                                  double *value /* [columns] */, double *error /* [columns] */,
                                  double *weights /* [count] */, struct kvt_error *err);

/* Of what a fit predicts, predicted over measured less 1. */
struct robust_errors {
    size_t count;
    double mape, median_abs, p95_abs, bias;
};
/* errors[count] are made absolute, and sorted. */
void robust_sum_up(double *errors, size_t count, struct robust_errors *out);

/* A term this many standard errors or less away from 0 cannot be told. */
#define ROBUST_CERTAIN 2.0

#endif
