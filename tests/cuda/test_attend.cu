/* test_attend.cu -- attention kernels against a double-precision oracle on the CPU. */
#include "cuda/device.h"
#include "launch.h"

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace
{

using device::must;

device::tally verdicts;

void check(bool holds, const std::string &what)
{
    verdicts.check(holds, "%s", what.c_str());
}

/* ---- Random numbers ---- */

struct random_stream {
    uint64_t state;
    uint64_t bits()
    {
        state += 0x9e3779b97f4a7c15u;
        uint64_t z = state;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    double uniform()
    {
        return static_cast<double>((bits() >> 11) + 1) / 9007199254740993.0;
    }
    double normal()
    {
        return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * M_PI * uniform());
    }
};

/* ---- Formats: encoding by CUDA's own conversions, decoding by the definition ---- */

double double_of_e4m3(uint8_t byte)
{
    int exponent = byte >> 3 & 15, mantissa = byte & 7;
    double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    return (byte & 0x80) != 0 ? -magnitude : magnitude;
}

double double_of_e2m1(unsigned nibble)
{
    static const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    return (nibble & 8) != 0 ? -values[nibble & 7] : values[nibble & 7];
}

double double_of_bf16(const uint8_t *at)
{
    uint16_t bits;
    memcpy(&bits, at, 2);
    uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}

void put_bf16(uint8_t *at, double value)
{
    __nv_bfloat16 bits = __float2bfloat16_rn(static_cast<float>(value));
    memcpy(at, &bits, 2);
}

uint8_t e4m3_of(double value)
{
    return __nv_fp8_e4m3(static_cast<float>(value)).__x;
}

uint32_t bytes_of(kvt_gpu_format format)
{
    switch (format) {
    case KVT_GPU_ROW_E4M3_576:
        return 576;
    case KVT_GPU_ROW_MIXED_656:
        return 656;
    case KVT_GPU_ROW_BF16_1152:
        return 1152;
    default:
        return 288;
    }
}

uint32_t width_of(kvt_gpu_format format)
{
    return format == KVT_GPU_ROW_FP4_288 ? 512 : 576;
}

void encode_row(kvt_gpu_format format, const double *values, double row_scale, uint8_t *row)
{
    if (format == KVT_GPU_ROW_E4M3_576) {
        for (int i = 0; i < 576; i++) {
            row[i] = e4m3_of(values[i] / row_scale);
        }
    } else if (format == KVT_GPU_ROW_MIXED_656) {
        for (int group = 0; group < 4; group++) {
            double largest = 1e-9;
            for (int i = 0; i < 128; i++) {
                largest = std::max(largest, std::fabs(values[group * 128 + i]));
            }
            float scale = static_cast<float>(largest / 448);
            memcpy(row + 512 + group * 4, &scale, 4);
            for (int i = 0; i < 128; i++) {
                row[group * 128 + i] = e4m3_of(values[group * 128 + i] / scale);
            }
        }
        for (int i = 0; i < 64; i++) {
            put_bf16(row + 528 + 2 * i, values[512 + i]);
        }
    } else if (format == KVT_GPU_ROW_BF16_1152) {
        for (int i = 0; i < 576; i++) {
            put_bf16(row + 2 * i, values[i]);
        }
    } else {
        memset(row, 0, 288);
        for (int group = 0; group < 32; group++) {
            double largest = 1e-9;
            for (int i = 0; i < 16; i++) {
                largest = std::max(largest, std::fabs(values[group * 16 + i]));
            }
            row[256 + group] = e4m3_of(std::max(largest / 6, 1.0 / 512));
            double scale = double_of_e4m3(row[256 + group]);
            for (int i = 0; i < 16; i++) {
                unsigned best = 0;
                for (unsigned nibble = 0; nibble < 16; nibble++) {
                    double at = values[group * 16 + i] / scale;
                    if (std::fabs(double_of_e2m1(nibble) - at) <
                        std::fabs(double_of_e2m1(best) - at)) {
                        best = nibble;
                    }
                }
                int column = group * 16 + i;
                row[column / 2] |= static_cast<uint8_t>(best << (column % 2 * 4));
            }
        }
    }
}

void decode_row(kvt_gpu_format format, const uint8_t *row, double row_scale, double *values)
{
    for (uint32_t i = 0; i < width_of(format); i++) {
        if (format == KVT_GPU_ROW_E4M3_576) {
            values[i] = double_of_e4m3(row[i]) * row_scale;
        } else if (format == KVT_GPU_ROW_MIXED_656) {
            float scale = 0;
            if (i < 512) {
                memcpy(&scale, row + 512 + i / 128 * 4, 4);
            }
            values[i] = i < 512 ? double_of_e4m3(row[i]) * scale
                                : double_of_bf16(row + 528 + 2 * (i - 512));
        } else if (format == KVT_GPU_ROW_BF16_1152) {
            values[i] = double_of_bf16(row + 2 * i);
        } else {
            values[i] =
                double_of_e2m1(row[i / 2] >> (i % 2 * 4) & 15) * double_of_e4m3(row[256 + i / 16]);
        }
    }
}

/* ---- Cases ---- */

enum shape {
    FLAT,   /* scores N(0, 1) */
    PEAKED, /* scores N(0, 9): a few rows have all the weight */
    RISING, /* scores that climb by hundreds over the places */
    TINY,   /* FLAT with q of 1e-7 */
    HUGE_Q  /* FLAT with q of 1e6 */
};

struct attend_case {
    const char *name;
    kvt_gpu_format format;
    shape scores;
    uint32_t heads, queries, k;
    uint32_t rows_least; /* queries have between that and k places */
    uint32_t row_bytes, offset;
    uint32_t splits;
    bool out_is_float, reference;
};

constexpr uint32_t POOL_ROWS = 2311;
constexpr uint32_t GUARD = 256;

struct input {
    attend_case c;
    float row_scale, softmax_scale;
    uint32_t width;
    std::vector<uint8_t> pool, q; /* q: bf16 */
    std::vector<int32_t> places;
    std::vector<uint32_t> rows; /* of each query */
};

/* Poisoned bytes are NaN in every format and as outputs. */
input make_input(const attend_case &c, uint64_t seed)
{
    random_stream draw = {seed};
    input in;
    in.c = c;
    in.width = width_of(c.format);
    in.row_scale = c.format == KVT_GPU_ROW_E4M3_576 ? 0.037f : 1.0f;
    double q_size = c.scores == TINY ? 1e-7 : c.scores == HUGE_Q ? 1e6 : 1;
    in.softmax_scale =
        static_cast<float>((c.scores == PEAKED ? 3 : 1) / std::sqrt(in.width) / q_size);
    in.q.resize(size_t{2} * c.queries * c.heads * in.width);
    std::vector<double> direction(in.width);
    for (double &x : direction) {
        x = draw.normal();
    }
    for (size_t i = 0; i < in.q.size() / 2; i++) {
        double x =
            c.scores == RISING ? direction[i % in.width] + 0.3 * draw.normal() : draw.normal();
        put_bf16(&in.q[2 * i], x * q_size);
    }
    in.pool.assign(size_t{POOL_ROWS} * c.row_bytes, 0xff);
    std::vector<double> values(in.width);
    for (uint32_t row = 0; row < POOL_ROWS; row++) {
        double along = c.scores == RISING ? 8.0 * row / POOL_ROWS - 4 : 0;
        for (uint32_t i = 0; i < in.width; i++) {
            values[i] = draw.normal() + along * direction[i];
        }
        encode_row(c.format, values.data(), in.row_scale,
                   &in.pool[size_t{row} * c.row_bytes + c.offset]);
    }
    in.places.assign(size_t{c.queries} * c.k, KVT_GPU_NONE);
    for (uint32_t query = 0; query < c.queries; query++) {
        uint32_t rows =
            c.rows_least + static_cast<uint32_t>(draw.bits() % (c.k - c.rows_least + 1));
        rows = query == 0 ? c.rows_least : query == 1 ? c.k : rows;
        in.rows.push_back(rows);
        std::vector<int32_t> all(POOL_ROWS);
        for (uint32_t i = 0; i < POOL_ROWS; i++) {
            all[i] = static_cast<int32_t>(i);
        }
        for (uint32_t i = 0; i < rows; i++) {
            std::swap(all[i], all[i + draw.bits() % (POOL_ROWS - i)]);
        }
        if (c.scores == RISING) {
            std::sort(all.begin(), all.begin() + rows);
        }
        std::copy(all.begin(), all.begin() + rows, in.places.begin() + size_t{query} * c.k);
    }
    return in;
}

/* A query's rows, decoded: [rows][width]. */
std::vector<double> decode_rows(const input &in, uint32_t query)
{
    const attend_case &c = in.c;
    std::vector<double> values(size_t{in.rows[query]} * in.width);
    for (uint32_t i = 0; i < in.rows[query]; i++) {
        size_t place = static_cast<size_t>(in.places[size_t{query} * c.k + i]);
        decode_row(c.format, &in.pool[place * c.row_bytes + c.offset], in.row_scale,
                   &values[size_t{i} * in.width]);
    }
    return values;
}

/* What kvt_gpu_attend() should give for a head: [512]. */
std::vector<double> oracle(const input &in, const std::vector<double> &values, uint32_t query,
                           uint32_t head)
{
    uint32_t rows = in.rows[query];
    const uint8_t *q_bytes = &in.q[size_t{2} * (size_t{query} * in.c.heads + head) * in.width];
    std::vector<double> q(in.width), scores(rows), out(512);
    double largest = -INFINITY, sum = 0;
    for (uint32_t j = 0; j < in.width; j++) {
        q[j] = double_of_bf16(q_bytes + 2 * j);
    }
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < in.width; j++) {
            scores[i] += q[j] * values[size_t{i} * in.width + j];
        }
        scores[i] *= in.softmax_scale;
        largest = std::max(largest, scores[i]);
    }
    for (uint32_t i = 0; i < rows; i++) {
        double p = std::exp(scores[i] - largest);
        sum += p;
        for (uint32_t j = 0; j < 512; j++) {
            out[j] += p * values[size_t{i} * in.width + j];
        }
    }
    for (double &x : out) {
        x = sum > 0 ? x / sum : 0;
    }
    return out;
}

