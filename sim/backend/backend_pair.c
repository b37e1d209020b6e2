/* backend_pair.c -- two backends on one schedule.
 *
 *     step: the first's, and the second's on copies of the items, beside it, with the states of its
 *           caches, which are long over when a GPU's step is
 *           each request and each rank compared (pair_compare.c) */
#include <stdlib.h>
#include <string.h>

#include "kvt/calls.h"
#include "pair_private.h"

static struct backend_pair *pair_of(struct kvt_backend *backend)
{
    return (struct backend_pair *)backend;
}

/* ---- Opening ------------------------------------------------------------------------- */

static uint32_t read_first(void *context, uint32_t request, uint32_t selector, uint32_t query,
                           uint32_t *rows)
{
    struct backend_pair *pair = context;
    struct kvt_backend *first = pair->sides[0];
    struct kvt_error err;
    uint32_t count = 0;

    pthread_mutex_lock(&pair->source_lock);
    kvt_status status = first->ops->selection(first, request, selector, query, rows, &count, &err);
    if (status != KVT_OK && pair->source_status == KVT_OK) {
        pair->source_status = status;
        pair->source_error = err;
    }
    pthread_mutex_unlock(&pair->source_lock);
    return status == KVT_OK ? count : 0;
}

static kvt_status make_scratch(struct backend_pair *pair, struct kvt_error *err)
{
    uint32_t slots = kvt_env_slots_max(&pair->env);
    bool ok = true;

    pair->first_hashes = calloc(pair->env.llm->store_count, sizeof *pair->first_hashes);
    ok = ok && pair->first_hashes;
    for (int side = 0; side < PAIR_SIDES; side++) {
        pair->selected[side] = calloc(pair->env.llm->top_k, sizeof(uint32_t));
        ok = ok && pair->selected[side];
    }
    pair->cache_rows = calloc(slots, sizeof *pair->cache_rows);
    pair->cache_ranks = calloc(slots, sizeof *pair->cache_ranks);
    return ok && pair->cache_rows && pair->cache_ranks
               ? KVT_OK
               : kvt_fail_nomem(err, "the comparison of two backends");
}

static void pair_close(struct kvt_backend *backend);

static const struct kvt_backend_ops pair_ops;

kvt_status kvt_backend_pair_open(void *context, const struct kvt_backend_env *env,
                                 struct kvt_backend **out, struct kvt_error *err)
{
    const struct kvt_pair_sides *sides = context;
    struct backend_pair *pair = calloc(1, sizeof *pair);
    const struct kvt_law *law = (const struct kvt_law *)(const void *)env->selection.info;

    if (!pair)
        return kvt_fail_nomem(err, "a pair of backends");
    pair->base.ops = &pair_ops;
    pair->env = *env;
    pair->env.is_inspected = true;
    pair->source = (struct kvt_law_source){.context = pair, .read = read_first};
    (void)pthread_mutex_init(&pair->source_lock, NULL);
    struct kvt_backend_env second = pair->env;
    second.params = (struct kvt_params){0};
    pair->second_reads = law->reads_source;
    if (pair->second_reads)
        second.source = &pair->source;
    kvt_status status = env->sample_stores > 0 || env->sample_requests > 0
                            ? kvt_fail(err, KVT_ERR_UNSUPPORTED, "run.fidelity",
                                       "two backends are compared call by call; \"exact\" is "
                                       "expected")
                            : make_scratch(pair, err);
    if (status == KVT_OK)
        status = sides->first->open(&pair->env, &pair->sides[0], err);
    if (status == KVT_OK)
        status = sides->second->open(&second, &pair->sides[1], err);
    if (status != KVT_OK) {
        pair_close(&pair->base);
        return status;
    }
    *out = &pair->base;
    return KVT_OK;
}

static void lane_free(struct pair_lane *lane)
{
    if (!lane)
        return;
    kvt_page_watch_fini(&lane->watch);
    free(lane->ready_bits);
    free(lane);
}

static void pair_close(struct kvt_backend *backend)
{
    struct backend_pair *pair = pair_of(backend);

    for (size_t i = 0; i < pair->lane_capacity; i++)
        lane_free(pair->lanes[i]);
    for (int side = 0; side < PAIR_SIDES; side++) {
        if (pair->sides[side])
            pair->sides[side]->ops->close(pair->sides[side]);
        free(pair->selected[side]);
    }
    free(pair->first_hashes);
    free(pair->second_hashes);
    (void)pthread_mutex_destroy(&pair->source_lock);
    free(pair->cache_rows);
    free(pair->cache_ranks);
    free(pair->lanes);
    free(pair->ranks);
    free(pair->items);
    free(pair);
}

