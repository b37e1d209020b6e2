/* engine_read.c -- flags, log lines and checkpoints of an engine file. */
#include "engine_read.h"

#include <stdio.h>
#include <string.h>

#include "kvt/json.h"

/* ---- Pieces ------------------------------------------------------------------------------ */

/* A list of texts, each of which is one. */
static kvt_status read_texts(const cJSON *array, const char *where, struct kvt_arena *arena,
                             const char *const **out, uint32_t *count, struct kvt_error *err)
{
    int length = cJSON_GetArraySize(array);
    const char **texts =
        kvt_arena_array(arena, (size_t)length + 1, sizeof *texts, _Alignof(const char *));
    const cJSON *item = NULL;
    uint32_t used = 0;

    if (length > ENGINE_LIST_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where, "%d texts; at most %d", length,
                        ENGINE_LIST_MAX);
    if (texts == NULL)
        return kvt_fail_nomem(err, where);
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsString(item) || item->valuestring[0] == '\0')
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "element %u is no text; a list of texts is expected", used);
        texts[used] = kvt_arena_strdup(arena, item->valuestring);
        if (texts[used++] == NULL)
            return kvt_fail_nomem(err, where);
    }
    *out = texts;
    *count = used;
    return KVT_OK;
}

/* Elements of a list that must be there; *out has room for them all. */
static kvt_status open_list(const cJSON *tree, const char *where, const char *key,
                            struct kvt_arena *arena, size_t element_bytes, const cJSON **array,
                            void **out, struct kvt_error *err)
{
    kvt_status status = kvt_json_get_array(tree, where, key, true, array, err);

    if (status != KVT_OK)
        return status;
    int length = cJSON_GetArraySize(*array);
    if (length > ENGINE_LIST_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where, "%s has %d elements; at most %d", key, length,
                        ENGINE_LIST_MAX);
    *out = kvt_arena_array(arena, (size_t)length + 1, element_bytes, _Alignof(max_align_t));
    return *out != NULL ? KVT_OK : kvt_fail_nomem(err, where);
}

static kvt_status read_fact(const cJSON *object, const char *where, const char *key, int *fact,
                            struct kvt_error *err)
{
    const char *name = NULL;
    kvt_status status = kvt_json_get_text(object, where, key, false, &name, err);

    if (status != KVT_OK || name == NULL)
        return status;
    *fact = kvt_engine_fact_find(name);
    if (*fact < 0)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "%s \"%.40s\" is no fact; docs/engines.md lists them", key, name);
    return KVT_OK;
}

/* A text that may be missing, as the arena's own. */
static kvt_status copy_optional(const cJSON *object, const char *where, const char *key,
                                struct kvt_arena *arena, const char **out, struct kvt_error *err)
{
    if (kvt_json_find(object, key) == NULL)
        return KVT_OK;
    return kvt_json_copy_text(object, where, key, arena, out, err);
}

/* ---- Flags ------------------------------------------------------------------------------- */

static kvt_status read_words(const cJSON *object, const char *where, const char *key, bool required,
                             struct kvt_arena *arena, const struct kvt_engine_word **out,
                             uint32_t *count, struct kvt_error *err)
{
    const cJSON *words = NULL, *word = NULL;
    kvt_status status = kvt_json_get_object(object, where, key, required, &words, err);

    if (status != KVT_OK || words == NULL)
        return status;
    struct kvt_engine_word *list = kvt_arena_array(arena, (size_t)cJSON_GetArraySize(words) + 1,
                                                   sizeof *list, _Alignof(struct kvt_engine_word));
    if (list == NULL)
        return kvt_fail_nomem(err, where);
    cJSON_ArrayForEach(word, words)
    {
        if (!cJSON_IsString(word))
            return kvt_fail(err, KVT_ERR_INVALID, where, "%s: \"%.40s\" stands for no text", key,
                            word->string);
        struct kvt_engine_word *at = &list[(*count)++];
        at->theirs = kvt_arena_strdup(arena, word->string);
        at->ours = kvt_arena_strdup(arena, word->valuestring);
        if (at->theirs == NULL || at->ours == NULL)
            return kvt_fail_nomem(err, where);
    }
    *out = list;
    return KVT_OK;
}

static kvt_status read_aliases(const cJSON *object, const char *where, struct kvt_arena *arena,
                               struct kvt_engine_flag *flag, struct kvt_error *err)
{
    const cJSON *aliases = NULL;
    kvt_status status = kvt_json_get_array(object, where, "aliases", false, &aliases, err);

    if (status != KVT_OK || aliases == NULL)
        return status;
    return read_texts(aliases, where, arena, &flag->aliases, &flag->alias_count, err);
}

static kvt_status check_flag(const struct kvt_engine_flag *flag, const char *where,
                             struct kvt_error *err)
{
    size_t count = 0;
    const struct kvt_engine_fact_doc *docs = kvt_engine_facts(&count);
    bool has_fact = flag->fact >= 0;

