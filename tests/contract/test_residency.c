/* test_residency.c -- what every residency policy holds to beside its contract (test_contract.c):
 * enough released, and pages in the stated order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/policy.h"
#include "support/plugin_params.h"

enum {
    REQUESTS_MAX = 24,
    PAGES_MAX = 256,
    WORDS = PAGES_MAX / 64,
    CAPACITY = REQUESTS_MAX * PAGES_MAX,
    STATE_BYTES = 8192,
    VIEWS = 60
};

#define PAGE_BYTES UINT64_C(2875392)
#define NS_PER_STEP INT64_C(30000000)
#define HOT_TOKENS 4096

/* A policy of the table, stood up with its defaults. */
struct bench {
    const struct kvt_residency_policy *policy;
    struct kvt_param_value values[SUPPORT_PARAMS_MAX];
    struct kvt_residency_env env;
    struct kvt_residency_needs needs;
    size_t state_bytes;
    uint64_t state[STATE_BYTES / sizeof(uint64_t)];
};

/* Other values than the defaults, so that what these leave out is looked at too. */
static void stir(const struct kvt_plugin_info *info, struct kvt_param_value *values)
{
    for (size_t i = 0; i < info->param_count; i++) {
        const struct kvt_param_spec *spec = &info->params[i];
        if (strcmp(spec->name, KVT_CLAIRVOYANT) == 0)
            continue; /* one that sees the future is nothing without */
        if (spec->type == KVT_PARAM_BOOL || spec->type == KVT_PARAM_CHOICE)
            values[i].number = values[i].number == 0;
        else if (spec->type == KVT_PARAM_REAL)
            values[i].number = spec->maximum <= 1 ? 0.5 * spec->maximum : 2.385;
    }
}

