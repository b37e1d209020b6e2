/* contract_replacement.c -- a replacement policy played: hot caches as the resolver keeps them,
 * with random hits and misses.
 *
 *     for caches of several sizes, until there were enough calls:
 *         some occupied slots hit, some rows that are not held are missed
 *         every instance chooses victims, which are checked and compared
 *         the misses take the victims' slots; now and then staged rows are promoted, or a slot
 *         is emptied
 *         ranks are a permutation, and rank 0 is what a call without hits gives up first
 */
#include <stdlib.h>
#include <string.h>

#include "contract.h"
#include "kvt/policy.h"

enum {
    SLOTS_MAX = 200,
    SLOT_WORDS = (SLOTS_MAX + 63) / 64,
    ROWS_PER_SLOT = 3, /* rows there are, so that they come back */
    MISSES_MAX = 2 * SLOTS_MAX,
    ROWS_MAX = ROWS_PER_SLOT * SLOTS_MAX + MISSES_MAX,
    GUARD = 8, /* behind what a policy may write */
    CALLS_OF_A_CACHE = 40,
    MOVE_EVERY = 7
};

/* A cache that all instances serve. */
struct bench {
    struct contract_play *play;
    const struct kvt_replacement_policy *policy;
    struct contract_state states[CONTRACT_ROLES];
    uint32_t slot_count, row_count; /* rows are below row_count, and one is new to the cache */
    uint32_t slot_rows[SLOTS_MAX];
    uint64_t hit_bits[SLOT_WORDS];
    kvt_slot hit_slots[SLOTS_MAX];
    uint32_t missed[MISSES_MAX], next_use[SLOTS_MAX], evicted[SLOTS_MAX];
    kvt_slot victims[CONTRACT_ROLES][SLOTS_MAX + GUARD], scratch[SLOTS_MAX + GUARD];
    uint32_t hits, want;
    struct kvt_replacement_call call;
};

static const char *const distinct = "no slot is a victim twice in one call";

static kvt_status open_cache(struct bench *bench, struct contract_play *play, uint32_t slot_count,
                             struct kvt_error *err)
{
    const struct kvt_replacement_env env = {.params = play->params,
                                            .slot_count = slot_count,
                                            .top_k = slot_count,
                                            .entity = slot_count,
                                            .run_seed = 2385,
                                            .host = kvt_host(),
                                            .rows_max = ROWS_PER_SLOT * slot_count + MISSES_MAX + 1,
                                            .rows_per_page = KVT_PAGE_ROWS};
    kvt_status status = KVT_OK;

    *bench =
        (struct bench){.play = play,
                       .policy = (const struct kvt_replacement_policy *)(const void *)play->info,
                       .slot_count = slot_count,
                       .row_count = ROWS_PER_SLOT * slot_count + MISSES_MAX};
    memset(bench->slot_rows, 0xff, sizeof bench->slot_rows);
    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        struct contract_state *state = &bench->states[r];
        contract_enter(play, "state_bytes");
        status = contract_state_new(play, bench->policy->state_bytes(&env), state, err);
        if (status != KVT_OK)
            return status;
        contract_enter(play, "init");
        status = KVT_PLUGIN_CALL(bench->policy, init, err, state->bytes, &env);
        if (status == KVT_OK)
            status = contract_state_check(play, state, err);
    }
    return status;
}

static void close_cache(struct bench *bench)
{
    for (int r = 0; r < CONTRACT_ROLES; r++)
        contract_state_free(&bench->states[r]);
}

/* ---- A call ---------------------------------------------------------------------------- */

