/* survival.c -- a binary heap of the requests' next drafts. */
#include "survival.h"

static bool is_before(const struct survivor *a, const struct survivor *b)
{
    if (a->survival != b->survival)
        return a->survival > b->survival;
    return a->request < b->request;
}

static void sift_down(struct survival_heap *heap, uint32_t at)
{
    struct survivor moved = heap->items[at];
    for (;;) {
        uint64_t child = 2 * (uint64_t)at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && is_before(&heap->items[child + 1], &heap->items[child]))
            child++;
        if (!is_before(&heap->items[child], &moved))
            break;
        heap->items[at] = heap->items[child];
        at = (uint32_t)child;
    }
    heap->items[at] = moved;
}

void survival_heap_order(struct survival_heap *heap)
{
    for (uint32_t i = heap->count / 2; i > 0; i--)
        sift_down(heap, i - 1);
}

void survival_heap_replace(struct survival_heap *heap, double next_survival)
{
    heap->items[0].survival = next_survival;
    heap->items[0].position++;
    sift_down(heap, 0);
}

void survival_heap_remove(struct survival_heap *heap)
{
    heap->items[0] = heap->items[--heap->count];
    if (heap->count > 0)
        sift_down(heap, 0);
}
