/* json_check.c -- a walk over JSON text by RFC 8259, refusing what cJSON lets pass.
 *
 *     value:  object | array | string | number | true | false | null
 *     object: walk the members, noting where each key stands; at the end sort
 *             the keys by what they spell and refuse two neighbours alike
 *
 * Recursion is bounded by DEPTH_MAX. Keys are compared decoded, so that "a"
 * and "\u0061" are the same key, as they are in the tree. */
#include "json_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "utf8.h"

enum {
    DEPTH_MAX = 64,
    FIRST_KEYS = 64,
    QUOTED_BYTES_MAX = 64, /* of a key, in a message */
};

/* A member's name as written, between its quotes. */
struct key {
    const char *text;
    size_t bytes;
};

struct walk {
    const char *at;
    const char *end;
    const char *begin;
    const char *name;
    uint64_t first_line;
    struct key *keys; /* [key_capacity]: of all objects that are open, outermost first */
    size_t key_count;
    size_t key_capacity;
    struct kvt_error *err;
};

static kvt_status walk_value(struct walk *walk, unsigned depth);

/* Line and column are counted only now: a text without faults never pays. */
static uint64_t line_of(const struct walk *walk, const char *place, size_t *column)
{
    uint64_t line = walk->first_line;
    const char *line_begin = walk->begin;
    for (const char *at = walk->begin; at < place; at++) {
        if (*at == '\n') {
            line++;
            line_begin = at + 1;
        }
    }
    *column = 1;
    for (const char *at = line_begin; at < place; at++)
        *column += ((unsigned char)*at & 0xc0) != 0x80;
    return line;
}

KVT_PRINTF(3, 4)
static kvt_status fail_at(const struct walk *walk, const char *place, const char *fmt, ...)
{
    char message[sizeof walk->err->message];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof message, fmt, args);
    va_end(args);

    size_t column = 0;
    uint64_t line = line_of(walk, place, &column);
    char where[sizeof walk->err->where];
    (void)snprintf(where, sizeof where, "%s:%" PRIu64 ":%zu", walk->name, line, column);
    return kvt_fail(walk->err, KVT_ERR_PARSE, where, "%s", message);
}

/* "found X; expected Y", X being what stands at the walk's place. */
static kvt_status fail_expected(const struct walk *walk, const char *expected)
{
    if (walk->at == walk->end)
        return fail_at(walk, walk->at, "the text ends here; expected %s", expected);
    unsigned char byte = (unsigned char)*walk->at;
    if (byte > 0x20 && byte < 0x7f)
        return fail_at(walk, walk->at, "found '%c'; expected %s", byte, expected);
    return fail_at(walk, walk->at, "found byte 0x%02x; expected %s", byte, expected);
}

static void skip_blanks(struct walk *walk)
{
    while (walk->at < walk->end &&
           (*walk->at == ' ' || *walk->at == '\t' || *walk->at == '\n' || *walk->at == '\r'))
        walk->at++;
}

static bool is_next(const struct walk *walk, char c)
{
    return walk->at < walk->end && *walk->at == c;
}