/* ---- Steps ----------------------------------------------------------------------------- */

static kvt_status make_room(struct backend_pair *pair, size_t ranks, size_t items,
                            struct kvt_error *err)
{
    if (ranks > pair->rank_capacity) {
        struct kvt_rank_step *larger = realloc(pair->ranks, ranks * sizeof *larger);
        if (!larger)
            return kvt_fail_nomem(err, "a step of two backends");
        pair->ranks = larger;
        pair->rank_capacity = ranks;
    }
    if (items > pair->item_capacity) {
        size_t hashes_bytes = 2 * items * pair->env.llm->store_count * sizeof(uint64_t);
        struct kvt_step_item *larger = realloc(pair->items, 2 * items * sizeof *larger);
        if (!larger)
            return kvt_fail_nomem(err, "a step of two backends");
        pair->items = larger;
        uint64_t *hashes = realloc(pair->second_hashes, hashes_bytes);
        if (!hashes)
            return kvt_fail_nomem(err, "a step of two backends");
        pair->second_hashes = hashes;
        pair->item_capacity = 2 * items;
    }
    return KVT_OK;
}

/* The second's watch begins as the first's does. */
static kvt_status copy_watch(struct backend_pair *pair, struct kvt_step_item *item,
                             struct kvt_error *err)
{
    struct pair_lane *lane = pair->lanes[item->request];
    const struct kvt_page_watch *watch = item->watch;

    if (!watch)
        return KVT_OK;
    if (lane->watch.page_count < watch->page_count) {
        kvt_page_watch_fini(&lane->watch);
        kvt_status status =
            kvt_page_watch_init(&lane->watch, watch->page_count, watch->hits != NULL,
                                watch->scores != NULL, false, err);
        if (status != KVT_OK)
            return status;
    }
    if (watch->hits)
        memcpy(lane->watch.hits, watch->hits, watch->page_count * sizeof *watch->hits);
    if (watch->scores)
        memcpy(lane->watch.scores, watch->scores, watch->page_count * sizeof *watch->scores);
    item->watch = &lane->watch;
    return KVT_OK;
}

static kvt_status copy_step(struct backend_pair *pair, const struct kvt_rank_step *ranks,
                            uint32_t rank_count, struct kvt_error *err)
{
    size_t items = 0;

    for (uint32_t r = 0; r < rank_count; r++)
        items += ranks[r].item_count;
    kvt_status status = make_room(pair, rank_count, items, err);
    struct kvt_step_item *next = pair->items;
    for (uint32_t r = 0; r < rank_count && status == KVT_OK; r++) {
        pair->ranks[r] = ranks[r];
        pair->ranks[r].items = next;
        for (uint32_t i = 0; i < ranks[r].item_count && status == KVT_OK; i++) {
            *next = ranks[r].items[i];
            status = copy_watch(pair, next++, err);
        }
    }
    return status;
}

static void count_step(struct backend_pair *pair, const struct kvt_rank_step *rank)
{
    struct kvt_pair_report *report = &pair->report;

    report->steps += rank->item_count > 0;
    report->rounds += rank->item_count;
    report->waves += (uint64_t)rank->outcome.load.extra_waves;
    for (int s = 0; s < KVT_STRATA_MAX; s++)
        report->calls += rank->outcome.rows[s].calls;
}

/* The second's part of a step, on a thread of its own. */
struct second_step {
    struct backend_pair *pair;
    uint32_t rank_count;
    kvt_status status;
    struct kvt_error error;
};

static void *step_second(void *context)
{
    struct second_step *step = context;
    struct backend_pair *pair = step->pair;
    struct kvt_backend *second = pair->sides[1];
    uint64_t *hashes = pair->second_hashes;

    step->status = second->ops->step(second, pair->ranks, step->rank_count, &step->error);
    for (uint32_t r = 0; r < step->rank_count; r++) {
        for (uint32_t i = 0; i < pair->ranks[r].item_count && step->status == KVT_OK; i++) {
            step->status = second->ops->state_hashes(second, pair->ranks[r].items[i].request,
                                                     hashes, &step->error);
            hashes += pair->env.llm->store_count;
        }
    }
    return NULL;
}

