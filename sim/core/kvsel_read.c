/* kvsel_read.c -- recorded selections into the sets of whoever reads, in its own rows.
 *
 *     for each segment of the recorded rows:
 *         for each place: toggle the token's own list, or go on along its branch, in a
 *             scratch set of the segment; copy the scratch, piece by piece, to where its
 *             rows lie in the reader's history
 *
 * Turned by whole pages, a history is copied by whole words. */
#include <assert.h>

#include "kvsel_private.h"

/* Rows [from, to) of a recording lie `offset` further in the reader's history. */
struct piece {
    uint64_t from, to;
    int64_t offset;
};

enum {
    PIECES = 4,
    CACHE_LINE_BYTES = 64,
};

static void pieces_of(const struct kvt_kvsel_map *map, struct piece pieces[PIECES])
{
    assert(map->reborn_rows <= map->old_rows);
    uint32_t old = map->old_rows - map->reborn_rows;
    int64_t beside = (int64_t)map->stream_rows - map->old_rows;
    pieces[3] = (struct piece){old, UINT64_MAX, beside + map->skip_rows};
    if (map->is_shifted) {
        uint32_t front = map->front_rows < old ? map->front_rows : old;
        pieces[0] = (struct piece){0, front, 0};
        pieces[1] = (struct piece){front, old, beside};
        pieces[2] = (struct piece){0, 0, 0};
        return;
    }
    uint32_t whole = map->stream_rows - map->stream_rows % 64;
    uint32_t turned = old < whole ? old : whole;
    uint32_t split = whole - map->shift_rows < turned ? whole - map->shift_rows : turned;
    pieces[0] = (struct piece){0, split, map->shift_rows};
    pieces[1] = (struct piece){split, turned, (int64_t)map->shift_rows - whole};
    pieces[2] = (struct piece){turned, old, 0};
}

/* Adds up to 64 bits of one word of `from` to `to`. Nothing is written behind the last of them
 * that is set. */
static void add_word(uint64_t *to, uint64_t to_bit, const uint64_t *from, uint64_t from_bit,
                     uint64_t count)
{
    uint64_t bits = from[from_bit / 64] >> from_bit % 64;
    if (count < 64)
        bits &= (UINT64_C(1) << count) - 1;
    if (bits == 0)
        return;
    to[to_bit / 64] |= bits << to_bit % 64;
    uint64_t over = to_bit % 64 > 0 ? bits >> (64 - to_bit % 64) : 0;
    if (over != 0)
        to[to_bit / 64 + 1] |= over;
}

/* Adds `count` bits of `from`, from a bit on, to `to` at another. */
static void add_bits(uint64_t *to, uint64_t to_bit, const uint64_t *from, uint64_t from_bit,
                     uint64_t count)
{
    bool is_aligned = to_bit % 64 == from_bit % 64;
    while (count > 0) {
        uint64_t here = 64 - from_bit % 64 < count ? 64 - from_bit % 64 : count;
        if (is_aligned && here == 64) {
            here = count / 64 * 64;
            memcpy(to + to_bit / 64, from + from_bit / 64, here / 64 * sizeof *to);
        } else {
            add_word(to, to_bit, from, from_bit, here);
        }
        to_bit += here;
        from_bit += here;
        count -= here;
    }
}

/* Copies a segment, rows [first, first + rows), to where it belongs. */
static void emit(const uint64_t *scratch, uint64_t first, uint64_t rows,
                 const struct piece pieces[PIECES], uint64_t *set)
{
    for (int p = 0; p < PIECES; p++) {
        uint64_t from = pieces[p].from > first ? pieces[p].from : first;
        uint64_t to = pieces[p].to < first + rows ? pieces[p].to : first + rows;
        if (from < to)
            add_bits(set, (uint64_t)((int64_t)from + pieces[p].offset), scratch, from - first,
                     to - from);
    }
}

/* One segment of the selections last read: a token's own, and one along a branch. */
struct scratch {
    const struct kvt_kvsel_stream *stream;
    enum kvt_cpu cpu;
    bool is_only; /* no block of the places has another segment: theirs need not be looked at */
    uint32_t segment;
    size_t words;       /* of the segment that hold anything */
    uint64_t token;     /* whose own selection is there; UINT64_MAX: none */
    uint32_t side_path; /* 0: no branch is there; else of `token` */
    uint32_t side_token;
    _Alignas(CACHE_LINE_BYTES) uint64_t own[KVSEL_SEGMENT_WORDS];
    uint64_t side[KVSEL_SEGMENT_WORDS];
};

