/* input.h -- what every reader and writer here shares: a limit, and how it is opened. */
#ifndef KVT_BASE_INPUT_H
#define KVT_BASE_INPUT_H

#include "kvt/error.h"

/* Longest line of text, and longest row of CSV, that is read. */
#define KVT_LINE_BYTES_MAX ((size_t)64 << 20)

/* Opens an ordinary file for reading: what is none is refused, and never waited for. */
KVT_CHECKED kvt_status kvt_open_for_reading(const char *path, int *out_fd, struct kvt_error *err);

/* read(2) that goes on after a signal. Returns bytes, 0 at the end, or -1 with
 * errno set. */
ptrdiff_t kvt_read_some(int fd, void *buffer, size_t buffer_bytes);

#endif
