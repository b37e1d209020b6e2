/* rank.c -- a step of a rank, from end to end.
 *
 *     ---- alone on the device ----
 *     settle      pages and tails: what has to be copied (lane.c); requests, queries, tables go up
 *     select      lists by the law, plans where the CPU decides (select.c); or the device's top-k
 *     upload      lists, plans
 *     ---- timed ----
 *     launch      the graph (enqueue.c); backups, imports and a calibration's traffic beside it
 *     ---- until here: how long, and for what (step_times.c) ----
 *     prove       some of the attention (proof.c)
 *     ---- until here ----
 *     count       counters -> outcome (outcome.c); what is selected of pages
 *
 * Ranks of a step run side by side on GPUs of their own. Those that share one take turns: all that
 * a rank does there has the device to itself, for a rank stands for a GPU. While the CPU selects,
 * with nothing of its own left there, it lets others have it. */
#include "step.h"

#include <nvtx3/nvToolsExt.h>
#include <string.h>
#include <time.h>

#include "kvt/clock.h"
#include "kvt/layout.h"

/* ---- Waiting -------------------------------------------------------------------------- */

/* Nothing in CUDA ends a wait for a kernel that never ends, so this asks, and counts. */
static kvt_status wait_for(struct rank *rank, cudaError_t (*query)(void *what), void *what,
                           const char *whose, unsigned timeout_s, struct kvt_error *err)
{
    struct kvt_wall start = kvt_wall_now();
    struct timespec pause = {.tv_nsec = 2000};
    cudaError_t error = query(what);

    while (error == cudaErrorNotReady) {
        if (kvt_wall_seconds_since(start) > timeout_s) {
            rank->device->lost = true;
            return kvt_fail(err, KVT_ERR_HUNG, "cuda",
                            "%s has not ended within %u s on GPU %d: a kernel hangs, or the device "
                            "is gone; what it holds stays until this process ends",
                            whose, timeout_s, rank->device->ordinal);
        }
        (void)nanosleep(&pause, NULL);
        if (pause.tv_nsec < 100000)
            pause.tv_nsec += pause.tv_nsec / 8;
        error = query(what);
    }
    return rank_check(rank, error, whose, err);
}

static cudaError_t query_stream(void *stream)
{
    return cudaStreamQuery(stream);
}

static cudaError_t query_event(void *event)
{
    return cudaEventQuery(event);
}

void rank_note(struct rank *rank, cudaError_t error)
{
    enum kvt_cuda_outcome outcome = kvt_cuda_outcome(error);

    if (outcome == KVT_CUDA_KERNEL_FAILED || outcome == KVT_CUDA_LOST)
        rank->device->lost = true;
}

kvt_status rank_check(struct rank *rank, cudaError_t error, const char *what, struct kvt_error *err)
{
    rank_note(rank, error);
    return kvt_cuda_check(error, what, err);
}

kvt_status rank_wait_stream(struct rank *rank, cudaStream_t stream, const char *what,
                            struct kvt_error *err)
{
    return wait_for(rank, query_stream, stream, what, SETUP_TIMEOUT_S, err);
}

kvt_status rank_use(struct rank *rank, struct kvt_error *err)
{
    if (rank->device->lost)
        return kvt_fail(err, KVT_ERR_DEVICE, "cuda", "GPU %d was lost before",
                        rank->device->ordinal);
    return rank_check(rank, cudaSetDevice(rank->device->ordinal), "choosing a device", err);
}

/* ---- Turns ---------------------------------------------------------------------------- */

/* Whoever had the device before may have found it hung, and says so. */
static kvt_status take_turn(struct rank *rank, struct kvt_error *err)
{
    (void)pthread_mutex_lock(&rank->device->turn);
    rank->has_turn = true;
    rank->is_late = rank->device->lost;
    return rank_use(rank, err);
}

static void give_turn(struct rank *rank)
{
    if (rank->has_turn)
        (void)pthread_mutex_unlock(&rank->device->turn);
    rank->has_turn = false;
}

/* ---- Uploads -------------------------------------------------------------------------- */

static kvt_status upload(struct rank *rank, void *to, const void *from, size_t bytes,
                         const char *what, struct kvt_error *err)
{
    return rank_check(rank, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, rank->main),
                      what, err);
}

kvt_status rank_upload_block(struct rank *rank, struct kvt_error *err)
{
    return upload(rank, rank->block.device, rank->block.host, rank->block.bytes, "a step's tables",
                  err);
}

