/* flags.c -- an engine's flags, or the arguments that its log prints, to facts. */
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli.h"
#include "engine.h"
#include "kvt/file.h"
#include "kvt/json.h"

enum {
    MEMBER_BYTES = 256,
    CONFIG_BYTES_MAX = 1 << 20
};

/* Of facts that have no bound of their own, which are GiB and ratios. */
static const double NUMBER_MOST = 1e9;

bool engine_note(struct engine_notes *notes, struct kvt_arena *arena, const char *text)
{
    if (text == NULL)
        return false;
    if (notes->count == notes->room) {
        size_t room = notes->room > 0 ? notes->room * 2 : 16;
        const char **items = kvt_arena_array(arena, room, sizeof *items, _Alignof(const char *));

        if (items == NULL)
            return false;
        if (notes->count > 0)
            memcpy(items, notes->items, notes->count * sizeof *items);
        notes->items = items;
        notes->room = room;
    }
    notes->items[notes->count++] = text;
    return true;
}

/* What one reading of flags shares. */
struct reading {
    const struct kvt_engine *engine;
    struct kvt_arena *arena;
    struct engine_flags *out;
    const char *flag; /* that is being read */
    bool is_of_log;   /* files that it names are on another machine */
};

/* ---- Names ------------------------------------------------------------------------------- */

/* '_' is '-', as the engines' parsers have it; leading ones do not count, so that the names of a
 * log are found, too. */
static bool is_same(const char *a, size_t a_length, const char *b)
{
    while (a_length > 0 && *a == '-') {
        a++;
        a_length--;
    }
    while (*b == '-')
        b++;
    for (; a_length > 0 && *b != '\0'; a++, b++, a_length--) {
        bool is_dash = *a == '_' || *a == '-';
        if (is_dash ? *b != '_' && *b != '-' : *a != *b)
            return false;
    }
    return a_length == 0 && *b == '\0';
}

static bool is_flag(const struct kvt_engine_flag *flag, const char *name, size_t length)
{
    if (is_same(name, length, flag->flag))
        return true;
    for (uint32_t i = 0; i < flag->alias_count; i++) {
        if (is_same(name, length, flag->aliases[i]))
            return true;
    }
    return false;
}

static const struct kvt_engine_flag *find_flag(const struct kvt_engine *engine, const char *name,
                                               size_t length)
{
    for (uint32_t i = 0; i < engine->flag_count; i++) {
        if (is_flag(&engine->flags[i], name, length))
            return &engine->flags[i];
    }
    return NULL;
}

static bool is_passive(const char *const *names, uint32_t count, const char *name, size_t length)
{
    for (uint32_t i = 0; i < count; i++) {
        if (is_same(name, length, names[i]))
            return true;
    }
    return false;
}

/* ---- Values ------------------------------------------------------------------------------ */

static kvt_status refuse(const struct reading *reading, const struct kvt_engine_flag *flag,
                         const char *found, const char *expected, struct kvt_error *err)
{
    return kvt_fail(err, KVT_ERR_INVALID, reading->flag, "%s%sfound \"%.60s\", expected %s",
                    flag->member != NULL ? flag->member : "", flag->member != NULL ? ": " : "",
                    found, expected);
}

/* "4096", "0.92", ".92", "32k" (1000s) and "32K" (1024s), as vLLM's parser reads counts. */
static bool read_number(const char *text, double *out)
{
    static const char units[] = "kmgKMG";
    static const double scales[] = {1e3, 1e6, 1e9, 1024, 1024.0 * 1024, 1024.0 * 1024 * 1024};
    char digits[64];
    double scale = 1;
    size_t length = strlen(text);
    const char *unit = length > 0 ? strchr(units, text[length - 1]) : NULL;

    if (length == 0 || length + 1 >= sizeof digits)
        return false;
    if (unit != NULL && *unit != '\0') {
        scale = scales[unit - units];
        length--;
    }
    (void)snprintf(digits, sizeof digits, "%s%.*s", text[0] == '.' ? "0" : "", (int)length, text);
    if (kvt_text_real(digits, "", -DBL_MAX, DBL_MAX, out, NULL) != KVT_OK)
        return false;
    *out *= scale;
    return true;
}

/* In the user's unit: a fact's bounds are of what the flag says, put into the fact's. A number that
 * is none is out of any range; NaN as it comes. */
