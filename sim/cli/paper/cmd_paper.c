/* cmd_paper.c -- kvtide paper: the reference paper's statements, ours beside them. */
#include <stdlib.h>
#include <string.h>

#include "../jobs.h"
#include "kvt/file.h"
#include "kvt/json.h"
#include "paper.h"

struct question {
    struct cli_texts only;
    const char *cache, *out;
    uint64_t threads;
    bool quiet, json;
};

/* What is written, opened before the first run. */
struct outputs {
    struct kvt_outfile *tree, *page; /* NULL: nothing is written */
};

/* ---- What is asked ---------------------------------------------------------------------- */

/* The id itself, or the beginning of some up to a point: "T2", "T2.C128". */
static bool is_asked(const char *id, const char *only)
{
    size_t length = strlen(only);
    return strncmp(id, only, length) == 0 && (id[length] == '\0' || id[length] == '.');
}

static kvt_status check_only(const struct paper *paper, const struct cli_texts *only,
                             struct kvt_error *err)
{
    for (size_t i = 0; i < only->count; i++) {
        size_t t = 0;
        while (t < paper->target_count && !is_asked(paper->targets[t].id, only->items[i]))
            t++;
        if (t == paper->target_count)
            return kvt_fail(err, KVT_ERR_NOT_FOUND, "paper --only",
                            "there is no target \"%.80s\"; it takes an id as T2.C128.hisparse.tpot "
                            "or what some begin with: T1 T2 T2.C128 AB F4 F6 F7 F8 F9 F10 T3 S",
                            only->items[i]);
    }
    return KVT_OK;
}

static bool is_line(const struct paper_target *target, const struct cli_texts *only)
{
    bool asked = only->count == 0;

    for (size_t i = 0; i < only->count; i++)
        asked = asked || is_asked(target->id, only->items[i]);
    return asked;
}

/* The lines of the answer, without values; their points, or all of them, are wanted. */
static kvt_status prepare_lines(struct paper *paper, const struct cli_texts *only,
                                struct kvt_arena *arena, struct paper_line **lines, size_t *count,
                                struct kvt_error *err)
{
    *count = 0;
    *lines = kvt_arena_array(arena, paper->target_count + 1, sizeof **lines,
                             _Alignof(struct paper_line));
    if (*lines == NULL)
        return kvt_fail_nomem(err, "the paper's targets");
    for (size_t t = 0; t < paper->target_count; t++) {
        if (!is_line(&paper->targets[t], only))
            continue;
        struct paper_line *line = &(*lines)[(*count)++];
        line->target = &paper->targets[t];
        kvt_status status =
            paper_points_of(paper, line->target, arena, &line->points, &line->point_count, err);
        if (status != KVT_OK)
            return status;
        for (size_t p = 0; p < line->point_count; p++)
            paper->points[line->points[p]].is_wanted = true;
    }
    for (size_t p = 0; p < paper->point_count; p++)
        paper->points[p].is_wanted = paper->points[p].is_wanted || only->count == 0;
    return KVT_OK;
}

/* ---- What comes out --------------------------------------------------------------------- */

static kvt_status open_outputs(const char *dir, struct kvt_arena *arena, struct outputs *out,
                               struct kvt_error *err)
{
    if (dir == NULL)
        return KVT_OK;
    const char *tree = kvt_arena_printf(arena, "%s/paper.json", dir);
    const char *page = kvt_arena_printf(arena, "%s/paper.html", dir);
    kvt_status status =
        tree != NULL && page != NULL ? kvt_mkdirs(dir, err) : kvt_fail_nomem(err, "a file's name");
    if (status == KVT_OK)
        status = kvt_outfile_open(tree, &out->tree, err);
    return status == KVT_OK ? kvt_outfile_open(page, &out->page, err) : status;
}

static kvt_status commit(struct kvt_outfile **file, struct kvt_error *err)
{
    struct kvt_outfile *done = *file;

    *file = NULL;
    return kvt_outfile_commit(done, err);
}

static kvt_status tell(const struct question *question, const struct paper_answer *answer,
                       struct outputs *outputs, struct kvt_arena *arena, struct kvt_error *err)
{
    cJSON *tree = NULL;
    char *text = NULL;
    kvt_status status = paper_tree(answer, &tree, err);

