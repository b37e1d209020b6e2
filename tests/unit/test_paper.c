/* test_paper.c -- how near a value has to come to the paper's, what a target asks of which point,
 * and what its file may say; on made-up targets and points. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "cli/paper/paper.h"
#include "kvt/json.h"
#include "support/support.h"

enum {
    TEXT_BYTES = 4096,
    POINTS_MAX = 8
};

/* One target from JSON, over points whose trees are JSON too. */
struct world {
    struct kvt_arena *arena;
    cJSON *file;
    struct paper paper;
    struct paper_point points[POINTS_MAX];
    struct kvt_error err;
    kvt_status status;
};

/* members: of the target, behind its id, class and texts. */
static void world_open(struct world *world, const char *class_of, const char *members)
{
    char text[TEXT_BYTES];

    *world = (struct world){.arena = kvt_arena_new(1 << 16)};
    ck_assert_ptr_nonnull(world->arena);
    (void)snprintf(text, sizeof text,
                   "{\"schema\": \"kvtide/paper-targets/1\", \"name\": \"made-up\", "
                   "\"summary\": \"of a test\", \"targets\": [{\"id\": \"X.y\", \"class\": \"%s\", "
                   "\"statement\": \"s\", \"unit\": \"u\", \"source\": \"here\"%s%s}]}",
                   class_of, members[0] != '\0' ? ", " : "", members);
    world->status =
        kvt_json_parse(text, strlen(text), "made-up.json", 1, &world->file, &world->err);
    ck_assert_msg(world->status == KVT_OK, "%s", world->err.message);
    world->paper.points = world->points;
    world->status =
        paper_read_targets(world->file, "made-up.json", world->arena, &world->paper, &world->err);
}

/* tree: JSON; NULL: the point has nothing to give. */
static void world_add(struct world *world, const char *id, const char *family, double x,
                      const char *tree)
{
    struct paper_point *point = &world->points[world->paper.point_count++];

    *point = (struct paper_point){.id = id, .family = family, .x = x};
    if (tree != NULL)
        ck_assert_int_eq(kvt_json_parse(tree, strlen(tree), id, 1, &point->tree, &world->err),
                         KVT_OK);
}

static void world_close(struct world *world)
{
    for (size_t i = 0; i < world->paper.point_count; i++)
        cJSON_Delete(world->points[i].tree);
    cJSON_Delete(world->file);
    kvt_arena_free(world->arena);
}

static struct paper_verdict verdict_of(struct world *world, struct paper_value *value)
{
    struct paper_verdict verdict;

    ck_assert_msg(world->status == KVT_OK, "%s", world->err.message);
    world->status =
        paper_value_of(&world->paper, &world->paper.targets[0], world->arena, value, &world->err);
    ck_assert_msg(world->status == KVT_OK, "%s: %s", world->err.where, world->err.message);
    paper_judge_value(&world->paper.targets[0], value, &verdict);
    return verdict;
}

/* ---- How near --------------------------------------------------------------------------- */

