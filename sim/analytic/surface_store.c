/* surface_store.c -- surfaces that have been measured, in memory and in a folder.
 *
 * A surface is known by a hash of everything that it depends on; of the speculation
 * method and the load, by the rounds that it plans, so that a method that does not look
 * at the load has one surface for all. A file holds the surface behind its key and a
 * checksum; one that is damaged, or of another format, is as good as none. */
#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvt/file.h"
#include "kvt/hash.h"
#include "kvt/json.h"
#include "kvt/layout.h"
#include "kvt/version.h"
#include "surface.h"

enum {
    FINGERPRINT_REQUESTS = 16,
    FINGERPRINT_ROUNDS = 32,
    FORMAT = 2 /* of surfaces and of how they are measured */
};

struct node {
    struct node *next;
    struct surface surface;
};

/* What a load's rounds led to, so that they need not be planned again. */
struct alias {
    struct alias *next;
    uint64_t key;
    const struct surface *surface;
};

struct kvt_surfaces {
    pthread_mutex_t lock; /* guards the lists; held while a surface is measured */
    struct node *nodes;
    struct alias *aliases;
};

struct file_image {
    char magic[16];
    uint64_t surface_bytes;
    struct surface surface;
    uint64_t checksum; /* of all before it */
};

kvt_status kvt_surfaces_new(struct kvt_surfaces **out, struct kvt_error *err)
{
    struct kvt_surfaces *surfaces = calloc(1, sizeof *surfaces);

    if (!surfaces || pthread_mutex_init(&surfaces->lock, NULL) != 0) {
        free(surfaces);
        return kvt_fail_nomem(err, "miss surfaces");
    }
    *out = surfaces;
    return KVT_OK;
}

void kvt_surfaces_free(struct kvt_surfaces *surfaces)
{
    if (!surfaces)
        return;
    while (surfaces->nodes) {
        struct node *next = surfaces->nodes->next;
        free(surfaces->nodes);
        surfaces->nodes = next;
    }
    while (surfaces->aliases) {
        struct alias *next = surfaces->aliases->next;
        free(surfaces->aliases);
        surfaces->aliases = next;
    }
    (void)pthread_mutex_destroy(&surfaces->lock);
    free(surfaces);
}

/* ---- Keys ------------------------------------------------------------------------ */

static bool chain_tree(uint64_t *key, const cJSON *tree)
{
    char *text = tree ? kvt_json_print(tree) : NULL;

    if (tree && !text)
        return false;
    *key = kvt_hash_bytes(*key, text ? text : "", text ? strlen(text) : 0);
    free(text);
    return true;
}

/* Of the law, the caches and the model; hashes of the files that they name stand in inputs. */
static kvt_status key_of_law(const struct surface_env *env, uint64_t *out, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = env->run->scenario;
    const struct kvt_llm *llm = scenario->llm;
    uint64_t key = kvt_chain64(FORMAT, sizeof(struct surface));

    key = kvt_hash_bytes(key, kvt_version(), strlen(kvt_version()));
    if (!chain_tree(&key, kvt_json_find(scenario->tree, "selection")) ||
        !chain_tree(&key, kvt_json_find(scenario->tree, "replacement")) ||
        !chain_tree(&key, scenario->inputs))
        return kvt_fail_nomem(err, "the key of a surface");
    key = kvt_chain64(key, llm->top_k);
    for (uint32_t s = 0; s < llm->store_count; s++) {
        const struct kvt_store *store = &llm->stores[s];
        uint32_t slots = kvt_hot_slots(llm, store, env->run->rank->hot_tokens,
                                       env->input_tokens + env->output_tokens);
        key = kvt_chain64(key, (uint64_t)store->layers << 32 | store->compress_ratio);
        key = kvt_chain64(key, (uint64_t)env->stratum_of[s] << 32 | slots);
    }
    for (uint32_t i = 0; i < llm->selector_count; i++)
        key = kvt_chain64(key, llm->selectors[i].store);
    key = kvt_chain64(key, llm->payload.capacity_bytes);
    key = kvt_chain64(key, (uint64_t)env->input_tokens << 32 | env->output_tokens);
    key = kvt_chain64(key, (uint64_t)scenario->promotion << 2 |
                               (uint64_t)scenario->resolve_each_query << 1 | env->covered);
    *out = kvt_chain64(key, env->run->rank->needs.history_in_hbm);
    return KVT_OK;
}

