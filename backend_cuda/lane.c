/* lane.c -- one decoding request: its place on a rank, its selections, and where its rows are.
 *
 * At the beginning of a step, with n tokens committed:
 *
 *     rows that the last round committed go from the tail to host (while the step runs), and to
 *     the frames of their pages
 *     a page that is newly ready gets a frame, and its rows: from the tail those that it still
 *     holds, from host the others
 *     a page that is no longer ready gives its frame back
 *
 *     rows that this round counts to its tail, but which a longer round's rejected drafts have
 *     overwritten there, come back from host
 *
 * The tail holds the newest 64 rows that were ever appended, rejected ones included; every older
 * row has been on host since the end of the step behind the round that committed it, because a
 * round brings at most 32. So nothing here waits for anything within a step, and no copy writes
 * where another reads. */
#include "step.h"

#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"
#include "kvt/layout.h"

enum {
    FRAME_NONE = KVT_GPU_NONE
};

/* The first row of a store that the tail still holds. */
static uint32_t tail_begin(const struct store_shape *shape, const struct lane *lane)
{
    uint32_t rows = lane->appended_tokens / shape->ratio;

    return rows > KVT_GPU_TAIL_ROWS ? rows - KVT_GPU_TAIL_ROWS : 0;
}

static uint32_t pages_of(uint32_t tokens)
{
    return (tokens + KVT_GPU_PAGE_ROWS - 1) / KVT_GPU_PAGE_ROWS;
}

/* ---- Pages ---------------------------------------------------------------------------- */

static bool page_wanted(const struct lane *lane, const struct kvt_step_item *item, uint32_t page)
{
    if (lane->hot_tokens == 0)
        return page < pages_of(item->context_tokens);
    return page < item->ready_pages && (item->ready_bits[page / 64] >> page % 64 & 1) != 0;
}

static kvt_status take_frame(struct rank *rank, struct lane *lane, uint32_t page,
                             struct kvt_error *err)
{
    if (rank->free_frame_count == 0)
        return kvt_fail(err, KVT_ERR_NOMEM, "cuda",
                        "rank %u has %u pages readable in HBM and needs another for request %u; "
                        "the device holds a page of each request by itself, also where requests "
                        "share a prefix",
                        rank->number, rank->frame_count, lane->request);
    lane->frames[page] = (int32_t)rank->free_frames[--rank->free_frame_count];
    return KVT_OK;
}

static void drop_frame(struct rank *rank, struct lane *lane, uint32_t page)
{
    rank->free_frames[rank->free_frame_count++] = (uint32_t)lane->frames[page];
    lane->frames[page] = FRAME_NONE;
}

/* Rows [begin, end) tokens of a page that has a frame, of all stores; those that are in the tail
 * come from there. */
static kvt_status fill_page(struct copy_list *fills, struct lane *lane, uint32_t page,
                            uint32_t begin, uint32_t end, struct kvt_error *err)
{
    const struct backend_cuda *cuda = fills->rank->cuda;
    uint32_t first_token = page * KVT_GPU_PAGE_ROWS;
    kvt_status status = KVT_OK;

    begin = begin > first_token ? begin : first_token;
    end = end < first_token + KVT_GPU_PAGE_ROWS ? end : first_token + KVT_GPU_PAGE_ROWS;
    for (uint32_t s = 0; s < cuda->llm->store_count && begin < end && status == KVT_OK; s++) {
        const struct store_shape *shape = &cuda->stores[s];
        uint32_t first = begin / shape->ratio, last = end / shape->ratio;
        uint32_t middle = tail_begin(shape, lane);
        middle = middle < first ? first : middle > last ? last : middle;
        status = copies_add_rows(fills, lane, s, first, middle, HOME_HOST, HOME_FRAME, err);
        if (status == KVT_OK)
            status = copies_add_rows(fills, lane, s, middle, last, HOME_TAIL, HOME_FRAME, err);
    }
    return status;
}