/* A case's input on the device, its outputs with a guard behind them. */
struct device_case {
    device::array<uint8_t> pool, q;
    device::array<int32_t> places;
    size_t out_bytes;
    device::array<uint8_t> out;
    struct kvt_gpu_attend attend = {};

    explicit device_case(const input &in)
        : pool(in.pool), q(in.q), places(in.places),
          out_bytes(size_t{in.c.queries} * in.c.heads * 512 * (in.c.out_is_float ? 4 : 2)),
          out(out_bytes + GUARD)
    {
        attend.query_count = in.c.queries;
        attend.heads = in.c.heads;
        attend.k = in.c.k;
        attend.format = in.c.format;
        attend.row_scale = in.row_scale;
        attend.softmax_scale = in.softmax_scale;
        attend.rows = pool.get() + in.c.offset;
        attend.row_bytes = in.c.row_bytes;
        attend.places = places.get();
        attend.q = q.get();
        attend.out = out.get();
        attend.out_is_float = in.c.out_is_float;
        attend.splits = in.c.splits;
        attend.reference = in.c.reference;
    }
};

/* Poisons outputs, attends, brings outputs and the guard behind them back. */
std::vector<uint8_t> answer(const device_case &on, const struct kvt_gpu_attend &attend)
{
    must(cudaMemset(on.out.get(), 0xff, on.out.bytes()), "cudaMemset");
    must(kvt_gpu_attend(&attend, nullptr), "kvt_gpu_attend");
    must(cudaDeviceSynchronize(), "kvt_gpu_attend, in the device");
    return on.out.read();
}

