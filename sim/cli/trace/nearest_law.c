/* nearest_law.c -- which set and preset of the law `score` recorded selections are nearest to.
 *
 *     for each set and preset: the law is asked for as many tokens of as many streams, of the same
 * k and rows, from the same start; the same figures are taken of both ordered by the distance
 * between the figures
 *
 * The sets are those that docs/laws.md names: they fit one published curve equally well, and differ
 * in how long rows stay. */
#include "nearest_law.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../cli.h"
#include "kvt/law.h"
#include "kvt/plugins.h"

static const struct {
    const char *name;
    double f0, f1, f2, tau1_tokens, tau2_tokens;
} sets[] = {
    {"A", 0.487, 0.323, 0.155, 100, 8},
    {"B", 0.128, 0.665, 0.169, 300, 8},
    {"C", 0.427, 0.256, 0.265, 300, 20},
};
static const char *const presets[] = {"flat", "clustered", "skewed"};
enum {
    SETS = sizeof sets / sizeof sets[0],
    PRESETS = sizeof presets / sizeof presets[0],
};
_Static_assert((int)SETS *(int)PRESETS == (int)NEAREST_LAWS, "every set by every preset");

/* Not that of a run by default: what was recorded from one is not to be met again. */
#define SEED UINT64_C(20260611)

struct comparison {
    const struct nearest_sample *sample;
    const struct kvt_law *law;
    struct kvt_param_value *values; /* of its parameters */
    bool (*tell)(void *context, double fraction);
    void *context;
    size_t done; /* streams, of all laws */
};

static void set_number(struct comparison *comparison, const char *name, double number)
{
    const struct kvt_plugin_info *info = &comparison->law->info;
    for (size_t i = 0; i < info->param_count; i++) {
        if (strcmp(info->params[i].name, name) == 0)
            comparison->values[i].number = number;
    }
}

/* The law's selections of one of the sample's streams. */
static kvt_status take_stream(struct comparison *comparison, void *data, void *stream,
                              const struct kvt_law_stream_env *env, uint64_t *set,
                              struct figures_meter *meter, struct kvt_error *err)
{
    static const struct kvt_law_query anchor = {.depth = 0};
    kvt_status status = comparison->law->stream_init(data, stream, env, err);
    for (uint32_t token = 0; status == KVT_OK && token < comparison->sample->tokens; token++) {
        uint32_t visible = env->context_rows + token / env->tokens_per_row;
        const struct kvt_law_round round = {
            .queries = &anchor, .query_count = 1, .committed_tokens = 1, .visible_rows = &visible};
        comparison->law->select(data, stream, &round, &set);
        status = figures_take(meter, set, visible, err);
        if (status == KVT_OK && comparison->tell != NULL && token % 16 == 0 &&
            !comparison->tell(comparison->context,
                              (double)comparison->done /
                                  (double)(comparison->sample->stream_count * NEAREST_LAWS)))
            return kvt_fail(err, KVT_ERR_INTERRUPTED, "trace stats", "interrupted");
    }
    return status;
}

static kvt_status add_stream(struct comparison *comparison, void *data, size_t s,
                             struct figures *figures, struct kvt_error *err)
{
    const struct nearest_sample *sample = comparison->sample;
    struct kvt_law_stream_env env = {
        .request = sample->streams[s].request,
        .selector = sample->streams[s].selector % KVT_SELECTORS_MAX,
        .context_rows = sample->streams[s].first_rows,
        .rows_max = sample->streams[s].first_rows + sample->tokens,
        .tokens_per_row = sample->streams[s].tokens_per_row,
    };
    size_t bytes = comparison->law->stream_bytes(data, &env);
    void *stream = calloc(1, bytes > 0 ? bytes : 1);
    uint64_t *set = malloc(kvt_row_words(env.rows_max) * sizeof *set);
    struct figures_meter *meter = NULL;
    kvt_status status =
        stream != NULL && set != NULL ? KVT_OK : kvt_fail_nomem(err, "a law's selections");
    if (status == KVT_OK)
        status = figures_meter_new(FIGURES_ALL, sample->top_k, env.rows_max,
                                   figures_page_rows(env.tokens_per_row), &meter, err);
    if (status == KVT_OK)
        status = take_stream(comparison, data, stream, &env, set, meter, err);
    if (status == KVT_OK)
        figures_add(meter, figures);
    comparison->done++;
    figures_meter_free(meter);
    free(set);
    free(stream);
    return status;
}

