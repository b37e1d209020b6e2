/* tape_supply.c -- what tapes hold, recorded ahead or when a stream first needs it.
 *
 *     of a length that was foreseen: whole tapes, through the cache, on all threads;
 *         all of them before the run where every stream will be opened, else one when it is
 *         drawn, and on the other threads those that may be drawn next
 *     of any other: as far as is read, by the thread that needs it
 *
 * What a tape holds depends on (run seed, length, tokens a row, its number and class) alone. */
#include <stdlib.h>

#include "kvt/hash.h"
#include "tape_rack_private.h"

#define TAPE_ENTITY UINT64_C(0x7461706500000000) /* "tape": apart from the entities of streams */
#define MIB (UINT64_C(1) << 20)

static const char where[] = "law \"tape\"";

/* ---- As needed ------------------------------------------------------------------------- */

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

/* Records on, or takes from the cache, what is not there yet: more than was wanted before. Another
 * run that records the same tape just now is not waited for: that takes no longer than doing it. */
static kvt_status extend(struct rack *rack, struct reel *reel, uint32_t steps,
                         struct kvt_error *err)
{
    if (reel->recorded == 0)
        tape_cache_load(&rack->cache, reel);
    uint32_t before = reel->recorded;
    kvt_status status = KVT_OK;
    while (reel->recorded < steps && status == KVT_OK) {
        status = reel_record(reel, &rack->plan.process, reel->recorded + 1, err); /* a block */
        double done = (double)(reel->recorded - before) / (steps - before);
        if (status == KVT_OK && !tape_tell(&rack->listener, done < 1 ? done : 1))
            status = tape_interrupted(err);
    }
    return status;
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
                             .listener = &rack->listener,
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
    if (status == KVT_OK)
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
    if (status == KVT_OK && reel->recorded < until) /* else a further thread has been there */
        status = bucket->is_foreseen ? record_with_others(rack, bucket, tape, class, err)
                                     : extend(rack, reel, until, err);
    if (status == KVT_OK)
        want(rack, reel, until);
    return status;
}

/* ---- Ahead ------------------------------------------------------------------------------ */

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

kvt_status rack_record_foreseen(struct rack *rack, const struct kvt_law_env *env,
                                struct kvt_error *err)
{
    struct tape_work work = {.process = &rack->plan.process,
                             .cache = &rack->cache,
                             .threads = rack->threads,
                             .listener = &rack->listener};
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
