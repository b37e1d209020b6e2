/* tape.c -- the default law: the score process recorded once and replayed.
 *
 *     a tape of length L begins with L - P rows and gains rows as a stream does;
 *                          P = min(L/16, 1,024 or 256, L - k), at least 1
 *     a stream, when more than k of its n rows are first visible, draws
 *         a tape of its length, a phase p in [0, P), a shift of whole pages,
 *     and from then on reads the tape, from the step where L - P + p rows are
 *     visible, forwards to the end, backwards to the beginning, and again:
 *     the process is the same in either direction.
 *
 * Old rows are turned by the shift, so that two streams on one tape prefer
 * different rows; rows born later follow the stream's own old ones. n - (L - P
 * + p) of a stream's old rows are never selected, nor are rows born after its
 * tape has turned. How close the locality comes to that of `score` is held by
 * tests/property/test_law_locality.c. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tape_rack.h"

/* Tokens recorded beyond the phases, unless asked for otherwise. */
enum {
    AUTO_AHEAD_STEPS = 2048,
    AUTO_OTHER_STEPS = 512,
    AUTO_AHEAD_TAPES = 8,
    AUTO_OTHER_TAPES = 2,
};

static const char where[] = "law \"tape\"";

enum {
    PARAM_TAPES = SCORE_PARAM_COUNT,
    PARAM_STEPS,
    PARAM_MEMORY,
    PARAM_COUNT,
};

static const struct kvt_param_spec tape_params[PARAM_COUNT] = {
    SCORE_PARAMS,
    {.name = "tapes",
     .type = KVT_PARAM_COUNT,
     .minimum = 0,
     .maximum = 1024,
     .default_number = 0,
     .help = "Independent tapes for each length; 0 is 8 for lengths that all requests share, 2 for "
             "others."},
    {.name = "steps",
     .type = KVT_PARAM_COUNT,
     .minimum = 0,
     .maximum = 65536,
     .default_number = 0,
     .help =
         "Tokens a stream reads before its tape turns; 0 is the longest output, at most 2,048 for "
         "lengths that all requests share, 512 for others."},
    {.name = "memory_mib",
     .type = KVT_PARAM_COUNT,
     .minimum = 1,
     .maximum = 1048576,
     .default_number = 4096,
     .help = "MiB that all tapes may take; a run that needs more is refused."},
};

struct tape_law {
    struct rack *rack;
    uint64_t run_seed;
    uint32_t top_k;
};

/* A stream refers to its tape by numbers, so that its bytes can be copied. */
struct tape_stream {
    uint64_t reads;
    uint32_t bucket;
    uint32_t tape;
    uint32_t first_step;
    struct reel_map map;
};

static uint32_t at_least_one(uint32_t value)
{
    return value > 0 ? value : 1;
}

static void tape_free(void *data)
{
    struct tape_law *law = data;
    if (law == NULL)
        return;
    rack_free(law->rack);
    free(law);
}

static uint32_t steps_of(const struct kvt_law_env *env, uint32_t automatic_max)
{
    uint32_t asked = (uint32_t)env->params.values[PARAM_STEPS].number;
    if (asked > 0)
        return asked;
    uint32_t output = at_least_one(env->output_tokens);
    return output < automatic_max ? output : automatic_max;
}

static kvt_status tape_prepare(const struct kvt_law_env *env, void **out, struct kvt_error *err)
{
    assert(env->params.count == PARAM_COUNT);
    uint32_t tapes = (uint32_t)env->params.values[PARAM_TAPES].number;
    struct rack_plan plan = {
        .run_seed = env->run_seed,
        .top_k = env->top_k,
        .ahead_tapes = tapes > 0 ? tapes : AUTO_AHEAD_TAPES,
        .other_tapes = tapes > 0 ? tapes : AUTO_OTHER_TAPES,
        .ahead_steps = steps_of(env, AUTO_AHEAD_STEPS),
        .other_steps = steps_of(env, AUTO_OTHER_STEPS),
        .memory_bytes = (uint64_t)env->params.values[PARAM_MEMORY].number << 20,
    };
    kvt_status status = score_shape_init(&plan.shape, &env->params, where, err);
    if (status == KVT_OK)
        status = score_check_top_k(env->top_k, where, err);
    if (status != KVT_OK)
        return status;
    struct tape_law *law = calloc(1, sizeof *law);
    if (law == NULL)
        return kvt_fail_nomem(err, "the law of selections");
    law->run_seed = env->run_seed;
    law->top_k = env->top_k;
    status = rack_new(&plan, env, &law->rack, err);
    if (status != KVT_OK) {
        tape_free(law);
        return status;
    }
    *out = law;
    return KVT_OK;
}

