/* cmd_calibrate.c -- kvtide calibrate: measurements into a profile of step times. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate.h"
#include "calibrate_gpu.h"
#include "kvt/file.h"
#include "kvt/profile.h"

enum {
    FILES_MAX = 1024,
    ARENA_BYTES = 1 << 18
};

struct question {
    struct cli_texts from, points, more, sets;
    const char *scenario, *window, *out, *grid, *only, *shard_text, *cache;
    uint64_t threads;
    uint32_t shard, shards;
    bool json, quick, quiet;
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

static kvt_status read_back(struct kvt_outfile *file, struct kvt_error *err)
{
    struct kvt_profile profile;
    struct kvt_error why;

    if (fflush(kvt_outfile_stream(file)) != 0)
        return KVT_OK; /* commit says what is wrong */
    if (kvt_profile_load(kvt_outfile_temporary(file), &profile, &why) == KVT_OK)
        return KVT_OK;
    const char *place = strchr(why.where, '#');
    return kvt_fail(err, KVT_ERR_UNSUPPORTED, "calibrate",
                    "what is fitted is no profile that could be read: %s: %s",
                    place ? place : "the file", why.message);
}

/* A profile is there once it can be read; points are as they are. */
static kvt_status write_file(const char *path, const char *text, bool is_profile,
                             struct kvt_error *err)
{
    struct kvt_outfile *out = NULL;
    kvt_status status = kvt_outfile_open(path, &out, err);

    if (status != KVT_OK)
        return status;
    fputs(text, kvt_outfile_stream(out));
    fputc('\n', kvt_outfile_stream(out));
    status = is_profile ? read_back(out, err) : KVT_OK;
    if (status == KVT_OK)
        return kvt_outfile_commit(out, err);
    kvt_outfile_discard(out);
    return status;
}

/* The profile, or points, to where it was asked for; and the table, unless the profile is what is
 * printed. */
static kvt_status give(const struct question *question, const cJSON *tree, bool is_profile,
                       void (*print)(const void *answer), const void *answer, struct kvt_error *err)
{
    char *text = kvt_json_print(tree);
    kvt_status status = text ? KVT_OK : kvt_fail_nomem(err, "a profile");

    if (status == KVT_OK && question->out)
        status = write_file(question->out, text, is_profile, err);
    if (status == KVT_OK && question->json)
        puts(text);
    else if (status == KVT_OK)
        print(answer);
    (void)fflush(stdout);
    if (status == KVT_OK && question->out && !question->quiet)
        fprintf(stderr, "written: %s\n", question->out);
    free(text);
    return status;
}

/* ---- From an engine's benchmark ------------------------------------------------------- */

static void print_calibration(const void *answer)
{
    calibration_print(answer);
}

static kvt_status calibrate(const struct question *question, struct kvt_arena *arena,
                            struct kvt_error *err)
{
    const struct kvt_scenario_options options = {.data_dir = cli_data_dir(),
                                                 .plugins = cli_plugins(),
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
    cJSON *tree = NULL;
    if (status == KVT_OK)
        status = calibration_tree(&calibration, &tree, err);
    if (status == KVT_OK)
        status = give(question, tree, true, print_calibration, &calibration, err);
    cJSON_Delete(tree);
    windows_free(&calibration.windows);
    return status;
}

/* ---- On a GPU ------------------------------------------------------------------------- */

static kvt_status measure(const struct question *question, struct kvt_arena *arena,
                          struct points *points, size_t *left_out, struct kvt_error *err)
{
    struct kvt_wall start;
    struct cli_progress progress;
    struct grid *grid = NULL;
    struct grid_plan plan = {
        .sets = &question->sets, .threads = (unsigned)question->threads, .progress = &progress};
    const struct calibrate_selection selection = {.quick = question->quick,
                                                  .only = question->only,
                                                  .shard = question->shard,
                                                  .shards = question->shards,
                                                  .point_steps = POINT_STEPS};
    kvt_status status = cli_cache_dir(question->cache, arena, &plan.cache_dir, err);

