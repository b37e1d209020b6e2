/* small_run.c -- whole runs for tests: a scenario's text in, a closed run out. */
#include "support/small_run.h"

#include <string.h>

#include <check.h>

#include "kvt/json.h"

void small_run_parse(struct small_run *small, const char *text, const char *const *sets)
{
    struct kvt_scenario_options scenario_options = {.data_dir = KVT_TEST_ROOT, .sets = sets};
    *small = (struct small_run){.arena = kvt_arena_new(1 << 16)};
    while (sets && sets[scenario_options.set_count])
        scenario_options.set_count++;
    kvt_status status = kvt_scenario_parse(text, strlen(text), "small.json", &scenario_options,
                                           small->arena, &small->scenario, &small->err);
    ck_assert_msg(status == KVT_OK, "%s: %s", small->err.where, small->err.message);
}

void small_run_start(struct small_run *small, const struct kvt_sim_options *options)
{
    small->status = kvt_sim_new(&small->scenario, options, &small->sim, &small->err);
}

void small_run_open(struct small_run *small, const char *text, const char *const *sets,
                    const struct kvt_sim_options *options)
{
    small_run_parse(small, text, sets);
    small_run_start(small, options);
}

void small_run_finish(struct small_run *small)
{
    bool more = small->status == KVT_OK;
    while (more && small->status == KVT_OK)
        small->status = kvt_sim_step(small->sim, &more, &small->err);
    if (small->status == KVT_OK)
        small->status = kvt_sim_finish(small->sim, false, &small->run, &small->err);
}

void small_run_whole(struct small_run *small, const char *text, const char *const *sets)
{
    small_run_open(small, text, sets, NULL);
    small_run_finish(small);
    ck_assert_msg(small->status == KVT_OK, "%s: %s", small->err.where, small->err.message);
}

char *small_run_result_text(const struct small_run *small)
{
    static const char *const of_the_build[] = {"version", "commit", "inputs"};
    struct cJSON *result = NULL;
    struct kvt_error err = {0};
    kvt_status status = kvt_report_result(small->run, &result, &err);
    ck_assert_msg(status == KVT_OK, "%s: %s", err.where, err.message);
    for (size_t i = 0; i < sizeof of_the_build / sizeof of_the_build[0]; i++) {
        ck_assert_msg(kvt_json_find(result, of_the_build[i]) != NULL, "no \"%s\" in the result",
                      of_the_build[i]);
        cJSON_DeleteItemFromObjectCaseSensitive(result, of_the_build[i]);
    }
    char *text = kvt_json_print(result);
    cJSON_Delete(result);
    ck_assert_ptr_nonnull(text);
    return text;
}

void small_run_close(struct small_run *small)
{
    kvt_sim_free(small->sim);
    kvt_arena_free(small->arena);
    *small = (struct small_run){0};
}
