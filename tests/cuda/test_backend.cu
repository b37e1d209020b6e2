/* test_backend.cu -- the CUDA backend beside the predicted one: the same requests, rounds and
 * ready pages, and every decision, count and hash equal; attention equal to attention over the
 * same rows made anew.
 *
 * A case is a setting of the backend; its requests come, go, are resized and stepped at random.
 * Usage: test_backend [case ..] [-s steps] [-r seed] [--stand-in]. With the last, kernels are the
 * stand-in's (stand_in.cc), whose attention is no number; `faults` is a case of it alone. */
#include <cmath>
#include <cstring>
#include <functional>
#include <string>

#include "cuda/backend_model.h"
#include "cuda/backend_settings.h"
#include "cuda/device.h"
#include "kvt/backend.h"
#include "kvt/backend_params.h"
#include "kvt/clock.h"
#include "kvt/hash.h"
#include "kvt/layout.h"
#include "kvt/pages.h"
#include "kvt/rng.h"
#include "kvt/row_set.h"

namespace
{

bool stands_in = false;
/* Set by the stand-in: hashes of the device's caches are off by so much. */
void (*spoil_hashes)(uint64_t by) = nullptr;
/* Likewise: whatever can fail has failed. */
void (*provoke_faults)(device::tally &verdict) = nullptr;
/* Likewise: new draft rows are wrong. */
void (*spoil_drafts)(bool spoil) = nullptr;

/* ---- Requests ------------------------------------------------------------------------- */

struct request {
    uint32_t id, rank, context_tokens, last_tokens;
    uint64_t hot_tokens, step;
    std::vector<uint64_t> ready;
    struct kvt_round round;
    struct kvt_page_watch watch[2]; /* of either backend */
};

/* Two backends that are told the same. */
class bench
{
  public:
    /* failure: of the test, if there is none; else its first goes there and is expected. */
    bench(const setting &with, uint64_t seed, device::tally &verdict,
          struct kvt_error *failure = nullptr)
        : with_(with), verdict_(verdict), failure_(failure), llm_(small_model(with)),
          rng_(kvt_rng_stream(seed, KVT_RNG_TEST, 0))
    {
    }

    bool open(uint64_t seed)
    {
        if (!prepare(seed))
            return false;
        if (!opened(kvt_backend_cuda, &cuda_))
            return false;
        source_.context = this;
        source_.read = read;
        env_.source = &source_;
        return opened(kvt_backend_sim, &sim_);
    }

    /* The CUDA backend, changed by `change`, is not opened: that status, and words of the sentence.
     */
    void refuse(const char *what, kvt_status expected, const char *words,
                const std::function<void(struct kvt_backend_env &, struct kvt_llm &,
                                         std::vector<struct kvt_param_value> &)> &change)
    {
        struct kvt_error err = {};
        size_t free_before = 0, free_after = 0, total = 0;

        device::must(cudaMemGetInfo(&free_before, &total), "cudaMemGetInfo");
        change(env_, llm_, cuda_params_.values);
        kvt_status status = kvt_backend_cuda.open(&env_, &cuda_, &err);
        verdict_.check(status == expected && std::strstr(err.message, words) != nullptr,
                       "%s: %s instead of %s with \"%s\": %s", what, kvt_status_name(status),
                       kvt_status_name(expected), words, err.message);
        device::must(cudaMemGetInfo(&free_after, &total), "cudaMemGetInfo");
        /* What the library of matrix products keeps for itself stays. */
        verdict_.check(free_after + (UINT64_C(256) << 20) > free_before,
                       "%s: %zu MiB of device memory are gone", what,
                       (free_before - free_after) >> 20);
    }

    bool prepare(uint64_t seed)
    {
        if (!law_.find(KVT_PLUGIN_LAW, with_.law) ||
            !replacement_.find(KVT_PLUGIN_REPLACEMENT, with_.replacement))
            return false;
        set_up(seed);
        return true;
    }

    void close()
    {
        if (sim_)
            sim_->ops->close(sim_);
        if (cuda_)
            cuda_->ops->close(cuda_);
        sim_ = cuda_ = nullptr;
        for (std::vector<request> *requests : {&live_, &coming_}) { /* who never came, or left */
            for (request &each : *requests) {
                for (struct kvt_page_watch &watch : each.watch)
                    kvt_page_watch_fini(&watch);
            }
        }
    }