/* Of the method's parameters and the load: cheap to say, and more than is needed. */
static kvt_status key_of_load(const struct surface_env *env, uint64_t law, uint32_t active,
                              uint64_t *out, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = env->run->scenario;
    uint64_t key = kvt_chain64(law, active);

    if (!chain_tree(&key, kvt_json_find(scenario->tree, "speculation")) ||
        !chain_tree(&key, kvt_json_find(scenario->tree, "timing")) ||
        !chain_tree(&key, kvt_json_find(scenario->tree, "cluster")) ||
        !chain_tree(&key, kvt_json_find(scenario->tree, "hardware")))
        return kvt_fail_nomem(err, "the key of a surface");
    key = kvt_hash_bytes(key, scenario->tasks[0], strlen(scenario->tasks[0]));
    key = kvt_chain64(key, scenario->queries_max);
    *out = kvt_chain64(key, (uint64_t)env->run->rank_count << 1 | env->run->lockstep);
    return KVT_OK;
}

static kvt_status key_of_rounds(const struct surface_env *env, uint64_t law, uint32_t active,
                                uint64_t *out, struct kvt_error *err)
{
    const size_t count = (size_t)FINGERPRINT_REQUESTS * FINGERPRINT_ROUNDS;
    struct kvt_round *rounds = calloc(count, sizeof *rounds);

    if (!rounds)
        return kvt_fail_nomem(err, "the key of a surface");
    kvt_status status =
        surface_plan(env, active, FINGERPRINT_REQUESTS, FINGERPRINT_ROUNDS, rounds, err);
    uint64_t key = law;
    for (size_t r = 0; r < count && status == KVT_OK; r++) {
        key = kvt_chain64(key, (uint64_t)rounds[r].draft_tokens << 32 | rounds[r].query_count);
        key = kvt_chain64(key, rounds[r].committed_tokens);
        for (uint32_t q = 0; q < rounds[r].query_count; q++) {
            const struct kvt_law_query *query = &rounds[r].queries[q];
            key = kvt_chain64(key, (uint64_t)query->depth << 32 | query->path);
            key = kvt_chain64(key, query->fork);
        }
    }
    free(rounds);
    *out = key;
    return status;
}

/* ---- The folder -------------------------------------------------------------------- */

static const char magic[16] = "kvtide surface\n";

static bool path_of(const char *folder, uint64_t key, char path[4096])
{
    int length = snprintf(path, 4096, "%s/surface-%016llx.bin", folder, (unsigned long long)key);
    return length > 0 && length < 4096;
}

static uint64_t checksum_of(const struct file_image *image)
{
    return kvt_hash_bytes(FORMAT, image, offsetof(struct file_image, checksum));
}

static bool read_file(const char *folder, uint64_t key, struct surface *out)
{
    char path[4096], *bytes = NULL;
    size_t size = 0;
    struct kvt_error ignored;
    struct file_image *image = malloc(sizeof *image);
    bool good = false;

    if (image && folder && path_of(folder, key, path) &&
        kvt_file_read(path, sizeof *image, &bytes, &size, &ignored) == KVT_OK &&
        size == sizeof *image) {
        memcpy(image, bytes, sizeof *image);
        good = memcmp(image->magic, magic, sizeof magic) == 0 &&
               image->surface_bytes == sizeof(struct surface) && image->surface.key == key &&
               image->checksum == checksum_of(image);
    }
    if (good)
        *out = image->surface;
    free(bytes);
    free(image);
    return good;
}

