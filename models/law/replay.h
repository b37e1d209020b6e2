/* replay.h -- a stream of selections read from a recording, round by round. */
#ifndef KVT_REPLAY_H
#define KVT_REPLAY_H

#include "kvt/kvsel.h"
#include "kvt/law.h"

enum {
    REPLAY_BATCH = 32 /* places read at once */
};

/* The deepest query of a round. */
uint32_t replay_deepest(const struct kvt_law_round *round);
/* A set of all rows below visible_rows, that has `words`. */
void replay_select_all(uint64_t *set, uint32_t visible_rows, size_t words);

/* Where a stream stands on its recording. It begins at first_token, when more than top_k of
 * its rows are first visible. A loop it goes round: after the last token comes token 0, and
 * rows born on the last round are followed by those that are born on this one. Any other
 * recording it reads to the end, backwards to turn_token, and again. Plain bytes: a copy goes
 * on as the original does. */
struct replay {
    uint64_t reads; /* tokens that it has moved on by since then */
    bool is_loop;   /* first_token is a multiple of the recording's tokens_per_row */
    uint32_t first_token, turn_token;
    struct kvt_kvsel_map map;
};

/* Answers a round and moves the stream on. A rejected path reads the branch after the token
 * before its fork, whichever way the recording is read: what forks from a state knows no
 * direction. On a loop that is always forwards. A path that forks before the stream's first
 * recorded selection, and all of them where the recording has no branches, read what path 0 would.
 * recording is NULL for a stream that never sees more than top_k rows; sets may be NULL. */
void replay_round(struct replay *replay, const struct kvt_kvsel_stream *recording, uint32_t top_k,
                  const struct kvt_law_round *round, uint64_t *const *sets);

#endif
