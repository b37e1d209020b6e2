/* roofline_params.h -- the roofline model's parameters, in the order of their table. */
#ifndef KVT_MODELS_TIMING_ROOFLINE_PARAMS_H
#define KVT_MODELS_TIMING_ROOFLINE_PARAMS_H

#include "kvt/plugin.h"

enum {
    PARAM_HOST_US,
    PARAM_SAMPLING_US,
    PARAM_LAYER_US,
    PARAM_COLLECTIVE_US,
    PARAM_TOPK_US,
    PARAM_TOPK_PASSES,
    PARAM_RESOLVE_US,
    PARAM_RESOLVE_ROW_NS,
    PARAM_ATTENTION_US,
    PARAM_HBM_EFFICIENCY,
    PARAM_FLOPS_EFFICIENCY,
    PARAM_ATTENTION_EFFICIENCY,
    PARAM_LINK_EFFICIENCY,
    PARAM_DUPLEX_EFFICIENCY,
    PARAM_DRAM_EFFICIENCY,
    PARAM_INTERCONNECT_EFFICIENCY,
    PARAM_DENSE_MATH,
    PARAM_ATTENTION_MATH,
    PARAM_FETCH_ORDER,
    PARAM_INDEX_QUERY_SHARE,
    PARAM_GRAPH_STEP,
    PARAM_GRAPH_LARGEST,
    PARAM_EAGER_US,
    PARAM_DRAFT_US,
    PARAM_COUNT
};

enum math {
    MATH_BF16 = 0,
    MATH_FP8
};

extern const struct kvt_param_spec kvt_roofline_params[PARAM_COUNT];

/* Every parameter at its default. */
void kvt_roofline_default_values(struct kvt_param_value values[PARAM_COUNT]);

#endif
