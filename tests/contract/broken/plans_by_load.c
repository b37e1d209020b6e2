/* Drafts less when many decode, and does not say so in shape(). */
#include "speculation.h"

static void plan(const void *method, const struct kvt_speculation_view *view,
                 struct kvt_round *rounds)
{
    (void)method;
    for (uint32_t i = 0; i < view->request_count; i++)
        plan_one(&view->requests[i], view->request_count > 4 ? 2 : QUERIES, &rounds[i]);
}

SPECULATION("plans-by-load", plan)
