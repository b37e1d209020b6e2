/* Fails and does not say why: it returns a status that host->fail() did not. */
#include "replacement.h"

static kvt_status init(void *state, const struct kvt_replacement_env *env, struct kvt_error *err)
{
    (void)state;
    (void)env;
    (void)err;
    return KVT_ERR_INVALID;
}

REPLACEMENT("init-silent", .init = init)
