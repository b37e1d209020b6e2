/* recorder_private.h -- one stream of selections on its way into blocks of 64 tokens. */
#ifndef KVT_CORE_RECORDER_PRIVATE_H
#define KVT_CORE_RECORDER_PRIVATE_H

#include "kvsel_private.h"
#include "kvt/recorder.h"

/* Touched by whoever asks the stream, one at a time. */
struct kvsel_track {
    struct kvt_kvsel_shape shape;
    uint32_t number;      /* of the stream in the file */
    uint32_t token_count; /* recorded */
    struct kvt_kvsel_coder *coder;
    uint32_t block_tokens; /* of the block that is begun; 0: none is */
    uint64_t tokens, rows; /* since somebody last looked; rows of their own selections */
    unsigned char **done;  /* [done_count] finished blocks, to be taken and free()d */
    size_t done_count, done_capacity;
    uint64_t *fill[2]; /* [fill_words] rows [0, n): selections that nobody asked for */
    size_t fill_words;
    kvt_status status; /* nothing more is recorded once it is not KVT_OK */
    struct kvt_error error;
};

/* What answers a stream. */
struct kvsel_asked {
    const struct kvt_law *law;
    const void *data;
    void *stream;
};

/* lead: tokens before the first that is asked for, so that a row is born after a whole number of
 * tokens_per_row of them. NULL with *err filled on failure. */
struct kvsel_track *kvsel_track_new(const struct kvt_kvsel_shape *shape, uint32_t number,
                                    uint32_t lead, struct kvt_error *err);
void kvsel_track_free(struct kvsel_track *track); /* takes NULL */

/* Answers a round, and records what was answered: also where sets is NULL, and nobody looks. */
void kvsel_track_select(struct kvsel_track *track, const struct kvsel_asked *asked,
                        const struct kvt_law_round *round, uint64_t *const *sets);

/* The block that is begun ends here. */
void kvsel_track_end(struct kvsel_track *track);

#endif
