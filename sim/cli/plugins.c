/* plugins.c -- the shared objects of a command line: loaded as they are read, until its end. */
#include "kvt/plugins.h"
#include "cli.h"

/* As a command's other answers about where things are, for whoever loads a scenario. */
static struct kvt_plugins *loaded;

const struct kvt_plugins *cli_plugins(void)
{
    return loaded;
}

kvt_status cli_plugins_load(const char *path, struct kvt_error *err)
{
    kvt_status status = loaded == NULL ? kvt_plugins_new(&loaded, err) : KVT_OK;

    return status == KVT_OK ? kvt_plugins_load(loaded, path, err) : status;
}

void cli_plugins_free(void)
{
    kvt_plugins_free(loaded);
    loaded = NULL;
}
