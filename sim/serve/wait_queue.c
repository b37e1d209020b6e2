/* wait_queue.c -- a line of requests with room at both ends.
 *
 *     push:   into the room at that end; where there is none and half of the places are unused,
 *             the line moves to their middle; else there will be twice as many
 *     remove: the shorter side closes up
 *
 * Whoever was put aside comes first, who arrives last, and mostly the first one leaves. Views lie
 * beside the requests, so that with thousands waiting a boundary need not list them anew. */
#include "wait_queue.h"

#include <stdlib.h>
#include <string.h>

enum {
    CAPACITY_FIRST = 64
};

static size_t gap_of(const struct kvt_wait_queue *queue)
{
    return queue->capacity > 0 ? (size_t)(queue->items - queue->item_places) : 0;
}

/* The line into the middle of the places that it has, or will have. */
static void centre(struct kvt_wait_queue *queue)
{
    size_t gap = (queue->capacity - queue->count) / 2;

    if (queue->count > 0) {
        memmove(queue->item_places + gap, queue->items, queue->count * sizeof(struct kvt_live *));
        memmove(queue->view_places + gap, queue->views, queue->count * sizeof *queue->views);
    }
    queue->items = queue->item_places + gap;
    queue->views = queue->view_places + gap;
}

static kvt_status grow(struct kvt_wait_queue *queue, struct kvt_error *err)
{
    struct kvt_live **old_items = queue->item_places;
    struct kvt_scheduling_request *old_views = queue->view_places;
    size_t capacity = queue->capacity > 0 ? 2 * (size_t)queue->capacity : CAPACITY_FIRST;
    struct kvt_live **items = malloc(capacity * sizeof(struct kvt_live *));
    struct kvt_scheduling_request *views = malloc(capacity * sizeof *views);

    if (!items || !views) {
        free(items);
        free(views);
        return kvt_fail_nomem(err, "a queue of requests");
    }
    queue->item_places = items;
    queue->view_places = views;
    queue->capacity = (uint32_t)capacity;
    centre(queue);
    free(old_items);
    free(old_views);
    return KVT_OK;
}

static kvt_status make_room(struct kvt_wait_queue *queue, struct kvt_error *err)
{
    if (queue->count >= queue->capacity / 2)
        return grow(queue, err);
    centre(queue);
    return KVT_OK;
}

kvt_status wait_queue_push_last(struct kvt_wait_queue *queue, struct kvt_live *live,
                                struct kvt_error *err)
{
    kvt_status status =
        gap_of(queue) + queue->count < queue->capacity ? KVT_OK : make_room(queue, err);

    if (status != KVT_OK)
        return status;
    queue->items[queue->count] = live;
    queue->views[queue->count++] = wait_view_of(live);
    return KVT_OK;
}

kvt_status wait_queue_push_first(struct kvt_wait_queue *queue, struct kvt_live *live,
                                 struct kvt_error *err)
{
    kvt_status status = gap_of(queue) > 0 ? KVT_OK : make_room(queue, err);

    if (status != KVT_OK)
        return status;
    *--queue->items = live;
    *--queue->views = wait_view_of(live);
    queue->count++;
    return KVT_OK;
}

void wait_queue_remove_at(struct kvt_wait_queue *queue, uint32_t at)
{
    uint32_t behind = --queue->count - at;

    if (at > behind) {
        memmove(queue->items + at, queue->items + at + 1, behind * sizeof(struct kvt_live *));
        memmove(queue->views + at, queue->views + at + 1, behind * sizeof *queue->views);
        return;
    }
    memmove(queue->items + 1, queue->items, at * sizeof(struct kvt_live *));
    memmove(queue->views + 1, queue->views, at * sizeof *queue->views);
    queue->items++;
    queue->views++;
}

void wait_queue_fini(struct kvt_wait_queue *queue)
{
    free(queue->item_places);
    free(queue->view_places);
    *queue = (struct kvt_wait_queue){0};
}
