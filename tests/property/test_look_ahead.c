/* test_look_ahead.c -- what a clairvoyant replacement policy is told, against what came: every next
 * use is looked up in a diary of the run's selections, and Belady's rule by it fetches what it
 * fetches by full knowledge. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/layout.h"
#include "support/diary.h"
#include "support/small_run.h"

extern const struct kvt_replacement_policy kvt_replacement_lru;

/* DeepSeek-V4.1-Flash in small: four stores of ratios 2, 2, 2, 1, the last under five selectors. */
#define SCENARIO                                                                                   \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"ahead\", \"seed\": 12, "                      \
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
    CALLS_MAX = 4096, /* of one request and store */
    INPUT = 600
};

static const struct kvt_llm *llm;

/* ---- The calls of one (request, store), from the diary -------------------------------------- */

struct call {
    const struct diary_entry *entry;
    uint32_t first_query, query_count, round;
};

static struct {
    struct call calls[CALLS_MAX];
    uint32_t count;
} course;

/* Streams that are looked at for the calls themselves are opened first, those ahead second. */
static bool is_of_calls(const struct diary_entry *entry)
{
    return entry->opening == 0;
}

static void list_course(uint32_t request, uint32_t store, bool each_query)
{
    uint32_t rounds[KVT_SELECTORS_MAX] = {0};

    course.count = 0;
    for (size_t i = 0; i < diary.count; i++) {
        const struct diary_entry *entry = &diary.entries[i];
        if (entry->request != request || llm->selectors[entry->selector].store != store ||
            !is_of_calls(entry))
            continue;
        uint32_t queries = each_query ? 1 : entry->query_count;
        for (uint32_t q = 0; q < entry->query_count; q += queries) {
            if (course.count == CALLS_MAX)
                ck_abort_msg("more than %d calls", CALLS_MAX);
            course.calls[course.count++] =
                (struct call){entry, q, queries, rounds[entry->selector]};
        }
        rounds[entry->selector]++;
    }
}

static bool selects(const struct call *call, uint32_t row)
{
    if (row >= call->entry->visible_rows)
        return false;
    for (uint32_t q = call->first_query; q < call->first_query + call->query_count; q++) {
        if (kvt_row_is_in(diary_set(call->entry, q), row))
            return true;
    }
    return false;
}

/* Calls from `at` until one selects the row, of at most so many; KVT_CALL_NEVER: none does. */
static uint32_t calls_until(uint32_t at, uint32_t row, uint32_t most)
{
    for (uint32_t ahead = 1; ahead <= most && at + ahead < course.count; ahead++) {
        if (selects(&course.calls[at + ahead], row))
            return ahead;
    }
    return KVT_CALL_NEVER;
}

/* ---- Policies that are told ---------------------------------------------------------------------
 */

static const struct kvt_param_spec clairvoyant[] = {
    {.name = "clairvoyant", .type = KVT_PARAM_BOOL, .help = "Sees the future."}};

/* Batch LRU that notes what it is told, of every few calls. */
struct told {
    size_t entry; /* of the diary */
    uint32_t query, row, next_use;
};
static struct {
    struct told *items; /* [count] */
    size_t count, capacity;
    size_t last_entry; /* the query of a call is how many came since its round was selected */
    uint32_t query;
    bool was_null;
} notes;

static void note(uint32_t row, uint32_t next_use)
{
    if (notes.count == notes.capacity) {
        notes.capacity = notes.capacity ? 2 * notes.capacity : 4096;
        notes.items = realloc(notes.items, notes.capacity * sizeof *notes.items);
        if (!notes.items)
            ck_abort_msg("no memory for what was told");
    }
    notes.items[notes.count++] = (struct told){notes.last_entry, notes.query, row, next_use};
}

static uint32_t slots_of(const void *state)
{
    return *(const uint32_t *)state; /* as lru's state begins */
}

/* Of the slots as they were when the call began. */
static void listen(const void *state, const struct kvt_replacement_call *call)
{
    enum {
        ONE_IN = 17
    };

    notes.query = notes.last_entry == diary.count - 1 ? notes.query + 1 : 0;
    notes.last_entry = diary.count - 1;
    notes.was_null = notes.was_null || !call->next_use;
    for (kvt_slot slot = 0; call->next_use && slot < slots_of(state); slot++) {
        if ((slot + notes.last_entry) % ONE_IN == 0)
            note(call->slot_rows[slot], call->next_use[slot]);
    }
}

static uint32_t spy_choose(void *state, const struct kvt_replacement_call *call, uint32_t want,
                           kvt_slot *victims)
{
    listen(state, call);
    return kvt_replacement_lru.choose_victims(state, call, want, victims);
}

