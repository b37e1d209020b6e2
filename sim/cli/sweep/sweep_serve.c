/* sweep_serve.c -- a rank other than 0: what it is given it runs, and tells at once how it went.
 *
 * Threads wait for runs and leave records; one thread alone talks. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kvt/version.h"
#include "sweep.h"

struct parcel {
    struct parcel *next;
    size_t run;
    char *text;
};

struct serving {
    const struct sweep_question *question;
    const struct sweep_run_options *options;
    struct kvt_surfaces *surfaces;
    uint64_t *hashes;     /* [runs] of those that were given */
    size_t *given;        /* [runs] as a stack: given_count of them are not taken yet */
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t woken;
    size_t given_count, wanting; /* threads that wait, and have not asked yet */
    struct parcel *done;         /* not sent yet */
    bool has_stopped;
    /* Of the talk. */
    size_t unanswered;
    kvt_status status;
    struct kvt_error err;
};

/* ---- Threads -----------------------------------------------------------------------------------
 */

static bool take(void *context, size_t *index)
{
    struct serving *serving = context;

    (void)pthread_mutex_lock(&serving->lock);
    serving->wanting++;
    while (serving->given_count == 0 && !serving->has_stopped)
        (void)pthread_cond_wait(&serving->woken, &serving->lock);
    bool taken = serving->given_count > 0;
    if (taken)
        *index = serving->given[--serving->given_count];
    (void)pthread_mutex_unlock(&serving->lock);
    return taken;
}

static kvt_status run_job(void *context, size_t index, unsigned threads, struct cli_job *job,
                          struct kvt_error *err)
{
    struct serving *serving = context;
    struct parcel *parcel = calloc(1, sizeof *parcel);
    kvt_status status = parcel != NULL ? KVT_OK : kvt_fail_nomem(err, "a record");

    if (status == KVT_OK)
        status = sweep_run_one(serving->question, serving->options, serving->surfaces, index,
                               serving->hashes[index], threads, job, &parcel->text, err);
    (void)pthread_mutex_lock(&serving->lock);
    if (status == KVT_OK) {
        parcel->run = index;
        parcel->next = serving->done;
        serving->done = parcel;
    } else {
        free(parcel);
        serving->has_stopped = true;
        (void)pthread_cond_broadcast(&serving->woken);
    }
    (void)pthread_mutex_unlock(&serving->lock);
    return status;
}

/* ---- Talk --------------------------------------------------------------------------------------
 */

static kvt_status tell(struct serving *serving, struct kvt_error *err)
{
    char commit[128];
    kvt_status status = KVT_OK;

    (void)snprintf(commit, sizeof commit, "%s", kvt_commit());
    (void)pthread_mutex_lock(&serving->lock);
    struct parcel *done = serving->done;
    size_t wanting = serving->has_stopped ? 0 : serving->wanting;
    serving->done = NULL;
    serving->wanting = 0;
    (void)pthread_mutex_unlock(&serving->lock);
    while (done != NULL) {
        struct parcel *next = done->next;
        const struct sweep_message message = {
            .verb = SWEEP_DONE, .run = done->run, .text = done->text};
        if (status == KVT_OK)
            status = sweep_team_send(serving->options->team, 0, &message, err);
        free(done->text);
        free(done);
        done = next;
    }
    for (size_t i = 0; status == KVT_OK && i < wanting; i++) {
        const struct sweep_message message = {.verb = SWEEP_WANT, .text = commit};
        status = sweep_team_send(serving->options->team, 0, &message, err);
        serving->unanswered += status == KVT_OK;
    }
    return status;
}

