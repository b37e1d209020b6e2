/* drawn.c -- requests whose lengths are drawn, each from streams of its own. */
#include "drawn.h"

struct kvt_drawn kvt_drawn_of(const struct kvt_arrival_env *env)
{
    return (struct kvt_drawn){
        .input = env->input, .output = env->output, .run_seed = env->run_seed};
}

/* Two streams a request, so that another law of inputs leaves the outputs alone. */
struct kvt_request_spec kvt_drawn_request(const struct kvt_drawn *drawn, uint64_t ordinal,
                                          kvt_ns arrival_ns)
{
    struct kvt_rng input = kvt_rng_stream(drawn->run_seed, KVT_RNG_LENGTH, 2 * ordinal);
    struct kvt_rng output = kvt_rng_stream(drawn->run_seed, KVT_RNG_LENGTH, 2 * ordinal + 1);
    return (struct kvt_request_spec){
        .arrival_ns = arrival_ns,
        .input_tokens = drawn->input.law->draw(drawn->input.state, &input),
        .output_tokens = drawn->output.law->draw(drawn->output.state, &output),
        .session = UINT64_MAX,
    };
}

void kvt_drawn_extent(const struct kvt_drawn *drawn, uint32_t *longest_tokens,
                      uint32_t *output_tokens, uint32_t *inputs, size_t *input_count)
{
    const struct kvt_length_law *input = drawn->input.law;
    uint64_t input_tokens = input->longest(drawn->input.state);
    *output_tokens = drawn->output.law->longest(drawn->output.state);
    uint64_t longest = input_tokens + *output_tokens;
    *longest_tokens = longest < UINT32_MAX ? (uint32_t)longest : UINT32_MAX;
    *input_count =
        input->distinct != NULL ? input->distinct(drawn->input.state, inputs, *input_count) : 0;
}
