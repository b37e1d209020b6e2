/* roofline_params.c -- what of the roofline model can be set, and where each default comes from. */
#include "roofline_params.h"

#include <string.h>

#include "kvt/policy.h"

/* Fields, for what has more of them, and whole entries. */
#define MICROSECONDS_(name_, help_, default_)                                                      \
    .name = (name_), .help = (help_), .type = KVT_PARAM_REAL, .minimum = 0, .maximum = 1e6,        \
    .default_number = (default_)
#define EFFICIENCY_(name_, help_, default_)                                                        \
    .name = (name_), .help = (help_), .type = KVT_PARAM_REAL, .minimum = 0.01, .maximum = 1,       \
    .default_number = (default_)
#define CHOICE_(name_, help_, choices_, default_)                                                  \
    .name = (name_), .help = (help_), .type = KVT_PARAM_CHOICE, .choices = (choices_),             \
    .default_text = (default_)
#define MICROSECONDS(name_, help_, default_)                                                       \
    {                                                                                              \
        MICROSECONDS_(name_, help_, default_)                                                      \
    }
#define EFFICIENCY(name_, help_, default_)                                                         \
    {                                                                                              \
        EFFICIENCY_(name_, help_, default_)                                                        \
    }
#define CHOICE(name_, help_, choices_, default_)                                                   \
    {                                                                                              \
        CHOICE_(name_, help_, choices_, default_)                                                  \
    }

#define WITHOUT_DRAFTS(methods_)                                                                   \
    {                                                                                              \
        .beside = "speculation.method", .values = (methods_), .cure = "another speculation.method" \
    }

