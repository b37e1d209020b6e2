/* bench_select.cu -- how long the index scan and top-k take, beside what the hardware allows. */
#include "select_support.h"

#include <cuda_fp8.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace
{

/* Ceilings of an H200 as measured: facts beside the figures in validation/results. */
constexpr double HBM_BYTES_PER_US = 4.69e6; /* read only */
constexpr double L2_BYTES_PER_US = 7.0e6;
constexpr double FP8_OPS_PER_US = 1474e6;

constexpr uint32_t REPEATS = 15;
constexpr uint32_t LAUNCHES = 24; /* of a graph */
/* Before each row: some of them bring the GPU to the limit of its power, and what is measured
 * behind them is at a lower clock. */
constexpr std::chrono::milliseconds REST{250};

__device__ float draw_normal(uint64_t x) /* sum of four uniform numbers */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    float sum = (float)(x & 0xffff) + (float)(x >> 16 & 0xffff) + (float)(x >> 32 & 0xffff) +
                (float)(x >> 48);
    return (sum - 131070.0f) * (1.0f / 37837.0f);
}

__global__ void fill_e4m3(uint8_t *to, uint64_t count, uint64_t seed)
{
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count;
         i += (uint64_t)gridDim.x * blockDim.x)
        to[i] = __nv_fp8_e4m3(draw_normal(seed << 36 | i)).__x;
}

__global__ void fill_floats(float *to, uint64_t count, float mean, float deviation, uint64_t seed)
{
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count;
         i += (uint64_t)gridDim.x * blockDim.x)
        to[i] = mean + deviation * draw_normal(seed << 36 | i);
}

/* Scales of pages that are all keys so far. */
__global__ void fill_scales(uint8_t *keys, uint64_t pages, uint64_t seed)
{
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < pages * 64;
         i += (uint64_t)gridDim.x * blockDim.x) {
        float *scales =
            (float *)(keys + i / 64 * KVT_GPU_INDEX_PAGE_BYTES + 64 * KVT_GPU_INDEX_DIM);
        scales[i % 64] = 1.0f + 0.2f * draw_normal(seed << 36 | i);
    }
}

/* Median time of one launch, in a graph of LAUNCHES with launch(i, stream), i rising. */
double graph_us(const std::function<void(uint32_t, cudaStream_t)> &launch)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t begin, end;
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (uint32_t i = 0; i < LAUNCHES; i++)
        launch(i, stream);
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    std::vector<float> times;
    std::this_thread::sleep_for(REST);
    for (uint32_t i = 0; i < REPEATS + 2; i++) {
        float ms;
        CUDA(cudaEventRecord(begin, stream));
        CUDA(cudaGraphLaunch(exec, stream));
        CUDA(cudaEventRecord(end, stream));
        CUDA(cudaStreamSynchronize(stream));
        CUDA(cudaEventElapsedTime(&ms, begin, end));
        if (i >= 2)
            times.push_back(ms * 1e3f / LAUNCHES);
    }
    std::sort(times.begin(), times.end());
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaEventDestroy(begin));
    CUDA(cudaEventDestroy(end));
    CUDA(cudaStreamDestroy(stream));
    return times[REPEATS / 2];
}

void print(const std::string &name, double us, double floor_us, double reach_us)
{
    std::printf("{\"name\": \"%s\", \"us\": %.2f, \"floor_us\": %.2f, \"ratio\": %.2f",
                name.c_str(), us, floor_us, us / floor_us);
    if (reach_us > 0)
        std::printf(", \"reach_us\": %.0f", reach_us);
    std::printf("}\n");
    std::fflush(stdout);
}

/* A step of `request_count` requests with `queries_each` queries and equal contexts. */
struct step {
    uint32_t request_count, queries_each, rows;
    std::unique_ptr<device_array<kvt_gpu_request>> requests;
    std::unique_ptr<device_array<kvt_gpu_query>> queries;

