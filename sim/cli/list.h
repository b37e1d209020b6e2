/* list.h -- everything that can be chosen, as JSON: what `kvtide list` prints.
 *
 * An entry has a name and mostly a "summary"; a plug-in has "params", each an entry
 * of its own; whatever else it has is detail, printed with -v. */
#ifndef KVT_CLI_LIST_H
#define KVT_CLI_LIST_H

#include "kvt/json.h"
#include "kvt/plugin.h"

/* Appends the entries of one kind to array. On failure array holds some of them. */
typedef kvt_status list_fill(cJSON *array, struct kvt_error *err);

/* cmd_list.c: the name of a kind, counted from 0; NULL behind the last. */
const char *list_kind_name(size_t i);

/* list_files.c: names of the files NAME.json in a folder of what is shipped. */
struct list_names {
    char **items; /* [count] without ".json", ascending */
    size_t count;
};
KVT_CHECKED kvt_status list_names_read(const char *folder, struct list_names *names,
                                       struct kvt_error *err);
void list_names_free(struct list_names *names);
/* Refuses a name that is none of them, with those that are; hint ends the sentence. */
KVT_CHECKED kvt_status list_names_check(const struct list_names *names, const char *name,
                                        const char *noun, const char *hint, const char *where,
                                        struct kvt_error *err);
/* The file that a name stands for: a path, which has a '/' or ends in ".json", as it is, or that of
 * a shipped one in the folder; other names are refused, with those that are. *path: in the arena.
 */
KVT_CHECKED kvt_status list_file_of(const char *name, const char *folder, const char *noun,
                                    const char *where, struct kvt_arena *arena, const char **path,
                                    struct kvt_error *err);

/* list_files.c: what is shipped as files. */
list_fill list_models, list_hardware, list_drafters, list_engines, list_profiles, list_grids,
    list_scenarios;
/* list_plugins.c */
list_fill list_policies, list_residency, list_replacement, list_scheduling, list_router, list_laws,
    list_timing, list_import, list_arrivals, list_lengths, list_speculation, list_backends;
/* list_words.c: the words of files and options. */
list_fill list_metrics, list_keys, list_settings, list_values, list_formats, list_targets;

/* Members, one by one; false when memory is short. A NULL text adds nothing. */
bool list_add_text(cJSON *entry, const char *key, const char *text);
bool list_add_number(cJSON *entry, const char *key, double value);
/* A new entry at the end of array, with its name; NULL when memory is short. */
cJSON *list_add_entry(cJSON *array, const char *name_key, const char *name);

#endif
