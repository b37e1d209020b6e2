/* main.c -- the command: which of its subcommands is meant. */
#include <gsl/gsl_errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "kvt/version.h"

static void print_examples(void)
{
    puts(
        "kvtide: where the KV cache of long-context LLM serving should live\n\n"
        "  kvtide run quickstart                        simulate 60 s of GLM-5.3 at 100K context\n"
        "  kvtide size glm-5.3-100k                     what fits, and what limits it\n"
        "  kvtide compare glm-5.3-100k,residency=hisparse glm-5.3-100k   two policies, one seed\n"
        "  kvtide plan glm-5.3-100k --slo 'mean_tpot_ms<=50' --slo 'mean_ttft_ms<=15000' \\\n"
        "      --maximize workload.concurrency=4:256    the most load within bounds\n"
        "  kvtide list policies -v                      what can be chosen, with its parameters\n\n"
        "kvtide COMMAND --help says more; kvtide --help lists the commands.");
}

static void print_commands(void)
{
    size_t count = 0;
    const struct cli_command *commands = cli_commands(&count);

    puts("usage: kvtide COMMAND [arguments]\n");
    for (size_t i = 0; i < count; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].summary);
    puts("\nExit status: 0 done, 1 the answer is no, 2 malformed question, 3 the machine can't.");
}

static int run_command(int argc, char **argv)
{
    size_t count = 0;
    const struct cli_command *commands = cli_commands(&count);

    if (argc < 2) {
        print_examples();
        return CLI_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_commands();
        return CLI_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("kvtide %s (%s)\n", kvt_version(), kvt_commit());
        return CLI_DONE;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(&commands[i], argc - 1, argv + 1);
    }
    return cli_malformed("no command %s; kvtide --help lists them", argv[1]);
}

int main(int argc, char **argv)
{
    gsl_set_error_handler_off();
    cli_end_on_signals();
    return cli_close(run_command(argc, argv));
}
