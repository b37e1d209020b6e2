/* test_kinds.c -- kinds of requests: who is drawn, from what, and that nothing else moves by it. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/page_keys.h"
#include "kvt/report.h"
#include "kvt/source.h"
#include "kvt/workload.h"
#include "support/small_run.h"

extern const struct kvt_arrival kvt_arrival_open;

enum {
    DRAWS = 20000,
    SEED = 7
};

/* ---- A source of three kinds ------------------------------------------------------------ */

/* As many tokens as the law's state says, and up to nine more by chance. */
static uint32_t about_draw(const void *state, struct kvt_rng *rng)
{
    return *(const uint32_t *)state + (uint32_t)kvt_rng_below(rng, 10);
}

static uint32_t about_longest(const void *state)
{
    return *(const uint32_t *)state + 9;
}

static uint32_t just_draw(const void *state, struct kvt_rng *rng)
{
    (void)rng;
    return *(const uint32_t *)state;
}

static uint32_t just_longest(const void *state)
{
    return *(const uint32_t *)state;
}

static size_t just_distinct(const void *state, uint32_t *values, size_t capacity)
{
    ck_assert_uint_ge(capacity, 1);
    values[0] = *(const uint32_t *)state;
    return 1;
}

static const struct kvt_length_law about = {
    .draw = about_draw, .typical_max = about_longest, .longest = about_longest};
static const struct kvt_length_law just = {.draw = just_draw,
                                           .typical_max = just_longest,
                                           .longest = just_longest,
                                           .distinct = just_distinct};
static const uint32_t tokens[] = {1000, 2000, 4000, 100};

static struct kvt_request_kind kinds[3];

static void reset_kinds(void)
{
    const double shares[] = {0.2, 0.5, 0.3};
    for (int k = 0; k < 3; k++)
        kinds[k] = (struct kvt_request_kind){
            .share = shares[k], .input = {&about, &tokens[k]}, .output = {&about, &tokens[3]}};
}

static void *opened_with(const struct kvt_request_kind *of, size_t kind_count)
{
    static const struct kvt_param_value values[] = {
        {.number = 1000}, {.number = 1}, {.number = DRAWS}};
    const struct kvt_arrival_env env = {.params = {.values = values, .count = 3},
                                        .input = {&about, &tokens[1]},
                                        .output = {&about, &tokens[3]},
                                        .max_position_tokens = 1 << 20,
                                        .run_seed = SEED,
                                        .host = kvt_host(),
                                        .kinds = of,
                                        .kind_count = kind_count};
    void *source = NULL;
    ck_assert_int_eq(kvt_arrival_open.open(&env, &source, NULL), KVT_OK);
    return source;
}

static void *opened(size_t kind_count)
{
    return opened_with(kinds, kind_count);
}

/* The next request; false at the end. */
static bool next(void *source, kvt_ns *now_ns, struct kvt_request_spec *spec)
{
    for (;;) {
        enum kvt_arrival_answer answer = KVT_ARRIVAL_END;
        kvt_ns due_ns = 0;
        ck_assert_int_eq(kvt_arrival_open.poll(source, *now_ns, 0, &answer, spec, &due_ns, NULL),
                         KVT_OK);
        if (answer != KVT_ARRIVAL_LATER)
            return answer == KVT_ARRIVAL_NOW;
        *now_ns = due_ns;
    }
}

START_TEST(shares_are_what_is_drawn)
{
    void *source = opened(3);
    struct kvt_request_spec spec;
    kvt_ns now_ns = 0;
    double counts[3] = {0};

    while (next(source, &now_ns, &spec)) {
        ck_assert_uint_lt(spec.kind, 3);
        ck_assert_uint_ge(spec.input_tokens, tokens[spec.kind]);
        ck_assert_uint_lt(spec.input_tokens, tokens[spec.kind] + 10);
        counts[spec.kind]++;
    }
    for (int k = 0; k < 3; k++) {
        double share = kinds[k].share, deviation = sqrt(DRAWS * share * (1 - share));
        ck_assert_double_lt(fabs(counts[k] - DRAWS * share), 4 * deviation);
    }
    kvt_arrival_open.close(source);
}
END_TEST

