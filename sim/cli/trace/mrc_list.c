/* mrc_list.c -- the rows of a selection, one by one.
 *
 * 2,048 rows of 100,000 leave one or two to a word, and how many there are cannot be predicted: so
 * a few are written whether they are there or not, and the next word goes on behind those that
 * were. */
#include "kvt/cpu.h"
#include "mrc.h"

#if defined(__GNUC__)
__attribute__((always_inline))
#endif
static inline uint32_t
list_words(const uint64_t *set, size_t words, uint32_t *rows)
{
    const uint64_t beyond = UINT64_C(1) << 63; /* so that there is always a bit */
    uint32_t count = 0;
    for (size_t w = 0; w < words; w++) {
        uint32_t first = (uint32_t)w * 64;
        uint64_t left = set[w];
        uint32_t here = (uint32_t)__builtin_popcountll(left);
        for (uint32_t i = 0; i < MRC_LIST_SLACK; i++) {
            rows[count + i] = first + (uint32_t)__builtin_ctzll(left | beyond);
            left &= left - 1;
        }
        for (uint32_t i = MRC_LIST_SLACK; left != 0; left &= left - 1)
            rows[count + i++] = first + (uint32_t)__builtin_ctzll(left);
        count += here;
    }
    return count;
}

#if defined(__x86_64__)
__attribute__((target("popcnt,bmi"))) static uint32_t list_avx2(const uint64_t *set, size_t words,
                                                                uint32_t *rows)
{
    return list_words(set, words, rows);
}
#endif

uint32_t mrc_list(const uint64_t *set, size_t words, uint32_t *rows)
{
#if defined(__x86_64__)
    if (kvt_cpu_best() >= KVT_CPU_AVX2)
        return list_avx2(set, words, rows);
#endif
    return list_words(set, words, rows);
}
