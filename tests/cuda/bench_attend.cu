/* bench_attend.cu -- sparse MLA decode as serving asks for it: medians of graph replays.
 *
 * Every request owns 102,400 rows of a pool; a query selects k of them at random, ascending;
 * index sets take turns, so that nothing stays in L2. A line of JSON a case. Arguments: a name
 * that cases must begin with; how many pieces queries are cut into (0: chosen). */
#include "launch.h"

#include <cuda_fp8.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace
{

/* Measured on the H200 (bytes in large gathers) and of its f16 tensor cores. */
constexpr double BYTES_PER_US = 4.4e6;
constexpr double CYCLES_PER_US = 1750, MULTIPROCESSORS = 132, CYCLES_PER_ROW = 34;

constexpr uint32_t CONTEXT_ROWS = 102400;
constexpr int REPLAYS = 15;

struct bench_case {
    const char *name;
    uint32_t requests, queries, heads, k;
    double overlap;  /* of a query's rows with the one before it */
    uint32_t layers; /* rows of that many lie together */
    uint32_t sets;
    bool reference;
};

const bench_case CASES[] = {
    {"32x1", 32, 1, 64, 2048, 0, 1, 4, false},
    {"32x4", 32, 4, 64, 2048, 0, 1, 3, false},
    {"32x8", 32, 8, 64, 2048, 0, 1, 3, false},
    {"32x1-layers4", 32, 1, 64, 2048, 0, 4, 4, false},
    {"32x4-layers4", 32, 4, 64, 2048, 0, 4, 3, false},
    {"32x8-layers4", 32, 8, 64, 2048, 0, 4, 3, false},
    {"32x4-overlap", 32, 4, 64, 2048, 0.85, 1, 3, false},
    {"32x8-overlap", 32, 8, 64, 2048, 0.85, 1, 3, false},
    {"32x1-heads128", 32, 1, 128, 2048, 0, 1, 4, false},
    {"32x4-heads128", 32, 4, 128, 2048, 0, 1, 3, false},
    {"32x8-heads128", 32, 8, 128, 2048, 0, 1, 3, false},
    {"128x1", 128, 1, 64, 2048, 0, 1, 3, false},
    {"8x4", 8, 4, 64, 2048, 0, 1, 4, false},
    {"1x1", 1, 1, 64, 2048, 0, 1, 10, false},
    {"1x8", 1, 8, 64, 2048, 0, 1, 10, false},
    {"32x4-k1024", 32, 4, 64, 1024, 0, 1, 3, false},
    {"32x4-reference", 32, 4, 64, 2048, 0, 1, 2, true},
};

void must(cudaError_t status, const char *what)
{
    if (status != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(status));
        exit(1);
    }
}

struct random_stream {
    uint64_t state;
    uint64_t bits()
    {
        state += 0x9e3779b97f4a7c15u;
        uint64_t z = state;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
};

__device__ uint32_t hash(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return static_cast<uint32_t>(x ^ (x >> 31));
}

__device__ float normal(uint64_t i)
{
    float u = (static_cast<float>(hash(2 * i + 1)) + 1) * 2.3283064e-10f;
    float v = static_cast<float>(hash(2 * i + 2)) * 2.3283064e-10f;
    return sqrtf(-2 * __logf(u)) * __cosf(6.2831853f * v);
}

__global__ void fill_rows(uint32_t *words, uint64_t count)
{
    for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < count;
         i += uint64_t{gridDim.x} * blockDim.x) {
        uint32_t word = 0;
        for (uint32_t j = 0; j < 4; j++) {
            word |= static_cast<uint32_t>(__nv_fp8_e4m3(normal(4 * i + j)).__x) << (8 * j);
        }
        words[i] = word;
    }
}

__global__ void fill_q(uint16_t *q, uint64_t count)
{
    for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < count;
         i += uint64_t{gridDim.x} * blockDim.x) {
        q[i] = static_cast<uint16_t>(__float_as_uint(normal(~i)) >> 16);
    }
}

/* k distinct rows of a context, ascending; a part of them from `before`. */
void select_rows(random_stream &draw, uint32_t k, double overlap, std::vector<uint8_t> &taken,
                 std::vector<int32_t> &selection)
{
    std::fill(taken.begin(), taken.end(), uint8_t{0});
    uint32_t have = 0;
    uint32_t kept = static_cast<uint32_t>(overlap * k);
    for (; have < kept && !selection.empty(); have++) {
        size_t i = draw.bits() % selection.size();
        taken[static_cast<uint32_t>(selection[i])] = 1;
        selection.erase(selection.begin() + static_cast<ptrdiff_t>(i));
    }
    while (have < k) {
        uint32_t row = static_cast<uint32_t>(draw.bits() % CONTEXT_ROWS);
        have += taken[row] == 0;
        taken[row] = 1;
    }
    selection.clear();
    for (uint32_t row = 0; row < CONTEXT_ROWS; row++) {
        if (taken[row] != 0) {
            selection.push_back(static_cast<int32_t>(row));
        }
    }
}