double output_at(const input &in, const std::vector<uint8_t> &out, size_t i)
{
    if (!in.c.out_is_float) {
        return double_of_bf16(&out[2 * i]);
    }
    float value;
    memcpy(&value, &out[4 * i], 4);
    return value;
}

std::string label(const attend_case &c)
{
    char text[256];
    snprintf(text, sizeof text, "%s (%u heads, %u queries, k %u, stride %u, splits %u, %s%s)",
             c.name, c.heads, c.queries, c.k, c.row_bytes, c.splits,
             c.out_is_float ? "float" : "bf16", c.reference ? ", reference" : "");
    return text;
}

/* Norm-wise error over each query's checked heads; prints the worst. */
void check_numbers(const input &in, const std::vector<uint8_t> &out)
{
    const attend_case &c = in.c;
    double worst = 0, allowed = c.out_is_float ? 1e-3 : 3e-3;
    uint32_t worst_query = 0;
    size_t outputs = size_t{c.queries} * c.heads * 512;
    size_t unwritten = 0, guard_writes = 0;
    for (size_t i = 0; i < outputs; i++) {
        unwritten += std::isnan(output_at(in, out, i));
    }
    for (size_t i = out.size() - GUARD; i < out.size(); i++) {
        guard_writes += out[i] != 0xff;
    }
    for (uint32_t query = 0; query<c.queries; query += c.queries> 4 ? c.queries - 1 : 1) {
        double square = 0, error = 0;
        std::vector<double> values = decode_rows(in, query);
        for (uint32_t head = query % 5; head < c.heads; head += 5) {
            std::vector<double> expected = oracle(in, values, query, head);
            for (uint32_t i = 0; i < 512; i++) {
                double found = output_at(in, out, (size_t{query} * c.heads + head) * 512 + i);
                square += expected[i] * expected[i];
                error += (found - expected[i]) * (found - expected[i]);
            }
        }
        double relative = square > 0 ? std::sqrt(error / square) : std::sqrt(error);
        if (!(relative <= worst)) {
            worst = relative;
            worst_query = query;
        }
    }
    char text[128];
    snprintf(text, sizeof text, ": error %.2e at query %u (%u rows), allowed %.0e", worst,
             worst_query, in.rows[worst_query], allowed);
    check(worst <= allowed, label(c) + text);
    printf("  %.2e  %s\n", worst, label(c).c_str());
    snprintf(text, sizeof text, ": %zu of %zu outputs not written", unwritten, outputs);
    check(unwritten == 0, label(c) + text);
    check(guard_writes == 0, label(c) + ": wrote behind its outputs");
}

