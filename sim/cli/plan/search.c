/* search.c -- the last candidate that meets, by bracket, guess and bisection.
 *
 *     nothing tried:            the first one
 *     a guess inside (low, high): that one
 *     it says low itself:       low + 1, then 2, 4, .. beyond, as long as those meet
 *     it says high or more:     high - 1, then 2, 4, .. below, as long as those fail
 *     two trials that did not halve the bracket: its middle
 *
 * With a good guess that is two trials, the answer and its neighbour; with none at all twice what
 * bisection takes. */
#include "search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void search_begin(struct search *search, long count, long first)
{
    *search = (struct search){.count = count, .low = -1, .high = count, .width = count + 1};
    search->first = first < 0 ? 0 : first >= count ? count - 1 : first;
}

static long doubled(unsigned times)
{
    return 1L << (times < 30 ? times : 30);
}

bool search_next(const struct search *search, long guess, long *out)
{
    long low = search->low, high = search->high;

    if (high - low <= 1)
        return false;
    if (search->tries == 0) {
        *out = search->first;
        return true;
    }
    if (search->stale >= 2) {
        *out = low + (high - low) / 2;
        return true;
    }
    if (guess <= low) /* as far as anybody knows nothing above low meets */
        *out = low + (search->low_meets ? doubled(search->rises > 0 ? search->rises - 1 : 0) : 1);
    else if (guess >= high)
        *out = high - doubled(search->falls > 0 ? search->falls - 1 : 0);
    else
        *out = guess;
    if (*out >= high)
        *out = high - 1;
    if (*out <= low)
        *out = low + 1;
    return true;
}

void search_tell(struct search *search, long candidate, enum search_verdict verdict)
{
    if (verdict == SEARCH_TOO_LOW && search->low_meets)
        verdict = SEARCH_TOO_HIGH; /* one below it meets: it is no longer a matter of order */
    search->tries++;
    if (verdict == SEARCH_TOO_HIGH) {
        search->high = candidate < search->high ? candidate : search->high;
        search->falls++;
        search->rises = 0;
    } else {
        search->low_meets = search->low_meets || verdict == SEARCH_MEETS;
        search->low = candidate > search->low ? candidate : search->low;
        search->rises++;
        search->falls = 0;
    }
    long width = search->high - search->low;
    if (2 * width <= search->width) {
        search->width = width;
        search->stale = 0;
    } else if (search->tries > 1) {
        search->stale++;
    }
}

void search_restart(struct search *search, long low, long high)
{
    search->low = low;
    search->low_meets = true;
    search->high = high;
    search->width = high - low;
    search->stale = 0;
}

/* ---- The curve ---------------------------------------------------------------------------------
 */

void curve_free(struct curve *curve)
{
    free(curve->points);
    curve->points = NULL;
    curve->point_count = curve->room = 0;
}

