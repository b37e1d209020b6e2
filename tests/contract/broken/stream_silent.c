/* A stream cannot be opened, and nobody is told why. */
#include "law.h"

static kvt_status stream_init(void *law, void *stream, const struct kvt_law_stream_env *env,
                              struct kvt_error *err)
{
    (void)law;
    (void)stream;
    (void)env;
    (void)err;
    return KVT_ERR_IO;
}

LAW("stream-silent", .stream_init = stream_init)
