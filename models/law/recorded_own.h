/* recorded_own.h -- each request reads the recording that was made of it. */
#ifndef KVT_RECORDED_OWN_H
#define KVT_RECORDED_OWN_H

#include "kvt/kvsel.h"
#include "kvt/law.h"

/* Which recording is whose, by the file's note; and who has read past its end. */
struct own;

/* Where a stream stands. Plain bytes. */
struct own_stream {
    uint32_t recording, selector;
    uint64_t token; /* the next one's */
    bool looks_ahead;
};

/* The file and its path are borrowed for as long. Refused: a file that does not say whose its
 * recordings are, and selectors that are not this model's. */
KVT_CHECKED kvt_status own_new(const struct kvt_kvsel *file, const char *path,
                               const struct kvt_law_env *env, struct own **out,
                               struct kvt_error *err);
void own_free(struct own *own); /* takes NULL */

/* The n-th stream of a request, selector and context reads the n-th recording of them, or the last
 * where there are fewer; one that looks ahead, what the newest other one reads. Refused where
 * there is none. */
KVT_CHECKED kvt_status own_attach(struct own *own, const struct kvt_law_stream_env *env,
                                  struct own_stream *out, struct kvt_error *err);

/* Answers a round and moves the stream on. Behind the recorded tokens nothing is known: a stream
 * that looks ahead selects no row there, and any other makes own_end_step() fail. sets may be
 * NULL. */
void own_round(const struct own *own, struct own_stream *stream, const struct kvt_law_round *round,
               uint64_t *const *sets);

KVT_CHECKED kvt_status own_end_step(const struct own *own, struct kvt_error *err);

#endif
