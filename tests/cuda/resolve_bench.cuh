/* cuda/resolve_bench.cuh -- stores in turn, as a decode step has them: each with its own hot
 * caches, maps, selections and host rows, so that nothing is used again that a step would not use
 * again. */
#ifndef KVT_TESTS_CUDA_RESOLVE_BENCH_CUH
#define KVT_TESTS_CUDA_RESOLVE_BENCH_CUH

#include <sys/mman.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "cuda/device.h"
#include "launch.h"

namespace resolve_bench
{

/* Host memory that the device reads, in one piece. cudaHostAlloc takes 0.7 s a GiB; touched by
 * many threads and registered afterwards, the same memory takes a tenth of that. */
class host_pool
{
  public:
    explicit host_pool(size_t byte_count) : bytes(byte_count)
    {
        void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) {
            std::printf("failed: no %zu bytes of host memory\n", bytes);
            std::exit(1);
        }
        (void)madvise(at, bytes, MADV_HUGEPAGE);
        memory_ = (uint8_t *)at;
        const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
        std::vector<std::thread> running;
        for (unsigned t = 0; t < threads; t++)
            running.emplace_back([=] { touch(bytes / threads * t, bytes / threads * (t + 1)); });
        for (std::thread &thread : running)
            thread.join();
        device::must(cudaHostRegister(at, bytes, cudaHostRegisterMapped), "cudaHostRegister");
        device::must(cudaHostGetDevicePointer((void **)&on_device, at, 0),
                     "cudaHostGetDevicePointer");
    }
    host_pool(const host_pool &) = delete;
    host_pool &operator=(const host_pool &) = delete;
    ~host_pool()
    {
        (void)cudaHostUnregister(memory_);
        (void)munmap(memory_, bytes);
    }

    const size_t bytes;
    uint8_t *on_device;

  private:
    void touch(size_t first, size_t last) const
    {
        for (size_t at = first; at < last; at += 4096)
            *(uint64_t *)(memory_ + at) = at * UINT64_C(0x9e3779b97f4a7c15);
    }
    uint8_t *memory_;
};

/* Selections of one call of all requests: [requests][queries][top_k] ascending. */
using selections = std::vector<int32_t>;

struct shape {
    uint32_t stores, requests, queries, top_k, slots, rows, ratio;
    uint32_t layers, layer_bytes;
};

class stores
{
  public:
    /* host: pinned memory as the device sees it, for all rows of all stores; NULL: nothing is
     * copied. The caches are empty. */
    stores(const shape &of, uint8_t *host);
    /* Slots 0, 1, .. of every cache hold these rows ([requests][count], count <= slots), the
     * order is random: what every replay begins with is what the last one left. */
    void fill(uint32_t store, const std::vector<uint32_t> &rows, uint32_t count,
              std::mt19937_64 &random);
    /* Keeps the selections on the device; returns the call's number within the store. */
    uint32_t add_call(uint32_t store, const selections &rows);
    /* Call `call` of a store. */
    struct kvt_gpu_resolve call(uint32_t store, uint32_t call) const;

    /* Of a store's last call and its first request. */
    struct kvt_gpu_counts last_counts(uint32_t store) const
    {
        return stores_[store].counts->read()[0];
    }

    /* Of all stores' last calls. */
    double missed_rows() const
    {
        double rows = 0;
        for (const one &store : stores_) {
            for (const struct kvt_gpu_counts &counts : store.counts->read())
                rows += counts.filled_rows + counts.staged_rows;
        }
        return rows;
    }

    const shape of;

  private:
    struct one {
        std::unique_ptr<device::array<uint32_t>> slot_rows;
        std::unique_ptr<device::array<uint16_t>> order, slot_of_row;
        std::unique_ptr<device::array<int32_t>> row_places, missed_places;
        std::unique_ptr<device::array<uint32_t>> missed, promoted;
        std::unique_ptr<device::array<struct kvt_gpu_counts>> counts;
        std::unique_ptr<device::array<uint64_t>> own_at;
        std::vector<std::unique_ptr<device::array<int32_t>>> calls;
    };
    std::vector<one> stores_;
    uint8_t *host_;
    std::unique_ptr<device::array<struct kvt_gpu_request>> requests_;
    std::unique_ptr<device::array<uint32_t>> slot_counts_, shared_rows_;
    std::unique_ptr<device::array<uint64_t>> shared_at_;
    std::unique_ptr<device::array<uint8_t>> pool_, workspace_;
};

