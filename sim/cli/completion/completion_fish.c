/* completion_fish.c -- for fish: a line for each command, action and option. */
#include <stdio.h>
#include <string.h>

#include "completion.h"

static void put_quoted(const char *text)
{
    putchar('\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
    putchar('\'');
}

/* The condition that this command, or this action of it, is the one that is typed. */
static void put_when(const struct cli_command *command)
{
    size_t length = completion_is_action(command);

    if (length == 0)
        printf("complete -c kvtide -n '__kvtide_is %s'", command->name);
    else
        printf("complete -c kvtide -n '__kvtide_is %.*s %s'", (int)length, command->name,
               command->name + length + 1);
}

static void put_source(enum completion_kind kind, const char *value)
{
    const char *source = completion_source(kind);

    if (kind == COMPLETION_CHOICES) {
        printf(" -a '");
        for (; *value != '\0'; value++)
            putchar(*value == '|' ? ' ' : *value);
        putchar('\'');
    } else if (kind == COMPLETION_DIR) {
        fputs(" -a '(__fish_complete_directories)'", stdout);
    } else if (source != NULL) {
        printf(" -a '(__kvtide_names %s)%s'", source, kind == COMPLETION_KEY ? "=" : "");
    }
}

static void put_option(const struct cli_command *command, const struct cli_option *option)
{
    enum completion_kind kind = completion_of_option(option);
    bool takes_file = kind == COMPLETION_FILE || kind == COMPLETION_SCENARIO;

    put_when(command);
    printf(" -l %s", option->name + 2);
    if (option->kind == CLI_MAYBE_PAIR) {
        printf(" -f");
    } else if (option->value) {
        printf(takes_file ? " -rF" : " -x");
        put_source(kind, option->value);
    }
    printf(" -d ");
    put_quoted(option->help);
    putchar('\n');
}

static void tell(void *context, const struct cli_command *command, const struct cli_option *options,
                 size_t option_count)
{
    size_t length = completion_is_action(command);
    enum completion_kind kind = completion_of_command(command);

    (void)context;
    if (length == 0)
        printf("complete -c kvtide -n __fish_use_subcommand -xa %s -d ", command->name);
    else
        printf("complete -c kvtide -n '__kvtide_is %.*s; and not __kvtide_has_action' -xa %s -d ",
               (int)length, command->name, command->name + length + 1);
    put_quoted(command->summary);
    putchar('\n');
    if (kind == COMPLETION_CHOICES || completion_source(kind) != NULL) {
        put_when(command);
        printf(kind == COMPLETION_CHOICES ? " -x" : " -F");
        put_source(kind, command->usage);
        putchar('\n');
    }
    for (size_t i = 0; i < option_count; i++)
        put_option(command, &options[i]);
}

static const char head[] = "# fish completion of kvtide, made by `kvtide completion fish`\n"
                           "function __kvtide_names\n"
                           "    $argv 2>/dev/null | string match -rg '^ ? ?(\\S+)'\n"
                           "end\n"
                           "function __kvtide_is\n"
                           "    set -l words (commandline -opc)\n"
                           "    test \"$words[2]\" = \"$argv[1]\"; or return 1\n"
                           "    test (count $argv) -eq 1; or test \"$words[3]\" = \"$argv[2]\"\n"
                           "end\n"
                           "function __kvtide_has_action\n"
                           "    test (count (commandline -opc)) -gt 2\n"
                           "end\n"
                           "complete -c kvtide -n __fish_use_subcommand -l help -l version\n";

void completion_fish(void)
{
    fputs(head, stdout);
    cli_help_each(tell, NULL);
}
