/* engine_read.h -- the lists of an engine file: flags, rules, lines of a log. */
#ifndef KVT_KV_ENGINE_READ_H
#define KVT_KV_ENGINE_READ_H

#include "kvt/engine.h"

enum {
    ENGINE_PLACE_BYTES = 320,
    ENGINE_LIST_MAX = 4096 /* elements of one list */
};

/* Each reads one member of the tree, which must be there, into the engine. */
KVT_CHECKED kvt_status engine_read_flags(const struct cJSON *tree, const char *where,
                                         struct kvt_arena *arena, struct kvt_engine *engine,
                                         struct kvt_error *err);
KVT_CHECKED kvt_status engine_read_passive(const struct cJSON *tree, const char *where,
                                           struct kvt_arena *arena, struct kvt_engine *engine,
                                           struct kvt_error *err);
KVT_CHECKED kvt_status engine_read_log(const struct cJSON *tree, const char *where,
                                       struct kvt_arena *arena, struct kvt_engine *engine,
                                       struct kvt_error *err);
KVT_CHECKED kvt_status engine_read_rules(const struct cJSON *tree, const char *where,
                                         struct kvt_arena *arena, struct kvt_engine *engine,
                                         struct kvt_error *err);
KVT_CHECKED kvt_status engine_read_auto_rows(const struct cJSON *tree, const char *where,
                                             struct kvt_arena *arena, struct kvt_engine *engine,
                                             struct kvt_error *err);
KVT_CHECKED kvt_status engine_read_checkpoints(const struct cJSON *tree, const char *where,
                                               struct kvt_arena *arena, struct kvt_engine *engine,
                                               struct kvt_error *err);

#endif
