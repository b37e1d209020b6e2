/* bench_resolve.cu -- the resolver's time, beside floors and plain gathers (docs/cuda.md). */
#include "cuda/resolve_bench.cuh"

using namespace resolve_bench;

enum {
    ROWS = 102400,
    STORES = 21
};

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

/* ---- Plain gathers of the same rows
 * --------------------------------------------------------------
 */

/* Row list[i] of host, i = block, block + blocks ..: as many rows a block, each of UNITS pieces. */
template <int UNITS>
static __global__ void __launch_bounds__(512)
    plain_gather(const uint8_t *host, const uint32_t *list, uint32_t count, uint8_t *dst)
{
    enum {
        LOADS = 4
    };
    const uint32_t own = (count - blockIdx.x + gridDim.x - 1) / gridDim.x * UNITS;

    for (uint32_t begin = threadIdx.x; begin < own; begin += blockDim.x * LOADS) {
        uint4 values[LOADS];
        uint64_t to[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const uint32_t unit = begin + i * blockDim.x;
            if (unit >= own)
                continue;
            const uint32_t at = unit / UNITS * gridDim.x + blockIdx.x;
            to[i] = (uint64_t)at * UNITS + unit % UNITS;
            values[i] = __ldcs((const uint4 *)host + (uint64_t)list[at] * UNITS + unit % UNITS);
        }
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            if (begin + i * blockDim.x < own)
                ((uint4 *)dst)[to[i]] = values[i];
        }
    }
}

static cudaError_t launch_plain(uint32_t row_bytes, const uint8_t *host, const uint32_t *list,
                                uint32_t count, uint8_t *dst, uint32_t blocks, cudaStream_t stream)
{
    if (row_bytes == 288)
        plain_gather<18><<<blocks, 512, 0, stream>>>(host, list, count, dst);
    else if (row_bytes == 576)
        plain_gather<36><<<blocks, 512, 0, stream>>>(host, list, count, dst);
    else if (row_bytes == 2304)
        plain_gather<144><<<blocks, 512, 0, stream>>>(host, list, count, dst);
    else
        return cudaErrorInvalidValue;
    return cudaGetLastError();
}

enum order_of_rows {
    BY_REQUEST, /* as the resolver lists them */
    AT_RANDOM,  /* the same rows of host memory, shuffled over all requests */
    PAGES_APART /* by request, but pages of 64 rows lie anywhere in the pool */
};

/* Us a call; by request, the best of three shapes. */
static double time_plain(const shape &of, const missing &made, const host_pool &pool,
                         enum order_of_rows order)
{
    const uint32_t count = of.requests * made.misses, row_bytes = of.layers * of.layer_bytes;
    const uint64_t pool_pages = pool.bytes / row_bytes / 64;
    std::vector<std::unique_ptr<device::array<uint32_t>>> lists;
    device::array<uint8_t> dst((size_t)of.stores * count * row_bytes);
    std::mt19937_64 random(7);
    double best = 1e30;

    for (uint32_t g = 0; g < made.groups; g++) {
        for (uint32_t s = 0; s < of.stores; s++) {
            std::vector<uint32_t> list;
            for (uint32_t i = 0; i < count; i++) {
                const uint64_t context = (uint64_t)s * of.requests + i / made.misses;
                uint64_t at = context * of.rows + made.rows[s][g][i];
                if (order == PAGES_APART)
                    at = at / 64 * 0x9e3779b97f4a7c15ull % pool_pages * 64 + at % 64;
                list.push_back((uint32_t)at);
            }
            if (order == AT_RANDOM)
                std::shuffle(list.begin(), list.end(), random);
            lists.push_back(std::make_unique<device::array<uint32_t>>(list));
        }
    }
    for (uint32_t blocks : {132u, of.requests, 264u}) {
        if (order != BY_REQUEST && blocks != 132)
            continue;
        const double us = device::median_us((int)lists.size(), 3, [&](int i, cudaStream_t stream) {
            return launch_plain(row_bytes, pool.on_device, lists[i]->get(), count,
                                dst.get() + (size_t)(i % of.stores) * count * row_bytes, blocks,
                                stream);
        });
        best = std::min(best, us);
    }
    return best;
}

static void report(const char *what, const shape &of, uint32_t misses, double us)
{
    const double bytes = (double)of.requests * misses * of.layers * of.layer_bytes;
    char name[160];

    std::snprintf(name, sizeof name, "%s, %u-B rows, batch %u, %u misses a request, %u stores",
                  what, of.layers * of.layer_bytes, of.requests, misses, of.stores);
    std::printf("{\"name\": \"%s\", \"us\": %.1f, \"floor_us\": %.1f, \"ratio\": %.3f, "
                "\"gb_per_s\": %.2f}\n",
                name, us, bytes / 51.3e3, us * 51.3e3 / bytes, bytes / us / 1e3);
    std::fflush(stdout);
}

