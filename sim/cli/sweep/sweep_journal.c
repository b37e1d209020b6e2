/* sweep_journal.c -- a line a run, whole or not at all. */
#define _GNU_SOURCE 1 /* flock(): goes with its process */

#include "sweep_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvt/file.h"
#include "kvt/hash.h"
#include "kvt/json.h"
#include "sweep_grid.h"

enum {
    HASH_BYTES = 16,
    HEAD_BYTES = HASH_BYTES + 1, /* and the blank */
    SYNC_NS = 500000000
};

struct line {
    uint64_t offset; /* of its text */
    uint32_t bytes;  /* of its text; 0: none */
};

struct sweep_journal {
    char *dir, *path;
    int fd;
    uint64_t end; /* of what is whole */
    size_t dropped_bytes;
    cJSON *question;
    struct line *lines; /* [run_count] */
    size_t run_count;
    pthread_mutex_t lock; /* guards end, lines and what follows, once it is open */
    struct kvt_wall synced;
    bool is_unsynced, is_syncing;
};

const char *sweep_journal_dir(const struct sweep_journal *journal)
{
    return journal->dir;
}

const cJSON *sweep_journal_question(const struct sweep_journal *journal)
{
    return journal->question;
}

size_t sweep_journal_dropped_bytes(const struct sweep_journal *journal)
{
    return journal->dropped_bytes;
}

void sweep_journal_close(struct sweep_journal *journal)
{
    if (journal == NULL)
        return;
    if (journal->fd >= 0)
        (void)close(journal->fd);
    (void)pthread_mutex_destroy(&journal->lock);
    cJSON_Delete(journal->question);
    free(journal->lines);
    free(journal->path);
    free(journal->dir);
    free(journal);
}

/* Not opened yet. */
static kvt_status new_journal(const char *dir, struct sweep_journal **out, struct kvt_error *err)
{
    struct sweep_journal *journal = calloc(1, sizeof *journal);
    size_t path_bytes = strlen(dir) + sizeof "/" SWEEP_JOURNAL;

    if (journal != NULL) {
        (void)pthread_mutex_init(&journal->lock, NULL);
        journal->fd = -1;
        journal->synced = kvt_wall_now();
        journal->dir = strdup(dir);
        journal->path = malloc(path_bytes);
    }
    if (journal == NULL || journal->dir == NULL || journal->path == NULL) {
        sweep_journal_close(journal);
        return kvt_fail_nomem(err, "a journal");
    }
    (void)snprintf(journal->path, path_bytes, "%s/" SWEEP_JOURNAL, dir);
    *out = journal;
    return KVT_OK;
}

static kvt_status lock(const struct sweep_journal *journal, int how, struct kvt_error *err)
{
    if (flock(journal->fd, how | LOCK_NB) == 0)
        return KVT_OK;
    if (errno == EWOULDBLOCK)
        return kvt_fail(err, KVT_ERR_INVALID, journal->dir,
                        "another kvtide sweep is at work in this folder");
    return kvt_fail_system(err, errno, journal->path, "the journal cannot be locked");
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* Whether line[0..bytes), with its end, is whole. */
static bool is_whole(const char *line, size_t bytes)
{
    char hash[HASH_BYTES + 1];

    if (bytes < HEAD_BYTES + 3 || line[bytes - 1] != '\n')
        return false;
    (void)snprintf(hash, sizeof hash, "%016" PRIx64,
                   kvt_hash_bytes(0, line + HEAD_BYTES, bytes - HEAD_BYTES - 1));
    return memcmp(line, hash, HASH_BYTES) == 0 && line[HASH_BYTES] == ' ';
}

static kvt_status take_question(struct sweep_journal *journal, const char *text, size_t bytes,
                                struct kvt_error *err)
{
    const char *schema = NULL;
    uint64_t runs = 0;
    kvt_status status = kvt_json_parse(text, bytes, journal->path, 1, &journal->question, err);

    if (status == KVT_OK)
        status = kvt_json_get_text(journal->question, journal->path, "schema", true, &schema, err);
    if (status == KVT_OK && strcmp(schema, SWEEP_JOURNAL_SCHEMA) != 0)
        status = kvt_fail(err, KVT_ERR_PARSE, journal->path,
                          "found schema \"%.60s\", expected \"%s\"", schema, SWEEP_JOURNAL_SCHEMA);
    if (status == KVT_OK)
        status = kvt_json_get_u64(journal->question, journal->path, "runs", true, 1, SWEEP_RUNS_MAX,
                                  &runs, err);
    if (status != KVT_OK)
        return status;
    journal->run_count = (size_t)runs;
    journal->lines = calloc(journal->run_count, sizeof *journal->lines);
    return journal->lines != NULL ? KVT_OK : kvt_fail_nomem(err, journal->path);
}

static kvt_status take_record(struct sweep_journal *journal, const char *text, size_t bytes,
                              struct kvt_error *err)
{
    cJSON *record = NULL;
    uint64_t run = 0;
    kvt_status status = kvt_json_parse(text, bytes, journal->path, 1, &record, err);

    if (status == KVT_OK)
        status = kvt_json_get_u64(record, journal->path, "run", true, 0, journal->run_count - 1,
                                  &run, err);
    cJSON_Delete(record);
    if (status == KVT_OK)
        journal->lines[run] = (struct line){journal->end + HEAD_BYTES, (uint32_t)bytes};
    return status;
}

/* Whole lines from the first on; stops at one that is not, and leaves end behind the last. */
static kvt_status read_lines(struct sweep_journal *journal, FILE *stream, struct kvt_error *err)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t got;
    kvt_status status = KVT_OK;

    while (status == KVT_OK && (got = getline(&line, &capacity, stream)) > 0) {
        size_t bytes = (size_t)got;
        if (!is_whole(line, bytes) || bytes > UINT32_MAX)
            break;
        status = journal->question == NULL
                     ? take_question(journal, line + HEAD_BYTES, bytes - HEAD_BYTES - 1, err)
                     : take_record(journal, line + HEAD_BYTES, bytes - HEAD_BYTES - 1, err);
        if (status == KVT_OK)
            journal->end += bytes;
    }
    if (status == KVT_OK && ferror(stream))
        status = kvt_fail_read(err, errno, journal->path, "the journal cannot be read");
    free(line);
    return status;
}

