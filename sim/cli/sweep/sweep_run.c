/* sweep_run.c -- what is not in the journal yet is run, by threads here and ranks elsewhere.
 *
 *     a thread, and a rank for one of its threads, takes the lowest run that nobody has
 *     whatever has ended goes into the journal at once
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/version.h"
#include "sweep.h"

struct sweeping {
    const struct sweep_question *question;
    const struct sweep_run_options *options;
    struct kvt_surfaces *surfaces;
    size_t *pending; /* [pending_count] runs to do, ascending */
    size_t pending_count;
    pthread_mutex_t lock; /* guards what follows, and the journal */
    struct sweep_journal *journal;
    size_t next, done_elsewhere;
    bool has_failed; /* nothing is handed out any more */
    /* Of the talk with ranks, which one thread has. */
    kvt_status talk_status;
    struct kvt_error talk_err;
    bool is_interrupted_elsewhere;
};

/* ---- What is left to do ---------------------------------------------------------------------- */

/* A failure that may pass is tried again. */
static kvt_status is_left(const struct sweep_journal *journal, size_t run, double *metrics,
                          bool *left, struct kvt_error *err)
{
    struct sweep_record record;
    cJSON *tree = NULL;

    *left = true;
    if (!sweep_journal_has(journal, run))
        return KVT_OK;
    kvt_status status = sweep_journal_read(journal, run, &tree, err);
    if (status == KVT_OK)
        status = sweep_record_read(tree, sweep_journal_dir(journal), metrics, &record, err);
    if (status == KVT_OK)
        *left = record.may_pass;
    cJSON_Delete(tree);
    return status;
}

static kvt_status take_in(struct sweeping *sweeping, size_t run, double *metrics,
                          struct kvt_error *err)
{
    const struct sweep_question *question = sweeping->question;
    char *text = NULL;
    bool left = false;
    kvt_status status = is_left(sweeping->journal, run, metrics, &left, err);

    if (status != KVT_OK || !left)
        return status;
    if (question->points[run / question->seed_count].status == KVT_OK) {
        sweeping->pending[sweeping->pending_count++] = run;
        return KVT_OK;
    }
    status = sweep_refuse_one(question, run, &text, err);
    if (status == KVT_OK)
        status = sweep_journal_append(sweeping->journal, run, text, err);
    free(text);
    return status;
}

static kvt_status find_pending(struct sweeping *sweeping, struct kvt_error *err)
{
    const struct sweep_question *question = sweeping->question;
    size_t runs = question->grid.point_count * question->seed_count, count = 0;

    (void)kvt_metric_docs(&count);
    double *metrics = calloc(count, sizeof *metrics);
    sweeping->pending = calloc(runs, sizeof *sweeping->pending);
    kvt_status status =
        metrics != NULL && sweeping->pending != NULL ? KVT_OK : kvt_fail_nomem(err, "a sweep");
    for (size_t run = 0; status == KVT_OK && run < runs; run++) {
        if (sweep_is_ours(question, run / question->seed_count))
            status = take_in(sweeping, run, metrics, err);
    }
    free(metrics);
    return status;
}

/* ---- Here --------------------------------------------------------------------------------------
 */

static bool take(void *context, size_t *index)
{
    struct sweeping *sweeping = context;

    (void)pthread_mutex_lock(&sweeping->lock);
    bool taken = !sweeping->has_failed && sweeping->next < sweeping->pending_count;
    if (taken)
        *index = sweeping->next++;
    (void)pthread_mutex_unlock(&sweeping->lock);
    return taken;
}

static kvt_status keep(struct sweeping *sweeping, size_t run, const char *text,
                       struct kvt_error *err)
{
    (void)pthread_mutex_lock(&sweeping->lock);
    kvt_status status = sweep_journal_append(sweeping->journal, run, text, err);
    sweeping->has_failed = sweeping->has_failed || status != KVT_OK;
    (void)pthread_mutex_unlock(&sweeping->lock);
    return status;
}

static kvt_status run_job(void *context, size_t index, unsigned threads, struct cli_job *job,
                          struct kvt_error *err)
{
    struct sweeping *sweeping = context;
    const struct sweep_question *question = sweeping->question;
    size_t run = sweeping->pending[index];
    char *text = NULL;
    kvt_status status =
        sweep_run_one(question, sweeping->options, sweeping->surfaces, run,
                      question->points[run / question->seed_count].hash, threads, job, &text, err);

    if (status == KVT_OK)
        status = keep(sweeping, run, text, err);
    free(text);
    if (status != KVT_OK) {
        (void)pthread_mutex_lock(&sweeping->lock);
        sweeping->has_failed = true;
        (void)pthread_mutex_unlock(&sweeping->lock);
    }
    return status;
}

/* ---- Elsewhere ---------------------------------------------------------------------------------
 */

