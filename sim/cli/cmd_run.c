/* cmd_run.c -- kvtide run: one scenario, simulated and reported on. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "kvt/file.h"
#include "kvt/json.h"
#include "kvt/sim.h"
#include "kvt/workload.h"
#include "run_files.h"
#include "run_sets.h"
#include "sparkline.h"

#define NOT_GIVEN UINT64_MAX /* a count */

struct run_options {
    struct run_sets scenario;
    struct cli_texts goodput;
    const char *cache, *out;
    const char *perfetto; /* its window; NULL: not asked for */
    uint64_t threads, perfetto_events;
    bool no_report, quiet, json, sparklines;
};

static void show_done(void *context, double done_fraction)
{
    cli_progress_show(context, done_fraction, "simulating");
}

/* A run that ended of itself and served nobody is no answer. */
static bool nothing_completed(const struct kvt_run *run)
{
    return !run->stopped_early && kvt_run_count_requests(run).completed == 0;
}

static bool warmup_is_all(const struct kvt_run *run)
{
    return run->warmup_ns >= run->end_ns && run->end_ns > 0;
}

/* A file that lacks something says so, and so do we. */
static void say_left_out(const struct run_files *outputs, double end_s)
{
    char left_out[160];

    perfetto_left_out(&outputs->perfetto_account, left_out);
    if (outputs->perfetto_from_s >= end_s)
        fprintf(stderr,
                "kvtide: perfetto.json: nothing is in it: its window begins at %g s, and the run "
                "ends at %g s\n",
                outputs->perfetto_from_s, end_s);
    else if (left_out[0] != '\0')
        fprintf(stderr,
                "kvtide: perfetto.json: %llu events; left out for want of room: %s; a window "
                "(--perfetto FROM:TO) or more events (--perfetto-events) hold them\n",
                (unsigned long long)outputs->perfetto_account.events, left_out);
}

/* Who wants to know of each interval: the files, and the lines beneath the summary. */
struct listeners {
    struct run_files *files;
    struct sparklines *lines;
    bool sparklines;
};

static void on_interval(void *context, const struct kvt_tally *interval, uint32_t stratum_count)
{
    const struct listeners *listeners = context;

    if (listeners->files->dir)
        run_files_interval(listeners->files, interval, stratum_count);
    if (listeners->sparklines)
        sparklines_add(listeners->lines, interval, stratum_count);
}

/* Where mean values are weak. */
static void warn_of_means(const struct kvt_run *run)
{
    char saturated[KVT_SATURATED_BYTES];

    if (run->few_for_means)
        fprintf(stderr,
                "kvtide: %s: warning: fewer requests or shorter answers than mean values stand "
                "for; run.fidelity exact or sampled takes any\n",
                run->scenario->name);
    if (kvt_run_loaded(run, 1, INFINITY, saturated))
        fprintf(stderr,
                "kvtide: %s: warning: more comes than can be done by %s: TTFT is that of a queue "
                "that grows for as long as requests come\n",
                run->scenario->name, saturated);
}

/* machine: where kernels ran, which becomes the result's; NULL: nowhere. */
static kvt_status make_result(const struct kvt_run *run, cJSON **machine, cJSON **result,
                              char **text, struct kvt_error *err)
{
    kvt_status status = kvt_report_result(run, result, err);

    if (status == KVT_OK && *machine && !cJSON_AddItemToObject(*result, "machine", *machine))
        return kvt_fail_nomem(err, "the result");
    if (status != KVT_OK)
        return status;
    *machine = NULL;
    *text = kvt_json_print(*result);
    return *text ? KVT_OK : kvt_fail_nomem(err, "the result's text");
}

static void say_done(const struct kvt_run *run, const struct run_files *outputs, double wall_s)
{
    double seconds = (double)run->end_ns * 1e-9;

    fprintf(stderr, "%.1f simulated seconds in %.1f s (%.0f times real time)\n", seconds, wall_s,
            seconds / wall_s);
    if (outputs->dir)
        fprintf(stderr,
                "written: "
                "%s/{result.json,requests.csv,timeline.csv,timeline.om,itl.csv,%s%srun.log}\n",
                outputs->dir, outputs->wants_perfetto ? "perfetto.json," : "",
                outputs->leaves_report ? "" : "report.html,");
}

/* That there are no figures, and why; whether the run's answer is no. */
static bool say_nothing_is_left(const struct kvt_run *run, bool interrupted)
{
    const char *name = run->scenario->name;
    bool is_none = nothing_completed(run);

    if (is_none && run->record_count == 0)
        fprintf(stderr, "kvtide: %s: not one request arrived\n", name);
    else if (is_none)
        fprintf(stderr, "kvtide: %s: of %zu requests not one was completed: none can ever fit\n",
                name, run->record_count);
    else if (!interrupted && warmup_is_all(run))
        fprintf(stderr, "kvtide: %s: run.warmup cut the whole run: no metric is left\n", name);
    return is_none || interrupted;
}

