/* cli.h -- what the commands share: options by table, exit codes, where data lies. */
#ifndef KVT_CLI_H
#define KVT_CLI_H

#include "kvt/clock.h"
#include "kvt/error.h"
#include "kvt/scenario.h"

/* 0 done, 1 the answer is no, 2 a malformed question, 3 the machine can't. */
enum cli_exit {
    CLI_DONE = 0,
    CLI_NO = 1,
    CLI_MALFORMED = 2,
    CLI_CANNOT = 3
};

enum cli_option_kind {
    CLI_FLAG,       /* bool *            --json */
    CLI_TEXT,       /* const char **     --out DIR; at most once */
    CLI_TEXTS,      /* struct cli_texts *, --set A --set B */
    CLI_PAIRS,      /* struct cli_texts *, --goodput ttft:2000 tpot:50: also the words after the
                     * first that have a ':' */
    CLI_GROUPS,     /* struct cli_texts *, --zip A=1,2 B=3,4: also the words after the first that
                     * have a '='; a NULL behind those of each option */
    CLI_MAYBE_PAIR, /* const char **, --perfetto 10:20: the next word where it has a ':', else "" */
    CLI_COUNT,      /* uint64_t *        --threads 4 */
    CLI_PLUGIN      /* NULL              --plugin FILE.so: loaded at once; repeatable */
};

struct cli_texts {
    const char **items; /* [count] borrowed from argv; the array is the parser's */
    size_t count;
};

struct cli_option {
    const char *name;  /* "--set" */
    const char *value; /* "PATH=VALUE"; NULL for a flag */
    const char *help;
    enum cli_option_kind kind;
    void *target;
};

/* One subcommand: a row of the table in main.c. */
struct cli_command {
    const char *name;
    const char *usage; /* "[SCENARIO] [options]" */
    const char *summary;
    int (*run)(const struct cli_command *command, int argc, char **argv);
};

/* Reads argv[1..argc) against the table. Takes "--name value" and "--name=value";
 * "--" ends the options. An unknown option, a missing or repeated value, or a
 * number of positional arguments outside [min, max] is printed to stderr, with
 * the nearest option's name. Returns true when the command should go on;
 * otherwise *exit_code is its exit status (0 after --help). cli_parsed_free()
 * frees what the lists own in both cases. */
bool cli_parse(const struct cli_command *command, int argc, char **argv,
               const struct cli_option *options, size_t option_count, size_t min_positional,
               size_t max_positional, struct cli_texts *positional, int *exit_code);
void cli_parsed_free(const struct cli_option *options, size_t option_count,
                     struct cli_texts *positional);

/* "2/5" of an option: *shard 1 of 5, counted from 0; text NULL: the only one. Returns CLI_DONE, or
 * prints what is wrong; there are at most so many parts. */
int cli_parse_shard(const char *option, const char *text, uint32_t parts, uint32_t *shard,
                    uint32_t *shards);

/* ---- help.c: options, as --help prints them and as others read them ------------------------- */

/* What --help of a command comes to: printed, or told within cli_help_each(). */
void cli_help(const struct cli_command *command, const struct cli_option *options,
              size_t option_count);
/* The same of a command whose first argument is one of several actions, whose names are the
 * command's, a blank, and the action's. */
void cli_help_actions(const struct cli_command *command, const struct cli_command *actions,
                      size_t action_count);
typedef void cli_help_tell(void *context, const struct cli_command *command,
                           const struct cli_option *options, size_t option_count);
/* Every command with its options, an action as a command of its own behind the one that it
 * belongs to, which is told without options. */
void cli_help_each(cli_help_tell *tell, void *context);

/* commands.c: all of them, in the order of `kvtide --help`. */
const struct cli_command *cli_commands(size_t *count);

/* Prints "kvtide: WHERE: MESSAGE" to stderr and returns the exit status that the
 * error's kind stands for. */
int cli_fail(const struct kvt_error *err);
/* The same for a sentence of the command's own: malformed question. */
int cli_malformed(const char *fmt, ...) KVT_PRINTF(1, 2);

/* CLI_DONE where as many threads as --threads asks for can be had, 1 to `most`; else says of which
 * command that was not so, and is CLI_MALFORMED. */
int cli_check_threads(const char *command, uint64_t threads, unsigned most);
enum {
    CLI_RUN_THREADS_MAX = 1024 /* of one run */
};

/* The last of a command: what it printed is written out, or the status says that it was not. Does
 * not return where a device hangs, which would keep the process from its end. */
int cli_close(int exit_code);

/* The share folder: $KVT_DATA, or beside the executable, or as installed. */
const char *cli_data_dir(void);

/* plugins.c: what can be chosen beside the built-in plug-ins, by the --plugin of this command line;
 * NULL: nothing. Until cli_close(). */
struct kvt_plugins;
const struct kvt_plugins *cli_plugins(void);
/* Loads it, and tries each of its tables a while (contract.h) before anything runs. */
KVT_CHECKED kvt_status cli_plugins_load(const char *path, struct kvt_error *err);
void cli_plugins_free(void);

/* One table of a loaded file tried in a process of its own, with its defaults. */
struct kvt_plugin_table;
struct cli_plugin_tried {
    uint64_t calls; /* made */
    const char
        *missing; /* a parameter that must be given, so that none were; of the table's life */
};
KVT_CHECKED kvt_status cli_plugin_try(const char *path, const struct kvt_plugin_table *table,
                                      uint64_t least_calls, struct cli_plugin_tried *out,
                                      struct kvt_error *err);
