/* allocation.c -- the process's allocator, with a wish to fail.
 *
 * These definitions stand before the C library's (or a sanitizer's), which they
 * find by RTLD_NEXT and call. The counters are atomic: tests have threads. */
#define _GNU_SOURCE /* RTLD_NEXT */

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum {
    NEVER = -1
};

static atomic_ullong allocation_count;
static atomic_llong allowed = NEVER; /* allocations before the one that fails */
static atomic_bool has_failed;
static atomic_bool is_for_one; /* thread: the one that asked for the failure */
static _Thread_local bool is_that_one;

/* C gives no conversion from void * to a function's address; the bytes do. */
#define FIND_NEXT(function, name)                                                                  \
    do {                                                                                           \
        void *found = dlsym(RTLD_NEXT, name);                                                      \
        memcpy(&(function), &found, sizeof found);                                                 \
    } while (0)

/* A sanitizer allocates by us before it has set itself up: nothing here may lean on it. */
#define UNCHECKED __attribute__((no_sanitize("address", "undefined")))

UNCHECKED static bool is_refused(void)
{
    atomic_fetch_add(&allocation_count, 1);
    if (atomic_load(&is_for_one) && !is_that_one)
        return false;
    if (atomic_load(&allowed) == NEVER || atomic_fetch_sub(&allowed, 1) != 0)
        return false;
    atomic_store(&has_failed, true);
    errno = ENOMEM;
    return true;
}

UNCHECKED void *malloc(size_t size_bytes)
{
    static void *(*next)(size_t);
    if (next == NULL)
        FIND_NEXT(next, "malloc");
    return is_refused() ? NULL : next(size_bytes);
}

UNCHECKED void *calloc(size_t count, size_t size_bytes)
{
    static void *(*next)(size_t, size_t);
    if (next == NULL)
        FIND_NEXT(next, "calloc");
    return is_refused() ? NULL : next(count, size_bytes);
}

UNCHECKED void *realloc(void *bytes, size_t size_bytes)
{
    static void *(*next)(void *, size_t);
    if (next == NULL)
        FIND_NEXT(next, "realloc");
    return is_refused() ? NULL : next(bytes, size_bytes);
}

UNCHECKED void *aligned_alloc(size_t align_bytes, size_t size_bytes)
{
    static void *(*next)(size_t, size_t);
    if (next == NULL)
        FIND_NEXT(next, "aligned_alloc");
    return is_refused() ? NULL : next(align_bytes, size_bytes);
}

bool support_can_fail_allocations(void)
{
    uint64_t before = support_allocations();
    void *volatile probe = malloc(1); /* volatile, or the pair is optimised away */
    free(probe);
    return support_allocations() > before;
}

void support_fail_allocation(uint64_t nth)
{
    atomic_store(&is_for_one, false);
    atomic_store(&has_failed, false);
    atomic_store(&allowed, (long long)nth);
}

void support_fail_allocation_here(uint64_t nth)
{
    support_fail_allocation(nth);
    is_that_one = true;
    atomic_store(&is_for_one, true);
}

bool support_allocation_failed(void)
{
    atomic_store(&allowed, NEVER);
    return atomic_load(&has_failed);
}

uint64_t support_allocations(void)
{
    return atomic_load(&allocation_count);
}
