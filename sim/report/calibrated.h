/* calibrated.h -- values of parameters whose defaults were fitted to something. */
#ifndef KVT_REPORT_CALIBRATED_H
#define KVT_REPORT_CALIBRATED_H

#include "kvt/scenario.h"

enum {
    CALIBRATED_BYTES = 64
};

/* A number, a choice, or the name of a file without its folder and ".json". */
void calibrated_print(const struct kvt_param_value *value, char out[CALIBRATED_BYTES]);

/* Was its default fitted, and has the parameter an effect in this scenario? `object` is where its
 * plug-in stands: "cluster.import". */
bool calibrated_counts(const struct kvt_scenario *scenario, const char *object,
                       const struct kvt_param_spec *spec);

bool calibrated_is_default(const struct kvt_param_spec *spec, const struct kvt_param_value *value);

#endif