static kvt_status check_range(const struct reading *reading, const struct kvt_engine_flag *flag,
                              const char *value, double number, struct kvt_error *err)
{
    const struct kvt_engine_range range = kvt_engine_fact_range(flag->fact);
    double per = flag->per > 0 ? flag->per : 1;
    double least = fmax((range.least - flag->plus) * per, 0),
           most = isfinite(range.most) ? (range.most - flag->plus) * per : NUMBER_MOST * per;
    bool is_whole = range.is_whole && per == 1;
    char expected[96];

    if (number >= least && number <= most && (!is_whole || number == floor(number)))
        return KVT_OK;
    int length =
        snprintf(expected, sizeof expected, "a %snumber from %g ", is_whole ? "whole " : "", least);
    bool is_told = most < 1e9 || number > most; /* where nobody comes near it, it is noise */
    (void)snprintf(expected + length, sizeof expected - (size_t)length, is_told ? "to %.16g" : "on",
                   most);
    return refuse(reading, flag, value, expected, err);
}

/* A word that no word of the engine file is may be one of the engine's all the same: it is told. */
static kvt_status find_word(struct reading *reading, const struct kvt_engine_flag *flag,
                            const char *theirs, const char **ours, struct kvt_error *err)
{
    const char *known = "";

    for (uint32_t i = 0; i < flag->word_count; i++) {
        *ours = flag->words[i].ours;
        if (strcmp(flag->words[i].theirs, theirs) == 0)
            return KVT_OK;
        known = known != NULL ? kvt_arena_printf(reading->arena, "%s%s%s", known, i > 0 ? ", " : "",
                                                 flag->words[i].theirs)
                              : NULL;
    }
    *ours = theirs;
    if (flag->word_count == 0)
        return KVT_OK;
    const char *note =
        known == NULL ? NULL
                      : kvt_arena_printf(reading->arena, "%s%s%s %.40s: known here are %s",
                                         reading->flag, flag->member != NULL ? ": " : "",
                                         flag->member != NULL ? flag->member : "", theirs, known);
    return engine_note(&reading->out->ignored, reading->arena, note)
               ? KVT_OK
               : kvt_fail_nomem(err, reading->flag);
}

/* A value as text: of a flag, or of a member that is no text. */
static kvt_status set_value(struct reading *reading, const struct kvt_engine_flag *flag,
                            const char *value, struct kvt_error *err)
{
    size_t count = 0;
    const struct kvt_engine_fact_doc *docs = kvt_engine_facts(&count);
    double number = 0;

    if (flag->fact < 0)
        return KVT_OK;
    const char *name = docs[flag->fact].name;
    if (docs[flag->fact].kind == KVT_FACT_TEXT) {
        const char *word = NULL;
        kvt_status status = find_word(reading, flag, value, &word, err);
        const char *text = status == KVT_OK ? kvt_arena_strdup(reading->arena, word) : NULL;
        if (status == KVT_OK && text == NULL)
            status = kvt_fail_nomem(err, reading->flag);
        if (status == KVT_OK)
            kvt_engine_set_text(&reading->out->facts, name, text);
        return status;
    }
    if (docs[flag->fact].kind == KVT_FACT_BOOL) {
        if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
            return refuse(reading, flag, value, "true or false", err);
        kvt_engine_set_number(&reading->out->facts, name, strcmp(value, "true") == 0);
        return KVT_OK;
    }
    if (!read_number(value, &number))
        number = NAN;
    kvt_status status = check_range(reading, flag, value, number, err);
    if (status != KVT_OK)
        return status;
    kvt_engine_set_number(&reading->out->facts, name,
                          number / (flag->per > 0 ? flag->per : 1) + flag->plus);
    return KVT_OK;
}

/* ---- Members of JSON values -------------------------------------------------------------- */

