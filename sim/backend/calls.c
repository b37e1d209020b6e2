/* calls.c -- what every backend does alike around a call. */
#include "kvt/calls.h"

#include <stdlib.h>

#include "kvt/hash.h"
#include "kvt/layout.h"
#include "kvt/waves.h"
#include "kvt/workload.h"

enum {
    LENGTHS_MAX = KVT_INPUTS_MAX * KVT_STRATA_MAX /* of all kinds of stores */
};

static const struct kvt_law *law_of(const struct kvt_backend_env *env)
{
    return (const struct kvt_law *)(const void *)env->selection.info;
}

/* ---- What calls are made with ------------------------------------------------- */

uint32_t kvt_env_rows_max(const struct kvt_backend_env *env)
{
    uint32_t rows = 0;

    for (uint32_t s = 0; s < env->llm->store_count; s++) {
        uint32_t store_rows = kvt_store_rows(&env->llm->stores[s],
                                             env->longest_tokens + env->speculation.queries_max);
        rows = store_rows > rows ? store_rows : rows;
    }
    return rows;
}

uint32_t kvt_env_slots_max(const struct kvt_backend_env *env)
{
    uint32_t slots = 1;

    for (uint32_t s = 0; s < env->llm->store_count; s++) {
        uint32_t store_slots = kvt_hot_slots(env->llm, &env->llm->stores[s], env->hot_tokens,
                                             env->llm->max_position_tokens);
        slots = store_slots > slots ? store_slots : slots;
    }
    return slots;
}

kvt_status kvt_calls_prepare_law(const struct kvt_backend_env *env, const struct kvt_strata *strata,
                                 bool all_streams, struct kvt_law_streams *streams, void **out,
                                 struct kvt_error *err)
{
    uint32_t lengths[LENGTHS_MAX], tokens_per_row[LENGTHS_MAX];
    uint32_t stream_tokens[KVT_SELECTORS_MAX];
    size_t length_count = 0;

    for (uint32_t i = 0; i < env->llm->selector_count; i++) {
        streams->store[i] = env->llm->selectors[i].store;
        stream_tokens[i] = env->llm->stores[streams->store[i]].compress_ratio;
    }
    /* The lengths that selections start from, in rows of each kind of store. */
    for (uint32_t s = 0; s < strata->count; s++) {
        uint32_t ratio = strata->strata[s].compress_ratio;
        for (size_t i = 0; i < env->input_count && i < KVT_INPUTS_MAX; i++) {
            lengths[length_count] = (env->input_tokens[i] + 1) / ratio;
            tokens_per_row[length_count++] = ratio;
        }
    }
    struct kvt_law_env law_env = {.params = env->selection.params,
                                  .top_k = env->llm->top_k,
                                  .stream_count = env->llm->selector_count,
                                  .stream_store = streams->store,
                                  .stream_tokens_per_row = stream_tokens,
                                  .side_paths = env->speculation.side_paths,
                                  .side_tokens = env->speculation.side_tokens,
                                  .context_rows = lengths,
                                  .context_tokens_per_row = tokens_per_row,
                                  .context_count = length_count,
                                  .output_tokens = env->output_tokens,
                                  .run_seed = env->run_seed,
                                  .cache_dir = env->cache_dir,
                                  .threads = env->threads,
                                  .progress = env->on_prepare,
                                  .progress_context = env->prepare_context,
                                  .host = kvt_host(),
                                  .all_streams = all_streams,
                                  .source = env->source,
                                  .context = env->law_context};
    return KVT_PLUGIN_CALL(law_of(env), prepare, err, &law_env, out);
}

kvt_status kvt_calls_open_stream(const struct kvt_backend_env *env, void *law_data,
                                 const struct kvt_stream_spec *spec, void **out,
                                 struct kvt_error *err)
{
    const struct kvt_store *store = &env->llm->stores[env->llm->selectors[spec->selector].store];
    struct kvt_law_stream_env stream_env = {.request = spec->request,
                                            .selector = spec->selector,
                                            .context_rows =
                                                kvt_store_rows(store, spec->context_tokens + 1),
                                            .rows_max = kvt_store_rows(store, spec->last_tokens),
                                            .tokens_per_row = store->compress_ratio,
                                            .context_tokens = spec->context_tokens,
                                            .looks_ahead = spec->looks_ahead};
    size_t bytes = law_of(env)->stream_bytes(law_data, &stream_env);
    void *stream = calloc(1, bytes ? bytes : 1);

    *out = NULL;
    if (!stream)
        return kvt_fail_nomem(err, "a stream of selections");
    kvt_status status =
        KVT_PLUGIN_CALL(law_of(env), stream_init, err, law_data, stream, &stream_env);
    if (status == KVT_OK)
        *out = stream;
    else
        free(stream);
    return status;
}

void kvt_calls_close_stream(const struct kvt_backend_env *env, void *law_data, void *stream)
{
    if (stream && law_of(env)->stream_fini)
        law_of(env)->stream_fini(law_data, stream);
    free(stream);
}

