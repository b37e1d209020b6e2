/* stand_in_kernels.cc -- the kernels of launch.h on the CPU, in their plainest form, by the words
 * there and in docs/resolver.md.
 *
 * Attention is a hash of its rows' bytes in their order, of its query and of how many pieces there
 * are: any wrong row shows, and no number means anything. */
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "cuda_error.h"
#include "dense.h"
#include "draft_dense.h"
#include "kvt/hash.h"
#include "kvt/waves.h"
#include "launch.h"
#include "rows.h"
#include "stand_in.h"

using stand_in::launch;
using stand_in::make;

namespace
{

/* ---- Resolver ------------------------------------------------------------------------- */

using resolve_call = struct kvt_gpu_resolve;

/* One request's call, and the tables that are its lane's. */
struct request_call {
    const resolve_call &call;
    const struct kvt_gpu_request &request;
    uint32_t index, slots, tail_first_row, page_rows;
    uint32_t *slot_rows, *missed, *promoted;
    uint16_t *order, *slot_of_row;
    int32_t *missed_places;
    const int32_t *frames;

    request_call(const resolve_call &call, uint32_t index)
        : call(call), request(call.requests[index]), index(index),
          slots(call.hot.slot_counts[request.lane]), page_rows(KVT_GPU_PAGE_ROWS / call.ratio),
          slot_rows(call.hot.slot_rows + (size_t)request.lane * call.hot.slots_max),
          missed(call.missed + (size_t)index * call.missed_stride),
          promoted(call.promoted + 2 * (size_t)index * call.missed_stride),
          order(call.hot.order + (size_t)request.lane * call.hot.slots_max),
          slot_of_row(call.hot.slot_of_row + (size_t)request.lane * call.hot.rows_max),
          missed_places(call.missed_places + (size_t)index * call.missed_stride),
          frames(call.frames + (size_t)request.lane * call.frame_stride)
    {
        uint32_t rows = (request.context_tokens + request.query_count) / call.ratio;
        tail_first_row = rows > KVT_GPU_TAIL_ROWS ? rows - KVT_GPU_TAIL_ROWS : 0;
    }
    int32_t tail_place(uint32_t row) const
    {
        return call.places.tail0 +
               (int32_t)(request.lane * KVT_GPU_TAIL_ROWS + row % KVT_GPU_TAIL_ROWS);
    }
    int32_t hot_place(uint32_t slot) const
    {
        return call.places.hot0 + (int32_t)request.lane * call.places.hot_stride + (int32_t)slot;
    }
    bool in_frame(uint32_t row) const
    {
        return row / page_rows < request.frame_count && frames[row / page_rows] != KVT_GPU_NONE;
    }
    int32_t frame_place(uint32_t row) const
    {
        return call.places.frame0 + frames[row / page_rows] * (int32_t)page_rows +
               (int32_t)(row % page_rows);
    }
    int32_t staged_place(uint32_t m) const
    {
        return call.staging_share > 0
                   ? call.places.staging0 + (int32_t)(index * call.staging_share + m)
                   : -2 - (int32_t)m;
    }
};

/* The rules of docs/resolver.md, one after the other. */
class resolver
{
  public:
    resolver(const resolve_call &call, uint32_t index) : at_(call, index)
    {
    }
    void run()
    {
        list_union();
        look_up();
        if (counts_.tail_rows + counts_.page_rows < counts_.union_rows)
            choose();
        else
            counts_.skipped = 1;
        for (uint32_t i = 0; i < at_.request.query_count * at_.call.top_k; i++) {
            size_t entry = (size_t)at_.request.first_query * at_.call.top_k + i;
            int32_t row = at_.call.selections[entry];
            at_.call.row_places[entry] = row == KVT_GPU_NONE ? row : places_.at((uint32_t)row);
        }
        at_.call.counts[at_.index] = counts_;
    }

