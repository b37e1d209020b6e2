/* cuda/resolve_bench.h -- stores in turn, as a decode step has them: each with its own hot caches,
 * maps, selections and host rows, so that nothing is used again that a step would not use again. */
#ifndef KVT_TESTS_CUDA_RESOLVE_BENCH_H
#define KVT_TESTS_CUDA_RESOLVE_BENCH_H

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "cuda/device.h"
#include "launch.h"

namespace resolve_bench
{

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

} // namespace resolve_bench

#endif
