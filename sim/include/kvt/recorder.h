/* kvt/recorder.h -- what a law selects in a run, recorded into a .kvsel file.
 *
 * A law around another one: it answers what the other answers, and keeps it. Each opening of a
 * request's streams is a recording of its own, in the order in which they are opened. */
#ifndef KVT_RECORDER_H
#define KVT_RECORDER_H

#include "kvt/law.h"

KVT_BEGIN_DECLS

struct kvt_recorder;

/* Of streams of `law`, whose table is borrowed; the file appears at `path` when it is committed.
 * Until then what is recorded lies in a file without a name of its own beside it, but for the block
 * of 64 tokens that each open stream is in. */
KVT_CHECKED kvt_status kvt_recorder_new(const struct kvt_law *law, const char *path,
                                        struct kvt_recorder **out, struct kvt_error *err);
void kvt_recorder_free(struct kvt_recorder *recorder); /* takes NULL; behind whoever uses its law */

/* The table to select by instead, with kvt_law_env.context the recorder; prepared once. Borrowed.
 * Streams that look ahead are not recorded. */
const struct kvt_law *kvt_recorder_law(const struct kvt_recorder *recorder);

/* A recording: a request's streams, from the round behind context_tokens on. */
struct kvt_recording {
    uint32_t request, context_tokens;
};

struct kvt_recorder_totals {
    const struct kvt_recording *recordings; /* [recording_count] borrowed */
    uint32_t recording_count, selector_count;
    const uint32_t *stores; /* [selector_count] that each selector reads; borrowed */
    uint64_t tokens, rows;  /* of all streams: tokens, and rows of their own selections */
};
/* So far. */
void kvt_recorder_totals(const struct kvt_recorder *recorder, struct kvt_recorder_totals *out);

/* Ends every stream and writes the file, with a note (JSON; NULL: none). Refuses a recorder that
 * has recorded nothing. Once; nobody selects any more. */
KVT_CHECKED kvt_status kvt_recorder_commit(struct kvt_recorder *recorder, const char *note,
                                           uint64_t note_bytes, struct kvt_error *err);

KVT_END_DECLS
#endif
