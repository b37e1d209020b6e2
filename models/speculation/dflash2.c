/* dflash2.c -- DFlash2: a small sliding-window model makes a block of drafts in one pass.
 *
 *     K = block                                     where one is given
 *     K = block_light    up to light_requests       else, by the requests that decode
 *         block_medium   up to medium_requests      on all ranks that step together
 *         block_heavy    beyond
 *
 * Blocks come from the reference paper, which has 8 up to 32 requests, 6 at 64 and 4
 * from 128 on. Drafts are accepted one after another, each with its chance of the table. */
#include <assert.h>
#include <stdlib.h>

#include "course.h"

enum {
    PARAM_DRAFTER,
    PARAM_ACCEPTANCE,
    PARAM_BLOCK,
    PARAM_BLOCK_LIGHT,
    PARAM_LIGHT_REQUESTS,
    PARAM_BLOCK_MEDIUM,
    PARAM_MEDIUM_REQUESTS,
    PARAM_BLOCK_HEAVY,
    PARAM_COUNT
};

#define FIXED_BLOCK                                                                                \
    {                                                                                              \
        .beside = "block", .from = 1, .to = KVT_QUERIES_MAX, .cure = "block 0"                     \
    }
#define BLOCK(name_, help_, default_)                                                              \
    {                                                                                              \
        .name = (name_), .help = (help_), .type = KVT_PARAM_COUNT, .minimum = 1,                   \
        .maximum = KVT_QUERIES_MAX, .default_number = (default_), .idle = {                        \
            FIXED_BLOCK                                                                            \
        }                                                                                          \
    }
#define REQUESTS(name_, help_, default_)                                                           \
    {                                                                                              \
        .name = (name_), .help = (help_), .type = KVT_PARAM_COUNT, .minimum = 0, .maximum = 1e9,   \
        .default_number = (default_), .idle = {                                                    \
            FIXED_BLOCK                                                                            \
        }                                                                                          \
    }

static const struct kvt_param_spec dflash2_params[PARAM_COUNT] = {
    [PARAM_DRAFTER] = {.name = "drafter",
                       .help = "Draft model: a shipped name or the path of a file.",
                       .type = KVT_PARAM_TEXT,
                       .minimum = 1,
                       .maximum = 4096,
                       .default_text = "glm-5.3-dflash2"},
    [PARAM_ACCEPTANCE] =
        ACCEPTANCE_PARAM("glm-5.3-100k", "TPOT of Adaptive DHiSparse at C128 in Table 2, and its "
                                         "blocks of 8, 6 and 4"),
    [PARAM_BLOCK] = {.name = "block",
                     .help = "Queries verified in a round, the anchor and its drafts; 0: by the "
                             "requests that decode.",
                     .type = KVT_PARAM_COUNT,
                     .minimum = 0,
                     .maximum = KVT_QUERIES_MAX,
                     .default_number = 0},
    [PARAM_BLOCK_LIGHT] = BLOCK("block_light", "Block up to light_requests.", 8),
    [PARAM_LIGHT_REQUESTS] =
        REQUESTS("light_requests", "Requests in lockstep up to which block_light is taken.", 32),
    [PARAM_BLOCK_MEDIUM] = BLOCK("block_medium", "Block up to medium_requests.", 6),
    [PARAM_MEDIUM_REQUESTS] =
        REQUESTS("medium_requests", "Requests in lockstep up to which block_medium is taken.", 64),
    [PARAM_BLOCK_HEAVY] = BLOCK("block_heavy", "Block beyond medium_requests.", 4),
};

struct dflash2 {
    struct acceptance acceptance;
    uint64_t run_seed;
    uint32_t block_light, light_requests; /* a fixed block is one for all loads */
    uint32_t block_medium, medium_requests;
    uint32_t block_heavy;
};

