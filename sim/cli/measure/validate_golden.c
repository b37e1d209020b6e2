/* validate_golden.c -- golden call vectors, replayed by the simulator's resolver.
 *
 * docs/resolver.md describes the format. A device is held to the same files by
 * tests/cuda/test_resolve.cu; what ships with the program is what it replays here. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli.h"
#include "golden_calls.h"
#include "kvt/plugin.h"
#include "validate_decisions.h"

enum {
    FILES_MAX = 64,
    PATH_BYTES = 4096
};

/* What a file's calls are replayed with. */
struct replay {
    const char *path;
    struct kvt_resolver *resolver;
    struct kvt_hot_cache *cache;
    uint64_t chain;
};

static kvt_status open_replay(const struct golden_head *head, struct replay *replay,
                              struct kvt_error *err)
{
    const struct kvt_plugin_info *policy = NULL;
    const struct kvt_replacement_env env = {
        .slot_count = head->slots, .top_k = head->top_k, .host = kvt_host()};
    kvt_status status = kvt_plugin_find(cli_plugins(), KVT_PLUGIN_REPLACEMENT, head->policy,
                                        replay->path, &policy, err);

    if (status == KVT_OK && policy->param_count > 0)
        status =
            kvt_fail(err, KVT_ERR_PARSE, replay->path,
                     "a policy without parameters is expected, and \"%s\" has some", head->policy);
    if (status == KVT_OK)
        status =
            kvt_resolver_new(head->rows_max, head->slots, head->rows_max, &replay->resolver, err);
    if (status == KVT_OK)
        status = kvt_hot_cache_new((const struct kvt_replacement_policy *)(const void *)policy,
                                   &env, head->rows_max, &replay->cache, err);
    return status;
}

static kvt_status replay_call(struct golden_file *file, struct replay *replay,
                              struct golden_outcome *out, struct kvt_error *err)
{
    struct golden_call golden;
    struct kvt_resolve_result result = {0};
    kvt_status status = golden_next(file, &golden, err);

    if (status == KVT_OK)
        status = kvt_resolve(replay->resolver, replay->cache, &golden.call, &result, err);
    if (status != KVT_OK)
        return status;
    bool agree =
        golden_list_is(golden.missed, result.missed, result.filled_rows + result.staged_rows);
    uint64_t found = kvt_hot_cache_state_hash(replay->resolver, replay->cache);
    replay->chain = golden_chain(replay->chain, found, &result);
    out->calls++;
    if (agree && found == golden.state && replay->chain == golden.chain)
        return KVT_OK;
    if (out->mismatches++ == 0)
        snprintf(out->first, sizeof out->first,
                 "%.256s, call %llu: state %016llx where %016llx is expected, chain %016llx where "
                 "%016llx is%s",
                 replay->path, (unsigned long long)golden.call.step, (unsigned long long)found,
                 (unsigned long long)golden.state, (unsigned long long)replay->chain,
                 (unsigned long long)golden.chain, agree ? "" : "; missed rows differ");
    return KVT_OK;
}

static kvt_status replay_file(const char *path, struct golden_outcome *out, struct kvt_error *err)
{
    struct replay replay = {.path = path};
    struct golden_file *file = NULL;
    kvt_status status = golden_open(path, &file, err);

    if (status != KVT_OK)
        return status;
    status = open_replay(golden_head(file), &replay, err);
    for (uint32_t i = 0; i < golden_head(file)->calls && status == KVT_OK; i++)
        status = replay_call(file, &replay, out, err);
    kvt_hot_cache_free(replay.cache);
    kvt_resolver_free(replay.resolver);
    golden_close(file);
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