/* Index in the table; from its length on, once more with other parameters. */
static void bench_nth(struct bench *bench, int index)
{
    size_t count;
    struct kvt_error err = {0};
    const struct kvt_plugin_info *const *table =
        kvt_plugin_list(NULL, KVT_PLUGIN_RESIDENCY, &count);
    const struct kvt_plugin_info *info = table[(size_t)index % count];

    *bench = (struct bench){.policy = (const struct kvt_residency_policy *)(const void *)info};
    bench->env = (struct kvt_residency_env){.params = support_default_params(info, bench->values),
                                            .page_bytes = PAGE_BYTES,
                                            .pool_bytes = 5000 * PAGE_BYTES,
                                            .link_bytes_per_s = 49400000000,
                                            .run_seed = 2385,
                                            .host = kvt_host(),
                                            .hot_tokens = HOT_TOKENS};
    if ((size_t)index >= count)
        stir(info, bench->values);
    bench->state_bytes = bench->policy->state_bytes(&bench->env);
    ck_assert_uint_le(bench->state_bytes, STATE_BYTES);
    kvt_status status = bench->policy->init(bench->state, &bench->env, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
    bench->policy->needs(bench->state, &bench->needs);
}

/* A view over requests of its own. */
struct scene {
    struct kvt_residency_view view;
    struct kvt_residency_request requests[REQUESTS_MAX];
    uint32_t future[REQUESTS_MAX][PAGES_MAX];
    uint64_t resident[REQUESTS_MAX][WORDS], filling[REQUESTS_MAX][WORDS];
};

static bool is_set(const uint64_t *bits, uint32_t page)
{
    return bits[page / 64] >> page % 64 & 1;
}

/* Pages of a request with a hot cache. */
static void draw_pages(struct kvt_rng *rng, struct scene *scene, uint32_t i, uint32_t density)
{
    struct kvt_residency_request *request = &scene->requests[i];

    request->hot_tokens = HOT_TOKENS;
    request->eligible_pages = request->clean_pages;
    request->kept_pages = (uint32_t)kvt_rng_below(rng, 2);
    for (uint32_t page = 0; page < request->eligible_pages; page++) {
        if (kvt_rng_below(rng, 10) >= density)
            continue;
        scene->resident[i][page / 64] |= UINT64_C(1) << page % 64;
        if (kvt_rng_below(rng, 8) == 0) {
            scene->filling[i][page / 64] |= UINT64_C(1) << page % 64;
            request->filling_pages++;
        } else {
            request->optional_pages++;
        }
    }
    request->reclaimable_bytes = request->optional_pages * PAGE_BYTES;
    scene->view.used_bytes[KVT_MEM_PAYLOAD] +=
        (request->optional_pages + request->filling_pages + request->kept_pages) * PAGE_BYTES;
}

/* Everything in HBM; clean pages can go where a hot cache can come. */
static void draw_whole(const struct bench *bench, struct scene *scene, uint32_t i)
{
    struct kvt_residency_request *request = &scene->requests[i];
    uint64_t clean_bytes = request->clean_pages * PAGE_BYTES;

    memset(scene->resident[i], 0xff, sizeof scene->resident[i]);
    if (!bench->needs.history_in_hbm && clean_bytes > request->hot_cost_bytes)
        request->reclaimable_bytes = clean_bytes - request->hot_cost_bytes;
    scene->view.used_bytes[KVT_MEM_PAYLOAD] += request->page_count * PAGE_BYTES;
}

static void draw_scene(const struct bench *bench, struct kvt_rng *rng, struct scene *scene)
{
    uint32_t count = (uint32_t)kvt_rng_below(rng, REQUESTS_MAX + 1), id = 0;
    uint32_t density = (uint32_t)kvt_rng_below(rng, 11);

    memset(scene, 0, sizeof *scene);
    for (uint32_t i = 0; i < count; i++) {
        struct kvt_residency_request *request = &scene->requests[i];
        request->id = id += 1 + (uint32_t)kvt_rng_below(rng, 3);
        request->page_count = 1 + (uint32_t)kvt_rng_below(rng, PAGES_MAX - 1);
        request->context_tokens =
            request->page_count * KVT_PAGE_ROWS - (uint32_t)kvt_rng_below(rng, KVT_PAGE_ROWS);
        request->clean_pages = request->page_count - 1;
        request->backed_tokens = request->queued_tokens = request->context_tokens;
        if (bench->needs.deferred_backup) {
            request->clean_pages -= (uint32_t)kvt_rng_below(rng, request->page_count);
            request->backed_tokens = request->clean_pages * KVT_PAGE_ROWS;
            request->queued_tokens -=
                (uint32_t)kvt_rng_below(rng, request->context_tokens - request->backed_tokens + 1);
        }
        request->hot_cost_bytes = (1 + kvt_rng_below(rng, 80)) * PAGE_BYTES;
        request->resident_bits = scene->resident[i];
        request->filling_bits = scene->filling[i];
        for (uint32_t page = 0; page < request->page_count && bench->policy->wants_page_future;
             page++)
            scene->future[i][page] = (uint32_t)kvt_rng_below(rng, 100);
        request->page_future = bench->policy->wants_page_future ? scene->future[i] : NULL;
        if (bench->needs.history_in_hbm ||
            (bench->needs.starts_whole && kvt_rng_below(rng, 2) == 0))
            draw_whole(bench, scene, i);
        else
            draw_pages(rng, scene, i, density);
    }
    scene->view.now_ns = (kvt_ns)kvt_rng_below(rng, 1000000000);
    scene->view.last_step_ns = NS_PER_STEP;
    scene->view.since_boundary_ns = NS_PER_STEP * (1 + (kvt_ns)kvt_rng_below(rng, 50));
    scene->view.queue_length = kvt_rng_below(rng, 4) ? 0 : (uint32_t)kvt_rng_below(rng, 9);
    scene->view.free_bytes = kvt_rng_below(rng, 3 * PAGES_MAX) * PAGE_BYTES / 2;
    scene->view.requests = scene->requests;
    scene->view.request_count = count;
}

static uint32_t find(const struct scene *scene, uint32_t id)
{
    uint32_t i = 0;
    while (i < scene->view.request_count && scene->requests[i].id != id)
        i++;
    ck_assert_msg(i < scene->view.request_count, "an action on request %u, which is not there", id);
    return i;
}

static void move_page(const struct bench *bench, struct scene *scene, uint32_t i, uint32_t page,
                      bool releases)
{
    struct kvt_residency_request *request = &scene->requests[i];
    uint64_t bit = UINT64_C(1) << page % 64;

    ck_assert_msg(page < request->eligible_pages, "%s: page %u is not eligible",
                  bench->policy->info.name, page);
    if (releases) {
        ck_assert(is_set(scene->resident[i], page) && !is_set(scene->filling[i], page));
        scene->resident[i][page / 64] &= ~bit;
        request->optional_pages--;
        request->reclaimable_bytes -= PAGE_BYTES;
        scene->view.free_bytes += PAGE_BYTES;
        scene->view.used_bytes[KVT_MEM_PAYLOAD] -= PAGE_BYTES;
        return;
    }
    ck_assert(bench->needs.optional_pages);
    ck_assert(!is_set(scene->resident[i], page));
    ck_assert_msg(scene->view.free_bytes >= PAGE_BYTES, "%s: fills what is full",
                  bench->policy->info.name);
    scene->resident[i][page / 64] |= bit;
    scene->filling[i][page / 64] |= bit;
    request->filling_pages++;
    scene->view.free_bytes -= PAGE_BYTES;
    scene->view.used_bytes[KVT_MEM_PAYLOAD] += PAGE_BYTES;
}

static void demote(struct scene *scene, uint32_t i)
{
    struct kvt_residency_request *request = &scene->requests[i];

    ck_assert_uint_gt(request->reclaimable_bytes, 0);
    scene->view.free_bytes += request->reclaimable_bytes;
    scene->view.used_bytes[KVT_MEM_PAYLOAD] -=
        (request->hot_tokens ? request->optional_pages : request->clean_pages) * PAGE_BYTES;
    request->reclaimable_bytes = 0;
    request->optional_pages = 0;
    request->eligible_pages = request->clean_pages;
    request->hot_tokens = HOT_TOKENS;
    for (uint32_t word = 0; word < WORDS; word++)
        scene->resident[i][word] = scene->filling[i][word];
}

static void act(const struct bench *bench, struct scene *scene,
                const struct kvt_residency_action *action)
{
    uint32_t i = find(scene, action->request);
    struct kvt_residency_request *request = &scene->requests[i];

    switch (action->verb) {
    case KVT_RESIDENCY_RELEASE:
    case KVT_RESIDENCY_REFILL:
        ck_assert_uint_gt(action->count, 0);
        for (uint32_t n = 0; n < action->count; n++)
            move_page(bench, scene, i, action->first + n, action->verb == KVT_RESIDENCY_RELEASE);
        break;
    case KVT_RESIDENCY_BACKUP:
        ck_assert(bench->needs.deferred_backup);
        ck_assert_uint_gt(action->count, request->queued_tokens);
        ck_assert_uint_le(action->count, request->context_tokens);
        request->queued_tokens = action->count;
        break;
    case KVT_RESIDENCY_RESIZE:
        ck_assert(!bench->needs.history_in_hbm);
        ck_assert(action->count >= 1 && action->count <= HOT_TOKENS);
        ck_assert_uint_eq(request->next_hot_tokens, 0);
        request->next_hot_tokens = action->count;
        break;
    case KVT_RESIDENCY_DEMOTE:
        demote(scene, i);
        break;
    default:
        ck_abort_msg("%s: verb %u", bench->policy->info.name, action->verb);
    }
}

/* Carries the actions out as the host would and ends the test at the first that is not
 * allowed. Returns the bytes that are free now and were not, refills aside. */
static uint64_t carry_out(const struct bench *bench, struct scene *scene,
                          const struct kvt_residency_action *actions, uint32_t count)
{
    uint64_t released = 0;

    for (uint32_t a = 0; a < count; a++) {
        uint64_t before = scene->view.free_bytes;
        act(bench, scene, &actions[a]);
        released += scene->view.free_bytes > before ? scene->view.free_bytes - before : 0;
    }
    return released;
}

static uint64_t reclaimable(const struct scene *scene)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < scene->view.request_count; i++)
        bytes += scene->requests[i].reclaimable_bytes;
    return bytes;
}

