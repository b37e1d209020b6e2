/* check.h -- what one input file is, by its content, and whether it is sound. */
#ifndef KVT_CLI_CHECK_H
#define KVT_CLI_CHECK_H

#include "kvt/plugin.h"

struct cJSON;

/* What it says of one table of a plug-in. */
struct checked_table {
    const char *kind;
    char name[48];
    char missing[48]; /* a parameter that must be given, so that it was not played; else empty */
    uint64_t calls;
    kvt_status status;
    struct kvt_error err;
};

/* What `check` says of a file. */
struct checked_file {
    const char *file; /* borrowed */
    const char *noun; /* "scenario", "trace", ...; NULL where that could not be told */
    char detail[48];  /* a trace's format; else empty */
    kvt_status status;
    struct kvt_error err; /* when status is not KVT_OK: of a plug-in, that of the first table */
    struct checked_table *tables; /* [table_count] of a plug-in, else NULL; check_file_free() */
    size_t table_count;
};

/* file: a path, or the name of a shipped scenario where no such file exists. */
void check_file(const char *file, struct checked_file *out);
void check_file_free(struct checked_file *checked);

/* check_plugin.c: a shared object, every table of which is played. */
bool check_is_plugin(const char *path);
kvt_status check_plugin(const char *path, struct checked_file *out);
void check_print_tables(const struct checked_file *checked);

/* `check --machine`; its exit status. */
int check_machine(bool json);

/* The tree as it goes to standard output. */
kvt_status check_print_tree(const struct cJSON *tree, struct kvt_error *err);

#endif