static uint32_t draw_hits(struct bench *bench)
{
    struct contract_draws *draws = &bench->play->draws;
    uint32_t percent = contract_draw(draws, 101), hits = 0;

    memset(bench->hit_bits, 0, sizeof bench->hit_bits);
    for (kvt_slot slot = 0; slot < bench->slot_count; slot++) {
        if (bench->slot_rows[slot] == KVT_ROW_NONE || !contract_chance(draws, percent))
            continue;
        bench->hit_bits[slot / 64] |= UINT64_C(1) << slot % 64;
        uint32_t place = contract_draw(draws, ++hits);
        bench->hit_slots[hits - 1] = bench->hit_slots[place];
        bench->hit_slots[place] = slot;
    }
    return hits;
}

/* Rows that no slot holds, ascending as those of one query. */
static uint32_t draw_misses(struct bench *bench)
{
    struct contract_draws *draws = &bench->play->draws;
    uint32_t most = bench->slot_count + bench->slot_count / 2 + 1, count = 0;
    uint32_t want = contract_draw(draws, most + 1);
    uint32_t start = contract_draw(draws, bench->row_count);
    bool held[ROWS_MAX] = {false};

    for (kvt_slot slot = 0; slot < bench->slot_count; slot++) {
        if (bench->slot_rows[slot] != KVT_ROW_NONE)
            held[bench->slot_rows[slot]] = true;
    }
    for (uint32_t i = 0; i < bench->row_count && count < want; i++) {
        uint32_t row = (start + i) % bench->row_count;
        if (!held[row])
            bench->missed[count++] = row;
    }
    return count;
}

static const uint32_t *draw_future(struct bench *bench)
{
    if (!contract_sees_future(bench->play) && !(bench->play->gifts & CONTRACT_GIFT_FUTURE))
        return NULL;
    for (kvt_slot slot = 0; slot < bench->slot_count; slot++) {
        uint32_t calls = contract_draw(&bench->play->draws, KVT_LOOK_AHEAD_CALLS + 1);
        bool never = calls == 0 || bench->slot_rows[slot] == KVT_ROW_NONE;
        bench->next_use[slot] = never ? KVT_CALL_NEVER : calls;
    }
    return bench->next_use;
}

static void draw_call(struct bench *bench)
{
    uint64_t step = bench->call.step + 1;
    uint32_t hits = draw_hits(bench), missed = draw_misses(bench);
    uint32_t free_slots = bench->slot_count - hits;

    bench->hits = hits;
    bench->want = missed < free_slots ? missed : free_slots;
    bench->call = (struct kvt_replacement_call){.hit_bits = bench->hit_bits,
                                                .slot_rows = bench->slot_rows,
                                                .missed_rows = bench->missed,
                                                .missed_count = missed,
                                                .step = step,
                                                .next_use = draw_future(bench),
                                                .scratch = bench->scratch,
                                                .cpu = kvt_cpu_best()};
    if (bench->policy->wants_hit_order || (bench->play->gifts & CONTRACT_GIFT_HIT_ORDER)) {
        bench->call.hit_slots = bench->hit_slots;
        bench->call.hit_count = hits;
    }
}

/* The call as one role is asked it: scratch holds anything, and less of a processor changes
 * nothing. */
static struct kvt_replacement_call call_of(struct bench *bench, int role)
{
    struct kvt_replacement_call call = bench->call;

    memset(bench->scratch, 0x11 * role, bench->slot_count * sizeof bench->scratch[0]);
    memset(bench->scratch + bench->slot_count, 0xff, GUARD * sizeof bench->scratch[0]);
    if (role == CONTRACT_OTHER)
        call.cpu = KVT_CPU_PLAIN;
    return call;
}

/* What every function of the table leaves as it was. */
static kvt_status check_memory(const struct bench *bench, int role, struct kvt_error *err)
{
    for (uint32_t i = 0; i < GUARD; i++) {
        if (bench->scratch[bench->slot_count + i] != KVT_SLOT_NONE)
            return contract_broken(bench->play, err, "scratch has slot_count places",
                                   "%s() wrote behind its scratch", bench->play->note->function);
    }
    return contract_state_check(bench->play, &bench->states[role], err);
}

/* ---- Victims --------------------------------------------------------------------------- */

