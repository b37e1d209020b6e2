/* dense_rank.c -- a rank's dense stand-in. */
#include "cuda_private.h"

#include "dense.h"

kvt_status rank_open_dense(struct rank *rank, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    uint32_t tp = cuda->env.tp > 0 ? cuda->env.tp : 1, ep = cuda->env.ep > 0 ? cuda->env.ep : 1;
    struct kvt_dense_shape shape;
    kvt_status status = kvt_dense_shape_make(cuda->llm, tp, ep, &shape, err);

    if (status == KVT_OK)
        status = kvt_dense_new(&shape, cuda->query_rows, &rank->dense, err);
    if (status == KVT_OK)
        status = kvt_cuda_check_device_bytes(
            cudaMalloc(&rank->dense_workspace, KVT_DENSE_WORKSPACE_BYTES), "cuBLAS's workspace",
            KVT_DENSE_WORKSPACE_BYTES, err);
    return status;
}

kvt_status rank_enqueue_dense(struct rank *rank, uint32_t layer, const struct step_key *key,
                              struct kvt_error *err)
{
    return kvt_dense_enqueue(rank->dense, layer, key->query_count, rank->dense_workspace,
                             rank->main, err);
}

void rank_close_dense(struct rank *rank)
{
    kvt_dense_free(rank->dense);
    (void)cudaFree(rank->dense_workspace);
}
