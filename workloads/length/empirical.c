/* empirical.c -- lengths drawn uniformly from those of a file.
 *
 * One whole number a line; a first line that is not a number is a header. Lengths
 * outside [minimum, maximum] are never drawn. The state keeps each distinct
 * length with the number of lines up to and with it, so that its size does not
 * depend on the file, and a draw is one random number and a binary search. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/workload.h"

enum {
    PARAM_PATH = 0,
    DISTINCT_MAX = 32768,
    LENGTHS_FIRST = 1024
};

struct step {
    uint32_t tokens;
    uint64_t lines_to; /* of this length and all shorter ones */
};

struct empirical {
    size_t count;
    struct step steps[DISTINCT_MAX]; /* [count], by length */
};

/* The lengths of the file that may be drawn. */
struct lengths {
    uint32_t *tokens; /* [count] */
    size_t count, capacity;
};

static size_t empirical_state_bytes(const struct kvt_length_env *env)
{
    (void)env;
    return sizeof(struct empirical);
}

static kvt_status append(struct lengths *lengths, uint32_t tokens, struct kvt_error *err)
{
    if (lengths->count == lengths->capacity) {
        size_t capacity = lengths->capacity > 0 ? 2 * lengths->capacity : LENGTHS_FIRST;
        uint32_t *grown = realloc(lengths->tokens, capacity * sizeof *grown);
        if (grown == NULL)
            return kvt_fail_nomem(err, "the lengths of a file");
        lengths->tokens = grown;
        lengths->capacity = capacity;
    }
    lengths->tokens[lengths->count++] = tokens;
    return KVT_OK;
}

static bool is_header(const char *text)
{
    return strchr("+-.0123456789", text[0]) == NULL;
}

static kvt_status read_lengths(struct kvt_csv *csv, const struct kvt_length_env *env,
                               const char *path, struct lengths *lengths, struct kvt_error *err)
{
    bool is_first = true;
    for (;;) {
        char **fields = NULL;
        size_t field_count = 0;
        char where[256];
        uint64_t tokens = 0;
        kvt_status status = kvt_csv_next(csv, &fields, &field_count, err);
        if (status != KVT_OK || fields == NULL)
            return status;
        (void)snprintf(where, sizeof where, "%s:%" PRIu64, path, kvt_csv_line(csv));
        if (field_count != 1)
            return env->host->fail(err, KVT_ERR_PARSE, where,
                                   "a line holds one length, not %zu fields", field_count);
        bool is_name = is_first && is_header(fields[0]);
        is_first = false;
        if (is_name)
            continue;
        status = kvt_text_count(fields[0], where, INT32_MAX, &tokens, err);
        if (status == KVT_OK && tokens >= env->minimum_tokens && tokens <= env->maximum_tokens)
            status = append(lengths, (uint32_t)tokens, err);
        if (status != KVT_OK)
            return status;
    }
}

static int by_length(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a;
    uint32_t second = *(const uint32_t *)b;
    return (first > second) - (first < second);
}

static kvt_status make_steps(struct empirical *law, const struct kvt_length_env *env,
                             const char *path, struct lengths *lengths, struct kvt_error *err)
{
    if (lengths->count == 0)
        return env->host->fail(err, KVT_ERR_INVALID, path,
                               "no length in this file is from %u to %u tokens, what the model "
                               "takes",
                               env->minimum_tokens, env->maximum_tokens);
    qsort(lengths->tokens, lengths->count, sizeof *lengths->tokens, by_length);
    law->count = 0;
    for (size_t i = 0; i < lengths->count; i++) {
        uint32_t tokens = lengths->tokens[i];
        if (law->count == 0 || law->steps[law->count - 1].tokens != tokens) {
            if (law->count == DISTINCT_MAX)
                return env->host->fail(err, KVT_ERR_UNSUPPORTED, path,
                                       "more than %d distinct lengths; round them",
                                       (int)DISTINCT_MAX);
            law->steps[law->count++].tokens = tokens;
        }
        law->steps[law->count - 1].lines_to = i + 1;
    }
    return KVT_OK;
}

static kvt_status empirical_init(void *state, const struct kvt_length_env *env,
                                 struct kvt_error *err)
{
    const char *path = env->params.values[PARAM_PATH].text;
    struct kvt_csv *csv = NULL;
    struct lengths lengths = {.tokens = NULL};
    if (path == NULL || path[0] == '\0')
        return env->host->fail(err, KVT_ERR_INVALID, "empirical",
                               "path is required: a file with one length a line");
    kvt_status status = kvt_csv_open(path, &csv, err);
    if (status == KVT_OK)
        status = read_lengths(csv, env, path, &lengths, err);
    if (status == KVT_OK)
        status = make_steps(state, env, path, &lengths, err);
    free(lengths.tokens);
    kvt_csv_close(csv);
    return status;
}

/* The first step past the line that was drawn. */
static uint32_t tokens_of_line(const struct empirical *law, uint64_t line)
{
    size_t low = 0;
    size_t high = law->count - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (law->steps[middle].lines_to > line)
            high = middle;
        else
            low = middle + 1;
    }
    return law->steps[low].tokens;
}

static uint32_t empirical_draw(const void *state, struct kvt_rng *rng)
{
    const struct empirical *law = state;
    return tokens_of_line(law, kvt_rng_below(rng, law->steps[law->count - 1].lines_to));
}

static uint32_t empirical_typical_max(const void *state)
{
    const struct empirical *law = state;
    uint64_t lines = law->steps[law->count - 1].lines_to;
    return tokens_of_line(law, lines - 1 - lines / 100);
}

static uint32_t empirical_longest(const void *state)
{
    const struct empirical *law = state;
    return law->steps[law->count - 1].tokens;
}

static size_t empirical_distinct(const void *state, uint32_t *values, size_t capacity)
{
    const struct empirical *law = state;
    if (law->count > capacity)
        return 0;
    for (size_t i = 0; i < law->count; i++)
        values[i] = law->steps[i].tokens;
    return law->count;
}

static const struct kvt_param_spec empirical_params[] = {
    [PARAM_PATH] = {.name = "path",
                    .help = "file with one length a line, drawn uniformly",
                    .type = KVT_PARAM_TEXT,
                    .minimum = 1,
                    .maximum = 4096},
};

const struct kvt_length_law kvt_length_empirical = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_length_empirical,
             .name = "empirical",
             .summary = "lengths drawn uniformly from a file",
             .params = empirical_params,
             .param_count = sizeof empirical_params / sizeof empirical_params[0]},
    .state_bytes = empirical_state_bytes,
    .init = empirical_init,
    .draw = empirical_draw,
    .typical_max = empirical_typical_max,
    .longest = empirical_longest,
    .distinct = empirical_distinct,
};
