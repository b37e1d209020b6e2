/* resolve_pair.cuh -- a thread's two rows of a query, one behind the other in its selection. */
#ifndef KVT_RESOLVE_PAIR_CUH
#define KVT_RESOLVE_PAIR_CUH

#include "resolve.cuh"

enum {
    SELECTED = 2 /* rows a thread and query */
};

struct row_pair {
    int32_t row[SELECTED]; /* KVT_GPU_NONE behind the last */
};

/* Of query `query` of the request; of none where it has fewer. */
static __device__ __forceinline__ row_pair pair_load(const struct kvt_gpu_resolve &call,
                                                     const resolve_view &view, uint32_t query)
{
    const uint32_t first = threadIdx.x * SELECTED;
    const int32_t *selection =
        call.selections + ((size_t)view.first_query + query) * call.top_k + first;
    row_pair pair = {{KVT_GPU_NONE, KVT_GPU_NONE}};

    if (query >= view.query_count)
        return pair;
    if (call.top_k % SELECTED == 0 && first < call.top_k) {
        const int2 loaded = __ldg((const int2 *)selection);
        pair.row[0] = loaded.x;
        pair.row[1] = loaded.y;
    } else {
        for (uint32_t i = 0; i < SELECTED; i++) {
            if (first + i < call.top_k)
                pair.row[i] = __ldg(selection + i);
        }
    }
    return pair;
}

static __device__ __forceinline__ void pair_store_places(const struct kvt_gpu_resolve &call,
                                                         const resolve_view &view, uint32_t query,
                                                         const int32_t place[SELECTED])
{
    const uint32_t first = threadIdx.x * SELECTED;
    int32_t *places = call.row_places + ((size_t)view.first_query + query) * call.top_k + first;

    if (call.top_k % SELECTED == 0 && first < call.top_k) {
        *(int2 *)places = make_int2(place[0], place[1]);
    } else {
        for (uint32_t i = 0; i < SELECTED; i++) {
            if (first + i < call.top_k)
                places[i] = place[i];
        }
    }
}

#endif
