/* gather.cuh -- copies of missing rows, for the launchers that ask for them. */
#ifndef KVT_GATHER_CUH
#define KVT_GATHER_CUH

#include "launch.h"

/* Which rows of the requests' miss lists are copied. */
enum gather_choice {
    GATHER_MISSED, /* all; where staging is shared in waves, those that found a slot */
    GATHER_STAGED  /* those that found none, of the requests of one wave */
};

enum gather_launch_kind {
    GATHER_ALONE = 0,
    /* The launch before it in the stream is that of a fast resolver: blocks may come up, and wait,
     * while it ends. */
    GATHER_BEHIND_RESOLVER,
    GATHER_BESIDE /* others compute meanwhile: a few blocks only */
};

/* Layers [first_layer, first_layer + layers) of each row. */
cudaError_t gather_launch(const struct kvt_gpu_resolve *resolve, enum gather_choice choice,
                          uint32_t wave, uint32_t first_layer, uint32_t layers,
                          enum gather_launch_kind launch, cudaStream_t stream);

#endif
