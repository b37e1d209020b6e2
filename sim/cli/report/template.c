/* template.c -- JSON trees from a text that reads like them. */
#include "template.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Prints an item and frees it; false: there was none, or nowhere to print it. */
static bool put_tree(FILE *stream, cJSON *item)
{
    char *text = item != NULL && stream != NULL ? cJSON_PrintUnformatted(item) : NULL;
    bool ok = text != NULL && fputs(text, stream) >= 0;

    cJSON_free(text);
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
