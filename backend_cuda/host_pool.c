/* host_pool.c -- pinned host memory for rows, on the node of the GPU that reads them.
 *
 *     reserve -> say which NUMA node -> touch every page, on many threads -> register, piece by
 *     piece, saying how far it has come
 *
 * Touching on many threads first is what makes it quick: pages are zeroed at the rate of memory
 * instead of one by one under the driver's lock. */
#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kvt/crew.h"

enum {
    PIECE_BYTES = 1 << 30, /* touched and registered at once */
    PAGE_STRIDE = 4096,
    POPULATE_THREADS = 16,
    PREFERRED = 1 /* MPOL_PREFERRED of linux/mempolicy.h, which is not always installed */
};

/* ---- Room ----------------------------------------------------------------------------- */

/* The number behind a key of a file, or its first; UINT64_MAX where there is none, or "max". */
static uint64_t read_number(const char *path, const char *key)
{
    FILE *file = fopen(path, "r");
    char line[256];
    uint64_t value = UINT64_MAX;
    size_t length = strlen(key);

    if (!file)
        return UINT64_MAX;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) == 0 && sscanf(line + length, "%" SCNu64, &value) == 1)
            break;
    }
    (void)fclose(file);
    return value;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Half of what the machine has available, and of what the cgroup allows. */
static uint64_t half_of_available(void)
{
    uint64_t kib = read_number("/proc/meminfo", "MemAvailable:");
    uint64_t bytes = kib == UINT64_MAX ? UINT64_MAX : kib * 1024;

    bytes = smaller(bytes, read_number("/sys/fs/cgroup/memory.max", ""));
    bytes = smaller(bytes, read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", ""));
    return bytes / 2;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)KVT_GIB;
}

kvt_status host_pool_check(uint64_t need_bytes, double limit_gib, struct kvt_error *err)
{
    uint64_t half_bytes = half_of_available();

    if (limit_gib > 0 && gib(need_bytes) > limit_gib)
        return kvt_fail(err, KVT_ERR_NOMEM, "backend.host_pool_gib",
                        "host rows of all ranks take %.1f GiB, and %.1f may be pinned; more "
                        "backend.shared_tokens, fewer requests at once or shorter contexts take "
                        "less",
                        gib(need_bytes), limit_gib);
    if (limit_gib > 0 || need_bytes <= half_bytes)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_NOMEM, "backend.host_pool_gib",
                    "host rows of all ranks take %.1f GiB, and half of what this machine has "
                    "available is %.1f; more backend.shared_tokens, fewer requests at once or "
                    "shorter contexts take less, and a number here overrides the half",
                    gib(need_bytes), gib(half_bytes));
}

/* ---- Pinning -------------------------------------------------------------------------- */

struct touching {
    uint8_t *base;
    uint64_t bytes;
};

static void touch(void *context, uint32_t part, unsigned worker)
{
    const struct touching *work = context;
    uint64_t begin = work->bytes / POPULATE_THREADS * part;
    uint64_t end =
        part + 1 == POPULATE_THREADS ? work->bytes : work->bytes / POPULATE_THREADS * (part + 1);

    (void)worker;
    for (uint64_t at = begin; at < end; at += PAGE_STRIDE)
        ((volatile uint8_t *)work->base)[at] = 0;
}

/* Preferred: where the node is full, rows are slower to reach, which is better than an end by the
 * kernel. Whether it took. */
static bool prefer_node(void *base, uint64_t bytes, int numa_node)
{
    unsigned long mask[16] = {0};

    if (numa_node < 0 || numa_node >= (int)(8 * sizeof mask))
        return false;
    mask[numa_node / 64] = 1UL << numa_node % 64;
    return syscall(SYS_mbind, base, bytes, PREFERRED, mask, 8 * sizeof mask, 0) == 0;
}

static kvt_status pin(const struct kvt_backend_env *env, struct kvt_crew *crew,
                      struct host_pool *pool, uint64_t *done_bytes, uint64_t total_bytes,
                      struct kvt_error *err)
{
    while (pool->registered_bytes < pool->bytes) {
        uint64_t bytes = smaller(PIECE_BYTES, pool->bytes - pool->registered_bytes);
        uint8_t *base = pool->base + pool->registered_bytes;
        struct touching work = {.base = base, .bytes = bytes};
        if (env->on_prepare &&
            !env->on_prepare(env->prepare_context, (double)*done_bytes / (double)total_bytes,
                             "pinning host memory"))
            return kvt_fail(err, KVT_ERR_INTERRUPTED, "cuda", "stopped while pinning memory");
        kvt_crew_run(crew, POPULATE_THREADS, touch, &work);
        kvt_status status = kvt_cuda_check_pinned_bytes(
            cudaHostRegister(base, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped),
            "a piece of the host rows", bytes, err);
        if (status != KVT_OK)
            return status;
        pool->registered_bytes += bytes;
        *done_bytes += bytes;
    }
    return KVT_OK;
}

kvt_status host_pool_open(const struct kvt_backend_env *env, uint64_t bytes, int numa_node,
                          uint64_t *done_bytes, uint64_t total_bytes, struct host_pool *out,
                          struct kvt_error *err)
{
    struct host_pool pool = {.bytes = (bytes + PAGE_STRIDE - 1) / PAGE_STRIDE * PAGE_STRIDE};
    struct kvt_crew *crew = NULL;
    void *base = mmap(NULL, pool.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        return kvt_fail(err, KVT_ERR_NOMEM, "cuda", "no %.1f GiB of host memory: %s", gib(bytes),
                        strerror(errno));
    pool.base = base;
    (void)madvise(base, pool.bytes, MADV_HUGEPAGE);
    pool.has_node = prefer_node(base, pool.bytes, numa_node);
    kvt_status status = kvt_crew_new(POPULATE_THREADS, &crew, err);
    if (status == KVT_OK)
        status = pin(env, crew, &pool, done_bytes, total_bytes, err);
    kvt_crew_free(crew);
    if (status != KVT_OK) {
        host_pool_close(&pool);
        return status;
    }
    *out = pool;
    return KVT_OK;
}

void host_pool_close(struct host_pool *pool)
{
    for (uint64_t at = 0; at < pool->registered_bytes; at += PIECE_BYTES)
        (void)cudaHostUnregister(pool->base + at);
    if (pool->base)
        (void)munmap(pool->base, pool->bytes);
    *pool = (struct host_pool){0};
}
