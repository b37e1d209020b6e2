/* draft.c -- a drafter's part of the backend: what of it is run, and each step's work. */
#include "draft.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "dense.h"
#include "step.h"

/* ---- What is run ---------------------------------------------------------------------- */

/* What a layer's row is made of; false: value_bytes says of no format that there is. */
static bool choose_values(const struct kvt_drafter *drafter, enum kvt_gpu_format *values)
{
    double bytes = 2.0 * drafter->kv_heads * drafter->head_dim * drafter->value_bytes;

    if (drafter->value_bytes == 1)
        *values = KVT_GPU_ROW_E4M3_576;
    else if (drafter->value_bytes == 2)
        *values = KVT_GPU_ROW_BF16_1152;
    else if (bytes == 528 && drafter->kv_heads == 1 && drafter->head_dim == 512)
        *values =
            KVT_GPU_ROW_MIXED_656; /* its first 528: 512 e4m3, keys and values in one, 4 scales */
    else
        return false;
    return true;
}

/* KV heads are spread over tp as long as there are any. */
static void shape_ring(const struct kvt_drafter *drafter, uint32_t tp,
                       struct kvt_gpu_draft_ring *ring)
{
    enum kvt_gpu_format values;
    uint32_t sharers = tp < drafter->kv_heads ? tp : drafter->kv_heads;
    uint32_t kv_heads = (drafter->kv_heads + sharers - 1) / sharers;
    uint32_t rows = drafter->window_tokens + drafter->slack_tokens;

    if (drafter->window_tokens == 0 || !choose_values(drafter, &values) ||
        drafter->block_max > rows)
        return;
    double bytes = 2.0 * kv_heads * drafter->head_dim * drafter->value_bytes;
    if (fmod(bytes, 16) != 0)
        return;
    *ring = (struct kvt_gpu_draft_ring){.layers = drafter->layers,
                                        .ring_rows = rows,
                                        .row_bytes = (uint32_t)bytes,
                                        .window_tokens = drafter->window_tokens,
                                        .values = values};
}

/* Why a drafter that keeps a window has no pass that can be run; NULL: it can. */
static const char *why_not_own(const struct kvt_drafter *drafter, const struct draft_shape *draft)
{
    if (draft->ring.ring_rows == 0)
        return "its rows have no format here";
    if (drafter->pass.hidden == 0)
        return "its file does not say what a pass computes";
    if (draft->passes != 1)
        return "it makes its drafts one by one";
    if (drafter->head_dim != KVT_GPU_DRAFT_DIM || draft->ring.values != KVT_GPU_ROW_E4M3_576)
        return "attention over its rows has no kernel; heads of 128 in e4m3 have";
    if (draft->ring.ring_rows < KVT_GPU_DRAFT_ROWS_MIN)
        return "its ring is shorter than attention's pieces";
    return NULL;
}

static void describe(struct draft_shape *draft, const char *who, const char *why_not)
{
    size_t bytes = sizeof draft->words;

    if (why_not)
        (void)snprintf(draft->words, bytes, "drafter %.60s: %s is predicted, for %s%s", who,
                       "its pass", why_not, draft->ring.ring_rows > 0 ? "; its ring is kept" : "");
    else if (draft->pass == DRAFT_OWN)
        (void)snprintf(draft->words, bytes,
                       "drafter %.60s runs, a ring of %u rows a request; what is accepted is drawn",
                       who, draft->ring.ring_rows);
    else
        (void)snprintf(
            draft->words, bytes,
            "drafter %.60s runs as %u passes of %u of the model's layers, without their "
            "attention, whose rows have no place of their own; what is accepted is drawn",
            who, draft->passes, draft->layers);
}

void draft_setup(struct backend_cuda *cuda)
{
    const struct kvt_drafter *drafter = cuda->env.drafter;
    struct draft_shape *draft = &cuda->draft;
    uint32_t tp = cuda->env.tp > 0 ? cuda->env.tp : 1;

    *draft = (struct draft_shape){.passes = cuda->env.speculation.draft_passes};
    if (draft->passes == 0)
        return;
    if (!drafter) {
        (void)snprintf(draft->words, sizeof draft->words,
                       "drafts are the model's own: what a pass for them takes is predicted");
        return;
    }
    draft->layers = drafter->layers;
    draft->block_max = drafter->block_max;
    draft->lead_tokens = drafter->pass.lead_tokens;
    shape_ring(drafter, tp, &draft->ring);
    const char *why_not = NULL;
    if (drafter->window_tokens > 0 || drafter->weight_bytes > 0)
        why_not = why_not_own(drafter, draft);
    if (!why_not)
        draft->pass = drafter->pass.hidden > 0 ? DRAFT_OWN : DRAFT_LAYERS;
    if (draft->pass == DRAFT_OWN)
        draft->dense = kvt_draft_dense_shape_make(drafter, tp);
    describe(draft, drafter->name, why_not);
}

