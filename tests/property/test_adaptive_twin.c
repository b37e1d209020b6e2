/* test_adaptive_twin.c -- adaptive's water-filling against the rule it stands for, one page at a
 * time, as the design says it:
 *
 *     release from the request with most optional pages (tie: lower id), lowest page first;
 *     refill the one with fewest, highest page first */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/policy.h"
#include "support/plugin_params.h"

enum {
    REQUESTS_MAX = 12,
    PAGES_MAX = 128,
    WORDS = 2,
    VIEWS = 2500,
    CAPACITY = 4096
};

#define PAGE_BYTES UINT64_C(1000)

enum place {
    HOST = 0,
    UP,
    READY
};
struct naive {
    uint32_t request_count;
    uint32_t eligible[REQUESTS_MAX];
    enum place place[REQUESTS_MAX][PAGES_MAX];
};

static uint32_t pages_in(const struct naive *naive, uint32_t request, enum place place)
{
    uint32_t count = 0;
    for (uint32_t page = 0; page < naive->eligible[request]; page++)
        count += naive->place[request][page] == place;
    return count;
}

static bool release_one(struct naive *naive)
{
    uint32_t chosen = 0, most = 0;
    for (uint32_t r = 0; r < naive->request_count; r++) {
        if (pages_in(naive, r, READY) > most) {
            most = pages_in(naive, r, READY);
            chosen = r;
        }
    }
    for (uint32_t page = 0; most > 0 && page < naive->eligible[chosen]; page++) {
        if (naive->place[chosen][page] == READY) {
            naive->place[chosen][page] = HOST;
            return true;
        }
    }
    return false;
}

static bool refill_one(struct naive *naive)
{
    uint32_t chosen = REQUESTS_MAX, fewest = 0;
    for (uint32_t r = 0; r < naive->request_count; r++) {
        uint32_t in_hbm = naive->eligible[r] - pages_in(naive, r, HOST);
        if (in_hbm < naive->eligible[r] && (chosen == REQUESTS_MAX || in_hbm < fewest)) {
            fewest = in_hbm;
            chosen = r;
        }
    }
    if (chosen == REQUESTS_MAX)
        return false;
    for (uint32_t page = naive->eligible[chosen]; page-- > 0;) {
        if (naive->place[chosen][page] == HOST) {
            naive->place[chosen][page] = UP;
            return true;
        }
    }
    return false;
}

/* ---- The policy --------------------------------------------------------------------- */

struct bench {
    const struct kvt_residency_policy *policy;
    struct kvt_param_value values[SUPPORT_PARAMS_MAX];
    uint64_t state[64];
    uint64_t resident[REQUESTS_MAX][WORDS], filling[REQUESTS_MAX][WORDS];
    struct kvt_residency_request requests[REQUESTS_MAX];
    struct kvt_residency_view view;
    struct kvt_residency_action actions[CAPACITY];
};

/* bytes_per_ns pages are allowed for each ns since the boundary. */
static void bench_start(struct bench *bench, double capacity_fraction, double bytes_per_ns)
{
    const struct kvt_plugin_info *info = NULL;
    struct kvt_error err = {0};
    memset(bench, 0, sizeof *bench);
    ck_assert_int_eq(
        kvt_plugin_find(NULL, KVT_PLUGIN_RESIDENCY, "adaptive", "residency", &info, &err), KVT_OK);
    struct kvt_residency_env env = {.params = support_default_params(info, bench->values),
                                    .page_bytes = PAGE_BYTES};
    for (size_t i = 0; i < info->param_count; i++) {
        if (strcmp(info->params[i].name, "optional_capacity_fraction") == 0)
            bench->values[i].number = capacity_fraction;
        if (strcmp(info->params[i].name, "refill_gb_per_s") == 0)
            bench->values[i].number = bytes_per_ns;
    }
    bench->policy = (const struct kvt_residency_policy *)(const void *)info;
    ck_assert_uint_le(bench->policy->state_bytes(&env), sizeof bench->state);
    ck_assert_int_eq(bench->policy->init(bench->state, &env, &err), KVT_OK);
}