/* Beside the first's, unless it reads what that one selects. */
static kvt_status step_both(struct backend_pair *pair, struct kvt_rank_step *ranks,
                            uint32_t rank_count, struct kvt_error *err)
{
    struct second_step second = {.pair = pair, .rank_count = rank_count};
    pthread_t thread;
    bool beside = !pair->second_reads && pthread_create(&thread, NULL, step_second, &second) == 0;

    kvt_status status = pair->sides[0]->ops->step(pair->sides[0], ranks, rank_count, err);
    if (beside)
        (void)pthread_join(thread, NULL);
    else if (status == KVT_OK)
        (void)step_second(&second);
    if (status != KVT_OK || second.status == KVT_OK)
        return status;
    if (err)
        *err = second.error;
    return second.status;
}

static kvt_status pair_step(struct kvt_backend *backend, struct kvt_rank_step *ranks,
                            uint32_t rank_count, struct kvt_error *err)
{
    struct backend_pair *pair = pair_of(backend);
    kvt_status status = copy_step(pair, ranks, rank_count, err);

    if (status == KVT_OK)
        status = step_both(pair, ranks, rank_count, err);
    if (status == KVT_OK && pair->source_status != KVT_OK) {
        if (err)
            *err = pair->source_error;
        status = pair->source_status;
    }
    for (uint32_t r = 0; r < rank_count && status == KVT_OK; r++) {
        for (uint32_t i = 0; i < ranks[r].item_count && status == KVT_OK; i++)
            status = pair_compare_item(pair, &ranks[r], &ranks[r].items[i],
                                       &pair->ranks[r].items[i], err);
        if (status == KVT_OK) {
            pair_compare_rank(pair, &ranks[r], &pair->ranks[r]);
            count_step(pair, &ranks[r]);
        }
    }
    return status;
}

/* ---- Requests come and go -------------------------------------------------------------- */

static kvt_status make_lane(struct backend_pair *pair, uint32_t request, struct kvt_error *err)
{
    if (request >= pair->lane_capacity) {
        size_t capacity = pair->lane_capacity ? pair->lane_capacity : 64;
        while (capacity <= request)
            capacity *= 2;
        struct pair_lane **lanes = realloc(pair->lanes, capacity * sizeof(struct pair_lane *));
        if (!lanes)
            return kvt_fail_nomem(err, "the requests of two backends");
        memset(lanes + pair->lane_capacity, 0,
               (capacity - pair->lane_capacity) * sizeof(struct pair_lane *));
        pair->lanes = lanes;
        pair->lane_capacity = capacity;
    }
    pair->lanes[request] = calloc(1, sizeof *pair->lanes[request]);
    return pair->lanes[request] ? KVT_OK : kvt_fail_nomem(err, "a request of two backends");
}

static kvt_status pair_expect(struct kvt_backend *backend,
                              const struct kvt_backend_admission *admission, struct kvt_error *err)
{
    struct backend_pair *pair = pair_of(backend);
    kvt_status status = KVT_OK;

    for (int side = 0; side < PAIR_SIDES && status == KVT_OK; side++) {
        if (pair->sides[side]->ops->expect)
            status = pair->sides[side]->ops->expect(pair->sides[side], admission, err);
    }
    return status;
}

static kvt_status pair_admit(struct kvt_backend *backend,
                             const struct kvt_backend_admission *admission, struct kvt_error *err)
{
    struct backend_pair *pair = pair_of(backend);
    kvt_status status = make_lane(pair, admission->request, err);

    if (status != KVT_OK)
        return status;
    status = pair->sides[0]->ops->admit(pair->sides[0], admission, err);
    if (status == KVT_OK) {
        uint64_t none = 0;
        status = pair->sides[1]->ops->admit(pair->sides[1], admission, err);
        if (status != KVT_OK)
            pair->sides[0]->ops->release(pair->sides[0], admission->request, &none);
    }
    if (status != KVT_OK) {
        lane_free(pair->lanes[admission->request]);
        pair->lanes[admission->request] = NULL;
        return status;
    }
    pair->report.admissions++;
    return KVT_OK;
}

static kvt_status pair_resize(struct kvt_backend *backend, uint32_t request, uint64_t hot_tokens,
                              uint64_t *decisions, struct kvt_error *err)
{
    struct backend_pair *pair = pair_of(backend);
    uint64_t second = *decisions;

    kvt_status status =
        pair->sides[0]->ops->resize(pair->sides[0], request, hot_tokens, decisions, err);
    if (status == KVT_OK)
        status = pair->sides[1]->ops->resize(pair->sides[1], request, hot_tokens, &second, err);
    if (status != KVT_OK)
        return status;
    pair_compare_ends(pair, request, "given another hot cache", *decisions, second);
    pair->report.resizes++;
    return KVT_OK;
}

