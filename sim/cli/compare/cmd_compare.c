/* cmd_compare.c -- kvtide compare: scenarios beside each other, on the same seeds. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "../jobs.h"
#include "../report/report.h"
#include "compare.h"
#include "kvt/file.h"
#include "kvt/json.h"

enum {
    CONDITIONS_MAX = 64,
    REFERENCE_BYTES_MAX = 16 << 20
};

#define SEED_MAX (UINT64_C(1) << 53) /* as a scenario's seed */

struct question {
    struct cli_texts variants, sets, fail_if;
    const char *reference, *cache, *out, *metric;
    uint64_t seeds, threads;
    bool presets, no_report, quiet, json;
};

/* Everything that is known before the first run. */
struct prepared {
    struct compare_plan plan;
    struct kvt_condition conditions[CONDITIONS_MAX];
    size_t condition_count;
    size_t metric;                         /* that variants are compared by */
    const struct kvt_reference *reference; /* NULL: none */
    cJSON *reference_tree;
    struct kvt_outfile *out; /* NULL: nothing is written */
};

static kvt_status prepare_conditions(const struct question *question, struct prepared *prepared,
                                     struct kvt_error *err)
{
    for (size_t i = 0; i < question->fail_if.count; i++) {
        kvt_status status = kvt_condition_parse(question->fail_if.items[i], "compare --fail-if",
                                                "RATIO", &prepared->conditions[i], err);
        if (status != KVT_OK)
            return status;
        prepared->condition_count++;
    }
    return KVT_OK;
}

static kvt_status prepare_reference(const char *path, struct kvt_arena *arena,
                                    struct prepared *prepared, struct kvt_error *err)
{
    if (path == NULL)
        return KVT_OK;
    kvt_status status = kvt_json_load(path, REFERENCE_BYTES_MAX, &prepared->reference_tree, err);
    if (status == KVT_OK)
        status = kvt_reference_from_json(prepared->reference_tree, path, arena,
                                         &prepared->reference, err);
    return status;
}

static kvt_status prepare_seeds(const struct question *question, struct compare_plan *plan,
                                struct kvt_error *err)
{
    uint64_t first = plan->scenarios[0].seed;

    if (question->seeds > SEED_MAX - first)
        return kvt_fail(err, KVT_ERR_INVALID, "compare --seeds",
                        "%llu seeds from %llu on go past 2^53, the largest",
                        (unsigned long long)question->seeds, (unsigned long long)first);
    plan->seed_count = (size_t)question->seeds;
    for (size_t s = 0; s < plan->seed_count; s++)
        plan->seeds[s] = first + s;
    return KVT_OK;
}

/* Before the runs, so that a folder that cannot be written costs none of them. */
static kvt_status prepare_out(const char *dir, struct kvt_arena *arena, struct prepared *prepared,
                              struct kvt_error *err)
{
    if (dir == NULL)
        return KVT_OK;
    const char *path = kvt_arena_printf(arena, "%s/compare.json", dir);
    kvt_status status = path != NULL ? kvt_mkdirs(dir, err) : kvt_fail_nomem(err, "a file's name");
    return status == KVT_OK ? kvt_outfile_open(path, &prepared->out, err) : status;
}

static kvt_status prepare(const struct question *question, struct kvt_arena *arena,
                          struct prepared *prepared, struct kvt_error *err)
{
    prepared->plan.threads = (unsigned)question->threads;
    prepared->plan.quiet = question->quiet;
    kvt_status status = kvt_metric_find(question->metric ? question->metric : "output_throughput",
                                        "compare --metric", &prepared->metric, err);
    if (status == KVT_OK)
        status = prepare_conditions(question, prepared, err);
    if (status == KVT_OK)
        status = prepare_reference(question->reference, arena, prepared, err);
    if (status == KVT_OK)
        status = compare_load_variants(&question->variants, &question->sets, arena, &prepared->plan,
                                       err);
    if (status == KVT_OK && question->presets)
        status = compare_spread_presets(&question->sets, arena, &prepared->plan, err);
    if (status == KVT_OK)
        status = prepare_seeds(question, &prepared->plan, err);
    if (status == KVT_OK)
        status = cli_cache_dir(question->cache, arena, &prepared->plan.cache_dir, err);
    return status == KVT_OK ? prepare_out(question->out, arena, prepared, err) : status;
}

/* ---- Telling ----------------------------------------------------------------------------- */

