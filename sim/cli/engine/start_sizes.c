/* start_sizes.c -- what fits in the pools of a start: at which lengths, and how long one may be. */
#include "start.h"

static double fact(const struct engine_start *start, const char *name, double otherwise)
{
    return kvt_engine_number(&start->facts, name, otherwise);
}

static kvt_status running_at(const struct engine_start *start, uint64_t tokens, uint64_t *out,
                             struct kvt_error *err)
{
    struct kvt_size size;
    kvt_status status = kvt_size_at(&start->scenario, start->engine, tokens, &size, err);

    if (status == KVT_OK)
        *out = size.scenario.pools[0].running_per_gpu;
    return status;
}

/* The longest context of which one request fits a replica; 0: none of two tokens does. */
static kvt_status find_longest(const struct engine_start *start, uint64_t *out,
                               struct kvt_error *err)
{
    uint64_t fits = KVT_ENGINE_TOKENS_MIN - 1, most = start->scenario.llm->max_position_tokens;
    uint64_t beyond = most + 1, running = 0;
    kvt_status status = running_at(start, most, &running, err);

    if (running > 0)
        fits = most;
    while (status == KVT_OK && beyond - fits > 1) {
        uint64_t middle = fits + (beyond - fits) / 2;

        status = running_at(start, middle, &running, err);
        if (running > 0)
            fits = middle;
        else
            beyond = middle;
    }
    *out = fits < KVT_ENGINE_TOKENS_MIN ? 0 : fits;
    return status;
}

/* Those that were asked for; else the longest that is taken, after a few usual ones where no flag
 * says it. */
static void choose_lengths(struct engine_start *start, const struct engine_lengths *lengths)
{
    static const uint64_t usual[] = {32768, 81920, 131072};
    uint64_t most = (uint64_t)fact(start, "max_tokens", 0);

    start->length_count = 0;
    for (size_t i = 0; i < lengths->count; i++)
        start->lengths[start->length_count++] = lengths->of[i];
    if (lengths->count > 0)
        return;
    for (size_t i = 0;
         start->length_by != ENGINE_LENGTH_GIVEN && i < sizeof usual / sizeof usual[0]; i++) {
        if (usual[i] < most)
            start->lengths[start->length_count++] = usual[i];
    }
    start->lengths[start->length_count++] = most;
}

kvt_status engine_size(struct engine_start *start, const struct engine_lengths *lengths,
                       struct kvt_error *err)
{
    const struct kvt_llm *llm = start->scenario.llm;
    uint64_t longest = 0;
    kvt_status status = find_longest(start, &longest, err);

    if (status != KVT_OK)
        return status;
    if (start->scenario.pools[0].weights_fit)
        kvt_engine_set_number(&start->facts, "longest_fits", (double)longest);
    if (start->length_by == ENGINE_LENGTH_FITTED)
        kvt_engine_set_number(&start->facts, "max_tokens",
                              (double)(longest > 0 ? longest : llm->max_position_tokens));
    choose_lengths(start, lengths);
    for (size_t i = 0; status == KVT_OK && i < start->length_count; i++)
        status =
            kvt_size_at(&start->scenario, start->engine, start->lengths[i], &start->sizes[i], err);
    return status;
}

double engine_says_concurrency(const struct engine_start *start)
{
    const struct kvt_decode_pool *pool = &start->scenario.pools[0];
    double bytes = (double)(pool->index_pool_bytes + pool->rows_pool_bytes);
    struct kvt_size size;
    struct kvt_error err;

    if (start->engine->layout.kind != KVT_ENGINE_BLOCKS || !start->is_bound ||
        kvt_size_at(&start->scenario, start->engine, (uint64_t)fact(start, "max_tokens", 0), &size,
                    &err) != KVT_OK)
        return 0;
    return bytes / (double)size.scenario.session.hbm_bytes;
}
