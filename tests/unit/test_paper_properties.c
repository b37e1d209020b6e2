/* test_paper_properties.c -- the properties that kvtide paper looks for: all there in the
 * simulator, and each missed in a backend that was made to break it. */
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "cli/jobs.h"
#include "cli/paper/paper.h"
#include "kvt/backend.h"
#include "kvt/json.h"
#include "support/drawn_scenario.h"
#include "support/small_run.h"

/* Few requests, then many: pages are filled, then given up. */
static const char scenario_text[] =
    "{\"schema\": \"kvtide/scenario/1\", \"seed\": 7, \"model\": " DRAWN_MODEL ", "
    "\"hardware\": \"b300\", \"cluster\": {\"decode\": {\"gpus\": 1, \"pools\": "
    "{\"unified_gib\": 0.012}, \"growth_reserve_gib\": 0.002, \"speculation_workspace_gib\": 0}, "
    "\"import\": {\"law\": \"rate\"}}, "
    "\"residency\": {\"policy\": \"adaptive\", \"hot_tokens\": 16, \"refill_gb_per_s\": 5}, "
    "\"speculation\": {\"method\": \"mtp\"}, "
    "\"selection\": {\"law\": \"score\"}, \"timing\": {\"model\": \"roofline\"}, "
    "\"workload\": {\"phases\": [{\"concurrency\": 5, \"seconds\": 0.1}, "
    "{\"concurrency\": 16, \"seconds\": 0.1}, {\"concurrency\": 1, \"seconds\": 0.05}], "
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 640}, "
    "\"output\": {\"law\": \"fixed\", \"tokens\": 40}}}}";

static const char *const names[] = {"required", "backed", "order",   "dedup",
                                    "exact",    "commit", "staging", "ring"};
enum {
    PROPERTIES = sizeof names / sizeof names[0]
};

/* ---- Backends that break one thing ------------------------------------------------------ */

static kvt_status swapped_missed(struct kvt_backend *backend, uint32_t request, uint32_t selector,
                                 uint32_t query, struct kvt_resolve_result *out,
                                 struct kvt_error *err)
{
    static _Thread_local uint32_t rows[4096];
    kvt_status status = kvt_backend_sim.inspect_call(backend, request, selector, query, out, err);
    uint32_t count = status == KVT_OK ? out->filled_rows + out->staged_rows : 0;

    if (count >= 2) {
        memcpy(rows, out->missed, count * sizeof *rows);
        rows[0] = out->missed[1];
        rows[1] = out->missed[0];
        out->missed = rows;
    }
    return status;
}

static kvt_status never_skipped(struct kvt_backend *backend, uint32_t request, uint32_t selector,
                                uint32_t query, struct kvt_resolve_result *out,
                                struct kvt_error *err)
{
    kvt_status status = kvt_backend_sim.inspect_call(backend, request, selector, query, out, err);
    if (status == KVT_OK)
        out->skipped = false;
    return status;
}

static kvt_status one_row_lost(struct kvt_backend *backend, uint32_t request, uint32_t selector,
                               uint32_t query, struct kvt_resolve_result *out,
                               struct kvt_error *err)
{
    kvt_status status = kvt_backend_sim.inspect_call(backend, request, selector, query, out, err);
    if (status == KVT_OK)
        out->selected--;
    return status;
}

/* A slot of the cache holds what a draft of this very round wrote. */
static kvt_status drafts_in_cache(struct kvt_backend *backend, uint32_t request, uint32_t store,
                                  struct kvt_backend_cache *out, struct kvt_error *err)
{
    static _Thread_local uint32_t rows[4096];
    kvt_status status = kvt_backend_sim.inspect_cache(backend, request, store, out, err);

    if (status == KVT_OK && out->slot_count > 0) {
        memcpy(rows, out->rows, out->slot_count * sizeof *rows);
        rows[0] = 690; /* 640 and 40 generated at most, and some room in the set */
        out->rows = rows;
    }
    return status;
}

static kvt_status staged_in_sum(struct kvt_backend *backend, struct kvt_rank_step *ranks,
                                uint32_t rank_count, struct kvt_error *err)
{
    kvt_status status = kvt_backend_sim.step(backend, ranks, rank_count, err);
    for (uint32_t r = 0; status == KVT_OK && r < rank_count; r++)
        ranks[r].outcome.staging_peak_bytes += 1;
    return status;
}