static kvt_status check_victims(const struct bench *bench, const kvt_slot *victims, uint32_t chosen,
                                struct kvt_error *err)
{
    const struct contract_play *play = bench->play;
    bool taken[SLOTS_MAX] = {false};

    if (chosen != bench->want)
        return contract_broken(play, err, "as many as are wanted and did not hit",
                               "choose_victims() returned %u slots for %u misses that could have "
                               "them",
                               chosen, bench->want);
    for (uint32_t i = 0; i < SLOTS_MAX + GUARD; i++) {
        kvt_slot slot = victims[i];
        if (i >= chosen && slot != KVT_SLOT_NONE)
            return contract_broken(play, err, "it writes no more than it is asked for",
                                   "choose_victims() wrote victim %u of %u", i, chosen);
        if (i >= chosen)
            continue;
        if (slot >= bench->slot_count)
            return contract_broken(play, err, "a victim is a slot of this cache",
                                   "choose_victims() returned slot %u of a cache of %u", slot,
                                   bench->slot_count);
        if (bench->hit_bits[slot / 64] >> slot % 64 & 1)
            return contract_broken(play, err, "a slot that hit is never a victim",
                                   "choose_victims() returned slot %u, whose row a query of this "
                                   "call reads",
                                   slot);
        if (taken[slot])
            return contract_broken(
                play, err, distinct,
                "choose_victims() returned slot %u, which it had returned before", slot);
        taken[slot] = true;
    }
    return KVT_OK;
}

/* Of parts some victims are occupied while other parts have empty slots; those that are given up
 * are the lowest all the same. */
static kvt_status check_empty_first(const struct bench *bench, const kvt_slot *victims,
                                    uint32_t chosen, struct kvt_error *err)
{
    bool is_partitioned = bench->policy->is_partitioned;
    kvt_slot empty = 0;

    for (uint32_t i = 0; i < chosen; i++) {
        if (is_partitioned && bench->slot_rows[victims[i]] != KVT_ROW_NONE)
            continue;
        while (empty < bench->slot_count && bench->slot_rows[empty] != KVT_ROW_NONE)
            empty++;
        if (empty == bench->slot_count)
            return KVT_OK;
        if (victims[i] != empty)
            return contract_broken(bench->play, err,
                                   is_partitioned ? "of empty slots the lowest goes first"
                                                  : "empty slots go first, lowest slot first",
                                   "choose_victims() returned slot %u, while the empty slot %u was "
                                   "left",
                                   victims[i], empty);
        empty++;
    }
    return KVT_OK;
}

static kvt_status choose(struct bench *bench, int role, struct kvt_error *err)
{
    const struct kvt_replacement_call call = call_of(bench, role);
    kvt_slot *victims = bench->victims[role];
    uint32_t chosen = 0;

    memset(victims, 0xff, sizeof bench->victims[role]);
    if (bench->want == 0)
        return KVT_OK;
    contract_enter(bench->play, "choose_victims");
    chosen = bench->policy->choose_victims(bench->states[role].bytes, &call, bench->want, victims);
    kvt_status status = check_memory(bench, role, err);
    if (status != KVT_OK)
        return status;
    if (role != CONTRACT_FIRST) {
        bool same = chosen == bench->want &&
                    memcmp(victims, bench->victims[0], sizeof bench->victims[0]) == 0;
        return same
                   ? KVT_OK
                   : contract_differs(bench->play, (enum contract_role)role, "choose_victims", err);
    }
    status = check_victims(bench, victims, chosen, err);
    if (status == KVT_OK)
        status = check_empty_first(bench, victims, chosen, err);
    return status;
}

/* ---- What becomes of them -------------------------------------------------------------- */

