/* kvt/waves.h -- calls that share a rank's staging, in waves; on the GPU the same ones. */
#ifndef KVT_WAVES_H
#define KVT_WAVES_H

#include "kvt/base.h"

KVT_BEGIN_DECLS

/* One selector's calls of a step, one of each request, in the order of the batch; call i stages
 * staged_rows[i] rows of the selector's store (kvt_resolve_result.staged_rows), none more than
 * arena_rows: the whole rows that the arena's bytes hold (kvt_staging_arena_bytes() over the
 * requests of the step that have a hot cache). Rows lie end to end, nothing is aligned.
 *
 * Each call runs in the first wave whose arena has room for all of its rows beside those of the
 * calls before it; a call that stages none runs in the first. Waves run one after the other,
 * each with the whole arena. Writes wave_of[i], from 0 on, and *peak_rows, the most rows of any
 * wave; returns how many waves there are, 1 at least. */
uint32_t kvt_waves_make(const uint32_t *staged_rows, uint32_t call_count, uint64_t arena_rows,
                        uint32_t *wave_of, uint64_t *peak_rows);

KVT_END_DECLS
#endif
