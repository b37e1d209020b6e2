/* recorded.c -- selections that were recorded: an engine's, a GPU's, another run's.
 *
 *     a request draws one of the recorded requests; its selector s reads that one's
 *         selector s, modulo how many there are
 *     a stream of n rows, more than k, begins at a token that sees n - n/16 to n rows, drawn
 *         once for a request, and goes on as a tape does
 *
 * or, with "assign": "own", reads the recording of its own number (recorded_own.c).
 *
 * What is recorded has first rows and new rows, so that nothing turns: rows keep their distance
 * to the newest one, those of the first page stay, and the rows that the recording lacks lie
 * behind that page and are never selected. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorded_own.h"
#include "replay.h"

static const char where[] = "law \"recorded\"";

enum {
    PARAM_PATH,
    PARAM_DRAFTS,
    PARAM_ASSIGN,
    PARAM_COUNT,
};

enum {
    DRAFTS_REFUSE,
    DRAFTS_MAIN,
};

enum {
    ASSIGN_DRAWN,
    ASSIGN_OWN,
};

enum {
    PHASE_SHARE = 16, /* streams begin where at most 1/16 of their rows are missing */
};

static const struct kvt_param_spec recorded_params[PARAM_COUNT] = {
    {.name = "path",
     .type = KVT_PARAM_TEXT,
     .minimum = 1,
     .maximum = 4096,
     .default_text = NULL,
     .help = "The .kvsel file; `kvtide trace convert` makes one of what an engine returned."},
    {.name = "drafts",
     .type = KVT_PARAM_CHOICE,
     .choices = "refuse|main",
     .default_text = "refuse",
     .help = "Rejected drafts where none were recorded. refuse: no such run. main: they read the "
             "selections that followed, which understates what they fetch."},
    {.name = "assign",
     .type = KVT_PARAM_CHOICE,
     .choices = "drawn|own",
     .default_text = "drawn",
     .help = "Which recording a request reads. drawn: any, from a token drawn for it on. own: that "
             "of its own number and starting context, from its beginning to its end, as "
             "`kvtide trace replay` does."},
};

struct recorded_law {
    struct kvt_kvsel *file;
    char *path; /* of the file: for messages */
    uint64_t run_seed;
    uint32_t top_k;
    bool lacks_drafts; /* and the run has some */
    struct own *own;   /* NULL: recordings are drawn */
};

struct recorded_stream {
    bool is_attached; /* it can see more rows than it selects */
    uint32_t request, selector;
    struct replay replay;
    struct own_stream own;
};

static void recorded_free(void *data)
{
    struct recorded_law *law = data;
    if (law == NULL)
        return;
    own_free(law->own);
    kvt_kvsel_free(law->file);
    free(law->path);
    free(law);
}

static kvt_status check_file(const struct recorded_law *law, const struct kvt_law_env *env,
                             struct kvt_error *err)
{
    const struct kvt_kvsel_header *header = kvt_kvsel_header_of(law->file);
    const char *path = env->params.values[PARAM_PATH].text;
    if (header->top_k != env->top_k)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "path %s holds selections of %u rows, and the model selects %u", path,
                        header->top_k, env->top_k);
    bool drafts = env->side_paths > 0 && env->side_tokens > 0;
    if (!drafts)
        return KVT_OK;
    if (header->side_paths == 0 && env->params.values[PARAM_DRAFTS].number != DRAFTS_MAIN)
        return kvt_fail(
            err, KVT_ERR_UNSUPPORTED, where,
            "path %s holds no rejected drafts, and this run has some; drafts \"main\" lets "
            "them read the selections that followed, which understates what they "
            "fetch",
            path);
    if (header->side_paths > 0 &&
        (header->side_paths < env->side_paths || header->side_tokens < env->side_tokens))
        return kvt_fail(
            err, KVT_ERR_UNSUPPORTED, where,
            "path %s holds %u rejected drafts of %u tokens, and this run has up to %u of %u", path,
            header->side_paths, header->side_tokens, env->side_paths, env->side_tokens);
    return KVT_OK;
}

