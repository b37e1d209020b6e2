/* validate_walk.c -- selections that cost little to make: a set of rows of which a third is drawn
 * anew from token to token.
 *
 *     each token: every selected row leaves with chance 5/16; as many come, one in four of them
 *                 from the newest 128 rows, the others from anywhere
 *     drafts that are rejected go on from where they part, by chances of their own
 *
 * Overlap from token to token is 11/16 = .69, about what the laws of docs/laws.md have at lag 1.
 * For telling two backends apart what matters is that calls hit, miss, stage and skip. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validate_decisions.h"

enum {
    NEW_ROWS = 128,
    NEW_EVERY = 4
};

struct walk_law {
    uint32_t top_k;
    uint64_t run_seed;
};

struct walk_stream {
    struct kvt_rng rng;
    uint32_t words;  /* of each set */
    uint64_t sets[]; /* [2][words] the main path, and a draft's */
};

static kvt_status walk_prepare(const struct kvt_law_env *env, void **out, struct kvt_error *err)
{
    struct walk_law *law = malloc(sizeof *law);

    if (!law)
        return kvt_fail_nomem(err, "the law of selections");
    *law = (struct walk_law){.top_k = env->top_k, .run_seed = env->run_seed};
    *out = law;
    return KVT_OK;
}

static void walk_free(void *law)
{
    free(law);
}

static void walk_describe(const void *law, char *out, size_t bytes)
{
    (void)law;
    (void)snprintf(out, bytes, "walk: 5 of 16 selected rows are drawn anew each token");
}

static size_t walk_bytes(const void *law, const struct kvt_law_stream_env *env)
{
    (void)law;
    return sizeof(struct walk_stream) + 2 * kvt_row_words(env->rows_max) * sizeof(uint64_t);
}

/* So many rows below `visible` come in. */
static void come_in(uint64_t *set, struct kvt_rng *rng, uint32_t visible, uint32_t rows)
{
    uint32_t newest = visible < NEW_ROWS ? visible : NEW_ROWS;

    while (rows > 0) {
        uint64_t draw = kvt_rng_u64(rng);
        uint32_t row = draw % NEW_EVERY == 0 ? visible - 1 - (uint32_t)((draw >> 32) % newest)
                                             : (uint32_t)(((draw >> 32) * visible) >> 32);
        uint64_t bit = UINT64_C(1) << row % 64;
        rows -= (set[row / 64] & bit) == 0;
        set[row / 64] |= bit;
    }
}

/* Each row of the set leaves with chance 5/16; returns how many stay. */
static uint32_t leave(uint64_t *set, struct kvt_rng *rng, uint32_t words)
{
    uint32_t stay = 0;

    for (uint32_t w = 0; w < words; w++) {
        uint64_t a = kvt_rng_u64(rng), b = kvt_rng_u64(rng), c = kvt_rng_u64(rng);
        uint64_t quarter = a & b, sixteenth = a & ~b & c & kvt_rng_u64(rng);
        set[w] &= ~(quarter | sixteenth);
        stay += (uint32_t)__builtin_popcountll(set[w]);
    }
    return stay;
}

static void select_all(uint64_t *set, uint32_t visible)
{
    for (uint32_t row = 0; row < visible; row++)
        set[row / 64] |= UINT64_C(1) << row % 64;
}

static void move(const struct walk_law *law, uint64_t *set, struct kvt_rng *rng, uint32_t visible)
{
    if (visible <= law->top_k) {
        select_all(set, visible);
        return;
    }
    uint32_t stay = leave(set, rng, (uint32_t)kvt_row_words(visible));
    come_in(set, rng, visible, law->top_k - stay);
}

static kvt_status walk_init(void *data, void *state, const struct kvt_law_stream_env *env,
                            struct kvt_error *err)
{
    const struct walk_law *law = data;
    struct walk_stream *stream = state;

    (void)err;
    stream->rng = kvt_rng_stream(law->run_seed, KVT_RNG_SELECTION,
                                 (uint64_t)env->request * KVT_SELECTORS_MAX + env->selector);
    stream->words = (uint32_t)kvt_row_words(env->rows_max);
    if (env->context_rows <= law->top_k)
        select_all(stream->sets, env->context_rows);
    else
        come_in(stream->sets, &stream->rng, env->context_rows, law->top_k);
    return KVT_OK;
}

static void walk_select(const void *data, void *state, const struct kvt_law_round *round,
                        uint64_t *const *sets)
{
    const struct walk_law *law = data;
    struct walk_stream *stream = state;
    uint64_t *main_set = stream->sets, *draft_set = stream->sets + stream->words;
    struct kvt_rng draft_rng = {0};
    uint32_t moved = 0, path = 0, deepest = 0;

    for (uint32_t q = 0; q < round->query_count; q++)
        deepest = round->queries[q].depth > deepest ? round->queries[q].depth : deepest;
    size_t words = kvt_row_words(round->visible_rows[deepest]);
    for (uint32_t q = 0; q < round->query_count; q++) {
        const struct kvt_law_query *query = &round->queries[q];
        uint32_t main_tokens = query->path == 0 ? query->depth + 1 : query->fork;
        while (moved < main_tokens)
            move(law, main_set, &stream->rng, round->visible_rows[moved++]);
        if (query->path != 0 && query->path != path) {
            path = query->path;
            memcpy(draft_set, main_set, stream->words * sizeof *draft_set);
            struct kvt_rng here = stream->rng; /* which the main path goes on from */
            draft_rng = kvt_rng_stream(kvt_rng_u64(&here), KVT_RNG_SELECTION, path);
        }
        if (query->path != 0)
            move(law, draft_set, &draft_rng, round->visible_rows[query->depth]);
        if (sets)
            memcpy(sets[q], query->path == 0 ? main_set : draft_set, words * sizeof *sets[q]);
    }
    while (moved < round->committed_tokens)
        move(law, main_set, &stream->rng, round->visible_rows[moved++]);
}

const struct kvt_law validate_walk = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof validate_walk,
             .name = "walk",
             .summary = "a third of the rows is drawn anew from token to token"},
    .basis = KVT_BASIS_ASSUMED,
    .prepare = walk_prepare,
    .free = walk_free,
    .describe = walk_describe,
    .stream_bytes = walk_bytes,
    .stream_init = walk_init,
    .select = walk_select,
};
