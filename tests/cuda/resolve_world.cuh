/* cuda/resolve_world.cuh -- requests with hot caches on the CPU and on the device, call by call.
 *
 * Each call is drawn, resolved by kvt_resolve() and by a device kernel, and everything that the
 * device answers is compared; copied rows are compared with what the host rows hold. */
#ifndef KVT_TESTS_CUDA_RESOLVE_WORLD_CUH
#define KVT_TESTS_CUDA_RESOLVE_WORLD_CUH

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "cuda/device.h"
#include "kvt/hash.h"
#include "kvt/resolver.h"
#include "kvt/waves.h"
#include "launch.h"

extern "C" const struct kvt_replacement_policy kvt_replacement_lru;

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
    bool waves;        /* staging_share 0 */
    bool planned;      /* decided by kvt_resolve() alone: kvt_gpu_execute_plan() */
    bool without;      /* the last lane has no cache: all its pages are in frames */
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
    void upload_plan(const std::vector<drawn_call> &calls);
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

enum {
    POISON = 0xee,
    BASE_ROWS = 1000000,
    UNITS_THREADS = 128
};

static const uint32_t nowhere = UINT32_MAX;

/* A hot cache on the CPU, its map from row to slot, and what draws the lane's selections. */
struct cpu_lane {
    struct kvt_hot_cache *cache = nullptr;
    uint32_t slot_count = 0;
    uint32_t context_tokens = 0;
    std::vector<uint32_t> slot_of_row;
    std::vector<int32_t> frames; /* by page */
    std::vector<char> is_selected;
    std::vector<uint32_t> selected;

    ~cpu_lane()
    {
        if (cache != nullptr)
            kvt_hot_cache_free(cache);
    }
};

static void expect_ok(kvt_status status, const struct kvt_error &error, const char *what)
{
    if (status == KVT_OK)
        return;
    std::printf("failed: %s: %s\n0 passed, 1 failed\n", what, error.message);
    std::exit(1);
}

/* ---- Device helpers --------------------------------------------------------------------- */

static __global__ void write_rows(uint8_t *base, uint64_t at, uint64_t row_stride,
                                  uint64_t layer_stride, uint32_t layer_units, uint32_t layers,
                                  uint32_t owner, uint32_t first_row)
{
    const uint32_t row = first_row + blockIdx.x;
    for (uint32_t unit = threadIdx.x; unit < layers * layer_units; unit += blockDim.x)
        *(uint4 *)(base + (at + row) * row_stride + unit / layer_units * layer_stride +
                   unit % layer_units * 16) = unit_of(owner, row, unit);
}

/* Selected rows whose place is in a hot cache or in staging: how many pieces are not theirs. */
static __global__ void check_selected(struct kvt_gpu_resolve call, uint32_t wave,
                                      unsigned long long *wrong)
{
    const struct kvt_gpu_request request = call.requests[blockIdx.y];
    const uint32_t units = call.layers * call.layer_bytes / 16;

    if (call.counts[blockIdx.y].wave != wave)
        return;
    for (uint32_t i = blockIdx.x; i < request.query_count * call.top_k; i += gridDim.x) {
        const size_t at = (size_t)request.first_query * call.top_k + i;
        const int32_t place = call.row_places[at];
        const uint32_t row = (uint32_t)call.selections[at];
        if (call.selections[at] < 0 || place < call.places.hot0)
            continue; /* tails and frames lie in front */
        const uint32_t owner =
            row < call.host.shared_rows[request.lane] ? SHARED_OWNER : request.lane;
        for (uint32_t unit = threadIdx.x; unit < units; unit += blockDim.x) {
            const uint4 found = *(const uint4 *)(call.pool + ((uint64_t)place * units + unit) * 16);
            const uint4 due = unit_of(owner, row, unit);
            if (found.x != due.x || found.y != due.y || found.z != due.z || found.w != due.w)
                atomicAdd(wrong, 1ull);
        }
    }
}

