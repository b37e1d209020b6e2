/* test_dense.cu -- products in FP8 and bf16 by cuBLASLt against a CPU in double, and a layer of the
 * dense stand-in and a drafter's pass in a graph. */
#include "cuda/device.h"

#include <cmath>
#include <cstring>
#include <random>

#include "cublaslt.h"
#include "cublaslt_api.h"
#include "dense.h"
#include "draft_dense.h"
#include "rows.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
constexpr bool same(int ours, int theirs)
{
    return ours == theirs;
}
static_assert(same(LT_SUCCESS, CUBLAS_STATUS_SUCCESS), "status");
static_assert(same(LT_OP_T, CUBLAS_OP_T), "operations");
static_assert(same(LT_COMPUTE_32F, CUBLAS_COMPUTE_32F), "compute types");
static_assert(same(LT_R_32F, CUDA_R_32F) && same(LT_R_16BF, CUDA_R_16BF) &&
                  same(LT_R_8F_E4M3, CUDA_R_8F_E4M3),
              "types");
static_assert(same(LT_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) &&
                  same(LT_LAYOUT_STRIDED_BATCH_OFFSET, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET),
              "layouts");
static_assert(same(LT_MATMUL_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA) &&
                  same(LT_MATMUL_FAST_ACCUM, CUBLASLT_MATMUL_DESC_FAST_ACCUM),
              "descriptors");
static_assert(same(LT_PREFERENCE_MAX_WORKSPACE_BYTES, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES),
              "preferences");
static_assert(sizeof(struct lt_algo) == sizeof(cublasLtMatmulAlgo_t) &&
                  sizeof(struct lt_heuristic) == sizeof(cublasLtMatmulHeuristicResult_t) &&
                  offsetof(struct lt_heuristic, state) ==
                      offsetof(cublasLtMatmulHeuristicResult_t, state),
              "results");
#endif

