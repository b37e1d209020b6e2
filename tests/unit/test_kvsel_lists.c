/* test_kvsel_lists.c -- lists of rows, as gaps and as lines, read by every kind of processor. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/kvsel_private.h"
#include "kvt/rng.h"

enum {
    ROWS = 5000,
    WORDS = (ROWS + 63) / 64
};

/* Each row with this chance, in percent. */
static void draw(struct kvt_rng *rng, uint32_t percent, uint32_t rows, uint64_t *set)
{
    memset(set, 0, KVSEL_SEGMENT_WORDS * sizeof *set);
    for (uint32_t row = 0; row < rows; row++) {
        if (kvt_rng_below(rng, 100) < percent)
            set[row / 64] |= UINT64_C(1) << row % 64;
    }
}

/* A block of one token, whose own selection is `own` and whose branch is `side`. */
static unsigned char *coded(const uint64_t *own, const uint64_t *side)
{
    struct kvt_kvsel_shape shape = {
        .top_k = 1, .first_rows = ROWS, .tokens_per_row = 8, .side_paths = 1, .side_tokens = 1};
    struct kvt_kvsel_coder *coder = kvt_kvsel_coder_new(&shape);
    unsigned char *block = NULL;
    ck_assert_int_eq(kvt_kvsel_coder_begin(coder, 0, 0, 1, NULL), KVT_OK);
    ck_assert_int_eq(kvt_kvsel_coder_add(coder, own, NULL, WORDS, NULL), KVT_OK);
    ck_assert_int_eq(kvt_kvsel_coder_add(coder, side, own, WORDS, NULL), KVT_OK);
    ck_assert_int_eq(kvt_kvsel_coder_finish(coder, &block, NULL), KVT_OK);
    kvt_kvsel_coder_free(coder);
    return block;
}

static bool is_of_lines(const struct kvsel_list *list)
{
    return kvsel_u32(list->header) > 0;
}

START_TEST(both_ways_of_writing_give_the_sets_back_on_every_processor)
{
    static const uint32_t percents[] = {0, 1, 2, 4, 8, 30, 100};
    uint32_t percent = percents[_i];
    struct kvt_rng rng = kvt_rng_stream(11, KVT_RNG_TEST, (uint64_t)_i);
    static uint64_t own[KVSEL_SEGMENT_WORDS], side[KVSEL_SEGMENT_WORDS], set[KVSEL_SEGMENT_WORDS];
    for (uint32_t rows = 1; rows <= ROWS; rows += 833) {
        draw(&rng, percent, rows, own);
        draw(&rng, percent, rows, side);
        unsigned char *block = coded(own, side);
        struct kvsel_list first = kvsel_list_at(block, 1, 0, 0);
        struct kvsel_list second = kvsel_list_at(block, 1, 1, 0);
        ck_assert(kvsel_list_is_sound(&first, ROWS) && kvsel_list_is_sound(&second, ROWS));
        for (int cpu = KVT_CPU_PLAIN; cpu <= (int)kvt_cpu_best(); cpu++) {
            memset(set, 0xa5, sizeof set);
            kvsel_begin(set, &first, WORDS, (enum kvt_cpu)cpu);
            ck_assert_mem_eq(set, own, WORDS * sizeof *set);
            kvsel_toggle(set, &second, (enum kvt_cpu)cpu);
            ck_assert_mem_eq(set, side, WORDS * sizeof *set);
            kvsel_begin(set, NULL, WORDS, (enum kvt_cpu)cpu);
            for (uint32_t w = 0; w < WORDS; w++)
                ck_assert_uint_eq(set[w], 0);
        }
        free(block);
    }
}
END_TEST

