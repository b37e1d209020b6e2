/* spare.c -- optional history levelled across cohorts, as `adaptive` levels it.
 *
 * A cohort that began later never has more pages than an older one: it began with none,
 * and both rules move everybody beyond a level to that level. So the lowest are the
 * newest, and one pass finds the level.
 *
 *     fill:     from the newest on, raise all that are lowest to the next one's level
 *     release:  from the oldest on, cut all that are highest to the next one's level */
#include "march.h"

double spare_fill(struct cohort *cohorts, uint32_t from, uint32_t to, const double *eligible_pages,
                  double pages)
{
    double left = pages, requests = 0, level = 0;
    uint32_t next = to;

    if (from == to || pages <= 0)
        return 0;
    level = cohorts[to - 1].pages;
    while (next > from && cohorts[next - 1].pages <= level)
        requests += cohorts[--next].alive;
    while (left > 0) {
        double top = next > from ? cohorts[next - 1].pages : eligible_pages[from];
        double want = requests * (top - level);
        if (want >= left && requests > 0) {
            level += left / requests;
            left = 0;
        } else {
            left -= want > 0 ? want : 0;
            level = top > level ? top : level;
            if (next == from)
                break;
            requests += cohorts[--next].alive;
        }
    }
    double taken = 0;
    for (uint32_t j = next; j < to; j++) {
        double reach = level < eligible_pages[j] ? level : eligible_pages[j];
        if (reach > cohorts[j].pages) {
            taken += cohorts[j].alive * (reach - cohorts[j].pages);
            cohorts[j].pages = reach;
        }
    }
    return taken;
}

double spare_release(struct cohort *cohorts, uint32_t from, uint32_t to, double pages)
{
    double left = pages, requests = 0, level = 0, given = 0;
    uint32_t next = from;

    if (from == to || pages <= 0)
        return 0;
    level = cohorts[from].pages;
    while (left > 0) {
        while (next < to && cohorts[next].pages >= level)
            requests += cohorts[next++].alive;
        double bottom = next < to ? cohorts[next].pages : 0;
        double want = requests * (level - bottom);
        if (want >= left && requests > 0) {
            level -= left / requests;
            left = 0;
        } else {
            left -= want;
            level = bottom;
            if (next == to)
                break;
        }
    }
    for (uint32_t j = from; j < next; j++) {
        if (cohorts[j].pages > level) {
            given += cohorts[j].alive * (cohorts[j].pages - level);
            cohorts[j].pages = level;
        }
    }
    return given;
}
