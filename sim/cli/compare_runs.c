/* compare_runs.c -- every variant on every seed, on some threads.
 *
 *     job i: variant i mod V on seed i div V, so that a signal leaves whole seeds
 *     a thread takes the lowest job that nobody has, runs it, writes its own place
 *
 * Jobs share nothing but the scenarios, which nobody writes: who ran what, and when,
 * cannot be seen in the outcome. */
#include <cjson/cJSON.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "compare.h"
#include "kvt/json.h"
#include "kvt/sim.h"

enum {
    BASIS_BYTES = 24,
    SHOW_NS = 200000000
};

/* Where the outcome of one job goes. */
struct outcome {
    double *metrics; /* [metrics] */
    uint64_t *hash;
    char basis[BASIS_BYTES];
    bool is_done;
    double progress; /* 0 to 1; guarded by the pool's lock */
};

struct pool {
    struct compare_plan *plan;
    struct outcome *outcomes; /* [job_count] */
    size_t job_count;
    unsigned threads_per_job;
    struct kvt_surfaces *surfaces; /* of analytic runs, shared by all */
    pthread_mutex_t lock;          /* guards what follows, and progress */
    pthread_cond_t ended;          /* a thread has */
    size_t next, running_threads;
    bool has_failed;
    size_t failed_job;
    struct kvt_error err; /* of the failed job with the lowest number */
};

struct job {
    struct pool *pool;
    struct outcome *outcome;
};

static void note_progress(const struct job *job, double fraction)
{
    (void)pthread_mutex_lock(&job->pool->lock);
    job->outcome->progress = fraction;
    (void)pthread_mutex_unlock(&job->pool->lock);
}

/* Preparing counts as half of a job. */
static bool on_prepare(void *context, double fraction, const char *what)
{
    (void)what;
    if (fraction >= 0 && fraction <= 1)
        note_progress(context, 0.5 * fraction);
    return !cli_interrupted();
}

static void note_done(void *context, double done_fraction)
{
    if (done_fraction >= 0)
        note_progress(context, 0.5 + 0.5 * done_fraction);
}

/* ---- One job ------------------------------------------------------------------------- */

static void keep(const struct kvt_run *run, const cJSON *result, struct outcome *outcome)
{
    size_t count = 0;
    const struct kvt_metric_doc *docs = kvt_metric_docs(&count);
    const cJSON *metrics = kvt_json_find(result, "metrics");
    const cJSON *basis = kvt_json_find(kvt_json_find(result, "metrics_basis"), "output_throughput");

    for (size_t m = 0; m < count; m++) {
        const cJSON *item = kvt_json_find(metrics, docs[m].name);
        outcome->metrics[m] = cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
    }
    *outcome->hash = run->decision_hash;
    if (cJSON_IsString(basis))
        strncpy(outcome->basis, basis->valuestring, BASIS_BYTES - 1);
    outcome->is_done = true;
}

static kvt_status run_job(struct pool *pool, size_t index, struct kvt_error *err)
{
    const struct compare_plan *plan = pool->plan;
    struct job job = {.pool = pool, .outcome = &pool->outcomes[index]};
    struct kvt_scenario scenario = plan->scenarios[index % plan->variant_count];
    const struct kvt_sim_options options = {.threads = pool->threads_per_job,
                                            .cache_dir = plan->cache_dir,
                                            .on_prepare = on_prepare,
                                            .surfaces = pool->surfaces,
                                            .prepare_context = &job};
    struct kvt_sim *sim = NULL;
    const struct kvt_run *run = NULL;
    cJSON *result = NULL;
    bool interrupted = false;

    scenario.seed = plan->seeds[index / plan->variant_count];
    kvt_status status = kvt_sim_new(&scenario, &options, &sim, err);
    if (status == KVT_OK)
        status = cli_advance(sim, note_done, &job, &interrupted, err);
    if (status == KVT_OK && interrupted)
        status = kvt_fail(err, KVT_ERR_INTERRUPTED, "compare", "a signal ended the comparison");
    if (status == KVT_OK)
        status = kvt_sim_finish(sim, false, &run, err);
    if (status == KVT_OK)
        status = kvt_report_result(run, &result, err);
    if (status == KVT_OK)
        keep(run, result, job.outcome);
    cJSON_Delete(result);
    kvt_sim_free(sim);
    note_progress(&job, 1);
    return status;
}

/* ---- Threads --------------------------------------------------------------------------- */

static void note_failure(struct pool *pool, size_t index, const struct kvt_error *err)
{
    if (pool->has_failed && pool->failed_job < index)
        return;
    pool->has_failed = true;
    pool->failed_job = index;
    pool->err = *err;
}

