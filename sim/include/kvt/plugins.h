/* kvt/plugins.h -- plug-ins out of shared objects, beside the built-in ones.
 *
 * A shared object exports kvt_plugin_entry() (kvt/plugin.h), and its tables are then chosen by name
 * as built-in ones are. It is trusted as code is: what is checked is that it was built for this
 * ABI, that its tables are whole, and at every call what it decides (kvt/resolver.h, kvt/rank.h).
 */
#ifndef KVT_PLUGINS_H
#define KVT_PLUGINS_H

#include "kvt/arena.h"
#include "kvt/plugin.h"

KVT_BEGIN_DECLS

KVT_CHECKED kvt_status kvt_plugins_new(struct kvt_plugins **out, struct kvt_error *err);
/* Unloads the objects: nothing of their tables may be used any more. Takes NULL. */
void kvt_plugins_free(struct kvt_plugins *plugins);

/* Loads one more, named by its path. KVT_ERR_ABI: it was built for another ABI. KVT_ERR_POLICY,
 * naming the plug-in: a table lacks something, or has the name of another of its kind. On failure
 * nothing of the object can be chosen. */
KVT_CHECKED kvt_status kvt_plugins_load(struct kvt_plugins *plugins, const char *path,
                                        struct kvt_error *err);

/* An object that was loaded. */
struct kvt_plugin_file {
    const char *path;                      /* as given */
    uint64_t hash;                         /* kvt_hash_bytes() of the file */
    const struct kvt_plugin_table *tables; /* [table_count] as they can be chosen */
    size_t table_count;
};

/* In the order of loading; borrowed. plugins NULL: none. */
const struct kvt_plugin_file *kvt_plugins_files(const struct kvt_plugins *plugins, size_t *count);

/* The defaults of its parameters, in the arena; shipped names are the paths that they stand for
 * below data_dir. *missing: the name of a parameter that has none and must be given, whose value is
 * 0 here; NULL: there is no such one. */
KVT_CHECKED kvt_status kvt_plugin_defaults(const struct kvt_plugin_info *info, const char *data_dir,
                                           struct kvt_arena *arena, struct kvt_params *out,
                                           const char **missing, struct kvt_error *err);

KVT_END_DECLS
#endif
