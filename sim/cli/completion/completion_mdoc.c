/* completion_mdoc.c -- the commands and their options, as the manual has them. */
#include <stdio.h>
#include <string.h>

#include "completion.h"

/* Text in the language of mdoc(7): nothing in it is a request, an escape or a macro. */
static void put_text(const char *text, size_t length)
{
    for (const char *at = text; at < text + length; at++) {
        if (*at == '\\')
            fputs("\\e", stdout);
        else if (*at == '-')
            fputs("\\-", stdout);
        else
            putchar(*at);
    }
}

/* Sentences, each a line, which must not begin as a request does. */
static void put_lines(const char *text)
{
    while (*text != '\0') {
        const char *end = strstr(text, ". ");
        size_t length = end ? (size_t)(end - text) + 1 : strlen(text);

        if (*text == '.' || *text == '\'')
            fputs("\\&", stdout);
        put_text(text, length);
        putchar('\n');
        text += length + strspn(text + length, " ");
    }
}

/* As one argument of a macro. */
static void put_argument(const char *text)
{
    putchar('"');
    put_text(text, strlen(text));
    putchar('"');
}

static void tell(void *context, const struct cli_command *command, const struct cli_option *options,
                 size_t option_count)
{
    (void)context;
    printf(".Ss %s\n.Nm kvtide %s Ar ", command->name, command->name);
    put_argument(command->usage);
    printf("\n.Pp\n");
    put_lines(command->summary);
    if (option_count == 0)
        return;
    printf(".Bl -tag -width indent\n");
    for (size_t i = 0; i < option_count; i++) {
        printf(".It Fl ");
        put_text(options[i].name + 1, strlen(options[i].name + 1));
        if (options[i].value) {
            printf(" Ar ");
            put_argument(options[i].value);
        }
        putchar('\n');
        put_lines(options[i].help);
    }
    printf(".El\n");
}

void completion_mdoc(void)
{
    cli_help_each(tell, NULL);
}