void run(const bench_case &c, uint8_t *pool, uint32_t splits)
{
    uint32_t query_count = c.requests * c.queries;
    random_stream draw = {c.requests * 1000u + c.queries};
    std::vector<uint8_t> taken(CONTEXT_ROWS);
    std::vector<struct kvt_gpu_attend> launches(c.sets);
    std::vector<void *> owned;
    uint64_t distinct = 0;
    void *out = nullptr, *workspace = nullptr;
    size_t workspace_bytes =
        std::max<size_t>(kvt_gpu_attend_workspace_bytes(query_count, c.heads), 16);
    size_t q_count = size_t{query_count} * c.heads * 576;
    must(cudaMalloc(&out, size_t{query_count} * c.heads * 512 * 2), "cudaMalloc");
    must(cudaMalloc(&workspace, workspace_bytes), "cudaMalloc");
    must(cudaMemset(workspace, 0, workspace_bytes), "cudaMemset");
    owned = {out, workspace};
    for (uint32_t set = 0; set < c.sets; set++) {
        std::vector<int32_t> places;
        for (uint32_t request = 0; request < c.requests; request++) {
            std::vector<int32_t> selection;
            std::vector<uint8_t> any(CONTEXT_ROWS);
            for (uint32_t query = 0; query < c.queries; query++) {
                select_rows(draw, c.k, query == 0 ? 0 : c.overlap, taken, selection);
                for (int32_t row : selection) {
                    places.push_back(static_cast<int32_t>(request * CONTEXT_ROWS) + row);
                    distinct += any[static_cast<uint32_t>(row)] == 0;
                    any[static_cast<uint32_t>(row)] = 1;
                }
            }
        }
        void *device_places = nullptr, *q = nullptr;
        must(cudaMalloc(&device_places, places.size() * 4), "cudaMalloc");
        must(cudaMemcpy(device_places, places.data(), places.size() * 4, cudaMemcpyHostToDevice),
             "cudaMemcpy");
        must(cudaMalloc(&q, q_count * 2), "cudaMalloc");
        fill_q<<<264, 256>>>(static_cast<uint16_t *>(q), q_count);
        must(cudaGetLastError(), "fill_q");
        owned.push_back(device_places);
        owned.push_back(q);
        struct kvt_gpu_attend &a = launches[set];
        a = {};
        a.query_count = query_count;
        a.heads = c.heads;
        a.k = c.k;
        a.format = KVT_GPU_ROW_E4M3_576;
        a.row_scale = 1;
        a.softmax_scale = 1 / 24.0f;
        a.rows = pool + (c.layers > 1 ? 576 : 0);
        a.row_bytes = 576 * c.layers;
        a.places = static_cast<const int32_t *>(device_places);
        a.q = q;
        a.out = out;
        a.splits = splits;
        a.workspace = workspace;
        a.reference = c.reference;
    }
    uint32_t launches_of_graph = c.reference ? c.sets : 5 * c.sets;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t begin, end;
    must(cudaStreamCreate(&stream), "cudaStreamCreate");
    must(cudaEventCreate(&begin), "cudaEventCreate");
    must(cudaEventCreate(&end), "cudaEventCreate");
    must(cudaDeviceSynchronize(), "filling");
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    for (uint32_t i = 0; i < launches_of_graph; i++) {
        must(kvt_gpu_attend(&launches[i % c.sets], stream), "kvt_gpu_attend");
    }
    must(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    must(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
    std::vector<double> times;
    for (int i = 0; i < REPLAYS + 3; i++) {
        float ms = 0;
        must(cudaEventRecord(begin, stream), "cudaEventRecord");
        must(cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
        must(cudaEventRecord(end, stream), "cudaEventRecord");
        must(cudaEventSynchronize(end), "kvt_gpu_attend, in the device");
        must(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
        if (i >= 3) {
            times.push_back(1000.0 * ms / launches_of_graph);
        }
    }
    std::sort(times.begin(), times.end());
    double us = times[REPLAYS / 2];
    double rows = static_cast<double>(query_count) * c.k;
    double bytes_us = 576.0 * static_cast<double>(distinct) / c.sets / BYTES_PER_US;
    double mma_us = rows * (c.heads / 64) * CYCLES_PER_ROW / MULTIPROCESSORS / CYCLES_PER_US;
    double floor_us = std::max(bytes_us, mma_us);
    uint32_t pieces = splits != 0 ? splits : kvt_gpu_attend_splits(query_count, c.heads, c.k);
    printf("{\"name\":\"attend %s\",\"us\":%.1f,\"floor_us\":%.1f,\"ratio\":%.2f,\"bytes_us\":%.1f,"
           "\"mma_us\":%.1f,\"p10_us\":%.1f,\"p90_us\":%.1f,\"splits\":%u,\"tflops\":%.0f}\n",
           c.name, us, floor_us, us / floor_us, bytes_us, mma_us, times[REPLAYS / 10],
           times[REPLAYS - 1 - REPLAYS / 10], pieces, 2.0 * rows * c.heads * 1088 / us / 1e6);
    fflush(stdout);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    for (void *memory : owned) {
        cudaFree(memory);
    }
}

} // namespace

int main(int argc, char **argv)
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    const char *only = argc > 1 ? argv[1] : "";
    uint32_t splits = argc > 2 ? static_cast<uint32_t>(strtoul(argv[2], nullptr, 10)) : 0;
    uint64_t pool_bytes = 0;
    for (const bench_case &c : CASES) {
        if (strncmp(c.name, only, strlen(only)) == 0) {
            pool_bytes = std::max(pool_bytes, uint64_t{c.requests} * CONTEXT_ROWS * 576 * c.layers);
        }
    }
    uint8_t *pool = nullptr;
    must(cudaMalloc(&pool, pool_bytes), "cudaMalloc of the pool");
    fill_rows<<<1320, 256>>>(reinterpret_cast<uint32_t *>(pool), pool_bytes / 4);
    must(cudaGetLastError(), "fill_rows");
    for (const bench_case &c : CASES) {
        if (strncmp(c.name, only, strlen(only)) == 0) {
            run(c, pool, splits);
        }
    }
    cudaFree(pool);
    return 0;
}
