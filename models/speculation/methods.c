/* methods.c -- speculative decoding as far as memory goes: who drafts, and how wide a round is.
 *
 * A round drafts, verifies K queries in one pass and commits what was accepted.
 * These tables size what that needs in HBM (the drafter's weights, its ring,
 * staging for K queries); they hold no law of acceptance. */
#include "kvt/plugin.h"

extern const struct kvt_speculation_method kvt_speculation_none;
extern const struct kvt_speculation_method kvt_speculation_dflash2;

const struct kvt_speculation_method kvt_speculation_none = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_speculation_none,
             .name = "none",
             .summary = "one query a step"},
};

static const struct kvt_param_spec dflash2_params[] = {
    {.name = "drafter",
     .help = "Draft model: a shipped name or the path of a file.",
     .type = KVT_PARAM_TEXT,
     .minimum = 1,
     .maximum = 4096,
     .default_text = "glm-5.3-dflash2"},
    {.name = "block",
     .help = "Queries verified in a round: the anchor and its drafts.",
     .type = KVT_PARAM_COUNT,
     .minimum = 2,
     .maximum = 16,
     .default_number = 8},
};

const struct kvt_speculation_method kvt_speculation_dflash2 = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_speculation_dflash2,
             .name = "dflash2",
             .summary = "DFlash2: a static block of drafts from a small sliding-window model",
             .params = dflash2_params,
             .param_count = sizeof dflash2_params / sizeof dflash2_params[0]},
};