static const struct near_case {
    const char *value, *tolerance;
    double ours[2];
    size_t count;
    enum paper_verdict_kind kind;
    double error;
} near_cases[] = {
    /* As it is printed: what rounds to the digits, and what is one digit off. */
    {"0.432", "\"decimals\": 3", {0.43249}, 1, PAPER_WITHIN, 0.43249 / 0.432 - 1},
    {"0.432", "\"decimals\": 3", {0.43151}, 1, PAPER_WITHIN, 0.43151 / 0.432 - 1},
    {"0.432", "\"decimals\": 3", {0.43251}, 1, PAPER_OUTSIDE, 0.43251 / 0.432 - 1},
    {"0.432", "\"decimals\": 3", {0.4314}, 1, PAPER_OUTSIDE, 0.4314 / 0.432 - 1},
    {"6", "\"decimals\": 0", {5.898}, 1, PAPER_WITHIN, 5.898 / 6 - 1},
    {"6", "\"decimals\": 0", {5.49}, 1, PAPER_OUTSIDE, 5.49 / 6 - 1},
    {"1.14", "\"decimals\": 2", {1.1}, 1, PAPER_OUTSIDE, 1.1 / 1.14 - 1},
    /* The bound itself is within, whatever its last binary digit. */
    {"50.3", "\"rel\": 0.03", {50.3 * 1.03}, 1, PAPER_WITHIN, 0.03},
    {"50.3", "\"rel\": 0.03", {51.81}, 1, PAPER_OUTSIDE, 51.81 / 50.3 - 1},
    {"121.1", "\"abs\": 3", {118.1}, 1, PAPER_WITHIN, 118.1 / 121.1 - 1},
    {"121.1", "\"abs\": 3", {118.0}, 1, PAPER_OUTSIDE, 118.0 / 121.1 - 1},
    {"208", "\"abs\": 0", {208}, 1, PAPER_WITHIN, 0},
    {"208", "\"abs\": 0", {207}, 1, PAPER_OUTSIDE, 207 / 208. - 1},
    {"0.9992", "\"min\": 0.99", {0.9901}, 1, PAPER_WITHIN, 0.9901 / 0.9992 - 1},
    {"0.9992", "\"min\": 0.99", {0.9899}, 1, PAPER_OUTSIDE, 0.9899 / 0.9992 - 1},
    /* Several, each in its place. */
    {"[2, 16]", "\"abs\": 0", {2, 16}, 2, PAPER_WITHIN, 0},
    {"[2, 16]", "\"abs\": 0", {16, 2}, 2, PAPER_OUTSIDE, 7},
    {"[2, 16]", "\"abs\": 0", {2}, 1, PAPER_OUTSIDE, 0},
    /* A range: inside, near an end, past it; how many of ours there are does not matter. */
    {"[24, 28]", "\"range_abs\": 2", {27.3}, 1, PAPER_WITHIN, 0},
    {"[24, 28]", "\"range_abs\": 2", {22.5, 29.5}, 2, PAPER_WITHIN, 22.5 / 24 - 1},
    {"[24, 28]", "\"range_abs\": 2", {25.3, 31.4}, 2, PAPER_OUTSIDE, 31.4 / 28 - 1},
    {"[2.4, 2.5]", "\"range_rel\": 0.03", {2.35}, 1, PAPER_WITHIN, 2.35 / 2.4 - 1},
    {"[2.4, 2.5]", "\"range_rel\": 0.03", {2.6}, 1, PAPER_OUTSIDE, 2.6 / 2.5 - 1},
    /* What is no number at all is nowhere near. */
    {"6", "\"abs\": 1e9", {NAN}, 1, PAPER_OUTSIDE, NAN},
};

START_TEST(a_value_is_held_to_what_is_printed_and_no_closer)
{
    const struct near_case *item = &near_cases[_i];
    char members[256];
    struct world world;
    struct paper_verdict verdict;
    struct paper_value value = {.count = item->count};

    memcpy(value.numbers, item->ours, sizeof item->ours);
    (void)snprintf(members, sizeof members,
                   "\"value\": %s, \"tolerance\": {%s}, \"ours\": {\"point\": \"p\", "
                   "\"at\": \"a\"}",
                   item->value, item->tolerance);
    world_open(&world, "P", members);
    ck_assert_msg(world.status == KVT_OK, "%s", world.err.message);
    paper_judge_value(&world.paper.targets[0], &value, &verdict);
    ck_assert_msg(verdict.kind == item->kind, "case %d: %s", _i, paper_verdict_name(verdict.kind));
    if (isnan(item->error))
        ck_assert(isnan(verdict.error));
    else
        ck_assert_double_eq_tol(verdict.error, item->error, 1e-12);
    world_close(&world);
}
END_TEST

START_TEST(what_is_not_here_is_neither_within_nor_outside)
{
    struct world world;
    struct paper_value value;

    world_open(&world, "P",
               "\"value\": 49.4, \"tolerance\": {\"rel\": 0.01}, \"ours\": {\"point\": \"gpu\", "
               "\"named\": \"slope\", \"at\": \"gb_per_s\"}");
    world_add(&world, "gpu", "gpu", NAN, NULL);
    ck_assert_int_eq(verdict_of(&world, &value).kind, PAPER_NOT_MEASURED);
    world_close(&world);
}
END_TEST

START_TEST(what_nothing_published_decides_has_no_verdict_of_its_own)
{
    struct world world;
    struct paper_value value;

    world_open(&world, "U",
               "\"value\": 1.85, \"tolerance\": {\"rel\": 0.15}, \"ours\": {\"point\": \"a\", "
               "\"at\": \"x\"}");
    world_add(&world, "a", "a", NAN, "{\"x\": 1.851}");
    ck_assert_int_eq(verdict_of(&world, &value).kind, PAPER_NOT_IDENTIFIABLE);
    world_close(&world);
}
END_TEST

