/* cmd_validate.c -- kvtide validate: is it true? A GPU against the simulator, on a scenario's own
 * run or on a grid of calls; and the levels of fidelity against exact. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grid.h"
#include "kvt/file.h"
#include "kvt/json.h"
#include "validate.h"
#include "validate_answer.h"
#include "validate_decisions.h"
#include "validate_measured.h"
#include "validate_public.h"
#include "validate_time.h"
#include "validate_timeline.h"

enum {
    SCENARIOS_MAX = 64,
    SEEDS_MAX = 20
};

enum suite {
    SUITE_LOCKSTEP, /* none is named, scenarios are */
    SUITE_MEASURED, /* none is named, an engine's files are */
    SUITE_TIMELINE, /* none is named, an answer of SUITE_LOCKSTEP is */
    SUITE_DECISIONS,
    SUITE_FIDELITY,
    SUITE_PUBLIC,
    SUITE_TIME,
    SUITES
};
static const char *const suite_names[SUITES] = {"",         "",       "",    "decisions",
                                                "fidelity", "public", "time"};

struct question {
    struct cli_texts scenarios, sets, measured, points;
    const char *grid, *profile;
    const char *suite_name, *backend, *cache, *out, *only, *shard_text, *window, *tolerance_text;
    double tolerance;
    uint32_t shard, shards;
    enum suite suite;
    uint64_t seeds, threads, steps;
    bool json, quiet, quick, corrupt;
};

static void print_lockstep(const struct answer *answer)
{
    lockstep_print(answer->plan, answer->outcome);
}

static void print_decisions(const struct answer *answer)
{
    decisions_print(answer->plan, answer->outcome);
}

static kvt_status give(const struct question *question, const struct answer *answer,
                       struct kvt_error *err)
{
    const struct answer_place place = {
        .dir = question->out, .json = question->json, .quiet = question->quiet};
    return answer_give(answer, &place, err);
}

static bool is_on_gpu(const struct question *question)
{
    return strcmp(question->backend, "cuda") == 0;
}

static bool has_steps(const struct lockstep_outcome *outcome)
{
    for (size_t r = 0; r < outcome->run_count; r++) {
        if (outcome->runs[r].decode_steps > 0)
            return true;
    }
    return false;
}

static kvt_status lockstep(const struct question *question, const char *cache_dir,
                           struct kvt_arena *arena, bool *good, struct kvt_error *err)
{
    const struct lockstep_plan plan = {.scenarios = &question->scenarios,
                                       .sets = &question->sets,
                                       .seeds = question->seeds,
                                       .steps = question->steps,
                                       .threads = (unsigned)question->threads,
                                       .cache_dir = cache_dir,
                                       .out_dir = question->out,
                                       .on_gpu = is_on_gpu(question),
                                       .corrupt = question->corrupt,
                                       .quiet = question->quiet};
    struct lockstep_outcome outcome = {0};
    struct answer answer = {.plan = &plan, .outcome = &outcome, .print = print_lockstep};
    kvt_status status = plan.on_gpu ? cli_machine(plan.quiet, &outcome.machine, err) : KVT_OK;

    if (status == KVT_OK)
        status = validate_lockstep(&plan, arena, &outcome, err);
    if (status == KVT_OK || has_steps(&outcome)) { /* what is done is answered, and marked */
        struct kvt_error unused = {0}, *why = status == KVT_OK ? err : &unused;
        kvt_status given = lockstep_tree(&plan, &outcome, &answer.tree, why);
        if (given == KVT_OK)
            given = give(question, &answer, why);
        status = status == KVT_OK ? given : status;
    }
    *good = status == KVT_OK && lockstep_is_good(&plan, &outcome);
    cJSON_Delete(answer.tree);
    lockstep_free(&outcome);
    return status;
}