  private:
    void list_union()
    {
        for (uint32_t i = 0; i < at_.request.query_count * at_.call.top_k; i++) {
            int32_t row = at_.call.selections[(size_t)at_.request.first_query * at_.call.top_k + i];
            if (row != KVT_GPU_NONE && selected_[(uint32_t)row]++ == 0)
                union_.push_back((uint32_t)row);
        }
        counts_.union_rows = (uint32_t)union_.size();
    }
    void look_up()
    {
        hit_.assign(at_.slots, false);
        for (uint32_t row : union_) {
            uint32_t count = selected_[row];
            counts_.selected += count;
            if (row >= at_.tail_first_row) {
                counts_.tail_rows++, counts_.tail_selected += count;
                places_[row] = at_.tail_place(row);
            } else if (at_.in_frame(row)) {
                counts_.page_rows++, counts_.page_selected += count;
                places_[row] = at_.frame_place(row);
            } else if (at_.slots > 0 && at_.slot_of_row[row] != UINT16_MAX) {
                counts_.hot_rows++, counts_.hot_selected += count;
                hit_[at_.slot_of_row[row]] = true;
                places_[row] = at_.hot_place(at_.slot_of_row[row]);
            } else {
                counts_.missed_selected += count;
                missed_.push_back(row);
            }
        }
    }
    void put(uint32_t slot, uint32_t row)
    {
        if (at_.slot_rows[slot] != UINT32_MAX)
            at_.slot_of_row[at_.slot_rows[slot]] = UINT16_MAX;
        at_.slot_rows[slot] = row;
        at_.slot_of_row[row] = (uint16_t)slot;
        counts_.placed_hash += kvt_mix64(((uint64_t)slot << 32 | row) + 1);
    }
    void choose()
    {
        std::vector<uint16_t> unused, filled, hits;
        for (uint32_t o = 0; o < at_.slots; o++) {
            uint16_t slot = at_.order[o];
            (hit_[slot] ? hits : filled.size() < missed_.size() ? filled : unused).push_back(slot);
        }
        for (size_t m = 0; m < filled.size(); m++) {
            put(filled[m], missed_[m]);
            places_[missed_[m]] = at_.hot_place(filled[m]);
        }
        counts_.filled_rows = (uint32_t)filled.size();
        counts_.staged_rows = (uint32_t)(missed_.size() - filled.size());
        for (uint32_t m = 0; m < counts_.staged_rows; m++)
            places_[missed_[filled.size() + m]] = at_.staged_place(m);
        unused.insert(unused.end(), filled.begin(), filled.end());
        unused.insert(unused.end(), hits.begin(), hits.end());
        std::copy(unused.begin(), unused.end(), at_.order);
        for (size_t m = 0; m < missed_.size(); m++) {
            at_.missed[m] = missed_[m];
            at_.missed_places[m] = places_[missed_[m]];
        }
        if (at_.call.promote_by_count)
            promote();
    }
    uint32_t count_of_slot(uint32_t slot) const
    {
        auto found = selected_.find(at_.slot_rows[slot]);
        return found == selected_.end() ? 0 : found->second;
    }
    void promote()
    {
        std::vector<uint32_t> staged(missed_.begin() + counts_.filled_rows, missed_.end());
        std::vector<uint32_t> slots(at_.slots), counts(at_.slots);
        for (uint32_t s = 0; s < at_.slots; s++) {
            slots[s] = s;
            counts[s] = count_of_slot(s);
        }
        std::stable_sort(staged.begin(), staged.end(),
                         [&](uint32_t a, uint32_t b) { return selected_[a] > selected_[b]; });
        std::stable_sort(slots.begin(), slots.end(),
                         [&](uint32_t a, uint32_t b) { return counts[a] < counts[b]; });
        for (size_t p = 0;
             p < staged.size() && p < slots.size() && selected_[staged[p]] > counts[slots[p]];
             p++) {
            at_.promoted[2 * p] = (uint32_t)places_[staged[p]];
            at_.promoted[2 * p + 1] = (uint32_t)at_.hot_place(slots[p]);
            put(slots[p], staged[p]);
            counts_.promoted_rows++;
        }
    }

