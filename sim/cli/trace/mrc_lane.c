/* mrc_lane.c -- the selections of one (request, store), read in order and given to all its caches.
 *
 *     where a policy sees the future: go through the calls from the last to the first, and keep of
 *         each selected row when it comes next, 4 bytes each
 *     go through the calls: token by token, selectors of the store in their own order */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "figures.h"
#include "mrc.h"

struct lane {
    const struct mrc_plan *plan;
    const struct mrc_file *file;
    uint32_t request, store;
    bool (*tell)(void *context, double fraction);
    void *context;
    struct kvt_kvsel_cursor *cursor;
    uint32_t *streams; /* [stream_count] of its selectors */
    uint32_t stream_count;
    uint32_t from_token, to_token; /* that any of them has */
    uint32_t top_k, rows_max;
    uint64_t selections, selected; /* of the tokens asked for */
    uint64_t *set;                 /* [words] the selection in hand */
    size_t words;
    uint64_t *seen;      /* [words] rows selected so far */
    uint32_t *rows;      /* [top_k + MRC_LIST_SLACK] the selection in hand, ascending */
    uint32_t *next;      /* [selected] when each selected row comes next; NULL: nobody asks */
    uint32_t *next_call; /* [rows_max] by row; NULL: nobody asks */
    struct mrc_calls *calls;
    struct mrc_stack *stack;   /* of the LRU policies; NULL: there is none, or it is by calls */
    struct mrc_rows **singles; /* [policy_count][size_count] by rows; NULL: of the stack's */
};

static uint32_t selected_of(const struct kvt_kvsel_shape *shape, uint32_t token)
{
    uint32_t visible = kvt_kvsel_visible(shape, token);
    return visible < shape->top_k ? visible : shape->top_k;
}

/* Selected rows of one stream's tokens [from, to): all k from the first that sees so many. */
static uint64_t count_selected(const struct kvt_kvsel_shape *shape, uint32_t from, uint32_t to)
{
    uint64_t rows = 0;
    uint32_t token = from;
    for (; token < to && kvt_kvsel_visible(shape, token) < shape->top_k; token++)
        rows += selected_of(shape, token);
    return rows + (uint64_t)(to - token) * shape->top_k;
}

/* Which tokens [*from, *to) of a stream are asked for. */
static void tokens_of(const struct mrc_plan *plan, const struct kvt_kvsel_stream *stream,
                      uint32_t *from, uint32_t *to)
{
    *to = stream->token_count < plan->to_token ? stream->token_count : plan->to_token;
    *from = plan->from_token < *to ? plan->from_token : *to;
}

static bool sees_future(const struct mrc_plan *plan)
{
    for (size_t p = 0; p < plan->policy_count; p++) {
        if (plan->policies[p].sees_future)
            return true;
    }
    return false;
}

/* The streams, and what of them is asked for. */
static kvt_status survey(struct lane *lane, struct kvt_error *err)
{
    const struct kvt_kvsel_header *header = kvt_kvsel_reader_header(lane->file->reader);
    lane->streams = calloc(header->selector_count, sizeof *lane->streams);
    if (lane->streams == NULL)
        return kvt_fail_nomem(err, "the streams of a store");
    lane->top_k = header->top_k;
    for (uint32_t s = 0; s < header->selector_count; s++) {
        if (lane->file->selector_stores[s] != lane->store)
            continue;
        uint32_t number = lane->request * header->selector_count + s, from, to;
        const struct kvt_kvsel_stream *stream = kvt_kvsel_reader_stream(lane->file->reader, number);
        lane->streams[lane->stream_count++] = number;
        tokens_of(lane->plan, stream, &from, &to);
        if (from == to)
            continue;
        uint32_t rows = kvt_kvsel_visible(&stream->shape, to - 1);
        lane->rows_max = rows > lane->rows_max ? rows : lane->rows_max;
        lane->from_token = lane->plan->from_token;
        lane->to_token = to > lane->to_token ? to : lane->to_token;
        lane->selections += to - from;
        lane->selected += count_selected(&stream->shape, from, to);
    }
    return KVT_OK;
}

uint64_t mrc_lane_future_bytes(const struct mrc_plan *plan, const struct mrc_file *file,
                               uint32_t request, uint32_t store)
{
    const struct kvt_kvsel_header *header = kvt_kvsel_reader_header(file->reader);
    uint64_t selected = 0;
    for (uint32_t s = 0; sees_future(plan) && s < header->selector_count; s++) {
        uint32_t number = request * header->selector_count + s, from, to;
        const struct kvt_kvsel_stream *stream = kvt_kvsel_reader_stream(file->reader, number);
        tokens_of(plan, stream, &from, &to);
        if (file->selector_stores[s] == store)
            selected += count_selected(&stream->shape, from, to);
    }
    return selected * sizeof(uint32_t);
}

/* ---- Memory -----------------------------------------------------------------------------------
 */

