/* drawn_scenario.h -- small scenarios as text, drawn at random: for tests of what holds in any run.
 */
#ifndef KVT_TESTS_DRAWN_SCENARIO_H
#define KVT_TESTS_DRAWN_SCENARIO_H

#include "kvt/rng.h"

/* Six layers in three stores, sixteen rows a query: GLM-5.3 in small. */
#define DRAWN_MODEL                                                                                \
    "{\"base\": \"glm-5.3\", \"layers\": 6, \"top_k\": 16, \"weight_bytes\": 2147483648, "         \
    "\"dense_weight_bytes\": 1073741824, \"weights_replicated_gib\": 1, "                          \
    "\"weights_expert_gib\": 1, \"stores\": ["                                                     \
    "{\"first_layer\": 0, \"layers\": 1, \"compress_ratio\": 1, \"repeat\": 2, "                   \
    "\"stride_layers\": 1}, {\"first_layer\": 2, \"layers\": 4, \"compress_ratio\": 1, "           \
    "\"repeat\": 1, \"stride_layers\": 4}]}"

enum {
    DRAWN_TEXT_BYTES = 4096,
    DRAWN_DRAFTINGS = 4
};

struct drawn_text {
    char bytes[DRAWN_TEXT_BYTES];
    size_t used;
};

/* Adds to the text; a test that has no room for it ends. */
void drawn_say(struct drawn_text *text, const char *fmt, ...) KVT_PRINTF(2, 3);

/* Drafters that are a layer or heads of the model: their weights are none of the pool's. */
struct drawn_drafting {
    const char *method, *retrieval; /* how rows are retrieved, where there are hot caches */
};
extern const struct drawn_drafting drawn_draftings[DRAWN_DRAFTINGS];

/* A whole scenario, of conversations where it talks; drafting NULL: nothing drafts. */
void drawn_scenario(struct kvt_rng *rng, struct drawn_text *text, bool talks,
                    const struct drawn_drafting *drafting);

#endif
