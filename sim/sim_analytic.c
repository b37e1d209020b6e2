/* sim_analytic.c -- a run that is solved instead of simulated. */
#include <stdio.h>
#include <string.h>

#include "sim_private.h"

static kvt_status solve_with(struct kvt_sim *sim, struct kvt_surfaces *surfaces,
                             struct kvt_error *err)
{
    const struct group *group = &sim->groups[0];
    const struct kvt_analytic_env env = {.scenario = sim->scenario,
                                         .rank = &sim->ranks[0],
                                         .rank_count = sim->rank_count,
                                         .gpus_per_rank = sim_gpus_of(sim, 0),
                                         .hosts = sim->host_count,
                                         .lockstep = sim->scenario->pools[0].lockstep,
                                         .timing = group->timing,
                                         .timing_state = group->timing_state,
                                         .arrival = sim->arrival,
                                         .source = sim->source,
                                         .speculation = sim->speculation,
                                         .speculation_data = sim->speculation_data,
                                         .surfaces = surfaces,
                                         .cache_dir = sim->options.cache_dir,
                                         .threads = sim->options.threads ? sim->options.threads : 1,
                                         .on_prepare = sim->options.on_prepare,
                                         .prepare_context = sim->options.prepare_context};
    return kvt_analytic_solve(&env, &sim->run, err);
}

kvt_status sim_solve(struct kvt_sim *sim, struct kvt_error *err)
{
    struct kvt_surfaces *own = NULL;
    kvt_status status = KVT_OK;

    if (!sim->options.surfaces)
        status = kvt_surfaces_new(&own, err);
    if (status == KVT_OK)
        status = solve_with(sim, own ? own : sim->options.surfaces, err);
    kvt_surfaces_free(own);
    if (status != KVT_OK)
        return status;
    sim->run.law_description = sim->ranks[0].needs.history_in_hbm
                                   ? "everything resident: selections never matter"
                                   : "miss surfaces, measured once";
    sim->now_ns = sim->run.end_ns;
    sim->ended = true;
    return KVT_OK;
}
