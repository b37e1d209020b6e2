/* completion.h -- what stands for a word of a command line, and who writes it for which shell. */
#ifndef KVT_CLI_COMPLETION_H
#define KVT_CLI_COMPLETION_H

#include "../cli.h"

enum completion_paths {
    COMPLETION_NO_PATHS,
    COMPLETION_FOLDERS,
    COMPLETION_FILES
};

enum {
    COMPLETION_WORDS_BYTES = 320,
    COMPLETION_LISTS_BYTES = 64
};

/* What a value can be: any of these, by how the usage writes it. */
struct completion {
    char words[COMPLETION_WORDS_BYTES]; /* "exact sampled analytic", of "exact|sampled|analytic" */
    char lists[COMPLETION_LISTS_BYTES]; /* "settings metrics": what `kvtide list` has names of */
    enum completion_paths paths;
    bool is_series; /* several, with commas between */
};
struct completion completion_of_option(const struct cli_option *option);
/* Of what a command takes beside options. */
struct completion completion_of_command(const struct cli_command *command);
bool completion_is_nothing(const struct completion *what);
/* "none", "folders" or "files": as the scripts name them. */
const char *completion_paths_name(enum completion_paths paths);

/* "trace merge" is an action: of "trace", whose length is returned; 0: of none. */
size_t completion_is_action(const struct cli_command *command);

/* completion_bash.c and so on: the whole script, on stdout. */
void completion_bash(void);
void completion_zsh(void);
void completion_fish(void);
/* completion_mdoc.c: for docs/man/kvtide.1.in, all commands as subsections. */
void completion_mdoc(void);

#endif