static void draw_naive(struct kvt_rng *rng, struct naive *naive)
{
    memset(naive, 0, sizeof *naive);
    naive->request_count = 1 + (uint32_t)kvt_rng_below(rng, REQUESTS_MAX);
    uint64_t spread = 1 + kvt_rng_below(rng, PAGES_MAX);
    for (uint32_t r = 0; r < naive->request_count; r++) {
        naive->eligible[r] = (uint32_t)kvt_rng_below(rng, spread + 1);
        if (naive->eligible[r] > PAGES_MAX)
            naive->eligible[r] = PAGES_MAX;
        uint64_t share = kvt_rng_below(rng, 9);
        for (uint32_t page = 0; page < naive->eligible[r]; page++) {
            if (kvt_rng_below(rng, 8) < share)
                naive->place[r][page] = kvt_rng_below(rng, 6) ? READY : UP;
        }
    }
}

static void show(struct bench *bench, const struct naive *naive)
{
    memset(bench->resident, 0, sizeof bench->resident);
    memset(bench->filling, 0, sizeof bench->filling);
    bench->view = (struct kvt_residency_view){.requests = bench->requests,
                                              .request_count = naive->request_count};
    for (uint32_t r = 0; r < naive->request_count; r++) {
        for (uint32_t page = 0; page < naive->eligible[r]; page++) {
            if (naive->place[r][page] != HOST)
                bench->resident[r][page / 64] |= UINT64_C(1) << page % 64;
            if (naive->place[r][page] == UP)
                bench->filling[r][page / 64] |= UINT64_C(1) << page % 64;
        }
        bench->requests[r] =
            (struct kvt_residency_request){.id = 10 + 2 * r,
                                           .page_count = naive->eligible[r] + 1,
                                           .eligible_pages = naive->eligible[r],
                                           .optional_pages = pages_in(naive, r, READY),
                                           .filling_pages = pages_in(naive, r, UP),
                                           .resident_bits = bench->resident[r],
                                           .filling_bits = bench->filling[r]};
        bench->view.used_bytes[KVT_MEM_PAYLOAD] +=
            (pages_in(naive, r, READY) + pages_in(naive, r, UP)) * PAGE_BYTES;
    }
}

static void carry_out(const struct bench *bench, uint32_t count, struct naive *naive)
{
    for (uint32_t a = 0; a < count; a++) {
        const struct kvt_residency_action *action = &bench->actions[a];
        uint32_t r = (action->request - 10) / 2;
        bool releases = action->verb == KVT_RESIDENCY_RELEASE;
        for (uint32_t page = action->first; page < action->first + action->count; page++) {
            if (naive->place[r][page] != (releases ? READY : HOST))
                ck_abort_msg("request %u: page %u cannot move", r, page);
            naive->place[r][page] = releases ? HOST : UP;
        }
    }
}

static void check_same(const struct naive *a, const struct naive *b, int view)
{
    for (uint32_t r = 0; r < a->request_count; r++) {
        for (uint32_t page = 0; page < a->eligible[r]; page++) {
            if (a->place[r][page] != b->place[r][page])
                ck_abort_msg("seed %d, view %d: request %u, page %u", 2385, view, r, page);
        }
    }
}

START_TEST(releases_are_those_of_the_rule_one_page_at_a_time)
{
    static struct bench bench;
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, 1);
    bench_start(&bench, 1, 1);
    for (int v = 0; v < VIEWS; v++) {
        struct naive naive, acted;
        uint64_t all = 0;
        draw_naive(&rng, &naive);
        acted = naive;
        show(&bench, &naive);
        for (uint32_t r = 0; r < naive.request_count; r++)
            all += pages_in(&naive, r, READY);
        uint64_t want_bytes = kvt_rng_below(&rng, (all + 2) * PAGE_BYTES);
        uint32_t count =
            bench.policy->reclaim(bench.state, &bench.view, want_bytes, bench.actions, CAPACITY);
        carry_out(&bench, count, &acted);
        for (uint64_t freed = 0; freed < want_bytes && release_one(&naive); freed += PAGE_BYTES) {
        }
        check_same(&naive, &acted, v);
    }
}
END_TEST

