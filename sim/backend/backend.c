/* backend.c -- the table of backends. */
#include "kvt/backend.h"

static const struct kvt_plugin_info *const backends[] = {
    &kvt_backend_sim.info,
    &kvt_backend_cuda.info,
};

const struct kvt_plugin_info *const *kvt_backends_table(enum kvt_plugin_kind kind, size_t *count)
{
    bool is_ours = kind == KVT_PLUGIN_BACKEND;

    *count = is_ours ? sizeof backends / sizeof backends[0] : 0;
    return is_ours ? backends : NULL;
}

const char *kvt_step_timing_name(enum kvt_step_timing timing)
{
    static const char *const names[] = {[KVT_TIMED_WHOLE] = "whole",
                                        [KVT_TIMED_FAMILIES] = "families",
                                        [KVT_TIMED_APART] = "apart"};

    return (unsigned)timing <= KVT_TIMED_APART ? names[timing] : "unknown";
}
