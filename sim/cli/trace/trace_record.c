/* trace_record.c -- kvtide trace record: a run, and what its requests selected in it.
 *
 * The run is the scenario's own; a law around its law keeps what is selected (kvt/recorder.h).
 * Where a GPU scans an index and decides by itself, no law is asked: then the simulator decides
 * beside it, and what it reads of the GPU is recorded. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../run_sets.h"
#include "kvt/backend_pair.h"
#include "kvt/json.h"
#include "kvt/sim.h"
#include "trace.h"
#include "trace_note.h"

/* What the command was asked. */
struct question {
    struct run_sets scenario;
    const char *to, *cache;
    uint64_t threads;
    bool json, quiet;
};

/* The backend of the run, opened to be recorded. */
struct tap {
    struct kvt_recorder *recorder;
    const struct kvt_backend_ops *ops;
    struct kvt_backend *pair; /* of a GPU and the simulator; NULL: one backend alone */
};

static kvt_status open_backend(void *context, const struct kvt_backend_env *env,
                               struct kvt_backend **out, struct kvt_error *err)
{
    struct tap *tap = context;
    struct kvt_backend_env tapped = *env;
    const struct kvt_law *law = kvt_recorder_law(tap->recorder);
    if (!env->hierarchy)
        return kvt_fail(err, KVT_ERR_INVALID, "trace record",
                        "residency keeps all history in HBM, so that nothing is selected from; "
                        "another policy is expected");
    tapped.selection.info = &law->info;
    tapped.law_context = tap->recorder;
    if (!law->reads_source || tap->ops == &kvt_backend_sim)
        return tap->ops->open(&tapped, out, err);
    struct kvt_pair_sides sides = {.first = tap->ops, .second = &kvt_backend_sim};
    kvt_status status = kvt_backend_pair_open(&sides, &tapped, out, err);
    tap->pair = status == KVT_OK ? *out : NULL;
    return status;
}

/* Where the simulator did not decide as the GPU did, a replay could not either. */
static kvt_status check_pair(const struct tap *tap, struct kvt_error *err)
{
    struct kvt_pair_report report;
    if (tap->pair == NULL)
        return KVT_OK;
    kvt_backend_pair_report(tap->pair, &report);
    if (report.mismatches > 0)
        return kvt_fail(err, KVT_ERR_INTERNAL, "trace record",
                        "the GPU and the simulator decide otherwise in %" PRIu64
                        " rounds; `kvtide validate` tells the first of them row by row",
                        report.mismatches);
    return KVT_OK;
}

static kvt_status print_answer(const struct question *question, const cJSON *result,
                               const struct kvt_recorder_totals *totals, bool interrupted,
                               struct kvt_error *err)
{
    const char *hash = NULL;
    struct stat facts;
    double bytes = stat(question->to, &facts) == 0 ? (double)facts.st_size : 0;
    kvt_status status = kvt_json_get_text(result, "the result", "decision_hash", true, &hash, err);
    if (status != KVT_OK)
        return status;
    if (!question->json) {
        printf("%s: %" PRIu32 " recordings of %" PRIu32 " selectors, %" PRIu64 " tokens, %" PRIu64
               " rows, %.0f bytes\n",
               question->to, totals->recording_count, totals->selector_count, totals->tokens,
               totals->rows, bytes);
        printf("decision hash %s%s\n", hash, interrupted ? ", interrupted" : "");
        return KVT_OK;
    }
    cJSON *answer = cJSON_CreateObject();
    bool is_whole = answer != NULL && kvt_json_add_text(answer, "file", question->to) &&
                    kvt_json_add_number(answer, "recordings", totals->recording_count) &&
                    kvt_json_add_number(answer, "selectors", totals->selector_count) &&
                    kvt_json_add_number(answer, "tokens", (double)totals->tokens) &&
                    kvt_json_add_number(answer, "rows", (double)totals->rows) &&
                    kvt_json_add_number(answer, "bytes", bytes) &&
                    kvt_json_add_text(answer, "decision_hash", hash) &&
                    kvt_json_add_bool(answer, "interrupted", interrupted);
    char *text = is_whole ? kvt_json_print(answer) : NULL;
    cJSON_Delete(answer);
    if (text == NULL)
        return kvt_fail_nomem(err, "trace record");
    puts(text);
    free(text);
    return KVT_OK;
}