/* ---- Memory --------------------------------------------------------------------------- */

static uint64_t tokens_max(const struct backend_cuda *cuda)
{
    return (uint64_t)cuda->lanes * cuda->draft.block_max;
}

static uint64_t q_bytes(const struct backend_cuda *cuda)
{
    return tokens_max(cuda) * cuda->draft.dense.heads * KVT_GPU_DRAFT_DIM * sizeof(uint16_t);
}

/* q is filled by whole rows of this kind. */
enum {
    FILL_ROW_BYTES = 1152,
    ALIGNED = 256
};

void draft_lay(const struct backend_cuda *cuda, struct rank *rank, struct carver *carver)
{
    const struct draft_shape *draft = &cuda->draft;
    const struct kvt_gpu_draft_ring *ring = &draft->ring;
    struct draft_state *state = &rank->draft;

    if (ring->ring_rows == 0)
        return;
    state->rows = carve(
        carver, (uint64_t)cuda->lanes * ring->layers * ring->ring_rows * ring->row_bytes, ALIGNED);
    state->verdict = carve(carver, sizeof *state->verdict, ALIGNED);
    if (draft->pass != DRAFT_OWN)
        return;
    state->q = carve(carver, q_bytes(cuda) + FILL_ROW_BYTES, ALIGNED);
    state->out = carve(carver, q_bytes(cuda), ALIGNED);
    state->workspace =
        carve(carver, kvt_gpu_draft_workspace_bytes((uint32_t)tokens_max(cuda), draft->dense.heads),
              ALIGNED);
}

void draft_lay_block(const struct backend_cuda *cuda, struct rank *rank, struct carver *carver)
{
    rank->draft.requests = carve(carver, cuda->lanes * sizeof *rank->draft.requests, ALIGNED);
}

void draft_lay_pinned(struct rank *rank, struct carver *carver)
{
    rank->draft.verdict_pinned = carve(carver, sizeof *rank->draft.verdict_pinned, ALIGNED);
}

/* Queries of attention, N(0, 1), the same for all layers. */
kvt_status draft_fill(struct rank *rank, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    struct kvt_gpu_make_rows make = {
        .context_id = rank->number,
        .layers = 1,
        .format = KVT_GPU_ROW_BF16_1152,
        .row_stride = FILL_ROW_BYTES,
        .layer_stride = FILL_ROW_BYTES,
        .dst = rank->draft.q,
        .row_count = (uint32_t)((q_bytes(cuda) + FILL_ROW_BYTES - 1) / FILL_ROW_BYTES)};

    if (cuda->draft.pass != DRAFT_OWN)
        return KVT_OK;
    kvt_status status =
        rank_check(rank, kvt_gpu_make_rows(&make, rank->main), "kvt_gpu_make_rows", err);
    return status == KVT_OK ? rank_wait_stream(rank, rank->main, "a drafter's queries", err)
                            : status;
}

kvt_status device_open_draft(const struct backend_cuda *cuda, struct device *device,
                             struct kvt_error *err)
{
    if (cuda->draft.pass != DRAFT_OWN)
        return KVT_OK;
    return kvt_draft_dense_new(&cuda->draft.dense, (uint32_t)tokens_max(cuda), cuda->query_rows,
                               &device->draft_dense, err);
}

/* ---- Rows ----------------------------------------------------------------------------- */

static struct kvt_gpu_draft_ring ring_of(const struct rank *rank)
{
    struct kvt_gpu_draft_ring ring = rank->cuda->draft.ring;

    ring.rows = rank->draft.rows;
    return ring;
}

static const struct kvt_gpu_draft_request *requests_of(const struct rank *rank)
{
    return on_device(&rank->block, rank->draft.requests);
}

