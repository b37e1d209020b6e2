/* test_kvsel.c -- coded selections read back in any rows, files, and every way to spoil one. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"
#include "kvt/kvsel.h"
#include "kvt/rng.h"
#include "support/support.h"

/* ---- Selections drawn for tests ------------------------------------------------------- */

/* Where in a stream: a token's own selection (path 0), or one of a branch after it. */
static uint32_t visible_to(const struct kvt_kvsel_shape *shape, uint32_t token, uint32_t path,
                           uint32_t side_token)
{
    return kvt_kvsel_visible(shape, token + (path > 0 ? 1 + side_token : 0));
}

/* The rows that selection has: min(k, visible) drawn without replacement, from the place
 * alone. Set bits of set[kvt_row_words(visible)]. */
static void draw(const struct kvt_kvsel_shape *shape, uint32_t token, uint32_t path,
                 uint32_t side_token, uint64_t *set)
{
    uint32_t visible = visible_to(shape, token, path, side_token);
    uint32_t due = visible < shape->top_k ? visible : shape->top_k;
    struct kvt_rng rng =
        kvt_rng_stream(7, KVT_RNG_TEST, ((uint64_t)token << 20) + path * 64 + side_token);
    memset(set, 0, kvt_row_words(visible) * sizeof *set);
    while (due > 0) {
        uint32_t row = (uint32_t)kvt_rng_below(&rng, visible);
        due -= !kvt_row_is_in(set, row);
        kvt_row_set_add(set, &row, 1);
    }
}

static size_t words_max(const struct kvt_kvsel_shape *shape, uint32_t token_count)
{
    return kvt_row_words(kvt_kvsel_visible(shape, token_count + shape->side_tokens));
}

static unsigned char *coded_block(const struct kvt_kvsel_shape *shape, uint32_t stream,
                                  uint32_t first_token, uint32_t token_count)
{
    size_t words = words_max(shape, first_token + token_count);
    uint64_t *own = calloc(words, sizeof *own), *side = calloc(words, sizeof *side),
             *before = calloc(words, sizeof *before);
    struct kvt_kvsel_coder *coder = kvt_kvsel_coder_new(shape);
    ck_assert(own && side && before && coder);
    ck_assert_int_eq(kvt_kvsel_coder_begin(coder, stream, first_token, token_count, NULL), KVT_OK);
    for (uint32_t t = first_token; t < first_token + token_count; t++) {
        memset(own, 0, words * sizeof *own);
        draw(shape, t, 0, 0, own);
        ck_assert_int_eq(kvt_kvsel_coder_add(coder, own, NULL, words, NULL), KVT_OK);
        for (uint32_t path = 1; path <= shape->side_paths; path++) {
            memcpy(before, own, words * sizeof *own);
            for (uint32_t i = 0; i < shape->side_tokens; i++) {
                memset(side, 0, words * sizeof *side);
                draw(shape, t, path, i, side);
                ck_assert_int_eq(kvt_kvsel_coder_add(coder, side, before, words, NULL), KVT_OK);
                memcpy(before, side, words * sizeof *side);
            }
        }
    }
    unsigned char *block = NULL;
    ck_assert_int_eq(kvt_kvsel_coder_finish(coder, &block, NULL), KVT_OK);
    kvt_kvsel_coder_free(coder);
    free(own);
    free(side);
    free(before);
    return block;
}

enum {
    BLOCKS_MAX = 8
};

struct recording {
    struct kvt_kvsel_stream stream;
    unsigned char *blocks[BLOCKS_MAX];
};

static void record(struct recording *recording, const struct kvt_kvsel_shape *shape,
                   uint32_t token_count)
{
    recording->stream = (struct kvt_kvsel_stream){
        .shape = *shape, .token_count = token_count, .blocks = recording->blocks};
    for (uint32_t t = 0; t < token_count; t += KVT_KVSEL_BLOCK_TOKENS) {
        uint32_t left = token_count - t;
        recording->blocks[t / KVT_KVSEL_BLOCK_TOKENS] =
            coded_block(shape, 0, t, left < KVT_KVSEL_BLOCK_TOKENS ? left : KVT_KVSEL_BLOCK_TOKENS);
    }
}

static void recording_fini(struct recording *recording)
{
    for (uint32_t t = 0; t < recording->stream.token_count; t += KVT_KVSEL_BLOCK_TOKENS)
        free(recording->blocks[t / KVT_KVSEL_BLOCK_TOKENS]);
}

