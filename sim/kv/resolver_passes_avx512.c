/* resolver_passes_avx512.c -- the resolver's loops, eight words or slots at a time. */
#include "resolver_passes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define AVX512                                                                                     \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,"             \
                          "avx512vpopcntdq,avx2,bmi,bmi2,popcnt")))
#define AVX512_INLINE AVX512 static inline __attribute__((always_inline))

enum {
    WORDS = 8 /* of a vector */
};

/* Counters, one a lane. */
struct sums {
    __m512i selected, page, missed;
};

/* Eight words of the history, or the last ones of it. */
struct block {
    size_t first;
    __mmask8 lanes;
    __m512i rows; /* that are history */
};

AVX512_INLINE struct block last_block(const struct history *history, size_t first)
{
    size_t lanes = history->words - first;
    __mmask8 all = (__mmask8)((1u << lanes) - 1);
    __mmask8 last = (__mmask8)(1u << (lanes - 1));
    __m512i rows = _mm512_maskz_set1_epi64(all, -1);

    return (struct block){first, all,
                          _mm512_mask_set1_epi64(rows, last, (long long)history->last_rows)};
}

AVX512_INLINE __m512i load(const uint64_t *words, const struct block *block)
{
    return _mm512_maskz_loadu_epi64(block->lanes, words + block->first);
}

AVX512_INLINE __m512i add_bits(__m512i sum, __m512i rows)
{
    return _mm512_add_epi64(sum, _mm512_popcnt_epi64(rows));
}

AVX512_INLINE void add_rows(struct sums *sums, __m512i selected, __m512i page, __m512i missed)
{
    sums->selected = add_bits(sums->selected, selected);
    sums->page = add_bits(sums->page, page);
    sums->missed = add_bits(sums->missed, missed);
}

AVX512_INLINE struct row_counts counts_of(const struct sums *sums)
{
    return (struct row_counts){(uint32_t)_mm512_reduce_add_epi64(sums->selected),
                               (uint32_t)_mm512_reduce_add_epi64(sums->page),
                               (uint32_t)_mm512_reduce_add_epi64(sums->missed)};
}

/* The words that are not zero move to the front of a vector, which is stored whole. */
AVX512_INLINE uint32_t note(uint64_t *words, uint32_t *at, size_t first, __m512i rows)
{
    __mmask8 some = _mm512_test_epi64_mask(rows, rows);
    __m256i places =
        _mm256_add_epi32(_mm256_set1_epi32((int)first), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));

    _mm512_storeu_si512(words, _mm512_maskz_compress_epi64(some, rows));
    _mm256_storeu_si256((__m256i *)at, _mm256_maskz_compress_epi32(some, places));
    return (uint32_t)_mm_popcnt_u32(some);
}

AVX512_INLINE void look_block(const struct history *history, uint32_t query_count, bool paged,
                              const struct block *block, struct sums *all, struct sums *once,
                              struct misses *misses)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i page_rows = paged ? load(history->page_rows, block) : zero;
    __m512i present = _mm512_or_si512(page_rows, load(history->hot_rows, block));
    __m512i joined = zero;

    for (uint32_t query = 0; query < query_count; query++) {
        __m512i selected = _mm512_and_si512(load(history->selections[query], block), block->rows);
        __m512i missed = _mm512_andnot_si512(present, selected);
        size_t place = query * misses->stride + misses->counts[query];
        misses->counts[query] += note(misses->words + place, misses->at + place, block->first,
                                      _mm512_andnot_si512(joined, missed));
        joined = _mm512_or_si512(joined, selected);
        if (query_count > 1)
            add_rows(all, selected, paged ? _mm512_and_si512(selected, page_rows) : zero, missed);
    }
    add_rows(once, joined, paged ? _mm512_and_si512(joined, page_rows) : zero,
             _mm512_andnot_si512(present, joined));
    _mm512_mask_storeu_epi64(history->looked_up + block->first, block->lanes,
                             _mm512_andnot_si512(page_rows, joined));
}