static kvt_status hear(struct serving *serving, bool *any, struct kvt_error *err)
{
    size_t runs = serving->question->grid.point_count * serving->question->seed_count;
    struct sweep_message message;
    kvt_status status = sweep_team_receive(serving->options->team, &message, err);

    free(message.text);
    *any = status == KVT_OK && message.verb != SWEEP_NOTHING;
    if (!*any)
        return status;
    (void)pthread_mutex_lock(&serving->lock);
    serving->unanswered--;
    if (message.verb == SWEEP_RUN && message.run < runs) {
        serving->hashes[message.run] = message.hash;
        serving->given[serving->given_count++] = message.run;
    } else {
        serving->has_stopped = true;
    }
    (void)pthread_cond_broadcast(&serving->woken);
    (void)pthread_mutex_unlock(&serving->lock);
    return status;
}

static bool pump(void *context, size_t *done_elsewhere)
{
    struct serving *serving = context;
    bool any = true;

    *done_elsewhere = 0;
    if (serving->status == KVT_OK)
        serving->status = tell(serving, &serving->err);
    while (serving->status == KVT_OK && any)
        serving->status = hear(serving, &any, &serving->err);
    if (serving->status != KVT_OK || cli_interrupted()) {
        (void)pthread_mutex_lock(&serving->lock);
        serving->has_stopped = true;
        (void)pthread_cond_broadcast(&serving->woken);
        (void)pthread_mutex_unlock(&serving->lock);
    }
    return false;
}

/* What rank 0 has still to say, so that nothing is under way when this rank leaves. */
static void hear_out(struct serving *serving)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    size_t done = 0;

    (void)pump(serving, &done);
    while (serving->status == KVT_OK && serving->unanswered > 0 && !cli_interrupted()) {
        (void)nanosleep(&moment, NULL);
        (void)pump(serving, &done);
    }
}

/* The last word of this rank: that it is done, why it cannot go on, or that a signal came. */
static void take_leave(struct serving *serving, kvt_status status, const struct kvt_error *err)
{
    char text[sizeof *err] = "";
    struct sweep_message message = {.verb = SWEEP_BYE};

    if (status != KVT_OK)
        (void)snprintf(text, sizeof text, "%s%s%s", err->where, err->where[0] != '\0' ? ": " : "",
                       err->message);
    if (status != KVT_OK || cli_interrupted())
        message = (struct sweep_message){.verb = SWEEP_FAIL, .text = text};
    (void)!sweep_team_send(serving->options->team, 0, &message, NULL);
}

static kvt_status serve(struct serving *serving, struct kvt_error *err)
{
    const struct sweep_run_options *options = serving->options;
    size_t runs = serving->question->grid.point_count * serving->question->seed_count;
    size_t failed = 0;
    const struct cli_jobs jobs = {.count = runs,
                                  .threads = options->jobs * options->threads,
                                  .at_once = options->jobs,
                                  .quiet = true,
                                  .what = "sweeping",
                                  .run = run_job,
                                  .take = take,
                                  .pump = pump,
                                  .context = serving};

    serving->hashes = calloc(runs, sizeof *serving->hashes);
    serving->given = calloc(runs, sizeof *serving->given);
    kvt_status status = serving->hashes != NULL && serving->given != NULL
                            ? kvt_surfaces_new(&serving->surfaces, err)
                            : kvt_fail_nomem(err, "a sweep");
    if (status == KVT_OK)
        status = cli_jobs_run(&jobs, &failed, err);
    hear_out(serving);
    if (status == KVT_OK && serving->status != KVT_OK) {
        *err = serving->err;
        status = serving->status;
    }
    return status;
}

kvt_status sweep_serve(const struct sweep_question *question,
                       const struct sweep_run_options *options, struct kvt_error *err)
{
    struct serving serving = {.question = question,
                              .options = options,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .woken = PTHREAD_COND_INITIALIZER};
    kvt_status status = serve(&serving, err);

    take_leave(&serving, status, err);
    kvt_surfaces_free(serving.surfaces);
    free(serving.hashes);
    free(serving.given);
    (void)pthread_cond_destroy(&serving.woken);
    (void)pthread_mutex_destroy(&serving.lock);
    return status;
}