/* Of each selector, the entries that the step's queries have. */
static kvt_status upload_lists(struct rank *rank, int32_t *to, const int32_t *from,
                               struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    size_t stride = (size_t)cuda->query_rows * cuda->llm->top_k;
    size_t bytes = (size_t)rank->key.query_count * cuda->llm->top_k * sizeof *to;
    kvt_status status = KVT_OK;

    for (uint32_t s = 0; s < cuda->llm->selector_count && status == KVT_OK; s++)
        status =
            upload(rank, to + s * stride, from + s * stride, bytes, "a step's selections", err);
    return status;
}

static kvt_status upload_call(struct rank *rank, uint32_t selector, uint32_t pass, uint32_t i,
                              struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    size_t call = call_at(rank, selector, pass, i);
    size_t at = call * cuda->pass_queries * cuda->llm->top_k;
    const struct kvt_gpu_counts *counts = &rank->counts_pinned[call];
    size_t missed = counts->filled_rows + counts->staged_rows;
    kvt_status status = KVT_OK;

    if (missed > 0)
        status = upload(rank, rank->missed + at, rank->plan_missed + at,
                        missed * sizeof *rank->missed, "a plan", err);
    if (status == KVT_OK && missed > 0)
        status = upload(rank, rank->missed_places + at, rank->plan_missed_places + at,
                        missed * sizeof *rank->missed_places, "a plan", err);
    if (status == KVT_OK && counts->promoted_rows > 0)
        status = upload(rank, rank->promoted + 2 * at, rank->plan_promoted + 2 * at,
                        2 * (size_t)counts->promoted_rows * sizeof *rank->promoted, "a plan", err);
    return status;
}

static kvt_status upload_plans(struct rank *rank, const struct kvt_rank_step *step,
                               struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    kvt_status status = upload_lists(rank, rank->row_places, rank->plan_places, err);

    if (status == KVT_OK)
        status = upload(rank, rank->counts, rank->counts_pinned,
                        (size_t)cuda->llm->selector_count * cuda->passes * cuda->lanes *
                            sizeof *rank->counts,
                        "a plan", err);
    for (uint32_t s = 0; s < cuda->llm->selector_count; s++) {
        for (uint32_t i = 0; i < step->item_count; i++) {
            uint32_t calls = cuda->passes > 1 ? step->items[i].round->query_count : 1;
            for (uint32_t pass = 0; pass < calls && status == KVT_OK; pass++)
                status = upload_call(rank, s, pass, i, err);
        }
    }
    return status;
}

/* ---- What a step is ------------------------------------------------------------------- */

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Requests, queries, and whose turn each is where every query is a call of its own. */
static void describe_item(struct rank *rank, const struct kvt_step_item *item, uint32_t i,
                          struct step_key *key)
{
    const struct backend_cuda *cuda = rank->cuda;
    struct lane *lane = rank->items[i];
    struct step_block *block = &rank->block;
    uint32_t queries = item->round->query_count;

    rank->first_query[i] = key->query_count;
    block->requests[i] = (struct kvt_gpu_request){
        .lane = lane->index,
        .first_query = key->query_count,
        .query_count = queries,
        .context_tokens = item->context_tokens,
        .frame_count = lane->hot_tokens == 0 ? lane->frame_pages
                                             : smaller(item->ready_pages, cuda->frame_stride),
        .context_id = lane->request};
    for (uint32_t q = 0; q < queries; q++, key->query_count++) {
        block->queries[key->query_count] =
            (struct kvt_gpu_query){.request = i, .depth = item->round->queries[q].depth};
        if (cuda->passes == 1)
            continue;
        /* Seen as a request of one query whose tail is that of the whole round. */
        struct kvt_gpu_request *alone =
            &block->pass_requests[q * cuda->lanes + key->pass_requests[q]];
        *alone = block->requests[i];
        alone->first_query += q;
        alone->query_count = 1;
        alone->context_tokens += queries - 1;
        rank->pass_place[q * cuda->lanes + i] = key->pass_requests[q]++;
        block->pass_queries[key->query_count] =
            (struct kvt_gpu_query){.request = key->query_count, .depth = 0};
        block->pass_counts[key->query_count] = (struct kvt_gpu_counts){.wave = q};
    }
}

/* The arena, by this step's requests: in equal shares where they go, else in waves. First fit
 * leaves at most one wave half empty. */
