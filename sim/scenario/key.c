/* key.c -- finding keys, seeing parameters as keys, and ranges in words. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "keys.h"
#include "kvt/json.h"

const struct kvt_key *kvt_key_member(const struct kvt_key *key, const char *name)
{
    for (const struct kvt_key *member = key->members; kvt_key_is_one(member); member++) {
        if (strcmp(member->name, name) == 0)
            return member;
    }
    return NULL;
}

/* ---- Parameters as keys --------------------------------------------------------------- */

static bool is_path_name(const char *name)
{
    static const char ending[] = "_path";
    size_t length = strlen(name);
    size_t ending_length = sizeof ending - 1;
    return strcmp(name, "path") == 0 ||
           (length > ending_length && strcmp(name + length - ending_length, ending) == 0);
}

/* Parameters of these names are shipped files, or paths of such. */
static const struct {
    const char *param, *folder, *noun;
} shipped[] = {
    {"drafter", "models/drafters", "drafter"},
    {"acceptance", "models/acceptance", "acceptance table"},
    {"costs", "models/costs", "cost table"},
    {"profile", "models/profiles", "profile"},
};

struct kvt_key kvt_key_of_param(const struct kvt_param_spec *spec)
{
    static const enum kvt_key_type types[] = {
        [KVT_PARAM_COUNT] = KVT_KEY_COUNT,     [KVT_PARAM_REAL] = KVT_KEY_REAL,
        [KVT_PARAM_BOOL] = KVT_KEY_BOOL,       [KVT_PARAM_CHOICE] = KVT_KEY_CHOICE,
        [KVT_PARAM_TEXT] = KVT_KEY_TEXT,       [KVT_PARAM_LIST] = KVT_KEY_NUMBERS,
        [KVT_PARAM_RECORDS] = KVT_KEY_RECORDS,
    };
    struct kvt_key key = {
        .name = spec->name,
        .help = spec->help,
        .type = types[spec->type],
        .minimum = spec->minimum,
        .maximum = spec->maximum,
        .choices = spec->choices,
        .is_path = spec->type == KVT_PARAM_TEXT && is_path_name(spec->name),
        .idle = spec->idle,
    };
    for (size_t i = 0; i < sizeof shipped / sizeof shipped[0]; i++) {
        if (spec->type != KVT_PARAM_TEXT || strcmp(spec->name, shipped[i].param) != 0)
            continue;
        key.is_name = true;
        key.folder = shipped[i].folder;
        key.noun = shipped[i].noun;
    }
    return key;
}

const struct kvt_param_spec *kvt_param_find(const struct kvt_plugin_info *info, const char *name)
{
    for (size_t i = 0; i < info->param_count; i++) {
        if (strcmp(info->params[i].name, name) == 0)
            return &info->params[i];
    }
    return NULL;
}

/* ---- Choices and ranges ------------------------------------------------------------------ */

size_t kvt_choice_count(const char *choices)
{
    size_t count = 1;
    for (; *choices != '\0'; choices++)
        count += *choices == '|' ? 1 : 0;
    return count;
}

const char *kvt_choice_at(const char *choices, size_t i, size_t *length)
{
    for (; i > 0; i--)
        choices += strcspn(choices, "|") + 1;
    *length = strcspn(choices, "|");
    return choices;
}

int kvt_choice_index(const char *choices, const char *name)
{
    size_t count = kvt_choice_count(choices);
    for (size_t i = 0; i < count; i++) {
        size_t length = 0;
        const char *choice = kvt_choice_at(choices, i, &length);
        if (strlen(name) == length && memcmp(choice, name, length) == 0)
            return (int)i;
    }
    return -1;
}

/* "\"a\"", or "\"a\" or \"b\"", behind what is there. */
static void append_words(const char *words, char *out, size_t out_bytes)
{
    size_t count = kvt_choice_count(words);
    for (size_t i = 0; i < count; i++) {
        size_t length = 0, used = strlen(out);
        const char *word = kvt_choice_at(words, i, &length);
        const char *before = i > 0 ? " or " : used > 0 ? ", or " : "";
        (void)snprintf(out + used, out_bytes - used, "%s\"%.*s\"", before, (int)length, word);
    }
}

/* "1 to 4096", or "at least 1" where nothing bounds it from above. */
static const char *number_range(const struct kvt_key *key, char *out, size_t out_bytes)
{
    char least[32];
    char most[32];
    kvt_json_print_number(key->minimum, least);
    kvt_json_print_number(key->maximum, most);
    if (!(key->maximum < DBL_MAX))
        (void)snprintf(out, out_bytes, "at least %s", least);
    else
        (void)snprintf(out, out_bytes, "%s to %s", least, most);
    return out;
}

/* "a | b | c", or "a | .." where not all of them have room. */
static const char *choice_range(const char *choices, char *out, size_t out_bytes)
{
    static const char more[] = "..";
    size_t count = kvt_choice_count(choices);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = 0;
        const char *choice = kvt_choice_at(choices, i, &length);
        bool is_last = i + 1 == count;
        if (used + length + (is_last ? 0 : 3 + sizeof more - 1) >= out_bytes) {
            (void)snprintf(out + used, out_bytes - used, "%s", more);
            return out;
        }
        memcpy(out + used, choice, length);
        memcpy(out + used + length, " | ", is_last ? 0 : 3);
        used += length + (is_last ? 0 : 3);
    }
    out[used] = '\0';
    return out;
}

const char *kvt_key_range(const struct kvt_key *key, char *out, size_t out_bytes)
{
    out[0] = '\0';
    switch (key->type) {
    case KVT_KEY_COUNT:
    case KVT_KEY_REAL:
    case KVT_KEY_NUMBERS:
    case KVT_KEY_RECORDS:
    case KVT_KEY_HOT:
        (void)number_range(key, out, out_bytes);
        break;
    case KVT_KEY_CHOICE:
        (void)choice_range(key->choices, out, out_bytes);
        break;
    case KVT_KEY_TEXT:
    case KVT_KEY_BOOL:
    case KVT_KEY_EXTENDS:
    case KVT_KEY_FILE:
    case KVT_KEY_OBJECT:
    case KVT_KEY_LIST:
    case KVT_KEY_PLUGIN:
        break;
    }
    size_t used = strlen(out);
    if (key->type == KVT_KEY_HOT)
        (void)snprintf(out + used, out_bytes - used, ", a multiple of top_k as \"2k\", or \"%s\"",
                       key->word);
    else if (key->word != NULL)
        append_words(key->word, out, out_bytes);
    return out;
}
