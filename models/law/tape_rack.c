/* tape_rack.c -- tapes by length, and their recording when a stream first needs them.
 *
 *     bucket of a length = the length itself where the run prepares for it,
 *                          else the largest (k + 1) 2^(j/16), j >= 0, not above it
 *
 * What a tape holds depends on (run seed, length, tokens a row, its number and
 * class) alone: neither threads, nor the order in which streams come, nor the
 * cache show. */
#include "tape_rack.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"
#include "tape_prepare.h"

enum {
    PHASE_SHARE = 16,      /* streams begin at most 1/16 of their length apart */
    BUCKETS_BEYOND = 1024, /* lengths that may turn up beside the prepared ones */
    OCTAVE_STEPS = 16,
};

#define TAPE_ENTITY UINT64_C(0x7461706500000000) /* "tape": apart from the entities of streams */
#define MIB (UINT64_C(1) << 20)

static const char where[] = "law \"tape\"";

struct rack {
    struct rack_plan plan;
    uint32_t stream_store[KVT_SELECTORS_MAX]; /* the plan's, where it has one */
    struct tape_cache cache;
    unsigned threads;    /* to record with */
    uint64_t used_bytes; /* reel_bytes() of all */
    pthread_mutex_t growing;
    size_t bucket_count, bucket_capacity;
    struct rack_bucket *buckets[]; /* [bucket_capacity]: streams read while it grows */
};

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

