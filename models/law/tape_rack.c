/* tape_rack.c -- tapes by length.
 *
 *     bucket of a length = the length itself where the run prepares for it,
 *                          else the largest (k + 1) 2^(j/16), j >= 0, not above it
 *
 * What a tape holds depends on (run seed, length, tokens a row, its number and
 * class) alone: neither threads, nor the order in which streams come, nor the
 * cache show. */
#include "tape_rack_private.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PHASE_SHARE = 16,      /* streams begin at most 1/16 of their length apart */
    BUCKETS_BEYOND = 1024, /* lengths that may turn up beside the prepared ones */
    OCTAVE_STEPS = 16,
};

#define MIB (UINT64_C(1) << 20)

static const char where[] = "law \"tape\"";

/* ---- Lengths ------------------------------------------------------------------- */

/* The largest grid length not above rows, which are more than top_k. */
static uint32_t grid_length(uint32_t top_k, uint32_t rows)
{
    /* 2^(i/16) in units of 2^-32. */
    static const uint64_t parts[OCTAVE_STEPS] = {
        UINT64_C(4294967296), UINT64_C(4485122483), UINT64_C(4683695047), UINT64_C(4891059828),
        UINT64_C(5107605667), UINT64_C(5333739025), UINT64_C(5569883475), UINT64_C(5816480974),
        UINT64_C(6074000999), UINT64_C(6342922397), UINT64_C(6623745058), UINT64_C(6917000864),
        UINT64_C(7223245205), UINT64_C(7543049511), UINT64_C(7877004751), UINT64_C(8225751976),
    };
    uint64_t octave = (uint64_t)top_k + 1;
    uint64_t best = octave;
    for (; octave <= rows; octave *= 2) {
        for (int i = 0; i < OCTAVE_STEPS; i++) {
            uint64_t length = octave * parts[i] >> 32;
            if (length <= rows)
                best = length;
        }
    }
    return (uint32_t)best;
}

static uint32_t phase_count(uint32_t length_rows, uint32_t tokens_per_row, uint32_t top_k,
                            const struct rack_size *size)
{
    uint32_t count = length_rows / PHASE_SHARE;
    uint32_t phases = size->phases < size->steps ? size->phases : size->steps;
    if (count > phases / tokens_per_row)
        count = phases / tokens_per_row;
    if (count > length_rows - top_k)
        count = length_rows - top_k;
    return count > 0 ? count : 1;
}

/* ---- Buckets and their tapes --------------------------------------------------- */

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
                             bool is_foreseen, uint32_t *out, struct kvt_error *err)
{
    const struct rack_plan *plan = &rack->plan;
    const struct rack_size *size = is_foreseen ? &plan->foreseen : &plan->other;
    if (rack->bucket_count == rack->bucket_capacity)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, where,
                        "tapes for %zu lengths exist, and %u rows ask for another; no more are "
                        "expected",
                        rack->bucket_count, length);
    uint32_t phases = phase_count(length, tokens_per_row, plan->top_k, size);
    size_t reels = (size_t)plan->tapes * plan->class_count;
    struct rack_bucket *bucket = calloc(1, sizeof *bucket + reels * sizeof(struct reel *));
    if (bucket == NULL)
        return kvt_fail_nomem(err, "the tapes of a length");
    bucket->length_rows = length;
    bucket->tokens_per_row = tokens_per_row;
    bucket->phase_count = phases;
    bucket->is_foreseen = is_foreseen;
    bucket->steps = (size->steps + REEL_BLOCK_STEPS - 1) / REEL_BLOCK_STEPS * REEL_BLOCK_STEPS;
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

