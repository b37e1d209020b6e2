/* kvt/event.h -- the pending event set, in one total order. */
#ifndef KVT_EVENT_H
#define KVT_EVENT_H

#include "kvt/error.h"

KVT_BEGIN_DECLS

/* Events at one instant run in this order: what finishes frees room before
 * what arrives asks for it, and what observes comes last. */
enum kvt_phase {
    KVT_PHASE_COMPLETE = 0, /* steps, imports, transfers */
    KVT_PHASE_ARRIVE = 1,   /* requests */
    KVT_PHASE_SCHEDULE = 2, /* batch formation */
    KVT_PHASE_OBSERVE = 3,  /* metric samples */
    KVT_PHASE_STOP = 4
};

/* Ordered by (time_ns, phase, seq). seq is the queue's own counter, so that
 * no two events ever compare equal. */
struct kvt_event {
    kvt_ns time_ns;
    uint16_t phase; /* enum kvt_phase */
    uint16_t kind;  /* meaning belongs to whoever scheduled it */
    uint32_t target;
    uint64_t payload;
    uint64_t seq; /* set by kvt_eventq_push() */
};

struct kvt_eventq;

/* NULL when memory is short. capacity_hint events fit without growing. */
struct kvt_eventq *kvt_eventq_new(size_t capacity_hint);
void kvt_eventq_free(struct kvt_eventq *queue);

/* Copies *event. Refuses (KVT_ERR_INVALID) a time before the last one popped:
 * the past is closed. On failure the queue is unchanged. */
KVT_CHECKED kvt_status kvt_eventq_push(struct kvt_eventq *queue, const struct kvt_event *event,
                                       struct kvt_error *err);
bool kvt_eventq_pop(struct kvt_eventq *queue, struct kvt_event *out); /* false when empty */
bool kvt_eventq_peek(const struct kvt_eventq *queue, struct kvt_event *out);
size_t kvt_eventq_length(const struct kvt_eventq *queue);

/* How many pops had the same time and phase as the pop before them. */
uint64_t kvt_eventq_ties(const struct kvt_eventq *queue);

/* Walks the whole structure; for tests and debug builds. */
bool kvt_eventq_is_sane(const struct kvt_eventq *queue);

KVT_END_DECLS
#endif
