/* plugin_call.c -- what a plug-in's function returned, as a failure in words. */
#include "kvt/plugin.h"

void kvt_plugin_hear(struct kvt_error *err)
{
    if (err == NULL)
        return;
    err->status = KVT_OK;
    err->where[0] = '\0';
    err->message[0] = '\0';
}

kvt_status kvt_plugin_outcome(const struct kvt_plugin_info *info, const char *member,
                              kvt_status status, struct kvt_error *err)
{
    if (status == KVT_OK)
        return KVT_OK;
    if ((unsigned)status > KVT_ERR_SYSTEM)
        return kvt_fail(err, KVT_ERR_POLICY, info->name,
                        "%s() returned %d, which is no kvt_status; KVT_OK, or a failure by "
                        "host->fail(), is expected",
                        member, (int)status);
    if (err != NULL && (err->status != status || err->message[0] == '\0'))
        return kvt_fail(err, KVT_ERR_POLICY, info->name,
                        "%s() failed and does not say why; host->fail() is expected", member);
    return status;
}
