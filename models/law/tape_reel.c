/* tape_reel.c -- recording of one tape, a loop.
 *
 *     for each step:
 *         the process, which is back where it began after the last one, moves on and selects: the
 * step's own selection for each side path: a fork of the process moves on side_tokens times and
 *             selects: what a draft selects that is rejected after this step */
#include "tape_reel.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What recording needs and reading does not. */
struct reel_recorder {
    struct score_stream *main, *side; /* side NULL without side paths */
    uint32_t token;                   /* steps that main has gone */
    size_t set_words;
    uint64_t *own, *sides[2]; /* [set_words], zero behind what is visible */
    struct kvt_kvsel_coder *coder;
};

static const struct kvt_kvsel_shape *shape_of(const struct reel *reel)
{
    return &reel->selections.shape;
}

static uint32_t step_count(const struct reel *reel)
{
    return reel->selections.token_count;
}

/* Rows that the last step's last side selection sees. */
static uint32_t rows_max(const struct reel *reel)
{
    return kvt_kvsel_visible(shape_of(reel), step_count(reel) - 1 + shape_of(reel)->side_tokens);
}

struct reel *reel_new(const struct score_kin *kin, const struct kvt_kvsel_shape *shape,
                      uint32_t steps)
{
    assert(shape->top_k >= 1 && shape->top_k <= shape->first_rows && steps >= 1);
    uint32_t blocks = steps / REEL_BLOCK_STEPS + (steps % REEL_BLOCK_STEPS != 0);
    struct reel *reel = calloc(1, sizeof *reel + blocks * sizeof reel->blocks[0]);
    if (reel == NULL)
        return NULL;
    reel->kin = *kin;
    reel->selections = (struct kvt_kvsel_stream){
        .shape = *shape, .token_count = blocks * REEL_BLOCK_STEPS, .blocks = reel->blocks};
    return reel;
}

static void recorder_free(struct reel_recorder *recorder)
{
    if (recorder == NULL)
        return;
    kvt_kvsel_coder_free(recorder->coder);
    free(recorder->main);
    free(recorder->side);
    free(recorder->own);
    free(recorder);
}

void reel_free(struct reel *reel)
{
    if (reel == NULL)
        return;
    for (uint32_t b = reel->loaded_blocks; b < step_count(reel) / REEL_BLOCK_STEPS; b++)
        free(reel->blocks[b]);
    kvt_kvsel_free(reel->loaded);
    recorder_free(reel->recorder);
    free(reel);
}

uint64_t reel_bytes(const struct reel *reel)
{
    uint64_t bytes = 0;
    for (uint32_t b = 0; b < reel->wanted / REEL_BLOCK_STEPS; b++)
        bytes += kvt_kvsel_block_bytes(reel->blocks[b]);
    return bytes;
}

/* A list of so many of `visible` rows: as gaps one byte each, and two for each 255 rows of a gap;
 * as lines an eighth of the set for the masks and each byte that has a row, where that is at most
 * seven quarters of it (kvsel_code.c). */
static double list_bytes(double rows, double visible)
{
    double gaps = rows * (1 + 2 / (exp(255 * rows / visible) - 1));
    double lines = visible / 64 + visible / 8 * -expm1(-8 * rows / visible);
    return 20 + (4 * lines <= 7 * gaps ? lines : gaps);
}

uint64_t reel_bytes_expected(const struct reel *reel, uint32_t steps)
{
    /* A selection differs from the one before it in up to 0.7 k rows. */
    static const double changed = 0.7;
    const struct kvt_kvsel_shape *shape = shape_of(reel);
    double rows = shape->first_rows, k = shape->top_k;
    double sides = (double)shape->side_paths * shape->side_tokens;
    double step = list_bytes(k, rows) + sides * list_bytes(changed * k, rows);
    return (uint64_t)(steps * step);
}

/* ---- Recording --------------------------------------------------------------- */

static struct reel_recorder *recorder_new(const struct reel *reel,
                                          const struct reel_process *process)
{
    const struct kvt_kvsel_shape *shape = shape_of(reel);
    struct score_extent side = {
        .rows_max = rows_max(reel), .top_k = shape->top_k, .tokens_per_row = shape->tokens_per_row};
    struct score_extent loop = side;
    loop.loop_tokens = step_count(reel);
    struct reel_recorder *recorder = calloc(1, sizeof *recorder);
    if (recorder == NULL)
        return NULL;
    recorder->set_words = kvt_row_words(loop.rows_max);
    recorder->main = malloc(score_stream_bytes(&loop));
    recorder->side = shape->side_paths > 0 ? calloc(1, score_stream_bytes(&side)) : NULL;
    recorder->own = calloc(3 * recorder->set_words, sizeof *recorder->own);
    recorder->coder = kvt_kvsel_coder_new(shape);
    if (recorder->main == NULL || (shape->side_paths > 0 && recorder->side == NULL) ||
        recorder->own == NULL || recorder->coder == NULL) {
        recorder_free(recorder);
        return NULL;
    }
    recorder->sides[0] = recorder->own + recorder->set_words;
    recorder->sides[1] = recorder->own + 2 * recorder->set_words;
    score_stream_init(recorder->main, &process->shape, process->gauss, &reel->kin, &loop);
    return recorder;
}

