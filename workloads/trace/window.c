/* window.c -- a part of a trace's time, as people write it. */
#include <string.h>

#include "kvt/file.h"
#include "kvt/workload.h"

#define WINDOW_S_MAX 9e9

kvt_status kvt_trace_parse_window(const char *text, const char *where, double *from_s, double *to_s,
                                  struct kvt_error *err)
{
    char from[32];
    *from_s = 0;
    *to_s = 0;
    if (text == NULL || text[0] == '\0')
        return KVT_OK;
    const char *colon = strchr(text, ':');
    size_t from_bytes = colon != NULL ? (size_t)(colon - text) : sizeof from;
    if (from_bytes >= sizeof from || (from_bytes == 0 && colon[1] == '\0'))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "\"%.40s\" is no window; it is written FROM:TO in seconds, either may be "
                        "left out",
                        text);
    memcpy(from, text, from_bytes);
    from[from_bytes] = '\0';
    bool has_end = colon[1] != '\0';
    kvt_status status = KVT_OK;
    if (from_bytes > 0)
        status = kvt_text_real(from, where, 0, WINDOW_S_MAX, from_s, err);
    if (status == KVT_OK && has_end)
        status = kvt_text_real(colon + 1, where, 0, WINDOW_S_MAX, to_s, err);
    if (status == KVT_OK && has_end && *to_s <= *from_s)
        status =
            kvt_fail(err, KVT_ERR_INVALID, where, "\"%.40s\" does not end after it begins", text);
    return status;
}
