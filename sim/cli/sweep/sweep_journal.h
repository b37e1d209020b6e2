/* sweep_journal.h -- what a sweep has finished, in its folder: a line a run, as runs end.
 *
 *     16 hex digits of the text's hash, a blank, the text (JSON on one line), a line end
 *
 * The first line is the question. A line is written by one write(), so that a kill leaves whole
 * lines and at most one that is torn; whoever opens the journal to go on drops from the first line
 * that is not whole. The system is told to bring lines to the disk with the first that is written
 * half a second after it last was. One process writes, and others are kept out by a lock. */
#ifndef KVT_CLI_SWEEP_JOURNAL_H
#define KVT_CLI_SWEEP_JOURNAL_H

#include <cjson/cJSON.h>

#include "../cli.h"

#define SWEEP_JOURNAL "sweep.journal"
#define SWEEP_JOURNAL_SCHEMA "kvtide/sweep-journal/1"

struct sweep_journal;

/* The journal of a folder that has one. to_go_on: it will be added to, and is locked against every
 * other; else against writers alone. KVT_ERR_NOT_FOUND: there is none. KVT_ERR_INVALID: another
 * process has it. KVT_ERR_PARSE: it is no journal, or not even its first line is whole. */
KVT_CHECKED kvt_status sweep_journal_open(const char *dir, bool to_go_on,
                                          struct sweep_journal **out, struct kvt_error *err);
/* A new one, in a folder that is made where it is not there. question: the text of its first line,
 * an object with "schema" and "runs", how many there will be. Refused (KVT_ERR_INVALID): a folder
 * that has one, or results of a sweep. */
KVT_CHECKED kvt_status sweep_journal_create(const char *dir, const char *question,
                                            struct sweep_journal **out, struct kvt_error *err);
void sweep_journal_close(struct sweep_journal *journal); /* takes NULL */

/* Borrowed. */
const char *sweep_journal_dir(const struct sweep_journal *journal);
const cJSON *sweep_journal_question(const struct sweep_journal *journal);
/* Bytes of a torn end that were dropped when it was opened. */
size_t sweep_journal_dropped_bytes(const struct sweep_journal *journal);

/* text: an object on one line with "run", below the question's "runs". A run that is there already
 * is replaced: the later line counts. From any thread. After a write that failed, as on a full
 * disk, nothing of the line stays. */
KVT_CHECKED kvt_status sweep_journal_append(struct sweep_journal *journal, size_t run,
                                            const char *text, struct kvt_error *err);
/* Everything to the disk. */
KVT_CHECKED kvt_status sweep_journal_sync(struct sweep_journal *journal, struct kvt_error *err);

bool sweep_journal_has(const struct sweep_journal *journal, size_t run);
/* The record of a run that it has; cJSON_Delete() *out. */
KVT_CHECKED kvt_status sweep_journal_read(const struct sweep_journal *journal, size_t run,
                                          cJSON **out, struct kvt_error *err);

#endif
