/* cmd_size.c -- kvtide size: static bytes, without a run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "engine/engine.h"
#include "kvt/file.h"
#include "kvt/json.h"
#include "kvt/size.h"

enum {
    ARENA_BYTES = 1 << 16
};

/* What the command was asked. */
struct question {
    const char *scenario;
    const char *tokens; /* "N,N.."; NULL: the scenario's own length */
    const char *engine; /* NULL: ideal */
    struct cli_texts sets;
    bool json;
};

/* ---- For people -------------------------------------------------------------- */

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)KVT_GIB;
}

static void print_pool(const struct kvt_scenario *scenario, const struct kvt_decode_pool *pool)
{
    const struct kvt_hardware *hardware = pool->hardware;
    double sold_gib = hardware->hbm_gb * 1e9 / (double)KVT_GIB;
    double left_gib = kvt_hardware_kv_gib(hardware, pool->weights_gib_per_gpu);

    printf("\n%u x %s, tp %u, dp %u; GiB of each GPU\n", pool->gpus, hardware->name, pool->tp,
           pool->dp);
    printf("  memory sold      %9.1f\n", sold_gib);
    printf("  engines may take %9.1f   (%.0f %%)\n", sold_gib * hardware->usable_fraction,
           hardware->usable_fraction * 100);
    printf("  weights          %9.1f\n", pool->weights_gib_per_gpu);
    printf("  workspace        %9.1f\n", hardware->workspace_gib);
    printf("  left             %9.1f%s\n", left_gib,
           pool->weights_fit ? "" : "   the weights do not fit");
    if (scenario->drafter != NULL) {
        printf("  drafter weights  %9.1f   (%s), workspace %.1f\n",
               scenario->drafter->weight_bytes / (double)KVT_GIB, scenario->drafter->name,
               pool->speculation_workspace_gib);
    }
    if (pool->weights_fit)
        printf("  KV pool          %9.1f   (%s)\n",
               gib(pool->index_pool_bytes + pool->rows_pool_bytes),
               pool->pools_given ? "as the scenario says" : "derived");
    else
        puts("  KV pool               none");
}

static void print_required(const struct kvt_size *sizes, size_t count)
{
    puts("\nGiB that one request must hold in HBM, and in host DRAM; tables and window apart");
    printf("%8s %6s = %6s %5s %5s %5s %7s %7s %7s %6s %6s\n", "tokens", "HBM", "index", "hot",
           "tail", "ring", "staging", "payload", "host", "tables", "window");
    for (size_t i = 0; i < count; i++) {
        const struct kvt_session_bytes *bytes = &sizes[i].scenario.session;
        const uint64_t *by_class = bytes->hbm_by_class;

        printf("%8llu %6.3f = %6.3f %5.3f %5.3f %5.3f %7.3f %7.3f %7.3f %6.3f %6.3f\n",
               (unsigned long long)sizes[i].tokens, gib(bytes->hbm_bytes),
               gib(by_class[KVT_MEM_INDEX]), gib(by_class[KVT_MEM_HOT]),
               gib(by_class[KVT_MEM_TAIL]), gib(by_class[KVT_MEM_RING]),
               gib(by_class[KVT_MEM_STAGING]), gib(by_class[KVT_MEM_PAYLOAD]),
               gib(bytes->host_bytes), gib(bytes->metadata_bytes), gib(bytes->window_bytes));
    }
    if (count > 0 && sizes[0].scenario.session.rank_staging_bytes > 0)
        printf("and %.3f that each GPU keeps once, so that the widest call fits its staging\n",
               gib(sizes[0].scenario.session.rank_staging_bytes));
}

static void print_fit(const struct kvt_scenario *scenario, const struct kvt_size *sizes,
                      size_t count)
{
    puts("\nRequests that run at once; beside them, all history in HBM (no hierarchy)");
    printf("%8s %4s %7s %7s  %-10s %13s | %7s %7s\n", "tokens", "pool", "per GPU", "in all",
           "limited by", "host GiB/node", "per GPU", "in all");
    for (size_t i = 0; i < count; i++) {
        for (uint32_t p = 0; p < scenario->pool_count; p++) {
            const struct kvt_size_pool *pool = &sizes[i].scenario.pools[p];
            const struct kvt_size_pool *resident = &sizes[i].resident.pools[p];

            printf("%8llu %4u %7llu %7llu  %-10s %13.1f | %7llu %7llu\n",
                   (unsigned long long)sizes[i].tokens, p,
                   (unsigned long long)pool->running_per_gpu, (unsigned long long)pool->running,
                   kvt_size_limit_name(pool->limited_by), gib(pool->host_bytes_at_limit),
                   (unsigned long long)resident->running_per_gpu,
                   (unsigned long long)resident->running);
        }
    }
}

static void print_for_people(const struct kvt_scenario *scenario, const struct kvt_engine *engine,
                             const struct kvt_size *sizes, size_t count)
{
    printf("%s: %s\n", scenario->name, scenario->llm->name);
    printf("residency %s, %llu hot tokens, %u quer%s a round, laid out as %s\n",
           scenario->residency.info->name, (unsigned long long)scenario->hot_tokens,
           scenario->queries_max, scenario->queries_max == 1 ? "y" : "ies",
           kvt_engine_name(engine));
    for (uint32_t i = 0; i < scenario->pool_count; i++) {
        print_pool(scenario, &scenario->pools[i]);
    }
    print_required(sizes, count);
    print_fit(scenario, sizes, count);
}

