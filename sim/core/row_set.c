/* row_set.c -- a set of a store's rows, one bit each. */
#include "kvt/row_set.h"

#include <string.h>

uint32_t kvt_row_set_count(const uint64_t *set, size_t words)
{
    uint32_t count = 0;

    for (size_t w = 0; w < words; w++)
        count += (uint32_t)__builtin_popcountll(set[w]);
    return count;
}

void kvt_row_set_add(uint64_t *set, const uint32_t *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        set[rows[i] / 64] |= UINT64_C(1) << rows[i] % 64;
}

uint32_t kvt_row_set_list(const uint64_t *set, size_t words, uint32_t *rows)
{
    uint32_t count = 0;

    for (size_t w = 0; w < words; w++) {
        for (uint64_t left = set[w]; left != 0; left &= left - 1)
            rows[count++] = (uint32_t)w * 64 + (uint32_t)__builtin_ctzll(left);
    }
    return count;
}

/* A word holds whole pages, and its pages lie in one word of theirs. */
void kvt_row_set_of_pages(const uint64_t *pages, uint32_t page_count, uint32_t rows_per_page,
                          uint64_t *rows, size_t words)
{
    const uint32_t pages_per_word = 64 / rows_per_page;
    const uint64_t page_rows = UINT64_MAX >> (64 - rows_per_page);
    size_t paged_words = ((size_t)page_count + pages_per_word - 1) / pages_per_word;

    if (paged_words > words)
        paged_words = words;
    for (size_t w = 0; w < paged_words; w++) {
        size_t first = w * pages_per_word;
        uint64_t bits = pages[first / 64] >> first % 64, word = 0;
        if (page_count - first < pages_per_word)
            bits &= (UINT64_C(1) << (page_count - first)) - 1;
        for (uint32_t i = 0; i < pages_per_word; i++)
            word |= ((bits >> i & 1) * page_rows) << i * rows_per_page;
        rows[w] = word;
    }
    memset(rows + paged_words, 0, (words - paged_words) * sizeof *rows);
}