static uint32_t at_boundary(struct bench *bench, const struct scene *scene,
                            struct kvt_residency_action *actions, uint32_t capacity)
{
    if (!bench->policy->boundary)
        return 0;
    uint32_t count = bench->policy->boundary(bench->state, &scene->view, actions, capacity);
    ck_assert_uint_le(count, capacity);
    return count;
}

static uint32_t under_pressure(struct bench *bench, const struct scene *scene, uint64_t want_bytes,
                               struct kvt_residency_action *actions, uint32_t capacity)
{
    if (!bench->policy->reclaim)
        return 0;
    uint32_t count =
        bench->policy->reclaim(bench->state, &scene->view, want_bytes, actions, capacity);
    ck_assert_uint_le(count, capacity);
    return count;
}

static struct kvt_residency_action actions[CAPACITY];
static struct scene scene;

/* Keys that matter where calls are resolved have no effect beside such a policy, and one beside any
 * other: adding a policy must not leave the list behind. */
START_TEST(the_policies_without_hot_caches_are_those_that_keys_know)
{
    static const struct kvt_idle idle = KVT_IDLE_WITHOUT_HOT_CACHES;
    char names[128], name[64];
    struct bench bench;
    bench_nth(&bench, _i);
    (void)snprintf(names, sizeof names, "|%s|", idle.values);
    (void)snprintf(name, sizeof name, "|%s|", bench.policy->info.name);
    ck_assert_str_eq(idle.beside, "residency.policy");
    ck_assert_msg((strstr(names, name) != NULL) == bench.needs.history_in_hbm, "%s",
                  bench.policy->info.name);
}
END_TEST