/* ---- Reading ----------------------------------------------------------------------------- */

/* By the definition of the map, row by row. */
static uint32_t mapped(const struct kvt_kvsel_map *map, uint32_t row)
{
    if (map->is_shifted)
        return row < map->front_rows && row < map->old_rows
                   ? row
                   : row + (map->stream_rows - map->old_rows);
    uint32_t whole = map->stream_rows / 64 * 64;
    if (row >= map->old_rows)
        return row - map->old_rows + map->stream_rows;
    return row < whole ? (row + map->shift_rows) % whole : row;
}

static void check_read(const struct recording *recording, const struct kvt_kvsel_place *places,
                       size_t count, const struct kvt_kvsel_map *map)
{
    const struct kvt_kvsel_shape *shape = &recording->stream.shape;
    size_t words = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t visible =
            visible_to(shape, places[i].token, places[i].side_path, places[i].side_token);
        size_t here = kvt_row_words(visible + map->stream_rows - map->old_rows);
        words = here > words ? here : words;
    }
    uint64_t *memory = malloc((2 + count) * (words + 1) * sizeof *memory);
    uint64_t *sets[64], *drawn = memory, *expected = memory + words + 1;
    ck_assert(memory != NULL && count <= 64);
    for (size_t i = 0; i < count; i++) {
        sets[i] = memory + (2 + i) * (words + 1);
        memset(sets[i], 0xa5, (words + 1) * sizeof *memory);
    }
    kvt_kvsel_read(&recording->stream, places, count, map, sets, words);
    for (size_t i = 0; i < count; i++) {
        const struct kvt_kvsel_place *place = &places[i];
        uint32_t visible = visible_to(shape, place->token, place->side_path, place->side_token);
        draw(shape, place->token, place->side_path, place->side_token, drawn);
        memset(expected, 0, words * sizeof *expected);
        for (uint32_t row = 0; row < visible; row++) {
            uint32_t to = mapped(map, row);
            if (kvt_row_is_in(drawn, row))
                kvt_row_set_add(expected, &to, 1);
        }
        ck_assert_mem_eq(sets[i], expected, words * sizeof *expected);
        ck_assert_uint_eq(sets[i][words], UINT64_C(0xa5a5a5a5a5a5a5a5));
    }
    free(memory);
}

static const struct kvt_kvsel_shape shapes[] = {
    {.top_k = 30, .first_rows = 300, .tokens_per_row = 1, .side_paths = 2, .side_tokens = 3},
    {.top_k = 1, .first_rows = 1, .tokens_per_row = 1, .side_paths = 1, .side_tokens = 1},
    {.top_k = 5, .first_rows = 3, .tokens_per_row = 4},
    {.top_k = 64, .first_rows = 64, .tokens_per_row = 2, .side_paths = 1, .side_tokens = 7},
    /* Gaps of many times 255 rows; a history that grows into its second and third segment. */
    {.top_k = 3, .first_rows = 100000, .tokens_per_row = 1},
    {.top_k = 9, .first_rows = 131072 - 20, .tokens_per_row = 1, .side_paths = 1, .side_tokens = 2},
    {.top_k = 40, .first_rows = 262144 - 3, .tokens_per_row = 3, .side_paths = 1, .side_tokens = 3},
};
enum {
    SHAPES = sizeof shapes / sizeof shapes[0],
    TOKENS = 70
};

START_TEST(every_selection_is_read_back_in_any_company)
{
    const struct kvt_kvsel_shape *shape = &shapes[_i];
    struct recording recording;
    record(&recording, shape, TOKENS);
    struct kvt_kvsel_map map = {.old_rows = shape->first_rows, .stream_rows = shape->first_rows};
    struct kvt_rng rng = kvt_rng_stream(1, KVT_RNG_TEST, (uint64_t)_i);
    for (int round = 0; round < 60; round++) {
        struct kvt_kvsel_place places[9];
        for (size_t i = 0; i < 9; i++) {
            bool is_side = shape->side_paths > 0 && kvt_rng_below(&rng, 3) > 0;
            places[i] = (struct kvt_kvsel_place){.token = (uint32_t)kvt_rng_below(&rng, TOKENS)};
            if (i > 0 && kvt_rng_below(&rng, 2) > 0)
                places[i].token = places[i - 1].token;
            if (is_side) {
                places[i].side_path = 1 + (uint32_t)kvt_rng_below(&rng, shape->side_paths);
                places[i].side_token = (uint32_t)kvt_rng_below(&rng, shape->side_tokens);
            }
        }
        check_read(&recording, places, 1 + (size_t)kvt_rng_below(&rng, 9), &map);
    }
    recording_fini(&recording);
}
END_TEST

