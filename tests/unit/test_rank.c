/* test_rank.c -- one rank without a run around it: who is admitted, who grows out of what, who is
 * put aside, when pages count, and what a policy may not do. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "kvt/rank.h"
#include "support/plugin_params.h"
#include "support/shipped.h"

enum {
    LIVES = 16,
    INPUT = 1000,
    OUTPUT = 200,
    LONGEST = INPUT + OUTPUT,
    LONG = 10000,
    TOP_K = 2048,
    /* GLM-5.3: index rows of a token, payload rows of a token, by hand. */
    INDEX_TOKEN = 21 * 132,
    PAYLOAD_TOKEN = 78 * 576,
    PAGE_BYTES = 64 * PAYLOAD_TOKEN
};

/* Of hot slots for the longest context and a tail, beside the index rows. */
#define FIXED_BYTES ((uint64_t)(LONGEST + 64) * PAYLOAD_TOKEN)
#define HOT_BYTES ((uint64_t)(TOP_K + 64) * PAYLOAD_TOKEN) /* the same of LONG tokens */

struct bench {
    struct kvt_arena *arena;
    struct kvt_host_pool host;
    struct kvt_param_value values[3][SUPPORT_PARAMS_MAX];
    struct kvt_rank_env env;
    struct kvt_rank rank;
    uint64_t decisions;
    struct kvt_live lives[LIVES];
    uint32_t live_count;
    uint32_t put_aside[LIVES], put_aside_count;
    uint32_t resized[LIVES], resized_count;
    kvt_ns now_ns; /* of the newest boundary */
};

static struct bench bench;

/* A rank whose pool holds `requests` of INPUT tokens to the byte, and pool_bytes more. */
static void start(const char *residency, uint32_t requests, uint64_t more_bytes,
                  uint64_t reserve_bytes)
{
    bool resident = strcmp(residency, "resident") == 0 || strcmp(residency, "prefix-offload") == 0;
    uint64_t each =
        (uint64_t)INPUT * INDEX_TOKEN + (resident ? (uint64_t)INPUT * PAYLOAD_TOKEN : FIXED_BYTES);
    struct kvt_error err = {0};

    memset(&bench, 0, sizeof bench);
    bench.arena = kvt_arena_new(1 << 16);
    bench.host.capacity_bytes = UINT64_C(1) << 40;
    bench.env = (struct kvt_rank_env){
        .llm = shipped_llm(bench.arena, "glm-5.3"),
        .hardware = shipped_hardware(bench.arena, "b300"),
        .hot_tokens = LONGEST,
        .queries_max = 1,
        .index_pool_bytes = requests * each + more_bytes,
        .growth_reserve_bytes = reserve_bytes,
        .host = &bench.host,
        .host_copies = 1,
        .residency = support_default_choice(KVT_PLUGIN_RESIDENCY, residency, bench.values[0]),
        .scheduling = support_default_choice(KVT_PLUGIN_SCHEDULING, "fcfs", bench.values[1]),
        .import = support_default_choice(KVT_PLUGIN_IMPORT, "rate", bench.values[2]),
        .run_seed = 1};
    kvt_status status = kvt_rank_init(&bench.rank, &bench.env, &bench.decisions, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
}

/* The same with a policy of the test's own. */
static void restart(const struct kvt_plugin_info *residency,
                    const struct kvt_plugin_info *scheduling)
{
    struct kvt_error err = {0};
    kvt_rank_fini(&bench.rank);
    if (residency)
        bench.env.residency = (struct kvt_choice){.info = residency};
    if (scheduling)
        bench.env.scheduling = (struct kvt_choice){.info = scheduling};
    ck_assert_int_eq(kvt_rank_init(&bench.rank, &bench.env, &bench.decisions, &err), KVT_OK);
}

static void stop(void)
{
    for (uint32_t i = 0; i < bench.live_count; i++)
        kvt_pages_fini(&bench.lives[i].pages);
    kvt_rank_fini(&bench.rank);
    kvt_arena_free(bench.arena);
}

static struct kvt_live *enqueue(void)
{
    struct kvt_error err = {0};
    struct kvt_live *live = &bench.lives[bench.live_count];
    *live = (struct kvt_live){.id = bench.live_count++,
                              .input_tokens = INPUT,
                              .output_tokens = OUTPUT,
                              .max_tokens = LONGEST};
    ck_assert_int_eq(kvt_rank_enqueue(&bench.rank, live, &err), KVT_OK);
    return live;
}

static void note_put_aside(void *context, struct kvt_live *live)
{
    (void)context;
    bench.put_aside[bench.put_aside_count++] = live->id;
}

static kvt_status note_resized(void *context, struct kvt_live *live, struct kvt_error *err)
{
    (void)context;
    (void)err;
    ck_assert_uint_gt(live->hot_tokens, 0);
    bench.resized[bench.resized_count++] = live->id;
    return KVT_OK;
}

static kvt_status try_boundary(kvt_ns now_ns, struct kvt_error *err)
{
    static const struct kvt_rank_hooks hooks = {.put_aside = note_put_aside,
                                                .resized = note_resized};
    bench.put_aside_count = bench.resized_count = 0;
    bench.now_ns = now_ns;
    return kvt_rank_boundary(&bench.rank, now_ns, &hooks, err);
}

static void boundary(kvt_ns now_ns)
{
    struct kvt_error err = {0};
    kvt_status status = try_boundary(now_ns, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
    ck_assert(kvt_rank_is_sane(&bench.rank, bench.now_ns));
}

/* All imports that are admitted, one after the other, each with its first token. */
static void import_all(void)
{
    struct kvt_error err = {0};
    for (;;) {
        struct kvt_live *live;
        kvt_ns duration_ns;
        ck_assert_int_eq(
            kvt_rank_begin_import(&bench.rank, bench.now_ns, &live, &duration_ns, &err), KVT_OK);
        if (!live)
            return;
        if (live->generated_tokens == 0)
            live->generated_tokens = 1;
        ck_assert_int_eq(kvt_rank_end_import(&bench.rank, bench.now_ns, live, true, &err), KVT_OK);
    }
}

static void step(kvt_ns now_ns)
{
    for (uint32_t i = 0; i < bench.rank.running.count; i++) {
        struct kvt_live *live = bench.rank.running.items[i];
        if (live->blocked)
            continue;
        live->round_tokens = 1;
        kvt_live_commit(live, now_ns);
        live->generated_tokens++;
    }
}

START_TEST(slots_are_the_pool_over_what_a_request_must_hold)
{
    /* DESIGN: slots = floor(pool / required at input length). */
    static const char *const policies[] = {"resident", "hisparse", "adaptive"};
    struct kvt_error err = {0};
    uint64_t slots;
    start(policies[_i], 5, 0, 1 << 20);
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, INPUT, LONGEST, &slots, NULL, &err), KVT_OK);
    ck_assert_uint_eq(slots, 5);
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, INPUT + 1, LONGEST + 1, &slots, NULL, &err),
                     KVT_OK);
    ck_assert_uint_eq(slots, 4);
    ck_assert_uint_eq(bench.rank.page_bytes, PAGE_BYTES);
    stop();
}
END_TEST