static kvt_status decisions(const struct question *question, bool *good, struct kvt_error *err)
{
    const struct decisions_plan plan = {.sets = &question->sets,
                                        .threads = (unsigned)question->threads,
                                        .shard = question->shard,
                                        .shards = question->shards,
                                        .on_gpu = is_on_gpu(question),
                                        .corrupt = question->corrupt,
                                        .quick = question->quick,
                                        .quiet = question->quiet};
    struct decisions_outcome *outcome = calloc(1, sizeof *outcome);
    struct answer answer = {.plan = &plan, .outcome = outcome, .print = print_decisions};
    kvt_status status = outcome ? KVT_OK : kvt_fail_nomem(err, "a validation");

    if (status == KVT_OK && plan.on_gpu)
        status = cli_machine(plan.quiet, &outcome->machine, err);
    if (status == KVT_OK)
        status = validate_decisions(&plan, outcome, err);
    if (status == KVT_OK || (outcome && outcome->calls > 0)) { /* as lockstep() */
        struct kvt_error unused = {0}, *why = status == KVT_OK ? err : &unused;
        kvt_status given = decisions_tree(&plan, outcome, &answer.tree, why);
        if (given == KVT_OK)
            given = give(question, &answer, why);
        status = status == KVT_OK ? given : status;
    }
    *good = status == KVT_OK && decisions_are_good(&plan, outcome);
    cJSON_Delete(answer.tree);
    if (outcome)
        decisions_free(outcome);
    free(outcome);
    return status;
}

/* ---- The levels of fidelity ---------------------------------------------------------------- */

/* How fast each level was is wall time, and so goes where progress goes. */
static void tell_speed(const struct validate_outcome *outcome)
{
    if (outcome->exact_s > 0 && outcome->sampled_s > 0)
        fprintf(stderr, "speed: exact %.2f, sampled %.2f simulated seconds a second once prepared",
                outcome->exact_simulated_s / outcome->exact_s,
                outcome->sampled_simulated_s / outcome->sampled_s);
    if (outcome->solves > 0)
        fprintf(stderr, "; analytic %.2f ms a point",
                1e3 * outcome->solve_s / (double)outcome->solves);
    fputc('\n', stderr);
}

/* What print_fidelity() needs beside the outcome. */
struct judged {
    const struct validate_outcome *outcome;
    struct validate_family families[VALIDATE_FAMILIES];
    bool good;
};

static void print_fidelity(const struct answer *answer)
{
    const struct judged *judged = answer->plan;
    validate_print(judged->outcome, judged->families, judged->good);
}

static kvt_status fidelity(const struct question *question, const char *cache_dir,
                           struct kvt_arena *arena, bool *good, struct kvt_error *err)
{
    const struct validate_plan plan = {.scenarios = &question->scenarios,
                                       .sets = &question->sets,
                                       .seeds = question->seeds,
                                       .threads = (unsigned)question->threads,
                                       .cache_dir = cache_dir,
                                       .quiet = question->quiet};
    struct validate_outcome outcome;
    struct judged judged = {.outcome = &outcome};
    struct answer answer = {.plan = &judged, .print = print_fidelity};
    kvt_status status = validate_fidelity(&plan, arena, &outcome, err);

    if (status == KVT_OK || outcome.point_count > 0) { /* as lockstep() */
        struct kvt_error unused = {0}, *why = status == KVT_OK ? err : &unused;
        judged.good = validate_judge(&outcome, judged.families);
        kvt_status given = validate_tree(&outcome, judged.families, judged.good, &answer.tree, why);
        if (given == KVT_OK)
            given = give(question, &answer, why);
        status = status == KVT_OK ? given : status;
    }
    if (status == KVT_OK && !question->quiet)
        tell_speed(&outcome);
    *good = status == KVT_OK && judged.good;
    cJSON_Delete(answer.tree);
    return status;
}

/* ---- An engine's own measurements --------------------------------------------------------------
 */

static void print_measured(const struct answer *answer)
{
    measured_print(answer->plan, answer->outcome);
}

