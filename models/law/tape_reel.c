/* tape_reel.c -- a selection as gaps of 16 bits, written once and read at one addition a row.
 *
 *     put how many zeros follow
 *     previous = -1
 *     for each selected row, ascending:
 *         gap = row - previous                 at least 1
 *         while gap > 65,535: put 0, gap -= 65,535
 *         put gap; previous = row
 *
 * A step may need visible rows / 65,535 zeros beside its top_k gaps; every step
 * of a tape has that much room, so that its place is a multiplication.
 *
 * Reading turns the history by whole pages. Turned, the ascending rows
 *
 *     [0, split) [split, turned)  become  [split, turned) - split, [0, split) + shift
 *
 * and stay ascending if the second part goes first. */
#include "tape_reel.h"

#include <assert.h>
#include <stdlib.h>

enum {
    GAP_MAX = UINT16_MAX
};

/* What recording needs and reading does not. */
struct reel_recorder {
    uint32_t *rows; /* [top_k] */
    struct score_stream *score;
};

static uint32_t visible_at(const struct reel *reel, uint32_t step)
{
    return reel->first_rows + step / reel->tokens_per_row;
}

static uint32_t rows_max(const struct reel *reel)
{
    return visible_at(reel, reel->step_count - 1);
}

/* 16-bit words of one step. */
static size_t step_words(const struct reel *reel)
{
    return 1 + (size_t)reel->top_k + rows_max(reel) / GAP_MAX;
}

static size_t block_bytes(const struct reel *reel)
{
    return REEL_BLOCK_STEPS * step_words(reel) * sizeof(uint16_t);
}

static uint32_t block_count(uint32_t steps)
{
    return steps / REEL_BLOCK_STEPS + (steps % REEL_BLOCK_STEPS != 0);
}

struct reel *reel_new(uint64_t key, uint32_t first_rows, uint32_t tokens_per_row, uint32_t top_k,
                      uint32_t step_count)
{
    assert(top_k >= 1 && top_k <= first_rows && tokens_per_row >= 1 && step_count >= 1);
    size_t blocks = block_count(step_count);
    struct reel *reel = calloc(1, sizeof *reel + blocks * sizeof reel->blocks[0]);
    if (reel == NULL)
        return NULL;
    reel->key = key;
    reel->first_rows = first_rows;
    reel->tokens_per_row = tokens_per_row;
    reel->top_k = top_k;
    reel->step_count = (uint32_t)blocks * REEL_BLOCK_STEPS;
    return reel;
}

static void recorder_free(struct reel_recorder *recorder)
{
    if (recorder == NULL)
        return;
    free(recorder->rows);
    free(recorder->score);
    free(recorder);
}

void reel_free(struct reel *reel)
{
    if (reel == NULL)
        return;
    for (uint32_t b = 0; b < block_count(reel->step_count); b++)
        free(reel->blocks[b]);
    recorder_free(reel->recorder);
    free(reel);
}

size_t reel_recorder_bytes(const struct reel *reel)
{
    return sizeof(struct reel_recorder) + reel->top_k * sizeof(uint32_t) +
           score_stream_bytes(rows_max(reel), reel->top_k);
}

size_t reel_bytes_at(const struct reel *reel, uint32_t steps)
{
    size_t bytes = sizeof *reel + block_count(reel->step_count) * sizeof reel->blocks[0] +
                   block_count(steps) * block_bytes(reel);
    if (steps > 0 && steps < reel->step_count)
        bytes += reel_recorder_bytes(reel);
    return bytes;
}

/* ---- Recording --------------------------------------------------------------- */

static struct reel_recorder *recorder_new(const struct reel *reel, const float *gauss)
{
    struct reel_recorder *recorder = malloc(sizeof *recorder);
    if (recorder == NULL)
        return NULL;
    recorder->rows = malloc(reel->top_k * sizeof *recorder->rows);
    recorder->score = malloc(score_stream_bytes(rows_max(reel), reel->top_k));
    if (recorder->rows == NULL || recorder->score == NULL) {
        recorder_free(recorder);
        return NULL;
    }
    score_stream_init(recorder->score, gauss, reel->key, rows_max(reel), reel->top_k);
    return recorder;
}

