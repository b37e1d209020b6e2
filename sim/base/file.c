/* file.c -- whole files: read at once, written beside their name and moved onto it. */
#define _XOPEN_SOURCE 700 /* realpath() is of X/Open's part of POSIX */

#include "kvt/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "input.h"

enum {
    UNSIZED_FIRST_BYTES = 1 << 16,
    TEMPORARY_TRIES = 10000, /* names left by killed runs are stepped over */
    TEMPORARY_NAME_BYTES = 48,
};

kvt_status kvt_open_for_reading(const char *path, int *out_fd, struct kvt_error *err)
{
    /* Without O_NONBLOCK a pipe that nobody writes to would keep us waiting. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return kvt_fail_read(err, errno, path, "the file cannot be opened");
    struct stat info;
    int stat_error = fstat(fd, &info) == 0 ? 0 : errno;
    if (stat_error == 0 && S_ISDIR(info.st_mode))
        stat_error = EISDIR;
    if (stat_error != 0) {
        (void)close(fd);
        return kvt_fail_read(err, stat_error, path, "the file cannot be read");
    }
    if (!S_ISREG(info.st_mode)) {
        (void)close(fd);
        return kvt_fail(err, KVT_ERR_IO, path,
                        "this is not an ordinary file; one is needed, which can be read twice");
    }
    *out_fd = fd;
    return KVT_OK;
}

kvt_status kvt_file_open(const char *path, FILE **out, struct kvt_error *err)
{
    int fd = -1;
    kvt_status status = kvt_open_for_reading(path, &fd, err);
    if (status != KVT_OK)
        return status;
    FILE *stream = fdopen(fd, "rb");
    if (stream == NULL) {
        status = kvt_fail_read(err, errno, path, "the file cannot be opened");
        (void)close(fd);
        return status;
    }
    *out = stream;
    return KVT_OK;
}

bool kvt_file_is_same(const char *path, const char *other)
{
    struct stat facts;
    struct stat others;
    return stat(path, &facts) == 0 && stat(other, &others) == 0 && facts.st_dev == others.st_dev &&
           facts.st_ino == others.st_ino;
}

ptrdiff_t kvt_read_some(int fd, void *buffer, size_t buffer_bytes)
{
    ssize_t got;
    do
        got = read(fd, buffer, buffer_bytes);
    while (got < 0 && errno == EINTR);
    return got;
}

static kvt_status fail_too_large(struct kvt_error *err, const char *path, size_t max_bytes)
{
    return kvt_fail(err, KVT_ERR_INVALID, path, "larger than the %zu bytes that are read here",
                    max_bytes);
}

/* The file's size, refused when past max_bytes; 0 for what says none (/proc). */
static kvt_status expected_size(int fd, const char *path, size_t max_bytes, size_t *out_bytes,
                                struct kvt_error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return kvt_fail_read(err, errno, path, "the file cannot be read");
    *out_bytes = 0;
    if (info.st_size <= 0)
        return KVT_OK;
    if ((uintmax_t)info.st_size > max_bytes)
        return fail_too_large(err, path, max_bytes);
    *out_bytes = (size_t)info.st_size;
    return KVT_OK;
}

/* Reads to the end: the size above is a hint, since files grow and some say none. */
static kvt_status read_all(int fd, const char *path, size_t max_bytes, char **out,
                           size_t *out_bytes, struct kvt_error *err)
{
    size_t capacity = 0;
    kvt_status status = expected_size(fd, path, max_bytes, &capacity, err);
    if (status != KVT_OK)
        return status;
    /* One byte for the NUL and one that must stay empty at the end of the file. */
    capacity = capacity > 0 ? capacity + 2 : UNSIZED_FIRST_BYTES;

    char *text = malloc(capacity);
    if (text == NULL)
        return kvt_fail_nomem(err, path);
    size_t used = 0;
    for (;;) {
        if (used + 1 == capacity) {
            char *larger = capacity <= SIZE_MAX / 2 ? realloc(text, capacity * 2) : NULL;
            if (larger == NULL) {
                status = kvt_fail_nomem(err, path);
                break;
            }
            text = larger;
            capacity *= 2;
        }
        ptrdiff_t got = kvt_read_some(fd, text + used, capacity - used - 1);
        if (got < 0) {
            status = kvt_fail_read(err, errno, path, "the file cannot be read");
            break;
        }
        if (got == 0)
            break;
        used += (size_t)got;
        if (used > max_bytes) {
            status = fail_too_large(err, path, max_bytes);
            break;
        }
    }
    if (status != KVT_OK) {
        free(text);
        return status;
    }
    text[used] = '\0';
    *out = text;
    *out_bytes = used;
    return KVT_OK;
}

kvt_status kvt_file_read(const char *path, size_t max_bytes, char **out, size_t *out_bytes,
                         struct kvt_error *err)
{
    int fd = -1;
    kvt_status status = kvt_open_for_reading(path, &fd, err);
    if (status != KVT_OK)
        return status;
    status = read_all(fd, path, max_bytes, out, out_bytes, err);
    (void)close(fd);
    return status;
}

struct kvt_outfile {
    FILE *stream;
    char *target;
    char *temporary;
};

static const char cannot[] = "the file cannot be written";

static void outfile_free(struct kvt_outfile *file)
{
    free(file->target);
    free(file->temporary);
    free(file);
}

enum {
    LINKS_MAX = 40 /* as many as the system follows */
};

/* What a link to nothing yet points to, to be freed: the path itself where it is none; NULL when
 * memory is short, or where links never end. */
static char *follow_links(const char *path)
{
    char *at = strdup(path);

    for (int i = 0; at != NULL && i < LINKS_MAX; i++) {
        char to[PATH_MAX];
        ssize_t length = readlink(at, to, sizeof to - 1);
        if (length < 0)
            return at;
        to[length] = '\0';
        const char *slash = to[0] != '/' ? strrchr(at, '/') : NULL;
        size_t folder_bytes = slash != NULL ? (size_t)(slash - at) + 1 : 0;
        char *next = malloc(folder_bytes + (size_t)length + 1);
        if (next != NULL) {
            memcpy(next, at, folder_bytes);
            memcpy(next + folder_bytes, to, (size_t)length + 1);
        }
        free(at);
        at = next;
    }
    free(at);
    return NULL;
}

/* Where the rename must land, to be freed; NULL with *err filled on failure. A link keeps pointing
 * where it did, and only a regular file is replaced: renaming onto /dev/null would remove the
 * device. */
static char *find_target(const char *path, kvt_status *status, struct kvt_error *err)
{
    struct stat info;
    if (path[0] == '\0') {
        *status = kvt_fail(err, KVT_ERR_INVALID, path, "an empty file name; expected a path");
        return NULL;
    }
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        *status = kvt_fail(err, KVT_ERR_SYSTEM, path,
                           "exists and is not a regular file, so it is not replaced");
        return NULL;
    }
    char *target = realpath(path, NULL);
    if (target == NULL && errno == ELOOP) {
        *status = kvt_fail_system(err, ELOOP, path, cannot);
        return NULL;
    }
    if (target == NULL)
        target = follow_links(path);
    *status = target != NULL ? KVT_OK : kvt_fail_nomem(err, path);
    return target;
}

