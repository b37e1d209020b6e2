/* literal.c -- what Python prints of a value, to JSON: what logs print of their arguments.
 *
 *     value = None | True | False | number | 'text' | "text" | [..] | (..) | {key: value, ..}
 *           | Name(k=value, ..)      an object
 *           | <Name.MEMBER: value>   the value; any other <..>, and a bare word, as text */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "kvt/json.h"

enum {
    DEPTH_MAX = 64,
    TEXT_MAX = 1 << 16
};

struct text {
    const char *at;
    int depth;
};

static cJSON *parse(struct text *text);

static void skip(struct text *text)
{
    text->at += strspn(text->at, " \t\r\n");
}

/* 'it\'s' or "..", to a text; NULL where it does not end. */
static cJSON *parse_quoted(struct text *text)
{
    char quote = *text->at++;
    char *out = malloc(strlen(text->at) + 1);
    size_t length = 0;

    if (out == NULL)
        return NULL;
    while (*text->at != '\0' && *text->at != quote && length < TEXT_MAX) {
        if (*text->at == '\\' && text->at[1] != '\0')
            text->at++;
        out[length++] = *text->at++;
    }
    out[length] = '\0';
    cJSON *value = *text->at == quote ? cJSON_CreateString(out) : NULL;
    text->at += *text->at == quote;
    free(out);
    return value;
}

/* NOLINTBEGIN(misc-no-recursion): parse() bounds it by DEPTH_MAX */

/* Elements up to the closing bracket. */
static cJSON *parse_list(struct text *text, char close)
{
    cJSON *array = cJSON_CreateArray();

    text->at++;
    for (skip(text); array != NULL && *text->at != close; skip(text)) {
        cJSON *item = parse(text);
        if (item == NULL || !cJSON_AddItemToArray(array, item)) {
            cJSON_Delete(array);
            return NULL;
        }
        skip(text);
        if (*text->at == ',')
            text->at++;
    }
    text->at++;
    return array;
}

/* A key in quotes, or a bare name, up to the sign behind it; false where there is none. */
static bool parse_key(struct text *text, char sign, char key[128])
{
    size_t length = 0;
    bool is_quoted = *text->at == '\'' || *text->at == '"';
    char quote = *text->at;

    text->at += is_quoted;
    while (*text->at != '\0' && length < 127 &&
           (is_quoted ? *text->at != quote : isalnum((unsigned char)*text->at) || *text->at == '_'))
        key[length++] = *text->at++;
    key[length] = '\0';
    text->at += is_quoted && *text->at == quote;
    skip(text);
    if (length == 0 || *text->at != sign)
        return false;
    text->at++;
    return true;
}

/* Members up to the closing bracket or, with close '\0', the end. */
static cJSON *parse_members(struct text *text, char sign, char close)
{
    cJSON *object = cJSON_CreateObject();
    char key[128];

    for (skip(text); object != NULL && *text->at != close; skip(text)) {
        cJSON *item = parse_key(text, sign, key) ? parse(text) : NULL;
        if (item == NULL || !kvt_json_add(object, key, item)) {
            cJSON_Delete(object);
            return NULL;
        }
        skip(text);
        if (*text->at == ',')
            text->at++;
    }
    text->at += close != '\0';
    return object;
}

/* <KVRole.BOTH: 'both'> */
static cJSON *parse_angle(struct text *text)
{
    const char *end = strchr(text->at, '>');
    const char *colon = end != NULL ? memchr(text->at, ':', (size_t)(end - text->at)) : NULL;
    char word[256];

    if (end == NULL)
        return NULL;
    if (colon != NULL) {
        struct text inner = {colon + 1, text->depth};
        cJSON *value = parse(&inner);
        text->at = end + 1;
        return value;
    }
    (void)snprintf(word, sizeof word, "%.*s", (int)(end - text->at + 1), text->at);
    text->at = end + 1;
    return cJSON_CreateString(word);
}

static cJSON *parse_word(struct text *text)
{
    char word[256];
    size_t length = 0;

    while (*text->at != '\0' && length < sizeof word - 1 &&
           (isalnum((unsigned char)*text->at) || strchr("_.+-/:", *text->at) != NULL))
        word[length++] = *text->at++;
    word[length] = '\0';
    if (length == 0)
        return NULL;
    if (*text->at == '(') {
        text->at++;
        return parse_members(text, '=', ')');
    }
    if (strcmp(word, "None") == 0 || strcmp(word, "null") == 0)
        return cJSON_CreateNull();
    if (strcmp(word, "True") == 0 || strcmp(word, "true") == 0)
        return cJSON_CreateTrue();
    if (strcmp(word, "False") == 0 || strcmp(word, "false") == 0)
        return cJSON_CreateFalse();
    char *end = NULL;
    double number = strtod(word, &end);
    return *end == '\0' && (isdigit((unsigned char)word[0]) || strchr("+-.", word[0]) != NULL)
               ? cJSON_CreateNumber(number)
               : cJSON_CreateString(word);
}

static cJSON *parse(struct text *text)
{
    cJSON *value = NULL;

    if (++text->depth > DEPTH_MAX)
        return NULL;
    skip(text);
    if (*text->at == '\'' || *text->at == '"') {
        value = parse_quoted(text);
    } else if (*text->at == '[') {
        value = parse_list(text, ']');
    } else if (*text->at == '(') {
        value = parse_list(text, ')');
    } else if (*text->at == '{') {
        text->at++;
        value = parse_members(text, ':', '}');
    } else if (*text->at == '<') {
        value = parse_angle(text);
    } else {
        value = parse_word(text);
    }
    text->depth--;
    return value;
}

/* NOLINTEND(misc-no-recursion) */

cJSON *engine_parse_literal(const char *source)
{
    struct text text = {source, 0};

    return parse(&text);
}

cJSON *engine_parse_arguments(const char *source)
{
    struct text text = {source, 0};

    return parse_members(&text, '=', '\0');
}
