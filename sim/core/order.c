/* order.c -- 64-bit words into ascending order.
 *
 *     until one run is left: merge each ascending run with the one behind it
 *
 * The natural merge sort of D. E. Knuth, "The Art of Computer Programming" 3, 5.2.4,
 * Algorithm N, with runs taken from one end. */
#include "kvt/order.h"

#include <string.h>

/* Where the ascending run that begins at `at` ends. */
static size_t run_end(const uint64_t *words, size_t at, size_t count)
{
    if (at < count)
        at++;
    while (at < count && words[at - 1] <= words[at])
        at++;
    return at;
}

/* Returns how many runs are left, at most. */
static size_t merge_runs(const uint64_t *from, size_t count, uint64_t *to)
{
    size_t runs = 0;

    for (size_t at = 0; at < count; runs++) {
        size_t first = at, first_end = run_end(from, first, count);
        size_t second = first_end, second_end = run_end(from, second, count);
        for (; at < second_end; at++) {
            bool is_first =
                first < first_end && (second == second_end || from[first] <= from[second]);
            to[at] = is_first ? from[first++] : from[second++];
        }
    }
    return runs;
}

void kvt_order64(uint64_t *words, size_t count, uint64_t *scratch)
{
    uint64_t *from = words, *to = scratch;
    size_t runs = run_end(words, 0, count) < count ? 2 : 1;

    while (runs > 1) {
        uint64_t *merged = to;
        runs = merge_runs(from, count, merged);
        to = from;
        from = merged;
    }
    if (from != words)
        memcpy(words, from, count * sizeof *words);
}