static kvt_status read_journal(struct sweep_journal *journal, bool to_go_on, struct kvt_error *err)
{
    struct stat info;
    int copy = dup(journal->fd);
    FILE *stream = copy >= 0 ? fdopen(copy, "r") : NULL;

    if (stream == NULL || fstat(journal->fd, &info) != 0) {
        kvt_status status = kvt_fail_read(err, errno, journal->path, "the journal cannot be read");
        if (stream != NULL)
            (void)fclose(stream);
        else if (copy >= 0)
            (void)close(copy);
        return status;
    }
    kvt_status status = read_lines(journal, stream, err);
    (void)fclose(stream);
    if (status != KVT_OK)
        return status;
    journal->dropped_bytes = (size_t)info.st_size - journal->end;
    if (journal->question == NULL)
        return kvt_fail(err, KVT_ERR_PARSE, journal->path,
                        "its first line is no question of a sweep; a sweep that was ended in its "
                        "first moment leaves that, and the file can be removed");
    if (to_go_on && journal->dropped_bytes > 0 && ftruncate(journal->fd, (off_t)journal->end) != 0)
        return kvt_fail_system(err, errno, journal->path, "its torn end cannot be dropped");
    return KVT_OK;
}

kvt_status sweep_journal_open(const char *dir, bool to_go_on, struct sweep_journal **out,
                              struct kvt_error *err)
{
    struct sweep_journal *journal = NULL;
    struct stat info;
    kvt_status status = new_journal(dir, &journal, err);

    if (status != KVT_OK)
        return status;
    if (stat(journal->path, &info) == 0 && !S_ISREG(info.st_mode))
        status = kvt_fail(err, KVT_ERR_IO, journal->path, "this is not an ordinary file");
    if (status == KVT_OK)
        journal->fd = open(journal->path, (to_go_on ? O_RDWR | O_APPEND : O_RDONLY) | O_CLOEXEC);
    if (status == KVT_OK && journal->fd < 0 && errno == ENOENT)
        status =
            kvt_fail(err, KVT_ERR_NOT_FOUND, dir, "no sweep is there: no file %s", SWEEP_JOURNAL);
    else if (status == KVT_OK && journal->fd < 0)
        status = (to_go_on ? kvt_fail_system : kvt_fail_read)(err, errno, journal->path,
                                                              "the journal cannot be opened");
    if (status == KVT_OK)
        status = lock(journal, to_go_on ? LOCK_EX : LOCK_SH, err);
    if (status == KVT_OK)
        status = read_journal(journal, to_go_on, err);
    if (status != KVT_OK) {
        sweep_journal_close(journal);
        return status;
    }
    *out = journal;
    return KVT_OK;
}

kvt_status sweep_journal_read(const struct sweep_journal *journal, size_t run, cJSON **out,
                              struct kvt_error *err)
{
    const struct line *line = &journal->lines[run];
    char *text = malloc((size_t)line->bytes + 1);
    size_t got = 0;
    ssize_t some = 1;

    if (text == NULL)
        return kvt_fail_nomem(err, "a record");
    while (got < line->bytes && some > 0) {
        some = pread(journal->fd, text + got, line->bytes - got, (off_t)(line->offset + got));
        if (some > 0)
            got += (size_t)some;
    }
    kvt_status status = got == line->bytes ? kvt_json_parse(text, got, journal->path, 1, out, err)
                                           : kvt_fail_system(err, errno, journal->path,
                                                             "a record cannot be read back");
    free(text);
    return status;
}

