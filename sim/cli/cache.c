/* cache.c -- where recorded selections are kept from run to run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* A folder of the environment, if it is an absolute one, as the XDG base directory
 * specification asks. */
static const char *absolute(const char *variable)
{
    const char *folder = getenv(variable);
    return folder != NULL && folder[0] == '/' ? folder : NULL;
}

const char *cli_cache_dir(const char *given, struct kvt_arena *arena)
{
    if (given != NULL)
        return strcmp(given, "none") == 0 ? NULL : given;
    const char *cache = absolute("XDG_CACHE_HOME"), *home = absolute("HOME");
    if (cache != NULL)
        return kvt_arena_printf(arena, "%s/kvtide", cache);
    return home != NULL ? kvt_arena_printf(arena, "%s/.cache/kvtide", home) : NULL;
}