static kvt_status settle_page(struct copy_list *fills, struct lane *lane,
                              const struct kvt_step_item *item, uint32_t page,
                              struct kvt_error *err)
{
    bool wanted = page_wanted(lane, item, page), held = lane->frames[page] != FRAME_NONE;
    kvt_status status = KVT_OK;

    if (held && !wanted)
        drop_frame(fills->rank, lane, page);
    if (!wanted)
        return KVT_OK;
    if (!held)
        status = take_frame(fills->rank, lane, page, err);
    if (status == KVT_OK)
        status = fill_page(fills, lane, page, held ? lane->settled_tokens : 0, item->context_tokens,
                           err);
    return status;
}

static kvt_status back_up(struct copy_list *backups, struct lane *lane, uint32_t context_tokens,
                          struct kvt_error *err)
{
    const struct backend_cuda *cuda = backups->rank->cuda;
    kvt_status status = KVT_OK;

    for (uint32_t s = 0; s < cuda->llm->store_count && status == KVT_OK; s++) {
        uint32_t ratio = cuda->stores[s].ratio;
        status = copies_add_rows(backups, lane, s, lane->settled_tokens / ratio,
                                 context_tokens / ratio, HOME_TAIL, HOME_HOST, err);
    }
    return status;
}

/* The tail of this round begins before what the last one left of it. */
static kvt_status restore_tail(struct copy_list *fills, const struct lane *lane,
                               const struct kvt_step_item *item, struct kvt_error *err)
{
    const struct backend_cuda *cuda = fills->rank->cuda;
    enum row_home home = cuda->env.hierarchy ? HOME_HOST : HOME_FRAME;
    kvt_status status = KVT_OK;

    for (uint32_t s = 0; s < cuda->llm->store_count && status == KVT_OK; s++) {
        uint32_t first = kvt_tail_first_row(&cuda->llm->stores[s], item->context_tokens,
                                            item->round->query_count);
        status = copies_add_rows(fills, lane, s, first, tail_begin(&cuda->stores[s], lane), home,
                                 HOME_TAIL, err);
    }
    return status;
}

kvt_status gpu_lane_settle(struct lane *lane, const struct kvt_step_item *item,
                           struct copy_list *fills, struct copy_list *backups,
                           struct kvt_error *err)
{
    const struct backend_cuda *cuda = fills->rank->cuda;
    uint32_t pages = lane->hot_tokens == 0 ? pages_of(item->context_tokens) : item->ready_pages;
    uint32_t known = lane->frame_pages > pages ? lane->frame_pages : pages;
    kvt_status status = KVT_OK;

    if (known > cuda->frame_stride)
        known = cuda->frame_stride; /* bits past the longest context are nobody's */
    /* Frames first go back, so that those in want find them. */
    for (uint32_t p = 0; p < known; p++) {
        if (lane->frames[p] != FRAME_NONE && !page_wanted(lane, item, p))
            drop_frame(fills->rank, lane, p);
    }
    for (uint32_t p = 0; p < known && status == KVT_OK; p++)
        status = settle_page(fills, lane, item, p, err);
    if (status == KVT_OK)
        status = restore_tail(fills, lane, item, err);
    if (status == KVT_OK && cuda->env.hierarchy)
        status = back_up(backups, lane, item->context_tokens, err);
    lane->frame_pages = known;
    lane->settled_tokens = item->context_tokens;
    lane->appended_tokens = item->context_tokens + item->round->query_count;
    return status;
}

/* ---- Caches and streams --------------------------------------------------------------- */

static void close_planned(struct backend_cuda *cuda, struct lane *lane)
{
    for (uint32_t s = 0; s < cuda->llm->store_count && lane->planned; s++) {
        kvt_hot_cache_free(lane->planned[s].cache);
        free(lane->planned[s].slot_rows);
        lane->planned[s].cache = NULL;
        lane->planned[s].slot_rows = NULL;
    }
}

