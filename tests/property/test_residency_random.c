/* test_residency_random.c -- a rank under a policy that does anything it may, at random: whole
 * requests and hot caches, deferred backup, landing, demotion, requests put aside. After every
 * boundary and every step
 *
 *     every committed row has a home: the tail, a page in HBM, or host
 *     no page is lost that nobody gave up, and none is given up that has no copy
 *     bytes of each class add up, and nothing is past its pool */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/rank.h"
#include "kvt/rng.h"
#include "support/plugin_params.h"
#include "support/shipped.h"

enum {
    CASES = 48,
    STEPS = 250,
    LIVES = 400,
    PAGES = 48,
    TOP_K = 64,
    HOT_TOKENS = 256,
    NEEDS = 4
};

static const struct kvt_residency_needs kinds[NEEDS] = {
    {.host_backing = true, .optional_pages = true},
    {.host_backing = true, .optional_pages = true, .deferred_backup = true, .keeps_aside = true},
    {.starts_whole = true, .host_backing = true, .optional_pages = true, .keeps_aside = true},
    {.starts_whole = true,
     .host_backing = true,
     .optional_pages = true,
     .deferred_backup = true,
     .keeps_aside = true}};

/* What the policy gave up of each request since its boundary began. */
struct given_up {
    uint64_t pages;      /* bit p: page p */
    uint32_t from;       /* and every page from here on, if a resize comes */
    uint32_t next_from;  /* of the newest resize asked for */
    uint64_t was_ready;  /* before the boundary */
    bool ran, was_whole; /* then */
};

static struct bench {
    struct kvt_arena *arena;
    struct kvt_llm llm;
    struct kvt_host_pool host;
    struct kvt_param_value values[2][SUPPORT_PARAMS_MAX];
    struct kvt_rank_env env;
    struct kvt_rank rank;
    struct kvt_rng rng;
    uint64_t decisions, page_bytes;
    kvt_ns now_ns;
    struct kvt_live lives[LIVES];
    uint32_t live_count;
    struct given_up given_up[LIVES];
    uint64_t actions;
} bench;

static uint32_t below(uint32_t bound)
{
    return (uint32_t)kvt_rng_below(&bench.rng, bound);
}

static bool is_set(const uint64_t *bits, uint32_t page)
{
    return bits[page / 64] >> page % 64 & 1;
}

/* ---- The policy -------------------------------------------------------------------------- */

static size_t no_bytes(const struct kvt_residency_env *env)
{
    bench.page_bytes = env->page_bytes;
    return 0;
}

static kvt_status no_init(void *state, const struct kvt_residency_env *env, struct kvt_error *err)
{
    (void)state;
    (void)env;
    (void)err;
    return KVT_OK;
}

static struct kvt_residency_needs its_needs;

static void its_needs_are(const void *state, struct kvt_residency_needs *needs)
{
    (void)state;
    *needs = its_needs;
}

/* A run of pages of the request that are optional, or that could be filled. */
static uint32_t some_pages(const struct kvt_residency_request *request, bool fill, uint32_t *first)
{
    uint32_t count = 0, most = 1 + below(6);

    if (request->eligible_pages == 0)
        return 0;
    *first = below(request->eligible_pages);
    for (uint32_t page = *first; page < request->eligible_pages && count < most; page++) {
        bool resident = is_set(request->resident_bits, page);
        if (fill ? resident : !resident || is_set(request->filling_bits, page))
            break;
        count++;
    }
    return count;
}

static bool give_up(const struct kvt_residency_request *request,
                    struct kvt_residency_action *action)
{
    struct given_up *given_up = &bench.given_up[request->id];
    uint32_t first = 0, count = some_pages(request, false, &first);

