/* perfetto.h -- a run as a file that ui.perfetto.dev opens: what every rank and link did, when. */
#ifndef KVT_CLI_PERFETTO_H
#define KVT_CLI_PERFETTO_H

#include <stdio.h>

#include "kvt/observer.h"
#include "kvt/report.h"

#define PERFETTO_EVENTS UINT64_C(600000) /* unless somebody wants more */

enum perfetto_kind {
    PERFETTO_STEPS = 0,
    PERFETTO_TRANSFERS,
    PERFETTO_PREFILLS,
    PERFETTO_COUNTERS,
    PERFETTO_REQUESTS,
    PERFETTO_KINDS
};

/* What it holds, and what not for want of room. */
struct perfetto_account {
    uint64_t events;
    uint64_t left_out[PERFETTO_KINDS]; /* inside the window, and past the most events */
};

struct perfetto; /* private to perfetto.c */

/* Writes into the stream as the run goes, both borrowed until perfetto_end(). Of [from_s, to_s) in
 * simulated seconds, to_s 0: all; at most events_max events (names of lanes not counted), a quarter
 * of them for requests, which come last. */
KVT_CHECKED kvt_status perfetto_begin(FILE *stream, const struct kvt_scenario *scenario,
                                      double from_s, double to_s, uint64_t events_max,
                                      struct perfetto **out, struct kvt_error *err);
/* For kvt_sim_options; of its life. */
const struct kvt_observer *perfetto_observer(struct perfetto *perfetto);
/* As an interval closes. */
void perfetto_interval(struct perfetto *perfetto, const struct kvt_tally *interval);
/* Requests, and the end of the file. */
KVT_CHECKED kvt_status perfetto_end(struct perfetto *perfetto, const struct kvt_run *run,
                                    struct perfetto_account *account, struct kvt_error *err);
/* "12 steps, 3 requests": what is left out; "" where nothing is. */
void perfetto_left_out(const struct perfetto_account *account, char out[160]);
void perfetto_free(struct perfetto *perfetto); /* takes NULL */

#endif