static kvt_status measured(const struct question *question, const char *cache_dir,
                           struct kvt_arena *arena, bool *good, struct kvt_error *err)
{
    const struct measured_plan plan = {.scenario = question->scenarios.items[0],
                                       .window = question->window,
                                       .cache_dir = cache_dir,
                                       .sets = &question->sets,
                                       .files = &question->measured,
                                       .tolerance = question->tolerance,
                                       .threads = (unsigned)question->threads,
                                       .quiet = question->quiet};
    struct measured_outcome outcome;
    struct answer answer = {.plan = &plan, .outcome = &outcome, .print = print_measured};
    kvt_status status = validate_measured(&plan, arena, &outcome, err);

    if (status == KVT_OK)
        status = measured_tree(&plan, &outcome, &answer.tree, err);
    if (status == KVT_OK)
        status = give(question, &answer, err);
    *good = status == KVT_OK && measured_is_good(&outcome);
    cJSON_Delete(answer.tree);
    return status;
}

/* ---- The course of a run in lockstep, beside the simulator's own -------------------------------
 */

static void print_timeline(const struct answer *answer)
{
    timeline_print(answer->outcome);
}

static kvt_status timeline(const struct question *question, const char *cache_dir,
                           struct kvt_arena *arena, bool *good, struct kvt_error *err)
{
    const struct timeline_plan plan = {.scenario = question->scenarios.items[0],
                                       .file = question->measured.items[0],
                                       .cache_dir = cache_dir,
                                       .sets = &question->sets,
                                       .threads = (unsigned)question->threads,
                                       .quiet = question->quiet};
    struct timeline_outcome outcome = {0};
    struct answer answer = {
        .plan = &plan, .outcome = &outcome, .print = print_timeline, .page_name = "timeline.html"};
    kvt_status status = validate_timeline(&plan, arena, &outcome, err);

    if (status == KVT_OK)
        status = timeline_tree(&plan, &outcome, &answer.tree, err);
    if (status == KVT_OK)
        status = give(question, &answer, err);
    *good = status == KVT_OK && outcome.was_good;
    cJSON_Delete(answer.tree);
    timeline_free(&outcome);
    return status;
}

/* ---- What others published ----------------------------------------------------------------- */

static void print_public(const struct answer *answer)
{
    public_print(answer->outcome);
}

static kvt_status published(const struct question *question, const char *cache_dir,
                            struct kvt_arena *arena, bool *good, struct kvt_error *err)
{
    const struct public_plan plan = {.names = &question->scenarios,
                                     .sets = &question->sets,
                                     .cache_dir = cache_dir,
                                     .threads = (unsigned)question->threads,
                                     .quiet = question->quiet};
    struct public_outcome outcome;
    struct answer answer = {.plan = &plan, .outcome = &outcome, .print = print_public};
    kvt_status status = validate_public(&plan, arena, &outcome, err);

    if (status == KVT_OK)
        status = public_tree(&outcome, &answer.tree, err);
    if (status == KVT_OK)
        status = give(question, &answer, err);
    *good = status == KVT_OK && public_is_good(&outcome);
    cJSON_Delete(answer.tree);
    return status;
}

/* ---- Step times -------------------------------------------------------------------------- */

static void print_time(const struct answer *answer)
{
    time_print(answer->outcome);
}

static kvt_status step_times(const struct question *question, const char *cache_dir,
                             struct kvt_arena *arena, bool *good, struct kvt_error *err)
{
    const struct time_plan plan = {.grid = question->grid ? question->grid : TIME_GRID_DEFAULT,
                                   .profile =
                                       question->profile ? question->profile : TIME_PROFILE_DEFAULT,
                                   .sets = &question->sets,
                                   .points = &question->points,
                                   .only = question->only,
                                   .cache_dir = cache_dir,
                                   .threads = (unsigned)question->threads,
                                   .shard = question->shard,
                                   .shards = question->shards,
                                   .quick = question->quick,
                                   .quiet = question->quiet};
    struct time_outcome outcome = {.mark_ns = 0};
    struct answer answer = {.outcome = &outcome, .print = print_time};
    kvt_status status = validate_time(&plan, arena, &outcome, err);

