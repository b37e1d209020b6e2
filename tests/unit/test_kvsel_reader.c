/* test_kvsel_reader.c -- notes, files read block by block, and every way to damage a small one. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvt/hash.h"
#include "kvt/kvsel.h"
#include "kvt/rng.h"
#include "support/support.h"

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

/* ---- Files drawn for tests ----------------------------------------------------------------- */

enum {
    STREAMS_MAX = 4
};

struct drawn {
    uint32_t requests, selectors, top_k, first_rows, tokens;
    const char *note;
};

/* min(k, visible) rows of a token of a stream, from the place alone. */
static void draw(const struct drawn *drawn, uint32_t stream, uint32_t token, uint64_t *set,
                 size_t words)
{
    uint32_t visible = drawn->first_rows + token;
    uint32_t due = visible < drawn->top_k ? visible : drawn->top_k;
    struct kvt_rng rng = kvt_rng_stream(11, KVT_RNG_TEST, (uint64_t)stream << 32 | token);
    memset(set, 0, words * sizeof *set);
    while (due > 0) {
        uint32_t row = (uint32_t)kvt_rng_below(&rng, visible);
        due -= !kvt_row_is_in(set, row);
        kvt_row_set_add(set, &row, 1);
    }
}

static unsigned char *block_of(const struct drawn *drawn, uint32_t stream, uint32_t first_token)
{
    struct kvt_kvsel_shape shape = {
        .top_k = drawn->top_k, .first_rows = drawn->first_rows, .tokens_per_row = 1};
    uint32_t left = drawn->tokens - first_token;
    uint32_t count = left < KVT_KVSEL_BLOCK_TOKENS ? left : KVT_KVSEL_BLOCK_TOKENS;
    size_t words = kvt_row_words(drawn->first_rows + drawn->tokens);
    uint64_t *set = calloc(words, sizeof *set);
    struct kvt_kvsel_coder *coder = kvt_kvsel_coder_new(&shape);
    unsigned char *block = NULL;
    ck_assert(set != NULL && coder != NULL);
    ck_assert_int_eq(kvt_kvsel_coder_begin(coder, stream, first_token, count, NULL), KVT_OK);
    for (uint32_t t = first_token; t < first_token + count; t++) {
        draw(drawn, stream, t, set, words);
        ck_assert_int_eq(kvt_kvsel_coder_add(coder, set, NULL, words, NULL), KVT_OK);
    }
    ck_assert_int_eq(kvt_kvsel_coder_finish(coder, &block, NULL), KVT_OK);
    kvt_kvsel_coder_free(coder);
    free(set);
    return block;
}

/* Blocks of the streams in turn, the last stream's first. */
static void write_drawn(const struct drawn *drawn)
{
    uint32_t streams = drawn->requests * drawn->selectors;
    struct kvt_kvsel_header header = {.top_k = drawn->top_k,
                                      .request_count = drawn->requests,
                                      .selector_count = drawn->selectors,
                                      .note = drawn->note,
                                      .note_bytes = drawn->note != NULL ? strlen(drawn->note) : 0};
    struct kvt_kvsel_shape shapes[STREAMS_MAX];
    struct kvt_kvsel_writer *writer = NULL;
    for (uint32_t s = 0; s < streams; s++)
        shapes[s] = (struct kvt_kvsel_shape){
            .top_k = drawn->top_k, .first_rows = drawn->first_rows, .tokens_per_row = 1};
    ck_assert_int_eq(kvt_kvsel_create(path, &header, shapes, &writer, NULL), KVT_OK);
    for (uint32_t t = 0; t < drawn->tokens; t += KVT_KVSEL_BLOCK_TOKENS) {
        for (uint32_t s = streams; s-- > 0;) {
            unsigned char *block = block_of(drawn, s, t);
            ck_assert_int_eq(kvt_kvsel_put(writer, block, NULL), KVT_OK);
            free(block);
        }
    }
    ck_assert_int_eq(kvt_kvsel_commit(writer, NULL), KVT_OK);
}

static const struct drawn several = {
    .requests = 2, .selectors = 2, .top_k = 6, .first_rows = 5, .tokens = 150, .note = "{\"a\":1}"};
static const struct drawn smallest = {.requests = 1,
                                      .selectors = 1,
                                      .top_k = 2,
                                      .first_rows = 9,
                                      .tokens = 3,
                                      .note = "{\"b\": 2.5}"};

/* ---- Notes --------------------------------------------------------------------------------- */