/* One selection, with no row of an earlier, longer history behind it. */
static void select_into(const struct reel_recorder *recorder, struct score_stream *score,
                        const struct score_shape *shape, uint32_t visible_rows, uint64_t *set)
{
    size_t words = kvt_row_words(visible_rows);
    score_stream_select(score, shape, NULL, visible_rows, set);
    memset(set + words, 0, (recorder->set_words - words) * sizeof *set);
}

static kvt_status record_sides(const struct reel *reel, const struct score_shape *score_shape,
                               uint32_t step, struct kvt_error *err)
{
    const struct kvt_kvsel_shape *shape = shape_of(reel);
    const struct reel_recorder *recorder = reel->recorder;
    for (uint32_t path = 1; path <= shape->side_paths; path++) {
        const uint64_t *before = recorder->own;
        score_stream_fork(recorder->main, path, recorder->side);
        for (uint32_t i = 0; i < shape->side_tokens; i++) {
            uint64_t *set = recorder->sides[i % 2];
            uint32_t visible = kvt_kvsel_visible(shape, step + 1 + i);
            select_into(recorder, recorder->side, score_shape, visible, set);
            kvt_status status =
                kvt_kvsel_coder_add(recorder->coder, set, before, kvt_row_words(visible), err);
            if (status != KVT_OK)
                return status;
            before = set;
        }
    }
    return KVT_OK;
}

static kvt_status record_step(const struct reel *reel, const struct score_shape *score_shape,
                              uint32_t step, struct kvt_error *err)
{
    struct reel_recorder *recorder = reel->recorder;
    uint32_t visible = kvt_kvsel_visible(shape_of(reel), step);
    select_into(recorder, recorder->main, score_shape, visible, recorder->own);
    recorder->token++;
    kvt_status status =
        kvt_kvsel_coder_add(recorder->coder, recorder->own, NULL, kvt_row_words(visible), err);
    return status == KVT_OK ? record_sides(reel, score_shape, step, err) : status;
}

static kvt_status record_block(struct reel *reel, const struct reel_process *process,
                               struct kvt_error *err)
{
    struct reel_recorder *recorder = reel->recorder;
    kvt_status status =
        kvt_kvsel_coder_begin(recorder->coder, 0, reel->recorded, REEL_BLOCK_STEPS, err);
    for (uint32_t s = 0; s < REEL_BLOCK_STEPS && status == KVT_OK; s++)
        status = record_step(reel, &process->shape, reel->recorded + s, err);
    unsigned char *block = NULL;
    if (status == KVT_OK)
        status = kvt_kvsel_coder_finish(recorder->coder, &block, err);
    if (status != KVT_OK)
        return status;
    reel->blocks[reel->recorded / REEL_BLOCK_STEPS] = block;
    reel->recorded += REEL_BLOCK_STEPS;
    return KVT_OK;
}

kvt_status reel_record(struct reel *reel, const struct reel_process *process, uint32_t steps,
                       struct kvt_error *err)
{
    assert(steps <= step_count(reel));
    if (steps > reel->recorded && reel->recorder == NULL) {
        reel->recorder = recorder_new(reel, process);
        if (reel->recorder == NULL)
            return kvt_fail_nomem(err, "recording a tape of selections");
    }
    kvt_status status = KVT_OK;
    while (reel->recorded < steps && status == KVT_OK) {
        struct reel_recorder *recorder = reel->recorder;
        /* What came from the cache, or a block that failed half way, left the process elsewhere. */
        if (recorder->token > reel->recorded) {
            recorder_free(recorder);
            recorder = reel->recorder = recorder_new(reel, process);
            if (recorder == NULL)
                return kvt_fail_nomem(err, "recording a tape of selections");
        }
        for (; recorder->token < reel->recorded; recorder->token++)
            score_stream_select(recorder->main, &process->shape, NULL,
                                kvt_kvsel_visible(shape_of(reel), recorder->token), NULL);
        status = record_block(reel, process, err);
    }
    if (reel->recorded == step_count(reel)) {
        recorder_free(reel->recorder);
        reel->recorder = NULL;
    }
    return status;
}

static bool is_same_shape(const struct kvt_kvsel_shape *a, const struct kvt_kvsel_shape *b)
{
    return a->top_k == b->top_k && a->first_rows == b->first_rows &&
           a->tokens_per_row == b->tokens_per_row && a->side_paths == b->side_paths &&
           a->side_tokens == b->side_tokens;
}

bool reel_adopt(struct reel *reel, struct kvt_kvsel *file, uint64_t key)
{
    const struct kvt_kvsel_header *header = kvt_kvsel_header_of(file);
    const struct kvt_kvsel_stream *stream = kvt_kvsel_stream_of(file, 0, 0);
    if (header->key != key || header->request_count != 1 || header->selector_count != 1 ||
        !is_same_shape(&stream->shape, shape_of(reel)) || reel->loaded != NULL ||
        reel->recorded > 0 || stream->token_count < REEL_BLOCK_STEPS ||
        stream->token_count % REEL_BLOCK_STEPS != 0 || stream->token_count > step_count(reel))
        return false;
    reel->loaded = file;
    reel->loaded_blocks = stream->token_count / REEL_BLOCK_STEPS;
    memcpy(reel->blocks, stream->blocks, reel->loaded_blocks * sizeof reel->blocks[0]);
    reel->recorded = reel->stored = stream->token_count;
    return true;
}