static kvt_status open_planned(struct backend_cuda *cuda, struct lane *lane, uint32_t s,
                               struct kvt_error *err)
{
    struct planned *planned = &lane->planned[s];
    uint32_t slots = kvt_calls_slots(cuda->llm, s, lane->hot_tokens, lane->max_tokens);
    uint32_t rows = cuda->stores[s].rows_max;
    kvt_status status =
        kvt_calls_open_cache(&cuda->env, lane->request, s, lane->hot_tokens, lane->max_tokens,
                             lane->last_tokens, &planned->cache, err);

    if (status != KVT_OK)
        return status;
    planned->slot_rows = malloc(slots * sizeof(uint32_t) + rows * sizeof(uint16_t));
    if (!planned->slot_rows)
        return kvt_fail_nomem(err, "a hot cache's rows");
    planned->slot_of_row = (uint16_t *)(planned->slot_rows + slots);
    memset(planned->slot_rows, 0xff, slots * sizeof(uint32_t));
    memset(planned->slot_of_row, 0xff, rows * sizeof(uint16_t));
    return KVT_OK;
}

/* Hot caches of lane->hot_tokens, all empty; none at 0. */
static kvt_status open_caches(struct rank *rank, struct lane *lane, struct kvt_error *err)
{
    struct backend_cuda *cuda = rank->cuda;
    kvt_status status = KVT_OK;

    for (uint32_t s = 0; s < cuda->llm->store_count && status == KVT_OK; s++) {
        uint32_t slots = lane->hot_tokens == 0
                             ? 0
                             : kvt_calls_slots(cuda->llm, s, lane->hot_tokens, lane->max_tokens);
        if (slots > cuda->stores[s].slots_max)
            return kvt_fail(err, KVT_ERR_INTERNAL, "backend",
                            "request %u is given %u slots of store %u, which was made for %u",
                            lane->request, slots, s, cuda->stores[s].slots_max);
        rank->stores[s].slot_counts[lane->index] = slots;
        if (slots > 0 && lane->planned)
            status = open_planned(cuda, lane, s, err);
    }
    if (status == KVT_OK)
        status = rank_upload_block(rank, err);
    for (uint32_t s = 0; s < cuda->llm->store_count && status == KVT_OK && lane->hot_tokens > 0;
         s++)
        status = rank_check(rank, kvt_gpu_hot_reset(&rank->stores[s].hot, lane->index, rank->main),
                            "kvt_gpu_hot_reset", err);
    return status;
}

static kvt_status open_streams(struct backend_cuda *cuda, struct lane *lane, struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    if (!cuda->law)
        return KVT_OK;
    lane->streams = calloc(cuda->llm->selector_count, sizeof *lane->streams);
    if (!lane->streams)
        return kvt_fail_nomem(err, "a decoding request");
    for (uint32_t s = 0; s < cuda->llm->selector_count && status == KVT_OK; s++) {
        const struct kvt_stream_spec spec = {.request = lane->request,
                                             .selector = s,
                                             .context_tokens = lane->admitted_tokens,
                                             .last_tokens = lane->last_tokens};
        status = kvt_calls_open_stream(&cuda->env, cuda->law_data, &spec, &lane->streams[s], err);
    }
    return status;
}

/* By streams as new as the store's own. */
static kvt_status look_ahead(struct backend_cuda *cuda, struct lane *lane, uint32_t store,
                             const struct kvt_backend_admission *admission, struct kvt_error *err)
{
    const struct kvt_llm *llm = cuda->llm;
    void **streams = calloc(cuda->strata.selectors_of[store], sizeof *streams);
    uint32_t opened = 0;
    kvt_status status = streams ? KVT_OK : kvt_fail_nomem(err, "a look ahead");

    for (uint32_t s = 0; s < llm->selector_count && status == KVT_OK; s++) {
        if (llm->selectors[s].store != store)
            continue;
        const struct kvt_stream_spec spec = {.request = lane->request,
                                             .selector = s,
                                             .context_tokens = lane->admitted_tokens,
                                             .last_tokens = lane->last_tokens,
                                             .looks_ahead = true};
        status = kvt_calls_open_stream(&cuda->env, cuda->law_data, &spec, &streams[opened++], err);
    }
    if (status == KVT_OK)
        return kvt_look_ahead_new(&cuda->ahead_env, store, admission, streams, opened,
                                  &lane->planned[store].ahead, err);
    for (uint32_t s = 0; s < opened && streams; s++)
        free(streams[s]);
    free(streams);
    return status;
}

