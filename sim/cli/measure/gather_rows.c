/* gather_rows.c -- rows of a gather, and translations of their addresses.
 *
 *     lists in turn
 *     a granule is translated unless it is among the newest ones, and so is its block: LRU lists */
#include "gather_rows.h"

#include <math.h>
#include <stdlib.h>

#include "kvt/rng.h"

enum {
    CONTEXT_ROWS_MAX = 102400,
    PAGE_ROWS = 64,
    CONTEXT_PAGES_MAX = CONTEXT_ROWS_MAX / PAGE_ROWS + 1,
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
static void place_context(const struct grid_gather *gather, uint64_t number, struct kvt_rng *rng,
                          struct context *context)
{
    uint64_t room = pool_rows(gather) / GATHER_LISTS / gather->requests;

    context->rows = room < CONTEXT_ROWS_MAX ? room : CONTEXT_ROWS_MAX;
    context->first_row = number * room;
    for (uint64_t p = 0; context->pages && p * PAGE_ROWS < context->rows; p++)
        context->pages[p] = (uint32_t)kvt_rng_below(rng, pool_rows(gather) / PAGE_ROWS);
}

/* Contexts of all lists in turn. The place of each is drawn from a stream of its own, which goes on
 * with its misses. */
static struct kvt_rng open_context(const struct grid_gather *gather, uint64_t number,
                                   struct context *context)
{
    struct kvt_rng rng = kvt_rng_stream(SEED, KVT_RNG_DEVICE, number);

    place_context(gather, number, &rng, context);
    return rng;
}

kvt_status gather_draw(const struct grid_gather *gather, uint32_t **rows, struct kvt_error *err)
{
    size_t each = (size_t)gather->rows_each;
    uint32_t pages[CONTEXT_PAGES_MAX];
    struct context context = {.pages = gather->is_shuffled ? pages : NULL};

    if (pool_rows(gather) > UINT32_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, gather->name,
                        "%g GiB have more rows than 32 bits number", gather->pool_gib);
    uint64_t contexts = GATHER_LISTS * gather->requests;
    uint32_t *all = calloc(GATHER_STEPS * contexts * each, sizeof *all);
    if (!all)
        return kvt_fail_nomem(err, "rows of a gather");
    for (uint64_t c = 0; c < contexts; c++) {
        struct kvt_rng rng = open_context(gather, c, &context);
        if (context.rows < each) {
            free(all);
            return kvt_fail(err, KVT_ERR_INVALID, gather->name,
                            "%llu rows of contexts of %llu, which is what %g GiB hold; fewer rows "
                            "or a larger pool are expected",
                            (unsigned long long)each, (unsigned long long)context.rows,
                            gather->pool_gib);
        }
        for (uint64_t step = 0; step < GATHER_STEPS; step++)
            draw_misses(gather, &context, &rng, all + (step * contexts + c) * each);
    }
    *rows = all;
    return KVT_OK;
}

/* ---- Translations ---------------------------------------------------------------------- */

/* Pieces of the pool in order of their newest use; those not there are alone. */
struct pieces {
    uint32_t kept;
    uint32_t *newer, *older; /* [pieces] NOBODY: none */
    bool *is_there;          /* [pieces] */
    uint32_t newest, oldest, count;
};

static void unlink_piece(struct pieces *pieces, uint32_t piece)
{
    uint32_t newer = pieces->newer[piece], older = pieces->older[piece];

    if (newer == NOBODY)
        pieces->newest = older;
    else
        pieces->older[newer] = older;
    if (older == NOBODY)
        pieces->oldest = newer;
    else
        pieces->newer[older] = newer;
    pieces->is_there[piece] = false;
    pieces->count--;
}

static void add_newest(struct pieces *pieces, uint32_t piece)
{
    pieces->newer[piece] = NOBODY;
    pieces->older[piece] = pieces->newest;
    if (pieces->newest == NOBODY)
        pieces->oldest = piece;
    else
        pieces->newer[pieces->newest] = piece;
    pieces->newest = piece;
    pieces->is_there[piece] = true;
    pieces->count++;
}

/* Whether it had to be translated. */
static bool touch(struct pieces *pieces, uint32_t piece)
{
    bool was_there = pieces->is_there[piece];

    if (was_there)
        unlink_piece(pieces, piece);
    else if (pieces->count == pieces->kept)
        unlink_piece(pieces, pieces->oldest);
    add_newest(pieces, piece);
    return !was_there;
}

static kvt_status open_pieces(uint64_t pool_bytes, uint32_t piece_bytes, uint32_t kept,
                              struct pieces *out, struct kvt_error *err)
{
    uint64_t count = pool_bytes / piece_bytes + 1;

