/* resolver_passes_avx512.c -- the resolver's loops, eight words or slots at a time. */
#include "resolver_passes.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512                                                                                     \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,"             \
                          "avx512vpopcntdq,avx2,bmi,bmi2,popcnt")))
#define AVX512_INLINE AVX512 static inline __attribute__((always_inline))

enum {
    WORDS = 8 /* of a vector */
};

/* Counters, one a lane. */
struct sums {
    __m512i selected, page, missed, new_missed;
};

/* Eight words of the history, or the last ones of it. */
struct block {
    __mmask8 lanes;
    __m512i rows; /* that are history */
};

AVX512_INLINE struct block last_block(const struct history *history, size_t first)
{
    size_t lanes = history->words - first;
    __mmask8 all = (__mmask8)((1u << lanes) - 1);
    __mmask8 last = (__mmask8)(1u << (lanes - 1));
    __m512i rows = _mm512_maskz_set1_epi64(all, -1);

    return (struct block){all, _mm512_mask_set1_epi64(rows, last, (long long)history->last_rows)};
}

AVX512_INLINE __m512i load(const uint64_t *words, size_t w, const struct block *block)
{
    return _mm512_maskz_loadu_epi64(block->lanes, words + w);
}

AVX512_INLINE __m512i load_paged(const struct history *history, size_t w, bool paged,
                                 const struct block *block)
{
    return paged ? load(history->page_rows, w, block) : _mm512_setzero_si512();
}

AVX512_INLINE __m512i add_bits(__m512i sum, __m512i rows)
{
    return _mm512_add_epi64(sum, _mm512_popcnt_epi64(rows));
}

AVX512_INLINE void store_sums(const struct sums *sums, struct pass_counts *counts)
{
    *counts = (struct pass_counts){
        .selected = (uint32_t)_mm512_reduce_add_epi64(sums->selected),
        .page = (uint32_t)_mm512_reduce_add_epi64(sums->page),
        .missed = (uint32_t)_mm512_reduce_add_epi64(sums->missed),
        .new_missed = (uint32_t)_mm512_reduce_add_epi64(sums->new_missed),
    };
}

/* The words that are not zero move to the front of a vector, which is stored whole. */
AVX512_INLINE void note_missed(struct miss_words *missed, size_t w, __m512i rows)
{
    __mmask8 some = _mm512_test_epi64_mask(rows, rows);
    __m256i at =
        _mm256_add_epi32(_mm256_set1_epi32((int)w), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));

    _mm512_storeu_si512(missed->words + missed->count, _mm512_maskz_compress_epi64(some, rows));
    _mm256_storeu_si256((__m256i *)(missed->at + missed->count),
                        _mm256_maskz_compress_epi32(some, at));
    missed->count += (uint32_t)_mm_popcnt_u32(some);
}

AVX512_INLINE void look_block(const struct history *history, const uint64_t *selection, size_t w,
                              const struct block *block, bool alone, bool paged, struct sums *sums,
                              struct miss_words *missed)
{
    __m512i selected = _mm512_and_si512(load(selection, w, block), block->rows);
    __m512i pages = load_paged(history, w, paged, block);
    __m512i looked_up = _mm512_andnot_si512(pages, selected);
    __m512i miss = _mm512_andnot_si512(load(history->hot_rows, w, block), looked_up);
    __m512i new_miss = miss;

    if (alone) {
        _mm512_mask_storeu_epi64(history->looked_up + w, block->lanes, looked_up);
    } else {
        __m512i joined = load(history->union_rows, w, block);
        new_miss = _mm512_andnot_si512(joined, miss);
        _mm512_mask_storeu_epi64(history->union_rows + w, block->lanes,
                                 _mm512_or_si512(joined, selected));
        sums->new_missed = add_bits(sums->new_missed, new_miss);
    }
    sums->selected = add_bits(sums->selected, selected);
    if (paged)
        sums->page = add_bits(sums->page, _mm512_and_si512(selected, pages));
    sums->missed = add_bits(sums->missed, miss);
    note_missed(missed, w, new_miss);
}