START_TEST(two_pools_give_the_slots_of_the_tighter)
{
    struct kvt_error err = {0};
    uint64_t slots;
    start("hisparse", 5, 0, 0);
    bench.env.index_pool_bytes = 3 * (uint64_t)INPUT * INDEX_TOKEN;
    bench.env.rows_pool_bytes = 7 * FIXED_BYTES;
    restart(NULL, NULL);
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, INPUT, LONGEST, &slots, NULL, &err), KVT_OK);
    ck_assert_uint_eq(slots, 3);
    stop();
}
END_TEST

/* The widest call of 8 queries stages 8 x 2,048 rows of 4 layers; a session adds a quarter. */
#define CALL_BYTES ((uint64_t)8 * TOP_K * 4 * 576)
#define SHARE_BYTES (CALL_BYTES / 4)

static void start_sharing(uint64_t pool_bytes)
{
    start("hisparse", 1, 0, 0);
    bench.env.queries_max = 8;
    bench.env.staging_fraction = 0.25;
    bench.env.index_pool_bytes = pool_bytes;
    restart(NULL, NULL);
}

START_TEST(a_rank_keeps_what_its_sessions_do_not_hold_of_the_widest_call)
{
    const uint64_t each = (uint64_t)INPUT * INDEX_TOKEN + FIXED_BYTES + SHARE_BYTES;
    const uint64_t growth = 8 * INDEX_TOKEN, kept = CALL_BYTES - SHARE_BYTES;
    const uint64_t *staged = &bench.rank.memory.used_by_class[KVT_MEM_STAGING];
    struct kvt_error err = {0};
    uint64_t slots;
    start_sharing(kept + 2 * (each + growth));
    ck_assert_uint_eq(*staged, kept);
    ck_assert(kvt_rank_is_sane(&bench.rank, 0));
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, INPUT, LONGEST, &slots, NULL, &err), KVT_OK);
    ck_assert_uint_eq(slots, 2);
    for (int i = 0; i < 3; i++)
        enqueue();
    boundary(0);
    import_all();
    boundary(1);
    ck_assert_uint_eq(bench.rank.running.count, 2);
    ck_assert_uint_eq(*staged, CALL_BYTES + SHARE_BYTES);
    kvt_rank_release(&bench.rank, bench.rank.running.items[0]);
    ck_assert_uint_eq(*staged, CALL_BYTES);
    kvt_rank_release(&bench.rank, bench.rank.running.items[0]);
    ck_assert_uint_eq(*staged, kept);
    stop();
}
END_TEST

START_TEST(nobody_ever_fits_where_the_widest_call_does_not)
{
    const uint64_t each = (uint64_t)INPUT * INDEX_TOKEN + FIXED_BYTES + SHARE_BYTES;
    const uint64_t kept = CALL_BYTES - SHARE_BYTES;
    struct kvt_error err = {0};
    uint64_t slots;
    bool fits;
    for (uint64_t more = 0; more < 2; more++) {
        start_sharing(kept + each - 1 + more);
        ck_assert_int_eq(kvt_rank_can_ever_fit(&bench.rank, INPUT, INPUT, LONGEST, &fits, &err),
                         KVT_OK);
        ck_assert(fits == (more > 0));
        stop();
    }
    start_sharing(kept - 1);
    ck_assert(kvt_rank_is_sane(&bench.rank, 0));
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, INPUT, LONGEST, &slots, NULL, &err), KVT_OK);
    ck_assert_uint_eq(slots, 0);
    ck_assert_int_eq(kvt_rank_can_ever_fit(&bench.rank, INPUT, INPUT, LONGEST, &fits, &err),
                     KVT_OK);
    ck_assert(!fits);
    stop();
}
END_TEST

START_TEST(what_can_be_admitted_and_can_never_grow_never_fits)
{
    struct kvt_error err = {0};
    bool fits;
    start("hisparse", 1, 50 * INDEX_TOKEN, 100 * INDEX_TOKEN);
    /* Growth is taken whole from one place: the reserve of 100 rows, or the pool's 50. */
    ck_assert_int_eq(kvt_rank_can_ever_fit(&bench.rank, INPUT, INPUT + 100, LONGEST, &fits, &err),
                     KVT_OK);
    ck_assert(fits);
    ck_assert_int_eq(kvt_rank_can_ever_fit(&bench.rank, INPUT, INPUT + 199, LONGEST, &fits, &err),
                     KVT_OK);
    ck_assert(!fits);
    ck_assert_int_eq(
        kvt_rank_can_ever_fit(&bench.rank, INPUT + 51, INPUT + 51, LONGEST, &fits, &err), KVT_OK);
    ck_assert(!fits);
    bench.host.capacity_bytes = (uint64_t)INPUT * PAYLOAD_TOKEN;
    ck_assert_int_eq(kvt_rank_can_ever_fit(&bench.rank, INPUT, INPUT + 1, LONGEST, &fits, &err),
                     KVT_OK);
    ck_assert(!fits);
    ck_assert_uint_eq(bench.host.used_bytes, 0);
    stop();
}
END_TEST

START_TEST(requests_are_admitted_and_imported_first_come_first_served)
{
    struct kvt_error err = {0};
    start("hisparse", 2, 0, 1 << 20);
    for (int i = 0; i < 3; i++)
        (void)enqueue();
    boundary(0);
    ck_assert_uint_eq(bench.rank.importing.count, 2);
    ck_assert_uint_eq(bench.rank.waiting.count, 1);
    ck_assert_uint_eq(bench.rank.counters.admitted, 2);
    ck_assert_uint_eq(bench.rank.counters.admitted_input_tokens, 2 * INPUT);

    struct kvt_live *first, *second;
    kvt_ns duration_ns;
    ck_assert_int_eq(kvt_rank_begin_import(&bench.rank, bench.now_ns, &first, &duration_ns, &err),
                     KVT_OK);
    ck_assert_uint_eq(first->id, 0);
    ck_assert_int_gt(duration_ns, 0);
    /* One server: the next one's turn has not come. */
    ck_assert_int_eq(kvt_rank_begin_import(&bench.rank, bench.now_ns, &second, &duration_ns, &err),
                     KVT_OK);
    ck_assert_ptr_null(second);
    ck_assert_int_eq(kvt_rank_end_import(&bench.rank, bench.now_ns, &bench.lives[1], true, &err),
                     KVT_ERR_INTERNAL);
    first->generated_tokens = 1;
    ck_assert_int_eq(kvt_rank_end_import(&bench.rank, bench.now_ns, first, true, &err), KVT_OK);
    ck_assert_uint_eq(bench.rank.running.count, 0); /* it joins at the next boundary */
    boundary(1);
    ck_assert_uint_eq(bench.rank.running.count, 1);
    ck_assert_ptr_eq(bench.rank.running.items[0], first);
    ck_assert_uint_eq(bench.rank.counters.import_hbm_bytes, (uint64_t)INPUT * INDEX_TOKEN);
    ck_assert_uint_eq(bench.rank.counters.import_host_bytes, (uint64_t)INPUT * PAYLOAD_TOKEN);
    stop();
}
END_TEST