/* The same rows from a compact copy of each query's; and the last query alone, cut into as many
 * pieces, with more places behind. */
void check_compact(const input &in, const std::vector<uint8_t> &expected)
{
    const attend_case &c = in.c;
    uint32_t bytes = bytes_of(c.format);
    input compact = in;
    compact.c.row_bytes = bytes;
    compact.c.offset = 0;
    compact.pool.clear();
    for (uint32_t query = 0; query < c.queries; query++) {
        for (uint32_t i = 0; i < in.rows[query]; i++) {
            int32_t &place = compact.places[size_t{query} * c.k + i];
            const uint8_t *row = &in.pool[static_cast<size_t>(place) * c.row_bytes + c.offset];
            place = static_cast<int32_t>(compact.pool.size() / bytes);
            compact.pool.insert(compact.pool.end(), row, row + bytes);
        }
    }
    device_case on(compact);
    check(answer(on, on.attend) == expected,
          label(c) + ": a compact copy of the rows answers otherwise");
    uint32_t last = c.queries - 1;
    std::vector<int32_t> places(compact.places.end() - c.k, compact.places.end());
    places.resize(c.k + 96, KVT_GPU_NONE);
    device::array<int32_t> longer(places);
    struct kvt_gpu_attend alone = on.attend;
    alone.query_count = 1;
    alone.k = c.k + 96;
    alone.places = longer.get();
    alone.q = on.q.get() + size_t{2} * last * c.heads * in.width;
    alone.splits = c.splits != 0 ? c.splits : kvt_gpu_attend_splits(c.queries, c.heads, c.k);
    std::vector<uint8_t> out = answer(on, alone);
    size_t one = on.out_bytes / c.queries;
    check(memcmp(out.data(), &expected[one * last], one) == 0,
          label(c) + ": a query alone answers otherwise");
}

