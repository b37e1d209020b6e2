/* tape_cache.c -- tapes kept from run to run, one file each, in a folder of bounded size.
 *
 *     name of a file = hash of all that decides what the tape holds
 *
 * Part of that is the program: a short stretch of the process, hashed, tells a version that
 * draws otherwise from this one without anybody having to think of it. */
#define _GNU_SOURCE 1 /* flock(): goes with its process, and threads respect it */

#include "tape_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvt/file.h"
#include "kvt/hash.h"

enum {
    CACHE_VERSION = 3,
    NAME_BYTES = 32,
    PROBE_ROWS = 700,
    PROBE_TOP_K = 40,
    PROBE_STEPS = 24,
};

#define CACHE_BYTES_MAX (UINT64_C(4) << 30)

/* ---- Keys ---------------------------------------------------------------------------- */

/* A chain over what the process of this build selects from a fixed key, forks included; 0
 * when memory is short, which only costs the cache. */
static uint64_t probe(const struct reel_process *process)
{
    static const struct score_extent side_extent = {
        .rows_max = PROBE_ROWS + PROBE_STEPS, .top_k = PROBE_TOP_K, .tokens_per_row = 1};
    struct score_extent extent = side_extent;
    extent.loop_tokens = PROBE_STEPS;
    struct score_kin kin = {.keys = {1, 2, 3}};
    uint64_t set[(PROBE_ROWS + PROBE_STEPS + 63) / 64];
    struct score_stream *main = malloc(score_stream_bytes(&extent));
    struct score_stream *side = calloc(1, score_stream_bytes(&side_extent));
    uint64_t chain = 0;
    if (main != NULL && side != NULL) {
        score_stream_init(main, &process->shape, process->gauss, &kin, &extent);
        for (uint32_t step = 0; step < PROBE_STEPS; step++) {
            uint32_t rows = PROBE_ROWS + step;
            score_stream_select(main, &process->shape, NULL, rows, set);
            chain = kvt_hash_bytes(chain, set, kvt_row_words(rows) * sizeof set[0]);
            score_stream_fork(main, 1, side);
            score_stream_select(side, &process->shape, NULL, rows, set);
            chain = kvt_hash_bytes(chain, set, kvt_row_words(rows) * sizeof set[0]);
        }
    }
    free(main);
    free(side);
    return chain;
}

static uint64_t key_of(const struct tape_cache *cache, const struct reel *reel)
{
    const struct kvt_kvsel_shape *shape = &reel->selections.shape;
    uint64_t key = cache->seal;
    for (size_t s = 0; s < SCORE_SOURCES; s++)
        key = kvt_chain64(key, reel->kin.keys[s]);
    const uint64_t rest[] = {
        reel->kin.band,        reel->kin.is_alone, shape->top_k,       shape->first_rows,
        shape->tokens_per_row, shape->side_paths,  shape->side_tokens, reel->selections.token_count,
    };
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
        key = kvt_chain64(key, rest[i]);
    return key;
}

/* folder/name.ending, for free(); NULL when memory is short. */
static char *path_of(const struct tape_cache *cache, const struct reel *reel, const char *ending)
{
    size_t bytes = strlen(cache->folder) + NAME_BYTES;
    char *path = malloc(bytes);
    if (path != NULL)
        (void)snprintf(path, bytes, "%s/%016" PRIx64 "%s", cache->folder, key_of(cache, reel),
                       ending);
    return path;
}

void tape_cache_init(struct tape_cache *cache, const char *dir, const struct reel_process *process)
{
    *cache = (struct tape_cache){.bytes_max = CACHE_BYTES_MAX};
    if (dir == NULL)
        return;
    size_t bytes = strlen(dir) + sizeof "/tapes";
    uint64_t seal = probe(process);
    cache->folder = seal != 0 ? malloc(bytes) : NULL;
    if (cache->folder == NULL)
        return;
    (void)snprintf(cache->folder, bytes, "%s/tapes", dir);
    cache->seal =
        kvt_hash_bytes(kvt_chain64(seal, CACHE_VERSION), &process->shape, sizeof process->shape);
}

void tape_cache_fini(struct tape_cache *cache)
{
    free(cache->folder);
    cache->folder = NULL;
}

/* ---- Locks --------------------------------------------------------------------------- */

int tape_cache_lock(const struct tape_cache *cache, const struct reel *reel)
{
    if (cache->folder == NULL || kvt_mkdirs(cache->folder, NULL) != KVT_OK)
        return TAPE_LOCK_NONE;
    char *path = path_of(cache, reel, ".lock");
    if (path == NULL)
        return TAPE_LOCK_NONE;
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    free(path);
    if (lock < 0)
        return TAPE_LOCK_NONE;
    if (flock(lock, LOCK_EX | LOCK_NB) == 0)
        return lock;
    int is_busy = errno == EWOULDBLOCK;
    (void)close(lock);
    return is_busy ? TAPE_LOCK_BUSY : TAPE_LOCK_NONE;
}

/* The file goes before the lock does. Whoever has opened it meanwhile gets a lock that others
 * do not see: at worst a tape is recorded twice. */
