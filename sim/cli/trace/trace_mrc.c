/* trace_mrc.c -- kvtide trace mrc: miss curves of recorded selections. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../jobs.h"
#include "kvt/file.h"
#include "mrc_report.h"
#include "trace.h"

/* What the command was asked. */
struct question {
    const char *policies, *at, *stream, *tokens, *out;
    uint64_t threads, memory_mib;
    bool json, quiet;
    const char *const *paths; /* [path_count] */
    size_t path_count;
};

/* Everything that is found on the way. */
struct answer {
    struct kvt_arena *arena; /* of the policies' parameters */
    struct mrc_policy policies[MRC_POLICIES_MAX];
    double at[MRC_SIZES_MAX];
    struct mrc_plan plan;
    struct mrc_file *files; /* [path_count] */
    uint32_t top_k;
    struct mrc_counts counts;
    struct kvt_outfile *csv, *tree; /* NULL: nothing is written */
};

/* ---- What was asked -----------------------------------------------------------------------------
 */

#define AT_MAX 4096.0

/* "1,1.5,2": numbers, ascending. */
static kvt_status read_at(const char *text, struct answer *answer, struct kvt_error *err)
{
    struct mrc_plan *plan = &answer->plan;
    for (;;) {
        char number[32];
        size_t length = strcspn(text, ",");
        double *at = &answer->at[plan->size_count];
        if (plan->size_count == MRC_SIZES_MAX)
            return kvt_fail(err, KVT_ERR_INVALID, "trace mrc --at",
                            "more than %d sizes; at most so many are taken", MRC_SIZES_MAX);
        (void)snprintf(number, sizeof number, "%.*s", length < 31 ? (int)length : 31, text);
        kvt_status status = kvt_text_real(number, "trace mrc --at", 0, AT_MAX, at, err);
        if (status != KVT_OK)
            return status;
        if (plan->size_count > 0 && *at <= at[-1])
            return kvt_fail(err, KVT_ERR_INVALID, "trace mrc --at",
                            "%g after %g; sizes in rising order are expected", *at, at[-1]);
        plan->size_count++;
        if (text[length] == '\0')
            return KVT_OK;
        text += length + 1;
    }
}

/* "FROM:TO", either may be left out. */
static kvt_status read_tokens(const char *text, struct mrc_plan *plan, struct kvt_error *err)
{
    static const char where[] = "trace mrc --tokens";
    char number[32];
    uint64_t from = 0, to = UINT32_MAX;
    const char *colon = text != NULL ? strchr(text, ':') : NULL;
    kvt_status status = KVT_OK;
    if (text != NULL && (colon == NULL || (size_t)(colon - text) >= sizeof number))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "found \"%s\"; FROM:TO is expected, of which either may be left out", text);
    if (colon != NULL && colon > text) {
        (void)snprintf(number, sizeof number, "%.*s", (int)(colon - text), text);
        status = kvt_text_count(number, where, UINT32_MAX, &from, err);
    }
    if (status == KVT_OK && colon != NULL && colon[1] != '\0')
        status = kvt_text_count(colon + 1, where, UINT32_MAX, &to, err);
    if (status == KVT_OK && from >= to)
        return kvt_fail(err, KVT_ERR_INVALID, where, "\"%s\" holds no token", text);
    plan->from_token = (uint32_t)from;
    plan->to_token = (uint32_t)to;
    return status;
}

static kvt_status read_stream(const char *text, struct mrc_plan *plan, struct kvt_error *err)
{
    plan->stream = strcmp(text, "rows") == 0 ? MRC_ROWS : MRC_CALLS;
    if (plan->stream == MRC_CALLS && strcmp(text, "calls") != 0)
        return kvt_fail(err, KVT_ERR_INVALID, "trace mrc --stream",
                        "found \"%s\"; calls or rows is expected", text);
    return KVT_OK;
}

