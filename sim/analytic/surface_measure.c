/* surface_measure.c -- a surface: streams of the law through the resolver.
 *
 *     for each stratum, for each of SURFACE_STREAMS requests, on any thread
 *         one of the stratum's stores, in turn; a cold cache for each coverage
 *         for each round, for each selector of the store
 *             select K sets once -> resolve in each cache, with its share of pages ready
 *             -> counts of the round's age
 *
 * Pages that are ready are the newest, as `adaptive` fills them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/crew.h"
#include "kvt/layout.h"
#include "surface.h"

/* Everything that the streams of one stratum share. */
struct measure {
    const struct surface_env *env;
    uint32_t stratum;
    uint32_t stores[KVT_STORES_MAX], store_count;
    uint32_t coverage_count;
    const struct kvt_round *rounds; /* [SURFACE_STREAMS][SURFACE_ROUNDS] */
    const struct kvt_law *law;
    void *law_data;
    struct surface_cell (*sums)[SURFACE_COVERAGES][SURFACE_AGES]; /* [SURFACE_STREAMS] */
    kvt_status *statuses;                                         /* [SURFACE_STREAMS] */
    struct kvt_error *errors;                                     /* [SURFACE_STREAMS] */
};

/* One request on its way. */
struct walk {
    const struct measure *measure;
    const struct kvt_store *store;
    uint32_t rows_max, context_tokens;
    uint64_t *block;
    uint64_t *sets[KVT_QUERIES_MAX], *pages, *page_rows[SURFACE_COVERAGES];
    struct kvt_resolver *resolver;
    struct kvt_hot_cache *caches[SURFACE_COVERAGES];
    void *streams[KVT_SELECTORS_MAX];
    uint32_t stream_count;
};

static uint32_t last_tokens(const struct surface_env *env)
{
    return env->input_tokens + SURFACE_ROUNDS * env->run->scenario->queries_max + KVT_QUERIES_MAX;
}

static kvt_status open_memory(struct walk *walk, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = walk->measure->env->run->scenario;
    uint32_t queries = scenario->queries_max;
    size_t words = kvt_row_words(walk->rows_max);
    size_t page_words = last_tokens(walk->measure->env) / KVT_PAGE_ROWS / 64 + 1;
    uint64_t *next = calloc((queries + SURFACE_COVERAGES) * words + page_words, sizeof(uint64_t));

    walk->block = next;
    if (!next)
        return kvt_fail_nomem(err, "a surface");
    for (uint32_t q = 0; q < queries; q++, next += words)
        walk->sets[q] = next;
    for (int c = 0; c < SURFACE_COVERAGES; c++, next += words)
        walk->page_rows[c] = next;
    walk->pages = next;
    return KVT_OK;
}

static kvt_status open_caches(struct walk *walk, uint32_t request, struct kvt_error *err)
{
    const struct surface_env *env = walk->measure->env;
    const struct kvt_scenario *scenario = env->run->scenario;
    uint32_t slots = kvt_hot_slots(scenario->llm, walk->store, env->run->rank->hot_tokens,
                                   env->input_tokens + env->output_tokens);
    struct kvt_replacement_env cache_env = {.params = scenario->replacement.params,
                                            .slot_count = slots > 0 ? slots : 1,
                                            .top_k = scenario->llm->top_k,
                                            .entity = request,
                                            .run_seed = SURFACE_SEED,
                                            .host = kvt_host(),
                                            .rows_per_page =
                                                KVT_PAGE_ROWS / walk->store->compress_ratio};
    kvt_status status =
        kvt_resolver_new(walk->rows_max, cache_env.slot_count,
                         scenario->queries_max * scenario->llm->top_k, &walk->resolver, err);

    for (uint32_t c = 0; c < walk->measure->coverage_count && status == KVT_OK; c++)
        status = kvt_hot_cache_new(
            (const struct kvt_replacement_policy *)(const void *)scenario->replacement.info,
            &cache_env, walk->rows_max, &walk->caches[c], err);
    return status;
}

