/* json_sources.c -- where the numbers of a data file come from. */
#include <stdio.h>
#include <string.h>

#include "kvt/json.h"

enum {
    DOTTED_BYTES = 160,
    DEPTH_MAX = 4
};

static bool is_one_of(const char *key, const char *const *keys, size_t key_count)
{
    for (size_t i = 0; i < key_count; i++) {
        if (strcmp(key, keys[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_head_key(const char *key)
{
    static const char *const keys[] = {KVT_JSON_HEAD_KEYS};
    return is_one_of(key, keys, sizeof keys / sizeof keys[0]);
}

/* The member that a dotted path names; NULL when there is none. */
static const cJSON *find_dotted(const cJSON *tree, const char *dotted)
{
    char key[DOTTED_BYTES];
    const cJSON *item = tree;

    while (item != NULL) {
        size_t length = strcspn(dotted, ".");

        if (length >= sizeof key || !cJSON_IsObject(item)) {
            return NULL;
        }
        memcpy(key, dotted, length);
        key[length] = '\0';
        item = kvt_json_find(item, key);
        if (dotted[length] == '\0') {
            return item;
        }
        dotted += length + 1;
    }
    return NULL;
}

/* Each source is a sentence about something that is in the file. */
static kvt_status check_each_source(const cJSON *tree, const cJSON *sources, const char *where,
                                    struct kvt_error *err)
{
    const cJSON *source = NULL;

    cJSON_ArrayForEach(source, sources)
    {
        if (!cJSON_IsString(source) || source->valuestring[0] == '\0') {
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "the source of \"%s\" is no text: say in words where it comes from",
                            source->string);
        }
        if (is_head_key(source->string) || find_dotted(tree, source->string) == NULL) {
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "a source for \"%s\", which is no number of this file: keys here are "
                            "those of the file, members of objects with a dot",
                            source->string);
        }
    }
    return KVT_OK;
}

/* Walk the members; a source covers everything below its key, so that a table of
 * numbers from one page needs one line. */
static kvt_status check_each_number(const cJSON *tree, const cJSON *sources,
                                    const char *const *settings, size_t setting_count,
                                    const char *where, struct kvt_error *err)
{
    char dotted[DOTTED_BYTES] = "";
    struct {
        const cJSON *next;
        size_t length; /* of the dotted path of the object that holds it */
    } stack[DEPTH_MAX] = {{tree->child, 0}};
    size_t depth = 1;

    while (depth > 0) {
        const cJSON *item = stack[depth - 1].next;
        size_t length = stack[depth - 1].length;

        if (item == NULL) {
            depth--;
            continue;
        }
        stack[depth - 1].next = item->next;
        if (depth == 1 &&
            (is_head_key(item->string) || is_one_of(item->string, settings, setting_count))) {
            continue;
        }
        int written = snprintf(dotted + length, sizeof dotted - length, "%s%s",
                               length > 0 ? "." : "", item->string);
        if (written < 0 || (size_t)written >= sizeof dotted - length) {
            return kvt_fail(err, KVT_ERR_INVALID, where, "a key longer than %d bytes",
                            DOTTED_BYTES - 1);
        }
        if (kvt_json_find(sources, dotted) != NULL) {
            continue;
        }
        if (cJSON_IsObject(item) && depth < DEPTH_MAX) {
            stack[depth].next = item->child;
            stack[depth].length = length + (size_t)written;
            depth++;
        } else if (!cJSON_IsString(item)) {
            return kvt_fail(err, KVT_ERR_INVALID, where,
                            "no source for \"%s\": every number says where it comes from, under "
                            "its own key or that of an object that holds it",
                            dotted);
        }
    }
    return KVT_OK;
}

kvt_status kvt_json_check_sources(const cJSON *tree, const char *where, struct kvt_error *err)
{
    return kvt_json_check_sources_but(tree, where, NULL, 0, err);
}

kvt_status kvt_json_check_sources_but(const cJSON *tree, const char *where,
                                      const char *const *settings, size_t setting_count,
                                      struct kvt_error *err)
{
    char place[sizeof err->where];
    const cJSON *sources = NULL;
    kvt_status status = kvt_json_get_object(tree, where, "sources", true, &sources, err);

    if (status != KVT_OK) {
        return status;
    }
    (void)snprintf(place, sizeof place, "%s/sources", where);
    status = check_each_source(tree, sources, place, err);
    if (status != KVT_OK) {
        return status;
    }
    return check_each_number(tree, sources, settings, setting_count, place, err);
}
