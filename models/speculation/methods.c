/* temporary */
#include "kvt/speculation.h"
void kvt_round_chain(struct kvt_round *round, uint32_t query_count, uint32_t committed_tokens)
{
    round->draft_tokens = query_count - 1; round->query_count = query_count; round->committed_tokens = committed_tokens;
    for (uint32_t q = 0; q < query_count; q++)
        round->queries[q] = (struct kvt_law_query){.depth = q, .path = q >= committed_tokens, .fork = q >= committed_tokens ? committed_tokens : 0};
}
static kvt_status prep(const struct kvt_speculation_env *env, void **out, struct kvt_error *err) { (void)err; uint32_t *d = kvt_plugin_state_new(4); *d = env->params.count > 1 ? (uint32_t)env->params.values[1].number : 1; *out = d; return KVT_OK; }
#include <stdlib.h>
static void fr(void *m) { free(m); }
static void shape(const void *m, struct kvt_speculation_shape *s) { uint32_t k = *(const uint32_t *)m; *s = (struct kvt_speculation_shape){k, k > 1, k - 1}; }
static size_t rb(const void *m) { (void)m; return 8; }
static void ri(const void *m, void *s, uint32_t r, uint32_t t) { (void)m; (void)t; *(struct kvt_rng **)s = NULL; (void)r; }
static void plan(const void *m, const struct kvt_speculation_view *v, struct kvt_round *r)
{
    uint32_t k = *(const uint32_t *)m;
    for (uint32_t i = 0; i < v->request_count; i++) {
        uint32_t q = k < v->requests[i].queries_max ? k : v->requests[i].queries_max;
        struct kvt_rng rng = kvt_rng_stream(v->requests[i].generated_tokens, KVT_RNG_SPECULATION, v->requests[i].id);
        uint32_t c = 1;
        while (c < q && kvt_rng_unit(&rng) < 0.65) c++;
        kvt_round_chain(&r[i], q, c);
    }
}
extern const struct kvt_speculation_method kvt_speculation_none;
extern const struct kvt_speculation_method kvt_speculation_dflash2;
#define OPS .prepare = prep, .free = fr, .shape = shape, .request_bytes = rb, .request_init = ri, .plan = plan
const struct kvt_speculation_method kvt_speculation_none = { .info = {.abi = KVT_ABI_VERSION, .struct_bytes = sizeof kvt_speculation_none, .name = "none", .summary = "one query a step"}, OPS };
static const struct kvt_param_spec dflash2_params[] = {
    {.name = "drafter", .help = "Draft model: a shipped name or the path of a file.", .type = KVT_PARAM_TEXT, .minimum = 1, .maximum = 4096, .default_text = "glm-5.3-dflash2"},
    {.name = "block", .help = "Queries verified in a round: the anchor and its drafts.", .type = KVT_PARAM_COUNT, .minimum = 2, .maximum = 16, .default_number = 8},
};
const struct kvt_speculation_method kvt_speculation_dflash2 = {
    .info = {.abi = KVT_ABI_VERSION, .struct_bytes = sizeof kvt_speculation_dflash2, .name = "dflash2", .summary = "DFlash2", .params = dflash2_params, .param_count = 2}, OPS };