    if (status == KVT_OK && (text = kvt_json_print(tree)) == NULL)
        status = kvt_fail_nomem(err, "paper.json");
    if (status == KVT_OK && outputs->tree != NULL) {
        fprintf(kvt_outfile_stream(outputs->tree), "%s\n", text);
        status = paper_write_page(answer, arena, kvt_outfile_stream(outputs->page), err);
        if (status == KVT_OK)
            status = commit(&outputs->page, err);
        if (status == KVT_OK)
            status = commit(&outputs->tree, err);
    }
    if (status == KVT_OK && question->json)
        puts(text);
    else if (status == KVT_OK)
        paper_print(answer);
    if (status == KVT_OK && outputs->tree == NULL && question->out != NULL && !question->quiet)
        fprintf(stderr, "written: %s/{paper.json,paper.html}\n", question->out);
    free(text);
    cJSON_Delete(tree);
    return status;
}

static kvt_status answer(const struct question *question, struct kvt_arena *arena,
                         struct paper *paper, struct outputs *outputs, bool *exact_fails,
                         struct kvt_error *err)
{
    struct paper_line *lines = NULL;
    size_t count = 0;
    kvt_status status = paper_load(cli_data_dir(), arena, paper, err);

    if (status == KVT_OK)
        status = check_only(paper, &question->only, err);
    if (status == KVT_OK)
        status = cli_cache_dir(question->cache, arena, &paper->cache_dir, err);
    if (status == KVT_OK)
        status = prepare_lines(paper, &question->only, arena, &lines, &count, err);
    if (status == KVT_OK)
        status = open_outputs(question->out, arena, outputs, err);
    if (status == KVT_OK)
        status = paper_run_points(paper, arena, err);
    for (size_t i = 0; i < count && status == KVT_OK; i++) {
        struct paper_line *line = &lines[i];
        status = paper_value_of(paper, line->target, arena, &line->value, err);
        if (status != KVT_OK)
            break;
        paper_judge_value(line->target, &line->value, &line->verdict);
        bool is_exact =
            line->target->class_of == PAPER_EXACT || line->target->class_of == PAPER_EXACT_IF;
        *exact_fails = *exact_fails || (is_exact && !paper_is_good(line->verdict.kind));
    }
    const struct paper_answer all = {.paper = paper, .lines = lines, .line_count = count};
    return status == KVT_OK ? tell(question, &all, outputs, arena, err) : status;
}

/* ---- The command ------------------------------------------------------------------------ */

static int paper_command(const struct question *question)
{
    struct kvt_error err;
    struct paper paper = {.threads = (unsigned)question->threads, .quiet = question->quiet};
    struct outputs outputs = {NULL, NULL};
    bool exact_fails = false;
    struct kvt_arena *arena = kvt_arena_new(1 << 20);
    kvt_status status = KVT_OK;

    cli_catch_signals();
    status = arena != NULL ? answer(question, arena, &paper, &outputs, &exact_fails, &err)
                           : kvt_fail_nomem(&err, "the paper");
    kvt_outfile_discard(outputs.tree);
    kvt_outfile_discard(outputs.page);
    paper_free_trees(&paper);
    kvt_arena_free(arena);
    if (status != KVT_OK)
        return cli_fail(&err);
    return exact_fails ? CLI_NO : CLI_DONE;
}

int kvt_cmd_paper(const struct cli_command *command, int argc, char **argv)
{
    struct question question = {.threads = 2};
    int exit_code = CLI_DONE;
    struct cli_texts positional;
    const struct cli_option options[] = {
        {"--only", "TARGET",
         "one of `kvtide list targets`, or those that begin so (T2.C128); repeatable", CLI_TEXTS,
         &question.only},
        {"--cache", "DIR|none", CLI_CACHE_HELP, CLI_TEXT, &question.cache},
        {"--threads", "N", "runs at once (2); never changes a result", CLI_COUNT,
         &question.threads},
        {"--out", "DIR", "writes paper.json and paper.html there", CLI_TEXT, &question.out},
        {"--json", NULL, "prints paper.json instead of the table", CLI_FLAG, &question.json},
        {"--quiet", NULL, "no progress", CLI_FLAG, &question.quiet},
    };
    const size_t option_count = sizeof options / sizeof options[0];

    if (cli_parse(command, argc, argv, options, option_count, 0, 0, &positional, &exit_code)) {
        exit_code = cli_check_threads("paper", question.threads, CLI_THREADS_MAX);
        if (exit_code == CLI_DONE)
            exit_code = paper_command(&question);
    }
    cli_parsed_free(options, option_count, &positional);
    return exit_code;
}
