/* chain.c -- drafts made one after another: by MTP layers, by an EAGLE head, by the model
 * itself over few rows.
 *
 *     K = 1 + drafts
 *
 * Each draft is a pass of whoever makes it. `self-sparse` drafts with the model's own
 * weights over `draft_budget_tokens` of its rows that stay in HBM, as TriForce (arXiv
 * 2404.11912) and MagicDec (arXiv 2408.11049) do; what is left out is that its budget
 * is chosen anew now and then. */
#include <assert.h>
#include <stdlib.h>

#include "course.h"

enum {
    PARAM_ACCEPTANCE,
    PARAM_DRAFTS,
    PARAM_WHO, /* drafter, or the budget of the model itself */
    PARAM_COUNT
};

#define DRAFTS_PARAM(default_)                                                                     \
    {                                                                                              \
        .name = "drafts", .help = "Drafts of a round, verified all.", .type = KVT_PARAM_COUNT,     \
        .minimum = 1, .maximum = DRAFTS_MAX, .default_number = (default_)                          \
    }
#define DRAFTER_PARAM(default_)                                                                    \
    {                                                                                              \
        .name = "drafter", .help = "Draft model: a shipped name or the path of a file.",           \
        .type = KVT_PARAM_TEXT, .minimum = 1, .maximum = 4096, .default_text = (default_)          \
    }

static const struct kvt_param_spec mtp_params[PARAM_COUNT] = {
    [PARAM_ACCEPTANCE] = ACCEPTANCE_PARAM("glm-5.3-mtp", NULL),
    [PARAM_DRAFTS] = DRAFTS_PARAM(3),
    [PARAM_WHO] = DRAFTER_PARAM("glm-5.3-mtp"),
};

static const struct kvt_param_spec eagle_params[PARAM_COUNT] = {
    [PARAM_ACCEPTANCE] = ACCEPTANCE_PARAM("eagle3", NULL),
    [PARAM_DRAFTS] = DRAFTS_PARAM(3),
    [PARAM_WHO] = DRAFTER_PARAM("glm-5.3-eagle"),
};

static const struct kvt_param_spec self_sparse_params[PARAM_COUNT] = {
    [PARAM_ACCEPTANCE] = ACCEPTANCE_PARAM("self-sparse", NULL),
    [PARAM_DRAFTS] = DRAFTS_PARAM(4),
    [PARAM_WHO] = {.name = "draft_budget_tokens",
                   .help = "Tokens whose rows the model reads to draft.",
                   .type = KVT_PARAM_COUNT,
                   .minimum = 1,
                   .maximum = 1 << 20,
                   .default_number = 4096},
};

struct chain {
    struct acceptance acceptance;
    uint64_t run_seed;
    uint32_t drafts;
    uint32_t budget_tokens; /* 0: a drafter drafts */
};

static void chain_free(void *method)
{
    struct chain *chain = method;
    if (chain == NULL)
        return;
    acceptance_fini(&chain->acceptance);
    free(chain);
}

static kvt_status prepare(const struct kvt_speculation_env *env, uint32_t budget_tokens, void **out,
                          struct kvt_error *err)
{
    assert(env->params.count == PARAM_COUNT);
    const struct kvt_param_value *values = env->params.values;
    struct chain *chain = calloc(1, sizeof *chain);
    if (chain == NULL)
        return kvt_fail_nomem(err, "a speculation method");
    chain->run_seed = env->run_seed;
    chain->drafts = (uint32_t)values[PARAM_DRAFTS].number;
    chain->budget_tokens = budget_tokens;
    kvt_status status = acceptance_load(values[PARAM_ACCEPTANCE].text, env->tasks, env->task_count,
                                        &chain->acceptance, err);
    if (status != KVT_OK) {
        chain_free(chain);
        return status;
    }
    *out = chain;
    return KVT_OK;
}

static kvt_status drafted_prepare(const struct kvt_speculation_env *env, void **out,
                                  struct kvt_error *err)
{
    uint32_t queries = 1 + (uint32_t)env->params.values[PARAM_DRAFTS].number;
    if (env->drafter == NULL)
        return kvt_fail(err, KVT_ERR_INVALID, "speculation.drafter",
                        "no drafter, which makes the chain");
    if (queries > env->drafter->block_max)
        return kvt_fail(err, KVT_ERR_INVALID, "speculation.drafts",
                        "%u drafts and the anchor, where drafter \"%s\" was made for rounds of at "
                        "most %u queries",
                        queries - 1, env->drafter->name, env->drafter->block_max);
    return prepare(env, 0, out, err);
}

static kvt_status self_prepare(const struct kvt_speculation_env *env, void **out,
                               struct kvt_error *err)
{
    return prepare(env, (uint32_t)env->params.values[PARAM_WHO].number, out, err);
}

static void chain_shape(const void *method, struct kvt_speculation_shape *shape)
{
    const struct chain *chain = method;
    *shape = (struct kvt_speculation_shape){
        .queries_max = 1 + chain->drafts,
        .side_paths = 1,
        .side_tokens = chain->drafts,
        .draft_passes = chain->drafts,
        .draft_budget_tokens = chain->budget_tokens,
        .basis = chain->acceptance.basis,
    };
}

static void chain_request_init(const void *method, void *state, uint32_t request, uint32_t task)
{
    const struct chain *chain = method;
    course_init(state, chain->run_seed, request, task);
}

static void chain_plan(const void *method, const struct kvt_speculation_view *view,
                       struct kvt_round *rounds)
{
    const struct chain *chain = method;
    for (uint32_t i = 0; i < view->request_count; i++) {
        const struct kvt_speculation_request *request = &view->requests[i];
        struct course *course = request->state;
        uint32_t left = request->queries_max - 1;
        uint32_t drafts = chain->drafts < left ? chain->drafts : left;
        const struct acceptance_list *list = &chain->acceptance.lists[course->task];
        kvt_round_chain(&rounds[i], 1 + drafts, 1 + course_run_chain(course, list, drafts));
    }
}

COURSE_METHOD(chain, kvt_speculation_mtp, "mtp", "MTP layers run as a chain, a pass a draft",
              mtp_params, drafted_prepare);
COURSE_METHOD(chain, kvt_speculation_eagle, "eagle", "an EAGLE head run as a chain, a pass a draft",
              eagle_params, drafted_prepare);
COURSE_METHOD(chain, kvt_speculation_self_sparse, "self-sparse",
              "the model drafts for itself over few resident rows (TriForce, MagicDec)",
              self_sparse_params, self_prepare);
