/* stand_in_test.cc -- the backend's test over the stand-in, and what only a stand-in can do: fail
 * at every single call, one run after the other.
 *
 * The test itself goes through the host's compiler here: what nvcc makes wants CUDA's own runtime.
 */
#include <array>
#include <cstddef>
#include <new>

#include "kvt/gather.h"
#include "stand_in.h"
#include "test_backend.cu"

extern "C" {
#include "support/support.h"
}

/* The test's own memory is none that the backend asks for: it does not fail with it. */
void *operator new(size_t bytes, const std::nothrow_t &) noexcept
{
    void *data = nullptr;

    return posix_memalign(&data, alignof(std::max_align_t), bytes) == 0 ? data : nullptr;
}
void *operator new(size_t bytes)
{
    void *data = operator new(bytes, std::nothrow);

    if (!data)
        throw std::bad_alloc();
    return data;
}
void *operator new[](size_t bytes)
{
    return operator new(bytes);
}
void operator delete(void *data) noexcept
{
    std::free(data);
}
void operator delete(void *data, size_t) noexcept
{
    std::free(data);
}
void operator delete(void *data, const std::nothrow_t &) noexcept
{
    std::free(data);
}
void operator delete[](void *data) noexcept
{
    std::free(data);
}
void operator delete[](void *data, size_t) noexcept
{
    std::free(data);
}