    void release_all()
    {
        struct kvt_error err = {};

        while (!live_.empty())
            release(live_.size() - 1);
        if (cuda_->ops->finish(cuda_, &err) != KVT_OK)
            failed(err);
    }

    bool step()
    {
        come_and_go();
        if (failure_ && failure_->status != KVT_OK)
            return false;
        std::vector<struct kvt_step_item> items[2][4];
        struct kvt_rank_step ranks[2][4] = {};
        for (request &live : live_)
            plan(live);
        for (int b = 0; b < 2; b++) {
            for (uint32_t r = 0; r < with_.ranks; r++) {
                for (request &live : live_) {
                    if (live.rank == r)
                        items[b][r].push_back(item_of(live, b));
                }
                ranks[b][r].rank = r;
                ranks[b][r].items = items[b][r].data();
                ranks[b][r].item_count = (uint32_t)items[b][r].size();
            }
        }
        struct kvt_error err = {};
        if (cuda_->ops->step(cuda_, ranks[1], with_.ranks, &err) != KVT_OK ||
            sim_->ops->step(sim_, ranks[0], with_.ranks, &err) != KVT_OK)
            return failed(err);
        if (failure_ && failure_->status != KVT_OK) /* of a selection that was read */
            return false;
        for (uint32_t r = 0; r < with_.ranks; r++)
            compare(ranks[0][r], ranks[1][r]);
        compare_hashes();
        compare_watches();
        if (with_.large)
            report(ranks[1][0].outcome);
        for (request &live : live_)
            commit(live);
        steps_++;
        return true;
    }

    /* A step of the large model. */
    void report(const struct kvt_step_outcome &outcome)
    {
        std::printf("  step %u: %.0f us, %u queries, %.1f GB missed:", steps_,
                    (double)outcome.measured_ns / 1e3, outcome.load.queries,
                    outcome.payload_bytes / 1e9);
        for (int p = 0; p < KVT_PARTS; p++) {
            if (outcome.measured_parts_ns[p] > 0)
                std::printf(" %s %.0f", kvt_step_part_name((enum kvt_step_part)p),
                            outcome.measured_parts_ns[p] / 1e3);
        }
        std::printf(" | %.1f s since the start\n", kvt_wall_seconds_since(start_));
        std::fflush(stdout);
    }