static kvt_status open_streams(struct walk *walk, uint32_t request, uint32_t store,
                               struct kvt_error *err)
{
    const struct measure *measure = walk->measure;
    const struct kvt_llm *llm = measure->env->run->scenario->llm;
    kvt_status status = KVT_OK;

    for (uint32_t s = 0; s < llm->selector_count && status == KVT_OK; s++) {
        if (llm->selectors[s].store != store)
            continue;
        struct kvt_law_stream_env env = {
            .request = request,
            .selector = s,
            .context_rows = kvt_store_rows(walk->store, measure->env->input_tokens + 1),
            .rows_max = walk->rows_max,
            .tokens_per_row = walk->store->compress_ratio};
        size_t bytes = measure->law->stream_bytes(measure->law_data, &env);
        void *stream = calloc(1, bytes ? bytes : 1);
        if (!stream)
            return kvt_fail_nomem(err, "a stream of selections");
        walk->streams[walk->stream_count++] = stream;
        status = KVT_PLUGIN_CALL(measure->law, stream_init, err, measure->law_data, stream, &env);
    }
    return status;
}

static void close_walk(struct walk *walk)
{
    for (uint32_t s = 0; s < walk->stream_count; s++)
        free(walk->streams[s]);
    for (int c = 0; c < SURFACE_COVERAGES; c++)
        kvt_hot_cache_free(walk->caches[c]);
    kvt_resolver_free(walk->resolver);
    free(walk->block);
}

/* The newest pages of those that have left the tail, as many as each coverage says. */
static void ready_pages(struct walk *walk, uint32_t visible_rows)
{
    uint32_t tokens = walk->context_tokens;
    uint32_t eligible = tokens > KVT_TAIL_ROWS ? (tokens - KVT_TAIL_ROWS) / KVT_PAGE_ROWS : 0;

    for (uint32_t c = 1; c < walk->measure->coverage_count; c++) {
        uint32_t first = eligible - (uint32_t)(eligible * (double)c / (SURFACE_COVERAGES - 1) + .5);
        memset(walk->pages, 0, (eligible / 64 + 1) * sizeof *walk->pages);
        for (uint32_t page = first; page < eligible; page++)
            walk->pages[page / 64] |= UINT64_C(1) << page % 64;
        kvt_row_set_of_pages(walk->pages, eligible, KVT_PAGE_ROWS / walk->store->compress_ratio,
                             walk->page_rows[c], kvt_row_words(visible_rows));
    }
}

static void count(struct walk *walk, const struct kvt_resolve_result *result, uint32_t visible_rows,
                  struct surface_cell *cell)
{
    const struct kvt_llm *llm = walk->measure->env->run->scenario->llm;
    const struct kvt_stratum *stratum = &walk->measure->env->strata[walk->measure->stratum];
    double layers = (double)stratum->layers / stratum->stores;
    uint32_t fetched = result->filled_rows + result->staged_rows;

    cell->counts[SURFACE_CALLS]++;
    cell->counts[SURFACE_SKIPPED] += result->skipped;
    cell->counts[SURFACE_SELECTED] += result->selected;
    cell->counts[SURFACE_TAIL] += result->tail_selected;
    cell->counts[SURFACE_PAGE] += result->page_selected;
    cell->counts[SURFACE_HOT] += result->hot_selected;
    cell->counts[SURFACE_MISSED] += result->missed_selected;
    cell->counts[SURFACE_UNION] += result->union_rows;
    cell->counts[SURFACE_UNION_TAIL] += result->tail_rows;
    cell->counts[SURFACE_UNION_PAGE] += result->page_rows;
    cell->counts[SURFACE_UNION_HOT] += result->hot_rows;
    cell->counts[SURFACE_FILLED] += result->filled_rows;
    cell->counts[SURFACE_STAGED] += result->staged_rows;
    cell->counts[SURFACE_WITH_MISSES] += fetched > 0;
    cell->counts[SURFACE_FETCHED_SQUARES] += (double)fetched * fetched;
    cell->counts[SURFACE_GRANULES] +=
        kvt_distinct_granules(visible_rows, layers * llm->payload.capacity_bytes, fetched);
}

