/* test_badge.c -- what a report rests on, in three claims. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/badge.h"
#include "kvt/json.h"

#define SHEETS                                                                                     \
    {                                                                                              \
        .timing = "datasheet", .in_range_share = (double)NAN                                       \
    }
#define ON_GPU                                                                                     \
    .on_gpu = true, .gpu = "NVIDIA H200", .is_compared = true, .calls = 1200,                      \
    .is_attention_good = true, .timed_steps = 100, .in_range_share = 0.97

static const struct {
    struct kvt_badge_facts facts;
    const char *text;
} cases[] = {
    {SHEETS, "decisions no (no GPU) | kernel time no (datasheet) | engine no"},
    {{.in_range_share = (double)NAN},
     "decisions no (no GPU) | kernel time no (no GPU) | engine no"},
    {{.timing = "profile", .in_range_share = 1},
     "decisions no (no GPU) | kernel time no (profile, 100 % of steps in range) | engine no"},
    {{.timing = "profile", .in_range_share = 0.974, .engine = "yes", .engine_reason = "4 figures"},
     "decisions no (no GPU) | kernel time no (profile, 97 % of steps in range) | engine yes (4 "
     "figures)"},
    {{ON_GPU},
     "decisions yes (1200 calls) | kernel time yes (NVIDIA H200, 97 % of steps in range) | engine "
     "no"},
    {{ON_GPU, .scaled = "times of 6 of 78 layers, scaled", .device_calls = 92},
     "decisions yes (92 calls on the GPU, of 1200) | kernel time yes (NVIDIA H200, times of 6 of "
     "78 layers, scaled, 97 % of steps in range) | engine no"},
    {{ON_GPU, .is_beside = true},
     "decisions yes (1200 calls) | kernel time beside (NVIDIA H200, 97 % of steps in range) | "
     "engine no"},
    {{ON_GPU, .mismatches = 3, .is_broken_off = true, .not_representative = "plain kernels"},
     "decisions no (3 rounds or steps differ) | kernel time no (plain kernels) | engine no"},
    {{ON_GPU, .is_broken_off = true},
     "decisions no (broken off, after 1200 calls that agree) | kernel time yes (NVIDIA H200, 97 % "
     "of steps in range) | engine no"},
    {{.on_gpu = true, .is_compared = true, .in_range_share = (double)NAN},
     "decisions no (nothing was decided) | kernel time no (nothing was timed) | engine no"},
    {{.on_gpu = true, .timed_steps = 9, .in_range_share = 1, .not_representative = "plain kernels"},
     "decisions no (kvtide validate compares them) | kernel time no (of attention that is not "
     "right) | engine no"},
    {{.on_gpu = true, .timed_steps = 9, .in_range_share = 0.5, .is_attention_good = true},
     "decisions no (kvtide validate compares them) | kernel time yes (a GPU, 50 % of steps in "
     "range) | engine no"},
};

START_TEST(facts_become_three_claims_in_these_words)
{
    struct kvt_badge badge;
    char text[KVT_BADGE_TEXT_BYTES];

    kvt_badge_of(&cases[_i].facts, &badge);
    kvt_badge_print(&badge, text);
    ck_assert_str_eq(text, cases[_i].text);
}
END_TEST

START_TEST(what_json_says_reads_back_as_the_same_text)
{
    cJSON *report = cJSON_CreateObject();
    struct kvt_badge badge, back;
    char text[KVT_BADGE_TEXT_BYTES];

    kvt_badge_of(&cases[_i].facts, &badge);
    ck_assert(kvt_badge_add(report, &badge));
    ck_assert(kvt_badge_read(report, &back));
    kvt_badge_print(&back, text);
    ck_assert_str_eq(text, cases[_i].text);
    const cJSON *engine = kvt_json_find(kvt_json_find(report, "badge"), "engine_reason");
    ck_assert_int_eq(engine != NULL, cases[_i].facts.engine_reason != NULL);
    cJSON_Delete(report);
}
END_TEST

START_TEST(a_report_without_a_badge_has_none_to_read)
{
    cJSON *report = cJSON_Parse("{\"badge\": 3}");
    struct kvt_badge badge = {0};

    ck_assert(!kvt_badge_read(report, &badge));
    ck_assert(!kvt_badge_read(NULL, &badge));
    ck_assert_str_eq(badge.claims[KVT_CLAIM_ENGINE].word, "");
    cJSON_Delete(report);
}
END_TEST

/* The text of the joined badge of runs with these facts. */
static const char *joined(const struct kvt_badge_facts *facts, size_t count,
                          char text[KVT_BADGE_TEXT_BYTES])
{
    struct kvt_badge badge = {0};

    for (size_t i = 0; i < count; i++) {
        struct kvt_badge next;
        kvt_badge_of(&facts[i], &next);
        kvt_badge_join(&badge, &next);
    }
    kvt_badge_print(&badge, text);
    return text;
}