static __global__ void check_slots(struct kvt_gpu_resolve call, unsigned long long *wrong)
{
    const uint32_t lane = blockIdx.y, units = call.layers * call.layer_bytes / 16;

    for (uint32_t slot = blockIdx.x; slot < call.hot.slot_counts[lane]; slot += gridDim.x) {
        const uint32_t row = call.hot.slot_rows[(size_t)lane * call.hot.slots_max + slot];
        const uint64_t place = call.places.hot0 + (uint64_t)lane * call.places.hot_stride + slot;
        if (row == UINT32_MAX)
            continue;
        const uint32_t owner = row < call.host.shared_rows[lane] ? SHARED_OWNER : lane;
        for (uint32_t unit = threadIdx.x; unit < units; unit += blockDim.x) {
            const uint4 found = *(const uint4 *)(call.pool + (place * units + unit) * 16);
            const uint4 due = unit_of(owner, row, unit);
            if (found.x != due.x || found.y != due.y || found.z != due.z || found.w != due.w)
                atomicAdd(wrong, 1ull);
        }
    }
}

/* ---- The two sides ------------------------------------------------------------------------ */

world::world(const setting &setting, uint64_t seed) : of(setting), random_(seed)
{
    const uint32_t rows_per_page = 64 / of.ratio;
    const uint32_t stride = of.queries_max * of.top_k;
    const uint32_t row_bytes = of.layers * of.layer_bytes;
    struct kvt_error error = {};
    std::vector<uint32_t> slot_counts, shared_rows;
    std::vector<uint64_t> shared_at, own_at;

    pages_max_ = (of.rows_max + rows_per_page - 1) / rows_per_page;
    expect_ok(kvt_resolver_new(of.rows_max, of.slots_max, stride, &resolver_, &error), error,
              "kvt_resolver_new");
    for (uint32_t l = 0; l < of.lanes; l++) {
        auto lane = std::make_unique<cpu_lane>();
        struct kvt_replacement_env env = {};
        lane->slot_count =
            of.slots_differ ? of.slots_max - of.slots_max / 3 * (l % 3) : of.slots_max;
        env.slot_count = lane->slot_count;
        env.top_k = of.top_k;
        expect_ok(kvt_hot_cache_new(&kvt_replacement_lru, &env, of.rows_max, &lane->cache, &error),
                  error, "kvt_hot_cache_new");
        if (of.without && l + 1 == of.lanes)
            lane->slot_count = 0;
        lane->slot_of_row.assign(of.rows_max, nowhere);
        lane->is_selected.assign(of.rows_max, 0);
        lane->frames.assign(pages_max_, KVT_GPU_NONE);
        const uint32_t tokens_max = of.rows_max * of.ratio - of.queries_max;
        lane->context_tokens = (uint32_t)(random_() % tokens_max);
        slot_counts.push_back(lane->slot_count);
        shared_rows.push_back(l % 2 == 0 ? of.rows_max / 3 : 0);
        /* base lies BASE_ROWS into the memory: sums wrap around. A lane with a shared prefix
         * has nothing where its first rows would be. */
        shared_at.push_back(0 - (uint64_t)BASE_ROWS);
        own_at.push_back(of.rows_max / 3 + (uint64_t)((l + 3) % of.lanes) * of.rows_max -
                         (l % 2 == 0 ? of.rows_max / 7 : 0) - BASE_ROWS);
        lanes_.push_back(std::move(lane));
    }
    const uint64_t host_rows = (uint64_t)of.rows_max * (of.lanes + 1);
    host_ = std::make_unique<device::array<uint8_t>>(host_rows * row_bytes, true);
    slot_counts_ = std::make_unique<device::array<uint32_t>>(slot_counts);
    shared_rows_ = std::make_unique<device::array<uint32_t>>(shared_rows);
    shared_at_ = std::make_unique<device::array<uint64_t>>(shared_at);
    own_at_ = std::make_unique<device::array<uint64_t>>(own_at);
    requests_ = std::make_unique<device::array<struct kvt_gpu_request>>(of.requests);
    selections_ = std::make_unique<device::array<int32_t>>((size_t)of.requests * stride);
    row_places_ = std::make_unique<device::array<int32_t>>((size_t)of.requests * stride);
    missed_places_ = std::make_unique<device::array<int32_t>>((size_t)of.requests * stride);
    missed_ = std::make_unique<device::array<uint32_t>>((size_t)of.requests * stride);
    promoted_ = std::make_unique<device::array<uint32_t>>((size_t)of.requests * stride * 2);
    frames_ = std::make_unique<device::array<int32_t>>((size_t)of.lanes * pages_max_);
    slot_rows_ = std::make_unique<device::array<uint32_t>>((size_t)of.lanes * of.slots_max);
    order_ = std::make_unique<device::array<uint16_t>>((size_t)of.lanes * of.slots_max);
    slot_of_row_ = std::make_unique<device::array<uint16_t>>((size_t)of.lanes * of.rows_max);
    hashed_lanes_ = std::make_unique<device::array<uint32_t>>(of.requests);
    hashes_ = std::make_unique<device::array<uint64_t>>(of.requests);
    counts_ = std::make_unique<device::array<struct kvt_gpu_counts>>(of.requests);
    waves_ = std::make_unique<device::array<uint32_t>>(1);
    wrong_ = std::make_unique<device::array<unsigned long long>>(1);
    workspace_ = std::make_unique<device::array<uint8_t>>(kvt_gpu_resolve_workspace_bytes(
        of.requests, of.queries_max, of.top_k, of.slots_max, of.rows_max));
    workspace_->poison(0);

    resolve_.top_k = of.top_k;
    resolve_.ratio = of.ratio;
    resolve_.layers = of.layers;
    resolve_.layer_bytes = of.layer_bytes;
    resolve_.request_count = of.requests;
    resolve_.queries_max = of.queries_max;
    resolve_.requests = requests_->get();
    resolve_.selections = selections_->get();
    resolve_.hot = {of.slots_max,      of.rows_max,   slot_counts_->get(),
                    slot_rows_->get(), order_->get(), slot_of_row_->get()};
    /* Tails, frames, hot caches with gaps between them, staging. */
    const int32_t tail0 = 5, frame0 = tail0 + (int32_t)of.lanes * 64;
    const int32_t hot0 = frame0 + (int32_t)(pages_max_ * rows_per_page * of.lanes);
    const int32_t staging0 = hot0 + (int32_t)(of.lanes * (of.slots_max + 3));
    resolve_.places = {hot0, (int32_t)of.slots_max + 3, tail0, staging0, frame0};
    resolve_.staging_share = of.waves ? 0 : stride;
    pool_ = std::make_unique<device::array<uint8_t>>(
        ((size_t)staging0 + (size_t)of.requests * stride) * row_bytes);
    pool_->poison();
    resolve_.frames = frames_->get();
    resolve_.frame_stride = pages_max_;
    resolve_.pool = pool_->get();
    resolve_.host.row_stride = of.apart ? of.layer_bytes : row_bytes;
    resolve_.host.base = host_->get() + BASE_ROWS * resolve_.host.row_stride;
    resolve_.host.layer_stride = of.apart ? host_rows * of.layer_bytes : of.layer_bytes;
    resolve_.host.shared_at = shared_at_->get();
    resolve_.host.own_at = own_at_->get();
    resolve_.host.shared_rows = shared_rows_->get();
    resolve_.fetch = of.leader ? KVT_GPU_FETCH_LEADER : KVT_GPU_FETCH_GROUP;
    resolve_.promote_by_count = of.promote;
    resolve_.row_places = row_places_->get();
    resolve_.missed = missed_->get();
    resolve_.missed_places = missed_places_->get();
    resolve_.missed_stride = stride;
    resolve_.promoted = promoted_->get();
    resolve_.counts = counts_->get();
    resolve_.workspace = workspace_->get();
    resolve_.reference = of.reference;
    slot_rows_->poison(POISON);
    order_->poison(POISON);
    slot_of_row_->poison(POISON);
    auto write = [&](uint64_t at, uint32_t first, uint32_t last, uint32_t owner) {
        if (last > first)
            write_rows<<<last - first, UNITS_THREADS>>>(
                resolve_.host.base, at, resolve_.host.row_stride, resolve_.host.layer_stride,
                of.layer_bytes / 16, of.layers, owner, first);
    };
    write(shared_at[0], 0, of.rows_max / 3, SHARED_OWNER);
    for (uint32_t l = 0; l < of.lanes; l++) {
        write(own_at[l], shared_rows[l], of.rows_max, l);
        device::must(kvt_gpu_hot_reset(&resolve_.hot, l, 0), "kvt_gpu_hot_reset");
    }
    device::must(cudaDeviceSynchronize(), "the host rows");
}