/* ---- Which number ----------------------------------------------------------------------- */

START_TEST(a_ratio_is_of_two_points_and_a_unit_divides)
{
    struct world world;
    struct paper_value value;

    world_open(&world, "P",
               "\"value\": 1.5, \"tolerance\": {\"abs\": 0}, \"ours\": {\"point\": \"a/4\", "
               "\"at\": \"phases.1.output\", \"divide\": 1000, \"over\": {\"point\": \"b\", "
               "\"at\": \"phases.0.output\"}}");
    world_add(&world, "a/4", "a", 4, "{\"phases\": [{\"output\": 1}, {\"output\": 4500}]}");
    world_add(&world, "b", "b", NAN, "{\"phases\": [{\"output\": 3}]}");
    ck_assert_int_eq(verdict_of(&world, &value).kind, PAPER_WITHIN);
    ck_assert_uint_eq(value.count, 1);
    ck_assert_double_eq_tol(value.numbers[0], 1.5, 1e-15);
    world_close(&world);
}
END_TEST

START_TEST(a_measured_figure_is_found_by_its_whole_name)
{
    struct world world;
    struct paper_value value;

    world_open(&world, "P",
               "\"value\": 0.9992, \"tolerance\": {\"min\": 0.99}, \"ours\": {\"point\": \"gpu\", "
               "\"named\": \"slope\", \"at\": \"r2\"}");
    world_add(&world, "gpu", "gpu", NAN,
              "{\"commands\": [{\"results\": [{\"name\": \"slope, steep\", \"r2\": 0.1}]}, "
              "{\"results\": [{\"name\": \"slope\", \"r2\": 0.995}]}]}");
    ck_assert_int_eq(verdict_of(&world, &value).kind, PAPER_WITHIN);
    ck_assert_double_eq(value.numbers[0], 0.995);
    world_close(&world);
}
END_TEST

static const char *const refused_ours[] = {
    "{\"point\": \"nobody\", \"at\": \"x\"}",
    "{\"point\": \"a\", \"at\": \"y\"}",
    "{\"point\": \"a\", \"at\": \"x\", \"path\": \"x\"}",
    "{\"judge\": \"guess\", \"points\": [\"a\"]}",
    "{\"judge\": \"property\"}",
    "{\"judge\": \"property\", \"points\": [\"b\"]}",
    "{\"at\": \"x\"}",
    "{\"point\": \"a\", \"at\": \"x\", \"over\": {\"point\": \"a\", \"at\": \"x\", \"by\": 2}}",
};

START_TEST(a_target_that_asks_for_what_no_point_gives_is_a_fault_of_the_file)
{
    char members[512];
    struct world world;
    struct paper_value value;

    (void)snprintf(members, sizeof members,
                   "\"value\": 1, \"tolerance\": {\"abs\": 0}, \"ours\": %s", refused_ours[_i]);
    world_open(&world, "E", members);
    world_add(&world, "a", "a", NAN, "{\"x\": 1}");
    ck_assert_int_eq(world.status, KVT_OK);
    world.status =
        paper_value_of(&world.paper, &world.paper.targets[0], world.arena, &value, &world.err);
    ck_assert_int_ne(world.status, KVT_OK);
    ck_assert_msg(strncmp(world.err.where, "made-up.json#/targets/0", 23) == 0, "%s",
                  world.err.where);
    world_close(&world);
}
END_TEST

/* ---- Judges ----------------------------------------------------------------------------- */

/* Output of blocks 4 and 8 at two loads. */
static void open_blocks(struct world *world, double few_4, double many_8)
{
    char tree[128];
    const struct {
        const char *id, *family;
        double x, output;
    } points[] = {{"block-4/8", "block-4", 8, few_4},
                  {"block-4/64", "block-4", 64, 500},
                  {"block-8/8", "block-8", 8, 100},
                  {"block-8/64", "block-8", 64, many_8}};

    world_open(world, "P",
               "\"value\": [8, 4], \"tolerance\": {\"of_best\": 0.02}, \"ours\": "
               "{\"judge\": \"best_blocks\", \"families\": [\"block-4\", \"block-8\"]}");
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(tree, sizeof tree,
                       "{\"metrics\": {\"output_throughput_per_gpu\": %g, \"tokens_per_round\": "
                       "2}}",
                       points[i].output);
        world_add(world, points[i].id, points[i].family, points[i].x, tree);
    }
}

