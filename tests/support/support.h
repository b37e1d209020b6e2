/* support.h -- what the tests share: folders that go away, memory that runs out. */
#ifndef KVT_TESTS_SUPPORT_H
#define KVT_TESTS_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A new, empty folder for one test, removed with all it holds. */
struct support_folder {
    char path[256];
};
void support_folder_make(struct support_folder *folder);
void support_folder_remove(const struct support_folder *folder);

/* folder/name, in a buffer of the caller's. */
#define SUPPORT_PATH_BYTES 512
const char *support_path(const struct support_folder *folder, const char *name,
                         char out[SUPPORT_PATH_BYTES]);

/* How many entries the folder has, hidden ones too. */
size_t support_folder_entries(const char *path);

/* Writes a file of exactly these bytes. A test that cannot ends. */
void support_write(const char *path, const void *bytes, size_t byte_count);

/* A file of byte_count bytes, all of them `fill`. */
void support_write_filled(const char *path, char fill, size_t byte_count);

/* The whole file, NUL-terminated; free() it. NULL when there is none. */
char *support_read(const char *path, size_t *out_bytes);

/* False where a tool (valgrind) has put its own allocator before ours: then no
 * allocation can be made to fail, and none is counted. */
bool support_can_fail_allocations(void);

/* Makes the nth allocation from now on fail, once (0: the next). Counts those of
 * the whole process, libraries included. */
void support_fail_allocation(uint64_t nth);

/* The same of this thread's alone: a sanitizer does not survive the beginning of a thread without.
 */
void support_fail_allocation_here(uint64_t nth);

/* Ends either; true when the failure has happened. */
bool support_allocation_failed(void);

/* Allocations since the process began. */
uint64_t support_allocations(void);

#endif