stores::stores(const shape &shape, uint8_t *host) : of(shape), stores_(shape.stores), host_(host)
{
    const size_t list = (size_t)of.requests * of.queries * of.top_k;
    const size_t row_bytes = (size_t)of.layers * of.layer_bytes;
    std::vector<struct kvt_gpu_request> requests;

    for (uint32_t i = 0; i < of.requests; i++)
        requests.push_back({i, i * of.queries, of.queries,
                            (of.rows + KVT_GPU_TAIL_ROWS) * of.ratio - of.queries, 0, i});
    requests_ = std::make_unique<device::array<struct kvt_gpu_request>>(requests);
    slot_counts_ =
        std::make_unique<device::array<uint32_t>>(std::vector<uint32_t>(of.requests, of.slots));
    shared_rows_ = std::make_unique<device::array<uint32_t>>(std::vector<uint32_t>(of.requests, 0));
    shared_at_ = std::make_unique<device::array<uint64_t>>(std::vector<uint64_t>(of.requests, 0));
    workspace_ = std::make_unique<device::array<uint8_t>>(
        kvt_gpu_resolve_workspace_bytes(of.requests, of.queries, of.top_k, of.slots, of.rows));
    workspace_->poison(0);
    const size_t staged = (size_t)of.requests * of.queries * of.top_k;
    pool_ = std::make_unique<device::array<uint8_t>>(
        host == nullptr ? 16 : ((size_t)of.stores * of.requests * of.slots + staged) * row_bytes);
    for (uint32_t s = 0; s < of.stores; s++) {
        one &store = stores_[s];
        std::vector<uint64_t> own_at;
        for (uint32_t i = 0; i < of.requests; i++)
            own_at.push_back(((uint64_t)s * of.requests + i) * of.rows);
        store.own_at = std::make_unique<device::array<uint64_t>>(own_at);
        store.slot_rows = std::make_unique<device::array<uint32_t>>((size_t)of.requests * of.slots);
        store.order = std::make_unique<device::array<uint16_t>>((size_t)of.requests * of.slots);
        store.slot_of_row =
            std::make_unique<device::array<uint16_t>>((size_t)of.requests * of.rows);
        store.row_places = std::make_unique<device::array<int32_t>>(list);
        store.missed_places = std::make_unique<device::array<int32_t>>(list);
        store.missed = std::make_unique<device::array<uint32_t>>(list);
        store.promoted = std::make_unique<device::array<uint32_t>>(2 * list);
        store.counts = std::make_unique<device::array<struct kvt_gpu_counts>>(of.requests);
        fill(s, {}, 0, *std::make_unique<std::mt19937_64>(s));
    }
}

void stores::fill(uint32_t s, const std::vector<uint32_t> &rows, uint32_t count,
                  std::mt19937_64 &random)
{
    std::vector<uint32_t> slot_rows((size_t)of.requests * of.slots, UINT32_MAX);
    std::vector<uint16_t> order(slot_rows.size());
    std::vector<uint16_t> slot_of_row((size_t)of.requests * of.rows, 0xffff);

    for (uint32_t i = 0; i < of.requests; i++) {
        uint16_t *own = order.data() + (size_t)i * of.slots;
        std::iota(own, own + of.slots, 0);
        /* Empty slots stand first, lowest first. */
        std::rotate(own, own + count, own + of.slots);
        std::shuffle(own + of.slots - count, own + of.slots, random);
        for (uint32_t slot = 0; slot < count; slot++) {
            const uint32_t row = rows[(size_t)i * count + slot];
            slot_rows[(size_t)i * of.slots + slot] = row;
            slot_of_row[(size_t)i * of.rows + row] = (uint16_t)slot;
        }
    }
    auto put = [](void *to, const void *from, size_t bytes) {
        device::must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "an upload");
    };
    put(stores_[s].slot_rows->get(), slot_rows.data(), slot_rows.size() * 4);
    put(stores_[s].order->get(), order.data(), order.size() * 2);
    put(stores_[s].slot_of_row->get(), slot_of_row.data(), slot_of_row.size() * 2);
}

uint32_t stores::add_call(uint32_t store, const selections &rows)
{
    stores_[store].calls.push_back(std::make_unique<device::array<int32_t>>(rows));
    return (uint32_t)stores_[store].calls.size() - 1;
}

struct kvt_gpu_resolve stores::call(uint32_t s, uint32_t call) const
{
    const one &store = stores_[s];
    struct kvt_gpu_resolve resolve = {};

