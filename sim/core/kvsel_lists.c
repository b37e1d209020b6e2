/* kvsel_lists.c -- lists of rows into sets: what kvsel_code.c wrote. */
#include "kvsel_private.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- Gaps ------------------------------------------------------------------------------ */

static inline void toggle_row(uint64_t *set, uint32_t row)
{
    set[row / 64] ^= UINT64_C(1) << row % 64;
}

static void toggle_gaps(uint64_t *set, const struct kvsel_list *list)
{
    const uint32_t quarter = list->byte_count / KVSEL_LANES;
    const unsigned char *a = list->bytes, *b = a + quarter, *c = b + quarter, *d = c + quarter;
    uint32_t row_a = 0, row_b = kvsel_u32(list->header + 4), row_c = kvsel_u32(list->header + 8),
             row_d = kvsel_u32(list->header + 12);
    for (uint32_t i = 0; i < quarter; i++) {
        row_a += a[i];
        toggle_row(set, row_a);
        row_b += b[i];
        toggle_row(set, row_b);
        row_c += c[i];
        toggle_row(set, row_c);
        row_d += d[i];
        toggle_row(set, row_d);
    }
    for (uint32_t i = quarter; i < list->byte_count - 3 * quarter; i++) {
        row_d += d[i];
        toggle_row(set, row_d);
    }
}

/* ---- Lines ------------------------------------------------------------------------------ */

static uint32_t lines_of(const struct kvsel_list *list)
{
    return kvsel_u32(list->header);
}

static void toggle_lines(uint64_t *set, const struct kvsel_list *list)
{
    const uint32_t lines = lines_of(list);
    const unsigned char *masks = list->bytes, *bytes = masks + (size_t)lines * 8;
    for (uint32_t line = 0; line < lines; line++) {
        uint64_t *words = set + (size_t)line * KVSEL_LINE_WORDS;
        for (uint64_t left = kvsel_u64(masks + (size_t)line * 8); left != 0; left &= left - 1) {
            uint32_t place = (uint32_t)__builtin_ctzll(left);
            words[place / 8] ^= (uint64_t)*bytes++ << place % 8 * 8;
        }
    }
}

#if defined(__x86_64__)
/* Nothing behind the list's last byte is loaded. */
__attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,bmi2,popcnt"))) static void
put_lines_avx512(uint64_t *set, const struct kvsel_list *list, bool toggles)
{
    const uint32_t lines = lines_of(list);
    const unsigned char *masks = list->bytes, *bytes = masks + (size_t)lines * 8;
    for (uint32_t line = 0; line < lines; line++) {
        uint64_t *words = set + (size_t)line * KVSEL_LINE_WORDS;
        uint64_t mask = kvsel_u64(masks + (size_t)line * 8);
        uint32_t count = (uint32_t)_mm_popcnt_u64(mask);
        __m512i packed = _mm512_maskz_loadu_epi8(_bzhi_u64(UINT64_MAX, count), bytes);
        __m512i spread = _mm512_maskz_expand_epi8(mask, packed);
        if (toggles)
            spread = _mm512_xor_si512(spread, _mm512_loadu_si512(words));
        _mm512_storeu_si512(words, spread);
        bytes += count;
    }
}
#endif

/* ---- Either ------------------------------------------------------------------------------ */

void kvsel_toggle(uint64_t *set, const struct kvsel_list *list, enum kvt_cpu cpu)
{
    if (lines_of(list) == 0)
        toggle_gaps(set, list);
#if defined(__x86_64__)
    else if (cpu >= KVT_CPU_AVX512)
        put_lines_avx512(set, list, true);
#endif
    else
        toggle_lines(set, list);
}

void kvsel_begin(uint64_t *set, const struct kvsel_list *list, size_t words, enum kvt_cpu cpu)
{
    size_t covered = 0;
#if defined(__x86_64__)
    if (list != NULL && cpu >= KVT_CPU_AVX512) {
        put_lines_avx512(set, list, false); /* where there are lines */
        covered = (size_t)lines_of(list) * KVSEL_LINE_WORDS;
    }
#endif
    if (covered < words)
        memset(set + covered, 0, (words - covered) * sizeof *set);
    if (list != NULL && covered == 0)
        kvsel_toggle(set, list, cpu);
}

static bool are_gaps_sound(const struct kvsel_list *list, uint32_t rows)
{
    const uint32_t quarter = list->byte_count / KVSEL_LANES;
    uint64_t row = 0;
    for (uint32_t lane = 0; lane < KVSEL_LANES; lane++) {
        if (lane > 0 && kvsel_u32(list->header + (size_t)lane * 4) != row)
            return false;
        const unsigned char *gaps = list->bytes + (size_t)lane * quarter;
        uint32_t count = lane < KVSEL_LANES - 1 ? quarter : list->byte_count - 3 * quarter;
        for (uint32_t i = 0; i < count; i++)
            row += gaps[i];
    }
    return list->byte_count == 0 || row < rows;
}

/* No line lies behind the rows, each has the bytes it says, and the last one's are below them. */
static bool are_lines_sound(const struct kvsel_list *list, uint32_t rows)
{
    static const unsigned char nothing[KVSEL_LIST_HEADER_BYTES - 4] = {0};
    const uint32_t line_rows = KVSEL_LINE_WORDS * 64;
    uint32_t lines = lines_of(list);
    if ((uint64_t)(lines - 1) * line_rows >= rows || list->byte_count / 8 < lines ||
        memcmp(list->header + 4, nothing, sizeof nothing) != 0)
        return false;
    uint64_t bytes = 0, last = kvsel_u64(list->bytes + (size_t)(lines - 1) * 8);
    for (uint32_t line = 0; line < lines; line++)
        bytes += (uint32_t)__builtin_popcountll(kvsel_u64(list->bytes + (size_t)line * 8));
    if (bytes != list->byte_count - (uint64_t)lines * 8)
        return false;
    uint64_t set[KVSEL_LINE_WORDS] = {0};
    uint32_t here = rows - (lines - 1) * line_rows;
    const unsigned char *at = list->bytes + list->byte_count - __builtin_popcountll(last);
    for (uint64_t left = last; left != 0; left &= left - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(left);
        set[place / 8] |= (uint64_t)*at++ << place % 8 * 8;
    }
    for (uint32_t w = 0; w < KVSEL_LINE_WORDS; w++) {
        uint64_t beyond = here >= (w + 1) * 64 ? 0
                          : here <= w * 64     ? UINT64_MAX
                                               : UINT64_MAX << here % 64;
        if ((set[w] & beyond) != 0)
            return false;
    }
    return true;
}

bool kvsel_list_is_sound(const struct kvsel_list *list, uint32_t rows)
{
    return lines_of(list) == 0 ? are_gaps_sound(list, rows) : are_lines_sound(list, rows);
}