    step(uint32_t request_count, uint32_t queries_each, uint32_t rows)
        : request_count(request_count), queries_each(queries_each), rows(rows)
    {
        std::vector<kvt_gpu_request> host_requests(request_count);
        std::vector<kvt_gpu_query> host_queries;
        for (uint32_t i = 0; i < request_count; i++) {
            host_requests[i] = {i, i * queries_each, queries_each, rows - queries_each, 0, i};
            for (uint32_t query = 0; query < queries_each; query++)
                host_queries.push_back({i, query});
        }
        requests.reset(new device_array<kvt_gpu_request>(host_requests));
        queries.reset(new device_array<kvt_gpu_query>(host_queries));
    }
    uint32_t query_count() const
    {
        return request_count * queries_each;
    }
};

struct kvt_gpu_topk topk_of(const struct step &step, uint32_t k, const float *scores, int32_t *rows)
{
    struct kvt_gpu_topk topk = {};
    topk.query_count = step.query_count();
    topk.k = k;
    topk.ratio = 1;
    topk.requests = step.requests->get();
    topk.queries = step.queries->get();
    topk.scores = scores;
    topk.score_stride = (step.rows + 63) / 64 * 64;
    topk.rows_max = step.rows;
    topk.rows = rows;
    return topk;
}

void bench_topk(uint32_t query_count, uint32_t rows, uint32_t k, float mean, float deviation,
                const char *of, double reach_us)
{
    struct step step(query_count, 1, rows);
    uint64_t each = (uint64_t)query_count * ((rows + 63) / 64 * 64);
    uint32_t sets = (uint32_t)std::min<uint64_t>(16, 1 + (1u << 30) / (each * sizeof(float)));
    device_array<float> scores(each * sets);
    device_array<int32_t> answer((size_t)query_count * k);
    fill_floats<<<1024, 256>>>(scores.get(), each * sets, mean, deviation, 1);
    CUDA(cudaGetLastError());
    char name[96];
    double bytes = 4.0 * query_count * rows;
    for (bool cold : {false, true}) {
        double us = graph_us([&](uint32_t i, cudaStream_t stream) {
            struct kvt_gpu_topk topk =
                topk_of(step, k, scores.get() + (cold ? i % sets : 0) * each, answer.get());
            CUDA(kvt_gpu_topk(&topk, stream));
        });
        std::snprintf(name, sizeof name, "topk %u of %u, %u queries, %s, %s", k, rows, query_count,
                      of, cold ? "cold" : "warm");
        bool in_l2 = !cold && bytes < 50e6;
        print(name, us, bytes / (in_l2 ? L2_BYTES_PER_US : HBM_BYTES_PER_US), reach_us);
    }
}

/* Keys of `request_count` lanes in `sets` copies, and all else of a scan. */
struct scan_set {
    struct step step;
    uint32_t heads, sets, stride;
    uint64_t lane_bytes;
    device_array<uint8_t> keys, q;
    device_array<float> weights, scores;

    scan_set(uint32_t request_count, uint32_t queries_each, uint32_t rows, uint32_t heads,
             uint32_t sets)
        : step(request_count, queries_each, rows), heads(heads), sets(sets),
          stride((rows + 63) / 64 * 64),
          lane_bytes((uint64_t)(rows + 63) / 64 * KVT_GPU_INDEX_PAGE_BYTES),
          keys(sets * request_count * lane_bytes),
          q((size_t)step.query_count() * heads * KVT_GPU_INDEX_DIM),
          weights((size_t)step.query_count() * heads), scores((size_t)step.query_count() * stride)
    {
        uint64_t key_bytes = sets * request_count * lane_bytes;
        fill_e4m3<<<4096, 256>>>(keys.get(), key_bytes, 2);
        fill_scales<<<1024, 256>>>(keys.get(), key_bytes / KVT_GPU_INDEX_PAGE_BYTES, 3);
        fill_e4m3<<<256, 256>>>(q.get(), (uint64_t)step.query_count() * heads * KVT_GPU_INDEX_DIM,
                                4);
        fill_floats<<<256, 256>>>(weights.get(), (uint64_t)step.query_count() * heads, 0.0f, 0.1f,
                                  5);
        CUDA(cudaGetLastError());
    }
    struct kvt_gpu_scan scan(uint32_t set) const
    {
        struct kvt_gpu_scan scan = {};
        scan.request_count = step.request_count;
        scan.query_count = step.query_count();
        scan.queries_max = step.queries_each;
        scan.ratio = 1;
        scan.heads = heads;
        scan.requests = step.requests->get();
        scan.queries = step.queries->get();
        scan.keys = keys.get() + set * step.request_count * lane_bytes;
        scan.lane_bytes = lane_bytes;
        scan.q = q.get();
        scan.weights = weights.get();
        scan.scores = scores.get();
        scan.score_stride = stride;
        scan.rows_max = step.rows;
        return scan;
    }
    double floor_us() const
    {
        double bytes =
            (double)step.request_count * (double)lane_bytes + 4.0 * step.query_count() * step.rows;
        double ops = 2.0 * KVT_GPU_INDEX_DIM * heads * step.query_count() * step.rows;
        return std::max(bytes / HBM_BYTES_PER_US, ops / FP8_OPS_PER_US);
    }
};

