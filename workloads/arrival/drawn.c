/* drawn.c -- requests whose kinds and lengths are drawn, each from streams of its own. */
#include "drawn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kvt_drawn kvt_drawn_of(const struct kvt_arrival_env *env)
{
    return (struct kvt_drawn){.alike = {.share = 1, .input = env->input, .output = env->output},
                              .kinds = env->kinds,
                              .kind_count = env->kind_count,
                              .run_seed = env->run_seed};
}

void kvt_drawn_free(struct kvt_drawn *drawn)
{
    kvt_page_keys_free(&drawn->keys);
}

/* By share, from a stream that nothing else draws from: other shares leave lengths alone. */
static uint16_t kind_of(const struct kvt_drawn *drawn, uint64_t ordinal)
{
    uint16_t kind = 0;
    double sum = 0;

    if (drawn->kind_count < 2)
        return 0;
    struct kvt_rng rng = kvt_rng_stream(drawn->run_seed, KVT_RNG_KIND, ordinal);
    double draw = kvt_rng_unit(&rng);
    while (kind + 1u < drawn->kind_count) {
        sum += drawn->kinds[kind].share;
        if (draw < sum)
            break;
        kind++;
    }
    return kind;
}

/* What all prompts of a kind begin with; of the rest nothing is known. */
static kvt_status name_prefix(struct kvt_drawn *drawn, struct kvt_request_spec *spec,
                              struct kvt_error *err)
{
    kvt_status status = kvt_page_keys_begin(&drawn->keys, spec->prefix_tokens, err);

    if (status != KVT_OK)
        return status;
    kvt_page_keys_run(&drawn->keys, kvt_content(KVT_CONTENT_GROUP, spec->prefix_group),
                      spec->prefix_tokens);
    spec->page_keys = drawn->keys.keys;
    spec->page_key_count = drawn->keys.count;
    return KVT_OK;
}

/* Two streams a request for lengths, so that another law of inputs leaves the outputs alone. */
kvt_status kvt_drawn_request(struct kvt_drawn *drawn, uint64_t ordinal, kvt_ns arrival_ns,
                             struct kvt_request_spec *out, struct kvt_error *err)
{
    uint16_t number = kind_of(drawn, ordinal);
    const struct kvt_request_kind *kind =
        drawn->kind_count > 0 ? &drawn->kinds[number] : &drawn->alike;
    struct kvt_rng input = kvt_rng_stream(drawn->run_seed, KVT_RNG_LENGTH, 2 * ordinal);
    struct kvt_rng output = kvt_rng_stream(drawn->run_seed, KVT_RNG_LENGTH, 2 * ordinal + 1);

    *out = (struct kvt_request_spec){
        .arrival_ns = arrival_ns,
        .input_tokens = kind->input.law->draw(kind->input.state, &input),
        .output_tokens = kind->output.law->draw(kind->output.state, &output),
        .session = UINT64_MAX,
        .task = kind->task,
        .kind = number,
    };
    if (kind->slo_class != NULL)
        (void)snprintf(out->slo_class, sizeof out->slo_class, "%s", kind->slo_class);
    if (kind->shared_prefix_tokens == 0)
        return KVT_OK;
    out->prefix_group = number;
    out->prefix_tokens = kind->shared_prefix_tokens < out->input_tokens ? kind->shared_prefix_tokens
                                                                        : out->input_tokens;
    return name_prefix(drawn, out, err);
}

static int by_tokens(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a;
    uint32_t second = *(const uint32_t *)b;
    return (first > second) - (first < second);
}

/* The distinct inputs of a kind beside those found before, ascending; false: there are more than
 * have room. */
static bool add_inputs(const struct kvt_lengths *input, uint32_t *inputs, size_t *count,
                       size_t capacity)
{
    uint32_t own[KVT_INPUTS_MAX];
    size_t own_count =
        input->law->distinct != NULL ? input->law->distinct(input->state, own, KVT_INPUTS_MAX) : 0;

    for (size_t i = 0; i < own_count; i++) {
        size_t at = 0;
        while (at < *count && inputs[at] != own[i])
            at++;
        if (at < *count)
            continue;
        if (*count == capacity)
            return false;
        inputs[(*count)++] = own[i];
    }
    qsort(inputs, *count, sizeof inputs[0], by_tokens);
    return own_count > 0;
}

void kvt_drawn_extent(const struct kvt_drawn *drawn, uint32_t *longest_tokens,
                      uint32_t *output_tokens, uint32_t *inputs, size_t *input_count)
{
    const struct kvt_request_kind *kinds = drawn->kind_count > 0 ? drawn->kinds : &drawn->alike;
    size_t kind_count = drawn->kind_count > 0 ? drawn->kind_count : 1;
    size_t count = 0;
    bool are_few = true;

    *longest_tokens = *output_tokens = 0;
    for (size_t k = 0; k < kind_count; k++) {
        uint32_t output = kinds[k].output.law->longest(kinds[k].output.state);
        uint64_t longest = (uint64_t)kinds[k].input.law->longest(kinds[k].input.state) + output;
        longest = longest < UINT32_MAX ? longest : UINT32_MAX;
        *longest_tokens = longest > *longest_tokens ? (uint32_t)longest : *longest_tokens;
        *output_tokens = output > *output_tokens ? output : *output_tokens;
        are_few = are_few && add_inputs(&kinds[k].input, inputs, &count, *input_count);
    }
    *input_count = are_few ? count : 0;
}