    if (status == KVT_OK)
        status = time_tree(&outcome, &answer.tree, err);
    if (status == KVT_OK)
        status = give(question, &answer, err);
    *good = status == KVT_OK && time_is_good(&outcome);
    cJSON_Delete(answer.tree);
    time_outcome_free(&outcome);
    return status;
}

/* ---- The command ------------------------------------------------------------------------ */

static int validate(const struct question *question)
{
    struct kvt_error err;
    bool good = false;
    struct kvt_arena *arena = kvt_arena_new(1 << 18);
    const char *cache_dir = NULL;
    kvt_status status = arena ? cli_cache_dir(question->cache, arena, &cache_dir, &err)
                              : kvt_fail_nomem(&err, "a validation");

    cli_catch_signals();
    if (status == KVT_OK && question->suite == SUITE_LOCKSTEP)
        status = lockstep(question, cache_dir, arena, &good, &err);
    else if (status == KVT_OK && question->suite == SUITE_MEASURED)
        status = measured(question, cache_dir, arena, &good, &err);
    else if (status == KVT_OK && question->suite == SUITE_TIMELINE)
        status = timeline(question, cache_dir, arena, &good, &err);
    else if (status == KVT_OK && question->suite == SUITE_DECISIONS)
        status = decisions(question, &good, &err);
    else if (status == KVT_OK && question->suite == SUITE_PUBLIC)
        status = published(question, cache_dir, arena, &good, &err);
    else if (status == KVT_OK && question->suite == SUITE_TIME)
        status = step_times(question, cache_dir, arena, &good, &err);
    else if (status == KVT_OK)
        status = fidelity(question, cache_dir, arena, &good, &err);
    kvt_arena_free(arena);
    if (status == KVT_ERR_INTERRUPTED) {
        (void)cli_fail(&err);
        return CLI_NO;
    }
    if (status != KVT_OK)
        return cli_fail(&err);
    return good ? CLI_DONE : CLI_NO;
}

static int find_suite(struct question *question)
{
    if (question->measured.count > 0) {
        question->suite =
            timeline_is_one(question->measured.items[0]) ? SUITE_TIMELINE : SUITE_MEASURED;
        return CLI_DONE;
    }
    if (!question->suite_name) {
        if (question->scenarios.count > 0)
            return CLI_DONE;
        return cli_malformed(
            "validate: a scenario, or --suite decisions|time|fidelity|public, is missing");
    }
    for (int s = SUITE_DECISIONS; s < SUITES; s++) {
        if (strcmp(question->suite_name, suite_names[s]) == 0) {
            question->suite = (enum suite)s;
            return CLI_DONE;
        }
    }
    return cli_malformed(
        "validate --suite %s: no such suite; there are: decisions, time, fidelity, public",
        question->suite_name);
}

/* "10" is 10 %. */
static int check_measured(struct question *question)
{
    struct kvt_error err;

    question->tolerance = 0.1;
    if (question->suite != SUITE_MEASURED && (question->window || question->tolerance_text))
        return cli_malformed("validate --window and --tolerance go with --measured, and a "
                             "benchmark of an engine");
    if (question->suite == SUITE_TIMELINE && question->measured.count > 1)
        return cli_malformed("validate --measured: %s is an answer of kvtide validate, which "
                             "stands alone; %zu files are named",
                             question->measured.items[0], question->measured.count);
    if (question->suite != SUITE_MEASURED && question->suite != SUITE_TIMELINE)
        return CLI_DONE;
    if (question->scenarios.count != 1 || question->suite_name)
        return cli_malformed("validate --measured takes one SCENARIO: what was measured; and no "
                             "--suite");
    if (question->backend || question->corrupt || question->seeds > 1)
        return cli_malformed("validate --measured runs the scenario once, in the simulator: "
                             "--backend, --corrupt and --seeds say nothing there");
    if (!question->tolerance_text)
        return CLI_DONE;
    kvt_status status = kvt_text_real(question->tolerance_text, "validate --tolerance", 0, 1000,
                                      &question->tolerance, &err);
    question->tolerance /= 100;
    return status == KVT_OK ? CLI_DONE : cli_fail(&err);
}