static kvt_status set_member(struct reading *reading, const char *member, const char *value,
                             struct kvt_error *err)
{
    bool is_known = false;
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; status == KVT_OK && i < reading->engine->flag_count; i++) {
        const struct kvt_engine_flag *flag = &reading->engine->flags[i];

        if (flag->member == NULL || strcmp(flag->member, member) != 0 ||
            !is_flag(flag, reading->flag, strlen(reading->flag)))
            continue;
        if (flag->is == NULL) {
            is_known = true;
            status = set_value(reading, flag, value, err);
        } else if (strcmp(flag->is, value) == 0) {
            size_t count = 0;
            is_known = true;
            kvt_engine_set_number(&reading->out->facts, kvt_engine_facts(&count)[flag->fact].name,
                                  1);
        }
    }
    if (status == KVT_OK && !is_known &&
        !engine_note(
            &reading->out->ignored, reading->arena,
            kvt_arena_printf(reading->arena, "%s: %s = %.80s", reading->flag, member, value)))
        return kvt_fail_nomem(err, reading->flag);
    return status;
}

/* Every leaf by its path, "a.b[].c"; an empty object says nothing. As deep as its path is long. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static kvt_status walk(struct reading *reading, const cJSON *node, const char *path,
                       struct kvt_error *err)
{
    char inner[MEMBER_BYTES], number[32];
    const cJSON *item = NULL;
    kvt_status status = KVT_OK;

    if (cJSON_IsObject(node) || cJSON_IsArray(node)) {
        cJSON_ArrayForEach(item, node)
        {
            int length = cJSON_IsArray(node) ? snprintf(inner, sizeof inner, "%s[]", path)
                                             : snprintf(inner, sizeof inner, "%s%s%s", path,
                                                        path[0] != '\0' ? "." : "", item->string);
            if (length < 0 || (size_t)length >= sizeof inner)
                return kvt_fail(err, KVT_ERR_INVALID, reading->flag, "names too long: \"%.60s..\"",
                                path);
            status = walk(reading, item, inner, err);
            if (status != KVT_OK)
                return status;
        }
        return KVT_OK;
    }
    if (cJSON_IsNull(node))
        return KVT_OK;
    if (cJSON_IsBool(node))
        return set_member(reading, path, cJSON_IsTrue(node) ? "true" : "false", err);
    if (cJSON_IsNumber(node)) {
        kvt_json_print_number(node->valuedouble, number);
        return set_member(reading, path, number, err);
    }
    return set_member(reading, path, node->valuestring, err);
}

/* A file that is there, and is not read here. */
static kvt_status note_file(struct reading *reading, const char *value, const char *instead,
                            struct kvt_error *err)
{
    const char *text = kvt_arena_printf(reading->arena, "%s %.120s (not read: its %s)",
                                        reading->flag, value, instead);

    return engine_note(&reading->out->ignored, reading->arena, text)
               ? KVT_OK
               : kvt_fail_nomem(err, reading->flag);
}

static const char as_json[] = "keys can be given as JSON", as_flags[] = "flags can be given";

/* What an engine could not read either is no file of its. */
static kvt_status read_file(const struct reading *reading, const char *path, char **text,
                            size_t *text_bytes, struct kvt_error *err)
{
    struct kvt_error why;
    kvt_status status = kvt_file_read(path, CONFIG_BYTES_MAX, text, text_bytes, &why);

    return status == KVT_OK
               ? KVT_OK
               : kvt_fail(err, status, reading->flag, "%s: %s", why.where, why.message);
}

/* Of a file that an engine reads its flags from. */
static kvt_status look_at_file(struct reading *reading, const char *path, struct kvt_error *err)
{
    char *text = NULL;
    size_t text_bytes = 0;
    kvt_status status = path != NULL ? read_file(reading, path, &text, &text_bytes, err)
                                     : kvt_fail(err, KVT_ERR_INVALID, reading->flag,
                                                "a value is expected behind it");

    free(text);
    return status == KVT_OK ? note_file(reading, path, as_flags, err) : status;
}

/* JSON, or the path of a file; a file of JSON is read, and one of YAML is named. */
static kvt_status read_json(struct reading *reading, const char *value, struct kvt_error *err)
{
    cJSON *tree = NULL;
    char *text = NULL;
    size_t text_bytes = strlen(value);
    const char *begin = value + strspn(value, " \t\r\n");
    kvt_status status = KVT_OK;

    if (*begin != '{' && *begin != '[') {
        bool is_path = strpbrk(value, "/.") != NULL;
        if (is_path && reading->is_of_log)
            return note_file(reading, value, as_json, err);
        status = read_file(reading, value, &text, &text_bytes, err);
        if (status != KVT_OK)
            return is_path ? status
                           : kvt_fail(err, KVT_ERR_INVALID, reading->flag,
                                      "found \"%.60s\", expected JSON, or a file", value);
        if (kvt_json_parse(text, text_bytes, value, 1, &tree, NULL) != KVT_OK) {
            free(text);
            return note_file(reading, value, as_json, err);
        }
    } else {
        status = kvt_json_parse(value, text_bytes, reading->flag, 1, &tree, err);
    }
    if (status == KVT_OK)
        status = walk(reading, tree, "", err);
    cJSON_Delete(tree);
    free(text);
    return status;
}

