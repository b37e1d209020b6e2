/* waves.c -- calls that share a rank's staging, in waves.
 *
 *     until every call is in a wave
 *         a wave begins: all of the arena is free
 *         for each call that is in none, in the order of the batch
 *             its rows fit what is free: it joins the wave, and takes them
 *
 * First fit: D. S. Johnson et al., "Worst-Case Performance Bounds for Simple One-Dimensional
 * Packing Algorithms", SIAM J. Comput. 3(4), 1974. It makes at most 1.7 times as many waves as
 * any order could, and all but one are more than half full. */
#include "kvt/waves.h"

#include <assert.h>

uint32_t kvt_waves_make(const uint32_t *staged_rows, uint32_t call_count, uint64_t arena_rows,
                        uint32_t *wave_of, uint64_t *peak_rows)
{
    uint32_t waves = 0, left = call_count;

    for (uint32_t i = 0; i < call_count; i++)
        wave_of[i] = UINT32_MAX;
    *peak_rows = 0;
    while (left > 0) {
        uint64_t used_rows = 0;
        for (uint32_t i = 0; i < call_count; i++) {
            assert(staged_rows[i] <= arena_rows);
            if (wave_of[i] != UINT32_MAX || staged_rows[i] > arena_rows - used_rows)
                continue;
            wave_of[i] = waves;
            used_rows += staged_rows[i];
            left--;
        }
        *peak_rows = used_rows > *peak_rows ? used_rows : *peak_rows;
        waves++;
    }
    return waves > 0 ? waves : 1;
}
