/* help.c -- options, as --help prints them and as others read them.
 *
 * A command's table of options lies in its own function, beside what they fill. So whoever wants
 * all tables asks every command for its help, and is told instead of it being printed. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

enum {
    INDENT = 28 /* of what an option says */
};

static struct {
    cli_help_tell *tell; /* NULL: help is printed */
    void *context;
} listener;

static void print_option(const struct cli_option *option)
{
    int column = printf("  %s%s%s", option->name, option->value ? " " : "",
                        option->value ? option->value : "");

    if (column > INDENT - 2)
        column = printf("\n") - 1;
    column += printf("%*s", INDENT - column, "");
    (void)cli_put_wrapped(option->help, column, INDENT);
    putchar('\n');
}

static void print_head(const struct cli_command *command)
{
    int column = printf("usage: kvtide %s ", command->name);

    (void)cli_put_wrapped(command->usage, column, column);
    printf("\n\n");
    (void)cli_put_wrapped(command->summary, 0, 0);
    putchar('\n');
}

void cli_help(const struct cli_command *command, const struct cli_option *options,
              size_t option_count)
{
    if (listener.tell) {
        listener.tell(listener.context, command, options, option_count);
        return;
    }
    print_head(command);
    if (option_count > 0)
        putchar('\n');
    for (size_t i = 0; i < option_count; i++)
        print_option(&options[i]);
}

static int help_of(const struct cli_command *command)
{
    char name[] = "kvtide", help[] = "--help";
    char *argv[] = {name, help, NULL};

    return command->run(command, 2, argv);
}

void cli_help_actions(const struct cli_command *command, const struct cli_command *actions,
                      size_t action_count)
{
    if (listener.tell) {
        listener.tell(listener.context, command, NULL, 0);
        for (size_t i = 0; i < action_count; i++)
            (void)help_of(&actions[i]);
        return;
    }
    print_head(command);
    putchar('\n');
    for (size_t i = 0; i < action_count; i++)
        printf("  %-9s %s\n", actions[i].name + strlen(command->name) + 1, actions[i].summary);
    printf("\nkvtide %s ACTION --help says more.\n", command->name);
}

void cli_help_each(cli_help_tell *tell, void *context)
{
    size_t count = 0;
    const struct cli_command *commands = cli_commands(&count);

    listener.tell = tell;
    listener.context = context;
    for (size_t i = 0; i < count; i++)
        (void)help_of(&commands[i]);
    listener.tell = NULL;
}