/* What a run leaves: run is sim's, and machine is where kernels ran, NULL: nowhere. */
struct ran {
    struct kvt_sim *sim;
    const struct kvt_run *run;
    cJSON *machine;
    struct kvt_wall start;
    bool interrupted;
};

/* From its beginning to its end, or to a signal. */
static kvt_status simulate(const struct kvt_scenario *scenario, const struct run_options *options,
                           struct listeners *listeners, struct ran *out, struct kvt_error *err)
{
    struct cli_progress progress;

    cli_progress_begin(&progress, &out->start, options->quiet);
    struct kvt_sim_options sim_options = {.threads = (unsigned)options->threads,
                                          .cache_dir = options->cache,
                                          .on_interval = on_interval,
                                          .interval_context = listeners,
                                          .on_prepare = cli_progress_prepare,
                                          .prepare_context = &progress};
    kvt_status status = run_files_begin(listeners->files, scenario, err);
    sim_options.observer = run_files_observer(listeners->files);
    if (status == KVT_OK && kvt_backend_runs(&scenario->backend))
        status = cli_machine(options->quiet, &out->machine, err);
    if (status == KVT_OK)
        status = kvt_sim_new(scenario, &sim_options, &out->sim, err);
    if (status == KVT_OK && run_sets_take_exact(&options->scenario) && !options->quiet) {
        cli_progress_end(&progress); /* its line is not shared */
        fprintf(stderr, "--backend %s: fidelity exact, for every call is run\n",
                options->scenario.backend);
    }
    if (status == KVT_OK)
        status = cli_advance(out->sim, show_done, &progress, &out->interrupted, err);
    cli_progress_end(&progress);
    return status == KVT_OK ? kvt_sim_finish(out->sim, out->interrupted, &out->run, err) : status;
}

/* Files first, for what is printed says that they are there. */
static kvt_status put_answer(struct ran *ran, const struct run_options *options,
                             struct listeners *listeners, struct kvt_error *err)
{
    cJSON *result = NULL;
    char *text = NULL;
    kvt_status status = make_result(ran->run, &ran->machine, &result, &text, err);
    double wall_s = kvt_wall_seconds_since(ran->start);

    if (status == KVT_OK)
        status = run_files_write(listeners->files, ran->run, text, wall_s, err);
    if (status == KVT_OK && options->json)
        fputs(text, stdout);
    else if (status == KVT_OK)
        kvt_report_summary(stdout, ran->run, result);
    if (status == KVT_OK && listeners->sparklines)
        status = sparklines_put(listeners->lines, sparklines_in_utf8(), err);
    if (status == KVT_OK && !options->quiet)
        say_done(ran->run, listeners->files, wall_s);
    free(text);
    cJSON_Delete(result);
    return status;
}

static kvt_status run_scenario(const struct kvt_scenario *scenario,
                               const struct run_options *options, struct run_files *outputs,
                               bool *answer_is_no, struct kvt_error *err)
{
    struct ran ran = {0};
    struct sparklines lines = {0};
    struct listeners listeners = {
        .files = outputs, .lines = &lines, .sparklines = options->sparklines && !options->json};
    kvt_status status = simulate(scenario, options, &listeners, &ran, err);

    if (status == KVT_OK)
        status = put_answer(&ran, options, &listeners, err);
    if (status == KVT_OK) {
        if (outputs->wants_perfetto)
            say_left_out(outputs, (double)ran.run->end_ns * 1e-9);
        warn_of_means(ran.run);
        *answer_is_no = say_nothing_is_left(ran.run, ran.interrupted);
    }
    run_files_end(outputs, status);
    sparklines_free(&lines);
    cJSON_Delete(ran.machine);
    kvt_sim_free(ran.sim);
    return status;
}

/* --goodput is --set slo.classes by another name, for a scenario without classes: it is loaded
 * again with one. */
static kvt_status add_goodput(const struct cli_texts *words, const char *source,
                              struct kvt_scenario_options *options, const char **sets,
                              struct kvt_arena *arena, struct kvt_scenario *scenario,
                              struct kvt_error *err)
{
    if (scenario->slo_class_count > 0)
        return kvt_fail(err, KVT_ERR_INVALID, "run --goodput",
                        "%s has slo.classes of its own; change their bounds with --set",
                        scenario->name);
    kvt_status status = cli_goodput_set(words, arena, &sets[options->set_count], err);
    if (status != KVT_OK)
        return status;
    options->set_count++;
    return kvt_scenario_load(source, options, arena, scenario, err);
}

/* What it would show must be there. */
static kvt_status check_perfetto(const struct run_options *options,
                                 const struct kvt_scenario *scenario, struct run_files *outputs,
                                 struct kvt_error *err)
{
    static const char where[] = "run --perfetto";

