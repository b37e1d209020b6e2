/* Fails by a number that is no status. */
#include "residency.h"

static kvt_status init(void *state, const struct kvt_residency_env *env, struct kvt_error *err)
{
    (void)state;
    (void)env;
    (void)err;
    return (kvt_status)4711;
}

RESIDENCY("init-unknown", .init = init)