static void *work(void *context)
{
    struct pool *pool = context;

    (void)pthread_mutex_lock(&pool->lock);
    while (pool->next < pool->job_count && !pool->has_failed && !cli_interrupted()) {
        struct kvt_error err;
        size_t index = pool->next++;
        (void)pthread_mutex_unlock(&pool->lock);
        kvt_status status = run_job(pool, index, &err);
        (void)pthread_mutex_lock(&pool->lock);
        if (status != KVT_OK && status != KVT_ERR_INTERRUPTED)
            note_failure(pool, index, &err);
    }
    pool->running_threads--;
    (void)pthread_cond_signal(&pool->ended);
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static double overall_progress(const struct pool *pool)
{
    double sum = 0;

    for (size_t i = 0; i < pool->job_count; i++)
        sum += pool->outcomes[i].progress;
    return sum / (double)pool->job_count;
}

/* Until the last thread has ended. */
static void watch(struct pool *pool)
{
    struct kvt_wall start;
    struct cli_progress progress;

    cli_progress_begin(&progress, &start, pool->plan->quiet);
    (void)pthread_mutex_lock(&pool->lock);
    while (pool->running_threads > 0) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += SHOW_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&pool->ended, &pool->lock, &until);
        cli_progress_show(&progress, overall_progress(pool), "comparing");
    }
    (void)pthread_mutex_unlock(&pool->lock);
    cli_progress_end(&progress);
}

/* Whoever measures has the GPU to himself. */
static bool is_measured(const struct compare_plan *plan)
{
    bool found = false;

    for (size_t v = 0; v < plan->variant_count; v++)
        found = found || kvt_backend_runs(&plan->scenarios[v].backend);
    return found;
}

static void run_all(struct pool *pool)
{
    pthread_t threads[COMPARE_THREADS_MAX];
    unsigned wanted = is_measured(pool->plan) ? 1 : pool->plan->threads;
    unsigned started = 0;

    if (wanted > pool->job_count)
        wanted = (unsigned)pool->job_count;
    if (wanted == 0)
        return;
    pool->threads_per_job = pool->plan->threads / wanted;
    pool->running_threads = wanted;
    while (started < wanted && pthread_create(&threads[started], NULL, work, pool) == 0)
        started++;
    if (started < wanted) {
        (void)pthread_mutex_lock(&pool->lock);
        pool->running_threads -= wanted - started - (started == 0 ? 1 : 0);
        (void)pthread_mutex_unlock(&pool->lock);
    }
    if (started == 0)
        (void)work(pool); /* the system gives no thread: this one does it all */
    watch(pool);
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
}

/* ---- All jobs ------------------------------------------------------------------------------ */

/* Metrics of a variant lie seed by seed, as kvt_variant has them. */
static kvt_status prepare(struct pool *pool, struct kvt_arena *arena, struct kvt_error *err)
{
    struct compare_plan *plan = pool->plan;
    size_t metrics = 0;

    (void)kvt_metric_docs(&metrics);
    pool->job_count = plan->variant_count * plan->seed_count;
    pool->outcomes =
        kvt_arena_array(arena, pool->job_count, sizeof *pool->outcomes, _Alignof(struct outcome));
    if (pool->outcomes == NULL)
        return kvt_fail_nomem(err, "a comparison");
    for (size_t v = 0; v < plan->variant_count; v++) {
        double *values =
            kvt_arena_array(arena, plan->seed_count * metrics, sizeof *values, _Alignof(double));
        uint64_t *hashes =
            kvt_arena_array(arena, plan->seed_count, sizeof *hashes, _Alignof(uint64_t));
        if (values == NULL || hashes == NULL)
            return kvt_fail_nomem(err, "a comparison");
        for (size_t s = 0; s < plan->seed_count; s++) {
            pool->outcomes[s * plan->variant_count + v].metrics = values + s * metrics;
            pool->outcomes[s * plan->variant_count + v].hash = hashes + s;
        }
        plan->variants[v].metrics = values;
        plan->variants[v].hashes = hashes;
        plan->variants[v].basis = pool->outcomes[v].basis;
    }
    return KVT_OK;
}

static size_t whole_seeds(const struct pool *pool)
{
    size_t done = 0;

    while (done < pool->job_count && pool->outcomes[done].is_done)
        done++;
    return done / pool->plan->variant_count;
}

kvt_status compare_run(struct compare_plan *plan, struct kvt_arena *arena, bool *interrupted,
                       struct kvt_error *err)
{
    struct pool pool = {
        .plan = plan, .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
    kvt_status status = prepare(&pool, arena, err);

    if (status == KVT_OK)
        status = kvt_surfaces_new(&pool.surfaces, err);
    if (status != KVT_OK)
        return status;
    run_all(&pool);
    kvt_surfaces_free(pool.surfaces);
    (void)pthread_cond_destroy(&pool.ended);
    (void)pthread_mutex_destroy(&pool.lock);
    if (pool.has_failed) {
        size_t variant = pool.failed_job % plan->variant_count;
        return kvt_fail(err, pool.err.status, plan->variants[variant].name, "%s%s%s",
                        pool.err.where, pool.err.where[0] != '\0' ? ": " : "", pool.err.message);
    }
    *interrupted = whole_seeds(&pool) < plan->seed_count;
    plan->seed_count = whole_seeds(&pool);
    return KVT_OK;
}
