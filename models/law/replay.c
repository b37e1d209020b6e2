/* replay.c -- a stream of selections read from a recording, round by round. */
#include "replay.h"

#include <assert.h>
#include <string.h>

/* The token of a stream's n-th read: round and round, or up and down the recording, the ends
 * once each. */
static uint32_t token_of(const struct replay *replay, uint32_t token_count, uint64_t read)
{
    if (replay->is_loop)
        return (uint32_t)((replay->first_token + read) % token_count);
    uint64_t last = token_count - 1 - replay->turn_token;
    if (last == 0)
        return replay->turn_token;
    uint64_t place = (replay->first_token - replay->turn_token + read) % (2 * last);
    return replay->turn_token + (uint32_t)(place <= last ? place : 2 * last - place);
}

void replay_select_all(uint64_t *set, uint32_t visible_rows, size_t words)
{
    size_t whole = visible_rows / 64;
    memset(set, 0xff, whole * sizeof *set);
    memset(set + whole, 0, (words - whole) * sizeof *set);
    if (visible_rows % 64 > 0)
        set[whole] = (UINT64_C(1) << visible_rows % 64) - 1;
}

uint32_t replay_deepest(const struct kvt_law_round *round)
{
    uint32_t deepest = 0;
    for (uint32_t q = 0; q < round->query_count; q++)
        deepest = round->queries[q].depth > deepest ? round->queries[q].depth : deepest;
    return deepest;
}

/* Depths of the round at which no more than top_k rows are visible: the first ones, and not on
 * the recording. */
static uint32_t unrecorded_depths(const struct kvt_law_round *round, uint32_t deepest,
                                  uint32_t top_k)
{
    uint32_t count = 0;
    while (count <= deepest && round->visible_rows[count] <= top_k)
        count++;
    return count;
}

/* A selection of the recording, and on which round of a loop it is read. */
struct reading {
    struct kvt_kvsel_place place;
    uint64_t lap;
};

/* Of a query that sees more than top_k rows; `unrecorded` as above. */
static struct reading reading_of(const struct replay *replay,
                                 const struct kvt_kvsel_stream *recording,
                                 const struct kvt_law_query *query, uint32_t unrecorded)
{
    const struct kvt_kvsel_shape *shape = &recording->shape;
    bool is_side = query->path != 0 && shape->side_paths > 0 && query->fork > unrecorded;
    uint32_t depth = is_side ? query->fork - 1 : query->depth;
    uint64_t read = replay->reads + depth - unrecorded;
    struct reading reading = {.place.token = token_of(replay, recording->token_count, read)};
    if (replay->is_loop)
        reading.lap = (replay->first_token + read) / recording->token_count;
    if (is_side) {
        assert(query->depth - query->fork < shape->side_tokens);
        reading.place.side_path = 1 + (query->path - 1) % shape->side_paths;
        reading.place.side_token = query->depth - query->fork;
    }
    return reading;
}

/* How rows lie on a later round of a loop: those that were old where reading began, but born
 * on the loop, are born again, behind all that were born so far. */
static struct kvt_kvsel_map map_of(const struct replay *replay,
                                   const struct kvt_kvsel_stream *recording, uint64_t lap)
{
    struct kvt_kvsel_map map = replay->map;
    if (lap > 0) {
        uint32_t tokens_per_row = recording->shape.tokens_per_row;
        map.reborn_rows = replay->first_token / tokens_per_row;
        map.skip_rows = (uint32_t)(lap * (recording->token_count / tokens_per_row));
    }
    return map;
}

static void answer(const struct replay *replay, const struct kvt_kvsel_stream *recording,
                   const struct kvt_law_round *round, uint32_t unrecorded, size_t words,
                   uint64_t *const *sets)
{
    struct kvt_kvsel_place places[REPLAY_BATCH];
    uint64_t *place_sets[REPLAY_BATCH];
    size_t count = 0;
    uint64_t lap = 0; /* of all places of a batch */
    for (uint32_t q = 0; q < round->query_count; q++) {
        const struct kvt_law_query *query = &round->queries[q];
        if (query->depth < unrecorded) {
            replay_select_all(sets[q], round->visible_rows[query->depth], words);
            continue;
        }
        struct reading reading = reading_of(replay, recording, query, unrecorded);
        if (count == REPLAY_BATCH || (count > 0 && reading.lap != lap)) {
            struct kvt_kvsel_map map = map_of(replay, recording, lap);
            kvt_kvsel_read(recording, places, count, &map, place_sets, words);
            count = 0;
        }
        lap = reading.lap;
        places[count] = reading.place;
        place_sets[count++] = sets[q];
    }
    if (count > 0) {
        struct kvt_kvsel_map map = map_of(replay, recording, lap);
        kvt_kvsel_read(recording, places, count, &map, place_sets, words);
    }
}

void replay_round(struct replay *replay, const struct kvt_kvsel_stream *recording, uint32_t top_k,
                  const struct kvt_law_round *round, uint64_t *const *sets)
{
    assert(round->query_count >= 1 && round->committed_tokens >= 1);
    uint32_t deepest = replay_deepest(round);
    uint32_t unrecorded = unrecorded_depths(round, deepest, top_k);
    assert(unrecorded > deepest || recording != NULL);
    if (sets != NULL)
        answer(replay, recording, round, unrecorded, kvt_row_words(round->visible_rows[deepest]),
               sets);
    /* Tokens behind the deepest query see as much as it does. */
    if (unrecorded <= deepest && round->committed_tokens > unrecorded)
        replay->reads += round->committed_tokens - unrecorded;
}