START_TEST(growth_comes_out_of_the_reserve_then_the_pool_then_others)
{
    start("hisparse", 2, 2 * INDEX_TOKEN, 2 * INDEX_TOKEN);
    (void)enqueue();
    (void)enqueue();
    boundary(0);
    import_all();
    boundary(1); /* one row each */
    ck_assert_uint_eq(bench.rank.memory.reserve_used, 2 * INDEX_TOKEN);
    ck_assert_uint_eq(kvt_rank_memory_free(&bench.rank.memory, KVT_MEM_INDEX), 2 * INDEX_TOKEN);
    step(2);
    boundary(2);
    ck_assert_uint_eq(kvt_rank_memory_free(&bench.rank.memory, KVT_MEM_INDEX), 0);
    ck_assert_uint_eq(bench.put_aside_count, 0);
    step(3);
    boundary(3);
    /* The last admitted loses its memory, and nobody comes in until somebody has finished. */
    ck_assert_uint_eq(bench.put_aside_count, 1);
    ck_assert_uint_eq(bench.put_aside[0], 1);
    ck_assert_uint_eq(bench.rank.counters.preemptions, 1);
    ck_assert_uint_eq(bench.rank.running.count, 1);
    ck_assert_uint_eq(bench.rank.waiting.count, 1);
    ck_assert(bench.rank.admission_held);
    for (kvt_ns now_ns = 4; now_ns < 20; now_ns++) {
        step(now_ns);
        boundary(now_ns);
        ck_assert_uint_eq(bench.rank.waiting.count, 1);
    }
    kvt_rank_release(&bench.rank, &bench.lives[0]);
    boundary(20);
    ck_assert_uint_eq(bench.rank.waiting.count, 0);
    /* It comes in with what it had: the prompt and two rows of answers. They waited on host. */
    ck_assert_uint_eq(bench.lives[1].pages.committed_tokens, INPUT + 2);
    ck_assert_uint_eq(bench.rank.counters.reprefill_tokens, 0);
    ck_assert_uint_eq(bench.rank.counters.admitted, 2);
    stop();
}
END_TEST

START_TEST(whoever_is_put_aside_waits_before_those_who_never_ran)
{
    start("hisparse", 3, 2 * INDEX_TOKEN, 0);
    for (int i = 0; i < 5; i++)
        (void)enqueue();
    boundary(0);
    import_all();
    boundary(1); /* three rows are wanted and two are there */
    ck_assert_uint_eq(bench.put_aside_count, 1);
    ck_assert_uint_eq(bench.put_aside[0], 2);
    ck_assert_uint_eq(bench.rank.running.count, 2);
    ck_assert_uint_eq(bench.rank.waiting.count, 3);
    ck_assert_uint_eq(bench.rank.waiting.items[0]->id, 2);
    ck_assert_uint_eq(bench.rank.waiting.items[1]->id, 3);
    ck_assert_uint_eq(bench.rank.waiting.items[2]->id, 4);
    stop();
}
END_TEST

START_TEST(the_only_request_waits_for_imports_to_free_what_it_needs)
{
    start("hisparse", 2, 0, 0);
    (void)enqueue();
    boundary(0);
    import_all();
    (void)enqueue();
    boundary(1); /* takes its row of the second place, so that nobody else fits */
    ck_assert_uint_eq(bench.rank.running.count, 1);
    ck_assert(!bench.lives[0].blocked);
    ck_assert_uint_eq(bench.rank.importing.count, 0);
    stop();

    start("hisparse", 2, 0, 0);
    (void)enqueue();
    (void)enqueue();
    boundary(0);
    struct kvt_error err = {0};
    struct kvt_live *live;
    kvt_ns duration_ns;
    ck_assert_int_eq(kvt_rank_begin_import(&bench.rank, bench.now_ns, &live, &duration_ns, &err),
                     KVT_OK);
    live->generated_tokens = 1;
    ck_assert_int_eq(kvt_rank_end_import(&bench.rank, bench.now_ns, live, true, &err), KVT_OK);
    boundary(1);
    ck_assert(bench.lives[0].blocked);
    import_all();
    boundary(2); /* the other one runs too, and goes */
    ck_assert_uint_eq(bench.put_aside_count, 1);
    ck_assert_uint_eq(bench.put_aside[0], 1);
    ck_assert(!bench.lives[0].blocked);
    stop();
}
END_TEST

/* Puts the request aside that has run longest: a policy that takes from the front. */
static uint32_t preempt_first(void *state, const struct kvt_scheduling_request *running,
                              uint32_t count)
{
    (void)state;
    (void)running;
    return count > 1 ? 0 : count;
}

START_TEST(everybody_grows_whoever_is_put_aside)
{
    struct kvt_scheduling_policy from_the_front;
    start("hisparse", 4, 2 * INDEX_TOKEN, 0);
    from_the_front = *(const struct kvt_scheduling_policy *)(const void *)bench.env.scheduling.info;
    from_the_front.preempt = preempt_first;
    restart(NULL, &from_the_front.info);
    for (int i = 0; i < 4; i++)
        (void)enqueue();
    boundary(0);
    import_all();
    boundary(1);
    ck_assert_uint_eq(bench.put_aside_count, 1);
    ck_assert_uint_eq(bench.put_aside[0], 0);
    ck_assert_uint_eq(bench.rank.running.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct kvt_live *live = bench.rank.running.items[i];
        ck_assert_uint_eq(live->holding.bytes[KVT_MEM_INDEX], (uint64_t)(INPUT + 1) * INDEX_TOKEN);
    }
    stop();
}
END_TEST

/* Runs one adaptive request until pages are under way; the time of its boundary. */
static void start_filling(uint64_t spare_pages)
{
    start("adaptive", 2, spare_pages * PAGE_BYTES, 1 << 20);
    bench.values[0][1].number = 1000; /* refill_gb_per_s */
    restart(NULL, NULL);
    (void)enqueue();
    boundary(0);
    import_all();
    boundary(KVT_NS_PER_S);
}

START_TEST(pages_count_when_they_leave_and_are_ready_at_a_boundary_behind_their_transfer)
{
    start_filling(4);
    struct kvt_live *live = &bench.lives[0];
    /* 1,000 rows: 14 pages are out of the tail; there is room for 4 and a second request. */
    ck_assert_uint_eq(live->pages.eligible_pages, 14);
    ck_assert_uint_eq(live->pages.filling_pages, 14);
    ck_assert_uint_eq(live->pages.optional_pages, 0);
    ck_assert_uint_eq(live->holding.bytes[KVT_MEM_PAYLOAD], 14 * (uint64_t)PAGE_BYTES);
    ck_assert_uint_eq(bench.rank.counters.fill_bytes, 14 * (uint64_t)PAGE_BYTES);
    kvt_ns done_ns = bench.rank.h2d.free_ns;
    ck_assert_int_eq(done_ns, KVT_NS_PER_S + INT64_C(814889)); /* 40,255,488 B at 49.4 GB/s, up */
    boundary(done_ns - 1);
    ck_assert_uint_eq(live->pages.optional_pages, 0);
    boundary(done_ns);
    ck_assert_uint_eq(live->pages.optional_pages, 14);
    ck_assert_uint_eq(bench.rank.counters.pages_filled, 14);
    ck_assert_uint_eq(bench.rank.ready_rows, 14 * 64);
    ck_assert_uint_eq(bench.rank.eligible_rows, 14 * 64);
    stop();
}
END_TEST

