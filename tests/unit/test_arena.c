/* test_arena.c -- memory that goes as a whole. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/arena.h"
#include "kvt/rng.h"
#include "support/support.h"

static bool is_zero(const unsigned char *bytes, size_t byte_count)
{
    for (size_t i = 0; i < byte_count; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

START_TEST(pieces_are_zeroed_aligned_and_apart)
{
    enum {
        PIECES = 2000
    };
    static unsigned char *pieces[PIECES];
    static size_t sizes[PIECES];
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, 0);
    struct kvt_arena *arena = kvt_arena_new(100);
    ck_assert_ptr_nonnull(arena);
    size_t asked_bytes = 0;
    for (size_t i = 0; i < PIECES; i++) {
        size_t align_bytes = (size_t)1 << kvt_rng_below(&rng, 9);
        sizes[i] = kvt_rng_below(&rng, 300);
        pieces[i] = kvt_arena_alloc(arena, sizes[i], align_bytes);
        ck_assert_ptr_nonnull(pieces[i]);
        ck_assert_uint_eq((uintptr_t)pieces[i] % align_bytes, 0);
        ck_assert(is_zero(pieces[i], sizes[i]));
        memset(pieces[i], (int)(i % 251) + 1, sizes[i]);
        asked_bytes += sizes[i];
    }
    for (size_t i = 0; i < PIECES; i++) {
        for (size_t at = 0; at < sizes[i]; at++) {
            if (pieces[i][at] != i % 251 + 1)
                ck_abort_msg("piece %zu was overwritten", i);
        }
    }
    ck_assert_uint_eq(kvt_arena_used_bytes(arena), asked_bytes);
    kvt_arena_free(arena);
}
END_TEST

START_TEST(a_piece_larger_than_any_block_fits)
{
    struct kvt_arena *arena = kvt_arena_new(0);
    ck_assert_ptr_nonnull(arena);
    unsigned char *piece = kvt_arena_alloc(arena, 5000000, 4096);
    ck_assert_ptr_nonnull(piece);
    ck_assert_uint_eq((uintptr_t)piece % 4096, 0);
    piece[4999999] = 1;
    ck_assert_ptr_nonnull(kvt_arena_alloc(arena, 16, 16));
    kvt_arena_free(arena);
}
END_TEST

START_TEST(pieces_of_no_bytes_have_addresses_of_their_own)
{
    struct kvt_arena *arena = kvt_arena_new(0);
    const void *a = kvt_arena_alloc(arena, 0, 1);
    const void *b = kvt_arena_alloc(arena, 0, 1);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    ck_assert_ptr_ne(a, b);
    kvt_arena_free(arena);
}
END_TEST

START_TEST(sizes_that_overflow_are_refused_without_effect)
{
    struct kvt_arena *arena = kvt_arena_new(4096);
    ck_assert_ptr_null(kvt_arena_array(arena, SIZE_MAX / 2, 3, 8));
    ck_assert_ptr_null(kvt_arena_array(arena, SIZE_MAX, SIZE_MAX, 8));
    ck_assert_ptr_null(kvt_arena_alloc(arena, SIZE_MAX, 8));
    ck_assert_ptr_null(kvt_arena_alloc(arena, SIZE_MAX - 16, 8));
    ck_assert_uint_eq(kvt_arena_used_bytes(arena), 0);
    ck_assert_ptr_nonnull(kvt_arena_array(arena, 7, 24, 8));
    ck_assert_ptr_nonnull(kvt_arena_array(arena, 7, 0, 8));
    ck_assert_uint_eq(kvt_arena_used_bytes(arena), 168);
    kvt_arena_free(arena);
}
END_TEST

START_TEST(an_alignment_that_is_no_power_of_two_is_refused)
{
    struct kvt_arena *arena = kvt_arena_new(4096);
    ck_assert_ptr_null(kvt_arena_alloc(arena, 8, 0));
    ck_assert_ptr_null(kvt_arena_alloc(arena, 8, 24));
    kvt_arena_free(arena);
}
END_TEST

START_TEST(text_is_copied_and_formatted_at_any_length)
{
    struct kvt_arena *arena = kvt_arena_new(0);
    char source[] = "glm-5.3";
    const char *copy = kvt_arena_strdup(arena, source);
    source[0] = 'x';
    ck_assert_str_eq(copy, "glm-5.3");
    ck_assert_str_eq(kvt_arena_strdup(arena, ""), "");
    ck_assert_str_eq(kvt_arena_printf(arena, "%s:%d", copy, 17), "glm-5.3:17");
    const char *wide = kvt_arena_printf(arena, "%10000d", 5);
    ck_assert_uint_eq(strlen(wide), 10000);
    ck_assert_int_eq(wide[9999], '5');
    kvt_arena_free(arena);
}
END_TEST

START_TEST(short_memory_is_null_and_leaves_the_arena_usable)
{
    if (!support_can_fail_allocations())
        return;
    support_fail_allocation(0);
    ck_assert_ptr_null(kvt_arena_new(100));
    ck_assert(support_allocation_failed());
    support_fail_allocation(1);
    ck_assert_ptr_null(kvt_arena_new(100));
    ck_assert(support_allocation_failed());

    struct kvt_arena *arena = kvt_arena_new(0);
    support_fail_allocation(0);
    void *piece = kvt_arena_alloc(arena, 100000, 8);
    ck_assert(support_allocation_failed());
    ck_assert_ptr_null(piece);
    ck_assert_uint_eq(kvt_arena_used_bytes(arena), 0);
    ck_assert_ptr_nonnull(kvt_arena_alloc(arena, 100000, 8));
    kvt_arena_free(arena);
    kvt_arena_free(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *pieces = tcase_create("pieces");
    tcase_add_test(pieces, pieces_are_zeroed_aligned_and_apart);
    tcase_add_test(pieces, a_piece_larger_than_any_block_fits);
    tcase_add_test(pieces, pieces_of_no_bytes_have_addresses_of_their_own);
    tcase_add_test(pieces, sizes_that_overflow_are_refused_without_effect);
    tcase_add_test(pieces, an_alignment_that_is_no_power_of_two_is_refused);
    tcase_add_test(pieces, text_is_copied_and_formatted_at_any_length);
    tcase_add_test(pieces, short_memory_is_null_and_leaves_the_arena_usable);
    suite_add_tcase(suite, pieces);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