START_TEST(the_papers_block_is_the_best_or_within_its_share_of_it)
{
    const struct {
        double few_4, many_8;
        enum paper_verdict_kind kind;
    } cases[] = {{90, 450, PAPER_WITHIN},
                 {101.9, 450, PAPER_WITHIN}, /* 8 is 1.9 % behind */
                 {102.2, 450, PAPER_OUTSIDE},
                 {90, 511, PAPER_OUTSIDE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world world;
        struct paper_value value;
        open_blocks(&world, cases[i].few_4, cases[i].many_8);
        ck_assert_int_eq(verdict_of(&world, &value).kind, cases[i].kind);
        ck_assert_uint_eq(value.count, 2);
        ck_assert_double_eq(value.numbers[0], cases[i].few_4 > 100 ? 4 : 8);
        world_close(&world);
    }
}
END_TEST

static const struct property_case {
    const char *tree;
    enum paper_verdict_kind kind;
} property_cases[] = {
    {"{\"y\": {\"checks\": 10, \"faults\": 0, \"occasions\": 3, \"what\": \"w\"}}",
     PAPER_HOLDS_TRUE},
    {"{\"y\": {\"checks\": 10, \"faults\": 1, \"occasions\": 3, \"what\": \"w\"}}", PAPER_FAILS},
    {"{\"y\": {\"checks\": 10, \"faults\": 0, \"occasions\": 0, \"what\": \"w\"}}", PAPER_FAILS},
    {"{\"y\": {\"checks\": 0, \"faults\": 0, \"occasions\": 3, \"what\": \"w\"}}", PAPER_FAILS},
    {"{\"z\": {}}", PAPER_FAILS},
};

START_TEST(a_property_holds_only_where_it_was_looked_for_and_came_up)
{
    struct world world;
    struct paper_value value;

    world_open(&world, "E",
               "\"value\": null, \"ours\": {\"judge\": \"property\", \"points\": [\"watched\"]}");
    world_add(&world, "watched", "watched", NAN, property_cases[_i].tree);
    ck_assert_int_eq(verdict_of(&world, &value).kind, property_cases[_i].kind);
    world_close(&world);
}
END_TEST

START_TEST(latency_bounds_are_met_by_the_largest_load_that_meets_both)
{
    struct world world;
    struct paper_value value;
    const struct {
        const char *id, *family;
        double x, tpot_ms, ttft_ms;
    } points[] = {{"slow/16", "slow", 16, 29, 1000},
                  {"slow/64", "slow", 64, 45, 1000},
                  {"fast/32", "fast", 32, 28, 1000},
                  {"fast/64", "fast", 64, 29.5, 9000},
                  {"fast/256", "fast", 256, 29, 60000}}; /* nobody waits a minute */
    char tree[128];

    world_open(&world, "P",
               "\"value\": 4, \"tolerance\": {\"abs\": 0}, \"ours\": "
               "{\"judge\": \"bounded_concurrency\", \"families\": [\"slow\", \"fast\"]}");
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        (void)snprintf(tree, sizeof tree,
                       "{\"metrics\": {\"mean_tpot_ms\": %g, \"mean_ttft_ms\": %g}}",
                       points[i].tpot_ms, points[i].ttft_ms);
        world_add(&world, points[i].id, points[i].family, points[i].x, tree);
    }
    ck_assert_int_eq(verdict_of(&world, &value).kind, PAPER_WITHIN);
    ck_assert_double_eq(value.numbers[0], 4); /* 64 against 16 at 30 and 40 ms, 64 / 64 at 50 */
    world_close(&world);
}
END_TEST

/* ---- What the file may say -------------------------------------------------------------- */

static const struct {
    const char *class_of, *members;
} refused_files[] = {
    {"X", "\"value\": 1, \"tolerance\": {\"abs\": 0}, \"ours\": {}"},
    {"E", "\"value\": 1, \"ours\": {}"},
    {"E", "\"value\": null, \"tolerance\": {\"abs\": 0}, \"ours\": {}"},
    {"E", "\"value\": \"one\", \"tolerance\": {\"abs\": 0}, \"ours\": {}"},
    {"E", "\"value\": 1, \"tolerance\": {\"abs\": 0, \"rel\": 0}, \"ours\": {}"},
    {"E", "\"value\": 1, \"tolerance\": {\"about\": 1}, \"ours\": {}"},
    {"E", "\"value\": 1, \"tolerance\": {\"rel\": -0.1}, \"ours\": {}"},
    {"E", "\"value\": 1, \"tolerance\": {\"range_abs\": 1}, \"ours\": {}"},
    {"E", "\"value\": [1, 2, 3, 4, 5, 6, 7, 8, 9], \"tolerance\": {\"abs\": 0}, \"ours\": {}"},
    {"E", "\"value\": 1, \"tolerance\": {\"abs\": 0}"},
    {"E", "\"value\": 1, \"tolerance\": {\"abs\": 0}, \"ours\": {}, \"verdict\": \"within\""},
};

