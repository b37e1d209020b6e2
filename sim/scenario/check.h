/* check.h -- is this value one that its key takes? And what to say when a key is not known. */
#ifndef KVT_SCENARIO_CHECK_H
#define KVT_SCENARIO_CHECK_H

#include "keys.h"
#include "tree.h"

/* Leaf types only. */
KVT_CHECKED kvt_status kvt_value_check(const struct kvt_key *key, const struct kvt_at *at,
                                       const cJSON *value, struct kvt_error *err);

/* A value in a few words for messages: `16.5`, `"abc"`, `an object`. */
enum {
    KVT_DESCRIBED_BYTES = 64
};
const char *kvt_value_describe(const cJSON *value, char out[KVT_DESCRIBED_BYTES]);

/* "2k": how many times top_k; false when the text is not of that form. */
bool kvt_hot_multiple(const char *text, double *multiple);

/* The sentence for a member of `key` (an object) that nobody declared: another
 * engine's name, a key of ours that lives elsewhere, or the nearest that would do.
 * info: the plug-in in force there, or NULL. */
kvt_status kvt_unknown_key(const struct kvt_plugins *plugins, const struct kvt_key *key,
                           const struct kvt_plugin_info *info, const struct kvt_at *at,
                           struct kvt_error *err);

#endif
