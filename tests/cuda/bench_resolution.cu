/* bench_resolution.cu -- what resolution costs: the measurements of the paper's Figure 8
 * (docs/cuda.md).
 *
 *     (a) GLM-5.3, eight queries, batch 32, 4,096 slots: time against the payload that a call
 * misses, for selections that the queries share, share in part, or do not share, with empty caches
 *         or with what earlier calls have left; and the line through all points
 *     (b) DeepSeek-V4.1-Flash at 500K, one query, nothing missed: time against the hot cache's size
 *         for some batches; and where all rows are in frames
 *     (c) the same at 4,096 slots, with and without 77 misses a request */
#include "cuda/resolve_bench.cuh"

#include <cmath>

using namespace resolve_bench;

static void print_spread(const char *name, double bytes, const std::vector<double> &us, double low,
                         double high)
{
    const auto at = [&](double share) {
        return us[(size_t)(share * (double)(us.size() - 1) + 0.5)];
    };
    std::printf("{\"name\": \"%s\", \"missed_bytes\": %.0f, \"us\": %.2f, \"low_us\": %.2f, "
                "\"high_us\": %.2f}\n",
                name, bytes, at(0.5), at(low), at(high));
    std::fflush(stdout);
}

/* ---- (a)
 * -----------------------------------------------------------------------------------------
 */

enum {
    WIDTH = 8
};

struct sharing {
    const char *name;
    uint32_t common; /* rows of 2,048 that all eight queries select */
    uint32_t calls;  /* of a store in turn: what the first selected has left when they come round */
};
static const sharing sharings[] = {{"shared", 2048, 16}, {"partial", 1024, 4}, {"disjoint", 0, 4}};

/* One request's selection, as a set of rows that calls change in part: the common rows, then those
 * of each query. */
class changing
{
  public:
    changing(uint32_t common, uint32_t top_k, uint32_t rows, uint64_t seed)
        : common_(common), own_(top_k - common), random_(seed),
          rows_(draw_rows(rows, rows, random_))
    {
    }
    /* Some of the selected rows are swapped for others. */
    void change(double share)
    {
        const uint32_t count = common_ + WIDTH * own_;
        for (uint32_t i = 0; i < count; i++) {
            if ((double)(random_() % 1000) < 1000 * share)
                std::swap(rows_[i], rows_[count + random_() % (rows_.size() - count)]);
        }
    }
    void append_to(selections &to) const
    {
        for (uint32_t q = 0; q < WIDTH; q++) {
            std::vector<int32_t> query(rows_.begin(), rows_.begin() + common_);
            const auto own = rows_.begin() + common_ + q * own_;
            query.insert(query.end(), own, own + own_);
            std::sort(query.begin(), query.end());
            to.insert(to.end(), query.begin(), query.end());
        }
    }

  private:
    uint32_t common_, own_;
    std::mt19937_64 random_;
    std::vector<uint32_t> rows_;
};

