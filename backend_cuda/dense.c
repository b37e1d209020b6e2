/* dense.c -- the dense stand-in: weights, and a layer's products. */
#include "dense.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "product_memory.h"

enum {
    NARROWEST = 16,
    ROW_BYTES = 576 /* of KVT_GPU_ROW_E4M3_576: one more behind what is made */
};
#define EXPERTS_BYTES_MAX (UINT64_C(2) << 30) /* of experts' weights that are kept apart */

/* ---- Shapes -------------------------------------------------------------------------- */

static uint32_t width_of_some(double width)
{
    uint32_t rounded = kvt_product_width(width);
    return rounded > 0 ? rounded : NARROWEST;
}

kvt_status kvt_dense_shape_make(const struct kvt_llm *llm, uint32_t tp, uint32_t ep,
                                struct kvt_dense_shape *out, struct kvt_error *err)
{
    struct kvt_dense_shape shape = {
        .hidden = width_of_some(llm->hidden),
        .latent = width_of_some(llm->latent_dim + llm->rope_dim),
        .replicas = ep > tp ? ep / tp : 1,
    };
    double layer_bytes = llm->weight_bytes / llm->layers;
    double expert_bytes = 0;

    if (llm->experts > 0) {
        if (ep > llm->experts)
            return kvt_fail(err, KVT_ERR_UNSUPPORTED, llm->name,
                            "ep %u: more GPUs than the model's %u experts", ep, llm->experts);
        expert_bytes = layer_bytes - llm->dense_weight_bytes / llm->layers;
        shape.inner = kvt_product_width(expert_bytes / llm->experts / (ep > 1 ? 1 : tp) /
                                        (3.0 * shape.hidden));
    }
    /* Latents are not sharded: each rank of a replica makes its own rows. */
    double wide_bytes = (layer_bytes - expert_bytes - (double)shape.hidden * shape.latent) / tp;
    if (shape.inner > 0) {
        shape.local_experts = ep > 1 ? llm->experts / ep : llm->experts;
        shape.active_fraction = (double)llm->experts_active / llm->experts;
    } else {
        wide_bytes += expert_bytes / (ep > tp ? ep : tp);
    }
    shape.wide = width_of_some(wide_bytes / (2.0 * shape.hidden));
    *out = shape;
    return KVT_OK;
}

uint32_t kvt_dense_touched(const struct kvt_dense_shape *shape, uint32_t tokens,
                           uint32_t *tokens_each)
{
    *tokens_each = 0;
    if (shape->inner == 0 || tokens == 0)
        return 0;
    double meeting = (double)tokens * shape->replicas;
    double share = 1.0 - pow(1.0 - shape->active_fraction, meeting);
    double pairs = meeting * shape->active_fraction * shape->local_experts;
    double touched = ceil(shape->local_experts * share - 1e-9);

    *tokens_each = (uint32_t)ceil(pairs / touched - 1e-9);
    if (*tokens_each == 0)
        *tokens_each = 1;
    return (uint32_t)touched;
}

static double attention_weights(const struct kvt_dense_shape *shape)
{
    return (double)shape->hidden * (shape->latent + 2.0 * shape->wide);
}

static double expert_weights(const struct kvt_dense_shape *shape)
{
    return 3.0 * shape->hidden * shape->inner;
}

double kvt_dense_read_bytes(const struct kvt_dense_shape *shape, uint32_t tokens)
{
    uint32_t each = 0;
    uint32_t touched = kvt_dense_touched(shape, tokens, &each);
    return attention_weights(shape) + touched * expert_weights(shape);
}

double kvt_dense_operations(const struct kvt_dense_shape *shape, uint32_t tokens)
{
    uint32_t each = 0;
    uint32_t touched = kvt_dense_touched(shape, tokens, &each);
    return 2.0 *
           (tokens * attention_weights(shape) + (double)touched * each * expert_weights(shape));
}

/* ---- Memory -------------------------------------------------------------------------- */

