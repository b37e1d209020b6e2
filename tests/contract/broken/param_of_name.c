/* A parameter that is named as what names the law is. */
#include "law.h"

static const struct kvt_param_spec params[] = {
    {.name = "law", .help = "Anything.", .type = KVT_PARAM_BOOL}};

LAW("param-of-name", .info.params = params, .info.param_count = sizeof params / sizeof params[0])
