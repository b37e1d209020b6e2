/* recorder_track.c -- a stream's rounds, token by token into blocks.
 *
 *     for each token that a round commits:
 *         put its own selection
 *         for each branch after it, for each place on the branch:
 *             put what the round's query there selected: path p that parts behind this token is
 *             branch p
 *             where there is no such query, put what is before it on the branch, which takes no
 *             row; while fewer than top_k rows are visible, all of them
 *
 * A reader that asks as the run did never meets what was filled in. */
#include <assert.h>
#include <stdlib.h>

#include "recorder_private.h"

static const char where[] = "recording";

void kvsel_track_free(struct kvsel_track *track)
{
    if (track == NULL)
        return;
    kvt_kvsel_coder_free(track->coder);
    for (size_t b = 0; b < track->done_count; b++)
        free(track->done[b]);
    free(track->done);
    free(track->fill[0]);
    free(track->fill[1]);
    free(track);
}

/* ---- Selections that nobody asked for ----------------------------------------------------- */

/* Sets to fill in have at least so many words. */
static void reserve_fill(struct kvsel_track *track, size_t words)
{
    if (words <= track->fill_words || track->status != KVT_OK)
        return;
    for (int i = 0; i < 2; i++) {
        uint64_t *fill = realloc(track->fill[i], words * sizeof *fill);
        if (fill == NULL) {
            track->status = kvt_fail_nomem(&track->error, where);
            return;
        }
        track->fill[i] = fill;
    }
    track->fill_words = words;
}

