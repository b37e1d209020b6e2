/* faults.h -- what failed during a run, as reports tell it. */
#ifndef KVT_REPORT_FAULTS_H
#define KVT_REPORT_FAULTS_H

#include "kvt/report.h"

/* Of the faults that interrupted somebody the longest time until all of them decoded again or had
 * ended; NaN: there was none, or some did not. */
double faults_recovery_s(const struct kvt_run *run);
/* Tokens of interrupted requests whose rows were kept on host, over all faults. */
double faults_kept_tokens(const struct kvt_run *run);

/* "faults": a list, where the scenario has any. False when memory is short. */
bool faults_add(struct cJSON *result, const struct kvt_run *run);

enum {
    FAULT_TEXT_BYTES = 320
};
/* One fault as a sentence. */
void faults_say(const struct kvt_run *run, const struct kvt_fault_report *report, char *text,
                size_t bytes);

#endif
