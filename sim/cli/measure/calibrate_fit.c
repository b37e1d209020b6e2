/* calibrate_fit.c -- terms of a step out of windows, and how far each can be told.
 *
 *     seconds of a window = sum over terms of ns x its sum
 *
 * Each window is divided by its own seconds, so that errors count as shares; then robust least
 * squares (GSL's, reweighted by Tukey's bisquare of the residuals), because a request that is put
 * aside stands still without a word.
 * A term that came out below 0, or with a standard error of more than half of itself, is left out,
 * the least certain first, and the rest is fitted again. What is left out in turn: each run, or,
 * of a single one, each tenth of its time. */
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <stdlib.h>

#include "calibrate.h"

enum {
    PARTS_OF_A_RUN = 10,
    WINDOWS_MIN = WINDOW_SUMS + 3
};

static const double SAME = 1 - 1e-9; /* cosine of columns that are one */

/* Windows but those of one part, over their seconds. */
struct rows {
    double *x; /* [count][columns] */
    size_t count, columns;
    enum window_sum column_of[WINDOW_SUMS];
};

static size_t part_of(const struct windows *windows, size_t index, size_t parts, bool are_runs)
{
    return are_runs ? windows->items[index].run : index * parts / windows->count;
}

/* parts 0: nothing is left out. */
static kvt_status rows_make(const struct windows *windows, const struct fit_term *terms,
                            const struct fit *parts, size_t left_out, struct rows *rows,
                            struct kvt_error *err)
{
    *rows = (struct rows){.count = 0};
    for (int t = 0; t < WINDOW_SUMS; t++) {
        if (terms[t].state == TERM_FITTED)
            rows->column_of[rows->columns++] = (enum window_sum)t;
    }
    for (size_t i = 0; i < windows->count; i++)
        rows->count +=
            !parts || part_of(windows, i, parts->part_count, parts->parts_are_runs) != left_out;
    if (rows->count < WINDOWS_MIN || rows->columns == 0)
        return KVT_OK;
    rows->x = calloc(rows->count * rows->columns, sizeof *rows->x);
    if (!rows->x)
        return kvt_fail_nomem(err, "a fit");
    size_t cell = 0;
    for (size_t i = 0; i < windows->count; i++) {
        const struct window *window = &windows->items[i];
        if (parts && part_of(windows, i, parts->part_count, parts->parts_are_runs) == left_out)
            continue;
        for (size_t c = 0; c < rows->columns; c++)
            rows->x[cell++] = window->sums[rows->column_of[c]] / window->seconds;
    }
    return KVT_OK;
}

/* ns and error_ns of the fitted terms; *outliers of the rows have no weight. */
static kvt_status solve(const struct rows *rows, struct fit_term *terms, size_t *outliers,
                        struct kvt_error *err)
{
    double value[WINDOW_SUMS] = {0}, error[WINDOW_SUMS] = {0};
    double *weights = calloc(rows->count, sizeof *weights);

    if (!weights)
        return kvt_fail_nomem(err, "a fit");
    kvt_status status =
        robust_fit(rows->x, NULL, rows->count, rows->columns, value, error, weights, err);
    for (size_t k = 0; k < rows->columns && status == KVT_OK; k++) {
        terms[rows->column_of[k]].ns = value[k] * 1e9;
        terms[rows->column_of[k]].error_ns = error[k] * 1e9;
    }
    for (size_t i = 0; i < rows->count && outliers && status == KVT_OK; i++)
        *outliers += weights[i] <= 0;
    free(weights);
    return status;
}

static kvt_status fit_without(const struct windows *windows, const struct fit *parts,
                              size_t left_out, struct fit_term *terms, size_t *outliers,
                              struct kvt_error *err)
{
    struct rows rows;
    kvt_status status = rows_make(windows, terms, parts, left_out, &rows, err);

