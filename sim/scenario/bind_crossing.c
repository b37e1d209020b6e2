/* bind_crossing.c -- rows sent ahead, and rows read in part; and what cannot do either. */
#include <stdio.h>

#include "bind.h"
#include "kvt/backend.h"

/* Both draw for each row of each call. Mean values have no rows, and a GPU runs no predictor and
 * keeps no planes. */
static kvt_status check(struct kvt_load *load, const struct kvt_scenario *scenario,
                        const char *what, const char *key, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES], given[KVT_DOTTED_BYTES];
    bool is_analytic = scenario->fidelity == KVT_FIDELITY_ANALYTIC;

    if (!is_analytic && !kvt_backend_runs(&scenario->backend))
        return KVT_OK;
    (void)snprintf(given, sizeof given, "%s|%s", key,
                   is_analytic ? "run.fidelity" : "backend.name");
    if (is_analytic)
        return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, given, place),
                        "%s is drawn for each row that a call reads, and fidelity \"analytic\" has "
                        "mean values; run.fidelity \"exact\" or \"sampled\" is expected",
                        what);
    return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, given, place),
                    "%s is predicted, and backend \"%s\" fetches every missed row whole and on "
                    "demand; backend \"sim\" is expected",
                    what, scenario->backend.info->name);
}

kvt_status kvt_bind_crossing(struct kvt_load *load, struct kvt_scenario *out, struct kvt_error *err)
{
    const cJSON *prefetch = kvt_tree_at(load->tree, "residency.prefetch");
    const cJSON *depth = kvt_tree_at(load->tree, "residency.read_depth");
    const char *lead = kvt_text_at(prefetch, "lead");
    kvt_status status = KVT_OK;

    out->prefetch.recall = kvt_real_at(prefetch, "recall");
    out->prefetch.precision = kvt_real_at(prefetch, "precision");
    for (int l = 0; l < KVT_LEADS; l++) {
        if (strcmp(lead, kvt_prefetch_lead_name((enum kvt_prefetch_lead)l)) == 0)
            out->prefetch.lead = (enum kvt_prefetch_lead)l;
    }
    out->read_depth.shallow_share = kvt_real_at(depth, "shallow_share");
    out->read_depth.shallow_fraction = kvt_real_at(depth, "shallow_fraction");
    if (kvt_predicts_rows(&out->prefetch))
        status = check(load, out, "prefetch", "residency.prefetch.recall", err);
    if (status == KVT_OK && kvt_reads_planes(&out->read_depth))
        status = check(load, out, "read_depth", "residency.read_depth.shallow_share", err);
    return status;
}
