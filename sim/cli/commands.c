/* commands.c -- the table of subcommands. */
#include "cli.h"

static const struct cli_command commands[] = {
    {"run", "[SCENARIO|RESULT.json] [options]", "Runs a scenario and reports on it.", kvt_cmd_run},
    {"size", "SCENARIO [options] | --from-log FILE [-- FLAGS..]",
     "Static bytes: what fits, what limits it, host DRAM per node.", kvt_cmd_size},
    {"compare", "A[,PATH=VALUE..] B[,PATH=VALUE..].. [options]",
     "Runs scenarios on the same seeds; ratios to the first.", kvt_cmd_compare},
    {"plan", "SCENARIO --slo 'METRIC<=LIMIT'.. --maximize PATH=LOW:HIGH [options]",
     "The most, or the least, of something that still holds some bounds; choices side by side.",
     kvt_cmd_plan},
    {"explain", "RESULT.json [OTHER.json] [options]",
     "Where a run's time and bytes went, what binds and what would next; or how two differ.",
     kvt_cmd_explain},
    {"sweep", "[SCENARIO] --vary PATH=V1,V2,.. --out DIR [options] | --merge DIR.. --out DIR",
     "Runs many points of a scenario, on threads, machines and shards.", kvt_cmd_sweep},
    {"report", "DIR|FILE [options]",
     "The page of an answer in a folder, its charts as vector files, its table.", kvt_cmd_report},
    {"trace", "ACTION FILE.. [options]",
     "Reads, counts and converts traces of requests, and selections.", kvt_cmd_trace},
    {"validate",
     "[SCENARIO..] [--suite decisions|time|fidelity|public] [--measured FILE..] [options]",
     "A GPU or an engine's own figures against the simulator; levels of fidelity against exact.",
     kvt_cmd_validate},
    {"paper", "[--only TARGET].. [options]",
     "The reference paper's statements beside what comes out here.", kvt_cmd_paper},
    {"calibrate", "--from FILE.. --scenario SCENARIO [options]",
     "Step times out of vLLM's or SGLang's own benchmarks: a profile.", kvt_cmd_calibrate},
    {"list", "[WHAT] [options]", "Models, hardware, policies, laws, scenarios, metrics, keys.",
     kvt_cmd_list},
    {"check", "FILE.. | SCENARIO --print [options] | --engine E -- FLAGS..",
     "Checks input files and plug-ins; prints the scenario in force.", kvt_cmd_check},
    {"completion", "bash|zsh|fish|mdoc",
     "What a shell completes of all this; mdoc: the options, for the manual.", kvt_cmd_completion},
};

const struct cli_command *cli_commands(size_t *count)
{
    *count = sizeof commands / sizeof commands[0];
    return commands;
}