    if (status == KVT_OK)
        status = grid_load(question->grid ? question->grid : GRID_DEFAULT, arena, &grid, err);
    plan.grid = grid;
    if (status == KVT_OK)
        status = grid_check(grid, &question->sets, arena, err);
    if (status == KVT_OK)
        status = cli_machine(question->quiet, &points->machine, err);
    if (status != KVT_OK)
        return status;
    cli_catch_signals();
    cli_progress_begin(&progress, &start, question->quiet);
    status = calibrate_measure(&plan, &selection, arena, points, left_out, err);
    cli_progress_end(&progress);
    return status;
}

static void print_points(const void *answer)
{
    const struct points *points = answer;
    printf("%zu points of %zu runs; calibrate --points joins and fits them\n", points->count,
           points->configuration_count);
}

/* Part of a grid is points: a profile is fitted to all of them. */
static kvt_status give_points(const struct question *question, const struct points *points,
                              struct kvt_error *err)
{
    cJSON *tree = NULL;
    kvt_status status = points_tree(points, &tree, err);

    if (status == KVT_OK)
        status = give(question, tree, false, print_points, points, err);
    cJSON_Delete(tree);
    return status;
}

static void print_gpu(const void *answer)
{
    gpu_calibration_print(answer);
}

/* Families that the profile lacks although they were timed. */
static size_t tell_untold(const struct gpu_calibration *calibration)
{
    char why[CALIBRATE_WHY_BYTES];
    size_t count = 0;

    for (int p = 0; p < KVT_PARTS; p++) {
        enum kvt_step_part part = (enum kvt_step_part)p;
        if (calibration->untold_points[p] == 0)
            continue;
        fprintf(stderr, "kvtide: %s: %s\n", kvt_step_part_name(part),
                calibrate_say_untold(calibration, part, why));
        count++;
    }
    return count;
}

static kvt_status give_profile(const struct question *question, const struct points *points,
                               struct kvt_arena *arena, size_t *left_out, struct kvt_error *err)
{
    struct gpu_calibration *calibration =
        kvt_arena_alloc(arena, sizeof *calibration, _Alignof(struct gpu_calibration));
    cJSON *tree = NULL;

