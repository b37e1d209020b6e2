/* bench_dense.cu -- FP8 products of the dense stand-in beside HBM and the tensor cores. */
#include "cuda/device.h"

#include "cublaslt.h"
#include "dense.h"

/* Measured ceilings a microsecond: a read-only stream of HBM, FP8 products of 8,192 cubed. */
static const double read_bytes_us = 4.69e6, operations_us = 1.474e9;

static void succeed(kvt_status status, const struct kvt_error *err)
{
    if (status == KVT_OK)
        return;
    std::printf("bench_dense: %s\n", err->message);
    std::exit(1);
}

static double floor_us(double bytes, double operations)
{
    return std::max(bytes / read_bytes_us, operations / operations_us);
}

/* Twelve copies of the weights in turn, as in the table of torch's products. */
static void product(const struct kvt_cublaslt *library, uint32_t tokens)
{
    const struct kvt_gemm_shape shape = {tokens, 4096, 6144, 1};
    const int copies = 12;
    const size_t weight_bytes = (size_t)shape.outputs * shape.inputs;
    struct kvt_gemm *gemm = nullptr;
    struct kvt_error err = {};
    device::array<uint8_t> weights(copies * weight_bytes), x((size_t)tokens * shape.inputs);
    device::array<uint16_t> y((size_t)tokens * shape.outputs);
    char name[64];

    /* 0x3a: 1.25; data does not matter to the floor, and random data little to small products. */
    weights.poison(0x3a);
    x.poison(0x3a);
    succeed(kvt_gemm_new(library, &shape, &gemm, &err), &err);
    double us = device::median_us(4 * copies, 9, [&](int i, cudaStream_t stream) {
        succeed(kvt_gemm_enqueue(gemm, weights.get() + (size_t)(i % copies) * weight_bytes, x.get(),
                                 y.get(), stream, &err),
                &err);
        return cudaSuccess;
    });
    std::snprintf(name, sizeof name, "fp8 product %u x 6144 x 4096", tokens);
    device::print_row(name, us,
                      floor_us((double)weight_bytes, 2.0 * tokens * (double)weight_bytes));
    kvt_gemm_free(gemm);
}

static void layers(const char *model, const struct kvt_dense_shape *shape)
{
    struct kvt_dense *dense = nullptr;
    struct kvt_error err = {};
    char name[96];

    succeed(kvt_dense_new(shape, 256, &dense, &err), &err);
    for (uint32_t tokens : {1u, 8u, 32u, 128u, 256u}) {
        double us = device::median_us(6, 5, [&](int layer, cudaStream_t stream) {
            succeed(kvt_dense_enqueue(dense, (uint32_t)layer, tokens, stream, &err), &err);
            return cudaSuccess;
        });
        std::snprintf(name, sizeof name, "layer of %s, %u tokens", model, tokens);
        device::print_row(
            name, us,
            floor_us(kvt_dense_read_bytes(shape, tokens), kvt_dense_operations(shape, tokens)));
    }
    kvt_dense_free(dense);
}

int main()
{
    struct kvt_cublaslt *library = nullptr;
    struct kvt_error err = {};
    const struct kvt_dense_shape glm_ep8 = {6144, 576, 21632, 1984, 32, 8, 8.0 / 256};
    const struct kvt_dense_shape glm_tp4 = {6144, 576, 5376, 496, 256, 1, 8.0 / 256};

    device::require();
    succeed(kvt_cublaslt_open(&library, &err), &err);
    for (uint32_t tokens : {1u, 8u, 16u, 32u, 64u, 128u, 256u, 512u})
        product(library, tokens);
    layers("GLM-5.3, dp 8, ep 8", &glm_ep8);
    layers("GLM-5.3, tp 4", &glm_tp4);
    kvt_cublaslt_close(library);
    return 0;
}