/* Where the candidate is, or would stand. */
static size_t place_of(const struct curve *curve, long candidate)
{
    size_t from = 0, to = curve->point_count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (curve->points[middle].candidate < candidate)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

const double *curve_known(const struct curve *curve, long candidate)
{
    size_t place = place_of(curve, candidate);

    return place < curve->point_count && curve->points[place].candidate == candidate
               ? curve->points[place].figures
               : NULL;
}

kvt_status curve_at(struct curve *curve, long candidate, const double **figures,
                    struct kvt_error *err)
{
    size_t place = place_of(curve, candidate);

    *figures = curve_known(curve, candidate);
    if (*figures != NULL)
        return KVT_OK;
    struct curve_point point = {.candidate = candidate};
    kvt_status status = curve->at(curve->context, candidate, point.figures, err);
    if (status != KVT_OK)
        return status;
    if (curve->point_count == curve->room) {
        size_t room = curve->room > 0 ? 2 * curve->room : 64;
        struct curve_point *points = realloc(curve->points, room * sizeof *points);
        if (points == NULL)
            return kvt_fail_nomem(err, "a curve");
        curve->points = points;
        curve->room = room;
    }
    memmove(curve->points + place + 1, curve->points + place,
            (curve->point_count - place) * sizeof *curve->points);
    curve->points[place] = point;
    curve->point_count++;
    *figures = curve->points[place].figures;
    return KVT_OK;
}

long curve_spread(long count, const double *values, double share)
{
    double first = values[0], last = values[count - 1];
    double small = fmin(first, last), large = fmax(first, last);
    bool by_ratio = small > 0 && large >= 4 * small;
    double wanted = by_ratio ? first * pow(last / first, share) : first + (last - first) * share;
    long from = 0, to = count - 1;

    while (to - from > 1) {
        long middle = from + (to - from) / 2;
        bool before = last >= first ? values[middle] <= wanted : values[middle] >= wanted;
        if (before)
            from = middle;
        else
            to = middle;
    }
    return fabs(values[from] - wanted) <= fabs(values[to] - wanted) ? from : to;
}

static kvt_status look_at(struct curve *curve, long count, const double *values, long looks,
                          struct kvt_error *err)
{
    kvt_status status = KVT_OK;
    const double *figures = NULL;

    for (long i = 0; status == KVT_OK && i < looks; i++) {
        long candidate =
            looks >= count ? i : curve_spread(count, values, (double)i / (double)(looks - 1));
        if (candidate < count)
            status = curve_at(curve, candidate, &figures, err);
    }
    return status;
}

/* Never turns round by more than a thousandth of what it spans. Unknown ones say nothing. */
static bool is_monotone(const struct curve *curve, size_t figure)
{
    double least = INFINITY, most = -INFINITY, up = 0, down = 0, highest = -INFINITY,
           lowest = INFINITY;

    for (size_t i = 0; i < curve->point_count; i++) {
        double value = curve->points[i].figures[figure];
        if (!isfinite(value))
            continue;
        least = fmin(least, value);
        most = fmax(most, value);
        highest = fmax(highest, value);
        lowest = fmin(lowest, value);
        down = fmax(down, highest - value); /* as far as it has come down from the highest */
        up = fmax(up, value - lowest);
    }
    return !(most > least) || fmin(up, down) <= 1e-3 * (most - least);
}

bool curve_is_monotone(const struct curve *curve)
{
    for (size_t f = 0; f < curve->figure_count; f++) {
        if (!curve->is_monotone[f])
            return false;
    }
    return true;
}

void curve_check(struct curve *curve)
{
    for (size_t f = 0; f < curve->figure_count; f++)
        curve->is_monotone[f] = is_monotone(curve, f);
}

kvt_status curve_look(struct curve *curve, long count, const double *values, struct kvt_error *err)
{
    kvt_status status = look_at(curve, count, values, CURVE_GRID < count ? CURVE_GRID : count, err);

    if (status != KVT_OK)
        return status;
    curve_check(curve);
    if (curve_is_monotone(curve))
        return KVT_OK;
    curve->is_scanned = true;
    return look_at(curve, count, values, CURVE_SCAN < count ? CURVE_SCAN : count, err);
}

static kvt_status margin_of(struct curve *curve, long candidate, curve_margin margin, void *context,
                            double *out, struct kvt_error *err)
{
    const double *figures = NULL;
    kvt_status status = curve_at(curve, candidate, &figures, err);

    if (status == KVT_OK)
        *out = margin(context, candidate, figures);
    return status;
}

/* `meets` does, `fails` does not. */
static kvt_status bisect(struct curve *curve, long meets, long fails, curve_margin margin,
                         void *context, long *out, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    while (status == KVT_OK && fails - meets > 1) {
        long middle = meets + (fails - meets) / 2;
        double found = NAN;
        status = margin_of(curve, middle, margin, context, &found, err);
        if (found >= 0)
            meets = middle;
        else
            fails = middle;
    }
    *out = meets;
    return status;
}

/* None of those looked at meets. Where one figure falls short below and another above, the least of
 * both margins has one peak, which may lie between two of them: it is closed in on by thirds. */
static kvt_status find_peak(struct curve *curve, long low, long high, curve_margin margin,
                            void *context, long *out, struct kvt_error *err)
{
    size_t best = curve->point_count;
    double most = -INFINITY;
    kvt_status status = KVT_OK;

    for (size_t i = place_of(curve, low + 1); i < place_of(curve, high); i++) {
        double found = margin(context, curve->points[i].candidate, curve->points[i].figures);
        if (found > most) {
            most = found;
            best = i;
        }
    }
    if (best < curve->point_count) {
        long at = curve->points[best].candidate;
        if (best > 0 && curve->points[best - 1].candidate > low)
            low = curve->points[best - 1].candidate;
        if (best + 1 < curve->point_count && curve->points[best + 1].candidate < high)
            high = curve->points[best + 1].candidate;
        if (at <= low || at >= high)
            return KVT_OK;
    }
    while (status == KVT_OK && high - low > 1) {
        long third = (high - low) / 3 > 0 ? (high - low) / 3 : 1;
        long left = low + third, right = high - third > left ? high - third : left;
        double of_left = NAN, of_right = NAN;
        status = margin_of(curve, left, margin, context, &of_left, err);
        if (status == KVT_OK)
            status = margin_of(curve, right, margin, context, &of_right, err);
        if (of_left >= 0 || of_right >= 0) {
            *out = of_right >= 0 ? right : left;
            return status;
        }
        if (of_right > of_left || (isnan(of_left) && !isnan(of_right)))
            low = left;
        else
            high = right > left ? right : left;
    }
    return status;
}

kvt_status curve_last(struct curve *curve, long low, long high, curve_margin margin, void *context,
                      long *out, struct kvt_error *err)
{
    long fails = high;

    for (size_t i = place_of(curve, high); i-- > 0 && curve->points[i].candidate > low;) {
        long candidate = curve->points[i].candidate;
        if (margin(context, candidate, curve->points[i].figures) >= 0)
            return bisect(curve, candidate, fails, margin, context, out, err);
        fails = candidate;
    }
    *out = -1;
    long peak = -1;
    kvt_status status = find_peak(curve, low, high, margin, context, &peak, err);
    return status == KVT_OK && peak >= 0 ? bisect(curve, peak, high, margin, context, out, err)
                                         : status;
}

long curve_best(const struct curve *curve, curve_margin margin, void *context)
{
    long best = -1;
    double most = -INFINITY;

    for (size_t i = 0; i < curve->point_count; i++) {
        double found = margin(context, curve->points[i].candidate, curve->points[i].figures);
        if (found > most) {
            most = found;
            best = curve->points[i].candidate;
        }
    }
    return best;
}