static uint32_t larger_block(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t widest_block(const struct dflash2 *dflash2)
{
    return larger_block(dflash2->block_light,
                        larger_block(dflash2->block_medium, dflash2->block_heavy));
}

static void set_blocks(struct dflash2 *dflash2, const struct kvt_param_value *values)
{
    uint32_t block = (uint32_t)values[PARAM_BLOCK].number;
    dflash2->light_requests = (uint32_t)values[PARAM_LIGHT_REQUESTS].number;
    dflash2->medium_requests = (uint32_t)values[PARAM_MEDIUM_REQUESTS].number;
    dflash2->block_light = block > 0 ? block : (uint32_t)values[PARAM_BLOCK_LIGHT].number;
    dflash2->block_medium = block > 0 ? block : (uint32_t)values[PARAM_BLOCK_MEDIUM].number;
    dflash2->block_heavy = block > 0 ? block : (uint32_t)values[PARAM_BLOCK_HEAVY].number;
}

static kvt_status check_blocks(const struct dflash2 *dflash2, bool is_fixed,
                               const struct kvt_drafter *drafter, struct kvt_error *err)
{
    uint32_t widest = widest_block(dflash2);
    const char *place = is_fixed                          ? "speculation.block"
                        : dflash2->block_light == widest  ? "speculation.block_light"
                        : dflash2->block_medium == widest ? "speculation.block_medium"
                                                          : "speculation.block_heavy";
    if (drafter == NULL)
        return kvt_fail(err, KVT_ERR_INVALID, "speculation.drafter",
                        "no drafter, which makes its blocks; name one");
    if (widest > drafter->block_max)
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "a block of %u queries, where drafter \"%s\" was made for at most %u",
                        widest, drafter->name, drafter->block_max);
    if (widest < 2)
        return kvt_fail(err, KVT_ERR_INVALID, place,
                        "blocks of 1 query hold no draft; expected at least 2, or method \"none\"");
    if (dflash2->light_requests > dflash2->medium_requests)
        return kvt_fail(err, KVT_ERR_INVALID, "speculation.light_requests",
                        "light_requests is %u, above medium_requests of %u; expected the light "
                        "load to end first",
                        dflash2->light_requests, dflash2->medium_requests);
    return KVT_OK;
}

static void dflash2_free(void *method)
{
    struct dflash2 *dflash2 = method;
    if (dflash2 == NULL)
        return;
    acceptance_fini(&dflash2->acceptance);
    free(dflash2);
}

static kvt_status dflash2_prepare(const struct kvt_speculation_env *env, void **out,
                                  struct kvt_error *err)
{
    assert(env->params.count == PARAM_COUNT);
    const struct kvt_param_value *values = env->params.values;
    struct dflash2 *dflash2 = calloc(1, sizeof *dflash2);
    if (dflash2 == NULL)
        return kvt_fail_nomem(err, "speculation \"dflash2\"");
    dflash2->run_seed = env->run_seed;
    set_blocks(dflash2, values);
    kvt_status status = check_blocks(dflash2, values[PARAM_BLOCK].number > 0, env->drafter, err);
    if (status == KVT_OK)
        status = acceptance_load(values[PARAM_ACCEPTANCE].text, env->tasks, env->task_count,
                                 &dflash2->acceptance, err);
    if (status != KVT_OK) {
        dflash2_free(dflash2);
        return status;
    }
    *out = dflash2;
    return KVT_OK;
}

static void dflash2_shape(const void *method, struct kvt_speculation_shape *shape)
{
    const struct dflash2 *dflash2 = method;
    uint32_t widest = widest_block(dflash2);
    *shape = (struct kvt_speculation_shape){
        .queries_max = widest,
        .side_paths = 1,
        .side_tokens = widest - 1,
        .draft_passes = 1,
        .basis = dflash2->acceptance.basis,
        .rounds_by_load = dflash2->block_light != dflash2->block_medium ||
                          dflash2->block_medium != dflash2->block_heavy,
    };
}

static void dflash2_request_init(const void *method, void *state, uint32_t request, uint32_t task)
{
    const struct dflash2 *dflash2 = method;
    course_init(state, dflash2->run_seed, request, task);
}

static uint32_t block_at(const struct dflash2 *dflash2, uint32_t requests)
{
    if (requests <= dflash2->light_requests)
        return dflash2->block_light;
    return requests <= dflash2->medium_requests ? dflash2->block_medium : dflash2->block_heavy;
}

static void dflash2_plan(const void *method, const struct kvt_speculation_view *view,
                         struct kvt_round *rounds)
{
    const struct dflash2 *dflash2 = method;
    uint32_t block = block_at(dflash2, view->request_count);
    for (uint32_t i = 0; i < view->request_count; i++) {
        const struct kvt_speculation_request *request = &view->requests[i];
        struct course *course = request->state;
        uint32_t queries = block < request->queries_max ? block : request->queries_max;
        const struct acceptance_list *list = &dflash2->acceptance.lists[course->task];
        kvt_round_chain(&rounds[i], queries, 1 + course_run_chain(course, list, queries - 1));
    }
}

const struct kvt_speculation_method kvt_speculation_dflash2 = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_speculation_dflash2,
             .name = "dflash2",
             .summary = "DFlash2: blocks of drafts from a small sliding-window model, by load",
             .params = dflash2_params,
             .param_count = PARAM_COUNT},
    .basis = KVT_BASIS_FITTED,
    .prepare = dflash2_prepare,
    .free = dflash2_free,
    .shape = dflash2_shape,
    .request_bytes = course_bytes,
    .request_init = dflash2_request_init,
    .plan = dflash2_plan,
};