/* Rows up to `end` are written: those a ring before it are gone. */
static void lose(const struct draft_shape *draft, struct lane *lane, uint32_t end)
{
    uint32_t rows = draft->ring.ring_rows;

    if (rows > 0 && end > rows && end - rows > lane->lost_tokens)
        lane->lost_tokens = end - rows;
}

/* What was committed before it came, as if it had come with it. */
kvt_status draft_admit(struct rank *rank, struct lane *lane, struct kvt_error *err)
{
    struct kvt_gpu_draft_request *request = rank->draft.requests;
    struct kvt_gpu_draft_ring ring = ring_of(rank);

    if (ring.ring_rows == 0)
        return KVT_OK;
    lose(&rank->cuda->draft, lane, lane->admitted_tokens);
    *request = (struct kvt_gpu_draft_request){.lane = lane->index,
                                              .context_id = lane->request,
                                              .context_tokens = lane->admitted_tokens,
                                              .lost_tokens = lane->lost_tokens};
    lane->drafted_tokens = lane->admitted_tokens;
    cudaError_t error = cudaMemcpyAsync(on_device(&rank->block, request), request, sizeof *request,
                                        cudaMemcpyHostToDevice, rank->main);
    if (error == cudaSuccess)
        error = kvt_gpu_draft_append(&ring, requests_of(rank), 1, rank->main);
    return rank_check(rank, error, "kvt_gpu_draft_append", err);
}

/* ---- A step --------------------------------------------------------------------------- */

static uint32_t block_tokens(const struct draft_shape *draft, const struct kvt_round *round)
{
    return round->draft_tokens > 0 ? round->draft_tokens + draft->lead_tokens : 0;
}

kvt_status draft_check_round(const struct backend_cuda *cuda, const struct kvt_step_item *item,
                             struct kvt_error *err)
{
    const struct draft_shape *draft = &cuda->draft;
    uint32_t tokens = block_tokens(draft, item->round);

    if (draft->ring.ring_rows == 0 || tokens <= draft->block_max)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INTERNAL, "backend",
                    "request %u drafts by a block of %u tokens, and %u were said to be the most",
                    item->request, tokens, draft->block_max);
}

void draft_describe_item(struct rank *rank, const struct kvt_step_item *item, uint32_t i,
                         struct step_key *key)
{
    const struct draft_shape *draft = &rank->cuda->draft;
    struct lane *lane = rank->items[i];
    uint32_t tokens = block_tokens(draft, item->round);

    if (draft->pass == DRAFT_NOT_RUN && draft->ring.ring_rows == 0)
        return;
    lose(draft, lane, item->context_tokens + tokens);
    rank->draft.requests[i] = (struct kvt_gpu_draft_request){.lane = lane->index,
                                                             .context_id = lane->request,
                                                             .context_tokens = item->context_tokens,
                                                             .settled_tokens = lane->drafted_tokens,
                                                             .lost_tokens = lane->lost_tokens,
                                                             .block_tokens = tokens,
                                                             .first_token = key->draft_tokens};
    lane->drafted_tokens = item->context_tokens;
    key->draft_tokens += tokens;
    key->draft_max = tokens > key->draft_max ? tokens : key->draft_max;
}

static kvt_status attend(struct rank *rank, const struct step_key *key, uint32_t layer,
                         struct kvt_error *err)
{
    const struct draft_shape *draft = &rank->cuda->draft;
    struct kvt_gpu_draft_attend attend = {.ring = ring_of(rank),
                                          .layer = layer,
                                          .request_count = key->request_count,
                                          .token_count = key->draft_tokens,
                                          .block_max = key->draft_max,
                                          .heads = draft->dense.heads,
                                          .kv_heads = draft->dense.kv_heads,
                                          .softmax_scale = 1 / sqrtf(KVT_GPU_DRAFT_DIM),
                                          .requests = requests_of(rank),
                                          .q = rank->draft.q,
                                          .out = rank->draft.out,
                                          .workspace = rank->draft.workspace,
                                          .reference = rank->cuda->reference};

    return rank_check(rank, kvt_gpu_draft_attend(&attend, rank->launches), "kvt_gpu_draft_attend",
                      err);
}

/* Rows are written for all positions that the last round verified, accepted or not, as engines with
 * graphs have it: this round's number stands for the last one's. */
static kvt_status products(struct rank *rank, const struct step_key *key,
                           enum kvt_draft_products which, uint32_t layer, struct kvt_error *err)
{
    struct device *device = rank->device;