static kvt_status open_decisions(struct backend_cuda *cuda, struct lane *lane,
                                 const struct kvt_backend_admission *admission,
                                 struct kvt_error *err)
{
    kvt_status status = open_streams(cuda, lane, err);

    if (status != KVT_OK || cuda->decider == DECIDE_ON_DEVICE)
        return status;
    lane->planned = calloc(cuda->llm->store_count, sizeof *lane->planned);
    if (!lane->planned)
        return kvt_fail_nomem(err, "a decoding request");
    for (uint32_t s = 0; s < cuda->llm->store_count && status == KVT_OK; s++) {
        if (cuda->env.looks_ahead_by)
            status = look_ahead(cuda, lane, s, admission, err);
    }
    return status;
}

/* ---- Rows at admission ---------------------------------------------------------------- */

/* Where its host rows are. */
static kvt_status place_host_rows(struct rank *rank, struct lane *lane, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;

    for (uint32_t s = 0; s < cuda->llm->store_count; s++) {
        const struct store_shape *shape = &cuda->stores[s];
        struct store_state *store = &rank->stores[s];
        uint32_t shared = lane->shared_tokens / shape->ratio;
        uint32_t rows = lane->last_tokens / shape->ratio;
        uint64_t prefixes = (uint64_t)cuda->shared_contexts * shape->shared_rows;
        if (rows - shared > shape->own_rows)
            return kvt_fail(err, KVT_ERR_NOMEM, "backend.shared_tokens",
                            "request %u grows by %u rows of store %u behind what it shares, and "
                            "%u were planned for; fewer shared tokens leave room for more",
                            lane->request, rows - shared, s, shape->own_rows);
        store->shared_rows[lane->index] = shared;
        store->shared_at[lane->index] = (uint64_t)lane->shared_context * shape->shared_rows;
        store->own_at[lane->index] = prefixes + (uint64_t)lane->index * shape->own_rows - shared;
    }
    return KVT_OK;
}

/* Without a hierarchy every row is in a frame, from the start. */
static kvt_status make_frames(struct rank *rank, struct lane *lane, uint32_t s,
                              struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    lane->frame_pages = pages_of(lane->admitted_tokens);
    for (uint32_t p = 0; p < lane->frame_pages && status == KVT_OK; p++) {
        if (lane->frames[p] == FRAME_NONE)
            status = take_frame(rank, lane, p, err);
    }
    if (status == KVT_OK)
        status = rows_make(rank, lane, s, 0, lane->admitted_tokens / rank->cuda->stores[s].ratio,
                           HOME_FRAME, err);
    return status;
}

static kvt_status make_keys(struct rank *rank, const struct lane *lane, uint32_t s,
                            struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    const struct store_shape *shape = &cuda->stores[s];
    /* A key is a function of its row alone, so that those to come can be made beforehand. */
    uint32_t first = imports_first_row(rank, lane, s), end = lane->last_tokens / shape->ratio;
    struct kvt_gpu_make_keys make = {
        .context_id = lane->request,
        .selector = shape->first_selector,
        .first_row = first,
        .row_count = end > first ? end - first : 0,
        .lane_keys = rank->stores[s].keys + lane->index * shape->lane_key_bytes +
                     (uint64_t)(first / KVT_GPU_PAGE_ROWS) * KVT_GPU_INDEX_PAGE_BYTES};

    return rank_check(rank, kvt_gpu_make_keys(&make, rank->main), "kvt_gpu_make_keys", err);
}