/* Old rows of every length from few to all, turned by every shift, and shifted behind every
 * kind of front. */
START_TEST(rows_are_mapped_as_the_definition_says_at_every_edge)
{
    static const uint32_t stream_lengths[] = {40, 63, 64, 65, 127, 128, 129, 200, 256, 300};
    uint32_t stream_rows = stream_lengths[_i];
    for (uint32_t old_rows = 20; old_rows <= stream_rows; old_rows += 9) {
        struct kvt_kvsel_shape shape = {.top_k = 15,
                                        .first_rows = old_rows,
                                        .tokens_per_row = 1,
                                        .side_paths = 1,
                                        .side_tokens = 2};
        struct recording recording;
        record(&recording, &shape, TOKENS);
        struct kvt_kvsel_place places[] = {{.token = 0}, {.token = 21}, {21, 1, 1}, {.token = 69}};
        struct kvt_kvsel_map map = {.old_rows = old_rows, .stream_rows = stream_rows};
        for (; map.shift_rows == 0 || map.shift_rows < stream_rows / 64 * 64; map.shift_rows += 64)
            check_read(&recording, places, 4, &map);
        map.is_shifted = true;
        map.shift_rows = 0;
        for (map.front_rows = 0; map.front_rows <= old_rows + 10; map.front_rows += 5)
            check_read(&recording, places, 4, &map);
        recording_fini(&recording);
    }
}
END_TEST

START_TEST(a_long_history_is_turned_across_its_segments)
{
    struct recording recording;
    record(&recording, &shapes[SHAPES - 1], TOKENS);
    struct kvt_kvsel_place places[] = {{.token = 3}, {3, 1, 2}, {.token = 69}};
    struct kvt_kvsel_map map = {.old_rows = 262144 - 3, .stream_rows = 262144 + 500};
    static const uint32_t shifts[] = {0, 64, 131008, 131072, 200000 / 64 * 64, 262144 + 384};
    for (size_t s = 0; s < sizeof shifts / sizeof shifts[0]; s++) {
        map.shift_rows = shifts[s];
        check_read(&recording, places, 3, &map);
    }
    map = (struct kvt_kvsel_map){.old_rows = map.old_rows,
                                 .stream_rows = map.stream_rows,
                                 .front_rows = 64,
                                 .is_shifted = true};
    check_read(&recording, places, 3, &map);
    recording_fini(&recording);
}
END_TEST

/* ---- Files ------------------------------------------------------------------------------- */

static struct support_folder folder;
static char path[SUPPORT_PATH_BYTES];

static void folder_make(void)
{
    support_folder_make(&folder);
    (void)support_path(&folder, "a.kvsel", path);
}

static void folder_remove(void)
{
    support_folder_remove(&folder);
}

static const struct kvt_kvsel_shape small = {
    .top_k = 6, .first_rows = 4, .tokens_per_row = 1, .side_paths = 1, .side_tokens = 2};

/* Two requests of two selectors, 70 tokens each, blocks of the streams in turn. */
static void write_small(const char *to)
{
    struct kvt_kvsel_header header = {.top_k = 6,
                                      .side_paths = 1,
                                      .side_tokens = 2,
                                      .request_count = 2,
                                      .selector_count = 2,
                                      .key = 2385};
    struct kvt_kvsel_shape each[4];
    for (size_t s = 0; s < 4; s++) {
        each[s] = small;
        each[s].first_rows += (uint32_t)s;
    }
    struct kvt_kvsel_writer *writer = NULL;
    ck_assert_int_eq(kvt_kvsel_create(to, &header, each, &writer, NULL), KVT_OK);
    for (uint32_t t = 0; t < TOKENS; t += KVT_KVSEL_BLOCK_TOKENS) {
        for (uint32_t s = 0; s < 4; s++) {
            unsigned char *block = coded_block(&each[s], s, t, t == 0 ? 64 : TOKENS - 64);
            ck_assert_int_eq(kvt_kvsel_put(writer, block, NULL), KVT_OK);
            free(block);
        }
    }
    ck_assert_int_eq(kvt_kvsel_commit(writer, NULL), KVT_OK);
}

