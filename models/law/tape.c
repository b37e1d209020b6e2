/* tape.c -- the default law: the score process recorded once and replayed.
 *
 *     a tape of length L begins with L - P rows and gains rows as a stream does;
 *                          P = min(L/16, 512 or 128 steps, L - k), at least 1
 *     it is a loop: its process is, after the last step, where it began
 *     a stream, when more than k of its n rows are first visible, draws
 *         a tape of its length (where that was not foreseen, its request draws one for all of its
 *         streams: no more are recorded than there are such requests),
 *         a phase p in [0, P), a shift of whole pages,
 *     and from then on reads the tape, from the step where L - P + p rows are
 *     visible, round and round. What it drafts in vain it reads from a branch
 *     that the tape has after the last committed step.
 *
 * Old rows are turned by the shift, so that two streams on one tape prefer
 * different rows; rows born later follow the stream's own old ones. n - (L - P
 * + p) of a stream's old rows are never selected. Where the loop closes, rows
 * that were born on it are selected no more, and those that the stream gains
 * from there on take their place. How close the locality comes to that of
 * `score` is held by tests/property/test_law_locality.c.
 *
 * Where the process prefers new rows or the first ones, nothing turns: rows
 * keep their distance to the newest while the loop is first gone round, and those
 * never selected follow the sinks. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "replay.h"
#include "tape_class.h"

enum {
    FORESEEN_STEPS_MAX = 2560,
    FORESEEN_STEPS_MAX_BRANCHED = 2176,
    OTHER_STEPS_MAX = 640,
    /* Above so many selections a tape, side branches included, there are fewer steps. */
    SELECTIONS_MAX = 34816,
    STEPS_MIN = 256,
    /* A loop of fewer times tau1 joins what is far apart. */
    LOOP_TAUS = 6,

    FORESEEN_PHASES = 512,
    OTHER_PHASES = 128,
};

#define LOT_ENTITY (UINT64_C(1) << 63) /* of what a request draws once: apart from its streams' */

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
     .minimum = 1,
     .maximum = 1024,
     .default_number = 32,
     .help = "Independent tapes of each length that streams draw from; what nobody draws is not "
             "recorded."},
    {.name = "steps",
     .type = KVT_PARAM_COUNT,
     .minimum = 0,
     .maximum = 65536,
     .default_number = 0,
     .help =
         "Tokens of a tape, after which it goes on where it began; 0 is the longest output and "
         "512 more, at most 2,560 for lengths that the run prepares for (2,176 where drafts are "
         "rejected, fewer where many are), 640 for others, and at least 6 tau1_tokens."},
    {.name = "memory_mib",
     .type = KVT_PARAM_COUNT,
     .minimum = 1,
     .maximum = 1048576,
     .default_number = 4096,
     .help = "MiB that all tapes may take; a run that needs more is refused."},
};

struct tape_law {
    struct rack *rack;
    float *gauss;
    bool is_turned;   /* old rows; else each keeps its distance to the newest */
    bool keeps_pages; /* rows of a page stay one page's */
};

/* A stream refers to its tape by numbers, so that its bytes can be copied. */
struct tape_stream {
    bool is_attached; /* it can see more rows than it selects */
    uint32_t bucket, tape, class;
    struct replay replay;
};

static uint32_t at_least(uint32_t value, uint32_t limit)
{
    return value > limit ? value : limit;
}

static uint32_t at_least_one(uint32_t value)
{
    return at_least(value, 1);
}

static uint32_t at_most(uint32_t value, uint32_t limit)
{
    return value < limit ? value : limit;
}

/* ---- The plan ------------------------------------------------------------------------ */

/* Selections recorded for one step. */
static uint32_t step_selections(const struct kvt_law_env *env)
{
    return 1 + env->side_paths * env->side_tokens;
}

/* As many as the longest output reads from the last phase, as far as that can be afforded. */
static uint32_t steps_of(const struct kvt_law_env *env, uint32_t automatic_max, uint32_t phases)
{
    uint32_t asked = (uint32_t)env->params.values[PARAM_STEPS].number;
    if (asked > 0)
        return asked;
    uint32_t fewest =
        (uint32_t)fmin(LOOP_TAUS * env->params.values[SCORE_PARAM_TAU1].number, FORESEEN_STEPS_MAX);
    uint32_t read = at_most(env->output_tokens, automatic_max) + phases;
    uint32_t steps = at_least(at_most(read, automatic_max), fewest);
    return at_most(steps, at_least(SELECTIONS_MAX / step_selections(env), STEPS_MIN));
}

