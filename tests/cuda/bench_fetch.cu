/* bench_fetch.cu -- copies of missing rows as a round of speculation asks for them: many rows, of
 * some requests three times what the others miss, each query's newcomers a list of their own. */
#include "cuda/resolve_bench.cuh"

using resolve_bench::draw_rows;
using resolve_bench::host_pool;

enum {
    LAYERS = 4,
    LAYER_BYTES = 576,
    ROW_BYTES = LAYERS * LAYER_BYTES,
    STORES = 19, /* of GLM-5.3 with four layers */
    REQUESTS = 19,
    QUERIES = 8,
    PREFIXES = 4, /* that requests share */
    PREFIX_ROWS = 98304,
    STORE_ROWS = PREFIXES * PREFIX_ROWS,
    SLOTS = 16384
};

/* Rows that each request misses. */
using miss_counts = std::vector<uint32_t>;

/* One call of every store, decided: lists, places, host rows. */
class decided
{
  public:
    decided(const miss_counts &counts, uint8_t *host, uint8_t *pool);
    struct kvt_gpu_resolve call(uint32_t store) const;
    /* Of all requests, in a call. */
    double rows() const
    {
        return std::accumulate(counts_.begin(), counts_.end(), 0.0);
    }

  private:
    struct one {
        std::unique_ptr<device::array<uint32_t>> missed;
        std::unique_ptr<device::array<int32_t>> missed_places;
    };
    const miss_counts counts_;
    uint8_t *host_, *pool_;
    uint32_t stride_;
    std::vector<one> stores_;
    std::unique_ptr<device::array<struct kvt_gpu_request>> requests_;
    std::unique_ptr<device::array<struct kvt_gpu_counts>> decisions_;
    std::unique_ptr<device::array<uint32_t>> shared_rows_;
    std::unique_ptr<device::array<uint64_t>> shared_at_, own_at_;
};

/* Rows in miss order: the first query finds a quarter of them missing, ascending, each of the
 * others as many of what is left. */
static std::vector<uint32_t> list_misses(uint32_t count, std::mt19937_64 &random)
{
    std::vector<uint32_t> rows = draw_rows(count, PREFIX_ROWS, random);
    uint32_t at = 0;

    for (uint32_t query = 0; query < QUERIES; query++) {
        const uint32_t found = query == 0 ? count / 4 : (count - at) / (QUERIES - query);
        std::sort(rows.begin() + at, rows.begin() + at + found);
        at += found;
    }
    return rows;
}

decided::decided(const miss_counts &counts, uint8_t *host, uint8_t *pool)
    : counts_(counts), host_(host), pool_(pool),
      stride_(*std::max_element(counts.begin(), counts.end()))
{
    std::vector<struct kvt_gpu_request> requests;
    std::vector<struct kvt_gpu_counts> decisions(REQUESTS);
    std::vector<uint64_t> shared_at;

    for (uint32_t i = 0; i < REQUESTS; i++) {
        requests.push_back({i, i * QUERIES, QUERIES, PREFIX_ROWS, 0, i});
        decisions[i].filled_rows = counts[i];
        shared_at.push_back((uint64_t)(i % PREFIXES) * PREFIX_ROWS);
    }
    requests_ = std::make_unique<device::array<struct kvt_gpu_request>>(requests);
    decisions_ = std::make_unique<device::array<struct kvt_gpu_counts>>(decisions);
    shared_at_ = std::make_unique<device::array<uint64_t>>(shared_at);
    own_at_ = std::make_unique<device::array<uint64_t>>(shared_at);
    shared_rows_ = std::make_unique<device::array<uint32_t>>(
        std::vector<uint32_t>(REQUESTS, (uint32_t)PREFIX_ROWS));
    for (uint32_t s = 0; s < STORES; s++) {
        std::mt19937_64 random(s + 1);
        std::vector<uint32_t> missed((size_t)REQUESTS * stride_);
        std::vector<int32_t> places(missed.size());
        for (uint32_t i = 0; i < REQUESTS; i++) {
            const std::vector<uint32_t> rows = list_misses(counts[i], random);
            const std::vector<uint32_t> slots = draw_rows(counts[i], SLOTS, random);
            for (uint32_t m = 0; m < counts[i]; m++) {
                missed[(size_t)i * stride_ + m] = rows[m];
                places[(size_t)i * stride_ + m] = (int32_t)(i * SLOTS + slots[m]);
            }
        }
        stores_.push_back({std::make_unique<device::array<uint32_t>>(missed),
                           std::make_unique<device::array<int32_t>>(places)});
    }
}

struct kvt_gpu_resolve decided::call(uint32_t s) const
{
    struct kvt_gpu_resolve call = {};

    call.request_count = REQUESTS;
    call.queries_max = QUERIES;
    call.layers = LAYERS;
    call.layer_bytes = LAYER_BYTES;
    call.requests = requests_->get();
    call.pool = pool_;
    call.host.base = host_ + (uint64_t)s * STORE_ROWS * ROW_BYTES;
    call.host.row_stride = ROW_BYTES;
    call.host.layer_stride = LAYER_BYTES;
    call.host.shared_at = shared_at_->get();
    call.host.own_at = own_at_->get();
    call.host.shared_rows = shared_rows_->get();
    call.staging_share = 1;
    call.missed = stores_[s].missed->get();
    call.missed_places = stores_[s].missed_places->get();
    call.missed_stride = stride_;
    call.counts = decisions_->get();
    return call;
}

static void time_layers(const char *what, const decided &calls, uint32_t first_layer,
                        uint32_t end_layer)
{
    const double bytes = calls.rows() * (end_layer - first_layer) * LAYER_BYTES;
    const double floor_us = bytes / 51.3e3;
    const double us = device::median_us(STORES, 5, [&](int i, cudaStream_t stream) {
        const struct kvt_gpu_resolve call = calls.call((uint32_t)i);
        return kvt_gpu_fetch_followers(&call, first_layer, end_layer, stream);
    });
    std::printf("{\"name\": \"%s, layers %u to %u of 4, %.0f rows\", \"us\": %.1f, "
                "\"floor_us\": %.1f, \"ratio\": %.3f, \"gb_per_s\": %.2f}\n",
                what, first_layer, end_layer - 1, calls.rows(), us, floor_us, us / floor_us,
                bytes / us / 1e3);
    std::fflush(stdout);
}

int main()
{
    device::require();
    const host_pool host((size_t)STORES * STORE_ROWS * ROW_BYTES);
    const device::array<uint8_t> pool((size_t)REQUESTS * SLOTS * ROW_BYTES);
    miss_counts uneven(REQUESTS, 1500);
    uneven.back() = 4500;
    const struct {
        const char *name;
        miss_counts counts;
    } rounds[] = {{"8 queries, one request misses 3 times as many", uneven},
                  {"8 queries, requests alike", miss_counts(REQUESTS, 1658)}};

    for (const auto &round : rounds) {
        const decided calls(round.counts, host.on_device, pool.get());
        time_layers(round.name, calls, 0, LAYERS);
        time_layers(round.name, calls, 0, 1);
        time_layers(round.name, calls, 1, LAYERS);
        for (uint32_t layer = 1; layer < LAYERS; layer++)
            time_layers(round.name, calls, layer, layer + 1);
    }
    return 0;
}
