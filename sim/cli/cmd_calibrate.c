/* cmd_calibrate.c -- kvtide calibrate: measurements into a profile of step times. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate.h"
#include "kvt/file.h"

enum {
    FILES_MAX = 1024,
    ARENA_BYTES = 1 << 18
};

struct question {
    struct cli_texts from, more, sets;
    const char *scenario, *window, *out;
    bool json, quiet;
};

/* A benchmark tells nothing of these: who served a request, how many queries a step verified,
 * whether a row was fetched. */
static kvt_status check_scenario(const struct kvt_scenario *scenario, struct kvt_error *err)
{
    const struct kvt_decode_pool *pool = &scenario->pools[0];

    if (scenario->pool_count > 1 || pool->dp > 1)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, scenario->path,
                        "several replicas: a benchmark does not say which of them served a "
                        "request; one pool of dp 1 is expected");
    if (scenario->queries_max > 1)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, scenario->path,
                        "speculation \"%s\": a benchmark does not say what each step verified; "
                        "\"none\" is expected",
                        scenario->speculation.info->name);
    return KVT_OK;
}

static kvt_status load_runs(const struct question *question, struct kvt_arena *arena,
                            struct calibration *calibration, struct kvt_error *err)
{
    size_t files = question->from.count + question->more.count;
    struct engine_run *all = NULL;

    for (size_t f = 0; f < files; f++) {
        const char *path = f < question->from.count
                               ? question->from.items[f]
                               : question->more.items[f - question->from.count];
        struct engine_run *runs = NULL, *grown;
        size_t count = 0, had = calibration->run_count;
        kvt_status status = engine_bench_load(path, arena, &runs, &count, err);
        if (status != KVT_OK)
            return status;
        grown = kvt_arena_array(arena, had + count, sizeof *grown, _Alignof(struct engine_run));
        if (!grown)
            return kvt_fail_nomem(err, "a calibration");
        if (all)
            memcpy(grown, all, had * sizeof *grown);
        memcpy(grown + had, runs, count * sizeof *grown);
        all = grown;
        calibration->runs = all;
        calibration->run_count = had + count;
    }
    return KVT_OK;
}

static kvt_status fit_runs(struct calibration *calibration, struct kvt_error *err)
{
    const struct kvt_prefill *prefill = &calibration->scenario->prefill;
    double chunk_tokens =
        prefill->mode == KVT_PREFILL_COLOCATED ? prefill->chunk_tokens : (double)INFINITY;
    kvt_status status = KVT_OK;

    for (size_t r = 0; r < calibration->run_count && status == KVT_OK; r++)
        status = windows_of_run(&calibration->runs[r], r, calibration->from_s, calibration->to_s,
                                chunk_tokens, &calibration->windows, err);
    return status == KVT_OK ? fit_windows(&calibration->windows, &calibration->fit, err) : status;
}

static kvt_status write_profile(const char *path, const char *text, struct kvt_error *err)
{
    struct kvt_outfile *out = NULL;
    kvt_status status = kvt_outfile_open(path, &out, err);

    if (status != KVT_OK)
        return status;
    fputs(text, kvt_outfile_stream(out));
    fputc('\n', kvt_outfile_stream(out));
    return kvt_outfile_commit(out, err);
}

static kvt_status give(const struct question *question, const struct calibration *calibration,
                       struct kvt_error *err)
{
    cJSON *tree = NULL;
    kvt_status status = calibration_tree(calibration, &tree, err);
    char *text = status == KVT_OK ? kvt_json_print(tree) : NULL;

    cJSON_Delete(tree);
    if (status == KVT_OK && !text)
        status = kvt_fail_nomem(err, "a profile");
    if (status == KVT_OK && question->out)
        status = write_profile(question->out, text, err);
    if (status == KVT_OK && question->json)
        puts(text);
    else if (status == KVT_OK)
        calibration_print(calibration);
    (void)fflush(stdout);
    if (status == KVT_OK && question->out && !question->quiet)
        fprintf(stderr, "written: %s\n", question->out);
    free(text);
    return status;
}

static kvt_status calibrate(const struct question *question, struct kvt_arena *arena,
                            struct kvt_error *err)
{
    const struct kvt_scenario_options options = {.data_dir = cli_data_dir(),
                                                 .sets = question->sets.items,
                                                 .set_count = question->sets.count};
    struct kvt_scenario scenario;
    struct calibration calibration = {.scenario = &scenario};
    kvt_status status = kvt_scenario_load(question->scenario, &options, arena, &scenario, err);

    if (status == KVT_OK)
        status = check_scenario(&scenario, err);
    if (status == KVT_OK)
        status = kvt_trace_parse_window(question->window, "calibrate --window", &calibration.from_s,
                                        &calibration.to_s, err);
    if (status == KVT_OK)
        status = load_runs(question, arena, &calibration, err);
    if (status == KVT_OK)
        status = fit_runs(&calibration, err);
    if (status == KVT_OK)
        status = give(question, &calibration, err);
    windows_free(&calibration.windows);
    return status;
}

static int check(const struct question *question)
{
    if (question->from.count == 0)
        return cli_malformed("calibrate: --from FILE.. is missing; measuring on a GPU belongs to a "
                             "later version");
    if (!question->scenario)
        return cli_malformed("calibrate --from: --scenario is missing: the model, the GPU and the "
                             "settings of the engine that was measured");
    return CLI_DONE;
}

int kvt_cmd_calibrate(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {.scenario = NULL};
    int exit_code = CLI_DONE;
    const struct cli_option options[] = {
        {"--from", "FILE",
         "a benchmark's result, of vLLM or SGLang; repeatable, or more files behind it", CLI_TEXTS,
         &question.from},
        {"--scenario", "SCENARIO", "what was measured: model, GPU, tp, chunks of prompts", CLI_TEXT,
         &question.scenario},
        {"--set", "PATH=VALUE", "changes one key of the scenario; repeatable", CLI_TEXTS,
         &question.sets},
        {"--window", "FROM:TO", "only what ran in these seconds of each file's run", CLI_TEXT,
         &question.window},
        {"--out", "PROFILE.json", "writes the profile there, for timing \"profile\"", CLI_TEXT,
         &question.out},
        {"--json", NULL, "prints the profile instead of the table", CLI_FLAG, &question.json},
        {"--quiet", NULL, "says nothing of the file that was written", CLI_FLAG, &question.quiet},
    };
    const size_t option_count = sizeof options / sizeof options[0];

    if (cli_parse(command, argc, argv, options, option_count, 0, FILES_MAX, &question.more,
                  &exit_code)) {
        exit_code = check(&question);
        if (exit_code == CLI_DONE) {
            struct kvt_error err;
            struct kvt_arena *arena = kvt_arena_new(ARENA_BYTES);
            kvt_status status =
                arena ? calibrate(&question, arena, &err) : kvt_fail_nomem(&err, "a calibration");
            if (status != KVT_OK) {
                exit_code = cli_fail(&err);
                exit_code = status == KVT_ERR_UNSUPPORTED && strcmp(err.where, "calibrate") == 0
                                ? CLI_NO
                                : exit_code;
            }
            kvt_arena_free(arena);
        }
    }
    cli_parsed_free(options, option_count, &question.more);
    return exit_code;
}
