/* backend_pooled.c -- some requests of each rank stand for the others.
 *
 *     before a step: a rank that follows too few follows the youngest of the rest; and one more,
 *                    for its first EXTRA_ROUNDS, where a first round is of a kind never followed
 *     after it:      followed rounds to the estimator
 *                    every round: what is known is counted, what is not is weight x rate
 *                    waves of each rank, from what its rounds stage (backend_waves.c)
 *
 * Rates are common to all ranks. The load of a rank of many requests and stores hardly varies
 * from step to step, while a sample of it does; and ranks in lockstep step as the slowest
 * does, so that what differs between them by chance of the sample would make steps longer. */
#include <math.h>
#include <string.h>

#include "backend_sim_private.h"
#include "kvt/layout.h"

enum {
    EXTRA_ROUNDS = 64 /* by then a hot cache is filled */
};

/* A round, as each call of a stratum sees it. */
struct call_shape {
    uint32_t visible_rows; /* of its last query */
    double selected;       /* over its queries */
    double uncovered;      /* share of the history that no page in HBM holds */
    double weight;         /* selected, by that share */
};

/* Share of the committed rows that are in no page that can be read. */
static double uncovered_share(const struct kvt_step_item *item)
{
    uint64_t covered_tokens = 0;

    for (uint32_t p = 0; p < item->ready_pages; p += 64) {
        uint64_t bits = item->ready_bits[p / 64];
        if (item->ready_pages - p < 64)
            bits &= (UINT64_C(1) << (item->ready_pages - p)) - 1;
        covered_tokens += (uint64_t)__builtin_popcountll(bits) * KVT_PAGE_ROWS;
    }
    return covered_tokens < item->context_tokens ? 1 - (double)covered_tokens / item->context_tokens
                                                 : 0;
}

static struct call_shape shape_of(const struct backend_sim *sim, uint32_t stratum,
                                  const struct kvt_step_item *item, double uncovered)
{
    const struct kvt_store *store = &sim->env.llm->stores[sim->store_of[stratum]];
    const struct kvt_round *round = item->round;
    struct call_shape shape = {.uncovered = uncovered};
    uint32_t visible_rows[KVT_QUERIES_MAX], top_k = sim->env.llm->top_k;

    (void)kvt_round_of_store(round, store, item->context_tokens, visible_rows, &shape.visible_rows);
    for (uint32_t q = 0; q < round->query_count; q++) {
        uint32_t visible = visible_rows[round->queries[q].depth];
        shape.selected += visible < top_k ? visible : top_k;
    }
    shape.weight = shape.selected * uncovered;
    return shape;
}

static struct round_kind kind_of(const struct backend_sim *sim, uint32_t stratum, uint64_t rounds,
                                 const struct call_shape *shape, const struct kvt_step_item *item)
{
    return round_kind_of(stratum, rounds, shape->visible_rows, shape->uncovered,
                         sim->env.llm->top_k, item->round->query_count);
}

/* ---- Who is followed ----------------------------------------------------------- */

/* Of those that could be followed and are not, the one whose hot caches are youngest: rounds of
 * all ages are then followed, and who is does not depend on how long it will stay. */
static const struct kvt_step_item *youngest_of(const struct backend_sim *sim,
                                               const struct kvt_rank_step *rank)
{
    const struct kvt_step_item *youngest = NULL;
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < rank->item_count; i++) {
        const struct lane *lane = sim->lanes[rank->items[i].request];
        if (lane->followed_count == 0 && lane->hot_tokens > 0 && lane->rounds < least) {
            least = lane->rounds;
            youngest = &rank->items[i];
        }
    }
    return youngest;
}

/* Whether a first round like the item's has never been followed. */
static bool is_new_kind(const struct backend_sim *sim, const struct kvt_step_item *item)
{
    for (uint32_t s = 0; s < sim->strata.count; s++) {
        struct call_shape shape = shape_of(sim, s, item, 1);
        struct round_kind kind = kind_of(sim, s, 0, &shape, item);
        if (!estimator_knows(sim->estimator, &kind))
            return true;
    }
    return false;
}

static kvt_status follow(struct backend_sim *sim, const struct kvt_step_item *item, bool is_extra,
                         struct kvt_error *err)
{
    struct lane *lane = sim->lanes[item->request];
    kvt_status status = lane_open_late(sim, lane, item->request, item->context_tokens, err);

    if (status != KVT_OK)
        return status;
    lane->is_extra = is_extra;
    memset(lane->seen, 0, sizeof lane->seen);
    sim->open_lanes++;
    return KVT_OK;
}

/* How many a rank follows, without the extra ones; of those, who are done are let go. */
static uint32_t go_on_following(struct backend_sim *sim, const struct kvt_rank_step *rank)
{
    uint32_t followed = 0;

    for (uint32_t i = 0; i < rank->item_count; i++) {
        struct lane *lane = sim->lanes[rank->items[i].request];
        if (lane->followed_count == 0)
            continue;
        if (lane->is_extra && lane->followed_rounds >= EXTRA_ROUNDS) {
            lane_unfollow(sim, lane);
            sim->open_lanes--;
            continue;
        }
        followed += !lane->is_extra;
        memset(lane->seen, 0, sizeof lane->seen);
    }
    return followed;
}