static kvt_status make_store(struct rank *rank, struct lane *lane, uint32_t s,
                             struct copy_list *fills, struct kvt_error *err)
{
    const struct store_shape *shape = &rank->cuda->stores[s];
    uint32_t rows = lane->admitted_tokens / shape->ratio, tail = tail_begin(shape, lane);
    kvt_status status = make_keys(rank, lane, s, err);

    if (status != KVT_OK)
        return status;
    if (!rank->cuda->env.hierarchy) {
        status = make_frames(rank, lane, s, err);
        if (status == KVT_OK)
            status = rows_make(rank, lane, s, tail, rows, HOME_TAIL, err);
        return status;
    }
    status =
        rows_make(rank, lane, s, rank->stores[s].shared_rows[lane->index], rows, HOME_HOST, err);
    if (status == KVT_OK)
        status = copies_add_rows(fills, lane, s, tail, rows, HOME_HOST, HOME_TAIL, err);
    return status;
}

static kvt_status make_rows(struct rank *rank, struct lane *lane, struct kvt_error *err)
{
    struct copy_list fills = copies_begin(rank, rank->main, COPIES_OF_STEP);
    kvt_status status = place_host_rows(rank, lane, err);

    for (uint32_t s = 0; s < rank->cuda->llm->store_count && status == KVT_OK; s++)
        status = make_store(rank, lane, s, &fills, err);
    if (status == KVT_OK)
        status = lane->joins ? imports_copy(&fills, err) : copies_launch(&fills, err);
    return status;
}

/* ---- Coming and going ----------------------------------------------------------------- */

void gpu_lane_free(struct backend_cuda *cuda, struct lane *lane)
{
    if (!lane)
        return;
    struct rank *rank = &cuda->ranks[lane->rank];
    for (uint32_t p = 0; p < cuda->frame_stride; p++) {
        if (lane->frames[p] != FRAME_NONE)
            drop_frame(rank, lane, p);
    }
    for (uint32_t s = 0; s < cuda->llm->store_count; s++)
        rank->stores[s].slot_counts[lane->index] = 0;
    rank->lanes[lane->index] = NULL;
    imports_leave(rank, lane);
    close_planned(cuda, lane);
    for (uint32_t s = 0; s < cuda->llm->store_count && lane->planned; s++)
        kvt_look_ahead_free(lane->planned[s].ahead);
    for (uint32_t s = 0; s < cuda->llm->selector_count && lane->streams; s++)
        kvt_calls_close_stream(&cuda->env, cuda->law_data, lane->streams[s]);
    free(lane->planned);
    free(lane->streams);
    free(lane);
}

/* A lane at a free place of its rank; NULL in *out: there is none. */
static kvt_status open_lane(struct rank *rank, const struct kvt_backend_admission *admission,
                            struct lane **out, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    uint32_t index = 0;

    *out = NULL;
    if (admission->last_tokens > cuda->env.longest_tokens)
        return kvt_fail(err, KVT_ERR_NOMEM, "backend.longest_tokens",
                        "request %u may reach %u tokens, and memory is laid out for %u",
                        admission->request, admission->last_tokens, cuda->env.longest_tokens);
    while (index < cuda->lanes && rank->lanes[index])
        index++;
    if (index == cuda->lanes)
        return KVT_OK;
    struct lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return kvt_fail_nomem(err, "a decoding request");
    *lane = (struct lane){.request = admission->request,
                          .rank = admission->rank,
                          .index = index,
                          .frames = rank->block.frames + (size_t)index * cuda->frame_stride,
                          .item = -1};
    rank->lanes[index] = *out = lane;
    return KVT_OK;
}

