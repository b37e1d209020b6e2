/* jobs.c -- independent pieces of work on some threads.
 *
 *     a thread takes the lowest job that nobody has, until there is none
 *     the caller's thread shows how far all of them are
 *
 * Of several that fail the one with the lowest number is told: the same on any number of threads,
 * for every job below it has been begun. */
#include "jobs.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum {
    SHOW_NS = 200000000,
    PUMP_NS = 1000000
};

struct cli_job {
    struct pool *pool;
    double progress; /* 0 to 1; guarded by the pool's lock */
    double from, to; /* the part under way; of who works on it alone */
};

struct pool {
    const struct cli_jobs *jobs;
    struct cli_job *each; /* [jobs->count] */
    unsigned threads_per_job;
    pthread_mutex_t lock; /* guards what follows, and progress */
    pthread_cond_t ended; /* a thread has */
    size_t next, running_threads;
    size_t done_elsewhere; /* by others, as jobs->pump says */
    bool has_failed;
    size_t failed_job;
    kvt_status status;    /* of the failed job with the lowest number */
    struct kvt_error err; /* the same one's */
};

/* ---- Progress --------------------------------------------------------------------------- */

void cli_job_note(struct cli_job *job, double fraction)
{
    fraction = job->from + fraction * (job->to - job->from);
    (void)pthread_mutex_lock(&job->pool->lock);
    if (fraction > job->progress) /* something may be prepared in the middle of a run */
        job->progress = fraction;
    (void)pthread_mutex_unlock(&job->pool->lock);
}

void cli_job_part(struct cli_job *job, double from, double to)
{
    job->from = from;
    job->to = to;
}

bool cli_job_on_prepare(void *context, double fraction, const char *what)
{
    (void)what;
    if (fraction >= 0 && fraction <= 1)
        cli_job_note(context, 0.5 * fraction);
    return !cli_interrupted();
}

void cli_job_on_advance(void *context, double done_fraction)
{
    if (done_fraction >= 0)
        cli_job_note(context, 0.5 + 0.5 * done_fraction);
}

static double overall_progress(const struct pool *pool)
{
    double sum = (double)pool->done_elsewhere;

    for (size_t i = 0; i < pool->jobs->count; i++)
        sum += pool->each[i].progress;
    return sum / (double)pool->jobs->count;
}

/* A thread that takes a job meanwhile is not kept waiting. */
static bool pump(struct pool *pool)
{
    size_t done = 0;

    if (pool->jobs->pump == NULL)
        return false;
    (void)pthread_mutex_unlock(&pool->lock);
    bool goes_on = pool->jobs->pump(pool->jobs->context, &done);
    (void)pthread_mutex_lock(&pool->lock);
    pool->done_elsewhere = done;
    return goes_on;
}

/* Until the last thread has ended. */
static void watch(struct pool *pool)
{
    struct kvt_wall start;
    struct cli_progress progress;

    cli_progress_begin(&progress, &start, pool->jobs->quiet);
    (void)pthread_mutex_lock(&pool->lock);
    while (pump(pool) || pool->running_threads > 0) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += pool->jobs->pump != NULL ? PUMP_NS : SHOW_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&pool->ended, &pool->lock, &until);
        cli_progress_show(&progress, overall_progress(pool), pool->jobs->what);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    cli_progress_end(&progress);
}

/* ---- Work ------------------------------------------------------------------------------- */

static void note_failure(struct pool *pool, size_t index, kvt_status status,
                         const struct kvt_error *err)
{
    if (pool->has_failed && pool->failed_job < index)
        return;
    pool->has_failed = true;
    pool->failed_job = index;
    pool->status = status;
    pool->err = *err;
}

/* The lock is held, but for take(), which may wait. */
static bool take_job(struct pool *pool, size_t *index)
{
    const struct cli_jobs *jobs = pool->jobs;
    bool taken;

    if (pool->has_failed || cli_interrupted())
        return false;
    if (jobs->take == NULL) {
        *index = pool->next++;
        return *index < jobs->count;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    taken = jobs->take(jobs->context, index);
    (void)pthread_mutex_lock(&pool->lock);
    return taken;
}

static void *work(void *context)
{
    struct pool *pool = context;
    const struct cli_jobs *jobs = pool->jobs;
    size_t index;

    (void)pthread_mutex_lock(&pool->lock);
    while (take_job(pool, &index)) {
        struct kvt_error err;
        (void)pthread_mutex_unlock(&pool->lock);
        kvt_status status =
            jobs->run(jobs->context, index, pool->threads_per_job, &pool->each[index], &err);
        (void)pthread_mutex_lock(&pool->lock);
        pool->each[index].progress = 1;
        if (status != KVT_OK && (status != KVT_ERR_INTERRUPTED || !cli_interrupted()))
            note_failure(pool, index, status, &err);
    }
    pool->running_threads--;
    (void)pthread_cond_signal(&pool->ended);
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void run_all(struct pool *pool)
{
    pthread_t threads[CLI_THREADS_MAX];
    unsigned wanted = pool->jobs->threads;
    unsigned started = 0;

    if (pool->jobs->at_once > 0 && wanted > pool->jobs->at_once)
        wanted = pool->jobs->at_once;
    if (wanted > pool->jobs->count)
        wanted = (unsigned)pool->jobs->count;
    pool->threads_per_job = pool->jobs->threads / wanted;
    pool->running_threads = wanted;
    while (started < wanted && pthread_create(&threads[started], NULL, work, pool) == 0)
        started++;
    if (started < wanted) {
        (void)pthread_mutex_lock(&pool->lock);
        pool->running_threads -= wanted - started - (started == 0 ? 1 : 0);
        (void)pthread_mutex_unlock(&pool->lock);
    }
    if (started == 0 && pool->jobs->pump == NULL) {
        (void)work(pool); /* the system gives no thread: this one does it all */
    } else if (started == 0) {
        (void)kvt_fail_nomem(&pool->err, pool->jobs->what); /* which has the others to talk to */
        pool->has_failed = true;
        pool->status = KVT_ERR_NOMEM;
        pool->running_threads = 0;
    }
    watch(pool);
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
}

kvt_status cli_jobs_run(const struct cli_jobs *jobs, size_t *failed, struct kvt_error *err)
{
    struct pool pool = {
        .jobs = jobs, .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

    if (jobs->count == 0)
        return KVT_OK;
    pool.each = calloc(jobs->count, sizeof *pool.each);
    if (pool.each == NULL)
        return kvt_fail_nomem(err, jobs->what);
    for (size_t i = 0; i < jobs->count; i++)
        pool.each[i] = (struct cli_job){.pool = &pool, .to = 1};
    run_all(&pool);
    free(pool.each);
    (void)pthread_cond_destroy(&pool.ended);
    (void)pthread_mutex_destroy(&pool.lock);
    if (!pool.has_failed)
        return KVT_OK;
    *failed = pool.failed_job;
    *err = pool.err;
    return pool.status;
}
