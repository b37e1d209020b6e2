/* A parameter whose default is none of its choices. */
#include "replacement.h"

static const struct kvt_param_spec params[] = {{.name = "order",
                                                .help = "Which goes first.",
                                                .type = KVT_PARAM_CHOICE,
                                                .default_text = "sideways",
                                                .choices = "up|down"}};

REPLACEMENT("parameter-bad", .info.params = params, .info.param_count = 1)
