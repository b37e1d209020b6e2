/* traffic.c -- copies beside every step that nobody waits for: a calibration asks for them, to tell
 * what other traffic of the link costs.
 *
 *     with a step    each way's go to a copy engine, on a stream of their own, as an import does
 *     behind it      once its time is known, they are waited for: none runs into the next step
 *
 * So what they cost a step is what they slow of it. A way that nothing is asked of has no stream
 * and no memory. */
#include "backend_cuda.h"

enum {
    ALIGNED = 256
};

void traffic_lay(const struct backend_cuda *cuda, struct rank *rank, struct carver *carver)
{
    for (int w = 0; w < WAYS; w++)
        rank->traffic[w].device = carve(carver, cuda->beside_bytes[w], ALIGNED);
}

void traffic_lay_pinned(const struct backend_cuda *cuda, struct rank *rank, struct carver *carver)
{
    for (int w = 0; w < WAYS; w++)
        rank->traffic[w].pinned = carve(carver, cuda->beside_bytes[w], ALIGNED);
}

kvt_status traffic_open(struct rank *rank, struct kvt_error *err)
{
    cudaError_t error = cudaSuccess;

    for (int w = 0; w < WAYS && error == cudaSuccess; w++) {
        if (rank->cuda->beside_bytes[w] > 0)
            error = cudaStreamCreateWithFlags(&rank->traffic[w].stream, cudaStreamNonBlocking);
    }
    return rank_check(rank, error, "the streams of copies beside a step", err);
}

void traffic_close(struct rank *rank)
{
    for (int w = 0; w < WAYS; w++) {
        if (rank->traffic[w].stream)
            (void)cudaStreamDestroy(rank->traffic[w].stream);
    }
}

kvt_status traffic_launch(struct rank *rank, struct kvt_error *err)
{
    const uint64_t *bytes = rank->cuda->beside_bytes;
    const struct traffic *in = &rank->traffic[WAY_INBOUND], *out = &rank->traffic[WAY_OUTBOUND];
    cudaError_t error = cudaSuccess;

    if (in->stream)
        error = cudaMemcpyAsync(in->device, in->pinned, bytes[WAY_INBOUND], cudaMemcpyHostToDevice,
                                in->stream);
    if (out->stream && error == cudaSuccess)
        error = cudaMemcpyAsync(out->pinned, out->device, bytes[WAY_OUTBOUND],
                                cudaMemcpyDeviceToHost, out->stream);
    return rank_check(rank, error, "copies beside a step", err);
}

kvt_status traffic_end(struct rank *rank, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (int w = 0; w < WAYS && status == KVT_OK; w++) {
        if (rank->traffic[w].stream)
            status = rank_wait_stream(rank, rank->traffic[w].stream, "copies beside a step", err);
    }
    return status;
}
