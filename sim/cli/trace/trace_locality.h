/* trace_locality.h -- trace stats of selections: when rows come again, which pages they lie in, and
 * the law that is nearest. */
#ifndef KVT_CLI_TRACE_LOCALITY_H
#define KVT_CLI_TRACE_LOCALITY_H

#include <cjson/cJSON.h>

#include "nearest_law.h"

struct trace_locality {
    uint32_t top_k;
    struct figures figures;  /* of all streams; FIGURES_ROWS */
    size_t sampled_streams;  /* of the nearest law; 0: it is not told, */
    uint32_t sampled_tokens; /* for there are too few tokens that select a part */
    struct nearest_law laws[NEAREST_LAWS];
};

/* tell() is told how much is done; false: KVT_ERR_INTERRUPTED. */
KVT_CHECKED kvt_status trace_locality_of(const struct kvt_kvsel *file,
                                         bool (*tell)(void *context, double fraction),
                                         void *context, struct trace_locality *out,
                                         struct kvt_error *err);
void trace_locality_print(const struct trace_locality *locality);
bool trace_locality_add(cJSON *object, const struct trace_locality *locality);

#endif
