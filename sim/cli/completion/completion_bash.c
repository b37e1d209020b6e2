/* completion_bash.c -- for bash: a case for each command, and one for each option's value. */
#include <stdio.h>
#include <string.h>

#include "completion.h"

/* Words are parted by blanks here, not by '=' and ':' as bash does it, so that a key is one word;
 * of what is found, bash wants only what follows the last of those. */
static const char head[] =
    "# bash completion of kvtide, made by `kvtide completion bash`\n"
    "_kvtide_names() {\n"
    "    \"$@\" 2>/dev/null | sed -n 's/^  \\{0,1\\}\\([^ ][^ ]*\\) .*/\\1/p; s/^  \\([^ ][^ "
    "]*\\)$/\\1/p'\n"
    "}\n"
    "_kvtide() {\n"
    "    local program line words cur prev command breaks kind=files choices= suffix=\n"
    "    program=${COMP_WORDS[0]}\n"
    "    line=${COMP_LINE:0:COMP_POINT}\n"
    "    read -ra words <<<\"$line\"\n"
    "    case $line in *[[:space:]]) words+=('') ;; esac\n"
    "    cur=${words[-1]} prev=${words[-2]} command=${words[1]} COMPREPLY=()\n";

/* An action is a command of two words; the first of them is completed by the second. */
static const char choose_command[] =
    "    local name actions=\n"
    "    for name in \"${names[@]}\"; do\n"
    "        if [ ${#words[@]} -eq 2 ]; then\n"
    "            kind=choices choices+=\" ${name%% *}\"\n"
    "        elif [ \"$name\" = \"${words[1]} ${words[2]}\" ] && [ ${#words[@]} -gt 3 ]; then\n"
    "            command=$name\n"
    "        elif [ \"${name% *}\" = \"${words[1]}\" ] && [ \"$name\" != \"${words[1]}\" ]; then\n"
    "            actions+=\" ${name##* }\"\n"
    "        fi\n"
    "    done\n"
    "    if [ ${#words[@]} -eq 2 ]; then\n"
    "        choices+=' --help --version'\n"
    "    elif [ ${#words[@]} -eq 3 ] && [ -n \"$actions\" ]; then\n"
    "        kind=choices choices=\"$actions --help\"\n"
    "    fi\n"
    "    [ \"$kind\" = choices ] || case \"$command $prev\" in\n";

static const char tail[] =
    "    case $kind in\n"
    "    choices) ;;\n"
    "    keys) choices=$(_kvtide_names \"$program\" list settings) suffix== ;;\n"
    "    metrics) choices=$(_kvtide_names \"$program\" list metrics) ;;\n"
    "    scenarios) choices=$(_kvtide_names \"$program\" list scenarios) ;;\n"
    "    listed) choices=$(\"$program\" list 2>/dev/null | sed -n 's/^\\([a-z][^ ]*\\) .*/\\1/p') "
    ";;\n"
    "    esac\n"
    "    breaks=${cur%\"${cur##*[=:]}\"}\n"
    "    mapfile -t COMPREPLY < <(\n"
    "        { [ -z \"$choices\" ] || compgen -W \"$choices\" -S \"$suffix\" -- \"$cur\"\n"
    "          case $kind in\n"
    "          files | scenarios) compgen -f -- \"$cur\" ;;\n"
    "          dirs) compgen -d -- \"$cur\" ;;\n"
    "          esac; } | while IFS= read -r word; do printf '%s\\n' \"${word#\"$breaks\"}\"; "
    "done)\n"
    "    case $kind in\n"
    "    files | dirs | scenarios) compopt -o filenames ;;\n"
    "    keys) compopt -o nospace ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _kvtide kvtide\n";

static const char *word_for(enum completion_kind kind)
{
    switch (kind) {
    case COMPLETION_NOTHING:
        return "nothing";
    case COMPLETION_CHOICES:
        return "choices";
    case COMPLETION_DIR:
        return "dirs";
    case COMPLETION_FILE:
        return "files";
    case COMPLETION_KEY:
        return "keys";
    case COMPLETION_METRIC:
        return "metrics";
    case COMPLETION_SCENARIO:
        return "scenarios";
    case COMPLETION_LISTED:
        return "listed";
    }
    return "nothing";
}

static void put_choices(const char *value)
{
    for (; *value != '\0'; value++)
        putchar(*value == '|' ? ' ' : *value);
}

static void put_value(const char *command, const struct cli_option *option)
{
    enum completion_kind kind = completion_of_option(option);

    printf("    '%s %s') kind=%s", command, option->name, word_for(kind));
    if (kind == COMPLETION_CHOICES) {
        printf(" choices='");
        put_choices(option->value);
        putchar('\'');
    }
    printf(" ;;\n");
}

/* Behind an option that wants a value, the value. */
static void tell_value(void *context, const struct cli_command *command,
                       const struct cli_option *options, size_t option_count)
{
    (void)context;
    for (size_t i = 0; i < option_count; i++) {
        if (options[i].value && options[i].kind != CLI_MAYBE_PAIR)
            put_value(command->name, &options[i]);
    }
}

/* Elsewhere the options, or what the command takes. */
static void tell_words(void *context, const struct cli_command *command,
                       const struct cli_option *options, size_t option_count)
{
    enum completion_kind kind = completion_of_command(command);

    (void)context;
    printf("    '%s')\n        kind=%s\n", command->name, word_for(kind));
    if (kind == COMPLETION_CHOICES) {
        printf("        choices='");
        put_choices(command->usage);
        printf("'\n");
    }
    printf("        case $cur in -*) kind=choices choices='--help");
    for (size_t i = 0; i < option_count; i++)
        printf(" %s", options[i].name);
    printf("' ;; esac ;;\n");
}

static void tell_name(void *context, const struct cli_command *command,
                      const struct cli_option *options, size_t option_count)
{
    (void)context;
    (void)options;
    (void)option_count;
    printf(" '%s'", command->name);
}

void completion_bash(void)
{
    fputs(head, stdout);
    printf("    local names=(");
    cli_help_each(tell_name, NULL);
    printf(")\n");
    fputs(choose_command, stdout);
    cli_help_each(tell_value, NULL);
    printf("    *) case $command in\n");
    cli_help_each(tell_words, NULL);
    printf("    esac ;;\n    esac\n");
    fputs(tail, stdout);
}
