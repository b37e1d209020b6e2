/* Does not move on when nobody looks. */
#include "law.h"

static void select_rows(const void *law, void *state, const struct kvt_law_round *round,
                        uint64_t *const *sets)
{
    if (sets != NULL)
        good_select(law, state, round, sets);
}

LAW("unseen-stays", .select = select_rows)
