/* json_head.c -- what a data file begins with. */
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
    return status;
}
