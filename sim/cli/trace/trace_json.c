/* trace_json.c -- answers of kvtide trace as JSON. */
#include "trace_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kvt/json.h"

bool trace_add_number(cJSON *object, const char *name, double value)
{
    if (!isfinite(value))
        return cJSON_AddNullToObject(object, name) != NULL;
    return cJSON_AddNumberToObject(object, name, value) != NULL;
}

kvt_status trace_print_json(const void *answers, size_t answer_bytes, size_t count,
                            cJSON *(*tree_of)(const void *answer), struct kvt_error *err)
{
    cJSON *tree = count == 1 ? tree_of(answers) : cJSON_CreateArray();
    bool is_whole = tree != NULL;
    for (size_t i = 0; count > 1 && is_whole && i < count; i++) {
        cJSON *item = tree_of((const char *)answers + i * answer_bytes);
        is_whole = item != NULL && cJSON_AddItemToArray(tree, item);
    }
    char *text = is_whole ? kvt_json_print(tree) : NULL;
    cJSON_Delete(tree);
    if (text == NULL)
        return kvt_fail_nomem(err, "trace stats --json");
    puts(text);
    free(text);
    return KVT_OK;
}
