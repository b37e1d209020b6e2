/* small_run.h -- whole runs for tests: a scenario's text in, a closed run out. */
#ifndef KVT_TESTS_SMALL_RUN_H
#define KVT_TESTS_SMALL_RUN_H

#include "kvt/sim.h"

struct small_run {
    struct kvt_arena *arena;
    struct kvt_scenario scenario;
    struct kvt_sim *sim;
    const struct kvt_run *run; /* once finished */
    struct kvt_error err;
    kvt_status status; /* of the first thing that failed */
};

/* Parses and opens a run; sets is NULL or a NULL-terminated list of "PATH=VALUE". The
 * scenario must parse: a test that writes it wrong ends. status is that of kvt_sim_new(). */
void small_run_open(struct small_run *small, const char *text, const char *const *sets,
                    const struct kvt_sim_options *options);

/* The same in two parts: in between, policies and laws of the test's own can take the place of
 * those in small->scenario. */
void small_run_parse(struct small_run *small, const char *text, const char *const *sets);
void small_run_start(struct small_run *small, const struct kvt_sim_options *options);

/* To its end, and closes the books. status says how that went. */
void small_run_finish(struct small_run *small);

/* All of it; anything that fails ends the test. */
void small_run_whole(struct small_run *small, const char *text, const char *const *sets);

/* Result as it goes to a file, but for what differs from build to build: version, commit
 * and the hashes of the files read. free() it. */
char *small_run_result_text(const struct small_run *small);

void small_run_close(struct small_run *small);

#endif