/* An empty tape, in its place; NULL when memory is short. */
static struct reel *make_reel(const struct rack_plan *plan, struct rack_bucket *bucket,
                              uint32_t tape, uint32_t class)
{
    uint64_t entity = kvt_chain64(TAPE_ENTITY, bucket->length_rows);
    entity = kvt_chain64(entity, bucket->tokens_per_row);
    entity = kvt_chain64(entity, tape);
    struct score_kin kin =
        score_kin_of(&plan->model, entity, plan->class_selector[class], bucket->tokens_per_row);
    struct kvt_kvsel_shape shape = {
        .top_k = plan->top_k,
        .first_rows = bucket->length_rows - bucket->phase_count,
        .tokens_per_row = bucket->tokens_per_row,
        .side_paths = plan->side_paths,
        .side_tokens = plan->side_tokens,
    };
    struct reel **place = rack_reel_at(plan, bucket, tape, class);
    *place = reel_new(&kin, &shape, bucket->steps);
    return *place;
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

/* Records on, or takes from the cache, what is not there yet: more than was wanted before. Another
 * run that records the same tape just now is not waited for: that takes no longer than doing it. */
static kvt_status extend(struct rack *rack, struct reel *reel, uint32_t steps,
                         struct kvt_error *err)
{
    if (reel->recorded == 0)
        tape_cache_load(&rack->cache, reel);
    return reel->recorded < steps ? reel_record(reel, &rack->plan.process, steps, err) : KVT_OK;
}

/* The reel in its place, made where there is none yet; NULL when memory is short. */
static struct reel *reel_at(struct rack *rack, struct rack_bucket *bucket, uint32_t tape,
                            uint32_t class)
{
    struct reel *reel = *rack_reel_at(&rack->plan, bucket, tape, class);
    return reel != NULL ? reel : make_reel(&rack->plan, bucket, tape, class);
}

/* Records all of a tape; and on each further thread the next one that is not there yet, which
 * other streams will want, as far as memory allows. What is counted as used is what was wanted:
 * threads do not show. */
static kvt_status record_with_others(struct rack *rack, struct rack_bucket *bucket, uint32_t tape,
                                     uint32_t class, struct kvt_error *err)
{
    uint32_t tapes = rack->plan.tapes;
    size_t most = rack->threads < tapes ? rack->threads : tapes;
    struct tape_work work = {.process = &rack->plan.process,
                             .cache = &rack->cache,
                             .threads = rack->threads,
                             .reels = calloc(most, sizeof(struct reel *))};
    if (work.reels == NULL)
        return kvt_fail_nomem(err, "the list of tapes to record");
    uint64_t expected_bytes = rack->used_bytes;
    kvt_status status = KVT_OK;
    for (uint32_t n = 0; n < tapes && work.reel_count < most && status == KVT_OK; n++) {
        struct reel *reel = reel_at(rack, bucket, (tape + n) % tapes, class);
        if (reel == NULL) {
            status = kvt_fail_nomem(err, "a tape of selections");
            continue;
        }
        if (reel->recorded == reel->selections.token_count)
            continue;
        expected_bytes += reel_bytes_expected(reel, reel->selections.token_count);
        if (n > 0 && expected_bytes > rack->plan.memory_bytes)
            break;
        work.reels[work.reel_count++] = reel;
    }
    if (status == KVT_OK && work.reel_count > 0)
        status = tape_prepare_all(&work, err);
    free(work.reels);
    return status;
}

static void want(struct rack *rack, struct reel *reel, uint32_t steps)
{
    rack->used_bytes -= reel_bytes(reel);
    reel->wanted = (steps + REEL_BLOCK_STEPS - 1) / REEL_BLOCK_STEPS * REEL_BLOCK_STEPS;
    rack->used_bytes += reel_bytes(reel);
}

kvt_status rack_provide(struct rack *rack, uint32_t number, uint32_t tape, uint32_t class,
                        uint64_t steps, struct kvt_error *err)
{
    struct rack_bucket *bucket = rack->buckets[number];
    struct reel *reel = reel_at(rack, bucket, tape, class);
    if (reel == NULL)
        return kvt_fail_nomem(err, "a tape of selections");
    uint32_t all = reel->selections.token_count;
    uint32_t until = steps < all && !bucket->is_foreseen ? (uint32_t)steps : all;
    if (until <= reel->wanted)
        return KVT_OK;
    uint64_t more = reel_bytes_expected(reel, until - reel->wanted);
    kvt_status status = check_memory(rack, rack->used_bytes + more, bucket, err);
    if (status == KVT_OK)
        status = bucket->is_foreseen ? record_with_others(rack, bucket, tape, class, err)
                                     : extend(rack, reel, until, err);
    if (status == KVT_OK)
        want(rack, reel, until);
    return status;
}

/* ---- The lengths that are prepared for -------------------------------------------- */

/* True when streams of this class may have such rows. */
static bool is_needed(const struct rack_plan *plan, const struct kvt_law_env *env, uint32_t class,
                      uint32_t tokens_per_row)
{
    if (env->stream_tokens_per_row == NULL)
        return true;
    for (uint32_t s = 0; s < env->stream_count; s++) {
        if (plan->class_of[s] == class && env->stream_tokens_per_row[s] == tokens_per_row)
            return true;
    }
    return false;
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

/* Makes the empty tapes of a length. */
static kvt_status make_reels(struct rack *rack, const struct kvt_law_env *env,
                             struct rack_bucket *bucket, struct tape_work *work,
                             uint64_t *expected_bytes, struct kvt_error *err)
{
    const struct rack_plan *plan = &rack->plan;
    kvt_status status = KVT_OK;
    for (uint32_t i = 0; i < plan->tapes * plan->class_count && status == KVT_OK; i++) {
        uint32_t tape = i / plan->class_count, class = i % plan->class_count;
        if (!is_needed(plan, env, class, bucket->tokens_per_row))
            continue;
        struct reel *reel = make_reel(plan, bucket, tape, class);
        if (reel == NULL)
            return kvt_fail_nomem(err, "a tape of selections");
        work->reels[work->reel_count++] = reel;
        *expected_bytes += reel_bytes_expected(reel, reel->selections.token_count);
        status = check_memory(rack, *expected_bytes, bucket, err);
    }
    return status;
}

/* Records all tapes of all lengths that there are. */
static kvt_status record_foreseen(struct rack *rack, const struct kvt_law_env *env,
                                  struct kvt_error *err)
{
    struct tape_work work = {
        .process = &rack->plan.process, .cache = &rack->cache, .threads = env->threads, .env = env};
    size_t most = rack->bucket_count * rack->plan.tapes * rack->plan.class_count;
    uint64_t expected_bytes = 0;
    kvt_status status = KVT_OK;
    work.reels = calloc(most > 0 ? most : 1, sizeof(struct reel *));
    if (work.reels == NULL)
        return kvt_fail_nomem(err, "the list of tapes to record");
    for (size_t b = 0; b < rack->bucket_count && status == KVT_OK; b++)
        status = make_reels(rack, env, rack->buckets[b], &work, &expected_bytes, err);
    if (status == KVT_OK && work.reel_count > 0)
        status = tape_prepare_all(&work, err);
    for (size_t r = 0; r < work.reel_count && status == KVT_OK; r++)
        want(rack, work.reels[r], work.reels[r]->selections.token_count);
    free(work.reels);
    return status;
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
    kvt_status status = foresee(rack, env, err);
    if (status == KVT_OK && env->all_streams)
        status = record_foreseen(rack, env, err);
    if (status != KVT_OK) {
        rack_free(rack);
        return status;
    }
    *out = rack;
    return KVT_OK;
}

static void store_reel(void *cache, struct reel *reel)
{
    tape_cache_store(cache, reel);
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
    for_each_reel(rack, store_reel, &rack->cache);
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
        (void)snprintf(out, bytes,
                       "%u tapes%s of up to %u tokens%s at %u lengths (%u to %u rows), %s%u a length, "
                       "%llu MiB",
                       count.tapes, kins, count.steps, sides, count.lengths, count.shortest,
                       count.longest, fewest, count.most, mib);
}
