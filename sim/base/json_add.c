/* json_add.c -- members of a tree that is being made. */
#include <math.h>

#include "kvt/json.h"

bool kvt_json_add(cJSON *object, const char *key, cJSON *item)
{
    if (item && cJSON_AddItemToObject(object, key, item))
        return true;
    cJSON_Delete(item);
    return false;
}

bool kvt_json_add_number(cJSON *object, const char *key, double value)
{
    return kvt_json_add(object, key,
                        isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull());
}

bool kvt_json_add_text(cJSON *object, const char *key, const char *text)
{
    return kvt_json_add(object, key, text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

bool kvt_json_add_bool(cJSON *object, const char *key, bool value)
{
    return kvt_json_add(object, key, cJSON_CreateBool(value));
}

cJSON *kvt_json_add_object(cJSON *object, const char *key)
{
    cJSON *item = cJSON_CreateObject();
    return kvt_json_add(object, key, item) ? item : NULL;
}

cJSON *kvt_json_add_element(cJSON *array)
{
    cJSON *item = cJSON_CreateObject();
    if (item && cJSON_AddItemToArray(array, item))
        return item;
    cJSON_Delete(item);
    return NULL;
}
