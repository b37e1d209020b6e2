/* Everything in HBM for ever, and optional pages beside it. */
#include "residency.h"

static void needs(const void *state, struct kvt_residency_needs *out)
{
    (void)state;
    *out = (struct kvt_residency_needs){
        .history_in_hbm = true, .host_backing = true, .optional_pages = true};
}

RESIDENCY("needs-contradict", .needs = needs)
