/* stage_load.c -- what comes to the stages of a run over what they can do, as reports tell it. */
#include "stage_load.h"

#include <cjson/cJSON.h>
#include <stdio.h>

#include "kvt/json.h"
#include "text.h"

const char *kvt_stage_name(enum kvt_stage stage)
{
    static const char *const names[KVT_STAGES] = {[KVT_STAGE_PREFILL] = "prefill",
                                                  [KVT_STAGE_SLOTS] = "slots",
                                                  [KVT_STAGE_IMPORT] = "import"};
    return names[stage];
}

bool stage_load_add(cJSON *result, const struct kvt_run *run)
{
    cJSON *loads = kvt_json_add_object(result, "stage_load");
    bool ok = loads != NULL;

    for (int s = 0; s < KVT_STAGES && ok; s++)
        ok = kvt_json_add_number(loads, kvt_stage_name((enum kvt_stage)s), run->stage_load[s]);
    return ok;
}

bool kvt_run_loaded(const struct kvt_run *run, double least, double most,
                    char text[KVT_SATURATED_BYTES])
{
    char number[TEXT_FIGURE_BYTES];
    size_t used = 0;

    text[0] = '\0';
    for (int s = 0; s < KVT_STAGES && run->analytic && used < KVT_SATURATED_BYTES; s++) {
        double load = run->stage_load[s];
        if (load >= least && load < most)
            used += (size_t)snprintf(text + used, KVT_SATURATED_BYTES - used, "%s%s (%s times)",
                                     used ? ", " : "", kvt_stage_name((enum kvt_stage)s),
                                     text_figure(load, number));
    }
    return used > 0;
}