/* What has run: one comparison, or one for each preset. */
struct answer {
    struct kvt_comparison comparisons[COMPARE_PRESETS_MAX];
    struct kvt_presets presets; /* their names; count 0 where there is one comparison alone */
};

static void gather(const struct compare_plan *plan, bool interrupted, struct answer *answer)
{
    size_t count = plan->preset_count > 0 ? plan->preset_count : 1;

    for (size_t p = 0; p < count; p++)
        answer->comparisons[p] =
            (struct kvt_comparison){.variants = plan->variants + p * (plan->variant_count / count),
                                    .variant_count = plan->variant_count / count,
                                    .seeds = plan->seeds,
                                    .seed_count = plan->seed_count,
                                    .interrupted = interrupted};
    answer->presets = (struct kvt_presets){
        .names = plan->presets, .comparisons = answer->comparisons, .count = plan->preset_count};
}

static kvt_status tree_of(const struct prepared *prepared, const struct answer *answer, cJSON **out,
                          struct kvt_error *err)
{
    return answer->presets.count > 0
               ? kvt_presets_tree(&answer->presets, prepared->conditions, prepared->condition_count,
                                  prepared->metric, out, err)
               : kvt_comparison_tree(answer->comparisons, prepared->conditions,
                                     prepared->condition_count, prepared->reference, out, err);
}

static kvt_status tell(const struct question *question, struct prepared *prepared,
                       const struct answer *answer, struct kvt_error *err)
{
    cJSON *tree = NULL;
    char *text = NULL;
    kvt_status status = tree_of(prepared, answer, &tree, err);

    if (status == KVT_OK && (text = kvt_json_print(tree)) == NULL)
        status = kvt_fail_nomem(err, "compare.json");
    if (status == KVT_OK && prepared->out != NULL) {
        fprintf(kvt_outfile_stream(prepared->out), "%s\n", text);
        struct kvt_outfile *out = prepared->out;
        prepared->out = NULL;
        report_remove(question->out);
        status = kvt_outfile_commit(out, err);
    }
    if (status == KVT_OK && question->out != NULL && !question->no_report)
        status = report_write(question->out, "compare.json", err);
    if (status == KVT_OK && question->json)
        puts(text);
    else if (status == KVT_OK && answer->presets.count > 0)
        status = compare_print_presets(&answer->presets, prepared->metric, err);
    else if (status == KVT_OK)
        status = compare_print(answer->comparisons, prepared->metric, prepared->reference, err);
    free(text);
    cJSON_Delete(tree);
    return status;
}

/* Says which variant met which --fail-if; preset: NULL where there is none. */
static kvt_status judge(const struct prepared *prepared, const struct kvt_comparison *comparison,
                        const char *preset, bool *failed, struct kvt_error *err)
{
    for (size_t c = 0; c < prepared->condition_count; c++) {
        const struct kvt_condition *condition = &prepared->conditions[c];
        for (size_t v = 1; v < comparison->variant_count; v++) {
            struct kvt_estimate ratio;
            kvt_status status = kvt_comparison_ratio(comparison, v, condition->metric, &ratio, err);
            if (status != KVT_OK)
                return status;
            if (!kvt_condition_holds(condition, ratio.mean))
                continue;
            *failed = true;
            fprintf(stderr, "kvtide: compare: %s%s%s: --fail-if %s: ", comparison->variants[v].name,
                    preset != NULL ? " under " : "", preset != NULL ? preset : "", condition->text);
            if (ratio.mean != ratio.mean)
                fputs("there is no ratio to judge\n", stderr);
            else
                fprintf(stderr, "the ratio is %.6g\n", ratio.mean);
        }
    }
    return KVT_OK;
}

static kvt_status judge_all(const struct prepared *prepared, const struct answer *answer,
                            bool *failed, struct kvt_error *err)
{
    if (answer->presets.count == 0)
        return judge(prepared, answer->comparisons, NULL, failed, err);
    kvt_status status = KVT_OK;
    for (size_t p = 0; status == KVT_OK && p < answer->presets.count; p++)
        status = judge(prepared, &answer->comparisons[p], answer->presets.names[p], failed, err);
    return status;
}

/* ---- The command --------------------------------------------------------------------------- */

static int run_and_tell(const struct question *question, struct kvt_arena *arena,
                        struct prepared *prepared)
{
    struct kvt_error err;
    struct answer answer;
    bool interrupted = false, failed = false;
    struct compare_plan *plan = &prepared->plan;
    kvt_status status = prepare(question, arena, prepared, &err);