static float bf16_value(uint16_t code)
{
    uint32_t bits = (uint32_t)code << 16;
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

/* Near N(0, 1), in the format that is as wide as T. */
template <typename T> static std::vector<T> random_codes(std::mt19937 *random, size_t count)
{
    std::vector<T> out(count);
    for (T &code : out) {
        uint32_t word = (uint32_t)(*random)();
        code = sizeof(T) == 1
                   ? (T)(kvt_made_tables.e4m3[word & 127] | (word & 128))
                   : (T)(kvt_made_tables.bf16[word & 127] | (word & 128) << 8 | (word >> 8 & 15));
    }
    return out;
}

static double value_of(uint8_t code)
{
    return kvt_made_e4m3_value(code);
}

static double value_of(uint16_t code)
{
    return bf16_value(code);
}

/* Relative RMS against double over some outputs of each batch; all of y must have been written. */
template <typename T>
static void products_are_right(device::tally *tally, const struct kvt_cublaslt *library,
                               uint32_t seed)
{
    std::mt19937 random(seed);
    struct kvt_error err = {};

    for (uint32_t tokens : {1u, 3u, 16u, 33u, 128u, 512u})
        for (uint32_t batches : {1u, 3u}) {
            const struct kvt_gemm_shape shape = {tokens, 16 * (1 + (uint32_t)(random() % 64)),
                                                 16 * (1 + (uint32_t)(random() % 128)), batches,
                                                 sizeof(T) == 2};
            struct kvt_gemm *gemm = nullptr;
            kvt_status status = kvt_gemm_new(library, &shape, &gemm, &err);
            if (!tally->check(status == KVT_OK, "%s", err.message))
                continue;
            std::vector<T> w =
                random_codes<T>(&random, (size_t)batches * shape.outputs * shape.inputs);
            std::vector<T> x =
                random_codes<T>(&random, (size_t)batches * shape.tokens * shape.inputs);
            device::array<T> device_w(w), device_x(x);
            device::array<uint16_t> y((size_t)batches * shape.tokens * shape.outputs);
            y.poison();
            status = kvt_gemm_enqueue(gemm, device_w.get(), device_x.get(), y.get(), 0, &err);
            tally->check(status == KVT_OK, "%s", err.message);
            std::vector<uint16_t> found = y.read();
            double wrong = 0, square = 0;
            size_t unwritten = 0;
            for (uint16_t code : found)
                unwritten += code == 0xffff;
            for (int sample = 0; sample < 500; sample++) {
                size_t b = random() % batches, t = random() % shape.tokens,
                       o = random() % shape.outputs;
                double exact = 0;
                for (uint32_t i = 0; i < shape.inputs; i++)
                    exact += value_of(w[(b * shape.outputs + o) * shape.inputs + i]) *
                             value_of(x[(b * shape.tokens + t) * shape.inputs + i]);
                double value = bf16_value(found[(b * shape.tokens + t) * shape.outputs + o]);
                wrong += (value - exact) * (value - exact);
                square += exact * exact;
            }
            double error = std::sqrt(wrong / square);
            tally->check(error < 5e-3 && unwritten == 0,
                         "%zu bytes, %u x %u tokens, %u to %u: error %.2e (5e-3 allowed), %zu not "
                         "written",
                         sizeof(T), batches, tokens, shape.inputs, shape.outputs, error, unwritten);
            kvt_gemm_free(gemm);
        }
}

/* GLM-5.3 on one of eight GPUs: each number of tokens captured, replayed, and nothing missing. */
static void a_layer_runs_in_a_graph(device::tally *tally)
{
    const struct kvt_dense_shape shape = {6144, 576, 21632, 1984, 32, 8, 8.0 / 256};
    const uint32_t tokens_max = 256;
    struct kvt_error err = {};
    struct kvt_dense *dense = nullptr;

    if (!tally->check(kvt_dense_new(&shape, tokens_max, &dense, &err) == KVT_OK, "%s", err.message))
        return;
    std::printf("cuBLASLt: %s\n", kvt_dense_library(dense));
    for (uint32_t tokens : {1u, 7u, 32u, 256u}) {
        double us = device::median_us(3, 3, [&](int layer, cudaStream_t stream) {
            kvt_status status = kvt_dense_enqueue(dense, (uint32_t)layer, tokens, stream, &err);
            tally->check(status == KVT_OK, "%u tokens: %s", tokens, err.message);
            return status == KVT_OK ? cudaSuccess : cudaErrorUnknown;
        });
        double floor_us = kvt_dense_read_bytes(&shape, tokens) / 4.8e6;
        tally->check(us > floor_us,
                     "%u tokens in %.1f us: HBM alone takes %.1f us, so that weights "
                     "came out of L2",
                     tokens, us, floor_us);
    }
    tally->check(kvt_dense_enqueue(dense, 0, 0, 0, &err) == KVT_ERR_INVALID &&
                     kvt_dense_enqueue(dense, 0, tokens_max + 1, 0, &err) == KVT_ERR_INVALID,
                 "0 and %u tokens were not refused", tokens_max + 1);
    kvt_dense_free(dense);
}

/* GLM-5.3's DFlash2 on one of two GPUs. */
static void a_pass_runs_in_a_graph(device::tally *tally)
{
    struct kvt_drafter drafter = {};
    struct kvt_draft_dense *dense = nullptr;
    struct kvt_error err = {};

    drafter.layers = 6;
    drafter.kv_heads = 8;
    drafter.head_dim = 128;
    drafter.weight_bytes = 4917737554;
    drafter.pass = {6144, 64, 12288, 6, 1};
    const struct kvt_draft_dense_shape shape = kvt_draft_dense_shape_make(&drafter, 2);
    if (!tally->check(kvt_draft_dense_new(&shape, 256, 250, &dense, &err) == KVT_OK, "%s",
                      err.message))
        return;
    for (uint32_t tokens : {1u, 8u, 192u, 256u}) {
        uint32_t committed = tokens < 250 ? tokens : 250;
        double us = device::median_us(1, 3, [&](int, cudaStream_t stream) {
            auto enqueue = [&](enum kvt_draft_products products, uint32_t layer) {
                kvt_status status = kvt_draft_dense_enqueue(dense, products, layer, tokens,
                                                            committed, stream, &err);
                tally->check(status == KVT_OK, "%u tokens: %s", tokens, err.message);
            };
            enqueue(KVT_DRAFT_JOIN, 0);
            for (uint32_t layer = 0; layer < shape.layers; layer++) {
                enqueue(KVT_DRAFT_PROJECT, layer);
                enqueue(KVT_DRAFT_FINISH, layer);
            }
            return cudaSuccess;
        });
        double floor_us = kvt_draft_dense_read_bytes(&shape) / 4.8e6;
        tally->check(us > floor_us,
                     "a pass of %u tokens in %.1f us: HBM alone takes %.1f us, so that weights "
                     "came out of L2",
                     tokens, us, floor_us);
    }
    for (uint32_t tokens : {0u, 257u})
        tally->check(kvt_draft_dense_enqueue(dense, KVT_DRAFT_JOIN, 0, tokens, 1, 0, &err) ==
                         KVT_ERR_INVALID,
                     "%u tokens were not refused", tokens);
    tally->check(kvt_draft_dense_enqueue(dense, KVT_DRAFT_JOIN, 0, 1, 251, 0, &err) ==
                     KVT_ERR_INVALID,
                 "251 positions were not refused");
    kvt_draft_dense_free(dense);
}

int main()
{
    device::tally tally;
    std::random_device entropy;
    const uint32_t seed = entropy();
    struct kvt_cublaslt *library = nullptr;
    struct kvt_error err = {};

    device::require();
    std::printf("seed %u\n", seed);
    if (kvt_cublaslt_open(&library, &err) != KVT_OK) {
        std::printf("skipped: %s\n", err.message);
        return device::SKIPPED;
    }
    products_are_right<uint8_t>(&tally, library, seed);
    products_are_right<uint16_t>(&tally, library, seed);
    a_pass_runs_in_a_graph(&tally);
    a_layer_runs_in_a_graph(&tally);
    kvt_cublaslt_close(library);
    return tally.close();
}