namespace
{

/* What may fail, and how that is told. */
struct weakness {
    const char *name;
    void (*fail)(uint64_t nth);
    kvt_status status;
    uint64_t growth; /* of the first calls all fail, then every nth / growth + 1; 0: all of them */
    bool is_lost;    /* the device holds what it held until the process ends */
    bool is_borne;   /* some do without: a crew of fewer threads */
};

const weakness weaknesses[] = {
    {"device memory", [](uint64_t nth) { stand_in::fail(stand_in::ALLOCATES, nth); }, KVT_ERR_NOMEM,
     0, false, false},
    {"host memory", support_fail_allocation_here, KVT_ERR_NOMEM, 8, false, true},
    {"a handle", [](uint64_t nth) { stand_in::fail(stand_in::HANDLES, nth); }, KVT_ERR_DEVICE, 1,
     false, false},
    {"a launch", [](uint64_t nth) { stand_in::fail(stand_in::LAUNCHES, nth); }, KVT_ERR_DEVICE, 16,
     false, false},
    {"a device", [](uint64_t nth) { stand_in::fail(stand_in::ASKS, nth); }, KVT_ERR_DEVICE, 8, true,
     false},
};

/* Requests take turns in the arena, which makes branches in graphs, come in over the link and have
 * a drafter, and steps have traffic beside them; plans, and ranks with threads. */
const setting weakened[] = {
    {.name = "turns-k4",
     .queries_max = 4,
     .promote = true,
     .staging_fraction = 0.2,
     .hot_tokens = 256,
     .coverage = 0.3,
     .leader_first = true,
     .shared_tokens = 640,
     .longest = 1500,
     .imports = true,
     .inbound_mib = 1,
     .outbound_mib = 2,
     .drafter = "block"},
    {.name = "planned-k2",
     .queries_max = 2,
     .replacement = "clock",
     .staging_fraction = 1,
     .hot_tokens = 512,
     .coverage = 0.3,
     .resizes = true,
     .ranks = 2,
     .law = "indexer",
     .longest = 1500},
};

/* A run in which the nth call fails: whether it came to that. What fails while a backend is closed
 * has nobody to tell. */
bool run_weakened(const setting &with, const weakness &weak, uint64_t nth, device::tally &verdict)
{
    struct kvt_error err = {};
    bench one(with, 1, verdict, &err);

    weak.fail(nth);
    if (one.open(1) && one.step() && one.step())
        one.release_all();
    bool has_failed = support_allocation_failed() || stand_in::has_failed();
    bool is_told = err.status == weak.status && err.message[0];
    verdict.check(!has_failed || is_told || (weak.is_borne && err.status == KVT_OK),
                  "%s without %s %llu: %s instead of %s: %s", with.name, weak.name,
                  (unsigned long long)nth, kvt_status_name(err.status),
                  kvt_status_name(weak.status), err.message);
    one.close();
    has_failed = has_failed || stand_in::has_failed();
    size_t held = stand_in::end_process();
    verdict.check(weak.is_lost || held == 0, "%s without %s %llu: %zu things are still held: %s",
                  with.name, weak.name, (unsigned long long)nth, held, err.message);
    return has_failed;
}

void fail_everywhere(device::tally &verdict)
{
    for (const setting &with : weakened) {
        for (const weakness &weak : weaknesses) {
            uint64_t nth = 0, tries = 0;
            int before = verdict.failed;
            while (run_weakened(with, weak, nth, verdict) && verdict.failed < before + 8) {
                nth += weak.growth > 0 ? 1 + nth / weak.growth : 1;
                tries++;
            }
            std::printf("%-14s ends well without %s: %llu times, up to call %llu\n", with.name,
                        weak.name, (unsigned long long)tries, (unsigned long long)nth);
            verdict.check(tries > 0, "%s: no call for %s", with.name, weak.name);
        }
    }
}

/* ---- Traffic beside steps ---------------------------------------------------------------- */

struct copied {
    uint64_t up, down, calls; /* bytes, and how many copies */
};

/* What two steps copy. */
copied copied_with(const setting &with, device::tally &verdict)
{
    bench one(with, 1, verdict);
    bool is_open = one.open(1);
    const uint64_t *bytes = stand_in::copied_bytes;
    const copied before = {bytes[cudaMemcpyHostToDevice], bytes[cudaMemcpyDeviceToHost],
                           stand_in::copies};
    verdict.check(is_open && one.step() && one.step(), "%s: no two steps", with.name);
    const copied after = {bytes[cudaMemcpyHostToDevice], bytes[cudaMemcpyDeviceToHost],
                          stand_in::copies};
    if (is_open)
        one.release_all();
    one.close();
    verdict.check(stand_in::end_process() == 0, "%s holds something", with.name);
    return {after.up - before.up, after.down - before.down, after.calls - before.calls};
}

/* Each way has its own copy in each step, and where none is asked for nothing is copied. */
void test_traffic(device::tally &verdict)
{
    setting with = *find_setting("fast-k1");
    const copied without = copied_with(with, verdict);

    for (uint32_t ways = 1; ways < 4; ways++) {
        with.inbound_mib = ways & 1 ? 3 : 0;
        with.outbound_mib = ways & 2 ? 2 : 0;
        const copied all = copied_with(with, verdict);
        verdict.check(all.up - without.up == (uint64_t)with.inbound_mib << 21 &&
                          all.down - without.down == (uint64_t)with.outbound_mib << 21 &&
                          all.calls - without.calls == (ways == 3 ? 4 : 2),
                      "%u and %u MiB beside each of two steps: %llu and %llu bytes, %llu copies",
                      with.inbound_mib, with.outbound_mib,
                      (unsigned long long)(all.up - without.up),
                      (unsigned long long)(all.down - without.down),
                      (unsigned long long)(all.calls - without.calls));
    }
}

/* ---- Gathers --------------------------------------------------------------------------- */

constexpr uint32_t STEPS = 6, LISTS = 5, LANES = 2, ROWS_EACH = 3, GATHERED_BYTES = 64,
                   POOL_BYTES = 1 << 20;

/* Lists of GPUs, of which the runtime here has two, and copies either way beside each. */
kvt_status gather(uint32_t open_for, uint32_t gpus, uint64_t beside_bytes, double *ns,
                  struct kvt_error *err)
{
    std::array<uint32_t, (size_t)STEPS * LISTS * LANES * ROWS_EACH> rows;
    struct kvt_gather *pool = nullptr;

