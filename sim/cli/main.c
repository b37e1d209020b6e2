/* main.c -- the command: a table of subcommands. */
#include <gsl/gsl_errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "kvt/version.h"

static const struct cli_command commands[] = {
    {"run", "[SCENARIO|RESULT.json] [options]", "Runs a scenario and reports on it.", kvt_cmd_run},
    {"size", "SCENARIO [options]", "Static bytes: what fits, what limits it, host DRAM per node.",
     kvt_cmd_size},
    {"compare", "A[,PATH=VALUE..] B[,PATH=VALUE..].. [options]",
     "Runs scenarios on the same seeds; ratios to the first.", kvt_cmd_compare},
    {"report", "DIR|FILE [options]",
     "The page of an answer in a folder, its charts as vector files, its table.", kvt_cmd_report},
    {"trace", "ACTION FILE.. [options]",
     "Reads, counts and converts traces of requests, and selections.", kvt_cmd_trace},
    {"validate",
     "[SCENARIO..] [--suite decisions|time|fidelity|public] [--measured FILE..] [options]",
     "A GPU or an engine's own figures against the simulator; levels of fidelity against exact.",
     kvt_cmd_validate},
    {"paper", "[--only ID].. [options]",
     "The reference paper's statements beside what comes out here.", kvt_cmd_paper},
    {"calibrate", "--from FILE.. --scenario SCENARIO [options]",
     "Step times out of vLLM's or SGLang's own benchmarks: a profile.", kvt_cmd_calibrate},
    {"list", "[WHAT] [options]", "Models, hardware, policies, laws, scenarios, metrics, keys.",
     kvt_cmd_list},
    {"check", "FILE.. | SCENARIO --print [options]",
     "Checks input files and plug-ins; prints the scenario in force.", kvt_cmd_check},
};
enum {
    COMMANDS = sizeof commands / sizeof commands[0]
};

/* Commands of the design that this version does not have, so that asking for one
 * gets an answer and not a shrug. */
static const char *const later[] = {"sweep", "plan", "explain"};

static void print_examples(void)
{
    puts(
        "kvtide: where the KV cache of long-context LLM serving should live\n\n"
        "  kvtide run quickstart                        simulate 60 s of GLM-5.3 at 100K context\n"
        "  kvtide size glm-5.3-100k                     what fits, and what limits it\n"
        "  kvtide compare glm-5.3-100k,residency=hisparse glm-5.3-100k   two policies, one seed\n"
        "  kvtide trace stats FILE                      what a request trace holds\n"
        "  kvtide list policies -v                      what can be chosen, with its parameters\n\n"
        "kvtide COMMAND --help says more; kvtide --help lists the commands.");
}

static void print_commands(void)
{
    puts("usage: kvtide COMMAND [arguments]\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-9s %s\n", commands[i].name, commands[i].summary);
    puts("\nExit status: 0 done, 1 the answer is no, 2 malformed question, 3 the machine can't.");
}

static int run_command(int argc, char **argv)
{
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
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(&commands[i], argc - 1, argv + 1);
    }
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        if (strcmp(argv[1], later[i]) == 0)
            return cli_malformed("%s: this version of kvtide does not have it yet", argv[1]);
    }
    return cli_malformed("no command %s; kvtide --help lists them", argv[1]);
}

int main(int argc, char **argv)
{
    gsl_set_error_handler_off();
    return cli_close(run_command(argc, argv));
}
