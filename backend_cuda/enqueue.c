/* enqueue.c -- the GPU's part of a step, launch by launch.
 *
 *     a drafter's rows and pass (draft.c)
 *     for each layer of the model
 *         where a selector begins
 *             scan, top-k; the round's new rows into the store's tail
 *             resolve, or the plan; the store's first layer of what is missing, exposed
 *             the other layers of it: beside what follows
 *         attention over the store's layer, where there is one for it; each of the other layers
 *         waits for its own rows
 *         the dense part
 *     behind a selector's last layer: promotion, other waves
 *
 * The same launches are captured into a graph or go to the stream as they are. How many waves there
 * are only the GPU knows: in a graph they are branches, else the CPU asks, selector by selector. */
#include "step.h"

/* One selector of a step. */
struct turn {
    struct rank *rank;
    const struct step_key *key;
    uint32_t selector, store;
    uint32_t end_layer; /* of the model: where the next selector begins */
};

static kvt_status mark(struct rank *rank, const struct step_key *key, enum kvt_step_part part,
                       struct kvt_error *err)
{
    struct step_graph *graph = rank->graph;

    if (key->timing == KVT_TIMED_WHOLE || graph->mark_count == MARKS_MAX ||
        rank->launches != rank->main)
        return KVT_OK;
    graph->mark_parts[graph->mark_count] = (uint8_t)part;
    return rank_check(rank,
                      cudaEventRecordWithFlags(rank->marks[graph->mark_count++], rank->launches,
                                               rank->capturing ? cudaEventRecordExternal : 0),
                      "a time within a step", err);
}

/* ---- Index ---------------------------------------------------------------------------- */

kvt_status enqueue_index(struct rank *rank, const struct step_key *key, uint32_t selector,
                         int32_t *rows, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    const struct kvt_llm *llm = cuda->llm;
    uint32_t s = llm->selectors[selector].store;
    const struct store_shape *shape = &cuda->stores[s];
    size_t queries = (size_t)selector * cuda->query_rows;
    uint32_t rows_max = key->tokens / shape->ratio;

    rows_max = rows_max < shape->rows_max ? rows_max : shape->rows_max;
    struct kvt_gpu_scan scan = {.request_count = key->request_count,
                                .query_count = key->query_count,
                                .queries_max = key->queries_max,
                                .ratio = shape->ratio,
                                .heads = llm->index_heads,
                                .requests = on_device(&rank->block, rank->block.requests),
                                .queries = on_device(&rank->block, rank->block.queries),
                                .keys = rank->stores[s].keys,
                                .lane_bytes = shape->lane_key_bytes,
                                .q = rank->index_q + queries * llm->index_heads * KVT_GPU_INDEX_DIM,
                                .weights = rank->index_weights + queries * llm->index_heads,
                                .scores = rank->scores,
                                .score_stride = rank->score_stride,
                                .rows_max = rows_max,
                                .reference = cuda->reference};
    struct kvt_gpu_topk topk = {.query_count = key->query_count,
                                .k = llm->top_k,
                                .ratio = shape->ratio,
                                .requests = scan.requests,
                                .queries = scan.queries,
                                .scores = rank->scores,
                                .score_stride = rank->score_stride,
                                .rows_max = rows_max,
                                .rows = rows,
                                .reference = cuda->reference};
    kvt_status status = rank_check(rank, kvt_gpu_scan(&scan, rank->launches), "kvt_gpu_scan", err);

    if (status == KVT_OK)
        status = rank_check(rank, kvt_gpu_topk(&topk, rank->launches), "kvt_gpu_topk", err);
    return status;
}

/* Where a law selects, or plans were made of the device's rows, the time alone is of interest. */
static int32_t *indexed_rows(struct rank *rank, uint32_t selector)
{
    const struct backend_cuda *cuda = rank->cuda;

    if (cuda->chooser == CHOOSE_LAW || cuda->decider == DECIDE_ON_HOST)
        return rank->scan_rows;
    return rank->selections + (size_t)selector * cuda->query_rows * cuda->llm->top_k;
}

/* ---- Calls ---------------------------------------------------------------------------- */

static kvt_status append(struct rank *rank, const struct step_key *key, uint32_t s,
                         struct kvt_error *err)
{
    const struct store_shape *shape = &rank->cuda->stores[s];
    struct kvt_gpu_append append = {.request_count = key->request_count,
                                    .ratio = shape->ratio,
                                    .first_layer = shape->first_layer,
                                    .layers = shape->layers,
                                    .layer_bytes = shape->layer_bytes,
                                    .format = rank->cuda->format,
                                    .requests = on_device(&rank->block, rank->block.requests),
                                    .tail0 = rank->stores[s].places.tail0,
                                    .pool = rank->pool};

