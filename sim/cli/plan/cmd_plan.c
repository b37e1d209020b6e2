/* cmd_plan.c -- kvtide plan: the most, or the least, of something that still holds some bounds. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../report/report.h"
#include "kvt/engine.h"
#include "kvt/file.h"
#include "kvt/json.h"
#include "kvt/workload.h"
#include "plan.h"

/* ---- Files ----------------------------------------------------------------------------------- */

struct plan_files {
    struct kvt_outfile *plan, *scenario; /* NULL: nothing is written */
};

/* Before the runs, so that a folder that cannot be written costs none of them. */
static kvt_status open_files(const char *dir, struct kvt_arena *arena, struct plan_files *files,
                             struct kvt_error *err)
{
    if (dir == NULL)
        return KVT_OK;
    const char *plan = kvt_arena_printf(arena, "%s/plan.json", dir);
    const char *scenario = kvt_arena_printf(arena, "%s/scenario.json", dir);
    kvt_status status =
        plan != NULL && scenario != NULL ? kvt_mkdirs(dir, err) : kvt_fail_nomem(err, "a name");
    if (status == KVT_OK)
        status = kvt_outfile_open(plan, &files->plan, err);
    return status == KVT_OK ? kvt_outfile_open(scenario, &files->scenario, err) : status;
}

static void discard_files(struct plan_files *files)
{
    kvt_outfile_discard(files->plan);
    kvt_outfile_discard(files->scenario);
    *files = (struct plan_files){NULL, NULL};
}

static kvt_status commit(struct kvt_outfile **file, const char *text, struct kvt_error *err)
{
    struct kvt_outfile *out = *file;

    *file = NULL;
    fprintf(kvt_outfile_stream(out), "%s\n", text);
    return kvt_outfile_commit(out, err);
}

/* The scenario in force at the answer: it runs by itself. */
static kvt_status write_scenario(const struct plan *plan, const struct plan_answer *answer,
                                 struct plan_files *files, struct kvt_error *err)
{
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    struct kvt_scenario *scenario =
        arena != NULL ? kvt_arena_alloc(arena, sizeof *scenario, _Alignof(struct kvt_scenario))
                      : NULL;
    kvt_status status = scenario != NULL
                            ? plan_load(plan, answer->best, answer->best->answer,
                                        answer->best->is_simulated ? PLAN_SIMULATED : PLAN_ANALYTIC,
                                        arena, scenario, err)
                            : kvt_fail_nomem(err, "scenario.json");
    char *text = status == KVT_OK ? kvt_json_print(scenario->tree) : NULL;

    if (status == KVT_OK && text == NULL)
        status = kvt_fail_nomem(err, "scenario.json");
    if (status == KVT_OK)
        status = commit(&files->scenario, text, err);
    free(text);
    kvt_arena_free(arena);
    return status;
}

/* ---- Telling --------------------------------------------------------------------------------- */

/* A scenario.json that lies there was the answer to another question. */
static void remove_old_answer(const char *dir)
{
    char path[4200];

    if (snprintf(path, sizeof path, "%s/scenario.json", dir) < (int)sizeof path)
        (void)remove(path);
}

/* Says beside a failure which of the files are there. */
static kvt_status write_files(const struct plan *plan, const struct plan_answer *answer,
                              struct plan_files *files, const char *text, struct kvt_error *err)
{
    const struct plan_options *options = plan->question.options;
    const char *there = "none of its files is";
    struct kvt_error why;
    kvt_status status = KVT_OK;

    if (answer->is_met) {
        status = write_scenario(plan, answer, files, &why);
        there = status == KVT_OK ? "scenario.json alone is" : there;
    }
    if (status == KVT_OK) {
        report_remove(options->out);
        if (!answer->is_met)
            remove_old_answer(options->out);
        status = commit(&files->plan, text, &why);
        if (status == KVT_OK)
            there = answer->is_met ? "plan.json and scenario.json are" : "plan.json is";
    }
    if (status == KVT_OK && !options->no_report)
        status = report_write(options->out, "plan.json", &why);
    return status == KVT_OK ? KVT_OK
                            : kvt_fail(err, status, why.where,
                                       "%s; %s in %.300s, and the answer is "
                                       "on standard output",
                                       why.message, there, options->out);
}

static kvt_status tell(const struct plan *plan, const struct plan_answer *answer,
                       struct plan_export *export, struct plan_files *files, struct kvt_error *err)
{
    const struct plan_options *options = plan->question.options;
    cJSON *tree = plan_tree(plan, answer);
    bool is_whole = tree != NULL;