START_TEST(a_note_of_any_length_is_given_back)
{
    char text[20];
    for (size_t length = 0; length < sizeof text; length++) {
        struct drawn drawn = smallest;
        memset(text, 'x', length);
        text[length] = '\0';
        drawn.note = text;
        write_drawn(&drawn);
        struct kvt_kvsel *file = NULL;
        struct kvt_kvsel_reader *reader = NULL;
        struct kvt_error err;
        ck_assert_msg(kvt_kvsel_load(path, true, &file, &err) == KVT_OK, "%s", err.message);
        ck_assert_msg(kvt_kvsel_open(path, NULL, NULL, &reader, &err) == KVT_OK, "%s", err.message);
        const struct kvt_kvsel_header *headers[] = {kvt_kvsel_header_of(file),
                                                    kvt_kvsel_reader_header(reader)};
        for (size_t i = 0; i < 2; i++) {
            ck_assert_uint_eq(headers[i]->note_bytes, length);
            ck_assert(length > 0 || headers[i]->note == NULL);
            ck_assert(length == 0 || strcmp(headers[i]->note, text) == 0);
        }
        kvt_kvsel_free(file);
        kvt_kvsel_close(reader);
    }
}
END_TEST

START_TEST(a_file_of_version_2_is_read_and_has_no_note)
{
    struct drawn drawn = smallest;
    size_t count = 0;
    drawn.note = NULL;
    write_drawn(&drawn);
    unsigned char *bytes = (unsigned char *)support_read(path, &count);
    ck_assert_uint_eq(bytes[8], 3);
    bytes[8] = 2;
    uint64_t sum = kvt_hash_bytes(kvt_hash_bytes(0, bytes, 56), bytes + 64, 8);
    for (int i = 0; i < 8; i++)
        bytes[56 + i] = (unsigned char)(sum >> 8 * i);
    struct kvt_kvsel *file = NULL;
    struct kvt_error err;
    ck_assert_msg(kvt_kvsel_parse(bytes, count, "old", true, &file, &err) == KVT_OK, "%s",
                  err.message);
    ck_assert_ptr_null(kvt_kvsel_header_of(file)->note);
    ck_assert_uint_eq(kvt_kvsel_stream_of(file, 0, 0)->token_count, 3);
    kvt_kvsel_free(file);
    free(bytes);
}
END_TEST

START_TEST(a_note_too_long_is_refused_by_the_writer)
{
    struct kvt_kvsel_header header = {.top_k = 2,
                                      .request_count = 1,
                                      .selector_count = 1,
                                      .note = "",
                                      .note_bytes = (uint64_t)KVT_KVSEL_NOTE_MAX + 1};
    struct kvt_kvsel_shape shape = {.top_k = 2, .first_rows = 4, .tokens_per_row = 1};
    struct kvt_kvsel_writer *writer = NULL;
    struct kvt_error err;
    ck_assert_int_eq(kvt_kvsel_create(path, &header, &shape, &writer, &err), KVT_ERR_INVALID);
    ck_assert_uint_eq(support_folder_entries(folder.path), 0);
}
END_TEST

/* ---- Reading block by block ------------------------------------------------------------------ */

START_TEST(a_cursor_reads_what_was_written_in_any_order)
{
    write_drawn(&several);
    struct kvt_kvsel_reader *reader = NULL;
    struct kvt_kvsel_cursor *cursor = NULL;
    uint64_t found[3], expected[3];
    ck_assert_int_eq(kvt_kvsel_open(path, NULL, NULL, &reader, NULL), KVT_OK);
    ck_assert_int_eq(kvt_kvsel_cursor_new(reader, &cursor, NULL), KVT_OK);
    for (uint32_t i = 0; i < 2000; i++) {
        /* The first 600 in order, then here and there. */
        uint32_t place = i < 600 ? i : (uint32_t)(kvt_mix64(i) % 600);
        uint32_t stream = place / 150, token = place % 150;
        ck_assert_uint_eq(kvt_kvsel_reader_stream(reader, stream)->token_count, 150);
        memset(found, 0xa5, sizeof found);
        ck_assert_int_eq(kvt_kvsel_cursor_read(cursor, stream, token, found, 3, NULL), KVT_OK);
        draw(&several, stream, token, expected, 3);
        ck_assert_mem_eq(found, expected, sizeof found);
    }
    kvt_kvsel_cursor_free(cursor);
    kvt_kvsel_close(reader);
}
END_TEST