world::~world()
{
    kvt_resolver_free(resolver_);
}

/* ---- Drawing ------------------------------------------------------------------------------- */

static void change_selection(cpu_lane &lane, uint32_t visible, uint32_t wanted, uint32_t percent,
                             std::mt19937_64 &random)
{
    size_t kept = 0;
    for (uint32_t row : lane.selected) {
        if (row < visible && random() % 100 >= percent)
            lane.selected[kept++] = row;
        else
            lane.is_selected[row] = 0;
    }
    lane.selected.resize(kept);
    while (lane.selected.size() > wanted) {
        lane.is_selected[lane.selected.back()] = 0;
        lane.selected.pop_back();
    }
    while (lane.selected.size() < wanted) {
        uint32_t row = (uint32_t)(random() % visible);
        for (uint32_t run = 1 + random() % 4;
             run > 0 && row < visible && lane.selected.size() < wanted; run--, row++) {
            if (!lane.is_selected[row])
                lane.selected.push_back(row);
            lane.is_selected[row] = 1;
        }
    }
}

std::vector<drawn_call> world::draw()
{
    const uint32_t rows_per_page = 64 / of.ratio;
    std::vector<drawn_call> calls(of.requests);
    std::vector<uint32_t> order(of.lanes);
    int32_t next_frame = 0;

    for (uint32_t l = 0; l < of.lanes; l++)
        order[l] = l;
    std::shuffle(order.begin(), order.end(), random_);
    for (uint32_t i = 0; i < of.requests; i++) {
        drawn_call &call = calls[i];
        cpu_lane &lane = *lanes_[order[i]];
        const uint32_t tokens_max = of.rows_max * of.ratio - of.queries_max;
        call.lane = order[i];
        call.queries = 1 + (uint32_t)(random_() % of.queries_max);
        if (random_() % 2 == 0)
            call.queries = of.queries_max;
        lane.context_tokens = std::min(tokens_max, lane.context_tokens + (uint32_t)(random_() % 9));
        call.context_tokens = lane.context_tokens;
        const bool whole = lane.slot_count == 0 || random_() % 40 == 0;
        call.frame_count =
            whole || random_() % 4 > 0 ? pages_max_ : (uint32_t)(random_() % (pages_max_ + 1));
        if (of.cover_percent == 0 && !whole && random_() % 2 == 0)
            call.frame_count = 0;
        call.page_rows.assign(kvt_row_words(of.rows_max) + 1, 0);
        for (uint32_t page = 0; page < pages_max_; page++) {
            const bool readable = whole || random_() % 100 < of.cover_percent;
            lane.frames[page] = readable ? next_frame++ : KVT_GPU_NONE;
            for (uint32_t r = page * rows_per_page;
                 readable && page < call.frame_count && r < (page + 1) * rows_per_page &&
                 r < of.rows_max;
                 r++)
                call.page_rows[r / 64] |= UINT64_C(1) << r % 64;
        }
        call.selections.resize(call.queries);
        const uint32_t churn = random_() % 8 == 0 ? 0 : of.churn_percent;
        const uint32_t top_k = random_() % 10 == 0 ? of.top_k / 2 : of.top_k;
        for (uint32_t q = 0; q < call.queries; q++) {
            const uint32_t visible = (call.context_tokens + q + 1) / of.ratio;
            change_selection(lane, visible, std::min(visible, top_k), churn, random_);
            call.selections[q].assign(lane.selected.begin(), lane.selected.end());
            std::sort(call.selections[q].begin(), call.selections[q].end());
        }
    }
    return calls;
}