/* kvt_plugins_load(), first tried in a process of its own. */
KVT_CHECKED kvt_status cli_plugin_open(struct kvt_plugins *plugins, const char *path,
                                       struct kvt_error *err);
#define CLI_PLUGIN_OPTION                                                                          \
    {                                                                                              \
        "--plugin", "FILE.so", "policies, laws and methods of a shared object; repeatable",        \
            CLI_PLUGIN, NULL                                                                       \
    }

/* cache.c: the folder where what runs prepare is kept: as given, made where it is not there;
 * none (NULL) for "none"; or the user's own, $XDG_CACHE_HOME/kvtide or ~/.cache/kvtide, NULL where
 * there is no such place. Refuses a given one that cannot be used. */
KVT_CHECKED kvt_status cli_cache_dir(const char *given, struct kvt_arena *arena, const char **out,
                                     struct kvt_error *err);
#define CLI_CACHE_HELP "where tapes are kept (~/.cache/kvtide); never changes a result"

/* goodput.c: bounds as vLLM spells them, "ttft:2000" and the like, each word one or several with
 * commas between, as the setting "slo.classes=[...]" of one class. Lives in the arena. */
KVT_CHECKED kvt_status cli_goodput_set(const struct cli_texts *words, struct kvt_arena *arena,
                                       const char **set, struct kvt_error *err);

/* machine.c: as `check --machine` has it, before anything is measured on a GPU; what makes times
 * wrong is told on stderr unless quiet. NULL without CUDA or a GPU, as the backend will say. */
struct cJSON;
KVT_CHECKED kvt_status cli_machine(bool quiet, struct cJSON **out, struct kvt_error *err);

/* guard.c: from here on a crash, or an exit() before cli_guard_end(), is told as the plug-in's:
 * with a sentence and the status of a malformed question. Not in children. */
void cli_guard_plugin(const char *path);
void cli_guard_end(void);
/* For handlers of signals: the process ends here, and no temporary stays. why: what is told; NULL:
 * the signal's name. */
void cli_end_at_once(int signal_number, const char *why);

/* From here on SIGINT, SIGTERM and SIGHUP end the process at once, without a file half written. Of
 * a command that asks cli_interrupted() the first only sets that, from cli_catch_signals() on. */
void cli_end_on_signals(void);
void cli_catch_signals(void);
bool cli_interrupted(void);

/* A bar on a terminal, a line every ten seconds elsewhere, nothing when quiet.
 * fraction outside [0, 1] is shown as "unknown". */
struct cli_progress {
    bool quiet, terminal, shown;
    struct kvt_wall *start;
    double last_s;
};
void cli_progress_begin(struct cli_progress *progress, struct kvt_wall *start, bool quiet);
void cli_progress_show(struct cli_progress *progress, double fraction, const char *what);
void cli_progress_end(struct cli_progress *progress);
/* kvt_sim_options.on_prepare of a command whose context is its progress. */
bool cli_progress_prepare(void *progress, double fraction, const char *what);

enum {
    CLI_COLUMNS = 80
};
/* terminal.c: prints text on stdout from `column` on, broken at blanks, further lines set in to
 * `indent`, with room for a comma behind it; returns the column it ends in. */
int cli_put_wrapped(const char *text, int column, int indent);

/* terminal.c: the line "badge" of a report, on stdout. */
struct kvt_badge;
void cli_print_badge(const struct kvt_badge *badge);

/* advance.c: takes the run to its end, or to a signal: then *interrupted. note() is told now and
 * then how much is done, as kvt_sim_progress() says it. */
struct kvt_sim;
KVT_CHECKED kvt_status cli_advance(struct kvt_sim *sim,
                                   void (*note)(void *context, double done_fraction), void *context,
                                   bool *interrupted, struct kvt_error *err);

/* advance.c: a run that a command makes by itself, from its beginning to its end or to a signal,
 * with one line of progress that calls it `what`. `options` without on_prepare. out->sim is the
 * caller's to free, whatever comes back; out->run is the sim's. */
struct kvt_scenario;
struct kvt_sim_options;
struct kvt_run;
struct cli_run {
    struct kvt_sim *sim;
    const struct kvt_run *run;
    struct kvt_wall start;
    bool interrupted;
};
KVT_CHECKED kvt_status cli_run_whole(const struct kvt_scenario *scenario,
                                     const struct kvt_sim_options *options, const char *what,
                                     bool quiet, struct cli_run *out, struct kvt_error *err);

int kvt_cmd_run(const struct cli_command *command, int argc, char **argv);
int kvt_cmd_size(const struct cli_command *command, int argc, char **argv);
int kvt_cmd_compare(const struct cli_command *command, int argc, char **argv);
int kvt_cmd_plan(const struct cli_command *command, int argc, char **argv);
int kvt_cmd_explain(const struct cli_command *command, int argc, char **argv);
int kvt_cmd_sweep(const struct cli_command *command, int argc, char **argv);
int kvt_cmd_report(const struct cli_command *command, int argc, char **argv);
int kvt_cmd_trace(const struct cli_command *command, int argc, char **argv);
int kvt_cmd_validate(const struct cli_command *command, int argc, char **argv);
int kvt_cmd_paper(const struct cli_command *command, int argc, char **argv);
int kvt_cmd_calibrate(const struct cli_command *command, int argc, char **argv);
int kvt_cmd_list(const struct cli_command *command, int argc, char **argv);
int kvt_cmd_check(const struct cli_command *command, int argc, char **argv);
int kvt_cmd_completion(const struct cli_command *command, int argc, char **argv);

#endif
