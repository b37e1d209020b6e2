/* tape.c -- the default law: the score process recorded once and replayed.
 *
 *     a tape of length L begins with L - P rows and gains rows as a stream does;
 *                          P = min(L/16, 512 or 128 steps, L - k), at least 1
 *     a stream, when more than k of its n rows are first visible, draws
 *         a tape of its length, a phase p in [0, P), a shift of whole pages,
 *     and from then on reads the tape, from the step where L - P + p rows are
 *     visible, forwards to the end, backwards to the beginning, and again:
 *     the process is the same in either direction. What it drafts in vain it
 *     reads from a branch that the tape has after the last committed step.
 *
 * Old rows are turned by the shift, so that two streams on one tape prefer
 * different rows; rows born later follow the stream's own old ones. n - (L - P
 * + p) of a stream's old rows are never selected, nor are rows born after its
 * tape has turned. How close the locality comes to that of `score` is held by
 * tests/property/test_law_locality.c and test_tape_rounds.c.
 *
 * Where the process prefers new rows or the first ones, nothing turns: rows
 * keep their distance to the newest, and those never selected follow the sinks. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "replay.h"
#include "tape_rack.h"

enum {
    AHEAD_TAPES = 32, /* of lengths that all requests share */
    OTHER_TAPES = 4,  /* of lengths that turn up */
    KIN_TAPES = 4,    /* fewest, where each is one of every selector */

    /* Selections of one tape behind its phases, side branches included; and the steps that
     * come of it. */
    STEP_SELECTIONS = 6144,
    AHEAD_STEPS_MAX = 2048,
    OTHER_STEPS_MAX = 512,
    STEPS_MIN = 256,

    AHEAD_PHASES = 512,
    OTHER_PHASES = 128,
    /* Above so many selections a step, there are fewer tapes and fewer phases. */
    MANY_SELECTIONS = 8,
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
     .help = "Independent tapes for each length; 0 is 32 for lengths that all requests share, 4 "
             "for others, fewer where many drafts are rejected at a time."},
    {.name = "steps",
     .type = KVT_PARAM_COUNT,
     .minimum = 0,
     .maximum = 65536,
     .default_number = 0,
     .help = "Tokens a stream reads before its tape turns; 0 is the longest output, at most 2,048 "
             "for lengths that all requests share, 512 for others, fewer where drafts are "
             "rejected."},
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
    bool are_kin;     /* streams of a request: all read one tape's number, phase and shift */
    bool is_turned;   /* old rows; else each keeps its distance to the newest */
    bool keeps_pages; /* rows of a page stay one page's */
};

/* A stream refers to its tape by numbers, so that its bytes can be copied. */
struct tape_stream {
    bool is_attached; /* it can see more rows than it selects */
    uint32_t bucket, tape, class;
    struct replay replay;
};

static uint32_t at_least_one(uint32_t value)
{
    return value > 0 ? value : 1;
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

static uint32_t steps_of(const struct kvt_law_env *env, uint32_t automatic_max)
{
    uint32_t asked = (uint32_t)env->params.values[PARAM_STEPS].number;
    if (asked > 0)
        return asked;
    uint32_t affordable = STEP_SELECTIONS / step_selections(env);
    affordable = affordable < STEPS_MIN ? STEPS_MIN : at_most(affordable, automatic_max);
    return at_most(at_least_one(env->output_tokens), affordable);
}

static uint32_t tapes_of(const struct kvt_law_env *env, uint32_t automatic, uint32_t class_count)
{
    uint32_t asked = (uint32_t)env->params.values[PARAM_TAPES].number;
    if (asked > 0)
        return asked;
    uint32_t selections = step_selections(env);
    if (selections > MANY_SELECTIONS)
        automatic = at_least_one(automatic * MANY_SELECTIONS / selections);
    uint32_t each = (automatic + class_count - 1) / class_count;
    uint32_t fewest = at_most(automatic, KIN_TAPES);
    return each > fewest ? each : fewest;
}

static struct rack_size size_of(const struct kvt_law_env *env, uint32_t tapes, uint32_t steps_max,
                                uint32_t phases, uint32_t class_count)
{
    return (struct rack_size){
        .tapes = tapes_of(env, tapes, class_count),
        .steps = steps_of(env, steps_max),
        .phases = env->side_paths > 0 ? phases / 2 : phases,
    };
}

/* True where streams of one request have chances in common. */
static bool are_kin(const struct score_shape *shape, const struct score_model *model)
{
    bool any_alone = false, any_together = false;
    for (uint32_t s = 0; s < model->stream_count; s++) {
        bool is_alone = score_kin_of(model, 0, s, 1).is_alone != 0;
        any_alone |= is_alone;
        any_together |= !is_alone;
    }
    for (int source = SCORE_SOURCE_STORE; source < SCORE_SOURCES; source++) {
        if ((any_alone && model->stream_count > 1 && shape->source_weight_alone[source] > 0) ||
            (any_together && shape->source_weight[source] > 0))
            return true;
    }
    return false;
}

static bool is_same_drift(const struct score_drift *a, const struct score_drift *b)
{
    return a->static_weight == b->static_weight && a->slow_weight == b->slow_weight &&
           a->fast_weight == b->fast_weight && a->white_weight == b->white_weight &&
           a->slow_keep == b->slow_keep && a->fast_keep == b->fast_keep;
}

/* The band of a selector's layer. */
static const struct score_drift *drift_of(const struct rack_plan *plan, uint32_t selector)
{
    return &plan->process.shape.bands[score_kin_of(&plan->model, 0, selector, 1).band];
}

/* Selectors whose scores drift alike are one class, unless streams are kin. */
static void classify(struct rack_plan *plan, bool kin)
{
    for (uint32_t s = 0; s < plan->model.stream_count; s++) {
        uint32_t c = kin ? plan->class_count : 0;
        while (c < plan->class_count &&
               !is_same_drift(drift_of(plan, plan->class_selector[c]), drift_of(plan, s)))
            c++;
        if (c == plan->class_count)
            plan->class_selector[plan->class_count++] = s;
        plan->class_of[s] = c;
    }
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
    law->are_kin = are_kin(shape, &plan->model);
    law->is_turned = !(shape->recency > 0) && shape->sink_rows == 0;
    law->keeps_pages = shape->page_weight > 0;
    classify(plan, law->are_kin);
    plan->top_k = env->top_k;
    plan->side_paths = env->side_tokens > 0 ? env->side_paths : 0;
    plan->side_tokens = env->side_paths > 0 ? env->side_tokens : 0;
    plan->ahead = size_of(env, AHEAD_TAPES, AHEAD_STEPS_MAX, AHEAD_PHASES, plan->class_count);
    plan->other = size_of(env, OTHER_TAPES, OTHER_STEPS_MAX, OTHER_PHASES, plan->class_count);
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
    uint64_t selector = law->are_kin ? 0 : env->selector;
    return kvt_rng_stream(model->run_seed, KVT_RNG_SELECTION,
                          (uint64_t)env->request * KVT_SELECTORS_MAX + selector);
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
    stream->tape = (uint32_t)kvt_rng_below(&rng, bucket->tape_count);
    stream->class = plan->class_of[env->selector];
    uint32_t phase = (uint32_t)kvt_rng_below(&rng, bucket->phase_count);
    uint32_t shift_pages = (uint32_t)kvt_rng_below(&rng, at_least_one(rows / KVT_PAGE_ROWS));
    if (!law->is_turned || law->keeps_pages)
        phase = aligned_phase(bucket, phase, rows);

    stream->is_attached = true;
    stream->replay = (struct replay){
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