static kvt_status tell_resolved(struct bench *bench, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; i < bench->want; i++) {
        bench->evicted[i] = bench->slot_rows[bench->victims[0][i]];
        bench->slot_rows[bench->victims[0][i]] = bench->missed[i];
    }
    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        const struct kvt_replacement_call call = call_of(bench, r);
        contract_enter(bench->play, "on_resolved");
        bench->policy->on_resolved(bench->states[r].bytes, &call, bench->victims[r], bench->evicted,
                                   bench->want);
        status = check_memory(bench, r, err);
    }
    return status;
}

/* Rows that found no slot take some of those that the call has read, which all are: hits, and
 * what the call has filled. */
static kvt_status promote(struct bench *bench, struct kvt_error *err)
{
    uint32_t staged = bench->call.missed_count - bench->want, count = 0;
    uint32_t percent = contract_draw(&bench->play->draws, 101);
    kvt_slot slots[SLOTS_MAX];
    kvt_status status = KVT_OK;

    for (kvt_slot slot = 0; slot < bench->slot_count && count < staged; slot++) {
        if (!contract_chance(&bench->play->draws, percent))
            continue;
        bench->evicted[count] = bench->slot_rows[slot];
        bench->slot_rows[slot] = bench->missed[bench->want + count];
        slots[count++] = slot;
    }
    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK && count > 0; r++) {
        const struct kvt_replacement_call call = call_of(bench, r);
        if (bench->policy->on_promoted == NULL)
            continue;
        contract_enter(bench->play, "on_promoted");
        bench->policy->on_promoted(bench->states[r].bytes, &call, slots,
                                   bench->missed + bench->want, bench->evicted, count);
        status = check_memory(bench, r, err);
    }
    return status;
}

/* Now and then an occupied slot loses its row. */
static kvt_status invalidate(struct bench *bench, struct kvt_error *err)
{
    kvt_slot slot = contract_draw(&bench->play->draws, bench->slot_count);
    kvt_status status = KVT_OK;

    if (bench->slot_rows[slot] == KVT_ROW_NONE || !contract_chance(&bench->play->draws, 25))
        return KVT_OK;
    bench->slot_rows[slot] = KVT_ROW_NONE;
    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        contract_enter(bench->play, "on_invalidate");
        bench->policy->on_invalidate(bench->states[r].bytes, slot);
        status = contract_state_check(bench->play, &bench->states[r], err);
    }
    return status;
}

/* ---- Ranks ------------------------------------------------------------------------------ */

/* Asks a copy of the state, so that asking changes nothing. */
static kvt_status check_next_victim(struct bench *bench, const uint32_t *ranks,
                                    struct kvt_error *err)
{
    static const uint64_t no_hits[SLOT_WORDS];
    struct contract_state copy;
    kvt_slot victim = KVT_SLOT_NONE;
    kvt_status status = contract_state_new(bench->play, bench->states[0].byte_count, &copy, err);

    if (status != KVT_OK)
        return status;
    memcpy(copy.bytes, bench->states[0].bytes, copy.byte_count);
    struct kvt_replacement_call call = call_of(bench, CONTRACT_FIRST);
    call.hit_bits = no_hits;
    call.hit_slots = call.hit_slots != NULL ? bench->hit_slots : NULL;
    call.hit_count = 0;
    call.missed_rows = &bench->row_count; /* a row that there never was */
    call.missed_count = 1;
    call.next_use = draw_future(bench);
    call.step++;
    contract_enter(bench->play, "choose_victims");
    uint32_t chosen = bench->policy->choose_victims(copy.bytes, &call, 1, &victim);
    contract_state_free(&copy);
    if (chosen != 1 || victim >= bench->slot_count)
        return contract_broken(bench->play, err, "as many as are wanted and did not hit",
                               "choose_victims() returned %u slots for a miss, the first is %u of "
                               "%u",
                               chosen, victim, bench->slot_count);
    if (ranks[victim] != 0 && call.next_use == NULL && !bench->policy->is_partitioned)
        return contract_broken(bench->play, err, "rank 0 is the next victim",
                               "ranks() gives slot %u rank %u, and choose_victims() takes it first",
                               victim, ranks[victim]);
    return KVT_OK;
}

