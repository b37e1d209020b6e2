/* machine.c -- the machine that something is about to be measured on: stored with what is found. */
#include <cjson/cJSON.h>
#include <stdio.h>

#include "cli.h"
#include "kvt/machine.h"

#ifdef KVT_CUDA

kvt_status cli_machine(bool quiet, cJSON **out, struct kvt_error *err)
{
    struct kvt_machine machine;
    struct kvt_machine_finding findings[KVT_MACHINE_FINDINGS_MAX];
    kvt_status status = kvt_machine_probe(&machine, err);

    *out = NULL;
    if (status == KVT_ERR_DEVICE)
        return KVT_OK; /* the backend says what is missing, once the question is known to be one */
    if (status != KVT_OK)
        return status;
    size_t count = kvt_machine_findings(&machine, findings);
    for (size_t i = 0; i < count && !quiet; i++) {
        if (findings[i].is_fault)
            fprintf(stderr, "kvtide: warning: measured times will be wrong: %s\n",
                    findings[i].text);
    }
    *out = kvt_machine_tree(&machine);
    return *out ? KVT_OK : kvt_fail_nomem(err, "the machine");
}

#else

kvt_status cli_machine(bool quiet, cJSON **out, struct kvt_error *err)
{
    (void)quiet;
    (void)err;
    *out = NULL; /* the backend says what is missing */
    return KVT_OK;
}

#endif