void world::set_frames(const drawn_call &call)
{
    for (uint32_t row = 0; row < of.rows_max; row++)
        lanes_[call.lane]->frames[row] =
            kvt_row_is_in(call.page_rows.data(), row) ? (int32_t)row : KVT_GPU_NONE;
}

/* ---- What is expected ------------------------------------------------------------------------ */

static struct kvt_gpu_counts counts_of(const struct kvt_resolve_result &result)
{
    struct kvt_gpu_counts counts = {};
    counts.union_rows = result.union_rows;
    counts.tail_rows = result.tail_rows;
    counts.page_rows = result.page_rows;
    counts.hot_rows = result.hot_rows;
    counts.filled_rows = result.filled_rows;
    counts.staged_rows = result.staged_rows;
    counts.selected = result.selected;
    counts.tail_selected = result.tail_selected;
    counts.page_selected = result.page_selected;
    counts.hot_selected = result.hot_selected;
    counts.missed_selected = result.missed_selected;
    counts.promoted_rows = result.promoted_rows;
    counts.placed_hash = result.placed_hash;
    counts.skipped = result.skipped;
    return counts;
}

void world::expect(std::vector<drawn_call> &calls)
{
    const struct kvt_gpu_places &at = resolve_.places;
    const uint32_t rows_per_page = 64 / of.ratio;

    for (uint32_t i = 0; i < calls.size(); i++) {
        drawn_call &call = calls[i];
        cpu_lane &lane = *lanes_[call.lane];
        std::vector<std::vector<uint64_t>> sets(call.queries);
        std::vector<const uint64_t *> selections;
        const uint32_t rows = (call.context_tokens + call.queries) / of.ratio;
        for (uint32_t q = 0; q < call.queries; q++) {
            sets[q].assign(kvt_row_words(of.rows_max) + 1, 0);
            for (int32_t row : call.selections[q])
                sets[q][row / 64] |= UINT64_C(1) << row % 64;
            selections.push_back(sets[q].data());
        }
        struct kvt_resolve_call given = {};
        struct kvt_resolve_result result;
        struct kvt_error error = {};
        given.step = step_;
        given.visible_rows = of.rows_max; /* matters to nothing but refusals */
        given.tail_first_row = rows > 64 ? rows - 64 : 0;
        given.page_rows = call.page_rows.data();
        given.query_count = call.queries;
        given.selections = selections.data();
        given.promotion = of.promote ? KVT_PROMOTE_BY_COUNT : KVT_PROMOTE_NONE;
        expect_ok(kvt_resolve(resolver_, lane.cache, &given, &result, &error), error,
                  "kvt_resolve");
        call.counts = counts_of(result);
        call.state_hash = lane.slot_count > 0 ? kvt_hot_cache_state_hash(resolver_, lane.cache) : 0;
        const uint32_t missed = result.filled_rows + result.staged_rows;
        const int32_t hot0 = at.hot0 + (int32_t)call.lane * at.hot_stride;
        const int32_t staging0 = at.staging0 + (int32_t)(i * resolve_.staging_share);
        call.missed.assign(result.missed, result.missed + missed);
        call.missed_places.clear();
        std::vector<int32_t> staged_place(of.rows_max, KVT_GPU_NONE);
        for (uint32_t m = 0; m < missed; m++) {
            if (m < result.filled_rows) {
                if (result.evicted[m] != KVT_ROW_NONE)
                    lane.slot_of_row[result.evicted[m]] = nowhere;
                lane.slot_of_row[result.missed[m]] = result.fills[m];
                call.missed_places.push_back(hot0 + (int32_t)result.fills[m]);
            } else {
                call.missed_places.push_back(staging0 + (int32_t)(m - result.filled_rows));
                staged_place[result.missed[m]] = call.missed_places.back();
            }
        }
        call.places.assign(call.queries, {});
        for (uint32_t q = 0; q < call.queries; q++) {
            for (int32_t row : call.selections[q]) {
                int32_t place;
                if ((uint32_t)row >= given.tail_first_row)
                    place = at.tail0 + (int32_t)call.lane * 64 + row % 64;
                else if (kvt_row_is_in(call.page_rows.data(), (uint32_t)row))
                    place = at.frame0 +
                            lane.frames[(uint32_t)row / rows_per_page] * (int32_t)rows_per_page +
                            row % (int32_t)rows_per_page;
                else if (staged_place[row] != KVT_GPU_NONE)
                    place = staged_place[row];
                else
                    place = hot0 + (int32_t)lane.slot_of_row[row];
                call.places[q].push_back(place);
            }
        }
        call.promoted.clear();
        std::vector<uint32_t> slot_rows(of.slots_max, KVT_ROW_NONE);
        for (uint32_t row = 0; row < of.rows_max; row++) {
            if (lane.slot_of_row[row] != nowhere)
                slot_rows[lane.slot_of_row[row]] = row;
        }
        for (uint32_t p = 0; p < result.promoted_rows; p++) {
            const uint32_t slot = result.promoted_slots[p], row = result.promoted[p];
            if (slot_rows[slot] != KVT_ROW_NONE)
                lane.slot_of_row[slot_rows[slot]] = nowhere;
            slot_rows[slot] = row;
            lane.slot_of_row[row] = slot;
            call.promoted.push_back((uint32_t)staged_place[row]);
            call.promoted.push_back((uint32_t)(hot0 + (int32_t)slot));
        }
    }
}

