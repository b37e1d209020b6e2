/* plugin_params.h -- parameter values for tests that stand a plug-in up without a scenario. */
#ifndef KVT_TESTS_PLUGIN_PARAMS_H
#define KVT_TESTS_PLUGIN_PARAMS_H

#include "kvt/plugin.h"

enum {
    SUPPORT_PARAMS_MAX = 64
};

/* The defaults of info->params into values[], as params. COUNT, REAL, BOOL, CHOICE
 * and TEXT only; a plug-in with others, or with too many, ends the test. */
struct kvt_params support_default_params(const struct kvt_plugin_info *info,
                                         struct kvt_param_value values[SUPPORT_PARAMS_MAX]);

/* The built-in plug-in of that name with its defaults; one that is missing ends the test. */
struct kvt_choice support_default_choice(enum kvt_plugin_kind kind, const char *name,
                                         struct kvt_param_value values[SUPPORT_PARAMS_MAX]);

/* Another value that the parameter allows: half its default, one more, the other
 * truth, the next choice. */
void support_change_param(const struct kvt_param_spec *spec, struct kvt_param_value *value);

#endif
