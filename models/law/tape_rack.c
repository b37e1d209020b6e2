/* tape_rack.c -- tapes by length, recorded ahead by several threads or when first needed.
 *
 *     bucket of a length = the length itself where the run prepares for it,
 *                          else the largest (k + 1) 2^(j/8), j >= 0, not above it
 *
 * What a tape holds depends on (run seed, length, tokens a row, its number)
 * alone: neither threads nor the order in which streams come show. */
#include "tape_rack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/hash.h"

enum {
    AHEAD_PHASES_MAX = 1024,              /* of lengths that are prepared for */
    OTHER_PHASES_MAX = 256,               /* of lengths that turn up */
    PHASE_SHARE = 16,                     /* 1/16 of the length, where that is less */
    BUCKETS_BEYOND = 1024,                /* lengths that may turn up beside the prepared ones */
    PORTION_STEPS = 4 * REEL_BLOCK_STEPS, /* recorded between two looks at the progress */
    THREADS_MAX = 256,
};

#define TAPE_ENTITY UINT64_C(0x7461706500000000) /* "tape": apart from the entities of streams */
#define MIB (UINT64_C(1) << 20)

static const char where[] = "law \"tape\"";

struct rack {
    struct rack_plan plan;
    float *gauss;
    uint64_t used_bytes;
    pthread_mutex_t growing;
    size_t bucket_count, bucket_capacity;
    struct rack_bucket *buckets[]; /* [bucket_capacity]: streams read while it grows */
};

/* ---- Lengths ------------------------------------------------------------------- */

/* The largest grid length not above rows, which are more than top_k. */
static uint32_t grid_length(uint32_t top_k, uint32_t rows)
{
    /* 2^(i/8) in units of 2^-32. */
    static const uint64_t eighths[8] = {
        UINT64_C(4294967296), UINT64_C(4683695047), UINT64_C(5107605667), UINT64_C(5569883475),
        UINT64_C(6074000999), UINT64_C(6623745058), UINT64_C(7223245205), UINT64_C(7877004751),
    };
    uint64_t octave = (uint64_t)top_k + 1;
    uint64_t best = octave;
    for (; octave <= rows; octave *= 2) {
        for (int i = 0; i < 8; i++) {
            uint64_t length = octave * eighths[i] >> 32;
            if (length <= rows)
                best = length;
        }
    }
    return (uint32_t)best;
}

static uint32_t phase_count(uint32_t length_rows, uint32_t top_k, uint32_t phases_max)
{
    uint32_t count = length_rows / PHASE_SHARE;
    if (count > phases_max)
        count = phases_max;
    if (count > length_rows - top_k)
        count = length_rows - top_k;
    return count > 0 ? count : 1;
}

/* ---- Buckets and their tapes --------------------------------------------------- */

/* An empty tape, in its place; NULL when memory is short. */
static struct reel *make_reel(const struct rack_plan *plan, struct rack_bucket *bucket,
                              uint32_t tape)
{
    uint64_t entity = kvt_chain64(TAPE_ENTITY, bucket->length_rows);
    entity = kvt_chain64(entity, bucket->tokens_per_row);
    entity = kvt_chain64(entity, tape);
    struct kvt_rng rng = kvt_rng_stream(plan->run_seed, KVT_RNG_SELECTION, entity);
    bucket->reels[tape] = reel_new(kvt_rng_u64(&rng), bucket->length_rows - bucket->phase_count,
                                   bucket->tokens_per_row, plan->top_k,
                                   bucket->phase_count * bucket->tokens_per_row + bucket->steps);
    return bucket->reels[tape];
}

/* UINT32_MAX when there is none. */
static uint32_t bucket_of(const struct rack *rack, uint32_t length, uint32_t tokens_per_row)
{
    for (size_t b = 0; b < rack->bucket_count; b++) {
        if (rack->buckets[b]->length_rows == length &&
            rack->buckets[b]->tokens_per_row == tokens_per_row)
            return (uint32_t)b;
    }
    return UINT32_MAX;
}

