/* compare_runs.c -- every variant on every seed, on some threads.
 *
 *     job i: variant i mod V on seed i div V, so that a signal leaves whole seeds
 *
 * Jobs share nothing but the scenarios, which nobody writes. */
#include "../one_run.h"
#include "compare.h"

/* Where the outcome of one job goes. */
struct outcome {
    struct one_run run;
    uint64_t *hash; /* of the variant's, and so is the badge */
    struct kvt_badge *badge;
    bool is_done;
};

struct comparing {
    struct compare_plan *plan;
    struct outcome *outcomes; /* [job_count] */
    size_t job_count;
    struct kvt_surfaces *surfaces; /* of analytic runs, shared by all */
};

static kvt_status run_job(void *context, size_t index, unsigned threads, struct cli_job *job,
                          struct kvt_error *err)
{
    const struct comparing *comparing = context;
    const struct compare_plan *plan = comparing->plan;
    struct outcome *outcome = &comparing->outcomes[index];
    const struct one_run_options options = {
        .threads = threads, .cache_dir = plan->cache_dir, .surfaces = comparing->surfaces};
    kvt_status status =
        one_run(&plan->scenarios[index % plan->variant_count],
                plan->seeds[index / plan->variant_count], &options, job, &outcome->run, err);

    if (status == KVT_OK) {
        *outcome->hash = outcome->run.hash;
        *outcome->badge = outcome->run.badge;
        outcome->is_done = true;
    }
    return status;
}

/* Whoever measures has the GPU to himself. */
static bool is_measured(const struct compare_plan *plan)
{
    bool found = false;

    for (size_t v = 0; v < plan->variant_count; v++)
        found = found || kvt_backend_runs(&plan->scenarios[v].backend);
    return found;
}

/* ---- All jobs ------------------------------------------------------------------------------ */

/* Metrics of a variant lie seed by seed, as kvt_variant has them. */
static kvt_status prepare(struct comparing *comparing, struct kvt_arena *arena,
                          struct kvt_error *err)
{
    struct compare_plan *plan = comparing->plan;
    size_t metrics = 0;

    (void)kvt_metric_docs(&metrics);
    comparing->job_count = plan->variant_count * plan->seed_count;
    comparing->outcomes = kvt_arena_array(arena, comparing->job_count, sizeof *comparing->outcomes,
                                          _Alignof(struct outcome));
    if (comparing->outcomes == NULL)
        return kvt_fail_nomem(err, "a comparison");
    for (size_t v = 0; v < plan->variant_count; v++) {
        double *values =
            kvt_arena_array(arena, plan->seed_count * metrics, sizeof *values, _Alignof(double));
        uint64_t *hashes =
            kvt_arena_array(arena, plan->seed_count, sizeof *hashes, _Alignof(uint64_t));
        struct kvt_badge *badges =
            kvt_arena_array(arena, plan->seed_count, sizeof *badges, _Alignof(struct kvt_badge));
        if (values == NULL || hashes == NULL || badges == NULL)
            return kvt_fail_nomem(err, "a comparison");
        for (size_t s = 0; s < plan->seed_count; s++) {
            comparing->outcomes[s * plan->variant_count + v].run.metrics = values + s * metrics;
            comparing->outcomes[s * plan->variant_count + v].hash = hashes + s;
            comparing->outcomes[s * plan->variant_count + v].badge = badges + s;
        }
        plan->variants[v].metrics = values;
        plan->variants[v].hashes = hashes;
        plan->variants[v].badges = badges;
        plan->variants[v].basis = comparing->outcomes[v].run.basis;
        plan->variants[v].bounds_misses =
            kvt_choice_has(&plan->scenarios[v].replacement, KVT_CLAIRVOYANT);
        plan->variants[v].is_bound = plan->variants[v].bounds_misses ||
                                     kvt_choice_has(&plan->scenarios[v].residency, KVT_CLAIRVOYANT);
    }
    return KVT_OK;
}

static size_t whole_seeds(const struct comparing *comparing)
{
    size_t done = 0;

    while (done < comparing->job_count && comparing->outcomes[done].is_done)
        done++;
    return done / comparing->plan->variant_count;
}

kvt_status compare_run(struct compare_plan *plan, struct kvt_arena *arena, bool *interrupted,
                       struct kvt_error *err)
{
    struct comparing comparing = {.plan = plan};
    struct kvt_error why;
    size_t failed = 0;
    kvt_status status = prepare(&comparing, arena, err);

    if (status == KVT_OK)
        status = kvt_surfaces_new(&comparing.surfaces, err);
    if (status != KVT_OK)
        return status;
    const struct cli_jobs jobs = {.count = comparing.job_count,
                                  .threads = plan->threads,
                                  .at_once = is_measured(plan) ? 1 : 0,
                                  .quiet = plan->quiet,
                                  .what = "comparing",
                                  .run = run_job,
                                  .context = &comparing};
    status = cli_jobs_run(&jobs, &failed, &why);
    kvt_surfaces_free(comparing.surfaces);
    if (status != KVT_OK)
        return kvt_fail(err, status, plan->variants[failed % plan->variant_count].name, "%s%s%s",
                        why.where, why.where[0] != '\0' ? ": " : "", why.message);
    *interrupted = whole_seeds(&comparing) < plan->seed_count;
    plan->seed_count = whole_seeds(&comparing);
    return KVT_OK;
}
