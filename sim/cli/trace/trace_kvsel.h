/* trace_kvsel.h -- kvtide trace on recorded selections, which are told by their first bytes. */
#ifndef KVT_CLI_TRACE_KVSEL_H
#define KVT_CLI_TRACE_KVSEL_H

#include "trace.h"

/* Nothing is printed before every file has been read. */
KVT_CHECKED kvt_status trace_kvsel_stats(const char *const *paths, size_t count, bool json,
                                         bool quiet, struct kvt_error *err);

/* first_rows 0: the fewest rows that fit. */
KVT_CHECKED kvt_status trace_npy_convert(const char *path, const char *to, uint32_t first_rows,
                                         bool quiet, struct kvt_error *err);

#endif
