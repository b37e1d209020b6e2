/* course.h -- the chances of one request, round after round.
 *
 * Each round has DRAWS_PER_ROUND draws of the request's own stream, whatever it
 * uses: one of acceptance and one of confidence for each position there could
 * be. So a position of a round has the same luck under any width and any method,
 * and an earlier round's can be drawn again. */
#ifndef KVT_MODELS_SPECULATION_COURSE_H
#define KVT_MODELS_SPECULATION_COURSE_H

#include "acceptance.h"

enum {
    DRAW_ACCEPTANCE = 0,
    DRAW_CONFIDENCE = KVT_QUERIES_MAX,
    DRAWS_PER_ROUND = 2 * KVT_QUERIES_MAX
};

/* State of a request: what its next round draws from. */
struct course {
    struct kvt_rng rng;
    uint32_t task;
};

static inline void course_init(struct course *course, uint64_t run_seed, uint32_t request,
                               uint32_t task)
{
    course->rng = kvt_rng_stream(run_seed, KVT_RNG_SPECULATION, request);
    course->task = task;
}

/* Of a method whose requests need nothing else. */
static inline size_t course_bytes(const void *method)
{
    (void)method;
    return sizeof(struct course);
}

/* Rounds that the request has had. */
static inline uint64_t course_rounds(const struct course *course)
{
    return course->rng.counter / DRAWS_PER_ROUND;
}

/* Draws of one kind of the round `rounds_back` before the next one, by position. */
static inline struct kvt_rng course_draws(const struct course *course, uint32_t kind,
                                          uint32_t rounds_back)
{
    struct kvt_rng rng = course->rng;
    rng.counter += kind;
    rng.counter -= (uint64_t)rounds_back * DRAWS_PER_ROUND;
    return rng;
}

static inline void course_end_round(struct course *course)
{
    course->rng.counter += DRAWS_PER_ROUND;
}

/* The next round of a chain: how many of the drafts are accepted, one after another. */
static inline uint32_t course_run_chain(struct course *course, const struct acceptance_list *list,
                                        uint32_t drafts)
{
    struct kvt_rng rng = course_draws(course, DRAW_ACCEPTANCE, 0);
    uint32_t accepted = 0;
    while (accepted < drafts && kvt_rng_unit(&rng) < list->chances[accepted])
        accepted++;
    course_end_round(course);
    return accepted;
}

/* The table of a method that keeps nothing of a request but its course. Its other functions are
 * kind_free, kind_shape, kind_request_init and kind_plan. */
#define COURSE_METHOD(kind_, table_, name_, summary_, params_, prepare_)                           \
    const struct kvt_speculation_method table_ = {                                                 \
        .info = {.abi = KVT_ABI_VERSION,                                                           \
                 .struct_bytes = sizeof(struct kvt_speculation_method),                            \
                 .name = (name_),                                                                  \
                 .summary = (summary_),                                                            \
                 .params = (params_),                                                              \
                 .param_count = sizeof(params_) / sizeof((params_)[0])},                           \
        .basis = KVT_BASIS_ASSUMED,                                                                \
        .prepare = (prepare_),                                                                     \
        .free = kind_##_free,                                                                      \
        .shape = kind_##_shape,                                                                    \
        .request_bytes = course_bytes,                                                             \
        .request_init = kind_##_request_init,                                                      \
        .plan = kind_##_plan,                                                                      \
    }

#endif
