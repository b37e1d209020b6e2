/* tape_prepare.c -- whole tapes recorded by several threads, through the cache.
 *
 *     each thread: for each tape, in their order: take its lock, or leave it to
 *         whoever has that; read it from the cache, or record and write it
 *     and again for those that were left, this time waiting for the lock */
#include "tape_prepare.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum {
    PORTION_STEPS = REEL_BLOCK_STEPS, /* recorded between two looks at the progress */
    THREADS_MAX = 256,
    WAIT_NS = 20 * 1000 * 1000, /* between two looks at a lock */
};

bool tape_tell(const struct tape_listener *listener, double done_fraction)
{
    return listener->progress == NULL ||
           listener->progress(listener->context, done_fraction, "recording selections");
}

kvt_status tape_interrupted(struct kvt_error *err)
{
    return kvt_fail(err, KVT_ERR_INTERRUPTED, "", "interrupted while selections were recorded");
}

/* Only the thread that asked for the tapes reports. False when the recording is to stop. */
static bool report_progress(struct tape_work *work, bool reports)
{
    if (reports && !tape_tell(work->listener,
                              (double)atomic_load(&work->steps_done) / (double)work->step_count))
        atomic_store(&work->is_stopped, true);
    return !atomic_load(&work->is_stopped) && !atomic_load(&work->has_failed);
}

static void record_reel(struct tape_work *work, struct reel *reel, bool reports)
{
    uint32_t all = reel->selections.token_count;
    if (reel->recorded == 0)
        tape_cache_load(work->cache, reel);
    atomic_fetch_add(&work->steps_done, reel->recorded);
    while (reel->recorded < all) {
        uint32_t before = reel->recorded;
        uint32_t until = all - before < PORTION_STEPS ? all : before + PORTION_STEPS;
        if (reel_record(reel, work->process, until, NULL) != KVT_OK) {
            atomic_store(&work->has_failed, true);
            return;
        }
        atomic_fetch_add(&work->steps_done, reel->recorded - before);
        if (!report_progress(work, reports))
            return;
    }
    tape_cache_store(work->cache, reel);
    (void)report_progress(work, reports);
}

/* False when another holds the tape's lock, and `waits` is not set. */
static bool try_reel(struct tape_work *work, size_t i, bool waits, bool reports)
{
    struct reel *reel = work->reels[i];
    int lock = tape_cache_lock(work->cache, reel);
    while (lock == TAPE_LOCK_BUSY) {
        if (!waits || !report_progress(work, reports))
            return false;
        struct timespec pause = {.tv_nsec = WAIT_NS};
        (void)nanosleep(&pause, NULL);
        lock = tape_cache_lock(work->cache, reel);
    }
    if (!atomic_exchange(&work->is_taken[i], true))
        record_reel(work, reel, reports);
    tape_cache_unlock(work->cache, reel, lock);
    return true;
}

static void record_reels(struct tape_work *work, bool reports)
{
    while (!atomic_load(&work->has_failed) && !atomic_load(&work->is_stopped)) {
        size_t turn = atomic_fetch_add(&work->next, 1);
        if (turn >= 2 * work->reel_count)
            return;
        size_t i = turn % work->reel_count;
        if (!atomic_load(&work->is_taken[i]))
            (void)try_reel(work, i, turn >= work->reel_count, reports);
    }
}

static void *record_reels_aside(void *work)
{
    record_reels(work, false);
    return NULL;
}

/* A thread that cannot be had is done without: the others take its tapes. */
static void record_all(struct tape_work *work)
{
    pthread_t threads[THREADS_MAX];
    size_t wanted = work->threads < THREADS_MAX ? work->threads : THREADS_MAX;
    if (wanted > work->reel_count)
        wanted = work->reel_count;
    size_t started = 0;
    while (started + 1 < wanted &&
           pthread_create(&threads[started], NULL, record_reels_aside, work) == 0)
        started++;
    record_reels(work, true);
    for (size_t t = 0; t < started; t++)
        (void)pthread_join(threads[t], NULL);
}

kvt_status tape_prepare_all(struct tape_work *work, struct kvt_error *err)
{
    work->is_taken = calloc(work->reel_count, sizeof *work->is_taken);
    if (work->is_taken == NULL)
        return kvt_fail_nomem(err, "the list of tapes to record");
    for (size_t i = 0; i < work->reel_count; i++) {
        atomic_init(&work->is_taken[i], false);
        work->step_count += work->reels[i]->selections.token_count;
    }
    record_all(work);
    free(work->is_taken);
    work->is_taken = NULL;
    if (atomic_load(&work->has_failed))
        return kvt_fail_nomem(err, "the tapes of selections");
    if (atomic_load(&work->is_stopped))
        return tape_interrupted(err);
    return KVT_OK;
}