    if (!calibration)
        return kvt_fail_nomem(err, "a calibration");
    kvt_status status = calibrate_fit(points, calibration, err);
    if (status == KVT_OK)
        status = gpu_calibration_tree(calibration, &tree, err);
    if (status == KVT_OK)
        status = give(question, tree, true, print_gpu, calibration, err);
    if (status == KVT_OK)
        *left_out += tell_untold(calibration);
    cJSON_Delete(tree);
    return status;
}

static kvt_status calibrate_gpu(const struct question *question, struct kvt_arena *arena,
                                size_t *left_out, struct kvt_error *err)
{
    struct points points = {.items = NULL};
    kvt_status status = KVT_OK;

    for (size_t f = 0; f < question->points.count && status == KVT_OK; f++)
        status = points_load(question->points.items[f], arena, &points, err);
    for (size_t f = 0; f < question->more.count && status == KVT_OK; f++)
        status = points_load(question->more.items[f], arena, &points, err);
    if (status == KVT_OK && question->points.count == 0)
        status = measure(question, arena, &points, left_out, err);
    if (status == KVT_OK)
        status = question->shards > 1 || question->only
                     ? give_points(question, &points, err)
                     : give_profile(question, &points, arena, left_out, err);
    points_free(&points);
    return status;
}

static int check(struct question *question)
{
    bool from_benchmark = question->from.count > 0;
    bool on_gpu = !from_benchmark && question->points.count == 0;

    if (from_benchmark && question->points.count > 0)
        return cli_malformed("calibrate: --from has benchmarks of an engine, --points what was "
                             "measured on a GPU; one of them is expected");
    if (question->more.count > 0 && on_gpu)
        return cli_malformed("calibrate: \"%s\": files stand behind --from or --points",
                             question->more.items[0]);
    if (from_benchmark && !question->scenario)
        return cli_malformed("calibrate --from: --scenario is missing: the model, the GPU and the "
                             "settings of the engine that was measured");
    if (!from_benchmark && (question->scenario || question->window))
        return cli_malformed("calibrate --scenario and --window go with --from");
    if (!on_gpu && (question->grid || question->quick || question->only || question->shard_text ||
                    question->cache))
        return cli_malformed("calibrate --grid, --quick, --only, --shard and --cache go with "
                             "measuring: neither --from nor --points");
    if (question->points.count > 0 && question->sets.count > 0)
        return cli_malformed("calibrate --points: what was measured is not changed by --set");
    if (on_gpu && !question->out && !question->json)
        return cli_malformed("calibrate: --out PROFILE.json is missing: where what is measured on "
                             "the GPU goes; or --from FILE.. for an engine's benchmark");
    if (cli_check_threads("calibrate", question->threads, CLI_RUN_THREADS_MAX) != CLI_DONE)
        return CLI_MALFORMED;
    /* How many parts there are says the grid. */
    return cli_parse_shard("calibrate --shard", question->shard_text, UINT32_MAX, &question->shard,
                           &question->shards);
}

/* 1: no term can be told, or those of a family cannot, or a run of the grid was left out. */
static int answer(const struct question *question, struct kvt_arena *arena)
{
    struct kvt_error err;
    size_t left_out = 0;
    kvt_status status = !arena ? kvt_fail_nomem(&err, "a calibration")
                        : question->from.count > 0
                            ? calibrate(question, arena, &err)
                            : calibrate_gpu(question, arena, &left_out, &err);

    if (status == KVT_OK)
        return left_out > 0 ? CLI_NO : CLI_DONE;
    int exit_code = cli_fail(&err);
    bool is_no = status == KVT_ERR_INTERRUPTED ||
                 (status == KVT_ERR_UNSUPPORTED && strcmp(err.where, "calibrate") == 0);
    return is_no ? CLI_NO : exit_code;
}

int kvt_cmd_calibrate(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {.threads = 2};
    int exit_code = CLI_DONE;
    const struct cli_option options[] = {
        {"--grid", "GRID", "the runs that are measured on the GPU: shipped, or a file (glm-5.3)",
         CLI_TEXT, &question.grid},
        {"--quick", NULL, "a few of them: a coarse profile", CLI_FLAG, &question.quick},
        {"--only", "TEXT", "those with TEXT in their names, as points", CLI_TEXT, &question.only},
        {"--shard", "I/N", "part I of N of them, for machines that are lent for minutes; as points",
         CLI_TEXT, &question.shard_text},
        {"--points", "FILE",
         "no GPU: points, or profiles made of them, joined and fitted; repeatable, or more behind "
         "it",
         CLI_TEXTS, &question.points},
        {"--from", "FILE",
         "a benchmark's result, of vLLM or SGLang; repeatable, or more files behind it", CLI_TEXTS,
         &question.from},
        {"--scenario", "SCENARIO", "what was measured: model, GPU, tp, chunks of prompts", CLI_TEXT,
         &question.scenario},
        {"--set", "PATH=VALUE", "changes one key of the scenario; repeatable", CLI_TEXTS,
         &question.sets},
        CLI_PLUGIN_OPTION,
        {"--window", "FROM:TO", "only what ran in these seconds of each file's run", CLI_TEXT,
         &question.window},
        {"--threads", "N", "threads of a run (2)", CLI_COUNT, &question.threads},
        {"--cache", "DIR|none", CLI_CACHE_HELP, CLI_TEXT, &question.cache},
        {"--out", "PROFILE.json", "writes the profile there, for timing \"profile\"", CLI_TEXT,
         &question.out},
        {"--json", NULL, "prints the profile instead of the table", CLI_FLAG, &question.json},
        {"--quiet", NULL, "no progress, nothing of the file that was written", CLI_FLAG,
         &question.quiet},
    };
    const size_t option_count = sizeof options / sizeof options[0];

    if (cli_parse(command, argc, argv, options, option_count, 0, FILES_MAX, &question.more,
                  &exit_code)) {
        exit_code = check(&question);
        if (exit_code == CLI_DONE) {
            struct kvt_arena *arena = kvt_arena_new(ARENA_BYTES);
            exit_code = answer(&question, arena);
            kvt_arena_free(arena);
        }
    }
    cli_parsed_free(options, option_count, &question.more);
    return exit_code;
}
