/* Whoever asks for scores moves the stream on. */
#include "law.h"

static void page_scores(const void *law, void *state, uint32_t visible_rows, uint32_t rows_per_page,
                        float *scores)
{
    (void)law;
    for (uint32_t page = 0; page * rows_per_page < visible_rows; page++)
        scores[page] = (float)page;
    ((struct stream *)state)->rounds++;
}

LAW("scores-move", .page_scores = page_scores)