static kvt_status check_ranks(struct bench *bench, struct kvt_error *err)
{
    const struct contract_play *play = bench->play;
    uint32_t ranks[CONTRACT_ROLES][SLOTS_MAX + GUARD];
    bool taken[SLOTS_MAX] = {false};
    kvt_status status = KVT_OK;

    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++) {
        memset(ranks[r], 0xff, sizeof ranks[r]);
        contract_enter(play, "ranks");
        bench->policy->ranks(bench->states[r].bytes, ranks[r]);
        status = contract_state_check(play, &bench->states[r], err);
        if (status == KVT_OK && memcmp(ranks[r], ranks[0], sizeof ranks[r]) != 0)
            status = contract_differs(play, (enum contract_role)r, "ranks", err);
    }
    for (uint32_t i = 0; i < SLOTS_MAX + GUARD && status == KVT_OK; i++) {
        bool is_slot = i < bench->slot_count;
        if (!is_slot && ranks[0][i] != UINT32_MAX)
            return contract_broken(play, err, "there is a rank for each slot",
                                   "ranks() wrote a rank for slot %u of a cache of %u", i,
                                   bench->slot_count);
        if (is_slot && (ranks[0][i] >= bench->slot_count || taken[ranks[0][i]]))
            return contract_broken(
                play, err, "ranks are a permutation of the slots",
                "ranks() gives slot %u of %u rank %u, %s", i, bench->slot_count, ranks[0][i],
                ranks[0][i] >= bench->slot_count ? "which is no rank" : "as a slot before it");
        if (is_slot)
            taken[ranks[0][i]] = true;
    }
    return status == KVT_OK ? check_next_victim(bench, ranks[0], err) : status;
}

static kvt_status check_sane(const struct bench *bench, struct kvt_error *err)
{
    if (bench->policy->is_sane == NULL)
        return KVT_OK;
    contract_enter(bench->play, "is_sane");
    if (bench->policy->is_sane(bench->states[0].bytes))
        return KVT_OK;
    return contract_broken(bench->play, err, "a state is sane at all times",
                           "is_sane() says that its own state is not");
}

/* ---- A cache's life ---------------------------------------------------------------------- */

static kvt_status play_call(struct bench *bench, uint32_t number, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    if (number % MOVE_EVERY == MOVE_EVERY - 1)
        status = contract_state_move(&bench->states[CONTRACT_MOVED], err);
    draw_call(bench);
    for (int r = 0; r < CONTRACT_ROLES && status == KVT_OK; r++)
        status = choose(bench, r, err);
    if (status == KVT_OK && bench->hits + bench->call.missed_count > 0)
        status = tell_resolved(bench, err);
    if (status == KVT_OK && bench->call.missed_count > bench->want)
        status = promote(bench, err);
    if (status == KVT_OK)
        status = invalidate(bench, err);
    if (status == KVT_OK)
        status = check_ranks(bench, err);
    return status == KVT_OK ? check_sane(bench, err) : status;
}

kvt_status contract_play_replacement(struct contract_play *play, struct kvt_error *err)
{
    static const uint32_t slot_counts[] = {65, 1, 2, 63, 64, SLOTS_MAX};
    const size_t sizes = sizeof slot_counts / sizeof slot_counts[0];
    struct bench *bench = malloc(sizeof *bench);
    uint64_t first_call = play->note->calls;
    kvt_status status = KVT_OK;

    if (bench == NULL)
        return kvt_fail_nomem(err, "a hot cache");
    for (size_t n = 0; status == KVT_OK && contract_goes_on(play, first_call); n++) {
        status = open_cache(bench, play, slot_counts[n % sizes], err);
        for (uint32_t i = 0; i < CALLS_OF_A_CACHE && status == KVT_OK && !play->draws.ended; i++)
            status = play_call(bench, i, err);
        close_cache(bench);
    }
    free(bench);
    return status;
}
