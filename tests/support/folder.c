/* folder.c -- temporary folders and their files. */
#define _XOPEN_SOURCE 700 /* nftw() */

#include <check.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

void support_folder_make(struct support_folder *folder)
{
    const char *parent = getenv("TMPDIR");
    (void)snprintf(folder->path, sizeof folder->path, "%s/kvt-test-XXXXXX",
                   parent != NULL && parent[0] != '\0' ? parent : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder->path));
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

void support_folder_remove(const struct support_folder *folder)
{
    ck_assert_int_eq(nftw(folder->path, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

const char *support_path(const struct support_folder *folder, const char *name,
                         char out[SUPPORT_PATH_BYTES])
{
    (void)snprintf(out, SUPPORT_PATH_BYTES, "%s/%s", folder->path, name);
    return out;
}

size_t support_folder_entries(const char *path)
{
    DIR *folder = opendir(path);
    ck_assert_ptr_nonnull(folder);
    size_t count = 0;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            count++;
    }
    (void)closedir(folder);
    return count;
}

void support_write(const char *path, const void *bytes, size_t byte_count)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, byte_count, file), byte_count);
    ck_assert_int_eq(fclose(file), 0);
}

void support_write_filled(const char *path, char fill, size_t byte_count)
{
    char block[1 << 16];
    memset(block, fill, sizeof block);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    for (size_t left = byte_count; left > 0;) {
        size_t bytes = left < sizeof block ? left : sizeof block;
        ck_assert_uint_eq(fwrite(block, 1, bytes, file), bytes);
        left -= bytes;
    }
    ck_assert_int_eq(fclose(file), 0);
}

char *support_read(const char *path, size_t *out_bytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    struct stat info;
    ck_assert_int_eq(fstat(fileno(file), &info), 0);
    size_t size_bytes = (size_t)info.st_size;
    char *text = malloc(size_bytes + 1);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(fread(text, 1, size_bytes, file), size_bytes);
    text[size_bytes] = '\0';
    (void)fclose(file);
    if (out_bytes != NULL)
        *out_bytes = size_bytes;
    return text;
}