kvt_status gpu_lane_expect(struct backend_cuda *cuda, const struct kvt_backend_admission *admission,
                           struct lane **out, struct kvt_error *err)
{
    struct rank *rank = &cuda->ranks[admission->rank];

    if (!rank->imports.stream || admission->context_tokens == 0)
        return KVT_OK;
    kvt_status status = open_lane(rank, admission, out, err);
    if (status != KVT_OK || !*out)
        return status;
    (*out)->expected_tokens = admission->context_tokens;
    imports_expect(rank, *out);
    return KVT_OK;
}

static void begin_lane(const struct backend_cuda *cuda,
                       const struct kvt_backend_admission *admission, struct lane *lane)
{
    lane->admitted_tokens = lane->settled_tokens = lane->appended_tokens =
        admission->context_tokens;
    lane->max_tokens = admission->max_tokens;
    lane->last_tokens = admission->last_tokens + cuda->queries_max;
    lane->hot_tokens = cuda->env.hierarchy ? admission->hot_tokens : 0;
    lane->shared_tokens = cuda->shared_tokens < admission->context_tokens
                              ? cuda->shared_tokens
                              : admission->context_tokens;
    lane->shared_context = admission->request % cuda->shared_contexts;
    lane->joins = lane->expected_tokens > 0;
}

kvt_status gpu_lane_admit(struct backend_cuda *cuda, const struct kvt_backend_admission *admission,
                          struct lane **lane, struct kvt_error *err)
{
    struct rank *rank = &cuda->ranks[admission->rank];
    kvt_status status = rank_use(rank, err);

    if (status == KVT_OK && !*lane)
        status = open_lane(rank, admission, lane, err);
    if (status == KVT_OK && !*lane)
        return kvt_fail(err, KVT_ERR_INTERNAL, "backend",
                        "request %u would be number %u of rank %u, which was made for %u",
                        admission->request, cuda->lanes + 1, rank->number, cuda->lanes);
    if (status == KVT_OK) {
        begin_lane(cuda, admission, *lane);
        status = open_decisions(cuda, *lane, admission, err);
    }
    if (status == KVT_OK && (*lane)->joins)
        status = imports_join(rank, *lane, err);
    if (status == KVT_OK)
        status = make_rows(rank, *lane, err);
    if (status == KVT_OK)
        status = open_caches(rank, *lane, err);
    if (status == KVT_OK)
        status = draft_admit(rank, *lane, err);
    if (status == KVT_OK)
        status = rank_wait_stream(rank, rank->main, "a request's rows", err);
    if (status != KVT_OK) {
        gpu_lane_free(cuda, *lane);
        *lane = NULL;
    }
    return status;
}

kvt_status gpu_lane_close_caches(struct backend_cuda *cuda, struct lane *lane, uint64_t *decisions,
                                 struct kvt_error *err)
{
    uint64_t hashes[KVT_STORES_MAX];
    kvt_status status = KVT_OK;

    if (lane->hot_tokens > 0)
        status = gpu_lane_state_hashes(cuda, lane, hashes, err);
    for (uint32_t s = 0; s < cuda->env.llm->store_count && status == KVT_OK && lane->hot_tokens > 0;
         s++)
        *decisions = kvt_chain64(*decisions, hashes[s]);
    close_planned(cuda, lane);
    return status;
}

kvt_status gpu_lane_resize(struct backend_cuda *cuda, struct lane *lane, uint64_t hot_tokens,
                           uint64_t *decisions, struct kvt_error *err)
{
    struct rank *rank = &cuda->ranks[lane->rank];
    kvt_status status = rank_use(rank, err);

    if (status == KVT_OK)
        status = gpu_lane_close_caches(cuda, lane, decisions, err);
    if (status != KVT_OK)
        return status;
    lane->hot_tokens = hot_tokens;
    status = open_caches(rank, lane, err);
    if (status == KVT_OK)
        status = rank_wait_stream(rank, rank->main, "a new hot cache", err);
    return status;
}
