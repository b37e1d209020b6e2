/* live_list.c -- ordered lists of requests under way. */
#include "live_list.h"

#include <stdlib.h>
#include <string.h>

kvt_status live_list_insert(struct kvt_live_list *list, uint32_t at, struct kvt_live *live,
                            struct kvt_error *err)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? list->capacity * 2 : 64;
        struct kvt_live **items = realloc(list->items, capacity * sizeof(struct kvt_live *));
        if (!items)
            return kvt_fail_nomem(err, "a list of requests");
        list->items = items;
        list->capacity = capacity;
    }
    memmove(list->items + at + 1, list->items + at, (list->count - at) * sizeof(struct kvt_live *));
    list->items[at] = live;
    list->count++;
    return KVT_OK;
}

void live_list_remove_at(struct kvt_live_list *list, uint32_t at)
{
    list->count--;
    memmove(list->items + at, list->items + at + 1, (list->count - at) * sizeof(struct kvt_live *));
}

uint32_t live_list_find(const struct kvt_live_list *list, const struct kvt_live *live)
{
    uint32_t at = 0;

    while (at < list->count && list->items[at] != live)
        at++;
    return at;
}