START_TEST(a_file_gives_back_what_was_written)
{
    write_small(path);
    struct kvt_kvsel *file = NULL;
    struct kvt_error err;
    ck_assert_msg(kvt_kvsel_load(path, true, &file, &err) == KVT_OK, "%s", err.message);
    const struct kvt_kvsel_header *header = kvt_kvsel_header_of(file);
    ck_assert_uint_eq(header->key, 2385);
    ck_assert_uint_eq(header->request_count, 2);
    for (uint32_t s = 0; s < 4; s++) {
        struct recording recording = {.stream = *kvt_kvsel_stream_of(file, s / 2, s % 2)};
        ck_assert_uint_eq(recording.stream.token_count, TOKENS);
        ck_assert_uint_eq(recording.stream.shape.first_rows, 4 + s);
        struct kvt_kvsel_map map = {.old_rows = 4 + s, .stream_rows = 4 + s};
        struct kvt_kvsel_place places[] = {{.token = 0}, {0, 1, 1}, {.token = 64}, {.token = 69}};
        check_read(&recording, places, 4, &map);
    }
    kvt_kvsel_free(file);
}
END_TEST

START_TEST(a_writer_refuses_blocks_out_of_order_and_leaves_nothing_behind)
{
    struct kvt_kvsel_header header = {.top_k = 6, .request_count = 1, .selector_count = 1};
    struct kvt_kvsel_shape shape = {.top_k = 6, .first_rows = 4, .tokens_per_row = 1};
    struct kvt_kvsel_writer *writer = NULL;
    ck_assert_int_eq(kvt_kvsel_create(path, &header, &shape, &writer, NULL), KVT_OK);
    unsigned char *late = coded_block(&shape, 0, 64, 3), *foreign = coded_block(&shape, 1, 0, 3),
                  *part = coded_block(&shape, 0, 0, 3);
    struct kvt_error err;
    ck_assert_int_eq(kvt_kvsel_put(writer, late, &err), KVT_ERR_INVALID);
    ck_assert_int_eq(kvt_kvsel_put(writer, foreign, &err), KVT_ERR_INVALID);
    ck_assert_int_eq(kvt_kvsel_put(writer, part, &err), KVT_OK);
    ck_assert_int_eq(kvt_kvsel_put(writer, late, &err), KVT_ERR_INVALID);
    kvt_kvsel_discard(writer);
    ck_assert_uint_eq(support_folder_entries(folder.path), 0);
    shape.tokens_per_row = 0;
    ck_assert_int_eq(kvt_kvsel_create(path, &header, &shape, &writer, &err), KVT_ERR_INVALID);
    header.selector_count = 0;
    ck_assert_int_eq(kvt_kvsel_create(path, &header, &shape, &writer, &err), KVT_ERR_INVALID);
    kvt_kvsel_discard(NULL);
    free(late);
    free(foreign);
    free(part);
}
END_TEST

/* A copy in a block of just its size, so that a step beyond shows. */
static kvt_status parse_copy(const unsigned char *bytes, size_t count, struct kvt_error *err)
{
    unsigned char *copy = malloc(count > 0 ? count : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, count);
    struct kvt_kvsel *file = NULL;
    kvt_status status = kvt_kvsel_parse(copy, count, "copy", true, &file, err);
    kvt_kvsel_free(file);
    free(copy);
    return status;
}

START_TEST(a_file_that_was_cut_is_refused_wherever_that_was)
{
    write_small(path);
    size_t count = 0;
    char *bytes = support_read(path, &count);
    struct kvt_error err;
    for (size_t cut = 0; cut < count; cut += cut < 200 ? 1 : 37)
        ck_assert_int_eq(parse_copy((unsigned char *)bytes, cut, &err), KVT_ERR_PARSE);
    ck_assert_int_eq(parse_copy((unsigned char *)bytes, count - 1, &err), KVT_ERR_PARSE);
    ck_assert_int_eq(parse_copy((unsigned char *)bytes, count - 32, &err), KVT_ERR_PARSE);
    ck_assert_ptr_nonnull(strstr(err.message, "it was cut"));
    ck_assert_int_eq(parse_copy((unsigned char *)bytes, count, &err), KVT_OK);
    ck_assert_int_eq(parse_copy((unsigned char *)bytes, count + 1, &err), KVT_ERR_PARSE);
    free(bytes);
}
END_TEST

