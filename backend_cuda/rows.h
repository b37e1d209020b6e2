/* rows.h -- what made rows, keys and queries hold: the same bytes from C and from kernels.
 *
 * A row is a function of (context, layer, row): its 16-byte chunks are hashes, given the shape of
 * N(0, 1) by a table of quantiles, so that softmax and errors behave as on a model's rows and
 * every value is finite. A key is part its own, part its page's; a query is a constant direction,
 * one that turns from knot to knot, and a part that is new with each token. Floating point is
 * used one rounded operation at a time: no contraction, the same bits on both sides. */
#ifndef KVT_GPU_ROWS_H
#define KVT_GPU_ROWS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "launch.h"

#ifdef __CUDACC__
#define KVT_MADE __host__ __device__ static inline
#else
#define KVT_MADE static inline
#endif

/* ---- Words -------------------------------------------------------------------------- */

/* As kvt_mix64(), which device code cannot call. */
KVT_MADE uint64_t kvt_made_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The i-th word of a stream. */
KVT_MADE uint64_t kvt_made_word(uint64_t stream, uint32_t i)
{
    return kvt_made_mix(stream + (i + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15));
}

/* A stream of its own for each (kind, a, b, c). */
enum kvt_made_kind {
    KVT_MADE_ROW = 1,
    KVT_MADE_KEY,
    KVT_MADE_TOPIC,
    KVT_MADE_CONSTANT,
    KVT_MADE_KNOT,
    KVT_MADE_FRESH,
    KVT_MADE_WEIGHT,
    KVT_MADE_DRAFT
};
KVT_MADE uint64_t kvt_made_stream(enum kvt_made_kind kind, uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t stream = kvt_made_mix((uint64_t)kind << 32 | a);
    return kvt_made_mix(stream ^ ((uint64_t)b << 32 | c));
}

/* ---- Floats ------------------------------------------------------------------------- */