    void finish(double seconds)
    {
        struct kvt_backend_proof proof = {};
        release_all();
        verdict_.check(decisions_[0] == decisions_[1],
                       "%s: released caches differ: %016llx, %016llx", with_.name,
                       (unsigned long long)decisions_[0], (unsigned long long)decisions_[1]);
        cuda_->ops->proof(cuda_, &proof);
        bool plain = !is_hopper() || with_.reference || with_.row_bytes != 576 ||
                     std::strcmp(with_.replacement, "lru") != 0;
        verdict_.check(plain == (proof.not_representative != nullptr),
                       "%s: why step times are not representative: %s", with_.name,
                       proof.not_representative ? proof.not_representative : "nothing is said");
        verdict_.check((with_.layers > 0) == (proof.scaled != nullptr),
                       "%s: what stands for more: %s", with_.name,
                       proof.scaled ? proof.scaled : "nothing is said");
        const struct kvt_backend_imports &came = proof.imports;
        verdict_.check(
            with_.imports ? came.requests > 0 && came.joining_bytes > 0 && came.checked_pages > 0 &&
                                (came.beside_bytes > 0 || steps_ < 12)

                          : came.requests + came.beside_bytes + came.joining_bytes == 0,
            "%s: %llu requests came over the link, %llu bytes beside steps and %llu "
            "as they joined",
            with_.name, (unsigned long long)came.requests, (unsigned long long)came.beside_bytes,
            (unsigned long long)came.joining_bytes);
        double bound = with_.output_f32 ? 1e-3 : 3e-3;
        verdict_.check((proof.unequal_queries == 0) == (with_.corrupt_step == 0),
                       "%s: %llu of %llu checked queries differ: %s", with_.name,
                       (unsigned long long)proof.unequal_queries,
                       (unsigned long long)proof.checked_queries,
                       proof.first_unequal ? proof.first_unequal : "");
        const char *wrong = kvt_backend_proof_corruption(&proof);
        verdict_.check(with_.corrupt_step == 0 || !wrong, "%s: %s", with_.name, wrong);
        verdict_.check(with_.corrupt_step > 0 || proof.corrupted_rows == 0,
                       "%s: %llu rows are spoilt, though none was to be", with_.name,
                       (unsigned long long)proof.corrupted_rows);
        bool has_ring = drafter_ && drafter_->has_ring, runs = drafter_ && drafter_->runs;
        verdict_.check((proof.draft_rings > 0) == has_ring, "%s: %llu draft rings were compared",
                       with_.name, (unsigned long long)proof.draft_rings);
        verdict_.check(kvt_backend_runs_drafts(cuda_) == runs &&
                           (parts_ns_[KVT_PART_DRAFT] > 0) == runs,
                       "%s: drafting took %.0f ns; it is %s", with_.name, parts_ns_[KVT_PART_DRAFT],
                       runs ? "run" : "predicted");
        const char *words = cuda_->ops->describe(cuda_);
        verdict_.check(!drafter_ || (std::strstr(words, with_.drafter) &&
                                     (std::strstr(words, "is predicted") == nullptr) == runs),
                       "%s: what is said of its drafter: %s", with_.name, words);
        verdict_.check(proof.checked_queries > 0 && proof.double_queries > 0,
                       "%s: nothing was proven", with_.name);
        verdict_.check(proof.max_rel_error <= bound || with_.corrupt_step > 0 || stands_in,
                       "%s: %g from double precision, %g allowed", with_.name, proof.max_rel_error,
                       bound);
        std::printf("%-14s %4u steps %6llu calls %5llu proofs (%.1e) | missed %8llu staged %7llu "
                    "waves %4.0f | step %7.0f us:",
                    with_.name, steps_, (unsigned long long)proof.calls,
                    (unsigned long long)proof.checked_queries, proof.max_rel_error,
                    (unsigned long long)missed_, (unsigned long long)staged_, waves_,
                    measured_ns_ / steps_ / 1e3);
        for (int p = 0; p < KVT_PARTS; p++) {
            if (parts_ns_[p] > 0)
                std::printf(" %s %.0f", kvt_step_part_name((enum kvt_step_part)p),
                            parts_ns_[p] / steps_ / 1e3);
        }
        if (with_.imports)
            std::printf(" | %llu came: %.1f MB in %.0f us beside, %.1f MB in %.0f us joining, "
                        "waited %.0f us",
                        (unsigned long long)came.requests, (double)came.beside_bytes / 1e6,
                        came.beside_ns / 1e3, (double)came.joining_bytes / 1e6,
                        came.joining_ns / 1e3, came.waited_ns / 1e3);
        std::printf(" | %.2f s | %s\n", seconds, cuda_->ops->describe(cuda_));
        std::fflush(stdout);
    }

    /* A wrong row in a draft ring ends the run, in one sentence. */
    void draft_wrongly()
    {
        struct kvt_error err = {};
        std::vector<struct kvt_step_item> items;
        struct kvt_rank_step step = {};

        for (request &live : live_) {
            plan(live);
            items.push_back(item_of(live, 1));
        }
        step.items = items.data();
        step.item_count = (uint32_t)items.size();
        spoil_drafts(true);
        /* The ring of one request is compared in each step. */
        kvt_status status = KVT_OK;
        for (size_t i = 0; i < items.size() && status == KVT_OK; i++)
            status = cuda_->ops->step(cuda_, &step, 1, &err);
        spoil_drafts(false);
        verdict_.check(
            status == KVT_ERR_DEVICE && std::strstr(err.message, "holds other rows than were made"),
            "%s: wrong draft rows: %s, %s", with_.name, kvt_status_name(status), err.message);
    }

    /* What a release finds wrong is reported behind it, and harms nothing else. */
    void release_wrongly()
    {
        struct kvt_error err = {};
        size_t cached = 0;

        while (cached < live_.size() && live_[cached].hot_tokens == 0)
            cached++;
        verdict_.check(cached < live_.size(), "%s: nobody has a hot cache", with_.name);
        if (cached == live_.size())
            return;
        spoil_hashes(1);
        release(cached);
        spoil_hashes(0);
        for (int again = 0; again < 2; again++) {
            kvt_status status =
                again ? cuda_->ops->finish(cuda_, &err) : cuda_->ops->step(cuda_, nullptr, 0, &err);
            verdict_.check(status == KVT_ERR_DEVICE &&
                               std::strstr(err.message, "hold other rows than were planned"),
                           "%s: a release that failed: %s, %s", with_.name, kvt_status_name(status),
                           err.message);
        }
        while (!live_.empty()) {
            uint64_t before = decisions_[1];
            bool has_cache = live_.back().hot_tokens > 0;
            release(live_.size() - 1);
            verdict_.check((decisions_[1] != before) == has_cache,
                           "%s: the device does not answer behind a wrong release", with_.name);
        }
    }