/* A folder that cannot be written costs the next run its time and nothing else. */
static void write_file(const char *folder, const struct surface *surface)
{
    char path[4096];
    struct kvt_error ignored;
    struct kvt_outfile *file = NULL;
    struct file_image *image = calloc(1, sizeof *image);

    if (image && folder && path_of(folder, surface->key, path) &&
        kvt_mkdirs(folder, &ignored) == KVT_OK &&
        kvt_outfile_open(path, &file, &ignored) == KVT_OK) {
        memcpy(image->magic, magic, sizeof magic);
        image->surface_bytes = sizeof *surface;
        image->surface = *surface;
        image->checksum = checksum_of(image);
        (void)fwrite(image, sizeof *image, 1, kvt_outfile_stream(file));
        kvt_status kept = kvt_outfile_commit(file, &ignored);
        (void)kept;
    }
    free(image);
}

/* ---- Getting one -------------------------------------------------------------------- */

static kvt_status find_or_measure(struct kvt_surfaces *store, const struct surface_env *env,
                                  uint64_t key, uint32_t active, const struct surface **out,
                                  struct kvt_error *err)
{
    for (const struct node *node = store->nodes; node; node = node->next) {
        if (node->surface.key == key) {
            *out = &node->surface;
            return KVT_OK;
        }
    }
    struct node *node = calloc(1, sizeof *node);
    if (!node)
        return kvt_fail_nomem(err, "a surface");
    if (!read_file(env->run->cache_dir, key, &node->surface)) {
        kvt_status status = surface_measure(env, active, &node->surface, err);
        if (status != KVT_OK) {
            free(node);
            return status;
        }
        node->surface.key = key;
        write_file(env->run->cache_dir, &node->surface);
    }
    node->next = store->nodes;
    store->nodes = node;
    *out = &node->surface;
    return KVT_OK;
}

/* For rounds that the method plans by chances of the surface's own. */
static kvt_status plan_and_find(struct kvt_surfaces *store, const struct surface_env *env,
                                uint64_t law, uint32_t active, const struct surface **out,
                                struct kvt_error *err)
{
    struct kvt_analytic_env run = *env->run;
    struct surface_env own = *env;
    uint64_t key = 0;
    void *method = NULL;
    kvt_status status = surface_open_method(env->run, &method, err);

    if (status != KVT_OK)
        return status;
    run.speculation_data = method;
    own.run = &run;
    status = key_of_rounds(&own, law, active, &key, err);
    if (status == KVT_OK)
        status = find_or_measure(store, &own, key, active, out, err);
    run.speculation->free(method);
    return status;
}

static kvt_status get_new(struct kvt_surfaces *store, const struct surface_env *env, uint64_t law,
                          uint64_t load, uint32_t active, const struct surface **out,
                          struct kvt_error *err)
{
    struct alias *alias = calloc(1, sizeof *alias);

    if (!alias)
        return kvt_fail_nomem(err, "a surface");
    kvt_status status = plan_and_find(store, env, law, active, out, err);
    if (status != KVT_OK) {
        free(alias);
        return status;
    }
    *alias = (struct alias){.next = store->aliases, .key = load, .surface = *out};
    store->aliases = alias;
    return KVT_OK;
}

kvt_status surface_get(const struct surface_env *env, uint32_t active, const struct surface **out,
                       struct kvt_error *err)
{
    struct kvt_surfaces *store = env->run->surfaces;
    uint64_t law = 0, load = 0;
    kvt_status status = key_of_law(env, &law, err);

    if (status == KVT_OK)
        status = key_of_load(env, law, active, &load, err);
    if (status != KVT_OK)
        return status;
    *out = NULL;
    (void)pthread_mutex_lock(&store->lock);
    for (const struct alias *alias = store->aliases; alias && !*out; alias = alias->next) {
        if (alias->key == load)
            *out = alias->surface;
    }
    if (!*out)
        status = get_new(store, env, law, load, active, out, err);
    (void)pthread_mutex_unlock(&store->lock);
    return status;
}
