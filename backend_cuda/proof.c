/* proof.c -- attention that was computed through the hierarchy, computed again from the same rows
 * made anew, one behind the other, and compared in every bit.
 *
 *     before a step: (query, layer) pairs; in the step, behind each selector, their outputs are
 *     put by; behind it, for each: its rows made from what names them -> attention with as many
 *     splits -> equal bits; now and then also double precision on the CPU
 *
 * A row that was fetched from the wrong place, or too late, or not at all, is another row: what
 * was never written is NaN. */
#include "step.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"

void proof_set(struct rank *rank, uint32_t n, struct check check)
{
    const struct backend_cuda *cuda = rank->cuda;
    struct kvt_gpu_copy *copies = rank->block.proof_copies;

    copies[(size_t)rank->checks[n].selector * cuda->check_queries + n] =
        (struct kvt_gpu_copy){.bytes = 0};
    copies[(size_t)check.selector * cuda->check_queries + n] = (struct kvt_gpu_copy){
        .src = rank->out + ((size_t)check.layer * cuda->query_rows + check.query) * cuda->out_bytes,
        .dst = rank->proof_out + (size_t)n * cuda->out_bytes,
        .bytes = cuda->out_bytes};
    rank->checks[n] = check;
}

void proof_choose(struct rank *rank)
{
    const struct backend_cuda *cuda = rank->cuda;
    const struct kvt_llm *llm = cuda->llm;
    uint32_t count = cuda->check_queries;

    if (count == 0)
        return;
    memset(rank->block.proof_copies, 0,
           (size_t)llm->selector_count * count * sizeof *rank->block.proof_copies);
    for (uint32_t n = 0; n < count; n++) {
        uint64_t draw = kvt_mix64((uint64_t)rank->number << 48 | rank->proof_turn++);
        struct check check = {.selector = (uint32_t)(draw % llm->selector_count),
                              .query = (uint32_t)((draw >> 20) % rank->key.query_count)};
        uint32_t store = llm->selectors[check.selector].store;
        check.layer = (uint32_t)((draw >> 40) % cuda->stores[store].layers);
        proof_set(rank, n, check);
    }
}

/* ---- Pieces of pinned memory ---------------------------------------------------------- */

static uint8_t *first_out(const struct rank *rank)
{
    return rank->proof_pinned;
}

static uint8_t *second_out(const struct rank *rank)
{
    return rank->proof_pinned + rank->cuda->out_bytes;
}

static uint8_t *pinned_rows(const struct rank *rank)
{
    return rank->proof_pinned + 2 * (size_t)rank->cuda->out_bytes;
}

static size_t rows_bytes(const struct rank *rank)
{
    return (size_t)rank->cuda->llm->top_k * rank->cuda->stores[0].layer_bytes;
}

static uint16_t *pinned_q(const struct rank *rank)
{
    return (uint16_t *)(void *)(pinned_rows(rank) + rows_bytes(rank));
}

static size_t q_bytes(const struct rank *rank)
{
    return (size_t)rank->cuda->llm->heads * rank->cuda->q_dim * sizeof(uint16_t);
}

/* ---- Again ---------------------------------------------------------------------------- */

static uint32_t item_of(const struct rank *rank, uint32_t query)
{
    uint32_t i = rank->key.request_count - 1;

    while (rank->first_query[i] > query)
        i--;
    return i;
}

/* The rows of the query: those of its own context, those of the shared one, and where each lies
 * once made. Returns how many. */
static uint32_t list_rows(struct rank *rank, const struct check *check)
{
    const struct backend_cuda *cuda = rank->cuda;
    uint32_t top_k = cuda->llm->top_k, i = item_of(rank, check->query);
    const struct lane *lane = rank->items[i];
    uint32_t store = cuda->llm->selectors[check->selector].store;
    uint32_t shared = rank->stores[store].shared_rows[lane->index];
    const int32_t *rows = rank->selections_pinned +
                          ((size_t)check->selector * cuda->query_rows + check->query) * top_k;
    int32_t *own = rank->proof_lists_pinned, *others = own + top_k, *places = others + top_k;
    uint32_t count = list_count(rows, top_k);

    for (uint32_t r = 0; r < top_k; r++) {
        bool is_row = r < count, is_shared = is_row && (uint32_t)rows[r] < shared;
        own[r] = is_row && !is_shared ? rows[r] : KVT_GPU_NONE;
        others[r] = is_shared ? rows[r] : KVT_GPU_NONE;
        places[r] = is_row ? (int32_t)r : KVT_GPU_NONE;
    }
    return count;
}