static void pair_release(struct kvt_backend *backend, uint32_t request, uint64_t *decisions)
{
    struct backend_pair *pair = pair_of(backend);
    uint64_t second = *decisions;

    pair->sides[0]->ops->release(pair->sides[0], request, decisions);
    pair->sides[1]->ops->release(pair->sides[1], request, &second);
    pair_compare_ends(pair, request, "released", *decisions, second);
    pair->report.releases++;
    lane_free(pair->lanes[request]);
    pair->lanes[request] = NULL;
}

/* ---- What the first answers for both ------------------------------------------------------ */

static uint32_t pair_strata(const struct kvt_backend *backend, struct kvt_stratum *strata)
{
    const struct backend_pair *pair = (const struct backend_pair *)backend;
    return pair->sides[0]->ops->strata(pair->sides[0], strata);
}

static const char *pair_describe(struct kvt_backend *backend)
{
    struct backend_pair *pair = pair_of(backend);
    return pair->sides[0]->ops->describe(pair->sides[0]);
}

static void pair_restart_sampling(struct kvt_backend *backend)
{
    struct backend_pair *pair = pair_of(backend);

    for (int side = 0; side < PAIR_SIDES; side++)
        pair->sides[side]->ops->restart_sampling(pair->sides[side]);
}

static void pair_sampling(const struct kvt_backend *backend, struct kvt_sampling *out)
{
    const struct backend_pair *pair = (const struct backend_pair *)backend;
    pair->sides[0]->ops->sampling(pair->sides[0], out);
}

static kvt_status pair_state_hashes(struct kvt_backend *backend, uint32_t request, uint64_t *hashes,
                                    struct kvt_error *err)
{
    struct backend_pair *pair = pair_of(backend);
    return pair->sides[0]->ops->state_hashes(pair->sides[0], request, hashes, err);
}

static kvt_status pair_inspect_call(struct kvt_backend *backend, uint32_t request,
                                    uint32_t selector, uint32_t query,
                                    struct kvt_resolve_result *out, struct kvt_error *err)
{
    struct backend_pair *pair = pair_of(backend);
    return pair->sides[0]->ops->inspect_call(pair->sides[0], request, selector, query, out, err);
}

static kvt_status pair_inspect_cache(struct kvt_backend *backend, uint32_t request, uint32_t store,
                                     struct kvt_backend_cache *out, struct kvt_error *err)
{
    struct backend_pair *pair = pair_of(backend);
    return pair->sides[0]->ops->inspect_cache(pair->sides[0], request, store, out, err);
}

static kvt_status pair_selection(struct kvt_backend *backend, uint32_t request, uint32_t selector,
                                 uint32_t query, uint32_t *rows, uint32_t *count,
                                 struct kvt_error *err)
{
    struct backend_pair *pair = pair_of(backend);
    return pair->sides[0]->ops->selection(pair->sides[0], request, selector, query, rows, count,
                                          err);
}

static void pair_proof(const struct kvt_backend *backend, struct kvt_backend_proof *out)
{
    const struct backend_pair *pair = (const struct backend_pair *)backend;

    *out = (struct kvt_backend_proof){0};
    if (pair->sides[0]->ops->proof)
        pair->sides[0]->ops->proof(pair->sides[0], out);
}

static bool pair_runs_drafts(const struct kvt_backend *backend)
{
    return kvt_backend_runs_drafts(((const struct backend_pair *)backend)->sides[0]);
}

static kvt_status pair_finish(struct kvt_backend *backend, struct kvt_error *err)
{
    struct backend_pair *pair = pair_of(backend);
    kvt_status status = KVT_OK;

    for (int side = 0; side < PAIR_SIDES && status == KVT_OK; side++) {
        if (pair->sides[side]->ops->finish)
            status = pair->sides[side]->ops->finish(pair->sides[side], err);
    }
    return status;
}

void kvt_backend_pair_report(const struct kvt_backend *backend, struct kvt_pair_report *out)
{
    *out = ((const struct backend_pair *)backend)->report;
}

static const struct kvt_backend_ops pair_ops = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof pair_ops,
             .name = "pair",
             .summary = "two backends on one schedule"},
    .close = pair_close,
    .strata = pair_strata,
    .describe = pair_describe,
    .admit = pair_admit,
    .resize = pair_resize,
    .release = pair_release,
    .step = pair_step,
    .restart_sampling = pair_restart_sampling,
    .sampling = pair_sampling,
    .state_hashes = pair_state_hashes,
    .inspect_call = pair_inspect_call,
    .inspect_cache = pair_inspect_cache,
    .selection = pair_selection,
    .proof = pair_proof,
    .finish = pair_finish,
    .expect = pair_expect,
    .runs_drafts = pair_runs_drafts,
};
