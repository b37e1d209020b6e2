/* Four queries, whatever the model's longest context leaves. */
#include "speculation.h"

static void plan(const void *method, const struct kvt_speculation_view *view,
                 struct kvt_round *rounds)
{
    (void)method;
    for (uint32_t i = 0; i < view->request_count; i++) {
        struct kvt_speculation_request request = view->requests[i];
        request.queries_max = QUERIES;
        plan_one(&request, QUERIES, &rounds[i]);
    }
}

SPECULATION("plans-wide", plan)
