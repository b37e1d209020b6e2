/* trace_json.h -- answers of kvtide trace as JSON. */
#ifndef KVT_CLI_TRACE_JSON_H
#define KVT_CLI_TRACE_JSON_H

#include <cjson/cJSON.h>

#include "kvt/error.h"

/* null where it is no number. false: no memory, as cJSON says it by NULL. */
bool trace_add_number(cJSON *object, const char *name, double value);

/* Prints one answer as an object, several as an array of them in the order given. tree_of()
 * makes an answer's; NULL: no memory. */
KVT_CHECKED kvt_status trace_print_json(const void *answers, size_t answer_bytes, size_t count,
                                        cJSON *(*tree_of)(const void *answer),
                                        struct kvt_error *err);

#endif
