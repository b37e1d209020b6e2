/* draft_dense.c -- the products of a drafter's pass: shapes, weights, what runs where. */
#include "draft_dense.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "product_memory.h"

enum {
    NARROWEST = 16,
    ROW_BYTES = 1152 /* of KVT_GPU_ROW_BF16_1152: one more behind what is made */
};

/* ---- Shapes -------------------------------------------------------------------------- */

/* No less than the narrowest, unless it is nothing. */
static uint32_t width_of(double width)
{
    uint32_t rounded = kvt_product_width(width);

    return width > 0 && rounded == 0 ? NARROWEST : rounded;
}

static uint32_t shared_by(uint32_t count, uint32_t tp)
{
    return (count + tp - 1) / tp;
}

struct kvt_draft_dense_shape kvt_draft_dense_shape_make(const struct kvt_drafter *drafter,
                                                        uint32_t tp)
{
    const struct kvt_draft_pass *pass = &drafter->pass;
    uint32_t sharers = tp < drafter->kv_heads ? tp : drafter->kv_heads;
    struct kvt_draft_dense_shape shape = {.layers = drafter->layers,
                                          .hidden = width_of(pass->hidden),
                                          .heads = shared_by(pass->heads, tp),
                                          .kv_heads = shared_by(drafter->kv_heads, sharers),
                                          .head_dim = drafter->head_dim,
                                          .joined = width_of((double)pass->hidden / tp),
                                          .inner = width_of((double)pass->inner / tp),
                                          .taps = pass->taps};
    /* More GPUs than KV heads: each has one, and as many heads of queries as go with it. */
    if (shape.heads % shape.kv_heads != 0)
        shape.heads += shape.kv_heads - shape.heads % shape.kv_heads;
    double bytes = drafter->weight_bytes / tp - kvt_draft_dense_read_bytes(&shape);
    shape.rest = width_of(bytes / KVT_DRAFT_WEIGHT_BYTES / drafter->layers / shape.hidden);
    return shape;
}

static uint64_t kv_width(const struct kvt_draft_dense_shape *shape)
{
    return 2 * (uint64_t)shape->kv_heads * shape->head_dim;
}

static uint64_t heads_width(const struct kvt_draft_dense_shape *shape)
{
    return (uint64_t)shape->heads * shape->head_dim;
}

static uint64_t layer_weights(const struct kvt_draft_dense_shape *shape)
{
    return shape->hidden *
           (2 * heads_width(shape) + kv_width(shape) + 3 * (uint64_t)shape->inner + shape->rest);
}

static uint64_t join_weights(const struct kvt_draft_dense_shape *shape)
{
    return (uint64_t)shape->taps * shape->hidden * shape->joined;
}

double kvt_draft_dense_read_bytes(const struct kvt_draft_dense_shape *shape)
{
    return KVT_DRAFT_WEIGHT_BYTES *
           ((double)join_weights(shape) + (double)shape->layers * (double)layer_weights(shape));
}

double kvt_draft_dense_operations(const struct kvt_draft_dense_shape *shape, uint32_t tokens,
                                  uint32_t committed)
{
    double of_committed = (double)join_weights(shape) +
                          (double)shape->layers * (double)shape->hidden * (double)kv_width(shape);

    return 2.0 * (committed * of_committed +
                  (double)tokens * (double)shape->layers * (double)layer_weights(shape));
}

/* ---- Memory -------------------------------------------------------------------------- */

