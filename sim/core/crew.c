/* crew.c -- threads that stand by for work that falls into independent tasks. */
#include "kvt/crew.h"

#include <pthread.h>
#include <stdlib.h>

struct member {
    struct kvt_crew *crew;
    unsigned worker;
    pthread_t thread;
};

struct kvt_crew {
    pthread_mutex_t lock;
    pthread_cond_t called; /* there is work, or the crew is dismissed */
    pthread_cond_t done;   /* a member has run out of tasks */
    uint64_t call;         /* number of the work in hand */
    unsigned busy;         /* members still at it */
    bool dismissed;
    uint32_t task_count, next_task;
    void (*work)(void *context, uint32_t task, unsigned worker);
    void *context;
    unsigned size;           /* the caller included */
    struct member members[]; /* [size - 1] */
};

/* With the lock held; lets go of it for each task. */
static void do_tasks(struct kvt_crew *crew, unsigned worker)
{
    while (crew->next_task < crew->task_count) {
        uint32_t task = crew->next_task++;
        pthread_mutex_unlock(&crew->lock);
        crew->work(crew->context, task, worker);
        pthread_mutex_lock(&crew->lock);
    }
}

static void *stand_by(void *argument)
{
    const struct member *member = argument;
    struct kvt_crew *crew = member->crew;
    uint64_t seen = 0;

    pthread_mutex_lock(&crew->lock);
    for (;;) {
        while (crew->call == seen && !crew->dismissed)
            pthread_cond_wait(&crew->called, &crew->lock);
        if (crew->dismissed)
            break;
        seen = crew->call;
        do_tasks(crew, member->worker);
        if (--crew->busy == 0)
            pthread_cond_signal(&crew->done);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

kvt_status kvt_crew_new(unsigned threads, struct kvt_crew **out, struct kvt_error *err)
{
    unsigned others = threads > 0 ? threads - 1 : 0;
    struct kvt_crew *crew = calloc(1, sizeof *crew + others * sizeof crew->members[0]);

    if (!crew || pthread_mutex_init(&crew->lock, NULL) != 0)
        goto no_crew;
    if (pthread_cond_init(&crew->called, NULL) != 0)
        goto no_call;
    if (pthread_cond_init(&crew->done, NULL) != 0)
        goto no_end;
    crew->size = 1;
    while (crew->size <= others) {
        struct member *member = &crew->members[crew->size - 1];
        *member = (struct member){.crew = crew, .worker = crew->size};
        if (pthread_create(&member->thread, NULL, stand_by, member) != 0)
            break;
        crew->size++;
    }
    *out = crew;
    return KVT_OK;

no_end:
    pthread_cond_destroy(&crew->called);
no_call:
    pthread_mutex_destroy(&crew->lock);
no_crew:
    free(crew);
    return kvt_fail_nomem(err, "threads");
}

void kvt_crew_free(struct kvt_crew *crew)
{
    if (!crew)
        return;
    pthread_mutex_lock(&crew->lock);
    crew->dismissed = true;
    pthread_cond_broadcast(&crew->called);
    pthread_mutex_unlock(&crew->lock);
    for (unsigned i = 0; i + 1 < crew->size; i++)
        (void)pthread_join(crew->members[i].thread, NULL);
    pthread_cond_destroy(&crew->called);
    pthread_cond_destroy(&crew->done);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}

unsigned kvt_crew_size(const struct kvt_crew *crew)
{
    return crew->size;
}

void kvt_crew_run(struct kvt_crew *crew, uint32_t task_count,
                  void (*work)(void *context, uint32_t task, unsigned worker), void *context)
{
    pthread_mutex_lock(&crew->lock);
    crew->task_count = task_count;
    crew->next_task = 0;
    crew->work = work;
    crew->context = context;
    crew->busy = task_count > 1 ? crew->size - 1 : 0;
    if (crew->busy > 0) {
        crew->call++;
        pthread_cond_broadcast(&crew->called);
    }
    do_tasks(crew, 0);
    while (crew->busy > 0)
        pthread_cond_wait(&crew->done, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}