static void encode(const uint32_t *rows, uint32_t count, uint16_t *words)
{
    uint16_t *zeros = words++;
    *zeros = 0;
    uint32_t previous = UINT32_MAX; /* one before row 0, modulo 2^32 */
    for (uint32_t i = 0; i < count; i++) {
        uint32_t gap = rows[i] - previous;
        for (; gap > GAP_MAX; gap -= GAP_MAX) {
            *words++ = 0;
            ++*zeros;
        }
        *words++ = (uint16_t)gap;
        previous = rows[i];
    }
}

kvt_status reel_record(struct reel *reel, const struct score_shape *shape, const float *gauss,
                       uint32_t steps, struct kvt_error *err)
{
    assert(steps <= reel->step_count);
    if (steps > reel->recorded && reel->recorder == NULL) {
        reel->recorder = recorder_new(reel, gauss);
        if (reel->recorder == NULL)
            return kvt_fail_nomem(err, "recording a tape of selections");
    }
    while (reel->recorded < steps) {
        uint16_t *block = malloc(block_bytes(reel));
        if (block == NULL)
            return kvt_fail_nomem(err, "a tape of selections");
        struct reel_recorder *recorder = reel->recorder;
        for (uint32_t s = 0; s < REEL_BLOCK_STEPS; s++) {
            uint32_t count =
                score_stream_select(recorder->score, shape, gauss,
                                    visible_at(reel, reel->recorded + s), recorder->rows);
            encode(recorder->rows, count, block + s * step_words(reel));
        }
        reel->blocks[reel->recorded / REEL_BLOCK_STEPS] = block;
        reel->recorded += REEL_BLOCK_STEPS;
    }
    if (reel->recorded == reel->step_count) {
        recorder_free(reel->recorder);
        reel->recorder = NULL;
    }
    return KVT_OK;
}

/* ---- Reading ----------------------------------------------------------------- */

/* Stands at one selected row of a step, or past the last. */
struct cursor {
    const uint16_t *next, *end; /* words of the rows after this one */
    uint32_t row;               /* UINT32_MAX past the last */
};

static inline struct cursor advanced(struct cursor at)
{
    if (at.next == at.end) {
        at.row = UINT32_MAX;
        return at;
    }
    uint32_t gap;
    while ((gap = *at.next++) == 0)
        at.row += GAP_MAX;
    at.row += gap;
    return at;
}

static struct cursor cursor_at(const uint16_t *words, uint32_t count)
{
    struct cursor before = {
        .next = words + 1, .end = words + 1 + words[0] + count, .row = UINT32_MAX};
    return advanced(before);
}

/* Past the rows below the bound. */
static struct cursor skip_below(struct cursor at, uint32_t bound)
{
    while (at.row < bound)
        at = advanced(at);
    return at;
}

/* Writes the rows below the bound, each plus shift modulo 2^32, and passes
 * them; returns how many. */
static uint32_t copy_below(struct cursor *cursor, uint32_t bound, uint32_t shift, uint32_t *rows)
{
    struct cursor at = *cursor;
    uint32_t count = 0;
    while (at.row < bound) {
        rows[count++] = at.row + shift;
        at = advanced(at);
    }
    *cursor = at;
    return count;
}

void reel_read(const struct reel *reel, uint32_t step, const struct reel_map *map, uint32_t *rows)
{
    assert(reel->blocks[step / REEL_BLOCK_STEPS] != NULL);
    uint32_t whole = map->stream_rows - map->stream_rows % KVT_PAGE_ROWS;
    uint32_t turned = map->old_rows < whole ? map->old_rows : whole;
    uint32_t split = whole - map->shift_rows;
    if (split > turned)
        split = turned;

    const uint16_t *block = reel->blocks[step / REEL_BLOCK_STEPS];
    struct cursor low = cursor_at(block + step % REEL_BLOCK_STEPS * step_words(reel), reel->top_k);
    struct cursor high = skip_below(low, split);

    uint32_t wrap = map->shift_rows - whole; /* minus the split before it was cut, modulo 2^32 */
    uint32_t written = copy_below(&high, turned, wrap, rows);
    written += copy_below(&low, split, map->shift_rows, rows + written);
    written += copy_below(&high, map->old_rows, 0, rows + written);
    written += copy_below(&high, UINT32_MAX, map->stream_rows - map->old_rows, rows + written);
    assert(written == reel->top_k);
    (void)written;
}
