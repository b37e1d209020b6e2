/* cuda_params.c -- the CUDA backend's parameters, each once. */
#include "kvt/backend_params.h"

#include <math.h>

#include "kvt/policy.h"

#define COUNT_(name_, help_, minimum_, maximum_, default_)                                         \
    .name = (name_), .help = (help_), .type = KVT_PARAM_COUNT, .minimum = (minimum_),              \
    .maximum = (maximum_), .default_number = (default_)
#define CHOICE_(name_, help_, choices_, default_)                                                  \
    .name = (name_), .help = (help_), .type = KVT_PARAM_CHOICE, .choices = (choices_),             \
    .default_text = (default_)

const struct kvt_param_spec kvt_cuda_params[KVT_CUDA_PARAM_COUNT] = {
    [KVT_CUDA_DEVICES] = {.name = "devices",
                          .help = "GPUs by their CUDA number, filled in this order; -1: all that "
                                  "are visible.",
                          .type = KVT_PARAM_LIST,
                          .minimum = -1,
                          .maximum = 1023,
                          .default_text = "[-1]"},
    [KVT_CUDA_RANKS_ON_DEVICE] = {COUNT_(
        "ranks_on_device", "Ranks that share a GPU, taking turns on it; 0: as few as go.", 0, 1024,
        0)},
    [KVT_CUDA_LONGEST_TOKENS] = {COUNT_(
        "longest_tokens",
        "Context that memory is laid out for, of each request; one that may pass it is refused. 0: "
        "what any can reach, and at most 8,192 tokens beyond the longest input.",
        0, 1 << 24, 0)},
    [KVT_CUDA_HOST_POOL_GIB] = {.name = "host_pool_gib",
                                .help = "Host memory that may be pinned for rows; 0: what is "
                                        "needed, up to half of what is available.",
                                .type = KVT_PARAM_REAL,
                                .minimum = 0,
                                .maximum = 1 << 20,
                                .default_number = 0,
                                .idle = {KVT_IDLE_WITHOUT_HOT_CACHES}},
    [KVT_CUDA_HOST_LAYOUT] = {CHOICE_("host_layout",
                                      "On host, a row's layers of one store side by side, or each "
                                      "layer's rows apart.",
                                      "store|layer", "store"),
                              .idle = {KVT_IDLE_WITHOUT_HOT_CACHES}},
    [KVT_CUDA_FETCH_ORDER] = {CHOICE_("fetch_order",
                                      "All layers of a missing row at once, or the store's first "
                                      "layer exposed and the others beside its compute.",
                                      "group|leader_first", "leader_first"),
                              .idle = {KVT_IDLE_WITHOUT_HOT_CACHES}},
    [KVT_CUDA_SHARED_TOKENS] =
        {COUNT_("shared_tokens",
                "The first so many tokens of a request have host rows that others have too.", 0,
                1 << 24, 0),
         .idle = {KVT_IDLE_WITHOUT_HOT_CACHES}},
    [KVT_CUDA_SHARED_CONTEXTS] = {COUNT_("shared_contexts",
                                         "Prefixes of shared rows that are made; request r reads "
                                         "number r modulo this.",
                                         1, 65536, 1),
                                  .idle = {{.beside = "shared_tokens",
                                            .from = 0,
                                            .to = 0,
                                            .cure = "shared_tokens above 0"}}},
    [KVT_CUDA_CHECK_QUERIES] = {COUNT_("check_queries",
                                       "(query, layer) pairs of a rank's step whose attention is "
                                       "computed again from the same rows made anew.",
                                       0, 1 << 20, 4)},
    [KVT_CUDA_KERNELS] = {CHOICE_("kernels", "Tuned kernels, or the plain ones they are held to.",
                                  "fast|reference", "fast")},
    [KVT_CUDA_OUTPUT] = {CHOICE_("output", "Format of what attention writes.", "bf16|f32", "bf16")},
    [KVT_CUDA_INDEXER_DRIFT] =
        {.name = "indexer_drift",
         .help = "How much of an index query is new from token to token; it shapes what law "
                 "\"indexer\" selects, and under any law the scan that is timed.",
         .type = KVT_PARAM_REAL,
         .minimum = 0,
         .maximum = 1,
         .default_number = 0.12},
    [KVT_CUDA_CORRUPT_STEP] =
        {COUNT_("corrupt_step",
                "To prove that the check of attention finds it: in this step of each rank, counted "
                "from 1, a byte of one selected and missed row is flipped on host. 0: never.",
                0, 1 << 30, 0),
         .idle =
             {KVT_IDLE_WITHOUT_HOT_CACHES,
              {.beside = "check_queries", .from = 0, .to = 0, .cure = "check_queries above 0"}}},
    [KVT_CUDA_LAYERS] = {COUNT_(
        "layers",
        "The GPU runs the first so many layers of the model, of whole stores, and they stand for "
        "all in its times; the simulator decides for the others. 0: all.",
        0, 65536, 0)},
    [KVT_CUDA_IMPORT] = {.name = "import",
                         .help = "What a request brings to the device comes over the link, beside "
                                 "the steps before it joins; else it is made there.",
                         .type = KVT_PARAM_BOOL,
                         .minimum = 0,
                         .maximum = 1,
                         .default_number = 1,
                         .idle = {KVT_IDLE_WITHOUT_HOT_CACHES}},
    [KVT_CUDA_APART_STEPS] = {COUNT_(
        "apart_steps",
        "In one step of so many every copy waits behind its resolver, and each family is timed by "
        "itself: such steps are slower.",
        1, 1 << 20, 64)},
    [KVT_CUDA_BESIDE_INBOUND_MIB] = {COUNT_(
        "beside_inbound_mib",
        "So many MiB go to the device beside every step, by a copy engine: to tell what traffic "
        "costs.",
        0, 1024, 0)},
    [KVT_CUDA_BESIDE_OUTBOUND_MIB] = {COUNT_("beside_outbound_mib", "Likewise, from the device.", 0,
                                             1024, 0)},
};

kvt_status kvt_cuda_check_devices(const struct kvt_param_value *devices, const char *where,
                                  struct kvt_error *err)
{
    static const char cure[] = "[-1] for all that are visible, or their numbers, as [0, 1]";

    if (devices->list_length == 0)
        return kvt_fail(err, KVT_ERR_INVALID, where, "no GPU is named; expected %s", cure);
    for (size_t d = 0; d < devices->list_length; d++) {
        double number = devices->list[d];
        if (number != floor(number))
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "%g is not the number of a GPU; expected %s", number, cure);
        if (number < 0 && devices->list_length > 1)
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "%g names all GPUs, and stands alone; expected %s", number, cure);
        for (size_t other = 0; other < d; other++) {
            if (devices->list[other] == number)
                return kvt_fail(err, KVT_ERR_INVALID, where,
                                "GPU %g is named twice; name it once, and ranks_on_device says how "
                                "many ranks share it",
                                number);
        }
    }
    return KVT_OK;
}
