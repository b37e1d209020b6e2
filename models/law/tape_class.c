/* tape_class.c -- which selectors of a model read the same tapes.
 *
 *     where streams of a request have no chances in common
 *         selectors whose scores drift alike are one class
 *     else
 *         each selector of a group of neighbouring stores is a class, and groups that are
 *         alike, member by member, have the same classes */
#include "tape_class.h"

/* True where streams of one request have chances in common. */
static bool are_kin(const struct score_shape *shape, const struct score_model *model)
{
    bool any_alone = false, any_together = false;
    for (uint32_t s = 0; s < model->stream_count; s++) {
        bool is_alone = score_kin_of(model, 0, s, 1).is_alone != 0;
        any_alone |= is_alone;
        any_together |= !is_alone;
    }
    for (int source = SCORE_SOURCE_STORE; source < SCORE_SOURCES; source++) {
        if ((any_alone && model->stream_count > 1 && shape->source_weight_alone[source] > 0) ||
            (any_together && shape->source_weight[source] > 0))
            return true;
    }
    return false;
}

static bool is_same_drift(const struct score_drift *a, const struct score_drift *b)
{
    return a->static_weight == b->static_weight && a->slow_weight == b->slow_weight &&
           a->fast_weight == b->fast_weight && a->white_weight == b->white_weight &&
           a->slow_keep == b->slow_keep && a->fast_keep == b->fast_keep;
}

/* The band of a selector's layer. */
static const struct score_drift *drift_of(const struct rack_plan *plan, uint32_t selector)
{
    return &plan->process.shape.bands[score_kin_of(&plan->model, 0, selector, 1).band];
}

static uint32_t add_class(struct rack_plan *plan, uint32_t selector)
{
    plan->class_selector[plan->class_count] = selector;
    return plan->class_count++;
}

/* Selectors whose scores drift alike are one class. */
static void classify_strangers(struct rack_plan *plan)
{
    for (uint32_t s = 0; s < plan->model.stream_count; s++) {
        uint32_t c = 0;
        while (c < plan->class_count &&
               !is_same_drift(drift_of(plan, plan->class_selector[c]), drift_of(plan, s)))
            c++;
        plan->class_of[s] = c < plan->class_count ? c : add_class(plan, s);
    }
}

/* The n-th selector of a group; stream_count where it has no more. */
static uint32_t member_of(const struct score_model *model, uint32_t group, uint32_t n)
{
    uint32_t s = 0;
    while (s < model->stream_count && (score_group_of(model, s) != group || n-- > 0))
        s++;
    return s;
}

/* What each of two streams, of one place in their groups, has in common with the others. */
static bool are_placed_alike(const struct rack_plan *plan, const struct kvt_law_env *env,
                             uint32_t a, uint32_t b)
{
    const struct score_model *model = &plan->model;
    const uint32_t *tokens_per_row = env->stream_tokens_per_row;
    return is_same_drift(drift_of(plan, a), drift_of(plan, b)) &&
           score_place_of(model, a) == score_place_of(model, b) &&
           score_kin_of(model, 0, a, 1).is_alone == score_kin_of(model, 0, b, 1).is_alone &&
           (tokens_per_row == NULL || tokens_per_row[a] == tokens_per_row[b]);
}

/* True when the other group's first members could stand for this group's. */
static bool stands_for(const struct rack_plan *plan, const struct kvt_law_env *env, uint32_t other,
                       uint32_t group)
{
    const struct score_model *model = &plan->model;
    uint32_t count = model->stream_count;
    for (uint32_t n = 0; member_of(model, group, n) < count; n++) {
        uint32_t b = member_of(model, other, n);
        if (b == count || !are_placed_alike(plan, env, member_of(model, group, n), b))
            return false;
    }
    return true;
}

/* Each selector of a group is a class; groups have nothing in common, and one stands for all
 * that are like it. */
static void classify_kin(struct rack_plan *plan, const struct kvt_law_env *env)
{
    const struct score_model *model = &plan->model;
    for (uint32_t s = 0; s < model->stream_count; s++) {
        uint32_t group = score_group_of(model, s), earlier = 0, n = 0;
        while (member_of(model, group, n) < s)
            n++;
        while (earlier < group &&
               !(member_of(model, earlier, n) < s && stands_for(plan, env, earlier, group)))
            earlier++;
        plan->class_of[s] =
            earlier < group ? plan->class_of[member_of(model, earlier, n)] : add_class(plan, s);
    }
}

void tape_classify(struct rack_plan *plan, const struct kvt_law_env *env)
{
    plan->are_kin = are_kin(&plan->process.shape, &plan->model);
    if (plan->are_kin)
        classify_kin(plan, env);
    else
        classify_strangers(plan);
}