static void lane_fini(struct lane *lane)
{
    for (size_t i = 0;
         lane->singles != NULL && i < lane->plan->policy_count * lane->plan->size_count; i++)
        mrc_rows_free(lane->singles[i]);
    free(lane->singles);
    mrc_stack_free(lane->stack);
    mrc_calls_free(lane->calls);
    kvt_kvsel_cursor_free(lane->cursor);
    free(lane->streams);
    free(lane->set);
    free(lane->seen);
    free(lane->rows);
    free(lane->next);
    free(lane->next_call);
}

static kvt_status open_rows(struct lane *lane, const struct mrc_store *store, struct kvt_error *err)
{
    const struct mrc_plan *plan = lane->plan;
    size_t count = plan->policy_count * plan->size_count;
    kvt_status status = KVT_OK;
    lane->singles = calloc(count, sizeof(struct mrc_rows *));
    if (lane->singles == NULL)
        return kvt_fail_nomem(err, "caches of rows");
    for (size_t i = 0; status == KVT_OK && i < count; i++) {
        const struct mrc_policy *policy = &plan->policies[i / plan->size_count];
        if (!policy->is_lru)
            status = mrc_rows_new(policy, plan->slots[i % plan->size_count], store,
                                  &lane->singles[i], err);
        else if (lane->stack == NULL)
            status =
                mrc_stack_new(lane->rows_max, plan->slots, plan->size_count, &lane->stack, err);
    }
    return status;
}

static kvt_status lane_init(struct lane *lane, struct kvt_error *err)
{
    const struct kvt_kvsel_stream *first =
        kvt_kvsel_reader_stream(lane->file->reader, lane->streams[0]);
    const struct mrc_store store = {.top_k = lane->top_k,
                                    .rows_max = lane->rows_max,
                                    .rows_per_page = figures_page_rows(first->shape.tokens_per_row),
                                    .entity =
                                        (uint64_t)lane->request * KVT_STORES_MAX + lane->store};
    bool looks_ahead = sees_future(lane->plan);
    if (looks_ahead && lane->selected >= UINT32_MAX)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, "trace mrc",
                        "store %u of request %u selects %llu rows; a policy that sees the future "
                        "takes at most %u",
                        lane->store, lane->request, (unsigned long long)lane->selected,
                        UINT32_MAX - 1);
    assert(lane->rows_max > 0); /* as there are selections */
    lane->words = kvt_row_words(lane->rows_max);
    lane->set = calloc(lane->words, sizeof *lane->set);
    lane->seen = calloc(lane->words, sizeof *lane->seen);
    lane->rows = malloc(((size_t)lane->top_k + MRC_LIST_SLACK) * sizeof *lane->rows);
    if (looks_ahead) {
        lane->next = malloc((size_t)lane->selected * sizeof *lane->next);
        lane->next_call = malloc(lane->rows_max * sizeof *lane->next_call);
    }
    if (lane->set == NULL || lane->seen == NULL || lane->rows == NULL ||
        (looks_ahead && (lane->next == NULL || lane->next_call == NULL)))
        return kvt_fail_nomem(err, "the selections of a store");
    kvt_status status = kvt_kvsel_cursor_new(lane->file->reader, &lane->cursor, err);
    if (status != KVT_OK)
        return status;
    return lane->plan->stream == MRC_CALLS ? mrc_calls_new(lane->plan, &store, &lane->calls, err)
                                           : open_rows(lane, &store, err);
}

/* ---- Calls in order ----------------------------------------------------------------------------
 */

/* Reads one call into the set and its list; *is_there false: this selector has no such token. */
static kvt_status read_call(struct lane *lane, uint32_t stream, uint32_t token, bool *is_there,
                            uint32_t *row_count, struct kvt_error *err)
{
    const struct kvt_kvsel_stream *shape = kvt_kvsel_reader_stream(lane->file->reader, stream);
    *is_there = token < shape->token_count;
    if (!*is_there)
        return KVT_OK;
    size_t words = kvt_row_words(kvt_kvsel_visible(&shape->shape, token));
    kvt_status status = kvt_kvsel_cursor_read(lane->cursor, stream, token, lane->set, words, err);
    if (status == KVT_OK && (lane->next != NULL || lane->plan->stream == MRC_ROWS)) {
        *row_count = mrc_list(lane->set, words, lane->rows);
        assert(*row_count == selected_of(&shape->shape, token)); /* which the cursor has counted */
    }
    return status;
}

static kvt_status tell_progress(const struct lane *lane, double fraction, struct kvt_error *err)
{
    if (lane->tell == NULL || lane->tell(lane->context, fraction))
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INTERRUPTED, "trace mrc", "interrupted");
}

