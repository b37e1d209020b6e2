/* paper_properties.c -- what the paper states of every step, looked for in every step of a run.
 *
 *     a backend stands before another and hands everything on. Behind each step, for
 *     each request and selector, from the selections, the ready pages and the rows that were in
 *     the hot cache before, and from nothing that the resolver says:
 *         U        the union of the queries' selections, by first query, then row
 *         resident rows of U in the tail or in a ready page
 *         hot      the others that were in the hot cache
 *         missing  the rest, in U order
 *     the resolver's own answer must be that
 *     behind each event, kvt_sim_audit()
 *
 * For models with one selector a store, under policies that resize no hot cache. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "../jobs.h"
#include "kvt/json.h"
#include "kvt/row_set.h"
#include "kvt/sim.h"
#include "paper.h"

/* One property: how often it was looked for, and how often it did not hold. */
struct property {
    uint64_t checks, faults;
};

struct lane {
    uint32_t context_tokens; /* that the next round must begin behind; 0: not known yet */
    uint64_t *hot;           /* [stores][words] rows in the hot cache behind the last step */
};

struct watch {
    struct kvt_backend base;
    const struct kvt_backend_ops *looked_at;
    struct kvt_backend *inner; /* looked_at's */
    const struct kvt_llm *llm;
    struct lane *lanes; /* [lane_capacity] by request */
    size_t lane_capacity, words;
    uint32_t *rows, *missing;         /* scratch [top_k], [top_k * queries] */
    uint64_t *seen, *resident, *hits; /* scratch [words] */
    uint64_t *rank_bytes;             /* scratch [selectors] */
    struct property order, dedup, exact, commit, staging;
    /* Occasions: how often what a property is about has come up at all. */
    uint64_t skipped_calls, missed_rows, shared_selections, evictions, rejected_drafts;
    uint64_t reused_staging_bytes;
};

static struct watch *watch_of(struct kvt_backend *backend)
{
    return (struct watch *)(void *)backend;
}

static void expect(struct property *property, bool holds)
{
    property->checks++;
    property->faults += !holds;
}

/* ---- One call --------------------------------------------------------------------------- */

/* What a call must come to, worked out beside the resolver. */
struct expected {
    uint32_t selected, union_rows, tail, pages, hot, missing;
};

static void mark_pages(const struct kvt_step_item *item, uint64_t *rows, size_t words)
{
    memset(rows, 0, words * sizeof *rows);
    /* A page is 64 rows of a store of ratio 1: one word. */
    for (uint32_t p = 0; p < item->ready_pages && p < words; p++)
        rows[p] = item->ready_bits[p / 64] >> p % 64 & 1 ? UINT64_MAX : 0;
}

static kvt_status work_out(struct watch *watch, const struct kvt_step_item *item, uint32_t selector,
                           const uint64_t *hot, struct expected *out, struct kvt_error *err)
{
    uint32_t queries = item->round->query_count;
    uint32_t end = item->context_tokens + queries;
    uint32_t tail_first = end > KVT_TAIL_ROWS ? end - KVT_TAIL_ROWS : 0;

    *out = (struct expected){0};
    memset(watch->seen, 0, watch->words * sizeof *watch->seen);
    memset(watch->hits, 0, watch->words * sizeof *watch->hits);
    for (uint32_t q = 0; q < queries; q++) {
        uint32_t count = 0;
        kvt_status status = watch->inner->ops->selection(watch->inner, item->request, selector, q,
                                                         watch->rows, &count, err);
        if (status != KVT_OK)
            return status;
        uint32_t visible = item->context_tokens + item->round->queries[q].depth + 1;
        expect(&watch->exact, count == (visible < watch->llm->top_k ? visible : watch->llm->top_k));
        out->selected += count;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t row = watch->rows[i];
            if (kvt_row_is_in(watch->seen, row)) {
                watch->shared_selections++;
                continue;
            }
            watch->seen[row / 64] |= UINT64_C(1) << row % 64;
            out->union_rows++;
            if (row >= tail_first)
                out->tail++;
            else if (kvt_row_is_in(watch->resident, row))
                out->pages++;
            else if (kvt_row_is_in(hot, row)) {
                out->hot++;
                watch->hits[row / 64] |= UINT64_C(1) << row % 64;
            } else
                watch->missing[out->missing++] = row;
        }
    }
    return KVT_OK;
}