void tape_cache_unlock(const struct tape_cache *cache, const struct reel *reel, int lock)
{
    if (lock < 0)
        return;
    char *path = path_of(cache, reel, ".lock");
    if (path != NULL)
        (void)unlink(path);
    free(path);
    (void)close(lock);
}

/* ---- Files --------------------------------------------------------------------------- */

void tape_cache_load(const struct tape_cache *cache, struct reel *reel)
{
    if (cache->folder == NULL)
        return;
    char *path = path_of(cache, reel, ".kvsel");
    struct kvt_kvsel *file = NULL;
    if (path != NULL && kvt_kvsel_load(path, false, &file, NULL) == KVT_OK) {
        if (reel_adopt(reel, file, key_of(cache, reel)))
            (void)utimensat(AT_FDCWD, path, NULL, 0); /* it was of use: it is young again */
        else
            kvt_kvsel_free(file);
    }
    free(path);
}

static kvt_status write_reel(const char *path, const struct reel *reel, uint64_t key)
{
    const struct kvt_kvsel_shape *shape = &reel->selections.shape;
    struct kvt_kvsel_header header = {
        .top_k = shape->top_k,
        .side_paths = shape->side_paths,
        .side_tokens = shape->side_tokens,
        .request_count = 1,
        .selector_count = 1,
        .key = key,
    };
    struct kvt_kvsel_writer *writer = NULL;
    kvt_status status = kvt_kvsel_create(path, &header, shape, &writer, NULL);
    if (status != KVT_OK)
        return status;
    for (uint32_t b = 0; b < reel->recorded / REEL_BLOCK_STEPS && status == KVT_OK; b++)
        status = kvt_kvsel_put(writer, reel->blocks[b], NULL);
    if (status == KVT_OK)
        return kvt_kvsel_commit(writer, NULL);
    kvt_kvsel_discard(writer);
    return status;
}

void tape_cache_store(const struct tape_cache *cache, struct reel *reel)
{
    if (cache->folder == NULL || reel->recorded <= reel->stored)
        return;
    char *path = path_of(cache, reel, ".kvsel");
    if (path != NULL && kvt_mkdirs(cache->folder, NULL) == KVT_OK &&
        write_reel(path, reel, key_of(cache, reel)) == KVT_OK) {
        reel->stored = reel->recorded;
        reel->was_written = true;
    }
    free(path);
}

/* ---- Size ---------------------------------------------------------------------------- */

struct kept {
    char *path;
    uint64_t bytes;
    struct timespec used_at;
};

struct keeping {
    struct kept *files; /* [count] */
    size_t count, capacity;
    uint64_t bytes;
};

static int compare_kept(const void *a, const void *b)
{
    const struct kept *x = a, *y = b;
    if (x->used_at.tv_sec != y->used_at.tv_sec)
        return x->used_at.tv_sec < y->used_at.tv_sec ? -1 : 1;
    if (x->used_at.tv_nsec != y->used_at.tv_nsec)
        return x->used_at.tv_nsec < y->used_at.tv_nsec ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* Tapes, and what killed runs have left of them; nothing that is not ours. */
static bool is_ours(const char *name)
{
    const char *ending = strrchr(name, '.');
    if (ending == NULL)
        return false;
    return strcmp(ending, ".kvsel") == 0 || strcmp(ending, ".lock") == 0 ||
           (strcmp(ending, ".tmp") == 0 && strncmp(name, ".kvt-", 5) == 0);
}

/* False when memory is short. */
static bool keep_account(struct keeping *keeping, const char *folder, const char *name)
{
    if (!is_ours(name))
        return true;
    size_t bytes = strlen(folder) + strlen(name) + 2;
    char *path = malloc(bytes);
    if (path == NULL)
        return false;
    (void)snprintf(path, bytes, "%s/%s", folder, name);
    struct stat info;
    if (lstat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
        free(path);
        return true;
    }
    if (keeping->count == keeping->capacity) {
        size_t capacity = keeping->capacity > 0 ? 2 * keeping->capacity : 64;
        struct kept *files = realloc(keeping->files, capacity * sizeof *files);
        if (files == NULL) {
            free(path);
            return false;
        }
        keeping->files = files;
        keeping->capacity = capacity;
    }
    keeping->files[keeping->count++] =
        (struct kept){.path = path, .bytes = (uint64_t)info.st_size, .used_at = info.st_mtim};
    keeping->bytes += (uint64_t)info.st_size;
    return true;
}

void tape_cache_trim(const struct tape_cache *cache)
{
    DIR *folder = cache->folder != NULL ? opendir(cache->folder) : NULL;
    if (folder == NULL)
        return;
    struct keeping keeping = {.count = 0};
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL &&
           keep_account(&keeping, cache->folder, entry->d_name))
        ;
    (void)closedir(folder);
    if (keeping.count > 0)
        qsort(keeping.files, keeping.count, sizeof keeping.files[0], compare_kept);
    for (size_t i = 0; i < keeping.count; i++) {
        if (keeping.bytes > cache->bytes_max && unlink(keeping.files[i].path) == 0)
            keeping.bytes -= keeping.files[i].bytes;
        free(keeping.files[i].path);
    }
    free(keeping.files);
}
