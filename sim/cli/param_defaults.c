/* param_defaults.c -- plug-ins with the parameters that they have by default, without a scenario.
 */
#include "param_defaults.h"

#include <string.h>

double param_choice_index(const char *choices, const char *name)
{
    size_t length = strlen(name);
    for (double index = 0;; index++) {
        size_t here = strcspn(choices, "|");
        if (here == length && memcmp(choices, name, length) == 0)
            return index;
        if (choices[here] == '\0')
            return 0;
        choices += here + 1;
    }
}

kvt_status param_defaults(const struct kvt_plugin_info *info, struct kvt_param_value *values,
                          const char *who, struct kvt_error *err)
{
    if (info->param_count > PARAM_DEFAULTS_MAX)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, info->name,
                        "it has %zu parameters; %s takes at most %d", info->param_count, who,
                        PARAM_DEFAULTS_MAX);
    for (size_t i = 0; i < info->param_count; i++) {
        const struct kvt_param_spec *spec = &info->params[i];
        values[i] =
            (struct kvt_param_value){.number = spec->default_number, .text = spec->default_text};
        if (spec->type == KVT_PARAM_LIST || spec->type == KVT_PARAM_RECORDS)
            return kvt_fail(err, KVT_ERR_UNSUPPORTED, info->name,
                            "its parameter %s is a list; %s takes numbers, choices and texts",
                            spec->name, who);
        if (spec->type == KVT_PARAM_CHOICE && spec->default_text != NULL)
            values[i].number = param_choice_index(spec->choices, spec->default_text);
    }
    return KVT_OK;
}

struct kvt_param_value *param_default_find(const struct kvt_plugin_info *info,
                                           struct kvt_param_value *values, const char *name)
{
    for (size_t i = 0; i < info->param_count; i++) {
        if (strcmp(info->params[i].name, name) == 0)
            return &values[i];
    }
    return NULL;
}
