/* child.h -- another program, given a text and asked for one. */
#ifndef KVT_CLI_REPORT_CHILD_H
#define KVT_CLI_REPORT_CHILD_H

#include <stddef.h>
#include <stdio.h>

#include "kvt/error.h"

/* Runs argv[0] of PATH with `input`, read from its start, as standard input, to its end. *out is
 * all that it printed, NUL-terminated, the caller's to free(). KVT_ERR_NOT_FOUND: there is no such
 * program, and the message names the Debian package; KVT_ERR_UNSUPPORTED: it ended otherwise than
 * well, with what it said first on standard error. */
KVT_CHECKED kvt_status child_run(const char *const *argv, const char *package, FILE *input,
                                 char **out, size_t *out_bytes, struct kvt_error *err);

#endif