    request_call at_;
    struct kvt_gpu_counts counts_ = {};
    std::map<uint32_t, uint32_t> selected_; /* by how many queries */
    std::map<uint32_t, int32_t> places_;
    std::vector<uint32_t> union_, missed_;
    std::vector<bool> hit_;
};

/* ---- Copies of rows ------------------------------------------------------------------- */

enum which_rows {
    ROWS_MISSED,
    ROWS_FILLED,
    ROWS_STAGED
};

void copy_row(const resolve_call &call, uint32_t lane, uint32_t row, int32_t place,
              uint32_t first_layer, uint32_t end_layer)
{
    bool shared = row < call.host.shared_rows[lane];
    uint64_t at = row + (shared ? call.host.shared_at : call.host.own_at)[lane];
    for (uint32_t j = first_layer; j < end_layer; j++)
        std::memcpy(call.pool + ((size_t)place * call.layers + j) * call.layer_bytes,
                    call.host.base + at * call.host.row_stride + j * call.host.layer_stride,
                    call.layer_bytes);
}

void gather(const resolve_call &call, which_rows which, uint32_t wave, uint32_t first_layer,
            uint32_t end_layer)
{
    for (uint32_t i = 0; i < call.request_count; i++) {
        const struct kvt_gpu_counts &counts = call.counts[i];
        const size_t at = (size_t)i * call.missed_stride;
        uint32_t first = which == ROWS_STAGED ? counts.filled_rows : 0;
        uint32_t end = counts.filled_rows + (which == ROWS_FILLED ? 0 : counts.staged_rows);
        for (uint32_t m = first; m < end && (which != ROWS_STAGED || counts.wave == wave); m++)
            copy_row(call, call.requests[i].lane, call.missed[at + m], call.missed_places[at + m],
                     first_layer, end_layer);
    }
}

/* What comes with a decision: staged rows too, unless the arena is shared in waves. */
void gather_decided(const resolve_call &call, uint32_t first_layer, uint32_t end_layer)
{
    gather(call, call.staging_share > 0 ? ROWS_MISSED : ROWS_FILLED, 0, first_layer, end_layer);
}

void gather_fetch(const resolve_call &call)
{
    if (call.fetch != KVT_GPU_FETCH_NONE)
        gather_decided(call, 0, call.fetch == KVT_GPU_FETCH_LEADER ? 1 : call.layers);
}

void settle_wave(const resolve_call &call, uint32_t i, uint32_t first_row)
{
    const request_call at(call, i);
    const struct kvt_gpu_counts &counts = call.counts[i];
    auto settle = [&](int32_t place) {
        return place < KVT_GPU_NONE ? call.places.staging0 + (int32_t)first_row + (-2 - place)
                                    : place;
    };
    int32_t *places = call.row_places + (size_t)at.request.first_query * call.top_k;
    for (uint32_t p = 0; p < at.request.query_count * call.top_k; p++)
        places[p] = settle(places[p]);
    for (uint32_t m = 0; m < counts.filled_rows + counts.staged_rows; m++)
        at.missed_places[m] = settle(at.missed_places[m]);
    for (uint32_t p = 0; p < counts.promoted_rows; p++)
        at.promoted[2 * p] = (uint32_t)settle((int32_t)at.promoted[2 * p]);
}

void share_waves(const resolve_call &call, uint64_t arena_rows, uint32_t *wave_count)
{
    std::vector<uint32_t> staged(call.request_count), waves(call.request_count);
    uint64_t peak;
    for (uint32_t i = 0; i < call.request_count; i++)
        staged[i] = call.counts[i].staged_rows;
    *wave_count =
        kvt_waves_make(staged.data(), call.request_count, arena_rows, waves.data(), &peak);
    for (uint32_t i = 0; i < call.request_count; i++) {
        uint32_t first_row = 0;
        for (uint32_t j = 0; j < i; j++)
            first_row += waves[j] == waves[i] ? staged[j] : 0;
        call.counts[i].wave = waves[i];
        settle_wave(call, i, first_row);
    }
}

/* ---- Attention, rows ------------------------------------------------------------------ */

void attend_query(const struct kvt_gpu_attend &attend, uint32_t query, uint32_t splits)
{
    uint32_t words = kvt_made_layer_bytes(attend.format) / 8;
    uint32_t dim = attend.format == KVT_GPU_ROW_FP4_288 ? KVT_GPU_LATENT : KVT_GPU_HEAD;
    uint64_t hash = splits, word;

    for (uint32_t k = 0; k < attend.k; k++) {
        int32_t place = attend.places[(size_t)query * attend.k + k];
        if (place == KVT_GPU_NONE)
            break;
        if (place < KVT_GPU_NONE) {
            std::fprintf(stderr, "query %u reads a staged row that has no place\n", query);
            std::abort();
        }
        for (uint32_t w = 0; w < words; w++) {
            std::memcpy(&word, attend.rows + (size_t)place * attend.row_bytes + 8 * w, 8);
            hash = hash * UINT64_C(0x9e3779b97f4a7c15) + word + (hash >> 29);
        }
    }
    for (uint32_t w = 0; w < dim / 4; w++) {
        std::memcpy(&word, (const uint16_t *)attend.q + (size_t)query * attend.heads * dim + 4 * w,
                    8);
        hash = hash * UINT64_C(0x9e3779b97f4a7c15) + word;
    }
    size_t out_words = (size_t)attend.heads * KVT_GPU_LATENT * (attend.out_is_float ? 4 : 2) / 8;
    for (size_t w = 0; w < out_words; w++)
        ((uint64_t *)attend.out)[query * out_words + w] =
            kvt_mix64(hash + w) & UINT64_C(0xbfffbfffbfffbfff); /* finite, bf16 and f32 alike */
}

/* Layers lie layer_stride apart. */
void make_row(const struct kvt_gpu_make_rows &make, uint32_t row, uint8_t *dst)
{
    uint64_t words[2];
    for (uint32_t j = 0; j < make.layers; j++) {
        uint64_t stream = kvt_made_stream(KVT_MADE_ROW, make.context_id, make.first_layer + j, row);
        for (uint32_t chunk = 0; chunk < kvt_made_layer_bytes(make.format) / 16; chunk++) {
            kvt_made_row_chunk(&kvt_made_tables, make.format, stream, chunk, words);
            std::memcpy(dst + j * make.layer_stride + 16 * chunk, words, 16);
        }
    }
}

void append_rows(const struct kvt_gpu_append &append)
{
    for (uint32_t i = 0; i < append.request_count; i++) {
        const struct kvt_gpu_request &request = append.requests[i];
        struct kvt_gpu_make_rows make = {};
        make.context_id = request.context_id;
        make.first_layer = append.first_layer;
        make.layers = append.layers;
        make.format = append.format;
        make.layer_stride = append.layer_bytes;
        uint32_t end = (request.context_tokens + request.query_count) / append.ratio;
        for (uint32_t row = request.context_tokens / append.ratio; row < end; row++)
            make_row(make, row,
                     append.pool + ((size_t)append.tail0 + request.lane * KVT_GPU_TAIL_ROWS +
                                    row % KVT_GPU_TAIL_ROWS) *
                                       append.layers * append.layer_bytes);
    }
}

/* ---- Draft rows ------------------------------------------------------------------------ */

uint8_t *draft_row(const struct kvt_gpu_draft_ring &ring, uint32_t lane, uint32_t layer,
                   uint32_t position)
{
    return ring.rows +
           (((size_t)lane * ring.layers + layer) * ring.ring_rows + position % ring.ring_rows) *
               ring.row_bytes;
}

/* The chunks of one draft row, in order, each with its place. */
template <typename Visit>
void visit_draft_row(const struct kvt_gpu_draft_ring &ring,
                     const struct kvt_gpu_draft_request &request, uint32_t layer, uint32_t position,
                     Visit visit)
{
    uint64_t words[2],
        stream = kvt_made_draft_stream(request.context_id, layer, position, request.context_tokens);
    for (uint32_t chunk = 0; chunk < ring.row_bytes / 16; chunk++) {
        kvt_made_row_chunk(&kvt_made_tables, ring.values, stream, chunk, words);
        visit(draft_row(ring, request.lane, layer, position) + 16 * chunk, words);
    }
}

uint32_t first_drafted(const struct kvt_gpu_draft_ring &ring,
                       const struct kvt_gpu_draft_request &request)
{
    uint32_t seen = request.context_tokens + 1;
    uint32_t by_window = seen > ring.window_tokens ? seen - ring.window_tokens : 0;
    return std::max(request.lost_tokens, by_window);
}

struct kvt_gpu_draft_verdict compare_draft(const struct kvt_gpu_draft_ring &ring,
                                           const struct kvt_gpu_draft_request &request)
{
    struct kvt_gpu_draft_verdict verdict = {0, UINT64_MAX};
    for (uint32_t layer = 0; layer < ring.layers; layer++) {
        for (uint32_t p = first_drafted(ring, request);
             p < request.context_tokens + request.block_tokens; p++)
            visit_draft_row(ring, request, layer, p, [&](uint8_t *at, const uint64_t *words) {
                if (std::memcmp(at, words, 16) == 0)
                    return;
                verdict.unequal_chunks++;
                verdict.first = std::min(verdict.first, (uint64_t)layer << 32 | p);
            });
    }
    return verdict;
}

void append_draft(const struct kvt_gpu_draft_ring &ring,
                  const struct kvt_gpu_draft_request &request)
{
    uint32_t end = request.context_tokens + request.block_tokens;
    for (uint32_t layer = 0; layer < ring.layers; layer++) {
        for (uint32_t p = std::max(request.settled_tokens, request.lost_tokens); p < end; p++)
            visit_draft_row(ring, request, layer, p,
                            [](uint8_t *at, const uint64_t *words) { std::memcpy(at, words, 16); });
    }
}

/* Rows at equal distances: a selection like any other, as far as the host is concerned. */
void choose_rows(const struct kvt_gpu_topk &topk, uint32_t query)
{
    const struct kvt_gpu_query &of = topk.queries[query];
    uint32_t visible = (topk.requests[of.request].context_tokens + of.depth + 1) / topk.ratio;
    uint32_t count = std::min(visible, topk.k);

    if (visible > topk.rows_max) {
        std::fprintf(stderr, "%u rows are launched for, and query %u sees %u\n", topk.rows_max,
                     query, visible);
        std::abort();
    }
    for (uint32_t i = 0; i < topk.k; i++)
        topk.rows[(size_t)query * topk.k + i] =
            i < count ? (int32_t)((uint64_t)i * visible / count) : KVT_GPU_NONE;
}

} // namespace