static kvt_status follow_rank(struct backend_sim *sim, const struct kvt_rank_step *rank,
                              struct kvt_error *err)
{
    uint32_t followed = go_on_following(sim, rank);
    const struct kvt_step_item *youngest = youngest_of(sim, rank);
    kvt_status status = KVT_OK;

    for (; youngest && followed < sim->env.sample_requests && status == KVT_OK; followed++) {
        status = follow(sim, youngest, false, err);
        youngest = youngest_of(sim, rank);
    }
    if (status == KVT_OK && youngest && sim->lanes[youngest->request]->rounds == 0 &&
        is_new_kind(sim, youngest))
        status = follow(sim, youngest, true, err);
    return status;
}

kvt_status pooled_follow(struct backend_sim *sim, const struct kvt_rank_step *ranks,
                         uint32_t rank_count, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (uint32_t r = 0; r < rank_count && status == KVT_OK; r++)
        status = follow_rank(sim, &ranks[r], err);
    return status;
}

/* Counts that fall with the share twice over: as what is looked up does, and as the hot cache is
 * larger for the rest. The estimator has them over the share. */
static const enum estimated misses[] = {
    ESTIMATED_MISSED,   ESTIMATED_FETCHED,       ESTIMATED_STAGED,
    ESTIMATED_GRANULES, ESTIMATED_MISSING_CALLS, ESTIMATED_DEMANDED,
    ESTIMATED_AHEAD,    ESTIMATED_PREDICTED,     ESTIMATED_DEEPENED};

/* ---- What they say about the rest ------------------------------------------------- */

static void learn(struct backend_sim *sim, const struct kvt_step_item *item)
{
    struct lane *lane = sim->lanes[item->request];
    double uncovered = uncovered_share(item);

    for (uint32_t s = 0; s < sim->strata.count; s++) {
        const struct kvt_stratum *stratum = &sim->strata.strata[s];
        lane->seen[s][ESTIMATED_DISTINCT] *= uncovered;
        for (size_t m = 0; m < sizeof misses / sizeof misses[0] && uncovered > 0; m++)
            lane->seen[s][misses[m]] /= uncovered;
        struct call_shape shape = shape_of(sim, s, item, uncovered);
        struct round_kind kind = kind_of(sim, s, lane->followed_rounds, &shape, item);
        double weight = (double)stratum->followed * stratum->selectors * shape.weight;
        if (weight > 0)
            estimator_add(sim->estimator, &kind, weight, lane->seen[s]);
    }
}

/* What the estimator would have made of a followed round, beside what it was. */
static void compare(struct backend_sim *sim, struct lane *lane, const struct kvt_step_item *item,
                    uint32_t s, const struct call_shape *shape)
{
    const struct kvt_stratum *stratum = &sim->strata.strata[s];
    struct kvt_spread *spread = &sim->sampling.strata[s];
    struct round_kind kind = kind_of(sim, s, lane->followed_rounds, shape, item);
    const double *rates = estimator_rates(sim->estimator, &kind);
    double weight = stratum->selectors * shape->weight; /* of one store */
    double fetched = weight * shape->uncovered * rates[ESTIMATED_FETCHED];
    double staged = shape->weight * shape->uncovered * rates[ESTIMATED_STAGED]; /* of a call */

    for (uint32_t i = 0; i < lane->followed_count; i++) {
        struct followed *followed = &lane->followed[i];
        if (sim->strata.stratum_of[followed->store] != s)
            continue;
        followed->expected[KVT_SAMPLED_SELECTED] += stratum->selectors * shape->selected;
        followed->expected[KVT_SAMPLED_MISSED] +=
            weight * shape->uncovered * rates[ESTIMATED_MISSED];
        followed->expected[KVT_SAMPLED_LOOKED_UP] += weight * rates[ESTIMATED_LOOKED_UP];
        followed->expected[KVT_SAMPLED_FETCHED] += fetched;
        for (uint32_t c = 0; c < stratum->selectors; c++)
            deviations_add(&sim->deviations[s], staged,
                           lane->staged_rows[followed->first_stream + c]);
    }
    double calls = (double)stratum->followed * stratum->selectors;
    double beyond =
        lane->seen[s][ESTIMATED_FETCHED] * shape->uncovered - stratum->followed * fetched;
    spread->rounds++;
    spread->call_squares += beyond * beyond / calls;
}