    if (status == KVT_OK && !rows.x)
        status = kvt_fail(err, KVT_ERR_UNSUPPORTED, "calibrate",
                          "%zu windows to fit to; at least %d are expected: longer runs, several "
                          "concurrencies, or requests one by one (vLLM: --save-detailed, SGLang: "
                          "--output-details)",
                          rows.count, WINDOWS_MIN);
    if (status == KVT_OK)
        status = solve(&rows, terms, outliers, err);
    free(rows.x);
    return status;
}

/* ---- Which terms can be told --------------------------------------------------------------------
 */

static double cosine(const struct windows *windows, enum window_sum a, enum window_sum b)
{
    double ab = 0, aa = 0, bb = 0;

    for (size_t i = 0; i < windows->count; i++) {
        const struct window *window = &windows->items[i];
        double x = window->sums[a] / window->seconds, y = window->sums[b] / window->seconds;
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa) / sqrt(bb) : 0;
}

static bool occurs(const struct windows *windows, enum window_sum sum)
{
    for (size_t i = 0; i < windows->count; i++) {
        if (windows->items[i].sums[sum] > 0)
            return true;
    }
    return false;
}

/* The one of the others that each looks most like. What never occurs, or is the same as an earlier
 * one, is left out. */
static void compare_terms(const struct windows *windows, struct fit_term *terms)
{
    for (int t = 0; t < WINDOW_SUMS; t++) {
        if (!occurs(windows, (enum window_sum)t))
            terms[t].state = TERM_ABSENT;
        for (int other = 0; other < WINDOW_SUMS; other++) {
            double likeness =
                other == t ? 0 : cosine(windows, (enum window_sum)t, (enum window_sum)other);
            bool stands = other > t || terms[other].state == TERM_FITTED;
            if (!stands || likeness <= terms[t].likeness)
                continue;
            terms[t].likeness = likeness;
            terms[t].like = (enum window_sum)other;
            if (other < t && likeness >= SAME)
                terms[t].state = TERM_SAME;
        }
    }
}

/* Largest over least singular value of the columns at unit length. */
static kvt_status find_condition(const struct windows *windows, double *out, struct kvt_error *err)
{
    double gram[WINDOW_SUMS * WINDOW_SUMS], eigen[WINDOW_SUMS], rotated[WINDOW_SUMS * WINDOW_SUMS],
        spare[WINDOW_SUMS];
    gsl_matrix_view u = gsl_matrix_view_array(gram, WINDOW_SUMS, WINDOW_SUMS);
    gsl_matrix_view v = gsl_matrix_view_array(rotated, WINDOW_SUMS, WINDOW_SUMS);
    gsl_vector_view s = gsl_vector_view_array(eigen, WINDOW_SUMS);
    gsl_vector_view w = gsl_vector_view_array(spare, WINDOW_SUMS);

    for (int a = 0; a < WINDOW_SUMS; a++) {
        for (int b = 0; b < WINDOW_SUMS; b++)
            gram[a * WINDOW_SUMS + b] =
                a == b ? 1 : cosine(windows, (enum window_sum)a, (enum window_sum)b);
    }
    if (gsl_linalg_SV_decomp(&u.matrix, &v.matrix, &s.vector, &w.vector) != 0)
        return kvt_fail(err, KVT_ERR_INTERNAL, "calibrate", "a matrix of cosines has no values");
    double least = eigen[WINDOW_SUMS - 1];
    *out = least > 1e-14 * eigen[0] ? sqrt(eigen[0] / least) : (double)INFINITY;
    return KVT_OK;
}

/* The least certain of the fitted terms; WINDOW_SUMS where all are certain. */
static enum window_sum least_certain(const struct fit_term *terms)
{
    enum window_sum worst = WINDOW_SUMS;
    double least = ROBUST_CERTAIN;

    for (int t = 0; t < WINDOW_SUMS; t++) {
        if (terms[t].state != TERM_FITTED)
            continue;
        double certainty = terms[t].error_ns > 0 ? terms[t].ns / terms[t].error_ns
                           : terms[t].ns > 0     ? (double)INFINITY
                                                 : 0;
        if (!(certainty >= least)) {
            least = certainty;
            worst = (enum window_sum)t;
        }
    }
    return worst;
}