/* Asked again, as a run does, as long as it is too little. */
START_TEST(reclaim_frees_enough_or_everything)
{
    struct bench bench;
    struct kvt_rng rng = kvt_rng_stream(2, KVT_RNG_TEST, 0);
    bench_nth(&bench, _i);
    for (int v = 0; v < VIEWS && bench.policy->reclaim; v++) {
        draw_scene(&bench, &rng, &scene);
        uint64_t all = reclaimable(&scene), released = 0;
        uint64_t want_bytes = kvt_rng_below(&rng, all + 3 * PAGE_BYTES);
        uint32_t count = 1;
        while (released < want_bytes && count > 0) {
            count = under_pressure(&bench, &scene, want_bytes - released, actions, CAPACITY);
            released += carry_out(&bench, &scene, actions, count);
        }
        ck_assert(released >= want_bytes || released == all);
    }
}
END_TEST

/* Whether a policy's parameter of that name says "highest"; otherwise where there is none. */
static bool says_highest(const struct bench *bench, const char *name, bool otherwise)
{
    const struct kvt_plugin_info *info = &bench->policy->info;

    for (size_t i = 0; i < info->param_count; i++) {
        if (strcmp(info->params[i].name, name) == 0)
            return bench->values[i].number == 1;
    }
    return otherwise;
}

/* Of the pages of a request that could move, those that did are the highest, or the lowest. */
static void check_order(const uint64_t *could, const uint64_t *did, uint32_t pages, bool highest)
{
    bool stayed = false;

    for (uint32_t n = 0; n < pages; n++) {
        uint32_t page = highest ? pages - 1 - n : n;
        if (!is_set(could, page))
            continue;
        ck_assert(!stayed || !is_set(did, page));
        stayed = stayed || !is_set(did, page);
    }
}

START_TEST(pages_go_and_come_in_the_order_that_the_policy_names)
{
    struct bench bench;
    struct kvt_rng rng = kvt_rng_stream(4, KVT_RNG_TEST, 0);
    bench_nth(&bench, _i);
    if (bench.policy->wants_page_future) /* what comes of pages is its order */
        return;
    for (int v = 0; v < VIEWS; v++) {
        draw_scene(&bench, &rng, &scene);
        const struct scene before = scene;
        uint32_t count = v % 2
                             ? at_boundary(&bench, &scene, actions, CAPACITY)
                             : under_pressure(&bench, &scene, kvt_rng_below(&rng, 400 * PAGE_BYTES),
                                              actions, CAPACITY);
        (void)carry_out(&bench, &scene, actions, count);
        for (uint32_t i = 0; i < scene.view.request_count; i++) {
            uint64_t ready[WORDS], missing[WORDS], went[WORDS], came[WORDS];
            uint32_t pages = before.requests[i].eligible_pages;
            for (uint32_t word = 0; word < WORDS; word++) {
                uint64_t was = before.resident[i][word], is = scene.resident[i][word];
                ready[word] = was & ~before.filling[i][word];
                missing[word] = ~was;
                went[word] = was & ~is;
                came[word] = is & ~was;
            }
            check_order(ready, went, pages, says_highest(&bench, "release_order", false));
            check_order(missing, came, pages, says_highest(&bench, "refill_order", true));
        }
    }
}
END_TEST

START_TEST(with_nobody_running_nothing_moves)
{
    struct bench bench;
    bench_nth(&bench, _i);
    memset(&scene, 0, sizeof scene);
    scene.view.free_bytes = 1000 * PAGE_BYTES;
    scene.view.since_boundary_ns = 10 * KVT_NS_PER_S;
    scene.view.requests = NULL;
    ck_assert_uint_eq(at_boundary(&bench, &scene, actions, CAPACITY), 0);
    ck_assert_uint_eq(under_pressure(&bench, &scene, PAGE_BYTES, actions, CAPACITY), 0);
}
END_TEST

static Suite *residency_suite(void)
{
    Suite *suite = suite_create("residency");
    size_t listed;
    (void)kvt_plugin_list(NULL, KVT_PLUGIN_RESIDENCY, &listed);
    const int count = 2 * (int)listed;

    TCase *every = tcase_create("every_policy");
    tcase_set_timeout(every, 30);
    tcase_add_loop_test(every, the_policies_without_hot_caches_are_those_that_keys_know, 0, count);
    tcase_add_loop_test(every, reclaim_frees_enough_or_everything, 0, count);
    tcase_add_loop_test(every, pages_go_and_come_in_the_order_that_the_policy_names, 0, count);
    tcase_add_loop_test(every, with_nobody_running_nothing_moves, 0, count);
    suite_add_tcase(suite, every);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(residency_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