    if (has_fact == (flag->constant != NULL))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "a flag has either a fact that it sets or a constant that is written");
    if (flag->is_switch && (flag->is != NULL || flag->member != NULL))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "\"sets\" is of a flag without a value; it has no \"is\" and no member");
    if (has_fact && (flag->is_switch || flag->is != NULL) && docs[flag->fact].kind != KVT_FACT_BOOL)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "\"%s\" is neither true nor false, as \"sets\" and \"is\" would make it",
                        docs[flag->fact].name);
    if (flag->per < 0)
        return kvt_fail(err, KVT_ERR_INVALID, where, "per is %g; above 0 is expected", flag->per);
    return KVT_OK;
}

static kvt_status read_flag(const cJSON *object, const char *where, struct kvt_arena *arena,
                            struct kvt_engine_flag *out, struct kvt_error *err)
{
    static const char *const keys[] = {"flag",     "aliases", "member", "fact",  "sets", "is",
                                       "constant", "per",     "plus",   "words", "when", "export"};
    struct kvt_engine_flag flag = {.fact = -1, .export_when = -1};
    bool exports = true;
    kvt_status status = kvt_json_check_keys(object, where, keys, sizeof keys / sizeof keys[0], err);

    if (status == KVT_OK)
        status = kvt_json_copy_text(object, where, "flag", arena, &flag.flag, err);
    if (status == KVT_OK)
        status = copy_optional(object, where, "member", arena, &flag.member, err);
    if (status == KVT_OK)
        status = copy_optional(object, where, "is", arena, &flag.is, err);
    if (status == KVT_OK)
        status = copy_optional(object, where, "constant", arena, &flag.constant, err);
    if (status == KVT_OK)
        status = read_fact(object, where, "fact", &flag.fact, err);
    if (status == KVT_OK)
        status = read_fact(object, where, "when", &flag.export_when, err);
    if (status == KVT_OK)
        status = kvt_json_get_bool(object, where, "sets", false, &flag.sets, err);
    if (status == KVT_OK)
        status = kvt_json_get_bool(object, where, "export", false, &exports, err);
    if (status == KVT_OK)
        status = kvt_json_get_f64(object, where, "per", false, 1e-12, 1e12, &flag.per, err);
    if (status == KVT_OK)
        status = kvt_json_get_f64(object, where, "plus", false, -1e9, 1e9, &flag.plus, err);
    if (status == KVT_OK)
        status =
            read_words(object, where, "words", false, arena, &flag.words, &flag.word_count, err);
    if (status == KVT_OK)
        status = read_aliases(object, where, arena, &flag, err);
    flag.is_switch = kvt_json_find(object, "sets") != NULL;
    flag.no_export = !exports;
    if (status == KVT_OK)
        status = check_flag(&flag, where, err);
    *out = flag;
    return status;
}

kvt_status engine_read_flags(const cJSON *tree, const char *where, struct kvt_arena *arena,
                             struct kvt_engine *engine, struct kvt_error *err)
{
    const cJSON *array = NULL, *item = NULL;
    void *room = NULL;
    kvt_status status =
        open_list(tree, where, "flags", arena, sizeof(struct kvt_engine_flag), &array, &room, err);
    struct kvt_engine_flag *flags = room;

    cJSON_ArrayForEach(item, array)
    {
        char place[ENGINE_PLACE_BYTES];

        if (status != KVT_OK)
            break;
        (void)snprintf(place, sizeof place, "%s/flags/%u", where, engine->flag_count);
        status = read_flag(item, place, arena, &flags[engine->flag_count], err);
        engine->flag_count++;
    }
    engine->flags = flags;
    return status;
}

kvt_status engine_read_passive(const cJSON *tree, const char *where, struct kvt_arena *arena,
                               struct kvt_engine *engine, struct kvt_error *err)
{
    static const char *const keys[] = {"switches", "values", "files"};
    char place[ENGINE_PLACE_BYTES];
    const cJSON *passive = NULL, *switches = NULL, *values = NULL, *files = NULL;
    kvt_status status = kvt_json_get_object(tree, where, "passive", true, &passive, err);

    (void)snprintf(place, sizeof place, "%s/passive", where);
    if (status == KVT_OK)
        status = kvt_json_check_keys(passive, place, keys, 3, err);
    if (status == KVT_OK)
        status = kvt_json_get_array(passive, place, "switches", true, &switches, err);
    if (status == KVT_OK)
        status = kvt_json_get_array(passive, place, "values", true, &values, err);
    if (status == KVT_OK)
        status = kvt_json_get_array(passive, place, "files", false, &files, err);
    if (status == KVT_OK)
        status = read_texts(switches, place, arena, &engine->passive_switches,
                            &engine->passive_switch_count, err);
    if (status == KVT_OK)
        status = read_texts(values, place, arena, &engine->passive_values,
                            &engine->passive_value_count, err);
    if (status == KVT_OK && files != NULL)
        status = read_texts(files, place, arena, &engine->passive_files,
                            &engine->passive_file_count, err);
    return status;
}