/* The value of four hexadecimal digits, or -1. */
static int32_t hex4(const char *text, const char *end)
{
    if (end - text < 4)
        return -1;
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        char c = text[i];
        int32_t digit = -1;
        if (c >= '0' && c <= '9')
            digit = c - '0';
        else if (c >= 'a' && c <= 'f')
            digit = c - 'a' + 10;
        else if (c >= 'A' && c <= 'F')
            digit = c - 'A' + 10;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static bool is_high_surrogate(int32_t unit)
{
    return unit >= 0xd800 && unit <= 0xdbff;
}

static bool is_low_surrogate(int32_t unit)
{
    return unit >= 0xdc00 && unit <= 0xdfff;
}

static uint32_t surrogate_pair(int32_t high, int32_t low)
{
    return 0x10000u + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
}

/* At a backslash: steps over the escape. */
static kvt_status walk_escape(struct walk *walk)
{
    const char *start = walk->at++;
    if (walk->at == walk->end)
        return fail_expected(walk, "an escape's letter");
    if (*walk->at != 'u') {
        if (*walk->at == '\0' || strchr("\"\\/bfnrt", *walk->at) == NULL)
            return fail_expected(walk, "one of \" \\ / b f n r t u after a backslash");
        walk->at++;
        return KVT_OK;
    }
    int32_t unit = hex4(walk->at + 1, walk->end);
    if (unit < 0)
        return fail_at(walk, start, "an escape \\u without four hexadecimal digits");
    if (unit == 0)
        return fail_at(walk, start, "a NUL in a string; expected text");
    walk->at += 5;
    if (is_low_surrogate(unit))
        return fail_at(walk, start, "the second half of a surrogate pair without its first");
    if (!is_high_surrogate(unit))
        return KVT_OK;
    bool has_second = walk->end - walk->at >= 6 && walk->at[0] == '\\' && walk->at[1] == 'u' &&
                      is_low_surrogate(hex4(walk->at + 2, walk->end));
    if (!has_second)
        return fail_at(walk, start, "the first half of a surrogate pair without its second");
    walk->at += 6;
    return KVT_OK;
}

/* At a quote: steps over the string; *out is what stands between the quotes. */
static kvt_status walk_string(struct walk *walk, struct key *out)
{
    const char *start = walk->at++;
    for (;;) {
        if (walk->at == walk->end)
            return fail_at(walk, start,
                           "a string that is never closed: the text ends in it; expected a '\"'");
        unsigned char byte = (unsigned char)*walk->at;
        if (byte == '"')
            break;
        if (byte == '\\') {
            kvt_status status = walk_escape(walk);
            if (status != KVT_OK)
                return status;
            continue;
        }
        if (byte < 0x20) {
            return fail_at(walk, walk->at,
                           "byte 0x%02x in a string; control characters are written as escapes",
                           byte);
        }
        uint32_t code = 0;
        size_t length = kvt_utf8_decode(walk->at, (size_t)(walk->end - walk->at), &code);
        if (length == 0)
            return fail_at(walk, walk->at, "byte 0x%02x is not valid UTF-8 here", byte);
        walk->at += length;
    }
    *out = (struct key){.text = start + 1, .bytes = (size_t)(walk->at - start - 1)};
    walk->at++;
    return KVT_OK;
}

static kvt_status walk_number(struct walk *walk)
{
    const char *start = walk->at;
    size_t bytes = kvt_number_scan(start, (size_t)(walk->end - start));
    if (bytes == 0) {
        walk->at++;
        return fail_expected(walk, "a digit after '-'");
    }
    walk->at += bytes;
    if (walk->at < walk->end && strchr("+-.0123456789eE", *walk->at) != NULL && *walk->at != '\0')
        return fail_expected(walk, "the number to end here: no leading zero, and digits on both "
                                   "sides of a point");
    if (bytes > KVT_NUMBER_BYTES_MAX) {
        return fail_at(walk, start, "a number of %zu characters; at most %zu are read", bytes,
                       KVT_NUMBER_BYTES_MAX);
    }
    if (!isfinite(kvt_number_value(start, bytes))) {
        return fail_at(walk, start, "%.*s is too large; numbers are finite, up to 1.8e308",
                       (int)bytes, start);
    }
    return KVT_OK;
}

static kvt_status walk_word(struct walk *walk, const char *word)
{
    size_t bytes = strlen(word);
    if ((size_t)(walk->end - walk->at) < bytes || memcmp(walk->at, word, bytes) != 0)
        return fail_expected(walk, "a value: true, false, null, a number, a string, [ or {");
    walk->at += bytes;
    return KVT_OK;
}

/* The next character of a key that walk_string() has accepted. */
static uint32_t next_code(const char **at, const char *end)
{
    uint32_t code = 0;
    if (**at != '\\') {
        *at += kvt_utf8_decode(*at, (size_t)(end - *at), &code);
        return code;
    }
    char letter = (*at)[1];
    if (letter != 'u') {
        static const char letters[] = "bfnrt";
        static const char meanings[] = "\b\f\n\r\t";
        const char *found = strchr(letters, letter);
        *at += 2;
        return (uint32_t)(found != NULL ? meanings[found - letters] : letter);
    }
    int32_t unit = hex4(*at + 2, end);
    *at += 6;
    if (!is_high_surrogate(unit))
        return (uint32_t)unit;
    int32_t low = hex4(*at + 2, end);
    *at += 6;
    return surrogate_pair(unit, low);
}

static int compare_spelling(const struct key *a, const struct key *b)
{
    const char *at_a = a->text;
    const char *at_b = b->text;
    const char *end_a = a->text + a->bytes;
    const char *end_b = b->text + b->bytes;
    while (at_a < end_a && at_b < end_b) {
        uint32_t code_a = next_code(&at_a, end_a);
        uint32_t code_b = next_code(&at_b, end_b);
        if (code_a != code_b)
            return code_a < code_b ? -1 : 1;
    }
    return (at_a < end_a) - (at_b < end_b);
}

static int compare_keys(const void *left, const void *right)
{
    const struct key *a = left;
    const struct key *b = right;
    int spelling = compare_spelling(a, b);
    if (spelling != 0)
        return spelling;
    return (a->text > b->text) - (a->text < b->text);
}

/* Of the keys since `first`: the repetition that comes first in the text. */
static kvt_status check_repeats(struct walk *walk, size_t first)
{
    size_t count = walk->key_count - first;
    if (count < 2)
        return KVT_OK;
    struct key *keys = walk->keys + first;
    qsort(keys, count, sizeof *keys, compare_keys);

    const struct key *repeat = NULL;
    for (size_t i = 1; i < count; i++) {
        if (compare_spelling(&keys[i - 1], &keys[i]) == 0 &&
            (repeat == NULL || keys[i].text < repeat->text))
            repeat = &keys[i];
    }
    if (repeat == NULL)
        return KVT_OK;
    size_t column = 0;
    uint64_t line = line_of(walk, (repeat - 1)->text - 1, &column);
    size_t shown = repeat->bytes < QUOTED_BYTES_MAX ? repeat->bytes : QUOTED_BYTES_MAX;
    return fail_at(walk, repeat->text - 1,
                   "the key \"%.*s\" stands on line %" PRIu64 " already; each key is given once",
                   (int)shown, repeat->text, line);
}

static kvt_status note_key(struct walk *walk, const struct key *key)
{
    if (walk->key_count == walk->key_capacity) {
        size_t capacity = walk->key_capacity > 0 ? walk->key_capacity * 2 : FIRST_KEYS;
        struct key *keys = realloc(walk->keys, capacity * sizeof *keys);
        if (keys == NULL)
            return kvt_fail_nomem(walk->err, walk->name);
        walk->keys = keys;
        walk->key_capacity = capacity;
    }
    walk->keys[walk->key_count++] = *key;
    return KVT_OK;
}

/* NOLINTBEGIN(misc-no-recursion): DEPTH_MAX bounds it */

static kvt_status walk_member(struct walk *walk, unsigned depth)
{
    skip_blanks(walk);
    if (!is_next(walk, '"'))
        return fail_expected(walk, "a key in double quotes");
    struct key key;
    kvt_status status = walk_string(walk, &key);
    if (status == KVT_OK)
        status = note_key(walk, &key);
    if (status != KVT_OK)
        return status;
    skip_blanks(walk);
    if (!is_next(walk, ':'))
        return fail_expected(walk, "':' after a key");
    walk->at++;
    return walk_value(walk, depth);
}

/* At '[' or '{': steps over it, its content and what closes it. */
static kvt_status walk_container(struct walk *walk, unsigned depth)
{
    bool is_object = *walk->at == '{';
    char closing = is_object ? '}' : ']';
    if (depth > DEPTH_MAX) {
        return fail_at(walk, walk->at, "arrays and objects more than %d deep; expected fewer",
                       DEPTH_MAX);
    }
    size_t first_key = walk->key_count;
    walk->at++;
    skip_blanks(walk);
    bool is_empty = is_next(walk, closing);
    while (!is_empty) {
        kvt_status status = is_object ? walk_member(walk, depth + 1) : walk_value(walk, depth + 1);
        if (status != KVT_OK)
            return status;
        skip_blanks(walk);
        if (is_next(walk, closing))
            break;
        if (!is_next(walk, ','))
            return fail_expected(walk, is_object ? "',' or '}'" : "',' or ']'");
        walk->at++;
    }
    walk->at++;
    kvt_status status = is_object ? check_repeats(walk, first_key) : KVT_OK;
    walk->key_count = first_key;
    return status;
}

/* depth: containers around the value, and this one if it is one. */
static kvt_status walk_value(struct walk *walk, unsigned depth)
{
    skip_blanks(walk);
    char c = '\0';
    if (walk->at < walk->end)
        c = *walk->at;
    switch (c) {
    case '{':
    case '[':
        return walk_container(walk, depth);
    case '"': {
        struct key ignored;
        return walk_string(walk, &ignored);
    }
    case 't':
        return walk_word(walk, "true");
    case 'f':
        return walk_word(walk, "false");
    case 'n':
        return walk_word(walk, "null");
    default:
        if (c == '-' || (c >= '0' && c <= '9'))
            return walk_number(walk);
        return fail_expected(walk, "a value: true, false, null, a number, a string, [ or {");
    }
}

/* NOLINTEND(misc-no-recursion) */

kvt_status kvt_json_check(const char *text, size_t text_bytes, const char *name,
                          uint64_t first_line, struct kvt_error *err)
{
    struct walk walk = {
        .at = text,
        .end = text + text_bytes,
        .begin = text,
        .name = name,
        .first_line = first_line,
        .err = err,
    };
    kvt_status status = walk_value(&walk, 1);
    if (status == KVT_OK) {
        skip_blanks(&walk);
        if (walk.at < walk.end)
            status = fail_expected(&walk, "nothing after the value");
    }
    free(walk.keys);
    return status;
}