static struct rack_size size_of(const struct kvt_law_env *env, uint32_t steps_max, uint32_t phases)
{
    return (struct rack_size){
        .steps = steps_of(env, steps_max, phases),
        .phases = env->side_paths > 0 ? phases / 2 : phases,
    };
}

static kvt_status plan_rack(struct tape_law *law, const struct kvt_law_env *env,
                            struct rack_plan *plan, struct kvt_error *err)
{
    if (env->stream_count < 1 || env->stream_count > KVT_SELECTORS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where, "%u selectors; 1 to %d are expected",
                        env->stream_count, KVT_SELECTORS_MAX);
    if ((uint64_t)env->side_paths * env->side_tokens > KVT_KVSEL_SIDES_MAX)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, where,
                        "rounds of up to %u rejected paths of %u tokens; at most %d tokens in all "
                        "are expected",
                        env->side_paths, env->side_tokens, KVT_KVSEL_SIDES_MAX);
    kvt_status status = score_check_top_k(env->top_k, where, err);
    if (status == KVT_OK)
        status = score_shape_init(&plan->process.shape, &env->params, env->top_k, where, err);
    if (status != KVT_OK)
        return status;
    const struct score_shape *shape = &plan->process.shape;
    plan->model = (struct score_model){.run_seed = env->run_seed,
                                       .stream_count = env->stream_count,
                                       .stream_store = env->stream_store};
    tape_classify(plan, env);
    law->is_turned = !(shape->recency > 0) && shape->sink_rows == 0;
    law->keeps_pages = shape->page_weight > 0;
    plan->top_k = env->top_k;
    plan->side_paths = env->side_tokens > 0 ? env->side_paths : 0;
    plan->side_tokens = env->side_paths > 0 ? env->side_tokens : 0;
    plan->tapes = (uint32_t)env->params.values[PARAM_TAPES].number;
    uint32_t steps_max = plan->side_paths > 0 ? FORESEEN_STEPS_MAX_BRANCHED : FORESEEN_STEPS_MAX;
    plan->foreseen = size_of(env, steps_max, FORESEEN_PHASES);
    plan->other = size_of(env, OTHER_STEPS_MAX, OTHER_PHASES);
    plan->memory_bytes = (uint64_t)env->params.values[PARAM_MEMORY].number << 20;
    return KVT_OK;
}

static void tape_free(void *data)
{
    struct tape_law *law = data;
    if (law == NULL)
        return;
    rack_free(law->rack);
    free(law->gauss);
    free(law);
}

