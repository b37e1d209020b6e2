/* shipped.h -- model files of the checkout, for tests: loaded, or refused after an edit. */
#ifndef KVT_TESTS_SHIPPED_H
#define KVT_TESTS_SHIPPED_H

#include <cjson/cJSON.h>

#include "kvt/engine.h"
#include "kvt/hardware.h"
#include "kvt/llm.h"

/* The tree of models/FOLDER/NAME.json. Fails the test when there is none; the
 * caller's to cJSON_Delete(). */
cJSON *shipped_tree(const char *folder, const char *name);

/* In the arena; fail the test when they do not load. */
const struct kvt_llm *shipped_llm(struct kvt_arena *arena, const char *name);
const struct kvt_drafter *shipped_drafter(struct kvt_arena *arena, const char *name);
const struct kvt_hardware *shipped_hardware(struct kvt_arena *arena, const char *name);
const struct kvt_engine *shipped_engine(struct kvt_arena *arena, const char *name);

/* One change to a tree: the member at a JSON pointer becomes `value` (JSON text),
 * appears, or, with NULL, goes. */
struct shipped_edit {
    const char *pointer; /* "/stores/0/layers" */
    const char *value;
};
void shipped_apply(cJSON *tree, const struct shipped_edit *edit);

#endif