/* Options that mean nothing to the suite are refused. */
static int check_suite(const struct question *question)
{
    bool is_fidelity = question->suite == SUITE_FIDELITY;
    bool is_decisions = question->suite == SUITE_DECISIONS;

    bool is_public = question->suite == SUITE_PUBLIC;
    bool is_time = question->suite == SUITE_TIME;

    if ((is_fidelity || is_public) && (question->backend || question->corrupt))
        return cli_malformed("validate --suite %s takes runs of the simulator: --backend and "
                             "--corrupt say nothing there",
                             question->suite_name);
    if (is_public && question->seeds > 1)
        return cli_malformed("validate --suite public runs each point once: no --seeds");
    if (is_decisions && (question->scenarios.count > 0 || question->seeds > 1))
        return cli_malformed("validate --suite decisions drives a grid of its own: no scenario and "
                             "no --seeds");
    if (is_time && (question->scenarios.count > 0 || question->seeds > 1 || question->backend ||
                    question->corrupt))
        return cli_malformed(
            "validate --suite time runs a grid of its own on a GPU, each run once: "
            "no scenario, --seeds, --backend or --corrupt");
    if (is_time && question->points.count > 0 &&
        (question->grid || question->quick || question->only || question->shard_text ||
         question->sets.count > 0))
        return cli_malformed("validate --points: what was measured is not changed by --grid, "
                             "--quick, --only, --shard or --set");
    if (!is_time &&
        (question->grid || question->only || question->profile || question->points.count > 0))
        return cli_malformed("validate --grid, --only, --profile and --points go with --suite "
                             "time");
    if ((question->quick || question->shard_text) && !is_decisions && !is_time)
        return cli_malformed("validate --quick and --shard go with --suite decisions or time");
    if (question->steps > 0 && question->suite != SUITE_LOCKSTEP)
        return cli_malformed("validate --steps goes with a scenario and no --suite");
    return CLI_DONE;
}