/* ---- One flag ----------------------------------------------------------------------------- */

/* A value that another line of the file about the flag has a fact for, as "auto" for a number. */
static bool set_by_word(struct reading *reading, const char *value)
{
    size_t count = 0;
    const struct kvt_engine *engine = reading->engine;

    for (uint32_t i = 0; i < engine->flag_count; i++) {
        const struct kvt_engine_flag *flag = &engine->flags[i];

        if (flag->member != NULL || flag->is == NULL || strcmp(flag->is, value) != 0 ||
            !is_flag(flag, reading->flag, strlen(reading->flag)))
            continue;
        kvt_engine_set_number(&reading->out->facts, kvt_engine_facts(&count)[flag->fact].name, 1);
        return true;
    }
    return false;
}

/* A flag and its value, where it has one. */
static kvt_status read_flag(struct reading *reading, const struct kvt_engine_flag *flag,
                            const char *value, struct kvt_error *err)
{
    size_t count = 0;

    if (flag->is_switch) {
        kvt_engine_set_number(&reading->out->facts, kvt_engine_facts(&count)[flag->fact].name,
                              flag->sets);
        return KVT_OK;
    }
    if (value == NULL)
        return kvt_fail(err, KVT_ERR_INVALID, reading->flag, "a value is expected behind it");
    if (flag->member != NULL)
        return read_json(reading, value, err);
    return set_by_word(reading, value) ? KVT_OK : set_value(reading, flag, value, err);
}

/* "--kv-transfer-config.kv_connector": a member by its path. */
static const struct kvt_engine_flag *find_dotted(const struct kvt_engine *engine, const char *name,
                                                 size_t length, const char **member)
{
    const char *dot = memchr(name, '.', length);
    const struct kvt_engine_flag *flag =
        dot != NULL ? find_flag(engine, name, (size_t)(dot - name)) : NULL;

    *member = dot != NULL ? dot + 1 : NULL;
    return flag != NULL && flag->member != NULL ? flag : NULL;
}

static bool is_launcher(const char *word)
{
    static const char *const names[] = {"env",    "exec",          "vllm",
                                        "serve",  "trtllm-serve",  "python3",
                                        "python", "launch_server", "sglang"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(word, names[i]) == 0)
            return true;
    }
    return false;
}

static bool note_ignored(struct reading *reading, const char *name, const char *value)
{
    return engine_note(&reading->out->ignored, reading->arena,
                       value != NULL ? kvt_arena_printf(reading->arena, "%.80s %.80s", name, value)
                                     : kvt_arena_strdup(reading->arena, name));
}

/* "NAME=VALUE", which a shell takes before a command. */
static bool is_setting(const char *word)
{
    size_t length = strcspn(word, "=");

    return word[length] == '=' && length > 0 && !isdigit((unsigned char)word[0]) &&
           strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
               length;
}

/* A word that is no flag: the command, what stands before it, or the model behind it. */
static kvt_status read_bare(struct reading *reading, const char *word, struct kvt_error *err)
{
    const char *model = kvt_arena_strdup(reading->arena, word);

    if (is_launcher(word))
        return KVT_OK;
    if (model == NULL)
        return kvt_fail_nomem(err, word);
    if (is_setting(word) || kvt_engine_knows(&reading->out->facts, "model"))
        return note_ignored(reading, word, NULL) ? KVT_OK : kvt_fail_nomem(err, word);
    kvt_engine_set_text(&reading->out->facts, "model", model);
    return KVT_OK;
}

/* A word that looks like a number or JSON is a value, even behind '-'. */
static bool is_value(const char *word)
{
    return word[0] != '-' || (word[1] >= '0' && word[1] <= '9');
}