START_TEST(optional_pages_give_way_to_a_request_and_to_growth)
{
    start_filling(4);
    boundary(2 * KVT_NS_PER_S);
    (void)enqueue();
    boundary(3 * KVT_NS_PER_S);
    /* Released to the page: the second one fits, the lowest pages have gone. */
    ck_assert_uint_eq(bench.rank.importing.count, 1);
    struct kvt_live *live = &bench.lives[0];
    uint64_t kept = live->pages.optional_pages;
    ck_assert_uint_eq(kept, 4);
    ck_assert_uint_eq(bench.rank.counters.pages_released, 10);
    ck_assert_uint_eq(live->pages.ready_bits[0], UINT64_C(0xf) << 10);
    ck_assert_uint_eq(bench.rank.counters.preemptions, 0);
    stop();
}
END_TEST

START_TEST(pages_on_their_way_to_a_request_that_has_gone_are_nobodys)
{
    start_filling(4);
    kvt_rank_release(&bench.rank, &bench.lives[0]);
    ck_assert_uint_eq(kvt_rank_memory_used(&bench.rank.memory), 0);
    ck_assert_uint_eq(bench.host.used_bytes, 0);
    boundary(10 * KVT_NS_PER_S);
    ck_assert_uint_eq(bench.rank.fill_count, 0);
    ck_assert_uint_eq(bench.rank.counters.pages_filled, 0);
    stop();
}
END_TEST

START_TEST(a_link_carries_one_transfer_after_the_other)
{
    struct kvt_link link = {.bytes_per_s = 1000000000};
    ck_assert_int_eq(kvt_link_send(&link, 100, 50), 150);
    ck_assert_int_eq(kvt_link_send(&link, 120, 10), 160);
    ck_assert_uint_eq(kvt_link_backlog_bytes(&link, 130), 30);
    ck_assert_uint_eq(kvt_link_backlog_bytes(&link, 160), 0);
    ck_assert_uint_eq(kvt_link_backlog_bytes(&link, 1000), 0);
    ck_assert_int_eq(kvt_link_send(&link, 1000, 1), 1001);
    link.bytes_per_s = 3; /* rounds up */
    ck_assert_int_eq(kvt_link_send(&link, 2000, 1), 2000 + 333333334);
}
END_TEST

/* ---- Policies that break their contract ------------------------------------------------ */

static struct kvt_residency_action next_action;

static uint32_t act_once(void *state, const struct kvt_residency_view *view,
                         struct kvt_residency_action *actions, uint32_t capacity)
{
    (void)state;
    if (view->request_count == 0 || capacity == 0 || next_action.request == UINT32_MAX)
        return 0;
    actions[0] = next_action;
    return 1;
}

static uint32_t reclaim_once(void *state, const struct kvt_residency_view *view,
                             uint64_t want_bytes, struct kvt_residency_action *actions,
                             uint32_t capacity)
{
    (void)want_bytes;
    return act_once(state, view, actions, capacity);
}

static struct kvt_residency_needs its_needs;

static void needs_as_told(const void *state, struct kvt_residency_needs *needs)
{
    (void)state;
    *needs = its_needs;
}

static struct kvt_residency_policy rogue;

/* The rank anew, under a policy of such needs that takes next_action once a boundary. */
static kvt_status try_to_obey(struct kvt_residency_needs needs, struct kvt_error *err)
{
    rogue = *(const struct kvt_residency_policy *)(const void *)bench.env.residency.info;
    rogue.info.name = "rogue";
    rogue.info.params = NULL;
    rogue.info.param_count = 0;
    rogue.needs = needs_as_told;
    rogue.boundary = act_once;
    rogue.reclaim = NULL;
    rogue.landing = NULL;
    its_needs = needs;
    kvt_rank_fini(&bench.rank);
    bench.env.residency.info = &rogue.info;
    return kvt_rank_init(&bench.rank, &bench.env, &bench.decisions, err);
}

static const struct kvt_residency_action no_action = {KVT_RESIDENCY_BACKUP, UINT32_MAX, 0, 0};

static void obey(struct kvt_residency_needs needs)
{
    struct kvt_error err = {0};
    kvt_status status = try_to_obey(needs, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
    next_action = no_action;
}

START_TEST(a_policy_that_does_what_it_may_not_is_named)
{
    static const struct {
        struct kvt_residency_action action;
        kvt_status status;
        const char *words;
    } cases[] = {
        {{KVT_RESIDENCY_RELEASE, 0, 0, 1}, KVT_ERR_POLICY, "not all of them are optional"},
        {{KVT_RESIDENCY_RELEASE, 0, 0, 0}, KVT_ERR_POLICY, "not all of them are optional"},
        {{KVT_RESIDENCY_RELEASE, 9, 0, 1}, KVT_ERR_POLICY, "request 9, which is not running"},
        {{KVT_RESIDENCY_REFILL, 0, 14, 1}, KVT_ERR_POLICY, "not all of them are backed"},
        {{KVT_RESIDENCY_REFILL, 0, 0, UINT32_MAX}, KVT_ERR_POLICY, "not all of them are backed"},
        {{KVT_RESIDENCY_REFILL, 0, 0, 3}, KVT_ERR_POLICY, "has not that much free"},
        {{KVT_RESIDENCY_DEMOTE, 0, 0, 0}, KVT_ERR_POLICY, "which frees nothing"},
        {{KVT_RESIDENCY_DEMOTE, 9, 0, 0}, KVT_ERR_POLICY, "request 9, which is not running"},
        {{KVT_RESIDENCY_RESIZE, 0, 0, 0}, KVT_ERR_POLICY, "1 to 1200, which is residency.hot"},
        {{KVT_RESIDENCY_RESIZE, 0, 0, 1201}, KVT_ERR_POLICY, "a hot cache of 1201 tokens"},
        {{KVT_RESIDENCY_BACKUP, 0, 0, 1000},
         KVT_ERR_POLICY,
         "of which 1000 are committed and 1000"},
        {{KVT_RESIDENCY_BACKUP, 0, 0, 1001}, KVT_ERR_POLICY, "more than these and at most those"},
        {{5, 0, 0, 1}, KVT_ERR_POLICY, "release, refill, backup, resize and demote"},
    };
    struct kvt_error err = {0};
    start("adaptive", 1, 2 * PAGE_BYTES + 10 * INDEX_TOKEN, 0);
    obey((struct kvt_residency_needs){.host_backing = true, .optional_pages = true});
    next_action = cases[_i].action;
    (void)enqueue();
    boundary(0);
    import_all();
    ck_assert_int_eq(try_boundary(1, &err), cases[_i].status);
    ck_assert_str_eq(err.where, "rogue");
    ck_assert_msg(strstr(err.message, cases[_i].words) != NULL, "%s", err.message);
    ck_assert(kvt_rank_is_sane(&bench.rank, bench.now_ns));
    stop();
}
END_TEST

START_TEST(a_policy_that_refills_under_pressure_is_named)
{
    struct kvt_error err = {0};
    start_filling(0);
    rogue = *(const struct kvt_residency_policy *)(const void *)bench.env.residency.info;
    rogue.info.name = "rogue";
    rogue.reclaim = reclaim_once;
    bench.rank.residency = &rogue;
    next_action = (struct kvt_residency_action){KVT_RESIDENCY_REFILL, 0, 0, 1};
    boundary(2 * KVT_NS_PER_S);
    (void)enqueue();
    ck_assert_int_eq(try_boundary(3 * KVT_NS_PER_S, &err), KVT_ERR_POLICY);
    ck_assert_str_eq(err.where, "rogue");
    ck_assert_ptr_nonnull(strstr(err.message, "other than a release or a demotion"));
    stop();
}
END_TEST

START_TEST(the_nodes_dram_gives_slots_too)
{
    struct kvt_error err = {0};
    uint64_t slots, by_host;
    start("hisparse", 5, 0, 0);
    bench.host.capacity_bytes = 7 * (uint64_t)INPUT * PAYLOAD_TOKEN + 6;
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, INPUT, LONGEST, &slots, &by_host, &err), KVT_OK);
    ck_assert_uint_eq(slots, 5);
    ck_assert_uint_eq(by_host, 7);
    bench.env.host_copies = 2;
    restart(NULL, NULL);
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, INPUT, LONGEST, &slots, &by_host, &err), KVT_OK);
    ck_assert_uint_eq(by_host, 3);
    stop();
}
END_TEST

