/* rank_bench.c -- one rank without a run around it, for tests of what happens at its boundaries. */
#include "rank_bench.h"

#include <string.h>

#include "shipped.h"

struct rank_bench bench;

void bench_start(const char *residency, uint32_t requests, uint64_t more_bytes,
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

void bench_restart(const struct kvt_plugin_info *residency,
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

void bench_stop(void)
{
    for (uint32_t i = 0; i < bench.live_count; i++)
        kvt_pages_fini(&bench.lives[i].pages);
    kvt_rank_fini(&bench.rank);
    kvt_arena_free(bench.arena);
}

struct kvt_live *bench_enqueue(void)
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

kvt_status bench_try_boundary(kvt_ns now_ns, struct kvt_error *err)
{
    static const struct kvt_rank_hooks hooks = {.put_aside = note_put_aside,
                                                .resized = note_resized};
    bench.put_aside_count = bench.resized_count = 0;
    bench.now_ns = now_ns;
    return kvt_rank_boundary(&bench.rank, now_ns, &hooks, err);
}

void bench_boundary(kvt_ns now_ns)
{
    struct kvt_error err = {0};
    kvt_status status = bench_try_boundary(now_ns, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
    ck_assert(kvt_rank_is_sane(&bench.rank, bench.now_ns));
}

void bench_import_all(void)
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

void bench_step(kvt_ns now_ns)
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

void bench_start_filling(uint64_t spare_pages)
{
    bench_start("adaptive", 2, spare_pages * PAGE_BYTES, 1 << 20);
    bench.values[0][1].number = 1000; /* refill_gb_per_s */
    bench_restart(NULL, NULL);
    (void)bench_enqueue();
    bench_boundary(0);
    bench_import_all();
    bench_boundary(KVT_NS_PER_S);
}

uint64_t bench_held(const struct kvt_live *live, enum kvt_mem_class mem_class)
{
    return live->holding.bytes[mem_class] + live->holding.reserve_bytes[mem_class];
}

/* ---- A policy of the test's own ------------------------------------------------------ */

struct kvt_residency_action bench_next_action;
struct kvt_residency_policy bench_rogue;

const struct kvt_residency_needs bench_plain = {
    .host_backing = true, .optional_pages = true, .keeps_aside = true};
const struct kvt_residency_needs bench_lazy = {
    .host_backing = true, .optional_pages = true, .deferred_backup = true, .keeps_aside = true};
const struct kvt_residency_needs bench_hybrid = {.starts_whole = true,
                                                 .host_backing = true,
                                                 .optional_pages = true,
                                                 .deferred_backup = true,
                                                 .keeps_aside = true};

static uint32_t act_once(void *state, const struct kvt_residency_view *view,
                         struct kvt_residency_action *actions, uint32_t capacity)
{
    (void)state;
    if (view->request_count == 0 || capacity == 0 || bench_next_action.request == UINT32_MAX)
        return 0;
    actions[0] = bench_next_action;
    return 1;
}

uint32_t bench_reclaim_once(void *state, const struct kvt_residency_view *view, uint64_t want_bytes,
                            struct kvt_residency_action *actions, uint32_t capacity)
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

kvt_status bench_try_to_obey(struct kvt_residency_needs needs, struct kvt_error *err)
{
    bench_rogue = *(const struct kvt_residency_policy *)(const void *)bench.env.residency.info;
    bench_rogue.info.name = "rogue";
    bench_rogue.info.params = NULL;
    bench_rogue.info.param_count = 0;
    bench_rogue.needs = needs_as_told;
    bench_rogue.boundary = act_once;
    bench_rogue.landing = NULL;
    its_needs = needs;
    kvt_rank_fini(&bench.rank);
    bench.env.residency.info = &bench_rogue.info;
    return kvt_rank_init(&bench.rank, &bench.env, &bench.decisions, err);
}

static const struct kvt_residency_action no_action = {KVT_RESIDENCY_BACKUP, UINT32_MAX, 0, 0};

void bench_obey(struct kvt_residency_needs needs)
{
    struct kvt_error err = {0};
    kvt_status status = bench_try_to_obey(needs, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
    bench_next_action = no_action;
}

void bench_act(kvt_ns now_ns, enum kvt_residency_verb verb, uint32_t first, uint32_t count)
{
    bench_next_action = (struct kvt_residency_action){(uint16_t)verb, 0, first, count};
    bench_boundary(now_ns);
    bench_next_action = no_action;
}
