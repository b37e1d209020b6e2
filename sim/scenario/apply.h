/* apply.h -- what the parts of applying a layer share. */
#ifndef KVT_SCENARIO_APPLY_H
#define KVT_SCENARIO_APPLY_H

#include "load.h"

/* "GIVEN is not EXPECTED." */
kvt_status kvt_refuse_value(const struct kvt_at *at, const cJSON *given, const char *expected,
                            struct kvt_error *err);
KVT_CHECKED kvt_status kvt_refuse_null(const struct kvt_at *at, const cJSON *given,
                                       struct kvt_error *err);

/* Relative paths start from the file that gives them; in the tree in force they
 * start from the working folder. NULL when memory is short. */
KVT_CHECKED cJSON *kvt_copy_path(struct kvt_load *load, const struct kvt_layer *layer,
                                 const char *text);

/* Lays what a layer says of a KVT_KEY_FILE over what parent has of it. */
KVT_CHECKED kvt_status kvt_apply_file(struct kvt_load *load, const struct kvt_key *key,
                                      cJSON *parent, const struct kvt_at *at, const cJSON *given,
                                      struct kvt_error *err);

#endif