/* False: it has no row in the segment. */
static bool find_list(const struct scratch *scratch, uint32_t token, uint32_t list,
                      struct kvsel_list *out)
{
    const struct kvt_kvsel_stream *stream = scratch->stream;
    const unsigned char *block = stream->blocks[token / KVT_KVSEL_BLOCK_TOKENS];
    uint32_t first = token % KVT_KVSEL_BLOCK_TOKENS * kvsel_lists_per_token(&stream->shape);
    /* Blocks recorded before the history reached this segment do not know it. */
    uint32_t segments = scratch->is_only ? 1 : kvsel_u32(block + BLOCK_SEGMENTS_AT);
    if (scratch->segment >= segments)
        return false;
    *out = kvsel_list_at(block, segments, first + list, scratch->segment);
    return true;
}

/* Asks for the bytes of a place's last list, which is far from those read before it. */
static void prefetch(const struct scratch *scratch, const struct kvt_kvsel_place *place)
{
    uint32_t side_tokens = scratch->stream->shape.side_tokens;
    uint32_t number =
        place->side_path == 0 ? 0 : 1 + (place->side_path - 1) * side_tokens + place->side_token;
    struct kvsel_list list;
    if (!find_list(scratch, place->token, number, &list))
        return;
    for (uint32_t i = 0; i < list.byte_count; i += CACHE_LINE_BYTES)
        __builtin_prefetch(list.bytes + i);
}

static const uint64_t *own_at(struct scratch *scratch, uint32_t token)
{
    struct kvsel_list list;
    if (scratch->token != token) {
        bool found = find_list(scratch, token, 0, &list);
        kvsel_begin(scratch->own, found ? &list : NULL, scratch->words, scratch->cpu);
        scratch->token = token;
        scratch->side_path = 0;
    }
    return scratch->own;
}

static const uint64_t *side_at(struct scratch *scratch, const struct kvt_kvsel_place *place)
{
    const uint64_t *own = own_at(scratch, place->token);
    uint32_t next = scratch->side_token + 1;
    if (scratch->side_path != place->side_path || scratch->side_token > place->side_token) {
        memcpy(scratch->side, own, scratch->words * sizeof scratch->side[0]);
        next = 0;
    }
    uint32_t first_list = 1 + (place->side_path - 1) * scratch->stream->shape.side_tokens;
    for (; next <= place->side_token; next++) {
        struct kvsel_list list;
        if (find_list(scratch, place->token, first_list + next, &list))
            kvsel_toggle(scratch->side, &list, scratch->cpu);
    }
    scratch->side_path = place->side_path;
    scratch->side_token = place->side_token;
    return scratch->side;
}

/* Rows that a place can see. */
static uint64_t place_rows(const struct kvt_kvsel_shape *shape, const struct kvt_kvsel_place *place)
{
    uint64_t after = place->side_path == 0 ? 0 : 1 + (uint64_t)place->side_token;
    return shape->first_rows + (place->token + after) / shape->tokens_per_row;
}

void kvt_kvsel_read(const struct kvt_kvsel_stream *stream, const struct kvt_kvsel_place *places,
                    size_t place_count, const struct kvt_kvsel_map *map, uint64_t *const *sets,
                    size_t words)
{
    struct piece pieces[PIECES];
    pieces_of(map, pieces);
    uint64_t rows = 0; /* that any of the places can see */
    for (size_t i = 0; i < place_count; i++) {
        uint64_t seen = place_rows(&stream->shape, &places[i]);
        rows = seen > rows ? seen : rows;
    }
    struct scratch scratch; /* its sets are cleared as far as they are used */
    scratch.stream = stream;
    scratch.cpu = kvt_cpu_best();
    scratch.is_only =
        rows + KVT_KVSEL_BLOCK_TOKENS + stream->shape.side_tokens <= KVSEL_SEGMENT_ROWS;
    scratch.segment = 0;
    for (size_t i = 0; i < place_count; i++)
        prefetch(&scratch, &places[i]);
    for (size_t i = 0; i < place_count; i++)
        memset(sets[i], 0, words * sizeof *sets[i]);
    for (uint64_t first = 0; first < rows; first += KVSEL_SEGMENT_ROWS, scratch.segment++) {
        uint64_t here = rows - first < KVSEL_SEGMENT_ROWS ? rows - first : KVSEL_SEGMENT_ROWS;
        scratch.words = kvt_row_words((uint32_t)here);
        scratch.token = UINT64_MAX;
        scratch.side_path = scratch.side_token = 0;
        for (size_t i = 0; i < place_count; i++) {
            const uint64_t *found = places[i].side_path == 0 ? own_at(&scratch, places[i].token)
                                                             : side_at(&scratch, &places[i]);
            emit(found, first, here, pieces, sets[i]);
        }
    }
}
