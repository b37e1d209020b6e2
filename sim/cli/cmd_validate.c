/* cmd_validate.c -- kvtide validate: is it true? The levels of fidelity against exact. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"
#include "validate.h"

enum {
    SCENARIOS_MAX = 64,
    SEEDS_MAX = 20,
    THREADS_MAX = 1024
};

struct question {
    struct cli_texts scenarios, sets;
    const char *suite, *cache;
    uint64_t seeds, threads;
    bool json, quiet;
};

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

static kvt_status tell(const struct question *question, const struct validate_outcome *outcome,
                       bool *good, struct kvt_error *err)
{
    struct validate_family families[VALIDATE_FAMILIES];
    cJSON *tree = NULL;
    char *text = NULL;
    kvt_status status = KVT_OK;

    *good = validate_judge(outcome, families);
    if (question->json) {
        status = validate_tree(outcome, families, *good, &tree, err);
        if (status == KVT_OK && (text = kvt_json_print(tree)) == NULL)
            status = kvt_fail_nomem(err, "the result of a validation");
        if (status == KVT_OK)
            puts(text);
    } else {
        validate_print(outcome, families, *good);
    }
    (void)fflush(stdout);
    if (status == KVT_OK && !question->quiet)
        tell_speed(outcome);
    free(text);
    cJSON_Delete(tree);
    return status;
}

static int validate(const struct question *question)
{
    struct kvt_error err;
    struct validate_outcome outcome;
    bool good = false;
    struct kvt_arena *arena = kvt_arena_new(1 << 18);
    const char *cache_dir = NULL;
    kvt_status status = arena ? cli_cache_dir(question->cache, arena, &cache_dir, &err)
                              : kvt_fail_nomem(&err, "a validation");

    if (status == KVT_OK) {
        const struct validate_plan plan = {.scenarios = &question->scenarios,
                                           .sets = &question->sets,
                                           .seeds = question->seeds,
                                           .threads = (unsigned)question->threads,
                                           .cache_dir = cache_dir,
                                           .quiet = question->quiet};
        cli_catch_signals();
        status = validate_fidelity(&plan, arena, &outcome, &err);
    }
    if (status == KVT_OK)
        status = tell(question, &outcome, &good, &err);
    kvt_arena_free(arena);
    if (status == KVT_ERR_INTERRUPTED) {
        (void)cli_fail(&err);
        return CLI_NO;
    }
    if (status != KVT_OK)
        return cli_fail(&err);
    return good ? CLI_DONE : CLI_NO;
}

static int check(const struct question *question)
{
    static const char *const later[] = {"decisions", "time", "public"};

    if (!question->suite)
        return cli_malformed("validate: --suite is missing; there is: fidelity");
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        if (strcmp(question->suite, later[i]) == 0)
            return cli_malformed(
                "validate --suite %s: this version of kvtide does not have it yet; "
                "there is: fidelity",
                question->suite);
    }
    if (strcmp(question->suite, "fidelity") != 0)
        return cli_malformed("validate --suite %s: no such suite; there is: fidelity",
                             question->suite);
    if (question->seeds < 1 || question->seeds > SEEDS_MAX)
        return cli_malformed("validate --seeds: found %llu, expected 1 to %d",
                             (unsigned long long)question->seeds, SEEDS_MAX);
    if (question->threads < 1 || question->threads > THREADS_MAX)
        return cli_malformed("validate --threads: found %llu, expected 1 to %d",
                             (unsigned long long)question->threads, THREADS_MAX);
    return CLI_DONE;
}

int kvt_cmd_validate(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {.seeds = 1, .threads = 2};
    int exit_code = CLI_DONE;
    const struct cli_option options[] = {
        {"--suite", "fidelity", "sampled and analytic against exact, on small scenarios of its own",
         CLI_TEXT, &question.suite},
        {"--set", "PATH=VALUE", "changes one key of each scenario; repeatable", CLI_TEXTS,
         &question.sets},
        {"--seeds", "N", "runs each on N seeds, from the scenario's own on (1)", CLI_COUNT,
         &question.seeds},
        {"--threads", "N", "threads of a run (2); never changes a result", CLI_COUNT,
         &question.threads},
        {"--cache", "DIR|none", "where recorded selections and surfaces are kept", CLI_TEXT,
         &question.cache},
        {"--json", NULL, "prints every point and family instead of the tables", CLI_FLAG,
         &question.json},
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
