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

/* Words and lists as one argument of -a: a series offers them behind each comma. */
static void put_names(const struct completion *what)
{
    if (what->words[0] == '\0' && what->lists[0] == '\0' && what->paths != COMPLETION_FOLDERS)
        return;
    printf(" -a '");
    if (what->is_series)
        printf("(__fish_complete_list , \"__kvtide_names \\\"%s\\\" %s\")", what->words,
               what->lists);
    else if (what->lists[0] != '\0')
        printf("(__kvtide_names \"%s\" %s)", what->words, what->lists);
    else
        fputs(what->words, stdout);
    if (what->paths == COMPLETION_FOLDERS)
        printf("%s(__fish_complete_directories)", what->words[0] != '\0' ? " " : "");
    putchar('\'');
}

static void put_option(const struct cli_command *command, const struct cli_option *option)
{
    struct completion what = completion_of_option(option);

    put_when(command);
    if (option->name[1] == '-')
        printf(" -l %s", option->name + 2);
    else
        printf(" -s %s", option->name + 1);
    if (option->kind == CLI_MAYBE_PAIR) {
        printf(" -f");
    } else if (option->value) {
        printf(what.paths == COMPLETION_FILES ? " -rF" : " -x");
        put_names(&what);
    }
    printf(" -d ");
    put_quoted(option->help);
    putchar('\n');
}

static void tell(void *context, const struct cli_command *command, const struct cli_option *options,
                 size_t option_count)
{
    size_t length = completion_is_action(command);
    struct completion what = completion_of_command(command);

    (void)context;
    if (length == 0)
        printf("complete -c kvtide -n __fish_use_subcommand -xa %s -d ", command->name);
    else
        printf("complete -c kvtide -n '__kvtide_is %.*s; and not __kvtide_has_action' -xa %s -d ",
               (int)length, command->name, command->name + length + 1);
    put_quoted(command->summary);
    putchar('\n');
    if (what.words[0] != '\0' || what.lists[0] != '\0') {
        put_when(command);
        printf(what.paths == COMPLETION_NO_PATHS ? " -x" : " -F");
        put_names(&what);
        putchar('\n');
    }
    for (size_t i = 0; i < option_count; i++)
        put_option(command, &options[i]);
}

static const char head[] = "# fish completion of kvtide, made by `kvtide completion fish`\n"
                           "function __kvtide_names\n"
                           "    string split -n ' ' -- $argv[1]\n"
                           "    for list in $argv[2..]\n"
                           "        set -l end\n"
                           "        if test $list = settings\n"
                           "            string match -q '*=*' -- (commandline -ct)\n"
                           "            and set list values\n"
                           "            or set end =\n"
                           "        end\n"
                           "        for name in (kvtide list $list 2>/dev/null | string match -rg "
                           "'^ ? ?(\\S+)')\n"
                           "            echo \"$name$end\"\n"
                           "        end\n"
                           "    end\n"
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