/* The arena holds the largest call, and a little more. Moves what is staged to its place there. */
void world::expect_waves(std::vector<drawn_call> &calls)
{
    std::vector<uint32_t> staged, wave_of(calls.size());
    uint64_t most = 1, peak, sum = 0;

    for (const drawn_call &call : calls) {
        staged.push_back(call.counts.staged_rows);
        most = std::max<uint64_t>(most, call.counts.staged_rows);
        sum += call.counts.staged_rows;
    }
    arena_rows_ = most + (sum > 0 ? random_() % (sum + 1) : 0);
    wave_count_ =
        kvt_waves_make(staged.data(), (uint32_t)calls.size(), arena_rows_, wave_of.data(), &peak);
    std::vector<uint64_t> used(wave_count_, 0);
    for (size_t i = 0; i < calls.size(); i++) {
        drawn_call &call = calls[i];
        const int32_t from = resolve_.places.staging0;
        const int32_t moved = (int32_t)used[wave_of[i]];
        call.counts.wave = wave_of[i];
        used[wave_of[i]] += staged[i];
        for (int32_t &place : call.missed_places)
            place += place >= from ? moved : 0;
        for (std::vector<int32_t> &places : call.places) {
            for (int32_t &place : places)
                place += place >= from ? moved : 0;
        }
        for (size_t p = 0; p < call.promoted.size(); p += 2)
            call.promoted[p] += (uint32_t)moved;
    }
}