    if (is_whole && export->tree != NULL) {
        is_whole = kvt_json_add(tree, "engine", export->tree);
        export->tree = NULL;
    }
    char *text = is_whole ? kvt_json_print(tree) : NULL;
    kvt_status status = text != NULL ? KVT_OK : kvt_fail_nomem(err, "plan.json");

    /* First what costs nothing: an answer that took an hour is not lost with a disk that is full.
     */
    if (status == KVT_OK && options->json)
        puts(text);
    else if (status == KVT_OK) {
        plan_print(plan, answer);
        status = plan_export_print(export, err);
    }
    (void)fflush(stdout);
    if (status == KVT_OK && files->plan != NULL)
        status = write_files(plan, answer, files, text, err);
    free(text);
    cJSON_Delete(tree);
    return status;
}

/* ---- The plan -------------------------------------------------------------------------------- */

static kvt_status add_mean_values(struct plan *plan, struct plan_answer *answer,
                                  struct kvt_error *err)
{
    const struct plan_question *question = &plan->question;
    kvt_status status = KVT_OK;

    answer->mean_values = kvt_arena_array(plan->arena, plan->choice_count,
                                          sizeof *answer->mean_values, _Alignof(struct one_run));
    if (answer->mean_values == NULL)
        return kvt_fail_nomem(err, "a plan");
    for (size_t i = 0; status == KVT_OK && !plan->interrupted && i < plan->choice_count; i++) {
        struct plan_choice *choice = &plan->choices[i];
        long at = plan_told_at(plan, choice);
        if (choice->status == PLAN_REFUSED || choice->no_analytic != NULL || at < 0)
            continue;
        double *metrics =
            kvt_arena_array(plan->arena, question->metric_count, sizeof *metrics, _Alignof(double));
        if (metrics == NULL)
            return kvt_fail_nomem(err, "a plan");
        answer->mean_values[i].metrics = metrics;
        status = plan_mean_values(plan, choice, at, &answer->mean_values[i], err);
    }
    return status;
}

/* Where every choice is refused nothing was answered: the question was not one. */
static kvt_status check_refused(const struct plan *plan, struct kvt_error *err)
{
    const struct plan_choice *first = &plan->choices[plan->order[0]];
    size_t refused = 0;

    for (size_t i = 0; i < plan->choice_count; i++)
        refused += plan->choices[i].status == PLAN_REFUSED;
    if (refused < plan->choice_count || plan->interrupted)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, "", "%.600s%s%s", first->reason,
                    first->no_analytic != NULL && first->no_analytic != first->few &&
                            plan->question.analytic_only
                        ? "; --fidelity sampled simulates it"
                        : "",
                    refused > 1 ? " (the first choice; every one is refused)" : "");
}

static kvt_status find_loop(struct plan *plan, const struct plan_choice *choice,
                            bool *is_closed_loop, struct kvt_error *err)
{
    struct kvt_arena *arena = kvt_arena_new(1 << 16);
    struct kvt_scenario *scenario =
        arena != NULL ? kvt_arena_alloc(arena, sizeof *scenario, _Alignof(struct kvt_scenario))
                      : NULL;
    kvt_status status = scenario != NULL ? plan_load(plan, choice, choice->answer, PLAN_SIMULATED,
                                                     arena, scenario, err)
                                         : kvt_fail_nomem(err, "a note");

    if (status == KVT_OK)
        *is_closed_loop =
            ((const struct kvt_arrival *)(const void *)scenario->arrival.info)->closed_loop;
    kvt_arena_free(arena);
    return status;
}

/* "first; and second"; either may be NULL. */
static const char *both(struct plan *plan, const char *first, const char *second)
{
    return first != NULL && second != NULL
               ? kvt_arena_printf(plan->arena, "%s; and %s", first, second)
           : first != NULL ? first
                           : second;
}

