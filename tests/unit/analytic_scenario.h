/* analytic_scenario.h -- the small scenario that mean values are tried on, and a figure of its run.
 */
#ifndef KVT_TESTS_ANALYTIC_SCENARIO_H
#define KVT_TESTS_ANALYTIC_SCENARIO_H

#include <math.h>

#include <check.h>

#include "kvt/json.h"
#include "support/small_run.h"

#define SCENARIO                                                                                   \
    "{\"schema\": \"kvtide/scenario/1\", \"name\": \"small\", \"seed\": 1, "                       \
    "\"model\": {\"base\": \"glm-5.3\", \"layers\": 6, \"top_k\": 16, "                            \
    "\"weight_bytes\": 2147483648, \"dense_weight_bytes\": 1073741824, "                           \
    "\"weights_replicated_gib\": 1, \"weights_expert_gib\": 1, \"stores\": ["                      \
    "{\"first_layer\": 0, \"layers\": 1, \"compress_ratio\": 1, \"repeat\": 2, "                   \
    "\"stride_layers\": 1}, {\"first_layer\": 2, \"layers\": 4, \"compress_ratio\": 1, "           \
    "\"repeat\": 1, \"stride_layers\": 4}]}, "                                                     \
    "\"hardware\": {\"base\": \"b300\", \"link_h2d_bytes_per_s\": 2000000000}, "                   \
    "\"cluster\": {\"decode\": {\"gpus\": 2, \"dp\": 2, \"ep\": 2, \"lockstep\": true, "           \
    "\"pools\": {\"unified_gib\": 1}}, \"import\": {\"law\": \"rate\", \"rate\": 1}}, "            \
    "\"residency\": {\"policy\": \"hisparse\", \"hot_tokens\": 32}, "                              \
    "\"selection\": {\"law\": \"score\"}, \"timing\": {\"model\": \"roofline\"}, "                 \
    "\"workload\": {\"arrival\": \"closed\", \"concurrency\": 12, \"requests\": 96, "              \
    "\"lengths\": {\"input\": {\"law\": \"fixed\", \"tokens\": 256}, "                             \
    "\"output\": {\"law\": \"lognormal\", \"mean_tokens\": 60, \"cv\": 0.25}}}, "                  \
    "\"run\": {\"fidelity\": \"analytic\"}}"

static inline double metric_of(const struct small_run *small, const char *name)
{
    struct cJSON *result = NULL;
    struct kvt_error err;
    ck_assert_int_eq(kvt_report_result(small->run, &result, &err), KVT_OK);
    const cJSON *item = kvt_json_find(kvt_json_find(result, "metrics"), name);
    double value = cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
    cJSON_Delete(result);
    return value;
}

#endif