/* ---- The device's turn ------------------------------------------------------------------------
 */

void world::upload(const std::vector<drawn_call> &calls)
{
    std::vector<struct kvt_gpu_request> requests;
    std::vector<int32_t> selections, frames;
    std::vector<uint32_t> lanes;

    for (const drawn_call &call : calls) {
        const uint32_t first = (uint32_t)(selections.size() / of.top_k);
        requests.push_back(
            {call.lane, first, call.queries, call.context_tokens, call.frame_count, call.lane});
        lanes.push_back(call.lane);
        for (const std::vector<int32_t> &rows : call.selections) {
            selections.insert(selections.end(), rows.begin(), rows.end());
            selections.resize(selections.size() + of.top_k - rows.size(), KVT_GPU_NONE);
        }
    }
    for (const auto &lane : lanes_)
        frames.insert(frames.end(), lane->frames.begin(), lane->frames.end());
    auto put = [](void *to, const void *from, size_t bytes) {
        device::must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "an upload");
    };
    resolve_.request_count = (uint32_t)calls.size();
    resolve_.query_count = (uint32_t)(selections.size() / of.top_k);
    put(requests_->get(), requests.data(), requests.size() * sizeof requests[0]);
    put(selections_->get(), selections.data(), selections.size() * sizeof selections[0]);
    put(frames_->get(), frames.data(), frames.size() * sizeof frames[0]);
    put(hashed_lanes_->get(), lanes.data(), lanes.size() * sizeof lanes[0]);
    row_places_->poison(POISON);
    missed_->poison(POISON);
    missed_places_->poison(POISON);
    promoted_->poison(POISON);
    counts_->poison(POISON);
}

uint64_t world::wrong_units(uint32_t wave)
{
    wrong_->poison(0);
    check_selected<<<dim3(64, resolve_.request_count), UNITS_THREADS>>>(resolve_, wave,
                                                                        wrong_->get());
    device::must(cudaGetLastError(), "check_selected");
    return wrong_->read()[0];
}

