/* eventq.c -- the pending event set: an implicit heap of four children a node.
 *
 *     push: append; while earlier than the parent, move the parent down
 *     pop:  take the root; sink the last one from there, the earliest of four
 *           children moving up each time
 *
 * Four children halve the depth of a binary heap, and the array is placed so
 * that the four of a node (32 bytes each) are two whole cache lines. A. LaMarca,
 * R. Ladner, "The Influence of Caches on the Performance of Heaps", JEA 1, 1996. */
#include "kvt/event.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    ARITY = 4,
    CACHE_LINE_BYTES = 64,
    FIRST_CAPACITY = 64,
    LEAD = ARITY - 1, /* unused places before the root: children 4i+1.. then start at 4(i+1) */
};

_Static_assert(sizeof(struct kvt_event) == 32, "four events must be two cache lines");

struct kvt_eventq {
    struct kvt_event *places; /* [LEAD + capacity]; the heap begins at places[LEAD] */
    size_t length;
    size_t capacity;
    uint64_t next_seq;
    uint64_t ties;
    kvt_ns now_ns; /* of the last pop; 0 before it */
    uint16_t now_phase;
    bool has_popped;
};

static bool is_before(const struct kvt_event *a, const struct kvt_event *b)
{
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns;
    if (a->phase != b->phase)
        return a->phase < b->phase;
    return a->seq < b->seq;
}

/* NULL when memory is short or the size does not fit in a size_t. */
static struct kvt_event *places_new(size_t capacity)
{
    if (capacity > SIZE_MAX / sizeof(struct kvt_event) - LEAD - ARITY)
        return NULL;
    size_t size_bytes = (LEAD + capacity) * sizeof(struct kvt_event);
    size_t whole_lines = (size_bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES;
    return aligned_alloc(CACHE_LINE_BYTES, whole_lines * CACHE_LINE_BYTES);
}

struct kvt_eventq *kvt_eventq_new(size_t capacity_hint)
{
    struct kvt_eventq *queue = calloc(1, sizeof *queue);
    if (queue == NULL)
        return NULL;
    queue->capacity = capacity_hint > 0 ? capacity_hint : FIRST_CAPACITY;
    queue->places = places_new(queue->capacity);
    if (queue->places == NULL) {
        free(queue);
        return NULL;
    }
    return queue;
}

void kvt_eventq_free(struct kvt_eventq *queue)
{
    if (queue == NULL)
        return;
    free(queue->places);
    free(queue);
}

static kvt_status grow(struct kvt_eventq *queue, struct kvt_error *err)
{
    struct kvt_event *places = NULL;
    if (queue->capacity <= SIZE_MAX / 2)
        places = places_new(queue->capacity * 2);
    if (places == NULL)
        return kvt_fail_nomem(err, "the event queue");
    memcpy(places + LEAD, queue->places + LEAD, queue->length * sizeof *places);
    free(queue->places);
    queue->places = places;
    queue->capacity *= 2;
    return KVT_OK;
}

kvt_status kvt_eventq_push(struct kvt_eventq *queue, const struct kvt_event *event,
                           struct kvt_error *err)
{
    if (event->time_ns < queue->now_ns) {
        return kvt_fail(err, KVT_ERR_INVALID, "event queue",
                        "an event at %" PRId64 " ns is in the past; the queue is at %" PRId64
                        " ns, and events come no earlier",
                        event->time_ns, queue->now_ns);
    }
    if (event->phase > KVT_PHASE_STOP) {
        return kvt_fail(err, KVT_ERR_INVALID, "event queue",
                        "phase %u does not exist; the last one is %u", event->phase,
                        (unsigned)KVT_PHASE_STOP);
    }
    if (queue->length == queue->capacity) {
        kvt_status status = grow(queue, err);
        if (status != KVT_OK)
            return status;
    }

    struct kvt_event added = *event;
    added.seq = queue->next_seq++;

    struct kvt_event *heap = queue->places + LEAD;
    size_t hole = queue->length++;
    while (hole > 0) {
        size_t parent = (hole - 1) / ARITY;
        if (!is_before(&added, &heap[parent]))
            break;
        heap[hole] = heap[parent];
        hole = parent;
    }
    heap[hole] = added;
    return KVT_OK;
}

/* Fills the root's hole with `moved`, the heap having `length` events by now. */
static void sink(struct kvt_event *heap, size_t length, const struct kvt_event *moved)
{
    size_t hole = 0;
    for (;;) {
        size_t first = hole * ARITY + 1;
        if (first >= length)
            break;
        size_t end = length - first < ARITY ? length : first + ARITY;
        size_t earliest = first;
        for (size_t child = first + 1; child < end; child++) {
            if (is_before(&heap[child], &heap[earliest]))
                earliest = child;
        }
        if (!is_before(&heap[earliest], moved))
            break;
        heap[hole] = heap[earliest];
        hole = earliest;
    }
    heap[hole] = *moved;
}

bool kvt_eventq_pop(struct kvt_eventq *queue, struct kvt_event *out)
{
    if (queue->length == 0)
        return false;
    struct kvt_event *heap = queue->places + LEAD;
    *out = heap[0];
    queue->length--;
    if (queue->length > 0) {
        const struct kvt_event last = heap[queue->length];
        sink(heap, queue->length, &last);
    }

    if (queue->has_popped && out->time_ns == queue->now_ns && out->phase == queue->now_phase)
        queue->ties++;
    queue->has_popped = true;
    queue->now_ns = out->time_ns;
    queue->now_phase = out->phase;
    return true;
}

bool kvt_eventq_peek(const struct kvt_eventq *queue, struct kvt_event *out)
{
    if (queue->length == 0)
        return false;
    *out = queue->places[LEAD];
    return true;
}

size_t kvt_eventq_length(const struct kvt_eventq *queue)
{
    return queue->length;
}

uint64_t kvt_eventq_ties(const struct kvt_eventq *queue)
{
    return queue->ties;
}

bool kvt_eventq_is_sane(const struct kvt_eventq *queue)
{
    if (queue->length > queue->capacity)
        return false;
    const struct kvt_event *heap = queue->places + LEAD;
    for (size_t i = 0; i < queue->length; i++) {
        if (heap[i].time_ns < queue->now_ns || heap[i].phase > KVT_PHASE_STOP ||
            heap[i].seq >= queue->next_seq)
            return false;
        if (i > 0 && !is_before(&heap[(i - 1) / ARITY], &heap[i]))
            return false;
    }
    return true;
}