static void share_arena(struct rank *rank, struct step_key *key)
{
    const struct backend_cuda *cuda = rank->cuda;
    uint64_t rows = (uint64_t)(cuda->passes > 1 ? 1 : key->queries_max) * cuda->llm->top_k;

    if (cuda->env.staging.call_bytes == 0) /* every miss finds a slot */
        return;
    key->turn_bytes = kvt_staging_arena_bytes(&cuda->env.staging, key->hot_requests);
    key->staging_share = (uint32_t)rows;
    for (uint32_t s = 0; s < cuda->llm->store_count && cuda->passes == 1; s++) {
        uint64_t share_bytes = rows * cuda->stores[s].row_bytes;
        uint64_t all_bytes = key->hot_requests * share_bytes;
        if (all_bytes == 0 ||
            (all_bytes <= key->turn_bytes && key->request_count * share_bytes <= rank->arena_bytes))
            continue;
        uint32_t waves = (uint32_t)(2 * all_bytes / key->turn_bytes + 2);
        waves = waves < key->hot_requests ? waves : key->hot_requests;
        key->takes_turns = true;
        key->waves_max = waves > key->waves_max ? waves : key->waves_max;
    }
}

static void describe_step(struct rank *rank, const struct kvt_rank_step *step)
{
    const struct backend_cuda *cuda = rank->cuda;
    struct step_key *key = &rank->key;
    uint32_t tokens = 0;

    *key = (struct step_key){0};
    key->request_count = step->item_count;
    for (uint32_t i = 0; i < step->item_count; i++) {
        const struct kvt_step_item *item = &step->items[i];
        uint32_t queries = item->round->query_count;
        describe_item(rank, item, i, key);
        draft_describe_item(rank, item, i, key);
        key->queries_max = queries > key->queries_max ? queries : key->queries_max;
        key->hot_requests += rank->items[i]->hot_tokens > 0;
        tokens = item->context_tokens + queries > tokens ? item->context_tokens + queries : tokens;
    }
    if (cuda->passes == 1)
        key->pass_requests[0] = key->request_count;
    key->tokens = (tokens + ROWS_STEP - 1) / ROWS_STEP * ROWS_STEP;
    share_arena(rank, key);
    rank->staging_share = key->takes_turns ? 0 : key->staging_share;
    key->timing = step_choose_timing(rank, key);
}

