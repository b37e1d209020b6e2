/* llm_change.h -- what a model object may ask for beside the facts of its file: fewer indexers,
 * and blocks in place of rows. */
#ifndef KVT_KV_LLM_CHANGE_H
#define KVT_KV_LLM_CHANGE_H

#include "kvt/json.h"
#include "kvt/llm.h"

#define LLM_CHANGE_KEYS "index_topk_freq", "index_topk_pattern", "block_tokens"

/* Does what the tree asks for to the model that was read from it. On failure *llm is spoilt. */
KVT_CHECKED kvt_status llm_change(struct kvt_llm *llm, const cJSON *tree, const char *where,
                                  struct kvt_error *err);

/* Every number has a source but those keys, which are settings. */
KVT_CHECKED kvt_status llm_check_sources(const cJSON *tree, const char *where,
                                         struct kvt_error *err);

#endif