/* Every row that the call read in the hot cache is in it afterwards too, and no row that a rejected
 * draft might take back. */
static kvt_status look_at_cache(struct watch *watch, const struct kvt_step_item *item,
                                uint32_t store, uint64_t *hot, bool was_skipped,
                                struct kvt_error *err)
{
    struct kvt_backend_cache cache;
    kvt_status status =
        watch->inner->ops->inspect_cache(watch->inner, item->request, store, &cache, err);
    bool kept = true, committed = true;
    uint64_t gone = 0;

    if (status != KVT_OK)
        return status;
    memcpy(watch->resident, hot, watch->words * sizeof *hot);
    memset(hot, 0, watch->words * sizeof *hot);
    for (uint32_t s = 0; s < cache.slot_count; s++) {
        uint32_t row = cache.rows[s];
        if (row == KVT_ROW_NONE)
            continue;
        hot[row / 64] |= UINT64_C(1) << row % 64;
        committed = committed && row < item->context_tokens;
    }
    for (size_t w = 0; w < watch->words; w++) {
        kept = kept && (watch->hits[w] & ~hot[w]) == 0;
        gone |= watch->resident[w] & ~hot[w];
    }
    watch->evictions += gone != 0;
    expect(&watch->exact, kept);
    expect(&watch->commit, committed);
    if (was_skipped)
        expect(&watch->order, memcmp(watch->resident, hot, watch->words * sizeof *hot) == 0);
    return KVT_OK;
}

static kvt_status look_at_call(struct watch *watch, const struct kvt_step_item *item,
                               uint32_t selector, struct kvt_error *err)
{
    uint32_t store = watch->llm->selectors[selector].store;
    uint64_t *hot = watch->lanes[item->request].hot + store * watch->words;
    struct kvt_resolve_result call;
    struct expected expected;

    mark_pages(item, watch->resident, watch->words);
    kvt_status status = work_out(watch, item, selector, hot, &expected, err);
    if (status == KVT_OK)
        status =
            watch->inner->ops->inspect_call(watch->inner, item->request, selector, 0, &call, err);
    if (status != KVT_OK)
        return status;
    uint32_t fetched = call.filled_rows + call.staged_rows;
    bool same = fetched == expected.missing &&
                memcmp(call.missed, watch->missing, fetched * sizeof *call.missed) == 0;
    expect(&watch->order, call.tail_rows == expected.tail && call.page_rows == expected.pages &&
                              call.hot_rows == expected.hot &&
                              call.skipped == (expected.hot + expected.missing == 0));
    expect(&watch->dedup, same);
    expect(&watch->exact,
           call.selected == expected.selected && call.union_rows == expected.union_rows &&
               call.union_rows == call.tail_rows + call.page_rows + call.hot_rows + fetched &&
               call.selected == call.tail_selected + call.page_selected + call.hot_selected +
                                    call.missed_selected);
    watch->skipped_calls += call.skipped;
    watch->missed_rows += fetched;
    watch->rank_bytes[selector] += (uint64_t)call.staged_rows * watch->llm->stores[store].layers *
                                   watch->llm->payload.capacity_bytes;
    return look_at_cache(watch, item, store, hot, call.skipped, err);
}

/* ---- One step --------------------------------------------------------------------------- */

