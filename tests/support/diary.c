/* diary.c -- a law that selects as `score` does and keeps a diary of it. */
#include "support/diary.h"

#include <stdlib.h>
#include <string.h>

#include <check.h>

extern const struct kvt_law kvt_law_score;

struct diary diary;
static struct kvt_law law;

enum {
    REQUESTS_MAX = 64
};
static uint32_t openings[REQUESTS_MAX][KVT_SELECTORS_MAX];

/* What stands before the state of a stream of `score`. */
struct heading {
    uint32_t request, selector, opening, unused;
};

static size_t stream_bytes(const void *data, const struct kvt_law_stream_env *env)
{
    return sizeof(struct heading) + kvt_law_score.stream_bytes(data, env);
}

static kvt_status stream_init(void *data, void *stream, const struct kvt_law_stream_env *env,
                              struct kvt_error *err)
{
    struct heading *heading = stream;

    if (env->request >= REQUESTS_MAX)
        ck_abort_msg("request %u does not fit into the diary", env->request);
    *heading = (struct heading){.request = env->request,
                                .selector = env->selector,
                                .opening = openings[env->request][env->selector]++};
    return kvt_law_score.stream_init(data, heading + 1, env, err);
}

static struct diary_entry *new_entry(void)
{
    if (diary.count == diary.capacity) {
        diary.capacity = diary.capacity ? 2 * diary.capacity : 1024;
        diary.entries = realloc(diary.entries, diary.capacity * sizeof *diary.entries);
        if (!diary.entries)
            ck_abort_msg("no memory for the diary");
    }
    return &diary.entries[diary.count++];
}

static void note(const struct heading *heading, const struct kvt_law_round *round,
                 uint64_t *const *sets)
{
    uint32_t deepest = 0;

    for (uint32_t q = 0; q < round->query_count; q++)
        deepest = round->queries[q].depth > deepest ? round->queries[q].depth : deepest;
    struct diary_entry *entry = new_entry();
    *entry = (struct diary_entry){.request = heading->request,
                                  .selector = heading->selector,
                                  .opening = heading->opening,
                                  .query_count = round->query_count,
                                  .visible_rows = round->visible_rows[deepest]};
    size_t words = kvt_row_words(entry->visible_rows);
    entry->sets = malloc((round->query_count * words + 1) * sizeof *entry->sets);
    if (!entry->sets)
        ck_abort_msg("no memory for the diary");
    for (uint32_t q = 0; q < round->query_count; q++)
        memcpy(entry->sets + q * words, sets[q], words * sizeof *entry->sets);
}

static void select_rows(const void *data, void *stream, const struct kvt_law_round *round,
                        uint64_t *const *sets)
{
    struct heading *heading = stream;

    kvt_law_score.select(data, heading + 1, round, sets);
    if (sets)
        note(heading, round, sets);
}

static void page_scores(const void *data, void *stream, uint32_t visible_rows,
                        uint32_t rows_per_page, float *scores)
{
    kvt_law_score.page_scores(data, (struct heading *)stream + 1, visible_rows, rows_per_page,
                              scores);
}

void diary_open(struct kvt_scenario *scenario)
{
    ck_assert_str_eq(scenario->selection.info->name, "score");
    law = kvt_law_score;
    law.stream_bytes = stream_bytes;
    law.stream_init = stream_init;
    law.select = select_rows;
    law.page_scores = page_scores;
    scenario->selection.info = &law.info;
    memset(openings, 0, sizeof openings);
    diary = (struct diary){0};
}

void diary_close(void)
{
    for (size_t i = 0; i < diary.count; i++)
        free(diary.entries[i].sets);
    free(diary.entries);
    diary = (struct diary){0};
}