static kvt_status recorded_prepare(const struct kvt_law_env *env, void **out, struct kvt_error *err)
{
    assert(env->params.count == PARAM_COUNT);
    struct recorded_law *law = calloc(1, sizeof *law);
    if (law == NULL)
        return kvt_fail_nomem(err, "the law of selections");
    law->run_seed = env->run_seed;
    law->top_k = env->top_k;
    law->path = strdup(env->params.values[PARAM_PATH].text);
    kvt_status status = law->path != NULL ? kvt_kvsel_load(law->path, true, &law->file, err)
                                          : kvt_fail_nomem(err, "the law of selections");
    if (status == KVT_OK)
        status = check_file(law, env, err);
    if (status == KVT_OK && env->params.values[PARAM_ASSIGN].number == ASSIGN_OWN)
        status = own_new(law->file, law->path, env, &law->own, err);
    if (status != KVT_OK) {
        recorded_free(law);
        return status;
    }
    law->lacks_drafts = env->side_paths > 0 && kvt_kvsel_header_of(law->file)->side_paths == 0;
    *out = law;
    return KVT_OK;
}

static void recorded_describe(const void *data, char *out, size_t bytes)
{
    const struct recorded_law *law = data;
    const struct kvt_kvsel_header *header = kvt_kvsel_header_of(law->file);
    uint64_t tokens = 0;
    for (uint32_t r = 0; r < header->request_count; r++)
        tokens += kvt_kvsel_stream_of(law->file, r, 0)->token_count;
    (void)snprintf(out, bytes, "recorded: %u requests of %u selectors, %llu tokens%s%s",
                   header->request_count, header->selector_count, (unsigned long long)tokens,
                   law->own != NULL ? ", each its own" : "",
                   law->lacks_drafts ? "; rejected drafts read what followed" : "");
}

static size_t recorded_bytes(const void *data, const struct kvt_law_stream_env *env)
{
    (void)data;
    (void)env;
    return sizeof(struct recorded_stream);
}

/* The first token that sees at least so many rows; token_count where none does. */
static uint64_t token_of_rows(const struct kvt_kvsel_stream *recording, uint64_t rows)
{
    const struct kvt_kvsel_shape *shape = &recording->shape;
    uint64_t token =
        rows > shape->first_rows ? (rows - shape->first_rows) * (uint64_t)shape->tokens_per_row : 0;
    return token < recording->token_count ? token : recording->token_count;
}

/* Rows that the first and the last recorded token see, where there is any. */
static kvt_status check_stream(const struct recorded_law *law, const struct recorded_stream *stream,
                               const struct kvt_law_stream_env *env, uint32_t rows,
                               uint32_t tokens_per_row, struct kvt_error *err)
{
    const struct kvt_kvsel_stream *recording =
        kvt_kvsel_stream_of(law->file, stream->request, stream->selector);
    const struct kvt_kvsel_shape *shape = &recording->shape;
    if (shape->tokens_per_row != tokens_per_row)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "selector %u gains a row every %u tokens; path %s, whose selector %u it "
                        "reads, every %u",
                        env->selector, tokens_per_row, law->path, stream->selector,
                        shape->tokens_per_row);
    uint32_t count = recording->token_count;
    uint32_t last_rows = count > 0 ? kvt_kvsel_visible(shape, count - 1) : 0;
    if (rows < shape->first_rows || rows > last_rows || last_rows <= shape->top_k)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "request %u begins selecting with %u rows; path %s holds %u to %u for "
                        "selector %u of its request %u",
                        env->request, rows, law->path, shape->first_rows, last_rows,
                        stream->selector, stream->request);
    return KVT_OK;
}