START_TEST(no_flipped_bit_goes_unnoticed)
{
    write_small(path);
    size_t count = 0;
    unsigned char *bytes = (unsigned char *)support_read(path, &count);
    struct kvt_error err;
    for (size_t at = 0; at < count; at += at < 300 || at + 300 > count ? 1 : 41) {
        unsigned bit = 1U << at % 8;
        bytes[at] = (unsigned char)(bytes[at] ^ bit);
        ck_assert_msg(parse_copy(bytes, count, &err) != KVT_OK, "byte %zu", at);
        bytes[at] = (unsigned char)(bytes[at] ^ bit);
    }
    free(bytes);
}
END_TEST

/* ---- Spoilt on purpose, with checksums that fit ------------------------------------------- */

static void put_u32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static void put_u64(unsigned char *at, uint64_t value)
{
    put_u32(at, (uint32_t)value);
    put_u32(at + 4, (uint32_t)(value >> 32));
}

static uint32_t get_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* As docs/kvsel.md says, written a second time. */
static void seal(unsigned char *bytes, size_t count, uint32_t streams)
{
    uint64_t chain = kvt_hash_bytes(0, bytes, 56);
    put_u64(bytes + 56, kvt_hash_bytes(chain, bytes + 64, (size_t)streams * 8));
    uint64_t all = 0;
    size_t at = 64 + (size_t)streams * 8;
    while (at + 32 <= count && get_u32(bytes + at) == 0x4b4c424b) {
        uint32_t payload = get_u32(bytes + at + 20);
        if (payload > count - at - 32)
            return;
        uint64_t own = kvt_hash_bytes(kvt_hash_bytes(0, bytes + at, 24), bytes + at + 32, payload);
        put_u64(bytes + at + 24, own);
        all = kvt_chain64(all, own);
        at += 32 + payload;
    }
    if (at + 32 <= count)
        put_u64(bytes + at + 24, kvt_hash_bytes(all, bytes + at, 24));
}

START_TEST(what_a_sealed_file_says_is_checked_all_the_same)
{
    enum {
        BLOCK = 64 + 4 * 8 /* the first block */
    };
    static const struct {
        size_t at;
        uint32_t value;
        const char *says;
    } spoilt[] = {
        {8, 1, "version 1"},
        {12, 0, "selections of 0 rows"},
        {12, UINT32_MAX, "selections of 4294967295 rows"},
        {12, 7, "rows"},
        {16, 0, "branches"},
        {16, UINT32_MAX, "branches"},
        {20, 3, "lists"},
        {24, 0, "requests"},
        {24, UINT32_MAX, "requests"},
        {28, 1 << 18, "cut"},
        {32, 64, "segments"},
        {64, 0, "begins with 0 rows"},
        {64, UINT32_MAX, "begins with 4294967295 rows"},
        {64, 40, "are expected"},
        {68, 0, "rows of 0 tokens"},
        {BLOCK, 7, "neither a block nor the end"},
        {BLOCK + 4, 4, "do not follow"},
        {BLOCK + 8, 64, "do not follow"},
        {BLOCK + 8, UINT32_MAX - 63, "do not follow"},
        {BLOCK + 12, 0, "do not follow"},
        {BLOCK + 12, 65, "do not follow"},
        {BLOCK + 12, 63, "lists"},
        {BLOCK + 16, 2, "lists"},
        {BLOCK + 16, UINT32_MAX, "lists"},
        {BLOCK + 20, UINT32_MAX, "cut"},
        {BLOCK + 32, 0, "lists"},
        {BLOCK + 36, 0, "lists"},
        {BLOCK + 36, UINT32_MAX, "lists"},
        {BLOCK + 32 + 4 * (64 * 3 + 1) + 0, 77, "lists"}, /* lines */
        {BLOCK + 32 + 4 * (64 * 3 + 1) + 4, 77, "lists"}, /* where a lane begins */
    };
    write_small(path);
    size_t count = 0;
    unsigned char *bytes = (unsigned char *)support_read(path, &count);
    seal(bytes, count, 4);
    struct kvt_error err;
    ck_assert_int_eq(parse_copy(bytes, count, &err), KVT_OK);
    for (size_t i = 0; i < sizeof spoilt / sizeof spoilt[0]; i++) {
        unsigned char *copy = malloc(count);
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, bytes, count);
        put_u32(copy + spoilt[i].at, spoilt[i].value);
        seal(copy, count, 4);
        ck_assert_msg(parse_copy(copy, count, &err) != KVT_OK, "spoilt %zu", i);
        ck_assert_msg(strstr(err.message, spoilt[i].says) != NULL, "spoilt %zu: %s", i,
                      err.message);
        free(copy);
    }
    free(bytes);
}
END_TEST

