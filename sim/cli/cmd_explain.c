/* cmd_explain.c -- kvtide explain: where the time and the bytes of a run went, from its result. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "kvt/explain.h"
#include "kvt/json.h"
#include "sparkline.h"

enum {
    RESULT_BYTES_MAX = 64 << 20,
    PATH_BYTES = 4096
};

struct explain_options {
    bool json, ascii, no_course;
};

/* A run's folder stands for its result. False where the name is too long. */
static bool find_result(const char *path, char out[PATH_BYTES])
{
    struct stat found;
    bool is_folder = stat(path, &found) == 0 && S_ISDIR(found.st_mode);
    int length = snprintf(out, PATH_BYTES, "%s%s", path, is_folder ? "/result.json" : "");

    return length > 0 && length < PATH_BYTES;
}

static kvt_status load(const char *path, cJSON **out, struct kvt_error *err)
{
    kvt_status status = kvt_json_load(path, RESULT_BYTES_MAX, out, err);

    return status == KVT_OK ? kvt_explain_check(*out, path, err) : status;
}

/* timeline.csv in the folder of the result; false where that name is too long. */
static bool timeline_of(const char *path, char out[PATH_BYTES])
{
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path) + 1 : 0;
    int length = snprintf(out, PATH_BYTES, "%.*stimeline.csv", folder, path);

    return length > 0 && length < PATH_BYTES;
}

/* A result says what it says without its timeline too; with one that is not right, nobody knows
 * whose it is. */
static kvt_status read_course(const char *path, struct sparklines *lines, struct kvt_error *err)
{
    char timeline[PATH_BYTES];

    if (!timeline_of(path, timeline) || access(timeline, F_OK) != 0)
        return KVT_OK;
    return sparklines_read(lines, timeline, err);
}

static kvt_status print_tree(const cJSON *tree, struct kvt_error *err)
{
    char *text = tree ? kvt_json_print(tree) : NULL;

    if (!text)
        return kvt_fail_nomem(err, "an explanation");
    fputs(text, stdout);
    free(text);
    return KVT_OK;
}

/* What explains a result: its block, those of its phases, and its transitions. */
static kvt_status print_one(const cJSON *result, struct kvt_error *err)
{
    cJSON *tree = cJSON_Duplicate(kvt_json_find(result, "explain"), true);
    cJSON *phases = tree ? cJSON_AddArrayToObject(tree, "phases") : NULL;
    const cJSON *transitions = kvt_json_find(result, "transitions"), *phase;
    bool ok = phases != NULL;

    cJSON_ArrayForEach(phase, kvt_json_find(result, "phases"))
    {
        cJSON *copy = ok ? cJSON_Duplicate(kvt_json_find(phase, "explain"), true) : NULL;
        ok = copy && cJSON_AddItemToArray(phases, copy);
    }
    if (ok && transitions)
        ok = kvt_json_add(tree, "transitions", cJSON_Duplicate(transitions, true));
    kvt_status status = print_tree(ok ? tree : NULL, err);
    cJSON_Delete(tree);
    return status;
}

static kvt_status explain_one(const char *path, const struct explain_options *options,
                              const cJSON *result, struct kvt_error *err)
{
    bool utf8 = !options->ascii && sparklines_in_utf8();
    struct sparklines lines = {0};

    if (options->json)
        return print_one(result, err);
    kvt_status status = options->no_course ? KVT_OK : read_course(path, &lines, err);
    if (status == KVT_OK) {
        kvt_explain_put(stdout, result, utf8);
        status = sparklines_put(&lines, utf8, err);
    }
    sparklines_free(&lines);
    return status;
}

static kvt_status explain_two(const char *paths[2], const struct explain_options *options,
                              const cJSON *a, const cJSON *b, struct kvt_error *err)
{
    cJSON *tree = kvt_explain_difference(a, b);
    kvt_status status = KVT_OK;

    if (!tree || options->json) {
        status = print_tree(tree, err);
    } else {
        printf("a: %s\nb: %s\n", paths[0], paths[1]);
        kvt_explain_put_difference(stdout, tree);
    }
    cJSON_Delete(tree);
    return status;
}

static int explain_results(const struct cli_texts *given, const struct explain_options *options)
{
    char files[2][PATH_BYTES];
    const char *paths[2] = {files[0], files[1]};
    struct kvt_error err;
    cJSON *results[2] = {NULL, NULL};
    kvt_status status = KVT_OK;

    for (size_t i = 0; i < given->count && status == KVT_OK; i++)
        status = find_result(given->items[i], files[i])
                     ? load(files[i], &results[i], &err)
                     : kvt_fail(&err, KVT_ERR_INVALID, "explain", "the file's name is too long");
    if (status == KVT_OK && given->count == 1)
        status = explain_one(paths[0], options, results[0], &err);
    else if (status == KVT_OK)
        status = explain_two(paths, options, results[0], results[1], &err);
    cJSON_Delete(results[0]);
    cJSON_Delete(results[1]);
    return status == KVT_OK ? CLI_DONE : cli_fail(&err);
}

int kvt_cmd_explain(const struct cli_command *command, int argc, char **argv)
{
    struct explain_options options = {0};
    struct cli_texts positional;
    int exit_code;
    const struct cli_option table[] = {
        {"--json", NULL, "the tree itself, with those of its phases", CLI_FLAG, &options.json},
        {"--ascii", NULL, "bars and lines in plain characters, whatever the terminal has", CLI_FLAG,
         &options.ascii},
        {"--no-course", NULL, "without the lines of timeline.csv beside the result", CLI_FLAG,
         &options.no_course},
    };
    const size_t option_count = sizeof table / sizeof table[0];

    if (cli_parse(command, argc, argv, table, option_count, 1, 2, &positional, &exit_code))
        exit_code = explain_results(&positional, &options);
    cli_parsed_free(table, option_count, &positional);
    return exit_code;
}
