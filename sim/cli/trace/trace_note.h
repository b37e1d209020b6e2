/* trace_note.h -- what a recording says of the run that it was made of: the note of a .kvsel. */
#ifndef KVT_CLI_TRACE_NOTE_H
#define KVT_CLI_TRACE_NOTE_H

#include <cjson/cJSON.h>

#include "kvt/kvsel.h"
#include "kvt/recorder.h"

#define TRACE_NOTE_SCHEMA "kvtide/kvsel-note/1"

/* Metrics of a run that its recording keeps, to be set beside those of a replay. */
#define TRACE_NOTE_METRICS                                                                         \
    "host_fetch_share", "hot_miss_ratio", "coverage_mean", "output_throughput"
enum {
    TRACE_NOTE_METRIC_COUNT = 4
};
extern const char *const trace_note_metrics[TRACE_NOTE_METRIC_COUNT];

/* Of a run's result.json. To be free()d. */
KVT_CHECKED kvt_status trace_note_of_run(const cJSON *result,
                                         const struct kvt_recorder_totals *totals, char **out,
                                         struct kvt_error *err);

/* A file's note, checked to be one of ours; the caller's to cJSON_Delete(). NULL: the file has no
 * note. */
KVT_CHECKED kvt_status trace_note_read(const struct kvt_kvsel_header *header, const char *path,
                                       cJSON **out, struct kvt_error *err);

#endif