const struct kvt_param_spec kvt_roofline_params[PARAM_COUNT] = {
    [PARAM_HOST_US] = MICROSECONDS(
        "host_us_per_step", "CPU time between two steps that no kernel hides; assumed.", 200),
    [PARAM_SAMPLING_US] =
        MICROSECONDS("sampling_us_per_step", "Sampling the next tokens; assumed.", 100),
    [PARAM_LAYER_US] =
        MICROSECONDS("layer_overhead_us",
                     "Launches and small kernels of one layer inside a graph; assumed.", 10),
    [PARAM_COLLECTIVE_US] = MICROSECONDS(
        "collective_us", "Latency of one all-reduce or all-to-all among GPUs; assumed.", 8),
    [PARAM_TOPK_US] = MICROSECONDS("topk_launch_us",
                                   "Fixed part of one top-k over a rank's queries; H200: 12.", 12),
    [PARAM_TOPK_PASSES] = {.name = "topk_passes",
                           .help = "How often the scores cross HBM, written and read; H200: 1.7.",
                           .type = KVT_PARAM_REAL,
                           .minimum = 0,
                           .maximum = 100,
                           .default_number = 1.7},
    [PARAM_RESOLVE_US] = {MICROSECONDS_(
                              "resolve_launch_us",
                              "One resolve of a selector whose rows are all resident; H200: 5.3.",
                              5.3),
                          .idle = {KVT_IDLE_WITHOUT_HOT_CACHES}},
    [PARAM_RESOLVE_ROW_NS] = {.name = "resolve_ns_per_row",
                              .help = "Looking one row up in a hot cache; H200: 0.19, from 65,536 "
                                      "rows in 17.7 us.",
                              .type = KVT_PARAM_REAL,
                              .minimum = 0,
                              .maximum = 1e6,
                              .default_number = 0.19,
                              .idle = {KVT_IDLE_WITHOUT_HOT_CACHES}},
    [PARAM_ATTENTION_US] = MICROSECONDS(
        "attention_launch_us", "Fixed part of one layer's sparse attention; H200: 15.", 15),
    [PARAM_HBM_EFFICIENCY] = EFFICIENCY(
        "hbm_efficiency", "Share of the HBM rate that kernels reach; H200 index scan: 0.82.", 0.8),
    [PARAM_FLOPS_EFFICIENCY] = EFFICIENCY(
        "flops_efficiency",
        "Share of the dense flops that matrix products and index scores reach; assumed.", 0.6),
    [PARAM_ATTENTION_EFFICIENCY] =
        EFFICIENCY("attention_efficiency",
                   "Share of the flops that sparse attention reaches; H200 FlashMLA: 0.36.", 0.36),
    [PARAM_LINK_EFFICIENCY] =
        {EFFICIENCY_("link_efficiency",
                     "Share of the hardware's link rate that a gather of rows reaches.", 1),
         .idle = {KVT_IDLE_WITHOUT_HOT_CACHES}},
    [PARAM_DUPLEX_EFFICIENCY] =
        {EFFICIENCY_("duplex_efficiency",
                     "Rate of the link to the device while it also carries backup; H200: 0.91.",
                     0.91),
         .idle = {KVT_IDLE_WITHOUT_HOT_CACHES}},
    [PARAM_DRAM_EFFICIENCY] =
        {EFFICIENCY_("dram_efficiency",
                     "Share of a node's DRAM rate that its GPUs reach together; assumed.", 0.8),
         .idle = {KVT_IDLE_WITHOUT_HOT_CACHES}},
    [PARAM_INTERCONNECT_EFFICIENCY] =
        EFFICIENCY("interconnect_efficiency",
                   "Share of the GPU-to-GPU rate that collectives reach; assumed.", 0.7),
    [PARAM_DENSE_MATH] =
        CHOICE("dense_math", "Format of projections, experts and index scores.", "bf16|fp8", "fp8"),
    [PARAM_ATTENTION_MATH] =
        CHOICE("attention_math", "Format that attention multiplies in.", "bf16|fp8", "bf16"),
    [PARAM_FETCH_ORDER] =
        {CHOICE_("fetch_order",
                 "All layers of a store in one exposed transfer, or its first layer exposed and "
                 "the others hidden behind their layers' compute, each copy paying its granules.",
                 "group|leader_first", "group"),
         .idle = {KVT_IDLE_WITHOUT_HOT_CACHES}},
    [PARAM_INDEX_QUERY_SHARE] =
        {.name = "index_query_share",
         .help = "Share of a scan that each further query of a request adds; H200 DeepGEMM: 0.25.",
         .type = KVT_PARAM_REAL,
         .minimum = 0,
         .maximum = 1,
         .default_number = 0.25,
         .idle = {WITHOUT_DRAFTS("none")}},
    [PARAM_GRAPH_STEP] = {.name = "graph_step_tokens",
                          .help = "Graphs are captured for powers of two up to this, then for its "
                                  "multiples; tokens are padded to the next.",
                          .type = KVT_PARAM_COUNT,
                          .minimum = 1,
                          .maximum = 4096,
                          .default_number = 8},
    [PARAM_GRAPH_LARGEST] = {.name = "graph_largest_tokens",
                             .help = "Tokens of the largest graph; more run without one.",
                             .type = KVT_PARAM_COUNT,
                             .minimum = 0,
                             .maximum = 1 << 20,
                             .default_number = 1024},
    [PARAM_EAGER_US] =
        MICROSECONDS("eager_layer_us",
                     "Launching one layer's kernels without a graph; DeepSeek-V4-Flash on B300: 84 "
                     "ms over 43 layers.",
                     1950),
    [PARAM_DRAFT_US] = {MICROSECONDS_(
                            "draft_layer_us",
                            "Launches and small kernels of one drafter layer in one pass; "
                            "DeepSeek-V4-Flash's DSpark of 3 layers on B300: 0.92 ms.",
                            300),
                        .idle = {WITHOUT_DRAFTS("none|self-sparse"),
                                 {.beside = "speculation.drafter",
                                  .values = "none",
                                  .cure = "a speculation.drafter"}}},
};

/* Of "a|b|c" the number of what is called `name`, which is one of them. */
static double choice_number(const char *choices, const char *name)
{
    size_t length = strlen(name);
    double number = 0;

    while (strncmp(choices, name, length) != 0 ||
           (choices[length] != '|' && choices[length] != '\0')) {
        choices += strcspn(choices, "|") + 1;
        number++;
    }
    return number;
}

void kvt_roofline_default_values(struct kvt_param_value values[PARAM_COUNT])
{
    for (size_t i = 0; i < PARAM_COUNT; i++) {
        const struct kvt_param_spec *spec = &kvt_roofline_params[i];
        values[i] =
            (struct kvt_param_value){.number = spec->default_number, .text = spec->default_text};
        if (spec->type == KVT_PARAM_CHOICE)
            values[i].number = choice_number(spec->choices, spec->default_text);
    }
}