START_TEST(rows_that_nobody_can_see_are_refused)
{
    /* Every byte of the first lists in turn: either the lanes do not meet, a row lies past
     * what is visible, or the rows are too few or too many. */
    write_small(path);
    size_t count = 0;
    unsigned char *bytes = (unsigned char *)support_read(path, &count);
    size_t first = 64 + 4 * 8 + 32 + 4 * (64 * 3 + 1) + 16;
    struct kvt_error err;
    for (size_t at = first; at < first + 4; at++) {
        unsigned char kept = bytes[at];
        for (int value = 0; value < 256; value += 3) {
            if (value == kept)
                continue;
            bytes[at] = (unsigned char)value;
            seal(bytes, count, 4);
            /* Token 0 sees 4 rows and selects all: any other gap is wrong. */
            ck_assert_int_ne(parse_copy(bytes, count, &err), KVT_OK);
        }
        bytes[at] = kept;
    }
    free(bytes);
}
END_TEST

START_TEST(what_is_no_such_file_is_refused_by_its_first_bytes)
{
    struct kvt_kvsel *file = NULL;
    struct kvt_error err;
    ck_assert_int_eq(kvt_kvsel_load(path, true, &file, &err), KVT_ERR_NOT_FOUND);
    ck_assert_int_eq(kvt_kvsel_load(folder.path, true, &file, &err), KVT_ERR_IO);
    support_write(path, "", 0);
    ck_assert_int_eq(kvt_kvsel_load(path, true, &file, &err), KVT_ERR_PARSE);
    support_write(path, "arrival_s,input_tokens\n", 23);
    ck_assert_int_eq(kvt_kvsel_load(path, true, &file, &err), KVT_ERR_PARSE);
    ck_assert_str_eq(err.message, "byte 0: this is no file of selections (.kvsel)");
    ck_assert_int_eq(kvt_kvsel_load("/dev/zero", true, &file, &err), KVT_ERR_IO);
    ck_assert_ptr_null(file);
}
END_TEST

START_TEST(failed_allocations_leave_no_file_and_no_memory)
{
    if (!support_can_fail_allocations())
        return;
    write_small(path);
    for (uint64_t nth = 0;; nth++) {
        struct kvt_kvsel *file = NULL;
        struct kvt_error err;
        support_fail_allocation(nth);
        kvt_status status = kvt_kvsel_load(path, true, &file, &err);
        bool has_failed = support_allocation_failed();
        ck_assert(status == KVT_OK || (has_failed && status == KVT_ERR_NOMEM));
        kvt_kvsel_free(file);
        if (!has_failed)
            break;
    }
}
END_TEST

/* ---- Statistics ---------------------------------------------------------------------------- */