  private:
    static bool is_hopper()
    {
        int major = 0, minor = 0;
        device::must(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0),
                     "cudaDeviceGetAttribute");
        device::must(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0),
                     "cudaDeviceGetAttribute");
        return major == 9 && minor == 0;
    }

    uint32_t requests() const
    {
        bool crowded = with_.staging_fraction > 0 && with_.staging_fraction < 0.1;
        return crowded || with_.large ? CROWD : REQUESTS;
    }

    uint32_t longest() const
    {
        return with_.large ? (uint32_t)LONGEST_LARGE : with_.longest;
    }

    void set_up(uint64_t seed)
    {
        cuda_params_.take(&kvt_backend_cuda.info);
        auto set = [&](int param, double value) {
            cuda_params_.values[(size_t)param].number = value;
        };
        set(KVT_CUDA_HOST_LAYOUT, with_.layers_apart);
        set(KVT_CUDA_FETCH_ORDER, with_.leader_first);
        set(KVT_CUDA_SHARED_TOKENS, with_.shared_tokens);
        set(KVT_CUDA_SHARED_CONTEXTS, 2);
        set(KVT_CUDA_CHECK_QUERIES, 3);
        set(KVT_CUDA_KERNELS, with_.reference);
        set(KVT_CUDA_OUTPUT, with_.output_f32);
        set(KVT_CUDA_CORRUPT_STEP, with_.corrupt_step);
        set(KVT_CUDA_LAYERS, with_.layers);
        set(KVT_CUDA_IMPORT, with_.imports);
        set(KVT_CUDA_BESIDE_INBOUND_MIB, with_.inbound_mib);
        set(KVT_CUDA_BESIDE_OUTBOUND_MIB, with_.outbound_mib);
        env_.params = cuda_params_.choice.params;
        env_.rank_count = with_.ranks;
        env_.rank_requests = requests();
        env_.rank_pages =
            (uint64_t)(requests() * (longest() / 64 + 2) * (with_.large ? with_.coverage : 1));
        env_.llm = &llm_;
        env_.replacement = replacement_.choice;
        env_.selection = law_.choice;
        env_.hot_tokens = with_.hot_tokens;
        env_.speculation.queries_max = with_.queries_max;
        env_.speculation.side_paths = with_.queries_max > 1;
        env_.speculation.side_tokens = with_.queries_max - 1;
        for (const struct shaped_drafter &shaped : drafters) {
            if (!with_.drafter || std::strcmp(shaped.drafter.name, with_.drafter) != 0)
                continue;
            drafter_ = &shaped;
            env_.drafter = &shaped.drafter;
            env_.speculation.draft_passes = shaped.passes;
        }
        env_.resolve_each_query = with_.each_query;
        env_.promotion = with_.promote ? KVT_PROMOTE_BY_COUNT : KVT_PROMOTE_NONE;
        env_.staging = kvt_staging_of(&llm_, with_.queries_max, with_.staging_fraction);
        env_.hierarchy = !with_.resident;
        env_.run_seed = seed;
        env_.longest_tokens = longest();
        env_.tp = env_.ep = with_.large ? 4 : 1;
        env_.output_tokens = 400;
        env_.threads = 16;
        env_.is_inspected = true;
        env_.scores_pages = watches() && std::strcmp(with_.law, "score") == 0;
    }

    bool opened(const struct kvt_backend_ops &ops, struct kvt_backend **out)
    {
        struct kvt_error err = {};
        return ops.open(&env_, out, &err) == KVT_OK || failed(err);
    }

    bool failed(const struct kvt_error &err)
    {
        if (failure_ && failure_->status == KVT_OK)
            *failure_ = err;
        if (failure_)
            return false;
        return verdict_.check(false, "%s: %s: %s", with_.name, err.where, err.message);
    }

    uint32_t below(uint32_t bound)
    {
        return (uint32_t)kvt_rng_below(&rng_, bound);
    }

    /* Whole while it has no hot cache. */
    uint64_t some_hot_tokens()
    {
        uint32_t draw = with_.resizes ? below(4) : 1;
        return draw == 0 ? 0 : draw == 1 ? with_.hot_tokens : with_.hot_tokens / draw;
    }

    void come_and_go()
    {
        for (size_t i = live_.size(); i > 0; i--) {
            if (below(24) == 0 ||
                live_[i - 1].context_tokens + 2 * with_.queries_max >= live_[i - 1].last_tokens)
                release(i - 1);
            else if (with_.resizes && below(12) == 0)
                resize(live_[i - 1]);
        }
        for (uint32_t r = 0; r < with_.ranks; r++) {
            uint32_t here = 0;
            for (const request &live : live_)
                here += live.rank == r;
            for (const request &coming : coming_)
                here += coming.rank == r;
            for (; here < requests() && (here < 2 || requests() == CROWD || below(3) == 0); here++)
                expect(r);
        }
        /* Whoever comes is admitted in the order in which they were expected, or not. */
        for (size_t i = coming_.size(); i > 0; i--) {
            if (with_.imports && steps_ > 0 && !with_.large && below(3) > 0)
                continue;
            admit(coming_[i - 1]);
            coming_.erase(coming_.begin() + (long)i - 1);
        }
    }

    static struct kvt_backend_admission admission_of(const request &live)
    {
        struct kvt_backend_admission admission = {};

        admission.request = live.id;
        admission.rank = live.rank;
        admission.context_tokens = live.context_tokens;
        admission.max_tokens = live.last_tokens;
        admission.last_tokens = live.last_tokens;
        admission.hot_tokens = live.hot_tokens;
        return admission;
    }

    void expect(uint32_t rank)
    {
        request live = {};
        struct kvt_error err = {};

        live.id = next_id_++;
        live.rank = rank;
        live.context_tokens = with_.large ? 100032 : 700 + below(longest() - 1200);
        live.last_tokens = live.context_tokens + 300;
        live.hot_tokens = some_hot_tokens();
        for (struct kvt_page_watch &watch : live.watch) {
            if (watches() && kvt_page_watch_init(&watch, longest() / 64 + 2, true,
                                                 env_.scores_pages, false, &err) != KVT_OK)
                failed(err);
        }
        live.ready.assign(longest() / 64 / 64 + 2, 0);
        const struct kvt_backend_admission admission = admission_of(live);
        if (cuda_->ops->expect(cuda_, &admission, &err) != KVT_OK)
            failed(err);
        coming_.push_back(live);
    }

    void admit(const request &live)
    {
        const struct kvt_backend_admission admission = admission_of(live);
        struct kvt_error err = {};

        for (struct kvt_backend *backend : {sim_, cuda_}) {
            if (backend->ops->admit(backend, &admission, &err) != KVT_OK)
                failed(err);
        }
        live_.push_back(live);
    }

    void release(size_t i)
    {
        sim_->ops->release(sim_, live_[i].id, &decisions_[0]);
        cuda_->ops->release(cuda_, live_[i].id, &decisions_[1]);
        for (struct kvt_page_watch &watch : live_[i].watch)
            kvt_page_watch_fini(&watch);
        live_.erase(live_.begin() + (long)i);
    }

    void resize(request &live)
    {
        struct kvt_error err = {};
        uint64_t hot_tokens = some_hot_tokens();
        if (sim_->ops->resize(sim_, live.id, hot_tokens, &decisions_[0], &err) != KVT_OK ||
            cuda_->ops->resize(cuda_, live.id, hot_tokens, &decisions_[1], &err) != KVT_OK)
            failed(err);
        live.hot_tokens = hot_tokens;
    }

    /* A round, and pages that come and go. */
    void plan(request &live)
    {
        uint32_t most = with_.queries_max; /* a crowd's rounds are long */
        uint32_t queries = requests() == CROWD && most > 1 ? most - below(2) : 1 + below(most);
        kvt_round_chain(&live.round, queries, 1 + below(queries));
        uint32_t left = kvt_pages_leaving(live.context_tokens, with_.queries_max);
        for (uint32_t p = 0; p < left; p++) {
            uint64_t bit = UINT64_C(1) << p % 64;
            if (below(20) > 0)
                continue;
            if (kvt_rng_unit(&rng_) < with_.coverage)
                live.ready[p / 64] |= bit;
            else
                live.ready[p / 64] &= ~bit;
        }
    }

    struct kvt_step_item item_of(request &live, int side)
    {
        struct kvt_step_item item = {};
        bool any = false;
        uint32_t left = kvt_pages_leaving(live.context_tokens, with_.queries_max);

        for (uint64_t word : live.ready)
            any = any || word != 0;
        item.request = live.id;
        item.context_tokens = live.context_tokens;
        item.step = live.step;
        item.round = &live.round;
        item.watch = watches() ? &live.watch[side] : nullptr;
        item.ready_bits = live.ready.data();
        item.ready_pages = live.hot_tokens == 0 ? (uint32_t)live.ready.size() * 64 : any ? left : 0;
        return item;
    }

    void commit(request &live)
    {
        live.context_tokens += live.round.committed_tokens;
        live.step++;
    }

    void same(const char *what, uint32_t request, double sim, double cuda)
    {
        if (sim != cuda || (equal_++ & 1023) == 0)
            verdict_.check(sim == cuda, "%s, step %u, request %u: %s is %.17g, not %.17g",
                           with_.name, steps_, request, what, cuda, sim);
    }

    void compare(const struct kvt_rank_step &sim, const struct kvt_rank_step &cuda)
    {
        const struct kvt_step_outcome &a = sim.outcome, &b = cuda.outcome;

        for (uint32_t i = 0; i < sim.item_count; i++) {
            const struct kvt_step_item &x = sim.items[i], &y = cuda.items[i];
            if (x.decisions != y.decisions || (equal_++ & 63) == 0)
                verdict_.check(x.decisions == y.decisions,
                               "%s, step %u, request %u behind %u tokens, %u queries: decisions "
                               "%016llx, not %016llx",
                               with_.name, steps_, x.request, x.context_tokens,
                               x.round->query_count, (unsigned long long)y.decisions,
                               (unsigned long long)x.decisions);
            same("selected rows", x.request, (double)x.selected_rows, (double)y.selected_rows);
            same("missed rows", x.request, (double)x.missed_rows, (double)y.missed_rows);
        }
        same("calls", 0, a.load.calls, b.load.calls);
        same("looked up", 0, a.load.looked_up_rows, b.load.looked_up_rows);
        same("missed layer rows", 0, a.load.missed_layer_rows, b.load.missed_layer_rows);
        same("granules", 0, a.load.granules, b.load.granules);
        same("extra waves", 0, a.load.extra_waves, b.load.extra_waves);
        same("payload bytes", 0, a.payload_bytes, b.payload_bytes);
        same("staging peak", 0, (double)a.staging_peak_bytes, (double)b.staging_peak_bytes);
        verdict_.check(std::memcmp(a.rows, b.rows, sizeof a.rows) == 0,
                       "%s, step %u: rows of strata differ", with_.name, steps_);
        verdict_.check(std::memcmp(a.counts, b.counts, sizeof a.counts) == 0,
                       "%s, step %u: counts differ", with_.name, steps_);
        for (const struct kvt_row_counts &rows : a.rows) {
            missed_ += rows.missed;
            staged_ += rows.staged;
        }
        waves_ += a.load.extra_waves;
        measured_ns_ += cuda.item_count > 0 ? (double)b.measured_ns : 0;
        double told_ns = 0;
        for (int p = 0; p < KVT_PARTS; p++) {
            parts_ns_[p] += b.measured_parts_ns[p];
            told_ns += b.measured_parts_ns[p];
        }
        if (cuda.item_count > 0)
            compare_traffic(b);
        if (cuda.item_count > 0 && !stands_in) /* whose events have one time */
            verdict_.check(told_ns > 0.8 * (double)b.measured_ns &&
                               told_ns < 1.01 * (double)b.measured_ns,
                           "%s, step %u: families of %.0f us in a step of %.0f", with_.name, steps_,
                           told_ns / 1e3, (double)b.measured_ns / 1e3);
    }

    /* Beside what was asked for there are imports, and backups. */
    void compare_traffic(const struct kvt_step_outcome &cuda)
    {
        uint64_t inbound = (uint64_t)with_.inbound_mib << 20;
        uint64_t outbound = (uint64_t)with_.outbound_mib << 20;

        verdict_.check(cuda.beside_outbound_bytes >= outbound &&
                           (with_.imports ? cuda.beside_inbound_bytes >= inbound
                                          : cuda.beside_inbound_bytes == inbound),
                       "%s, step %u: %llu bytes came beside it and %llu went, of %llu and %llu",
                       with_.name, steps_, (unsigned long long)cuda.beside_inbound_bytes,
                       (unsigned long long)cuda.beside_outbound_bytes, (unsigned long long)inbound,
                       (unsigned long long)outbound);
    }

    /* What is selected of pages, and how it scores. */
    bool watches() const
    {
        return !with_.resident && !with_.large;
    }

    void compare_watches()
    {
        for (const request &live : live_) {
            const struct kvt_page_watch &a = live.watch[0], &b = live.watch[1];
            if (!watches())
                continue;
            verdict_.check(std::memcmp(a.hits, b.hits, a.page_count * sizeof *a.hits) == 0,
                           "%s, step %u, request %u: hits of pages differ", with_.name, steps_,
                           live.id);
            if (a.scores)
                verdict_.check(
                    std::memcmp(a.scores, b.scores, a.page_count * sizeof *a.scores) == 0,
                    "%s, step %u, request %u: scores of pages differ", with_.name, steps_, live.id);
        }
    }

    void compare_hashes()
    {
        if (!sim_->ops->state_hashes || with_.resident)
            return;
        for (const request &live : live_) {
            uint64_t a[KVT_STORES_MAX], b[KVT_STORES_MAX];
            struct kvt_error err = {};
            if (sim_->ops->state_hashes(sim_, live.id, a, &err) != KVT_OK ||
                cuda_->ops->state_hashes(cuda_, live.id, b, &err) != KVT_OK) {
                failed(err);
                return;
            }
            for (uint32_t s = 0; s < llm_.store_count; s++)
                verdict_.check(a[s] == b[s], "%s, step %u, request %u, store %u: state differs",
                               with_.name, steps_, live.id, s);
        }
    }

    /* What the device selected, for the law "indexer". */
    static uint32_t read(void *context, uint32_t request, uint32_t selector, uint32_t query,
                         uint32_t *rows)
    {
        bench *both = (bench *)context;
        struct kvt_backend *cuda = both->cuda_;
        struct kvt_error err = {};
        uint32_t count = 0;
        return cuda->ops->selection(cuda, request, selector, query, rows, &count, &err) == KVT_OK ||
                       both->failed(err)
                   ? count
                   : 0;
    }

    const setting &with_;
    struct kvt_law_source source_ = {};
    device::tally &verdict_;
    struct kvt_error *failure_;
    struct kvt_llm llm_;
    struct kvt_rng rng_;
    struct kvt_wall start_ = kvt_wall_now();
    chosen law_, replacement_, cuda_params_;
    const struct shaped_drafter *drafter_ = nullptr;
    struct kvt_backend_env env_ = {};
    struct kvt_backend *sim_ = nullptr, *cuda_ = nullptr;
    std::vector<request> live_, coming_;
    uint32_t next_id_ = 0, steps_ = 0;
    uint64_t decisions_[2] = {0, 0}, equal_ = 0, missed_ = 0, staged_ = 0;
    double waves_ = 0, measured_ns_ = 0, parts_ns_[KVT_PARTS] = {};
};