/* ---- The command --------------------------------------------------------------- */

static kvt_status print_json(const struct kvt_scenario *scenario, const struct kvt_engine *engine,
                             const struct kvt_size *sizes, size_t count, struct kvt_error *err)
{
    cJSON *tree = kvt_size_tree(scenario, engine, sizes, count);
    char *text = tree != NULL ? kvt_json_print(tree) : NULL;

    cJSON_Delete(tree);
    if (text == NULL) {
        return kvt_fail_nomem(err, "size --json");
    }
    puts(text);
    free(text);
    return KVT_OK;
}

/* No is an answer: nothing runs at any of the lengths. */
static bool nothing_fits(const struct kvt_scenario *scenario, const struct kvt_size *sizes,
                         size_t count)
{
    if (!kvt_size_weights_fit(scenario)) {
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        if (sizes[i].scenario.running > 0) {
            return false;
        }
    }
    return true;
}

static kvt_status answer(const struct question *question, struct kvt_arena *arena, bool *no,
                         struct kvt_error *err)
{
    struct kvt_scenario_options options = {.data_dir = cli_data_dir(),
                                           .plugins = cli_plugins(),
                                           .sets = question->sets.items,
                                           .set_count = question->sets.count,
                                           .for_size = true};
    struct kvt_scenario scenario;
    struct kvt_size *sizes = NULL;
    struct engine_lengths lengths = {.option = "size --tokens"};
    const struct kvt_engine *engine = KVT_ENGINE_IDEAL;
    kvt_status status = kvt_engine_load(question->engine != NULL ? question->engine : "ideal",
                                        cli_data_dir(), arena, &engine, err);

    if (status == KVT_OK) {
        status = engine_parse_lengths(question->tokens, &lengths, err);
    }
    if (status == KVT_OK) {
        status = kvt_scenario_load(question->scenario, &options, arena, &scenario, err);
    }
    if (status == KVT_OK && question->tokens == NULL) {
        lengths.count = 1;
        status = kvt_size_own_tokens(&scenario, &lengths.of[0], err);
    }
    if (status != KVT_OK) {
        return status;
    }
    sizes = kvt_arena_array(arena, lengths.count, sizeof *sizes, _Alignof(struct kvt_size));
    if (sizes == NULL) {
        return kvt_fail_nomem(err, "size");
    }
    for (size_t i = 0; status == KVT_OK && i < lengths.count; i++) {
        status = kvt_size_at(&scenario, engine, lengths.of[i], &sizes[i], err);
    }
    if (status != KVT_OK) {
        return status;
    }
    *no = nothing_fits(&scenario, sizes, lengths.count);
    if (question->json) {
        return print_json(&scenario, engine, sizes, lengths.count, err);
    }
    print_for_people(&scenario, engine, sizes, lengths.count);
    return KVT_OK;
}

int kvt_cmd_size(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {0};
    const char *log = NULL, *hardware = NULL;
    bool quiet = false;
    const struct cli_option options[] = {
        {"--tokens", "N,N..", "context lengths; without it, the scenario's own", CLI_TEXT,
         &question.tokens},
        {"--engine", "ideal|vllm|sglang|trtllm|FILE", "whose allocator counts", CLI_TEXT,
         &question.engine},
        {"--set", "PATH=VALUE", "changes a value of the scenario; may be repeated", CLI_TEXTS,
         &question.sets},
        CLI_PLUGIN_OPTION,
        {"--from-log", "FILE", "what fits in what an engine got, by its start-up log", CLI_TEXT,
         &log},
        {"--hardware", "GPU", "with --from-log: which GPU (h200)", CLI_TEXT, &hardware},
        {"--json", NULL, "prints the answer as JSON", CLI_FLAG, &question.json},
        {"--quiet", NULL, "no effect on the answer; there is nothing else to print", CLI_FLAG,
         &quiet},
    };
    const size_t option_count = sizeof options / sizeof options[0];
    struct cli_texts positional;
    struct kvt_error err;
    struct kvt_arena *arena = NULL;
    bool no = false;
    int exit_code = CLI_DONE;
    kvt_status status = KVT_OK;

    if (!cli_parse(command, argc, argv, options, option_count, 0, (size_t)argc, &positional,
                   &exit_code)) {
        cli_parsed_free(options, option_count, &positional);
        return exit_code;
    }
    if (log != NULL || hardware != NULL || positional.count != 1) {
        const struct engine_question asked = {.engine = question.engine,
                                              .hardware = hardware,
                                              .tokens = question.tokens,
                                              .sets = &question.sets,
                                              .words = &positional,
                                              .json = question.json};
        exit_code = log != NULL        ? engine_size_log(log, &asked)
                    : hardware != NULL ? cli_malformed("size: --hardware goes with --from-log")
                                       : cli_malformed("size: %zu arguments given; usage: kvtide "
                                                       "size %s",
                                                       positional.count, command->usage);
        cli_parsed_free(options, option_count, &positional);
        return exit_code;
    }
    question.scenario = positional.items[0];
    arena = kvt_arena_new(ARENA_BYTES);
    status = arena != NULL ? answer(&question, arena, &no, &err) : kvt_fail_nomem(&err, "size");
    exit_code = status != KVT_OK ? cli_fail(&err) : no ? CLI_NO : CLI_DONE;
    kvt_arena_free(arena);
    cli_parsed_free(options, option_count, &positional);
    return exit_code;
}