static kvt_status add_bucket(struct rack *rack, uint32_t length, uint32_t tokens_per_row,
                             bool ahead, uint32_t *out, struct kvt_error *err)
{
    const struct rack_plan *plan = &rack->plan;
    uint32_t tape_count = ahead ? plan->ahead_tapes : plan->other_tapes;
    uint32_t steps = ahead ? plan->ahead_steps : plan->other_steps;
    uint32_t phases = phase_count(length, plan->top_k, ahead ? AHEAD_PHASES_MAX : OTHER_PHASES_MAX);

    if (rack->bucket_count == rack->bucket_capacity)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, where,
                        "tapes for %zu lengths exist, and %u rows ask for another; no more are "
                        "expected",
                        rack->bucket_count, length);
    uint64_t step_count = (uint64_t)phases * tokens_per_row + steps;
    if (step_count > SCORE_ROWS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "rows of %u tokens make a tape of %llu steps; at most %u are expected",
                        tokens_per_row, (unsigned long long)step_count, SCORE_ROWS_MAX);
    struct rack_bucket *bucket = calloc(1, sizeof *bucket + tape_count * sizeof(struct reel *));
    if (bucket == NULL)
        return kvt_fail_nomem(err, "the tapes of a length");
    bucket->length_rows = length;
    bucket->tokens_per_row = tokens_per_row;
    bucket->phase_count = phases;
    bucket->tape_count = tape_count;
    bucket->steps = steps;
    rack->buckets[rack->bucket_count] = bucket;
    *out = (uint32_t)rack->bucket_count++;
    return KVT_OK;
}

kvt_status rack_find(struct rack *rack, uint32_t rows, uint32_t tokens_per_row, uint32_t *out,
                     struct kvt_error *err)
{
    /* A bucket of just these rows was prepared, or is the grid's own. */
    *out = bucket_of(rack, rows, tokens_per_row);
    if (*out != UINT32_MAX)
        return KVT_OK;
    uint32_t length = grid_length(rack->plan.top_k, rows);
    *out = bucket_of(rack, length, tokens_per_row);
    if (*out != UINT32_MAX)
        return KVT_OK;
    return add_bucket(rack, length, tokens_per_row, false, out, err);
}

static kvt_status check_memory(const struct rack *rack, uint64_t needed_bytes,
                               const struct rack_bucket *bucket, struct kvt_error *err)
{
    if (needed_bytes <= rack->plan.memory_bytes)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_NOMEM, where,
                    "with those of %u rows the tapes come to %llu MiB, and memory_mib allows %llu; "
                    "fewer tapes, fewer steps or a larger memory_mib is expected",
                    bucket->length_rows, (unsigned long long)((needed_bytes + MIB - 1) / MIB),
                    (unsigned long long)(rack->plan.memory_bytes / MIB));
}

kvt_status rack_provide(struct rack *rack, uint32_t number, uint32_t tape, uint64_t steps,
                        struct kvt_error *err)
{
    struct rack_bucket *bucket = rack->buckets[number];
    struct reel *reel = bucket->reels[tape];
    if (reel == NULL) {
        reel = make_reel(&rack->plan, bucket, tape);
        if (reel == NULL)
            return kvt_fail_nomem(err, "a tape of selections");
        rack->used_bytes += reel_bytes_at(reel, 0);
    }
    uint32_t until = steps < reel->step_count ? (uint32_t)steps : reel->step_count;
    if (until <= reel->recorded)
        return KVT_OK;
    uint64_t others = rack->used_bytes - reel_bytes_at(reel, reel->recorded);
    kvt_status status = check_memory(rack, others + reel_bytes_at(reel, until), bucket, err);
    if (status == KVT_OK)
        status = reel_record(reel, &rack->plan.shape, rack->gauss, until, err);
    rack->used_bytes = others + reel_bytes_at(reel, reel->recorded);
    return status;
}

/* ---- Recording ahead: whole tapes of the known lengths, in parallel ---------------- */

