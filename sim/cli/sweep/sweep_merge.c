/* sweep_merge.c -- journals of all shards of one sweep into the results of one run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/json.h"
#include "kvt/version.h"
#include "sweep.h"

struct merging {
    struct sweep_journal **journals; /* [count] those of the folders, as given */
    size_t count;
    size_t shards, points, seeds;
    const char *of_shard[SWEEP_SHARDS_MAX]; /* the folder of each; NULL: none */
};

static kvt_status read_counts(const cJSON *header, const char *where, struct merging *merging,
                              struct kvt_error *err)
{
    uint64_t shards = 0, points = 0, runs = 0;
    kvt_status status =
        kvt_json_get_u64(header, where, "shards", true, 1, SWEEP_SHARDS_MAX, &shards, err);

    if (status == KVT_OK)
        status = kvt_json_get_u64(header, where, "points", true, 1, SWEEP_RUNS_MAX, &points, err);
    if (status == KVT_OK)
        status = kvt_json_get_u64(header, where, "runs", true, points, SWEEP_RUNS_MAX, &runs, err);
    merging->shards = (size_t)shards;
    merging->points = (size_t)points;
    merging->seeds = status == KVT_OK ? (size_t)(runs / points) : 1;
    return status;
}

/* Records hold metrics by their place among this program's. */
static kvt_status check_version(const cJSON *header, const char *where, struct kvt_error *err)
{
    const char *version = NULL, *commit = NULL;
    kvt_status status = kvt_json_get_text(header, where, "version", true, &version, err);

    if (status == KVT_OK)
        status = kvt_json_get_text(header, where, "commit", true, &commit, err);
    if (status == KVT_OK &&
        (strcmp(version, kvt_version()) != 0 || strcmp(commit, kvt_commit()) != 0))
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "run by kvtide %.40s (%.60s), and this is %s (%s); expected the same",
                        version, commit, kvt_version(), kvt_commit());
    return status;
}

static kvt_status take_shard(struct merging *merging, const struct sweep_journal *journal,
                             const char *dir, struct kvt_error *err)
{
    uint64_t shard = 0;
    kvt_status status = kvt_json_get_u64(sweep_journal_question(journal), dir, "shard", true, 1,
                                         merging->shards, &shard, err);

    if (status != KVT_OK)
        return status;
    if (merging->of_shard[shard - 1] != NULL)
        return kvt_fail(err, KVT_ERR_INVALID, dir, "shard %llu/%zu is in %.200s as well",
                        (unsigned long long)shard, merging->shards, merging->of_shard[shard - 1]);
    merging->of_shard[shard - 1] = dir;
    return KVT_OK;
}

/* Runs of a shard that are not in its journal yet. */
static kvt_status check_whole(const struct merging *merging, const struct sweep_journal *journal,
                              size_t shard, const char *dir, struct kvt_error *err)
{
    size_t left = 0, all = 0;

    for (size_t p = shard; p < merging->points; p += merging->shards) {
        for (size_t s = 0; s < merging->seeds; s++, all++)
            left += !sweep_journal_has(journal, p * merging->seeds + s);
    }
    if (left > 0)
        return kvt_fail(err, KVT_ERR_INVALID, dir,
                        "%zu of its %zu runs are not done; its own command with --resume does them",
                        left, all);
    return KVT_OK;
}

static kvt_status check_all_there(const struct merging *merging, struct kvt_error *err)
{
    char missing[200] = "";
    size_t used = 0, count = 0;

    for (size_t i = 0; i < merging->shards; i++) {
        if (merging->of_shard[i] != NULL)
            continue;
        count++;
        if (used < sizeof missing - 20)
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%zu",
                                     used > 0 ? ", " : "", i + 1);
    }
    if (count > 0)
        return kvt_fail(err, KVT_ERR_INVALID, "sweep --merge", "of %zu shards %zu %s missing: %s%s",
                        merging->shards, count, count > 1 ? "are" : "is", missing,
                        used >= sizeof missing - 20 ? ".." : "");
    return KVT_OK;
}

static kvt_status open_all(const struct cli_texts *dirs, struct merging *merging,
                           struct kvt_error *err)
{
    kvt_status status = KVT_OK;

    for (size_t i = 0; status == KVT_OK && i < dirs->count; i++) {
        status = sweep_journal_open(dirs->items[i], false, &merging->journals[i], err);
        if (status != KVT_OK)
            break;
        merging->count++;
        const cJSON *header = sweep_journal_question(merging->journals[i]);
        if (i == 0)
            status = check_version(header, dirs->items[0], err);
        if (status == KVT_OK && i == 0)
            status = read_counts(header, dirs->items[0], merging, err);
        if (status == KVT_OK && i > 0)
            status = sweep_header_check(sweep_journal_question(merging->journals[0]), header,
                                        dirs->items[i], false, err);
        if (status == KVT_OK)
            status = take_shard(merging, merging->journals[i], dirs->items[i], err);
    }
    if (status == KVT_OK)
        status = check_all_there(merging, err);
    for (size_t i = 0; status == KVT_OK && i < merging->count; i++) {
        size_t shard = 0;
        while (merging->of_shard[shard] != dirs->items[i])
            shard++;
        status = check_whole(merging, merging->journals[i], shard, dirs->items[i], err);
    }
    return status;
}

static kvt_status check_out(const char *dir, struct kvt_error *err)
{
    struct sweep_journal *there = NULL;
    kvt_status status = sweep_journal_open(dir, false, &there, NULL);

    sweep_journal_close(there);
    if (status == KVT_ERR_NOT_FOUND)
        return kvt_mkdirs(dir, err);
    return kvt_fail(err, KVT_ERR_INVALID, dir,
                    "a sweep is there already; merged results take another folder");
}

kvt_status sweep_merge(const struct cli_texts *dirs, const char *dir, bool print_json,
                       struct sweep_counts *counts, struct kvt_error *err)
{
    struct merging merging = {.journals = calloc(dirs->count, sizeof(struct sweep_journal *))};
    kvt_status status =
        merging.journals != NULL ? open_all(dirs, &merging, err) : kvt_fail_nomem(err, "a merge");

    if (status == KVT_OK)
        status = check_out(dir, err);
    if (status == KVT_OK) {
        const struct sweep_results results = {.header = sweep_journal_question(merging.journals[0]),
                                              .journals = merging.journals,
                                              .journal_count = merging.count};
        status = sweep_results_write(&results, dir, print_json, counts, err);
    }
    for (size_t i = 0; i < merging.count; i++)
        sweep_journal_close(merging.journals[i]);
    free(merging.journals);
    return status;
}
