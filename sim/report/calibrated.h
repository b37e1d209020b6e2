/* calibrated.h -- values of parameters whose defaults were fitted to something. */
#ifndef KVT_REPORT_CALIBRATED_H
#define KVT_REPORT_CALIBRATED_H

#include "kvt/plugin.h"

enum {
    CALIBRATED_BYTES = 64
};

/* A number, a choice, or the name of a file without its folder and ".json". */
void calibrated_print(const struct kvt_param_value *value, char out[CALIBRATED_BYTES]);

bool calibrated_is_default(const struct kvt_param_spec *spec, const struct kvt_param_value *value);

#endif
