/* sweep_job.c -- one run of a sweep, from its number to its record. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "sweep.h"

enum {
    JOB_ARENA_BYTES = 1 << 16,
    MESSAGE_BYTES = sizeof(struct kvt_error)
};

static kvt_status print(const struct sweep_record *record, char **text, struct kvt_error *err)
{
    *text = sweep_record_print(record);
    return *text != NULL ? KVT_OK : kvt_fail_nomem(err, "a record");
}

static kvt_status print_failure(struct sweep_record *record, const struct kvt_error *why,
                                char **text, struct kvt_error *err)
{
    char message[MESSAGE_BYTES];

    (void)snprintf(message, sizeof message, "%s%s%s", why->where, why->where[0] != '\0' ? ": " : "",
                   why->message);
    record->outcome = SWEEP_FAILED;
    record->may_pass = sweep_may_pass(why->status);
    record->message = message;
    kvt_status status = print(record, text, err);
    record->message = ""; /* the text is gone */
    return status;
}

static bool is_true(const cJSON *result, const char *key)
{
    return cJSON_IsTrue(kvt_json_find(result, key));
}

/* Whether by mean values some stage cannot keep up with what comes. */
static bool is_saturated(const cJSON *result)
{
    const cJSON *load;

    cJSON_ArrayForEach(load, kvt_json_find(result, "stage_load"))
    {
        if (cJSON_IsNumber(load) && load->valuedouble >= 1)
            return true;
    }
    return false;
}

static kvt_status print_success(struct sweep_record *record, const struct one_run *run, char **text,
                                struct kvt_error *err)
{
    record->metrics = run->metrics;
    record->decision_hash = run->hash;
    record->badge = run->badge;
    record->basis = run->basis;
    record->is_bound = is_true(run->result, "bound");
    if (is_true(run->result, "few_for_means"))
        record->message = "fewer requests or shorter answers than mean values stand for";
    else if (is_saturated(run->result))
        record->message = "more comes than some stage can do: TTFT grows with the run";
    return print(record, text, err);
}

/* The scenario must be the one that rank 0 has looked at. */
static kvt_status load(const struct sweep_question *question, size_t point, uint64_t hash,
                       struct kvt_arena *arena, struct kvt_scenario *scenario,
                       struct kvt_error *err)
{
    uint64_t found = 0;
    kvt_status status = sweep_load_point(question, point, arena, scenario, &found, err);

    if (status == KVT_OK && found != hash)
        return kvt_fail(err, KVT_ERR_INVALID, "sweep",
                        "point %zu is another scenario now than when the sweep began: a file that "
                        "it reads has changed, or is another one on this machine",
                        point);
    return status;
}

kvt_status sweep_run_one(const struct sweep_question *question,
                         const struct sweep_run_options *options, struct kvt_surfaces *surfaces,
                         size_t run, uint64_t hash, unsigned threads, struct cli_job *job,
                         char **text, struct kvt_error *err)
{
    size_t metrics = 0, point = run / question->seed_count;
    struct kvt_arena *arena = kvt_arena_new(JOB_ARENA_BYTES);
    struct kvt_scenario scenario;
    struct kvt_error why;
    struct one_run done = {.result = NULL};
    struct sweep_record record = {.run = run, .message = "", .basis = "", .scenario_hash = hash};
    const struct one_run_options run_options = {.threads = threads,
                                                .cache_dir = options->cache_dir,
                                                .surfaces = surfaces,
                                                .wants_result = true};

    (void)kvt_metric_docs(&metrics);
    if (arena != NULL)
        done.metrics = kvt_arena_array(arena, metrics, sizeof *done.metrics, _Alignof(double));
    kvt_status status = done.metrics != NULL ? KVT_OK : kvt_fail_nomem(err, "a run");
    if (status == KVT_OK)
        status = load(question, point, hash, arena, &scenario, err);
    if (status != KVT_OK) {
        kvt_arena_free(arena);
        return status;
    }
    status = one_run(&scenario, scenario.seed + run % question->seed_count, &run_options, job,
                     &done, &why);
    if (status == KVT_OK) {
        status = print_success(&record, &done, text, err);
    } else if (status == KVT_ERR_HUNG || (status == KVT_ERR_INTERRUPTED && cli_interrupted())) {
        *err = why;
    } else {
        sweep_name_axis(&question->grid, &why);
        status = print_failure(&record, &why, text, err);
    }
    cJSON_Delete(done.result);
    kvt_arena_free(arena);
    return status;
}

kvt_status sweep_refuse_one(const struct sweep_question *question, size_t run, char **text,
                            struct kvt_error *err)
{
    const struct sweep_point *point = &question->points[run / question->seed_count];
    const struct sweep_record record = {
        .run = run, .outcome = SWEEP_REFUSED, .message = point->message, .basis = ""};

    return print(&record, text, err);
}
