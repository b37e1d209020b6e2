/* dspark_plan.c -- how many drafts are worth verifying, and whose.
 *
 *     S(r, i) = product of the confidences of request r's drafts 1 to i
 *     size:     B = argmax over b of (R + sum of the b largest S) / (draft(R) + verify(R + b))
 *               by confidences `confidence_lag_rounds` old, as the host has no newer ones,
 *               and older where few requests decode
 *     allocate: the B largest S by the current ones, on each rank its share of B at most; each
 *               request gets a prefix of its drafts
 *     early stop: the first b after which the ratio falls, not the best of all
 *
 * With n drafts of R requests a plan takes O(n log R). Sources: DSpark, arXiv 2607.05147,
 * algorithm 1 and its production variant; vLLM pull request 47808, whose sizing this is. A
 * request without confidences so old is taken to have the chances of the table. */
#include <string.h>

#include "course.h"
#include "dspark.h"
#include "survival.h"

/* ---- Sizing and allocating ----------------------------------------------------------- */

/* Of a round `rounds_back` before the next one. */
static double confidence_at(const struct dspark *dspark, const struct course *course,
                            uint32_t rounds_back, uint32_t position)
{
    if (course_rounds(course) < rounds_back)
        return dspark->acceptance.lists[course->task].chances[position];
    struct kvt_rng rng = course_draws(course, DRAW_CONFIDENCE + position, rounds_back);
    return confidence_draw(&dspark->confidences[dspark->confidence_of[course->task][position]],
                           &rng);
}

static uint32_t drafts_of(const struct dspark *dspark,
                          const struct kvt_speculation_request *request)
{
    uint32_t left = request->queries_max - 1;
    return dspark->drafts < left ? dspark->drafts : left;
}

/* The scratch of a plan: a survivor for each request, then a gain for each draft. */
static double *gains_of(const struct kvt_speculation_view *view)
{
    struct survivor *survivors = view->scratch;
    return (double *)(void *)(survivors + view->request_count);
}

/* All drafts of a step that may be verified, by confidences of that age. */
struct candidates {
    const struct dspark *dspark;
    const struct kvt_speculation_view *view;
    uint32_t rounds_back;
    struct survival_heap heap;
};

static void candidates_open(struct candidates *candidates)
{
    const struct kvt_speculation_view *view = candidates->view;
    candidates->heap = (struct survival_heap){.items = view->scratch};
    for (uint32_t i = 0; i < view->request_count; i++) {
        const struct kvt_speculation_request *request = &view->requests[i];
        if (drafts_of(candidates->dspark, request) == 0)
            continue;
        candidates->heap.items[candidates->heap.count++] = (struct survivor){
            .survival =
                confidence_at(candidates->dspark, request->state, candidates->rounds_back, 0),
            .request = i,
        };
    }
    survival_heap_order(&candidates->heap);
}

/* The best that is left, by its request; there is one. */
static uint32_t candidates_take(struct candidates *candidates, double *survival)
{
    const struct survivor best = candidates->heap.items[0];
    const struct kvt_speculation_request *request = &candidates->view->requests[best.request];
    uint32_t next = best.position + 1;
    *survival = best.survival;
    if (next == drafts_of(candidates->dspark, request))
        survival_heap_remove(&candidates->heap);
    else
        survival_heap_replace(&candidates->heap,
                              best.survival * confidence_at(candidates->dspark, request->state,
                                                            candidates->rounds_back, next));
    return best.request;
}

static double step_cost(const struct dspark *dspark, const struct kvt_speculation_view *view,
                        uint32_t drafts_made, uint32_t verified)
{
    uint32_t requests = view->request_count;
    uint32_t queries = requests + verified;
    if (dspark->costs != NULL)
        return kvt_costs_draft_ms(dspark->costs, requests) +
               kvt_costs_verify_ms(dspark->costs, queries);
    return view->step_ns(view->step_context, requests, drafts_made, queries);
}

/* Adds the survivals of the step's drafts, largest first, by confidences of that age. */
static void add_gains(const struct dspark *dspark, const struct kvt_speculation_view *view,
                      uint32_t rounds_back, double *gains)
{
    struct candidates candidates = {.dspark = dspark, .view = view, .rounds_back = rounds_back};
    candidates_open(&candidates);
    for (; candidates.heap.count > 0; gains++) {
        double survival = 0;
        (void)candidates_take(&candidates, &survival);
        *gains += survival;
    }
}

