/* trace_convert.c -- kvtide trace convert: one file into another format. */
#include <inttypes.h>
#include <string.h>

#include "kvt/file.h"
#include "trace_kvsel.h"
#include "trace_requests.h"
#include "trace_rows.h"

/* What the command was asked. */
struct question {
    struct trace_requests_question requests;
    const char *to;
    uint64_t context_rows, row_bytes; /* TRACE_NOT_GIVEN */
    bool quiet;
};

#define ORACLE_ENDING ".oracleGeneral.bin"

/* ---- What does not go together --------------------------------------------------------------- */

static int check_count(const char *option, uint64_t value)
{
    if (value == TRACE_NOT_GIVEN || (value >= 1 && value <= UINT32_MAX))
        return CLI_DONE;
    return cli_malformed("trace convert: %s %" PRIu64 " is too %s; 1 to %" PRIu32 " are expected",
                         option, value, value == 0 ? "small" : "large", UINT32_MAX);
}

/* Selections: as .kvsel, as CSV, or of an engine. */
static int check_selections(const struct question *question, const char *path, enum trace_kind kind)
{
    bool is_oracle = trace_ends_with(question->to, ORACLE_ENDING);
    if (trace_requests_are_asked(&question->requests))
        return cli_malformed("trace convert: --format, --window, --rate-scale and --seed are of "
                             "request traces; %s holds selections",
                             path);
    if (kind != TRACE_KVSEL && !trace_ends_with(question->to, ".kvsel"))
        return cli_malformed("trace convert: %s holds selections; --to %s is expected to end in "
                             ".kvsel",
                             path, question->to);
    if (kind == TRACE_KVSEL && !is_oracle && !trace_ends_with(question->to, ".csv"))
        return cli_malformed("trace convert: %s is a .kvsel file already; --to %s is expected to "
                             "end in .csv or " ORACLE_ENDING,
                             path, question->to);
    if (kind != TRACE_NPY && question->context_rows != TRACE_NOT_GIVEN)
        return cli_malformed("trace convert: --context-rows is of arrays; %s says itself how many "
                             "rows are visible",
                             path);
    if ((kind != TRACE_KVSEL || !is_oracle) && question->row_bytes != TRACE_NOT_GIVEN)
        return cli_malformed("trace convert: --row-bytes is of what is written to " ORACLE_ENDING);
    int exit_code = check_count("--context-rows", question->context_rows);
    return exit_code == CLI_DONE ? check_count("--row-bytes", question->row_bytes) : exit_code;
}

static int check_requests(const struct question *question, const char *path)
{
    if (trace_ends_with(path, ".npy"))
        return cli_malformed("trace convert: %s does not begin as a NumPy file does, with "
                             "\\x93NUMPY",
                             path);
    if (question->context_rows != TRACE_NOT_GIVEN || question->row_bytes != TRACE_NOT_GIVEN)
        return cli_malformed(
            "trace convert: %s is of selections; %s holds none",
            question->context_rows != TRACE_NOT_GIVEN ? "--context-rows" : "--row-bytes", path);
    return CLI_DONE;
}

/* ---- The action ------------------------------------------------------------------------------ */

static uint32_t given_or(uint64_t value, uint32_t otherwise)
{
    return value != TRACE_NOT_GIVEN ? (uint32_t)value : otherwise;
}

static kvt_status convert(const struct question *question, const char *path, enum trace_kind kind,
                          struct kvt_error *err)
{
    const char *to = question->to;
    switch (kind) {
    case TRACE_NPY:
        return trace_npy_convert(path, to, given_or(question->context_rows, 0), question->quiet,
                                 err);
    case TRACE_ROWS:
        return trace_rows_from_csv(path, to, question->quiet, err);
    case TRACE_KVSEL:
        return trace_ends_with(to, ORACLE_ENDING)
                   ? trace_rows_to_oracle(path, to, given_or(question->row_bytes, 1),
                                          question->quiet, err)
                   : trace_rows_to_csv(path, to, question->quiet, err);
    case TRACE_REQUESTS:
        break;
    }
    return trace_requests_convert(&question->requests, path, to, question->quiet, err);
}

static int act(const struct question *question, const char *path)
{
    if (question->to == NULL)
        return cli_malformed("trace convert: --to OUT.csv (OUT.kvsel of selections) is expected");
    if (kvt_file_is_same(path, question->to))
        return cli_malformed("trace convert: --to %s is the file that is read, %s; another one is "
                             "expected",
                             question->to, path);
    struct kvt_error err;
    enum trace_kind kind = TRACE_REQUESTS;
    if (trace_kind_of(path, &kind, &err) != KVT_OK)
        return cli_fail(&err);
    int exit_code = kind == TRACE_REQUESTS ? check_requests(question, path)
                                           : check_selections(question, path, kind);
    if (exit_code != CLI_DONE)
        return exit_code;
    return convert(question, path, kind, &err) == KVT_OK ? CLI_DONE : cli_fail(&err);
}

int trace_convert(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {.requests.seed = TRACE_NOT_GIVEN,
                                .context_rows = TRACE_NOT_GIVEN,
                                .row_bytes = TRACE_NOT_GIVEN};
    const struct cli_option options[] = {
        TRACE_REQUESTS_OPTIONS(question.requests),
        {"--to", "OUT", "the file to write: .csv, .kvsel or " ORACLE_ENDING, CLI_TEXT,
         &question.to},
        {"--context-rows", "N", "rows that an array's first token sees; the fewest that fit",
         CLI_COUNT, &question.context_rows},
        {"--row-bytes", "N", "size of a row for libCacheSim (1)", CLI_COUNT, &question.row_bytes},
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
