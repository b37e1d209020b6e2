/* backend_crossing.c -- how what a call lacks crosses the link.
 *
 *     depth:   a row that missed has no plane yet, one that hit has its first or both
 *                  for each query, for each row that it looks up and that has not both
 *                      its first is enough, or both are needed: by chance of (request, selector,
 *                      step, query, row)
 *              missed: its first plane crosses, or both; hit: nothing, or the second
 *     ahead:   for each missed row, by chance of (request, selector, step, query, row)
 *                  predicted: what crosses of it was sent before
 *              and of wrong rows as many more as the predictor's precision says
 *
 * All of it follows what kvt_resolve() has decided, and nothing of it comes back: a cache's slots
 * and order are as if every row crossed whole, on demand. A row's planes are known of the rows in
 * the cache alone: a row that comes in again was missed, and has none. Rows of the tail and of
 * pages are whole. */
#include <stdlib.h>

#include "backend_sim_private.h"
#include "kvt/hash.h"
#include "kvt/layout.h"

/* The draws of a call's query: draw i is row i's. */
static struct kvt_rng draws_of(const struct backend_sim *sim, enum kvt_rng_purpose purpose,
                               const struct read_call *read, uint32_t query)
{
    uint64_t call = kvt_chain64((uint64_t)read->item->request << 32 | read->selector,
                                read->item->step * KVT_QUERIES_MAX + read->first_query + query);

    return kvt_rng_stream(sim->env.run_seed, purpose, call);
}

static bool is_drawn(struct kvt_rng draws, uint32_t row, double share)
{
    draws.counter = row;
    return kvt_rng_unit(&draws) < share;
}

/* ---- Depth ------------------------------------------------------------------------ */

kvt_status crossing_open(const struct backend_sim *sim, const struct lane *lane,
                         struct followed *followed, struct kvt_error *err)
{
    uint32_t rows = kvt_store_rows(&sim->env.llm->stores[followed->store], lane->last_tokens);

    if (!kvt_reads_planes(&sim->env.read_depth))
        return KVT_OK;
    followed->deep_rows = calloc(kvt_row_words(rows) + 1, sizeof *followed->deep_rows);
    return followed->deep_rows ? KVT_OK : kvt_fail_nomem(err, "the planes of cached rows");
}

/* Of a word of rows those that the call looks up: in no ready page, and before the tail. */
static uint64_t looked_up(const struct kvt_resolve_call *call, size_t word)
{
    uint64_t rows = call->page_rows ? ~call->page_rows[word] : ~UINT64_C(0);
    uint32_t tail_word = call->tail_first_row / 64;

    if (word < tail_word)
        return rows;
    return word == tail_word ? rows & ((UINT64_C(1) << call->tail_first_row % 64) - 1) : 0;
}

/* Which rows of the call now have both planes; returns how many of those had hit. */
static uint32_t deepen(const struct backend_sim *sim, const struct worker *worker,
                       const struct read_call *read, uint64_t *deep_rows)
{
    const struct kvt_resolve_call *call = read->call;
    const uint64_t *missed = worker->missed_rows;
    size_t words = kvt_row_words(call->tail_first_row);
    uint32_t deepened = 0;

    for (uint32_t q = 0; q < call->query_count; q++) {
        struct kvt_rng draws = draws_of(sim, KVT_RNG_DEPTH, read, q);
        for (size_t w = 0; w < words; w++) {
            uint64_t left = call->selections[q][w] & looked_up(call, w) & ~deep_rows[w];
            for (; left != 0; left &= left - 1) {
                uint64_t bit = left & -left;
                uint32_t row = (uint32_t)(64 * w) + (uint32_t)__builtin_ctzll(left);
                if (is_drawn(draws, row, sim->env.read_depth.shallow_share))
                    continue;
                deep_rows[w] |= bit;
                deepened += (missed[w] & bit) == 0;
            }
        }
    }
    return deepened;
}