/* As a host that plans would: answers that the resolver would leave, before waves are made. */
void world::upload_plan(const std::vector<drawn_call> &calls)
{
    const int32_t staging0 = resolve_.places.staging0;
    const size_t stride = resolve_.missed_stride;
    std::vector<struct kvt_gpu_counts> counts;
    std::vector<int32_t> row_places, missed_places(calls.size() * stride);
    std::vector<uint32_t> missed(calls.size() * stride), promoted(2 * calls.size() * stride);
    auto open = [&](int32_t place) {
        return of.waves && place >= staging0 ? -2 - (place - staging0) : place;
    };
    auto put = [](void *to, const void *from, size_t bytes) {
        device::must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "a plan");
    };

    for (size_t i = 0; i < calls.size(); i++) {
        const drawn_call &call = calls[i];
        counts.push_back(call.counts);
        std::copy(call.missed.begin(), call.missed.end(), missed.begin() + i * stride);
        for (size_t m = 0; m < call.missed.size(); m++)
            missed_places[i * stride + m] = open(call.missed_places[m]);
        for (size_t p = 0; p < call.promoted.size(); p++)
            promoted[2 * i * stride + p] =
                p % 2 == 0 ? (uint32_t)open((int32_t)call.promoted[p]) : call.promoted[p];
        for (const std::vector<int32_t> &places : call.places) {
            for (int32_t place : places)
                row_places.push_back(open(place));
            row_places.resize(row_places.size() + of.top_k - places.size(), KVT_GPU_NONE);
        }
    }
    put(counts_->get(), counts.data(), counts.size() * sizeof counts[0]);
    put(missed_->get(), missed.data(), missed.size() * sizeof missed[0]);
    put(missed_places_->get(), missed_places.data(),
        missed_places.size() * sizeof missed_places[0]);
    put(promoted_->get(), promoted.data(), promoted.size() * sizeof promoted[0]);
    put(row_places_->get(), row_places.data(), row_places.size() * sizeof row_places[0]);
}

bool world::run(std::vector<drawn_call> &calls, device::tally &tally)
{
    bool same = true;

    expect(calls);
    upload(calls);
    if (of.planned)
        upload_plan(calls);
    else
        device::must(kvt_gpu_resolve(&resolve_, 0), "kvt_gpu_resolve");
    if (of.waves) {
        expect_waves(calls);
        device::must(kvt_gpu_waves(&resolve_, arena_rows_, waves_->get(), 0), "kvt_gpu_waves");
    }
    if (of.planned)
        device::must(kvt_gpu_execute_plan(&resolve_, 0), "kvt_gpu_execute_plan");
    /* Followers in two parts: half of them, then the others. */
    for (uint32_t part = 0; of.leader && part < 2; part++) {
        const uint32_t half = 1 + (resolve_.layers - 1) / 2;
        device::must(kvt_gpu_fetch_followers(&resolve_, part == 0 ? 1 : half,
                                             part == 0 ? half : resolve_.layers, 0),
                     "kvt_gpu_fetch_followers");
    }
    device::must(kvt_gpu_state_hash(&resolve_.hot, hashed_lanes_->get(), resolve_.request_count,
                                    hashes_->get(), 0),
                 "kvt_gpu_state_hash");
    device::must(cudaDeviceSynchronize(), "a call");
    same = compare(calls, tally);
    for (uint32_t wave = 0; same && wave < (of.waves ? wave_count_ : 1); wave++) {
        if (of.waves)
            device::must(kvt_gpu_fetch_wave(&resolve_, wave, 0), "kvt_gpu_fetch_wave");
        const uint64_t wrong = wrong_units(wave);
        same = tally.check(wrong == 0, "%s: call %llu: %llu pieces of selected rows are not theirs",
                           of.name, (unsigned long long)step_, (unsigned long long)wrong);
        device::must(kvt_gpu_promote(&resolve_, wave, 0), "kvt_gpu_promote");
    }
    step_++;
    return same && (step_ % 8 != 0 || compare_state(tally));
}

bool world::step(device::tally &tally)
{
    std::vector<drawn_call> calls = draw();
    return run(calls, tally);
}

/* ---- Comparison ---------------------------------------------------------------------------------
 */

template <typename T>
static bool compare_list(const char *what, const T *found, const std::vector<T> &expected,
                         const char *where, device::tally &tally)
{
    for (size_t i = 0; i < expected.size(); i++) {
        if (found[i] != expected[i])
            return tally.check(false, "%s: %s[%zu]: expected %lld, found %lld", where, what, i,
                               (long long)expected[i], (long long)found[i]);
    }
    return true;
}