    return rank_check(rank, kvt_gpu_append(&append, rank->launches), "kvt_gpu_append", err);
}

static struct kvt_gpu_resolve resolve_of(struct rank *rank, const struct step_key *key,
                                         uint32_t selector, uint32_t pass)
{
    const struct backend_cuda *cuda = rank->cuda;
    const struct kvt_llm *llm = cuda->llm;
    uint32_t s = llm->selectors[selector].store;
    const struct store_shape *shape = &cuda->stores[s];
    const struct store_state *store = &rank->stores[s];
    const struct kvt_gpu_request *requests =
        cuda->passes > 1 ? rank->block.pass_requests + (size_t)pass * cuda->lanes
                         : rank->block.requests;
    size_t lists = (size_t)selector * cuda->query_rows * llm->top_k;
    size_t calls = ((size_t)selector * cuda->passes + pass) * cuda->lanes;
    size_t misses = calls * cuda->pass_queries * llm->top_k;

    return (struct kvt_gpu_resolve){.request_count = key->pass_requests[pass],
                                    .query_count = key->query_count,
                                    .queries_max = cuda->passes > 1 ? 1 : key->queries_max,
                                    .top_k = llm->top_k,
                                    .ratio = shape->ratio,
                                    .layers = shape->layers,
                                    .layer_bytes = shape->layer_bytes,
                                    .requests = on_device(&rank->block, requests),
                                    .selections = rank->selections + lists,
                                    .hot = store->hot,
                                    .places = store->places,
                                    .frames = on_device(&rank->block, rank->block.frames),
                                    .frame_stride = cuda->frame_stride,
                                    .pool = rank->pool,
                                    .host = store->host,
                                    .fetch = cuda->leader_first && shape->layers > 1
                                                 ? KVT_GPU_FETCH_LEADER
                                                 : KVT_GPU_FETCH_GROUP,
                                    .staging_share = key->takes_turns ? 0 : key->staging_share,
                                    .promote_by_count = cuda->env.promotion == KVT_PROMOTE_BY_COUNT,
                                    .row_places = rank->row_places + lists,
                                    .missed = rank->missed + misses,
                                    .missed_places = rank->missed_places + misses,
                                    .missed_stride = cuda->pass_queries * llm->top_k,
                                    .promoted = rank->promoted + 2 * misses,
                                    .counts = rank->counts + calls,
                                    .workspace = rank->resolve_workspace,
                                    .reference = cuda->reference};
}

static kvt_status share_arena(const struct turn *turn, const struct kvt_gpu_resolve *resolve,
                              struct kvt_error *err)
{
    struct rank *rank = turn->rank;
    uint64_t row_bytes = rank->cuda->stores[turn->store].row_bytes;

    return rank_check(
        rank,
        kvt_gpu_waves(resolve, turn->key->turn_bytes / row_bytes, rank->wave_count, rank->launches),
        "kvt_gpu_waves", err);
}

static kvt_status decide(const struct turn *turn, struct kvt_gpu_resolve *resolve,
                         struct kvt_error *err)
{
    struct rank *rank = turn->rank;
    enum kvt_gpu_fetch fetch = resolve->fetch;
    kvt_status status = KVT_OK;

    if (rank->cuda->decider == DECIDE_ON_HOST) {
        if (turn->key->takes_turns)
            status = share_arena(turn, resolve, err);
        if (status == KVT_OK)
            status = rank_check(rank, kvt_gpu_execute_plan(resolve, rank->launches),
                                "kvt_gpu_execute_plan", err);
        return status;
    }
    if (turn->key->timing == KVT_TIMED_APART)
        resolve->fetch = KVT_GPU_FETCH_NONE;
    status = rank_check(rank, kvt_gpu_resolve(resolve, rank->launches), "kvt_gpu_resolve", err);
    resolve->fetch = fetch;
    if (status == KVT_OK && turn->key->timing == KVT_TIMED_APART) {
        status = mark(rank, turn->key, KVT_PART_FETCH, err);
        if (status == KVT_OK)
            status = rank_check(
                rank, kvt_gpu_fetch_followers(resolve, 0, resolve->layers, rank->launches),
                "kvt_gpu_fetch_followers", err);
    }
    if (status == KVT_OK && turn->key->takes_turns)
        status = share_arena(turn, resolve, err);
    return status;
}