START_TEST(a_target_that_is_half_said_is_refused_with_its_place)
{
    struct world world;

    world_open(&world, refused_files[_i].class_of, refused_files[_i].members);
    ck_assert_int_eq(world.status, KVT_ERR_INVALID);
    ck_assert_msg(strncmp(world.err.where, "made-up.json#/targets/0", 23) == 0, "%s",
                  world.err.where);
    world_close(&world);
}
END_TEST

START_TEST(the_shipped_files_read_and_every_target_names_points_that_there_are)
{
    struct kvt_arena *arena = kvt_arena_new(1 << 20);
    struct paper paper = {0};
    struct kvt_error err;
    size_t by_class[PAPER_CLASSES] = {0};
    char data[SUPPORT_PATH_BYTES];

    /* A checkout has validation/paper where an installation has share/kvt/paper. */
    (void)snprintf(data, sizeof data, "%s/validation", KVT_TEST_ROOT);
    ck_assert_msg(paper_load(data, arena, &paper, &err) == KVT_OK, "%s: %s", err.where,
                  err.message);
    for (size_t t = 0; t < paper.target_count; t++) {
        const size_t *points = NULL;
        size_t count = 0;
        by_class[paper.targets[t].class_of]++;
        ck_assert_msg(paper_points_of(&paper, &paper.targets[t], arena, &points, &count, &err) ==
                          KVT_OK,
                      "%s: %s", err.where, err.message);
    }
    ck_assert_uint_eq(paper.target_count, 95);
    ck_assert_uint_eq(by_class[PAPER_EXACT] + by_class[PAPER_CALIBRATED], 55);
    ck_assert_uint_eq(by_class[PAPER_EXACT_IF], 4);
    ck_assert_uint_eq(by_class[PAPER_PREDICTED], 29);
    ck_assert_uint_eq(by_class[PAPER_ORDERING], 6);
    ck_assert_uint_eq(by_class[PAPER_UNIDENTIFIABLE], 1);
    ck_assert_int_eq(cJSON_GetArraySize(paper.figures), 12);
    paper_free_trees(&paper);
    kvt_arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("paper");
    TCase *near = tcase_create("near"), *values = tcase_create("values");
    TCase *judges = tcase_create("judges"), *files = tcase_create("files");
#define COUNT(list) ((int)(sizeof(list) / sizeof(list)[0]))

    tcase_add_loop_test(near, a_value_is_held_to_what_is_printed_and_no_closer, 0,
                        COUNT(near_cases));
    tcase_add_test(near, what_is_not_here_is_neither_within_nor_outside);
    tcase_add_test(near, what_nothing_published_decides_has_no_verdict_of_its_own);
    tcase_add_test(values, a_ratio_is_of_two_points_and_a_unit_divides);
    tcase_add_test(values, a_measured_figure_is_found_by_its_whole_name);
    tcase_add_loop_test(values, a_target_that_asks_for_what_no_point_gives_is_a_fault_of_the_file,
                        0, COUNT(refused_ours));
    tcase_add_test(judges, the_papers_block_is_the_best_or_within_its_share_of_it);
    tcase_add_loop_test(judges, a_property_holds_only_where_it_was_looked_for_and_came_up, 0,
                        COUNT(property_cases));
    tcase_add_test(judges, latency_bounds_are_met_by_the_largest_load_that_meets_both);
    tcase_add_loop_test(files, a_target_that_is_half_said_is_refused_with_its_place, 0,
                        COUNT(refused_files));
    tcase_add_test(files, the_shipped_files_read_and_every_target_names_points_that_there_are);
    suite_add_tcase(suite, near);
    suite_add_tcase(suite, values);
    suite_add_tcase(suite, judges);
    suite_add_tcase(suite, files);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
