/* dense_rank.c -- the dense stand-in of a device, which the ranks on it share: they take turns. */
#include "step.h"

#include "dense.h"

kvt_status device_open_dense(const struct backend_cuda *cuda, struct device *device,
                             struct kvt_error *err)
{
    uint32_t tp = cuda->env.tp > 0 ? cuda->env.tp : 1, ep = cuda->env.ep > 0 ? cuda->env.ep : 1;
    struct kvt_dense_shape shape;
    kvt_status status = kvt_dense_shape_make(cuda->env.llm, tp, ep, &shape, err);

    if (status == KVT_OK)
        status = kvt_dense_new(&shape, cuda->query_rows, &device->dense, err);
    if (status == KVT_OK)
        status = device_open_draft(cuda, device, err);
    return status;
}

/* Ranks may capture their graphs at once; what the library chose for a shape is kept for all. */
kvt_status rank_enqueue_dense(struct rank *rank, uint32_t layer, uint32_t tokens,
                              struct kvt_error *err)
{
    struct device *device = rank->device;

    (void)pthread_mutex_lock(&device->dense_lock);
    kvt_status status = kvt_dense_enqueue(device->dense, layer, tokens, rank->launches, err);
    (void)pthread_mutex_unlock(&device->dense_lock);
    if (status !=
        KVT_OK) /* it knows no ranks: what a kernel did to the context is asked for here */
        rank_note(rank, cudaPeekAtLastError());
    return status;
}

void device_close_dense(struct device *device)
{
    if (!device->dense || device->lost || cudaSetDevice(device->ordinal) != cudaSuccess)
        return;
    kvt_dense_free(device->dense);
    kvt_draft_dense_free(device->draft_dense);
}
