/* turns.h -- private to workloads/arrival: requests of a trace that wait for one before them. */
#ifndef KVT_ARRIVAL_TURNS_H
#define KVT_ARRIVAL_TURNS_H

#include "kvt/workload.h"

#define KVT_TURNS_NO_TAG UINT64_MAX

struct kvt_turns;

struct kvt_turns *kvt_turns_new(void); /* NULL when memory is short */
void kvt_turns_free(struct kvt_turns *turns);

/* A request of a session whose own time has come. *is_held: it is kept until its time, spec and
 * page keys copied; otherwise it goes out now, with the tag set that it is to end by. */
KVT_CHECKED kvt_status kvt_turns_offer(struct kvt_turns *turns, struct kvt_request_spec *spec,
                                       bool *is_held, struct kvt_error *err);

/* When the first of those held may go out, as far as that is known; KVT_NS_NEVER: none, before one
 * under way has ended. */
kvt_ns kvt_turns_due_ns(const struct kvt_turns *turns);
/* Takes that one, which there must be; its arrival is when it was due. Its page keys are borrowed
 * until the next call of this function. */
void kvt_turns_take(struct kvt_turns *turns, struct kvt_request_spec *spec);

/* The request of that tag has ended. */
void kvt_turns_end(struct kvt_turns *turns, uint64_t tag, kvt_ns now_ns);
uint64_t kvt_turns_held(const struct kvt_turns *turns);

#endif
