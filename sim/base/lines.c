/* lines.c -- a file's lines, one at a time, in a buffer that grows to the longest.
 *
 *     next: look for a line end among the bytes not yet looked at;
 *           none: move what is left to the front, grow if full, read on
 *           one:  check the line, put a NUL on its end, hand it out */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "input.h"
#include "kvt/file.h"

enum {
    FIRST_BUFFER_BYTES = 1 << 16
};

/* The longest line, its CRLF, and room to read past them. */
#define BUFFER_BYTES_MAX (KVT_LINE_BYTES_MAX + FIRST_BUFFER_BYTES)

struct kvt_lines {
    int fd;
    char *name;
    char *buffer;    /* [capacity]; one byte is kept for a last line's NUL */
    size_t capacity; /* unread text is buffer[begin..end) */
    size_t begin;
    size_t end;
    size_t searched; /* buffer[begin..searched) holds no line end */
    bool is_at_end;  /* the file has no more bytes */
    bool is_ended;   /* the line last returned had a line feed */
    uint64_t number;
};

kvt_status kvt_lines_open(const char *path, struct kvt_lines **out, struct kvt_error *err)
{
    int fd = -1;
    kvt_status status = kvt_open_for_reading(path, &fd, err);
    if (status != KVT_OK)
        return status;

    struct kvt_lines *lines = calloc(1, sizeof *lines);
    if (lines == NULL) {
        (void)close(fd);
        return kvt_fail_nomem(err, path);
    }
    lines->fd = fd;
    lines->name = strdup(path);
    lines->capacity = FIRST_BUFFER_BYTES;
    lines->buffer = malloc(lines->capacity);
    if (lines->name == NULL || lines->buffer == NULL) {
        kvt_lines_close(lines);
        return kvt_fail_nomem(err, path);
    }
    *out = lines;
    return KVT_OK;
}

void kvt_lines_close(struct kvt_lines *lines)
{
    if (lines == NULL)
        return;
    (void)close(lines->fd);
    free(lines->name);
    free(lines->buffer);
    free(lines);
}

static kvt_status fail_at(const struct kvt_lines *lines, size_t column, struct kvt_error *err,
                          const char *message)
{
    char where[sizeof err->where];
    (void)snprintf(where, sizeof where, "%s:%" PRIu64 ":%zu", lines->name, lines->number + 1,
                   column);
    return kvt_fail(err, KVT_ERR_PARSE, where, "%s", message);
}

static kvt_status fail_too_long(const struct kvt_lines *lines, struct kvt_error *err)
{
    return fail_at(lines, KVT_LINE_BYTES_MAX + 1, err,
                   "a line longer than the 64 MiB that are read");
}

/* Reads what fits behind the text that is left. */
static kvt_status refill(struct kvt_lines *lines, struct kvt_error *err)
{
    if (lines->begin > 0) {
        memmove(lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
        lines->end -= lines->begin;
        lines->searched -= lines->begin;
        lines->begin = 0;
    }
    if (lines->end + 1 == lines->capacity) {
        size_t capacity = lines->capacity <= BUFFER_BYTES_MAX / 2 ? lines->capacity * 2
                                                                  : (size_t)BUFFER_BYTES_MAX;
        char *larger = realloc(lines->buffer, capacity);
        if (larger == NULL)
            return kvt_fail_nomem(err, lines->name);
        lines->buffer = larger;
        lines->capacity = capacity;
    }
    ptrdiff_t got =
        kvt_read_some(lines->fd, lines->buffer + lines->end, lines->capacity - lines->end - 1);
    if (got < 0)
        return kvt_fail_read(err, errno, lines->name, "the file cannot be read");
    lines->is_at_end = got == 0;
    lines->end += (size_t)got;
    return KVT_OK;
}

/* *out_end is the place of the line's LF, or the end of the last line. */
static kvt_status find_line_end(struct kvt_lines *lines, size_t *out_end, struct kvt_error *err)
{
    for (;;) {
        const char *found =
            memchr(lines->buffer + lines->searched, '\n', lines->end - lines->searched);
        if (found != NULL) {
            *out_end = (size_t)(found - lines->buffer);
            return KVT_OK;
        }
        lines->searched = lines->end;
        if (lines->is_at_end) {
            *out_end = lines->end;
            return KVT_OK;
        }
        if (lines->end - lines->begin > KVT_LINE_BYTES_MAX + 1)
            return fail_too_long(lines, err);
        kvt_status status = refill(lines, err);
        if (status != KVT_OK)
            return status;
    }
}

static kvt_status check_line(const struct kvt_lines *lines, const char *text, size_t text_bytes,
                             struct kvt_error *err)
{
    if (text_bytes > KVT_LINE_BYTES_MAX)
        return fail_too_long(lines, err);
    const char *bad = memchr(text, '\0', text_bytes);
    if (bad != NULL)
        return fail_at(lines, (size_t)(bad - text) + 1, err, "a NUL byte; expected text");
    bad = memchr(text, '\r', text_bytes);
    if (bad != NULL) {
        return fail_at(lines, (size_t)(bad - text) + 1, err,
                       "a carriage return without a line feed; lines end in LF or CRLF");
    }
    return KVT_OK;
}

kvt_status kvt_lines_next(struct kvt_lines *lines, char **text, size_t *text_bytes,
                          struct kvt_error *err)
{
    size_t end = 0;
    kvt_status status = find_line_end(lines, &end, err);
    if (status != KVT_OK)
        return status;

    bool has_line_feed = end < lines->end;
    size_t begin = lines->begin;
    if (lines->number == 0 && end - begin >= 3 &&
        memcmp(lines->buffer + begin, "\xef\xbb\xbf", 3) == 0)
        begin += 3;
    if (!has_line_feed && begin == end) {
        *text = NULL;
        *text_bytes = 0;
        return KVT_OK;
    }
    size_t length = end - begin;
    if (has_line_feed && length > 0 && lines->buffer[end - 1] == '\r')
        length--;
    status = check_line(lines, lines->buffer + begin, length, err);
    if (status != KVT_OK)
        return status;

    *text = lines->buffer + begin;
    *text_bytes = length;
    (*text)[length] = '\0';
    lines->begin = has_line_feed ? end + 1 : end;
    lines->searched = lines->begin;
    lines->is_ended = has_line_feed;
    lines->number++;
    return KVT_OK;
}

uint64_t kvt_lines_number(const struct kvt_lines *lines)
{
    return lines->number;
}

bool kvt_lines_is_ended(const struct kvt_lines *lines)
{
    return lines->is_ended;
}