/* The tapes to record; threads take the next one by its number. */
struct work {
    const struct rack_plan *plan;
    const float *gauss;
    const struct kvt_law_env *env;
    struct reel **reels; /* [reel_count] */
    size_t reel_count;
    uint64_t step_count; /* of all of them */
    atomic_size_t next_reel;
    atomic_ullong steps_done;
    atomic_bool has_failed;
    atomic_bool is_stopped; /* whoever hears of the progress has had enough */
};

/* False when the recording is to stop. */
static bool report_progress(const struct work *work)
{
    if (work->env->progress == NULL)
        return true;
    return work->env->progress(work->env->progress_context,
                               (double)atomic_load(&work->steps_done) / (double)work->step_count,
                               "recording selections");
}

/* Records tapes until there are none left. Only the thread that called
 * prepare() reports how far all of them are. */
static void record_tapes(struct work *work, bool reports)
{
    while (!atomic_load(&work->has_failed)) {
        size_t i = atomic_fetch_add(&work->next_reel, 1);
        if (i >= work->reel_count)
            return;
        struct reel *reel = work->reels[i];
        while (reel->recorded < reel->step_count) {
            if (atomic_load(&work->is_stopped))
                return;
            uint32_t before = reel->recorded;
            uint32_t until = reel->step_count - before < PORTION_STEPS ? reel->step_count
                                                                       : before + PORTION_STEPS;
            if (reel_record(reel, &work->plan->shape, work->gauss, until, NULL) != KVT_OK) {
                atomic_store(&work->has_failed, true);
                return;
            }
            atomic_fetch_add(&work->steps_done, reel->recorded - before);
            if (reports && !report_progress(work))
                atomic_store(&work->is_stopped, true);
        }
    }
}

static void *record_tapes_aside(void *work)
{
    record_tapes(work, false);
    return NULL;
}

/* A thread that cannot be had is done without: the others take its tapes. */
static void record_all(struct work *work, unsigned thread_count)
{
    pthread_t threads[THREADS_MAX];
    size_t wanted = thread_count < THREADS_MAX ? thread_count : THREADS_MAX;
    if (wanted > work->reel_count)
        wanted = work->reel_count;
    size_t started = 0;
    while (started + 1 < wanted &&
           pthread_create(&threads[started], NULL, record_tapes_aside, work) == 0)
        started++;
    record_tapes(work, true);
    for (size_t t = 0; t < started; t++)
        (void)pthread_join(threads[t], NULL);
}

/* Makes the empty tapes of one length. */
static kvt_status make_prepared(struct rack *rack, uint32_t length, uint32_t tokens_per_row,
                                struct work *work, struct kvt_error *err)
{
    uint32_t number = 0;
    kvt_status status = add_bucket(rack, length, tokens_per_row, true, &number, err);
    if (status != KVT_OK)
        return status;
    struct rack_bucket *bucket = rack->buckets[number];
    for (uint32_t t = 0; t < bucket->tape_count && status == KVT_OK; t++) {
        struct reel *reel = make_reel(&rack->plan, bucket, t);
        if (reel == NULL)
            return kvt_fail_nomem(err, "a tape of selections");
        work->reels[work->reel_count++] = reel;
        work->step_count += reel->step_count;
        rack->used_bytes += reel_bytes_at(reel, reel->step_count);
        status = check_memory(rack, rack->used_bytes, bucket, err);
    }
    return status;
}