static kvt_status find_items(struct rank *rank, struct kvt_rank_step *step, struct kvt_error *err)
{
    struct backend_cuda *cuda = rank->cuda;

    if (step->item_count > cuda->lanes)
        return kvt_fail(err, KVT_ERR_INTERNAL, "backend",
                        "rank %u decodes %u requests at once, and was made for %u", rank->number,
                        step->item_count, cuda->lanes);
    for (uint32_t l = 0; l < cuda->lanes; l++) {
        if (rank->lanes[l])
            rank->lanes[l]->item = -1;
    }
    for (uint32_t i = 0; i < step->item_count; i++) {
        const struct kvt_step_item *item = &step->items[i];
        uint32_t queries = item->round->query_count;
        rank->items[i] = cuda->lane_of[item->request];
        rank->items[i]->item = (int32_t)i;
        if (queries > cuda->queries_max ||
            item->context_tokens + queries > cuda->env.longest_tokens + cuda->queries_max)
            return kvt_fail(err, KVT_ERR_INTERNAL, "backend",
                            "request %u has %u queries behind %u tokens; %u behind %u were said to "
                            "be the most",
                            item->request, queries, item->context_tokens, cuda->queries_max,
                            cuda->env.longest_tokens);
        kvt_status status = draft_check_round(cuda, item, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

/* ---- Before the clock runs ------------------------------------------------------------ */

static kvt_status make_queries(struct rank *rank, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    const struct kvt_llm *llm = cuda->llm;
    kvt_status status = KVT_OK;

    for (uint32_t s = 0; s < llm->selector_count && status == KVT_OK; s++) {
        size_t first = (size_t)s * cuda->query_rows * llm->index_heads;
        struct kvt_gpu_make_queries make = {.request_count = rank->key.request_count,
                                            .query_count = rank->key.query_count,
                                            .heads = llm->index_heads,
                                            .selector = s,
                                            .requests =
                                                on_device(&rank->block, rank->block.requests),
                                            .queries = on_device(&rank->block, rank->block.queries),
                                            .drift = cuda->drift,
                                            .q = rank->index_q + first * KVT_GPU_INDEX_DIM,
                                            .weights = rank->index_weights + first};
        status =
            rank_check(rank, kvt_gpu_make_queries(&make, rank->main), "kvt_gpu_make_queries", err);
    }
    return status;
}

kvt_status rank_read_selections(struct rank *rank, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    size_t stride = (size_t)cuda->query_rows * cuda->llm->top_k;
    size_t bytes = (size_t)rank->key.query_count * cuda->llm->top_k * sizeof *rank->selections;
    kvt_status status = KVT_OK;

    for (uint32_t s = 0; s < cuda->llm->selector_count && status == KVT_OK; s++)
        status = rank_check(rank,
                            cudaMemcpyAsync(rank->selections_pinned + s * stride,
                                            rank->selections + s * stride, bytes,
                                            cudaMemcpyDeviceToHost, rank->main),
                            "selections", err);
    if (status == KVT_OK)
        status = rank_wait_stream(rank, rank->main, "selections", err);
    rank->selections_read = status == KVT_OK;
    return status;
}

/* Where the CPU decides about rows that the device selects, they come down first. */
static kvt_status index_ahead(struct rank *rank, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    kvt_status status = KVT_OK;

    for (uint32_t s = 0; s < cuda->llm->selector_count && status == KVT_OK; s++)
        status =
            enqueue_index(rank, &rank->key, s,
                          rank->selections + (size_t)s * cuda->query_rows * cuda->llm->top_k, err);
    return status == KVT_OK ? rank_read_selections(rank, err) : status;
}

/* Pages that a request begins with are the end of its import: apart from what others move. */
static kvt_status settle_first(struct lane *lane, const struct kvt_step_item *item,
                               struct copy_list *fills, struct copy_list *backups,
                               struct kvt_error *err)
{
    struct rank *rank = fills->rank;
    struct copy_list first = copies_begin(rank, rank->main, COPIES_OF_STEP);
    kvt_status status = copies_launch(fills, err);

    if (status == KVT_OK)
        status = rank_wait_stream(rank, rank->main, "a list of copies", err);
    if (status == KVT_OK)
        status = gpu_lane_settle(lane, item, &first, backups, err);
    lane->joins = false;
    return status == KVT_OK ? imports_copy(&first, err) : status;
}

static kvt_status settle(struct rank *rank, const struct kvt_rank_step *step,
                         struct copy_list *backups, struct kvt_error *err)
{
    struct copy_list fills = copies_begin(rank, rank->main, COPIES_OF_STEP);
    kvt_status status = KVT_OK;

    for (uint32_t i = 0; i < step->item_count && status == KVT_OK; i++) {
        struct lane *lane = rank->items[i];
        if (lane->joins)
            status = settle_first(lane, &step->items[i], &fills, backups, err);
        else
            status = gpu_lane_settle(lane, &step->items[i], &fills, backups, err);
    }
    return status == KVT_OK ? copies_launch(&fills, err) : status;
}

/* The CPU's part: others that share the device have it meanwhile. */
static kvt_status select_aside(struct rank *rank, struct kvt_rank_step *step, struct kvt_error *err)
{
    bool shares = rank->device->rank_count > 1;
    kvt_status status = KVT_OK;

    if (shares) {
        status = rank_wait_stream(rank, rank->main, "a step's uploads", err);
        if (status != KVT_OK)
            return status;
        give_turn(rank);
    }
    nvtxRangePushA("select");
    status = select_step(rank, step, err);
    nvtxRangePop();
    if (status == KVT_OK && shares)
        status = take_turn(rank, err);
    return status;
}

static kvt_status prepare(struct rank *rank, struct kvt_rank_step *step, struct copy_list *backups,
                          struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    bool ahead = cuda->chooser == CHOOSE_INDEXER &&
                 (cuda->decider == DECIDE_ON_HOST || cuda->corrupt_step > 0);
    kvt_status status = settle(rank, step, backups, err);

    if (status != KVT_OK)
        return status;
    describe_step(rank, step);
    proof_choose(rank);
    status = imports_stage(rank, err);
    if (status == KVT_OK)
        status = rank_upload_block(rank, err);
    if (status == KVT_OK)
        status = make_queries(rank, err);
    if (status == KVT_OK && ahead)
        status = index_ahead(rank, err);
    if (status == KVT_OK && (cuda->law || cuda->decider == DECIDE_ON_HOST))
        status = select_aside(rank, step, err);
    if (status == KVT_OK && cuda->law)
        status = upload_lists(rank, rank->selections, rank->selections_pinned, err);
    if (status == KVT_OK && cuda->decider == DECIDE_ON_HOST)
        status = upload_plans(rank, step, err);
    rank->selections_read = cuda->law || ahead;
    if (status == KVT_OK && cuda->corrupt_step > 0 && !rank->spoilt.is_there &&
        rank->step_count + 1 >= cuda->corrupt_step)
        status = corrupt_row(rank, step, err);
    return status == KVT_OK ? graph_prepare(rank, &rank->key, err) : status;
}

/* ---- While it runs -------------------------------------------------------------------- */

static kvt_status launch(struct rank *rank, struct copy_list *backups, struct kvt_error *err)
{
    kvt_status status =
        rank_check(rank, cudaEventRecord(rank->ready, rank->main), "the beginning of a step", err);

    if (status == KVT_OK)
        status = rank_check(rank, cudaStreamWaitEvent(rank->copier, rank->ready, 0),
                            "the beginning of a backup", err);
    if (status == KVT_OK)
        status = copies_launch(backups, err);
    if (status == KVT_OK)
        status = rank_check(rank, cudaEventRecord(rank->backed, rank->copier),
                            "the end of a backup", err);
    if (status == KVT_OK)
        status = imports_launch(rank, err);
    if (status == KVT_OK)
        status = traffic_launch(rank, err);
    if (status == KVT_OK)
        status = graph_launch(rank, &rank->key, err);
    if (status == KVT_OK)
        status = rank_check(rank, cudaStreamWaitEvent(rank->main, rank->backed, 0),
                            "waiting for a backup", err);
    if (status == KVT_OK)
        status = rank_check(rank, cudaEventRecord(rank->end, rank->main), "the end of a step", err);
    if (status == KVT_OK)
        status = wait_for(rank, query_event, rank->end, "a step", STEP_TIMEOUT_S, err);
    return status;
}

/* ---- A step --------------------------------------------------------------------------- */

/* Rows that the device selected, where somebody will ask for them. */
static bool is_watched(const struct rank *rank, const struct kvt_rank_step *step)
{
    bool watched = rank->cuda->env.is_inspected;

    for (uint32_t i = 0; i < step->item_count; i++)
        watched = watched || step->items[i].watch;
    return watched && rank->cuda->env.hierarchy;
}

/* All that the device does of it. */
static kvt_status run(struct rank *rank, struct kvt_rank_step *step, struct kvt_error *err)
{
    struct copy_list backups = copies_begin(rank, rank->copier, COPIES_OF_BACKUP);
    double wall_s = 0;

    nvtxRangePushA("prepare");
    kvt_status status = prepare(rank, step, &backups, err);
    if (status == KVT_OK) /* uploads are over before the clock runs */
        status = rank_wait_stream(rank, rank->main, "a step's uploads", err);
    nvtxRangePop();
    if (status == KVT_OK) {
        nvtxRangePushA("step");
        struct kvt_wall start = kvt_wall_now();
        status = launch(rank, &backups, err);
        wall_s = kvt_wall_seconds_since(start);
        nvtxRangePop();
    }
    if (status == KVT_OK)
        status = step_read_times(rank, wall_s, &step->outcome, err);
    step->outcome.beside_inbound_bytes =
        rank->imports.staged_bytes + rank->cuda->beside_bytes[WAY_INBOUND];
    step->outcome.beside_outbound_bytes = backups.bytes + rank->cuda->beside_bytes[WAY_OUTBOUND];
    if (status == KVT_OK)
        status = imports_end(rank, true, err);
    if (status == KVT_OK)
        status = traffic_end(rank, err);
    if (status == KVT_OK && !rank->selections_read && is_watched(rank, step))
        status = rank_read_selections(rank, err);
    if (status != KVT_OK)
        return status;
    nvtxRangePushA("prove");
    status = proof_check(rank, err);
    if (status == KVT_OK)
        status = draft_check(rank, err);
    nvtxRangePop();
    return status;
}

kvt_status rank_step(struct rank *rank, struct kvt_rank_step *step, struct kvt_error *err)
{
    kvt_status status = find_items(rank, step, err);

    if (status != KVT_OK)
        return status;
    status = take_turn(rank, err);
    if (status == KVT_OK)
        status = run(rank, step, err);
    give_turn(rank);
    rank->step_count += status == KVT_OK;
    return status;
}

kvt_status rank_count(struct rank *rank, struct kvt_rank_step *step, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    kvt_status status = KVT_OK;

    outcome_count(rank, step);
    if (cuda->chooser == CHOOSE_INDEXER && cuda->decider == DECIDE_ON_DEVICE &&
        is_watched(rank, step)) /* nobody has looked at them, who watches pages */
        status = select_step(rank, step, err);
    return status;
}
