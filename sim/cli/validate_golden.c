/* validate_golden.c -- golden call vectors, replayed by the simulator's resolver.
 *
 * docs/resolver.md describes the format. A device is held to the same files by
 * tests/cuda/test_resolve.cu; what ships with the program is what it replays here. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/hash.h"
#include "kvt/resolver.h"
#include "validate_decisions.h"

enum {
    FILES_MAX = 64,
    FILE_BYTES_MAX = 16 << 20,
    ROWS_MAX = 1 << 20,
    PATH_BYTES = 4096
};

/* One file being read: a line at a time, each of which begins with its word. */
struct reader {
    const char *path;
    char *next;
    uint32_t line;
    struct kvt_error *err;
    kvt_status status;
};

static void refuse(struct reader *reader, const char *expected)
{
    char where[PATH_BYTES + 16];

    if (reader->status != KVT_OK)
        return;
    snprintf(where, sizeof where, "%s:%u", reader->path, reader->line);
    reader->status =
        kvt_fail(reader->err, KVT_ERR_PARSE, where, "\"%.40s\" is expected here", expected);
}

/* The rest of the next line; "" where it does not begin with the word, and the reader has failed.
 */
static char *line_of(struct reader *reader, const char *word)
{
    static char nothing[1];
    char *line = reader->next, *end = strchr(line, '\n');
    size_t length = strlen(word);

    reader->line++;
    if (reader->status != KVT_OK || !end || strncmp(line, word, length) != 0) {
        refuse(reader, word);
        return nothing;
    }
    *end = '\0';
    reader->next = end + 1;
    return line + length;
}

static bool next_number(char **line, uint32_t *number)
{
    char *end;

    *number = (uint32_t)strtoul(*line, &end, 10);
    bool found = end != *line;
    *line = end;
    return found;
}

static uint32_t number_of(struct reader *reader, const char *word, uint32_t least, uint32_t most)
{
    char *line = line_of(reader, word);
    uint32_t number;

    if (reader->status != KVT_OK)
        return least;
    if (!next_number(&line, &number) || *line != '\0' || number < least || number > most) {
        refuse(reader, word);
        return least;
    }
    return number;
}

/* What a file's calls are replayed with. */
struct replay {
    uint32_t slots, top_k, rows_max;
    enum kvt_promotion promotion;
    struct kvt_resolver *resolver;
    struct kvt_hot_cache *cache;
    uint64_t *sets; /* [KVT_QUERIES_MAX + 1][words] queries, and resident pages */
    size_t words;
    uint64_t chain;
};

static void read_pages(struct reader *reader, const struct replay *replay, uint64_t *pages)
{
    char *line = line_of(reader, "pages");
    uint32_t first, count;

    memset(pages, 0, replay->words * sizeof *pages);
    while (reader->status == KVT_OK && next_number(&line, &first)) {
        if (*line++ != '+' || !next_number(&line, &count) || first > replay->rows_max ||
            count > replay->rows_max - first) {
            refuse(reader, "FIRST+COUNT of rows below rows_max");
            return;
        }
        for (uint32_t row = first; row < first + count; row++)
            kvt_row_set_add(pages, &row, 1);
    }
}

static void read_query(struct reader *reader, const struct replay *replay, uint64_t *set)
{
    char *line = line_of(reader, "query");
    uint64_t row = 0;
    uint32_t step;

    memset(set, 0, replay->words * sizeof *set);
    while (reader->status == KVT_OK && next_number(&line, &step)) {
        row += step;
        uint32_t at = (uint32_t)row;
        if (row >= replay->rows_max)
            refuse(reader, "rows below rows_max");
        else
            kvt_row_set_add(set, &at, 1);
    }
}

static bool lists_agree(char *line, const uint32_t *items, uint32_t count)
{
    uint32_t item, at = 0;

    while (next_number(&line, &item)) {
        if (at >= count || items[at++] != item)
            return false;
    }
    return at == count;
}

static uint64_t chain_of(uint64_t chain, uint64_t state, const struct kvt_resolve_result *r)
{
    const uint64_t values[] = {state,
                               r->union_rows,
                               r->tail_rows,
                               r->page_rows,
                               r->hot_rows,
                               r->filled_rows,
                               r->staged_rows,
                               r->promoted_rows,
                               r->selected,
                               r->tail_selected,
                               r->page_selected,
                               r->hot_selected,
                               r->missed_selected};

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        chain = kvt_chain64(chain, values[i]);
    return chain;
}

static kvt_status replay_call(struct reader *reader, struct replay *replay, uint32_t number,
                              struct golden_outcome *out)
{
    const uint64_t *selections[KVT_QUERIES_MAX];
    uint64_t *pages = replay->sets + KVT_QUERIES_MAX * replay->words;
    struct kvt_resolve_call call = {.step = number,
                                    .page_rows = pages,
                                    .selections = selections,
                                    .promotion = replay->promotion};
    struct kvt_resolve_result result = {0};