/* Returns us a call of the resolver; *plain_us, of the plain gather by request. */
static double miss_time(const host_pool &pool, uint32_t requests, uint32_t layers,
                        uint32_t layer_bytes, uint32_t misses, bool baselines, double *plain_us)
{
    shape of = {STORES, requests, 1, 2048, 4096, ROWS, 1, layers, layer_bytes};
    const uint64_t store_bytes = (uint64_t)of.requests * of.rows * layers * layer_bytes;

    of.stores = (uint32_t)std::min<uint64_t>(STORES, pool.bytes / store_bytes);
    stores stores(of, pool.on_device);
    const missing made = add_missing_calls(stores, misses);
    const double us =
        device::median_us((int)(of.stores * made.groups), 5, [&](int i, cudaStream_t stream) {
            struct kvt_gpu_resolve call =
                stores.call((uint32_t)i % of.stores, (uint32_t)i / of.stores);
            return kvt_gpu_resolve(&call, stream);
        });
    const struct kvt_gpu_counts counts = stores.last_counts(0);
    if (counts.filled_rows != misses || counts.hot_rows != of.top_k - misses)
        std::printf("failed: expected %u misses, found %u, and %u hits\n", misses,
                    counts.filled_rows, counts.hot_rows);
    report("resolve and fetch", of, misses, us);
    if (layers > 1) { /* what the last calls have listed, but for the first layer */
        shape followers = of;
        followers.layers--;
        report("followers", followers, misses,
               device::median_us((int)of.stores, 5, [&](int i, cudaStream_t stream) {
                   const struct kvt_gpu_resolve call = stores.call((uint32_t)i, 0);
                   return kvt_gpu_fetch_followers(&call, 1, call.layers, stream);
               }));
    }
    *plain_us = time_plain(of, made, pool, BY_REQUEST);
    report("plain gather by request", of, misses, *plain_us);
    if (baselines) {
        report("gather at random", of, misses, time_plain(of, made, pool, AT_RANDOM));
        report("gather, pages apart", of, misses, time_plain(of, made, pool, PAGES_APART));
    }
    return us;
}

/* Time against missing bytes: the slope of the least squares line, in GB/s. */
static void miss_slope(const host_pool &pool, uint32_t layers, uint32_t layer_bytes)
{
    const uint32_t points[] = {128, 300, 700, 2048};
    double n = 0, x = 0, xx = 0, y[2] = {0, 0}, xy[2] = {0, 0};

    for (uint32_t misses : points) {
        double plain, us = miss_time(pool, 32, layers, layer_bytes, misses, false, &plain);
        const double bytes = 32.0 * misses * layers * layer_bytes, both[] = {us, plain};
        n++;
        x += bytes;
        xx += bytes * bytes;
        for (int i = 0; i < 2; i++) {
            y[i] += both[i];
            xy[i] += both[i] * bytes;
        }
    }
    double slope[2];
    for (int i = 0; i < 2; i++)
        slope[i] = (n * xx - x * x) / (n * xy[i] - x * y[i]) / 1e3;
    std::printf("{\"name\": \"slope, %u-B rows\", \"gb_per_s\": %.2f, \"plain_gb_per_s\": %.2f, "
                "\"ratio\": %.4f}\n",
                layers * layer_bytes, slope[0], slope[1], slope[0] / slope[1]);
    std::fflush(stdout);
}

/* bench_resolve [GiB of pinned host memory, 0: decisions alone] */
int main(int argc, char **argv)
{
    const size_t gib = argc > 1 ? (size_t)std::atoi(argv[1]) : 48;

    device::require();
    no_miss(1, 2048, 4096, 2048, 32, 5);
    no_miss(2, 2048, 4096, 2048, 32, 5);
    no_miss(4, 2048, 4096, 2048, 32, 6);
    no_miss(8, 4096, 4096, 2048, 32, 7);
    no_miss(1, 2048, 4096, 2048, 1, 5);
    no_miss(1, 2048, 8192, 2048, 32, 5);
    no_miss(1, 512, 1024, 512, 128, 5);
    if (gib == 0)
        return 0;
    const host_pool pool(gib << 30);
    double plain;
    for (uint32_t layer_bytes : {576u, 288u}) {
        for (uint32_t misses : {300u, 2048u})
            (void)miss_time(pool, 32, 1, layer_bytes, misses, true, &plain);
    }
    miss_slope(pool, 4, 576);
    return 0;
}