static void spy_resolved(void *state, const struct kvt_replacement_call *call,
                         const kvt_slot *fills, const uint32_t *evicted_rows, uint32_t fill_count)
{
    if (fill_count == 0)
        listen(state, call);
    kvt_replacement_lru.on_resolved(state, call, fills, evicted_rows, fill_count);
}

/* Empty slots first, then who is wanted last; equals by slot. */
static uint32_t belady_choose(void *state, const struct kvt_replacement_call *call, uint32_t want,
                              kvt_slot *victims)
{
    uint32_t chosen = 0;

    for (kvt_slot slot = 0; slot < slots_of(state) && chosen < want; slot++) {
        if (call->slot_rows[slot] == KVT_ROW_NONE)
            victims[chosen++] = slot;
    }
    uint32_t empty = chosen;
    for (; chosen < want; chosen++) {
        kvt_slot best = KVT_SLOT_NONE;
        for (kvt_slot slot = 0; slot < slots_of(state); slot++) {
            bool taken = (call->hit_bits[slot / 64] >> slot % 64 & 1) != 0 ||
                         call->slot_rows[slot] == KVT_ROW_NONE;
            for (uint32_t i = empty; i < chosen && !taken; i++)
                taken = victims[i] == slot;
            if (!taken && (best == KVT_SLOT_NONE || call->next_use[slot] > call->next_use[best]))
                best = slot;
        }
        if (best == KVT_SLOT_NONE)
            break;
        victims[chosen] = best;
    }
    return chosen;
}

static struct kvt_replacement_policy policy;
static struct kvt_param_value sight;

static void run(struct small_run *small, const char *const *sets, bool sees)
{
    small_run_parse(small, SCENARIO, sets);
    policy.info.name = "seer";
    policy.info.params = clairvoyant;
    policy.info.param_count = 1;
    sight = (struct kvt_param_value){.number = sees};
    small->scenario.replacement = (struct kvt_choice){&policy.info, {&sight, 1}};
    llm = small->scenario.llm;
    diary_open(&small->scenario);
    free(notes.items);
    memset(&notes, 0, sizeof notes);
    notes.last_entry = SIZE_MAX - 1;
    small_run_start(small, NULL);
    small_run_finish(small);
    ck_assert_msg(small->status == KVT_OK, "%s: %s", small->err.where, small->err.message);
}

static void listen_to(struct small_run *small, const char *const *sets, bool sees)
{
    policy = kvt_replacement_lru;
    policy.choose_victims = spy_choose;
    policy.on_resolved = spy_resolved;
    run(small, sets, sees);
}

static void close_run(struct small_run *small)
{
    small_run_close(small);
    diary_close();
    free(notes.items);
    memset(&notes, 0, sizeof notes);
}

/* ---- Cases
 * ---------------------------------------------------------------------------------------- */

#define NO_WORKSPACE "cluster.decode.speculation_workspace_gib=0"

static const struct {
    const char *sets[6];
    bool each_query;
} cases[] = {
    {{NULL}, false},
    {{"speculation.method=self-sparse", "speculation.drafts=3", NO_WORKSPACE, NULL}, false},
    {{"speculation.method=medusa", NO_WORKSPACE, "workload.lengths.output.tokens=40", NULL}, false},
    {{"speculation.method=self-sparse", "speculation.drafts=2", NO_WORKSPACE,
      "speculation.retrieval=each_query", NULL},
     true},
    /* Whole at first, and given hot caches later. */
    {{"residency=sglang-demote", "cluster.decode.pools.unified_gib=0.001", NULL}, false},
    {{"run.fidelity=sampled", "run.sample_requests=0", "run.sample_stores=2", NULL}, false},
};
enum {
    CASES = sizeof cases / sizeof cases[0]
};

static void expect_came(const struct told *told, uint32_t at)
{
    uint32_t expected = KVT_CALL_NEVER;

    if (told->row != KVT_ROW_NONE)
        expected = calls_until(at, told->row, KVT_LOOK_AHEAD_CALLS);
    if (told->next_use != expected)
        ck_abort_msg("call %u: row %u was to be selected %u calls later; it was %u", at, told->row,
                     told->next_use, expected);
}