static kvt_status fit_terms(const struct windows *windows, struct fit *fit, size_t *outliers,
                            struct kvt_error *err)
{
    for (;;) {
        *outliers = 0;
        kvt_status status = fit_without(windows, NULL, 0, fit->terms, outliers, err);
        if (status != KVT_OK)
            return status;
        enum window_sum worst = least_certain(fit->terms);
        if (worst == WINDOW_SUMS)
            return KVT_OK;
        fit->terms[worst].state = TERM_UNCERTAIN;
        bool is_any = false;
        for (int t = 0; t < WINDOW_SUMS; t++)
            is_any = is_any || fit->terms[t].state == TERM_FITTED;
        if (!is_any)
            return kvt_fail(err, KVT_ERR_UNSUPPORTED, "calibrate",
                            "no term of a step can be told from these %zu windows; longer runs or "
                            "several concurrencies are expected",
                            windows->count);
    }
}

/* ---- Errors ------------------------------------------------------------------------------------
 */

static double error_of(const struct window *window, const struct fit_term *terms)
{
    double ns = 0;

    for (int t = 0; t < WINDOW_SUMS; t++) {
        if (terms[t].state == TERM_FITTED)
            ns += terms[t].ns * window->sums[t];
    }
    return ns * 1e-9 / window->seconds - 1;
}

/* Every part is predicted by what was fitted to the others. */
static kvt_status leave_out(const struct windows *windows, struct fit *fit, double *errors,
                            struct kvt_error *err)
{
    size_t count = 0;

    for (size_t part = 0; part < fit->part_count; part++) {
        struct fit_term terms[WINDOW_SUMS];
        for (int t = 0; t < WINDOW_SUMS; t++)
            terms[t] = fit->terms[t];
        kvt_status status = fit_without(windows, fit, part, terms, NULL, err);
        if (status == KVT_ERR_UNSUPPORTED) { /* nothing would be left to fit to */
            fit->part_count = 0;
            break;
        }
        if (status != KVT_OK)
            return status;
        for (size_t i = 0; i < windows->count; i++) {
            if (part_of(windows, i, fit->part_count, fit->parts_are_runs) == part)
                errors[count++] = error_of(&windows->items[i], terms);
        }
    }
    robust_sum_up(errors, fit->part_count > 0 ? count : 0, &fit->left_out);
    return KVT_OK;
}

static kvt_status find_errors(const struct windows *windows, size_t outliers, struct fit *fit,
                              struct kvt_error *err)
{
    double *errors = calloc(windows->count, sizeof *errors);
    size_t runs = windows->items[windows->count - 1].run + 1;

    if (!errors)
        return kvt_fail_nomem(err, "errors of a fit");
    for (size_t i = 0; i < windows->count; i++)
        errors[i] = error_of(&windows->items[i], fit->terms);
    robust_sum_up(errors, windows->count, &fit->own);
    fit->outlier_share = (double)outliers / (double)windows->count;
    fit->parts_are_runs = runs > 1;
    fit->part_count = runs > 1 ? runs : PARTS_OF_A_RUN;
    kvt_status status = leave_out(windows, fit, errors, err);
    free(errors);
    return status;
}

kvt_status fit_windows(const struct windows *windows, struct fit *out, struct kvt_error *err)
{
    struct fit fit = {.condition = 1};
    size_t outliers = 0;

    if (windows->count < WINDOWS_MIN)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "calibrate",
                        "%zu windows to fit to; at least %d are expected: longer runs, several "
                        "concurrencies, or requests one by one (vLLM: --save-detailed, SGLang: "
                        "--output-details)",
                        windows->count, WINDOWS_MIN);
    compare_terms(windows, fit.terms);
    kvt_status status = find_condition(windows, &fit.condition, err);
    if (status == KVT_OK)
        status = fit_terms(windows, &fit, &outliers, err);
    if (status == KVT_OK)
        status = find_errors(windows, outliers, &fit, err);
    if (status == KVT_OK)
        *out = fit;
    return status;
}
