/* dspark.c -- DSpark: a block of drafts with confidences, of which as many are verified as pay
 * (dspark_plan.c).
 *
 * A confidence is drawn around its draft's chance of the table (confidence.h), and the
 * draft is accepted with it as its chance. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "course.h"
#include "dspark.h"

enum {
    PARAM_DRAFTER,
    PARAM_ACCEPTANCE,
    PARAM_COSTS,
    PARAM_DRAFTS,
    PARAM_FIXED_DRAFTS,
    PARAM_AUC,
    PARAM_LAG,
    PARAM_POOL,
    PARAM_EARLY_STOP,
    PARAM_COUNT
};

/* Its size is then no choice, and a draft's chance the table's, whatever its confidence. */
#define FIXED_DRAFTS                                                                               \
    {                                                                                              \
        .beside = "fixed_drafts", .from = 1, .to = DRAFTS_MAX, .cure = "fixed_drafts 0"            \
    }

static const struct kvt_param_spec dspark_params[PARAM_COUNT] = {
    [PARAM_DRAFTER] = {.name = "drafter",
                       .help = "Draft model: a shipped name or the path of a file.",
                       .type = KVT_PARAM_TEXT,
                       .minimum = 1,
                       .maximum = 4096,
                       .default_text = "v4.1-flash-dspark"},
    [PARAM_ACCEPTANCE] = ACCEPTANCE_PARAM("v4.1-flash-dspark", NULL),
    [PARAM_COSTS] = {.name = "costs",
                     .help = "What the rule takes rounds to cost: a shipped table, the path of a "
                             "file, or none: the run's own timing.",
                     .type = KVT_PARAM_TEXT,
                     .minimum = 1,
                     .maximum = 4096,
                     .default_text = "none",
                     .idle = {FIXED_DRAFTS}},
    [PARAM_DRAFTS] = {.name = "drafts",
                      .help = "Drafts of a block; 0: as many as the drafter was made for.",
                      .type = KVT_PARAM_COUNT,
                      .minimum = 0,
                      .maximum = DRAFTS_MAX,
                      .default_number = 0},
    [PARAM_FIXED_DRAFTS] = {.name = "fixed_drafts",
                            .help = "Drafts verified in every round; 0: as many as pay.",
                            .type = KVT_PARAM_COUNT,
                            .minimum = 0,
                            .maximum = DRAFTS_MAX,
                            .default_number = 0},
    [PARAM_AUC] = {.name = "confidence_auc",
                   .help = "How likely an accepted draft has a higher confidence than a rejected "
                           "one of its position; DSpark: 0.81 to 0.91.",
                   .type = KVT_PARAM_REAL,
                   .minimum = 0.51,
                   .maximum = 0.99,
                   .default_number = 0.85,
                   .idle = {FIXED_DRAFTS}},
    [PARAM_LAG] = {.name = "confidence_lag_rounds",
                   .help = "Age of the confidences that the number of drafts is chosen by.",
                   .type = KVT_PARAM_COUNT,
                   .minimum = 0,
                   .maximum = 64,
                   .default_number = 2,
                   .idle = {FIXED_DRAFTS}},
    [PARAM_POOL] = {.name = "confidence_pool_requests",
                    .help = "Confidences of how many requests it is chosen by, at least; where "
                            "fewer decode, of several rounds. 1: of one round, as published.",
                    .type = KVT_PARAM_COUNT,
                    .minimum = 1,
                    .maximum = 4096,
                    .default_number = 64,
                    .idle = {FIXED_DRAFTS}},
    [PARAM_EARLY_STOP] = {.name = "early_stop",
                          .help = "Stop at the first draft that does not pay, as published; over "
                                  "costs with stairs that is the first stair.",
                          .type = KVT_PARAM_BOOL,
                          .minimum = 0,
                          .maximum = 1,
                          .default_number = 0,
                          .idle = {FIXED_DRAFTS}},
};

static kvt_status set_drafts(struct dspark *dspark, const struct kvt_speculation_env *env,
                             struct kvt_error *err)
{
    uint32_t drafts = (uint32_t)env->params.values[PARAM_DRAFTS].number;
    uint32_t fixed = (uint32_t)env->params.values[PARAM_FIXED_DRAFTS].number;
    if (env->drafter == NULL)
        return kvt_fail(err, KVT_ERR_INVALID, "speculation.drafter",
                        "no drafter, which makes its blocks; name one");
    uint32_t most = env->drafter->block_max - 1;
    if (drafts == 0)
        drafts = most;
    if (drafts == 0 || drafts > most || drafts > DRAFTS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, "speculation.drafts",
                        "a block of %u drafts, where drafter \"%s\" was made for at most %u and a "
                        "round holds at most %d; expected at least 1",
                        drafts, env->drafter->name, most, DRAFTS_MAX);
    if (fixed > drafts)
        return kvt_fail(err, KVT_ERR_INVALID, "speculation.fixed_drafts",
                        "fixed_drafts is %u, of blocks of %u drafts; expected at most as many",
                        fixed, drafts);
    dspark->drafts = fixed > 0 ? fixed : drafts;
    dspark->fixed_drafts = fixed;
    return KVT_OK;
}

