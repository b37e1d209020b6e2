/* start.h -- between the facts of a start and the scenario that they come to. */
#ifndef KVT_CLI_ENGINE_START_H
#define KVT_CLI_ENGINE_START_H

#include "engine.h"

/* What the flags come to beside the model: pools of bytes, 0 for derived, and host DRAM. */
struct engine_budget {
    double fraction;
    double unified_gib, index_gib, rows_gib;
    double host_gib_per_node;
    bool per_rank;
};

/* What a tree is made of beside the facts. */
struct engine_recipe {
    const char *model, *hardware, *format;
    double row_bytes, tokens, concurrency;
    struct engine_budget budget;
};

/* Rows in the format of a flag, or of the engine's default on this GPU; "file": the model's own. */
const char *engine_row_format(const struct engine_start *start, const char *hardware);

/* Bytes of a latent row: two bytes a value; or fp8 with a 4-byte scale per 128 and the rope in
 * bf16, as FlashMLA reads it. 0: as the model's file has it. */
double engine_format_bytes(const char *format, const struct kvt_llm *llm);

/* Sizes of the scenario, which is bound, in its pools; and the facts of how long a context may be.
 */
KVT_CHECKED kvt_status engine_size(struct engine_start *start, const struct engine_lengths *lengths,
                                   struct kvt_error *err);

/* The whole scenario; NULL when memory is short. */
cJSON *engine_make_tree(const struct engine_start *start, const struct engine_recipe *recipe);

#endif
