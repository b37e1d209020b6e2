/* size_tokens.c -- the context length that a scenario's own workload asks for. */
#include "kvt/size.h"

#include <stdlib.h>

/* A length law's state: *out is the caller's to free(). */
static kvt_status start_length(const struct kvt_scenario *scenario, const struct kvt_choice *choice,
                               struct kvt_lengths *lengths, void **out, struct kvt_error *err)
{
    const struct kvt_length_law *law = (const struct kvt_length_law *)(const void *)choice->info;
    struct kvt_length_env env = {.params = choice->params,
                                 .minimum_tokens = 1,
                                 .maximum_tokens = scenario->llm->max_position_tokens,
                                 .host = kvt_host()};
    kvt_status status = KVT_OK;

    /* One byte more: a law without state asks for none. */
    void *state = calloc(1, law->state_bytes(&env) + 1);

    if (state == NULL) {
        return kvt_fail_nomem(err, law->info.name);
    }
    status = law->init(state, &env, err);
    if (status != KVT_OK) {
        free(state);
        return status;
    }
    *lengths = (struct kvt_lengths){law, state};
    *out = state;
    return KVT_OK;
}

/* The longest input, where inputs are few; else the longest context that can arrive and
 * that the model takes. */
static uint64_t context_of(const struct kvt_arrival *arrival, const void *source,
                           uint32_t max_position_tokens)
{
    uint32_t inputs[KVT_INPUTS_MAX];
    size_t input_count = KVT_INPUTS_MAX;
    uint32_t longest_tokens = 0;
    uint32_t output_tokens = 0;
    uint32_t longest_input = 0;

    arrival->extent(source, &longest_tokens, &output_tokens, inputs, &input_count);
    for (size_t i = 0; i < input_count; i++) {
        longest_input = inputs[i] > longest_input ? inputs[i] : longest_input;
    }
    if (input_count > 0)
        return longest_input;
    return longest_tokens < max_position_tokens ? longest_tokens : max_position_tokens;
}

kvt_status kvt_size_own_tokens(const struct kvt_scenario *scenario, uint64_t *tokens,
                               struct kvt_error *err)
{
    const struct kvt_arrival *arrival =
        (const struct kvt_arrival *)(const void *)scenario->arrival.info;
    struct kvt_arrival_env env = {.params = scenario->arrival.params,
                                  .max_position_tokens = scenario->llm->max_position_tokens,
                                  .run_seed = scenario->seed,
                                  .host = kvt_host()};
    void *input_state = NULL;
    void *output_state = NULL;
    void *source = NULL;
    kvt_status status = KVT_OK;

    if (arrival->uses_lengths) {
        status = start_length(scenario, &scenario->input_length, &env.input, &input_state, err);
        if (status == KVT_OK) {
            status =
                start_length(scenario, &scenario->output_length, &env.output, &output_state, err);
        }
    }
    if (status == KVT_OK) {
        status = arrival->open(&env, &source, err);
    }
    if (status == KVT_OK) {
        *tokens = context_of(arrival, source, scenario->llm->max_position_tokens);
        arrival->close(source);
    }
    free(output_state);
    free(input_state);
    return status;
}
