/* Sees the future by a number. */
#include "replacement.h"

static const struct kvt_param_spec params[] = {
    {.name = "clairvoyant", .help = "How far it sees.", .type = KVT_PARAM_REAL, .maximum = 1}};

REPLACEMENT("clairvoyant-real", .info.params = params,
            .info.param_count = sizeof params / sizeof params[0])