/* Chooses where in which recording a stream that outgrows top_k begins. */
static kvt_status attach(const struct recorded_law *law, struct recorded_stream *stream,
                         const struct kvt_law_stream_env *env, struct kvt_error *err)
{
    const struct kvt_kvsel_header *header = kvt_kvsel_header_of(law->file);
    struct kvt_rng rng = kvt_rng_stream(law->run_seed, KVT_RNG_SELECTION,
                                        (uint64_t)env->request * KVT_SELECTORS_MAX);
    stream->request = (uint32_t)kvt_rng_below(&rng, header->request_count);
    stream->selector = env->selector % header->selector_count;
    const struct kvt_kvsel_stream *recording =
        kvt_kvsel_stream_of(law->file, stream->request, stream->selector);
    uint32_t tokens_per_row = env->tokens_per_row > 0 ? env->tokens_per_row : 1;
    uint32_t rows = env->context_rows > law->top_k ? env->context_rows : law->top_k + 1;
    kvt_status status = check_stream(law, stream, env, rows, tokens_per_row, err);
    if (status != KVT_OK)
        return status;
    /* Every token from which more than top_k rows are visible, and not too few of the stream's. */
    uint32_t fewest = rows - rows / PHASE_SHARE;
    if (fewest <= law->top_k)
        fewest = law->top_k + 1;
    uint64_t first = token_of_rows(recording, fewest), last = token_of_rows(recording, rows);
    uint64_t choices = (last - first) / tokens_per_row + 1;
    uint64_t token = first + kvt_rng_below(&rng, choices) * tokens_per_row;
    stream->is_attached = true;
    stream->replay = (struct replay){
        .first_token = (uint32_t)token,
        .turn_token = (uint32_t)token_of_rows(recording, (uint64_t)law->top_k + 1),
        .map = {.old_rows = kvt_kvsel_visible(&recording->shape, (uint32_t)token),
                .stream_rows = rows,
                .front_rows = KVT_PAGE_ROWS,
                .is_shifted = true},
    };
    return KVT_OK;
}

static kvt_status recorded_init(void *data, void *state, const struct kvt_law_stream_env *env,
                                struct kvt_error *err)
{
    const struct recorded_law *law = data;
    struct recorded_stream *stream = state;
    if (env->context_rows > env->rows_max || env->rows_max > KVT_KVSEL_ROWS_MAX)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "a history cannot go from %u rows to at most %u; the second is expected "
                        "not to be smaller, nor larger than %u",
                        env->context_rows, env->rows_max, KVT_KVSEL_ROWS_MAX);
    if (law->own != NULL)
        return own_attach(law->own, env, &stream->own, err);
    return env->rows_max <= law->top_k ? KVT_OK : attach(law, stream, env, err);
}

static void recorded_select(const void *data, void *state, const struct kvt_law_round *round,
                            uint64_t *const *sets)
{
    const struct recorded_law *law = data;
    struct recorded_stream *stream = state;
    if (law->own != NULL) {
        own_round(law->own, &stream->own, round, sets);
        return;
    }
    const struct kvt_kvsel_stream *recording =
        stream->is_attached ? kvt_kvsel_stream_of(law->file, stream->request, stream->selector)
                            : NULL;
    replay_round(&stream->replay, recording, law->top_k, round, sets);
}

static kvt_status recorded_end_step(void *data, struct kvt_error *err)
{
    const struct recorded_law *law = data;
    return law->own != NULL ? own_end_step(law->own, err) : KVT_OK;
}

const struct kvt_law kvt_law_recorded = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_law_recorded,
             .name = "recorded",
             .summary = "selections from a .kvsel file: what an engine or a GPU returned",
             .params = recorded_params,
             .param_count = PARAM_COUNT},
    .basis = KVT_BASIS_MEASURED,
    .prepare = recorded_prepare,
    .free = recorded_free,
    .describe = recorded_describe,
    .stream_bytes = recorded_bytes,
    .stream_init = recorded_init,
    .select = recorded_select,
    .end_step = recorded_end_step,
};