static kvt_status make_confidences(struct dspark *dspark, double auc, struct kvt_error *err)
{
    const struct acceptance *acceptance = &dspark->acceptance;
    size_t lists = acceptance->task_count;
    size_t count = 0;
    dspark->confidence_of = calloc(lists, sizeof dspark->confidence_of[0]);
    dspark->confidences = calloc(lists * dspark->drafts, sizeof dspark->confidences[0]);
    if (dspark->confidence_of == NULL || dspark->confidences == NULL)
        return kvt_fail_nomem(err, "speculation \"dspark\"");
    for (size_t task = 0; task < lists; task++) {
        for (size_t position = 0; position < dspark->drafts; position++) {
            double chance = acceptance->lists[task].chances[position];
            size_t found = 0;
            while (found < count && dspark->confidences[found].mean != chance)
                found++;
            if (found == count)
                confidence_make(&dspark->confidences[count++], chance, auc);
            dspark->confidence_of[task][position] = (uint32_t)found;
        }
    }
    return KVT_OK;
}

static kvt_status load_costs(struct dspark *dspark, const char *path, struct kvt_error *err)
{
    if (strcmp(path, "none") == 0)
        return KVT_OK;
    dspark->costs = malloc(sizeof *dspark->costs);
    if (dspark->costs == NULL)
        return kvt_fail_nomem(err, "speculation \"dspark\"");
    return kvt_costs_load(path, dspark->costs, err);
}

static void dspark_free(void *method)
{
    struct dspark *dspark = method;
    if (dspark == NULL)
        return;
    acceptance_fini(&dspark->acceptance);
    free(dspark->confidences);
    free(dspark->confidence_of);
    free(dspark->costs);
    free(dspark);
}

static kvt_status dspark_prepare(const struct kvt_speculation_env *env, void **out,
                                 struct kvt_error *err)
{
    assert(env->params.count == PARAM_COUNT);
    const struct kvt_param_value *values = env->params.values;
    struct dspark *dspark = calloc(1, sizeof *dspark);
    if (dspark == NULL)
        return kvt_fail_nomem(err, "speculation \"dspark\"");
    dspark->run_seed = env->run_seed;
    dspark->lag_rounds = (uint32_t)values[PARAM_LAG].number;
    dspark->pool_requests = (uint32_t)values[PARAM_POOL].number;
    dspark->early_stop = values[PARAM_EARLY_STOP].number != 0;
    kvt_status status = set_drafts(dspark, env, err);
    if (status == KVT_OK)
        status = acceptance_load(values[PARAM_ACCEPTANCE].text, env->tasks, env->task_count,
                                 &dspark->acceptance, err);
    if (status == KVT_OK)
        status = make_confidences(dspark, values[PARAM_AUC].number, err);
    if (status == KVT_OK)
        status = load_costs(dspark, values[PARAM_COSTS].text, err);
    if (status != KVT_OK) {
        dspark_free(dspark);
        return status;
    }
    *out = dspark;
    return KVT_OK;
}

static void dspark_shape(const void *method, struct kvt_speculation_shape *shape)
{
    const struct dspark *dspark = method;
    *shape = (struct kvt_speculation_shape){
        .queries_max = 1 + dspark->drafts,
        .side_paths = 1,
        .side_tokens = dspark->drafts,
        .draft_passes = 1,
        .basis = dspark->acceptance.basis,
        .rounds_by_load = dspark->fixed_drafts == 0,
    };
}

static void dspark_request_init(const void *method, void *state, uint32_t request, uint32_t task)
{
    const struct dspark *dspark = method;
    course_init(state, dspark->run_seed, request, task);
}

const struct kvt_speculation_method kvt_speculation_dspark = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_speculation_dspark,
             .name = "dspark",
             .summary = "DSpark: blocks with confidences, of which as many are verified as pay",
             .params = dspark_params,
             .param_count = PARAM_COUNT},
    .basis = KVT_BASIS_ASSUMED,
    .prepare = dspark_prepare,
    .free = dspark_free,
    .shape = dspark_shape,
    .request_bytes = course_bytes,
    .request_init = dspark_request_init,
    .plan = kvt_dspark_plan,
    .plan_bytes = kvt_dspark_plan_bytes,
};