/* Two requests, and room for a row each and two pages of history. The pages are on
 * their way up when the next row is asked for: it waits for them to land, goes on by
 * releasing one, and nobody loses his place. */
START_TEST(nobody_is_put_aside_for_pages_on_their_way_up)
{
    start("adaptive", 2, 2 * INDEX_TOKEN + 2 * (uint64_t)PAGE_BYTES + 100, 0);
    (void)enqueue();
    (void)enqueue();
    boundary(0);
    import_all();
    boundary(KVT_NS_PER_S);
    ck_assert_uint_eq(bench.rank.counters.pages_filled, 0);
    ck_assert_uint_eq(bench.rank.fill_count, 2);
    step(KVT_NS_PER_S);
    boundary(KVT_NS_PER_S + 1);
    ck_assert_uint_eq(bench.put_aside_count, 0);
    ck_assert(bench.rank.running.items[0]->blocked);
    boundary(2 * KVT_NS_PER_S);
    ck_assert_uint_eq(bench.put_aside_count, 0);
    ck_assert_uint_eq(bench.rank.running.count, 2);
    ck_assert(!bench.rank.running.items[0]->blocked && !bench.rank.running.items[1]->blocked);
    ck_assert_uint_ge(bench.rank.counters.pages_released, 1);
    stop();
}
END_TEST

/* ---- What a policy may do ---------------------------------------------------------------- */

static const struct kvt_residency_needs plain = {
    .host_backing = true, .optional_pages = true, .keeps_aside = true};
static const struct kvt_residency_needs lazy = {
    .host_backing = true, .optional_pages = true, .deferred_backup = true, .keeps_aside = true};
static const struct kvt_residency_needs hybrid = {.starts_whole = true,
                                                  .host_backing = true,
                                                  .optional_pages = true,
                                                  .deferred_backup = true,
                                                  .keeps_aside = true};

static void act(kvt_ns now_ns, enum kvt_residency_verb verb, uint32_t first, uint32_t count)
{
    next_action = (struct kvt_residency_action){(uint16_t)verb, 0, first, count};
    boundary(now_ns);
    next_action = no_action;
}

static uint64_t held(const struct kvt_live *live, enum kvt_mem_class mem_class)
{
    return live->holding.bytes[mem_class] + live->holding.reserve_bytes[mem_class];
}

START_TEST(needs_that_contradict_each_other_are_named)
{
    static const struct kvt_residency_needs cases[] = {
        {.history_in_hbm = true, .optional_pages = true, .host_backing = true},
        {.history_in_hbm = true, .starts_whole = true, .host_backing = true},
        {.optional_pages = true},
        {.starts_whole = true},
        {.history_in_hbm = true, .deferred_backup = true},
        {.host_backing = true, .offloads_whole = true}};
    struct kvt_error err = {0};
    start("adaptive", 1, 0, 0);
    ck_assert_int_eq(try_to_obey(cases[_i], &err), KVT_ERR_POLICY);
    ck_assert_str_eq(err.where, "rogue");
    ck_assert_ptr_nonnull(strstr(err.message, "needs()"));
    obey(plain);
    stop();
}
END_TEST

START_TEST(a_whole_request_holds_its_rows_and_no_hot_cache)
{
    start("adaptive", 2, 0, 1 << 20);
    obey(hybrid);
    struct kvt_live *live = enqueue();
    boundary(0);
    ck_assert(live->pages.whole);
    ck_assert_uint_eq(live->hot_tokens, 0);
    ck_assert_uint_eq(held(live, KVT_MEM_PAYLOAD), (uint64_t)INPUT * PAYLOAD_TOKEN);
    ck_assert_uint_eq(held(live, KVT_MEM_HOT) + held(live, KVT_MEM_TAIL), 0);
    ck_assert_uint_eq(live->hot_cost_bytes, FIXED_BYTES);
    import_all();
    /* It came into HBM, and not to host as well; there is room for its copy. */
    ck_assert_uint_eq(bench.rank.counters.import_host_bytes, 0);
    ck_assert_uint_eq(bench.rank.counters.import_hbm_bytes,
                      (uint64_t)INPUT * (INDEX_TOKEN + PAYLOAD_TOKEN));
    ck_assert_uint_eq(live->holding.host_bytes, (uint64_t)INPUT * PAYLOAD_TOKEN);
    ck_assert_uint_eq(live->pages.backed_tokens, 0);
    boundary(1);
    ck_assert_uint_eq(held(live, KVT_MEM_PAYLOAD), (uint64_t)(INPUT + 1) * PAYLOAD_TOKEN);
    ck_assert_uint_eq(bench.rank.eligible_rows, 0); /* nothing has a copy yet */
    act(2, KVT_RESIDENCY_BACKUP, 0, 640);
    boundary(KVT_NS_PER_S);
    ck_assert_uint_eq(live->pages.backed_tokens, 640);
    ck_assert_uint_eq(bench.rank.counters.backup_bytes, 640 * PAYLOAD_TOKEN);
    ck_assert_uint_eq(bench.rank.ready_rows, 640);
    ck_assert_uint_eq(bench.rank.eligible_rows, 640);
    stop();
}
END_TEST

/* One of 10,000 tokens, so that a hot cache of top_k rows is the smaller way to hold it. */
static struct kvt_live *enqueue_long(void)
{
    struct kvt_live *live = enqueue();
    live->input_tokens = LONG;
    live->max_tokens = LONG + OUTPUT;
    return live;
}

