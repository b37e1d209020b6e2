/* completion.h -- what stands for a word of a command line, and who writes it for which shell. */
#ifndef KVT_CLI_COMPLETION_H
#define KVT_CLI_COMPLETION_H

#include "../cli.h"

/* What a value can be, judged by how the usage writes it. */
enum completion_kind {
    COMPLETION_NOTHING,  /* a number, a text of one's own */
    COMPLETION_CHOICES,  /* "exact|sampled|analytic" */
    COMPLETION_DIR,      /* "DIR", "DIR|none" */
    COMPLETION_FILE,     /* "FILE..", "OUT.kvsel" */
    COMPLETION_KEY,      /* "PATH=VALUE" */
    COMPLETION_METRIC,   /* "NAME" of --metric, "METRIC<RATIO" */
    COMPLETION_SCENARIO, /* "SCENARIO": a shipped one, or a file */
    COMPLETION_LISTED    /* "WHAT": what `kvtide list` lists */
};
enum completion_kind completion_of_option(const struct cli_option *option);
enum completion_kind completion_of_command(const struct cli_command *command);

/* "trace merge" is an action: of "trace", whose length is returned; 0: of none. */
size_t completion_is_action(const struct cli_command *command);

/* What the program itself says they are, as a command line. NULL: no list of its. */
const char *completion_source(enum completion_kind kind);

/* completion_bash.c and so on: the whole script, on stdout. */
void completion_bash(void);
void completion_zsh(void);
void completion_fish(void);
/* completion_mdoc.c: for docs/man/kvtide.1.in, all commands as subsections. */
void completion_mdoc(void);

#endif