START_TEST(statistics_count_what_is_there)
{
    /* Rows 10 t .. 10 t + 39 of 2,000: a lag of one shares 30 of 40, of two 20, of four none. */
    struct kvt_kvsel_shape shape = {.top_k = 40, .first_rows = 2000, .tokens_per_row = 1};
    struct kvt_kvsel_header header = {.top_k = 40, .request_count = 1, .selector_count = 1};
    struct kvt_kvsel_writer *writer = NULL;
    struct kvt_kvsel_coder *coder = kvt_kvsel_coder_new(&shape);
    ck_assert_int_eq(kvt_kvsel_create(path, &header, &shape, &writer, NULL), KVT_OK);
    ck_assert_int_eq(kvt_kvsel_coder_begin(coder, 0, 0, 64, NULL), KVT_OK);
    for (uint32_t t = 0; t < 64; t++) {
        uint64_t set[33] = {0};
        for (uint32_t row = 10 * t; row < 10 * t + 40; row++)
            kvt_row_set_add(set, &row, 1);
        ck_assert_int_eq(kvt_kvsel_coder_add(coder, set, NULL, 33, NULL), KVT_OK);
    }
    unsigned char *block = NULL;
    ck_assert_int_eq(kvt_kvsel_coder_finish(coder, &block, NULL), KVT_OK);
    ck_assert_int_eq(kvt_kvsel_put(writer, block, NULL), KVT_OK);
    ck_assert_int_eq(kvt_kvsel_commit(writer, NULL), KVT_OK);
    free(block);
    kvt_kvsel_coder_free(coder);

    struct kvt_kvsel *file = NULL;
    struct kvt_kvsel_stats stats;
    ck_assert_int_eq(kvt_kvsel_load(path, true, &file, NULL), KVT_OK);
    ck_assert_int_eq(kvt_kvsel_stats_of(file, &stats, NULL), KVT_OK);
    ck_assert_uint_eq(stats.tokens, 64);
    ck_assert_uint_eq(stats.selected, 64 * 40);
    ck_assert_uint_eq(stats.rows_max, 2063);
    static const double overlap[KVT_KVSEL_LAGS] = {.75, .5, 0, 0, 0, 0, 0};
    for (int l = 0; l < KVT_KVSEL_LAGS; l++)
        ck_assert_double_eq_tol(stats.overlap[l], overlap[l], 1e-12);
    for (int u = 0; u < KVT_KVSEL_UNIONS; u++)
        ck_assert_double_eq_tol(stats.unions[u], 1 + .25 * u, 1e-12);
    ck_assert_uint_eq(stats.sampled_tokens, 63);
    kvt_kvsel_free(file);
}
END_TEST

START_TEST(statistics_of_too_few_tokens_are_not_numbers)
{
    struct kvt_kvsel_shape shape = {.top_k = 40, .first_rows = 20, .tokens_per_row = 1};
    struct kvt_kvsel_header header = {.top_k = 40, .request_count = 1, .selector_count = 1};
    struct kvt_kvsel_writer *writer = NULL;
    ck_assert_int_eq(kvt_kvsel_create(path, &header, &shape, &writer, NULL), KVT_OK);
    unsigned char *block = coded_block(&shape, 0, 0, 5);
    ck_assert_int_eq(kvt_kvsel_put(writer, block, NULL), KVT_OK);
    ck_assert_int_eq(kvt_kvsel_commit(writer, NULL), KVT_OK);
    free(block);
    struct kvt_kvsel *file = NULL;
    struct kvt_kvsel_stats stats;
    ck_assert_int_eq(kvt_kvsel_load(path, true, &file, NULL), KVT_OK);
    ck_assert_int_eq(kvt_kvsel_stats_of(file, &stats, NULL), KVT_OK);
    ck_assert_uint_eq(stats.selected, 20 + 21 + 22 + 23 + 24);
    ck_assert(isnan(stats.overlap[0]) && isnan(stats.unions[0]));
    kvt_kvsel_free(file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kvsel");
    TCase *reading = tcase_create("reading");
    tcase_set_timeout(reading, 60);
    tcase_add_loop_test(reading, every_selection_is_read_back_in_any_company, 0, SHAPES);
    tcase_add_loop_test(reading, rows_are_mapped_as_the_definition_says_at_every_edge, 0, 10);
    tcase_add_test(reading, a_long_history_is_turned_across_its_segments);
    suite_add_tcase(suite, reading);

    TCase *files = tcase_create("files");
    tcase_set_timeout(files, 60);
    tcase_add_checked_fixture(files, folder_make, folder_remove);
    tcase_add_test(files, a_file_gives_back_what_was_written);
    tcase_add_test(files, a_writer_refuses_blocks_out_of_order_and_leaves_nothing_behind);
    tcase_add_test(files, a_file_that_was_cut_is_refused_wherever_that_was);
    tcase_add_test(files, no_flipped_bit_goes_unnoticed);
    tcase_add_test(files, what_a_sealed_file_says_is_checked_all_the_same);
    tcase_add_test(files, rows_that_nobody_can_see_are_refused);
    tcase_add_test(files, what_is_no_such_file_is_refused_by_its_first_bytes);
    tcase_add_test(files, failed_allocations_leave_no_file_and_no_memory);
    tcase_add_test(files, statistics_count_what_is_there);
    tcase_add_test(files, statistics_of_too_few_tokens_are_not_numbers);
    suite_add_tcase(suite, files);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