/* ---- Lines of a log ---------------------------------------------------------------------- */

/* Every {name} is a fact, and literal text stands before the first and between two of them: without
 * it nobody could tell where one ends. */
static kvt_status check_line(const char *text, const char *where, struct kvt_error *err)
{
    const char *at = text;

    if (text[0] == '{' || text[0] == '\0')
        return kvt_fail(err, KVT_ERR_INVALID, where, "a line begins with text of its own");
    while ((at = strchr(at, '{')) != NULL) {
        const char *end = strchr(at, '}');
        char name[64] = "";

        if (end != NULL)
            (void)snprintf(name, sizeof name, "%.*s", (int)(end - at - 1), at + 1);
        if (end == NULL || kvt_engine_fact_find(name) < 0)
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "\"%.40s\" is no fact in braces; docs/engines.md lists them", at);
        if (end[1] == '{')
            return kvt_fail(err, KVT_ERR_INVALID, where, "no text between two facts");
        at = end + 1;
    }
    return KVT_OK;
}

kvt_status engine_read_log(const cJSON *tree, const char *where, struct kvt_arena *arena,
                           struct kvt_engine *engine, struct kvt_error *err)
{
    static const char *const keys[] = {"line", "source"};
    const cJSON *array = NULL, *item = NULL;
    void *room = NULL;
    kvt_status status = open_list(tree, where, "log", arena, sizeof(struct kvt_engine_log_line),
                                  &array, &room, err);
    struct kvt_engine_log_line *lines = room;

    cJSON_ArrayForEach(item, array)
    {
        char place[ENGINE_PLACE_BYTES];
        struct kvt_engine_log_line *line = NULL;

        if (status != KVT_OK)
            break;
        line = &lines[engine->log_line_count];
        (void)snprintf(place, sizeof place, "%s/log/%u", where, engine->log_line_count++);
        status = kvt_json_check_keys(item, place, keys, 2, err);
        if (status == KVT_OK)
            status = kvt_json_copy_text(item, place, "line", arena, &line->text, err);
        if (status == KVT_OK)
            status = kvt_json_copy_text(item, place, "source", arena, &line->source, err);
        if (status == KVT_OK)
            status = check_line(line->text, place, err);
    }
    engine->log_lines = lines;
    return status;
}

kvt_status engine_read_auto_rows(const cJSON *tree, const char *where, struct kvt_arena *arena,
                                 struct kvt_engine *engine, struct kvt_error *err)
{
    static const char *const formats[] = {"file", "bf16", "fp8_ds_mla"};
    kvt_status status = read_words(tree, where, "auto_rows", true, arena, &engine->auto_rows,
                                   &engine->auto_row_count, err);
    bool has_other = false;

    for (uint32_t i = 0; status == KVT_OK && i < engine->auto_row_count; i++) {
        const struct kvt_engine_word *word = &engine->auto_rows[i];

        has_other = has_other || strcmp(word->theirs, "other") == 0;
        if (strcmp(word->ours, formats[0]) != 0 && strcmp(word->ours, formats[1]) != 0 &&
            strcmp(word->ours, formats[2]) != 0)
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "auto_rows: \"%.40s\" is no format; file, bf16 or fp8_ds_mla is "
                            "expected",
                            word->ours);
    }
    if (status == KVT_OK && !has_other)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "auto_rows: \"other\" is missing, for GPUs that are not named");
    return status;
}

kvt_status engine_read_checkpoints(const cJSON *tree, const char *where, struct kvt_arena *arena,
                                   struct kvt_engine *engine, struct kvt_error *err)
{
    char place[ENGINE_PLACE_BYTES];
    const cJSON *object = NULL, *item = NULL;
    kvt_status status = kvt_json_get_object(tree, where, "checkpoints", true, &object, err);

    if (status != KVT_OK)
        return status;
    (void)snprintf(place, sizeof place, "%s/checkpoints", where);
    struct kvt_engine_checkpoint *list =
        kvt_arena_array(arena, (size_t)cJSON_GetArraySize(object) + 1, sizeof *list,
                        _Alignof(struct kvt_engine_checkpoint));
    if (list == NULL)
        return kvt_fail_nomem(err, place);
    cJSON_ArrayForEach(item, object)
    {
        struct kvt_engine_checkpoint *at = &list[engine->checkpoint_count++];

        if (!cJSON_IsString(item) && !cJSON_IsNull(item))
            return kvt_fail(err, KVT_ERR_INVALID, place,
                            "\"%.40s\" is neither the name of a model nor null", item->string);
        at->theirs = kvt_arena_strdup(arena, item->string);
        at->model = cJSON_IsNull(item) ? NULL : kvt_arena_strdup(arena, item->valuestring);
        if (at->theirs == NULL || (at->model == NULL && !cJSON_IsNull(item)))
            return kvt_fail_nomem(err, place);
    }
    engine->checkpoints = list;
    return KVT_OK;
}
