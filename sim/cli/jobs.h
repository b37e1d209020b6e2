/* jobs.h -- independent pieces of work on some threads, with one line of progress for all. */
#ifndef KVT_CLI_JOBS_H
#define KVT_CLI_JOBS_H

#include "cli.h"

enum {
    CLI_THREADS_MAX = 256
};

/* The job in hand, as whoever works on it tells how far it is. */
struct cli_job;
/* fraction of it, 0 to 1; or of the part of it that is under way. */
void cli_job_note(struct cli_job *job, double fraction);
/* From here on notes are of the part that goes from `from` to `to` of the job: where it makes
 * several runs. */
void cli_job_part(struct cli_job *job, double from, double to);
/* For kvt_sim_options.on_prepare and cli_advance(): preparing counts as half of a job. context is
 * the struct cli_job. The first is false once a signal has come. */
bool cli_job_on_prepare(void *context, double fraction, const char *what);
void cli_job_on_advance(void *context, double done_fraction);

struct cli_jobs {
    size_t count;
    unsigned threads; /* of all jobs together, at most CLI_THREADS_MAX */
    unsigned at_once; /* jobs, at most; 0: as many as threads */
    bool quiet;
    const char *what; /* is being done: "comparing" */
    /* Job `index`, which may use so many threads of its own. It shares with others only what nobody
     * writes, and writes its own place. KVT_ERR_INTERRUPTED after a signal is no failure. */
    kvt_status (*run)(void *context, size_t index, unsigned threads, struct cli_job *job,
                      struct kvt_error *err);
    /* Where jobs come from instead of 0, 1, .. in turn, where others work on them too: *index below
     * count; false once there is none. May wait for one. Optional. */
    bool (*take)(void *context, size_t *index);
    /* Called every millisecond or so by the caller's thread, to talk to those others: sets how many
     * jobs they have done, and says whether to go on calling when every thread here has ended. Must
     * end the waiting of take() after a signal. Optional. */
    bool (*pump)(void *context, size_t *done_elsewhere);
    void *context;
};

/* Runs them, the lowest first, until all are done, one has failed, or a signal has come; who ran
 * what, and when, cannot be seen in the outcome. *failed is the failed job with the lowest number.
 */
KVT_CHECKED kvt_status cli_jobs_run(const struct cli_jobs *jobs, size_t *failed,
                                    struct kvt_error *err);

#endif