static bool begins_with(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* --backend says what is compared with the simulator. */
static bool has_sides(const struct question *question)
{
    return question->suite == SUITE_LOCKSTEP || question->suite == SUITE_DECISIONS;
}

/* What would have no effect, or would compare something else than --backend says. */
static int check_sets(const struct question *question)
{
    for (size_t i = 0; i < question->sets.count && has_sides(question); i++) {
        const char *set = question->sets.items[i];
        if (begins_with(set, "backend=") || begins_with(set, "backend.name="))
            return cli_malformed("validate --set %s: what is compared with the simulator is said "
                                 "by --backend",
                                 set);
        if (question->suite == SUITE_DECISIONS && !begins_with(set, "backend."))
            return cli_malformed("validate --suite decisions --set %s: the grid is its own; only "
                                 "backend.KEY can be set",
                                 set);
    }
    return CLI_DONE;
}

static int check(struct question *question)
{
    int exit_code = find_suite(question);

    if (exit_code == CLI_DONE)
        exit_code = check_measured(question);
    if (exit_code == CLI_DONE)
        exit_code = check_suite(question);
    if (exit_code == CLI_DONE)
        exit_code = check_sets(question);
    if (exit_code == CLI_DONE)
        exit_code = cli_parse_shard("validate --shard", question->shard_text, validate_grid_parts(),
                                    &question->shard, &question->shards);
    if (exit_code != CLI_DONE)
        return exit_code;
    if (!question->backend)
        question->backend = "cuda";
    if (!is_on_gpu(question) && strcmp(question->backend, "sim") != 0)
        return cli_malformed("validate --backend %s: no such backend; there are: sim, cuda",
                             question->backend);
    if (question->corrupt && !is_on_gpu(question))
        return cli_malformed("validate --corrupt takes a GPU: the simulator has no rows");
    if (question->seeds < 1 || question->seeds > SEEDS_MAX)
        return cli_malformed("validate --seeds: found %llu, expected 1 to %d",
                             (unsigned long long)question->seeds, SEEDS_MAX);
    return cli_check_threads("validate", question->threads, CLI_RUN_THREADS_MAX);
}

int kvt_cmd_validate(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {.seeds = 1, .threads = 2};
    int exit_code = CLI_DONE;
    const struct cli_option options[] = {
        {"--suite", "decisions|time|fidelity|public",
         "a grid of calls; sampled and analytic against exact; what others published (some of it "
         "by name); or a profile's step times against a GPU's",
         CLI_TEXT, &question.suite_name},
        {"--backend", "cuda|sim", "what the simulator is compared with (cuda); sim proves the way",
         CLI_TEXT, &question.backend},
        {"--measured", "FILE",
         "an engine's benchmark or metrics of what SCENARIO describes; repeatable. Or a "
         "validate.json of SCENARIO on a GPU, for its timeline",
         CLI_TEXTS, &question.measured},
        {"--window", "FROM:TO", "only requests that ended in these seconds of the benchmark",
         CLI_TEXT, &question.window},
        {"--tolerance", "PERCENT", "of the figures that are judged (10)", CLI_TEXT,
         &question.tolerance_text},
        {"--set", "PATH=VALUE", "changes one key of each scenario; repeatable", CLI_TEXTS,
         &question.sets},
        CLI_PLUGIN_OPTION,
        {"--seeds", "N", "runs each on N seeds, from the scenario's own on (1)", CLI_COUNT,
         &question.seeds},
        {"--steps", "N", "ends each run after N decode steps", CLI_COUNT, &question.steps},
        {"--profile", "PROFILE", "of --suite time: shipped, or a file (h200-glm-5.3)", CLI_TEXT,
         &question.profile},
        {"--grid", "GRID", "of --suite time: the runs on the GPU (time-glm-5.3)", CLI_TEXT,
         &question.grid},
        {"--points", "FILE",
         "of --suite time: what was measured before, instead of a GPU; repeatable", CLI_TEXTS,
         &question.points},
        {"--quick", NULL, "a hundredth of the grid's calls; a few of its runs", CLI_FLAG,
         &question.quick},
        {"--only", "TEXT", "of --suite time: what of the grid has TEXT in its name", CLI_TEXT,
         &question.only},
        {"--shard", "I/N", "part I of N of the grid, for machines that are lent for minutes",
         CLI_TEXT, &question.shard_text},
        {"--corrupt", NULL, "flips a byte of a missed row on host: the check must find it",
         CLI_FLAG, &question.corrupt},
        {"--threads", "N", "threads of a run (2); never changes a result", CLI_COUNT,
         &question.threads},
        {"--cache", "DIR|none", "where recorded selections and surfaces are kept", CLI_TEXT,
         &question.cache},
        {"--out", "DIR", "writes validate.json there, and steps.csv of a scenario or timeline.html",
         CLI_TEXT, &question.out},
        {"--json", NULL, "prints everything found instead of the tables", CLI_FLAG, &question.json},
        {"--quiet", NULL, "no progress, no speeds", CLI_FLAG, &question.quiet},
    };
    const size_t option_count = sizeof options / sizeof options[0];

    if (cli_parse(command, argc, argv, options, option_count, 0, SCENARIOS_MAX, &question.scenarios,
                  &exit_code)) {
        exit_code = check(&question);
        if (exit_code == CLI_DONE)
            exit_code = validate(&question);
    }
    cli_parsed_free(options, option_count, &question.scenarios);
    return exit_code;
}
