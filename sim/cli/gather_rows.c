/* gather_rows.c -- rows of a gather, and translations of their addresses.
 *
 *     lists in turn
 *     a granule is translated unless it is among the newest ones, and so is a block: LRU lists */
#include "gather_rows.h"

#include <math.h>
#include <stdlib.h>

#include "kvt/rng.h"

enum {
    CONTEXT_ROWS_MAX = 102400,
    PAGE_ROWS = 64,
    SEED = 2385,
    NOBODY = UINT32_MAX
};

/* ---- Rows ------------------------------------------------------------------------------ */

/* A context's place: its first row, or a page each. */
struct context {
    uint64_t first_row, rows;
    uint32_t *pages; /* [rows / 64] NULL: in one piece */
};

static uint64_t pool_rows(const struct grid_gather *gather)
{
    return (uint64_t)(gather->pool_gib * (double)KVT_GIB) / gather->row_bytes;
}

static uint32_t row_at(const struct context *context, uint64_t row)
{
    if (context->pages)
        return context->pages[row / PAGE_ROWS] * PAGE_ROWS + (uint32_t)(row % PAGE_ROWS);
    return (uint32_t)(context->first_row + row);
}

static int compare_rows(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Distinct rows of the context, each as likely, in the order that they were drawn in or in that of
 * addresses. */
static void draw_misses(const struct grid_gather *gather, const struct context *context,
                        struct kvt_rng *rng, uint32_t *out)
{
    uint64_t drawn[CONTEXT_ROWS_MAX / 64 + 1] = {0}; /* a bit a row */
    size_t count = 0;

    while (count < gather->rows_each) {
        uint64_t row = kvt_rng_below(rng, context->rows);
        uint64_t bit = UINT64_C(1) << row % 64;
        if (drawn[row / 64] & bit)
            continue;
        drawn[row / 64] |= bit;
        out[count++] = row_at(context, row);
    }
    if (gather->is_sorted)
        qsort(out, count, sizeof *out, compare_rows);
}

/* Contexts of a list lie side by side in its part of the pool; their pages, where shuffled, lie
 * anywhere in all of it. */
static void place_context(const struct grid_gather *gather, uint64_t list, uint64_t request,
                          struct kvt_rng *rng, struct context *context)
{
    uint64_t room = pool_rows(gather) / GATHER_LISTS / gather->requests;

    context->rows = room < CONTEXT_ROWS_MAX ? room : CONTEXT_ROWS_MAX;
    context->first_row = (list * gather->requests + request) * room;
    for (uint64_t p = 0; context->pages && p * PAGE_ROWS < context->rows; p++)
        context->pages[p] = (uint32_t)kvt_rng_below(rng, pool_rows(gather) / PAGE_ROWS);
}

kvt_status gather_draw(const struct grid_gather *gather, uint32_t **rows, struct kvt_error *err)
{
    size_t each = (size_t)gather->rows_each;
    uint32_t pages[CONTEXT_ROWS_MAX / PAGE_ROWS + 1];
    struct context context = {.pages = gather->is_shuffled ? pages : NULL};

    if (pool_rows(gather) > UINT32_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, gather->name,
                        "%g GiB have more rows than 32 bits number", gather->pool_gib);
    uint32_t *all = calloc(GATHER_LISTS * gather->requests * each, sizeof *all);
    if (!all)
        return kvt_fail_nomem(err, "rows of a gather");
    for (uint64_t call = 0; call < GATHER_LISTS * gather->requests; call++) {
        struct kvt_rng rng = kvt_rng_stream(SEED, KVT_RNG_DEVICE, call);
        place_context(gather, call / gather->requests, call % gather->requests, &rng, &context);
        if (context.rows < each) {
            free(all);
            return kvt_fail(err, KVT_ERR_INVALID, gather->name,
                            "%llu rows of contexts of %llu, which is what %g GiB hold; fewer rows "
                            "or a larger pool are expected",
                            (unsigned long long)each, (unsigned long long)context.rows,
                            gather->pool_gib);
        }
        draw_misses(gather, &context, &rng, all + call * each);
    }
    *rows = all;
    return KVT_OK;
}

/* ---- Translations ---------------------------------------------------------------------- */

/* Pieces of the pool in order of their newest use; those not there are alone. */
struct translations {
    uint32_t piece_bytes, kept;
    uint32_t *newer, *older; /* [pieces] NOBODY: none */
    bool *is_there;          /* [pieces] */
    uint32_t newest, oldest, count;
};

static void unlink_piece(struct translations *cache, uint32_t piece)
{
    uint32_t newer = cache->newer[piece], older = cache->older[piece];

    if (newer == NOBODY)
        cache->newest = older;
    else
        cache->older[newer] = older;
    if (older == NOBODY)
        cache->oldest = newer;
    else
        cache->newer[older] = newer;
    cache->is_there[piece] = false;
    cache->count--;
}

static void add_newest(struct translations *cache, uint32_t piece)
{
    cache->newer[piece] = NOBODY;
    cache->older[piece] = cache->newest;
    if (cache->newest == NOBODY)
        cache->oldest = piece;
    else
        cache->newer[cache->newest] = piece;
    cache->newest = piece;
    cache->is_there[piece] = true;
    cache->count++;
}

/* Whether it had to be translated. */
static bool touch(struct translations *cache, uint32_t piece)
{
    bool was_there = cache->is_there[piece];

    if (was_there)
        unlink_piece(cache, piece);
    else if (cache->count == cache->kept)
        unlink_piece(cache, cache->oldest);
    add_newest(cache, piece);
    return !was_there;
}

static uint64_t touch_row(struct translations *cache, const struct grid_gather *gather,
                          uint64_t row)
{
    uint64_t first = row * gather->row_bytes / cache->piece_bytes;
    uint64_t last = ((row + 1) * gather->row_bytes - 1) / cache->piece_bytes;
    uint64_t missed = 0;

    for (uint64_t piece = first; piece <= last; piece++)
        missed += touch(cache, (uint32_t)piece);
    return missed;
}

/* All lists once; returns how many were translated. Rows come in the order of their lists: blocks
 * of the kernel take theirs side by side, which makes no difference that could be told. */
static uint64_t copy_all(struct translations *cache, const struct grid_gather *gather,
                         const uint32_t *rows)
{
    uint64_t all = GATHER_LISTS * gather->requests * gather->rows_each, missed = 0;

    for (uint64_t i = 0; i < all; i++)
        missed += touch_row(cache, gather, rows[i]);
    return missed;
}

static kvt_status count_translated(const struct grid_gather *gather, const uint32_t *rows,
                                   uint32_t piece_bytes, uint32_t kept, double *translated,
                                   struct kvt_error *err)
{
    uint64_t count = (uint64_t)ceil(gather->pool_gib * (double)KVT_GIB / piece_bytes) + 1;
    struct translations cache = {.piece_bytes = piece_bytes,
                                 .kept = kept,
                                 .newer = calloc(count, sizeof *cache.newer),
                                 .older = calloc(count, sizeof *cache.older),
                                 .is_there = calloc(count, sizeof *cache.is_there),
                                 .newest = NOBODY,
                                 .oldest = NOBODY};
    bool has_room = cache.newer && cache.older && cache.is_there;

    if (has_room) {
        (void)copy_all(&cache, gather, rows); /* as it is once all were copied before */
        *translated = (double)copy_all(&cache, gather, rows) / GATHER_LISTS;
    }
    free(cache.newer);
    free(cache.older);
    free(cache.is_there);
    return has_room ? KVT_OK : kvt_fail_nomem(err, "translations of a gather");
}

kvt_status gather_translations(const struct grid_gather *gather, const uint32_t *rows,
                               double *granules, double *blocks, struct kvt_error *err)
{
    kvt_status status =
        count_translated(gather, rows, GATHER_GRANULE_BYTES, GATHER_GRANULES_CACHED, granules, err);

    if (status != KVT_OK)
        return status;
    return count_translated(gather, rows, GATHER_BLOCK_BYTES, GATHER_BLOCKS_CACHED, blocks, err);
}
