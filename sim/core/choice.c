/* choice.c -- a plug-in by name, asked for one of its parameters. */
#include <string.h>

#include "kvt/plugin.h"

bool kvt_choice_has(const struct kvt_choice *choice, const char *flag)
{
    for (size_t i = 0; choice->info && i < choice->info->param_count; i++) {
        const struct kvt_param_spec *spec = &choice->info->params[i];
        if (spec->type == KVT_PARAM_BOOL && strcmp(spec->name, flag) == 0)
            return choice->params.values[i].number != 0;
    }
    return false;
}
