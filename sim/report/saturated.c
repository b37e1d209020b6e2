/* saturated.c -- stages that cannot keep up with what comes, as reports tell it. */
#include "saturated.h"

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

bool saturated_add(cJSON *result, const struct kvt_run *run)
{
    cJSON *list = cJSON_AddArrayToObject(result, "saturated");
    bool ok = list != NULL;

    for (int s = 0; s < KVT_STAGES && ok; s++) {
        if (run->stage_load[s] <= 0)
            continue;
        cJSON *item = kvt_json_add_element(list);
        ok = item && kvt_json_add_text(item, "stage", kvt_stage_name((enum kvt_stage)s)) &&
             kvt_json_add_number(item, "load", run->stage_load[s]);
    }
    return ok;
}

bool kvt_run_saturated(const struct kvt_run *run, char text[KVT_SATURATED_BYTES])
{
    char number[TEXT_FIGURE_BYTES];
    size_t used = 0;

    text[0] = '\0';
    for (int s = 0; s < KVT_STAGES && used < KVT_SATURATED_BYTES; s++) {
        if (run->stage_load[s] > 0)
            used += (size_t)snprintf(text + used, KVT_SATURATED_BYTES - used, "%s%s (%s times)",
                                     used ? ", " : "", kvt_stage_name((enum kvt_stage)s),
                                     text_figure(run->stage_load[s], number));
    }
    return used > 0;
}