    (void)pthread_mutex_lock(&device->dense_lock);
    kvt_status status =
        kvt_draft_dense_enqueue(device->draft_dense, which, layer, key->draft_tokens,
                                key->query_count, rank->launches, err);
    (void)pthread_mutex_unlock(&device->dense_lock);
    if (status != KVT_OK)
        rank_note(rank, cudaPeekAtLastError());
    return status;
}

static kvt_status run_own(struct rank *rank, const struct step_key *key, struct kvt_error *err)
{
    kvt_status status = products(rank, key, KVT_DRAFT_JOIN, 0, err);

    for (uint32_t layer = 0; layer < rank->cuda->draft.layers && status == KVT_OK; layer++) {
        status = products(rank, key, KVT_DRAFT_PROJECT, layer, err);
        if (status == KVT_OK)
            status = attend(rank, key, layer, err);
        if (status == KVT_OK)
            status = products(rank, key, KVT_DRAFT_FINISH, layer, err);
    }
    return status;
}

/* Each pass makes an equal share of the drafts. */
static kvt_status run_model_layers(struct rank *rank, const struct step_key *key,
                                   struct kvt_error *err)
{
    const struct draft_shape *draft = &rank->cuda->draft;
    uint32_t tokens = (key->draft_tokens + draft->passes - 1) / draft->passes;
    kvt_status status = KVT_OK;

    for (uint32_t pass = 0; pass < draft->passes && status == KVT_OK; pass++) {
        for (uint32_t layer = 0; layer < draft->layers && status == KVT_OK; layer++)
            status = rank_enqueue_dense(rank, rank->cuda->llm->layers + layer, tokens, err);
    }
    return status;
}

kvt_status draft_enqueue(struct rank *rank, const struct step_key *key, struct kvt_error *err)
{
    const struct draft_shape *draft = &rank->cuda->draft;
    struct kvt_gpu_draft_ring ring = ring_of(rank);
    kvt_status status = KVT_OK;

    if (ring.ring_rows > 0)
        status = rank_check(
            rank,
            kvt_gpu_draft_append(&ring, requests_of(rank), key->request_count, rank->launches),
            "kvt_gpu_draft_append", err);
    if (status != KVT_OK || key->draft_tokens == 0 || draft->pass == DRAFT_NOT_RUN)
        return status;
    return draft->pass == DRAFT_OWN ? run_own(rank, key, err) : run_model_layers(rank, key, err);
}

/* ---- Proof ---------------------------------------------------------------------------- */

static kvt_status judge(struct rank *rank, uint32_t i, struct kvt_error *err)
{
    const struct kvt_gpu_draft_verdict *verdict = rank->draft.verdict_pinned;
    const struct kvt_gpu_draft_request *request = &rank->draft.requests[i];

    if (verdict->unequal_chunks == 0)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_DEVICE, "backend",
                    "the draft ring of request %u, behind %u tokens on rank %u, holds other rows "
                    "than were made: %" PRIu64 " pieces of 16 bytes, the first in layer %u at "
                    "position %u",
                    request->context_id, request->context_tokens, rank->number,
                    verdict->unequal_chunks, (uint32_t)(verdict->first >> 32),
                    (uint32_t)verdict->first);
}

/* One request's, in turn. */
kvt_status draft_check(struct rank *rank, struct kvt_error *err)
{
    const struct backend_cuda *cuda = rank->cuda;
    struct draft_state *state = &rank->draft;
    struct kvt_gpu_draft_ring ring = ring_of(rank);

    if (ring.ring_rows == 0 || cuda->check_queries == 0)
        return KVT_OK;
    uint32_t i = (uint32_t)(state->turn++ % rank->key.request_count);
    cudaError_t error =
        kvt_gpu_draft_compare(&ring, requests_of(rank) + i, state->verdict, rank->main);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(state->verdict_pinned, state->verdict, sizeof *state->verdict,
                                cudaMemcpyDeviceToHost, rank->main);
    kvt_status status = rank_check(rank, error, "kvt_gpu_draft_compare", err);
    if (status == KVT_OK)
        status = rank_wait_stream(rank, rank->main, "a comparison of draft rows", err);
    if (status == KVT_OK)
        rank->proof.draft_rings++;
    return status == KVT_OK ? judge(rank, i, err) : status;
}