/* Figures of the law with the values in force; *has_any false: it cannot have such a k. */
static kvt_status measure(struct comparison *comparison, struct figures *figures, bool *has_any,
                          struct kvt_error *err)
{
    const struct nearest_sample *sample = comparison->sample;
    uint32_t streams =
        sample->selector_count < KVT_SELECTORS_MAX ? sample->selector_count : KVT_SELECTORS_MAX;
    struct kvt_law_env env = {
        .params = {.values = comparison->values, .count = comparison->law->info.param_count},
        .top_k = sample->top_k,
        .stream_count = streams,
        .output_tokens = sample->tokens,
        .run_seed = SEED,
        .threads = 1,
        .host = kvt_host(),
    };
    void *data = NULL;
    kvt_status status = comparison->law->prepare(&env, &data, err);
    *has_any = status == KVT_OK;
    if (status != KVT_OK)
        return status == KVT_ERR_NOMEM ? status : KVT_OK;
    memset(figures, 0, sizeof *figures);
    for (size_t s = 0; status == KVT_OK && s < sample->stream_count; s++)
        status = add_stream(comparison, data, s, figures, err);
    comparison->law->free(data);
    return status;
}

static int compare_laws(const void *a, const void *b)
{
    const struct nearest_law *x = a, *y = b;
    if (isnan(x->distance) || isnan(y->distance))
        return (isnan(x->distance) != 0) - (isnan(y->distance) != 0);
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    int by_set = strcmp(x->set, y->set);
    return by_set != 0 ? by_set : strcmp(x->preset, y->preset);
}

/* The law "score" with its defaults, to be changed. */
static kvt_status begin(struct comparison *comparison, struct kvt_arena *arena,
                        struct kvt_error *err)
{
    const struct kvt_plugin_info *info = NULL;
    struct kvt_params params = {.count = 0};
    const char *missing = NULL;
    kvt_status status = kvt_plugin_find(NULL, KVT_PLUGIN_LAW, "score", "trace stats", &info, err);
    if (status == KVT_OK)
        status = kvt_plugin_defaults(info, cli_data_dir(), arena, &params, &missing, err);
    if (status != KVT_OK)
        return status;
    comparison->law = (const struct kvt_law *)(const void *)info;
    comparison->values = kvt_arena_array(arena, params.count, sizeof *comparison->values,
                                         _Alignof(struct kvt_param_value));
    if (comparison->values == NULL)
        return kvt_fail_nomem(err, "the parameters of a law");
    memcpy(comparison->values, params.values, params.count * sizeof *comparison->values);
    return KVT_OK;
}

kvt_status nearest_laws(const struct nearest_sample *sample, const struct figures *figures,
                        bool (*tell)(void *context, double fraction), void *context,
                        struct nearest_law *found, struct kvt_error *err)
{
    struct comparison comparison = {.sample = sample, .tell = tell, .context = context};
    struct kvt_arena *arena = kvt_arena_new(0);
    if (arena == NULL)
        return kvt_fail_nomem(err, "the parameters of a law");
    kvt_status status = begin(&comparison, arena, err);
    for (size_t i = 0; status == KVT_OK && i < NEAREST_LAWS; i++) {
        size_t set = i / PRESETS, preset = i % PRESETS;
        struct figures of_law;
        bool has_any = false;
        set_number(&comparison, "f0", sets[set].f0);
        set_number(&comparison, "f1", sets[set].f1);
        set_number(&comparison, "f2", sets[set].f2);
        set_number(&comparison, "tau1_tokens", sets[set].tau1_tokens);
        set_number(&comparison, "tau2_tokens", sets[set].tau2_tokens);
        set_number(&comparison, "preset", (double)preset);
        status = measure(&comparison, &of_law, &has_any, err);
        found[i] =
            (struct nearest_law){.set = sets[set].name,
                                 .preset = presets[preset],
                                 .distance = status == KVT_OK && has_any
                                                 ? figures_distance(figures, &of_law, sample->top_k)
                                                 : (double)NAN};
    }
    if (status == KVT_OK)
        qsort(found, NEAREST_LAWS, sizeof found[0], compare_laws);
    kvt_arena_free(arena);
    return status;
}
