/* bench_resolve.cu -- the resolver's time, beside floors and plain gathers (docs/cuda.md). */
#include "cuda/resolve_bench.cuh"

#include <numeric>

using namespace resolve_bench;

enum {
    ROWS = 102400,
    STORES = 21
};

/* `count` of the first `of` rows of a permutation, ascending. */
static std::vector<uint32_t> draw_rows(uint32_t count, uint32_t of, std::mt19937_64 &random)
{
    std::vector<uint32_t> rows(of);

    std::iota(rows.begin(), rows.end(), 0);
    for (uint32_t i = 0; i < count; i++)
        std::swap(rows[i], rows[i + random() % (of - i)]);
    rows.resize(count);
    return rows;
}

/* Everything is cached: K queries with so many distinct rows in all. */
static void no_miss(uint32_t queries, uint32_t distinct, uint32_t slots, uint32_t top_k,
                    uint32_t requests, double floor_us)
{
    const shape of = {STORES, requests, queries, top_k, slots, ROWS, 1, 1, 576};
    stores stores(of, nullptr);
    std::mt19937_64 random(1);
    char name[160];

    for (uint32_t s = 0; s < of.stores; s++) {
        std::vector<uint32_t> cached;
        selections rows;
        for (uint32_t i = 0; i < requests; i++) {
            const std::vector<uint32_t> own = draw_rows(slots, ROWS, random);
            cached.insert(cached.end(), own.begin(), own.end());
            for (uint32_t q = 0; q < queries; q++) {
                std::vector<int32_t> query;
                const uint32_t turned = q * (distinct - top_k) / (queries > 1 ? queries - 1 : 1);
                for (uint32_t k = 0; k < top_k; k++)
                    query.push_back((int32_t)own[(k + turned) % distinct]);
                std::sort(query.begin(), query.end());
                rows.insert(rows.end(), query.begin(), query.end());
            }
        }
        stores.fill(s, cached, slots, random);
        (void)stores.add_call(s, rows);
    }
    for (bool reference : {false, true}) {
        const double us = device::median_us((int)of.stores * 4, 9, [&](int i, cudaStream_t stream) {
            struct kvt_gpu_resolve call = stores.call((uint32_t)i % of.stores, 0);
            call.reference = reference;
            return kvt_gpu_resolve(&call, stream);
        });
        std::snprintf(name, sizeof name,
                      "%sresolve, no miss, batch %u, K %u, k %u, B %u, %u distinct",
                      reference ? "reference " : "", requests, queries, top_k, slots, distinct);
        device::print_row(name, us, floor_us);
        const struct kvt_gpu_counts counts = stores.last_counts(0);
        if (counts.hot_rows != distinct || counts.filled_rows + counts.staged_rows != 0)
            std::printf("failed: %u rows hit, %u missed\n", counts.hot_rows, counts.filled_rows);
    }
}

int main()
{
    device::require();
    no_miss(1, 2048, 4096, 2048, 32, 5);
    no_miss(2, 2048, 4096, 2048, 32, 5);
    no_miss(4, 2048, 4096, 2048, 32, 6);
    no_miss(8, 4096, 4096, 2048, 32, 7);
    no_miss(1, 2048, 4096, 2048, 1, 5);
    no_miss(1, 2048, 8192, 2048, 32, 5);
    no_miss(1, 512, 1024, 512, 128, 5);
    return 0;
}