AVX512_INLINE void look(const struct history *history, const uint64_t *selection, bool alone,
                        bool paged, struct pass_counts *counts, struct miss_words *missed)
{
    const struct block whole = {0xff, _mm512_set1_epi64(-1)};
    struct miss_words found = {.words = missed->words, .at = missed->at};
    struct sums sums = {.selected = _mm512_setzero_si512()};
    size_t w = 0;

    for (; w + WORDS < history->words; w += WORDS)
        look_block(history, selection, w, &whole, alone, paged, &sums, &found);
    if (w < history->words) {
        struct block last = last_block(history, w);
        look_block(history, selection, w, &last, alone, paged, &sums, &found);
    }
    if (alone)
        sums.new_missed = sums.missed;
    store_sums(&sums, counts);
    missed->count = found.count;
}

AVX512 static void look_alone(const struct history *history, const uint64_t *selection,
                              struct pass_counts *counts, struct miss_words *missed)
{
    if (history->page_rows == NULL)
        look(history, selection, true, false, counts, missed);
    else
        look(history, selection, true, true, counts, missed);
}

AVX512 static void look_query(const struct history *history, const uint64_t *selection,
                              struct pass_counts *counts, struct miss_words *missed)
{
    if (history->page_rows == NULL)
        look(history, selection, false, false, counts, missed);
    else
        look(history, selection, false, true, counts, missed);
}

AVX512_INLINE void settle_block(const struct history *history, size_t w, const struct block *block,
                                struct sums *sums)
{
    __m512i selected = load(history->union_rows, w, block);
    __m512i pages = load_paged(history, w, history->page_rows != NULL, block);
    __m512i looked_up = _mm512_andnot_si512(pages, selected);
    __m512i miss = _mm512_andnot_si512(load(history->hot_rows, w, block), looked_up);

    _mm512_mask_storeu_epi64(history->looked_up + w, block->lanes, looked_up);
    sums->selected = add_bits(sums->selected, selected);
    sums->page = add_bits(sums->page, _mm512_and_si512(selected, pages));
    sums->missed = add_bits(sums->missed, miss);
}

AVX512 static void settle(const struct history *history, struct pass_counts *counts)
{
    const struct block whole = {0xff, _mm512_set1_epi64(-1)};
    struct sums sums = {.selected = _mm512_setzero_si512()};
    size_t w = 0;

    for (; w + WORDS < history->words; w += WORDS)
        settle_block(history, w, &whole, &sums);
    if (w < history->words) {
        struct block last = last_block(history, w);
        settle_block(history, w, &last, &sums);
    }
    store_sums(&sums, counts);
}

/* Most words hold one or two rows: two are written each time, a third is rare. */
AVX512 static uint32_t list(const struct miss_words *missed, uint32_t *rows)
{
    uint32_t listed = 0;

    for (uint32_t i = 0; i < missed->count; i++) {
        uint32_t first = missed->at[i] * 64;
        for (uint64_t left = missed->words[i]; left != 0; left = _blsr_u64(left))
            rows[listed++] = first + (uint32_t)_tzcnt_u64(left);
    }
    return listed;
}

/* Bit r % 32 of the set's word r / 32, for eight rows. */
AVX512_INLINE uint64_t hits_of_eight(const uint64_t *looked_up, const uint32_t *slot_rows)
{
    __m256i rows = _mm256_loadu_si256((const __m256i *)slot_rows);
    __m256i words =
        _mm256_i32gather_epi32((const int *)looked_up, _mm256_srli_epi32(rows, 5), sizeof(int));
    __m256i bits =
        _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_and_si256(rows, _mm256_set1_epi32(31)));
    return _mm256_test_epi32_mask(words, bits);
}

AVX512 static void find_hits(const uint64_t *looked_up, const uint32_t *slot_rows, uint32_t count,
                             uint64_t *hit_bits)
{
    uint32_t first = 0;

    for (; first + 64 <= count; first += 64) {
        uint64_t hits = 0;
        for (uint32_t i = 0; i < 64; i += 8)
            hits |= hits_of_eight(looked_up, slot_rows + first + i) << i;
        hit_bits[first / 64] = hits;
    }
    if (first < count) {
        uint64_t hits = 0;
        for (uint32_t i = 0; first + i < count; i++)
            hits |= (uint64_t)kvt_row_is_in(looked_up, slot_rows[first + i]) << i;
        hit_bits[first / 64] = hits;
    }
}

const struct resolver_passes kvt_resolver_passes_avx512 = {
    .look_alone = look_alone,
    .look_query = look_query,
    .settle = settle,
    .list = list,
    .find_hits = find_hits,
};
#endif