void run(const setting &with, uint32_t steps, uint64_t seed, device::tally &verdict)
{
    bench both(with, seed, verdict);
    struct kvt_wall start = kvt_wall_now();

    if (both.open(seed)) {
        int failures = verdict.failed;
        bool going = true;
        for (uint32_t i = 0; i < steps && going && verdict.failed < failures + 8; i++)
            going = both.step();
        if (going)
            both.finish(kvt_wall_seconds_since(start));
    }
    both.close();
}

/* What cannot be is refused in one sentence, with nothing left behind. */
void refuse_all(device::tally &verdict)
{
    using env = struct kvt_backend_env;
    using llm = struct kvt_llm;
    using params = std::vector<struct kvt_param_value>;
    const setting with = settings[2];
    static const double no_device = 999, half[] = {0.5}, beside[] = {-1, 0}, twice[] = {0, 0};

    auto refuse = [&](const char *what, kvt_status expected, const char *words,
                      const std::function<void(env &, llm &, params &)> &change) {
        bench one(with, 1, verdict);
        if (one.prepare(1))
            one.refuse(what, expected, words, change);
        one.close();
    };
    refuse("pages beyond the device", KVT_ERR_NOMEM, "GiB of device memory",
           [](env &e, llm &m, params &) {
               e.rank_requests = 64;
               e.longest_tokens = m.max_position_tokens = 1 << 24;
               e.rank_pages = UINT64_C(64) << 18;
           });
    refuse("host rows beyond the setting", KVT_ERR_NOMEM, "may be pinned",
           [](env &, llm &, params &p) { p[KVT_CUDA_HOST_POOL_GIB].number = 0.001; });
    refuse("no such GPU", KVT_ERR_INVALID, "there is no GPU 999",
           [](env &, llm &, params &p) { p[KVT_CUDA_DEVICES].list = &no_device; });
    refuse("no list of GPUs", KVT_ERR_INVALID, "no GPU is named",
           [](env &, llm &, params &p) { p[KVT_CUDA_DEVICES].list_length = 0; });
    refuse("half a GPU", KVT_ERR_INVALID, "0.5 is not the number of a GPU",
           [](env &, llm &, params &p) { p[KVT_CUDA_DEVICES].list = half; });
    refuse("all GPUs, and one", KVT_ERR_INVALID, "stands alone", [](env &, llm &, params &p) {
        p[KVT_CUDA_DEVICES].list = beside;
        p[KVT_CUDA_DEVICES].list_length = 2;
    });
    refuse("a GPU twice", KVT_ERR_INVALID, "named twice", [](env &, llm &, params &p) {
        p[KVT_CUDA_DEVICES].list = twice;
        p[KVT_CUDA_DEVICES].list_length = 2;
    });
    refuse("a top-k without kernel", KVT_ERR_UNSUPPORTED, "top-k of 100",
           [](env &, llm &m, params &) { m.top_k = 100; });
    refuse("rows without kernel", KVT_ERR_UNSUPPORTED, "640 bytes",
           [](env &, llm &m, params &) { m.payload.capacity_bytes = 640; });
    refuse("layers that cut a store", KVT_ERR_INVALID, "2 and 6 hold whole ones",
           [](env &, llm &, params &p) { p[KVT_CUDA_LAYERS].number = 3; });
    refuse("more layers than there are", KVT_ERR_INVALID, "small has 8",
           [](env &, llm &, params &p) { p[KVT_CUDA_LAYERS].number = 9; });
    refuse("a sampled run", KVT_ERR_UNSUPPORTED, "exact",
           [](env &e, llm &, params &) { e.sample_stores = 1; });
    refuse("a stop while memory is pinned", KVT_ERR_INTERRUPTED, "stopped",
           [](env &e, llm &, params &) {
               e.on_prepare = [](void *, double, const char *) { return false; };
           });
}

