/* error.c -- failures put into words: one place, one line. */
#include "kvt/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "utf8.h"

/* What an analyzer is told instead (error.h) is for callers. */
#undef kvt_fail
#undef kvt_fail_nomem
#undef kvt_fail_read
#undef kvt_fail_system

/* A message may quote a file's bytes. It stays one line that a terminal can
 * show: control characters, and what is not UTF-8 (the buffer's end may have cut
 * a character in two), become '?'. */
static void make_printable(char *text)
{
    size_t length = strlen(text);
    size_t at = 0;
    while (at < length) {
        uint32_t code = 0;
        size_t bytes = kvt_utf8_decode(text + at, length - at, &code);
        if (bytes == 0 || code < 0x20 || (code >= 0x7f && code < 0xa0)) {
            text[at++] = '?';
            continue;
        }
        at += bytes;
    }
}

kvt_status kvt_fail(struct kvt_error *err, kvt_status status, const char *where, const char *fmt,
                    ...)
{
    if (err == NULL)
        return status;

    /* Built aside, because the arguments may borrow from *err itself. */
    struct kvt_error built;
    built.status = status;

    (void)snprintf(built.where, sizeof built.where, "%s", where != NULL ? where : "");
    make_printable(built.where);

    va_list args;
    va_start(args, fmt);
    int message_bytes = vsnprintf(built.message, sizeof built.message, fmt, args);
    va_end(args);
    if (message_bytes < 0)
        built.message[0] = '\0';
    make_printable(built.message);

    *err = built;
    return status;
}

kvt_status kvt_fail_nomem(struct kvt_error *err, const char *what)
{
    return kvt_fail(err, KVT_ERR_NOMEM, "memory", "there is not enough memory for %s",
                    what != NULL ? what : "an allocation");
}

static kvt_status fail_os(struct kvt_error *err, kvt_status status, int error_number,
                          const char *where, const char *attempt)
{
    /* strerror() keeps its text in a static buffer; this form does not. */
    char reason[128];
    if (strerror_r(error_number, reason, sizeof reason) != 0)
        (void)snprintf(reason, sizeof reason, "error %d", error_number);
    return kvt_fail(err, error_number == ENOMEM ? KVT_ERR_NOMEM : status, where, "%s: %s", attempt,
                    reason);
}

kvt_status kvt_fail_read(struct kvt_error *err, int error_number, const char *where,
                         const char *attempt)
{
    return fail_os(err, error_number == ENOENT ? KVT_ERR_NOT_FOUND : KVT_ERR_IO, error_number,
                   where, attempt);
}

kvt_status kvt_fail_system(struct kvt_error *err, int error_number, const char *where,
                           const char *attempt)
{
    return fail_os(err, KVT_ERR_SYSTEM, error_number, where, attempt);
}

const char *kvt_status_name(kvt_status status)
{
    switch (status) {
    case KVT_OK:
        return "KVT_OK";
    case KVT_ERR_NOMEM:
        return "KVT_ERR_NOMEM";
    case KVT_ERR_INVALID:
        return "KVT_ERR_INVALID";
    case KVT_ERR_PARSE:
        return "KVT_ERR_PARSE";
    case KVT_ERR_IO:
        return "KVT_ERR_IO";
    case KVT_ERR_NOT_FOUND:
        return "KVT_ERR_NOT_FOUND";
    case KVT_ERR_UNSUPPORTED:
        return "KVT_ERR_UNSUPPORTED";
    case KVT_ERR_ABI:
        return "KVT_ERR_ABI";
    case KVT_ERR_POLICY:
        return "KVT_ERR_POLICY";
    case KVT_ERR_DEVICE:
        return "KVT_ERR_DEVICE";
    case KVT_ERR_HUNG:
        return "KVT_ERR_HUNG";
    case KVT_ERR_SYSTEM:
        return "KVT_ERR_SYSTEM";
    case KVT_ERR_STALLED:
        return "KVT_ERR_STALLED";
    case KVT_ERR_INTERRUPTED:
        return "KVT_ERR_INTERRUPTED";
    case KVT_ERR_INTERNAL:
        return "KVT_ERR_INTERNAL";
    }
    return "KVT_ERR_UNKNOWN";
}