/* Where few requests decode, a round's confidences say little of the next one's: the gains are
 * means over as many rounds as make up confidence_pool_requests. */
static uint32_t best_budget(const struct dspark *dspark, const struct kvt_speculation_view *view)
{
    uint32_t requests = view->request_count;
    double *gains = gains_of(view);
    uint32_t made = 0;
    for (uint32_t i = 0; i < requests; i++)
        made += drafts_of(dspark, &view->requests[i]);
    memset(gains, 0, made * sizeof gains[0]);
    uint32_t rounds = (dspark->pool_requests + requests - 1) / requests;
    for (uint32_t i = 0; i < rounds; i++)
        add_gains(dspark, view, dspark->lag_rounds + i, gains);

    double tokens = requests;
    double best_tokens = tokens;
    double best_cost = step_cost(dspark, view, made, 0);
    uint32_t best = 0;
    for (uint32_t verified = 1; verified <= made; verified++) {
        tokens += gains[verified - 1] / rounds;
        double cost = step_cost(dspark, view, made, verified);
        if (tokens * best_cost > best_tokens * cost) {
            best_tokens = tokens;
            best_cost = cost;
            best = verified;
        } else if (dspark->early_stop) {
            break;
        }
    }
    return best;
}

/* How many drafts each rank may verify, where the gains lay: there are no more ranks than requests,
 * and a request has one gain at least. */
static uint32_t *share_budget(const struct kvt_speculation_view *view, uint32_t budget)
{
    uint32_t *shares = (uint32_t *)(void *)gains_of(view);
    memset(shares, 0, view->request_count * sizeof shares[0]);
    for (uint32_t i = 0; i < view->request_count; i++)
        shares[view->requests[i].rank]++;
    for (uint32_t rank = 0; rank < view->request_count; rank++)
        shares[rank] = kvt_rank_drafts(budget, shares[rank], view->request_count);
    return shares;
}

/* Into query_count of each round. A draft of a rank that has had its share is passed over, and so
 * are those behind it: the rank's share does not come back. */
static void allocate(const struct dspark *dspark, const struct kvt_speculation_view *view,
                     struct kvt_round *rounds)
{
    struct candidates candidates = {.dspark = dspark, .view = view, .rounds_back = 0};
    uint32_t budget = best_budget(dspark, view);
    uint32_t *shares = share_budget(view, budget);
    for (uint32_t i = 0; i < view->request_count; i++)
        rounds[i].query_count = 1;
    candidates_open(&candidates);
    while (budget > 0 && candidates.heap.count > 0) {
        double survival = 0;
        uint32_t taken = candidates_take(&candidates, &survival);
        uint32_t *share = &shares[view->requests[taken].rank];
        if (*share == 0)
            continue;
        (*share)--;
        rounds[taken].query_count++;
        budget--;
    }
}

/* ---- Rounds ----------------------------------------------------------------------------- */

static uint32_t run_round(const struct dspark *dspark, struct course *course, uint32_t verified)
{
    struct kvt_rng rng = course_draws(course, DRAW_ACCEPTANCE, 0);
    uint32_t accepted = 0;
    while (accepted < verified && kvt_rng_unit(&rng) < confidence_at(dspark, course, 0, accepted))
        accepted++;
    course_end_round(course);
    return accepted;
}

void kvt_dspark_plan(const void *method, const struct kvt_speculation_view *view,
                     struct kvt_round *rounds)
{
    const struct dspark *dspark = method;
    if (dspark->fixed_drafts == 0 && view->request_count > 0)
        allocate(dspark, view, rounds);
    for (uint32_t i = 0; i < view->request_count; i++) {
        const struct kvt_speculation_request *request = &view->requests[i];
        uint32_t drafts = drafts_of(dspark, request);
        uint32_t verified = dspark->fixed_drafts == 0 ? rounds[i].query_count - 1 : drafts;
        kvt_round_chain(&rounds[i], 1 + verified, 1 + run_round(dspark, request->state, verified));
        rounds[i].draft_tokens = drafts;
    }
}

size_t kvt_dspark_plan_bytes(const void *method, uint32_t request_count)
{
    const struct dspark *dspark = method;
    return request_count * (sizeof(struct survivor) + dspark->drafts * sizeof(double));
}