kvt_status kvt_calls_end_step(const struct kvt_backend_env *env, void *law_data,
                              struct kvt_error *err)
{
    return law_data && law_of(env)->end_step ? KVT_PLUGIN_CALL(law_of(env), end_step, err, law_data)
                                             : KVT_OK;
}

uint32_t kvt_calls_slots(const struct kvt_llm *llm, uint32_t store, uint64_t hot_tokens,
                         uint32_t max_tokens)
{
    uint32_t slots = kvt_hot_slots(llm, &llm->stores[store], hot_tokens, max_tokens);

    return slots > 0 ? slots : 1;
}

kvt_status kvt_calls_open_cache(const struct kvt_backend_env *env, uint32_t request, uint32_t store,
                                uint64_t hot_tokens, uint32_t max_tokens, uint32_t last_tokens,
                                struct kvt_hot_cache **out, struct kvt_error *err)
{
    struct kvt_replacement_env cache_env = {
        .params = env->replacement.params,
        .slot_count = kvt_calls_slots(env->llm, store, hot_tokens, max_tokens),
        .top_k = env->llm->top_k,
        .entity = (uint64_t)request * KVT_STORES_MAX + store,
        .run_seed = env->run_seed,
        .host = kvt_host(),
        .rows_per_page = KVT_PAGE_ROWS / env->llm->stores[store].compress_ratio};
    const struct kvt_replacement_policy *replacement =
        (const struct kvt_replacement_policy *)(const void *)env->replacement.info;

    return kvt_hot_cache_new(replacement, &cache_env,
                             kvt_store_rows(&env->llm->stores[store], last_tokens), out, err);
}

void kvt_calls_watch(const struct kvt_backend_env *env, void *law_data,
                     const struct kvt_step_item *item, uint32_t store, void *stream,
                     const struct kvt_law_round *round, const uint64_t *const *sets, size_t words,
                     float *page_scores)
{
    uint32_t rows_per_page = KVT_PAGE_ROWS / env->llm->stores[store].compress_ratio;
    struct kvt_page_watch *watch = item->watch;

    for (uint32_t q = 0; q < round->query_count && watch->hits; q++)
        kvt_page_watch_hit(watch, sets[q], words, rows_per_page);
    if (!watch->scores)
        return;
    uint32_t seen = round->visible_rows[round->committed_tokens - 1];
    law_of(env)->page_scores(law_data, stream, seen, rows_per_page, page_scores);
    kvt_page_watch_score(watch, page_scores, (seen + rows_per_page - 1) / rows_per_page,
                         env->llm->selector_count);
}

/* ---- What is made of them ----------------------------------------------------- */

void kvt_calls_count_item(const struct kvt_step_item *item, struct kvt_step_outcome *outcome)
{
    outcome->load.requests++;
    outcome->load.queries += item->round->query_count;
    outcome->load.draft_tokens += item->round->draft_tokens;
    outcome->load.context_rows += item->context_tokens;
}

struct kvt_resolve_result kvt_calls_resident(const struct kvt_llm *llm, uint32_t visible_rows)
{
    return kvt_calls_resident_set(llm->top_k < visible_rows ? llm->top_k : visible_rows);
}

struct kvt_resolve_result kvt_calls_resident_set(uint32_t rows)
{
    return (struct kvt_resolve_result){.union_rows = rows,
                                       .page_rows = rows,
                                       .selected = rows,
                                       .page_selected = rows,
                                       .skipped = true};
}

struct kvt_crossing kvt_calls_cross_whole(const struct kvt_resolve_result *result)
{
    double fetched = result->filled_rows + result->staged_rows;

    return (struct kvt_crossing){.demanded_rows = fetched, .demanded_pieces = fetched};
}

void kvt_calls_count_rows(struct kvt_row_counts *rows, const struct kvt_resolve_result *result)
{
    rows->calls++;
    rows->skipped_calls += result->skipped;
    rows->selected += result->selected;
    rows->tail += result->tail_selected;
    rows->page += result->page_selected;
    rows->hot += result->hot_selected;
    rows->missed += result->missed_selected;
    rows->union_rows += result->union_rows;
    rows->union_tail += result->tail_rows;
    rows->union_page += result->page_rows;
    rows->union_hot += result->hot_rows;
    rows->filled += result->filled_rows;
    rows->staged += result->staged_rows;
}

/* What crosses the link of a call, in places that are as good as random. What was sent ahead has
 * brought its granules near: of a granule the first row pays. */
static void count_crossing(const struct kvt_llm *llm, double scale, double store_layers,
                           uint32_t visible_rows, const struct kvt_crossing *crossing,
                           struct kvt_step_outcome *outcome)
{
    struct kvt_rank_load *load = &outcome->load;
    struct kvt_ahead_load *ahead = &load->ahead;
    double pieces = crossing->demanded_pieces + crossing->ahead_pieces;