static void tape_describe(const void *data, char *out, size_t bytes)
{
    const struct tape_law *law = data;
    rack_describe(law->rack, out, bytes);
}

static size_t tape_bytes(const void *data, const struct kvt_law_stream_env *env)
{
    (void)data;
    (void)env;
    return sizeof(struct tape_stream);
}

/* Chooses where on which tape a stream that outgrows top_k begins. */
static kvt_status attach(struct tape_law *law, struct tape_stream *stream,
                         const struct kvt_law_stream_env *env, struct kvt_error *err)
{
    uint32_t tokens_per_row = at_least_one(env->tokens_per_row);
    uint32_t rows = env->context_rows > law->top_k ? env->context_rows : law->top_k + 1;
    kvt_status status = rack_find(law->rack, rows, tokens_per_row, &stream->bucket, err);
    if (status != KVT_OK)
        return status;
    const struct rack_bucket *bucket = rack_bucket(law->rack, stream->bucket);

    struct kvt_rng rng = score_stream_rng(law->run_seed, env);
    stream->tape = (uint32_t)kvt_rng_below(&rng, bucket->tape_count);
    uint32_t phase = (uint32_t)kvt_rng_below(&rng, bucket->phase_count);
    uint32_t shift_pages = (uint32_t)kvt_rng_below(&rng, at_least_one(rows / KVT_PAGE_ROWS));

    stream->reads = 0;
    stream->first_step = phase * tokens_per_row;
    stream->map = (struct reel_map){
        .old_rows = bucket->length_rows - bucket->phase_count + phase,
        .stream_rows = rows,
        .shift_rows = shift_pages * KVT_PAGE_ROWS,
    };
    uint64_t reads = ((uint64_t)env->rows_max - rows + 1) * tokens_per_row;
    return rack_provide(law->rack, stream->bucket, stream->tape, stream->first_step + reads, err);
}

static kvt_status tape_init(void *data, void *stream, const struct kvt_law_stream_env *env,
                            struct kvt_error *err)
{
    struct tape_law *law = data;
    kvt_status status = score_check_rows(env->context_rows, env->rows_max, where, err);
    if (status != KVT_OK || env->rows_max <= law->top_k)
        return status;
    rack_lock(law->rack);
    status = attach(law, stream, env, err);
    rack_unlock(law->rack);
    return status;
}

/* The step of a stream's n-th read: up and down the tape, the ends once each. */
static uint32_t step_of(const struct tape_stream *stream, uint32_t step_count)
{
    uint64_t last = step_count - 1;
    uint64_t place = (stream->first_step + stream->reads) % (2 * last);
    return (uint32_t)(place <= last ? place : 2 * last - place);
}

static void tape_select(const void *data, void *state, const struct kvt_law_round *round,
                        uint64_t *const *sets)
{
    const struct tape_law *law = data;
    struct tape_stream *stream = state;
    uint32_t deepest = 0;
    for (uint32_t q = 0; q < round->query_count; q++)
        deepest = round->queries[q].depth > deepest ? round->queries[q].depth : deepest;
    size_t words = kvt_row_words(round->visible_rows[deepest]);
    uint32_t *rows = malloc(law->top_k * sizeof *rows);
    uint64_t reads = stream->reads;
    bool all = false;
    for (uint32_t q = 0; sets && q < round->query_count; q++) {
        uint32_t d = round->queries[q].depth;
        memset(sets[q], 0, words * 8);
        uint32_t n = law->top_k;
        if (round->visible_rows[d] <= law->top_k) {
            n = round->visible_rows[d];
            for (uint32_t i = 0; i < n; i++) rows[i] = i;
            all = true;
        } else {
            const struct reel *reel = rack_bucket(law->rack, stream->bucket)->reels[stream->tape];
            stream->reads = reads + d;
            reel_read(reel, step_of(stream, reel->step_count), &stream->map, rows);
        }
        kvt_row_set_add(sets[q], rows, n);
    }
    stream->reads = all ? reads : reads + round->committed_tokens;
    free(rows);
}

const struct kvt_law kvt_law_tape = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_law_tape,
             .name = "tape",
             .summary = "scores recorded once and replayed: the cost of a selection, not of a scan",
             .params = tape_params,
             .param_count = PARAM_COUNT},
    .basis = KVT_BASIS_FITTED,
    .prepare = tape_prepare,
    .free = tape_free,
    .describe = tape_describe,
    .stream_bytes = tape_bytes,
    .stream_init = tape_init,
    .select = tape_select,
};
