/* bench_draft.cu -- a pass of a drafter: its products, its attention over the ring, its new rows.
 *
 * Shapes of GLM-5.3's DFlash2 on one GPU: 6 layers, 64 heads on 8 of 128, a window of 2,048, blocks
 * of
 * 8. Floors: weights or rows over 4.69 TB/s, or operations over 737 TFLOP/s (bf16 products: half of
 * what FP8 reached) or 660 (f16 mma.sync: two thirds of the data sheet). Neither was measured.
 * Usage: bench_draft */
#include "cuda/device.h"

#include <cmath>
#include <cstring>

#include "dense.h"
#include "draft_dense.h"
#include "launch.h"

namespace
{

enum {
    LAYERS = 6,
    RING_ROWS = 2048 + 128,
    WINDOW = 2048,
    HEADS = 64,
    KV_HEADS = 8,
    BLOCK = 8,
    CONTEXT = 100032
};
const double HBM = 4.69e12, BF16 = 737e12, MMA = 660e12;

double floor_us(double bytes, double operations, double rate)
{
    return 1e6 * std::fmax(bytes / HBM, operations / rate);
}

void succeed(kvt_status status, const struct kvt_error &err)
{
    if (status == KVT_OK)
        return;
    std::printf("failed: %s: %s\n", err.where, err.message);
    std::exit(1);
}

/* Rings of so many requests, filled. */
struct rings {
    uint32_t count;
    struct kvt_gpu_draft_ring ring = {};
    device::array<uint8_t> rows;
    device::array<struct kvt_gpu_draft_request> requests;