/* Where everything is, in bytes from the start of one allocation. */
struct layout {
    uint32_t attention_sets, expert_sets; /* an expert set: one expert's up and down */
    uint64_t in, out;                     /* [attention_sets] of each product's weights */
    uint64_t up, down;                    /* [expert_sets] */
    uint64_t x, y;
    uint64_t weight_bytes, x_bytes, bytes; /* weights lie first, inputs behind them */
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static struct layout layout_of(const struct kvt_dense_shape *shape, uint32_t tokens_max,
                               uint64_t l2_bytes)
{
    const uint64_t hidden = shape->hidden;
    const uint64_t attention_bytes = (uint64_t)attention_weights(shape);
    const uint64_t expert_bytes = (uint64_t)expert_weights(shape);
    struct layout layout = {0};
    const uint64_t in_outputs = (uint64_t)shape->latent + shape->wide;
    uint64_t x_rows_bytes = tokens_max * larger(hidden, shape->wide);
    uint64_t y_rows_bytes = larger(hidden, in_outputs) * tokens_max * 2;

    layout.attention_sets = (uint32_t)kvt_product_sets(attention_bytes, l2_bytes);
    if (shape->inner > 0) {
        uint64_t most = larger(EXPERTS_BYTES_MAX / expert_bytes, 1);
        uint64_t wanted = larger(shape->local_experts, kvt_product_sets(expert_bytes, l2_bytes));
        layout.expert_sets = (uint32_t)(wanted < most ? wanted : most);
        /* No more (token, expert) pairs than all that meet, and one of padding an expert. */
        double pairs =
            (double)tokens_max * shape->replicas * shape->active_fraction * shape->local_experts;
        uint64_t meeting = (uint64_t)ceil(pairs) + shape->local_experts;
        uint64_t inner = shape->inner;
        x_rows_bytes = larger(x_rows_bytes, meeting * larger(hidden, inner));
        y_rows_bytes = larger(y_rows_bytes, 2 * meeting * larger(hidden, 2 * inner));
    }
    layout.in = kvt_product_take(&layout.bytes, layout.attention_sets * hidden * in_outputs);
    layout.out = kvt_product_take(&layout.bytes, layout.attention_sets * hidden * shape->wide);
    layout.up = kvt_product_take(&layout.bytes, 2 * hidden * shape->inner * layout.expert_sets);
    layout.down = kvt_product_take(&layout.bytes, hidden * shape->inner * layout.expert_sets);
    layout.weight_bytes = layout.bytes;
    layout.x_bytes = x_rows_bytes;
    layout.x = kvt_product_take(&layout.bytes, x_rows_bytes + ROW_BYTES);
    layout.y = kvt_product_take(&layout.bytes, y_rows_bytes);
    return layout;
}

/* ---- The stand-in -------------------------------------------------------------------- */

/* Products of one number of tokens. `rest`: of the experts behind the last full turn of the
 * sets, where more are touched than there are sets. */
struct plan {
    uint32_t tokens, touched, each;
    struct kvt_gemm *in, *out, *up, *down, *rest_up, *rest_down;
};

struct kvt_dense {
    struct kvt_product_memory products;
    struct kvt_dense_shape shape;
    struct layout layout;
    uint32_t tokens_max;
    struct plan *plans; /* [plan_count] */
    size_t plan_count;
};

kvt_status kvt_dense_new(const struct kvt_dense_shape *shape, uint32_t tokens_max,
                         struct kvt_dense **out, struct kvt_error *err)
{
    struct kvt_dense *dense = calloc(1, sizeof *dense);

    if (dense == NULL)
        return kvt_fail_nomem(err, "the dense stand-in");
    dense->shape = *shape;
    dense->tokens_max = tokens_max;
    kvt_status status = kvt_product_memory_open(&dense->products, err);
    if (status == KVT_OK) {
        struct layout *layout = &dense->layout;
        *layout = layout_of(shape, tokens_max, dense->products.l2_bytes);
        status =
            kvt_product_memory_fill(&dense->products, layout->bytes, layout->x + layout->x_bytes,
                                    KVT_GPU_ROW_E4M3_576, "the weights of the dense stand-in", err);
    }
    if (status != KVT_OK) {
        kvt_dense_free(dense);
        return status;
    }
    *out = dense;
    return KVT_OK;
}

static void plan_fini(struct plan *plan)
{
    kvt_gemm_free(plan->in);
    kvt_gemm_free(plan->out);
    kvt_gemm_free(plan->up);
    kvt_gemm_free(plan->down);
    kvt_gemm_free(plan->rest_up);
    kvt_gemm_free(plan->rest_down);
}

void kvt_dense_free(struct kvt_dense *dense)
{
    if (dense == NULL)
        return;
    for (size_t i = 0; i < dense->plan_count; i++)
        plan_fini(&dense->plans[i]);
    free(dense->plans);
    kvt_product_memory_close(&dense->products);
    free(dense);
}

static kvt_status product(const struct kvt_dense *dense, uint32_t batches, uint32_t tokens,
                          uint32_t inputs, uint32_t outputs, struct kvt_gemm **out,
                          struct kvt_error *err)
{
    const struct kvt_gemm_shape shape = {
        .tokens = tokens, .outputs = outputs, .inputs = inputs, .batches = batches};
    if (batches == 0)
        return KVT_OK;
    return kvt_gemm_new(dense->products.library, &shape, out, err);
}

static kvt_status plan_init(const struct kvt_dense *dense, uint32_t tokens, struct plan *plan,
                            struct kvt_error *err)
{
    const struct kvt_dense_shape *shape = &dense->shape;
    const uint32_t sets = dense->layout.expert_sets;
    *plan = (struct plan){.tokens = tokens};
    plan->touched = kvt_dense_touched(shape, tokens, &plan->each);
    const uint32_t full = plan->touched < sets ? plan->touched : sets;
    const uint32_t rest = full > 0 ? plan->touched % full : 0;
    const struct {
        uint32_t batches, tokens, inputs, outputs;
        struct kvt_gemm **out;
    } products[] = {
        {1, tokens, shape->hidden, shape->latent + shape->wide, &plan->in},
        {1, tokens, shape->wide, shape->hidden, &plan->out},
        {full, plan->each, shape->hidden, 2 * shape->inner, &plan->up},
        {full, plan->each, shape->inner, shape->hidden, &plan->down},
        {rest, plan->each, shape->hidden, 2 * shape->inner, &plan->rest_up},
        {rest, plan->each, shape->inner, shape->hidden, &plan->rest_down},
    };
    kvt_status status = KVT_OK;