void bench_scan(uint32_t request_count, uint32_t queries_each, uint32_t rows, uint32_t heads,
                uint32_t sets, double reach_us, double both_reach_us)
{
    struct scan_set set(request_count, queries_each, rows, heads, sets);
    char name[96];
    double us = graph_us([&](uint32_t i, cudaStream_t stream) {
        struct kvt_gpu_scan scan = set.scan(i % sets);
        CUDA(kvt_gpu_scan(&scan, stream));
    });
    std::snprintf(name, sizeof name, "scan %u x %u queries, %u rows, %u heads", request_count,
                  queries_each, rows, heads);
    print(name, us, set.floor_us(), reach_us);
    if (both_reach_us == 0)
        return;
    device_array<int32_t> answer((size_t)set.step.query_count() * 2048);
    us = graph_us([&](uint32_t i, cudaStream_t stream) {
        struct kvt_gpu_scan scan = set.scan(i % sets);
        CUDA(kvt_gpu_scan(&scan, stream));
        struct kvt_gpu_topk topk = topk_of(set.step, 2048, set.scores.get(), answer.get());
        CUDA(kvt_gpu_topk(&topk, stream));
    });
    std::snprintf(name, sizeof name, "scan and top-k 2048, %u x %u queries, %u rows", request_count,
                  queries_each, rows);
    print(name, us, set.floor_us(), both_reach_us > 0 ? both_reach_us : 0);
}

} // namespace

/* Arguments: "topk" or "scan" for one of them alone. */
int main(int argc, char **argv)
{
    need_device();
    std::string which = argc > 1 ? argv[1] : "all";
    if (which != "scan") {
        bench_topk(32, 102400, 2048, 0, 1, "N(0, 1)", 20);
        bench_topk(32, 102400, 2048, 100, 0.5f, "N(100, 0.5)", 20);
        bench_topk(32, 102400, 2048, 1, 0, "one value", 20);
        bench_topk(128, 102400, 2048, 0, 1, "N(0, 1)", 0);
        bench_topk(256, 102400, 2048, 0, 1, "N(0, 1)", 0);
        bench_topk(1, 102400, 2048, 0, 1, "N(0, 1)", 0);
        bench_topk(8, 1048576, 2048, 0, 1, "N(0, 1)", 0);
        bench_topk(128, 51200, 1024, 0, 1, "N(0, 1)", 0);
    }
    if (which != "topk") {
        bench_scan(32, 1, 102400, 32, 3, 105, 110);
        bench_scan(32, 2, 102400, 32, 3, 0, 0);
        bench_scan(32, 4, 102400, 32, 3, 130, -1);
        bench_scan(32, 8, 102400, 32, 3, 200, -1);
        bench_scan(32, 1, 102400, 64, 3, 0, 0);
        bench_scan(32, 4, 102400, 64, 3, 0, 0);
        bench_scan(1, 1, 102400, 32, 3, 0, -1);
        bench_scan(1, 8, 102400, 32, 3, 0, 0);
        bench_scan(256, 1, 4096, 32, 3, 0, 0);
    }
    return 0;
}