    explicit rings(uint32_t count)
        : count(count), rows((size_t)count * LAYERS * RING_ROWS * 2 * KV_HEADS * KVT_GPU_DRAFT_DIM),
          requests(list(count, 0))
    {
        ring.rows = rows.get();
        ring.layers = LAYERS;
        ring.ring_rows = RING_ROWS;
        ring.row_bytes = 2 * KV_HEADS * KVT_GPU_DRAFT_DIM;
        ring.window_tokens = WINDOW;
        ring.values = KVT_GPU_ROW_E4M3_576;
        device::must(kvt_gpu_draft_append(&ring, requests.get(), count, 0), "append");
    }
    static std::vector<struct kvt_gpu_draft_request> list(uint32_t count, uint32_t settled)
    {
        std::vector<struct kvt_gpu_draft_request> out(count);
        for (uint32_t i = 0; i < count; i++)
            out[i] = {i,
                      i,
                      CONTEXT + i,
                      settled == 0 ? 0 : CONTEXT + i - settled,
                      CONTEXT + i + BLOCK - RING_ROWS,
                      BLOCK,
                      BLOCK * i};
        return out;
    }
};

void attention(const rings &all)
{
    uint32_t tokens = all.count * BLOCK;
    device::array<uint16_t> q((size_t)tokens * HEADS * KVT_GPU_DRAFT_DIM), out(q.bytes() / 2);
    device::array<uint8_t> workspace(kvt_gpu_draft_workspace_bytes(tokens, HEADS));
    struct kvt_gpu_make_rows fill = {};
    double bytes = (double)all.count * (WINDOW + BLOCK - 1) * all.ring.row_bytes;
    double operations = 4.0 * tokens * HEADS * (WINDOW + BLOCK / 2) * KVT_GPU_DRAFT_DIM;
    char name[96];

    fill.layers = 1;
    fill.format = KVT_GPU_ROW_BF16_1152;
    fill.row_count = (uint32_t)(q.bytes() / 1152);
    fill.row_stride = fill.layer_stride = 1152;
    fill.dst = (uint8_t *)q.get();
    device::must(kvt_gpu_make_rows(&fill, 0), "kvt_gpu_make_rows");
    for (uint32_t splits = 0; splits <= KVT_GPU_DRAFT_SPLITS_MAX; splits++) {
        struct kvt_gpu_draft_attend attend = {};
        attend.ring = all.ring;
        attend.request_count = all.count;
        attend.token_count = tokens;
        attend.block_max = BLOCK;
        attend.heads = HEADS;
        attend.kv_heads = KV_HEADS;
        attend.softmax_scale = 1 / std::sqrt((float)KVT_GPU_DRAFT_DIM);
        attend.requests = all.requests.get();
        attend.q = q.get();
        attend.out = out.get();
        attend.splits = splits;
        attend.workspace = workspace.get();
        double us = device::median_us(2 * LAYERS, 9, [&](int i, cudaStream_t stream) {
            attend.layer = (uint32_t)i % LAYERS;
            return kvt_gpu_draft_attend(&attend, stream);
        });
        std::snprintf(name, sizeof name, "attention of a layer, %u x %u, %s%u", all.count, BLOCK,
                      splits == 0 ? "pieces as chosen, " : "pieces ", splits);
        device::print_row(name, us, floor_us(bytes, operations, MMA));
    }
}

void new_rows(const rings &all)
{
    std::vector<struct kvt_gpu_draft_request> list = rings::list(all.count, 3);
    device::array<struct kvt_gpu_draft_request> requests(list);
    device::array<struct kvt_gpu_draft_verdict> verdict(1);
    char name[96];

    double us = device::median_us(4, 9, [&](int, cudaStream_t stream) {
        return kvt_gpu_draft_append(&all.ring, requests.get(), all.count, stream);
    });
    std::snprintf(name, sizeof name, "new rows of %u requests, 3 committed and %u of a block",
                  all.count, BLOCK);
    device::print_row(
        name, us, floor_us((double)all.count * LAYERS * (3 + BLOCK) * all.ring.row_bytes, 0, 1));
    us = device::median_us(4, 9, [&](int i, cudaStream_t stream) {
        return kvt_gpu_draft_compare(&all.ring, requests.get() + (uint32_t)i % all.count,
                                     verdict.get(), stream);
    });
    device::print_row("comparing a request's window, all layers", us,
                      floor_us((double)LAYERS * (WINDOW + BLOCK - 1) * all.ring.row_bytes, 0, 1));
}

void products(uint32_t tp)
{
    struct kvt_drafter drafter = {};
    struct kvt_draft_dense *dense = nullptr;
    struct kvt_error err = {};
    char name[96];

    drafter.layers = LAYERS;
    drafter.kv_heads = KV_HEADS;
    drafter.head_dim = KVT_GPU_DRAFT_DIM;
    drafter.weight_bytes = 4917737554;
    drafter.pass = {6144, HEADS, 12288, 6, 1};
    const struct kvt_draft_dense_shape shape = kvt_draft_dense_shape_make(&drafter, tp);
    succeed(kvt_draft_dense_new(&shape, 256, 256, &dense, &err), err);
    for (uint32_t tokens : {8u, 64u, 128u, 192u, 256u}) {
        double us = device::median_us(1, 9, [&](int, cudaStream_t stream) {
            succeed(kvt_draft_dense_enqueue(dense, KVT_DRAFT_JOIN, 0, tokens, tokens, stream, &err),
                    err);
            for (uint32_t layer = 0; layer < LAYERS; layer++) {
                succeed(kvt_draft_dense_enqueue(dense, KVT_DRAFT_PROJECT, layer, tokens, tokens,
                                                stream, &err),
                        err);
                succeed(kvt_draft_dense_enqueue(dense, KVT_DRAFT_FINISH, layer, tokens, tokens,
                                                stream, &err),
                        err);
            }
            return cudaSuccess;
        });
        std::snprintf(name, sizeof name, "products of a pass, tp %u, %u tokens", tp, tokens);
        device::print_row(name, us,
                          floor_us(kvt_draft_dense_read_bytes(&shape),
                                   kvt_draft_dense_operations(&shape, tokens, tokens), BF16));
    }
    kvt_draft_dense_free(dense);
}

} // namespace

int main()
{
    device::require();
    for (uint32_t count : {1u, 8u, 24u, 32u}) {
        rings all(count);
        attention(all);
        new_rows(all);
    }
    products(1);
    products(4);
    return 0;
}
