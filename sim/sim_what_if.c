/* sim_what_if.c -- how long steps would take on another link, or shared by more ranks.
 *
 *     faster link:  the same loads, timed by a model that was given such a link
 *     one more:     of R ranks' loads each keeps R/(R+1), in whole requests; the shared part is
 *                   still that of all their queries, with weights spread over one more
 *     half load:    of each rank half, and of what they share
 *
 * Batches, misses and what waits for them stay: these are derivatives, and decide nothing. */
#include <math.h>
#include <string.h>

#include "kvt/crossing.h"
#include "sim_private.h"

/* A count of whole requests or tokens, less what others have of it. */
static uint32_t keep(uint32_t count, double share)
{
    return (uint32_t)ceil(count * share - 1e-9);
}

static struct kvt_rank_load share_load(const struct kvt_rank_load *load, double share)
{
    struct kvt_rank_load out = *load;

    if (load->requests == 0)
        return out;
    out.requests = keep(load->requests, share);
    share = (double)out.requests / load->requests;
    double *const scaled[] = {
        &out.calls,
        &out.selected_rows,
        &out.attended_layer_rows,
        &out.looked_up_rows,
        &out.missed_rows,
        &out.missed_layer_rows,
        &out.leader_layer_rows,
        &out.wire_bytes,
        &out.granules,
        &out.calls_with_misses,
        &out.extra_waves,
        &out.extra_wave_layers,
        &out.prefill_context_tokens,
        &out.ahead.rows,
        &out.ahead.layer_rows,
        &out.ahead.wire_bytes,
        &out.ahead.granules,
        &out.ahead.calls,
    };
    for (size_t i = 0; i < sizeof scaled / sizeof scaled[0]; i++)
        *scaled[i] *= share;
    out.queries = keep(load->queries, share);
    out.draft_tokens = keep(load->draft_tokens, share);
    out.prefill_tokens = keep(load->prefill_tokens, share);
    out.context_rows = (uint64_t)((double)load->context_rows * share);
    out.backup_bytes = (uint64_t)((double)load->backup_bytes * share);
    out.import_bytes = (uint64_t)((double)load->import_bytes * share);
    out.fill_bytes = (uint64_t)((double)load->fill_bytes * share);
    return out;
}

/* Every rank of the group with so much of its load. in_all: what ranks in lockstep share is still
 * of all that there is. */
static double with_share(struct kvt_sim *sim, const struct group *group, double share, bool in_all)
{
    const struct kvt_rank_load *loads = &sim->loads[group->first_rank];
    double parts[KVT_PARTS], waited_ns;
    uint32_t slowest;

    for (uint32_t r = 0; r < group->rank_count; r++)
        sim->shared_loads[r] = share_load(&loads[r], share);
    struct kvt_group_load all = sim_group_load(group, sim->shared_loads);
    if (in_all) {
        const struct kvt_group_load now = sim_group_load(group, loads);
        all.queries = now.queries;
        all.requests = now.requests;
        all.draft_tokens = now.draft_tokens;
        all.ranks = now.ranks + 1;
    }
    return sim_predict_of(group, &all, sim->shared_loads, parts, &waited_ns, &slowest);
}

static double with_more_ranks(struct kvt_sim *sim, const struct group *group)
{
    double ranks = sim->rank_count;
    struct group larger = *group;

    if (larger.if_states[KVT_IF_MORE_RANKS])
        larger.timing_state = larger.if_states[KVT_IF_MORE_RANKS];
    return with_share(sim, &larger, ranks / (ranks + 1),
                      sim->scenario->pools[group->pool].lockstep);
}

/* Of rows that are missed, waited for or not; as the slowest rank has it. */
static double link_busy_ns(const struct kvt_sim *sim, const struct group *group)
{
    double most_ns = 0;

    for (uint32_t r = group->first_rank; r < group->first_rank + group->rank_count; r++) {
        const struct kvt_rank_load *load = &sim->loads[r];
        if (load->requests == 0)
            continue;
        double busy_ns = kvt_link_busy_ns(group->timing, group->timing_state, load);
        if (group->link_factor)
            busy_ns /= group->link_factor[r - group->first_rank];
        most_ns = busy_ns > most_ns ? busy_ns : most_ns;
    }
    return most_ns;
}

void sim_book_what_ifs(struct kvt_sim *sim, const struct group *group, uint32_t requests,
                       kvt_ns step_ns)
{
    struct kvt_rank_load *loads = &sim->loads[group->first_rank];
    struct kvt_tally *tally = &sim->tally;

    tally->token_ns += requests * (double)step_ns;
    tally->link_busy_ns += link_busy_ns(sim, group);
    tally->if_ns[KVT_IF_MORE_RANKS] += requests * with_more_ranks(sim, group);
    tally->if_ns[KVT_IF_HALF_LOAD] += requests * with_share(sim, group, 0.5, false);
    if (group->if_states[KVT_IF_FASTER_LINK]) {
        struct group faster = *group;
        double parts[KVT_PARTS], waited_ns;
        faster.timing_state = group->if_states[KVT_IF_FASTER_LINK];
        tally->if_ns[KVT_IF_FASTER_LINK] +=
            requests * sim_predict(&faster, loads, parts, NULL, &waited_ns);
    }
}