static void add_changing_calls(stores &stores, const sharing &sharing, double share)
{
    const shape &of = stores.of;
    std::vector<std::vector<selections>> calls(of.stores, std::vector<selections>(sharing.calls));
    std::vector<std::thread> threads;

    for (uint32_t s = 0; s < of.stores; s++)
        threads.emplace_back([&, s] {
            for (uint32_t i = 0; i < of.requests; i++) {
                changing request(sharing.common, of.top_k, of.rows, s * of.requests + i + 1);
                for (selections &call : calls[s]) {
                    request.change(share);
                    request.append_to(call);
                }
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    for (uint32_t s = 0; s < of.stores; s++) {
        for (const selections &call : calls[s])
            (void)stores.add_call(s, call);
    }
}

static cudaError_t forget(const struct kvt_gpu_resolve &call, uint32_t lanes, cudaStream_t stream)
{
    cudaError_t error = cudaMemsetAsync(
        call.hot.slot_rows, 0xff, (size_t)lanes * call.hot.slots_max * sizeof(uint32_t), stream);
    if (error == cudaSuccess)
        error = cudaMemsetAsync(call.hot.slot_of_row, 0xff,
                                (size_t)lanes * call.hot.rows_max * sizeof(uint16_t), stream);
    return error;
}

struct line {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0, yy = 0;

    void add(double bytes, double us)
    {
        n++;
        x += bytes;
        y += us;
        xx += bytes * bytes;
        xy += bytes * us;
        yy += us * us;
    }
    void print(const char *name) const
    {
        const double slope = (n * xy - x * y) / (n * xx - x * x);
        const double r = (n * xy - x * y) / std::sqrt((n * xx - x * x) * (n * yy - y * y));
        std::printf(
            "{\"name\": \"%s\", \"points\": %.0f, \"gb_per_s\": %.2f, \"at_zero_us\": %.2f, "
            "\"r2\": %.4f}\n",
            name, n, 1e-3 / slope, (y - slope * x) / n, r * r);
        std::fflush(stdout);
    }
};

static void width_eight(const host_pool &pool, uint32_t layers)
{
    shape of = {21, 32, WIDTH, 2048, 4096, 102400, 1, layers, 576};
    const uint64_t row_bytes = (uint64_t)layers * of.layer_bytes;
    const uint64_t store_bytes = (uint64_t)of.requests * of.rows * row_bytes;
    line fit;
    char name[160];

    of.stores = (uint32_t)std::min<uint64_t>(layers == 1 ? 6 : 2, pool.bytes / store_bytes);
    for (const sharing &sharing : sharings) {
        for (double share : {1.0, 0.5, 0.15, 0.0}) { /* 0: empty caches */
            const bool cold = share == 0;
            stores stores(of, pool.on_device);
            add_changing_calls(stores, sharing, cold ? 1 : share);
            const auto call_of = [&](int i) {
                return stores.call((uint32_t)i % of.stores, (uint32_t)i / of.stores);
            };
            const int launches = (int)(of.stores * sharing.calls);
            std::vector<double> us =
                device::timings_us(launches, 9, [&](int i, cudaStream_t stream) {
                    struct kvt_gpu_resolve call = call_of(i);
                    cudaError_t error = cold ? forget(call, of.requests, stream) : cudaSuccess;
                    return error == cudaSuccess ? kvt_gpu_resolve(&call, stream) : error;
                });
            if (cold) {
                const double forgets =
                    device::median_us(launches, 9, [&](int i, cudaStream_t stream) {
                        return forget(call_of(i), of.requests, stream);
                    });
                for (double &time : us)
                    time -= forgets;
            }
            /* Calls of a store miss alike: the last ones stand for all. */
            const double bytes = stores.missed_rows() * (double)row_bytes / of.stores;
            fit.add(bytes, us[us.size() / 2]);
            std::snprintf(name, sizeof name, "figure 8a, %.0f-B rows, %s, %s %.2f",
                          (double)row_bytes, sharing.name, cold ? "cold" : "retained, new",
                          cold ? 1 : share);
            print_spread(name, bytes, us, 0, 1);
        }
    }
    std::snprintf(name, sizeof name, "figure 8a, %.0f-B rows, slope", (double)row_bytes);
    fit.print(name);
}

/* ---- (b) and (c)
 * -----------------------------------------------------------------------------------
 */

/* DeepSeek-V4.1-Flash: three stores of ratio 2 and one of ratio 1, 500K tokens, 288-B rows. */
struct flash {
    std::vector<std::unique_ptr<stores>> of_ratio; /* 3 stores of ratio 2, 1 of ratio 1 */
    uint32_t calls = 1;

    flash(uint32_t requests, uint32_t slots, uint8_t *host)
    {
        const uint32_t tokens = 500000;
        for (uint32_t ratio : {2u, 1u}) {
            const shape of = {ratio == 2 ? 3u : 1u, requests, 1, 512, slots,
                              tokens / ratio,       ratio,    1, 288};
            of_ratio.push_back(std::make_unique<stores>(of, host));
            /* Host rows of the last store lie behind the others'. */
            if (host != nullptr)
                host += (size_t)of.stores * requests * of.rows * of.layer_bytes;
        }
    }
    /* Launch i: stores in turn, as a step has them. */
    struct kvt_gpu_resolve call(int i) const
    {
        const uint32_t store = (uint32_t)i % 4, call = (uint32_t)i / 4 % calls;
        return store < 3 ? of_ratio[0]->call(store, call) : of_ratio[1]->call(0, call);
    }
    void fill_and_select()
    {
        for (auto &stores : of_ratio) {
            const shape &of = stores->of;
            std::mt19937_64 random(of.ratio);
            for (uint32_t s = 0; s < of.stores; s++) {
                std::vector<uint32_t> cached;
                selections rows;
                for (uint32_t i = 0; i < of.requests; i++) {
                    std::vector<uint32_t> own = draw_rows(of.slots, of.rows, random);
                    cached.insert(cached.end(), own.begin(), own.end());
                    own.resize(of.top_k);
                    std::sort(own.begin(), own.end());
                    rows.insert(rows.end(), own.begin(), own.end());
                }
                stores->fill(s, cached, of.slots, random);
                (void)stores->add_call(s, rows);
            }
        }
    }
    void miss(uint32_t misses)
    {
        for (auto &stores : of_ratio)
            calls = add_missing_calls(*stores, misses).groups;
    }
};

static void flash_time(const char *figure, const flash &flash, uint32_t misses, bool direct)
{
    const shape &of = flash.of_ratio[0]->of;
    char name[160];
    /* One frame table serves all lanes: page p is in frame p. */
    const uint32_t pages = 500000 / 64 + 2;
    std::vector<int32_t> frames(direct ? (size_t)pages * of.requests : 1);
    std::vector<struct kvt_gpu_request> requests;

    for (size_t i = 0; i < frames.size(); i++)
        frames[i] = (int32_t)(i % pages);
    for (uint32_t i = 0; i < of.requests; i++)
        requests.push_back({i, i, 1, 500000 + 64, pages, i});
    device::array<int32_t> device_frames(frames);
    device::array<struct kvt_gpu_request> device_requests(requests);
    const std::vector<double> us =
        device::timings_us(4 * (int)std::max(flash.calls, 6u), 31, [&](int i, cudaStream_t stream) {
            struct kvt_gpu_resolve call = flash.call(i);
            if (direct) {
                call.requests = device_requests.get();
                call.frames = device_frames.get();
                call.frame_stride = pages;
            }
            return kvt_gpu_resolve(&call, stream);
        });
    std::snprintf(name, sizeof name, "figure %s, batch %u, B %u, %u misses%s", figure, of.requests,
                  of.slots, misses, direct ? ", all rows in frames" : "");
    print_spread(name, (double)of.requests * misses * of.layer_bytes, us, 0.1, 0.9);
    const struct kvt_gpu_counts counts = flash.of_ratio[0]->last_counts(0);
    if (counts.filled_rows != misses || counts.skipped != direct)
        std::printf("failed: expected %u misses, found %u\n", misses, counts.filled_rows);
}

/* bench_resolution [GiB of pinned host memory] */
int main(int argc, char **argv)
{
    const size_t gib = argc > 1 ? (size_t)std::atoi(argv[1]) : 44;

    device::require();
    for (uint32_t requests : {8u, 32u}) {
        for (uint32_t slots : {512u, 1024u, 2048u, 4096u, 8192u}) {
            flash flash(requests, slots, nullptr);
            flash.fill_and_select();
            flash_time("8b", flash, 0, false);
            if (slots == 4096)
                flash_time("8b", flash, 0, true);
        }
    }
    const host_pool pool(gib << 30);
    for (uint32_t requests : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u}) {
        flash still(requests, 4096, nullptr);
        still.fill_and_select();
        flash_time("8c", still, 0, false);
        if ((uint64_t)requests * 1250000 * 288 > pool.bytes)
            continue;
        flash missing(requests, 4096, pool.on_device);
        missing.miss(77);
        flash_time("8c", missing, 77, false);
    }
    width_eight(pool, 1);
    width_eight(pool, 4);
    return 0;
}
