/* options.c -- command lines read against a table. */
#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kvt/file.h"

/* The driver's own end of a process waits for a kernel that never ends. */
static bool device_hangs;

int cli_fail(const struct kvt_error *err)
{
    device_hangs = device_hangs || err->status == KVT_ERR_HUNG;
    if (err->where[0])
        fprintf(stderr, "kvtide: %s: %s\n", err->where, err->message);
    else
        fprintf(stderr, "kvtide: %s\n", err->message);
    switch (err->status) {
    case KVT_ERR_STALLED:
    case KVT_ERR_INTERRUPTED:
        return CLI_NO;
    case KVT_ERR_NOMEM:
    case KVT_ERR_DEVICE:
    case KVT_ERR_HUNG:
    case KVT_ERR_SYSTEM:
    case KVT_ERR_INTERNAL:
        return CLI_CANNOT;
    default:
        return CLI_MALFORMED;
    }
}

/* What a command printed must have arrived: a full disk or a closed stream behind stdout is no
 * success. */
int cli_close(int exit_code)
{
    bool failed = ferror(stdout) != 0;

    cli_plugins_free();
    if ((fflush(stdout) != 0 || failed) && exit_code == CLI_DONE) {
        fputs("kvtide: standard output: not everything could be written\n", stderr);
        exit_code = CLI_CANNOT;
    }
    if (device_hangs) {
        (void)fflush(NULL);
        _exit(exit_code);
    }
    return exit_code;
}

int cli_malformed(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("kvtide: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    return CLI_MALFORMED;
}

int cli_check_threads(const char *command, uint64_t threads, unsigned most)
{
    if (threads >= 1 && threads <= most)
        return CLI_DONE;
    return cli_malformed("%s --threads: found %llu, expected 1 to %u", command,
                         (unsigned long long)threads, most);
}

/* How many letters at the start two names share: enough to guess a typo. */
static size_t common_prefix(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

static void complain_unknown(const struct cli_command *command, const char *name,
                             const struct cli_option *options, size_t option_count)
{
    const char *nearest = NULL;
    size_t best = 3;
    for (size_t i = 0; i < option_count; i++) {
        size_t shared = common_prefix(options[i].name, name);
        if (shared > best) {
            best = shared;
            nearest = options[i].name;
        }
    }
    if (nearest)
        cli_malformed("%s: no option %s; did you mean %s?", command->name, name, nearest);
    else
        cli_malformed("%s: no option %s; kvtide %s --help lists them", command->name, name,
                      command->name);
}

static bool append(struct cli_texts *texts, const char *text, int argc)
{
    if (!texts->items) /* an argument each, and a NULL behind it */
        texts->items = malloc(2 * (size_t)argc * sizeof *texts->items);
    if (!texts->items)
        return false;
    texts->items[texts->count++] = text;
    return true;
}

/* One option and its value; false when the command must end with *exit_code. */
static bool store(const struct cli_command *command, const struct cli_option *option,
                  const char *value, int argc, int *exit_code)
{
    struct kvt_error err;
    char where[64];

    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)option->target = true;
        return true;
    case CLI_TEXT:
    case CLI_MAYBE_PAIR:
        if (*(const char **)option->target) {
            *exit_code = cli_malformed("%s: %s is given twice", command->name, option->name);
            return false;
        }
        *(const char **)option->target = value;
        return true;
    case CLI_TEXTS:
    case CLI_PAIRS:
    case CLI_GROUPS:
        if (append(option->target, value, argc))
            return true;
        *exit_code = CLI_CANNOT;
        return false;
    case CLI_PLUGIN:
        if (value[0] == '\0') {
            cli_malformed("%s: %s wants a value: %s %s", command->name, option->name, option->name,
                          option->value);
            return false;
        }
        if (cli_plugins_load(value, &err) == KVT_OK)
            return true;
        *exit_code = cli_fail(&err);
        return false;
    case CLI_COUNT:
        snprintf(where, sizeof where, "%s %s", command->name, option->name);
        if (kvt_text_count(value, where, UINT64_C(1) << 53, option->target, &err) == KVT_OK)
            return true;
        *exit_code = cli_fail(&err);
        return false;
    }
    return false;
}

/* Does arg belong to the option whose value stands before it? */
static bool goes_on(const struct cli_option *option, const char *arg)
{
    bool is_pair = option->kind == CLI_PAIRS || option->kind == CLI_MAYBE_PAIR;
    int mark = is_pair ? ':' : option->kind == CLI_GROUPS ? '=' : '\0';

    return mark != '\0' && arg[0] != '-' && strchr(arg, mark) != NULL;
}

