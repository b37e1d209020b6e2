/* bench_rows.cu -- how fast rows are made and copied, beside the link and HBM (docs/cuda.md). */
#include "cuda/device.h"

#include <cstring>

#include "rows.h"

/* Measured ceilings, bytes a microsecond: writes and reads of host memory by kernels, both
 * directions of HBM together. */
static const double link_bytes_us = 51.3e3, hbm_bytes_us = 4.22e6;

static void fill(const char *name, enum kvt_gpu_format format, uint32_t layers, bool apart,
                 bool pinned)
{
    const uint32_t layer_bytes = kvt_made_layer_bytes(format);
    const size_t total = (size_t)1 << 30;
    struct kvt_gpu_make_rows make = {};
    device::array<uint8_t> dst(total, pinned);

    make.format = format;
    make.layers = layers;
    make.row_count = (uint32_t)(total / layer_bytes / layers);
    make.dst = dst.get();
    make.row_stride = apart ? layer_bytes : (uint64_t)layers * layer_bytes;
    make.layer_stride = apart ? (uint64_t)make.row_count * layer_bytes : layer_bytes;
    double us = device::median_us(
        1, 5, [&](int, cudaStream_t stream) { return kvt_gpu_make_rows(&make, stream); });
    device::print_row(name, us, (double)total / (pinned ? link_bytes_us : hbm_bytes_us));
}

static void keys()
{
    const uint32_t rows = 102400;
    device::array<uint8_t> lanes((size_t)4 * rows / 64 * KVT_GPU_INDEX_PAGE_BYTES);
    struct kvt_gpu_make_keys make = {};

    make.row_count = rows;
    double us = device::median_us(4, 9, [&](int i, cudaStream_t stream) {
        make.lane_keys = lanes.get() + lanes.bytes() / 4 * (size_t)i;
        return kvt_gpu_make_keys(&make, stream);
    });
    device::print_row("make_keys 102,400 rows", us, (double)lanes.bytes() / 4 / hbm_bytes_us);
}

static void queries(const char *name, uint32_t per_request, uint32_t heads)
{
    std::vector<struct kvt_gpu_request> requests(32);
    std::vector<struct kvt_gpu_query> step;

    for (uint32_t i = 0; i < requests.size(); i++) {
        requests[i] = {i, i * per_request, per_request, 100000 + i, 0, i};
        for (uint32_t depth = 0; depth < per_request; depth++)
            step.push_back({i, depth});
    }
    device::array<struct kvt_gpu_request> device_requests(requests);
    device::array<struct kvt_gpu_query> device_step(step);
    device::array<uint8_t> q(step.size() * heads * KVT_GPU_INDEX_DIM);
    device::array<float> weights(step.size() * heads);
    struct kvt_gpu_make_queries make = {};
    make.request_count = 32;
    make.query_count = (uint32_t)step.size();
    make.heads = heads;
    make.requests = device_requests.get();
    make.queries = device_step.get();
    make.drift = 0.12f;
    make.q = q.get();
    make.weights = weights.get();
    double us = device::median_us(20, 9, [&](int i, cudaStream_t stream) {
        make.selector = (uint32_t)i;
        return kvt_gpu_make_queries(&make, stream);
    });
    device::print_row(name, us, (double)q.bytes() / hbm_bytes_us);
}

static void append()
{
    const uint32_t layers = 4, layer_bytes = 576;
    std::vector<struct kvt_gpu_request> requests(32);

    for (uint32_t i = 0; i < requests.size(); i++)
        requests[i] = {i, i * 8, 8, 100000 + i, 0, i};
    device::array<struct kvt_gpu_request> device_requests(requests);
    device::array<uint8_t> pool((size_t)32 * KVT_GPU_TAIL_ROWS * layers * layer_bytes);
    struct kvt_gpu_append to = {};
    to.request_count = 32;
    to.ratio = 1;
    to.layers = layers;
    to.layer_bytes = layer_bytes;
    to.requests = device_requests.get();
    to.pool = pool.get();
    double us = device::median_us(20, 9, [&](int i, cudaStream_t stream) {
        to.first_layer = (uint32_t)i;
        return kvt_gpu_append(&to, stream);
    });
    device::print_row("append 32 x 8 rows of 2,304 B", us,
                      32.0 * 8 * layers * layer_bytes / hbm_bytes_us);
}

/* Pages of 64 rows of 2,304 bytes, anywhere in their gibibyte. */
static void copies(const char *name, uint32_t count, bool from_host, bool to_host)
{
    const uint64_t page_bytes = 64 * 2304;
    const size_t total = (size_t)1 << 30;
    const uint64_t pages = total / page_bytes;
    device::array<uint8_t> src(total, from_host), dst(total, to_host);
    std::vector<struct kvt_gpu_copy> list(count * 8);

    std::memset(list.data(), 0, list.size() * sizeof list[0]);
    for (size_t i = 0; i < list.size(); i++) {
        list[i].src = src.get() + i * 7919 % pages * page_bytes;
        list[i].dst = dst.get() + i * 104729 % pages * page_bytes;
        list[i].bytes = page_bytes;
    }
    device::array<struct kvt_gpu_copy> device_list(list);
    double us = device::median_us(8, 9, [&](int i, cudaStream_t stream) {
        return kvt_gpu_copy(device_list.get() + (size_t)i * count, count, stream);
    });
    bool link = from_host || to_host;
    device::print_row(name, us,
                      (double)(count * page_bytes) * (link ? 1 : 2) /
                          (link ? link_bytes_us : hbm_bytes_us));
}

int main()
{
    device::require();
    fill("make_rows 576 B, 4 layers together, pinned", KVT_GPU_ROW_E4M3_576, 4, false, true);
    fill("make_rows 576 B, 4 layers apart, pinned", KVT_GPU_ROW_E4M3_576, 4, true, true);
    fill("make_rows 656 B, pinned", KVT_GPU_ROW_MIXED_656, 1, false, true);
    fill("make_rows 288 B, pinned", KVT_GPU_ROW_FP4_288, 1, false, true);
    fill("make_rows 576 B, 4 layers together, HBM", KVT_GPU_ROW_E4M3_576, 4, false, false);
    fill("make_rows 1,152 B, HBM", KVT_GPU_ROW_BF16_1152, 1, false, false);
    keys();
    queries("make_queries 32 x 1 x 32 heads", 1, 32);
    queries("make_queries 32 x 8 x 64 heads", 8, 64);
    append();
    copies("copy 1 page, host to HBM", 1, true, false);
    copies("copy 64 pages, host to HBM", 64, true, false);
    copies("copy 1 page, HBM to host", 1, false, true);
    copies("copy 64 pages, HBM to host", 64, false, true);
    copies("copy 64 pages within HBM", 64, false, false);
    return 0;
}