/* A new file beside the target. Made with O_EXCL rather than mkstemp(), whose
 * 0600 would have to be widened by a umask that can only be read by setting it. */
static kvt_status create_temporary(struct kvt_outfile *file, const char *path, int *out_fd,
                                   struct kvt_error *err)
{
    const char *slash = strrchr(file->target, '/');
    size_t folder_bytes = slash != NULL ? (size_t)(slash - file->target) + 1 : 0;
    file->temporary = malloc(folder_bytes + TEMPORARY_NAME_BYTES);
    if (file->temporary == NULL)
        return kvt_fail_nomem(err, path);
    memcpy(file->temporary, file->target, folder_bytes);

    int fd = -1;
    for (int i = 0; i < TEMPORARY_TRIES && fd < 0; i++) {
        (void)snprintf(file->temporary + folder_bytes, TEMPORARY_NAME_BYTES, ".kvt-%ld-%d.tmp",
                       (long)getpid(), i);
        fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0)
        return kvt_fail_system(err, errno, path, "a file cannot be created in its folder");
    *out_fd = fd;
    return KVT_OK;
}

kvt_status kvt_outfile_open(const char *path, struct kvt_outfile **out, struct kvt_error *err)
{
    struct kvt_outfile *file = calloc(1, sizeof *file);
    if (file == NULL)
        return kvt_fail_nomem(err, path);

    int fd = -1;
    kvt_status status = KVT_OK;
    file->target = find_target(path, &status, err);
    if (file->target != NULL)
        status = create_temporary(file, path, &fd, err);
    if (fd >= 0) {
        file->stream = fdopen(fd, "w");
        if (file->stream == NULL) {
            status = kvt_fail_system(err, errno, path, "the file cannot be opened for writing");
            (void)close(fd);
            (void)unlink(file->temporary);
        }
    }
    if (status != KVT_OK) {
        outfile_free(file);
        return status;
    }
    *out = file;
    return KVT_OK;
}

FILE *kvt_outfile_stream(struct kvt_outfile *file)
{
    return file->stream;
}

const char *kvt_outfile_temporary(const struct kvt_outfile *file)
{
    return file->temporary;
}

/* Why a write failed, as errno; 0: none has. Mostly its bytes are still in the buffer, so that
 * flushing them once more says why; the mark alone does not. Of a block that went past the buffer
 * nothing is left, and one byte more says it: the file is lost in any case. */
static int flush(struct kvt_outfile *file)
{
    bool has_failed_before = ferror(file->stream) != 0;

    if (fflush(file->stream) != 0)
        return errno;
    if (!has_failed_before)
        return 0;
    return write(fileno(file->stream), "\n", 1) < 0 ? errno : EIO;
}

kvt_status kvt_outfile_flush(struct kvt_outfile *file, struct kvt_error *err)
{
    int write_error = flush(file);

    return write_error == 0 ? KVT_OK : kvt_fail_system(err, write_error, file->target, cannot);
}

kvt_status kvt_outfile_commit(struct kvt_outfile *file, struct kvt_error *err)
{
    const char *attempt = cannot;
    int write_error = flush(file);

    if (fclose(file->stream) != 0 && write_error == 0)
        write_error = errno;
    if (write_error == 0 && rename(file->temporary, file->target) != 0) {
        write_error = errno;
        attempt = "the finished file cannot be moved to its name";
    }

    kvt_status status = KVT_OK;
    if (write_error != 0) {
        (void)unlink(file->temporary);
        status = kvt_fail_system(err, write_error, file->target, attempt);
    }
    outfile_free(file);
    return status;
}

void kvt_outfile_discard(struct kvt_outfile *file)
{
    if (file == NULL)
        return;
    (void)fclose(file->stream);
    (void)unlink(file->temporary);
    outfile_free(file);
}