void check_case(const attend_case &c, uint64_t seed)
{
    input in = make_input(c, seed);
    device_case on(in);
    std::vector<uint8_t> out = answer(on, on.attend);
    check_numbers(in, out);
    bool same = true;
    for (int i = 0; i < 3; i++) {
        same = same && answer(on, on.attend) == out;
    }
    check(same, label(c) + ": another run answers otherwise");
    check_compact(in, out);
    fflush(stdout);
}

/* Queries whose request is in another wave keep what was there. */
void check_waves(const attend_case &c, uint64_t seed)
{
    input in = make_input(c, seed);
    device_case on(in);
    std::vector<uint8_t> all = answer(on, on.attend), together(all.size(), 0xff);
    std::vector<struct kvt_gpu_query> queries(c.queries);
    std::vector<struct kvt_gpu_counts> counts(c.queries);
    for (uint32_t i = 0; i < c.queries; i++) {
        queries[i].request = c.queries - 1 - i;
        counts[i].wave = i % 3;
    }
    device::array<struct kvt_gpu_query> device_queries(queries);
    device::array<struct kvt_gpu_counts> device_counts(counts);
    on.attend.queries = device_queries.get();
    on.attend.counts = device_counts.get();
    size_t one = on.out_bytes / c.queries;
    bool left_alone = true;
    for (uint32_t wave = 0; wave < 3; wave++) {
        on.attend.wave = wave;
        std::vector<uint8_t> out = answer(on, on.attend);
        for (uint32_t i = 0; i < c.queries; i++) {
            bool is_in = (c.queries - 1 - i) % 3 == wave;
            for (size_t at = one * i; at < one * (i + 1); at++) {
                left_alone = left_alone && (is_in || out[at] == 0xff);
                together[at] = is_in ? out[at] : together[at];
            }
        }
    }
    check(left_alone, label(c) + ": wrote outputs of another wave");
    check(together == all, label(c) + ": waves together are not the whole");
}