/* Makes buckets of the lengths that a run prepares for. */
static kvt_status foresee(struct rack *rack, const struct kvt_law_env *env, struct kvt_error *err)
{
    for (size_t i = 0; i < env->context_count; i++) {
        uint32_t length = env->context_rows[i];
        uint32_t tokens = env->context_tokens_per_row != NULL ? env->context_tokens_per_row[i] : 1;
        uint32_t number = 0;
        if (tokens == 0)
            tokens = 1;
        /* At most top_k rows are all selected; streams past the largest length
         * will be refused; a length may be listed twice. */
        if (length <= rack->plan.top_k || length > SCORE_ROWS_MAX ||
            bucket_of(rack, length, tokens) != UINT32_MAX)
            continue;
        kvt_status status = add_bucket(rack, length, tokens, true, &number, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

/* ---- The rack ------------------------------------------------------------------- */

kvt_status rack_new(const struct rack_plan *plan, const struct kvt_law_env *env, struct rack **out,
                    struct kvt_error *err)
{
    size_t capacity = env->context_count + BUCKETS_BEYOND;
    struct rack *rack = calloc(1, sizeof *rack + capacity * sizeof(struct rack_bucket *));
    if (rack == NULL || pthread_mutex_init(&rack->growing, NULL) != 0) {
        free(rack);
        return kvt_fail_nomem(err, "the tapes of selections");
    }
    rack->plan = *plan;
    if (plan->model.stream_store != NULL) {
        memcpy(rack->stream_store, plan->model.stream_store,
               plan->model.stream_count * sizeof rack->stream_store[0]);
        rack->plan.model.stream_store = rack->stream_store;
    }
    rack->bucket_capacity = capacity;
    tape_cache_init(&rack->cache, env->cache_dir, &rack->plan.process);
    rack->threads = env->threads > 0 ? env->threads : 1;
    rack->listener = (struct tape_listener){env->progress, env->progress_context};
    kvt_status status = foresee(rack, env, err);
    if (status == KVT_OK && env->all_streams)
        status = rack_record_foreseen(rack, env, err);
    if (status != KVT_OK) {
        rack_free(rack);
        return status;
    }
    *out = rack;
    return KVT_OK;
}

/* Calls `visit` for every tape that there is. */
static void for_each_reel(const struct rack *rack, void (*visit)(void *context, struct reel *reel),
                          void *context)
{
    for (size_t b = 0; b < rack->bucket_count; b++) {
        const struct rack_bucket *bucket = rack->buckets[b];
        size_t reels = (size_t)rack->plan.tapes * rack->plan.class_count;
        for (size_t r = 0; r < reels; r++) {
            if (bucket->reels[r] != NULL)
                visit(context, bucket->reels[r]);
        }
    }
}

struct storing {
    const struct tape_cache *cache;
    bool has_written;
};

static void store_reel(void *context, struct reel *reel)
{
    struct storing *storing = context;

    tape_cache_store(storing->cache, reel);
    storing->has_written = storing->has_written || reel->was_written;
}

static void free_reel(void *unused, struct reel *reel)
{
    (void)unused;
    reel_free(reel);
}

void rack_free(struct rack *rack)
{
    if (rack == NULL)
        return;
    struct storing storing = {.cache = &rack->cache};
    for_each_reel(rack, store_reel, &storing);
    if (storing.has_written) /* else the folder is no larger than it was */
        tape_cache_trim(&rack->cache);
    for_each_reel(rack, free_reel, NULL);
    for (size_t b = 0; b < rack->bucket_count; b++)
        free(rack->buckets[b]);
    tape_cache_fini(&rack->cache);
    pthread_mutex_destroy(&rack->growing);
    free(rack);
}

const struct rack_plan *rack_plan_of(const struct rack *rack)
{
    return &rack->plan;
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

/* What stands behind the selections: tapes that streams read; those of one kin, or else each, are
 * independent. */
struct rack_count {
    uint32_t tapes, independent, lengths;
    uint32_t fewest, most; /* independent ones of a length */
    uint32_t shortest, longest, steps;
};

static void count_bucket(const struct rack *rack, const struct rack_bucket *bucket,
                         struct rack_count *count)
{
    uint32_t tapes = 0, kins = 0;
    for (uint32_t t = 0; t < rack->plan.tapes; t++) {
        uint32_t before = tapes;
        for (uint32_t c = 0; c < rack->plan.class_count; c++) {
            const struct reel *reel = *rack_reel_at(&rack->plan, bucket, t, c);
            tapes += reel != NULL && reel->wanted > 0;
        }
        kins += tapes > before;
    }
    if (tapes == 0)
        return;
    uint32_t independent = rack->plan.are_kin ? kins : tapes;
    count->tapes += tapes;
    count->independent += independent;
    count->lengths++;
    count->fewest = independent < count->fewest ? independent : count->fewest;
    count->most = independent > count->most ? independent : count->most;
    count->shortest = bucket->length_rows < count->shortest ? bucket->length_rows : count->shortest;
    count->longest = bucket->length_rows > count->longest ? bucket->length_rows : count->longest;
    count->steps = bucket->steps > count->steps ? bucket->steps : count->steps;
}

void rack_describe(const struct rack *rack, char *out, size_t bytes)
{
    struct rack_count count = {.fewest = UINT32_MAX, .shortest = UINT32_MAX};
    for (size_t b = 0; b < rack->bucket_count; b++)
        count_bucket(rack, rack->buckets[b], &count);
    char kins[32] = "", sides[64] = "", fewest[16] = "";
    if (count.independent < count.tapes)
        (void)snprintf(kins, sizeof kins, " (%u independent)", count.independent);
    if (rack->plan.side_paths > 0)
        (void)snprintf(sides, sizeof sides, " and %u x %u branches", rack->plan.side_paths,
                       rack->plan.side_tokens);
    if (count.fewest < count.most)
        (void)snprintf(fewest, sizeof fewest, "%u to ", count.fewest);
    unsigned long long mib = (rack->used_bytes + MIB - 1) / MIB;
    if (count.tapes == 0)
        (void)snprintf(out, bytes, "no tape was needed");
    else if (count.lengths == 1)
        (void)snprintf(out, bytes, "%u tape%s%s of %u tokens%s at %u rows, %llu MiB", count.tapes,
                       count.tapes > 1 ? "s" : "", kins, count.steps, sides, count.longest, mib);
    else
        (void)snprintf(
            out, bytes,
            "%u tapes%s of up to %u tokens%s at %u lengths (%u to %u rows), %s%u a length, "
            "%llu MiB",
            count.tapes, kins, count.steps, sides, count.lengths, count.shortest, count.longest,
            fewest, count.most, mib);
}