    if (!options->out)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "perfetto.json is one of a run's files; --out DIR is expected with it");
    if (scenario->fidelity == KVT_FIDELITY_ANALYTIC)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "a run of mean values has no steps to show; --fidelity sampled or exact "
                        "is expected");
    return kvt_trace_parse_window(options->perfetto, where, &outputs->perfetto_from_s,
                                  &outputs->perfetto_to_s, err);
}

static int run_command(struct run_options *options, const char *source)
{
    struct kvt_error err;
    struct kvt_scenario scenario;
    struct run_files outputs = {.dir = options->out,
                                .leaves_report = options->no_report,
                                .wants_perfetto = options->perfetto != NULL,
                                .perfetto_events = options->perfetto_events != NOT_GIVEN
                                                       ? options->perfetto_events
                                                       : PERFETTO_EVENTS};
    bool answer_is_no = false;
    char texts[RUN_SETS_MORE][RUN_SETS_BYTES];
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    const char **sets = malloc((options->scenario.sets.count + RUN_SETS_MORE + 1) * sizeof *sets);
    struct kvt_scenario_options scenario_options = {
        .data_dir = cli_data_dir(), .plugins = cli_plugins(), .sets = sets};
    kvt_status status = KVT_OK;

    if (!arena || !sets)
        status = kvt_fail_nomem(&err, "a scenario");
    else if (!run_sets_gather(&options->scenario, texts, sets, &scenario_options.set_count))
        status = kvt_fail(&err, KVT_ERR_INVALID, "run", "an option's value is too long");
    if (status == KVT_OK)
        status = kvt_scenario_load(source, &scenario_options, arena, &scenario, &err);
    if (status == KVT_OK && options->perfetto)
        status = check_perfetto(options, &scenario, &outputs, &err);
    if (status == KVT_OK)
        status = cli_cache_dir(options->cache, arena, &options->cache, &err);
    if (status == KVT_OK && options->goodput.count > 0)
        status =
            add_goodput(&options->goodput, source, &scenario_options, sets, arena, &scenario, &err);
    if (status == KVT_OK)
        status = run_scenario(&scenario, options, &outputs, &answer_is_no, &err);
    kvt_arena_free(arena);
    free(sets);
    if (status != KVT_OK)
        return cli_fail(&err);
    return answer_is_no ? CLI_NO : CLI_DONE;
}

int kvt_cmd_run(const struct cli_command *command, int argc, char **argv)
{
    struct run_options options = {.threads = 2, .perfetto_events = NOT_GIVEN};
    struct cli_texts positional;
    int exit_code;
    const struct cli_option table[] = {
        RUN_SETS_OPTIONS(options.scenario),
        {"--goodput", "ttft:MS tpot:MS..", "bounds of good service, as vLLM has them; also e2el:MS",
         CLI_PAIRS, &options.goodput},
        {"--cache", "DIR|none", CLI_CACHE_HELP, CLI_TEXT, &options.cache},
        {"--threads", "N", "threads to work with (2); never changes a result", CLI_COUNT,
         &options.threads},
        CLI_PLUGIN_OPTION,
        {"--out", "DIR", "keeps result.json, its tables (.csv, .om), run.log and report.html there",
         CLI_TEXT, &options.out},
        {"--no-report", NULL, "without report.html, which kvtide report can make later", CLI_FLAG,
         &options.no_report},
        {"--perfetto", "[FROM:TO]",
         "writes perfetto.json too, for ui.perfetto.dev; of seconds FROM:TO", CLI_MAYBE_PAIR,
         &options.perfetto},
        {"--perfetto-events", "N", "events that it holds at most (600000)", CLI_COUNT,
         &options.perfetto_events},
        {"--json", NULL, "prints result.json instead of the summary", CLI_FLAG, &options.json},
        {"--sparklines", NULL, "the course of the run beneath the summary, a line a quantity",
         CLI_FLAG, &options.sparklines},
        {"--quiet", NULL, "no progress", CLI_FLAG, &options.quiet},
    };
    const size_t option_count = sizeof table / sizeof table[0];

    if (cli_parse(command, argc, argv, table, option_count, 0, 1, &positional, &exit_code)) {
        if (options.perfetto_events != NOT_GIVEN && !options.perfetto) {
            exit_code = cli_malformed("run --perfetto-events: how many events perfetto.json holds; "
                                      "--perfetto is expected with it");
        } else if (options.perfetto_events < 1000) {
            exit_code = cli_malformed("run --perfetto-events: found %llu, expected 1000 or more",
                                      (unsigned long long)options.perfetto_events);
        } else {
            exit_code = cli_check_threads("run", options.threads, CLI_RUN_THREADS_MAX);
        }
        if (exit_code == CLI_DONE) {
            cli_catch_signals();
            exit_code =
                run_command(&options, positional.count ? positional.items[0] : "quickstart");
        }
    }
    cli_parsed_free(table, option_count, &positional);
    return exit_code;
}
