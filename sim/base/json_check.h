/* json_check.h -- the strict grammar, checked before cJSON sees the text. */
#ifndef KVT_BASE_JSON_CHECK_H
#define KVT_BASE_JSON_CHECK_H

#include "kvt/error.h"

/* Whether text[0..text_bytes), without its byte-order mark, is one JSON value
 * as kvt_json_parse() takes it. The error's place is name:line:column, columns
 * in characters. */
KVT_CHECKED kvt_status kvt_json_check(const char *text, size_t text_bytes, const char *name,
                                      uint64_t first_line, struct kvt_error *err);

#endif