START_TEST(a_blocks_bytes_become_another_files)
{
    struct drawn drawn = several;
    write_drawn(&drawn);
    struct kvt_kvsel_reader *reader = NULL;
    struct kvt_kvsel_cursor *cursor = NULL;
    ck_assert_int_eq(kvt_kvsel_open(path, NULL, NULL, &reader, NULL), KVT_OK);
    ck_assert_int_eq(kvt_kvsel_cursor_new(reader, &cursor, NULL), KVT_OK);
    const unsigned char *block = NULL;
    ck_assert_int_eq(kvt_kvsel_cursor_block(cursor, 3, 1, &block, NULL), KVT_OK);
    unsigned char *moved = malloc(kvt_kvsel_block_bytes(block));
    ck_assert_ptr_nonnull(moved);
    memcpy(moved, block, kvt_kvsel_block_bytes(block));
    kvt_kvsel_block_renumber(moved, 1);
    /* The same rows as stream 1 would have been coded. */
    struct kvt_kvsel_shape shape = {.top_k = 6, .first_rows = 5, .tokens_per_row = 1};
    struct kvt_kvsel_coder *coder = kvt_kvsel_coder_new(&shape);
    uint64_t set[3];
    unsigned char *fresh = NULL;
    ck_assert_int_eq(kvt_kvsel_coder_begin(coder, 1, 64, 64, NULL), KVT_OK);
    for (uint32_t t = 64; t < 128; t++) {
        draw(&several, 3, t, set, 3);
        ck_assert_int_eq(kvt_kvsel_coder_add(coder, set, NULL, 3, NULL), KVT_OK);
    }
    ck_assert_int_eq(kvt_kvsel_coder_finish(coder, &fresh, NULL), KVT_OK);
    ck_assert_uint_eq(kvt_kvsel_block_bytes(fresh), kvt_kvsel_block_bytes(moved));
    ck_assert_mem_eq(fresh, moved, kvt_kvsel_block_bytes(fresh));
    kvt_kvsel_coder_free(coder);
    free(fresh);
    free(moved);
    kvt_kvsel_cursor_free(cursor);
    kvt_kvsel_close(reader);
}
END_TEST

static bool stop_half_way(void *context, double fraction)
{
    *(double *)context = fraction;
    return fraction < 0.5;
}

START_TEST(opening_tells_how_far_it_is_and_stops_when_told)
{
    write_drawn(&several);
    struct kvt_kvsel_reader *reader = NULL;
    struct kvt_error err;
    double last = 0;
    ck_assert_int_eq(kvt_kvsel_open(path, stop_half_way, &last, &reader, &err),
                     KVT_ERR_INTERRUPTED);
    ck_assert(last >= 0.5 && last < 1);
    ck_assert_ptr_null(reader);
}
END_TEST

START_TEST(a_file_that_changes_behind_its_reader_is_refused)
{
    write_drawn(&several);
    struct kvt_kvsel_reader *reader = NULL;
    struct kvt_kvsel_cursor *cursor = NULL;
    struct kvt_error err;
    uint64_t set[3];
    ck_assert_int_eq(kvt_kvsel_open(path, NULL, NULL, &reader, NULL), KVT_OK);
    ck_assert_int_eq(kvt_kvsel_cursor_new(reader, &cursor, NULL), KVT_OK);
    FILE *same = fopen(path, "r+b"); /* in place: the reader holds this very file */
    ck_assert_ptr_nonnull(same);
    (void)fseek(same, 0, SEEK_END);
    long count = ftell(same);
    rewind(same);
    for (long at = 0; at < count; at++)
        (void)fputc(0x55, same);
    ck_assert_int_eq(fflush(same), 0);
    ck_assert_int_eq(kvt_kvsel_cursor_read(cursor, 0, 7, set, 3, &err), KVT_ERR_PARSE);
    ck_assert_ptr_nonnull(strstr(err.message, "changed while it was read"));
    (void)fclose(same);
    kvt_kvsel_cursor_free(cursor);
    kvt_kvsel_close(reader);
}
END_TEST

/* ---- Damage ------------------------------------------------------------------------------------
 */

/* Both ways of reading agree, and where they refuse they name the same byte. */
static bool is_refused(const char *what, size_t at)
{
    struct kvt_kvsel *file = NULL;
    struct kvt_kvsel_reader *reader = NULL;
    struct kvt_error loaded, opened;
    kvt_status load = kvt_kvsel_load(path, false, &file, &loaded);
    kvt_status open = kvt_kvsel_open(path, NULL, NULL, &reader, &opened);
    kvt_kvsel_free(file);
    kvt_kvsel_close(reader);
    ck_assert_msg(load == open, "%s %zu: %d against %d", what, at, load, open);
    if (load == KVT_OK)
        return false;
    ck_assert_msg(load == KVT_ERR_PARSE || load == KVT_ERR_INVALID, "%s %zu", what, at);
    ck_assert_str_eq(loaded.message, opened.message);
    ck_assert_msg(strncmp(loaded.message, "byte ", 5) == 0, "%s %zu: %s", what, at, loaded.message);
    return true;
}