const setting *find_setting(const char *name)
{
    for (const setting &with : settings) {
        if (std::strcmp(with.name, name) == 0)
            return &with;
    }
    return nullptr;
}

void fail_release(device::tally &verdict)
{
    bench one(*find_setting("planned-k1"), 1, verdict);

    if (one.open(1) && one.step() && one.step())
        one.release_wrongly();
    one.close();
}

void fail_draft(device::tally &verdict)
{
    for (const setting &with : settings) {
        if (std::strcmp(with.name, "fast-k4") != 0)
            continue;
        bench one(with, 1, verdict);
        if (one.open(1) && one.step() && one.step())
            one.draft_wrongly();
        one.close();
    }
}

} // namespace

int main(int argc, char **argv)
{
    uint32_t steps = 24;
    uint64_t seed = 1;
    std::vector<std::string> names;
    device::tally verdict;

    device::require();
    for (int i = 1; i < argc; i++) {
        if (std::strcmp(argv[i], "-s") == 0 && i + 1 < argc)
            steps = (uint32_t)std::atoi(argv[++i]);
        else if (std::strcmp(argv[i], "-r") == 0 && i + 1 < argc)
            seed = (uint64_t)std::atoll(argv[++i]);
        else if (std::strcmp(argv[i], "--stand-in") == 0)
            stands_in = true;
        else
            names.push_back(argv[i]);
    }
    for (const setting &with : settings) {
        bool wanted = names.empty() && !with.large;
        for (const std::string &name : names)
            wanted = wanted || name == with.name;
        if (wanted)
            run(with, steps, seed, verdict);
    }
    if (names.empty())
        refuse_all(verdict);
    if (names.empty() && spoil_hashes)
        fail_release(verdict);
    if (provoke_faults && (names.empty() || names[0] == "faults"))
        provoke_faults(verdict);
    if (names.empty() && spoil_drafts)
        fail_draft(verdict);
    return verdict.close();
}