    resolve.request_count = of.requests;
    resolve.query_count = of.requests * of.queries;
    resolve.queries_max = of.queries;
    resolve.top_k = of.top_k;
    resolve.ratio = of.ratio;
    resolve.layers = of.layers;
    resolve.layer_bytes = of.layer_bytes;
    resolve.requests = requests_->get();
    resolve.selections = store.calls[call]->get();
    resolve.hot = {of.slots,
                   of.rows,
                   slot_counts_->get(),
                   store.slot_rows->get(),
                   store.order->get(),
                   store.slot_of_row->get()};
    resolve.places.hot0 = (int32_t)(s * of.requests * of.slots);
    resolve.places.hot_stride = (int32_t)of.slots;
    resolve.places.staging0 = (int32_t)(of.stores * of.requests * of.slots);
    resolve.staging_share = of.queries * of.top_k;
    resolve.pool = pool_->get();
    resolve.host.base = host_;
    resolve.host.row_stride = (uint64_t)of.layers * of.layer_bytes;
    resolve.host.layer_stride = of.layer_bytes;
    resolve.host.shared_at = shared_at_->get();
    resolve.host.own_at = store.own_at->get();
    resolve.host.shared_rows = shared_rows_->get();
    resolve.fetch = host_ == nullptr ? KVT_GPU_FETCH_NONE : KVT_GPU_FETCH_GROUP;
    resolve.row_places = store.row_places->get();
    resolve.missed = store.missed->get();
    resolve.missed_places = store.missed_places->get();
    resolve.missed_stride = of.queries * of.top_k;
    resolve.promoted = store.promoted->get();
    resolve.counts = store.counts->get();
    resolve.workspace = workspace_->get();
    return resolve;
}

/* `count` of the first `of` rows of a permutation, ascending. */
inline std::vector<uint32_t> draw_rows(uint32_t count, uint32_t of, std::mt19937_64 &random)
{
    std::vector<uint32_t> rows(of);

    std::iota(rows.begin(), rows.end(), 0);
    for (uint32_t i = 0; i < count; i++)
        std::swap(rows[i], rows[i + random() % (of - i)]);
    rows.resize(count);
    return rows;
}

/* ---- Misses ------------------------------------------------------------------------------------
 *
 * Of each request's k rows, some are selected in every call and stay cached; the others come from
 * groups in turn, so many that a group has left the cache before its turn comes again: each call
 * misses exactly one group, for as long as it runs. */

struct missing {
    uint32_t misses;
    uint32_t groups; /* calls of a store in turn */
    /* [stores][groups][requests][misses] rows that the call misses, ascending */
    std::vector<std::vector<std::vector<uint32_t>>> rows;
};

inline uint32_t groups_for(const shape &of, uint32_t misses)
{
    return (of.slots - (of.top_k - misses)) / misses + 2;
}

inline missing add_missing_calls(stores &stores, uint32_t misses)
{
    const shape &of = stores.of;
    missing made = {misses, groups_for(of, misses), {}};
    std::vector<std::vector<selections>> calls(of.stores);
    std::vector<std::thread> threads;

    made.rows.resize(of.stores);
    for (uint32_t s = 0; s < of.stores; s++) {
        made.rows[s].resize(made.groups);
        calls[s].resize(made.groups);
        threads.emplace_back([&, s] {
            std::mt19937_64 random(s + 1);
            const uint32_t stay = of.top_k - misses;
            for (uint32_t i = 0; i < of.requests; i++) {
                const std::vector<uint32_t> drawn =
                    draw_rows(stay + made.groups * misses, of.rows, random);
                for (uint32_t g = 0; g < made.groups; g++) {
                    const auto first = drawn.begin() + stay + g * misses;
                    std::vector<uint32_t> group(first, first + misses);
                    std::vector<int32_t> query(drawn.begin(), drawn.begin() + stay);
                    query.insert(query.end(), group.begin(), group.end());
                    std::sort(query.begin(), query.end());
                    std::sort(group.begin(), group.end());
                    calls[s][g].insert(calls[s][g].end(), query.begin(), query.end());
                    made.rows[s][g].insert(made.rows[s][g].end(), group.begin(), group.end());
                }
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    for (uint32_t s = 0; s < of.stores; s++) {
        for (const selections &call : calls[s])
            (void)stores.add_call(s, call);
    }
    return made;
}

} // namespace resolve_bench

#endif
