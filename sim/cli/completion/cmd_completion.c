/* cmd_completion.c -- kvtide completion: what a shell completes, out of the tables of options. */
#include <string.h>

#include "completion.h"

static const struct {
    const char *name;
    void (*print)(void);
} shells[] = {
    {"bash", completion_bash},
    {"zsh", completion_zsh},
    {"fish", completion_fish},
    {"mdoc", completion_mdoc},
};

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Alternatives are words in lower case; "DIR|none" and "I/N" are not. */
static bool is_choices(const char *value)
{
    return strchr(value, '|') != NULL &&
           strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-|") == strlen(value);
}

static enum completion_kind kind_of(const char *value)
{
    static const struct {
        const char *start;
        enum completion_kind kind;
    } words[] = {
        {"SCENARIO", COMPLETION_SCENARIO}, {"[SCENARIO", COMPLETION_SCENARIO},
        {"A[,PATH", COMPLETION_SCENARIO},  {"PATH=", COMPLETION_KEY},
        {"METRIC", COMPLETION_METRIC},     {"DIR", COMPLETION_DIR},
        {"FILE", COMPLETION_FILE},         {"OUT", COMPLETION_FILE},
        {"PROFILE", COMPLETION_FILE},      {"RESULT", COMPLETION_FILE},
        {"GRID", COMPLETION_FILE},         {"[WHAT", COMPLETION_LISTED},
    };

    if (is_choices(value))
        return COMPLETION_CHOICES;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (begins_with(value, words[i].start))
            return words[i].kind;
    }
    return COMPLETION_NOTHING;
}

enum completion_kind completion_of_option(const struct cli_option *option)
{
    if (strcmp(option->name, "--metric") == 0)
        return COMPLETION_METRIC;
    return option->value ? kind_of(option->value) : COMPLETION_NOTHING;
}

enum completion_kind completion_of_command(const struct cli_command *command)
{
    return kind_of(command->usage);
}

size_t completion_is_action(const struct cli_command *command)
{
    const char *blank = strchr(command->name, ' ');

    return blank ? (size_t)(blank - command->name) : 0;
}

const char *completion_source(enum completion_kind kind)
{
    switch (kind) {
    case COMPLETION_KEY:
        return "kvtide list settings";
    case COMPLETION_METRIC:
        return "kvtide list metrics";
    case COMPLETION_SCENARIO:
        return "kvtide list scenarios";
    case COMPLETION_LISTED:
        return "kvtide list";
    default:
        return NULL;
    }
}

int kvt_cmd_completion(const struct cli_command *command, int argc, char **argv)
{
    struct cli_texts shell;
    int exit_code = CLI_DONE;

    if (!cli_parse(command, argc, argv, NULL, 0, 1, 1, &shell, &exit_code)) {
        cli_parsed_free(NULL, 0, &shell);
        return exit_code;
    }
    exit_code = CLI_MALFORMED;
    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(shell.items[0], shells[i].name) == 0) {
            shells[i].print();
            exit_code = CLI_DONE;
        }
    }
    if (exit_code != CLI_DONE)
        cli_malformed("completion: found \"%.40s\", expected bash, zsh, fish or mdoc",
                      shell.items[0]);
    cli_parsed_free(NULL, 0, &shell);
    return exit_code;
}