static kvt_status make_all_prepared(struct rack *rack, struct work *work, struct kvt_error *err)
{
    const struct kvt_law_env *env = work->env;
    for (size_t i = 0; i < env->context_count; i++) {
        uint32_t length = env->context_rows[i];
        uint32_t tokens = env->context_tokens_per_row != NULL ? env->context_tokens_per_row[i] : 1;
        if (tokens == 0)
            tokens = 1;
        /* At most top_k rows are all selected; streams past the largest length
         * will be refused; a length may be listed twice. */
        if (length <= rack->plan.top_k || length > SCORE_ROWS_MAX ||
            bucket_of(rack, length, tokens) != UINT32_MAX)
            continue;
        kvt_status status = make_prepared(rack, length, tokens, work, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

static kvt_status record_prepared(struct rack *rack, const struct kvt_law_env *env,
                                  struct kvt_error *err)
{
    if (env->context_count == 0)
        return KVT_OK;
    struct work work = {.plan = &rack->plan, .gauss = rack->gauss, .env = env};
    work.reels = calloc(env->context_count * rack->plan.ahead_tapes, sizeof(struct reel *));
    if (work.reels == NULL)
        return kvt_fail_nomem(err, "the list of tapes to record");
    kvt_status status = make_all_prepared(rack, &work, err);
    if (status == KVT_OK && work.reel_count > 0) {
        record_all(&work, env->threads);
        if (atomic_load(&work.has_failed))
            status = kvt_fail_nomem(err, "the tapes of selections");
        else if (atomic_load(&work.is_stopped))
            status = kvt_fail(err, KVT_ERR_INTERRUPTED, "",
                              "interrupted while selections were recorded");
    }
    free(work.reels);
    return status;
}

/* ---- The rack ------------------------------------------------------------------- */

kvt_status rack_new(const struct rack_plan *plan, const struct kvt_law_env *env, struct rack **out,
                    struct kvt_error *err)
{
    size_t capacity = env->context_count + BUCKETS_BEYOND;
    struct rack *rack = calloc(1, sizeof *rack + capacity * sizeof(struct rack_bucket *));
    float *gauss = score_gauss_new();
    if (rack == NULL || gauss == NULL || pthread_mutex_init(&rack->growing, NULL) != 0) {
        free(gauss);
        free(rack);
        return kvt_fail_nomem(err, "the tapes of selections");
    }
    rack->plan = *plan;
    rack->gauss = gauss;
    rack->bucket_capacity = capacity;
    kvt_status status = record_prepared(rack, env, err);
    if (status != KVT_OK) {
        rack_free(rack);
        return status;
    }
    *out = rack;
    return KVT_OK;
}

void rack_free(struct rack *rack)
{
    if (rack == NULL)
        return;
    for (size_t b = 0; b < rack->bucket_count; b++) {
        for (uint32_t t = 0; t < rack->buckets[b]->tape_count; t++)
            reel_free(rack->buckets[b]->reels[t]);
        free(rack->buckets[b]);
    }
    pthread_mutex_destroy(&rack->growing);
    free(rack->gauss);
    free(rack);
}

void rack_lock(struct rack *rack)
{
    pthread_mutex_lock(&rack->growing);
}

void rack_unlock(struct rack *rack)
{
    pthread_mutex_unlock(&rack->growing);
}

const struct rack_bucket *rack_bucket(const struct rack *rack, uint32_t bucket)
{
    return rack->buckets[bucket];
}

void rack_describe(const struct rack *rack, char *out, size_t bytes)
{
    uint32_t shortest = UINT32_MAX, longest = 0, tapes = 0, steps = 0;
    for (size_t b = 0; b < rack->bucket_count; b++) {
        uint32_t rows = rack->buckets[b]->length_rows;
        shortest = rows < shortest ? rows : shortest;
        longest = rows > longest ? rows : longest;
        steps = rack->buckets[b]->steps > steps ? rack->buckets[b]->steps : steps;
        for (uint32_t t = 0; t < rack->buckets[b]->tape_count; t++)
            tapes += rack->buckets[b]->reels[t] != NULL;
    }
    unsigned long long mib = (rack->used_bytes + MIB - 1) / MIB;
    if (tapes == 0)
        (void)snprintf(out, bytes, "no tape was needed");
    else if (shortest == longest)
        (void)snprintf(out, bytes, "%u tapes of %u tokens at %u rows, %llu MiB", tapes, steps,
                       longest, mib);
    else
        (void)snprintf(out, bytes,
                       "%u tapes of up to %u tokens at %zu lengths (%u to %u rows), %llu MiB",
                       tapes, steps, rack->bucket_count, shortest, longest, mib);
}
