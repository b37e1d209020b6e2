/* backend_inspect.c -- how the predicted backend decided: caches, calls and selections of the
 * newest step, for whoever compares it with another. */
#include <stdlib.h>
#include <string.h>

#include "backend_sim_private.h"

static size_t query_of(const struct backend_sim *sim, uint32_t selector, uint32_t query)
{
    return (size_t)selector * sim->env.speculation.queries_max + query;
}

kvt_status kept_new(const struct backend_sim *sim, struct kept **out, struct kvt_error *err)
{
    size_t queries = query_of(sim, sim->env.llm->selector_count, 0);
    size_t rows = queries * sim->env.llm->top_k;
    struct kept *kept = calloc(1, sizeof *kept);

    if (!kept)
        return kvt_fail_nomem(err, "the calls of a step");
    kept->calls = calloc(queries, sizeof *kept->calls);
    kept->counts = calloc(queries, sizeof *kept->counts);
    kept->missed = malloc(rows * sizeof *kept->missed);
    kept->selected = malloc(rows * sizeof *kept->selected);
    if (!kept->calls || !kept->counts || !kept->missed || !kept->selected) {
        kept_free(kept);
        return kvt_fail_nomem(err, "the calls of a step");
    }
    *out = kept;
    return KVT_OK;
}

void kept_free(struct kept *kept)
{
    if (!kept)
        return;
    free(kept->calls);
    free(kept->counts);
    free(kept->missed);
    free(kept->selected);
    free(kept);
}

void kept_begin(const struct backend_sim *sim, struct kept *kept)
{
    size_t queries = query_of(sim, sim->env.llm->selector_count, 0);

    memset(kept->calls, 0, queries * sizeof *kept->calls);
    memset(kept->counts, 0, queries * sizeof *kept->counts);
}

void kept_add_selection(const struct backend_sim *sim, const struct worker *worker,
                        struct kept *kept, uint32_t selector, uint32_t queries,
                        uint32_t visible_rows)
{
    for (uint32_t q = 0; q < queries; q++) {
        size_t at = query_of(sim, selector, q);
        kept->counts[at] = kvt_row_set_list(worker->sets[q], kvt_row_words(visible_rows),
                                            kept->selected + at * sim->env.llm->top_k);
    }
}

void kept_add_call(const struct backend_sim *sim, struct kept *kept, uint32_t selector,
                   uint32_t query, const struct kvt_resolve_result *result)
{
    size_t at = query_of(sim, selector, query);
    uint32_t *missed = kept->missed + at * sim->env.llm->top_k;
    uint32_t count = result->filled_rows + result->staged_rows;

    if (count > 0)
        memcpy(missed, result->missed, count * sizeof *missed);
    kept->calls[at] = *result;
    kept->calls[at].missed = missed;
    kept->calls[at].fills = kept->calls[at].evicted =
        NULL; /* the resolver's, until its next call */
    kept->calls[at].promoted = kept->calls[at].promoted_slots = NULL;
}

void kept_add_whole(const struct backend_sim *sim, struct kept *kept, uint32_t store,
                    uint32_t queries)
{
    for (uint32_t s = 0; s < sim->env.llm->selector_count; s++) {
        for (uint32_t q = 0; q < queries && sim->env.llm->selectors[s].store == store; q++)
            kept->calls[query_of(sim, s, q)].skipped = true;
    }
}

/* ---- What is asked ------------------------------------------------------------------- */

/* NULL: *status says why. */
static struct lane *find_lane(const struct backend_sim *sim, uint32_t request, bool with_calls,
                              kvt_status *status, struct kvt_error *err)
{
    struct lane *lane = request < sim->lane_capacity ? sim->lanes[request] : NULL;

    *status = KVT_OK;
    if (!lane)
        *status = kvt_fail(err, KVT_ERR_NOT_FOUND, "backend \"sim\"", "request %u does not decode",
                           request);
    else if (sim->estimator || sim->env.sample_stores > 0 || (with_calls && !lane->kept))
        *status = kvt_fail(err, KVT_ERR_UNSUPPORTED, "backend \"sim\"",
                           "it keeps nothing to compare with another: an exact run that is "
                           "inspected is expected");
    return *status == KVT_OK ? lane : NULL;
}

kvt_status backend_sim_state_hashes(struct kvt_backend *backend, uint32_t request, uint64_t *hashes,
                                    struct kvt_error *err)
{
    struct backend_sim *sim = backend_sim_of(backend);
    kvt_status status;

    memset(hashes, 0, sim->env.llm->store_count * sizeof *hashes);
    if (!sim->env.hierarchy)
        return KVT_OK;
    const struct lane *lane = find_lane(sim, request, false, &status, err);
    if (!lane)
        return status;
    for (uint32_t i = 0; i < lane->followed_count; i++) {
        if (lane->followed[i].cache)
            hashes[lane->followed[i].store] =
                kvt_hot_cache_state_hash(sim->workers[0].resolver, lane->followed[i].cache);
    }
    return KVT_OK;
}

kvt_status backend_sim_inspect_call(struct kvt_backend *backend, uint32_t request,
                                    uint32_t selector, uint32_t query,
                                    struct kvt_resolve_result *out, struct kvt_error *err)
{
    struct backend_sim *sim = backend_sim_of(backend);
    kvt_status status;
    const struct lane *lane = find_lane(sim, request, true, &status, err);

    if (lane)
        *out = lane->kept->calls[query_of(sim, selector, query)];
    return status;
}

kvt_status backend_sim_inspect_cache(struct kvt_backend *backend, uint32_t request, uint32_t store,
                                     struct kvt_backend_cache *out, struct kvt_error *err)
{
    struct backend_sim *sim = backend_sim_of(backend);
    kvt_status status;
    const struct lane *lane = find_lane(sim, request, true, &status, err);

    if (!lane)
        return status;
    const struct kvt_hot_cache *cache = lane->followed[store].cache;
    *out = (struct kvt_backend_cache){0};
    if (!cache)
        return KVT_OK;
    kvt_hot_cache_ranks(cache, sim->inspected_ranks);
    *out = (struct kvt_backend_cache){.state_hash =
                                          kvt_hot_cache_state_hash(sim->workers[0].resolver, cache),
                                      .slot_count = kvt_hot_cache_slot_count(cache),
                                      .rows = kvt_hot_cache_rows(cache),
                                      .ranks = sim->inspected_ranks};
    return KVT_OK;
}

kvt_status backend_sim_selection(struct kvt_backend *backend, uint32_t request, uint32_t selector,
                                 uint32_t query, uint32_t *rows, uint32_t *count,
                                 struct kvt_error *err)
{
    struct backend_sim *sim = backend_sim_of(backend);
    kvt_status status;
    const struct lane *lane = find_lane(sim, request, true, &status, err);

    if (!lane)
        return status;
    size_t at = query_of(sim, selector, query);
    *count = lane->kept->counts[at];
    memcpy(rows, lane->kept->selected + at * sim->env.llm->top_k, *count * sizeof *rows);
    return KVT_OK;
}
