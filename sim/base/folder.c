/* folder.c -- mkdir -p, undone when it cannot be finished. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvt/file.h"

/* Makes one folder. *was_made is false when it was there already. Returns 0 or
 * an errno. */
static int make_folder(const char *path, bool *was_made)
{
    *was_made = mkdir(path, 0777) == 0;
    if (*was_made)
        return 0;
    int error_number = errno;
    /* Asked afterwards, so that two runs making the same folder both succeed;
     * and on a read-only disk mkdir() says EROFS of folders that exist. */
    struct stat info;
    if (stat(path, &info) != 0)
        return error_number;
    return S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
}

/* Takes back the folders from `first` bytes of the path on, deepest first; a
 * folder that someone else has begun to use stays. */
static void remove_made(char *path, size_t first, size_t end)
{
    for (size_t at = end; at >= first && at > 0; at--) {
        if (path[at] != '/' && path[at] != '\0')
            continue;
        char kept = path[at];
        path[at] = '\0';
        (void)rmdir(path);
        path[at] = kept;
    }
}

kvt_status kvt_mkdirs(const char *path, struct kvt_error *err)
{
    if (path[0] == '\0')
        return kvt_fail(err, KVT_ERR_INVALID, path, "an empty folder name; expected a path");
    char *copy = strdup(path);
    if (copy == NULL)
        return kvt_fail_nomem(err, path);

    size_t length = strlen(copy);
    size_t first_made = 0; /* bytes of the first folder that was not there */
    size_t last_made = 0;
    kvt_status status = KVT_OK;
    for (size_t at = 1; at <= length && status == KVT_OK; at++) {
        if (copy[at] != '/' && copy[at] != '\0')
            continue;
        if (copy[at - 1] == '/')
            continue; /* "a//b" and "a/" name no further folder */
        char kept = copy[at];
        copy[at] = '\0';
        bool was_made = false;
        int error_number = make_folder(copy, &was_made);
        if (error_number != 0)
            status = kvt_fail_system(err, error_number, copy, "the folder cannot be made");
        copy[at] = kept;
        if (was_made) {
            first_made = first_made == 0 ? at : first_made;
            last_made = at;
        }
    }
    if (status != KVT_OK && first_made > 0)
        remove_made(copy, first_made, last_made);
    free(copy);
    return status;
}
