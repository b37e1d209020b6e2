/* param_defaults.h -- plug-ins with the parameters that they have by default, without a scenario.
 */
#ifndef KVT_CLI_PARAM_DEFAULTS_H
#define KVT_CLI_PARAM_DEFAULTS_H

#include "kvt/plugin.h"

enum {
    PARAM_DEFAULTS_MAX = 64
};

/* values[PARAM_DEFAULTS_MAX]. Numbers, truths, choices and texts; a plug-in that has lists, or too
 * many, is refused. `who` asks, for the message. */
KVT_CHECKED kvt_status param_defaults(const struct kvt_plugin_info *info,
                                      struct kvt_param_value *values, const char *who,
                                      struct kvt_error *err);

/* The value of the parameter of this name; NULL: there is none. */
struct kvt_param_value *param_default_find(const struct kvt_plugin_info *info,
                                           struct kvt_param_value *values, const char *name);

/* The place of a name among a parameter's choices, "a|b|c"; 0 where it is none. */
double param_choice_index(const char *choices, const char *name);

#endif