/* What should be known of an answer, or why there is none. */
static kvt_status add_note(struct plan *plan, struct plan_answer *answer, struct kvt_error *err)
{
    const struct plan_choice *best = &plan->choices[plan->order[0]];
    const struct plan_rests rests = plan_rests_on(plan, answer);
    struct one_run run = {.metrics = kvt_arena_array(plan->arena, plan->question.metric_count,
                                                     sizeof *run.metrics, _Alignof(double))};
    const char *untested = NULL;
    bool is_closed_loop = false;
    kvt_status status = plan_note_untested(plan, best, &untested, err);

    if (status != KVT_OK)
        return status;
    if (!answer->is_met) {
        answer->note = both(plan, plan_note_group(plan, best), untested);
        return KVT_OK;
    }
    if (run.metrics == NULL)
        return kvt_fail_nomem(err, "a plan");
    status = find_loop(plan, best, &is_closed_loop, err);
    if (status == KVT_OK && !plan->interrupted)
        status = plan_mean_values(plan, answer->best, answer->best->answer, &run, err);
    const char *loaded = plan_note_loaded(best->is_simulated ? rests.result : NULL, run.result,
                                          is_closed_loop, plan->arena);
    const char *waiting = plan_note_waiting(&plan->question, rests.result, plan->arena);
    cJSON_Delete(run.result);
    answer->note = both(plan, both(plan, loaded, waiting), untested);
    return status;
}

static kvt_status find_answer(struct plan *plan, struct plan_answer *answer, struct kvt_error *err)
{
    struct plan_choice *best = NULL;
    kvt_status status = plan_run_nearest(plan, err);

    if (status != KVT_OK)
        return status;
    plan_rank(plan);
    status = check_refused(plan, err);
    if (status != KVT_OK)
        return status;
    best = &plan->choices[plan->order[0]];
    answer->best = best->status == PLAN_REFUSED ? NULL : best;
    answer->is_met = best->status == PLAN_MET;
    if (answer->is_met && !plan->interrupted)
        status = plan_interval(plan, best, err);
    if (status == KVT_OK && answer->is_met)
        status = plan_bind(plan, best, &answer->binding, err);
    if (status == KVT_OK && answer->is_met && !plan->interrupted && !plan->question.worth_none) {
        status = plan_weigh(plan, best, answer->worth, err);
        answer->worth_count = PLAN_WORTH;
    }
    if (status == KVT_OK)
        status = add_mean_values(plan, answer, err);
    if (status == KVT_OK)
        status = add_note(plan, answer, err);
    return status;
}

static kvt_status solve(struct plan *plan, struct plan_answer *answer, struct plan_export *export,
                        struct plan_files *files, struct kvt_error *err)
{
    const struct kvt_engine *engine = NULL;
    kvt_status status = plan_read_question(plan->question.options, plan, err);

    if (status == KVT_OK)
        status = plan_make_choices(plan, err);
    if (status == KVT_OK && plan->question.options->engine != NULL)
        status = kvt_engine_load(plan->question.options->engine, cli_data_dir(), plan->arena,
                                 &engine, err); /* before the runs, as every file is */
    if (status == KVT_OK)
        status = open_files(plan->question.options->out, plan->arena, files, err);
    if (status == KVT_OK)
        status = plan_runs_new(plan, err);
    if (status == KVT_OK)
        status = kvt_surfaces_new(&plan->surfaces, err);
    if (status == KVT_OK)
        status = plan_solve(plan, plan->choices, plan->choice_count, err);
    if (status == KVT_OK)
        status = find_answer(plan, answer, err);
    if (status == KVT_OK)
        status = plan_export(plan, answer, export, err);
    return status == KVT_OK ? tell(plan, answer, export, files, err) : status;
}

static void free_plan(struct plan *plan, struct plan_answer *answer)
{
    for (size_t i = 0; answer->mean_values != NULL && i < plan->choice_count; i++)
        cJSON_Delete(answer->mean_values[i].result);
    for (size_t i = 0; i < plan->choice_count; i++) {
        curve_free(&plan->choices[i].curve);
        kvt_arena_free(plan->choices[i].arena);
        free(plan->choices[i].points);
    }
    plan_runs_free(plan->runs);
    kvt_surfaces_free(plan->surfaces);
    kvt_arena_free(plan->arena);
}

static int make_plan(const struct plan_options *options)
{
    struct kvt_error err;
    struct plan plan = {.question.options = options, .arena = kvt_arena_new(1 << 18)};
    struct plan_answer answer = {.best = NULL};
    struct plan_files files = {NULL, NULL};
    struct plan_export export = {.runs = true};
    int exit_code;

    if (plan.arena == NULL) {
        (void)kvt_fail_nomem(&err, "a plan");
        return cli_fail(&err);
    }
    cli_catch_signals();
    kvt_status status = solve(&plan, &answer, &export, &files, &err);
    exit_code = status != KVT_OK                                    ? cli_fail(&err)
                : answer.is_met && !plan.interrupted && export.runs ? CLI_DONE
                                                                    : CLI_NO;
    plan_export_free(&export);
    discard_files(&files);
    free_plan(&plan, &answer);
    return exit_code;
}