/* query_count and paged are constants where it matters that the compiler knows. */
AVX512_INLINE void look_with(const struct history *history, uint32_t query_count, bool paged,
                             struct row_counts *selections, struct row_counts *rows,
                             struct misses *misses)
{
    struct sums all = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    struct sums once = all;
    struct misses found = {.words = misses->words, .at = misses->at, .stride = misses->stride};
    struct block block = {.first = 0, .lanes = 0xff, .rows = _mm512_set1_epi64(-1)};

    for (; block.first + WORDS < history->words; block.first += WORDS)
        look_block(history, query_count, paged, &block, &all, &once, &found);
    if (block.first < history->words) {
        block = last_block(history, block.first);
        look_block(history, query_count, paged, &block, &all, &once, &found);
    }
    *rows = counts_of(&once);
    *selections = query_count > 1 ? counts_of(&all) : *rows;
    for (uint32_t query = 0; query < query_count; query++)
        misses->counts[query] = found.counts[query];
}

AVX512 static void look(const struct history *history, struct row_counts *selections,
                        struct row_counts *rows, struct misses *misses)
{
    bool paged = history->page_rows != NULL;

    if (history->query_count == 1 && !paged)
        look_with(history, 1, false, selections, rows, misses);
    else if (history->query_count == 1)
        look_with(history, 1, true, selections, rows, misses);
    else if (!paged)
        look_with(history, history->query_count, false, selections, rows, misses);
    else
        look_with(history, history->query_count, true, selections, rows, misses);
}

AVX512_INLINE void store_eight(uint32_t first_row, __m128i places, uint32_t *rows)
{
    __m256i first = _mm256_set1_epi32((int)first_row);
    _mm256_storeu_si256((__m256i *)rows, _mm256_add_epi32(first, _mm256_cvtepu8_epi32(places)));
}

/* The places of a word's bits move to the front of a register of bytes. Eight are widened
 * and stored whether there are so many or not: words that hold more are those of pages that
 * are selected nearly whole. */
AVX512_INLINE uint32_t list_word(uint64_t word, uint32_t first_row, __m512i iota, uint32_t *rows)
{
    uint32_t count = (uint32_t)_mm_popcnt_u64(word);
    __m512i places = _mm512_maskz_compress_epi8(word, iota);

    store_eight(first_row, _mm512_castsi512_si128(places), rows);
    if (count > 8) {
        uint8_t bytes[64];
        _mm512_storeu_si512(bytes, places);
        for (uint32_t i = 8; i < count; i += 8)
            store_eight(first_row, _mm_loadl_epi64((const __m128i *)(bytes + i)), rows + i);
    }
    return count;
}

AVX512 static uint32_t list(const struct misses *misses, uint32_t query, uint32_t *rows)
{
    static const uint8_t iota[64] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    const __m512i places = _mm512_loadu_si512(iota);
    const uint64_t *words = misses->words + query * misses->stride;
    const uint32_t *at = misses->at + query * misses->stride;
    uint32_t listed = 0;

    for (uint32_t i = 0; i < misses->counts[query]; i++)
        listed += list_word(words[i], at[i] * 64, places, rows + listed);
    return listed;
}

/* Bit r % 32 of the set's word r / 32, for sixteen rows. */
AVX512_INLINE uint64_t hits_of_sixteen(const uint64_t *looked_up, const uint32_t *slot_rows)
{
    __m512i rows = _mm512_loadu_si512(slot_rows);
    __m512i words =
        _mm512_i32gather_epi32(_mm512_srli_epi32(rows, 5), (const int *)looked_up, sizeof(int));
    __m512i bits =
        _mm512_sllv_epi32(_mm512_set1_epi32(1), _mm512_and_si512(rows, _mm512_set1_epi32(31)));
    return _mm512_test_epi32_mask(words, bits);
}