    (void)line_of(reader, "");
    (void)number_of(reader, "call ", number, number);
    call.visible_rows = number_of(reader, "visible ", 1, replay->rows_max);
    call.tail_first_row = number_of(reader, "tail ", 0, replay->rows_max);
    read_pages(reader, replay, pages);
    while (reader->status == KVT_OK && strncmp(reader->next, "query", 5) == 0 &&
           call.query_count < KVT_QUERIES_MAX) {
        uint64_t *set = replay->sets + call.query_count * replay->words;
        read_query(reader, replay, set);
        selections[call.query_count++] = set;
    }
    if (reader->status == KVT_OK)
        reader->status = kvt_resolve(replay->resolver, replay->cache, &call, &result, reader->err);
    (void)line_of(reader, "rows ");
    (void)line_of(reader, "selections ");
    bool agree = lists_agree(line_of(reader, "missed"), result.missed,
                             result.filled_rows + result.staged_rows);
    for (const char *const *skipped =
             (const char *const[]){"fills", "evicted", "promoted", "promoted_slots", NULL};
         *skipped; skipped++)
        (void)line_of(reader, *skipped);
    uint64_t state = strtoull(line_of(reader, "state "), NULL, 16);
    uint64_t chain = strtoull(line_of(reader, "chain "), NULL, 16);
    if (reader->status != KVT_OK)
        return reader->status;
    uint64_t found = kvt_hot_cache_state_hash(replay->resolver, replay->cache);
    replay->chain = chain_of(replay->chain, found, &result);
    out->calls++;
    if (agree && found == state && replay->chain == chain)
        return KVT_OK;
    if (out->mismatches++ == 0)
        snprintf(out->first, sizeof out->first,
                 "%.256s, call %u: state %016llx where %016llx is expected, chain %016llx where "
                 "%016llx is%s",
                 reader->path, number, (unsigned long long)found, (unsigned long long)state,
                 (unsigned long long)replay->chain, (unsigned long long)chain,
                 agree ? "" : "; missed rows differ");
    return KVT_OK;
}

static kvt_status open_replay(struct reader *reader, struct replay *replay, uint32_t *calls)
{
    const struct kvt_plugin_info *policy = NULL;

    (void)line_of(reader, "kvtide resolver calls 1");
    replay->slots = number_of(reader, "slots ", 1, 65536);
    replay->top_k = number_of(reader, "top_k ", 1, ROWS_MAX);
    replay->rows_max = number_of(reader, "rows_max ", 1, ROWS_MAX);
    const char *policy_name = line_of(reader, "policy ");
    replay->promotion = strcmp(line_of(reader, "promotion "), "by_count") == 0
                            ? KVT_PROMOTE_BY_COUNT
                            : KVT_PROMOTE_NONE;
    *calls = number_of(reader, "calls ", 1, 1 << 20);
    if (reader->status == KVT_OK)
        reader->status = kvt_plugin_find(KVT_PLUGIN_REPLACEMENT, policy_name, reader->path, &policy,
                                         reader->err);
    if (reader->status == KVT_OK && policy->param_count > 0)
        refuse(reader, "a policy without parameters");
    if (reader->status != KVT_OK)
        return reader->status;
    const struct kvt_replacement_env env = {
        .slot_count = replay->slots, .top_k = replay->top_k, .host = kvt_host()};
    replay->words = kvt_row_words(replay->rows_max);
    replay->sets = calloc((KVT_QUERIES_MAX + 1) * replay->words, sizeof *replay->sets);
    if (!replay->sets)
        return kvt_fail_nomem(reader->err, "a replay of calls");
    kvt_status status = kvt_resolver_new(replay->rows_max, replay->slots, replay->rows_max,
                                         &replay->resolver, reader->err);
    if (status == KVT_OK)
        status = kvt_hot_cache_new((const struct kvt_replacement_policy *)(const void *)policy,
                                   &env, replay->rows_max, &replay->cache, reader->err);
    return status;
}

static kvt_status replay_file(const char *path, struct golden_outcome *out, struct kvt_error *err)
{
    struct replay replay = {0};
    size_t bytes = 0;
    char *text = NULL;
    uint32_t calls = 0;
    kvt_status status = kvt_file_read(path, FILE_BYTES_MAX, &text, &bytes, err);

    if (status != KVT_OK)
        return status;
    struct reader reader = {.path = path, .next = text, .err = err};
    status = open_replay(&reader, &replay, &calls);
    for (uint32_t i = 0; i < calls && status == KVT_OK; i++)
        status = replay_call(&reader, &replay, i, out);
    kvt_hot_cache_free(replay.cache);
    kvt_resolver_free(replay.resolver);
    free(replay.sets);
    free(text);
    out->files += status == KVT_OK;
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

kvt_status validate_golden(struct golden_outcome *out, struct kvt_error *err)
{
    char folder[PATH_BYTES], *paths[FILES_MAX];
    size_t count = 0;
    kvt_status status = KVT_OK;

    *out = (struct golden_outcome){0};
    snprintf(folder, sizeof folder, "%s/calls", cli_data_dir());
    DIR *dir = opendir(folder);
    if (!dir)
        return kvt_fail(err, KVT_ERR_IO, folder, "the golden call vectors are not there");
    for (const struct dirent *entry = readdir(dir); entry && count < FILES_MAX;
         entry = readdir(dir)) {
        size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 4, ".txt") != 0)
            continue;
        size_t bytes = strlen(folder) + length + 2;
        paths[count] = malloc(bytes);
        if (!paths[count]) {
            status = kvt_fail_nomem(err, "the golden call vectors");
            break;
        }
        snprintf(paths[count++], bytes, "%s/%s", folder, entry->d_name);
    }
    (void)closedir(dir);
    qsort(paths, count, sizeof *paths, by_name);
    for (size_t i = 0; i < count; i++) {
        if (status == KVT_OK)
            status = replay_file(paths[i], out, err);
        free(paths[i]);
    }
    if (status == KVT_OK && out->files == 0)
        status = kvt_fail(err, KVT_ERR_IO, folder, "there are no golden call vectors");
    return status;
}
