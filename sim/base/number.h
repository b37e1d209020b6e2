/* number.h -- decimal numbers, the same whatever the process's locale says. */
#ifndef KVT_BASE_NUMBER_H
#define KVT_BASE_NUMBER_H

#include "kvt/base.h"

/* Longest number that is read: what cJSON can take. Seventeen digits tell any
 * two doubles apart. */
#define KVT_NUMBER_BYTES_MAX ((size_t)63)

/* Length of the JSON number that text[0..text_bytes) begins with, 0 when it
 * begins with none. */
size_t kvt_number_scan(const char *text, size_t text_bytes);

/* The double nearest to text[0..text_bytes), which kvt_number_scan() accepted
 * as a whole, of at most KVT_NUMBER_BYTES_MAX bytes; may be infinite. */
double kvt_number_value(const char *text, size_t text_bytes);

/* A limit, for a message: as kvt_json_print_number(), but "inf" and "-inf". */
void kvt_number_print_bound(double value, char out[32]);

#endif