/* One selector's call of a round in every cache. */
static kvt_status resolve_all(struct walk *walk, const struct kvt_law_round *round,
                              uint32_t visible, uint32_t r,
                              struct surface_cell (*sums)[SURFACE_AGES], struct kvt_error *err)
{
    const struct kvt_scenario *scenario = walk->measure->env->run->scenario;
    struct kvt_resolve_call call = {
        .step = r,
        .visible_rows = visible,
        .tail_first_row = kvt_tail_first_row(walk->store, walk->context_tokens, round->query_count),
        .query_count = scenario->resolve_each_query ? 1 : round->query_count,
        .promotion = scenario->promotion};

    for (uint32_t c = 0; c < walk->measure->coverage_count; c++) {
        call.page_rows = c > 0 ? walk->page_rows[c] : NULL;
        for (uint32_t q = 0; q < round->query_count; q += call.query_count) {
            struct kvt_resolve_result result;
            call.selections = (const uint64_t *const *)walk->sets + q;
            kvt_status status = kvt_resolve(walk->resolver, walk->caches[c], &call, &result, err);
            if (status != KVT_OK)
                return status;
            count(walk, &result, visible, &sums[c][surface_age(r)]);
        }
    }
    return KVT_OK;
}

static kvt_status take_round(struct walk *walk, const struct kvt_round *planned, uint32_t r,
                             struct surface_cell (*sums)[SURFACE_AGES], struct kvt_error *err)
{
    const struct measure *measure = walk->measure;
    uint32_t visible_rows[KVT_QUERIES_MAX], visible;
    kvt_status status = KVT_OK;
    struct kvt_law_round round =
        kvt_round_of_store(planned, walk->store, walk->context_tokens, visible_rows, &visible);

    ready_pages(walk, visible);
    for (uint32_t s = 0; s < walk->stream_count && status == KVT_OK; s++) {
        measure->law->select(measure->law_data, walk->streams[s], &round, walk->sets);
        status = resolve_all(walk, &round, visible, r, sums, err);
    }
    walk->context_tokens += planned->committed_tokens;
    return status;
}

static void walk_stream(void *context, uint32_t request, unsigned worker)
{
    const struct measure *measure = context;
    const struct surface_env *env = measure->env;
    uint32_t store = measure->stores[request % measure->store_count];
    struct walk walk = {.measure = measure,
                        .store = &env->run->scenario->llm->stores[store],
                        .context_tokens = env->input_tokens};
    struct kvt_error *err = &measure->errors[request];

    (void)worker;
    walk.rows_max = kvt_store_rows(walk.store, last_tokens(env));
    kvt_status status = open_memory(&walk, err);
    if (status == KVT_OK)
        status = open_caches(&walk, request, err);
    if (status == KVT_OK)
        status = open_streams(&walk, request, store, err);
    for (uint32_t r = 0; r < SURFACE_ROUNDS && status == KVT_OK; r++)
        status = take_round(&walk, &measure->rounds[(size_t)request * SURFACE_ROUNDS + r], r,
                            measure->sums[request], err);
    measure->statuses[request] = status;
    close_walk(&walk);
}

/* What the law may read for as long as it lives. */
struct law_inputs {
    uint32_t stream_store[KVT_SELECTORS_MAX], stream_tokens[KVT_SELECTORS_MAX];
    uint32_t rows[KVT_STRATA_MAX], tokens_per_row[KVT_STRATA_MAX];
    struct kvt_param_value *params; /* owned */
};

/* Tokens that the longest of the streams moves on by. */
static uint32_t tokens_read(const struct kvt_round *rounds)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < SURFACE_STREAMS; i++) {
        uint32_t tokens = 0;
        for (uint32_t r = 0; r < SURFACE_ROUNDS; r++)
            tokens += rounds[(size_t)i * SURFACE_ROUNDS + r].committed_tokens;
        most = tokens > most ? tokens : most;
    }
    return most;
}