    if (pieces <= 0)
        return;
    double demanded_share = crossing->demanded_pieces / pieces;
    double demanded_layer_rows = scale * store_layers * crossing->demanded_rows;
    double ahead_layer_rows = scale * store_layers * crossing->ahead_rows;
    double granules = scale * kvt_distinct_granules(
                                  visible_rows, store_layers * llm->payload.capacity_bytes, pieces);

    load->missed_rows += scale * crossing->demanded_rows;
    load->missed_layer_rows += demanded_layer_rows;
    load->leader_layer_rows += scale * crossing->demanded_rows;
    load->wire_bytes += demanded_layer_rows * llm->payload.wire_bytes;
    load->granules += granules * demanded_share;
    load->calls_with_misses += crossing->demanded_pieces > 0 ? scale : 0;
    ahead->rows += scale * crossing->ahead_rows;
    ahead->layer_rows += ahead_layer_rows;
    ahead->wire_bytes += ahead_layer_rows * llm->payload.wire_bytes;
    ahead->granules += granules * (1 - demanded_share);
    ahead->calls += crossing->ahead_pieces > 0 ? scale : 0;
    outcome->payload_bytes +=
        (demanded_layer_rows + ahead_layer_rows) * llm->payload.capacity_bytes;
    outcome->prefetched_rows += scale * crossing->predicted_rows;
    outcome->wasted_rows += scale * crossing->wasted_rows;
    outcome->deepened_rows += scale * crossing->deepened_rows;
}

void kvt_calls_count_crossing(const struct kvt_llm *llm, const struct kvt_strata *strata,
                              bool exact_layers, uint32_t store, uint32_t visible_rows,
                              const struct kvt_resolve_result *result,
                              const struct kvt_crossing *crossing, struct kvt_step_outcome *outcome)
{
    uint32_t s = strata->stratum_of[store];
    const struct kvt_stratum *stratum = &strata->strata[s];
    double scale = kvt_stratum_scale(stratum);
    double store_layers =
        exact_layers ? llm->stores[store].layers : (double)stratum->layers / stratum->stores;
    double fetched = result->filled_rows + result->staged_rows;
    struct kvt_rank_load *load = &outcome->load;

    kvt_calls_count_rows(&outcome->rows[s], result);
    outcome->counts[KVT_SAMPLED_SELECTED] += scale * result->selected;
    outcome->counts[KVT_SAMPLED_MISSED] += scale * result->missed_selected;
    outcome->counts[KVT_SAMPLED_LOOKED_UP] +=
        scale * (result->hot_selected + result->missed_selected);
    outcome->counts[KVT_SAMPLED_FETCHED] += scale * fetched;
    load->calls += scale;
    load->selected_rows += scale * result->selected;
    load->attended_layer_rows += scale * store_layers * result->selected;
    load->looked_up_rows += scale * (result->hot_rows + fetched);
    count_crossing(llm, scale, store_layers, visible_rows, crossing, outcome);
}

void kvt_calls_count(const struct kvt_llm *llm, const struct kvt_strata *strata, bool exact_layers,
                     uint32_t store, uint32_t visible_rows, const struct kvt_resolve_result *result,
                     struct kvt_step_outcome *outcome)
{
    const struct kvt_crossing whole = kvt_calls_cross_whole(result);

    kvt_calls_count_crossing(llm, strata, exact_layers, store, visible_rows, result, &whole,
                             outcome);
}

uint64_t kvt_calls_chain(uint64_t decisions, const struct kvt_step_item *item, uint32_t selector,
                         const struct kvt_resolve_result *result)
{
    decisions = kvt_chain64(decisions, item->step);
    decisions = kvt_chain64(decisions, (uint64_t)item->request << 32 | selector);
    decisions = kvt_chain64(decisions, (uint64_t)result->tail_rows << 32 | result->page_rows);
    decisions = kvt_chain64(decisions, (uint64_t)result->hot_rows << 32 | result->staged_rows);
    return kvt_chain64(decisions, result->placed_hash);
}

void kvt_calls_count_waves(const struct kvt_llm *llm, uint32_t selector, uint64_t arena_bytes,
                           const uint32_t *staged_rows, uint32_t call_count, uint32_t *wave_of,
                           struct kvt_step_outcome *outcome)
{
    const struct kvt_store *store = &llm->stores[llm->selectors[selector].store];
    uint64_t row_bytes = (uint64_t)store->layers * llm->payload.capacity_bytes, peak_rows;
    uint32_t extra =
        kvt_waves_make(staged_rows, call_count, arena_bytes / row_bytes, wave_of, &peak_rows) - 1;

    outcome->load.extra_waves += extra;
    outcome->load.extra_wave_layers += (double)extra * store->layers;
    if (peak_rows * row_bytes > outcome->staging_peak_bytes)
        outcome->staging_peak_bytes = peak_rows * row_bytes;
}
