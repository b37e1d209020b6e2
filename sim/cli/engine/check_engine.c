/* check_engine.c -- kvtide check --engine E -- FLAGS: what will happen. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../check.h"
#include "../cli.h"
#include "engine.h"
#include "kvt/file.h"
#include "kvt/json.h"

enum {
    ARENA_BYTES = 1 << 16
};

kvt_status engine_parse_lengths(const char *text, struct engine_lengths *out, struct kvt_error *err)
{
    char one[32];

    out->count = 0;
    while (text != NULL) {
        size_t length = strcspn(text, ",");

        if (out->count == ENGINE_LENGTHS_MAX || length >= sizeof one)
            return kvt_fail(err, KVT_ERR_INVALID, out->option,
                            "\"%.60s\": expected at most %d counts, with commas between", text,
                            ENGINE_LENGTHS_MAX);
        memcpy(one, text, length);
        one[length] = '\0';
        kvt_status status =
            kvt_text_count(one, out->option, UINT64_C(1) << 53, &out->of[out->count], err);
        if (status != KVT_OK)
            return status;
        out->count++;
        text = text[length] == '\0' ? NULL : text + length + 1;
    }
    return KVT_OK;
}

static kvt_status answer(const struct engine_question *question, struct kvt_arena *arena, bool *no,
                         struct kvt_error *err)
{
    const struct kvt_engine *engine = NULL;
    struct engine_flags flags = {.ignored = {NULL, 0, 0}};
    struct engine_start start = {.engine = NULL};
    struct engine_lengths lengths = {.option = "check --tokens"};
    cJSON *tree = NULL;
    kvt_status status = kvt_engine_load(question->engine, cli_data_dir(), arena, &engine, err);

    if (status == KVT_OK && engine == NULL)
        status = kvt_fail(err, KVT_ERR_INVALID, "check --engine",
                          "\"ideal\" is no engine: it has no flags");
    if (status == KVT_OK)
        status = engine_parse_lengths(question->tokens, &lengths, err);
    if (status == KVT_OK)
        status = engine_read_words(engine, question->words->items, question->words->count, arena,
                                   &flags, err);
    if (status == KVT_OK)
        status = engine_start(engine, &flags.facts, question->hardware, question->sets, &lengths,
                              arena, &start, err);
    if (status == KVT_OK)
        status = engine_start_tree(&start, &flags.ignored, arena, &tree, err);
    /* What nobody here can size may well start: only a rule can say that it does not. */
    if (status == KVT_OK && start.is_unknown &&
        cJSON_GetArraySize(kvt_json_find(tree, "refused")) == 0)
        status = kvt_fail(err, KVT_ERR_UNSUPPORTED, "check --engine",
                          "what this start would do is not known here: %s", start.faults.items[0]);
    if (status == KVT_OK) {
        *no = !engine_starts(tree);
        if (question->print)
            status = check_print_tree(start.tree, err);
        else if (question->json)
            status = check_print_tree(tree, err);
        else
            engine_print_start(tree);
    }
    cJSON_Delete(tree);
    engine_start_free(&start);
    return status;
}

static kvt_status answer_export(const struct engine_question *question, struct kvt_arena *arena,
                                bool *no, struct kvt_error *err)
{
    const struct kvt_scenario_options options = {.data_dir = cli_data_dir(),
                                                 .plugins = cli_plugins(),
                                                 .sets = question->sets->items,
                                                 .set_count = question->sets->count,
                                                 .for_size = true};
    const struct kvt_engine *engine = NULL;
    struct kvt_scenario scenario;
    struct engine_export export = {.engine = NULL};
    bool runs = false;
    kvt_status status = kvt_engine_load(question->engine, cli_data_dir(), arena, &engine, err);

    if (status == KVT_OK && engine == NULL)
        status = kvt_fail(err, KVT_ERR_INVALID, "check --engine",
                          "\"ideal\" is no engine: it has no flags");
    if (status == KVT_OK)
        status = kvt_scenario_load(question->words->items[0], &options, arena, &scenario, err);
    if (status == KVT_OK)
        status = engine_export(engine, &scenario, 0, arena, &export, err);
    if (status == KVT_OK)
        status = engine_print_export(&export, question->json, arena, &runs, err);
    *no = !runs;
    return status;
}

static int run(const struct engine_question *question,
               kvt_status (*ask)(const struct engine_question *question, struct kvt_arena *arena,
                                 bool *no, struct kvt_error *err))
{
    struct kvt_error err;
    bool no = false;
    struct kvt_arena *arena = kvt_arena_new(ARENA_BYTES);
    kvt_status status =
        arena != NULL ? ask(question, arena, &no, &err) : kvt_fail_nomem(&err, "an engine");

    kvt_arena_free(arena);
    if (status != KVT_OK)
        return cli_fail(&err);
    return no ? CLI_NO : CLI_DONE;
}

int engine_check(const struct engine_question *question)
{
    return run(question, answer);
}

int engine_check_export(const struct engine_question *question)
{
    return run(question, answer_export);
}
