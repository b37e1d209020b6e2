/* check.h -- what one input file is, by its content, and whether it is sound. */
#ifndef KVT_CLI_CHECK_H
#define KVT_CLI_CHECK_H

#include "kvt/error.h"

struct cJSON;

/* What `check` says of a file. */
struct checked_file {
    const char *file; /* borrowed */
    const char *noun; /* "scenario", "trace", ...; NULL where that could not be told */
    char detail[48];  /* a trace's format; else empty */
    kvt_status status;
    struct kvt_error err; /* when status is not KVT_OK */
};

/* file: a path, or the name of a shipped scenario where no such file exists. */
void check_file(const char *file, struct checked_file *out);

/* `check --machine`; its exit status. */
int check_machine(bool json);

/* The tree as it goes to standard output. */
kvt_status check_print_tree(const struct cJSON *tree, struct kvt_error *err);

#endif