START_TEST(a_file_is_refused_with_its_offset_wherever_it_was_cut)
{
    const struct drawn *both[] = {&smallest, &several};
    for (size_t i = 0; i < 2; i++) {
        size_t count = 0;
        write_drawn(both[i]);
        free(support_read(path, &count));
        ck_assert(!is_refused("whole", count));
        while (count > 0) {
            count = i == 0 || count < 61 ? count - 1 : count - 61;
            ck_assert_int_eq(truncate(path, (off_t)count), 0);
            ck_assert_msg(is_refused("cut", count), "cut at %zu", count);
        }
    }
}
END_TEST

START_TEST(every_single_flipped_bit_is_refused_with_its_offset)
{
    size_t count = 0;
    write_drawn(&smallest);
    unsigned char *bytes = (unsigned char *)support_read(path, &count);
    int fd = open(path, O_WRONLY);
    ck_assert_int_ge(fd, 0);
    for (size_t at = 0; at < count; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            unsigned char flipped = (unsigned char)(bytes[at] ^ 1U << bit);
            ck_assert_int_eq(pwrite(fd, &flipped, 1, (off_t)at), 1);
            ck_assert_msg(is_refused("byte", at), "bit %u of byte %zu", bit, at);
        }
        ck_assert_int_eq(pwrite(fd, &bytes[at], 1, (off_t)at), 1);
    }
    ck_assert(!is_refused("whole", count));
    (void)close(fd);
    free(bytes);
}
END_TEST

START_TEST(what_is_no_such_file_is_not_opened)
{
    struct kvt_kvsel_reader *reader = NULL;
    struct kvt_error err;
    ck_assert_int_eq(kvt_kvsel_open(path, NULL, NULL, &reader, &err), KVT_ERR_NOT_FOUND);
    ck_assert_int_eq(kvt_kvsel_open(folder.path, NULL, NULL, &reader, &err), KVT_ERR_IO);
    ck_assert_int_eq(kvt_kvsel_open("/dev/zero", NULL, NULL, &reader, &err), KVT_ERR_IO);
    support_write(path, "", 0);
    ck_assert_int_eq(kvt_kvsel_open(path, NULL, NULL, &reader, &err), KVT_ERR_PARSE);
    kvt_kvsel_close(NULL);
    kvt_kvsel_cursor_free(NULL);
    ck_assert_ptr_null(reader);
}
END_TEST

START_TEST(failed_allocations_leave_no_reader_and_no_memory)
{
    if (!support_can_fail_allocations())
        return;
    write_drawn(&smallest);
    for (uint64_t nth = 0;; nth++) {
        struct kvt_kvsel_reader *reader = NULL;
        struct kvt_kvsel_cursor *cursor = NULL;
        uint64_t set[1];
        support_fail_allocation(nth);
        kvt_status status = kvt_kvsel_open(path, NULL, NULL, &reader, NULL);
        if (status == KVT_OK)
            status = kvt_kvsel_cursor_new(reader, &cursor, NULL);
        if (status == KVT_OK)
            status = kvt_kvsel_cursor_read(cursor, 0, 0, set, 1, NULL);
        bool has_failed = support_allocation_failed();
        ck_assert(has_failed == (status != KVT_OK));
        kvt_kvsel_cursor_free(cursor);
        kvt_kvsel_close(reader);
        if (!has_failed)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kvsel_reader");
    TCase *cases = tcase_create("reader");
    tcase_add_checked_fixture(cases, folder_make, folder_remove);
    tcase_set_timeout(cases, 20);
    tcase_add_test(cases, a_note_of_any_length_is_given_back);
    tcase_add_test(cases, a_file_of_version_2_is_read_and_has_no_note);
    tcase_add_test(cases, a_note_too_long_is_refused_by_the_writer);
    tcase_add_test(cases, a_cursor_reads_what_was_written_in_any_order);
    tcase_add_test(cases, a_blocks_bytes_become_another_files);
    tcase_add_test(cases, opening_tells_how_far_it_is_and_stops_when_told);
    tcase_add_test(cases, a_file_that_changes_behind_its_reader_is_refused);
    tcase_add_test(cases, a_file_is_refused_with_its_offset_wherever_it_was_cut);
    tcase_add_test(cases, every_single_flipped_bit_is_refused_with_its_offset);
    tcase_add_test(cases, what_is_no_such_file_is_not_opened);
    tcase_add_test(cases, failed_allocations_leave_no_reader_and_no_memory);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
