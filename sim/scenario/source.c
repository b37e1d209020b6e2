/* source.c -- what arrives in a run, opened from its scenario. */
#include "kvt/source.h"

#include <stdlib.h>

/* A length law with a state of its own, which goes to the source. */
static kvt_status open_lengths(const struct kvt_scenario *scenario, const struct kvt_choice *choice,
                               struct kvt_source *source, struct kvt_lengths *out,
                               struct kvt_error *err)
{
    const struct kvt_length_law *law = (const struct kvt_length_law *)(const void *)choice->info;
    struct kvt_length_env env = {.params = choice->params,
                                 .minimum_tokens = 1,
                                 .maximum_tokens = scenario->llm->max_position_tokens,
                                 .host = kvt_host()};

    if (law == NULL) /* the arrival brings its own */
        return KVT_OK;
    void *state = kvt_plugin_state_new(law->state_bytes(&env));
    if (state == NULL)
        return kvt_fail_nomem(err, "the lengths of requests");
    source->states[source->state_count++] = state;
    *out = (struct kvt_lengths){law, state};
    return law->init(state, &env, err);
}

static kvt_status open_kinds(const struct kvt_scenario *scenario, struct kvt_source *source,
                             struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (uint32_t k = 0; k < scenario->kind_count && status == KVT_OK; k++) {
        const struct kvt_kind *kind = &scenario->kinds[k];
        struct kvt_request_kind *out = &source->kinds[k];
        *out = (struct kvt_request_kind){.share = kind->share,
                                         .slo_class = kind->slo_class,
                                         .task = kind->task,
                                         .shared_prefix_tokens = kind->shared_prefix_tokens};
        status = open_lengths(scenario, &kind->input_length, source, &out->input, err);
        if (status == KVT_OK)
            status = open_lengths(scenario, &kind->output_length, source, &out->output, err);
    }
    return status;
}

static kvt_status open_arrival(const struct kvt_scenario *scenario, struct kvt_source *source,
                               struct kvt_arrival_env *env, struct kvt_error *err)
{
    const char *slo_classes[KVT_SLO_CLASSES_MAX];

    for (uint32_t c = 0; c < scenario->slo_class_count; c++)
        slo_classes[c] = scenario->slo_classes[c].name;
    env->slo_classes = slo_classes;
    env->slo_class_count = scenario->slo_class_count;
    if (scenario->has_task_table) {
        env->tasks = scenario->tasks;
        env->task_count = scenario->task_count;
    }
    return source->arrival->open(env, &source->source, err);
}

kvt_status kvt_source_open(const struct kvt_scenario *scenario, struct kvt_source *out,
                           struct kvt_error *err)
{
    *out = (struct kvt_source){
        .arrival = (const struct kvt_arrival *)(const void *)scenario->arrival.info};
    struct kvt_arrival_env env = {.params = scenario->arrival.params,
                                  .max_position_tokens = scenario->llm->max_position_tokens,
                                  .run_seed = scenario->seed,
                                  .host = kvt_host(),
                                  .kinds = out->kinds,
                                  .kind_count = scenario->kind_count};
    kvt_status status = KVT_OK;

    if (scenario->kind_count == 0) {
        status = open_lengths(scenario, &scenario->input_length, out, &env.input, err);
        if (status == KVT_OK)
            status = open_lengths(scenario, &scenario->output_length, out, &env.output, err);
    }
    if (status == KVT_OK)
        status = open_kinds(scenario, out, err);
    if (status == KVT_OK)
        status = open_arrival(scenario, out, &env, err);
    if (status != KVT_OK)
        kvt_source_close(out);
    return status;
}

void kvt_source_close(struct kvt_source *source)
{
    if (source->source != NULL)
        source->arrival->close(source->source);
    for (size_t i = 0; i < source->state_count; i++)
        free(source->states[i]);
    *source = (struct kvt_source){.arrival = NULL};
}