static cudaError_t make_selected(struct rank *rank, const struct check *check, uint32_t context_id,
                                 const int32_t *rows, uint32_t count)
{
    const struct backend_cuda *cuda = rank->cuda;
    const struct store_shape *shape = &cuda->stores[cuda->llm->selectors[check->selector].store];
    struct kvt_gpu_make_rows make = {.context_id = context_id,
                                     .first_layer = shape->first_layer + check->layer,
                                     .layers = 1,
                                     .format = cuda->format,
                                     .row_count = count,
                                     .dst = rank->proof_rows,
                                     .row_stride = shape->layer_bytes,
                                     .layer_stride = shape->layer_bytes};

    return count > 0 ? kvt_gpu_make_selected(&make, rows, count, rank->main) : cudaSuccess;
}

static cudaError_t attend_again(struct rank *rank, const struct check *check)
{
    const struct backend_cuda *cuda = rank->cuda;
    const struct kvt_llm *llm = cuda->llm;
    struct kvt_gpu_attend attend = {
        .query_count = 1,
        .heads = llm->heads,
        .k = llm->top_k,
        .format = cuda->format,
        .row_scale = 1,
        .softmax_scale = cuda->softmax_scale,
        .rows = rank->proof_rows,
        .row_bytes = cuda->stores[0].layer_bytes,
        .places = rank->proof_lists + 2 * (size_t)llm->top_k,
        .q = (const uint8_t *)rank->q + (size_t)check->query * q_bytes(rank),
        .out = rank->proof_again,
        .out_is_float = cuda->out_is_float,
        .splits = kvt_gpu_attend_splits(rank->key.query_count, llm->heads, llm->top_k),
        .reference = cuda->reference};

    return kvt_gpu_attend(&attend, rank->main);
}

static kvt_status compute_again(struct rank *rank, uint32_t n, uint32_t *count,
                                struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    const struct check *check = &rank->checks[n];
    const struct lane *lane = rank->items[item_of(rank, check->query)];
    uint32_t top_k = cuda->llm->top_k;
    const char *what = "attention computed again";

    *count = list_rows(rank, check);
    cudaError_t error = cudaMemcpyAsync(rank->proof_lists, rank->proof_lists_pinned,
                                        3 * (size_t)top_k * sizeof *rank->proof_lists,
                                        cudaMemcpyHostToDevice, rank->main);
    if (error == cudaSuccess)
        error = make_selected(rank, check, lane->request, rank->proof_lists, *count);
    if (error == cudaSuccess && lane->shared_tokens > 0)
        error = make_selected(rank, check, SHARED_CONTEXT | lane->shared_context,
                              rank->proof_lists + top_k, *count);
    if (error == cudaSuccess)
        error = attend_again(rank, check);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(first_out(rank), rank->proof_out + (size_t)n * cuda->out_bytes,
                                cuda->out_bytes, cudaMemcpyDeviceToHost, rank->main);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(second_out(rank), rank->proof_again, cuda->out_bytes,
                                cudaMemcpyDeviceToHost, rank->main);
    kvt_status status = rank_check(rank, error, what, err);
    return status == KVT_OK ? rank_wait_stream(rank, rank->main, what, err) : status;
}

/* ---- Double precision ----------------------------------------------------------------- */

static float bf16_value(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &wide, sizeof value);
    return value;
}

static float e4m3_value(uint8_t code)
{
    int exponent = code >> 3 & 15, mantissa = code & 7;
    float value =
        exponent == 0 ? ldexpf((float)mantissa, -9) : ldexpf((float)(8 + mantissa), exponent - 10);

    return code & 0x80 ? -value : value;
}

static float e2m1_value(uint8_t code)
{
    static const float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

    return code & 8 ? -values[code & 7] : values[code & 7];
}

/* One layer of a row as q_dim values. */
static void decode_row(enum kvt_gpu_format format, const uint8_t *row, float *out)
{
    float scale;
    uint16_t half;

    switch (format) {
    case KVT_GPU_ROW_E4M3_576:
        for (uint32_t d = 0; d < KVT_GPU_HEAD; d++)
            out[d] = e4m3_value(row[d]);
        return;
    case KVT_GPU_ROW_MIXED_656:
        for (uint32_t d = 0; d < KVT_GPU_LATENT; d++) {
            memcpy(&scale, row + KVT_GPU_LATENT + d / 128 * sizeof scale, sizeof scale);
            out[d] = scale * e4m3_value(row[d]);
        }
        for (uint32_t d = 0; d < KVT_GPU_ROPE; d++) {
            memcpy(&half, row + KVT_GPU_LATENT + 4 * sizeof scale + d * sizeof half, sizeof half);
            out[KVT_GPU_LATENT + d] = bf16_value(half);
        }
        return;
    case KVT_GPU_ROW_BF16_1152:
        for (uint32_t d = 0; d < KVT_GPU_HEAD; d++) {
            memcpy(&half, row + d * sizeof half, sizeof half);
            out[d] = bf16_value(half);
        }
        return;
    case KVT_GPU_ROW_FP4_288:
        for (uint32_t d = 0; d < KVT_GPU_LATENT; d++) {
            uint8_t pair = row[d / 2];
            out[d] = e4m3_value(row[KVT_GPU_LATENT / 2 + d / 16]) *
                     e2m1_value(d % 2 ? pair >> 4 : pair & 15);
        }
        return;
    }
}