START_TEST(every_next_use_is_when_the_row_is_selected_next)
{
    struct small_run small;
    size_t checked = 0;
    uint32_t never = 0, soon = 0;

    listen_to(&small, cases[_i].sets, true);
    ck_assert_uint_eq(small.run->total.preemptions, 0);
    ck_assert(!notes.was_null);
    for (uint32_t request = 0; request < small.run->record_count; request++) {
        for (uint32_t store = 0; store < llm->store_count; store++) {
            list_course(request, store, cases[_i].each_query);
            uint32_t at = 0;
            for (size_t n = 0; n < notes.count; n++) {
                const struct told *told = &notes.items[n];
                const struct diary_entry *entry = &diary.entries[told->entry];
                if (entry->request != request || llm->selectors[entry->selector].store != store)
                    continue;
                while (at < course.count && (course.calls[at].entry != entry ||
                                             course.calls[at].first_query != told->query))
                    at++;
                if (at == course.count)
                    ck_abort_msg("what was told is of no call of the diary");
                expect_came(told, at);
                never += told->next_use == KVT_CALL_NEVER;
                soon += told->next_use < 3;
                checked++;
            }
        }
    }
    ck_assert_uint_eq(checked, notes.count);
    ck_assert_uint_gt(checked, 5000);
    ck_assert_uint_gt(never, 50);
    ck_assert_uint_gt(soon, 500);
    close_run(&small);
}
END_TEST

START_TEST(a_policy_without_the_parameter_is_told_nothing_and_decides_alike)
{
    struct small_run small;

    listen_to(&small, cases[_i].sets, true);
    uint64_t told = small.run->decision_hash;
    ck_assert(small.run->is_bound);
    close_run(&small);
    listen_to(&small, cases[_i].sets, false);
    ck_assert(notes.was_null);
    ck_assert_uint_eq(notes.count, 0);
    ck_assert_uint_eq(small.run->decision_hash, told);
    ck_assert(!small.run->is_bound);
    close_run(&small);
}
END_TEST

/* ---- Belady's rule by full knowledge
 * ------------------------------------------------------------- */

/* Rows that one (request, store) fetches, in calls of one query: a row goes that is wanted last,
 * whatever slot it is in. */
static uint64_t fetched_knowing_all(uint32_t store, uint32_t slots)
{
    static uint32_t rows[1024];
    uint64_t fetched = 0;
    uint32_t held = 0;

    for (uint32_t at = 0; at < course.count; at++) {
        const struct call *call = &course.calls[at];
        uint32_t tail = kvt_tail_first_row(&llm->stores[store], INPUT + call->round, 1);
        for (uint32_t row = 0; row < call->entry->visible_rows && row < tail; row++) {
            uint32_t i = 0;
            while (i < held && rows[i] != row)
                i++;
            if (!selects(call, row) || i < held)
                continue;
            fetched++;
            uint32_t last = held < slots ? held++ : slots;
            uint32_t longest = 0;
            for (i = 0; i < slots && last == slots; i++) {
                uint32_t until = selects(call, rows[i]) ? 0 : calls_until(at, rows[i], UINT32_MAX);
                longest = until > longest ? until : longest;
            }
            for (i = 0; i < slots && last == slots; i++) {
                if (!selects(call, rows[i]) && calls_until(at, rows[i], UINT32_MAX) == longest)
                    last = i;
            }
            rows[last] = row;
        }
    }
    return fetched;
}

START_TEST(beladys_rule_by_what_is_told_fetches_what_it_does_by_full_knowledge)
{
    /* 30 rounds under five selectors: all calls are in sight. */
    static const char *const sets[] = {"workload.lengths.output.tokens=31",
                                       "workload.concurrency=2", "workload.requests=2",
                                       "residency.hot_tokens=160", NULL};
    struct small_run small;
    uint64_t expected = 0, fetched = 0, by_lru = 0;

    listen_to(&small, sets, false);
    for (uint32_t s = 0; s < small.run->stratum_count; s++)
        by_lru += small.run->total.rows[s].filled + small.run->total.rows[s].staged;
    close_run(&small);
    policy = kvt_replacement_lru;
    policy.choose_victims = belady_choose;
    run(&small, sets, true);
    for (uint32_t s = 0; s < small.run->stratum_count; s++) {
        ck_assert_uint_eq(small.run->total.rows[s].staged, 0);
        fetched += small.run->total.rows[s].filled;
    }
    for (uint32_t request = 0; request < 2; request++) {
        for (uint32_t store = 0; store < llm->store_count; store++) {
            list_course(request, store, false);
            ck_assert_uint_le(course.count, KVT_LOOK_AHEAD_CALLS);
            expected += fetched_knowing_all(
                store, kvt_hot_slots(llm, &llm->stores[store], 160, INPUT + 31));
        }
    }
    ck_assert_uint_eq(fetched, expected);
    ck_assert_uint_lt(fetched, by_lru);
    close_run(&small);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("look ahead");
    TCase *tcase = tcase_create("look ahead");
    SRunner *runner = srunner_create(suite);

    tcase_add_loop_test(tcase, every_next_use_is_when_the_row_is_selected_next, 0, CASES);
    tcase_add_loop_test(tcase, a_policy_without_the_parameter_is_told_nothing_and_decides_alike, 0,
                        CASES);
    tcase_add_test(tcase, beladys_rule_by_what_is_told_fetches_what_it_does_by_full_knowledge);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
