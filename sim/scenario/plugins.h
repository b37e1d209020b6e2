/* plugins.h -- what can be chosen, and what its parts say of a kind. */
#ifndef KVT_SCENARIO_PLUGINS_H
#define KVT_SCENARIO_PLUGINS_H

#include "kvt/plugins.h"

enum {
    KVT_PLUGIN_FILES_MAX = 64
};

/* Of one kind: built-in tables and loaded ones. */
struct kvt_plugins_list {
    const struct kvt_plugin_info **items; /* [count]; NULL: nothing of the kind was loaded */
    size_t count;
};

/* What a loaded file consists of, to be given back. */
struct kvt_plugin_parts {
    void *handle; /* of the loader */
    char *path;
    struct kvt_plugin_table *tables; /* [table_count] */
    struct kvt_plugin_info **infos;  /* [table_count], each of its kind's size; NULL: none yet */
    size_t table_count;
};

struct kvt_plugins {
    struct kvt_plugins_list lists[KVT_PLUGIN_KINDS];
    struct kvt_plugin_file files[KVT_PLUGIN_FILES_MAX];
    struct kvt_plugin_parts parts[KVT_PLUGIN_FILES_MAX]; /* of files[] */
    size_t file_count;
};

const struct kvt_plugin_info *const *kvt_plugins_built_in(enum kvt_plugin_kind kind, size_t *count);

/* What one plug-in of the kind is called in a sentence: "residency policy". */
const char *kvt_plugin_noun(enum kvt_plugin_kind kind);

/* Whether shared objects bring tables of the kind. */
bool kvt_plugin_is_loadable(enum kvt_plugin_kind kind);

/* Is the table whole: its name, its parameters and every member that is not optional? where names
 * the file. A table built before members were appended is taken: *table_bytes is what one of this
 * version takes. */
KVT_CHECKED kvt_status kvt_plugin_table_check(const struct kvt_plugin_table *table,
                                              const char *where, size_t *table_bytes,
                                              struct kvt_error *err);

#endif