    if (count > 0 && below(4)) {
        given_up->pages |= ((UINT64_C(1) << count) - 1) << first;
        *action = (struct kvt_residency_action){KVT_RESIDENCY_RELEASE, request->id, first, count};
        return true;
    }
    if (request->reclaimable_bytes == 0)
        return false;
    given_up->pages = UINT64_MAX;
    *action = (struct kvt_residency_action){KVT_RESIDENCY_DEMOTE, request->id, 0, 0};
    return true;
}

static bool do_something(const struct kvt_residency_request *request, uint64_t *free_bytes,
                         struct kvt_residency_action *action)
{
    uint32_t first = 0, count;

    switch (below(8)) {
    case 0:
        return give_up(request, action);
    case 1:
    case 2:
    case 3:
        count = some_pages(request, true, &first);
        if (count == 0 || *free_bytes < count * bench.page_bytes)
            return false;
        *free_bytes -= count * bench.page_bytes;
        *action = (struct kvt_residency_action){KVT_RESIDENCY_REFILL, request->id, first, count};
        return true;
    case 4:
    case 5:
        if (!its_needs.deferred_backup || request->queued_tokens == request->context_tokens)
            return false;
        count =
            request->queued_tokens + 1 + below(request->context_tokens - request->queued_tokens);
        *action = (struct kvt_residency_action){KVT_RESIDENCY_BACKUP, request->id, 0, count};
        return true;
    case 6:
        if (below(4))
            return false;
        first = below(PAGES);
        bench.given_up[request->id].next_from = first;
        *action = (struct kvt_residency_action){KVT_RESIDENCY_RESIZE, request->id, first,
                                                1 + below(HOT_TOKENS)};
        return true;
    default:
        return false;
    }
}

static uint32_t at_boundary(void *state, const struct kvt_residency_view *view,
                            struct kvt_residency_action *actions, uint32_t capacity)
{
    uint64_t free_bytes = view->free_bytes;
    uint32_t count = 0;

    (void)state;
    for (uint32_t i = 0; i < view->request_count && count < capacity; i++)
        count += do_something(&view->requests[i], &free_bytes, &actions[count]);
    bench.actions += count;
    return count;
}

static uint32_t under_pressure(void *state, const struct kvt_residency_view *view,
                               uint64_t want_bytes, struct kvt_residency_action *actions,
                               uint32_t capacity)
{
    uint32_t count = 0;

    (void)state;
    ck_assert_uint_gt(want_bytes, 0);
    for (uint32_t i = 0; i < view->request_count && count < capacity; i++)
        count += below(3) && give_up(&view->requests[i], &actions[count]);
    for (uint32_t i = 0; i < view->request_count && count == 0; i++) /* none is not allowed */
        count += give_up(&view->requests[i], &actions[count]);
    bench.actions += count;
    return count;
}

static void lands(void *state, const struct kvt_residency_view *view,
                  const struct kvt_residency_import *import, struct kvt_residency_landing *landing)
{
    (void)state;
    (void)view;
    landing->pages = below(import->page_count + 10);
    landing->write_later = its_needs.deferred_backup && below(2);
}

static const struct kvt_residency_policy anything = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof anything,
             .name = "anything",
             .summary = "whatever is allowed"},
    .state_bytes = no_bytes,
    .init = no_init,
    .needs = its_needs_are,
    .boundary = at_boundary,
    .reclaim = under_pressure,
    .landing = lands,
};

/* ---- The rank ------------------------------------------------------------------------------ */

