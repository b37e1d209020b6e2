/* law_setting.c -- laws prepared, their streams, and what those select. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/hash.h"
#include "law_setting.h"

void law_setting_init(struct law_setting *setting, const struct kvt_law *law, uint32_t top_k)
{
    memset(setting, 0, sizeof *setting);
    setting->env.params = support_default_params(&law->info, setting->values);
    setting->env.top_k = top_k;
    setting->env.stream_count = 3;
    setting->env.output_tokens = 100;
    setting->env.run_seed = 2385;
    setting->env.threads = 1;
    setting->env.all_streams = true;
}

void law_setting_set(struct law_setting *setting, const struct kvt_law *law, const char *name,
                     double number)
{
    for (size_t i = 0; i < law->info.param_count; i++) {
        if (strcmp(law->info.params[i].name, name) == 0)
            setting->values[i].number = number;
    }
}

void *law_prepared(const struct kvt_law *law, const struct law_setting *setting)
{
    void *data = NULL;
    struct kvt_error err;
    ck_assert_msg(law->prepare(&setting->env, &data, &err) == KVT_OK, "%s", err.message);
    ck_assert_ptr_nonnull(data);
    return data;
}

void *law_stream_new(const struct kvt_law *law, void *data, const struct kvt_law_stream_env *env)
{
    void *stream = calloc(1, law->stream_bytes(data, env));
    ck_assert_ptr_nonnull(stream);
    struct kvt_error err;
    ck_assert_msg(law->stream_init(data, stream, env, &err) == KVT_OK, "%s", err.message);
    return stream;
}

struct kvt_law_stream_env law_stream_env(uint32_t request, uint32_t selector, uint32_t context_rows,
                                         uint32_t rows_max)
{
    return (struct kvt_law_stream_env){.request = request,
                                       .selector = selector,
                                       .context_rows = context_rows,
                                       .rows_max = rows_max,
                                       .tokens_per_row = 1};
}

uint32_t law_select_one(const struct kvt_law *law, const void *data, void *stream,
                        uint32_t visible_rows, uint32_t *rows)
{
    static const struct kvt_law_query anchor;
    const struct kvt_law_round round = {
        .queries = &anchor, .query_count = 1, .committed_tokens = 1, .visible_rows = &visible_rows};
    size_t words = kvt_row_words(visible_rows);
    uint64_t *set = malloc(words * sizeof *set);
    ck_assert_ptr_nonnull(set);
    memset(set, 0xff, words * sizeof *set); /* all of it is written */
    law->select(data, stream, &round, &set);
    uint32_t count = kvt_row_set_list(set, words, rows);
    free(set);
    return count;
}

uint64_t law_selections_hash(const struct kvt_law *law, const void *data, void *stream,
                             uint32_t from, uint32_t to)
{
    uint64_t chain = 0;
    uint32_t *rows = malloc((size_t)to * sizeof *rows);
    ck_assert_ptr_nonnull(rows);
    for (uint32_t visible = from; visible <= to; visible++) {
        uint32_t count = law_select_one(law, data, stream, visible, rows);
        for (uint32_t i = 0; i < count; i++)
            chain = kvt_chain64(chain, rows[i]);
    }
    free(rows);
    return chain;
}

uint64_t law_whole_hash(const struct kvt_law *law, void *data, const struct kvt_law_stream_env *env)
{
    void *stream = law_stream_new(law, data, env);
    uint64_t hash = law_selections_hash(law, data, stream, env->context_rows, env->rows_max);
    free(stream);
    return hash;
}

bool law_rows_contain(const uint32_t *rows, uint32_t count, uint32_t row)
{
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i] == row)
            return true;
    }
    return false;
}

void law_check_refused(const struct kvt_law *law, const struct law_setting *setting,
                       kvt_status status, const char *part)
{
    void *data = NULL;
    struct kvt_error err = {.status = KVT_OK};
    ck_assert_int_eq(law->prepare(&setting->env, &data, &err), status);
    ck_assert_ptr_null(data);
    ck_assert_int_eq(err.status, status);
    ck_assert_msg(strstr(err.message, part) != NULL, "%s", err.message);
    ck_assert_ptr_nonnull(strstr(err.where, law->info.name));
}
