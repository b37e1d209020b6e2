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

/* Moves the line to the middle of its places. */
static void centre(struct kvt_wait_queue *queue)
{
    struct kvt_live **items = queue->items - queue->gap;
    struct kvt_scheduling_request *views = queue->views - queue->gap;
    uint32_t gap = (queue->capacity - queue->count) / 2;

    memmove(items + gap, queue->items, queue->count * sizeof(struct kvt_live *));
    memmove(views + gap, queue->views, queue->count * sizeof *views);
    queue->items = items + gap;
    queue->views = views + gap;
    queue->gap = gap;
}

/* To the middle of twice as many places. */
static kvt_status grow(struct kvt_wait_queue *queue, struct kvt_error *err)
{
    uint32_t capacity = queue->capacity > 0 ? 2 * queue->capacity : CAPACITY_FIRST;
    uint32_t count = queue->count, gap = (capacity - count) / 2;
    struct kvt_live **items = malloc(capacity * sizeof(struct kvt_live *));
    struct kvt_scheduling_request *views = malloc(capacity * sizeof *views);

    if (!items || !views) {
        free(items);
        free(views);
        return kvt_fail_nomem(err, "a queue of requests");
    }
    if (count > 0) {
        memcpy(items + gap, queue->items, count * sizeof(struct kvt_live *));
        memcpy(views + gap, queue->views, count * sizeof *views);
    }
    wait_queue_fini(queue);
    *queue = (struct kvt_wait_queue){.items = items + gap,
                                     .views = views + gap,
                                     .count = count,
                                     .gap = gap,
                                     .capacity = capacity};
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
        queue->gap + queue->count < queue->capacity ? KVT_OK : make_room(queue, err);

    if (status != KVT_OK)
        return status;
    queue->items[queue->count] = live;
    queue->views[queue->count++] = wait_view_of(live);
    return KVT_OK;
}

kvt_status wait_queue_push_first(struct kvt_wait_queue *queue, struct kvt_live *live,
                                 struct kvt_error *err)
{
    kvt_status status = queue->gap > 0 ? KVT_OK : make_room(queue, err);

    if (status != KVT_OK)
        return status;
    queue->gap--;
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
    queue->gap++;
    queue->items++;
    queue->views++;
}

void wait_queue_fini(struct kvt_wait_queue *queue)
{
    if (queue->capacity > 0) {
        free(queue->items - queue->gap);
        free(queue->views - queue->gap);
    }
    *queue = (struct kvt_wait_queue){0};
}
