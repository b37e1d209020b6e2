/* A parameter that is idle beside one that there is not. */
#include "replacement.h"

static const struct kvt_param_spec params[] = {
    {.name = "depth",
     .help = "Anything.",
     .type = KVT_PARAM_BOOL,
     .idle = {{.beside = "ordre", .from = 0, .to = 0, .cure = "an order"}}}};

REPLACEMENT("idle-beside-none", .info.params = params,
            .info.param_count = sizeof params / sizeof params[0])
