/* test_gather_rows.c -- rows of a gather, what of them is translated, and their features. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/measure/gather_rows.h"
#include "support/support.h"

static struct kvt_arena *arena;

static struct grid_gather gather_of(double pool_gib, bool is_shuffled, bool is_sorted)
{
    return (struct grid_gather){.name = "test",
                                .row_bytes = 576,
                                .requests = 8,
                                .rows_each = 100,
                                .pool_gib = pool_gib,
                                .is_shuffled = is_shuffled,
                                .is_sorted = is_sorted};
}

static uint32_t *drawn(const struct grid_gather *gather)
{
    struct kvt_error err = {0};
    uint32_t *rows = NULL;
    ck_assert_msg(gather_draw(gather, &rows, &err) == KVT_OK, "%s", err.message);
    return rows;
}

static struct gather_translations translations(const struct grid_gather *gather,
                                               const uint32_t *rows)
{
    struct kvt_error err = {0};
    struct gather_translations found;
    ck_assert_int_eq(gather_translate(gather, rows, &found, &err), KVT_OK);
    ck_assert_double_le(found.blocks, found.granules);
    ck_assert_double_le(found.far_granules, found.granules);
    return found;
}

static double translated(const struct grid_gather *gather, const uint32_t *rows)
{
    return translations(gather, rows).granules;
}

START_TEST(rows_of_a_call_are_its_own_and_in_the_order_that_was_asked_for)
{
    const struct grid_gather gather = gather_of(4, _i & 1, _i & 2);
    uint32_t *rows = drawn(&gather);
    size_t rising = 0, contexts = GATHER_LISTS * gather.requests, pool = 4 * KVT_GIB / 576;
    size_t calls = GATHER_STEPS * contexts;

    for (size_t call = 0; call < calls; call++) {
        const uint32_t *own = rows + call * gather.rows_each;
        const uint32_t *before = own - contexts * gather.rows_each;
        if (call >= contexts) /* the step before missed other rows */
            ck_assert_mem_ne(own, before, gather.rows_each * sizeof *own);
        size_t foreign = 0, repeated = 0;
        for (size_t i = 0; i < gather.rows_each; i++) {
            foreign +=
                gather.is_shuffled ? own[i] >= pool : own[i] / (pool / contexts) != call % contexts;
            for (size_t j = 0; j < i && !gather.is_shuffled; j++)
                repeated += own[i] == own[j];
            rising += i > 0 && own[i] >= own[i - 1];
        }
        ck_assert_uint_eq(foreign + repeated, 0);
    }
    size_t steps = calls * (gather.rows_each - 1);
    if (gather.is_sorted)
        ck_assert_uint_eq(rising, steps);
    else
        ck_assert_double_eq_tol((double)rising / (double)steps, 0.5, 0.02);
    free(rows);
}
END_TEST

START_TEST(a_pool_that_is_known_is_not_translated_again)
{
    const struct grid_gather gather = gather_of(0.45, true, false); /* 7,373 granules */
    uint32_t *rows = drawn(&gather);

    /* A list touches some 450, of contexts that have 620: what the first step left out is met in
     * the next ones, once. */
    ck_assert_double_lt(translated(&gather, rows), 620 / 5.0);
    free(rows);
}
END_TEST

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Lists that between them touch far more than is kept: each translates what it touches. */
START_TEST(a_list_of_a_large_pool_translates_each_granule_once)
{
    struct grid_gather gather = gather_of(40, true, true);
    double distinct = 0;
    gather.requests = 32;
    uint32_t *rows = drawn(&gather);
    size_t of_list = gather.requests * gather.rows_each, count = 0;
    uint64_t *granules = calloc(2 * of_list, sizeof *granules);

    for (size_t i = 0; i < of_list; i++) {
        uint64_t first = (uint64_t)rows[i] * 576 / 65536;
        uint64_t last = ((uint64_t)rows[i] * 576 + 575) / 65536;
        granules[count++] = first;
        if (last > first)
            granules[count++] = last;
    }
    qsort(granules, count, sizeof *granules, compare);
    for (size_t i = 0; i < count; i++)
        distinct += i == 0 || granules[i] != granules[i - 1];
    /* Of 21 lists, so that a few per cent are met again by chance. */
    ck_assert_double_gt(translated(&gather, rows), 0.9 * distinct);
    ck_assert_double_le(translated(&gather, rows), 1.02 * distinct);
    free(granules);
    free(rows);
}
END_TEST

static const struct {
    double pool_gib;
    uint64_t requests;
    bool is_shuffled;
    double granules; /* that contexts of 21 lists lie in; 262,144 are 16 GiB */
    double within;   /* of the share that is far */
} memories[] = {
    /* 168 contexts of 102,400 rows of 576 B, 900 granules each: all near. */
    {10, 8, false, 262144, 1e-12},
    /* 672 such, 110,960 rows apart, which is 975 granules and 15,360 B: all but each 64th lie
     * across the ends of 901. */
    {40, 32, false, 672 * 901 - 11, 1e-9},
    /* 672 contexts of 89,995 rows, side by side, to 1,993 B before the end of the last granule. */
    {672 * 89995 * 576.0 / (1 << 30), 32, false, 531533, 1e-9},
    /* 1,075,200 pages of 36,864 B, each at one of 2,330,168 places: exp(-.46143) = .63038 of these
     * are empty. Of 1,310,720 granules a third touches 2 places, the others 3; nothing lies in
     * .33333 * .39738 + .66667 * .25050 = .29946. */
    {80, 32, true, 1310720 * (1 - .29946), 1e-3},
};