/* What crosses the link in a round's calls of a stratum; granules by share of the rows. */
static void count_crossing(const struct backend_sim *sim, double layers, double calls,
                           double miss_weight, const double *rates,
                           struct kvt_step_outcome *outcome)
{
    const struct kvt_row_format *payload = &sim->env.llm->payload;
    struct kvt_rank_load *load = &outcome->load;
    double demanded = miss_weight * rates[ESTIMATED_DEMANDED];
    double ahead = miss_weight * rates[ESTIMATED_AHEAD];
    double granules = miss_weight * rates[ESTIMATED_GRANULES];
    double predicted = miss_weight * rates[ESTIMATED_PREDICTED];
    double demanded_share = ahead > 0 ? demanded / (demanded + ahead) : 1;

    load->missed_rows += demanded;
    load->missed_layer_rows += layers * demanded;
    load->leader_layer_rows += demanded;
    load->wire_bytes += layers * demanded * payload->wire_bytes;
    load->granules += granules * demanded_share;
    load->ahead.rows += ahead;
    load->ahead.layer_rows += layers * ahead;
    load->ahead.wire_bytes += layers * ahead * payload->wire_bytes;
    load->ahead.granules += granules * (1 - demanded_share);
    load->ahead.calls += ahead > 0 ? calls : 0;
    outcome->payload_bytes += layers * (demanded + ahead) * payload->capacity_bytes;
    outcome->prefetched_rows += predicted;
    outcome->wasted_rows += predicted * (kvt_sent_per_predicted(&sim->env.prefetch) - 1);
    outcome->deepened_rows += miss_weight * rates[ESTIMATED_DEEPENED];
}

static void count_round(struct backend_sim *sim, const struct kvt_step_item *item, uint32_t s,
                        const struct call_shape *shape, struct kvt_step_outcome *outcome)
{
    const struct kvt_stratum *stratum = &sim->strata.strata[s];
    struct lane *lane = sim->lanes[item->request];
    struct kvt_rank_load *load = &outcome->load;
    struct round_kind kind = kind_of(sim, s, lane->rounds, shape, item);
    const double *rates = estimator_rates(sim->estimator, &kind);
    double selectors = (double)stratum->stores * stratum->selectors;
    double calls = selectors * (sim->env.resolve_each_query ? item->round->query_count : 1);
    double selected = selectors * shape->selected, weight = selectors * shape->weight;
    double layers = (double)stratum->layers / stratum->stores;
    double miss_weight = weight * shape->uncovered;
    double fetched = miss_weight * rates[ESTIMATED_FETCHED];

    load->calls += calls;
    load->selected_rows += selected;
    load->attended_layer_rows += layers * selected;
    load->looked_up_rows += weight * rates[ESTIMATED_LOOKED_UP_ROWS];
    load->calls_with_misses += fmin(miss_weight * rates[ESTIMATED_MISSING_CALLS], calls);
    count_crossing(sim, layers, calls, miss_weight, rates, outcome);
    lane->expected_staged[s] = miss_weight * rates[ESTIMATED_STAGED] / selectors;

    const double counts[KVT_SAMPLED_COUNTS] = {
        [KVT_SAMPLED_SELECTED] = selected,
        [KVT_SAMPLED_MISSED] = miss_weight * rates[ESTIMATED_MISSED],
        [KVT_SAMPLED_LOOKED_UP] = weight * rates[ESTIMATED_LOOKED_UP],
        [KVT_SAMPLED_FETCHED] = fetched};
    for (int c = 0; c < KVT_SAMPLED_COUNTS; c++) {
        outcome->counts[c] += counts[c];
        sim->sampling.strata[s].whole[c] += counts[c];
    }
}

static void estimate(struct backend_sim *sim, const struct kvt_step_item *item,
                     struct kvt_step_outcome *outcome)
{
    struct lane *lane = sim->lanes[item->request];
    double uncovered = uncovered_share(item);

    for (uint32_t s = 0; s < sim->strata.count; s++) {
        struct call_shape shape = shape_of(sim, s, item, uncovered);
        if (lane->followed_count > 0)
            compare(sim, lane, item, s, &shape);
        count_round(sim, item, s, &shape, outcome);
    }
    if (lane->followed_count > 0) {
        lane->followed_rounds++;
        sim->sampling.followed_rounds++;
        sim->sampling.followed_at_once += sim->open_lanes;
    }
    lane->rounds++;
}

kvt_status pooled_estimate(struct backend_sim *sim, struct kvt_rank_step *ranks,
                           uint32_t rank_count, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (uint32_t r = 0; r < rank_count; r++) {
        for (uint32_t i = 0; i < ranks[r].item_count; i++) {
            if (sim->lanes[ranks[r].items[i].request]->followed_count > 0)
                learn(sim, &ranks[r].items[i]);
        }
    }
    for (uint32_t r = 0; r < rank_count; r++) {
        for (uint32_t i = 0; i < ranks[r].item_count; i++) {
            if (sim->lanes[ranks[r].items[i].request]->hot_tokens > 0)
                estimate(sim, &ranks[r].items[i], &ranks[r].outcome);
        }
    }
    for (uint32_t r = 0; r < rank_count && status == KVT_OK; r++)
        status = waves_count(sim, &sim->workers[0], &ranks[r], &sim->deviation_rng, err);
    return status;
}