/* The law, with half as many tapes each time that they are more than it may hold: a surface is no
 * run, and is not refused for what its requests would never draw. */
static kvt_status prepare_what_fits(const struct kvt_law *law, struct law_inputs *inputs,
                                    struct kvt_law_env *env, void **out, struct kvt_error *err)
{
    size_t count = env->params.count, tapes = count;

    inputs->params = calloc(count + 1, sizeof *inputs->params);
    if (!inputs->params)
        return kvt_fail_nomem(err, "a law's parameters");
    for (size_t i = 0; i < count; i++) {
        inputs->params[i] = env->params.values[i];
        if (strcmp(law->info.params[i].name, "tapes") == 0)
            tapes = i;
    }
    env->params.values = inputs->params;
    kvt_status status = KVT_PLUGIN_CALL(law, prepare, err, env, out);
    while (status == KVT_ERR_NOMEM && tapes < count && inputs->params[tapes].number >= 2) {
        inputs->params[tapes].number = floor(inputs->params[tapes].number / 2);
        status = KVT_PLUGIN_CALL(law, prepare, err, env, out);
    }
    return status;
}

static kvt_status prepare_law(const struct measure *measure, struct law_inputs *inputs, void **out,
                              struct kvt_error *err)
{
    const struct surface_env *env = measure->env;
    const struct kvt_scenario *scenario = env->run->scenario;
    struct kvt_speculation_shape shape;

    env->run->speculation->shape(env->run->speculation_data, &shape);
    for (uint32_t i = 0; i < scenario->llm->selector_count; i++) {
        uint32_t store = scenario->llm->selectors[i].store;
        inputs->stream_store[i] = store;
        inputs->stream_tokens[i] = scenario->llm->stores[store].compress_ratio;
    }
    for (uint32_t s = 0; s < env->stratum_count; s++) {
        inputs->tokens_per_row[s] = env->strata[s].compress_ratio;
        inputs->rows[s] = (env->input_tokens + 1) / inputs->tokens_per_row[s];
    }
    struct kvt_law_env law_env = {.params = scenario->selection.params,
                                  .top_k = scenario->llm->top_k,
                                  .stream_count = scenario->llm->selector_count,
                                  .stream_store = inputs->stream_store,
                                  .stream_tokens_per_row = inputs->stream_tokens,
                                  .side_paths = shape.side_paths,
                                  .side_tokens = shape.side_tokens,
                                  .context_rows = inputs->rows,
                                  .context_tokens_per_row = inputs->tokens_per_row,
                                  .context_count = env->stratum_count,
                                  .output_tokens = tokens_read(measure->rounds),
                                  .run_seed = SURFACE_SEED,
                                  .cache_dir = env->run->cache_dir,
                                  .threads = env->run->threads,
                                  .progress = env->run->on_prepare,
                                  .progress_context = env->run->prepare_context,
                                  .host = kvt_host(),
                                  .all_streams = true};
    return prepare_what_fits(measure->law, inputs, &law_env, out, err);
}

/* Sums of the streams, in their order, into means of a round. */
static void gather(const struct measure *measure, struct surface *out)
{
    for (uint32_t c = 0; c < measure->coverage_count; c++) {
        for (uint32_t a = 0; a < SURFACE_AGES; a++) {
            struct surface_cell *cell = &out->cells[measure->stratum][c][a];
            uint32_t from = a > 0 ? 1u << (a - 1) : 0;
            uint32_t to = a + 1 < SURFACE_AGES ? 1u << a : SURFACE_ROUNDS;
            double rounds = (double)(to - from) * SURFACE_STREAMS;
            for (int n = 0; n < SURFACE_COUNTS; n++) {
                for (uint32_t i = 0; i < SURFACE_STREAMS; i++)
                    cell->counts[n] += measure->sums[i][c][a].counts[n];
                cell->counts[n] /= rounds;
            }
        }
    }
}

static kvt_status measure_stratum(struct measure *measure, struct kvt_crew *crew,
                                  struct surface *out, struct kvt_error *err)
{
    const struct surface_env *env = measure->env;