struct doubling {
    const struct rank *rank;
    uint32_t count;
    float *rows;              /* [count][q_dim] */
    double *differs, *should; /* [heads] squares of what differs, and of what should be */
    double *scores;           /* [heads][count] */
};

static double value_of(const struct rank *rank, const uint8_t *out, size_t at)
{
    float wide;
    uint16_t half;

    if (rank->cuda->out_is_float) {
        memcpy(&wide, out + at * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&half, out + at * sizeof half, sizeof half);
    return bf16_value(half);
}

static void double_head(void *context, uint32_t head, unsigned worker)
{
    const struct doubling *work = context;
    const struct rank *rank = work->rank;
    uint32_t dim = rank->cuda->q_dim;
    const uint16_t *q = pinned_q(rank) + (size_t)head * dim;
    double *scores = work->scores + (size_t)head * work->count, most = -INFINITY, total = 0;
    double out[KVT_GPU_LATENT] = {0};

    (void)worker;
    for (uint32_t r = 0; r < work->count; r++) {
        const float *row = work->rows + (size_t)r * dim;
        double dot = 0;
        for (uint32_t d = 0; d < dim; d++)
            dot += (double)bf16_value(q[d]) * (double)row[d];
        scores[r] = dot * (double)rank->cuda->softmax_scale;
        most = scores[r] > most ? scores[r] : most;
    }
    for (uint32_t r = 0; r < work->count; r++) {
        const float *row = work->rows + (size_t)r * dim;
        double weight = exp(scores[r] - most);
        total += weight;
        for (uint32_t d = 0; d < KVT_GPU_LATENT; d++)
            out[d] += weight * (double)row[d];
    }
    for (uint32_t d = 0; d < KVT_GPU_LATENT; d++) {
        double should = work->count > 0 ? out[d] / total : 0;
        double differs =
            value_of(rank, first_out(rank), (size_t)head * KVT_GPU_LATENT + d) - should;
        work->differs[head] += differs * differs;
        work->should[head] += should * should;
    }
}

/* The rows of the query just checked are still where they were made. */
static kvt_status compute_in_double(struct rank *rank, const struct check *check, uint32_t count,
                                    struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    uint32_t heads = cuda->llm->heads, layer_bytes = cuda->stores[0].layer_bytes;
    struct doubling work = {.rank = rank, .count = count};
    double differs = 0, should = 0;
    cudaError_t error =
        cudaMemcpyAsync(pinned_rows(rank), rank->proof_rows, (size_t)count * layer_bytes,
                        cudaMemcpyDeviceToHost, rank->main);

    if (error == cudaSuccess)
        error = cudaMemcpyAsync(pinned_q(rank),
                                (const uint8_t *)rank->q + (size_t)check->query * q_bytes(rank),
                                q_bytes(rank), cudaMemcpyDeviceToHost, rank->main);
    kvt_status status = rank_check(rank, error, "rows of a proof", err);
    if (status == KVT_OK)
        status = rank_wait_stream(rank, rank->main, "rows of a proof", err);
    if (status != KVT_OK)
        return status;
    work.rows = calloc((size_t)count * cuda->q_dim + 1, sizeof *work.rows);
    work.differs = calloc(2 * (size_t)heads + (size_t)heads * count, sizeof *work.differs);
    if (work.rows && work.differs) {
        work.should = work.differs + heads;
        work.scores = work.should + heads;
        for (uint32_t r = 0; r < count; r++)
            decode_row(cuda->format, pinned_rows(rank) + (size_t)r * layer_bytes,
                       work.rows + (size_t)r * cuda->q_dim);
        kvt_crew_run(rank->crew, heads, double_head, &work);
        for (uint32_t h = 0; h < heads; h++) {
            differs += work.differs[h];
            should += work.should[h];
        }
        double rel_error = differs == 0 ? 0 : sqrt(differs / should);
        rank->proof.max_rel_error = kvt_worse_error(rank->proof.max_rel_error, rel_error);
        rank->proof.double_queries++;
    } else {
        status = kvt_fail_nomem(err, "attention in double precision");
    }
    free(work.rows);
    free(work.differs);
    return status;
}

/* ---- Verdicts ------------------------------------------------------------------------- */

/* The first element that differs in any bit, or that is no number on both sides; their count where
 * there is none. */
static uint32_t first_wrong(const struct rank *rank)
{
    uint32_t bytes = rank->cuda->out_is_float ? 4 : 2, count = rank->cuda->out_bytes / bytes;
    uint32_t at = 0;

    while (at < count &&
           memcmp(first_out(rank) + (size_t)at * bytes, second_out(rank) + (size_t)at * bytes,
                  bytes) == 0 &&
           isfinite(value_of(rank, first_out(rank), at)))
        at++;
    return at;
}

/* Whether the query of a check, whose rows have just been listed, selects a row that was spoilt. */
static bool selects_spoilt(const struct rank *rank, const struct check *check)
{
    const struct backend_cuda *cuda = rank->cuda;
    const struct spoilt *spoilt = &rank->spoilt;
    const struct lane *lane = rank->items[item_of(rank, check->query)];
    bool is_shared = spoilt->context_id & SHARED_CONTEXT;
    const int32_t *list = rank->proof_lists_pinned + (is_shared ? cuda->llm->top_k : 0);
    uint32_t context_id = is_shared ? SHARED_CONTEXT | lane->shared_context : lane->request;

    if (!spoilt->is_there || context_id != spoilt->context_id || check->layer != spoilt->layer ||
        cuda->llm->selectors[check->selector].store != spoilt->store)
        return false;
    for (uint32_t r = 0; r < cuda->llm->top_k; r++) {
        if (list[r] == (int32_t)spoilt->row)
            return true;
    }
    return false;
}

static void note_unequal(struct rank *rank, const struct check *check, uint32_t at)
{
    uint32_t i = item_of(rank, check->query);
    const struct kvt_gpu_request *request = &rank->block.requests[i];

    if (selects_spoilt(rank, check)) {
        rank->proof.corrupted_queries++;
        rank->proof.corrupted_found = rank->proof.corrupted_rows;
    }
    if (rank->proof.unequal_queries++ > 0)
        return;
    (void)snprintf(rank->first_unequal, sizeof rank->first_unequal,
                   "rank %u, request %u behind %u tokens, query %u, selector %u, layer %u of its "
                   "store: from head %u, element %u on, %.6g instead of %.6g",
                   rank->number, request->context_id, request->context_tokens,
                   check->query - request->first_query, check->selector, check->layer,
                   at / KVT_GPU_LATENT, at % KVT_GPU_LATENT, value_of(rank, first_out(rank), at),
                   value_of(rank, second_out(rank), at));
    rank->proof.first_unequal = rank->first_unequal;
}

/* The lists of what is checked come down, where nobody wanted all. */
static kvt_status read_lists(struct rank *rank, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    cudaError_t error = cudaSuccess;

    for (uint32_t n = 0; n < cuda->check_queries && error == cudaSuccess; n++) {
        const struct check *check = &rank->checks[n];
        size_t at = ((size_t)check->selector * cuda->query_rows + check->query) * cuda->llm->top_k;
        error = cudaMemcpyAsync(rank->selections_pinned + at, rank->selections + at,
                                cuda->llm->top_k * sizeof *rank->selections, cudaMemcpyDeviceToHost,
                                rank->main);
    }
    kvt_status status = rank_check(rank, error, "selections of a proof", err);
    return status == KVT_OK ? rank_wait_stream(rank, rank->main, "selections of a proof", err)
                            : status;
}

kvt_status proof_check(struct rank *rank, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    kvt_status status = KVT_OK;

    if (cuda->check_queries > 0 && !rank->selections_read)
        status = read_lists(rank, err);
    for (uint32_t n = 0; n < cuda->check_queries && status == KVT_OK; n++) {
        uint32_t count = 0;
        status = compute_again(rank, n, &count, err);
        if (status != KVT_OK)
            return status;
        uint32_t at = first_wrong(rank);
        if (at < cuda->out_bytes / (cuda->out_is_float ? 4 : 2))
            note_unequal(rank, &rank->checks[n], at);
        if (rank->proof.checked_queries++ % DOUBLE_EVERY == 0)
            status = compute_in_double(rank, &rank->checks[n], count, err);
    }
    return status;
}