START_TEST(where_a_request_does_not_fit_whole_it_starts_with_a_hot_cache)
{
    /* Room for one whole request and the hot cache of another, or a byte less. */
    start("adaptive", 1, 0, 1 << 20);
    bench.env.hot_tokens = TOP_K;
    bench.env.index_pool_bytes =
        (uint64_t)LONG * (2 * INDEX_TOKEN + PAYLOAD_TOKEN) + HOT_BYTES - (_i ? 1 : 0);
    obey(hybrid);
    const struct kvt_live *first = enqueue_long(), *second = enqueue_long();
    boundary(0);
    ck_assert(first->pages.whole);
    ck_assert_uint_eq(bench.rank.importing.count, _i ? 1 : 2);
    ck_assert_uint_eq(second->hot_tokens, _i ? 0 : TOP_K);
    ck_assert_uint_eq(held(second, KVT_MEM_HOT) + held(second, KVT_MEM_TAIL), _i ? 0 : HOT_BYTES);
    ck_assert_uint_eq(held(second, KVT_MEM_PAYLOAD), 0);
    /* Slots count requests as small as they can be held. */
    struct kvt_error err = {0};
    uint64_t slots;
    ck_assert_int_eq(kvt_rank_slots(&bench.rank, LONG, LONG + OUTPUT, &slots, NULL, &err), KVT_OK);
    ck_assert_uint_eq(slots, bench.env.index_pool_bytes / (LONG * INDEX_TOKEN + HOT_BYTES));
    stop();
}
END_TEST

START_TEST(a_resize_is_due_at_the_next_boundary_and_parts_a_whole_request)
{
    start("adaptive", 3, 0, 1 << 20);
    obey(hybrid);
    struct kvt_live *live = enqueue();
    boundary(0);
    import_all();
    boundary(1);
    act(2, KVT_RESIDENCY_BACKUP, 0, INPUT);
    act(KVT_NS_PER_S, KVT_RESIDENCY_RESIZE, 10, LONGEST);
    ck_assert_uint_eq(bench.resized_count, 0);
    ck_assert(live->pages.whole);
    ck_assert_uint_eq(live->next_hot_tokens, LONGEST);
    boundary(KVT_NS_PER_S + 1);
    ck_assert_uint_eq(bench.resized_count, 1);
    ck_assert_uint_eq(live->hot_tokens, LONGEST);
    ck_assert_uint_eq(live->next_hot_tokens, 0);
    /* 14 clean pages, of which 10 stay, and the page that is partly in the tail. */
    ck_assert_uint_eq(live->pages.optional_pages, 10);
    ck_assert_uint_eq(live->pages.kept_pages, 1);
    ck_assert_uint_eq(held(live, KVT_MEM_PAYLOAD), 11 * (uint64_t)PAGE_BYTES);
    ck_assert_uint_eq(held(live, KVT_MEM_HOT) + held(live, KVT_MEM_TAIL), FIXED_BYTES);
    ck_assert_uint_eq(bench.rank.counters.pages_released, 4);
    /* As much again: nothing changes hands, and nobody is told. */
    act(KVT_NS_PER_S + 2, KVT_RESIDENCY_RESIZE, UINT32_MAX, LONGEST);
    boundary(KVT_NS_PER_S + 3);
    ck_assert_uint_eq(bench.resized_count, 0);
    ck_assert_uint_eq(live->pages.optional_pages, 10);
    stop();
}
END_TEST

START_TEST(a_resize_without_room_waits_for_it)
{
    start("adaptive", 1, 0, 1 << 20);
    bench.env.index_pool_bytes = (uint64_t)INPUT * (INDEX_TOKEN + PAYLOAD_TOKEN) + 4096;
    obey(hybrid);
    struct kvt_live *live = enqueue();
    boundary(0);
    import_all();
    boundary(1);
    /* No page is on host, so that none can go for the hot cache. */
    act(2, KVT_RESIDENCY_RESIZE, 0, LONGEST);
    boundary(3);
    ck_assert(live->pages.whole);
    ck_assert_uint_eq(live->next_hot_tokens, LONGEST);
    stop();
}
END_TEST

START_TEST(a_demotion_leaves_what_is_protected)
{
    start("adaptive", 1, 0, 1 << 20);
    bench.env.hot_tokens = TOP_K;
    bench.env.index_pool_bytes = (uint64_t)LONG * (INDEX_TOKEN + PAYLOAD_TOKEN) + 4096;
    obey(hybrid);
    const struct kvt_live *live = enqueue_long();
    boundary(0);
    import_all();
    boundary(1);
    act(2, KVT_RESIDENCY_BACKUP, 0, 9900);
    boundary(KVT_NS_PER_S);
    /* There is no room beside it: its own pages make it. */
    uint64_t free_bytes = kvt_rank_memory_free(&bench.rank.memory, KVT_MEM_PAYLOAD);
    act(KVT_NS_PER_S + 1, KVT_RESIDENCY_DEMOTE, 0, 0);
    ck_assert_uint_eq(bench.resized_count, 1);
    ck_assert_uint_eq(bench.rank.counters.demotions, 1);
    ck_assert_uint_eq(live->hot_tokens, TOP_K);
    ck_assert_uint_eq(live->pages.optional_pages, 0);
    ck_assert_uint_eq(live->pages.kept_pages, 2); /* rows 9,856 to 9,936 are out of the tail */
    ck_assert_uint_eq(held(live, KVT_MEM_PAYLOAD), 2 * (uint64_t)PAGE_BYTES);
    ck_assert_uint_gt(kvt_rank_memory_free(&bench.rank.memory, KVT_MEM_PAYLOAD),
                      free_bytes + 7000 * (uint64_t)PAYLOAD_TOKEN);
    stop();
}
END_TEST

START_TEST(deferred_rows_stay_in_hbm_while_there_is_room)
{
    start("adaptive", 1, 3 * PAGE_BYTES, 1 << 20);
    obey(lazy);
    struct kvt_live *live = enqueue();
    boundary(0);
    import_all();
    kvt_ns now_ns = 1;
    boundary(now_ns);
    ck_assert_int_eq(kvt_rank_queue_backup(&bench.rank, now_ns, 1), now_ns);
    for (int i = 0; i < 150; i++) {
        step(now_ns);
        boundary(++now_ns);
        ck_assert_int_eq(kvt_pages_tail_ready_ns(&live->pages, 1, now_ns), now_ns);
    }
    /* 1,150 rows: pages 15 and 16 have begun to leave, and were not on host. */
    ck_assert_uint_eq(live->pages.kept_pages, 2);
    ck_assert_uint_eq(bench.rank.counters.pages_kept, 2);
    ck_assert_uint_eq(held(live, KVT_MEM_PAYLOAD), 2 * (uint64_t)PAGE_BYTES);
    ck_assert_uint_eq(bench.rank.counters.backup_bytes, 0);
    ck_assert_uint_eq(live->pages.backed_tokens, INPUT);
    act(++now_ns, KVT_RESIDENCY_BACKUP, 0, 1150);
    boundary(KVT_NS_PER_S);
    ck_assert_uint_eq(live->pages.optional_pages, 1); /* without a refill */
    ck_assert_uint_eq(bench.rank.counters.fill_bytes, 0);
    stop();
}
END_TEST