static bool compare_counts(const struct kvt_gpu_counts &found,
                           const struct kvt_gpu_counts &expected, const char *where,
                           device::tally &tally)
{
    static const char *const names[] = {
        "union_rows",      "tail_rows",        "page_rows",       "hot_rows",
        "filled_rows",     "staged_rows",      "selected",        "tail_selected",
        "page_selected",   "hot_selected",     "missed_selected", "promoted_rows",
        "placed_hash low", "placed_hash high", "skipped",         "wave"};
    uint32_t f[16], e[16];

    std::memcpy(f, &found, sizeof f);
    std::memcpy(e, &expected, sizeof e);
    for (int i = 0; i < 16; i++) {
        if (f[i] != e[i])
            return tally.check(false, "%s: %s: expected %u, found %u", where, names[i], e[i], f[i]);
    }
    return true;
}

bool world::compare(const std::vector<drawn_call> &calls, device::tally &tally)
{
    const std::vector<struct kvt_gpu_counts> counts = counts_->read();
    const std::vector<int32_t> row_places = row_places_->read();
    const std::vector<int32_t> missed_places = missed_places_->read();
    const std::vector<uint32_t> missed = missed_->read(), promoted = promoted_->read();
    const std::vector<uint64_t> hashes = hashes_->read();
    size_t query = 0;
    bool same = true;

    if (of.waves)
        same = tally.check(waves_->read()[0] == wave_count_, "%s: expected %u waves, found %u",
                           of.name, wave_count_, waves_->read()[0]);
    for (size_t i = 0; i < calls.size(); i++) {
        const drawn_call &call = calls[i];
        const size_t list = i * resolve_.missed_stride;
        char where[160];
        std::snprintf(where, sizeof where, "%s: step %llu request %zu lane %u K %u", of.name,
                      (unsigned long long)step_, i, call.lane, call.queries);
        same = compare_counts(counts[i], call.counts, where, tally) && same;
        same = compare_list("missed", &missed[list], call.missed, where, tally) && same;
        same =
            compare_list("missed_places", &missed_places[list], call.missed_places, where, tally) &&
            same;
        same = compare_list("promoted", &promoted[2 * list], call.promoted, where, tally) && same;
        for (const std::vector<int32_t> &places : call.places) {
            std::vector<int32_t> expected = places;
            expected.resize(of.top_k, KVT_GPU_NONE);
            same =
                compare_list("row_places", &row_places[query * of.top_k], expected, where, tally) &&
                same;
            query++;
        }
        same = tally.check(of.planned || hashes[i] == call.state_hash,
                           "%s: state hash: expected %016llx, found %016llx", where,
                           (unsigned long long)call.state_hash, (unsigned long long)hashes[i]) &&
               same;
    }
    return same;
}

/* Everything that lasts: the row in each slot, and its bytes; the maps, row by row. */
bool world::compare_state(device::tally &tally)
{
    const std::vector<uint32_t> slot_rows = slot_rows_->read();
    const std::vector<uint16_t> slot_of_row = slot_of_row_->read();
    bool same = true;

    for (uint32_t l = 0; l < of.lanes; l++) {
        const uint32_t *expected = kvt_hot_cache_rows(lanes_[l]->cache);
        for (uint32_t slot = 0; same && slot < lanes_[l]->slot_count; slot++) {
            const uint32_t found = slot_rows[(size_t)l * of.slots_max + slot];
            if (found != expected[slot])
                same = tally.check(false, "%s: lane %u: slot_rows[%u]: expected %u, found %u",
                                   of.name, l, slot, expected[slot], found);
        }
        for (uint32_t row = 0; same && !of.planned && row < of.rows_max; row++) {
            const uint32_t slot = lanes_[l]->slot_of_row[row];
            const uint32_t due = slot == nowhere ? 0xffff : slot;
            const uint32_t found = slot_of_row[(size_t)l * of.rows_max + row];
            if (found != due)
                same = tally.check(false, "%s: lane %u: slot_of_row[%u]: expected %u, found %u",
                                   of.name, l, row, due, found);
        }
    }
    wrong_->poison(0);
    check_slots<<<dim3(64, of.lanes), UNITS_THREADS>>>(resolve_, wrong_->get());
    device::must(cudaGetLastError(), "check_slots");
    const uint64_t wrong = wrong_->read()[0];
    return tally.check(wrong == 0, "%s: %llu pieces of rows in slots are not theirs", of.name,
                       (unsigned long long)wrong) &&
           same;
}

} // namespace resolve_test

#endif
