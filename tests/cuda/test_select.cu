/* test_select.cu -- index scan and top-k against naive oracles on the CPU. */
#include "select_support.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstring>
#include <limits>
#include <string>

namespace
{

uint32_t passed, failed;

void check(bool is_right, const char *format, ...)
{
    if (is_right) {
        passed++;
        return;
    }
    if (failed++ < 20) {
        va_list list;
        va_start(list, format);
        std::vprintf(format, list);
        va_end(list);
        std::printf("\n");
    }
}

/* ---- Inputs ---- */

struct draws {
    uint64_t state;
    uint64_t next()
    {
        uint64_t x = state += 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        return x ^ x >> 31;
    }
    double uniform()
    {
        return (double)(next() >> 11) * 0x1p-53;
    }
    double normal()
    {
        return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(2 * M_PI * uniform());
    }
    uint32_t below(uint32_t end)
    {
        return (uint32_t)(next() % end);
    }
};

float decode_e4m3(uint8_t bits)
{
    int exponent = bits >> 3 & 15, mantissa = bits & 7;
    float value = exponent == 0 ? std::ldexp((float)mantissa, -9)
                                : std::ldexp((float)(8 + mantissa), exponent - 10);
    return bits & 0x80 ? -value : value;
}

/* Numbers between 2^-6 and 2^2 for the most part, of both signs. */
uint8_t draw_e4m3(struct draws *draws)
{
    uint8_t exponent = (uint8_t)(draws->below(20) == 0 ? draws->below(15) : 4 + draws->below(5));
    return (uint8_t)(draws->next() & 0x87) | (uint8_t)(exponent << 3);
}

/* A step of some requests, and the index of some lanes. */
struct step {
    std::vector<kvt_gpu_request> requests;
    std::vector<kvt_gpu_query> queries;
    uint32_t ratio = 1;

    void add(uint32_t lane, uint32_t context_tokens, uint32_t query_count)
    {
        kvt_gpu_request request = {};
        request.lane = lane;
        request.first_query = (uint32_t)queries.size();
        request.query_count = query_count;
        request.context_tokens = context_tokens;
        for (uint32_t i = 0; i < query_count; i++)
            queries.push_back({(uint32_t)requests.size(), i});
        requests.push_back(request);
    }
    uint32_t visible(uint32_t query) const
    {
        const kvt_gpu_query &of = queries[query];
        return (requests[of.request].context_tokens + of.depth + 1) / ratio;
    }
    uint32_t rows_max() const
    {
        uint32_t rows = 0;
        for (uint32_t i = 0; i < queries.size(); i++)
            rows = std::max(rows, visible(i));
        return rows;
    }
    uint32_t queries_max() const
    {
        uint32_t count = 0;
        for (const kvt_gpu_request &request : requests)
            count = std::max(count, request.query_count);
        return count;
    }
};

/* ---- Scan ---- */

struct scan_inputs {
    uint32_t heads;
    uint64_t lane_bytes;
    std::vector<uint8_t> keys, q;
    std::vector<float> weights;