    if (status == KVT_OK)
        status = compare_run(plan, arena, &interrupted, &err);
    if (status == KVT_OK && plan->seed_count == 0)
        status = kvt_fail(&err, KVT_ERR_INTERRUPTED, "compare",
                          "interrupted before every scenario had run on one seed");
    if (status == KVT_OK)
        gather(plan, interrupted, &answer);
    if (status == KVT_OK)
        status = tell(question, prepared, &answer, &err);
    if (status == KVT_OK)
        status = judge_all(prepared, &answer, &failed, &err);
    if (status != KVT_OK)
        return cli_fail(&err);
    return interrupted || failed ? CLI_NO : CLI_DONE;
}

static int compare(const struct question *question)
{
    struct kvt_error err;
    struct kvt_arena *arena = kvt_arena_new(1 << 18);
    struct prepared *prepared =
        arena != NULL ? kvt_arena_alloc(arena, sizeof *prepared, _Alignof(struct prepared)) : NULL;
    int exit_code;

    if (prepared != NULL) {
        cli_catch_signals();
        exit_code = run_and_tell(question, arena, prepared);
        kvt_outfile_discard(prepared->out);
        cJSON_Delete(prepared->reference_tree);
    } else {
        (void)kvt_fail_nomem(&err, "a comparison");
        exit_code = cli_fail(&err);
    }
    kvt_arena_free(arena);
    return exit_code;
}

static int check_limits(const struct question *question)
{
    if (question->variants.count < 2 && question->reference == NULL)
        return cli_malformed("compare: one scenario given; it takes two or more, or one and a "
                             "--reference");
    if (question->presets && question->variants.count < 2)
        return cli_malformed("compare --presets: one scenario given; an order takes two or more");
    if (question->presets && question->reference != NULL)
        return cli_malformed("compare --presets: a --reference speaks of one law of selections; "
                             "ask for one of the two");
    if (question->seeds < 1 || question->seeds > COMPARE_SEEDS_MAX)
        return cli_malformed("compare --seeds: found %llu, expected 1 to %d",
                             (unsigned long long)question->seeds, COMPARE_SEEDS_MAX);
    if (cli_check_threads("compare", question->threads, CLI_THREADS_MAX) != CLI_DONE)
        return CLI_MALFORMED;
    if (question->fail_if.count > CONDITIONS_MAX)
        return cli_malformed("compare --fail-if: given %zu times, at most %d are taken",
                             question->fail_if.count, CONDITIONS_MAX);
    return CLI_DONE;
}

int kvt_cmd_compare(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {.seeds = 1, .threads = 2};
    int exit_code = CLI_DONE;
    const struct cli_option options[] = {
        {"--set", "PATH=VALUE", "changes one key of all, before their own changes; repeatable",
         CLI_TEXTS, &question.sets},
        CLI_PLUGIN_OPTION,
        {"--seeds", "N", "runs each on N seeds, from the scenario's own on (1)", CLI_COUNT,
         &question.seeds},
        {"--presets", NULL, "runs each under every preset of its law; says if the order changes",
         CLI_FLAG, &question.presets},
        {"--metric", "METRIC", "what ratios and the order are of (output_throughput)", CLI_TEXT,
         &question.metric},
        {"--fail-if", "METRIC<RATIO",
         "exit 1 if a later scenario's ratio is so; < <= > >=", CLI_TEXTS, &question.fail_if},
        {"--reference", "FILE", "sets published numbers beside ours", CLI_TEXT,
         &question.reference},
        {"--cache", "DIR|none", CLI_CACHE_HELP, CLI_TEXT, &question.cache},
        {"--threads", "N", "runs at once (2); never changes a result", CLI_COUNT,
         &question.threads},
        {"--out", "DIR", "writes compare.json and its page report.html there", CLI_TEXT,
         &question.out},
        {"--no-report", NULL, "without report.html, which kvtide report can make later", CLI_FLAG,
         &question.no_report},
        {"--json", NULL, "prints compare.json instead of the table", CLI_FLAG, &question.json},
        {"--quiet", NULL, "no progress", CLI_FLAG, &question.quiet},
    };
    const size_t option_count = sizeof options / sizeof options[0];

    if (cli_parse(command, argc, argv, options, option_count, 1, COMPARE_VARIANTS_MAX,
                  &question.variants, &exit_code)) {
        exit_code = check_limits(&question);
        if (exit_code == CLI_DONE)
            exit_code = compare(&question);
    }
    cli_parsed_free(options, option_count, &question.variants);
    return exit_code;
}
