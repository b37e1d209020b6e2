/* test_rows.cu -- made rows, keys and queries are those of rows.h on the CPU, byte for byte, and
 * behave as a model's; copies arrive whole and touch nothing else. */
#include "cuda/device.h"

#include <cuda_fp8.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "rows.h"

using bytes = std::vector<uint8_t>;

static const enum kvt_gpu_format formats[] = {KVT_GPU_ROW_E4M3_576, KVT_GPU_ROW_MIXED_656,
                                              KVT_GPU_ROW_BF16_1152, KVT_GPU_ROW_FP4_288};

/* ---- Twins ------------------------------------------------------------------------------ */

static void make_row(enum kvt_gpu_format format, uint32_t context, uint32_t layer, uint32_t row,
                     uint8_t *out)
{
    uint64_t stream = kvt_made_stream(KVT_MADE_ROW, context, layer, row);
    for (uint32_t chunk = 0; chunk < kvt_made_layer_bytes(format) / 16; chunk++) {
        uint64_t words[2];
        kvt_made_row_chunk(&kvt_made_tables, format, stream, chunk, words);
        std::memcpy(out + 16 * chunk, words, 16);
    }
}

static float bf16_value(const uint8_t *at)
{
    uint32_t bits = (uint32_t)at[0] << 16 | (uint32_t)at[1] << 24;
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

/* What the row says, as numbers. */
static std::vector<float> row_values(enum kvt_gpu_format format, const uint8_t *row)
{
    static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    std::vector<float> values;

    if (format == KVT_GPU_ROW_E4M3_576) {
        for (int i = 0; i < 576; i++)
            values.push_back(kvt_made_e4m3_value(row[i]));
    } else if (format == KVT_GPU_ROW_MIXED_656) {
        for (int i = 0; i < 512; i++) {
            float scale;
            std::memcpy(&scale, row + 512 + i / 128 * 4, sizeof scale);
            values.push_back(kvt_made_e4m3_value(row[i]) * scale);
        }
        for (int i = 0; i < 64; i++)
            values.push_back(bf16_value(row + 528 + 2 * i));
    } else if (format == KVT_GPU_ROW_BF16_1152) {
        for (int i = 0; i < 576; i++)
            values.push_back(bf16_value(row + 2 * i));
    } else {
        for (int i = 0; i < 512; i++) {
            int code = row[i / 2] >> (i % 2 * 4) & 15;
            float scale = kvt_made_e4m3_value(row[256 + i / 16]);
            values.push_back((code & 8 ? -e2m1[code & 7] : e2m1[code & 7]) * scale);
        }
    }
    return values;
}

/* ---- Cases ------------------------------------------------------------------------------ */

/* The encoder against CUDA's own, over all magnitudes and ties. */
static void e4m3_is_cudas(device::tally *tally)
{
    int wrong = 0;
    for (uint32_t bits = 0x3a000000; bits < 0x43e00000; bits += 0x401) {
        float x;
        std::memcpy(&x, &bits, sizeof x);
        for (float value : {x, -x}) {
            __nv_fp8_e4m3 theirs(value);
            uint8_t ours = kvt_made_e4m3(value);
            if (ours != theirs.__x && wrong++ < 3)
                tally->check(false, "e4m3 of %a: expected 0x%02x, found 0x%02x", (double)value,
                             theirs.__x, ours);
        }
    }
    for (int code = 0; code < 256; code++) {
        __nv_fp8_e4m3 theirs;
        theirs.__x = (uint8_t)code;
        bool nan = (code & 0x7f) == 0x7f;
        float value = kvt_made_e4m3_value((uint8_t)code);
        if (!nan && (value != (float)theirs || kvt_made_e4m3(value) != code) && wrong++ < 3)
            tally->check(false, "e4m3 code 0x%02x is %g there and %g here", code,
                         (double)(float)theirs, (double)value);
    }
    tally->check(wrong == 0, "%d values differ from cuda_fp8.h", wrong);
}

static void rows_are_finite_and_normal(device::tally *tally)
{
    for (enum kvt_gpu_format format : formats) {
        bytes row(kvt_made_layer_bytes(format));
        double sum = 0, square = 0;
        size_t count = 0, infinite = 0;
        for (uint32_t r = 0; r < 200; r++) {
            make_row(format, 7, r % 5, r, row.data());
            for (float x : row_values(format, row.data())) {
                infinite += !std::isfinite(x);
                sum += x;
                square += (double)x * x;
                count++;
            }
        }
        double mean = sum / (double)count;
        double deviation = std::sqrt(square / (double)count - mean * mean);
        tally->check(infinite == 0, "format %d: %zu values are not finite", format, infinite);
        tally->check(std::fabs(mean) < 0.02 && deviation > 0.8 && deviation < 1.6,
                     "format %d: mean 0, deviation near 1 expected, found %.3f and %.3f", format,
                     mean, deviation);
    }
}

/* Both layouts, into device and into pinned memory, from a row in the middle. */
static void rows_are_the_twins(device::tally *tally, uint32_t seed)
{
    std::mt19937 random(seed);
    for (enum kvt_gpu_format format : formats)
        for (int variant = 0; variant < 4; variant++) {
            const bool apart = variant & 1, pinned = variant & 2;
            const uint32_t layer_bytes = kvt_made_layer_bytes(format), layers = 1 + random() % 5,
                           row_count = 900 + random() % 300;
            const size_t total = (size_t)layers * row_count * layer_bytes;
            device::array<uint8_t> dst(total + 16, pinned);
            struct kvt_gpu_make_rows make = {};

            make.context_id = (uint32_t)random();
            make.first_layer = random() % 78;
            make.layers = layers;
            make.format = format;
            make.first_row = random() % 100000;
            make.row_count = row_count;
            make.dst = dst.get();
            make.row_stride = apart ? layer_bytes : (uint64_t)layers * layer_bytes;
            make.layer_stride = apart ? (uint64_t)row_count * layer_bytes : layer_bytes;
            dst.poison();
            device::must(kvt_gpu_make_rows(&make, 0), "kvt_gpu_make_rows");
            bytes found = dst.read(), row(layer_bytes);
            int wrong = 0;
            for (uint32_t layer = 0; layer < layers; layer++)
                for (uint32_t r = 0; r < row_count; r++) {
                    make_row(format, make.context_id, make.first_layer + layer, make.first_row + r,
                             row.data());
                    wrong += std::memcmp(row.data(),
                                         &found[r * make.row_stride + layer * make.layer_stride],
                                         layer_bytes) != 0;
                }
            tally->check(wrong == 0, "format %d, layers apart %d, pinned %d: %d of %u rows differ",
                         format, apart, pinned, wrong, layers * row_count);
            tally->check(found[total] == 0xff, "format %d: a byte behind the rows was written",
                         format);
        }
}

static void selected_rows_are_made_one_after_the_other(device::tally *tally, uint32_t seed)
{
    std::mt19937 random(seed);
    for (enum kvt_gpu_format format : formats) {
        const uint32_t layer_bytes = kvt_made_layer_bytes(format);
        std::vector<int32_t> rows(2048);
        for (int32_t &row : rows)
            row = random() % 8 == 0 ? KVT_GPU_NONE : (int32_t)(random() % 1000000);
        device::array<int32_t> device_rows(rows);
        device::array<uint8_t> dst(rows.size() * layer_bytes);
        struct kvt_gpu_make_rows make = {};
        make.context_id = 3;
        make.first_layer = 11;
        make.layers = 1;
        make.format = format;
        make.dst = dst.get();
        dst.poison();
        device::must(kvt_gpu_make_selected(&make, device_rows.get(), 2048, 0),
                     "kvt_gpu_make_selected");
        bytes found = dst.read(), row(layer_bytes);
        int wrong = 0;
        for (size_t i = 0; i < rows.size(); i++) {
            if (rows[i] == KVT_GPU_NONE)
                row.assign(layer_bytes, 0xff);
            else
                make_row(format, 3, 11, (uint32_t)rows[i], row.data());
            wrong += std::memcmp(row.data(), &found[i * layer_bytes], layer_bytes) != 0;
        }
        tally->check(wrong == 0, "format %d: %d of %zu selected rows differ", format, wrong,
                     rows.size());
    }
}

/* The tail holds the rows that the step's tokens complete, and nothing else was touched. */
static void appended_rows_are_in_the_tail(device::tally *tally, uint32_t seed)
{
    std::mt19937 random(seed);
    for (enum kvt_gpu_format format : formats)
        for (uint32_t ratio : {1u, 2u, 4u}) {
            const uint32_t lanes = 40, layers = 1 + random() % 4,
                           layer_bytes = kvt_made_layer_bytes(format),
                           row_bytes = layers * layer_bytes, tail0 = 100;
            std::vector<struct kvt_gpu_request> requests(17);
            for (uint32_t i = 0; i < requests.size(); i++) {
                requests[i] = {};
                requests[i].lane = (i * 7 + 3) % lanes;
                requests[i].query_count = 1 + random() % KVT_GPU_QUERIES_MAX;
                requests[i].context_tokens = 500 + random() % 100000;
                requests[i].context_id = (uint32_t)random();
            }
            device::array<struct kvt_gpu_request> device_requests(requests);
            device::array<uint8_t> pool((size_t)(tail0 + lanes * KVT_GPU_TAIL_ROWS) * row_bytes);
            bytes expected(pool.bytes(), 0xff);
            for (const struct kvt_gpu_request &request : requests)
                for (uint32_t row = request.context_tokens / ratio;
                     row < (request.context_tokens + request.query_count) / ratio; row++)
                    for (uint32_t layer = 0; layer < layers; layer++) {
                        size_t place =
                            tail0 + request.lane * KVT_GPU_TAIL_ROWS + row % KVT_GPU_TAIL_ROWS;
                        make_row(format, request.context_id, 5 + layer, row,
                                 &expected[place * row_bytes + layer * layer_bytes]);
                    }
            struct kvt_gpu_append append = {};
            append.request_count = (uint32_t)requests.size();
            append.ratio = ratio;
            append.first_layer = 5;
            append.layers = layers;
            append.layer_bytes = layer_bytes;
            append.format = format;
            append.requests = device_requests.get();
            append.tail0 = tail0;
            append.pool = pool.get();
            pool.poison();
            device::must(kvt_gpu_append(&append, 0), "kvt_gpu_append");
            bytes found = pool.read();
            size_t at = (size_t)(std::mismatch(found.begin(), found.end(), expected.begin()).first -
                                 found.begin());
            tally->check(at == found.size(), "format %d, ratio %u: byte %zu of place %zu differs",
                         format, ratio, at % row_bytes, at / row_bytes);
        }
}

static void keys_are_the_twins(device::tally *tally, uint32_t seed, uint32_t first_row)
{
    std::mt19937 random(seed);
    const uint32_t count = 3000;
    device::array<uint8_t> keys((size_t)(count + 63) / 64 * KVT_GPU_INDEX_PAGE_BYTES);
    struct kvt_gpu_make_keys make = {};
    make.context_id = (uint32_t)random();
    make.selector = 17;
    make.first_row = first_row;
    make.row_count = count;
    make.lane_keys = keys.get();
    bytes expected(keys.bytes(), 0xff);
    for (uint32_t row = 0; row < count; row++) {
        struct kvt_made_key key = kvt_made_key(make.context_id, make.selector, first_row + row);
        float scale = kvt_made_key_scale(&key);
        uint8_t *page = &expected[row / 64 * (size_t)KVT_GPU_INDEX_PAGE_BYTES];
        for (uint32_t d = 0; d < KVT_GPU_INDEX_DIM; d += 2)
            kvt_made_key_pair(&key, d, page + row % 64 * KVT_GPU_INDEX_DIM + d);
        std::memcpy(page + 64 * KVT_GPU_INDEX_DIM + row % 64 * 4, &scale, 4);
    }
    keys.poison();
    device::must(kvt_gpu_make_keys(&make, 0), "kvt_gpu_make_keys");
    bytes found = keys.read();
    size_t at =
        (size_t)(std::mismatch(found.begin(), found.end(), expected.begin()).first - found.begin());
    tally->check(at == found.size(), "keys: byte %zu of page %zu: expected 0x%02x, found 0x%02x",
                 at % KVT_GPU_INDEX_PAGE_BYTES, at / KVT_GPU_INDEX_PAGE_BYTES,
                 at < found.size() ? expected[at] : 0, at < found.size() ? found[at] : 0);
}

static void queries_are_the_twins(device::tally *tally, uint32_t seed)
{
    std::mt19937 random(seed);
    for (uint32_t heads : {32u, 64u}) {
        std::vector<struct kvt_gpu_request> requests(9);
        std::vector<struct kvt_gpu_query> queries;
        for (uint32_t i = 0; i < requests.size(); i++) {
            requests[i] = {};
            requests[i].first_query = (uint32_t)queries.size();
            requests[i].query_count = 1 + random() % 8;
            requests[i].context_tokens = (uint32_t)(random() % 200000);
            requests[i].context_id = (uint32_t)random();
            for (uint32_t depth = 0; depth < requests[i].query_count; depth++)
                queries.push_back({i, depth});
        }
        device::array<struct kvt_gpu_request> device_requests(requests);
        device::array<struct kvt_gpu_query> device_queries(queries);
        device::array<uint8_t> q(queries.size() * heads * KVT_GPU_INDEX_DIM);
        device::array<float> weights(queries.size() * heads);
        struct kvt_gpu_make_queries make = {};
        make.request_count = (uint32_t)requests.size();
        make.query_count = (uint32_t)queries.size();
        make.heads = heads;
        make.selector = 3;
        make.requests = device_requests.get();
        make.queries = device_queries.get();
        make.drift = 0.12f;
        make.q = q.get();
        make.weights = weights.get();
        q.poison();
        weights.poison();
        device::must(kvt_gpu_make_queries(&make, 0), "kvt_gpu_make_queries");
        bytes found = q.read();
        std::vector<float> found_weights = weights.read();
        int wrong = 0, wrong_weights = 0;
        for (size_t i = 0; i < queries.size(); i++)
            for (uint32_t head = 0; head < heads; head++) {
                const struct kvt_gpu_request &request = requests[queries[i].request];
                struct kvt_made_query query =
                    kvt_made_query(request.context_id, 3, head,
                                   request.context_tokens + queries[i].depth, make.drift);
                uint8_t expected[KVT_GPU_INDEX_DIM];
                for (uint32_t d = 0; d < KVT_GPU_INDEX_DIM; d += 2)
                    kvt_made_query_pair(&query, d, &expected[d]);
                wrong += std::memcmp(expected, &found[(i * heads + head) * KVT_GPU_INDEX_DIM],
                                     KVT_GPU_INDEX_DIM) != 0;
                wrong_weights += found_weights[i * heads + head] !=
                                 kvt_made_head_weight(request.context_id, 3, head);
            }
        tally->check(wrong == 0, "%u heads: %d of %zu queries differ", heads, wrong,
                     queries.size() * heads);
        tally->check(wrong_weights == 0, "%u heads: %d weights differ", heads, wrong_weights);
    }
}

/* The rows that one query picks, by a plain scan on the CPU. */
static std::set<uint32_t> selection(uint32_t position, uint32_t rows, uint32_t k, float drift)
{
    const uint32_t heads = 32, context = 1, selector = 0;
    std::vector<float> q(heads * KVT_GPU_INDEX_DIM), key(KVT_GPU_INDEX_DIM);
    std::vector<std::pair<float, uint32_t>> scores(rows);
    uint8_t pair[2];

    for (uint32_t head = 0; head < heads; head++) {
        struct kvt_made_query query = kvt_made_query(context, selector, head, position, drift);
        for (uint32_t d = 0; d < KVT_GPU_INDEX_DIM; d++) {
            kvt_made_query_pair(&query, d & ~1u, pair);
            q[head * KVT_GPU_INDEX_DIM + d] = kvt_made_e4m3_value(pair[d & 1]);
        }
    }
    for (uint32_t row = 0; row < rows; row++) {
        struct kvt_made_key made = kvt_made_key(context, selector, row);
        float score = 0;
        for (uint32_t d = 0; d < KVT_GPU_INDEX_DIM; d += 2) {
            kvt_made_key_pair(&made, d, pair);
            key[d] = kvt_made_e4m3_value(pair[0]);
            key[d + 1] = kvt_made_e4m3_value(pair[1]);
        }
        for (uint32_t head = 0; head < heads; head++) {
            float dot = 0;
            for (uint32_t d = 0; d < KVT_GPU_INDEX_DIM; d++)
                dot += q[head * KVT_GPU_INDEX_DIM + d] * key[d];
            score += kvt_made_head_weight(context, selector, head) * std::max(dot, 0.0f);
        }
        scores[row] = {-score * kvt_made_key_scale(&made), row};
    }
    std::nth_element(scores.begin(), scores.begin() + k, scores.end());
    std::set<uint32_t> best;
    for (uint32_t i = 0; i < k; i++)
        best.insert(scores[i].second);
    return best;
}

/* As a model's indexer does: much in common from token to token, less with distance. */
static void selections_drift(device::tally *tally)
{
    const uint32_t rows = 50000, k = 1024;
    auto shared = [&](uint32_t distance, float drift) {
        std::set<uint32_t> first = selection(rows, rows, k, drift),
                           second = selection(rows + distance, rows, k, drift);
        uint32_t both = 0;
        for (uint32_t row : first)
            both += (uint32_t)second.count(row);
        return (double)both / k;
    };
    double next = shared(1, 0.12f), far = shared(16, 0.12f), still = shared(1, 0);
    tally->check(next > 0.6 && next < 0.76, "token to token: 0.68 in common expected, found %.3f",
                 next);
    tally->check(far > 0.15 && far < 0.35, "over 16 tokens: 0.25 in common expected, found %.3f",
                 far);
    tally->check(still > next + 0.1, "without drift: more than %.3f in common expected, found %.3f",
                 next, still);
}

/* Pages between device and pinned memory, small and large at once, and nothing beside them. */
static void copies_arrive_whole(device::tally *tally, uint32_t seed)
{
    std::mt19937 random(seed);
    for (uint32_t count : {1u, 37u, 3000u}) {
        std::vector<struct kvt_gpu_copy> copies(count);
        const size_t gap = 32;
        size_t total = 0;
        for (struct kvt_gpu_copy &copy : copies) {
            copy.bytes = 16 * (1 + random() % (count == 1 ? 1u << 18 : 1200));
            total += copy.bytes + gap;
        }
        bytes content(total);
        for (uint8_t &byte : content)
            byte = (uint8_t)random();
        for (int direction = 0; direction < 3; direction++) {
            device::array<uint8_t> src(total, direction == 0), dst(total, direction == 1);
            device::must(cudaMemcpy(src.get(), content.data(), total, cudaMemcpyDefault), "source");
            bytes expected(total, 0xff);
            size_t at = 0;
            for (struct kvt_gpu_copy &copy : copies) {
                copy.src = src.get() + at;
                copy.dst = dst.get() + at;
                std::memcpy(&expected[at], &content[at], copy.bytes);
                at += copy.bytes + gap;
            }
            device::array<struct kvt_gpu_copy> device_copies(copies);
            dst.poison();
            device::must(kvt_gpu_copy(device_copies.get(), count, 0), "kvt_gpu_copy");
            tally->check(dst.read() == expected, "%u copies, direction %d: bytes differ", count,
                         direction);
        }
    }
}

int main()
{
    device::tally tally;
    std::random_device entropy;
    const uint32_t seed = entropy();

    device::require();
    std::printf("seed %u\n", seed);
    e4m3_is_cudas(&tally);
    rows_are_finite_and_normal(&tally);
    rows_are_the_twins(&tally, seed);
    selected_rows_are_made_one_after_the_other(&tally, seed);
    appended_rows_are_in_the_tail(&tally, seed);
    keys_are_the_twins(&tally, seed, 0);
    keys_are_the_twins(&tally, seed, 64 * 211);
    queries_are_the_twins(&tally, seed);
    selections_drift(&tally);
    copies_arrive_whole(&tally, seed);
    return tally.close();
}
