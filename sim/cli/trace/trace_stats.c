/* trace_stats.c -- kvtide trace stats: files of one kind, counted. */
#include "kvt/error.h"
#include "trace_kvsel.h"
#include "trace_requests.h"

/* What the command was asked. */
struct question {
    struct trace_requests_question requests;
    bool json, quiet;
};

static int act(const struct question *question, const char *const *paths, size_t count)
{
    struct kvt_error err;
    size_t kvsel_count = 0;
    for (size_t i = 0; i < count; i++) {
        enum trace_kind kind = TRACE_REQUESTS;
        if (trace_kind_of(paths[i], &kind, &err) != KVT_OK)
            return cli_fail(&err);
        kvsel_count += kind == TRACE_KVSEL;
        if (kind == TRACE_NPY)
            return cli_malformed("trace stats: %s is a NumPy array; trace convert --to OUT.kvsel "
                                 "makes it readable",
                                 paths[i]);
        if (kind == TRACE_ROWS)
            return cli_malformed("trace stats: %s holds selected rows; trace convert --to "
                                 "OUT.kvsel makes it readable",
                                 paths[i]);
    }
    if (kvsel_count > 0 && kvsel_count < count)
        return cli_malformed("trace stats: files of selections (.kvsel) and request traces; one "
                             "kind at a time is expected");
    if (kvsel_count > 0 && trace_requests_are_asked(&question->requests))
        return cli_malformed("trace stats: --format, --window, --rate-scale and --seed are of "
                             "request traces; %s holds selections",
                             paths[0]);
    kvt_status status =
        kvsel_count > 0
            ? trace_kvsel_stats(paths, count, question->json, question->quiet, &err)
            : trace_requests_stats(&question->requests, paths, count, question->json, &err);
    return status == KVT_OK ? CLI_DONE : cli_fail(&err);
}

int trace_stats(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {.requests.seed = TRACE_NOT_GIVEN};
    const struct cli_option options[] = {
        TRACE_REQUESTS_OPTIONS(question.requests),
        {"--json", NULL, "prints the answer as JSON", CLI_FLAG, &question.json},
        {"--quiet", NULL, "says nothing on stderr when all went well", CLI_FLAG, &question.quiet},
    };
    const size_t option_count = sizeof options / sizeof options[0];
    struct cli_texts paths = {0};
    int exit_code = CLI_DONE;
    if (cli_parse(command, argc, argv, options, option_count, 1, SIZE_MAX, &paths, &exit_code))
        exit_code = act(&question, paths.items, paths.count);
    cli_parsed_free(options, option_count, &paths);
    return exit_code;
}
