/* trace.h -- the actions of kvtide trace, one file each, and what they share. */
#ifndef KVT_CLI_TRACE_H
#define KVT_CLI_TRACE_H

#include "../cli.h"

/* Each is told as struct cli_command has it, behind the name of the action. */
int trace_stats(const struct cli_command *command, int argc, char **argv);
int trace_convert(const struct cli_command *command, int argc, char **argv);
int trace_record(const struct cli_command *command, int argc, char **argv);
int trace_replay(const struct cli_command *command, int argc, char **argv);
int trace_merge(const struct cli_command *command, int argc, char **argv);
int trace_mrc(const struct cli_command *command, int argc, char **argv);

/* A count that no option has set. */
#define TRACE_NOT_GIVEN UINT64_MAX

enum trace_kind {
    TRACE_REQUESTS, /* whatever is none of the others */
    TRACE_KVSEL,
    TRACE_NPY,
    TRACE_ROWS /* selections as CSV (trace_rows.h) */
};
/* By the file's first bytes; fails where there are none to be read. */
KVT_CHECKED kvt_status trace_kind_of(const char *path, enum trace_kind *out, struct kvt_error *err);

bool trace_ends_with(const char *path, const char *ending);
/* Refuses an action's --to that is NULL, or whose name is not one of recordings. */
int trace_check_kvsel(const char *action, const char *to);

#endif