    for (size_t i = 0; i < rows.size(); i++)
        rows[i] = (uint32_t)(rows.size() - i);
    const struct kvt_gather_lists lists = {GATHERED_BYTES, gpus,         STEPS,
                                           LISTS,          LANES,        ROWS_EACH,
                                           rows.data(),    beside_bytes, beside_bytes};
    kvt_status status = kvt_gather_open(POOL_BYTES, open_for, &pool, err);
    if (status == KVT_OK)
        status = kvt_gather_time(pool, &lists, ns, err);
    kvt_gather_close(pool);
    return status;
}

/* Each GPU copies every list, in its own stream, from a list on that no other copies meanwhile. */
void gather_in_turn(uint32_t gpus, device::tally &verdict)
{
    std::vector<stand_in::fetch> fetches;
    struct kvt_error err = {};
    double ns = 0;
    bool in_order = true;

    stand_in::fetches = &fetches;
    kvt_status status = gather(gpus, gpus, 0, &ns, &err);
    stand_in::fetches = nullptr;
    verdict.check(status == KVT_OK, "a gather of %u GPUs: %s", gpus, err.message);
    verdict.check(ns == 1e6 / LISTS, "a gather of %u GPUs: %g ns a list", gpus, ns);
    verdict.check(fetches.size() == (size_t)STEPS * LISTS * gpus, "%zu launches of %u GPUs",
                  fetches.size(), gpus);
    for (size_t i = 0; i < fetches.size(); i++) {
        uint32_t gpu = (uint32_t)i % gpus, launch = (uint32_t)i / gpus, step = launch / LISTS;
        uint32_t list = step * LISTS + (launch + gpu * LISTS / gpus) % LISTS;
        in_order = in_order && fetches[i].chosen == (int)gpu && fetches[i].stream == (int)gpu &&
                   fetches[i].first_row == (STEPS * LISTS - list) * LANES * ROWS_EACH;
    }
    verdict.check(in_order, "lists of %u GPUs are launched in another order", gpus);
    verdict.check(gpus < 2 || fetches.size() < 2 || fetches[0].missed != fetches[1].missed,
                  "GPUs read tables of one another");
    verdict.check(stand_in::end_process() == 0, "a gather of %u GPUs holds something", gpus);
}

/* More GPUs than there are, or than the pool is open for; none; more beside than the pool has. */
void refuse_gathers(device::tally &verdict)
{
    const struct {
        uint32_t open_for, gpus;
        uint64_t beside_bytes;
        const char *says;
    } refused[] = {{3, 1, 0, "3 GPUs at once; 1 to 8 are expected, and this machine has 2"},
                   {0, 1, 0, "0 GPUs at once"},
                   {1, 2, 0, "2 GPUs at once; the pool is open for 1"},
                   {2, 0, 0, "0 GPUs at once"},
                   {1, 1, POOL_BYTES + 1, "1048577 B beside each list; at most the 1048576"}};

    for (const auto &each : refused) {
        struct kvt_error err = {};
        double ns = 0;
        kvt_status status = gather(each.open_for, each.gpus, each.beside_bytes, &ns, &err);
        verdict.check(status == KVT_ERR_INVALID && std::strstr(err.message, each.says),
                      "a gather of %u GPUs out of a pool for %u: %s: %s", each.gpus, each.open_for,
                      kvt_status_name(status), err.message);
        verdict.check(stand_in::end_process() == 0, "a refused gather holds something");
    }
}

/* Every call fails once. */
void fail_gathers(device::tally &verdict)
{
    for (const weakness &weak : weaknesses) {
        uint64_t nth = 0;
        for (bool has_failed = true; has_failed; nth++) {
            struct kvt_error err = {};
            double ns = 0;
            weak.fail(nth);
            kvt_status status = gather(2, 2, 64, &ns, &err);
            has_failed = support_allocation_failed() || stand_in::has_failed();
            verdict.check(!has_failed || status == weak.status ||
                              (weak.is_borne && status == KVT_OK),
                          "a gather without %s %llu: %s: %s", weak.name, (unsigned long long)nth,
                          kvt_status_name(status), err.message);
            size_t held = stand_in::end_process();
            verdict.check(weak.is_lost || held == 0, "a gather without %s %llu holds %zu things",
                          weak.name, (unsigned long long)nth, held);
        }
        std::printf("%-14s ends well without %s: %llu times\n", "gather", weak.name,
                    (unsigned long long)nth - 1);
        verdict.check(nth > 1, "a gather: no call for %s", weak.name);
    }
}

void test_gathers(device::tally &verdict)
{
    gather_in_turn(1, verdict);
    gather_in_turn(2, verdict);
    refuse_gathers(verdict);
    fail_gathers(verdict);
}

const bool is_set_up = [] {
    spoil_hashes = [](uint64_t by) { stand_in::wrong_hash = by; };
    spoil_drafts = [](bool spoil) { stand_in::wrong_draft = spoil; };
    provoke_faults = [](device::tally &verdict) {
        test_gathers(verdict);
        test_traffic(verdict);
        fail_everywhere(verdict);
    };
    return true;
}();

} // namespace