bool sweep_journal_has(const struct sweep_journal *journal, size_t run)
{
    return run < journal->run_count && journal->lines[run].bytes > 0;
}

/* ---- Writing ------------------------------------------------------------------------------- */

/* Others may go on writing meanwhile. */
kvt_status sweep_journal_sync(struct sweep_journal *journal, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    (void)pthread_mutex_lock(&journal->lock);
    bool is_due = journal->is_unsynced;
    journal->is_unsynced = false;
    journal->is_syncing = true;
    (void)pthread_mutex_unlock(&journal->lock);
    if (is_due && fdatasync(journal->fd) != 0)
        status =
            kvt_fail_system(err, errno, journal->path, "the journal cannot be brought to the disk");
    (void)pthread_mutex_lock(&journal->lock);
    journal->synced = kvt_wall_now();
    journal->is_syncing = false;
    (void)pthread_mutex_unlock(&journal->lock);
    return status;
}

/* What a failed write has left is taken back: the journal ends as it did. */
static kvt_status take_back(struct sweep_journal *journal, struct kvt_error *err)
{
    kvt_status status = kvt_fail_system(err, errno, journal->path, "a finished run cannot be kept");

    (void)!ftruncate(journal->fd, (off_t)journal->end);
    return status;
}

/* A line of this text; journal->end is where it begins. */
static kvt_status write_line(struct sweep_journal *journal, const char *text, size_t bytes,
                             struct kvt_error *err)
{
    size_t total = HEAD_BYTES + bytes + 1, written = 0;
    char *line = malloc(total + 1);
    ssize_t some = 0;

    if (line == NULL)
        return kvt_fail_nomem(err, "a record");
    (void)snprintf(line, total + 1, "%016" PRIx64 " %s\n", kvt_hash_bytes(0, text, bytes), text);
    /* The first write takes all of it, but on a disk that is nearly full. */
    while (written < total) {
        some = write(journal->fd, line + written, total - written);
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            break;
        written += (size_t)some;
    }
    free(line);
    if (written < total)
        return take_back(journal, err);
    journal->is_unsynced = true;
    return KVT_OK;
}

kvt_status sweep_journal_append(struct sweep_journal *journal, size_t run, const char *text,
                                struct kvt_error *err)
{
    size_t bytes = strlen(text);

    (void)pthread_mutex_lock(&journal->lock);
    kvt_status status = write_line(journal, text, bytes, err);
    if (status == KVT_OK) {
        journal->lines[run] = (struct line){journal->end + HEAD_BYTES, (uint32_t)bytes};
        journal->end += HEAD_BYTES + bytes + 1;
    }
    bool is_due = status == KVT_OK && !journal->is_syncing &&
                  kvt_wall_seconds_since(journal->synced) * 1e9 >= SYNC_NS;
    (void)pthread_mutex_unlock(&journal->lock);
    return is_due ? sweep_journal_sync(journal, err) : status;
}

static kvt_status refuse_results(const char *dir, struct kvt_error *err)
{
    static const char *const names[] = {SWEEP_JOURNAL, "results.json", "results.csv"};
    char path[4200];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int length = snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (length < 0 || (size_t)length >= sizeof path)
            return kvt_fail(err, KVT_ERR_INVALID, "--out", "the folder's name is too long");
        if (access(path, F_OK) == 0)
            return kvt_fail(err, KVT_ERR_INVALID, dir,
                            "a sweep is there already (%s); --resume goes on with it, and a new "
                            "one takes another folder",
                            names[i]);
    }
    return KVT_OK;
}

/* The folder's own entry for the file. */
static void sync_folder(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
}

static kvt_status begin(struct sweep_journal *journal, const char *question, struct kvt_error *err)
{
    size_t bytes = strlen(question);

    journal->fd = open(journal->path, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (journal->fd < 0)
        return kvt_fail_system(err, errno, journal->path, "the journal cannot be made");
    kvt_status status = lock(journal, LOCK_EX, err);
    if (status == KVT_OK)
        status = take_question(journal, question, bytes, err);
    if (status == KVT_OK)
        status = write_line(journal, question, bytes, err);
    if (status == KVT_OK)
        journal->end = HEAD_BYTES + bytes + 1;
    if (status == KVT_OK)
        status = sweep_journal_sync(journal, err);
    if (status == KVT_OK)
        sync_folder(journal->dir);
    else
        (void)unlink(journal->path);
    return status;
}

kvt_status sweep_journal_create(const char *dir, const char *question, struct sweep_journal **out,
                                struct kvt_error *err)
{
    struct sweep_journal *journal = NULL;
    kvt_status status = refuse_results(dir, err);

    if (status == KVT_OK)
        status = kvt_mkdirs(dir, err);
    if (status == KVT_OK)
        status = new_journal(dir, &journal, err);
    if (status == KVT_OK)
        status = begin(journal, question, err);
    if (status != KVT_OK) {
        sweep_journal_close(journal);
        return status;
    }
    *out = journal;
    return KVT_OK;
}
