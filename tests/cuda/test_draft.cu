/* test_draft.cu -- a drafter's ring and its attention against a CPU in double: rounds that come one
 * after the other, windows, wraps, blocks of any length; what is out of sight is NaN.
 *
 * Usage: test_draft [small], which is for sanitizers. */
#include "cuda/device.h"

#include <cmath>
#include <cstring>
#include <random>

#include "launch.h"
#include "rows.h"

namespace
{

enum {
    DIM = KVT_GPU_DRAFT_DIM,
    NAN_BYTE = 0x7f /* in e4m3, and in a row's every value */
};

struct shape {
    uint32_t layers, ring_rows, window, heads, kv_heads, requests, block_max;
};

struct world {
    shape with;
    struct kvt_gpu_draft_ring ring = {};
    device::array<uint8_t> rows;
    std::vector<struct kvt_gpu_draft_request> requests;

    explicit world(const shape &with)
        : with(with),
          rows((size_t)with.requests * with.layers * with.ring_rows * 2 * with.kv_heads * DIM)
    {
        ring.rows = rows.get();
        ring.layers = with.layers;
        ring.ring_rows = with.ring_rows;
        ring.row_bytes = 2 * with.kv_heads * DIM;
        ring.window_tokens = with.window;
        ring.values = KVT_GPU_ROW_E4M3_576;
        rows.poison(NAN_BYTE);
    }
    uint32_t tokens() const
    {
        uint32_t count = 0;
        for (const struct kvt_gpu_draft_request &request : requests)
            count += request.block_tokens;
        return count;
    }
    uint32_t first_seen(const struct kvt_gpu_draft_request &request, uint32_t depth) const
    {
        int64_t first = (int64_t)request.context_tokens + depth + 1 - with.window;
        return (uint32_t)std::max<int64_t>(first, request.lost_tokens);
    }
};

float bf16_value(uint16_t code)
{
    uint32_t bits = (uint32_t)code << 16;
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

/* A row of a layer as it should be. */
std::vector<float> made_row(const world &world, const struct kvt_gpu_draft_request &request,
                            uint32_t layer, uint32_t position)
{
    std::vector<float> row(world.ring.row_bytes);
    uint64_t words[2];
    uint64_t stream =
        kvt_made_draft_stream(request.context_id, layer, position, request.context_tokens);
    for (uint32_t chunk = 0; chunk < world.ring.row_bytes / 16; chunk++) {
        kvt_made_row_chunk(&kvt_made_tables, world.ring.values, stream, chunk, words);
        for (uint32_t i = 0; i < 16; i++)
            row[16 * chunk + i] = kvt_made_e4m3_value((uint8_t)(words[i / 8] >> i % 8 * 8));
    }
    return row;
}

/* One (token, head) in double. */
std::vector<double> attend_in_double(const world &world,
                                     const struct kvt_gpu_draft_request &request, uint32_t layer,
                                     uint32_t depth, uint32_t head, const uint16_t *q, double scale)
{
    uint32_t keys = head / (world.with.heads / world.with.kv_heads) * DIM;
    uint32_t values = keys + world.with.kv_heads * DIM;
    std::vector<double> scores, out(DIM, 0.0);
    std::vector<std::vector<float>> rows;
    double largest = -INFINITY, sum = 0;

    for (uint32_t p = world.first_seen(request, depth);
         p < request.context_tokens + request.block_tokens; p++) {
        rows.push_back(made_row(world, request, layer, p));
        double score = 0;
        for (uint32_t d = 0; d < DIM; d++)
            score += (double)bf16_value(q[d]) * rows.back()[keys + d];
        scores.push_back(score * scale);
        largest = std::max(largest, scores.back());
    }
    for (size_t r = 0; r < rows.size(); r++) {
        double weight = std::exp(scores[r] - largest);
        sum += weight;
        for (uint32_t d = 0; d < DIM; d++)
            out[d] += weight * rows[r][values + d];
    }
    for (double &x : out)
        x /= sum;
    return out;
}

/* Some (token, head) pairs of a layer: relative RMS. */
void answers_are_right(device::tally *tally, const char *what, const world &world, uint32_t layer,
                       const std::vector<uint16_t> &q, const std::vector<uint16_t> &found,
                       std::mt19937 *random)
{
    double wrong = 0, square = 0;
    size_t nans = 0;

    for (uint16_t code : found)
        nans += !std::isfinite(bf16_value(code));
    tally->check(nans == 0, "%s: %zu of %zu outputs are no numbers", what, nans, found.size());
    for (const struct kvt_gpu_draft_request &request : world.requests) {
        for (int n = 0; n < 6 && request.block_tokens > 0; n++) {
            uint32_t depth = n == 0   ? 0
                             : n == 1 ? request.block_tokens - 1
                                      : (uint32_t)((*random)() % request.block_tokens);
            uint32_t head = (uint32_t)((*random)() % world.with.heads);
            size_t at = ((size_t)(request.first_token + depth) * world.with.heads + head) * DIM;
            std::vector<double> due = attend_in_double(world, request, layer, depth, head, &q[at],
                                                       1 / std::sqrt((double)DIM));
            for (uint32_t d = 0; d < DIM; d++) {
                double differs = bf16_value(found[at + d]) - due[d];
                wrong += differs * differs;
                square += due[d] * due[d];
            }
        }
    }
    double error = square > 0 ? std::sqrt(wrong / square) : 0;
    tally->check(error <= 3e-3, "%s, layer %u: %.2e from double precision, 3e-3 allowed", what,
                 layer, error);
}

struct kvt_gpu_draft_verdict compared(const world &world, uint32_t request)
{
    device::array<struct kvt_gpu_draft_verdict> verdict(1);
    device::array<struct kvt_gpu_draft_request> requests(world.requests);
    verdict.poison(0x55);
    device::must(kvt_gpu_draft_compare(&world.ring, requests.get() + request, verdict.get(), 0),
                 "kvt_gpu_draft_compare");
    return verdict.read()[0];
}

/* Everything that no pass may read becomes NaN; what it reads stays. */
void poison_out_of_sight(world &world)
{
    std::vector<uint8_t> rows = world.rows.read(), spoilt(rows.size(), NAN_BYTE);
    size_t bytes = world.ring.row_bytes;

    for (const struct kvt_gpu_draft_request &request : world.requests) {
        for (uint32_t layer = 0; layer < world.with.layers; layer++) {
            for (uint32_t p = world.first_seen(request, 0);
                 p < request.context_tokens + request.block_tokens; p++) {
                size_t at =
                    (((size_t)request.lane * world.with.layers + layer) * world.with.ring_rows +
                     p % world.with.ring_rows) *
                    bytes;
                std::memcpy(&spoilt[at], &rows[at], bytes);
            }
        }
    }
    device::must(cudaMemcpy(world.rows.get(), spoilt.data(), spoilt.size(), cudaMemcpyHostToDevice),
                 "cudaMemcpy");
}

void attend(device::tally *tally, const char *what, const world &world, std::mt19937 *random)
{
    size_t elements = (size_t)world.tokens() * world.with.heads * DIM;
    std::vector<uint16_t> q(elements);
    for (uint16_t &code : q) {
        uint32_t word = (uint32_t)(*random)();
        code = (uint16_t)(kvt_made_tables.bf16[word & 127] | (word >> 16 & 0x8000));
    }
    device::array<uint16_t> device_q(q), out(elements);
    device::array<struct kvt_gpu_draft_request> requests(world.requests);
    device::array<uint8_t> workspace(
        kvt_gpu_draft_workspace_bytes(world.tokens(), world.with.heads));
    uint32_t layer = (uint32_t)((*random)() % world.with.layers);
    std::vector<uint16_t> first;

    for (int kind = -1; kind <= 4; kind++) { /* the plain kernel; chosen; 1 to 4 pieces */
        struct kvt_gpu_draft_attend attend = {};
        char name[160];
        attend.ring = world.ring;
        attend.layer = layer;
        attend.request_count = (uint32_t)world.requests.size();
        attend.token_count = world.tokens();
        attend.block_max = world.with.block_max;
        attend.heads = world.with.heads;
        attend.kv_heads = world.with.kv_heads;
        attend.softmax_scale = 1 / std::sqrt((float)DIM);
        attend.requests = requests.get();
        attend.q = device_q.get();
        attend.out = out.get();
        attend.splits = kind > 0 ? (uint32_t)kind : 0;
        attend.workspace = workspace.get();
        attend.reference = kind < 0;
        out.poison();
        workspace.poison();
        device::must(kvt_gpu_draft_attend(&attend, 0), "kvt_gpu_draft_attend");
        device::must(cudaDeviceSynchronize(), "attention");
        std::vector<uint16_t> found = out.read();
        std::snprintf(name, sizeof name, "%s, %s %d", what, kind < 0 ? "plain" : "pieces", kind);
        answers_are_right(tally, name, world, layer, q, found, random);
        device::must(kvt_gpu_draft_attend(&attend, 0), "kvt_gpu_draft_attend");
        tally->check(out.read() == found, "%s: the same again is not the same", name);
    }
}

/* Rounds of requests: each commits some of its block, and the next finds those rows made anew. */
void rounds_keep_the_ring(device::tally *tally, const char *what, const shape &with, uint32_t seed)
{
    std::mt19937 random(seed);
    world world(with);
    auto below = [&](uint32_t bound) { return (uint32_t)(random() % bound); };
    char name[160];

    for (uint32_t r = 0; r < with.requests; r++) {
        struct kvt_gpu_draft_request request = {};
        request.lane = with.requests - 1 - r;
        request.context_id = 7 * r + seed;
        request.context_tokens =
            r % 3 == 0 ? below(with.window) + 1 : 3 * with.ring_rows + below(999);
        world.requests.push_back(request);
    }
    for (uint32_t round = 0; round < 5; round++) {
        uint32_t first_token = 0;
        for (struct kvt_gpu_draft_request &request : world.requests) {
            request.block_tokens = round % 2 == 0 ? with.block_max : below(with.block_max + 1);
            request.first_token = first_token;
            first_token += request.block_tokens;
            uint32_t end = request.context_tokens + request.block_tokens;
            if (end > with.ring_rows)
                request.lost_tokens = std::max(request.lost_tokens, end - with.ring_rows);
        }
        device::array<struct kvt_gpu_draft_request> requests(world.requests);
        device::must(kvt_gpu_draft_append(&world.ring, requests.get(), with.requests, 0),
                     "kvt_gpu_draft_append");
        device::must(cudaDeviceSynchronize(), "append");
        std::snprintf(name, sizeof name, "%s, round %u", what, round);
        for (uint32_t r = 0; r < with.requests; r++) {
            struct kvt_gpu_draft_verdict verdict = compared(world, r);
            tally->check(verdict.unequal_chunks == 0 && verdict.first == UINT64_MAX,
                         "%s, request %u: %llu chunks of its ring differ, from %llx on", name, r,
                         (unsigned long long)verdict.unequal_chunks,
                         (unsigned long long)verdict.first);
        }
        if (round % 2 == 0) {
            poison_out_of_sight(world);
            attend(tally, name, world, &random);
        }
        for (struct kvt_gpu_draft_request &request : world.requests) {
            request.settled_tokens = request.context_tokens;
            request.context_tokens +=
                request.block_tokens > 0 ? 1 + below(request.block_tokens) : 1;
            if (round % 2 == 0) /* rows were lost to the poison: as behind an admission */
                request.settled_tokens = request.lost_tokens = 0;
        }
    }
}

/* A flipped bit is found, and where. */
void spoilt_rows_are_found(device::tally *tally)
{
    world world({3, 192, 128, 16, 2, 2, 4});
    for (uint32_t r = 0; r < 2; r++) {
        struct kvt_gpu_draft_request request = {};
        request.lane = r;
        request.context_id = 40 + r;
        request.context_tokens = 1000 + r;
        request.block_tokens = 4;
        request.lost_tokens = 1004 + r - 192;
        request.first_token = 4 * r;
        world.requests.push_back(request);
    }
    device::array<struct kvt_gpu_draft_request> requests(world.requests);
    device::must(kvt_gpu_draft_append(&world.ring, requests.get(), 2, 0), "kvt_gpu_draft_append");
    std::vector<uint8_t> rows = world.rows.read();
    const uint32_t position = 999, layer = 2;
    size_t at = (((size_t)1 * 3 + layer) * 192 + position % 192) * world.ring.row_bytes + 100;
    uint8_t wrong = rows[at] ^ 1;
    device::must(cudaMemcpy(world.rows.get() + at, &wrong, 1, cudaMemcpyHostToDevice), "a flip");
    struct kvt_gpu_draft_verdict clean = compared(world, 0), spoilt = compared(world, 1);
    tally->check(clean.unequal_chunks == 0, "another request's flip shows: %llu chunks",
                 (unsigned long long)clean.unequal_chunks);
    tally->check(spoilt.unequal_chunks == 1 && spoilt.first == ((uint64_t)layer << 32 | position),
                 "a flipped bit: %llu chunks, the first at %llx",
                 (unsigned long long)spoilt.unequal_chunks, (unsigned long long)spoilt.first);
    /* Block rows of the round before are not what was committed. */
    world.requests[0].settled_tokens = world.requests[0].context_tokens += 2;
    tally->check(compared(world, 0).unequal_chunks > 0, "a draft's rows pass for committed ones");
}

void what_cannot_be_is_refused(device::tally *tally)
{
    world world({1, 192, 128, 16, 2, 1, 4});
    struct kvt_gpu_draft_attend good = {};
    good.ring = world.ring;
    good.request_count = good.token_count = good.block_max = 1;
    good.heads = 16;
    good.kv_heads = 2;
    good.softmax_scale = 1;
    auto refused = [&](const char *what, const struct kvt_gpu_draft_attend &attend) {
        cudaError_t error = kvt_gpu_draft_attend(&attend, 0);
        tally->check(error == cudaErrorInvalidValue, "%s: %s", what, cudaGetErrorName(error));
    };
    struct kvt_gpu_draft_attend bad = good;
    bad.heads = 15;
    refused("15 heads on 2", bad);
    bad = good;
    bad.ring.row_bytes = 528;
    refused("rows of another shape", bad);
    bad = good;
    bad.ring.ring_rows = 32;
    refused("a ring shorter than a tile", bad);
    bad = good;
    bad.ring.window_tokens = 193;
    refused("a window wider than its ring", bad);
    bad = good;
    bad.softmax_scale = NAN;
    refused("a scale that is no number", bad);
}

} // namespace

int main(int argc, char **argv)
{
    device::tally tally;
    bool small = argc > 1 && std::strcmp(argv[1], "small") == 0;

    device::require();
    rounds_keep_the_ring(&tally, "no slack", {3, 128, 128, 16, 2, 4, 6}, 2);
    rounds_keep_the_ring(&tally, "one kv head", {1, 65, 65, 64, 1, 2, 2}, 5);
    spoilt_rows_are_found(&tally);
    what_cannot_be_is_refused(&tally);
    if (small)
        return tally.close();
    rounds_keep_the_ring(&tally, "as DFlash2", {2, 2048 + 128, 2048, 64, 8, 3, 8}, 1);
    rounds_keep_the_ring(&tally, "long blocks", {1, 256 + 64, 256, 24, 2, 3, 32}, 3);
    rounds_keep_the_ring(&tally, "a head each", {2, 300, 200, 4, 4, 5, 5}, 4);
    return tally.close();
}
