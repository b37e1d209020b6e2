/* json_head.c -- what a data file begins with, and where its numbers come from. */
#include "kvt/json.h"

#include <stdio.h>
#include <string.h>

static kvt_status check_filled_text(const cJSON *tree, const char *where, const char *key,
                                    struct kvt_error *err)
{
    const char *text = NULL;
    kvt_status status = kvt_json_get_text(tree, where, key, true, &text, err);
    if (status == KVT_OK && text[0] == '\0')
        return kvt_fail(err, KVT_ERR_INVALID, where, "%s is empty; expected a text", key);
    return status;
}

/* Whether `dotted` names a member of the tree, or one of an object that is. */
static bool names_member(const cJSON *tree, const char *dotted)
{
    char key[128];
    size_t length = strcspn(dotted, ".");
    if (length >= sizeof key)
        return false;
    memcpy(key, dotted, length);
    key[length] = '\0';
    const cJSON *member = kvt_json_find(tree, key);
    if (member == NULL || dotted[length] == '\0')
        return member != NULL;
    return kvt_json_find(member, dotted + length + 1) != NULL;
}

kvt_status kvt_json_check_head(const cJSON *tree, const char *where, const char *schema,
                               struct kvt_error *err)
{
    const char *found = NULL;
    kvt_status status = kvt_json_get_text(tree, where, "schema", true, &found, err);
    if (status == KVT_OK && strcmp(found, schema) != 0)
        return kvt_fail(err, KVT_ERR_INVALID, where, "schema is \"%s\"; expected \"%s\"", found,
                        schema);
    if (status == KVT_OK)
        status = check_filled_text(tree, where, "name", err);
    if (status == KVT_OK)
        status = check_filled_text(tree, where, "summary", err);
    const cJSON *sources = NULL;
    if (status == KVT_OK)
        status = kvt_json_get_object(tree, where, "sources", true, &sources, err);
    if (status != KVT_OK)
        return status;
    if (sources->child == NULL)
        return kvt_fail(err, KVT_ERR_INVALID, where,
                        "sources is empty: say in words where the numbers come from");

    char place[sizeof err->where];
    (void)snprintf(place, sizeof place, "%s/sources", where);
    const cJSON *source = NULL;
    cJSON_ArrayForEach(source, sources)
    {
        if (!names_member(tree, source->string))
            return kvt_fail(err, KVT_ERR_INVALID, place,
                            "a source for \"%s\", which this file has not: keys here are those of "
                            "the file, members of objects with a dot",
                            source->string);
        status = check_filled_text(sources, place, source->string, err);
        if (status != KVT_OK)
            return status;
    }
    return KVT_OK;
}
