/* version.c -- the facts of this build. The only file whose command line
 * carries them, so that a commit or another PREFIX rebuilds one object. */
#include "kvt/version.h"

/* A build by hand, without SConstruct, knows neither. */
#ifndef KVT_COMMIT
#define KVT_COMMIT "unknown"
#endif
#ifndef KVT_DATA_DIR
#define KVT_DATA_DIR "/usr/local/share/kvt"
#endif

const char *kvt_version(void)
{
    return KVT_VERSION;
}

const char *kvt_commit(void)
{
    return KVT_COMMIT;
}

const char *kvt_installed_data_dir(void)
{
    return KVT_DATA_DIR;
}
