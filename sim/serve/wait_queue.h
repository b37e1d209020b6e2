/* wait_queue.h -- requests that wait to be admitted, and what a scheduling policy sees of them. */
#ifndef KVT_WAIT_QUEUE_H
#define KVT_WAIT_QUEUE_H

#include "kvt/rank.h"

/* As a scheduling policy sees it; nothing of it changes while it waits. */
static inline struct kvt_scheduling_request wait_view_of(const struct kvt_live *live)
{
    return (struct kvt_scheduling_request){.id = live->id,
                                           .arrival_ns = live->arrival_ns,
                                           .input_tokens = live->input_tokens,
                                           .generated_tokens = live->generated_tokens,
                                           .priority = live->priority};
}

/* Constant time, but for moving the queue now and then. */
KVT_CHECKED kvt_status wait_queue_push_last(struct kvt_wait_queue *queue, struct kvt_live *live,
                                            struct kvt_error *err);
KVT_CHECKED kvt_status wait_queue_push_first(struct kvt_wait_queue *queue, struct kvt_live *live,
                                             struct kvt_error *err);
/* Moves what lies on the nearer side; nothing for the first and the last. */
void wait_queue_remove_at(struct kvt_wait_queue *queue, uint32_t at);
void wait_queue_fini(struct kvt_wait_queue *queue); /* takes one that is zeroed */

#endif