static kvt_status make_plan(const struct question *question, struct answer *answer,
                            struct kvt_error *err)
{
    struct mrc_plan *plan = &answer->plan;
    plan->policies = answer->policies;
    plan->memory_bytes = question->memory_mib << 20;
    plan->threads = (unsigned)question->threads;
    plan->quiet = question->quiet;
    kvt_status status =
        read_stream(question->stream != NULL ? question->stream : "calls", plan, err);
    if (status == KVT_OK)
        status = read_tokens(question->tokens, plan, err);
    if (status == KVT_OK)
        status = read_at(question->at != NULL ? question->at : "1,1.5,2,3,4,8,16", answer, err);
    if (status == KVT_OK)
        status = mrc_policies_find(question->policies != NULL ? question->policies : "all",
                                   answer->arena, answer->policies, &plan->policy_count, err);
    return status;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* k as of all files, and so how many slots each size has. */
static kvt_status size_caches(struct answer *answer, struct kvt_error *err)
{
    struct mrc_plan *plan = &answer->plan;
    for (size_t i = 0; i < plan->size_count; i++) {
        double slots = floor(answer->at[i] * answer->top_k + 0.5);
        if (slots < 1 || slots >= KVT_KVSEL_ROWS_MAX)
            return kvt_fail(err, KVT_ERR_INVALID, "trace mrc --at",
                            "%g times k = %u is a cache of %.0f slots; 1 to %u are expected",
                            answer->at[i], answer->top_k, slots, KVT_KVSEL_ROWS_MAX - 1);
        plan->slots[i] = (uint32_t)slots;
        if (i > 0 && plan->slots[i] == plan->slots[i - 1])
            return kvt_fail(err, KVT_ERR_INVALID, "trace mrc --at",
                            "%g and %g times k = %u are both %u slots", answer->at[i - 1],
                            answer->at[i], answer->top_k, plan->slots[i]);
    }
    return KVT_OK;
}

struct reading {
    struct cli_progress progress;
    struct kvt_wall start;
};

static bool on_read(void *context, double fraction)
{
    struct reading *reading = context;
    cli_progress_show(&reading->progress, fraction, "reading");
    return !cli_interrupted();
}

static kvt_status open_files(const struct question *question, struct answer *answer,
                             struct kvt_error *err)
{
    struct reading reading;
    kvt_status status = KVT_OK;
    for (size_t i = 0; status == KVT_OK && i < question->path_count; i++) {
        const char *path = question->paths[i];
        cli_progress_begin(&reading.progress, &reading.start, question->quiet);
        status = mrc_file_open(path, on_read, &reading, &answer->files[i], err);
        cli_progress_end(&reading.progress);
        if (status != KVT_OK)
            break;
        uint32_t top_k = kvt_kvsel_reader_header(answer->files[i].reader)->top_k;
        if (i > 0 && top_k != answer->top_k)
            return kvt_fail(err, KVT_ERR_INVALID, path,
                            "k is %u, and %u in %s; files of one k are expected", top_k,
                            answer->top_k, question->paths[0]);
        answer->top_k = top_k;
    }
    return status;
}

static kvt_status open_out(const struct question *question, struct answer *answer,
                           struct kvt_error *err)
{
    char path[4096];
    if (question->out == NULL)
        return KVT_OK;
    kvt_status status = kvt_mkdirs(question->out, err);
    if (status != KVT_OK)
        return status;
    if (strlen(question->out) + sizeof "/mrc.json" > sizeof path)
        return kvt_fail(err, KVT_ERR_INVALID, "trace mrc --out", "the folder's name is too long");
    (void)snprintf(path, sizeof path, "%s/mrc.csv", question->out);
    status = kvt_outfile_open(path, &answer->csv, err);
    (void)snprintf(path, sizeof path, "%s/mrc.json", question->out);
    return status == KVT_OK ? kvt_outfile_open(path, &answer->tree, err) : status;
}

/* ---- The command ----------------------------------------------------------------------------- */

static kvt_status tell(const struct question *question, struct answer *answer,
                       struct kvt_error *err)
{
    const struct mrc_report report = {.paths = question->paths,
                                      .path_count = question->path_count,
                                      .top_k = answer->top_k,
                                      .at = answer->at,
                                      .plan = &answer->plan,
                                      .counts = &answer->counts};
    char *json = mrc_report_json(&report);
    kvt_status status = json != NULL ? KVT_OK : kvt_fail_nomem(err, "trace mrc");
    if (status == KVT_OK && answer->csv != NULL) {
        struct kvt_outfile *csv = answer->csv, *tree = answer->tree;
        mrc_report_csv(&report, kvt_outfile_stream(csv));
        (void)fprintf(kvt_outfile_stream(tree), "%s\n", json);
        answer->csv = NULL;
        status = kvt_outfile_commit(csv, err);
        if (status == KVT_OK) {
            answer->tree = NULL;
            status = kvt_outfile_commit(tree, err);
        }
    }
    if (status == KVT_OK && question->json)
        (void)puts(json);
    else if (status == KVT_OK)
        mrc_report_print(&report);
    free(json);
    return status;
}

static void close_all(const struct question *question, struct answer *answer)
{
    for (size_t i = 0; i < question->path_count; i++)
        mrc_file_close(&answer->files[i]);
    kvt_outfile_discard(answer->csv);
    kvt_outfile_discard(answer->tree);
    free(answer->files);
    kvt_arena_free(answer->arena);
    free(answer);
}

static int act(const struct question *question)
{
    struct kvt_error err;
    if (cli_check_threads("trace mrc", question->threads, CLI_THREADS_MAX) != CLI_DONE)
        return CLI_MALFORMED;
    if (question->memory_mib > UINT64_C(1) << 30)
        return cli_malformed("trace mrc --memory-mib: found %llu, expected 0 to 2^30",
                             (unsigned long long)question->memory_mib);
    struct answer *answer = calloc(1, sizeof *answer);
    if (answer != NULL) {
        answer->files = calloc(question->path_count, sizeof *answer->files);
        answer->arena = kvt_arena_new(0);
    }
    if (answer == NULL || answer->files == NULL || answer->arena == NULL) {
        if (answer != NULL) {
            free(answer->files);
            kvt_arena_free(answer->arena);
        }
        free(answer);
        (void)kvt_fail_nomem(&err, "trace mrc");
        return cli_fail(&err);
    }
    cli_catch_signals();
    kvt_status status = make_plan(question, answer, &err);
    if (status == KVT_OK)
        status = open_files(question, answer, &err);
    if (status == KVT_OK)
        status = size_caches(answer, &err);
    if (status == KVT_OK)
        status = open_out(question, answer, &err);
    if (status == KVT_OK)
        status = mrc_run(&answer->plan, answer->files, question->path_count, &answer->counts, &err);
    if (status == KVT_OK)
        status = tell(question, answer, &err);
    close_all(question, answer);
    return status == KVT_OK ? CLI_DONE : cli_fail(&err);
}

int trace_mrc(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {.threads = 2, .memory_mib = 4096};
    const struct cli_option options[] = {
        {"--policies", "POLICY,..", "of replacement, or all (all)", CLI_TEXT, &question.policies},
        {"--at", "X,Y", "sizes of hot caches over k (1,1.5,2,3,4,8,16)", CLI_TEXT, &question.at},
        {"--stream", "calls|rows", "an access is a token's selection (calls), or each row of it",
         CLI_TEXT, &question.stream},
        {"--tokens", "FROM:TO", "of each stream; either may be left out", CLI_TEXT,
         &question.tokens},
        CLI_PLUGIN_OPTION,
        {"--threads", "N", "stores at once (2); never changes a result", CLI_COUNT,
         &question.threads},
        {"--memory-mib", "N", "for policies that see the future (4096)", CLI_COUNT,
         &question.memory_mib},
        {"--out", "DIR", "writes mrc.csv and mrc.json there", CLI_TEXT, &question.out},
        {"--json", NULL, "prints mrc.json instead of the table", CLI_FLAG, &question.json},
        {"--quiet", NULL, "no progress", CLI_FLAG, &question.quiet},
    };
    const size_t option_count = sizeof options / sizeof options[0];
    struct cli_texts paths = {0};
    int exit_code = CLI_DONE;
    if (cli_parse(command, argc, argv, options, option_count, 1, SIZE_MAX, &paths, &exit_code)) {
        question.paths = paths.items;
        question.path_count = paths.count;
        exit_code = act(&question);
    }
    cli_parsed_free(options, option_count, &paths);
    return exit_code;
}
