/* score.c -- the reference law: every row has a score that drifts, the best top_k are selected; and
 * the same with budgets by attention mass: of those, as many as hold a share of the softmax.
 *
 * Costs a nanosecond a visible row and token, and 12 bytes a row and stream,
 * twice that where drafts are rejected. The process itself is in
 * score_process.c; docs/laws.md says where its parameters come from. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/law.h"
#include "score_mass.h"
#include "score_process.h"

struct score_law {
    struct score_shape shape;
    struct score_model model;
    uint32_t stream_store[KVT_SELECTORS_MAX]; /* the model's, where it has one */
    uint32_t top_k;
    uint32_t side_paths;
    bool by_mass;
    struct score_budget budget; /* but for the stream's fall */
    double temperature, budget_spread;
    float *gauss;
    char params[160]; /* in words */
};

static const struct kvt_param_spec score_params[SCORE_PARAM_COUNT] = {SCORE_PARAMS};

enum {
    PARAM_MASS = SCORE_PARAM_COUNT,
    PARAM_TEMPERATURE,
    PARAM_BUDGET_SPREAD,
    PARAM_ROWS_MIN,
    MASS_PARAM_COUNT
};

static const struct kvt_param_spec mass_params[MASS_PARAM_COUNT] = {
    SCORE_PARAMS,
    {.name = "mass",
     .type = KVT_PARAM_REAL,
     .minimum = 0.01,
     .maximum = 0.9999,
     .default_number = 0.99,
     .help = "Share of the softmax's mass over all visible rows that a query's set holds."},
    {.name = "temperature",
     .type = KVT_PARAM_REAL,
     .minimum = 0.01,
     .maximum = 100,
     .default_number = 0.187,
     .calibrated_to = SCORE_MASS_FITTED_TO,
     .help = "Of the softmax, in standard deviations of a score: the lower, the fewer rows."},
    {.name = "budget_spread",
     .type = KVT_PARAM_REAL,
     .minimum = 0,
     .maximum = 0.9,
     .default_number = 0,
     .help = "By what share the temperature of the first selector is higher, and that of the last "
             "one lower; those between in even steps."},
    {.name = "rows_min",
     .type = KVT_PARAM_COUNT,
     .minimum = 1,
     .maximum = 1e6,
     .default_number = 64,
     .help = "A query's set has no fewer rows, where so many are visible and top_k is no less."},
};

static const char where[] = "law \"score\"";

static void score_free(void *data)
{
    struct score_law *law = data;
    if (law == NULL)
        return;
    free(law->gauss);
    free(law);
}

static kvt_status score_prepare(const struct kvt_law_env *env, void **out, struct kvt_error *err)
{
    struct score_shape shape;
    kvt_status status = score_check_top_k(env->top_k, where, err);
    if (status == KVT_OK)
        status = score_shape_init(&shape, &env->params, env->top_k, where, err);
    if (status != KVT_OK)
        return status;

    struct score_law *law = malloc(sizeof *law);
    float *gauss = score_gauss_new();
    if (law == NULL || gauss == NULL) {
        free(gauss);
        free(law);
        return kvt_fail_nomem(err, "the law of selections");
    }
    *law = (struct score_law){
        .shape = shape,
        .model = {.run_seed = env->run_seed,
                  .stream_count = env->stream_count,
                  .stream_store = env->stream_store},
        .top_k = env->top_k,
        .side_paths = env->side_paths,
        .gauss = gauss,
    };
    assert(env->stream_count <= KVT_SELECTORS_MAX);
    if (env->stream_store != NULL) {
        memcpy(law->stream_store, env->stream_store, env->stream_count * sizeof *law->stream_store);
        law->model.stream_store = law->stream_store;
    }
    score_describe_params(&env->params, law->params, sizeof law->params);
    *out = law;
    return KVT_OK;
}

static void score_describe(const void *data, char *out, size_t bytes)
{
    const struct score_law *law = data;
    (void)snprintf(out, bytes, "scores of all visible rows, top %u of them; %s", law->top_k,
                   law->params);
}

static kvt_status mass_prepare(const struct kvt_law_env *env, void **out, struct kvt_error *err)
{
    const struct kvt_param_value *values = env->params.values;
    kvt_status status = score_prepare(env, out, err);
    if (status != KVT_OK)
        return status;
    struct score_law *law = *out;
    law->by_mass = true;
    law->budget.share = values[PARAM_MASS].number;
    law->budget.rows_min = (uint32_t)values[PARAM_ROWS_MIN].number;
    law->temperature = values[PARAM_TEMPERATURE].number;
    law->budget_spread = values[PARAM_BUDGET_SPREAD].number;
    return KVT_OK;
}

static void mass_describe(const void *data, char *out, size_t bytes)
{
    const struct score_law *law = data;
    (void)snprintf(out, bytes,
                   "scores of all visible rows, %g of their mass at %g, top %u at most; %s",
                   law->budget.share, law->temperature, law->top_k, law->params);
}

/* From the first selector's temperature down to the last one's. */
static double temperature_of(const struct score_law *law, uint32_t selector)
{
    uint32_t last = law->model.stream_count - 1;
    double from_middle = last > 0 ? 1 - 2.0 * selector / last : 0;
    return law->temperature * (1 + law->budget_spread * from_middle);
}

static struct score_extent extent_of(const struct score_law *law,
                                     const struct kvt_law_stream_env *env)
{
    return (struct score_extent){
        .rows_max = env->rows_max, .top_k = law->top_k, .tokens_per_row = env->tokens_per_row};
}

/* The stream, and behind it a second one that rejected paths are walked on. */
static size_t score_bytes(const void *data, const struct kvt_law_stream_env *env)
{
    const struct score_law *law = data;
    struct score_extent extent = extent_of(law, env);
    return score_stream_bytes(&extent) * (law->side_paths > 0 ? 2 : 1);
}

