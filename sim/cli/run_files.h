/* run_files.h -- what a run writes into a folder, as it goes and when it ends. */
#ifndef KVT_CLI_RUN_FILES_H
#define KVT_CLI_RUN_FILES_H

#include "kvt/file.h"
#include "kvt/sim.h"
#include "openmetrics.h"
#include "perfetto.h"

struct run_files {
    const char *dir;    /* NULL: nothing is written */
    bool leaves_report; /* out, of the files */
    bool made_dir;      /* it was not there before */
    struct kvt_outfile *timeline;
    struct openmetrics *openmetrics; /* timeline.om */
    /* perfetto.json, if asked for. */
    bool wants_perfetto;
    double perfetto_from_s, perfetto_to_s;
    uint64_t perfetto_events;
    struct perfetto *perfetto;
    struct kvt_outfile *perfetto_file;
    struct perfetto_account perfetto_account;
};

/* Before the run, whose scenario is borrowed until run_files_end(). */
KVT_CHECKED kvt_status run_files_begin(struct run_files *files, const struct kvt_scenario *scenario,
                                       struct kvt_error *err);
/* For kvt_sim_options; NULL: nobody watches. */
const struct kvt_observer *run_files_observer(const struct run_files *files);
/* As kvt_sim_options.on_interval, with the files as its context. */
void run_files_interval(void *context, const struct kvt_tally *interval, uint32_t stratum_count);
/* Written whole, the result last: with result.json there, all that was counted is. Then the page of
 * it, report.html, out of these files. */
KVT_CHECKED kvt_status run_files_write(struct run_files *files, const struct kvt_run *run,
                                       const char *result_text, double wall_s,
                                       struct kvt_error *err);
/* Whatever became of it; a folder that was made for a run that failed goes. */
void run_files_end(struct run_files *files, kvt_status status);

#endif
