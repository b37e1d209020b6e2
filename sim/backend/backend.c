/* backend.c -- the table of backends. */
#include "kvt/backend.h"

#include <string.h>

#include "backend_sim.h"

static const struct kvt_backend_ops *const backends[] = {&kvt_backend_sim};

kvt_status kvt_backend_find(const char *name, const struct kvt_backend_ops **out,
                            struct kvt_error *err)
{
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        if (strcmp(backends[i]->info.name, name) == 0) {
            *out = backends[i];
            return KVT_OK;
        }
    }
    return kvt_fail(err, KVT_ERR_NOT_FOUND, "backend",
                    "\"%s\": no such backend in this build; there is: sim", name);
}
