/* sim_hooks.c -- what policies want to know, and whether this run can tell them. */
#include "sim_private.h"

/* Hits and scores are of every call. */
static kvt_status check_watch(const struct kvt_sim *sim, struct kvt_error *err)
{
    const struct kvt_residency_policy *policy = sim->ranks[0].residency;
    const struct kvt_scenario *scenario = sim->scenario;
    const struct kvt_law *law = (const struct kvt_law *)(const void *)scenario->selection.info;

    if (!policy->wants_page_hits && !policy->wants_page_scores)
        return KVT_OK;
    if (scenario->fidelity != KVT_FIDELITY_EXACT)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, policy->info.name,
                        "it wants %s, which \"%s\" does not keep of every request and store; "
                        "run.fidelity \"exact\" is expected",
                        policy->wants_page_hits ? "page hits" : "page scores",
                        kvt_fidelity_name(scenario->fidelity));
    if (policy->wants_page_scores && !law->page_scores)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, policy->info.name,
                        "it wants page scores, which the law \"%s\" does not have; "
                        "selection.law \"score\" is expected",
                        law->info.name);
    return KVT_OK;
}

/* Selections to come are known where rounds to come are, of requests that are followed. */
static kvt_status check_look_ahead(const struct kvt_sim *sim, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = sim->scenario;
    const char *policy = scenario->replacement.info->name;
    struct kvt_speculation_shape shape;

    if (!kvt_choice_has(&scenario->replacement, KVT_CLAIRVOYANT))
        return KVT_OK;
    if (scenario->fidelity == KVT_FIDELITY_ANALYTIC ||
        (scenario->fidelity == KVT_FIDELITY_SAMPLED && scenario->sample_requests > 0))
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, policy,
                        "it is clairvoyant, and \"%s\" does not follow every request; "
                        "run.fidelity \"exact\", or run.sample_requests 0, is expected",
                        kvt_fidelity_name(scenario->fidelity));
    sim->speculation->shape(sim->speculation_data, &shape);
    if (shape.rounds_by_load)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, policy,
                        "it is clairvoyant, and the rounds of speculation method \"%s\" depend on "
                        "who else decodes, which nobody can know beforehand; a method whose rounds "
                        "are of one size, or \"none\", is expected",
                        sim->speculation->info.name);
    return KVT_OK;
}

/* How much a query reads is known where its set is looked at. */
static kvt_status check_budgets(const struct kvt_sim *sim, struct kvt_error *err)
{
    const struct kvt_scenario *scenario = sim->scenario;
    const struct kvt_law *law = (const struct kvt_law *)(const void *)scenario->selection.info;

    if (!law->varies)
        return KVT_OK;
    if (scenario->fidelity != KVT_FIDELITY_EXACT)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, law->info.name,
                        "its queries read as many rows as it takes, which \"%s\" does not see of "
                        "every request and store; run.fidelity \"exact\" is expected",
                        kvt_fidelity_name(scenario->fidelity));
    if (sim->ranks[0].needs.history_in_hbm)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, law->info.name,
                        "its queries read as many rows as it takes, and under \"%s\" nobody looks "
                        "at selections; a residency.policy with hot caches, such as "
                        "\"vllm-hybrid\", is expected",
                        scenario->residency.info->name);
    return KVT_OK;
}

/* Means know nobody who waits in a line. */
static kvt_status check_scheduling(const struct kvt_sim *sim, struct kvt_error *err)
{
    const struct kvt_scheduling_policy *policy = sim->ranks[0].scheduling;

    if (sim->scenario->fidelity != KVT_FIDELITY_ANALYTIC || !policy->choose)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_UNSUPPORTED, policy->info.name,
                    "it decides by what the rank does, of which \"analytic\" knows means alone; "
                    "run.fidelity \"exact\" or \"sampled\" is expected");
}

kvt_status sim_check_hooks(const struct kvt_sim *sim, struct kvt_error *err)
{
    kvt_status status = check_watch(sim, err);

    if (status == KVT_OK)
        status = check_look_ahead(sim, err);
    if (status == KVT_OK)
        status = check_scheduling(sim, err);
    return status == KVT_OK ? check_budgets(sim, err) : status;
}
