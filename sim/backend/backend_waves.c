/* backend_waves.c -- waves of a step: how often a selector's calls outgrow the rank's staging.
 *
 *     for each selector
 *         for each request, in the order of the batch: the rows that its call staged
 *             followed:      as counted
 *             another store: as counted in one of its kind that the request follows
 *             nobody:        what the estimator expects x how far a followed call of the
 *                            stratum, drawn from the newest, was from what was expected of it
 *         waves (waves.c); each beyond the first is counted
 *
 * Mean rows would not do for the last: waves are a staircase, and calls of one size climb it all
 * together or not at all. Drawing a residual keeps the spread: R. J. A. Little and D. B. Rubin,
 * "Statistical Analysis with Missing Data", 2nd ed., 2002, section 4.3 (stochastic imputation). */
#include <stdlib.h>

#include "backend_sim_private.h"

void deviations_add(struct deviations *deviations, double expected_rows, uint32_t staged_rows)
{
    if (expected_rows <= 0)
        return;
    deviations->factors[deviations->added++ % DEVIATIONS] = staged_rows / expected_rows;
}

/* Of a call that nobody follows. */
static uint32_t draw_rows(const struct backend_sim *sim, const struct kvt_step_item *item,
                          uint32_t stratum, struct kvt_rng *rng)
{
    const struct deviations *deviations = &sim->deviations[stratum];
    double rows = sim->lanes[item->request]->expected_staged[stratum];
    uint64_t known = deviations->added < DEVIATIONS ? deviations->added : DEVIATIONS;
    uint32_t most = item->round->query_count * sim->env.llm->top_k;

    if (rows <= 0 || known == 0)
        return 0;
    rows = rows * deviations->factors[kvt_rng_below(rng, known)] + 0.5;
    return rows < most ? (uint32_t)rows : most;
}

/* A store that the request follows: this one, or else one of its kind. */
static const struct followed *stand_in(const struct backend_sim *sim, const struct lane *lane,
                                       uint32_t store)
{
    uint32_t stratum = sim->strata.stratum_of[store], seen = 0;
    uint32_t turn = store % sim->strata.strata[stratum].followed;
    const struct followed *other = NULL;

    for (uint32_t f = 0; f < lane->followed_count; f++) {
        const struct followed *followed = &lane->followed[f];
        if (followed->store == store)
            return followed;
        if (sim->strata.stratum_of[followed->store] == stratum && seen++ == turn)
            other = followed;
    }
    return other;
}

/* Rows that the item's call of a selector stages. */
static uint32_t rows_of(const struct backend_sim *sim, const struct kvt_step_item *item,
                        uint32_t selector, struct kvt_rng *rng)
{
    const struct lane *lane = sim->lanes[item->request];
    uint32_t store = sim->env.llm->selectors[selector].store;

    if (lane->hot_tokens == 0)
        return 0;
    if (sim->estimator)
        return draw_rows(sim, item, sim->strata.stratum_of[store], rng);
    return lane->staged_rows[stand_in(sim, lane, store)->first_stream + sim->ordinal_of[selector]];
}

static kvt_status make_room(struct worker *worker, uint32_t call_count, struct kvt_error *err)
{
    if (call_count <= worker->call_capacity)
        return KVT_OK;
    size_t capacity = 2 * (size_t)call_count;
    uint32_t *calls = realloc(worker->staged_rows, 2 * capacity * sizeof *calls);
    if (!calls)
        return kvt_fail_nomem(err, "the waves of a step");
    worker->staged_rows = calls;
    worker->wave_of = calls + capacity;
    worker->call_capacity = (uint32_t)capacity;
    return KVT_OK;
}

kvt_status waves_count(const struct backend_sim *sim, struct worker *worker,
                       struct kvt_rank_step *rank, struct kvt_rng *rng, struct kvt_error *err)
{
    uint64_t sessions = 0;

    if (sim->env.staging.call_bytes == 0)
        return KVT_OK;
    kvt_status status = make_room(worker, rank->item_count, err);
    if (status != KVT_OK)
        return status;
    for (uint32_t i = 0; i < rank->item_count; i++)
        sessions += sim->lanes[rank->items[i].request]->hot_tokens > 0;
    uint64_t arena_bytes = kvt_staging_arena_bytes(&sim->env.staging, sessions);
    for (uint32_t s = 0; s < sim->env.llm->selector_count; s++) {
        for (uint32_t i = 0; i < rank->item_count; i++)
            worker->staged_rows[i] = rows_of(sim, &rank->items[i], s, rng);
        kvt_calls_count_waves(sim->env.llm, s, arena_bytes, worker->staged_rows, rank->item_count,
                              worker->wave_of, &rank->outcome);
    }
    return KVT_OK;
}
