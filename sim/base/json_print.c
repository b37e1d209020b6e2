/* json_print.c -- a tree as text: one way to write every value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/json.h"

enum {
    FIRST_BYTES = 1024,
    INDENT_BLANKS = 2,
};

/* Text that grows. After a failed growth it takes no more. */
struct text {
    char *bytes;
    size_t length;
    size_t capacity;
    bool has_failed;
};

static void add_bytes(struct text *text, const char *bytes, size_t byte_count)
{
    if (text->has_failed)
        return;
    if (byte_count >= text->capacity - text->length) {
        size_t capacity = text->capacity;
        while (byte_count >= capacity - text->length)
            capacity *= 2;
        char *larger = realloc(text->bytes, capacity);
        if (larger == NULL) {
            text->has_failed = true;
            return;
        }
        text->bytes = larger;
        text->capacity = capacity;
    }
    memcpy(text->bytes + text->length, bytes, byte_count);
    text->length += byte_count;
}

static void add(struct text *text, const char *string)
{
    add_bytes(text, string, strlen(string));
}

static void add_line(struct text *text, unsigned depth)
{
    add(text, "\n");
    for (unsigned i = 0; i < depth * INDENT_BLANKS; i++)
        add(text, " ");
}

static void add_string(struct text *text, const char *string)
{
    static const char letters[] = "bfnrt";
    static const char meanings[] = "\b\f\n\r\t";
    add(text, "\"");
    const char *at = string;
    while (*at != '\0') {
        /* Stretches without an escape go as a whole. */
        const char *plain = at;
        while ((unsigned char)*at >= 0x20 && *at != '"' && *at != '\\')
            at++;
        add_bytes(text, plain, (size_t)(at - plain));
        if (*at == '\0')
            break;

        char escape[8];
        const char *letter = strchr(meanings, *at);
        if (*at == '"' || *at == '\\')
            (void)snprintf(escape, sizeof escape, "\\%c", *at);
        else if (letter != NULL)
            (void)snprintf(escape, sizeof escape, "\\%c", letters[letter - meanings]);
        else
            (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)*at);
        add(text, escape);
        at++;
    }
    add(text, "\"");
}

static bool is_container(const cJSON *item)
{
    return cJSON_IsObject(item) || cJSON_IsArray(item);
}

/* Arrays of plain values stand on one line; what holds containers has a line a child. */
static bool needs_lines(const cJSON *item)
{
    if (cJSON_IsObject(item))
        return true;
    const cJSON *child;
    cJSON_ArrayForEach(child, item)
    {
        if (is_container(child))
            return true;
    }
    return false;
}

/* NOLINTBEGIN(misc-no-recursion): as deep as the tree, which cJSON frees the same way */

static void add_value(struct text *text, const cJSON *item, unsigned depth);

static void add_children(struct text *text, const cJSON *item, unsigned depth)
{
    bool has_lines = needs_lines(item);
    const cJSON *child;
    cJSON_ArrayForEach(child, item)
    {
        if (child != item->child)
            add(text, has_lines ? "," : ", ");
        if (has_lines)
            add_line(text, depth + 1);
        if (cJSON_IsObject(item)) {
            add_string(text, child->string);
            add(text, ": ");
        }
        add_value(text, child, depth + 1);
    }
    if (has_lines && item->child != NULL)
        add_line(text, depth);
}

static void add_value(struct text *text, const cJSON *item, unsigned depth)
{
    if (is_container(item)) {
        add(text, cJSON_IsObject(item) ? "{" : "[");
        add_children(text, item, depth);
        add(text, cJSON_IsObject(item) ? "}" : "]");
    } else if (cJSON_IsString(item)) {
        add_string(text, item->valuestring);
    } else if (cJSON_IsNumber(item)) {
        char number[32];
        kvt_json_print_number(item->valuedouble, number);
        add(text, number);
    } else if (cJSON_IsBool(item)) {
        add(text, cJSON_IsTrue(item) ? "true" : "false");
    } else {
        add(text, "null");
    }
}

/* NOLINTEND(misc-no-recursion) */

char *kvt_json_print(const cJSON *tree)
{
    struct text text = {.bytes = malloc(FIRST_BYTES), .capacity = FIRST_BYTES};
    if (text.bytes == NULL)
        return NULL;
    add_value(&text, tree, 0);
    add_bytes(&text, "", 1);
    if (text.has_failed) {
        free(text.bytes);
        return NULL;
    }
    return text.bytes;
}