/* Where everything is, in bytes from the start of one allocation; of a set, from its own. */
struct layout {
    uint64_t join;
    uint64_t sets, set_bytes, set_count;
    uint64_t project, out, up, down, rest; /* in a set: heads, then keys and values, lie together */
    uint64_t weight_bytes;
    uint64_t x, x_bytes, y, bytes;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Takes so many values. */
static uint64_t take(uint64_t *end_bytes, uint64_t values)
{
    return kvt_product_take(end_bytes, KVT_DRAFT_WEIGHT_BYTES * values);
}

static struct layout layout_of(const struct kvt_draft_dense_shape *shape, uint64_t tokens_max,
                               uint64_t committed_max, uint64_t l2_bytes)
{
    const uint64_t hidden = shape->hidden, heads = heads_width(shape);
    uint64_t widest = larger(2 * (uint64_t)shape->inner, heads + kv_width(shape));
    struct layout layout = {0};

    layout.project = take(&layout.set_bytes, hidden * (heads + kv_width(shape)));
    layout.out = take(&layout.set_bytes, hidden * heads);
    layout.up = take(&layout.set_bytes, 2 * hidden * shape->inner);
    layout.down = take(&layout.set_bytes, hidden * shape->inner);
    layout.rest = take(&layout.set_bytes, hidden * shape->rest);
    layout.set_count = kvt_product_sets(layout.set_bytes, l2_bytes);
    layout.join = take(&layout.bytes, join_weights(shape));
    layout.sets = layout.bytes;
    layout.bytes += layout.set_count * layout.set_bytes;
    layout.weight_bytes = layout.bytes;
    widest = larger(larger(widest, hidden), shape->rest);
    uint64_t values =
        larger(tokens_max * widest, committed_max * larger(shape->taps * hidden, kv_width(shape)));
    layout.x_bytes = KVT_DRAFT_WEIGHT_BYTES * values;
    layout.x = take(&layout.bytes, values + ROW_BYTES);
    layout.y = take(&layout.bytes, values);
    return layout;
}

/* ---- The products -------------------------------------------------------------------- */

enum product {
    JOIN, /* of committed positions, as is the next */
    COMMITTED_KV,
    PROJECT,
    OUT,
    UP,
    DOWN,
    REST,
    PRODUCT_COUNT
};

/* What runs for so many tokens and committed positions. */
struct plan {
    uint32_t tokens, committed;
    struct kvt_gemm *gemms[PRODUCT_COUNT]; /* NULL: nothing to multiply */
};

struct kvt_draft_dense {
    struct kvt_product_memory products;
    struct kvt_draft_dense_shape shape;
    struct layout layout;
    uint32_t tokens_max, committed_max;
    struct plan *plans; /* [plan_count] */
    size_t plan_count;
};

kvt_status kvt_draft_dense_new(const struct kvt_draft_dense_shape *shape, uint32_t tokens_max,
                               uint32_t committed_max, struct kvt_draft_dense **out,
                               struct kvt_error *err)
{
    struct kvt_draft_dense *dense = calloc(1, sizeof *dense);