/* Followers, on a stream of their own: layer by layer, so that each is hidden behind all layers
 * before it. */
static bool has_followers(const struct turn *turn, const struct kvt_gpu_resolve *resolve)
{
    return resolve->fetch == KVT_GPU_FETCH_LEADER && turn->key->timing != KVT_TIMED_APART &&
           turn->rank->cuda->env.hierarchy;
}

/* One layer of them, behind the one before. */
static kvt_status send_follower(const struct turn *turn, const struct kvt_gpu_resolve *resolve,
                                uint32_t layer, struct kvt_error *err)
{
    struct rank *rank = turn->rank;
    cudaError_t error = kvt_gpu_fetch_followers(resolve, layer, layer + 1, rank->beside);

    if (error == cudaSuccess)
        error = cudaEventRecord(rank->joined, rank->beside);
    return rank_check(rank, error, "kvt_gpu_fetch_followers", err);
}

static kvt_status fork_followers(const struct turn *turn, const struct kvt_gpu_resolve *resolve,
                                 struct kvt_error *err)
{
    struct rank *rank = turn->rank;
    cudaError_t error = cudaEventRecord(rank->forked, rank->launches);

    if (error == cudaSuccess)
        error = cudaStreamWaitEvent(rank->beside, rank->forked, 0);
    kvt_status status = rank_check(rank, error, "the followers' stream", err);
    return status == KVT_OK ? send_follower(turn, resolve, 1, err) : status;
}

/* What of a layer is not hidden counts as fetching. The next one is sent once this one is waited
 * for, which costs it nothing: it depends on its own stream alone. */
static kvt_status join_follower(const struct turn *turn, const struct kvt_gpu_resolve *resolve,
                                uint32_t layer, struct kvt_error *err)
{
    struct rank *rank = turn->rank;
    kvt_status status = mark(rank, turn->key, KVT_PART_FETCH, err);

    if (status == KVT_OK)
        status = rank_check(rank, cudaStreamWaitEvent(rank->launches, rank->joined, 0),
                            "waiting for followers", err);
    if (status == KVT_OK && layer + 1 < resolve->layers)
        status = send_follower(turn, resolve, layer + 1, err);
    return status;
}

static kvt_status fetch(const struct turn *turn, const struct kvt_gpu_resolve *resolve,
                        struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    if (turn->key->takes_turns)
        status = rank_check(turn->rank, kvt_gpu_fetch_wave(resolve, 0, turn->rank->launches),
                            "kvt_gpu_fetch_wave", err);
    if (status == KVT_OK && has_followers(turn, resolve))
        status = fork_followers(turn, resolve, err);
    return status;
}

/* ---- Attention ------------------------------------------------------------------------ */

/* The queries of a pass, or of a wave. */
static kvt_status attend(const struct turn *turn, uint32_t layer, uint32_t pass, uint32_t wave,
                         struct kvt_error *err)
{
    struct rank *rank = turn->rank;
    const struct backend_cuda *cuda = rank->cuda;
    const struct kvt_llm *llm = cuda->llm;
    const struct store_shape *shape = &cuda->stores[turn->store];
    struct kvt_gpu_attend attend = {
        .query_count = turn->key->query_count,
        .heads = llm->heads,
        .k = llm->top_k,
        .format = cuda->format,
        .row_scale = 1,
        .softmax_scale = cuda->softmax_scale,
        .rows = rank->pool + (size_t)layer * shape->layer_bytes,
        .row_bytes = shape->row_bytes,
        .places = rank->row_places + (size_t)turn->selector * cuda->query_rows * llm->top_k,
        .q = rank->q,
        .out = rank->out + (size_t)layer * cuda->query_rows * cuda->out_bytes,
        .out_is_float = cuda->out_is_float,
        .reference = cuda->reference};

    if (turn->key->takes_turns) {
        attend.queries = on_device(&rank->block, rank->block.queries);
        attend.counts = rank->counts + (size_t)turn->selector * cuda->passes * cuda->lanes;
        attend.wave = wave;
    } else if (cuda->passes > 1) {
        attend.queries = on_device(&rank->block, rank->block.pass_queries);
        attend.counts = on_device(&rank->block, rank->block.pass_counts);
        attend.wave = pass;
    }
    return rank_check(rank, kvt_gpu_attend(&attend, rank->launches), "kvt_gpu_attend", err);
}

/* One layer of the model, behind what the selector fetched; `layer` counts from the selector's own.
 */
