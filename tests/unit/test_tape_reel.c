/* test_tape_reel.c -- what a reel holds is what its process selected. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../../models/law/score_process.h"
#include "../../models/law/tape_reel.h"
#include "kvt/law.h"
#include "support/law_setting.h"

extern const struct kvt_law kvt_law_tape;

static struct score_kin kin_of(uint64_t key)
{
    return (struct score_kin){.keys = {key, key + 1, key + 2}, .is_alone = 1};
}

static void process_init(struct reel_process *process, uint32_t top_k)
{
    struct law_setting setting;
    law_setting_init(&setting, &kvt_law_tape, top_k);
    ck_assert_int_eq(score_shape_init(&process->shape, &setting.env.params, top_k, "test", NULL),
                     KVT_OK);
    process->gauss = score_gauss_new();
    ck_assert_ptr_nonnull(process->gauss);
}

static void process_fini(struct reel_process *process)
{
    free((float *)process->gauss);
}

/* The place's selection against `expected`, which sees so many rows. */
static void check_place(const struct reel *reel, struct kvt_kvsel_place place,
                        const uint64_t *expected, uint32_t visible)
{
    uint32_t first = reel->selections.shape.first_rows;
    struct kvt_kvsel_map map = {.old_rows = first, .stream_rows = first};
    size_t words = kvt_row_words(visible);
    uint64_t *set = malloc(words * sizeof *set), *sets[] = {set};
    ck_assert_ptr_nonnull(set);
    kvt_kvsel_read(&reel->selections, &place, 1, &map, sets, words);
    ck_assert_mem_eq(set, expected, words * sizeof *set);
    free(set);
}

/* Every selection of the reel against the process itself, asked step by step. */
static void check_reel(const struct reel *reel, const struct reel_process *process)
{
    const struct kvt_kvsel_shape *shape = &reel->selections.shape;
    uint32_t last = reel->recorded + shape->side_tokens;
    struct score_extent extent = {.rows_max = kvt_kvsel_visible(shape, last),
                                  .top_k = shape->top_k,
                                  .tokens_per_row = shape->tokens_per_row};
    struct score_stream *side = calloc(1, score_stream_bytes(&extent));
    extent.loop_tokens = reel->selections.token_count;
    struct score_stream *main = malloc(score_stream_bytes(&extent));
    uint64_t *set = malloc(kvt_row_words(extent.rows_max) * sizeof *set);
    ck_assert(main != NULL && side != NULL && set != NULL);
    score_stream_init(main, &process->shape, process->gauss, &reel->kin, &extent);
    for (uint32_t step = 0; step < reel->recorded; step++) {
        uint32_t visible = kvt_kvsel_visible(shape, step);
        score_stream_select(main, &process->shape, NULL, visible, set);
        check_place(reel, (struct kvt_kvsel_place){.token = step}, set, visible);
        for (uint32_t path = 1; path <= shape->side_paths; path++) {
            score_stream_fork(main, path, side);
            for (uint32_t i = 0; i < shape->side_tokens; i++) {
                visible = kvt_kvsel_visible(shape, step + 1 + i);
                score_stream_select(side, &process->shape, NULL, visible, set);
                check_place(reel, (struct kvt_kvsel_place){step, path, i}, set, visible);
            }
        }
    }
    free(main);
    free(side);
    free(set);
}

static const struct kvt_kvsel_shape reel_shapes[] = {
    /* Two rows in 300,000: gaps of many times eight bits are the rule. */
    {.top_k = 2, .first_rows = 300000, .tokens_per_row = 1},
    {.top_k = 150, .first_rows = 2000, .tokens_per_row = 1, .side_paths = 1, .side_tokens = 7},
    {.top_k = 1, .first_rows = 700, .tokens_per_row = 2, .side_paths = 3, .side_tokens = 1},
    {.top_k = 90, .first_rows = 90, .tokens_per_row = 4, .side_paths = 2, .side_tokens = 3},
};

START_TEST(a_reel_reads_back_what_the_process_selected)
{
    const struct kvt_kvsel_shape *shape = &reel_shapes[_i];
    struct reel_process process;
    process_init(&process, shape->top_k);
    struct score_kin kin = kin_of(77);
    struct reel *reel = reel_new(&kin, shape, 100);
    ck_assert_uint_eq(reel->selections.token_count, 128);
    ck_assert_int_eq(reel_record(reel, &process, 1, NULL), KVT_OK);
    ck_assert_uint_eq(reel->recorded, 64);
    check_reel(reel, &process);
    ck_assert_int_eq(reel_record(reel, &process, 65, NULL), KVT_OK);
    ck_assert_ptr_null(reel->recorder);
    check_reel(reel, &process);
    reel->wanted = 128;
    uint64_t bytes = reel_bytes(reel), expected = reel_bytes_expected(reel, 128);
    ck_assert_uint_ge(expected, bytes / 2);
    ck_assert_uint_le(expected, bytes * 3 + 8192);
    reel_free(reel);
    process_fini(&process);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tape_reel");
    TCase *tcase = tcase_create("reels");
    tcase_add_loop_test(tcase, a_reel_reads_back_what_the_process_selected, 0,
                        sizeof reel_shapes / sizeof reel_shapes[0]);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