static kvt_status make_lane(struct watch *watch, uint32_t request, struct kvt_error *err)
{
    if (request >= watch->lane_capacity) {
        size_t capacity = 2 * (size_t)request + 16;
        struct lane *larger = realloc(watch->lanes, capacity * sizeof *larger);
        if (larger == NULL)
            return kvt_fail_nomem(err, "the properties of a run");
        memset(larger + watch->lane_capacity, 0,
               (capacity - watch->lane_capacity) * sizeof *larger);
        watch->lanes = larger;
        watch->lane_capacity = capacity;
    }
    struct lane *lane = &watch->lanes[request];
    free(lane->hot);
    *lane = (struct lane){.hot = calloc(watch->llm->store_count, watch->words * sizeof *lane->hot)};
    return lane->hot != NULL ? KVT_OK : kvt_fail_nomem(err, "the properties of a run");
}

static kvt_status look_at_rank(struct watch *watch, const struct kvt_rank_step *rank,
                               struct kvt_error *err)
{
    uint64_t sum = 0, widest = 0;

    memset(watch->rank_bytes, 0, watch->llm->selector_count * sizeof *watch->rank_bytes);
    for (uint32_t i = 0; i < rank->item_count; i++) {
        const struct kvt_step_item *item = &rank->items[i];
        struct lane *lane = &watch->lanes[item->request];
        expect(&watch->commit,
               lane->context_tokens == 0 || lane->context_tokens == item->context_tokens);
        expect(&watch->commit, item->round->committed_tokens >= 1 &&
                                   item->round->committed_tokens <= item->round->query_count);
        lane->context_tokens = item->context_tokens + item->round->committed_tokens;
        watch->rejected_drafts += item->round->query_count - item->round->committed_tokens;
        for (uint32_t s = 0; s < watch->llm->selector_count; s++) {
            kvt_status status = look_at_call(watch, item, s, err);
            if (status != KVT_OK)
                return status;
        }
    }
    for (uint32_t s = 0; s < watch->llm->selector_count; s++) {
        sum += watch->rank_bytes[s];
        widest = watch->rank_bytes[s] > widest ? watch->rank_bytes[s] : widest;
    }
    /* One layer group's at a time: each takes the room that the one before has left. */
    expect(&watch->staging, rank->outcome.staging_peak_bytes == widest);
    watch->reused_staging_bytes += sum - widest;
    return KVT_OK;
}

static kvt_status watch_step(struct kvt_backend *backend, struct kvt_rank_step *ranks,
                             uint32_t rank_count, struct kvt_error *err)
{
    struct watch *watch = watch_of(backend);
    kvt_status status = watch->inner->ops->step(watch->inner, ranks, rank_count, err);

    for (uint32_t r = 0; r < rank_count && status == KVT_OK; r++)
        status = look_at_rank(watch, &ranks[r], err);
    return status;
}

/* ---- What is handed on ------------------------------------------------------------------ */

static void watch_close(struct kvt_backend *backend)
{
    struct watch *watch = watch_of(backend);

    if (watch->inner != NULL)
        watch->inner->ops->close(watch->inner);
    watch->inner = NULL;
}

static uint32_t watch_strata(const struct kvt_backend *backend, struct kvt_stratum *strata)
{
    const struct watch *watch = (const struct watch *)(const void *)backend;
    return watch->inner->ops->strata(watch->inner, strata);
}

static const char *watch_describe(struct kvt_backend *backend)
{
    return watch_of(backend)->inner->ops->describe(watch_of(backend)->inner);
}

static kvt_status watch_admit(struct kvt_backend *backend,
                              const struct kvt_backend_admission *admission, struct kvt_error *err)
{
    struct watch *watch = watch_of(backend);
    kvt_status status = make_lane(watch, admission->request, err);
    return status == KVT_OK ? watch->inner->ops->admit(watch->inner, admission, err) : status;
}

static kvt_status watch_resize(struct kvt_backend *backend, uint32_t request, uint64_t hot_tokens,
                               uint64_t *decisions, struct kvt_error *err)
{
    (void)backend, (void)hot_tokens, (void)decisions;
    return kvt_fail(err, KVT_ERR_UNSUPPORTED, "properties",
                    "request %u got a hot cache of another size; a policy that keeps sizes is "
                    "expected",
                    request);
}

