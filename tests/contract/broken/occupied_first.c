/* Empty slots go last: what is emptied keeps its stamp, and what never was filled has the newest.
 */
#include "replacement.h"

static kvt_status init(void *state, const struct kvt_replacement_env *env, struct kvt_error *err)
{
    struct stamps *stamps = state;

    for (kvt_slot slot = 0; slot < env->slot_count; slot++)
        stamps->of[slot] = UINT32_MAX;
    return good_init(state, env, err);
}

REPLACEMENT("occupied-first", .init = init)