static struct kvt_backend_ops broken;

static kvt_status open_broken(const struct kvt_backend_env *env, struct kvt_backend **out,
                              struct kvt_error *err)
{
    kvt_status status = kvt_backend_sim.open(env, out, err);
    if (status == KVT_OK)
        (*out)->ops = &broken;
    return status;
}

/* ---- A watched run ---------------------------------------------------------------------- */

struct watched {
    const struct kvt_backend_ops *backend;
    struct small_run small;
    cJSON *tree;
};

static kvt_status run_watched(void *context, size_t index, unsigned threads, struct cli_job *job,
                              struct kvt_error *err)
{
    struct watched *watched = context;
    (void)index, (void)threads;
    return paper_watch_run(&watched->small.scenario, watched->backend, NULL, job, &watched->tree,
                           err);
}

static void watched_open(struct watched *watched, const struct kvt_backend_ops *backend)
{
    struct kvt_error err;
    size_t failed = 0;
    const struct cli_jobs jobs = {.count = 1,
                                  .threads = 1,
                                  .quiet = true,
                                  .what = "watching",
                                  .run = run_watched,
                                  .context = watched};

    *watched = (struct watched){.backend = backend};
    small_run_parse(&watched->small, scenario_text, NULL);
    ck_assert_msg(cli_jobs_run(&jobs, &failed, &err) == KVT_OK, "%s: %s", err.where, err.message);
}

static double count_of(const struct watched *watched, const char *property, const char *what)
{
    const cJSON *found = kvt_json_find(watched->tree, property);
    ck_assert_ptr_nonnull(found);
    return kvt_json_find(found, what)->valuedouble;
}

static void watched_close(struct watched *watched)
{
    cJSON_Delete(watched->tree);
    small_run_close(&watched->small);
}

START_TEST(the_simulator_has_them_all_and_each_has_its_occasion)
{
    struct watched watched;

    watched_open(&watched, &kvt_backend_sim);
    for (size_t p = 0; p < PROPERTIES; p++) {
        ck_assert_msg(count_of(&watched, names[p], "checks") > 0, "%s", names[p]);
        ck_assert_msg(count_of(&watched, names[p], "faults") == 0, "%s", names[p]);
        ck_assert_msg(count_of(&watched, names[p], "occasions") > 0, "%s", names[p]);
    }
    watched_close(&watched);
}
END_TEST

START_TEST(what_a_backend_breaks_is_missed_and_nothing_else)
{
    struct watched watched;
    const struct {
        const char *breaks;
        struct kvt_backend_ops ops;
    } cases[] = {{"dedup", {.inspect_call = swapped_missed}},
                 {"order", {.inspect_call = never_skipped}},
                 {"exact", {.inspect_call = one_row_lost}},
                 {"staging", {.step = staged_in_sum}}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        broken = kvt_backend_sim;
        broken.open = open_broken;
        if (cases[i].ops.inspect_call != NULL)
            broken.inspect_call = cases[i].ops.inspect_call;
        if (cases[i].ops.step != NULL)
            broken.step = cases[i].ops.step;
        watched_open(&watched, &broken);
        for (size_t p = 0; p < PROPERTIES; p++) {
            bool is_broken = strcmp(names[p], cases[i].breaks) == 0;
            ck_assert_msg((count_of(&watched, names[p], "faults") > 0) == is_broken,
                          "%s, where %s is broken", names[p], cases[i].breaks);
        }
        watched_close(&watched);
    }
}
END_TEST

START_TEST(a_drafts_row_in_a_hot_cache_is_seen)
{
    struct watched watched;

    broken = kvt_backend_sim;
    broken.open = open_broken;
    broken.inspect_cache = drafts_in_cache;
    watched_open(&watched, &broken);
    ck_assert(count_of(&watched, "commit", "faults") > 0);
    watched_close(&watched);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("paper_properties");
    TCase *properties = tcase_create("properties");

    tcase_add_test(properties, the_simulator_has_them_all_and_each_has_its_occasion);
    tcase_add_test(properties, what_a_backend_breaks_is_missed_and_nothing_else);
    tcase_add_test(properties, a_drafts_row_in_a_hot_cache_is_seen);
    suite_add_tcase(suite, properties);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
