/* law_setting.h -- laws stood up without a scenario, for tests of what they select. */
#ifndef KVT_TESTS_LAW_SETTING_H
#define KVT_TESTS_LAW_SETTING_H

#include <stdbool.h>
#include <stdint.h>

#include "kvt/law.h"
#include "plugin_params.h"

/* A law's environment with its default parameters, to be changed before prepare(). */
struct law_setting {
    struct kvt_law_env env;
    struct kvt_param_value values[SUPPORT_PARAMS_MAX];
};
void law_setting_init(struct law_setting *setting, const struct kvt_law *law, uint32_t top_k);

/* Sets a parameter where the law has it. */
void law_setting_set(struct law_setting *setting, const struct kvt_law *law, const char *name,
                     double number);

/* A round of one query: moves the stream on by a token, writes the rows selected, ascending,
 * and returns how many. rows has room for a whole answer. */
uint32_t law_select_one(const struct kvt_law *law, const void *data, void *stream,
                        uint32_t visible_rows, uint32_t *rows);

/* The law's data, to be freed by its free(); a law that refuses ends the test. */
void *law_prepared(const struct kvt_law *law, const struct law_setting *setting);

/* prepare() must fail with this status, at the law's name, in words that hold `part`. */
void law_check_refused(const struct kvt_law *law, const struct law_setting *setting,
                       kvt_status status, const char *part);

/* A stream of one token a row. */
struct kvt_law_stream_env law_stream_env(uint32_t request, uint32_t selector, uint32_t context_rows,
                                         uint32_t rows_max);

/* Begun; free() it. A law that refuses ends the test. */
void *law_stream_new(const struct kvt_law *law, void *data, const struct kvt_law_stream_env *env);

/* A chain over all that the stream selects from now on: `from` to `to` visible rows. */
uint64_t law_selections_hash(const struct kvt_law *law, const void *data, void *stream,
                             uint32_t from, uint32_t to);

/* The same over the whole of a new stream. */
uint64_t law_whole_hash(const struct kvt_law *law, void *data,
                        const struct kvt_law_stream_env *env);

bool law_rows_contain(const uint32_t *rows, uint32_t count, uint32_t row);

#endif