extern "C" {

/* ---- Launchers ------------------------------------------------------------------------ */

kvt_status kvt_dense_shape_make(const struct kvt_llm *, uint32_t, uint32_t,
                                struct kvt_dense_shape *, struct kvt_error *)
{
    return KVT_OK;
}
kvt_status kvt_dense_new(const struct kvt_dense_shape *, uint32_t, struct kvt_dense **out,
                         struct kvt_error *err)
{
    return kvt_cuda_check(make(out), "the dense part", err);
}
void kvt_dense_free(struct kvt_dense *dense)
{
    stand_in::give_back(dense);
}
kvt_status kvt_dense_enqueue(struct kvt_dense *, uint32_t, uint32_t, cudaStream_t,
                             struct kvt_error *)
{
    return KVT_OK;
}

struct kvt_draft_dense_shape kvt_draft_dense_shape_make(const struct kvt_drafter *drafter, uint32_t)
{
    struct kvt_draft_dense_shape shape = {};
    shape.heads = drafter->pass.heads;
    shape.kv_heads = drafter->kv_heads;
    return shape;
}
kvt_status kvt_draft_dense_new(const struct kvt_draft_dense_shape *, uint32_t, uint32_t,
                               struct kvt_draft_dense **out, struct kvt_error *err)
{
    return kvt_cuda_check(make(out), "the drafter's dense part", err);
}
void kvt_draft_dense_free(struct kvt_draft_dense *dense)
{
    stand_in::give_back(dense);
}
kvt_status kvt_draft_dense_enqueue(struct kvt_draft_dense *, enum kvt_draft_products, uint32_t,
                                   uint32_t, uint32_t, cudaStream_t, struct kvt_error *)
{
    return KVT_OK;
}

cudaError_t kvt_gpu_draft_append(const struct kvt_gpu_draft_ring *of,
                                 const struct kvt_gpu_draft_request *requests,
                                 uint32_t request_count, cudaStream_t)
{
    return launch([=, ring = *of] {
        for (uint32_t i = 0; i < request_count; i++)
            append_draft(ring, requests[i]);
        if (stand_in::wrong_draft && requests[0].context_tokens > 0)
            *draft_row(ring, requests[0].lane, ring.layers - 1, requests[0].context_tokens - 1) =
                0x7f; /* NaN, which no row has */
    });
}
cudaError_t kvt_gpu_draft_compare(const struct kvt_gpu_draft_ring *of,
                                  const struct kvt_gpu_draft_request *request,
                                  struct kvt_gpu_draft_verdict *verdict, cudaStream_t)
{
    return launch([=, ring = *of] { *verdict = compare_draft(ring, *request); });
}
uint64_t kvt_gpu_draft_workspace_bytes(uint32_t, uint32_t)
{
    return 0;
}
/* No number: but every row that the pass reads is there when it reads. */
cudaError_t kvt_gpu_draft_attend(const struct kvt_gpu_draft_attend *of, cudaStream_t)
{
    return launch([attend = *of] {
        for (uint32_t i = 0; i < attend.request_count; i++) {
            const struct kvt_gpu_draft_request &request = attend.requests[i];
            if (request.block_tokens > attend.block_max ||
                request.first_token + request.block_tokens > attend.token_count) {
                std::fprintf(stderr, "tokens %u to %u of a pass are not among its %u\n",
                             request.first_token, request.first_token + request.block_tokens,
                             attend.token_count);
                std::abort();
            }
            if (!stand_in::wrong_draft && compare_draft(attend.ring, request).unequal_chunks > 0) {
                std::fprintf(stderr, "the pass of request %u finds other rows than were made\n",
                             request.context_id);
                std::abort();
            }
        }
    });
}

cudaError_t kvt_gpu_scan(const struct kvt_gpu_scan *, cudaStream_t)
{
    return cudaSuccess;
}
cudaError_t kvt_gpu_topk(const struct kvt_gpu_topk *topk, cudaStream_t)
{
    return launch([topk = *topk] {
        for (uint32_t q = 0; q < topk.query_count; q++)
            choose_rows(topk, q);
    });
}

size_t kvt_gpu_resolve_workspace_bytes(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t)
{
    return 0;
}
bool kvt_gpu_resolve_is_fast(const resolve_call *resolve)
{
    return resolve->hot.slots_max <= 16384;
}
cudaError_t kvt_gpu_resolve(const resolve_call *resolve, cudaStream_t)
{
    return launch([call = *resolve] {
        for (uint32_t i = 0; i < call.request_count; i++)
            resolver(call, i).run();
        gather_fetch(call);
    });
}
cudaError_t kvt_gpu_promote(const resolve_call *resolve, uint32_t wave, cudaStream_t)
{
    return launch([call = *resolve, wave] {
        size_t bytes = (size_t)call.layers * call.layer_bytes;
        for (uint32_t i = 0; i < call.request_count; i++) {
            const request_call at(call, i);
            for (uint32_t p = 0; p < call.counts[i].promoted_rows && call.counts[i].wave == wave;
                 p++)
                std::memcpy(call.pool + at.promoted[2 * p + 1] * bytes,
                            call.pool + at.promoted[2 * p] * bytes, bytes);
        }
    });
}
cudaError_t kvt_gpu_fetch_followers(const resolve_call *resolve, uint32_t first_layer,
                                    uint32_t end_layer, cudaStream_t stream)
{
    stand_in::note_fetch(*resolve, stream);
    return launch([call = *resolve, first_layer, end_layer] {
        gather_decided(call, first_layer, end_layer);
    });
}
cudaError_t kvt_gpu_waves(const resolve_call *resolve, uint64_t arena_rows, uint32_t *wave_count,
                          cudaStream_t)
{
    return launch([=, call = *resolve] { share_waves(call, arena_rows, wave_count); });
}
cudaError_t kvt_gpu_fetch_wave(const resolve_call *resolve, uint32_t wave, cudaStream_t)
{
    return launch([call = *resolve, wave] { gather(call, ROWS_STAGED, wave, 0, call.layers); });
}
cudaError_t kvt_gpu_hot_reset(const struct kvt_gpu_hot *of, uint32_t lane, cudaStream_t)
{
    return launch([hot = *of, lane] {
        size_t first = (size_t)lane * hot.slots_max;
        for (uint32_t s = 0; s < hot.slots_max; s++) {
            hot.slot_rows[first + s] = UINT32_MAX;
            hot.order[first + s] = (uint16_t)s;
        }
        std::fill_n(hot.slot_of_row + (size_t)lane * hot.rows_max, hot.rows_max, UINT16_MAX);
    });
}
cudaError_t kvt_gpu_state_hash(const struct kvt_gpu_hot *of, const uint32_t *lanes,
                               uint32_t lane_count, uint64_t *hashes, cudaStream_t)
{
    return launch([=, hot = *of] {
        for (uint32_t i = 0; i < lane_count; i++) {
            size_t first = (size_t)lanes[i] * hot.slots_max;
            hashes[i] = stand_in::wrong_hash;
            for (uint32_t rank = 0; rank < hot.slot_counts[lanes[i]]; rank++) {
                uint64_t slot = hot.order[first + rank];
                uint32_t row = hot.slot_rows[first + slot];
                hashes[i] += row == UINT32_MAX ? 0 : kvt_chain64(slot << 32 | row, rank);
            }
        }
    });
}
cudaError_t kvt_gpu_execute_plan(const resolve_call *resolve, cudaStream_t)
{
    return launch([call = *resolve] {
        for (uint32_t i = 0; i < call.request_count; i++) {
            const request_call at(call, i);
            const struct kvt_gpu_counts &counts = call.counts[i];
            for (uint32_t m = 0; m < counts.filled_rows; m++)
                at.slot_rows[at.missed_places[m] - at.hot_place(0)] = at.missed[m];
            for (uint32_t p = 0; p < counts.promoted_rows; p++) {
                int32_t m = (int32_t)at.promoted[2 * p] - at.missed_places[counts.filled_rows];
                at.slot_rows[(int32_t)at.promoted[2 * p + 1] - at.hot_place(0)] =
                    at.missed[counts.filled_rows + (uint32_t)m];
            }
        }
        gather_fetch(call);
    });
}

uint32_t kvt_gpu_attend_splits(uint32_t query_count, uint32_t, uint32_t)
{
    return query_count < 3 ? 4 : 1;
}
cudaError_t kvt_gpu_attend(const struct kvt_gpu_attend *of, cudaStream_t)
{
    return launch([attend = *of] {
        uint32_t splits = attend.splits > 0
                              ? attend.splits
                              : kvt_gpu_attend_splits(attend.query_count, attend.heads, attend.k);
        for (uint32_t q = 0; q < attend.query_count; q++) {
            if (!attend.counts || attend.counts[attend.queries[q].request].wave == attend.wave)
                attend_query(attend, q, splits);
        }
    });
}

cudaError_t kvt_gpu_make_rows(const struct kvt_gpu_make_rows *of, cudaStream_t)
{
    return launch([make = *of] {
        for (uint32_t i = 0; i < make.row_count; i++)
            make_row(make, make.first_row + i, make.dst + i * make.row_stride);
    });
}
cudaError_t kvt_gpu_make_selected(const struct kvt_gpu_make_rows *of, const int32_t *rows,
                                  uint32_t row_count, cudaStream_t)
{
    return launch([=, make = *of] {
        for (uint32_t i = 0; i < row_count; i++) {
            if (rows[i] != KVT_GPU_NONE)
                make_row(make, (uint32_t)rows[i],
                         make.dst + (size_t)i * kvt_made_layer_bytes(make.format));
        }
    });
}
cudaError_t kvt_gpu_append(const struct kvt_gpu_append *of, cudaStream_t)
{
    return launch([append = *of] { append_rows(append); });
}
/* Written, and never looked at. */
cudaError_t kvt_gpu_make_keys(const struct kvt_gpu_make_keys *of, cudaStream_t)
{
    return launch([make = *of] {
        for (uint32_t r = 0; r < make.row_count; r++) {
            uint8_t *page = make.lane_keys + (size_t)(r / 64) * KVT_GPU_INDEX_PAGE_BYTES;
            struct kvt_made_key key =
                kvt_made_key(make.context_id, make.selector, make.first_row + r);
            float scale = kvt_made_key_scale(&key);
            for (uint32_t d = 0; d < KVT_GPU_INDEX_DIM; d += 2)
                kvt_made_key_pair(&key, d, page + r % 64 * KVT_GPU_INDEX_DIM + d);
            std::memcpy(page + 64 * KVT_GPU_INDEX_DIM + r % 64 * sizeof scale, &scale,
                        sizeof scale);
        }
    });
}
cudaError_t kvt_gpu_make_queries(const struct kvt_gpu_make_queries *of, cudaStream_t)
{
    return launch([make = *of] {
        size_t heads = (size_t)make.query_count * make.heads;
        std::memset(make.q, 1, heads * KVT_GPU_INDEX_DIM);
        std::fill_n(make.weights, heads, 1.0f);
    });
}
cudaError_t kvt_gpu_copy(const struct kvt_gpu_copy *copies, uint32_t copy_count, cudaStream_t)
{
    return launch([=] {
        for (uint32_t c = 0; c < copy_count; c++) {
            if (copies[c].bytes > 0)
                std::memcpy(copies[c].dst, copies[c].src, copies[c].bytes);
        }
    });
}

} // extern "C"