START_TEST(what_lies_beyond_16_gib_is_far)
{
    struct grid_gather gather = gather_of(memories[_i].pool_gib, memories[_i].is_shuffled, false);
    gather.requests = memories[_i].requests;
    uint32_t *rows = drawn(&gather);
    const struct gather_translations found = translations(&gather, rows);

    ck_assert_double_eq_tol(found.far_granules / found.granules, 1 - 262144 / memories[_i].granules,
                            memories[_i].within);
    free(rows);
}
END_TEST

/* 32 requests miss 100 rows of 576 B, on each of two GPUs, beside more than they fetch. */
START_TEST(features_of_a_gather_are_a_lists)
{
    struct grid_gather gather = gather_of(40, false, false);
    struct kvt_error err = {0};
    double f[KVT_FEATURES] = {0};
    const double mib = 1 << 20, wire = 3200 * 576;
    gather.requests = 32;
    gather.gpus = 2;
    gather.inbound_mib = 30;
    gather.outbound_mib = 7;
    uint32_t *rows = drawn(&gather);
    const struct gather_translations found = translations(&gather, rows);

    ck_assert_int_eq(gather_features(&gather, rows, f, &err), KVT_OK);
    ck_assert_double_eq(f[KVT_FEATURE_MISSED_ROWS], 3200);
    ck_assert_double_eq(f[KVT_FEATURE_WIRE_BYTES], wire);
    ck_assert_double_eq(f[KVT_FEATURE_INBOUND_BYTES], 30 * mib);
    ck_assert_double_eq(f[KVT_FEATURE_OUTBOUND_BYTES], 7 * mib);
    ck_assert_double_eq(f[KVT_FEATURE_NODE_BYTES], 2 * (wire + 37 * mib));
    ck_assert_double_eq(f[KVT_FEATURE_GATHERING_GPUS], 2);
    ck_assert_double_eq(f[KVT_FEATURE_FETCHES], 1);
    ck_assert_double_eq(f[KVT_FEATURE_GRANULES], found.granules);
    ck_assert_double_eq(f[KVT_FEATURE_GRANULE_BLOCKS], found.blocks);
    ck_assert_double_eq(f[KVT_FEATURE_FAR_GRANULES], found.far_granules);
    free(rows);
}
END_TEST

START_TEST(contexts_that_are_too_short_are_refused)
{
    struct grid_gather gather = gather_of(0.125, false, true);
    struct kvt_error err = {0};
    uint32_t *rows = NULL;

    gather.rows_each = 2000; /* of 1,387 */
    ck_assert_int_eq(gather_draw(&gather, &rows, &err), KVT_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "2000 rows of contexts of 1387"));
}
END_TEST

static const struct {
    const char *gpus; /* behind the other keys of a gather */
    uint64_t found;   /* 0: refused */
} gpus_of_a_gather[] = {{"", 1},
                        {", \"gpus\": 1", 1},
                        {", \"gpus\": 2", 2},
                        {", \"gpus\": 8", 8},
                        {", \"gpus\": 0", 0},
                        {", \"gpus\": 9", 0},
                        {", \"gpus\": \"2\"", 0}};

START_TEST(a_gather_is_of_one_gpu_unless_it_says_more)
{
    struct support_folder folder;
    char path[SUPPORT_PATH_BYTES];
    struct grid *grid = NULL;
    struct kvt_error err = {0};

    support_folder_make(&folder);
    FILE *file = fopen(support_path(&folder, "grid.json", path), "w");
    ck_assert_ptr_nonnull(file);
    fprintf(
        file,
        "{\"schema\": \"kvtide/grid/1\", \"name\": \"g\", \"summary\": \"s\", \"scenario\": {}, "
        "\"runs\": [{\"name\": \"r\", \"sets\": [], \"steps\": 1}], \"gathers\": [{\"name\": "
        "\"g\", \"row_bytes\": 576, \"pool_gib\": 1, \"contexts\": \"shuffled\", \"order\": "
        "\"random\", \"requests\": 32, \"rows\": 300%s}]}",
        gpus_of_a_gather[_i].gpus);
    ck_assert_int_eq(fclose(file), 0);
    kvt_status status = grid_load(path, arena, &grid, &err);
    if (gpus_of_a_gather[_i].found > 0) {
        ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
        ck_assert_uint_eq(grid->gathers[0].gpus, gpus_of_a_gather[_i].found);
    } else {
        ck_assert_int_eq(status, KVT_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(err.where, "gathers/0"));
    }
    support_folder_remove(&folder);
}
END_TEST

static void make_arena(void)
{
    arena = kvt_arena_new(1 << 16);
}

static void free_arena(void)
{
    kvt_arena_free(arena);
}

int main(void)
{
    Suite *suite = suite_create("gather_rows");
    TCase *rows = tcase_create("rows");
    TCase *grids = tcase_create("grids");
    SRunner *runner = srunner_create(suite);

    tcase_add_loop_test(rows, rows_of_a_call_are_its_own_and_in_the_order_that_was_asked_for, 0, 4);
    tcase_add_test(rows, a_pool_that_is_known_is_not_translated_again);
    tcase_add_test(rows, a_list_of_a_large_pool_translates_each_granule_once);
    tcase_add_loop_test(rows, what_lies_beyond_16_gib_is_far, 0,
                        sizeof memories / sizeof memories[0]);
    tcase_add_test(rows, features_of_a_gather_are_a_lists);
    tcase_add_test(rows, contexts_that_are_too_short_are_refused);
    tcase_add_checked_fixture(grids, make_arena, free_arena);
    tcase_add_loop_test(grids, a_gather_is_of_one_gpu_unless_it_says_more, 0,
                        sizeof gpus_of_a_gather / sizeof gpus_of_a_gather[0]);
    suite_add_tcase(suite, rows);
    suite_add_tcase(suite, grids);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