static kvt_status tape_prepare(const struct kvt_law_env *env, void **out, struct kvt_error *err)
{
    assert(env->params.count == PARAM_COUNT);
    struct tape_law *law = calloc(1, sizeof *law);
    struct rack_plan *plan = calloc(1, sizeof *plan);
    float *gauss = score_gauss_new();
    kvt_status status;
    if (law == NULL || plan == NULL || gauss == NULL) {
        free(gauss);
        status = kvt_fail_nomem(err, "the law of selections");
    } else {
        law->gauss = gauss;
        plan->process.gauss = gauss;
        status = plan_rack(law, env, plan, err);
        if (status == KVT_OK)
            status = rack_new(plan, env, &law->rack, err);
    }
    free(plan);
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

/* ---- Streams ------------------------------------------------------------------------- */

static size_t tape_bytes(const void *data, const struct kvt_law_stream_env *env)
{
    (void)data;
    (void)env;
    return sizeof(struct tape_stream);
}

/* What a stream draws its place from: kin draw alike. */
static struct kvt_rng place_rng(const struct tape_law *law, const struct kvt_law_stream_env *env)
{
    const struct score_model *model = &rack_plan_of(law->rack)->model;
    uint64_t place =
        rack_plan_of(law->rack)->are_kin ? score_group_of(model, env->selector) : env->selector;
    return kvt_rng_stream(model->run_seed, KVT_RNG_SELECTION,
                          (uint64_t)env->request * KVT_SELECTORS_MAX + place);
}

/* Where the length was foreseen, each stream's tape is its own. */
static uint32_t draw_tape(const struct rack_plan *plan, const struct rack_bucket *bucket,
                          uint32_t request, struct kvt_rng *own_rng)
{
    struct kvt_rng common =
        kvt_rng_stream(plan->model.run_seed, KVT_RNG_SELECTION, LOT_ENTITY | request);
    return (uint32_t)kvt_rng_below(bucket->is_foreseen ? own_rng : &common, plan->tapes);
}

/* The nearest phase, not above, from which the tape's rows lie on the stream's pages; where
 * there are as many phases as a page has rows, that is. */
static uint32_t aligned_phase(const struct rack_bucket *bucket, uint32_t phase, uint32_t rows)
{
    uint32_t first_rows = bucket->length_rows - bucket->phase_count;
    uint32_t least = (rows - first_rows) % KVT_PAGE_ROWS;
    if (bucket->phase_count < KVT_PAGE_ROWS)
        return phase;
    if (phase < least)
        return least;
    return phase - (phase - least) % KVT_PAGE_ROWS;
}

/* Chooses where on which tape a stream that outgrows top_k begins. */
static kvt_status attach(struct tape_law *law, struct tape_stream *stream,
                         const struct kvt_law_stream_env *env, struct kvt_error *err)
{
    const struct rack_plan *plan = rack_plan_of(law->rack);
    uint32_t tokens_per_row = at_least_one(env->tokens_per_row);
    uint32_t rows = env->context_rows > plan->top_k ? env->context_rows : plan->top_k + 1;
    kvt_status status = rack_find(law->rack, rows, tokens_per_row, &stream->bucket, err);
    if (status != KVT_OK)
        return status;
    const struct rack_bucket *bucket = rack_bucket(law->rack, stream->bucket);

    struct kvt_rng rng = place_rng(law, env);
    stream->tape = draw_tape(plan, bucket, env->request, &rng);
    stream->class = plan->class_of[env->selector];
    uint32_t phase = (uint32_t)kvt_rng_below(&rng, bucket->phase_count);
    uint32_t shift_pages = (uint32_t)kvt_rng_below(&rng, at_least_one(rows / KVT_PAGE_ROWS));
    if (!law->is_turned || law->keeps_pages)
        phase = aligned_phase(bucket, phase, rows);

    stream->is_attached = true;
    stream->replay = (struct replay){
        .is_loop = true,
        .first_token = phase * tokens_per_row,
        .map = {.old_rows = bucket->length_rows - bucket->phase_count + phase,
                .stream_rows = rows,
                .shift_rows = law->is_turned ? shift_pages * KVT_PAGE_ROWS : 0,
                .front_rows = plan->process.shape.sink_rows,
                .is_shifted = !law->is_turned},
    };
    uint64_t reads = ((uint64_t)env->rows_max - rows + 1) * tokens_per_row;
    return rack_provide(law->rack, stream->bucket, stream->tape, stream->class,
                        stream->replay.first_token + reads, err);
}

static kvt_status tape_init(void *data, void *stream, const struct kvt_law_stream_env *env,
                            struct kvt_error *err)
{
    struct tape_law *law = data;
    assert(env->selector < rack_plan_of(law->rack)->model.stream_count);
    kvt_status status = score_check_rows(env->context_rows, env->rows_max, where, err);
    if (status != KVT_OK || env->rows_max <= rack_plan_of(law->rack)->top_k)
        return status;
    rack_lock(law->rack);
    status = attach(law, stream, env, err);
    rack_unlock(law->rack);
    return status;
}

static void tape_select(const void *data, void *state, const struct kvt_law_round *round,
                        uint64_t *const *sets)
{
    const struct tape_law *law = data;
    const struct rack_plan *plan = rack_plan_of(law->rack);
    struct tape_stream *stream = state;
    const struct kvt_kvsel_stream *recording = NULL;
    if (stream->is_attached) {
        const struct rack_bucket *bucket = rack_bucket(law->rack, stream->bucket);
        recording = &(*rack_reel_at(plan, bucket, stream->tape, stream->class))->selections;
    }
    replay_round(&stream->replay, recording, plan->top_k, round, sets);
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