static int check_limits(const struct plan_options *options)
{
    if (options->seeds < 1 || options->seeds > PLAN_SEEDS_MAX)
        return cli_malformed("plan --seeds: found %llu, expected 1 to %d",
                             (unsigned long long)options->seeds, PLAN_SEEDS_MAX);
    if (cli_check_threads("plan", options->threads, CLI_THREADS_MAX) != CLI_DONE)
        return CLI_MALFORMED;
    if ((options->engine != NULL) != (options->export != NULL))
        return cli_malformed(options->export != NULL
                                 ? "plan --export: whose flags? --engine is expected beside it"
                                 : "plan --engine: --export flags is expected beside it");
    if (options->export != NULL && strcmp(options->export, "flags") != 0)
        return cli_malformed("plan --export: found \"%.100s\", expected flags", options->export);
    return CLI_DONE;
}

int kvt_cmd_plan(const struct cli_command *command, int argc, char **argv)
{
    struct plan_options asked = {.seeds = 3, .threads = 2};
    int exit_code = CLI_DONE;
    const struct cli_option options[] = {
        {"--slo", "METRIC<=LIMIT|classes|class:NAME",
         "must hold; < <= > >=, any metric, or the bounds of slo.classes; repeatable", CLI_TEXTS,
         &asked.slo},
        {"--maximize", "PATH=LOW:HIGH|METRIC", "what there should be most of", CLI_TEXT,
         &asked.maximize},
        {"--minimize", "PATH=LOW:HIGH|METRIC", "or least of", CLI_TEXT, &asked.minimize},
        {"--over", "PATH=V1,V2..", "choices, each solved for itself; repeatable: their product",
         CLI_TEXTS, &asked.over},
        {"--survive", "rank=1|node=1", "the bounds must hold while that fails", CLI_TEXT,
         &asked.survive},
        {"--set", "PATH=VALUE", "changes one key of the scenario; repeatable", CLI_TEXTS,
         &asked.sets},
        CLI_PLUGIN_OPTION,
        {"--seeds", "N",
         "simulates each value on N seeds, the same for all (3): a choice takes 2 to 12 values, "
         "each as long as N times `kvtide run`; progress tells each",
         CLI_COUNT, &asked.seeds},
        {"--fidelity", "exact|sampled|analytic",
         "of what is simulated (the scenario's); analytic simulates nothing and takes seconds",
         CLI_TEXT, &asked.fidelity},
        {"--no-analytic", NULL, "simulates at once, without mean values before", CLI_FLAG,
         &asked.no_analytic},
        {"--simulate", "N|all",
         "simulates the best N choices that mean values find (8); a plan takes as many times "
         "longer",
         CLI_TEXT, &asked.simulate},
        {"--precision", "SHARE", "of a value that is no whole number (0.01)", CLI_TEXT,
         &asked.precision},
        {"--worth", "analytic|simulated|none", "how what more is worth is found (analytic)",
         CLI_TEXT, &asked.worth},
        {"--engine", "vllm|sglang|trtllm|FILE", "that is to run the answer", CLI_TEXT,
         &asked.engine},
        {"--export", "flags", "prints what it takes, or why it cannot", CLI_TEXT, &asked.export},
        {"--cache", "DIR|none", CLI_CACHE_HELP, CLI_TEXT, &asked.cache},
        {"--threads", "N", "runs at once (2); never changes a result", CLI_COUNT, &asked.threads},
        {"--out", "DIR", "writes plan.json, report.html, and scenario.json, the answer, there",
         CLI_TEXT, &asked.out},
        {"--no-report", NULL, "without report.html, which kvtide report can make later", CLI_FLAG,
         &asked.no_report},
        {"--json", NULL, "prints plan.json instead of the table", CLI_FLAG, &asked.json},
        {"--quiet", NULL, "no progress", CLI_FLAG, &asked.quiet},
    };
    const size_t option_count = sizeof options / sizeof options[0];

    if (cli_parse(command, argc, argv, options, option_count, 1, 1, &asked.scenario, &exit_code)) {
        exit_code = check_limits(&asked);
        if (exit_code == CLI_DONE)
            exit_code = make_plan(&asked);
    }
    cli_parsed_free(options, option_count, &asked.scenario);
    return exit_code;
}