static const struct cli_option *find(const struct cli_option *options, size_t option_count,
                                     const char *arg, size_t name_length)
{
    for (size_t i = 0; i < option_count; i++) {
        if (strlen(options[i].name) == name_length &&
            memcmp(options[i].name, arg, name_length) == 0)
            return &options[i];
    }
    return NULL;
}

/* Where the value of an option stands: behind its '=', or in the next argument, which is taken.
 * NULL: a flag's. False when there is one too many, or none. */
static bool find_value(const struct cli_command *command, const struct cli_option *option, int argc,
                       char **argv, int *at, const char **value)
{
    const char *equals = strchr(argv[*at], '=');

    *value = NULL;
    if (option->kind == CLI_FLAG && equals != NULL) {
        cli_malformed("%s: %s takes no value", command->name, option->name);
        return false;
    }
    if (option->kind == CLI_FLAG)
        return true;
    if (equals != NULL)
        *value = equals + 1;
    else if (option->kind == CLI_MAYBE_PAIR)
        *value = *at + 1 < argc && goes_on(option, argv[*at + 1]) ? argv[++*at] : "";
    else if (*at + 1 < argc)
        *value = argv[++*at];
    if (*value == NULL)
        cli_malformed("%s: %s wants a value: %s %s", command->name, option->name, option->name,
                      option->value);
    return *value != NULL;
}

/* The option that stands at argv[*at], its value, and what goes on behind it; *at is the last that
 * was taken. False when the command must end with *exit_code. */
static bool take_option(const struct cli_command *command, int argc, char **argv,
                        const struct cli_option *options, size_t option_count, int *at,
                        int *exit_code)
{
    const char *arg = argv[*at];
    const struct cli_option *option = find(options, option_count, arg, strcspn(arg, "="));
    const char *value = NULL;

    if (!option) {
        complain_unknown(command, arg, options, option_count);
        return false;
    }
    if (!find_value(command, option, argc, argv, at, &value) ||
        !store(command, option, value, argc, exit_code))
        return false;
    while (option->kind != CLI_MAYBE_PAIR && *at + 1 < argc && goes_on(option, argv[*at + 1])) {
        if (!store(command, option, argv[++*at], argc, exit_code))
            return false;
    }
    if (option->kind == CLI_GROUPS && !append(option->target, NULL, argc)) {
        *exit_code = CLI_CANNOT;
        return false;
    }
    return true;
}

bool cli_parse(const struct cli_command *command, int argc, char **argv,
               const struct cli_option *options, size_t option_count, size_t min_positional,
               size_t max_positional, struct cli_texts *positional, int *exit_code)
{
    bool options_ended = false;

    *positional = (struct cli_texts){0};
    *exit_code = CLI_MALFORMED;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (options_ended || arg[0] != '-' || arg[1] == '\0') {
            if (!append(positional, arg, argc)) {
                *exit_code = CLI_CANNOT;
                return false;
            }
        } else if (strcmp(arg, "--") == 0) {
            options_ended = true;
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            cli_help(command, options, option_count);
            *exit_code = CLI_DONE;
            return false;
        } else if (!take_option(command, argc, argv, options, option_count, &i, exit_code)) {
            return false;
        }
    }
    if (positional->count < min_positional || positional->count > max_positional) {
        cli_malformed("%s: %zu arguments given; usage: kvtide %s %s", command->name,
                      positional->count, command->name, command->usage);
        return false;
    }
    return true;
}

void cli_parsed_free(const struct cli_option *options, size_t option_count,
                     struct cli_texts *positional)
{
    for (size_t i = 0; i < option_count; i++) {
        if (options[i].kind == CLI_TEXTS || options[i].kind == CLI_PAIRS ||
            options[i].kind == CLI_GROUPS) {
            struct cli_texts *texts = options[i].target;
            free(texts->items);
            *texts = (struct cli_texts){0};
        }
    }
    free(positional->items);
    *positional = (struct cli_texts){0};
}

/* Digits only, so that " 1" and "+1" are no numbers; moves on behind them. */
static bool read_number(const char **text, uint32_t *number)
{
    size_t digits = strspn(*text, "0123456789");

    if (digits == 0 || digits > 3)
        return false;
    *number = (uint32_t)strtoul(*text, NULL, 10);
    *text += digits;
    return true;
}

int cli_parse_shard(const char *option, const char *text, uint32_t parts, uint32_t *shard,
                    uint32_t *shards)
{
    const char *at = text;
    uint32_t i = 1, n = 1;

    if (text && (!read_number(&at, &i) || *at++ != '/' || !read_number(&at, &n) || *at != '\0' ||
                 i < 1 || i > n))
        return cli_malformed("%s: found \"%s\", expected I/N with I from 1 to N", option, text);
    if (n > parts)
        return cli_malformed("%s: found \"%s\", but the grid has %u parts", option, text, parts);
    *shard = i - 1;
    *shards = n;
    return CLI_DONE;
}
