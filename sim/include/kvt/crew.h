/* kvt/crew.h -- threads that stand by for work that falls into independent tasks. */
#ifndef KVT_CREW_H
#define KVT_CREW_H

#include "kvt/error.h"

KVT_BEGIN_DECLS

struct kvt_crew;

/* The caller and up to threads - 1 others; a thread that cannot be had is done without. */
KVT_CHECKED kvt_status kvt_crew_new(unsigned threads, struct kvt_crew **out, struct kvt_error *err);
void kvt_crew_free(struct kvt_crew *crew); /* takes NULL */

/* The caller included: workers are numbered [0, size). */
unsigned kvt_crew_size(const struct kvt_crew *crew);

/* work(context, task, worker) once for each task in [0, task_count), in no certain order, and
 * at no time twice for one worker. Returns when all are done. Not for use by two threads at once.
 */
void kvt_crew_run(struct kvt_crew *crew, uint32_t task_count,
                  void (*work)(void *context, uint32_t task, unsigned worker), void *context);

KVT_END_DECLS
#endif
