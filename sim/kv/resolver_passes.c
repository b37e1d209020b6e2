/* resolver_passes.c -- the resolver's loops in plain C: the reference, and the same compiled
 * for AVX2 and BMI2. */
#include <string.h>

#include "kvt/hash.h"
#include "resolver_passes.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE uint32_t count_bits(uint64_t word)
{
    return (uint32_t)__builtin_popcountll(word);
}

ALWAYS_INLINE void add_rows(struct row_counts *sum, uint64_t selected, uint64_t page,
                            uint64_t missed)
{
    sum->selected += count_bits(selected);
    sum->page += count_bits(page);
    sum->missed += count_bits(missed);
}

/* query_count is a constant where it matters that the compiler knows. */
ALWAYS_INLINE void look_with(const struct history *history, uint32_t query_count,
                             struct row_counts *selections, struct row_counts *rows,
                             struct misses *misses)
{
    struct row_counts all = {0}, once = {0};
    uint32_t counts[KVT_QUERIES_MAX] = {0};

    for (size_t w = 0; w < history->words; w++) {
        uint64_t history_rows = w + 1 < history->words ? UINT64_MAX : history->last_rows;
        uint64_t page_rows = history->page_rows == NULL ? 0 : history->page_rows[w];
        uint64_t absent = ~page_rows & ~history->hot_rows[w]; /* to be missed if selected */
        uint64_t joined = 0;

        for (uint32_t query = 0; query < query_count; query++) {
            uint64_t selected = history->selections[query][w] & history_rows;
            uint64_t new_misses = selected & absent & ~joined;
            size_t place = query * misses->stride + counts[query];
            joined |= selected;
            if (query_count > 1)
                add_rows(&all, selected, selected & page_rows, selected & absent);
            /* A word that is zero is written, too, and the next one over it: no branch. */
            misses->words[place] = new_misses;
            misses->at[place] = (uint32_t)w;
            counts[query] += new_misses != 0;
        }
        history->looked_up[w] = joined & ~page_rows;
        add_rows(&once, joined, joined & page_rows, joined & absent);
    }
    *selections = query_count > 1 ? all : once;
    *rows = once;
    memcpy(misses->counts, counts, sizeof counts);
}

ALWAYS_INLINE void look(const struct history *history, struct row_counts *selections,
                        struct row_counts *rows, struct misses *misses)
{
    if (history->query_count == 1)
        look_with(history, 1, selections, rows, misses);
    else
        look_with(history, history->query_count, selections, rows, misses);
}

ALWAYS_INLINE uint32_t list(const struct misses *misses, uint32_t query, uint32_t *rows)
{
    const uint64_t *words = misses->words + query * misses->stride;
    const uint32_t *at = misses->at + query * misses->stride;
    uint32_t listed = 0;

    for (uint32_t i = 0; i < misses->counts[query]; i++) {
        for (uint64_t left = words[i]; left != 0; left &= left - 1)
            rows[listed++] = at[i] * 64 + (uint32_t)__builtin_ctzll(left);
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

/* Marks the slots, those past the end at a place of their own, and counts the marks: a byte
 * a slot is written without being read, and eight bytes are counted at once. */
ALWAYS_INLINE bool are_victims(const kvt_slot *slots, uint32_t count, const uint64_t *hit_bits,
                               uint32_t slot_count, uint8_t *taken)
{
    uint32_t end = (slot_count + 63) / 64 * 64, marked = 0;
    uint64_t hit = 0;

    memset(taken, 0, end);
    for (uint32_t i = 0; i < count; i++) {
        kvt_slot slot = slots[i] < slot_count ? slots[i] : end;
        taken[slot] = 1;
        hit |= slots[i] < slot_count ? hit_bits[slot / 64] >> slot % 64 : 0;
    }
    for (uint32_t slot = 0; slot < end; slot += 8) {
        uint64_t marks;
        memcpy(&marks, taken + slot, sizeof marks);
        marked += count_bits(marks);
    }
    return marked == count && (hit & 1) == 0;
}

ALWAYS_INLINE void join(uint64_t *rows, const uint64_t *more, size_t words)
{
    for (size_t w = 0; w < words; w++)
        rows[w] |= more[w];
}

ALWAYS_INLINE uint64_t sum_placed(const kvt_slot *slots, const uint32_t *rows, uint32_t count)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += kvt_mix64(((uint64_t)slots[i] << 32 | rows[i]) + 1);
    return sum;
}

/* The functions of one level, compiled with the given attributes. */
#define PASSES(level, ...)                                                                         \
    __VA_ARGS__ static void look_##level(const struct history *history,                            \
                                         struct row_counts *selections, struct row_counts *rows,   \
                                         struct misses *misses)                                    \
    {                                                                                              \
        look(history, selections, rows, misses);                                                   \
    }                                                                                              \
    __VA_ARGS__ static uint32_t list_##level(const struct misses *misses, uint32_t query,          \
                                             uint32_t *rows)                                       \
    {                                                                                              \
        return list(misses, query, rows);                                                          \
    }                                                                                              \
    __VA_ARGS__ static void find_hits_##level(                                                     \
        const uint64_t *looked_up, const uint32_t *slot_rows, uint32_t count, uint64_t *hit_bits)  \
    {                                                                                              \
        find_hits(looked_up, slot_rows, count, hit_bits);                                          \
    }                                                                                              \
    __VA_ARGS__ static bool are_victims_##level(const kvt_slot *slots, uint32_t count,             \
                                                const uint64_t *hit_bits, uint32_t slot_count,     \
                                                uint8_t *taken)                                    \
    {                                                                                              \
        return are_victims(slots, count, hit_bits, slot_count, taken);                             \
    }                                                                                              \
    __VA_ARGS__ static void join_##level(uint64_t *rows, const uint64_t *more, size_t words)       \
    {                                                                                              \
        join(rows, more, words);                                                                   \
    }                                                                                              \
    __VA_ARGS__ static uint64_t sum_placed_##level(const kvt_slot *slots, const uint32_t *rows,    \
                                                   uint32_t count)                                 \
    {                                                                                              \
        return sum_placed(slots, rows, count);                                                     \
    }                                                                                              \
    static const struct resolver_passes passes_##level = {.look = look_##level,                    \
                                                          .list = list_##level,                    \
                                                          .find_hits = find_hits_##level,          \
                                                          .are_victims = are_victims_##level,      \
                                                          .join = join_##level,                    \
                                                          .sum_placed = sum_placed_##level}

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
