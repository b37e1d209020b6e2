/* Fails to prepare, and does not say why. */
#include "law.h"

static kvt_status prepare(const struct kvt_law_env *env, void **out, struct kvt_error *err)
{
    (void)env;
    (void)out;
    (void)err;
    return KVT_ERR_NOMEM;
}

LAW("prepare-silent", .prepare = prepare)