static kvt_status run_layer(const struct turn *turn, const struct kvt_gpu_resolve *resolve,
                            uint32_t layer, uint32_t pass, bool dense, struct kvt_error *err)
{
    struct rank *rank = turn->rank;
    const struct store_shape *shape = &rank->cuda->stores[turn->store];
    kvt_status status = KVT_OK;

    if (layer > 0 && layer < shape->layers && has_followers(turn, resolve))
        status = join_follower(turn, resolve, layer, err);
    if (layer < shape->layers && status == KVT_OK)
        status = mark(rank, turn->key, KVT_PART_ATTEND, err);
    if (layer < shape->layers && status == KVT_OK)
        status = attend(turn, layer, pass, 0, err);
    if (status == KVT_OK && dense) {
        status = mark(rank, turn->key, KVT_PART_DENSE, err);
        if (status == KVT_OK)
            status =
                rank_enqueue_dense(rank, rank->cuda->llm->selectors[turn->selector].layer + layer,
                                   turn->key->query_count, err);
    }
    return status;
}

static kvt_status run_layers(const struct turn *turn, const struct kvt_gpu_resolve *resolve,
                             uint32_t pass, bool dense, struct kvt_error *err)
{
    uint32_t first = turn->rank->cuda->llm->selectors[turn->selector].layer;
    uint32_t own = turn->end_layer - first;
    uint32_t layers = turn->rank->cuda->stores[turn->store].layers;
    kvt_status status = KVT_OK;

    for (uint32_t l = 0; (l < own || l < layers) && status == KVT_OK; l++)
        status = run_layer(turn, resolve, l, pass, dense && l < own, err);
    return status;
}

/* What a wave's calls keep of their staging, before the next has the arena. */
static kvt_status promote(const struct turn *turn, const struct kvt_gpu_resolve *resolve,
                          uint32_t wave, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    if (!resolve->promote_by_count)
        return KVT_OK;
    status = mark(turn->rank, turn->key, KVT_PART_OTHER, err);
    if (status == KVT_OK)
        status = rank_check(turn->rank, kvt_gpu_promote(resolve, wave, turn->rank->launches),
                            "kvt_gpu_promote", err);
    return status;
}

/* One wave behind the first, which has the whole arena to itself. */
static kvt_status run_wave(const struct turn *turn, const struct kvt_gpu_resolve *resolve,
                           uint32_t wave, struct kvt_error *err)
{
    struct rank *rank = turn->rank;
    kvt_status status = mark(rank, turn->key, KVT_PART_FETCH, err);

    if (status == KVT_OK)
        status = rank_check(rank, kvt_gpu_fetch_wave(resolve, wave, rank->launches),
                            "kvt_gpu_fetch_wave", err);
    if (status == KVT_OK)
        status = mark(rank, turn->key, KVT_PART_ATTEND, err);
    for (uint32_t l = 0; l < rank->cuda->stores[turn->store].layers && status == KVT_OK; l++)
        status = attend(turn, l, 0, wave, err);
    return status == KVT_OK ? promote(turn, resolve, wave, err) : status;
}

/* In a graph: each wave is a branch within that of the one before. A capture that failed is ended
 * branch by branch all the same. */
static kvt_status branch_into_waves(const struct turn *turn, const struct kvt_gpu_resolve *resolve,
                                    struct kvt_error *err)
{
    struct rank *rank = turn->rank;
    uint32_t wave = 1;
    kvt_status status = KVT_OK;

    for (; wave < turn->key->waves_max && status == KVT_OK; wave++) {
        status = graph_begin_branch(rank, rank->wave_count, wave, wave - 1, err);
        if (status != KVT_OK)
            break;
        status = run_wave(turn, resolve, wave, err);
    }
    while (wave-- > 1) {
        struct kvt_error ending;
        kvt_status ended = graph_end_branch(rank, wave - 1, status == KVT_OK ? err : &ending);
        status = status == KVT_OK ? ended : status;
    }
    return status;
}

/* Waves behind the first: their requests go through the store's layers once the first's have. */
static kvt_status run_other_waves(const struct turn *turn, const struct kvt_gpu_resolve *resolve,
                                  struct kvt_error *err)
{
    struct rank *rank = turn->rank;

    if (rank->capturing)
        return branch_into_waves(turn, resolve, err);
    kvt_status status = rank_check(rank,
                                   cudaMemcpyAsync(rank->wave_count_pinned, rank->wave_count,
                                                   sizeof *rank->wave_count, cudaMemcpyDeviceToHost,
                                                   rank->launches),
                                   "a count of waves", err);
    if (status == KVT_OK)
        status = rank_wait_stream(rank, rank->launches, "a count of waves", err);
    for (uint32_t wave = 1; status == KVT_OK && wave < *rank->wave_count_pinned; wave++)
        status = run_wave(turn, resolve, wave, err);
    return status;
}

