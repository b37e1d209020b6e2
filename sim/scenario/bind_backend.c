/* bind_backend.c -- what steps are done by, and whether the rest of the scenario goes with it. */
#include "bind.h"
#include "kvt/backend.h"
#include "kvt/backend_params.h"

/* Where time is measured, every call is run: nothing is left to estimate. */
static kvt_status check_fidelity(struct kvt_load *load, const struct kvt_scenario *scenario,
                                 struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];

    if (!kvt_backend_runs(&scenario->backend) || scenario->fidelity == KVT_FIDELITY_EXACT)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, "run.fidelity|backend.name", place),
                    "fidelity \"%s\" with backend \"%s\", which runs every call; "
                    "run.fidelity=exact is expected",
                    kvt_fidelity_name(scenario->fidelity), scenario->backend.info->name);
}

static kvt_status check_clock(struct kvt_load *load, const struct kvt_scenario *scenario,
                              struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];

    if (kvt_backend_runs(&scenario->backend) || scenario->clock == KVT_CLOCK_PREDICTED)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, "run.clock|backend.name", place),
                    "clock \"measured\" with backend \"%s\", which measures nothing; backend "
                    "\"cuda\", or clock \"predicted\", is expected",
                    scenario->backend.info->name);
}

static kvt_status check_law(struct kvt_load *load, const struct kvt_scenario *scenario,
                            struct kvt_error *err)
{
    const struct kvt_law *law = (const struct kvt_law *)(const void *)scenario->selection.info;
    char place[KVT_PLACE_BYTES];

    if (kvt_backend_runs(&scenario->backend) || !law->reads_source)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, kvt_load_place(load, "selection.law|backend.name", place),
                    "law \"%s\" with backend \"%s\", which has no index to scan; backend "
                    "\"cuda\", or a law of selections such as \"tape\", is expected",
                    law->info.name, scenario->backend.info->name);
}

static kvt_status check_devices(struct kvt_load *load, const struct kvt_scenario *scenario,
                                struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];

    if (scenario->backend.info != &kvt_backend_cuda.info)
        return KVT_OK;
    return kvt_cuda_check_devices(&scenario->backend.params.values[KVT_CUDA_DEVICES],
                                  kvt_load_place(load, "backend.devices", place), err);
}

static kvt_status check_layers(struct kvt_load *load, const struct kvt_scenario *scenario,
                               struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    struct kvt_llm first;

    if (scenario->backend.info != &kvt_backend_cuda.info)
        return KVT_OK;
    uint32_t layers = (uint32_t)scenario->backend.params.values[KVT_CUDA_LAYERS].number;
    if (layers == 0)
        return KVT_OK;
    return kvt_llm_first_layers(scenario->llm, layers,
                                kvt_load_place(load, "backend.layers", place), &first, err);
}

kvt_status kvt_bind_backend(struct kvt_load *load, struct kvt_scenario *out, struct kvt_error *err)
{
    const char *clock = kvt_text_at(kvt_tree_at(load->tree, "run"), "clock");

    out->clock = strcmp(clock, "measured") == 0 ? KVT_CLOCK_MEASURED : KVT_CLOCK_PREDICTED;
    kvt_status status = check_devices(load, out, err);
    if (status == KVT_OK)
        status = check_layers(load, out, err);
    if (status == KVT_OK)
        status = check_fidelity(load, out, err);
    if (status == KVT_OK)
        status = check_clock(load, out, err);
    return status == KVT_OK ? check_law(load, out, err) : status;
}
