/* resolver_passes.c -- the resolver's loops in plain C: the reference, and the same compiled
 * for AVX2 and BMI2. */
#include "resolver_passes.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE uint32_t count_bits(uint64_t word)
{
    return (uint32_t)__builtin_popcountll(word);
}

ALWAYS_INLINE uint64_t history_rows(const struct history *history, size_t w)
{
    return w + 1 < history->words ? UINT64_MAX : history->last_rows;
}

ALWAYS_INLINE uint64_t rows_by_page(const struct history *history, size_t w)
{
    return history->page_rows == NULL ? 0 : history->page_rows[w];
}

/* A word that is zero is written, too, and the next one over it: no branch. */
ALWAYS_INLINE void note_missed(struct miss_words *missed, size_t w, uint64_t rows)
{
    missed->words[missed->count] = rows;
    missed->at[missed->count] = (uint32_t)w;
    missed->count += rows != 0;
}

ALWAYS_INLINE void look_alone(const struct history *history, const uint64_t *selection,
                              struct pass_counts *counts, struct miss_words *missed)
{
    struct pass_counts sum = {0};

    missed->count = 0;
    for (size_t w = 0; w < history->words; w++) {
        uint64_t selected = selection[w] & history_rows(history, w);
        uint64_t paged = selected & rows_by_page(history, w);
        uint64_t looked_up = selected & ~paged;
        uint64_t miss = looked_up & ~history->hot_rows[w];

        history->looked_up[w] = looked_up;
        sum.selected += count_bits(selected);
        sum.page += count_bits(paged);
        sum.missed += count_bits(miss);
        note_missed(missed, w, miss);
    }
    sum.new_missed = sum.missed;
    *counts = sum;
}

ALWAYS_INLINE void look_query(const struct history *history, const uint64_t *selection,
                              struct pass_counts *counts, struct miss_words *missed)
{
    struct pass_counts sum = {0};

    missed->count = 0;
    for (size_t w = 0; w < history->words; w++) {
        uint64_t selected = selection[w] & history_rows(history, w);
        uint64_t paged = selected & rows_by_page(history, w);
        uint64_t miss = selected & ~paged & ~history->hot_rows[w];
        uint64_t new_miss = miss & ~history->union_rows[w];

        history->union_rows[w] |= selected;
        sum.selected += count_bits(selected);
        sum.page += count_bits(paged);
        sum.missed += count_bits(miss);
        sum.new_missed += count_bits(new_miss);
        note_missed(missed, w, new_miss);
    }
    *counts = sum;
}

ALWAYS_INLINE void settle(const struct history *history, struct pass_counts *counts)
{
    struct pass_counts sum = {0};

    for (size_t w = 0; w < history->words; w++) {
        uint64_t selected = history->union_rows[w];
        uint64_t paged = selected & rows_by_page(history, w);
        uint64_t looked_up = selected & ~paged;

        history->looked_up[w] = looked_up;
        sum.selected += count_bits(selected);
        sum.page += count_bits(paged);
        sum.missed += count_bits(looked_up & ~history->hot_rows[w]);
    }
    *counts = sum;
}

ALWAYS_INLINE uint32_t list(const struct miss_words *missed, uint32_t *rows)
{
    uint32_t listed = 0;

    for (uint32_t i = 0; i < missed->count; i++) {
        uint32_t first = missed->at[i] * 64;
        for (uint64_t left = missed->words[i]; left != 0; left &= left - 1)
            rows[listed++] = first + (uint32_t)__builtin_ctzll(left);
    }
    return listed;
}

ALWAYS_INLINE void find_hits(const uint64_t *looked_up, const uint32_t *slot_rows, uint32_t count,
                             uint64_t *hit_bits)
{
    for (uint32_t first = 0; first < count; first += 64) {
        uint32_t width = count - first < 64 ? count - first : 64;
        uint64_t hits = 0;

        for (uint32_t i = 0; i < width; i++)
            hits |= (uint64_t)kvt_row_is_in(looked_up, slot_rows[first + i]) << i;
        hit_bits[first / 64] = hits;
    }
}

/* One set of functions, compiled with the given attributes. */
#define PASSES(level, ...)                                                                         \
    __VA_ARGS__ static void look_alone_##level(                                                    \
        const struct history *history, const uint64_t *selection, struct pass_counts *counts,      \
        struct miss_words *missed)                                                                 \
    {                                                                                              \
        look_alone(history, selection, counts, missed);                                            \
    }                                                                                              \
    __VA_ARGS__ static void look_query_##level(                                                    \
        const struct history *history, const uint64_t *selection, struct pass_counts *counts,      \
        struct miss_words *missed)                                                                 \
    {                                                                                              \
        look_query(history, selection, counts, missed);                                            \
    }                                                                                              \
    __VA_ARGS__ static void settle_##level(const struct history *history,                          \
                                           struct pass_counts *counts)                             \
    {                                                                                              \
        settle(history, counts);                                                                   \
    }                                                                                              \
    __VA_ARGS__ static uint32_t list_##level(const struct miss_words *missed, uint32_t *rows)      \
    {                                                                                              \
        return list(missed, rows);                                                                 \
    }                                                                                              \
    __VA_ARGS__ static void find_hits_##level(                                                     \
        const uint64_t *looked_up, const uint32_t *slot_rows, uint32_t count, uint64_t *hit_bits)  \
    {                                                                                              \
        find_hits(looked_up, slot_rows, count, hit_bits);                                          \
    }                                                                                              \
    static const struct resolver_passes passes_##level = {                                         \
        .look_alone = look_alone_##level,                                                          \
        .look_query = look_query_##level,                                                          \
        .settle = settle_##level,                                                                  \
        .list = list_##level,                                                                      \
        .find_hits = find_hits_##level,                                                            \
    }

PASSES(plain, );
#if defined(__x86_64__)
PASSES(avx2, __attribute__((target("avx2,bmi,bmi2,popcnt"))));
#endif

const struct resolver_passes *kvt_resolver_passes(enum kvt_cpu cpu)
{
    switch (cpu) {
    case KVT_CPU_PLAIN:
        return &passes_plain;
#if defined(__x86_64__)
    case KVT_CPU_AVX2:
        return &passes_avx2;
    case KVT_CPU_AVX512:
        return &kvt_resolver_passes_avx512;
#endif
    default:
        return NULL;
    }
}