START_TEST(other_shares_leave_arrivals_and_outputs_alone)
{
    struct kvt_request_kind others[3];
    struct kvt_request_spec a, b;
    kvt_ns a_ns = 0, b_ns = 0;
    size_t moved = 0;

    memcpy(others, kinds, sizeof others);
    others[0].share = 0.6;
    others[1].share = 0.1;
    void *before = opened_with(kinds, 3), *after = opened_with(others, 3);
    for (int i = 0; i < 1000; i++) {
        ck_assert(next(before, &a_ns, &a) && next(after, &b_ns, &b));
        ck_assert_int_eq(a.arrival_ns, b.arrival_ns);
        ck_assert_uint_eq(a.output_tokens, b.output_tokens);
        if (a.kind == b.kind)
            ck_assert_uint_eq(a.input_tokens, b.input_tokens);
        moved += a.kind != b.kind;
    }
    ck_assert_uint_gt(moved, 300);
    kvt_arrival_open.close(before);
    kvt_arrival_open.close(after);
}
END_TEST

START_TEST(without_kinds_all_are_of_the_first)
{
    void *alike = opened(0), *one;
    struct kvt_request_spec a, b;
    kvt_ns a_ns = 0, b_ns = 0;

    kinds[0] = kinds[1];
    kinds[0].share = 1;
    one = opened(1);
    for (int i = 0; i < 1000; i++) {
        ck_assert(next(alike, &a_ns, &a) && next(one, &b_ns, &b));
        ck_assert_uint_eq(a.kind, 0);
        ck_assert_uint_eq(b.kind, 0);
        ck_assert_uint_eq(a.input_tokens, b.input_tokens);
        ck_assert_uint_eq(a.output_tokens, b.output_tokens);
        ck_assert_str_eq(a.slo_class, "");
        ck_assert_ptr_null(a.task);
        ck_assert_uint_eq(a.page_key_count, 0);
    }
    kvt_arrival_open.close(alike);
    kvt_arrival_open.close(one);
}
END_TEST

START_TEST(a_kind_brings_its_class_and_its_task)
{
    struct kvt_request_spec spec;
    kvt_ns now_ns = 0;

    kinds[1].slo_class = "chat";
    kinds[2].task = "code";
    void *source = opened(3);
    for (int i = 0; i < 200; i++) {
        ck_assert(next(source, &now_ns, &spec));
        ck_assert_str_eq(spec.slo_class, spec.kind == 1 ? "chat" : "");
        if (spec.kind == 2)
            ck_assert_str_eq(spec.task, "code");
        else
            ck_assert_ptr_null(spec.task);
    }
    kvt_arrival_open.close(source);
}
END_TEST

START_TEST(prompts_of_a_kind_begin_alike_and_those_of_another_do_not)
{
    struct kvt_request_spec spec;
    kvt_ns now_ns = 0;
    uint64_t first[3] = {0};

    /* Longer than the prompts of the first kind, which are all prefix then. */
    for (int k = 0; k < 3; k++)
        kinds[k].shared_prefix_tokens = k == 2 ? 0 : 1500;
    void *source = opened(3);
    for (int i = 0; i < 500; i++) {
        ck_assert(next(source, &now_ns, &spec));
        uint32_t wanted = spec.kind == 0 ? spec.input_tokens : 1500;
        if (spec.kind == 2) {
            ck_assert_uint_eq(spec.page_key_count, 0);
            continue;
        }
        ck_assert_uint_eq(spec.prefix_tokens, wanted);
        ck_assert_uint_eq(spec.page_key_count, wanted / KVT_PAGE_ROWS);
        if (first[spec.kind] == 0)
            first[spec.kind] = spec.page_keys[14];
        ck_assert_uint_eq(spec.page_keys[14], first[spec.kind]);
    }
    ck_assert_uint_ne(first[0], first[1]);
    kvt_arrival_open.close(source);
}
END_TEST

