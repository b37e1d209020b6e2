/* cmd_trace.c -- kvtide trace: which of its actions is meant. */
#include <stdio.h>
#include <string.h>

#include "trace.h"

/* Their names are those that messages begin with. */
#define FAMILY "trace "

static const struct cli_command actions[] = {
    {FAMILY "stats", "FILE.. [options]",
     "What traces of requests hold; how local recorded selections (.kvsel) are.", trace_stats},
    {FAMILY "convert", "FILE --to OUT [options]",
     "Requests into kvtide's CSV; selections into .kvsel, and out of it.", trace_convert},
    {FAMILY "record", "SCENARIO --to FILE.kvsel [options]",
     "Runs a scenario, and writes what its requests selected.", trace_record},
    {FAMILY "replay", "FILE.kvsel [options]",
     "The run of a recording again: the same decisions, or what if.", trace_replay},
    {FAMILY "merge", "FILE.kvsel.. --to OUT.kvsel [options]",
     "Recordings one after the other, in one file.", trace_merge},
    {FAMILY "mrc", "FILE.kvsel.. [options]",
     "Miss curves of recorded selections: what hot caches of several sizes would miss.", trace_mrc},
};
enum {
    ACTIONS = sizeof actions / sizeof actions[0]
};

bool trace_ends_with(const char *path, const char *ending)
{
    size_t length = strlen(path), tail = strlen(ending);
    return length > tail && strcmp(path + length - tail, ending) == 0;
}

int trace_check_kvsel(const char *action, const char *to)
{
    if (to == NULL)
        return cli_malformed("trace %s: --to OUT.kvsel is expected", action);
    if (!trace_ends_with(to, ".kvsel"))
        return cli_malformed("trace %s: --to %s is expected to end in .kvsel", action, to);
    return CLI_DONE;
}

static const char *word_of(const struct cli_command *action)
{
    return action->name + strlen(FAMILY);
}

/* "stats convert" */
static void list_actions(char *names, size_t names_bytes)
{
    size_t used = 0;
    names[0] = '\0';
    for (size_t i = 0; i < ACTIONS && used < names_bytes; i++)
        used += (size_t)snprintf(names + used, names_bytes - used, "%s%s", i > 0 ? " " : "",
                                 word_of(&actions[i]));
}

int kvt_cmd_trace(const struct cli_command *command, int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    char names[128];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        cli_help_actions(command, actions, ACTIONS);
        return CLI_DONE;
    }
    for (size_t i = 0; i < ACTIONS; i++) {
        if (strcmp(word, word_of(&actions[i])) == 0)
            return actions[i].run(&actions[i], argc - 1, argv + 1);
    }
    list_actions(names, sizeof names);
    if (word[0] == '\0' || word[0] == '-')
        return cli_malformed("trace: an action comes first; there are: %s", names);
    return cli_malformed("trace: no action %s; there are: %s", word, names);
}