static kvt_status hand_out(struct sweeping *sweeping, const struct sweep_message *want,
                           struct kvt_error *err)
{
    const struct sweep_question *question = sweeping->question;
    struct sweep_message answer = {.verb = SWEEP_STOP};
    size_t index = 0;

    if (strcmp(want->text, kvt_commit()) != 0)
        return kvt_fail(err, KVT_ERR_INVALID, "sweep --mpi",
                        "rank %d is kvtide %.60s and rank 0 is %.60s; expected the same",
                        want->from, want->text, kvt_commit());
    if (take(sweeping, &index)) {
        size_t run = sweeping->pending[index];
        answer.verb = SWEEP_RUN;
        answer.run = run;
        answer.hash = question->points[run / question->seed_count].hash;
    }
    return sweep_team_send(sweeping->options->team, want->from, &answer, err);
}

static kvt_status hear(struct sweeping *sweeping, const struct sweep_message *message,
                       struct kvt_error *err)
{
    size_t runs = sweeping->question->grid.point_count * sweeping->question->seed_count;

    switch (message->verb) {
    case SWEEP_WANT:
        return hand_out(sweeping, message, err);
    case SWEEP_DONE:
        sweeping->done_elsewhere++;
        if (message->run < runs)
            return keep(sweeping, message->run, message->text, err);
        break;
    case SWEEP_FAIL:
        sweeping->is_interrupted_elsewhere = message->text[0] == '\0';
        return kvt_fail(err, KVT_ERR_INVALID, "sweep --mpi", "rank %d: %s", message->from,
                        message->text);
    default:
        break;
    }
    return KVT_OK;
}

static bool pump(void *context, size_t *done_elsewhere)
{
    struct sweeping *sweeping = context;
    struct sweep_team *team = sweeping->options->team;
    struct sweep_message message = {.verb = SWEEP_BYE};

    while (message.verb != SWEEP_NOTHING && sweeping->talk_status == KVT_OK) {
        sweeping->talk_status = sweep_team_receive(team, &message, &sweeping->talk_err);
        if (sweeping->talk_status == KVT_OK)
            sweeping->talk_status = hear(sweeping, &message, &sweeping->talk_err);
        free(message.text);
    }
    (void)pthread_mutex_lock(&sweeping->lock);
    sweeping->has_failed = sweeping->has_failed || sweeping->talk_status != KVT_OK;
    bool goes_on = !sweeping->has_failed && team->gone < team->rank_count - 1;
    (void)pthread_mutex_unlock(&sweeping->lock);
    *done_elsewhere = sweeping->done_elsewhere;
    return goes_on && !cli_interrupted();
}

/* ---- All of it ---------------------------------------------------------------------------------
 */

/* Whoever measures has the GPU to himself. */
static bool is_measured(const struct sweep_question *question)
{
    bool found = false;

    for (size_t p = 0; p < question->grid.point_count; p++)
        found = found || question->points[p].is_measured;
    return found;
}

static kvt_status run_pending(struct sweeping *sweeping, struct kvt_error *err)
{
    const struct sweep_run_options *options = sweeping->options;
    bool is_alone = options->team->transport == NULL;
    size_t failed = 0;
    const struct cli_jobs jobs = {.count = sweeping->pending_count,
                                  .threads = options->jobs * options->threads,
                                  .at_once = is_measured(sweeping->question) ? 1 : options->jobs,
                                  .quiet = options->quiet,
                                  .what = "sweeping",
                                  .run = run_job,
                                  .take = take,
                                  .pump = is_alone ? NULL : pump,
                                  .context = sweeping};
    struct kvt_error unsynced;

    options->team->has_handed_out = true;
    kvt_status status = cli_jobs_run(&jobs, &failed, err);
    kvt_status synced = sweep_journal_sync(sweeping->journal, &unsynced);

    if (status == KVT_OK && sweeping->talk_status != KVT_OK &&
        !sweeping->is_interrupted_elsewhere) {
        *err = sweeping->talk_err;
        status = sweeping->talk_status;
    }
    if (status == KVT_OK && synced != KVT_OK) {
        *err = unsynced;
        status = synced;
    }
    return status;
}

kvt_status sweep_run(const struct sweep_question *question, const struct sweep_run_options *options,
                     struct sweep_journal *journal, bool *interrupted, struct kvt_error *err)
{
    struct sweeping sweeping = {.question = question,
                                .options = options,
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .journal = journal};
    kvt_status status = find_pending(&sweeping, err);

    if (status == KVT_OK)
        status = kvt_surfaces_new(&sweeping.surfaces, err);
    if (status == KVT_OK) {
        status = run_pending(&sweeping, err);
        kvt_surfaces_free(sweeping.surfaces);
    }
    free(sweeping.pending);
    (void)pthread_mutex_destroy(&sweeping.lock);
    *interrupted = cli_interrupted() || sweeping.is_interrupted_elsewhere;
    return status;
}
