/* cache.c -- where recorded selections are kept from run to run. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "kvt/file.h"

/* A folder of the environment, if it is an absolute one, as the XDG base directory
 * specification asks. */
static const char *absolute(const char *variable)
{
    const char *folder = getenv(variable);
    return folder != NULL && folder[0] == '/' ? folder : NULL;
}

/* The user's own. A cache is never needed: where there is no place for one there is none. */
static const char *own_cache(struct kvt_arena *arena)
{
    const char *cache = absolute("XDG_CACHE_HOME"), *home = absolute("HOME");

    if (cache != NULL)
        return kvt_arena_printf(arena, "%s/kvtide", cache);
    return home != NULL ? kvt_arena_printf(arena, "%s/.cache/kvtide", home) : NULL;
}

kvt_status cli_cache_dir(const char *given, struct kvt_arena *arena, const char **out,
                         struct kvt_error *err)
{
    struct kvt_error why;

    *out = NULL;
    if (given == NULL) {
        *out = own_cache(arena);
        return KVT_OK;
    }
    if (strcmp(given, "none") == 0)
        return KVT_OK;
    if (given[0] == '\0')
        return kvt_fail(err, KVT_ERR_INVALID, "--cache",
                        "an empty name; a folder, or \"none\", is expected");
    kvt_status status = kvt_mkdirs(given, &why);
    if (status != KVT_OK)
        return kvt_fail(err, status, "--cache", "\"%s\" cannot be a cache: %s", given, why.message);
    if (access(given, W_OK | X_OK) != 0)
        return kvt_fail(err, KVT_ERR_SYSTEM, "--cache", "\"%s\": nothing can be written there: %s",
                        given, strerror(errno));
    *out = given;
    return KVT_OK;
}