    scan_inputs(const struct step &step, uint32_t heads, uint32_t lanes, uint64_t seed)
        : heads(heads)
    {
        struct draws draws = {seed};
        uint32_t pages = (step.rows_max() + 63) / 64;
        lane_bytes = (uint64_t)pages * KVT_GPU_INDEX_PAGE_BYTES;
        keys.resize(lanes * lane_bytes);
        for (uint32_t page = 0; page < lanes * pages; page++) {
            uint8_t *bytes = keys.data() + (size_t)page * KVT_GPU_INDEX_PAGE_BYTES;
            for (uint32_t i = 0; i < 64 * KVT_GPU_INDEX_DIM; i++)
                bytes[i] = draw_e4m3(&draws);
            for (uint32_t i = 0; i < 64; i++) {
                float scale = (float)(0.01 + draws.uniform());
                std::memcpy(bytes + 64 * KVT_GPU_INDEX_DIM + 4 * i, &scale, 4);
            }
        }
        q.resize(step.queries.size() * heads * KVT_GPU_INDEX_DIM);
        for (uint8_t &bits : q)
            bits = draw_e4m3(&draws);
        weights.resize(step.queries.size() * heads);
        for (float &weight : weights)
            weight = (float)draws.normal();
    }
};

/* A score, and what it would be if nothing cancelled: what rounding is held against. */
struct oracle_score {
    double score, magnitude;
};

struct oracle_score score_of(const struct step &step, const struct scan_inputs &inputs,
                             uint32_t query, uint32_t row)
{
    static float decoded[256];
    if (decoded[1] == 0)
        for (int i = 0; i < 256; i++)
            decoded[i] = decode_e4m3((uint8_t)i);
    const kvt_gpu_request &request = step.requests[step.queries[query].request];
    const uint8_t *page = inputs.keys.data() + request.lane * inputs.lane_bytes +
                          (size_t)(row / 64) * KVT_GPU_INDEX_PAGE_BYTES;
    const uint8_t *key = page + row % 64 * KVT_GPU_INDEX_DIM;
    float scale;
    std::memcpy(&scale, page + 64 * KVT_GPU_INDEX_DIM + row % 64 * 4, 4);
    struct oracle_score sum = {0, 0};
    for (uint32_t head = 0; head < inputs.heads; head++) {
        const uint8_t *q =
            inputs.q.data() + ((size_t)query * inputs.heads + head) * KVT_GPU_INDEX_DIM;
        double product = 0, magnitude = 0;
        for (uint32_t dim = 0; dim < KVT_GPU_INDEX_DIM; dim++) {
            double term = decoded[q[dim]] * decoded[key[dim]];
            product += term;
            magnitude += std::fabs(term);
        }
        double weight = inputs.weights[(size_t)query * inputs.heads + head];
        sum.score += scale * weight * std::max(product, 0.0);
        sum.magnitude += scale * std::fabs(weight) * magnitude;
    }
    return sum;
}

constexpr uint32_t POISON = 0x7fedcba9; /* a NaN */

std::vector<uint32_t> run_scan(const struct step &step, const struct scan_inputs &inputs,
                               uint32_t stride, bool reference)
{
    device_array<kvt_gpu_request> requests(step.requests);
    device_array<kvt_gpu_query> queries(step.queries);
    device_array<uint8_t> keys(inputs.keys), q(inputs.q);
    device_array<float> weights(inputs.weights);
    device_array<uint32_t> scores(std::vector<uint32_t>(step.queries.size() * stride + 64, POISON));
    struct kvt_gpu_scan scan = {};
    scan.request_count = (uint32_t)step.requests.size();
    scan.query_count = (uint32_t)step.queries.size();
    scan.queries_max = step.queries_max();
    scan.ratio = step.ratio;
    scan.heads = inputs.heads;
    scan.requests = requests.get();
    scan.queries = queries.get();
    scan.keys = keys.get();
    scan.lane_bytes = inputs.lane_bytes;
    scan.q = q.get();
    scan.weights = weights.get();
    scan.scores = (float *)scores.get();
    scan.score_stride = stride;
    scan.rows_max = step.rows_max();
    scan.reference = reference;
    CUDA(kvt_gpu_scan(&scan, 0));
    CUDA(cudaDeviceSynchronize());
    return scores.read();
}

/* Scores of the kernel against the oracle; nothing is written beyond what a query sees. */
void check_scores(const char *name, const struct step &step, const struct scan_inputs &inputs,
                  const std::vector<struct oracle_score> &oracle, uint32_t stride, bool reference,
                  const std::vector<uint32_t> &scores)
{
    /* FP8 tensor cores align what they add to the largest and cut off what is 13 bits below it,
     * once for every few products; the plain kernel adds in float. */
    const double limit = reference ? 0x1p-20 : 0x1p-10;
    for (uint32_t query = 0; query < step.queries.size(); query++) {
        double error2 = 0, norm2 = 0, worst = 0;
        uint32_t touched = 0, rows = step.visible(query);
        for (uint32_t row = 0; row < stride; row++) {
            uint32_t bits = scores[(size_t)query * stride + row];
            if (row >= rows) {
                touched += bits != POISON;
                continue;
            }
            float score;
            std::memcpy(&score, &bits, 4);
            const struct oracle_score &right = oracle[(size_t)query * stride + row];
            double error = std::fabs(score - right.score);
            error2 += error * error;
            norm2 += right.score * right.score;
            worst = std::isnan(score) ? INFINITY : std::max(worst, error / right.magnitude);
        }
        double relative = rows >= 64 ? std::sqrt(error2 / norm2) : 0;
        check(
            relative <= limit && worst <= limit,
            "scan %s, %u heads, %s, query %u of %u rows: error %g of the norm, at worst %g of the "
            "terms' size; expected <= %g",
            name, inputs.heads, reference ? "plain" : "fast", query, rows, relative, worst,
            8 * limit, limit);
        check(touched == 0, "scan %s, query %u: %u scores behind the last row written", name, query,
              touched);
    }
    for (size_t i = step.queries.size() * stride; i < scores.size(); i++)
        check(scores[i] == POISON, "scan %s: written behind the scores", name);
}

void test_scan(const char *name, const struct step &step, uint32_t heads, uint32_t lanes,
               uint64_t seed)
{
    struct scan_inputs inputs(step, heads, lanes, seed);
    uint32_t stride = (step.rows_max() + 63) / 64 * 64 + 64;
    std::vector<struct oracle_score> oracle(step.queries.size() * stride);
    for (uint32_t query = 0; query < step.queries.size(); query++)
        for (uint32_t row = 0; row < step.visible(query); row++)
            oracle[(size_t)query * stride + row] = score_of(step, inputs, query, row);
    std::vector<uint32_t> fast = run_scan(step, inputs, stride, false);
    check_scores(name, step, inputs, oracle, stride, false, fast);
    check_scores(name, step, inputs, oracle, stride, true, run_scan(step, inputs, stride, true));
    check(run_scan(step, inputs, stride, false) == fast, "scan %s: other bits the second time",
          name);

    /* Alone, and query by query: the same bits. */
    for (uint32_t query = 0; query < step.queries.size(); query++) {
        const kvt_gpu_request &request = step.requests[step.queries[query].request];
        struct step alone;
        alone.ratio = step.ratio;
        alone.add(request.lane, request.context_tokens + step.queries[query].depth, 1);
        struct scan_inputs of_query = inputs;
        size_t at = (size_t)query * heads;
        of_query.q.assign(inputs.q.begin() + (long)at * KVT_GPU_INDEX_DIM,
                          inputs.q.begin() + (long)(at + heads) * KVT_GPU_INDEX_DIM);
        of_query.weights.assign(inputs.weights.begin() + (long)at,
                                inputs.weights.begin() + (long)(at + heads));
        std::vector<uint32_t> scores = run_scan(alone, of_query, stride, false);
        check(std::equal(scores.begin(), scores.begin() + stride,
                         fast.begin() + (long)query * stride),
              "scan %s: query %u has other bits alone", name, query);
    }
}

void test_scan_of(uint32_t query_count, uint32_t heads)
{
    struct step step;
    step.add(0, 777, query_count);
    step.add(2, 63 - query_count, 1);
    step.add(1, 1290, query_count);
    char name[32];
    std::snprintf(name, sizeof name, "of %u queries", query_count);
    test_scan(name, step, heads, 3, 100 * heads + query_count);
}

void test_scans()
{
    for (uint32_t heads = 32; heads <= 64; heads += 32)
        for (uint32_t query_count : {1u, 2u, 3u, 4u, 5u, 8u, 11u, 32u})
            test_scan_of(query_count, heads);
    struct step many; /* more requests than blocks, some of them seeing nothing */
    many.ratio = 2;
    for (uint32_t i = 0; i < 450; i++)
        many.add(i % 7, i % 5 == 0 ? 0 : i * 37 % 611, 1 + i % 3);
    test_scan("of 450 requests, ratio 2", many, 32, 7, 4);
    struct step tree; /* depths that do not ascend */
    tree.add(0, 500, 6);
    for (uint32_t i = 0; i < 6; i++)
        tree.queries[i].depth = (i * 5 + 3) % 6 / 2;
    test_scan("of a tree", tree, 32, 1, 5);
    struct step longer;
    longer.add(0, 20000, 8);
    longer.add(1, 9000, 4);
    test_scan("of 20,000 rows", longer, 32, 2, 6);
}

/* ---- Top-k ---- */

struct distribution {
    const char *name;
    float (*draw)(struct draws *draws, uint32_t row, uint32_t rows, uint32_t k);
};

const struct distribution DISTRIBUTIONS[] = {
    {"N(0, 1)", [](struct draws *d, uint32_t, uint32_t, uint32_t) { return (float)d->normal(); }},
    {"N(100, 0.5)", [](struct draws *d, uint32_t, uint32_t,
                       uint32_t) { return (float)(100 + 0.5 * d->normal()); }},
    {"one value", [](struct draws *, uint32_t, uint32_t, uint32_t) { return -2.385f; }},
    {"minus infinity", [](struct draws *, uint32_t, uint32_t,
                          uint32_t) { return -std::numeric_limits<float>::infinity(); }},
    {"7 values",
     [](struct draws *d, uint32_t, uint32_t, uint32_t) { return (float)d->below(7) - 3.0f; }},
    {"two neighbours", [](struct draws *d, uint32_t, uint32_t,
                          uint32_t) { return d->below(2) ? 1.0f : std::nextafter(1.0f, 2.0f); }},
    {"infinities",
     [](struct draws *d, uint32_t, uint32_t, uint32_t) {
         uint32_t which = d->below(40);
         return which == 0   ? std::numeric_limits<float>::infinity()
                : which < 30 ? -std::numeric_limits<float>::infinity()
                             : (float)d->normal();
     }},
    {"denormals",
     [](struct draws *d, uint32_t, uint32_t, uint32_t) {
         return (float)((double)(int32_t)d->below(2001) - 1000) * 0x1p-149f;
     }},
    {"zeros of both signs",
     [](struct draws *d, uint32_t, uint32_t, uint32_t) {
         return d->below(2) ? 0.0f : d->below(9) ? -0.0f : -1.0f;
     }},
    {"ascending", [](struct draws *, uint32_t row, uint32_t, uint32_t) { return (float)row; }},
    {"descending", [](struct draws *, uint32_t row, uint32_t, uint32_t) { return -(float)row; }},
    {"all but k equal",
     [](struct draws *, uint32_t row, uint32_t rows, uint32_t k) {
         return row % std::max(1u, rows / std::max(1u, k)) == 0 ? 3.0f : 2.0f;
     }},
    {"k - 1 above, then ties", /* the k-th is the first of the ties */
     [](struct draws *, uint32_t row, uint32_t rows, uint32_t k) {
         return row + k > rows ? 5.0f : 4.0f;
     }},
    {"k above at the end", [](struct draws *, uint32_t row, uint32_t rows,
                              uint32_t k) { return row + k >= rows ? 5.0f : 4.0f; }},
    {"any bits but NaN",
     [](struct draws *d, uint32_t, uint32_t, uint32_t) {
         uint32_t bits = (uint32_t)d->next();
         if ((bits & 0x7f800000) == 0x7f800000)
             bits &= 0xff800000;
         float value;
         std::memcpy(&value, &bits, 4);
         return value;
     }},
};

std::vector<int32_t> oracle_topk(const float *scores, uint32_t rows, uint32_t k)
{
    std::vector<int32_t> order(rows);
    for (uint32_t row = 0; row < rows; row++)
        order[row] = (int32_t)row;
    uint32_t count = std::min(k, rows);
    std::nth_element(order.begin(), order.begin() + count - (count == rows), order.end(),
                     [&](int32_t a, int32_t b) {
                         return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
                     });
    order.resize(count);
    std::sort(order.begin(), order.end());
    order.resize(k, KVT_GPU_NONE);
    return order;
}

constexpr uint32_t GUARD = 256; /* words before and behind the answer that must stay */

std::vector<int32_t> run_topk(const struct step &step, const std::vector<float> &scores,
                              uint32_t stride, uint32_t k, bool reference)
{
    const uint32_t query_count = (uint32_t)step.queries.size();
    device_array<kvt_gpu_request> requests(step.requests);
    device_array<kvt_gpu_query> queries(step.queries);
    device_array<float> device_scores(scores);
    device_array<int32_t> rows((size_t)query_count * k + 2 * GUARD);
    rows.fill(0xa5);
    struct kvt_gpu_topk topk = {};
    topk.query_count = query_count;
    topk.k = k;
    topk.ratio = step.ratio;
    topk.requests = requests.get();
    topk.queries = queries.get();
    topk.scores = device_scores.get();
    topk.score_stride = stride;
    topk.rows_max = step.rows_max();
    topk.rows = rows.get() + GUARD;
    topk.reference = reference;
    CUDA(kvt_gpu_topk(&topk, 0));
    CUDA(cudaDeviceSynchronize());
    std::vector<int32_t> all = rows.read();
    bool untouched = true;
    for (uint32_t i = 0; i < GUARD; i++)
        untouched = untouched && all[i] == (int32_t)0xa5a5a5a5 &&
                    all[all.size() - 1 - i] == (int32_t)0xa5a5a5a5;
    check(untouched, "top-k %u of %u rows: written outside the answer", k, topk.rows_max);
    return std::vector<int32_t>(all.begin() + GUARD, all.end() - GUARD);
}

void check_rows(const char *name, const char *kernel, const struct step &step, uint32_t k,
                const std::vector<int32_t> &right, const std::vector<int32_t> &found)
{
    size_t at = 0;
    while (at < right.size() && right[at] == found[at])
        at++;
    check(at == right.size(),
          "top-k %u of %s, %s: query %zu of %u rows, place %zu: expected row "
          "%d, found %d",
          k, name, kernel, at / k, at < right.size() ? step.visible((uint32_t)(at / k)) : 0, at % k,
          at < right.size() ? right[at] : 0, at < right.size() ? found[at] : 0);
}

void test_topk(const struct distribution &distribution, const struct step &step, uint32_t k,
               uint64_t seed)
{
    struct draws draws = {seed};
    const uint32_t query_count = (uint32_t)step.queries.size();
    const uint32_t stride = (step.rows_max() + 63) / 64 * 64;
    std::vector<float> scores((size_t)query_count * stride,
                              std::numeric_limits<float>::infinity()); /* where none may look */
    std::vector<int32_t> right;
    for (uint32_t query = 0; query < query_count; query++) {
        float *of_query = scores.data() + (size_t)query * stride;
        uint32_t rows = step.visible(query);
        for (uint32_t row = 0; row < rows; row++)
            of_query[row] = distribution.draw(&draws, row, rows, k);
        std::vector<int32_t> best = oracle_topk(of_query, rows, k);
        right.insert(right.end(), best.begin(), best.end());
    }
    check_rows(distribution.name, "fast", step, k, right, run_topk(step, scores, stride, k, false));
    check_rows(distribution.name, "plain", step, k, right, run_topk(step, scores, stride, k, true));
}

/* Clusters of four, two blocks of them on a multiprocessor. */
void test_topk_of_crowd(const struct distribution &distribution, uint64_t seed)
{
    struct step crowd;
    for (uint32_t i = 0; i < 44; i++)
        crowd.add(0, 9000 + 7 * i, 1);
    test_topk(distribution, crowd, 1024, seed);
}

/* Few enough that several blocks share each: three, where the machine has 132 multiprocessors. */
void test_topk_of_clusters(uint64_t seed)
{
    struct step step;
    for (uint32_t i = 0; i < 32; i++)
        step.add(0, 9000 + 7 * i, 1);
    test_topk(DISTRIBUTIONS[1], step, 1024, seed);
}

void test_topks()
{
    uint64_t seed = 1;
    for (const struct distribution &distribution : DISTRIBUTIONS)
        for (uint32_t k : {512u, 1024u, 2048u}) {
            struct step step; /* visible: 1, k - 1, k, k + 1, and as long as it comes */
            step.add(0, 0, 1);
            step.add(0, k - 2, 3);
            step.add(0, 5000 + 13 * k, 2);
            test_topk(distribution, step, k, seed++);
            struct step longer;
            longer.ratio = 2;
            longer.add(0, 100031, 1);
            longer.add(0, 20000, 1);
            test_topk(distribution, longer, k, seed++);
        }
    for (const struct distribution &distribution : DISTRIBUTIONS) {
        struct step step;
        for (uint32_t i = 0; i < 3; i++)
            step.add(0, 100031 + i, 1 + i);
        test_topk(distribution, step, 2048, seed++);
        struct step many; /* more than a cluster of eight for each */
        for (uint32_t i = 0; i < 35; i++)
            many.add(0, i % 2 ? 33000 + i : i * 401, 1);
        test_topk(distribution, many, 512, seed++);
        test_topk_of_crowd(distribution, seed++);
    }
    for (uint32_t i : {0u, 1u, 4u, 11u}) { /* clusters of three, their memory full */
        struct step step;
        for (uint32_t query = 0; query < 17; query++)
            step.add(0, 102399 - 1000 * query, 1);
        test_topk(DISTRIBUTIONS[i], step, 2048, seed++);
    }
    for (uint32_t i : {0u, 1u, 6u, 14u}) { /* keys that do not fit into registers */
        struct step step;
        step.add(0, 1048575, 1);
        step.add(0, 600000, 1);
        test_topk(DISTRIBUTIONS[i], step, 2048, seed++);
    }
    for (uint32_t rows = 1; rows < 300000; rows = rows * 3 + 1) { /* every count of keys a lane */
        struct step step;
        step.add(0, rows, 1);
        test_topk(DISTRIBUTIONS[0], step, 1024, seed++);
        struct step twenty;
        for (uint32_t i = 0; i < 20; i++)
            twenty.add(0, rows - i % 2, 1);
        if (rows < 100000)
            test_topk(DISTRIBUTIONS[4], twenty, 1024, seed++);
    }

    /* NaN: any answer, within bounds, no hang. */
    struct step step;
    step.add(0, 40000, 4);
    std::vector<float> scores(4 * 40064);
    struct draws draws = {99};
    for (float &score : scores) {
        uint32_t bits = (uint32_t)draws.next() | (draws.below(3) ? 0x7fc00000 : 0);
        std::memcpy(&score, &bits, 4);
    }
    for (bool reference : {false, true})
        for (int32_t row : run_topk(step, scores, 40064, 2048, reference))
            check(row == (int32_t)0xa5a5a5a5 || (row >= KVT_GPU_NONE && row < 40064),
                  "top-k of NaNs: row %d", row);
    std::memset(scores.data(), 0xff, scores.size() * sizeof(float));
    for (bool reference : {false, true})
        run_topk(step, scores, 40064, 2048, reference);
}

/* ---- Both, in a graph ---- */

void test_graph()
{
    struct step step;
    step.add(1, 3000, 4);
    step.add(0, 2500, 4);
    struct scan_inputs inputs(step, 32, 2, 77);
    const uint32_t stride = 3008, k = 512, query_count = 8;
    device_array<kvt_gpu_request> requests(step.requests);
    device_array<kvt_gpu_query> queries(step.queries);
    device_array<uint8_t> keys(inputs.keys), q(inputs.q);
    device_array<float> weights(inputs.weights), scores(query_count * stride);
    device_array<int32_t> rows(query_count * k);
    struct kvt_gpu_scan scan = {};
    scan.request_count = 2;
    scan.query_count = query_count;
    scan.queries_max = 4;
    scan.ratio = 1;
    scan.heads = 32;
    scan.requests = requests.get();
    scan.queries = queries.get();
    scan.keys = keys.get();
    scan.lane_bytes = inputs.lane_bytes;
    scan.q = q.get();
    scan.weights = weights.get();
    scan.scores = scores.get();
    scan.score_stride = stride;
    scan.rows_max = 3004;
    struct kvt_gpu_topk topk = {};
    topk.query_count = query_count;
    topk.k = k;
    topk.ratio = 1;
    topk.requests = requests.get();
    topk.queries = queries.get();
    topk.scores = scores.get();
    topk.score_stride = stride;
    topk.rows_max = 3004;
    topk.rows = rows.get();

    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CUDA(kvt_gpu_scan(&scan, stream));
    CUDA(kvt_gpu_topk(&topk, stream));
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int replay = 0; replay < 2; replay++) {
        scores.fill(0xff);
        rows.fill(0xa5);
        CUDA(cudaGraphLaunch(exec, stream));
        CUDA(cudaStreamSynchronize(stream));
        std::vector<float> found = scores.read();
        std::vector<int32_t> right;
        for (uint32_t query = 0; query < query_count; query++) {
            std::vector<int32_t> best =
                oracle_topk(found.data() + query * stride, step.visible(query), k);
            right.insert(right.end(), best.begin(), best.end());
        }
        check_rows("scanned scores", "in a graph", step, k, right, rows.read());
    }
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaStreamDestroy(stream));

    scan.heads = 48;
    check(kvt_gpu_scan(&scan, 0) == cudaErrorInvalidValue, "scan of 48 heads is not refused");
    scan.heads = 32;
    scan.queries_max = KVT_GPU_QUERIES_MAX + 1;
    check(kvt_gpu_scan(&scan, 0) == cudaErrorInvalidValue, "scan of 33 queries is not refused");
    topk.rows_max = stride + 1;
    check(kvt_gpu_topk(&topk, 0) == cudaErrorInvalidValue,
          "top-k of more rows than the stride is not refused");
    topk.query_count = 0;
    topk.rows_max = stride;
    check(kvt_gpu_topk(&topk, 0) == cudaSuccess, "top-k of no query fails");
}

} // namespace

int main(int argc, char **argv)
{
    const bool small = argc == 2 && std::strcmp(argv[1], "small") == 0;
    if (argc > 1 && !small) {
        std::fprintf(stderr, "usage: test_select [small: for a checker of memory or of races]\n");
        return 2;
    }
    need_device();
    if (small) {
        test_scan_of(3, 64);
        test_scan_of(8, 32);
        test_topk_of_crowd(DISTRIBUTIONS[0], 1);
        test_topk_of_clusters(2);
    } else {
        test_topks();
        test_scans();
    }
    test_graph();
    std::printf("%u passed, %u failed\n", passed, failed);
    return failed > 0;
}
