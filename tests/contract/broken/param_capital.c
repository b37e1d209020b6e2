/* A parameter that no scenario can name. */
#include "replacement.h"

static const struct kvt_param_spec params[] = {
    {.name = "My Param", .help = "Anything.", .type = KVT_PARAM_BOOL}};

REPLACEMENT("param-capital", .info.params = params,
            .info.param_count = sizeof params / sizeof params[0])