static void watch_release(struct kvt_backend *backend, uint32_t request, uint64_t *decisions)
{
    watch_of(backend)->inner->ops->release(watch_of(backend)->inner, request, decisions);
}

static void watch_restart_sampling(struct kvt_backend *backend)
{
    watch_of(backend)->inner->ops->restart_sampling(watch_of(backend)->inner);
}

static void watch_sampling(const struct kvt_backend *backend, struct kvt_sampling *out)
{
    const struct watch *watch = (const struct watch *)(const void *)backend;
    watch->inner->ops->sampling(watch->inner, out);
}

static const struct kvt_backend_ops watch_ops = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof watch_ops,
             .name = "watched",
             .summary = "the simulator, looked at call by call"},
    .close = watch_close,
    .strata = watch_strata,
    .describe = watch_describe,
    .admit = watch_admit,
    .resize = watch_resize,
    .release = watch_release,
    .step = watch_step,
    .restart_sampling = watch_restart_sampling,
    .sampling = watch_sampling,
};

/* ---- The run ---------------------------------------------------------------------------- */

static void watch_fini(struct watch *watch)
{
    for (size_t i = 0; i < watch->lane_capacity; i++)
        free(watch->lanes[i].hot);
    free(watch->lanes);
    free(watch->rows);
    free(watch->missing);
    free(watch->seen);
    free(watch->resident);
    free(watch->hits);
    free(watch->rank_bytes);
}

static kvt_status watch_open(void *context, const struct kvt_backend_env *env,
                             struct kvt_backend **out, struct kvt_error *err)
{
    struct watch *watch = context;
    struct kvt_backend_env inspected = *env;

    watch->base.ops = &watch_ops;
    watch->llm = env->llm;
    watch->words = kvt_row_words(env->longest_tokens + env->speculation.queries_max);
    watch->rows = calloc(env->llm->top_k, sizeof *watch->rows);
    watch->missing =
        calloc((size_t)env->llm->top_k * env->speculation.queries_max, sizeof *watch->missing);
    watch->seen = calloc(watch->words, sizeof *watch->seen);
    watch->resident = calloc(watch->words, sizeof *watch->resident);
    watch->hits = calloc(watch->words, sizeof *watch->hits);
    watch->rank_bytes = calloc(env->llm->selector_count, sizeof *watch->rank_bytes);
    if (!watch->rows || !watch->missing || !watch->seen || !watch->resident || !watch->hits ||
        !watch->rank_bytes)
        return kvt_fail_nomem(err, "the properties of a run");
    inspected.is_inspected = true;
    kvt_status status = watch->looked_at->open(&inspected, &watch->inner, err);
    if (status == KVT_OK)
        *out = &watch->base;
    return status;
}

static kvt_status check_scenario(const struct kvt_scenario *scenario, struct kvt_error *err)
{
    bool one_each = scenario->llm->selector_count == scenario->llm->store_count;

    for (uint32_t s = 0; s < scenario->llm->store_count; s++)
        one_each = one_each && scenario->llm->stores[s].compress_ratio == 1;
    if (!one_each || scenario->fidelity != KVT_FIDELITY_EXACT || scenario->resolve_each_query)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "properties",
                        "an exact run of a model with one selector a store, compress ratio 1, and "
                        "one call a round is expected");
    return KVT_OK;
}

static bool add_property(cJSON *tree, const char *name, struct property property,
                         uint64_t occasions, const char *what)
{
    cJSON *object = kvt_json_add_object(tree, name);

    return object != NULL && kvt_json_add_number(object, "checks", (double)property.checks) &&
           kvt_json_add_number(object, "faults", (double)property.faults) &&
           kvt_json_add_number(object, "occasions", (double)occasions) &&
           kvt_json_add_text(object, "what", what);
}

static struct property both(struct property a, uint64_t checks, uint64_t faults)
{
    return (struct property){a.checks + checks, a.faults + faults};
}

