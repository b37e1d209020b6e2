/* cmd_completion.c -- kvtide completion: what a shell completes, out of the tables of options. */
#include <stdio.h>
#include <string.h>

#include "../list.h"
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

/* What usages call a thing, and what it is one of; the longer before what it begins with. */
static const struct {
    const char *start;
    const char *list; /* of `kvtide list`; NULL: of none */
    enum completion_paths paths;
} things[] = {
    {"SCENARIO", "scenarios", COMPLETION_FILES},
    {"A[,PATH", "scenarios", COMPLETION_FILES},
    {"PATH=", "settings", COMPLETION_NO_PATHS},
    {"METRIC", "metrics", COMPLETION_NO_PATHS},
    {"FORMAT", "formats", COMPLETION_NO_PATHS},
    {"GPU", "hardware", COMPLETION_FILES},
    {"POLICY", "replacement", COMPLETION_NO_PATHS},
    {"TARGET", "targets", COMPLETION_NO_PATHS},
    {"PROFILE.json", NULL, COMPLETION_FILES},
    {"PROFILE", "profiles", COMPLETION_FILES},
    {"GRID", "grids", COMPLETION_FILES},
    {"DIR", NULL, COMPLETION_FOLDERS},
    {"FILE", NULL, COMPLETION_FILES},
    {"OUT", NULL, COMPLETION_FILES},
    {"RESULT", NULL, COMPLETION_FILES},
};

static void append(char *names, size_t size, const char *name, size_t length)
{
    size_t used = strlen(names);

    (void)snprintf(names + used, size - used, "%s%.*s", used > 0 ? " " : "", (int)length, name);
}

/* A word that is meant as it stands: "none" and "rank=1"; "N" and "class:NAME" are not. */
static bool is_word(const char *text, size_t length)
{
    return length > 0 && text[0] != '-' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-=") >= length;
}

static void add_kinds(struct completion *out)
{
    for (size_t i = 0; list_kind_name(i) != NULL; i++)
        append(out->words, sizeof out->words, list_kind_name(i), strlen(list_kind_name(i)));
}

/* A word, or a thing of the table, before a '|', or before a ',' and more of its like. */
static void add_alternative(struct completion *out, const char *text, size_t length)
{
    size_t i = 0;

    if (is_word(text, length)) {
        append(out->words, sizeof out->words, text, length);
        return;
    }
    if (strncmp(text, "WHAT", 4) == 0)
        add_kinds(out);
    while (i < sizeof things / sizeof things[0] &&
           strncmp(text, things[i].start, strlen(things[i].start)) != 0)
        i++;
    if (i == sizeof things / sizeof things[0])
        return;
    if (things[i].list != NULL)
        append(out->lists, sizeof out->lists, things[i].list, strlen(things[i].list));
    if (things[i].paths > out->paths)
        out->paths = things[i].paths;
    out->is_series = out->is_series || text[strlen(things[i].start)] == ',';
}

/* The first word of a form of the usage, without its brackets: "[SCENARIO|RESULT.json]". */
static void add_form(struct completion *out, const char *text)
{
    const char *end = text + strcspn(text, " ");

    while (text < end) {
        text += *text == '[';
        size_t length = strcspn(text, "|], ");
        add_alternative(out, text, length);
        /* Words with commas between are a series: "svg,pdf". */
        bool goes_on = text[length] == ',' && is_word(text, length);
        out->is_series = out->is_series || goes_on;
        text += goes_on ? length : strcspn(text, "| ");
        text += text < end;
    }
}

static struct completion completion_of(const char *usage)
{
    static const char between[] = " | ";
    struct completion out = {.words = ""};

    for (const char *form = usage; form != NULL; form = strstr(form, between)) {
        form += form != usage ? sizeof between - 1 : 0;
        add_form(&out, form);
    }
    return out;
}

struct completion completion_of_option(const struct cli_option *option)
{
    return completion_of(option->value ? option->value : "");
}

struct completion completion_of_command(const struct cli_command *command)
{
    return completion_of(command->usage);
}

bool completion_is_nothing(const struct completion *what)
{
    return what->words[0] == '\0' && what->lists[0] == '\0' && what->paths == COMPLETION_NO_PATHS;
}

const char *completion_paths_name(enum completion_paths paths)
{
    return paths == COMPLETION_FILES ? "files" : paths == COMPLETION_FOLDERS ? "folders" : "none";
}

size_t completion_is_action(const struct cli_command *command)
{
    const char *blank = strchr(command->name, ' ');

    return blank ? (size_t)(blank - command->name) : 0;
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
