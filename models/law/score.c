/* score.c -- the reference law: every row has a score that drifts, the best top_k are selected.
 *
 * Costs a few nanoseconds a visible row and call, and 16 bytes a row and
 * stream. The process itself is in score_process.c; docs/laws.md says where its
 * parameters come from. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/law.h"
#include "score_process.h"

struct score_law {
    struct score_shape shape;
    uint64_t run_seed;
    uint32_t top_k;
    float *gauss;
};

static const struct kvt_param_spec score_params[SCORE_PARAM_COUNT] = {SCORE_PARAMS};

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
    static const char where[] = "law \"score\"";
    struct score_shape shape;
    kvt_status status = score_shape_init(&shape, &env->params, where, err);
    if (status == KVT_OK)
        status = score_check_top_k(env->top_k, where, err);
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
        .run_seed = env->run_seed,
        .top_k = env->top_k,
        .gauss = gauss,
    };
    *out = law;
    return KVT_OK;
}

static void score_describe(const void *data, char *out, size_t bytes)
{
    const struct score_law *law = data;
    (void)snprintf(out, bytes, "scores of all visible rows, top %u of them selected at each token",
                   law->top_k);
}

static size_t score_bytes(const void *data, const struct kvt_law_stream_env *env)
{
    const struct score_law *law = data;
    return score_stream_bytes(env->rows_max, law->top_k);
}

static kvt_status score_init(void *data, void *stream, const struct kvt_law_stream_env *env,
                             struct kvt_error *err)
{
    const struct score_law *law = data;
    kvt_status status = score_check_rows(env->context_rows, env->rows_max, "law \"score\"", err);
    if (status != KVT_OK)
        return status;
    struct kvt_rng rng = score_stream_rng(law->run_seed, env);
    score_stream_init(stream, law->gauss, kvt_rng_u64(&rng), env->rows_max, law->top_k);
    return KVT_OK;
}

static void score_select(const void *data, void *stream, const struct kvt_law_round *round,
                         uint64_t *const *sets)
{
    const struct score_law *law = data;
    uint32_t deepest = 0;
    for (uint32_t q = 0; q < round->query_count; q++)
        deepest = round->queries[q].depth > deepest ? round->queries[q].depth : deepest;
    size_t words = kvt_row_words(round->visible_rows[deepest]);
    uint32_t *rows = malloc(law->top_k * sizeof *rows);
    for (uint32_t t = 0; t < round->committed_tokens; t++) {
        uint32_t n = score_stream_select(stream, &law->shape, law->gauss, round->visible_rows[t < deepest ? t : deepest], rows);
        for (uint32_t q = 0; sets && q < round->query_count; q++) {
            uint32_t d = round->queries[q].depth;
            if (d == t || (t + 1 == round->committed_tokens && d > t)) {
                memset(sets[q], 0, words * 8);
                kvt_row_set_add(sets[q], rows, n);
            }
        }
    }
    free(rows);
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
};