/* What was recorded becomes the file, and is told. */
static kvt_status finish(const struct question *question, struct kvt_recorder *recorder,
                         const struct kvt_run *run, bool interrupted, struct kvt_error *err)
{
    struct kvt_recorder_totals totals;
    cJSON *result = NULL;
    char *note = NULL;
    kvt_recorder_totals(recorder, &totals);
    kvt_status status = kvt_report_result(run, &result, err);
    if (status == KVT_OK)
        status = trace_note_of_run(result, &totals, &note, err);
    if (status == KVT_OK)
        status = kvt_recorder_commit(recorder, note, strlen(note), err);
    if (status == KVT_OK)
        status = print_answer(question, result, &totals, interrupted, err);
    free(note);
    cJSON_Delete(result);
    return status;
}

static kvt_status record(const struct question *question, const struct kvt_scenario *scenario,
                         const char *cache_dir, bool *interrupted, struct kvt_error *err)
{
    const struct kvt_law *law = (const struct kvt_law *)(const void *)scenario->selection.info;
    struct tap tap = {.ops = kvt_backend_of(&scenario->backend)};
    struct cli_run run = {.sim = NULL};
    const struct kvt_sim_options options = {.threads = (unsigned)question->threads,
                                            .cache_dir = cache_dir,
                                            .open_backend = open_backend,
                                            .backend_context = &tap};
    kvt_status status = kvt_recorder_new(law, question->to, &tap.recorder, err);
    if (status == KVT_OK)
        status = cli_run_whole(scenario, &options, "recording", question->quiet, &run, err);
    *interrupted = run.interrupted;
    if (status == KVT_OK)
        status = check_pair(&tap, err);
    if (status == KVT_OK)
        status = finish(question, tap.recorder, run.run, run.interrupted, err);
    kvt_sim_free(run.sim);
    kvt_recorder_free(tap.recorder);
    return status;
}

static int act(const struct question *question, const char *source)
{
    struct kvt_error err;
    struct kvt_scenario scenario;
    char texts[RUN_SETS_MORE][RUN_SETS_BYTES];
    const char *cache_dir = NULL;
    bool interrupted = false;
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    const char **sets = malloc((question->scenario.sets.count + RUN_SETS_MORE) * sizeof *sets);
    struct kvt_scenario_options options = {
        .data_dir = cli_data_dir(), .plugins = cli_plugins(), .sets = sets};
    kvt_status status = KVT_OK;
    if (arena == NULL || sets == NULL)
        status = kvt_fail_nomem(&err, "a scenario");
    else if (!run_sets_gather(&question->scenario, texts, sets, &options.set_count))
        status = kvt_fail(&err, KVT_ERR_INVALID, "trace record", "an option's value is too long");
    if (status == KVT_OK)
        status = kvt_scenario_load(source, &options, arena, &scenario, &err);
    if (status == KVT_OK && scenario.fidelity == KVT_FIDELITY_ANALYTIC)
        status = kvt_fail(&err, KVT_ERR_UNSUPPORTED, "trace record",
                          "fidelity analytic follows no request, so that nothing is selected; "
                          "exact or sampled is expected");
    if (status == KVT_OK)
        status = cli_cache_dir(question->cache, arena, &cache_dir, &err);
    if (status == KVT_OK)
        status = record(question, &scenario, cache_dir, &interrupted, &err);
    kvt_arena_free(arena);
    free(sets);
    if (status != KVT_OK)
        return cli_fail(&err);
    return interrupted ? CLI_NO : CLI_DONE;
}

int trace_record(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {.threads = 2};
    const struct cli_option options[] = {
        {"--to", "FILE.kvsel", "the file to write", CLI_TEXT, &question.to},
        RUN_SETS_OPTIONS(question.scenario),
        CLI_PLUGIN_OPTION,
        {"--cache", "DIR|none", CLI_CACHE_HELP, CLI_TEXT, &question.cache},
        {"--threads", "N", "threads to work with (2); never changes a result", CLI_COUNT,
         &question.threads},
        {"--json", NULL, "prints the answer as JSON", CLI_FLAG, &question.json},
        {"--quiet", NULL, "no progress", CLI_FLAG, &question.quiet},
    };
    const size_t option_count = sizeof options / sizeof options[0];
    struct cli_texts positional = {0};
    int exit_code = CLI_DONE;
    if (cli_parse(command, argc, argv, options, option_count, 1, 1, &positional, &exit_code)) {
        exit_code = trace_check_kvsel("record", question.to);
        if (exit_code == CLI_DONE)
            exit_code = cli_check_threads("trace record", question.threads, CLI_RUN_THREADS_MAX);
        if (exit_code == CLI_DONE) {
            cli_catch_signals();
            exit_code = act(&question, positional.items[0]);
        }
    }
    cli_parsed_free(options, option_count, &positional);
    return exit_code;
}
