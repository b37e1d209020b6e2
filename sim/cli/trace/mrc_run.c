/* mrc_run.c -- every (request, store) of the files, on some threads.
 *
 * Sums of whole numbers: the order in which lanes end cannot be seen. */
#include <pthread.h>
#include <stdlib.h>

#include "../jobs.h"
#include "mrc.h"

struct work {
    const struct mrc_plan *plan;
    const struct mrc_file *files; /* [file_count] */
    size_t file_count;
    pthread_mutex_t lock; /* of *counts */
    struct mrc_counts *counts;
};

static size_t lanes_of(const struct mrc_file *file)
{
    return (size_t)kvt_kvsel_reader_header(file->reader)->request_count * file->store_count;
}

static bool tell(void *context, double fraction)
{
    cli_job_note(context, fraction);
    return !cli_interrupted();
}

static void add_counts(struct mrc_counts *to, const struct mrc_counts *from)
{
    to->lanes += from->lanes;
    to->selections += from->selections;
    to->selected += from->selected;
    to->first += from->first;
    for (size_t p = 0; p < MRC_POLICIES_MAX; p++) {
        for (size_t i = 0; i < MRC_SIZES_MAX; i++)
            to->missed[p][i] += from->missed[p][i];
    }
}

static kvt_status run_lane(void *context, size_t index, unsigned threads, struct cli_job *job,
                           struct kvt_error *err)
{
    struct work *work = context;
    size_t f = 0;
    (void)threads;
    for (; index >= lanes_of(&work->files[f]); f++)
        index -= lanes_of(&work->files[f]);
    const struct mrc_file *file = &work->files[f];
    struct mrc_counts *counts = calloc(1, sizeof *counts);
    if (counts == NULL)
        return kvt_fail_nomem(err, "trace mrc");
    kvt_status status = mrc_lane_run(work->plan, file, (uint32_t)(index / file->store_count),
                                     (uint32_t)(index % file->store_count), tell, job, counts, err);
    if (status == KVT_OK) {
        (void)pthread_mutex_lock(&work->lock);
        add_counts(work->counts, counts);
        (void)pthread_mutex_unlock(&work->lock);
    }
    free(counts);
    return status;
}

/* Before anything is run: the future that so many lanes at once see must fit. */
static kvt_status check_memory(const struct work *work, size_t lanes, struct kvt_error *err)
{
    const struct mrc_plan *plan = work->plan;
    uint64_t most = 0;
    for (size_t f = 0; f < work->file_count; f++) {
        const struct mrc_file *file = &work->files[f];
        for (size_t lane = 0; lane < lanes_of(file); lane++) {
            uint64_t bytes = mrc_lane_future_bytes(plan, file, (uint32_t)(lane / file->store_count),
                                                   (uint32_t)(lane % file->store_count));
            most = bytes > most ? bytes : most;
        }
    }
    uint64_t at_once = plan->threads < lanes ? plan->threads : lanes;
    if (most * at_once <= plan->memory_bytes)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, "trace mrc",
                    "to see the future of %llu stores at once takes %llu MiB, and --memory-mib "
                    "allows %llu; more of it, fewer --threads or --tokens, or --policies that do "
                    "not see it are expected",
                    (unsigned long long)at_once,
                    (unsigned long long)((most * at_once + (1 << 20) - 1) >> 20),
                    (unsigned long long)(plan->memory_bytes >> 20));
}

kvt_status mrc_run(const struct mrc_plan *plan, const struct mrc_file *files, size_t file_count,
                   struct mrc_counts *counts, struct kvt_error *err)
{
    struct work work = {.plan = plan,
                        .files = files,
                        .file_count = file_count,
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .counts = counts};
    size_t lanes = 0, failed = 0;
    for (size_t f = 0; f < file_count; f++)
        lanes += lanes_of(&files[f]);
    kvt_status status = check_memory(&work, lanes, err);
    if (status != KVT_OK)
        return status;
    struct cli_jobs jobs = {.count = lanes,
                            .threads = plan->threads,
                            .quiet = plan->quiet,
                            .what = "miss curves",
                            .run = run_lane,
                            .context = &work};
    status = cli_jobs_run(&jobs, &failed, err);
    (void)pthread_mutex_destroy(&work.lock);
    if (status == KVT_OK && cli_interrupted())
        return kvt_fail(err, KVT_ERR_INTERRUPTED, "trace mrc",
                        "interrupted before every store had been gone through; nothing is told");
    if (status == KVT_OK && counts->selected == 0)
        return kvt_fail(err, KVT_ERR_INVALID, "trace mrc",
                        "no selection lies in the tokens asked for");
    return status;
}
