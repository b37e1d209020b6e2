/* one_run.c -- one scenario on one seed, from its beginning to its figures. */
#include "one_run.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "kvt/json.h"

static void keep(const struct kvt_run *run, const cJSON *result, struct one_run *out)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);
    const cJSON *metrics = kvt_json_find(result, "metrics");
    const cJSON *basis = kvt_json_find(kvt_json_find(result, "metrics_basis"), "output_throughput");

    for (size_t m = 0; m < count; m++) {
        const cJSON *item = kvt_json_find(metrics, docs[m].name);
        out->metrics[m] = cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
    }
    out->hash = run->decision_hash;
    kvt_run_badge(run, NULL, &out->badge);
    memset(out->basis, 0, sizeof out->basis);
    if (cJSON_IsString(basis))
        strncpy(out->basis, basis->valuestring, sizeof out->basis - 1);
}

kvt_status one_run(const struct kvt_scenario *scenario, uint64_t seed,
                   const struct one_run_options *options, struct cli_job *job, struct one_run *out,
                   struct kvt_error *err)
{
    struct kvt_scenario seeded = *scenario;
    const struct kvt_sim_options sim_options = {.threads = options->threads,
                                                .cache_dir = options->cache_dir,
                                                .on_prepare = cli_job_on_prepare,
                                                .prepare_context = job,
                                                .surfaces = options->surfaces};
    struct kvt_sim *sim = NULL;
    const struct kvt_run *run = NULL;
    cJSON *result = NULL;
    bool interrupted = false;

    seeded.seed = seed;
    out->result = NULL;
    kvt_status status = kvt_sim_new(&seeded, &sim_options, &sim, err);
    if (status == KVT_OK)
        status = cli_advance(sim, cli_job_on_advance, job, &interrupted, err);
    if (status == KVT_OK && interrupted)
        status = kvt_fail(err, KVT_ERR_INTERRUPTED, scenario->name, "a signal ended the run");
    if (status == KVT_OK)
        status = kvt_sim_finish(sim, false, &run, err);
    if (status == KVT_OK)
        status = kvt_report_result(run, &result, err);
    if (status == KVT_OK) {
        keep(run, result, out);
        if (options->wants_result) {
            out->result = result;
            result = NULL;
        }
    }
    cJSON_Delete(result);
    kvt_sim_free(sim);
    return status;
}
