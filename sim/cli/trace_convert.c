/* trace_convert.c -- kvtide trace convert: one file into another format. */
#include <inttypes.h>
#include <string.h>

#include "kvt/file.h"
#include "trace_kvsel.h"
#include "trace_requests.h"

/* What the command was asked. */
struct question {
    struct trace_requests_question requests;
    const char *to;
    uint64_t context_rows; /* TRACE_NOT_GIVEN */
    bool quiet;
};

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), tail = strlen(ending);
    return length > tail && strcmp(text + length - tail, ending) == 0;
}

static int check_npy(const struct question *question, const char *path)
{
    bool is_given = question->context_rows != TRACE_NOT_GIVEN;
    if (trace_requests_are_asked(&question->requests))
        return cli_malformed("trace convert: --format, --window, --rate-scale and --seed are of "
                             "request traces; %s holds selections",
                             path);
    if (!ends_with(question->to, ".kvsel"))
        return cli_malformed("trace convert: %s holds selections; --to %s is expected to end in "
                             ".kvsel",
                             path, question->to);
    if (is_given && (question->context_rows == 0 || question->context_rows > UINT32_MAX))
        return cli_malformed(
            "trace convert: --context-rows %" PRIu64 " is too %s; 1 to %" PRIu32 " are expected",
            question->context_rows, question->context_rows == 0 ? "small" : "large", UINT32_MAX);
    return CLI_DONE;
}

static int check_requests(const struct question *question, const char *path)
{
    if (ends_with(path, ".npy"))
        return cli_malformed("trace convert: %s does not begin as a NumPy file does, with "
                             "\\x93NUMPY",
                             path);
    if (question->context_rows != TRACE_NOT_GIVEN)
        return cli_malformed("trace convert: --context-rows is of selections; %s holds none", path);
    return CLI_DONE;
}

static int act(const struct question *question, const char *path)
{
    if (question->to == NULL)
        return cli_malformed("trace convert: --to OUT.csv (OUT.kvsel of selections) is expected");
    if (kvt_file_is_same(path, question->to))
        return cli_malformed("trace convert: --to %s is the file that is read, %s; another one is "
                             "expected",
                             question->to, path);
    enum trace_kind kind = trace_kind_of(path);
    if (kind == TRACE_KVSEL)
        return cli_malformed("trace convert: %s is a .kvsel file already", path);
    int exit_code = kind == TRACE_NPY ? check_npy(question, path) : check_requests(question, path);
    if (exit_code != CLI_DONE)
        return exit_code;
    bool is_given = question->context_rows != TRACE_NOT_GIVEN;
    struct kvt_error err;
    kvt_status status =
        kind == TRACE_NPY
            ? trace_npy_convert(path, question->to, is_given ? (uint32_t)question->context_rows : 0,
                                question->quiet, &err)
            : trace_requests_convert(&question->requests, path, question->to, question->quiet,
                                     &err);
    return status == KVT_OK ? CLI_DONE : cli_fail(&err);
}

int trace_convert(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {.requests.seed = TRACE_NOT_GIVEN, .context_rows = TRACE_NOT_GIVEN};
    const struct cli_option options[] = {
        TRACE_REQUESTS_OPTIONS(question.requests),
        {"--to", "OUT", "the file to write: kvtide's CSV, or .kvsel of an array", CLI_TEXT,
         &question.to},
        {"--context-rows", "N", "rows that an array's first token sees; the fewest that fit",
         CLI_COUNT, &question.context_rows},
        {"--quiet", NULL, "says nothing on stderr when all went well", CLI_FLAG, &question.quiet},
    };
    const size_t option_count = sizeof options / sizeof options[0];
    struct cli_texts paths = {0};
    int exit_code = CLI_DONE;
    if (cli_parse(command, argc, argv, options, option_count, 1, 1, &paths, &exit_code))
        exit_code = act(&question, paths.items[0]);
    cli_parsed_free(options, option_count, &paths);
    return exit_code;
}
