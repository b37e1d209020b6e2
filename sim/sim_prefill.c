/* sim_prefill.c -- the prefill pool: servers, and a queue before them of which the most urgent goes
 * first. */
#include <stdlib.h>

#include "kvt/clock.h"
#include "sim_private.h"

/* How long the prefill pool computes tokens [from, to) of a prompt. */
static kvt_status prefill_ns(const struct kvt_sim *sim, uint32_t from_tokens, uint32_t to_tokens,
                             kvt_ns *out, struct kvt_error *err)
{
    double seconds = kvt_prefill_seconds(&sim->scenario->prefill, from_tokens, to_tokens);

    if (kvt_ns_from_seconds(seconds, out))
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, "cluster.prefill.tokens_per_s",
                    "prefill of %u tokens takes %g s, which is past the end of time",
                    to_tokens - from_tokens, seconds);
}

static void tell_prefill(const struct kvt_sim *sim, uint32_t request, uint32_t tokens,
                         kvt_ns duration_ns)
{
    const struct kvt_observer *observer = sim->options.observer;
    const struct kvt_observed_prefill prefill = {.request = request,
                                                 .tokens = tokens,
                                                 .from_ns = sim->now_ns,
                                                 .to_ns = sim_after(sim, duration_ns)};

    if (observer && observer->on_prefill)
        observer->on_prefill(observer->context, &prefill);
}

/* The pool is told what of the prompt the rank has as it begins, and computes the rest; or, when
 * pages that it was told of have been reclaimed since, these. */
static kvt_status begin_prefill(struct kvt_sim *sim, struct kvt_live *live, struct kvt_error *err)
{
    const struct kvt_rank *rank = &sim->ranks[sim->records[live->id].rank];
    uint32_t found_tokens = kvt_rank_prefix_pages(rank, live) * KVT_PAGE_ROWS;
    uint32_t end_tokens =
        live->counted_pages > 0 ? live->counted_pages * KVT_PAGE_ROWS : kvt_live_context(live);
    kvt_ns duration_ns;

    found_tokens = found_tokens < end_tokens ? found_tokens : end_tokens;
    kvt_status status = prefill_ns(sim, found_tokens, end_tokens, &duration_ns, err);
    if (status != KVT_OK)
        return status;
    live->counted_pages = found_tokens / KVT_PAGE_ROWS;
    tell_prefill(sim, live->id, end_tokens - found_tokens, duration_ns);
    sim->prefill.busy++;
    live->prefill_turn = ++sim->prefill.turns;
    sim_wait(sim, live, KVT_WAIT_PREFILL);
    sim->records[live->id].status = KVT_REQUEST_PREFILLING;
    return sim_push(sim, sim_after(sim, duration_ns), KVT_PHASE_COMPLETE, EVENT_PREFILL_DONE, 0,
                    sim_awaited(live), err);
}

/* Of the most urgent that wait for a server, the first; those behind it move up. */
static struct kvt_live *take_urgent(struct prefill *prefill)
{
    size_t first = 0;
    struct kvt_live **queue = prefill->queue;

    for (size_t i = 1; i < prefill->count; i++) {
        uint32_t best = queue[(prefill->head + first) % prefill->capacity]->priority;
        if (best == 0)
            break;
        if (queue[(prefill->head + i) % prefill->capacity]->priority < best)
            first = i;
    }
    struct kvt_live *taken = queue[(prefill->head + first) % prefill->capacity];
    for (size_t i = first; i > 0; i--)
        queue[(prefill->head + i) % prefill->capacity] =
            queue[(prefill->head + i - 1) % prefill->capacity];
    prefill->head = (prefill->head + 1) % prefill->capacity;
    prefill->count--;
    return taken;
}

kvt_status sim_begin_prefills(struct kvt_sim *sim, struct kvt_error *err)
{
    struct prefill *prefill = &sim->prefill;
    kvt_status status = KVT_OK;

    while (status == KVT_OK && prefill->count > 0 &&
           prefill->busy < sim->scenario->prefill.servers - prefill->failed)
        status = begin_prefill(sim, take_urgent(prefill), err);
    return status;
}

void sim_leave_prefill(struct kvt_sim *sim, const struct kvt_live *live)
{
    sim->prefill.busy--;
    sim->prefilling--;
    sim->prefilling_for[sim->records[live->id].rank]--;
}

kvt_status sim_queue_prefill(struct kvt_sim *sim, struct kvt_live *live, struct kvt_error *err)
{
    struct prefill *prefill = &sim->prefill;

    sim->prefilling++;
    sim->prefilling_for[sim->records[live->id].rank]++;
    sim_wait(sim, live, KVT_WAIT_PREFILL_QUEUE);
    if (prefill->busy < sim->scenario->prefill.servers - prefill->failed)
        return begin_prefill(sim, live, err);
    if (prefill->count == prefill->capacity) {
        size_t capacity = prefill->capacity ? prefill->capacity * 2 : 256;
        struct kvt_live **queue = malloc(capacity * sizeof(struct kvt_live *));
        if (!queue)
            return kvt_fail_nomem(err, "the prefill queue");
        for (size_t i = 0; i < prefill->count; i++)
            queue[i] = prefill->queue[(prefill->head + i) % prefill->capacity];
        free(prefill->queue);
        prefill->queue = queue;
        prefill->head = 0;
        prefill->capacity = capacity;
    }
    if (live->fault > 0) { /* it was interrupted */
        prefill->head = (prefill->head + prefill->capacity - 1) % prefill->capacity;
        prefill->queue[prefill->head] = live;
    } else {
        prefill->queue[(prefill->head + prefill->count) % prefill->capacity] = live;
    }
    prefill->count++;
    return KVT_OK;
}
