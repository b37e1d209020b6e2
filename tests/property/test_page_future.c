/* test_page_future.c -- what a clairvoyant residency policy is told of pages, against what came,
 * row by row from a diary of the run's selections; and what it takes to be told. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/policy.h"
#include "support/diary.h"
#include "support/small_run.h"

extern const struct kvt_residency_policy kvt_residency_hisparse;

/* DeepSeek-V4.1-Flash in small: four stores of ratios 2, 2, 2, 1, the last under five selectors, so
 * that the last 30 rounds of a request are seen whole. */
#define SCENARIO                                                                                   \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"future\", \"seed\": 12, "                     \
    "\"model\": {\"base\": \"deepseek-v4.1-flash\", \"top_k\": 64, "                               \
    "\"weight_bytes\": 2147483648, \"dense_weight_bytes\": 1073741824, "                           \
    "\"weights_replicated_gib\": 1, \"weights_expert_gib\": 1}, \"hardware\": \"b300\", "          \
    "\"cluster\": {\"decode\": {\"gpus\": 2, \"pools\": {\"unified_gib\": 0.05}}, "                \
    "\"import\": {\"law\": \"rate\", \"rate\": 1000}}, "                                           \
    "\"residency\": {\"policy\": \"hisparse\", \"hot_tokens\": 256}, "                             \
    "\"selection\": {\"law\": \"score\"}, \"timing\": {\"model\": \"roofline\"}, "                 \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 4, \"requests\": 5, "                \
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 600}, "                             \
    "\"output\": {\"law\": \"fixed\", \"tokens\": 70}}}, "                                         \
    "\"run\": {\"interval_s\": 1000, \"fidelity\": \"exact\"}}"

enum {
    OUTPUT = 70,
    SEEN_ROUNDS = 30,
    PAGES_MAX = 16,
    NOTES_MAX = 1024
};

/* What was told at a boundary of one request. */
static struct note {
    uint32_t request, rounds; /* that it has had */
    uint32_t page_count;
    uint32_t future[PAGES_MAX];
} notes[NOTES_MAX];
static size_t note_count;

static uint32_t listen(void *state, const struct kvt_residency_view *view,
                       struct kvt_residency_action *actions, uint32_t capacity)
{
    (void)state, (void)actions, (void)capacity;
    for (uint32_t i = 0; i < view->request_count; i++) {
        const struct kvt_residency_request *request = &view->requests[i];
        if (request->generated_tokens < OUTPUT - SEEN_ROUNDS)
            continue;
        if (note_count == NOTES_MAX || request->page_count > PAGES_MAX)
            ck_abort_msg("more boundaries or pages than there is room for");
        struct note *note = &notes[note_count++];
        *note = (struct note){request->id, request->generated_tokens - 1, request->page_count, {0}};
        memcpy(note->future, request->page_future, note->page_count * sizeof *note->future);
    }
    return 0;
}

static const struct kvt_param_spec clairvoyant = {
    .name = KVT_CLAIRVOYANT, .type = KVT_PARAM_BOOL, .help = "Sees the future."};
static struct kvt_param_value sight;
static struct kvt_residency_policy policy;

static void start(struct small_run *small, const char *const *sets, bool sees)
{
    small_run_parse(small, SCENARIO, sets);
    policy = kvt_residency_hisparse;
    policy.boundary = listen;
    policy.wants_page_future = true;
    policy.info.name = "listener";
    policy.info.params = &clairvoyant;
    policy.info.param_count = 1;
    sight = (struct kvt_param_value){.number = sees};
    small->scenario.residency = (struct kvt_choice){&policy.info, {&sight, 1}};
    note_count = 0;
    diary_open(&small->scenario);
    small_run_start(small, NULL);
}

/* Selections of the page's rows in rounds from `rounds` on, of all selectors. */
static uint32_t came(const struct kvt_llm *llm, const struct note *note, uint32_t page)
{
    uint32_t had[KVT_SELECTORS_MAX] = {0}, count = 0;

    for (size_t i = 0; i < diary.count; i++) {
        const struct diary_entry *entry = &diary.entries[i];
        if (entry->request != note->request || entry->opening != 0)
            continue;
        if (had[entry->selector]++ < note->rounds)
            continue;
        uint32_t ratio = llm->stores[llm->selectors[entry->selector].store].compress_ratio;
        for (uint32_t token = 64 * page; token < 64 * (page + 1); token += ratio) {
            uint32_t row = token / ratio;
            count += row < entry->visible_rows && kvt_row_is_in(diary_set(entry, 0), row);
        }
    }
    return count;
}

START_TEST(what_is_told_of_a_page_is_how_often_its_rows_are_selected_from_there_on)
{
    struct small_run small;
    uint32_t checked = 0, different = 0;

    start(&small, NULL, true);
    small_run_finish(&small);
    ck_assert_msg(small.status == KVT_OK, "%s: %s", small.err.where, small.err.message);
    ck_assert(small.run->is_bound);
    for (size_t n = 0; n < note_count; n += 7) {
        for (uint32_t page = 0; page < notes[n].page_count; page++, checked++) {
            uint32_t expected = came(small.scenario.llm, &notes[n], page);
            if (notes[n].future[page] != expected)
                ck_abort_msg("request %u after %u rounds: page %u was to be selected %u times; it "
                             "was %u",
                             notes[n].request, notes[n].rounds, page, notes[n].future[page],
                             expected);
            different += notes[n].future[page] != notes[n].future[0];
        }
    }
    ck_assert_uint_gt(checked, 100);
    ck_assert_uint_gt(different, 80);
    small_run_close(&small);
    diary_close();
}
END_TEST

static const struct {
    const char *sets[3];
    bool sees;
    const char *message;
} refusals[] = {
    {{NULL}, false, "without the parameter \"clairvoyant\""},
    {{"run.fidelity=sampled", NULL}, true, "it wants the future of pages, which \"sampled\""},
    {{"speculation=dspark", "cluster.decode.speculation_workspace_gib=0", NULL},
     true,
     "it is clairvoyant, and the rounds of speculation method \"dspark\" depend on"},
};

START_TEST(a_run_that_cannot_tell_is_refused_in_the_policy_s_name)
{
    struct small_run small;

    start(&small, refusals[_i].sets, refusals[_i].sees);
    ck_assert_int_ne(small.status, KVT_OK);
    ck_assert_str_eq(small.err.where, "listener");
    ck_assert_msg(strstr(small.err.message, refusals[_i].message) != NULL, "%s", small.err.message);
    small_run_close(&small);
    diary_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("page future");
    TCase *cases = tcase_create("future");

    tcase_add_test(cases, what_is_told_of_a_page_is_how_often_its_rows_are_selected_from_there_on);
    tcase_add_loop_test(cases, a_run_that_cannot_tell_is_refused_in_the_policy_s_name, 0,
                        sizeof refusals / sizeof refusals[0]);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
