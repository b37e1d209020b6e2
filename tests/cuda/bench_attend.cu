/* bench_attend.cu -- sparse MLA decode as serving asks for it: medians of graph replays.
 *
 * Every request owns 102,400 rows of a pool; a query selects k of them at random, ascending;
 * index sets take turns, so that nothing stays in L2. A line of JSON a case. Arguments: a name
 * that cases must begin with; how many pieces queries are cut into (0: chosen). */
#include "cuda/device.h"
#include "launch.h"

#include <cuda_fp8.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
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
    size_t heads_of_queries = size_t{query_count} * c.heads;
    random_stream draw = {c.requests * 1000u + c.queries};
    std::vector<uint8_t> taken(CONTEXT_ROWS);
    std::vector<std::unique_ptr<device::array<int32_t>>> all_places;
    uint64_t distinct = 0;
    device::array<uint16_t> out(heads_of_queries * KVT_GPU_LATENT);
    device::array<uint16_t> q(heads_of_queries * KVT_GPU_HEAD);
    fill_q<<<264, 256>>>(q.get(), heads_of_queries * KVT_GPU_HEAD);
    device::must(cudaGetLastError(), "fill_q");
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
        all_places.push_back(std::make_unique<device::array<int32_t>>(places));
    }
    struct kvt_gpu_attend attend = {};
    attend.query_count = query_count;
    attend.heads = c.heads;
    attend.k = c.k;
    attend.format = KVT_GPU_ROW_E4M3_576;
    attend.row_scale = 1;
    attend.softmax_scale = 1 / 24.0f;
    attend.rows = pool + (c.layers > 1 ? 576 : 0);
    attend.row_bytes = 576 * c.layers;
    attend.q = q.get();
    attend.out = out.get();
    attend.splits = splits;
    attend.reference = c.reference;
    device::must(cudaDeviceSynchronize(), "filling");
    double us = device::median_us(static_cast<int>(c.reference ? c.sets : 5 * c.sets), REPLAYS,
                                  [&](int i, cudaStream_t stream) {
                                      attend.places = all_places[i % c.sets]->get();
                                      return kvt_gpu_attend(&attend, stream);
                                  });
    double rows = static_cast<double>(query_count) * c.k;
    double bytes_us = 576.0 * static_cast<double>(distinct) / c.sets / BYTES_PER_US;
    double mma_us = rows * (c.heads / 64) * CYCLES_PER_ROW / MULTIPROCESSORS / CYCLES_PER_US;
    uint32_t pieces = splits != 0 ? splits : kvt_gpu_attend_splits(query_count, c.heads, c.k);
    char name[96];
    std::snprintf(name, sizeof name, "attend %s, %u splits", c.name, c.reference ? 1 : pieces);
    device::print_row(name, us, std::max(bytes_us, mma_us));
}

} // namespace

int main(int argc, char **argv)
{
    device::require();
    const char *only = argc > 1 ? argv[1] : "";
    uint32_t splits = argc > 2 ? static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10)) : 0;
    std::vector<const bench_case *> chosen;
    uint64_t pool_bytes = 4;
    for (const bench_case &c : CASES) {
        if (std::strncmp(c.name, only, std::strlen(only)) == 0) {
            chosen.push_back(&c);
            pool_bytes = std::max(pool_bytes, uint64_t{c.requests} * CONTEXT_ROWS * 576 * c.layers);
        }
    }
    device::array<uint8_t> pool(pool_bytes);
    fill_rows<<<1320, 256>>>(reinterpret_cast<uint32_t *>(pool.get()), pool_bytes / 4);
    device::must(cudaGetLastError(), "fill_rows");
    for (const bench_case *c : chosen) {
        run(*c, pool.get(), splits);
    }
    return 0;
}