/* Launched from a graph, twice. */
void check_graph(const attend_case &c, uint64_t seed)
{
    input in = make_input(c, seed);
    device_case on(in);
    std::vector<uint8_t> expected = answer(on, on.attend);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    must(cudaStreamCreate(&stream), "cudaStreamCreate");
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    must(kvt_gpu_attend(&on.attend, stream), "kvt_gpu_attend, captured");
    must(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    must(cudaGraphInstantiate(&replay, graph, 0), "cudaGraphInstantiate");
    for (int i = 0; i < 2; i++) {
        must(cudaMemsetAsync(on.out.get(), 0xff, on.out.bytes(), stream), "cudaMemset");
        must(cudaGraphLaunch(replay, stream), "cudaGraphLaunch");
        must(cudaStreamSynchronize(stream), "a graph's launch");
        check(on.out.read() == expected, label(c) + ": a graph's launch answers otherwise");
    }
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
}

void check_refusals()
{
    static uint8_t nothing[16];
    struct kvt_gpu_attend good = {};
    good.query_count = 1;
    good.heads = 64;
    good.k = 64;
    good.row_scale = good.softmax_scale = 1;
    good.rows = reinterpret_cast<const uint8_t *>(uintptr_t{4096});
    good.row_bytes = 576;
    struct kvt_gpu_attend bad = good;
    bad.heads = 32;
    check(kvt_gpu_attend(&bad, nullptr) == cudaErrorInvalidValue, "32 heads are not refused");
    bad = good;
    bad.k = 0;
    check(kvt_gpu_attend(&bad, nullptr) == cudaErrorInvalidValue, "k 0 is not refused");
    bad = good;
    bad.row_bytes = 570;
    check(kvt_gpu_attend(&bad, nullptr) == cudaErrorInvalidValue, "stride 570 is not refused");
    bad = good;
    bad.rows = nothing + (reinterpret_cast<uintptr_t>(nothing) % 16 == 0 ? 1 : 0);
    check(kvt_gpu_attend(&bad, nullptr) == cudaErrorInvalidValue, "odd rows are not refused");
    bad = good;
    bad.out = nothing + (reinterpret_cast<uintptr_t>(nothing) % 16 == 0 ? 8 : 1);
    check(kvt_gpu_attend(&bad, nullptr) == cudaErrorInvalidValue, "odd outputs are not refused");
    bad = good;
    bad.q = nothing + (reinterpret_cast<uintptr_t>(nothing) % 16 == 0 ? 8 : 1);
    check(kvt_gpu_attend(&bad, nullptr) == cudaErrorInvalidValue, "odd queries are not refused");
    bad = good;
    bad.softmax_scale = 0;
    check(kvt_gpu_attend(&bad, nullptr) == cudaErrorInvalidValue, "scale 0 is not refused");
    bad = good;
    bad.splits = 17;
    check(kvt_gpu_attend(&bad, nullptr) == cudaErrorInvalidValue, "17 splits are not refused");
    bad = good;
    bad.query_count = 0;
    check(kvt_gpu_attend(&bad, nullptr) == cudaSuccess, "no queries are not nothing to do");
}

const attend_case CASES[] = {
    {"flat", KVT_GPU_ROW_E4M3_576, FLAT, 64, 2, 2048, 2048, 576, 0, 1, true, false},
    {"flat", KVT_GPU_ROW_E4M3_576, FLAT, 64, 2, 2048, 2048, 576, 0, 1, false, false},
    {"flat, chosen splits", KVT_GPU_ROW_E4M3_576, FLAT, 64, 3, 2048, 2048, 576, 0, 0, true, false},
    {"flat, layer 2 of 4", KVT_GPU_ROW_E4M3_576, FLAT, 64, 3, 2048, 1500, 2304, 1152, 4, true,
     false},
    {"flat, 128 heads", KVT_GPU_ROW_E4M3_576, FLAT, 128, 3, 2048, 2000, 576, 0, 1, true, false},
    {"flat, 128 heads", KVT_GPU_ROW_E4M3_576, FLAT, 128, 2, 2048, 2048, 576, 0, 2, false, false},
    {"peaked", KVT_GPU_ROW_E4M3_576, PEAKED, 64, 3, 2048, 2048, 576, 0, 1, true, false},
    {"peaked", KVT_GPU_ROW_E4M3_576, PEAKED, 64, 3, 2048, 1999, 576, 0, 8, true, false},
    {"rising", KVT_GPU_ROW_E4M3_576, RISING, 64, 3, 2048, 2048, 576, 0, 1, true, false},
    {"rising", KVT_GPU_ROW_E4M3_576, RISING, 64, 3, 2048, 700, 576, 0, 4, true, false},
    {"tiny q", KVT_GPU_ROW_E4M3_576, TINY, 64, 2, 512, 512, 576, 0, 2, true, false},
    {"huge q", KVT_GPU_ROW_E4M3_576, HUGE_Q, 64, 2, 512, 512, 576, 0, 1, true, false},
    {"few rows", KVT_GPU_ROW_E4M3_576, FLAT, 64, 70, 512, 1, 576, 0, 1, true, false},
    {"few rows", KVT_GPU_ROW_E4M3_576, FLAT, 64, 30, 512, 1, 576, 0, 8, true, false},
    {"rising, any length", KVT_GPU_ROW_E4M3_576, RISING, 64, 4, 1100, 1, 576, 0, 3, true, false},
    {"flat, many at once", KVT_GPU_ROW_E4M3_576, FLAT, 64, 150, 2048, 1900, 576, 0, 1, false,
     false},
    {"few rows", KVT_GPU_ROW_E4M3_576, FLAT, 128, 20, 100, 1, 576, 0, 3, true, false},
    {"k 33", KVT_GPU_ROW_E4M3_576, FLAT, 64, 9, 33, 31, 576, 0, 0, false, false},
    {"no rows", KVT_GPU_ROW_E4M3_576, FLAT, 64, 3, 96, 0, 576, 0, 2, true, false},
    {"flat", KVT_GPU_ROW_E4M3_576, FLAT, 64, 2, 2048, 2048, 576, 0, 0, true, true},
    {"rising", KVT_GPU_ROW_E4M3_576, RISING, 128, 2, 1024, 100, 2304, 576, 0, true, true},
    {"few rows", KVT_GPU_ROW_E4M3_576, FLAT, 64, 9, 512, 0, 576, 0, 0, false, true},
    {"mixed", KVT_GPU_ROW_MIXED_656, FLAT, 64, 2, 2048, 2000, 656, 0, 0, true, false},
    {"mixed, layer 1 of 2", KVT_GPU_ROW_MIXED_656, PEAKED, 128, 2, 500, 1, 1312, 656, 0, false,
     false},
    {"bf16", KVT_GPU_ROW_BF16_1152, FLAT, 64, 2, 2048, 2048, 1152, 0, 0, true, false},
    {"bf16", KVT_GPU_ROW_BF16_1152, RISING, 128, 3, 600, 1, 1152, 0, 0, true, false},
    {"fp4", KVT_GPU_ROW_FP4_288, FLAT, 64, 2, 1024, 1024, 288, 0, 0, true, false},
    {"fp4", KVT_GPU_ROW_FP4_288, PEAKED, 128, 3, 512, 5, 576, 288, 0, false, false},
};

/* For a checker of memory or of races: the fast kernel's ring goes round, references move, pieces
 * meet. */
const attend_case SMALL[] = {
    {"rising", KVT_GPU_ROW_E4M3_576, RISING, 64, 1, 400, 400, 576, 0, 1, true, false},
    {"few rows", KVT_GPU_ROW_E4M3_576, FLAT, 64, 2, 600, 130, 1152, 576, 2, false, false},
};

} // namespace

/* test_attend [seed | small] */
int main(int argc, char **argv)
{
    device::require();
    bool small = argc > 1 && strcmp(argv[1], "small") == 0;
    uint64_t seed = argc > 1 && !small ? strtoull(argv[1], nullptr, 0) : 20261130;
    printf("seed %llu\n", static_cast<unsigned long long>(seed));
    if (small) {
        for (const attend_case &c : SMALL) {
            check_case(c, seed++);
        }
        return verdicts.close();
    }
    for (const attend_case &c : CASES) {
        check_case(c, seed++);
    }
    const attend_case waves = {
        "waves", KVT_GPU_ROW_E4M3_576, FLAT, 64, 7, 512, 300, 576, 0, 2, true, false};
    check_waves(waves, seed++);
    attend_case plain = waves;
    plain.reference = true;
    check_waves(plain, seed++);
    check_graph(waves, seed++);
    check_graph(plain, seed++);
    check_refusals();
    return verdicts.close();
}