START_TEST(deferred_rows_without_room_are_written_and_awaited)
{
    start("adaptive", 1, 0, 1 << 20);
    obey(lazy);
    struct kvt_live *live = enqueue();
    boundary(0);
    import_all();
    kvt_ns now_ns = 1, stalled_ns = 0;
    boundary(now_ns);
    for (int i = 0; i < 150; i++) {
        step(now_ns);
        boundary(++now_ns);
        kvt_ns ready_ns = kvt_pages_tail_ready_ns(&live->pages, 1, now_ns);
        stalled_ns += ready_ns - now_ns;
        now_ns = ready_ns;
    }
    ck_assert_uint_eq(live->pages.kept_pages, 0);
    ck_assert_uint_gt(bench.rank.counters.backup_forced, 0);
    ck_assert_int_gt(stalled_ns, 0);
    ck_assert(kvt_rank_is_sane(&bench.rank, now_ns));
    stop();
}
END_TEST

static struct kvt_residency_landing next_landing;

static void land_as_told(void *state, const struct kvt_residency_view *view,
                         const struct kvt_residency_import *import,
                         struct kvt_residency_landing *landing)
{
    (void)state;
    (void)view;
    ck_assert_uint_eq(import->page_count, 15);
    *landing = next_landing;
}

START_TEST(history_that_lands_in_hbm_does_not_come_to_host_from_outside)
{
    start("adaptive", 1, 20 * PAGE_BYTES, 1 << 20);
    obey(_i ? lazy : plain);
    rogue.landing = land_as_told;
    next_landing = (struct kvt_residency_landing){4, _i};
    struct kvt_live *live = enqueue();
    boundary(0);
    import_all();
    ck_assert_uint_eq(bench.rank.counters.pages_landed, 4);
    ck_assert_uint_eq(bench.rank.counters.import_host_bytes, 11 * (uint64_t)PAGE_BYTES);
    ck_assert_uint_eq(bench.rank.counters.import_hbm_bytes,
                      (uint64_t)INPUT * INDEX_TOKEN + 4 * (uint64_t)PAGE_BYTES);
    ck_assert_uint_eq(held(live, KVT_MEM_PAYLOAD), 4 * (uint64_t)PAGE_BYTES);
    boundary(1);
    ck_assert_uint_eq(live->pages.kept_pages, 4);
    boundary(KVT_NS_PER_S);
    ck_assert_uint_eq(live->pages.optional_pages, _i ? 0 : 3);
    ck_assert_uint_eq(bench.rank.counters.backup_bytes,
                      _i ? 0 : (INPUT - 11 * 64) * (uint64_t)PAYLOAD_TOKEN);
    stop();
}
END_TEST

START_TEST(no_more_lands_than_fits)
{
    start("adaptive", 1, 2 * PAGE_BYTES + 5, 1 << 20);
    obey(plain);
    rogue.landing = land_as_told;
    next_landing = (struct kvt_residency_landing){UINT32_MAX, false};
    (void)enqueue();
    boundary(0);
    import_all();
    ck_assert_uint_eq(bench.rank.counters.pages_landed, 2);
    stop();
}
END_TEST

START_TEST(landing_without_a_copy_needs_deferred_backup)
{
    struct kvt_error err = {0};
    struct kvt_live *live;
    kvt_ns duration_ns;
    start("adaptive", 1, 20 * PAGE_BYTES, 1 << 20);
    obey(plain);
    rogue.landing = land_as_told;
    next_landing = (struct kvt_residency_landing){4, true};
    (void)enqueue();
    boundary(0);
    ck_assert_int_eq(kvt_rank_begin_import(&bench.rank, 0, &live, &duration_ns, &err),
                     KVT_ERR_POLICY);
    ck_assert_str_eq(err.where, "rogue");
    ck_assert_ptr_nonnull(strstr(err.message, "no deferred_backup"));
    stop();
}
END_TEST

/* ---- Requests put aside --------------------------------------------------------------------- */

/* Two requests of a policy, the second put aside with INPUT + 2 rows. Its prompt's whole pages have
 * keys: none are known, or as many as there are. */
static void put_second_aside_with(const char *policy, const uint64_t *keys, uint32_t key_count)
{
    uint64_t row = strcmp(policy, "hisparse") ? INDEX_TOKEN + PAYLOAD_TOKEN : INDEX_TOKEN;
    struct kvt_error err = {0};
    start(policy, 2, 2 * row, 2 * row);
    (void)enqueue();
    ck_assert_int_eq(kvt_shared_init(&enqueue()->shared, keys, key_count, &err), KVT_OK);
    boundary(0);
    import_all();
    for (kvt_ns now_ns = 1; now_ns < 3; now_ns++) {
        boundary(now_ns);
        step(now_ns);
    }
    boundary(3);
    ck_assert_uint_eq(bench.put_aside_count, 1);
}

static void put_second_aside(const char *policy)
{
    put_second_aside_with(policy, NULL, 0);
}

/* Under hisparse the prompt's whole pages are the store's, payload on host. */
START_TEST(what_the_store_keeps_of_a_request_put_aside_is_not_kept_twice)
{
    uint64_t keys[INPUT / KVT_PAGE_ROWS];
    const uint32_t pages = INPUT / KVT_PAGE_ROWS;
    for (uint32_t i = 0; i < pages; i++)
        keys[i] = 7 + i;
    put_second_aside_with("hisparse", keys, pages);
    struct kvt_live *live = &bench.lives[1];
    const struct kvt_rank *rank = &bench.rank;
    uint64_t rows = INPUT + 2, others = bench.lives[0].holding.host_bytes;
    ck_assert_uint_eq(live->aside_tokens, rows);
    ck_assert_uint_eq(live->shared.page_count, pages);
    ck_assert_uint_eq(live->shared.host_bytes, pages * (uint64_t)PAGE_BYTES);
    ck_assert_uint_eq(bench.host.used_bytes - others, rows * (INDEX_TOKEN + PAYLOAD_TOKEN));
    /* Nobody's, were they not held. */
    ck_assert_uint_eq(kvt_prefix_reclaimable_bytes(rank->prefixes.store, KVT_PREFIX_ROWS_HOST), 0);
    if (_i == 0) {
        kvt_rank_release(&bench.rank, &bench.lives[0]);
        boundary(KVT_NS_PER_S);
        import_all();
        boundary(2 * KVT_NS_PER_S);
        ck_assert_uint_eq(rank->running.count, 1);
        ck_assert_uint_eq(rank->counters.reprefill_tokens, 0);
        ck_assert_uint_eq(rank->counters.recalled_bytes, rows * INDEX_TOKEN);
        ck_assert_uint_eq(bench.host.used_bytes, (rows + 1) * PAYLOAD_TOKEN);
        ck_assert_uint_eq(held(live, KVT_MEM_INDEX) + live->shared.bytes[KVT_MEM_INDEX],
                          (rows + 1) * INDEX_TOKEN);
        ck_assert_uint_eq(live->shared.bytes[KVT_MEM_INDEX], pages * 64 * INDEX_TOKEN);
    } else { /* no room on host for a row of the other: the copy goes, what the store had with it */
        bench.host.capacity_bytes = bench.host.used_bytes;
        step(5);
        boundary(5);
        ck_assert_uint_eq(live->aside_tokens, 0);
        ck_assert_uint_eq(live->shared.page_count, 0);
        ck_assert(!bench.lives[0].blocked);
    }
    kvt_rank_release(&bench.rank, live);
    kvt_shared_fini(&live->shared);
    stop();
}
END_TEST