AVX512 static void find_hits(const uint64_t *looked_up, const uint32_t *slot_rows, uint32_t count,
                             uint64_t *hit_bits)
{
    uint32_t first = 0;

    for (; first + 64 <= count; first += 64) {
        uint64_t hits = 0;
        for (uint32_t i = 0; i < 64; i += 16)
            hits |= hits_of_sixteen(looked_up, slot_rows + first + i) << i;
        hit_bits[first / 64] = hits;
    }
    if (first < count) {
        uint64_t hits = 0;
        for (uint32_t i = 0; first + i < count; i++)
            hits |= (uint64_t)kvt_row_is_in(looked_up, slot_rows[first + i]) << i;
        hit_bits[first / 64] = hits;
    }
}

AVX512 static bool are_victims(const kvt_slot *slots, uint32_t count, const uint64_t *hit_bits,
                               uint32_t slot_count, uint8_t *taken)
{
    uint32_t words = (slot_count + 63) / 64, end = words * 64, marked = 0;
    uint64_t hit = 0;

    memset(taken, 0, end);
    for (uint32_t i = 0; i < count; i++)
        taken[slots[i] < slot_count ? slots[i] : end] = 1;
    for (uint32_t w = 0; w < words; w++) {
        __m512i marks = _mm512_loadu_si512(taken + (size_t)w * 64);
        uint64_t bits = _mm512_test_epi8_mask(marks, marks);
        marked += (uint32_t)_mm_popcnt_u64(bits);
        hit |= bits & hit_bits[w];
    }
    return marked == count && hit == 0;
}

AVX512 static void join(uint64_t *rows, const uint64_t *more, size_t words)
{
    size_t w = 0;

    for (; w + WORDS <= words; w += WORDS)
        _mm512_storeu_si512(
            rows + w, _mm512_or_si512(_mm512_loadu_si512(rows + w), _mm512_loadu_si512(more + w)));
    for (; w < words; w++)
        rows[w] |= more[w];
}

/* kvt_mix64() in every lane. */
AVX512_INLINE __m512i mix(__m512i x)
{
    const __m512i first = _mm512_set1_epi64((long long)UINT64_C(0xbf58476d1ce4e5b9));
    const __m512i second = _mm512_set1_epi64((long long)UINT64_C(0x94d049bb133111eb));

    x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 30)), first);
    x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 27)), second);
    return _mm512_xor_si512(x, _mm512_srli_epi64(x, 31));
}

AVX512 static uint64_t sum_placed(const kvt_slot *slots, const uint32_t *rows, uint32_t count)
{
    const __m512i one = _mm512_set1_epi64(1);
    __m512i sum = _mm512_setzero_si512();

    for (uint32_t i = 0; i < count; i += WORDS) {
        uint32_t left = count - i < WORDS ? count - i : WORDS;
        __mmask8 lanes = (__mmask8)((1u << left) - 1);
        __m512i high = _mm512_cvtepu32_epi64(_mm256_maskz_loadu_epi32(lanes, slots + i));
        __m512i low = _mm512_cvtepu32_epi64(_mm256_maskz_loadu_epi32(lanes, rows + i));
        __m512i placed = _mm512_or_si512(_mm512_slli_epi64(high, 32), low);
        sum = _mm512_mask_add_epi64(sum, lanes, sum, mix(_mm512_add_epi64(placed, one)));
    }
    /* _mm512_reduce_add_epi64() adds signed numbers, which may not overflow. */
    uint64_t lanes[WORDS], total = 0;
    _mm512_storeu_si512(lanes, sum);
    for (int i = 0; i < WORDS; i++)
        total += lanes[i];
    return total;
}

const struct resolver_passes kvt_resolver_passes_avx512 = {.look = look,
                                                           .list = list,
                                                           .find_hits = find_hits,
                                                           .are_victims = are_victims,
                                                           .join = join,
                                                           .sum_placed = sum_placed};
#endif
