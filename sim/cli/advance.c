/* advance.c -- a run taken to its end, with looks at it on the way. */
#include "cli.h"
#include "kvt/sim.h"

enum {
    LOOK_NS = KVT_NS_PER_S / 4 /* simulated, between two looks */
};

kvt_status cli_advance(struct kvt_sim *sim, void (*note)(void *context, double done_fraction),
                       void *context, bool *interrupted, struct kvt_error *err)
{
    bool more = true;

    *interrupted = false;
    while (more && !*interrupted) {
        kvt_status status = kvt_sim_run_until(sim, kvt_sim_now_ns(sim) + LOOK_NS, &more, err);
        if (status == KVT_OK) {
            note(context, kvt_sim_progress(sim));
            *interrupted = cli_interrupted();
        }
        /* A quiet stretch longer than the window: take the next event as it is. */
        if (status == KVT_OK && more)
            status = kvt_sim_step(sim, &more, err);
        /* What nobody asked for is a failure. */
        if (status == KVT_ERR_INTERRUPTED && cli_interrupted())
            *interrupted = true;
        else if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

struct telling {
    struct cli_progress progress;
    const char *what;
};

static void tell(void *context, double done_fraction)
{
    struct telling *telling = context;
    cli_progress_show(&telling->progress, done_fraction, telling->what);
}

kvt_status cli_run_whole(const struct kvt_scenario *scenario, const struct kvt_sim_options *options,
                         const char *what, bool quiet, struct cli_run *out, struct kvt_error *err)
{
    struct telling telling = {.what = what};
    struct kvt_sim_options told = *options;

    *out = (struct cli_run){.sim = NULL};
    told.on_prepare = cli_progress_prepare;
    told.prepare_context = &telling.progress;
    cli_progress_begin(&telling.progress, &out->start, quiet);
    kvt_status status = kvt_sim_new(scenario, &told, &out->sim, err);
    if (status == KVT_OK)
        status = cli_advance(out->sim, tell, &telling, &out->interrupted, err);
    cli_progress_end(&telling.progress);
    return status == KVT_OK ? kvt_sim_finish(out->sim, out->interrupted, &out->run, err) : status;
}