kvt_status engine_read_words(const struct kvt_engine *engine, const char *const *words,
                             size_t count, struct kvt_arena *arena, struct engine_flags *out,
                             struct kvt_error *err)
{
    struct reading reading = {.engine = engine, .arena = arena, .out = out};
    kvt_status status = KVT_OK;

    for (size_t i = 0; status == KVT_OK && i < count; i++) {
        const char *word = words[i];
        const char *equals = strchr(word, '=');
        size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
        const char *next = i + 1 < count && is_value(words[i + 1]) ? words[i + 1] : NULL;
        const char *value = equals != NULL ? equals + 1 : next;
        const char *member = NULL;

        if (word[0] != '-') {
            status = read_bare(&reading, word, err);
            continue;
        }
        reading.flag = kvt_arena_printf(arena, "%.*s", (int)length, word);
        if (reading.flag == NULL)
            return kvt_fail_nomem(err, word);
        const struct kvt_engine_flag *flag = find_flag(engine, word, length);
        const struct kvt_engine_flag *dotted = find_dotted(engine, word, length, &member);
        bool takes_value = true;
        if (flag != NULL) {
            takes_value = !flag->is_switch;
            if (!takes_value && equals != NULL)
                return kvt_fail(err, KVT_ERR_INVALID, reading.flag, "it takes no value");
            status = read_flag(&reading, flag, takes_value ? value : NULL, err);
        } else if (dotted != NULL && value != NULL) {
            reading.flag = dotted->flag;
            status = set_member(
                &reading, kvt_arena_printf(arena, "%.*s", (int)(word + length - member), member),
                value, err);
        } else if (is_passive(engine->passive_switches, engine->passive_switch_count, word,
                              length)) {
            takes_value = false;
        } else if (is_passive(engine->passive_files, engine->passive_file_count, word, length)) {
            status = look_at_file(&reading, value, err);
        } else if (!is_passive(engine->passive_values, engine->passive_value_count, word, length) &&
                   !note_ignored(&reading, reading.flag, value)) {
            status = kvt_fail_nomem(err, word);
        }
        i += takes_value && equals == NULL && next != NULL;
    }
    return status;
}

/* ---- Arguments of a log -------------------------------------------------------------------- */

static kvt_status read_argument(struct reading *reading, const cJSON *item, struct kvt_error *err)
{
    const struct kvt_engine_flag *flag =
        find_flag(reading->engine, item->string, strlen(item->string));
    char number[32];

    if (cJSON_IsNull(item) || flag == NULL)
        return KVT_OK; /* a log prints everything that can be said, defaults too */
    reading->flag = item->string;
    if (flag->is_switch && cJSON_IsBool(item)) {
        size_t count = 0;
        /* --disable-radix-cache sets a fact to false: it is printed as disable_radix_cache. */
        kvt_engine_set_number(&reading->out->facts, kvt_engine_facts(&count)[flag->fact].name,
                              cJSON_IsTrue(item) == flag->sets);
        return KVT_OK;
    }
    if (flag->member != NULL)
        return cJSON_IsString(item) ? read_json(reading, item->valuestring, err)
                                    : walk(reading, item, "", err);
    if (cJSON_IsNumber(item)) {
        if (item->valuedouble < 0)
            return KVT_OK; /* -1: off */
        kvt_json_print_number(item->valuedouble, number);
        return set_value(reading, flag, number, err);
    }
    if (cJSON_IsBool(item))
        return set_value(reading, flag, cJSON_IsTrue(item) ? "true" : "false", err);
    if (!cJSON_IsString(item) || set_by_word(reading, item->valuestring))
        return KVT_OK;
    return set_value(reading, flag, item->valuestring, err);
}

kvt_status engine_read_arguments(const struct kvt_engine *engine, const cJSON *arguments,
                                 struct kvt_arena *arena, struct engine_flags *out,
                                 struct kvt_error *err)
{
    struct reading reading = {.engine = engine, .arena = arena, .out = out, .is_of_log = true};
    const cJSON *item = NULL;
    kvt_status status = KVT_OK;

    cJSON_ArrayForEach(item, arguments)
    {
        if (status == KVT_OK && item->string != NULL)
            status = read_argument(&reading, item, err);
    }
    return status;
}