/* ---- Selectors ------------------------------------------------------------------------ */

/* Calls of one pass: of all queries, or of each request's query number `pass`. */
static kvt_status run_pass(const struct turn *turn, uint32_t pass, bool is_last,
                           struct kvt_error *err)
{
    struct rank *rank = turn->rank;
    struct kvt_gpu_resolve resolve = resolve_of(rank, turn->key, turn->selector, pass);
    kvt_status status = mark(rank, turn->key, KVT_PART_RESOLVE, err);

    if (status == KVT_OK)
        status = decide(turn, &resolve, err);
    if (status == KVT_OK)
        status = fetch(turn, &resolve, err);
    if (status == KVT_OK)
        status = run_layers(turn, &resolve, pass, is_last, err);
    if (status == KVT_OK)
        status = promote(turn, &resolve, 0, err);
    if (status == KVT_OK && turn->key->takes_turns)
        status = run_other_waves(turn, &resolve, err);
    return status;
}

static kvt_status run_selector(const struct turn *turn, struct kvt_error *err)
{
    struct rank *rank = turn->rank;
    const struct backend_cuda *cuda = rank->cuda;
    uint32_t passes = 0;
    kvt_status status = mark(rank, turn->key, KVT_PART_INDEX, err);

    if (status == KVT_OK)
        status =
            enqueue_index(rank, turn->key, turn->selector, indexed_rows(rank, turn->selector), err);
    if (status == KVT_OK)
        status = mark(rank, turn->key, KVT_PART_OTHER, err);
    if (status == KVT_OK && turn->selector == cuda->stores[turn->store].first_selector)
        status = append(rank, turn->key, turn->store, err);
    while (passes < cuda->passes && turn->key->pass_requests[passes] > 0)
        passes++;
    for (uint32_t pass = 0; pass < passes && status == KVT_OK; pass++)
        status = run_pass(turn, pass, pass + 1 == passes, err);
    if (status == KVT_OK && cuda->check_queries > 0)
        status = rank_check(
            rank,
            kvt_gpu_copy(on_device(&rank->block, rank->block.proof_copies +
                                                     (size_t)turn->selector * cuda->check_queries),
                         cuda->check_queries, rank->launches),
            "kvt_gpu_copy", err);
    return status;
}

kvt_status enqueue_step(struct rank *rank, const struct step_key *key, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    const struct kvt_llm *llm = cuda->llm;

    rank->launches = rank->main;
    rank->graph->mark_count = 0;
    kvt_status status =
        rank_check(rank,
                   cudaEventRecordWithFlags(rank->begin, rank->launches,
                                            rank->capturing ? cudaEventRecordExternal : 0),
                   "the beginning of a step", err);
    if (status == KVT_OK && cuda->draft.words[0])
        status = mark(rank, key,
                      cuda->draft.pass == DRAFT_NOT_RUN ? KVT_PART_OTHER : KVT_PART_DRAFT, err);
    if (status == KVT_OK)
        status = draft_enqueue(rank, key, err);
    /* Layers before the first selector keep windows only, which are not the hierarchy's. */
    for (uint32_t l = 0; l < llm->selectors[0].layer && status == KVT_OK; l++) {
        status = mark(rank, key, KVT_PART_DENSE, err);
        if (status == KVT_OK)
            status = rank_enqueue_dense(rank, l, key->query_count, err);
    }
    for (uint32_t s = 0; s < llm->selector_count && status == KVT_OK; s++) {
        struct turn turn = {.rank = rank,
                            .key = key,
                            .selector = s,
                            .store = llm->selectors[s].store,
                            .end_layer = s + 1 < llm->selector_count ? llm->selectors[s + 1].layer
                                                                     : llm->layers};
        status = run_selector(&turn, err);
    }
    if (status == KVT_OK)
        status = mark(rank, key, KVT_PART_OTHER, err);
    if (status == KVT_OK && cuda->decider == DECIDE_ON_DEVICE)
        status = rank_check(rank,
                            cudaMemcpyAsync(rank->counts_pinned, rank->counts,
                                            (size_t)llm->selector_count * cuda->passes *
                                                cuda->lanes * sizeof *rank->counts,
                                            cudaMemcpyDeviceToHost, rank->launches),
                            "the counters' copy", err);
    return status;
}