/* What a property is about must have come up: pages given up, calls without a miss, drafts that
 * were rejected. A run in which it never did shows nothing. */
static cJSON *tree_of(const struct watch *watch, const struct kvt_sim_audit *audit,
                      const struct kvt_run *run)
{
    const struct property none = {0};
    cJSON *tree = cJSON_CreateObject();
    bool ok =
        tree != NULL &&
        add_property(tree, "required", both(none, audit->requests, audit->lent),
                     run->total.pages_released,
                     "requests that hold index rows, hot cache and tail to the byte, behind every "
                     "event; occasions: optional pages given up") &&
        add_property(tree, "backed", both(none, audit->requests, audit->homeless),
                     watch->missed_rows,
                     "requests with every committed row in HBM or on host, behind every event; "
                     "occasions: rows fetched") &&
        add_property(tree, "order", watch->order, watch->skipped_calls,
                     "calls served by tail and pages, then hot cache, then host, as worked out "
                     "beside; one that is skipped leaves the hot cache alone; occasions: skipped "
                     "calls") &&
        add_property(tree, "dedup", watch->dedup, watch->shared_selections,
                     "calls that fetch the missing rows of the union, each once; occasions: "
                     "selections that an earlier query of the call has too") &&
        add_property(tree, "exact", watch->exact, watch->evictions,
                     "selections of full size, all resolved, no row that is read evicted; "
                     "occasions: calls that evict") &&
        add_property(tree, "commit", both(watch->commit, audit->requests, audit->uncommitted),
                     watch->rejected_drafts,
                     "rounds begin where what was accepted ends, no draft's row is in a hot cache, "
                     "the newest token has no row; occasions: rejected drafts") &&
        add_property(tree, "staging", both(watch->staging, audit->looks, audit->overstaged),
                     watch->reused_staging_bytes,
                     "steps that stage no more than their widest layer group, and than is held; "
                     "occasions: bytes staged where another group's were") &&
        add_property(tree, "ring", both(none, audit->requests, audit->wide_rings), audit->requests,
                     "requests whose draft KV is what the window takes, behind every event; "
                     "occasions: those requests");
    if (!ok) {
        cJSON_Delete(tree);
        return NULL;
    }
    return tree;
}

static kvt_status advance(struct kvt_sim *sim, struct cli_job *job, struct kvt_sim_audit *audit,
                          struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (bool more = true; more && status == KVT_OK;) {
        if (cli_interrupted())
            return kvt_fail(err, KVT_ERR_INTERRUPTED, "properties", "a signal ended the run");
        status = kvt_sim_step(sim, &more, err);
        if (status == KVT_OK)
            status = kvt_sim_audit(sim, audit, err);
        cli_job_on_advance(job, kvt_sim_progress(sim));
    }
    return status;
}

kvt_status paper_watch_run(const struct kvt_scenario *scenario,
                           const struct kvt_backend_ops *backend, const char *cache_dir,
                           struct cli_job *job, cJSON **out, struct kvt_error *err)
{
    struct watch watch = {.looked_at = backend};
    struct kvt_sim_audit audit = {0};
    const struct kvt_sim_options options = {.cache_dir = cache_dir,
                                            .on_prepare = cli_job_on_prepare,
                                            .prepare_context = job,
                                            .open_backend = watch_open,
                                            .backend_context = &watch};
    const struct kvt_run *run = NULL;
    struct kvt_sim *sim = NULL;
    kvt_status status = check_scenario(scenario, err);

    if (status == KVT_OK)
        status = kvt_sim_new(scenario, &options, &sim, err);
    if (status == KVT_OK)
        status = advance(sim, job, &audit, err);
    if (status == KVT_OK)
        status = kvt_sim_finish(sim, false, &run, err);
    if (status == KVT_OK && (*out = tree_of(&watch, &audit, run)) == NULL)
        status = kvt_fail_nomem(err, "the properties of a run");
    kvt_sim_free(sim);
    watch_fini(&watch);
    return status;
}