    measure->store_count = 0;
    for (uint32_t store = 0; store < env->run->scenario->llm->store_count; store++) {
        if (env->stratum_of[store] == measure->stratum)
            measure->stores[measure->store_count++] = store;
    }
    memset(measure->sums, 0, SURFACE_STREAMS * sizeof *measure->sums);
    kvt_crew_run(crew, SURFACE_STREAMS, walk_stream, measure);
    for (uint32_t i = 0; i < SURFACE_STREAMS; i++) {
        if (measure->statuses[i] == KVT_OK)
            continue;
        if (err)
            *err = measure->errors[i];
        return measure->statuses[i];
    }
    gather(measure, out);
    return KVT_OK;
}

static void mean_rounds(const struct kvt_round *rounds, size_t round_count, struct surface *out)
{
    struct round_means *means = &out->rounds;

    *means = (struct round_means){0};
    for (size_t r = 0; r < round_count; r++) {
        double committed = rounds[r].committed_tokens;
        means->queries += rounds[r].query_count;
        means->draft_tokens += rounds[r].draft_tokens;
        means->committed_tokens += committed;
        means->committed_squares += committed * committed;
    }
    means->queries /= (double)round_count;
    means->draft_tokens /= (double)round_count;
    means->committed_tokens /= (double)round_count;
    means->committed_squares /= (double)round_count;
}

static kvt_status measure_all(struct measure *measure, struct kvt_crew *crew, struct surface *out,
                              struct kvt_error *err)
{
    const struct surface_env *env = measure->env;
    struct law_inputs inputs = {.params = NULL};
    kvt_status status = prepare_law(measure, &inputs, &measure->law_data, err);

    for (uint32_t s = 0; s < env->stratum_count && status == KVT_OK; s++) {
        if (env->run->on_prepare &&
            !env->run->on_prepare(env->run->prepare_context, (double)s / env->stratum_count,
                                  "measuring miss surfaces"))
            status = kvt_fail(err, KVT_ERR_INTERRUPTED, env->run->scenario->name,
                              "interrupted while miss surfaces were measured");
        measure->stratum = s;
        if (status == KVT_OK)
            status = measure_stratum(measure, crew, out, err);
    }
    measure->law->free(measure->law_data);
    free(inputs.params);
    return status;
}

kvt_status surface_measure(const struct surface_env *env, uint32_t active, struct surface *out,
                           struct kvt_error *err)
{
    const size_t round_count = (size_t)SURFACE_STREAMS * SURFACE_ROUNDS;
    struct kvt_round *rounds = calloc(round_count, sizeof *rounds);
    struct measure measure = {
        .env = env,
        .rounds = rounds,
        .coverage_count = env->covered ? SURFACE_COVERAGES : 1,
        .law = (const struct kvt_law *)(const void *)env->run->scenario->selection.info,
        .sums = calloc(SURFACE_STREAMS, sizeof *measure.sums),
        .statuses = calloc(SURFACE_STREAMS, sizeof *measure.statuses),
        .errors = calloc(SURFACE_STREAMS, sizeof *measure.errors)};
    struct kvt_crew *crew = NULL;
    kvt_status status = KVT_OK;

    out->stratum_count = env->stratum_count;
    if (!rounds || !measure.sums || !measure.statuses || !measure.errors) {
        status = kvt_fail_nomem(err, "a surface");
    } else {
        status = surface_plan(env, active, SURFACE_STREAMS, SURFACE_ROUNDS, rounds, err);
        if (status == KVT_OK)
            mean_rounds(rounds, round_count, out);
    }
    if (status == KVT_OK && !env->run->rank->needs.history_in_hbm) {
        status = kvt_crew_new(env->run->threads, &crew, err);
        if (status == KVT_OK)
            status = measure_all(&measure, crew, out, err);
    }
    kvt_crew_free(crew);
    free(rounds);
    free(measure.sums);
    free(measure.statuses);
    free(measure.errors);
    return status;
}