START_TEST(what_can_arrive_is_what_any_kind_can)
{
    uint32_t longest, output, inputs[KVT_INPUTS_MAX];
    size_t count = KVT_INPUTS_MAX;
    void *source = opened(3);

    kvt_arrival_open.extent(source, &longest, &output, inputs, &count);
    ck_assert_uint_eq(longest, 4009 + 109);
    ck_assert_uint_eq(output, 109);
    ck_assert_uint_eq(count, 0);
    kvt_arrival_open.close(source);

    /* Two of the same length, and a shorter one after a longer one. */
    kinds[0].input = (struct kvt_lengths){&just, &tokens[2]};
    kinds[1].input = (struct kvt_lengths){&just, &tokens[0]};
    kinds[2].input = (struct kvt_lengths){&just, &tokens[2]};
    source = opened(3);
    count = KVT_INPUTS_MAX;
    kvt_arrival_open.extent(source, &longest, &output, inputs, &count);
    ck_assert_uint_eq(count, 2);
    ck_assert_uint_eq(inputs[0], 1000);
    ck_assert_uint_eq(inputs[1], 4000);
    count = 1;
    kvt_arrival_open.extent(source, &longest, &output, inputs, &count);
    ck_assert_uint_eq(count, 0);
    kvt_arrival_open.close(source);
}
END_TEST

/* ---- Whole runs ------------------------------------------------------------------------ */

#define LENGTHS                                                                                    \
    "\"lengths\": {\"input\": {\"law\": \"lognormal\", \"mean_tokens\": 300, \"cv\": 0.3}, "       \
    "\"output\": {\"law\": \"fixed\", \"tokens\": 20}}"
#define RUN(workload)                                                                              \
    "{\"schema\": \"kvtide/scenario/1\", \"seed\": 3, \"model\": {\"base\": \"glm-5.3\", "         \
    "\"top_k\": 64}, \"hardware\": \"b300\", \"cluster\": {\"decode\": {\"gpus\": 4, \"dp\": 4, "  \
    "\"ep\": 4, \"pools\": {\"unified_gib\": 0.1}}, \"import\": {\"law\": \"rate\"}}, "            \
    "\"residency\": {\"policy\": \"adaptive\", \"hot_tokens\": 128}, "                             \
    "\"selection\": {\"law\": \"score\"}, \"timing\": {\"model\": \"roofline\"}, "                 \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 4, \"requests\": 20, " workload "}}"

static uint64_t hash_of(const char *text, const char *const *sets)
{
    struct small_run small;
    small_run_whole(&small, text, sets);
    uint64_t hash = small.run->decision_hash;
    small_run_close(&small);
    return hash;
}

START_TEST(one_kind_is_as_good_as_none)
{
    const char *one = RUN("\"classes\": [{\"name\": \"all\", \"share\": 1, " LENGTHS "}]");
    ck_assert_uint_eq(hash_of(RUN(LENGTHS), NULL), hash_of(one, NULL));
}
END_TEST

START_TEST(an_empty_list_is_none)
{
    static const char *const sets[] = {"workload.classes=[]", NULL};
    ck_assert_uint_eq(hash_of(RUN(LENGTHS), NULL), hash_of(RUN(LENGTHS), sets));
}
END_TEST

START_TEST(a_source_that_was_not_opened_can_be_closed)
{
    struct kvt_source source = {.arrival = NULL};
    kvt_source_close(&source);
    ck_assert_uint_eq(source.state_count, 0);
}
END_TEST

static Suite *kinds_suite(void)
{
    Suite *suite = suite_create("kinds");
    TCase *drawn = tcase_create("drawn");
    tcase_add_checked_fixture(drawn, reset_kinds, NULL);
    tcase_add_test(drawn, shares_are_what_is_drawn);
    tcase_add_test(drawn, other_shares_leave_arrivals_and_outputs_alone);
    tcase_add_test(drawn, without_kinds_all_are_of_the_first);
    tcase_add_test(drawn, a_kind_brings_its_class_and_its_task);
    tcase_add_test(drawn, prompts_of_a_kind_begin_alike_and_those_of_another_do_not);
    tcase_add_test(drawn, what_can_arrive_is_what_any_kind_can);
    suite_add_tcase(suite, drawn);
    TCase *runs = tcase_create("runs");
    tcase_add_test(runs, one_kind_is_as_good_as_none);
    tcase_add_test(runs, an_empty_list_is_none);
    tcase_add_test(runs, a_source_that_was_not_opened_can_be_closed);
    suite_add_tcase(suite, runs);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(kinds_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