/* next[] of all selected rows, the last first; next_call[] is scratch. */
static kvt_status see_future(struct lane *lane, struct kvt_error *err)
{
    uint64_t access = lane->selected;
    uint32_t call = (uint32_t)lane->selections;
    memset(lane->next_call, 0xff, lane->rows_max * sizeof *lane->next_call);
    for (uint32_t token = lane->to_token; token-- > lane->from_token;) {
        for (uint32_t s = lane->stream_count; s-- > 0;) {
            uint32_t count = 0;
            bool is_there = false;
            kvt_status status = read_call(lane, lane->streams[s], token, &is_there, &count, err);
            if (status != KVT_OK)
                return status;
            if (!is_there)
                continue;
            call--;
            for (uint32_t i = count; i-- > 0;) {
                uint32_t row = lane->rows[i];
                lane->next[--access] = lane->next_call[row];
                lane->next_call[row] = lane->plan->stream == MRC_CALLS ? call : (uint32_t)access;
            }
        }
        kvt_status status = tell_progress(lane, 0, err);
        if (status != KVT_OK)
            return status;
    }
    assert(access == 0 && call == 0);
    return KVT_OK;
}

static kvt_status take_rows(struct lane *lane, uint32_t count, uint64_t step, uint64_t access,
                            struct mrc_counts *counts, struct kvt_error *err)
{
    const struct mrc_plan *plan = lane->plan;
    assert(lane->singles != NULL);
    if (lane->stack != NULL)
        mrc_stack_touch(lane->stack, lane->rows, count);
    for (size_t i = 0; i < plan->policy_count * plan->size_count; i++) {
        size_t p = i / plan->size_count;
        if (lane->singles[i] == NULL)
            continue;
        kvt_status status =
            mrc_rows_take(lane->singles[i], lane->rows, count, step, (uint32_t)access,
                          plan->policies[p].sees_future ? lane->next + access : NULL,
                          &counts->missed[p][i % plan->size_count], err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

static uint64_t count_new(struct lane *lane, size_t words)
{
    uint64_t rows = 0;
    assert(lane->set != NULL && lane->seen != NULL);
    for (size_t w = 0; w < words; w++) {
        uint64_t fresh = lane->set[w] & ~lane->seen[w];
        if (fresh == 0) /* as nearly always */
            continue;
        rows += (uint64_t)__builtin_popcountll(fresh);
        lane->seen[w] |= fresh;
    }
    return rows;
}

/* One call: number `call` of the lane, whose first row is selection number `access`. */
static kvt_status take_call(struct lane *lane, uint32_t visible_rows, uint32_t count, uint64_t step,
                            uint32_t call, uint64_t access, struct mrc_counts *counts,
                            struct kvt_error *err)
{
    counts->first += count_new(lane, kvt_row_words(visible_rows));
    if (lane->plan->stream == MRC_ROWS)
        return take_rows(lane, count, step, access, counts, err);
    for (uint32_t i = 0; lane->next != NULL && i < count; i++)
        lane->next_call[lane->rows[i]] = lane->next[access + i];
    return mrc_calls_take(lane->calls, lane->set, visible_rows, step, call, lane->next_call, counts,
                          err);
}

static kvt_status go_through(struct lane *lane, struct mrc_counts *counts, struct kvt_error *err)
{
    uint64_t access = 0;
    uint32_t call = 0;
    for (uint32_t token = lane->from_token; token < lane->to_token; token++) {
        for (uint32_t s = 0; s < lane->stream_count; s++) {
            uint32_t count = 0;
            bool is_there = false;
            kvt_status status = read_call(lane, lane->streams[s], token, &is_there, &count, err);
            if (status == KVT_OK && is_there) {
                const struct kvt_kvsel_shape *shape =
                    &kvt_kvsel_reader_stream(lane->file->reader, lane->streams[s])->shape;
                status = take_call(lane, kvt_kvsel_visible(shape, token), count,
                                   token - lane->from_token, call++, access, counts, err);
                access += selected_of(shape, token);
            }
            if (status != KVT_OK)
                return status;
        }
        kvt_status status = tell_progress(
            lane, (double)(token - lane->from_token) / (double)(lane->to_token - lane->from_token),
            err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}

static void add_stack(const struct lane *lane, struct mrc_counts *counts)
{
    const struct mrc_plan *plan = lane->plan;
    for (size_t p = 0; lane->stack != NULL && p < plan->policy_count; p++) {
        for (size_t i = 0; plan->policies[p].is_lru && i < plan->size_count; i++)
            counts->missed[p][i] += mrc_stack_missed(lane->stack, i);
    }
}

kvt_status mrc_lane_run(const struct mrc_plan *plan, const struct mrc_file *file, uint32_t request,
                        uint32_t store, bool (*tell)(void *context, double fraction), void *context,
                        struct mrc_counts *counts, struct kvt_error *err)
{
    struct lane lane = {.plan = plan,
                        .file = file,
                        .request = request,
                        .store = store,
                        .tell = tell,
                        .context = context};
    kvt_status status = survey(&lane, err);
    if (status == KVT_OK && lane.selections > 0) {
        status = lane_init(&lane, err);
        if (status == KVT_OK && lane.next != NULL)
            status = see_future(&lane, err);
        if (status == KVT_OK)
            status = go_through(&lane, counts, err);
        if (status == KVT_OK)
            add_stack(&lane, counts);
        counts->lanes++;
        counts->selections += lane.selections;
        counts->selected += lane.selected;
    }
    lane_fini(&lane);
    return status;
}