/* A line costs 8 bytes, and a byte for each byte that has a row; a gap costs a byte. */
START_TEST(dense_selections_are_lines_and_sparse_ones_gaps)
{
    struct kvt_rng rng = kvt_rng_stream(12, KVT_RNG_TEST, 0);
    static uint64_t own[KVSEL_SEGMENT_WORDS];
    for (uint32_t percent = 1; percent <= 10; percent++) {
        draw(&rng, percent, ROWS, own);
        unsigned char *block = coded(own, own);
        struct kvsel_list list = kvsel_list_at(block, 1, 0, 0);
        if (percent != 2) /* where the two are near each other */
            ck_assert_int_eq(is_of_lines(&list), percent > 2);
        free(block);
    }
}
END_TEST

/* The list in memory of its own, so that a read behind it is found. */
static void spoil(const struct kvsel_list *list, uint32_t at, unsigned char value)
{
    static uint64_t set[KVSEL_SEGMENT_WORDS];
    size_t bytes = KVSEL_LIST_HEADER_BYTES + (size_t)list->byte_count;
    unsigned char *copy = malloc(bytes);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, list->header, bytes);
    copy[at] = value;
    struct kvsel_list spoilt = {
        .header = copy, .bytes = copy + KVSEL_LIST_HEADER_BYTES, .byte_count = list->byte_count};
    if (kvsel_list_is_sound(&spoilt, ROWS)) {
        kvsel_begin(set, &spoilt, WORDS, kvt_cpu_best());
        ck_assert_uint_eq(set[WORDS - 1] >> ROWS % 64, 0);
    }
    free(copy);
}

START_TEST(a_spoilt_list_is_unsound_or_stays_within_its_rows)
{
    struct kvt_rng rng = kvt_rng_stream(13, KVT_RNG_TEST, 0);
    static uint64_t own[KVSEL_SEGMENT_WORDS];
    for (uint32_t percent = 1; percent <= 5; percent += 4) {
        draw(&rng, percent, ROWS, own);
        unsigned char *block = coded(own, own);
        struct kvsel_list list = kvsel_list_at(block, 1, 0, 0);
        for (uint32_t at = 0; at < KVSEL_LIST_HEADER_BYTES + list.byte_count; at++) {
            static const unsigned char values[] = {0, 1, 0x80, 0xff};
            for (size_t i = 0; i < sizeof values; i++)
                spoil(&list, at, values[i]);
        }
        free(block);
    }
}
END_TEST

START_TEST(lines_that_do_not_add_up_are_unsound)
{
    struct kvt_rng rng = kvt_rng_stream(14, KVT_RNG_TEST, 0);
    static uint64_t own[KVSEL_SEGMENT_WORDS];
    draw(&rng, 10, ROWS, own);
    own[WORDS - 1] |= UINT64_C(1) << (ROWS - 1) % 64;
    unsigned char *block = coded(own, own);
    struct kvsel_list list = kvsel_list_at(block, 1, 0, 0);
    ck_assert(is_of_lines(&list) && kvsel_list_is_sound(&list, ROWS));
    ck_assert(!kvsel_list_is_sound(&list, ROWS - 1));
    ck_assert(!kvsel_list_is_sound(&list, ROWS - 512));
    list.byte_count--;
    ck_assert(!kvsel_list_is_sound(&list, ROWS));
    list.byte_count = 7;
    ck_assert(!kvsel_list_is_sound(&list, ROWS));
    list.byte_count = 0;
    ck_assert(!kvsel_list_is_sound(&list, ROWS));
    free(block);
}
END_TEST

static Suite *kvsel_lists_suite(void)
{
    Suite *suite = suite_create("kvsel_lists");
    TCase *tcase = tcase_create("lists");
    tcase_add_loop_test(tcase, both_ways_of_writing_give_the_sets_back_on_every_processor, 0, 7);
    tcase_add_test(tcase, dense_selections_are_lines_and_sparse_ones_gaps);
    tcase_add_test(tcase, a_spoilt_list_is_unsound_or_stays_within_its_rows);
    tcase_add_test(tcase, lines_that_do_not_add_up_are_unsound);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(kvsel_lists_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
