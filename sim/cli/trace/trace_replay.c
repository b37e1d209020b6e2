/* trace_replay.c -- kvtide trace replay: the run of a recording again, on what it selected.
 *
 *     scenario: that of the file's note, its selections read from the file, each request's its own
 *     nothing changed: the same decisions, or the answer is no
 *     changed: what if; some metrics beside those of the recorded run */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../run_files.h"
#include "../run_sets.h"
#include "kvt/json.h"
#include "trace.h"
#include "trace_note.h"

enum {
    OUR_SETS = 2 /* selection, backend */
};

/* What the command was asked. */
struct question {
    struct run_sets scenario;
    const char *path, *cache, *out;
    uint64_t threads;
    bool json, quiet;
};

/* What the file says of the run that it was made of. */
struct recorded {
    cJSON *note;           /* owns what follows */
    const cJSON *scenario; /* in force */
    const char *hash, *ending;
    const char *backend;
    bool reopens; /* a request was put aside, and opened its streams again */
};

/* Anything but where and how fast it is done. */
static bool is_changed(const struct question *question)
{
    return question->scenario.sets.count > 0 || question->scenario.seed != NULL ||
           question->scenario.fidelity != NULL;
}

/* ---- The note -------------------------------------------------------------------------- */

static const char *text_of(const cJSON *object, const char *key)
{
    if (object == NULL)
        return "";
    const cJSON *item = kvt_json_find(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static kvt_status find_reopenings(struct recorded *recorded, struct kvt_error *err)
{
    const cJSON *requests = kvt_json_find(recorded->note, "requests"), *item = NULL;
    size_t count = 0;
    double *numbers = malloc(((size_t)cJSON_GetArraySize(requests) + 1) * sizeof *numbers);
    if (numbers == NULL)
        return kvt_fail_nomem(err, "trace replay");
    cJSON_ArrayForEach(item, requests)
    {
        const cJSON *number = kvt_json_find(item, "request");
        numbers[count++] = cJSON_IsNumber(number) ? number->valuedouble : 0;
    }
    qsort(numbers, count, sizeof *numbers, by_number);
    for (size_t i = 1; i < count; i++)
        recorded->reopens = recorded->reopens || !(numbers[i] > numbers[i - 1]);
    free(numbers);
    return KVT_OK;
}

static kvt_status read_recorded(const char *path, struct recorded *out, struct kvt_error *err)
{
    struct kvt_kvsel_reader *reader = NULL;
    char place[sizeof err->where];
    (void)snprintf(place, sizeof place, "%s#note", path);
    kvt_status status = kvt_kvsel_open(path, NULL, NULL, &reader, err);
    if (status == KVT_OK)
        status = trace_note_read(kvt_kvsel_reader_header(reader), path, &out->note, err);
    if (status == KVT_OK && out->note == NULL)
        status = kvt_fail(err, KVT_ERR_INVALID, path,
                          "the file does not say of which run it is; one of `kvtide trace record` "
                          "is expected");
    if (status == KVT_OK && kvt_json_find(out->note, "scenario") == NULL)
        status = kvt_fail(err, KVT_ERR_INVALID, path,
                          "the file has no scenario of its own, as it was merged of several; run "
                          "one with selection.law \"recorded\", or replay a part");
    if (status == KVT_OK)
        status = kvt_json_get_object(out->note, place, "scenario", true, &out->scenario, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(out->note, place, "decision_hash", true, &out->hash, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(out->note, place, "ending", true, &out->ending, err);
    if (status == KVT_OK) {
        out->backend = text_of(kvt_json_find(out->scenario, "backend"), "name");
        status = find_reopenings(out, err);
    }
    kvt_kvsel_close(reader);
    return status;
}

/* ---- What can be replayed ---------------------------------------------------------------- */

static kvt_status check_unchanged(const struct question *question, const struct recorded *recorded,
                                  const struct kvt_scenario *scenario, struct kvt_error *err)
{
    assert(scenario->replacement.info != NULL);
    bool is_whole = strcmp(recorded->ending, "complete") == 0 && !recorded->reopens;
    if (strcmp(recorded->ending, "interrupted") == 0)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, question->path,
                        "the recorded run was interrupted, and nobody can interrupt this one as it "
                        "was; --set run.duration_s=SECONDS that are shorter is expected");
    if (kvt_choice_has(&scenario->replacement, KVT_CLAIRVOYANT) && !is_whole)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, question->path,
                        "replacement \"%s\" saw selections to come that were never made, of "
                        "requests that were cut or put aside, and so are not recorded; a run in "
                        "which every request ends is expected, or another policy by --set",
                        scenario->replacement.info->name);
    return KVT_OK;
}

static kvt_status check_scenario(const struct question *question, const struct recorded *recorded,
                                 const struct kvt_scenario *scenario, struct kvt_error *err)
{
    if (scenario->fidelity == KVT_FIDELITY_ANALYTIC)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "trace replay",
                        "fidelity analytic follows no request, so that no recording is read; exact "
                        "or sampled is expected");
    return is_changed(question) ? KVT_OK : check_unchanged(question, recorded, scenario, err);
}

/* ---- The scenario ------------------------------------------------------------------------- */

/* "selection={"law": "recorded", ..}", to be free()d. */
static char *make_selection(const char *path)
{
    static const char key[] = "selection=";
    char *set = NULL, *text = NULL;
    cJSON *selection = cJSON_CreateObject();
    if (selection != NULL && kvt_json_add_text(selection, "law", "recorded") &&
        kvt_json_add_text(selection, "path", path) && kvt_json_add_text(selection, "assign", "own"))
        text = cJSON_PrintUnformatted(selection);
    cJSON_Delete(selection);
    size_t bytes = text != NULL ? sizeof key + strlen(text) : 0;
    if (text != NULL)
        set = malloc(bytes);
    if (set != NULL)
        (void)snprintf(set, bytes, "%s%s", key, text);
    free(text);
    return set;
}

/* As a result has it, whose paths are seen from the working folder. To be free()d. */
static char *make_source(const struct recorded *recorded)
{
    cJSON *source = cJSON_CreateObject();
    char *text = NULL;
    if (source != NULL && kvt_json_add_text(source, "schema", "kvtide/result/1") &&
        kvt_json_add(source, "scenario", cJSON_Duplicate(recorded->scenario, true)))
        text = kvt_json_print(source);
    cJSON_Delete(source);
    return text;
}

/* `sets` has room for all of them. */
static kvt_status parse(const struct question *question, const struct recorded *recorded,
                        const char *source, const char *selection, const char **sets,
                        struct kvt_arena *arena, struct kvt_scenario *out, struct kvt_error *err)
{
    char texts[RUN_SETS_MORE][RUN_SETS_BYTES], name[256];
    size_t ours = 0, theirs = 0;
    /* What a GPU has decided the simulator does too. */
    if (question->scenario.backend == NULL && strcmp(recorded->backend, "sim") != 0)
        sets[ours++] = "backend=sim";
    sets[ours++] = selection;
    if (!run_sets_gather(&question->scenario, texts, sets + ours, &theirs))
        return kvt_fail(err, KVT_ERR_INVALID, "trace replay", "an option's value is too long");
    const struct kvt_scenario_options options = {.data_dir = cli_data_dir(),
                                                 .plugins = cli_plugins(),
                                                 .sets = sets,
                                                 .set_count = ours + theirs};
    (void)snprintf(name, sizeof name, "%s#note", question->path);
    return kvt_scenario_parse(source, strlen(source), name, &options, arena, out, err);
}

static kvt_status load(const struct question *question, const struct recorded *recorded,
                       struct kvt_arena *arena, struct kvt_scenario *out, struct kvt_error *err)
{
    char *source = make_source(recorded), *selection = make_selection(question->path);
    const char **sets =
        malloc((question->scenario.sets.count + RUN_SETS_MORE + OUR_SETS) * sizeof *sets);
    kvt_status status = source != NULL && selection != NULL && sets != NULL
                            ? parse(question, recorded, source, selection, sets, arena, out, err)
                            : kvt_fail_nomem(err, "a scenario");
    free(sets);
    free(selection);
    free(source);
    return status;
}

/* ---- Answers ------------------------------------------------------------------------------ */

/* NaN where there is none. */
static double metric_of(const cJSON *tree, const char *name)
{
    const cJSON *metrics = kvt_json_find(tree, "metrics");
    if (metrics == NULL)
        return (double)NAN;
    const cJSON *item = kvt_json_find(metrics, name);
    return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

static void print_number(double value)
{
    if (isnan(value))
        printf(" %14s", "-");
    else
        printf(" %14.6g", value);
}

static void print_comparison(const struct recorded *recorded, const cJSON *result)
{
    printf("\n  %-18s %14s %14s\n", "", "recorded", "replayed");
    for (int i = 0; i < TRACE_NOTE_METRIC_COUNT; i++) {
        printf("  %-18s", trace_note_metrics[i]);
        print_number(metric_of(recorded->note, trace_note_metrics[i]));
        print_number(metric_of(result, trace_note_metrics[i]));
        (void)putchar('\n');
    }
}

/* `hash` is the replay's. */
static void print_hashes(const struct question *question, const struct recorded *recorded,
                         const char *hash)
{
    if (is_changed(question))
        printf("\nThe scenario was changed: decision hashes are not compared.\n");
    else
        printf("%s\n  recorded  decision hash %s\n  replayed  decision hash %s, %s\n",
               question->path, recorded->hash, hash,
               strcmp(hash, recorded->hash) == 0 ? "the same" : "another one");
}

static kvt_status print_json(const struct question *question, const struct recorded *recorded,
                             const cJSON *result, const char *hash, struct kvt_error *err)
{
    cJSON *answer = cJSON_CreateObject();
    bool changed = is_changed(question);
    bool is_whole =
        answer != NULL && kvt_json_add_text(answer, "file", question->path) &&
        kvt_json_add_bool(answer, "is_changed", changed) &&
        kvt_json_add_text(answer, "recorded_hash", recorded->hash) &&
        kvt_json_add_text(answer, "replayed_hash", hash) &&
        (changed || kvt_json_add_bool(answer, "is_same", strcmp(hash, recorded->hash) == 0));
    cJSON *metrics = is_whole ? kvt_json_add_object(answer, "metrics") : NULL;
    is_whole = metrics != NULL;
    for (int i = 0; is_whole && i < TRACE_NOTE_METRIC_COUNT; i++) {
        const char *name = trace_note_metrics[i];
        cJSON *both = kvt_json_add_object(metrics, name);
        is_whole = both != NULL &&
                   kvt_json_add_number(both, "recorded", metric_of(recorded->note, name)) &&
                   kvt_json_add_number(both, "replayed", metric_of(result, name));
    }
    char *text = is_whole ? kvt_json_print(answer) : NULL;
    cJSON_Delete(answer);
    if (text == NULL)
        return kvt_fail_nomem(err, "trace replay");
    puts(text);
    free(text);
    return KVT_OK;
}

/* ---- The run ------------------------------------------------------------------------------- */

/* Writes what is asked for, and says what came of it. */
static kvt_status answer(const struct question *question, const struct recorded *recorded,
                         struct run_files *files, const struct kvt_run *run, double wall_s,
                         bool *is_no, struct kvt_error *err)
{
    cJSON *result = NULL;
    char *text = NULL;
    const char *hash = NULL;
    kvt_status status = kvt_report_result(run, &result, err);
    if (status == KVT_OK)
        status = kvt_json_get_text(result, "the result", "decision_hash", true, &hash, err);
    if (status == KVT_OK && (text = kvt_json_print(result)) == NULL)
        status = kvt_fail_nomem(err, "the result's text");
    if (status == KVT_OK)
        status = run_files_write(files, run, text, wall_s, err);
    if (status == KVT_OK && question->json) {
        status = print_json(question, recorded, result, hash, err);
    } else if (status == KVT_OK) {
        if (is_changed(question)) {
            kvt_report_summary(stdout, run, result);
            print_comparison(recorded, result);
        }
        print_hashes(question, recorded, hash);
    }
    if (status == KVT_OK && !is_changed(question))
        *is_no = *is_no || strcmp(hash, recorded->hash) != 0;
    free(text);
    cJSON_Delete(result);
    return status;
}

static kvt_status replay(const struct question *question, const struct recorded *recorded,
                         const struct kvt_scenario *scenario, const char *cache_dir, bool *is_no,
                         struct kvt_error *err)
{
    struct run_files files = {.dir = question->out};
    struct cli_run run = {.sim = NULL};
    const struct kvt_sim_options options = {.threads = (unsigned)question->threads,
                                            .cache_dir = cache_dir,
                                            .on_interval =
                                                files.dir != NULL ? run_files_interval : NULL,
                                            .interval_context = &files};
    kvt_status status = run_files_begin(&files, scenario, err);
    if (status == KVT_OK)
        status = cli_run_whole(scenario, &options, "replaying", question->quiet, &run, err);
    *is_no = run.interrupted;
    if (status == KVT_OK)
        status = answer(question, recorded, &files, run.run, kvt_wall_seconds_since(run.start),
                        is_no, err);
    run_files_end(&files, status);
    kvt_sim_free(run.sim);
    return status;
}

static int act(const struct question *question)
{
    struct kvt_error err;
    struct kvt_scenario scenario = {0};
    struct recorded recorded = {0};
    const char *cache_dir = NULL;
    bool is_no = false;
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    if (arena == NULL) {
        (void)kvt_fail_nomem(&err, "a scenario");
        return cli_fail(&err);
    }
    kvt_status status = read_recorded(question->path, &recorded, &err);
    if (status == KVT_OK)
        status = load(question, &recorded, arena, &scenario, &err);
    if (status == KVT_OK)
        status = check_scenario(question, &recorded, &scenario, &err);
    if (status == KVT_OK)
        status = cli_cache_dir(question->cache, arena, &cache_dir, &err);
    if (status == KVT_OK)
        status = replay(question, &recorded, &scenario, cache_dir, &is_no, &err);
    kvt_arena_free(arena);
    cJSON_Delete(recorded.note);
    if (status != KVT_OK)
        return cli_fail(&err);
    return is_no ? CLI_NO : CLI_DONE;
}

int trace_replay(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {.threads = 2};
    const struct cli_option options[] = {
        RUN_SETS_OPTIONS(question.scenario),
        CLI_PLUGIN_OPTION,
        {"--cache", "DIR|none", CLI_CACHE_HELP, CLI_TEXT, &question.cache},
        {"--threads", "N", "threads to work with (2); never changes a result", CLI_COUNT,
         &question.threads},
        {"--out", "DIR", "keeps result.json, requests.csv, timeline.csv and .om, run.log there",
         CLI_TEXT, &question.out},
        {"--json", NULL, "prints the answer as JSON", CLI_FLAG, &question.json},
        {"--quiet", NULL, "no progress", CLI_FLAG, &question.quiet},
    };
    const size_t option_count = sizeof options / sizeof options[0];
    struct cli_texts positional = {0};
    int exit_code = CLI_DONE;
    if (cli_parse(command, argc, argv, options, option_count, 1, 1, &positional, &exit_code)) {
        exit_code = cli_check_threads("trace replay", question.threads, CLI_RUN_THREADS_MAX);
        if (exit_code == CLI_DONE) {
            cli_catch_signals();
            question.path = positional.items[0];
            exit_code = act(&question);
        }
    }
    cli_parsed_free(options, option_count, &positional);
    return exit_code;
}