KVT_MADE float kvt_made_multiply(float a, float b)
{
#ifdef __CUDA_ARCH__
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

KVT_MADE float kvt_made_add(float a, float b)
{
#ifdef __CUDA_ARCH__
    return __fadd_rn(a, b);
#else
    return a + b;
#endif
}

KVT_MADE float kvt_made_root(float x)
{
#ifdef __CUDA_ARCH__
    return __fsqrt_rn(x);
#else
    return sqrtf(x);
#endif
}

KVT_MADE uint32_t kvt_made_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Near N(0, 1): the sum of four bytes, which is within 3.46 of its mean. */
KVT_MADE float kvt_made_normal(uint32_t word)
{
    int sum = (int)((word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24)) - 2 * 255;
    return kvt_made_multiply((float)sum, 1.0f / 147.8f);
}

/* To the nearest e4m3, ties to even; beyond 448: 448. */
KVT_MADE uint8_t kvt_made_e4m3(float x)
{
    uint32_t bits = kvt_made_bits(x);
    uint32_t sign = bits >> 24 & 0x80;
    uint32_t magnitude = bits & 0x7fffffff;

    if (magnitude >= 0x43e00000) /* 448 */
        return (uint8_t)(sign | 0x7e);
    if (magnitude < 0x3c800000) /* below 2^-6 in steps of 2^-9, the last place of 2^14 */
        return (uint8_t)(sign | (kvt_made_bits(kvt_made_add(fabsf(x), 16384.0f)) & 0xff));
    magnitude += 0x7ffff + (magnitude >> 20 & 1);
    return (uint8_t)(sign | ((magnitude >> 20) - ((127 - 7) << 3)));
}

KVT_MADE float kvt_made_e4m3_value(uint8_t code)
{
    uint32_t exponent = code >> 3 & 15;
    uint32_t bits =
        (uint32_t)(code & 0x80) << 24 | (exponent + 120) << 23 | (uint32_t)(code & 7) << 20;
    float x;

    if (exponent == 0) {
        x = (float)(code & 7) * (1.0f / 512);
        return code & 0x80 ? -x : x;
    }
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- Rows --------------------------------------------------------------------------- */

/* Quantiles (i + 1/2) / 128 of |N(0, 1)|. */
struct kvt_made_tables {
    uint8_t e4m3[128];
    uint16_t bf16[128];
};
static const struct kvt_made_tables kvt_made_tables = {
    .e4m3 = {0x03, 0x08, 0x0d, 0x11, 0x13, 0x16, 0x18, 0x19, 0x1b, 0x1c, 0x1d, 0x1e, 0x20,
             0x20, 0x21, 0x22, 0x22, 0x23, 0x24, 0x24, 0x25, 0x26, 0x26, 0x27, 0x28, 0x28,
             0x28, 0x29, 0x29, 0x29, 0x2a, 0x2a, 0x2a, 0x2b, 0x2b, 0x2b, 0x2c, 0x2c, 0x2c,
             0x2d, 0x2d, 0x2d, 0x2e, 0x2e, 0x2e, 0x2f, 0x2f, 0x2f, 0x30, 0x30, 0x30, 0x30,
             0x31, 0x31, 0x31, 0x31, 0x31, 0x32, 0x32, 0x32, 0x32, 0x32, 0x32, 0x33, 0x33,
             0x33, 0x33, 0x33, 0x34, 0x34, 0x34, 0x34, 0x35, 0x35, 0x35, 0x35, 0x35, 0x36,
             0x36, 0x36, 0x36, 0x37, 0x37, 0x37, 0x37, 0x38, 0x38, 0x38, 0x38, 0x38, 0x38,
             0x39, 0x39, 0x39, 0x39, 0x39, 0x39, 0x39, 0x3a, 0x3a, 0x3a, 0x3a, 0x3a, 0x3a,
             0x3b, 0x3b, 0x3b, 0x3b, 0x3b, 0x3c, 0x3c, 0x3c, 0x3c, 0x3d, 0x3d, 0x3d, 0x3e,
             0x3e, 0x3e, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x41, 0x41, 0x42, 0x44},
    .bf16 = {0x3ba0, 0x3c71, 0x3cc9, 0x3d0c, 0x3d35, 0x3d5d, 0x3d82, 0x3d97, 0x3dab, 0x3dbf, 0x3dd3,
             0x3de7, 0x3dfb, 0x3e08, 0x3e12, 0x3e1c, 0x3e26, 0x3e30, 0x3e3b, 0x3e45, 0x3e4f, 0x3e59,
             0x3e63, 0x3e6e, 0x3e78, 0x3e81, 0x3e86, 0x3e8c, 0x3e91, 0x3e96, 0x3e9b, 0x3ea1, 0x3ea6,
             0x3eab, 0x3eb0, 0x3eb6, 0x3ebb, 0x3ec0, 0x3ec6, 0x3ecb, 0x3ed1, 0x3ed6, 0x3edc, 0x3ee1,
             0x3ee7, 0x3eec, 0x3ef2, 0x3ef7, 0x3efd, 0x3f01, 0x3f04, 0x3f07, 0x3f0a, 0x3f0d, 0x3f10,
             0x3f13, 0x3f16, 0x3f19, 0x3f1c, 0x3f1f, 0x3f22, 0x3f25, 0x3f28, 0x3f2b, 0x3f2e, 0x3f31,
             0x3f35, 0x3f38, 0x3f3b, 0x3f3e, 0x3f42, 0x3f45, 0x3f48, 0x3f4c, 0x3f4f, 0x3f53, 0x3f56,
             0x3f5a, 0x3f5e, 0x3f61, 0x3f65, 0x3f69, 0x3f6d, 0x3f70, 0x3f74, 0x3f78, 0x3f7c, 0x3f80,
             0x3f82, 0x3f84, 0x3f87, 0x3f89, 0x3f8b, 0x3f8d, 0x3f90, 0x3f92, 0x3f94, 0x3f97, 0x3f99,
             0x3f9c, 0x3f9f, 0x3fa2, 0x3fa4, 0x3fa7, 0x3faa, 0x3fad, 0x3fb0, 0x3fb4, 0x3fb7, 0x3fbb,
             0x3fbe, 0x3fc2, 0x3fc6, 0x3fcb, 0x3fcf, 0x3fd4, 0x3fd9, 0x3fdf, 0x3fe5, 0x3feb, 0x3ff2,
             0x3ffa, 0x4002, 0x4007, 0x400d, 0x4015, 0x4021, 0x4039}};

KVT_MADE uint32_t kvt_made_layer_bytes(enum kvt_gpu_format format)
{
    switch (format) {
    case KVT_GPU_ROW_E4M3_576:
        return 576;
    case KVT_GPU_ROW_MIXED_656:
        return 656;
    case KVT_GPU_ROW_BF16_1152:
        return 1152;
    case KVT_GPU_ROW_FP4_288:
        return 288;
    }
    return 0;
}

KVT_MADE uint64_t kvt_made_e4m3_word(const struct kvt_made_tables *tables, uint64_t word)
{
    uint64_t out = word & UINT64_C(0x8080808080808080); /* signs */

    for (int i = 0; i < 64; i += 8)
        out |= (uint64_t)tables->e4m3[word >> i & 127] << i;
    return out;
}

/* Four of them; the last four bits of each mantissa are the word's own. */
KVT_MADE uint64_t kvt_made_bf16_word(const struct kvt_made_tables *tables, uint64_t word)
{
    uint64_t out = word & UINT64_C(0x8000800080008000);

    for (int i = 0; i < 64; i += 16) {
        uint64_t magnitude = (tables->bf16[word >> i & 127] & 0xfff0) | (word >> (i + 7) & 15);
        out |= magnitude << i;
    }
    return out;
}

/* The 16 bytes at 16 * chunk of the layer's part of a row, in two little-endian words; stream
 * is kvt_made_stream(KVT_MADE_ROW, context, layer, row). */
KVT_MADE void kvt_made_row_chunk(const struct kvt_made_tables *tables, enum kvt_gpu_format format,
                                 uint64_t stream, uint32_t chunk, uint64_t out[2])
{
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t word = kvt_made_word(stream, 2 * chunk + i);
        switch (format) {
        case KVT_GPU_ROW_E4M3_576:
            out[i] = kvt_made_e4m3_word(tables, word);
            break;
        case KVT_GPU_ROW_MIXED_656:
            if (chunk < 32)
                out[i] = kvt_made_e4m3_word(tables, word);
            else if (chunk == 32) /* scales, floats of 0.5 to 2 */
                out[i] = UINT64_C(0x3f0000003f000000) | (word & UINT64_C(0x00ffffff00ffffff));
            else
                out[i] = kvt_made_bf16_word(tables, word);
            break;
        case KVT_GPU_ROW_BF16_1152:
            out[i] = kvt_made_bf16_word(tables, word);
            break;
        case KVT_GPU_ROW_FP4_288:
            /* Codes alike likely have a deviation of 2.9; scales, e4m3 of 0.19 to 0.69, undo it. */
            out[i] = chunk < 16
                         ? word
                         : (word & UINT64_C(0x0f0f0f0f0f0f0f0f)) + UINT64_C(0x2424242424242424);
            break;
        }
    }
}

/* The stream of a draft row: of a committed position, or of one that a block has for a round,
 * behind context_tokens. */
KVT_MADE uint64_t kvt_made_draft_stream(uint32_t context, uint32_t layer, uint32_t position,
                                        uint32_t context_tokens)
{
    uint64_t stream = kvt_made_stream(KVT_MADE_DRAFT, context, layer, position);
    return position < context_tokens ? stream : kvt_made_mix(stream + context_tokens + UINT64_C(1));
}

/* ---- Index keys and queries ------------------------------------------------------------ */

/* What the shares below were chosen for: with drift 0.12, one query a token and 100,032 rows, hot
 * caches of k, 2 k and 8 k rows miss .32/.13/.045 of what is selected (score law set A:
 * .32/.14/.04), and successive selections share .68, at a distance of 4 tokens .58, of 16 .25. */
enum {
    KVT_MADE_TOPIC_ROWS = 64, /* rows of a page have part of their keys in common */
    KVT_MADE_KNOT_TOKENS = 12 /* from one direction of the turning part to the next */
};

/* Streams of one row's key. */
struct kvt_made_key {
    uint64_t own, topic;
};

KVT_MADE struct kvt_made_key kvt_made_key(uint32_t context, uint32_t selector, uint32_t row)
{
    struct kvt_made_key key;
    key.own = kvt_made_stream(KVT_MADE_KEY, context, selector, row);
    key.topic = kvt_made_stream(KVT_MADE_TOPIC, context, selector, row / KVT_MADE_TOPIC_ROWS);
    return key;
}

/* Elements d and d + 1, d even: 3/4 of the variance are the row's own. */
KVT_MADE void kvt_made_key_pair(const struct kvt_made_key *key, uint32_t d, uint8_t out[2])
{
    uint64_t own = kvt_made_word(key->own, d / 2);
    uint64_t topic = kvt_made_word(key->topic, d / 2);

    for (int i = 0; i < 2; i++) {
        float a = kvt_made_multiply(0.8660254f, kvt_made_normal((uint32_t)(own >> 32 * i)));
        float b = kvt_made_multiply(0.5f, kvt_made_normal((uint32_t)(topic >> 32 * i)));
        out[i] = kvt_made_e4m3(kvt_made_add(a, b));
    }
}

/* 0.75 to 1.25. */
KVT_MADE float kvt_made_key_scale(const struct kvt_made_key *key)
{
    uint64_t word = kvt_made_word(key->own, KVT_GPU_INDEX_DIM);
    return kvt_made_multiply((float)(uint32_t)(word >> 40) + 25165824.0f, 1.0f / (float)(1 << 25));
}

/* One head's query at one position: streams, and the weight of each. */
struct kvt_made_query {
    uint64_t constant, knot, next, fresh;
    float constant_part, knot_part, next_part, fresh_part;
};

KVT_MADE struct kvt_made_query kvt_made_query(uint32_t context, uint32_t selector, uint32_t head,
                                              uint32_t position, float drift)
{
    uint32_t direction = selector << 8 | head;
    uint32_t knot = position / KVT_MADE_KNOT_TOKENS;
    float to_next =
        kvt_made_multiply((float)(position % KVT_MADE_KNOT_TOKENS), 1.0f / KVT_MADE_KNOT_TOKENS);
    float from_knot = kvt_made_add(1.0f, -to_next);
    /* Between two knots as long as at either. */
    float square =
        kvt_made_add(kvt_made_multiply(from_knot, from_knot), kvt_made_multiply(to_next, to_next));
    float turning = kvt_made_root(0.5f * (1.0f - drift) / square);
    struct kvt_made_query query;

    query.constant = kvt_made_stream(KVT_MADE_CONSTANT, context, direction, 0);
    query.knot = kvt_made_stream(KVT_MADE_KNOT, context, direction, knot);
    query.next = kvt_made_stream(KVT_MADE_KNOT, context, direction, knot + 1);
    query.fresh = kvt_made_stream(KVT_MADE_FRESH, context, direction, position);
    query.constant_part = 0.70710677f;
    query.knot_part = kvt_made_multiply(turning, from_knot);
    query.next_part = kvt_made_multiply(turning, to_next);
    query.fresh_part = kvt_made_root(0.5f * drift);
    return query;
}

/* Elements d and d + 1, d even. */
KVT_MADE void kvt_made_query_pair(const struct kvt_made_query *query, uint32_t d, uint8_t out[2])
{
    const uint64_t streams[4] = {query->constant, query->knot, query->next, query->fresh};
    const float parts[4] = {query->constant_part, query->knot_part, query->next_part,
                            query->fresh_part};
    float sum[2] = {0, 0};

    for (int s = 0; s < 4; s++) {
        uint64_t word = kvt_made_word(streams[s], d / 2);
        for (int i = 0; i < 2; i++) {
            float x = kvt_made_normal((uint32_t)(word >> 32 * i));
            sum[i] = kvt_made_add(sum[i], kvt_made_multiply(parts[s], x));
        }
    }
    out[0] = kvt_made_e4m3(sum[0]);
    out[1] = kvt_made_e4m3(sum[1]);
}

/* Of a head, whatever the position: 0.25 to 1.25. */
KVT_MADE float kvt_made_head_weight(uint32_t context, uint32_t selector, uint32_t head)
{
    uint64_t stream = kvt_made_stream(KVT_MADE_WEIGHT, context, selector << 8 | head, 0);
    return kvt_made_multiply((float)(uint32_t)(kvt_made_word(stream, 0) >> 40) + 4194304.0f,
                             1.0f / (1 << 24));
}

#endif