START_TEST(rows_of_a_request_put_aside_wait_on_host_and_come_up_from_there)
{
    static const char *const policies[] = {"hisparse", "prefix-offload", "resident"};
    bool keeps = _i < 2;
    put_second_aside(policies[_i]);
    struct kvt_live *live = &bench.lives[1];
    uint64_t rows = INPUT + 2;
    uint64_t copy_bytes = rows * (INDEX_TOKEN + PAYLOAD_TOKEN);
    ck_assert_uint_eq(live->aside_tokens, keeps ? rows : 0);
    ck_assert_uint_eq(live->holding.host_bytes, keeps ? copy_bytes : 0);
    uint64_t outside = bench.rank.counters.import_hbm_bytes + bench.rank.counters.import_host_bytes;
    kvt_rank_release(&bench.rank, &bench.lives[0]);
    boundary(KVT_NS_PER_S);
    import_all();
    ck_assert_uint_eq(bench.rank.counters.reprefill_tokens, keeps ? 0 : rows);
    uint64_t now_outside =
        bench.rank.counters.import_hbm_bytes + bench.rank.counters.import_host_bytes;
    ck_assert_uint_eq(now_outside == outside, keeps);
    ck_assert_uint_eq(bench.rank.counters.recalled_bytes,
                      keeps ? rows * (_i == 0 ? INDEX_TOKEN : INDEX_TOKEN + PAYLOAD_TOKEN) : 0);
    ck_assert_uint_eq(live->holding.host_bytes, _i == 0 ? rows * PAYLOAD_TOKEN : 0);
    boundary(2 * KVT_NS_PER_S);
    ck_assert_uint_eq(bench.rank.running.count, 1);
    stop();
}
END_TEST

START_TEST(copies_of_requests_put_aside_go_when_somebody_needs_the_dram)
{
    put_second_aside("hisparse");
    struct kvt_live *live = &bench.lives[1];
    ck_assert_uint_gt(live->aside_tokens, 0);
    /* The node is full: the one that runs wants another row's copy. */
    bench.host.capacity_bytes = bench.host.used_bytes;
    step(5);
    boundary(5);
    ck_assert_uint_eq(live->aside_tokens, 0);
    ck_assert_uint_eq(live->holding.host_bytes, 0);
    ck_assert_uint_eq(bench.rank.counters.copies_dropped, 1);
    ck_assert(!bench.lives[0].blocked);
    stop();
}
END_TEST

START_TEST(growth_is_for_the_widest_round_and_no_further_than_the_last_row)
{
    start("hisparse", 1, 100 * INDEX_TOKEN, 1 << 20);
    bench.env.queries_max = 8;
    bench.env.index_pool_bytes += UINT64_C(1) << 30; /* staging */
    restart(NULL, NULL);
    struct kvt_live *live = enqueue();
    boundary(0);
    import_all();
    boundary(1);
    ck_assert_uint_eq(held(live, KVT_MEM_INDEX), (uint64_t)(INPUT + 8) * INDEX_TOKEN);
    live->round_tokens = 5;
    kvt_live_commit(live, 2);
    live->generated_tokens += 5;
    ck_assert_uint_eq(live->pages.committed_tokens, INPUT + 5);
    ck_assert_uint_eq(live->step, 1);
    boundary(2);
    ck_assert_uint_eq(held(live, KVT_MEM_INDEX), (uint64_t)(INPUT + 13) * INDEX_TOKEN);
    live->output_tokens = 10;
    live->generated_tokens = 6;
    live->round_tokens = 2;
    kvt_live_commit(live, 3);
    live->generated_tokens += 2;
    boundary(3); /* INPUT + 7 rows, of INPUT + 9 that there will be: it has room for 13 */
    ck_assert_uint_eq(held(live, KVT_MEM_INDEX), (uint64_t)(INPUT + 13) * INDEX_TOKEN);
    stop();
}
END_TEST

static Suite *rank_suite(void)
{
    Suite *suite = suite_create("rank");
    TCase *tcase = tcase_create("rank");
    tcase_add_loop_test(tcase, slots_are_the_pool_over_what_a_request_must_hold, 0, 3);
    tcase_add_test(tcase, two_pools_give_the_slots_of_the_tighter);
    tcase_add_test(tcase, a_rank_keeps_what_its_sessions_do_not_hold_of_the_widest_call);
    tcase_add_test(tcase, nobody_ever_fits_where_the_widest_call_does_not);
    tcase_add_test(tcase, the_nodes_dram_gives_slots_too);
    tcase_add_test(tcase, nobody_is_put_aside_for_pages_on_their_way_up);
    tcase_add_test(tcase, what_can_be_admitted_and_can_never_grow_never_fits);
    tcase_add_test(tcase, requests_are_admitted_and_imported_first_come_first_served);
    tcase_add_test(tcase, growth_comes_out_of_the_reserve_then_the_pool_then_others);
    tcase_add_test(tcase, whoever_is_put_aside_waits_before_those_who_never_ran);
    tcase_add_test(tcase, the_only_request_waits_for_imports_to_free_what_it_needs);
    tcase_add_test(tcase, everybody_grows_whoever_is_put_aside);
    tcase_add_test(tcase,
                   pages_count_when_they_leave_and_are_ready_at_a_boundary_behind_their_transfer);
    tcase_add_test(tcase, optional_pages_give_way_to_a_request_and_to_growth);
    tcase_add_test(tcase, pages_on_their_way_to_a_request_that_has_gone_are_nobodys);
    tcase_add_test(tcase, a_link_carries_one_transfer_after_the_other);
    tcase_add_loop_test(tcase, a_policy_that_does_what_it_may_not_is_named, 0, 13);
    tcase_add_test(tcase, a_policy_that_refills_under_pressure_is_named);
    tcase_add_loop_test(tcase, needs_that_contradict_each_other_are_named, 0, 6);
    tcase_add_test(tcase, a_whole_request_holds_its_rows_and_no_hot_cache);
    tcase_add_loop_test(tcase, where_a_request_does_not_fit_whole_it_starts_with_a_hot_cache, 0, 2);
    tcase_add_test(tcase, a_resize_is_due_at_the_next_boundary_and_parts_a_whole_request);
    tcase_add_test(tcase, a_resize_without_room_waits_for_it);
    tcase_add_test(tcase, a_demotion_leaves_what_is_protected);
    tcase_add_test(tcase, deferred_rows_stay_in_hbm_while_there_is_room);
    tcase_add_test(tcase, deferred_rows_without_room_are_written_and_awaited);
    tcase_add_loop_test(tcase, history_that_lands_in_hbm_does_not_come_to_host_from_outside, 0, 2);
    tcase_add_test(tcase, no_more_lands_than_fits);
    tcase_add_test(tcase, landing_without_a_copy_needs_deferred_backup);
    tcase_add_loop_test(tcase, rows_of_a_request_put_aside_wait_on_host_and_come_up_from_there, 0,
                        3);
    tcase_add_loop_test(tcase, what_the_store_keeps_of_a_request_put_aside_is_not_kept_twice, 0, 2);
    tcase_add_test(tcase, copies_of_requests_put_aside_go_when_somebody_needs_the_dram);
    tcase_add_test(tcase, growth_is_for_the_widest_round_and_no_further_than_the_last_row);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(rank_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
