/* template.c -- JSON trees from a text that reads like them, and back on one line. */
#include "template.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/json.h"

static void put_string(const char *text, FILE *stream)
{
    fputc('"', stream);
    for (; *text != '\0'; text++) {
        unsigned char letter = (unsigned char)*text;
        if (letter == '"' || letter == '\\')
            fprintf(stream, "\\%c", letter);
        else if (letter < 0x20 || letter == '<')
            fprintf(stream, "\\u%04x", letter);
        else
            fputc(letter, stream);
    }
    fputc('"', stream);
}

/* NOLINTBEGIN(misc-no-recursion): as deep as a result, which we made */
static void put_members(const cJSON *tree, FILE *stream)
{
    const cJSON *item = NULL;

    fputc(cJSON_IsObject(tree) ? '{' : '[', stream);
    cJSON_ArrayForEach(item, tree)
    {
        if (item != tree->child)
            fputc(',', stream);
        if (cJSON_IsObject(tree)) {
            put_string(item->string, stream);
            fputc(':', stream);
        }
        report_json_print(item, stream);
    }
    fputc(cJSON_IsObject(tree) ? '}' : ']', stream);
}

void report_json_print(const cJSON *tree, FILE *stream)
{
    char number[32];

    if (cJSON_IsNumber(tree)) {
        kvt_json_print_number(tree->valuedouble, number);
        fputs(number, stream);
    } else if (cJSON_IsString(tree)) {
        put_string(tree->valuestring, stream);
    } else if (cJSON_IsBool(tree)) {
        fputs(cJSON_IsTrue(tree) ? "true" : "false", stream);
    } else if (cJSON_IsObject(tree) || cJSON_IsArray(tree)) {
        put_members(tree, stream);
    } else {
        fputs("null", stream);
    }
}
/* NOLINTEND(misc-no-recursion) */

/* Prints an item and frees it; false: there was none, or nowhere to print it. */
static bool put_tree(FILE *stream, cJSON *item)
{
    bool ok = item != NULL && stream != NULL;

    if (ok)
        report_json_print(item, stream);
    cJSON_Delete(item);
    return ok;
}

static bool put_argument(FILE *stream, char kind, va_list *arguments)
{
    const char *text = NULL;

    switch (kind) {
    case 's':
        text = va_arg(*arguments, const char *);
        return put_tree(stream, text != NULL ? cJSON_CreateString(text) : cJSON_CreateNull());
    case 'g':
        return put_tree(stream, cJSON_CreateNumber(va_arg(*arguments, double)));
    case 'b':
        return put_tree(stream, cJSON_CreateBool(va_arg(*arguments, int)));
    default:
        return put_tree(stream, va_arg(*arguments, cJSON *));
    }
}

cJSON *report_json(const char *text, ...)
{
    char *made = NULL;
    size_t made_bytes = 0;
    FILE *stream = open_memstream(&made, &made_bytes);
    va_list arguments;
    bool ok = stream != NULL;

    va_start(arguments, text);
    for (; *text != '\0'; text++) {
        if (*text == '%' && *++text != '%')
            ok = put_argument(stream, *text, &arguments) && ok;
        else if (stream != NULL)
            fputc(*text == '\'' ? '"' : *text, stream);
    }
    va_end(arguments);
    if (stream != NULL)
        ok = fclose(stream) == 0 && ok;
    cJSON *tree = ok ? cJSON_Parse(made) : NULL;
    free(made);
    return tree;
}