static const uint64_t *fill_rows(struct kvsel_track *track, int which, uint64_t rows)
{
    uint64_t *set = track->fill[which];
    for (size_t w = 0; w < track->fill_words; w++) {
        uint64_t first = w * UINT64_C(64);
        set[w] = rows >= first + 64 ? UINT64_MAX
                 : rows > first     ? (UINT64_C(1) << (rows - first)) - 1
                                    : 0;
    }
    return set;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- Blocks -------------------------------------------------------------------------------- */

static void add(struct kvsel_track *track, const uint64_t *set, const uint64_t *from, size_t words)
{
    if (track->status == KVT_OK)
        track->status = kvt_kvsel_coder_add(track->coder, set, from, words, &track->error);
}

static void finish_block(struct kvsel_track *track)
{
    if (track->status == KVT_OK && track->done_count == track->done_capacity) {
        size_t capacity = 2 * track->done_capacity + 2;
        unsigned char **done = realloc(track->done, capacity * sizeof(unsigned char *));
        if (done == NULL) {
            track->status = kvt_fail_nomem(&track->error, where);
            return;
        }
        track->done = done;
        track->done_capacity = capacity;
    }
    if (track->status == KVT_OK)
        track->status =
            kvt_kvsel_coder_finish(track->coder, &track->done[track->done_count], &track->error);
    if (track->status == KVT_OK)
        track->done_count++;
    track->block_tokens = 0;
}

static void begin_token(struct kvsel_track *track)
{
    if (track->status != KVT_OK || track->block_tokens > 0)
        return;
    if (track->token_count > KVT_KVSEL_ROWS_MAX - KVT_KVSEL_BLOCK_TOKENS)
        track->status = kvt_fail(&track->error, KVT_ERR_UNSUPPORTED, where,
                                 "a stream of more than %u tokens; a shorter one is expected",
                                 KVT_KVSEL_ROWS_MAX - KVT_KVSEL_BLOCK_TOKENS);
    else
        track->status = kvt_kvsel_coder_begin(track->coder, track->number, track->token_count,
                                              KVT_KVSEL_BLOCK_TOKENS, &track->error);
}

static void end_token(struct kvsel_track *track)
{
    if (track->status != KVT_OK)
        return;
    track->rows += least(track->shape.top_k, kvt_kvsel_visible(&track->shape, track->token_count));
    track->tokens++;
    track->token_count++;
    if (++track->block_tokens == KVT_KVSEL_BLOCK_TOKENS)
        finish_block(track);
}

void kvsel_track_end(struct kvsel_track *track)
{
    if (track->status == KVT_OK && track->block_tokens > 0)
        finish_block(track);
}

/* ---- Rounds -------------------------------------------------------------------------------- */

/* What a round's queries selected. */
struct answers {
    const struct kvt_law_round *round;
    uint64_t *const *sets;
    size_t words; /* of each */
};

static const uint64_t *find_set(const struct answers *answers, uint32_t path, uint32_t fork,
                                uint32_t depth)
{
    for (uint32_t q = 0; q < answers->round->query_count; q++) {
        const struct kvt_law_query *query = &answers->round->queries[q];
        if (query->path == path && query->fork == fork && query->depth == depth)
            return answers->sets[q];
    }
    return NULL;
}

/* Branch `path` after the token at this depth, whose own selection is `before`. */
static void add_branch(struct kvsel_track *track, const struct answers *answers, uint32_t depth,
                       uint32_t path, const uint64_t *before)
{
    const struct kvt_kvsel_shape *shape = &track->shape;
    uint64_t visible = kvt_kvsel_visible(shape, track->token_count);
    for (uint32_t i = 0; i < shape->side_tokens && track->status == KVT_OK; i++) {
        uint64_t seen = kvt_kvsel_visible(shape, track->token_count + 1 + i);
        const uint64_t *set = find_set(answers, path, depth + 1, depth + 1 + i);
        size_t words = answers->words;
        if (visible < shape->top_k)
            before = fill_rows(track, 0, visible);
        if (set == NULL && visible >= shape->top_k) {
            set = before;
            words = 0;
        } else if (set == NULL) {
            set = fill_rows(track, 1, least(shape->top_k, seen));
            words = track->fill_words;
        }
        add(track, set, before, words);
        before = set;
        visible = seen;
    }
}

/* The token at this depth. NULL: nobody asked for it. */
static void record_token(struct kvsel_track *track, const struct answers *answers, uint32_t depth)
{
    const struct kvt_kvsel_shape *shape = &track->shape;
    const uint64_t *own = find_set(answers, 0, 0, depth);
    size_t words = answers->words;
    begin_token(track);
    if (track->status != KVT_OK)
        return;
    if (own == NULL) {
        own =
            fill_rows(track, 0, least(shape->top_k, kvt_kvsel_visible(shape, track->token_count)));
        words = track->fill_words;
    }
    add(track, own, NULL, words);
    for (uint32_t path = 1; path <= shape->side_paths; path++)
        add_branch(track, answers, depth, path, own);
    end_token(track);
}

static void record(struct kvsel_track *track, const struct answers *answers)
{
    size_t filled = kvt_row_words(track->shape.top_k);
    reserve_fill(track, filled > answers->words ? filled : answers->words);
    for (uint32_t d = 0; d < answers->round->committed_tokens && track->status == KVT_OK; d++)
        record_token(track, answers, d);
}

static uint32_t deepest_of(const struct kvt_law_round *round)
{
    uint32_t deepest = 0;
    for (uint32_t q = 0; q < round->query_count; q++)
        deepest = round->queries[q].depth > deepest ? round->queries[q].depth : deepest;
    return deepest;
}

/* A round that nobody looks at. Its sets are ours. */
static void select_unseen(struct kvsel_track *track, const struct kvsel_asked *asked,
                          const struct kvt_law_round *round)
{
    uint32_t deepest = deepest_of(round);
    size_t words = kvt_row_words(round->visible_rows[deepest]);
    uint64_t *block = malloc(round->query_count * words * sizeof *block);
    uint64_t **sets = malloc(round->query_count * sizeof(uint64_t *));
    if (block == NULL || sets == NULL) {
        track->status = kvt_fail_nomem(&track->error, where);
        asked->law->select(asked->data, asked->stream, round, NULL);
    } else {
        for (uint32_t q = 0; q < round->query_count; q++)
            sets[q] = block + q * words;
        asked->law->select(asked->data, asked->stream, round, sets);
        const struct answers answers = {.round = round, .sets = sets, .words = words};
        record(track, &answers);
    }
    free(sets);
    free(block);
}

/* Tokens that are passed over have no query but the last. They are asked for one by one: where a
 * round ends changes nothing for what is committed. */
static void pass_unseen(struct kvsel_track *track, const struct kvsel_asked *asked,
                        const struct kvt_law_round *round)
{
    static const struct kvt_law_query anchor = {.path = 0};
    uint32_t deepest = deepest_of(round);
    for (uint32_t d = 0; d < round->committed_tokens; d++) {
        const struct kvt_law_round one = {.queries = &anchor,
                                          .query_count = 1,
                                          .committed_tokens = 1,
                                          .visible_rows =
                                              &round->visible_rows[d < deepest ? d : deepest]};
        if (track->status == KVT_OK)
            select_unseen(track, asked, &one);
        else
            asked->law->select(asked->data, asked->stream, &one, NULL);
    }
}

static bool has_drafts(const struct kvt_law_round *round)
{
    for (uint32_t q = 0; q < round->query_count; q++) {
        if (round->queries[q].path != 0)
            return true;
    }
    return false;
}

void kvsel_track_select(struct kvsel_track *track, const struct kvsel_asked *asked,
                        const struct kvt_law_round *round, uint64_t *const *sets)
{
    if (track->status != KVT_OK) {
        asked->law->select(asked->data, asked->stream, round, sets);
    } else if (sets != NULL) {
        asked->law->select(asked->data, asked->stream, round, sets);
        const struct answers answers = {.round = round,
                                        .sets = sets,
                                        .words =
                                            kvt_row_words(round->visible_rows[deepest_of(round)])};
        record(track, &answers);
    } else if (has_drafts(round)) {
        select_unseen(track, asked, round);
    } else {
        pass_unseen(track, asked, round);
    }
}

struct kvsel_track *kvsel_track_new(const struct kvt_kvsel_shape *shape, uint32_t number,
                                    uint32_t lead, struct kvt_error *err)
{
    static const struct kvt_law_round nothing = {.query_count = 0, .committed_tokens = 1};
    if (kvsel_check_shape(shape, where, err) != KVT_OK)
        return NULL;
    struct kvsel_track *track = calloc(1, sizeof *track);
    if (track != NULL) {
        track->shape = *shape;
        track->number = number;
        track->coder = kvt_kvsel_coder_new(shape);
    }
    if (track == NULL || track->coder == NULL) {
        (void)kvt_fail_nomem(err, where);
        kvsel_track_free(track);
        return NULL;
    }
    assert(lead < shape->tokens_per_row);
    for (uint32_t t = 0; t < lead; t++) {
        const struct answers answers = {.round = &nothing};
        record(track, &answers);
    }
    return track;
}