    *out = (struct pieces){.kept = kept,
                           .newer = calloc(count, sizeof *out->newer),
                           .older = calloc(count, sizeof *out->older),
                           .is_there = calloc(count, sizeof *out->is_there),
                           .newest = NOBODY,
                           .oldest = NOBODY};
    return out->newer && out->older && out->is_there
               ? KVT_OK
               : kvt_fail_nomem(err, "translations of a gather");
}

static void close_pieces(struct pieces *pieces)
{
    free(pieces->newer);
    free(pieces->older);
    free(pieces->is_there);
}

struct caches {
    struct pieces granules, blocks;
    uint64_t granules_missed, blocks_missed;
};

/* A block is looked up for a granule that is not there. */
static void touch_row(struct caches *caches, const struct grid_gather *gather, uint64_t row)
{
    uint64_t first = row * gather->row_bytes / KVT_GRANULE_BYTES;
    uint64_t last = ((row + 1) * gather->row_bytes - 1) / KVT_GRANULE_BYTES;

    for (uint64_t granule = first; granule <= last; granule++) {
        if (!touch(&caches->granules, (uint32_t)granule))
            continue;
        caches->granules_missed++;
        caches->blocks_missed += touch(
            &caches->blocks, (uint32_t)(granule / (KVT_PROFILE_BLOCK_BYTES / KVT_GRANULE_BYTES)));
    }
}

/* Lists one behind the other. Rows come in their order: blocks of the kernel take theirs side by
 * side, which makes no difference that could be told. */
static void copy_steps(struct caches *caches, const struct grid_gather *gather,
                       const uint32_t *rows, uint64_t steps)
{
    uint64_t all = steps * GATHER_LISTS * gather->requests * gather->rows_each;

    caches->granules_missed = caches->blocks_missed = 0;
    for (uint64_t i = 0; i < all; i++)
        touch_row(caches, gather, rows[i]);
}

/* ---- Memory ---------------------------------------------------------------------------- */

/* Granules that rows [first, end) lie on and that were not there; marks them. */
static uint64_t mark_rows(const struct grid_gather *gather, uint64_t first, uint64_t end,
                          uint8_t *is_there)
{
    uint64_t last = (end * gather->row_bytes - 1) / KVT_GRANULE_BYTES, count = 0;

    for (uint64_t g = first * gather->row_bytes / KVT_GRANULE_BYTES; g <= last; g++) {
        count += !is_there[g];
        is_there[g] = 1;
    }
    return count;
}

/* What contexts of all lists lie in, of a gather that could be drawn. */
static kvt_status count_memory(const struct grid_gather *gather, uint64_t pool_bytes, double *bytes,
                               struct kvt_error *err)
{
    uint32_t pages[CONTEXT_PAGES_MAX];
    struct context context = {.pages = gather->is_shuffled ? pages : NULL};
    uint8_t *is_there = calloc(pool_bytes / KVT_GRANULE_BYTES + 1, 1);
    uint64_t granules = 0;

    if (!is_there)
        return kvt_fail_nomem(err, "the memory of a gather");
    for (uint64_t c = 0; c < GATHER_LISTS * gather->requests; c++) {
        (void)open_context(gather, c, &context);
        for (uint64_t row = 0; row < context.rows; row += PAGE_ROWS) {
            uint64_t first = row_at(&context, row);
            uint64_t rows = context.rows - row < PAGE_ROWS ? context.rows - row : PAGE_ROWS;
            granules += mark_rows(gather, first, first + rows, is_there);
        }
    }
    free(is_there);
    *bytes = (double)granules * KVT_GRANULE_BYTES;
    return KVT_OK;
}

/* ---- All of it ------------------------------------------------------------------------- */

kvt_status gather_translate(const struct grid_gather *gather, const uint32_t *rows,
                            struct gather_translations *out, struct kvt_error *err)
{
    uint64_t pool_bytes = (uint64_t)ceil(gather->pool_gib * (double)KVT_GIB);
    double memory_bytes = 0;
    struct caches caches = {0};
    kvt_status status =
        open_pieces(pool_bytes, KVT_GRANULE_BYTES, GATHER_GRANULES_CACHED, &caches.granules, err);

    if (status == KVT_OK)
        status = open_pieces(pool_bytes, KVT_PROFILE_BLOCK_BYTES, GATHER_BLOCKS_CACHED,
                             &caches.blocks, err);
    if (status == KVT_OK)
        status = count_memory(gather, pool_bytes, &memory_bytes, err);
    if (status == KVT_OK) {
        const uint64_t of_step = GATHER_LISTS * gather->requests * gather->rows_each;
        copy_steps(&caches, gather, rows, 1);
        copy_steps(&caches, gather, rows + of_step, GATHER_STEPS - 1);
        out->granules = (double)caches.granules_missed / ((GATHER_STEPS - 1) * GATHER_LISTS);
        out->blocks = (double)caches.blocks_missed / ((GATHER_STEPS - 1) * GATHER_LISTS);
        out->far_granules = out->granules * kvt_profile_far_share(memory_bytes);
    }
    close_pieces(&caches.granules);
    close_pieces(&caches.blocks);
    return status;
}

kvt_status gather_features(const struct grid_gather *gather, const uint32_t *rows,
                           double features[KVT_FEATURES], struct kvt_error *err)
{
    double count = (double)gather->requests * (double)gather->rows_each;
    double wire_bytes = count * (double)gather->row_bytes;
    double inbound = (double)(gather->inbound_mib << 20);
    double outbound = (double)(gather->outbound_mib << 20);
    struct gather_translations translations = {0};

    features[KVT_FEATURE_MISSED_ROWS] = count;
    features[KVT_FEATURE_WIRE_BYTES] = wire_bytes;
    features[KVT_FEATURE_INBOUND_BYTES] = inbound;
    features[KVT_FEATURE_OUTBOUND_BYTES] = outbound;
    features[KVT_FEATURE_NODE_BYTES] = (double)gather->gpus * (wire_bytes + inbound + outbound);
    features[KVT_FEATURE_GATHERING_GPUS] = (double)gather->gpus;
    features[KVT_FEATURE_FETCHES] = 1;
    kvt_status status = gather_translate(gather, rows, &translations, err);
    features[KVT_FEATURE_GRANULES] = translations.granules;
    features[KVT_FEATURE_GRANULE_BLOCKS] = translations.blocks;
    features[KVT_FEATURE_FAR_GRANULES] = translations.far_granules;
    return status;
}
