/* size_tokens.c -- the context length that a scenario's own workload asks for. */
#include "kvt/size.h"
#include "kvt/source.h"

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
    struct kvt_source source;
    kvt_status status = kvt_source_open(scenario, &source, err);

    if (status != KVT_OK)
        return status;
    *tokens = context_of(source.arrival, source.source, scenario->llm->max_position_tokens);
    kvt_source_close(&source);
    return KVT_OK;
}