START_TEST(refills_are_those_of_the_rule_one_page_at_a_time)
{
    static struct bench bench;
    struct kvt_rng rng = kvt_rng_stream(2385, KVT_RNG_TEST, 2);
    for (int v = 0; v < VIEWS; v++) {
        struct naive naive, acted;
        draw_naive(&rng, &naive);
        acted = naive;
        /* A credit of its own each time: whole pages, and sometimes a bit more. */
        bench_start(&bench, 1, 1);
        show(&bench, &naive);
        uint64_t free_pages = kvt_rng_below(&rng, 2 * PAGES_MAX);
        uint64_t credit_pages = kvt_rng_below(&rng, 2 * PAGES_MAX);
        bench.view.free_bytes = free_pages * PAGE_BYTES + kvt_rng_below(&rng, PAGE_BYTES);
        bench.view.since_boundary_ns =
            (kvt_ns)(credit_pages * PAGE_BYTES + kvt_rng_below(&rng, PAGE_BYTES));
        uint32_t count = bench.policy->boundary(bench.state, &bench.view, bench.actions, CAPACITY);
        carry_out(&bench, count, &acted);
        uint64_t budget = free_pages < credit_pages ? free_pages : credit_pages;
        for (; budget > 0 && refill_one(&naive); budget--) {
        }
        check_same(&naive, &acted, v);
    }
}
END_TEST

START_TEST(refills_never_outrun_their_rate_and_keep_a_second_of_credit)
{
    static struct bench bench;
    struct naive naive = {.request_count = 1, .eligible = {PAGES_MAX}};
    bench_start(&bench, 1, 2e-6); /* two pages a second */
    for (int step = 1; step <= 40; step++) {
        show(&bench, &naive);
        bench.view.free_bytes = 1000 * PAGE_BYTES;
        bench.view.since_boundary_ns = KVT_NS_PER_S / 10;
        uint32_t count = bench.policy->boundary(bench.state, &bench.view, bench.actions, CAPACITY);
        carry_out(&bench, count, &naive);
        /* The credit is a sum of tenths in binary: it may be a step late, never early. */
        uint32_t in = pages_in(&naive, 0, UP);
        ck_assert_uint_le(in, (uint32_t)step / 5);
        ck_assert_uint_ge(in + 1, (uint32_t)(step - 1) / 5 + 1);
    }
    uint32_t before = pages_in(&naive, 0, UP);
    show(&bench, &naive);
    bench.view.free_bytes = 1000 * PAGE_BYTES;
    bench.view.since_boundary_ns = 3600 * KVT_NS_PER_S;
    uint32_t count = bench.policy->boundary(bench.state, &bench.view, bench.actions, CAPACITY);
    carry_out(&bench, count, &naive);
    ck_assert_uint_eq(pages_in(&naive, 0, UP), before + 2);
}
END_TEST

START_TEST(optional_history_takes_no_more_than_its_share_of_what_is_spare)
{
    static struct bench bench;
    struct naive naive = {.request_count = 1, .eligible = {100}};
    bench_start(&bench, 0.25, 1000);
    for (int step = 0; step < 5; step++) {
        show(&bench, &naive);
        uint64_t in = pages_in(&naive, 0, UP);
        bench.view.free_bytes = (80 - in) * PAGE_BYTES;
        bench.view.since_boundary_ns = KVT_NS_PER_S;
        uint32_t count = bench.policy->boundary(bench.state, &bench.view, bench.actions, CAPACITY);
        carry_out(&bench, count, &naive);
        ck_assert_uint_eq(pages_in(&naive, 0, UP), 20);
    }
}
END_TEST

START_TEST(nothing_comes_in_while_others_wait_for_room)
{
    static struct bench bench;
    struct naive naive = {.request_count = 1, .eligible = {100}};
    bench_start(&bench, 1, 1);
    show(&bench, &naive);
    bench.view.free_bytes = 80 * PAGE_BYTES;
    bench.view.since_boundary_ns = KVT_NS_PER_S;
    bench.view.queue_length = 1;
    ck_assert_uint_eq(bench.policy->boundary(bench.state, &bench.view, bench.actions, CAPACITY), 0);
    bench.view.queue_length = 0;
    ck_assert_uint_gt(bench.policy->boundary(bench.state, &bench.view, bench.actions, CAPACITY), 0);
}
END_TEST

static Suite *adaptive_suite(void)
{
    Suite *suite = suite_create("adaptive_twin");
    TCase *tcase = tcase_create("adaptive_twin");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, releases_are_those_of_the_rule_one_page_at_a_time);
    tcase_add_test(tcase, refills_are_those_of_the_rule_one_page_at_a_time);
    tcase_add_test(tcase, refills_never_outrun_their_rate_and_keep_a_second_of_credit);
    tcase_add_test(tcase, optional_history_takes_no_more_than_its_share_of_what_is_spare);
    tcase_add_test(tcase, nothing_comes_in_while_others_wait_for_room);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(adaptive_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
