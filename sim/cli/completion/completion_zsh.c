/* completion_zsh.c -- for zsh: _arguments of each command. */
#include <stdio.h>
#include <string.h>

#include "completion.h"

/* What _arguments reads in brackets and quotes is written so that it does not end them. */
static void put_text(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr("[]:\\", *text) != NULL)
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

static void put_action(const struct completion *what)
{
    printf("{%s_kvtide_value \"%s\" %s%s%s}", what->is_series ? "compset -P \"*,\"; " : "",
           what->words, completion_paths_name(what->paths), what->lists[0] != '\0' ? " " : "",
           what->lists);
}

static void put_option(const struct cli_option *option)
{
    bool may_lack_value = option->kind == CLI_MAYBE_PAIR;
    bool repeats = option->kind != CLI_TEXT && option->kind != CLI_FLAG && !may_lack_value;

    printf("            '%s%s[", repeats ? "*" : "", option->name);
    put_text(option->help);
    putchar(']');
    if (option->value) {
        fputs(may_lack_value ? "::" : ":", stdout);
        put_text(option->value);
        putchar(':');
        struct completion what = completion_of_option(option);
        if (!completion_is_nothing(&what))
            put_action(&what);
    }
    printf("' \\\n");
}

static void tell_case(void *context, const struct cli_command *command,
                      const struct cli_option *options, size_t option_count)
{
    struct completion what = completion_of_command(command);

    (void)context;
    printf(
        "    ('%s')\n        _arguments \\\n            '(-h --help)'{-h,--help}'[says more]' \\\n",
        command->name);
    for (size_t i = 0; i < option_count; i++)
        put_option(&options[i]);
    printf("            '*:");
    put_text(command->usage);
    putchar(':');
    if (completion_is_nothing(&what))
        what.paths = COMPLETION_FILES;
    put_action(&what);
    printf("' ;;\n");
}

static void tell_name(void *context, const struct cli_command *command,
                      const struct cli_option *options, size_t option_count)
{
    (void)context;
    (void)options;
    (void)option_count;
    printf("        '%s:", command->name);
    put_text(command->summary);
    printf("'\n");
}

/* _kvtide_value WORDS PATHS LIST..: one of these; a key of settings is followed by its '=', and
 * that by what `kvtide list values` has. */
static const char head[] =
    "#compdef kvtide\n"
    "# zsh completion of kvtide, made by `kvtide completion zsh`\n"
    "_kvtide_value() {\n"
    "    local words=$1 paths=$2 list name found=1\n"
    "    local -a names suffix\n"
    "    shift 2\n"
    "    [[ -z $words ]] || compadd \"$expl[@]\" -- ${=words} && found=0\n"
    "    for list; do\n"
    "        [[ $list != settings || $PREFIX != *=* ]] || list=values\n"
    "        names=() suffix=()\n"
    "        for name in ${(f)\"$(_call_program names kvtide list $list 2>/dev/null)\"}; do\n"
    "            case $name in\n"
    "            ('   '*) ;;\n"
    "            (*) names+=(${${=name}[1]}) ;;\n"
    "            esac\n"
    "        done\n"
    "        [[ $list != settings ]] || suffix=(-S =)\n"
    "        compadd \"$expl[@]\" $suffix -a names && found=0\n"
    "    done\n"
    "    case $paths in\n"
    "    (files) _files && found=0 ;;\n"
    "    (folders) _files -/ && found=0 ;;\n"
    "    esac\n"
    "    return found\n"
    "}\n"
    "_kvtide() {\n"
    "    local command name\n"
    "    local -a names firsts seconds\n"
    "    names=(\n";

static const char choose_command[] =
    "    )\n"
    "    for name in $names; do\n"
    "        if [[ ${name%%:*} == *' '* ]]; then\n"
    "            [[ ${name%% *} != $words[2] ]] || seconds+=(${name#* })\n"
    "        else\n"
    "            firsts+=($name)\n"
    "        fi\n"
    "    done\n"
    "    if (( CURRENT == 2 )); then\n"
    "        _describe command firsts\n"
    "        return\n"
    "    fi\n"
    "    if (( CURRENT == 3 && $#seconds )); then\n"
    "        _describe action seconds\n"
    "        return\n"
    "    fi\n"
    "    command=$words[2]\n"
    "    shift words\n"
    "    (( CURRENT-- ))\n"
    "    if (( $#seconds )); then\n"
    "        command=\"$command $words[2]\"\n"
    "        shift words\n"
    "        (( CURRENT-- ))\n"
    "    fi\n"
    "    case $command in\n";

void completion_zsh(void)
{
    fputs(head, stdout);
    cli_help_each(tell_name, NULL);
    fputs(choose_command, stdout);
    cli_help_each(tell_case, NULL);
    printf("    esac\n}\n_kvtide \"$@\"\n");
}