static void start(int nth)
{
    struct kvt_error err = {0};

    memset(&bench, 0, sizeof bench);
    bench.rng = kvt_rng_stream(2385, KVT_RNG_TEST, (uint64_t)nth);
    its_needs = kinds[nth % NEEDS];
    bench.arena = kvt_arena_new(1 << 16);
    bench.llm = *shipped_llm(bench.arena, "glm-5.3");
    bench.llm.top_k = TOP_K;
    static struct kvt_hardware hardware;
    hardware = *shipped_hardware(bench.arena, "b300");
    hardware.link_d2h_bytes_per_s = below(2) ? 50000000000 : 200000000;
    hardware.link_h2d_bytes_per_s = below(2) ? 50000000000 : 2000000000;
    bool two_pools = below(3) == 0;
    uint64_t mib = UINT64_C(1) << 20;
    bench.host.capacity_bytes = (below(3) ? 4096 : 300 + below(300)) * mib;
    bench.env = (struct kvt_rank_env){
        .llm = &bench.llm,
        .hardware = &hardware,
        .hot_tokens = HOT_TOKENS,
        .queries_max = 1 + below(8),
        .staging_fraction = 1.0 / (1 + nth % 3),
        .index_pool_bytes = (two_pools ? 25 : 200 + below(200)) * mib,
        .rows_pool_bytes = two_pools ? (180 + below(200)) * mib : 0,
        .growth_reserve_bytes = below(2) * mib,
        .host = &bench.host,
        .host_copies = 1 + below(2),
        .residency = {.info = &anything.info},
        .scheduling = support_default_choice(KVT_PLUGIN_SCHEDULING, "fcfs", bench.values[0]),
        .import = support_default_choice(KVT_PLUGIN_IMPORT, "rate", bench.values[1]),
        .speculation = "none",
        .run_seed = 1};
    kvt_status status = kvt_rank_init(&bench.rank, &bench.env, &bench.decisions, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
}

static void stop(void)
{
    for (uint32_t i = 0; i < bench.live_count; i++)
        kvt_pages_fini(&bench.lives[i].pages);
    kvt_rank_fini(&bench.rank);
    kvt_arena_free(bench.arena);
}

static void put_aside(void *context, struct kvt_live *live)
{
    (void)context;
    bench.given_up[live->id].ran = false;
}

static kvt_status resized(void *context, struct kvt_live *live, struct kvt_error *err)
{
    (void)context;
    (void)err;
    ck_assert(live->hot_tokens > 0 && !live->pages.whole);
    return KVT_OK;
}

static void arrive(void)
{
    struct kvt_error err = {0};
    struct kvt_live *live = &bench.lives[bench.live_count];
    uint32_t input = 1 + below(2000), output = 2 + below(400);
    bool fits = false;

    if (bench.live_count == LIVES || bench.rank.waiting.count > 6)
        return;
    *live = (struct kvt_live){.id = bench.live_count,
                              .input_tokens = input,
                              .output_tokens = output,
                              .max_tokens = input + output,
                              .arrival_ns = bench.now_ns};
    ck_assert_int_eq(
        kvt_rank_can_ever_fit(&bench.rank, input, input + output - 1, input + output, &fits, &err),
        KVT_OK);
    if (!fits)
        return;
    bench.live_count++;
    ck_assert_int_eq(kvt_rank_enqueue(&bench.rank, live, &err), KVT_OK);
}

static void import_some(void)
{
    struct kvt_error err = {0};
    struct kvt_live *live;
    kvt_ns duration_ns;

    if (bench.rank.imports_under_way > 0 && below(2)) {
        live = bench.rank.importing.items[0];
        live->generated_tokens += live->generated_tokens == 0;
        ck_assert_int_eq(kvt_rank_end_import(&bench.rank, bench.now_ns, live, true, &err), KVT_OK);
    }
    kvt_status status = kvt_rank_begin_import(&bench.rank, bench.now_ns, &live, &duration_ns, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
}

/* ---- What must hold ------------------------------------------------------------------------- */

#define hold(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("does not hold: %s", #condition);                                         \
    } while (0)

static void check_rows(const struct kvt_live *live)
{
    const struct kvt_pages *pages = &live->pages;
    uint32_t backed = pages->backed_tokens;

    for (uint32_t w = 0; w < pages->pending_count; w++) {
        const struct kvt_backup *write =
            &pages->pending[(pages->pending_head + w) % KVT_BACKUPS_MAX];
        if (write->done_ns <= bench.now_ns)
            backed = write->tokens;
    }
    for (uint32_t row = backed; row < pages->committed_tokens; row++) {
        bool in_tail = !pages->whole && row + KVT_TAIL_ROWS >= pages->committed_tokens;
        hold(in_tail || is_set(pages->ready_bits, row / KVT_PAGE_ROWS));
    }
    hold(pages->committed_tokens == kvt_live_context(live));
    hold(pages->whole == (live->hot_tokens == 0));
}

static void check_bytes(void)
{
    const struct kvt_rank *rank = &bench.rank;
    const struct kvt_live_list waiting = {.items = rank->waiting.items,
                                          .count = rank->waiting.count};
    const struct kvt_live_list *lists[] = {&waiting, &rank->importing, &rank->arrived,
                                           &rank->running};
    uint64_t by_class[KVT_MEM_CLASSES] = {0}, host_bytes = 0;

    for (size_t l = 0; l < 4; l++) {
        for (uint32_t i = 0; i < lists[l]->count; i++) {
            const struct kvt_holding *holding = &lists[l]->items[i]->holding;
            for (int c = 0; c < KVT_MEM_CLASSES; c++) {
                by_class[c] += holding->bytes[c] + holding->reserve_bytes[c];
                hold(l > 0 || by_class[c] == 0);
            }
            host_bytes += holding->host_bytes * rank->memory.host_copies;
        }
    }
    for (int c = 0; c < KVT_MEM_CLASSES; c++)
        hold(by_class[c] + rank->staging.bytes[c] == rank->memory.used_by_class[c]);
    hold(host_bytes == bench.host.used_bytes);
    hold(kvt_rank_is_sane(rank, bench.now_ns));
    for (uint32_t i = 0; i < rank->running.count; i++)
        check_rows(rank->running.items[i]);
}

static void note_pages(void)
{
    for (uint32_t i = 0; i < bench.live_count; i++)
        bench.given_up[i].ran = false;
    for (uint32_t i = 0; i < bench.rank.running.count; i++) {
        const struct kvt_live *live = bench.rank.running.items[i];
        struct given_up *given_up = &bench.given_up[live->id];
        given_up->pages = 0;
        given_up->ran = true;
        given_up->was_ready = live->pages.ready_bits[0];
        given_up->from = live->next_hot_tokens > 0 ? given_up->next_from : UINT32_MAX;
    }
}

/* A page that was readable is so still, or was given up with its copy on host, or is in the tail
 * that its request has been given. */
static void check_pages(void)
{
    for (uint32_t i = 0; i < bench.rank.running.count; i++) {
        const struct kvt_live *live = bench.rank.running.items[i];
        const struct given_up *given_up = &bench.given_up[live->id];
        for (uint32_t page = 0; given_up->ran && page < PAGES; page++) {
            if (!(given_up->was_ready >> page & 1) || is_set(live->pages.ready_bits, page))
                continue;
            bool in_tail = page >= live->pages.left_pages;
            bool copied = (page + 1) * KVT_PAGE_ROWS <= live->pages.backed_tokens;
            bool asked = (given_up->pages >> page & 1) || page >= given_up->from;
            hold(in_tail || (copied && asked));
        }
    }
}

/* ---- The course of things ---------------------------------------------------------------------
 */

static void take_step(void)
{
    uint64_t tokens = 0;
    kvt_ns ready_ns = bench.now_ns;

    for (uint32_t i = 0; i < bench.rank.running.count; i++) {
        struct kvt_live *live = bench.rank.running.items[i];
        uint32_t queries = 1 + below(bench.env.queries_max);
        uint32_t left = live->output_tokens - live->generated_tokens;
        live->round_tokens = 0;
        if (live->blocked)
            continue;
        kvt_ns at = kvt_pages_tail_ready_ns(&live->pages, queries, bench.now_ns);
        ready_ns = at > ready_ns ? at : ready_ns;
        live->round_tokens = 1 + below(queries);
        live->round_tokens = live->round_tokens < left ? live->round_tokens : left;
        tokens += live->round_tokens;
    }
    bench.now_ns = ready_ns + 1 + below(3000000);
    kvt_ns done_ns = kvt_rank_queue_backup(&bench.rank, bench.now_ns, tokens);
    for (uint32_t i = 0; i < bench.rank.running.count;) {
        struct kvt_live *live = bench.rank.running.items[i];
        if (live->round_tokens > 0)
            kvt_live_commit(live, done_ns);
        live->generated_tokens += live->round_tokens;
        if (live->generated_tokens < live->output_tokens)
            i++;
        else
            kvt_rank_release(&bench.rank, live);
    }
}

START_TEST(whatever_a_policy_does_rows_and_bytes_are_where_they_are_counted)
{
    static const struct kvt_rank_hooks hooks = {.put_aside = put_aside, .resized = resized};

    start(_i);
    for (int step = 0; step < STEPS; step++) {
        struct kvt_error err = {0};
        if (below(3) == 0)
            arrive();
        note_pages();
        kvt_status status = kvt_rank_boundary(&bench.rank, bench.now_ns, &hooks, &err);
        ck_assert_msg(status == KVT_OK, "case %d, step %d: %s: %s", _i, step, err.where,
                      err.message);
        check_pages();
        check_bytes();
        import_some();
        take_step();
        check_bytes();
    }
    ck_assert_uint_gt(bench.actions, 0);
    ck_assert_uint_gt(bench.rank.counters.admitted, 0);
    stop();
}
END_TEST

/* The draws reach what they are there for. */
START_TEST(everything_that_can_happen_does)
{
    static const struct kvt_rank_hooks hooks = {.put_aside = put_aside, .resized = resized};
    struct kvt_rank_counters sum = {0};

    for (int nth = 0; nth < CASES; nth++) {
        start(nth);
        for (int step = 0; step < STEPS; step++) {
            struct kvt_error err = {0};
            if (below(3) == 0)
                arrive();
            ck_assert_int_eq(kvt_rank_boundary(&bench.rank, bench.now_ns, &hooks, &err), KVT_OK);
            import_some();
            take_step();
        }
        const struct kvt_rank_counters *counters = &bench.rank.counters;
        sum.preemptions += counters->preemptions;
        sum.pages_filled += counters->pages_filled;
        sum.pages_released += counters->pages_released;
        sum.pages_landed += counters->pages_landed;
        sum.pages_kept += counters->pages_kept;
        sum.backup_forced += counters->backup_forced;
        sum.demotions += counters->demotions;
        sum.resizes += counters->resizes;
        sum.recalled_bytes += counters->recalled_bytes;
        sum.copies_dropped += counters->copies_dropped;
        stop();
    }
    ck_assert_uint_gt(sum.preemptions, 0);
    ck_assert_uint_gt(sum.pages_filled, 0);
    ck_assert_uint_gt(sum.pages_released, 0);
    ck_assert_uint_gt(sum.pages_landed, 0);
    ck_assert_uint_gt(sum.pages_kept, 0);
    ck_assert_uint_gt(sum.backup_forced, 0);
    ck_assert_uint_gt(sum.demotions, 0);
    ck_assert_uint_gt(sum.resizes, sum.demotions);
    ck_assert_uint_gt(sum.recalled_bytes, 0);
    ck_assert_uint_gt(sum.copies_dropped, 0);
}
END_TEST

static Suite *residency_random_suite(void)
{
    Suite *suite = suite_create("residency_random");
    TCase *tcase = tcase_create("residency_random");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, whatever_a_policy_does_rows_and_bytes_are_where_they_are_counted, 0,
                        CASES);
    tcase_add_test(tcase, everything_that_can_happen_does);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(residency_random_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