    if (dense == NULL)
        return kvt_fail_nomem(err, "the drafter's products");
    dense->shape = *shape;
    dense->tokens_max = tokens_max;
    dense->committed_max = committed_max;
    kvt_status status = kvt_product_memory_open(&dense->products, err);
    if (status == KVT_OK) {
        struct layout *layout = &dense->layout;
        *layout = layout_of(shape, tokens_max, committed_max, dense->products.l2_bytes);
        status =
            kvt_product_memory_fill(&dense->products, layout->bytes, layout->x + layout->x_bytes,
                                    KVT_GPU_ROW_BF16_1152, "the drafter's weights", err);
    }
    if (status != KVT_OK) {
        kvt_draft_dense_free(dense);
        return status;
    }
    *out = dense;
    return KVT_OK;
}

static void plan_fini(struct plan *plan)
{
    for (int p = 0; p < PRODUCT_COUNT; p++)
        kvt_gemm_free(plan->gemms[p]);
}

void kvt_draft_dense_free(struct kvt_draft_dense *dense)
{
    if (dense == NULL)
        return;
    for (size_t i = 0; i < dense->plan_count; i++)
        plan_fini(&dense->plans[i]);
    free(dense->plans);
    kvt_product_memory_close(&dense->products);
    free(dense);
}

static kvt_status plan_init(const struct kvt_draft_dense *dense, uint32_t tokens,
                            uint32_t committed, struct plan *plan, struct kvt_error *err)
{
    const struct kvt_draft_dense_shape *shape = &dense->shape;
    const uint32_t heads = (uint32_t)heads_width(shape), kv = (uint32_t)kv_width(shape);
    const struct {
        uint32_t tokens, inputs, outputs;
    } products[PRODUCT_COUNT] = {
        [JOIN] = {committed, shape->taps * shape->hidden, shape->joined},
        [COMMITTED_KV] = {committed, shape->hidden, kv},
        [PROJECT] = {tokens, shape->hidden, heads + kv},
        [OUT] = {tokens, heads, shape->hidden},
        [UP] = {tokens, shape->hidden, 2 * shape->inner},
        [DOWN] = {tokens, shape->inner, shape->hidden},
        [REST] = {tokens, shape->hidden, shape->rest},
    };
    kvt_status status = KVT_OK;

    *plan = (struct plan){.tokens = tokens, .committed = committed};
    for (int p = 0; status == KVT_OK && p < PRODUCT_COUNT; p++) {
        const struct kvt_gemm_shape gemm = {.tokens = products[p].tokens,
                                            .outputs = products[p].outputs,
                                            .inputs = products[p].inputs,
                                            .batches = 1,
                                            .is_bf16 = true};
        if (gemm.outputs > 0)
            status = kvt_gemm_new(dense->products.library, &gemm, &plan->gemms[p], err);
    }
    if (status != KVT_OK)
        plan_fini(plan);
    return status;
}

/* Made when it is first asked for. */
static kvt_status plan_of(struct kvt_draft_dense *dense, uint32_t tokens, uint32_t committed,
                          const struct plan **out, struct kvt_error *err)
{
    for (size_t i = 0; i < dense->plan_count; i++) {
        *out = &dense->plans[i];
        if (dense->plans[i].tokens == tokens && dense->plans[i].committed == committed)
            return KVT_OK;
    }
    struct plan *plans = realloc(dense->plans, (dense->plan_count + 1) * sizeof *plans);
    if (plans == NULL)
        return kvt_fail_nomem(err, "plans of the drafter's products");
    dense->plans = plans;
    kvt_status status = plan_init(dense, tokens, committed, &plans[dense->plan_count], err);
    if (status == KVT_OK)
        *out = &plans[dense->plan_count++];
    return status;
}

kvt_status kvt_draft_dense_enqueue(struct kvt_draft_dense *dense, enum kvt_draft_products products,
                                   uint32_t layer, uint32_t tokens, uint32_t committed,
                                   cudaStream_t stream, struct kvt_error *err)
{
    static const enum product runs[KVT_DRAFT_PRODUCTS][4] = {
        [KVT_DRAFT_JOIN] = {JOIN, PRODUCT_COUNT},
        [KVT_DRAFT_PROJECT] = {COMMITTED_KV, PROJECT, PRODUCT_COUNT},
        [KVT_DRAFT_FINISH] = {OUT, UP, DOWN, REST},
    };
    const struct layout *layout = &dense->layout;
    const struct plan *plan = NULL;

    if (tokens == 0 || tokens > dense->tokens_max || committed == 0 ||
        committed > dense->committed_max)
        return kvt_fail(err, KVT_ERR_INVALID, "drafter",
                        "%u tokens behind %u positions; it was made for 1 to %u behind 1 to %u",
                        tokens, committed, dense->tokens_max, dense->committed_max);
    kvt_status status = plan_of(dense, tokens, committed, &plan, err);
    if (status != KVT_OK)
        return status;

    assert(plan != NULL);
    const uint64_t set = layout->sets + layer % layout->set_count * layout->set_bytes;
    const uint64_t kv =
        layout->project + KVT_DRAFT_WEIGHT_BYTES * heads_width(&dense->shape) * dense->shape.hidden;
    const uint64_t weights[PRODUCT_COUNT] = {
        [JOIN] = layout->join,      [COMMITTED_KV] = set + kv, [PROJECT] = set + layout->project,
        [OUT] = set + layout->out,  [UP] = set + layout->up,   [DOWN] = set + layout->down,
        [REST] = set + layout->rest};
    for (int i = 0; i < 4 && status == KVT_OK && runs[products][i] != PRODUCT_COUNT; i++) {
        enum product p = runs[products][i];
        if (plan->gemms[p] != NULL)
            status = kvt_gemm_enqueue(plan->gemms[p], dense->products.memory + weights[p],
                                      dense->products.memory + layout->x,
                                      dense->products.memory + layout->y, stream, err);
    }
    return status;
}
