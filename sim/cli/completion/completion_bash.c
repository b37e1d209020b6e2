/* completion_bash.c -- for bash: a case for each command, and one for each option's value. */
#include <stdio.h>
#include <string.h>

#include "completion.h"

/* Words are parted by blanks here, not by '=' and ':' as bash does it, so that a key is one word;
 * of what is found, bash wants only what follows the last of those. A key is followed by its '=',
 * and that by what `kvtide list values` has. */
static const char head[] =
    "# bash completion of kvtide, made by `kvtide completion bash`\n"
    "_kvtide_names() {\n"
    "    local end=\n"
    "    [ \"$2\" != settings ] || end='='\n"
    "    \"$1\" list \"$2\" 2>/dev/null |\n"
    "        sed -n \"s/^  \\{0,1\\}\\([^ ][^ ]*\\) .*/\\1$end/p; s/^  \\([^ ][^ "
    "]*\\)\\$/\\1$end/p\"\n"
    "}\n"
    "_kvtide() {\n"
    "    local program line typed cur prev command breaks before\n"
    "    local words= lists= paths=files series=\n"
    "    program=${COMP_WORDS[0]}\n"
    "    line=${COMP_LINE:0:COMP_POINT}\n"
    "    read -ra typed <<<\"$line\"\n"
    "    case $line in *[[:space:]]) typed+=('') ;; esac\n"
    "    cur=${typed[-1]} prev=${typed[-2]} command=${typed[1]} COMPREPLY=()\n"
    "    case $cur in --*=*) prev=${cur%%=*} cur=${cur#*=} ;; esac\n";

/* An action is a command of two words; the first of them is completed by the second. */
static const char choose_command[] =
    "    local name actions=\n"
    "    for name in \"${names[@]}\"; do\n"
    "        if [ ${#typed[@]} -eq 2 ]; then\n"
    "            paths=none words+=\" ${name%% *}\"\n"
    "        elif [ \"$name\" = \"${typed[1]} ${typed[2]}\" ] && [ ${#typed[@]} -gt 3 ]; then\n"
    "            command=$name\n"
    "        elif [ \"${name% *}\" = \"${typed[1]}\" ] && [ \"$name\" != \"${typed[1]}\" ]; then\n"
    "            actions+=\" ${name##* }\"\n"
    "        fi\n"
    "    done\n"
    "    if [ ${#typed[@]} -eq 2 ]; then\n"
    "        words+=' --help --version'\n"
    "    elif [ ${#typed[@]} -eq 3 ] && [ -n \"$actions\" ]; then\n"
    "        paths=none words=\"$actions --help\"\n"
    "    fi\n"
    "    [ -n \"$words\" ] || case \"$command $prev\" in\n";

static const char tail[] =
    "    case $cur in *=*) lists=${lists/settings/values} ;; esac\n"
    "    for name in $lists; do words+=\" $(_kvtide_names \"$program\" \"$name\")\"; done\n"
    "    breaks=${cur%\"${cur##*[=:]}\"}\n"
    "    [ -z \"$series\" ] || before=${cur%\"${cur##*,}\"}\n"
    "    mapfile -t COMPREPLY < <(\n"
    "        { [ -z \"${words// /}\" ] || compgen -W \"$words\" -P \"$before\" -- "
    "\"${cur#\"$before\"}\"\n"
    "          case $paths in\n"
    "          files) compgen -f -- \"$cur\" ;;\n"
    "          folders) compgen -d -- \"$cur\" ;;\n"
    "          esac; } | while IFS= read -r word; do printf '%s\\n' \"${word#\"$breaks\"}\"; "
    "done)\n"
    "    [ $paths = none ] || compopt -o filenames\n"
    "    [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace\n"
    "}\n"
    "complete -F _kvtide kvtide\n";

static void put(const struct completion *what)
{
    if (what->words[0] != '\0')
        printf(" words='%s'", what->words);
    if (what->lists[0] != '\0')
        printf(" lists='%s'", what->lists);
    printf(" paths=%s%s", completion_paths_name(what->paths), what->is_series ? " series=1" : "");
}

/* Behind an option that wants a value, the value. */
static void tell_value(void *context, const struct cli_command *command,
                       const struct cli_option *options, size_t option_count)
{
    (void)context;
    for (size_t i = 0; i < option_count; i++) {
        if (!options[i].value || options[i].kind == CLI_MAYBE_PAIR)
            continue;
        struct completion what = completion_of_option(&options[i]);
        printf("    '%s %s')", command->name, options[i].name);
        put(&what);
        printf(" ;;\n");
    }
}

/* Elsewhere the options, or what the command takes. */
static void tell_words(void *context, const struct cli_command *command,
                       const struct cli_option *options, size_t option_count)
{
    struct completion what = completion_of_command(command);

    (void)context;
    printf("    '%s')\n        case $cur in\n        -*) paths=none words='--help", command->name);
    for (size_t i = 0; i < option_count; i++)
        printf(" %s", options[i].name);
    printf("' ;;\n        *)");
    put(&what);
    printf(" ;;\n        esac ;;\n");
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
