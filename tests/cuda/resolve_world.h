/* cuda/resolve_world.h -- requests with hot caches on the CPU and on the device, call by call.
 *
 * Each call is drawn, resolved by kvt_resolve() and by a device kernel, and everything that the
 * device answers is compared; copied rows are compared with what the host rows hold. */
#ifndef KVT_TESTS_CUDA_RESOLVE_WORLD_H
#define KVT_TESTS_CUDA_RESOLVE_WORLD_H

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "cuda/device.h"
#include "kvt/resolver.h"
#include "launch.h"

namespace resolve_test
{

struct setting {
    const char *name;
    uint32_t lanes, requests; /* requests take lanes in an order drawn for each call */
    uint32_t top_k, slots_max, rows_max, ratio, queries_max;
    uint32_t layers, layer_bytes;
    uint32_t churn_percent; /* of a selection that changes from one query to the next */
    uint32_t cover_percent; /* of pages that are readable in HBM */
    uint32_t calls;
    bool promote, apart, leader, reference;
    bool waves;       /* staging_share 0 */
    bool without;     /* the last lane has no cache: all its pages are in frames */
    bool slots_differ; /* lanes have fewer slots than slots_max */
};

/* A request's call as drawn, and what kvt_resolve() makes of it. */
struct drawn_call {
    uint32_t lane, queries, context_tokens, frame_count;
    std::vector<std::vector<int32_t>> selections; /* [queries] ascending */
    std::vector<uint64_t> page_rows;              /* set */
    struct kvt_gpu_counts counts;
    std::vector<uint32_t> missed;
    std::vector<int32_t> missed_places;
    std::vector<std::vector<int32_t>> places; /* [queries][rows of the selection] */
    std::vector<uint32_t> promoted;           /* [2 * promoted_rows] places */
    uint64_t state_hash;
};

struct cpu_lane;

class world
{
  public:
    world(const setting &of, uint64_t seed);
    ~world();
    /* One call of every request. False once something differs. */
    bool step(device::tally &tally);
    /* The same with calls made elsewhere: lane, queries, selections, page_rows, context and
     * frame_count are given. */
    bool run(std::vector<drawn_call> &calls, device::tally &tally);
    /* Pages of one row: gives a frame to each of the call's page_rows. */
    void set_frames(const drawn_call &call);
    /* What the device answered last, of request 0. */
    struct kvt_gpu_counts last_counts() const
    {
        return counts_->read()[0];
    }
    uint64_t last_hash() const
    {
        return hashes_->read()[0];
    }

    const setting of;

  private:
    std::vector<drawn_call> draw();
    void expect(std::vector<drawn_call> &calls);
    void expect_waves(std::vector<drawn_call> &calls);
    void upload(const std::vector<drawn_call> &calls);
    bool compare(const std::vector<drawn_call> &calls, device::tally &tally);
    bool compare_state(device::tally &tally);
    uint64_t wrong_units(uint32_t wave);

    std::mt19937_64 random_;
    uint64_t step_ = 0, arena_rows_ = 0;
    uint32_t wave_count_ = 1;
    struct kvt_resolver *resolver_ = nullptr;
    std::vector<std::unique_ptr<cpu_lane>> lanes_;
    uint32_t pages_max_;
    struct kvt_gpu_resolve resolve_ = {};
    std::unique_ptr<device::array<struct kvt_gpu_request>> requests_;
    std::unique_ptr<device::array<int32_t>> selections_, row_places_, missed_places_, frames_;
    std::unique_ptr<device::array<uint32_t>> slot_counts_, slot_rows_, missed_, promoted_;
    std::unique_ptr<device::array<uint32_t>> shared_rows_, hashed_lanes_, waves_;
    std::unique_ptr<device::array<uint16_t>> order_, slot_of_row_;
    std::unique_ptr<device::array<uint64_t>> shared_at_, own_at_, hashes_;
    std::unique_ptr<device::array<unsigned long long>> wrong_;
    std::unique_ptr<device::array<uint8_t>> host_, pool_, workspace_;
    std::unique_ptr<device::array<struct kvt_gpu_counts>> counts_;
};

/* What each 16 bytes of a row hold: who owns the row, which row, which piece of it. */
__host__ __device__ inline uint4 unit_of(uint32_t owner, uint32_t row, uint32_t unit)
{
    uint32_t mixed = (owner * 0x9e3779b9u + row) * 0x85ebca6bu + unit * 0xc2b2ae35u;
    return make_uint4(mixed ^ mixed >> 15, row, unit, owner);
}

enum {
    SHARED_OWNER = 1000
};

} // namespace resolve_test

#endif