static kvt_status score_init(void *data, void *stream, const struct kvt_law_stream_env *env,
                             struct kvt_error *err)
{
    const struct score_law *law = data;
    kvt_status status = score_check_rows(env->context_rows, env->rows_max, where, err);
    if (status != KVT_OK)
        return status;
    struct score_extent extent = extent_of(law, env);
    struct score_kin kin =
        score_kin_of(&law->model, env->request, env->selector, env->tokens_per_row);
    score_stream_init(stream, &law->shape, law->gauss, &kin, &extent);
    if (law->by_mass)
        ((struct score_stream *)stream)->fall = score_mass_fall(temperature_of(law, env->selector));
    return KVT_OK;
}

/* ---- A round ------------------------------------------------------------------------
 *
 *     for each committed depth
 *         main moves on by a token, and answers path 0's query there if there is one
 *         for each path that forks behind it
 *             spare = a fork of main
 *             for each depth down to the path's deepest query
 *                 spare moves on, and answers the query there if there is one */

/* A round and where its answers go. */
struct asking {
    const struct score_law *law;
    const struct kvt_law_round *round;
    uint64_t *const *sets;
    uint32_t depth_count; /* of visible_rows */
    uint32_t set_rows;
};

static struct asking asking_of(const struct score_law *law, const struct kvt_law_round *round,
                               uint64_t *const *sets)
{
    struct asking asking = {.law = law, .round = round, .sets = sets};
    for (uint32_t q = 0; q < round->query_count; q++) {
        if (round->queries[q].depth >= asking.depth_count)
            asking.depth_count = round->queries[q].depth + 1;
    }
    asking.set_rows = round->visible_rows[asking.depth_count - 1];
    return asking;
}

/* Moves a stream on to a depth of its path and answers the query there. */
static void visit(const struct asking *asking, struct score_stream *stream, uint32_t path,
                  uint32_t depth)
{
    const struct kvt_law_round *round = asking->round;
    uint32_t last = asking->depth_count - 1;
    uint32_t visible = round->visible_rows[depth < last ? depth : last];
    uint64_t *set = NULL;
    for (uint32_t q = 0; q < round->query_count && asking->sets != NULL; q++) {
        if (round->queries[q].path == path && round->queries[q].depth == depth)
            set = asking->sets[q];
    }
    struct score_budget budget = asking->law->budget;
    budget.fall = stream->fall;
    score_stream_select(stream, &asking->law->shape, asking->law->by_mass ? &budget : NULL, visible,
                        set);
    if (set != NULL) {
        size_t words = kvt_row_words(visible);
        memset(set + words, 0, (kvt_row_words(asking->set_rows) - words) * sizeof *set);
    }
}

static uint32_t deepest_of(const struct kvt_law_round *round, uint32_t path)
{
    uint32_t deepest = 0;
    for (uint32_t q = 0; q < round->query_count; q++) {
        if (round->queries[q].path == path && round->queries[q].depth > deepest)
            deepest = round->queries[q].depth;
    }
    return deepest;
}

/* Answers the rejected paths that part from path 0 before `fork`. */
static void visit_side_paths(const struct asking *asking, const struct score_stream *main,
                             struct score_stream *spare, uint32_t fork)
{
    const struct kvt_law_round *round = asking->round;
    for (uint32_t path = 1; path <= asking->law->side_paths; path++) {
        bool forks_here = false;
        for (uint32_t q = 0; q < round->query_count; q++)
            forks_here |= round->queries[q].path == path && round->queries[q].fork == fork;
        if (!forks_here)
            continue;
        score_stream_fork(main, path, spare);
        uint32_t deepest = deepest_of(round, path);
        for (uint32_t depth = fork; depth <= deepest; depth++)
            visit(asking, spare, path, depth);
    }
}

static void score_select(const void *data, void *state, const struct kvt_law_round *round,
                         uint64_t *const *sets)
{
    const struct score_law *law = data;
    assert(round->query_count >= 1 && round->committed_tokens >= 1);
    struct asking asking = asking_of(law, round, sets);
    struct score_stream *main = state;
    struct score_stream *spare =
        (struct score_stream *)(void *)((char *)state + score_stream_bytes(&main->extent));
    for (uint32_t depth = 0; depth < round->committed_tokens; depth++) {
        visit(&asking, main, 0, depth);
        if (sets != NULL)
            visit_side_paths(&asking, main, spare, depth + 1);
    }
}

static void score_pages(const void *data, void *stream, uint32_t visible_rows,
                        uint32_t rows_per_page, float *scores)
{
    const struct score_law *law = data;

    score_stream_pages(stream, &law->shape, visible_rows, rows_per_page, scores);
}

const struct kvt_law kvt_law_score = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_law_score,
             .name = "score",
             .summary = "the reference: top-k of scores that drift, computed row by row",
             .params = score_params,
             .param_count = SCORE_PARAM_COUNT},
    .basis = KVT_BASIS_FITTED,
    .prepare = score_prepare,
    .free = score_free,
    .describe = score_describe,
    .stream_bytes = score_bytes,
    .stream_init = score_init,
    .select = score_select,
    .page_scores = score_pages,
};

const struct kvt_law kvt_law_score_mass = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_law_score_mass,
             .name = "score-mass",
             .summary = "the same, each query taking as many rows as hold a share of its softmax",
             .params = mass_params,
             .param_count = MASS_PARAM_COUNT},
    .basis = KVT_BASIS_FITTED,
    .prepare = mass_prepare,
    .free = score_free,
    .describe = mass_describe,
    .stream_bytes = score_bytes,
    .stream_init = score_init,
    .select = score_select,
    .page_scores = score_pages,
    .varies = true,
};
