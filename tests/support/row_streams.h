/* row_streams.h -- rows that are read one after the other, for caches under test. */
#ifndef KVT_TESTS_ROW_STREAMS_H
#define KVT_TESTS_ROW_STREAMS_H

#include <stdint.h>

enum {
    ROW_STREAM_ROWS = 512, /* rows are below it */
    ROW_STREAM_LENGTH = 6000
};

enum row_stream_kind {
    ROW_STREAM_ZIPF = 0,   /* row r as often as 1 / (r + 1), in places of their own */
    ROW_STREAM_LOOP,       /* 0 to 99 again and again */
    ROW_STREAM_SCANS,      /* a Zipf, with runs of 150 rows in between */
    ROW_STREAM_SHIFTS,     /* a Zipf whose popular rows change every 1,000 */
    ROW_STREAM_SELECTIONS, /* what the `score` law selects, a query after the other, row by row */
    ROW_STREAM_KINDS
};
const char *row_stream_name(enum row_stream_kind kind);

struct row_stream {
    uint32_t count;
    uint32_t rows[ROW_STREAM_LENGTH];
    uint32_t
        next[ROW_STREAM_LENGTH]; /* how many reads later the row comes again; UINT32_MAX: never */
};
void row_stream_make(struct row_stream *stream, enum row_stream_kind kind, uint64_t seed);

#endif