START_TEST(of_no_run_nothing_is_claimed)
{
    struct kvt_badge nothing = {0}, badge = {0};
    char text[KVT_BADGE_TEXT_BYTES];

    ck_assert_str_eq(joined(NULL, 0, text), "decisions no | kernel time no | engine no");
    kvt_badge_of(&cases[4].facts, &badge);
    kvt_badge_join(&badge, &nothing);
    kvt_badge_print(&badge, text);
    ck_assert_str_eq(text, cases[4].text);
}
END_TEST

START_TEST(of_several_runs_each_reason_stands_once_and_the_least_share_counts)
{
    static const struct kvt_badge_facts facts[] = {{.timing = "profile", .in_range_share = 0.98},
                                                   SHEETS,
                                                   {.timing = "profile", .in_range_share = 0.42},
                                                   {.timing = "pro", .in_range_share = 1},
                                                   SHEETS};
    char text[KVT_BADGE_TEXT_BYTES];

    ck_assert_str_eq(joined(facts, 5, text),
                     "decisions no (no GPU) | kernel time no (profile; datasheet; pro, 42 % of "
                     "steps in range) | engine no");
}
END_TEST

START_TEST(one_run_that_proves_nothing_takes_the_others_claim_away)
{
    static const struct kvt_badge_facts facts[] = {{ON_GPU}, SHEETS};
    char text[KVT_BADGE_TEXT_BYTES];

    ck_assert_str_eq(joined(facts, 2, text),
                     "decisions no (1200 calls; no GPU) | kernel time no (NVIDIA H200; datasheet, "
                     "97 % of steps in range) | engine no");
}
END_TEST

START_TEST(reasons_that_are_too_long_are_cut_and_nothing_is_overrun)
{
    struct kvt_badge_facts facts[20];
    char names[20][64], text[KVT_BADGE_TEXT_BYTES];

    for (int i = 0; i < 20; i++) {
        memset(names[i], 'a' + i, 63);
        names[i][63] = '\0';
        facts[i] = (struct kvt_badge_facts){.timing = names[i], .in_range_share = 1 - 0.01 * i};
    }
    ck_assert_ptr_nonnull(strstr(joined(facts, 20, text), "81 % of steps in range) | engine no"));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("badge");
    TCase *claims = tcase_create("claims"), *several = tcase_create("several");
    int count = (int)(sizeof cases / sizeof cases[0]);

    tcase_add_loop_test(claims, facts_become_three_claims_in_these_words, 0, count);
    tcase_add_loop_test(claims, what_json_says_reads_back_as_the_same_text, 0, count);
    tcase_add_test(claims, a_report_without_a_badge_has_none_to_read);
    suite_add_tcase(suite, claims);
    tcase_add_test(several, of_no_run_nothing_is_claimed);
    tcase_add_test(several, of_several_runs_each_reason_stands_once_and_the_least_share_counts);
    tcase_add_test(several, one_run_that_proves_nothing_takes_the_others_claim_away);
    tcase_add_test(several, reasons_that_are_too_long_are_cut_and_nothing_is_overrun);
    suite_add_tcase(suite, several);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(make_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
