/* A parameter that is named as a key beside it is. */
#include "residency.h"

static const struct kvt_param_spec params[] = {{.name = "hot_tokens",
                                                .help = "Tokens.",
                                                .type = KVT_PARAM_COUNT,
                                                .minimum = 1,
                                                .maximum = 64,
                                                .default_number = 1}};

RESIDENCY("param-of-section", .info.params = params,
          .info.param_count = sizeof params / sizeof params[0])