    for (size_t i = 0; status == KVT_OK && i < sizeof products / sizeof products[0]; i++)
        status = product(dense, products[i].batches, products[i].tokens, products[i].inputs,
                         products[i].outputs, products[i].out, err);
    if (status != KVT_OK)
        plan_fini(plan);
    return status;
}

/* The plan for that many tokens, made when it is first asked for. */
static kvt_status plan_of(struct kvt_dense *dense, uint32_t tokens, const struct plan **out,
                          struct kvt_error *err)
{
    for (size_t i = 0; i < dense->plan_count; i++) {
        *out = &dense->plans[i];
        if (dense->plans[i].tokens == tokens)
            return KVT_OK;
    }
    struct plan *plans = realloc(dense->plans, (dense->plan_count + 1) * sizeof *plans);
    if (plans == NULL)
        return kvt_fail_nomem(err, "plans of the dense stand-in");
    dense->plans = plans;
    kvt_status status = plan_init(dense, tokens, &plans[dense->plan_count], err);
    if (status == KVT_OK)
        *out = &plans[dense->plan_count++];
    return status;
}

/* Up, then down, of `count` experts from set `first` on. */
static kvt_status enqueue_experts(const struct kvt_dense *dense, const struct kvt_gemm *up,
                                  const struct kvt_gemm *down, uint32_t first, cudaStream_t stream,
                                  struct kvt_error *err)
{
    const struct layout *layout = &dense->layout;
    const uint64_t weights = (uint64_t)dense->shape.hidden * dense->shape.inner;
    uint8_t *memory = dense->products.memory;
    kvt_status status = kvt_gemm_enqueue(up, memory + layout->up + 2 * weights * first,
                                         memory + layout->x, memory + layout->y, stream, err);
    if (status == KVT_OK)
        status = kvt_gemm_enqueue(down, memory + layout->down + first * weights, memory + layout->x,
                                  memory + layout->y, stream, err);
    return status;
}

kvt_status kvt_dense_enqueue(struct kvt_dense *dense, uint32_t layer, uint32_t tokens,
                             cudaStream_t stream, struct kvt_error *err)
{
    const struct layout *layout = &dense->layout;
    const struct kvt_dense_shape *shape = &dense->shape;
    const struct plan *plan = NULL;
    uint8_t *memory = dense->products.memory;

    if (tokens == 0 || tokens > dense->tokens_max)
        return kvt_fail(err, KVT_ERR_INVALID, "dense stand-in",
                        "%u tokens; it was made for 1 to %u", tokens, dense->tokens_max);
    kvt_status status = plan_of(dense, tokens, &plan, err);
    if (status != KVT_OK)
        return status;

    assert(plan != NULL);
    const uint64_t set = layer % layout->attention_sets;
    const uint64_t in_bytes = (uint64_t)shape->hidden * (shape->latent + shape->wide);
    const uint64_t wide_bytes = (uint64_t)shape->hidden * shape->wide;
    const struct {
        const struct kvt_gemm *gemm;
        uint64_t weights;
    } attention[] = {
        {plan->in, layout->in + set * in_bytes},
        {plan->out, layout->out + set * wide_bytes},
    };
    for (size_t i = 0; status == KVT_OK && i < sizeof attention / sizeof attention[0]; i++)
        status = kvt_gemm_enqueue(attention[i].gemm, memory + attention[i].weights,
                                  memory + layout->x, memory + layout->y, stream, err);
    if (plan->touched == 0)
        return status;

    /* Layers begin at different experts, so that what L2 holds of one is no help to the next. */
    const uint32_t sets = layout->expert_sets;
    const uint32_t full = plan->touched < sets ? plan->touched : sets;
    const uint32_t first = (uint32_t)((uint64_t)layer * full % (sets - full + 1));
    for (uint32_t done = full; status == KVT_OK && done <= plan->touched; done += full)
        status = enqueue_experts(dense, plan->up, plan->down, first, stream, err);
    if (status == KVT_OK && plan->rest_up != NULL)
        status = enqueue_experts(dense, plan->rest_up, plan->rest_down, 0, stream, err);
    return status;
}

const char *kvt_dense_library(const struct kvt_dense *dense)
{
    return kvt_cublaslt_path(dense->products.library);
}
