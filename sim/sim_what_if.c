/* sim_what_if.c -- how long steps would take on another link, or shared by more ranks.
 *
 *     faster link:  the same loads, timed by a model that was given such a link
 *     one more:     of R ranks' loads each keeps R/(R+1), in whole requests; the shared part is
 *                   still that of all their queries, and weights are spread as before
 *
 * Batches, misses and what waits for them stay: these are derivatives, and decide nothing. */
#include <math.h>
#include <string.h>

#include "kvt/crossing.h"
#include "sim_private.h"

/* A count of whole requests or tokens, less its share. */
static uint32_t keep(uint32_t count, double share)
{
    return (uint32_t)ceil(count * share - 1e-9);
}

static struct kvt_rank_load share_load(const struct kvt_rank_load *load, uint32_t ranks)
{
    struct kvt_rank_load out = *load;

    if (load->requests == 0)
        return out;
    out.requests = keep(load->requests, (double)ranks / (ranks + 1.0));
    double share = (double)out.requests / load->requests;
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

static double with_more_ranks(struct kvt_sim *sim, const struct group *group)
{
    const struct kvt_rank_load *loads = &sim->loads[group->first_rank];
    struct kvt_group_load all = sim_group_load(group, loads);
    double parts[KVT_PARTS], waited_ns;
    uint32_t slowest, queries = 0, drafts = 0, requests = 0;

    all.queries_max = 0;
    for (uint32_t r = 0; r < group->rank_count; r++) {
        struct kvt_rank_load *load = &sim->shared_loads[r];
        *load = share_load(&loads[r], sim->rank_count);
        all.queries_max = load->queries > all.queries_max ? load->queries : all.queries_max;
        queries += load->queries;
        drafts += load->draft_tokens;
        requests += load->requests;
    }
    /* Ranks in lockstep still step with all of them; one by itself has only its own. */
    if (sim->scenario->pools[group->pool].lockstep) {
        all.ranks++;
    } else {
        all.queries = queries;
        all.draft_tokens = drafts;
        all.requests = requests;
    }
    return sim_predict_of(group, &all, sim->shared_loads, parts, &waited_ns, &slowest);
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
    if (group->faster_link_state) {
        struct group faster = *group;
        double parts[KVT_PARTS], waited_ns;
        faster.timing_state = group->faster_link_state;
        tally->if_ns[KVT_IF_FASTER_LINK] +=
            requests * sim_predict(&faster, loads, parts, NULL, &waited_ns);
    }
}