static uint32_t read_planes(const struct backend_sim *sim, const struct worker *worker,
                            const struct read_call *read, uint64_t *deep_rows)
{
    const uint32_t *missed = read->result->missed;
    uint32_t missed_count = read->result->filled_rows + read->result->staged_rows;

    kvt_row_set_add(worker->missed_rows, missed, missed_count);
    for (uint32_t i = 0; i < missed_count; i++)
        deep_rows[missed[i] / 64] &= ~(UINT64_C(1) << missed[i] % 64);
    uint32_t deepened = deepen(sim, worker, read, deep_rows);
    for (uint32_t i = 0; i < missed_count; i++)
        worker->missed_rows[missed[i] / 64] = 0;
    return deepened;
}

/* ---- Ahead ------------------------------------------------------------------------- */

/* The chance of a row of the call. Nothing has been computed that tells of the first selector's;
 * where some of its stratum's stores stand for others, each has its part of that. */
static double recall_of(const struct backend_sim *sim, const struct followed *followed,
                        const struct read_call *read)
{
    const struct kvt_prefetch *prefetch = &sim->env.prefetch;
    uint32_t s = sim->strata.stratum_of[followed->store];
    const struct kvt_stratum *stratum = &sim->strata.strata[s];
    uint32_t first_stratum = sim->strata.stratum_of[sim->env.llm->selectors[0].store];
    double selectors = (double)stratum->stores * stratum->selectors;

    if (prefetch->lead != KVT_LEAD_SELECTOR || s != first_stratum)
        return prefetch->recall;
    if (stratum->followed < stratum->stores)
        return prefetch->recall * (selectors - 1) / selectors;
    return read->selector > 0 ? prefetch->recall : 0;
}

/* What one missed row has cross the link, and in how many pieces. */
struct piece {
    double rows, pieces;
};

static void add_missed(const struct backend_sim *sim, const struct read_call *read, double recall,
                       const uint64_t *deep_rows, const struct piece *first,
                       const struct piece *both, struct kvt_crossing *out)
{
    uint32_t missed_count = read->result->filled_rows + read->result->staged_rows;
    struct kvt_rng draws = draws_of(sim, KVT_RNG_PREFETCH, read, 0);
    double sent = kvt_sent_per_predicted(&sim->env.prefetch);
    double ahead_rows = 0, ahead_pieces = 0;

    for (uint32_t i = 0; i < missed_count; i++) {
        uint32_t row = read->result->missed[i];
        const struct piece *piece = !deep_rows || kvt_row_is_in(deep_rows, row) ? both : first;
        if (is_drawn(draws, row, recall)) {
            out->predicted_rows++;
            ahead_rows += piece->rows;
            ahead_pieces += piece->pieces;
        } else {
            out->demanded_rows += piece->rows;
            out->demanded_pieces += piece->pieces;
        }
    }
    out->wasted_rows = out->predicted_rows * (sent - 1);
    out->ahead_rows = ahead_rows * sent;
    out->ahead_pieces = ahead_pieces * sent;
}

void crossing_of(const struct backend_sim *sim, const struct worker *worker,
                 struct followed *followed, const struct read_call *read, struct kvt_crossing *out)
{
    const struct kvt_resolve_result *result = read->result;
    const struct kvt_llm *llm = sim->env.llm;
    const struct kvt_store *store = &llm->stores[followed->store];
    double recall = recall_of(sim, followed, read);
    double shallow = sim->env.read_depth.shallow_fraction;
    struct piece first = {1, 1}, both = {1, 1};

    *out = kvt_calls_cross_whole(result);
    if (result->skipped || (!followed->deep_rows && recall <= 0))
        return;
    *out = (struct kvt_crossing){0};
    if (followed->deep_rows) {
        double page_bytes = (double)KVT_PAGE_ROWS / store->compress_ratio * store->layers *
                            llm->payload.capacity_bytes;
        first.rows = shallow;
        both.pieces += kvt_planes_apart_share(page_bytes, shallow);
        out->deepened_rows = read_planes(sim, worker, read, followed->deep_rows);
        out->demanded_rows = out->deepened_rows * (1 - shallow);
        out->demanded_pieces = out->deepened_rows;
    }
    add_missed(sim, read, recall, followed->deep_rows, &first, &both, out);
}
