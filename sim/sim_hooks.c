/* sim_hooks.c -- what policies want to know, and whether this run can tell them. */
#include <stdio.h>

#include "sim_private.h"

static const char *wish_of(const struct kvt_residency_policy *policy)
{
    if (policy->wants_page_future)
        return "the future of pages";
    return policy->wants_page_hits ? "page hits" : "page scores";
}

/* Hits, scores and what comes are of every call. */
static kvt_status check_watch(const struct kvt_sim *sim, struct kvt_error *err)
{
    const struct kvt_residency_policy *policy = sim->ranks[0].residency;
    const struct kvt_scenario *scenario = sim->scenario;
    const struct kvt_law *law = (const struct kvt_law *)(const void *)scenario->selection.info;

    if (!policy->wants_page_hits && !policy->wants_page_scores && !policy->wants_page_future)
        return KVT_OK;
    if (scenario->fidelity != KVT_FIDELITY_EXACT)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, policy->info.name,
                        "it wants %s, which \"%s\" does not keep of every request and store; "
                        "run.fidelity \"exact\" is expected",
                        wish_of(policy), kvt_fidelity_name(scenario->fidelity));
    if (policy->wants_page_future && !kvt_choice_has(&scenario->residency, KVT_CLAIRVOYANT))
        return kvt_fail(err, KVT_ERR_POLICY, policy->info.name,
                        "it wants to know what comes of pages without the parameter "
                        "\"clairvoyant\", true: a policy that reads the future says so");
    if (policy->wants_page_future && kvt_backend_runs(&scenario->backend))
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, policy->info.name,
                        "it wants to know what comes of pages, which backend \"%s\" does not "
                        "tell; backend \"sim\" is expected",
                        scenario->backend.info->name);
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
    bool is_residency = sim->ranks[0].residency->wants_page_future;
    const char *policy =
        is_residency ? scenario->residency.info->name : scenario->replacement.info->name;
    struct kvt_speculation_shape shape;

    if (!is_residency && !kvt_choice_has(&scenario->replacement, KVT_CLAIRVOYANT))
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

    char where[80]; /* as laws themselves say it, so that the key is found */

    if (!law->varies)
        return KVT_OK;
    (void)snprintf(where, sizeof where, "law \"%s\"", law->info.name);
    if (scenario->fidelity != KVT_FIDELITY_EXACT)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, where,
                        "its queries read as many rows as it takes, which \"%s\" does not see of "
                        "every request and store; run.fidelity \"exact\" is expected",
                        kvt_fidelity_name(scenario->fidelity));
    if (sim->ranks[0].needs.history_in_hbm)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, where,
                        "its queries read as many rows as it takes, and under \"%s\" nobody looks "
                        "at selections; a residency.policy with hot caches, such as "
                        "\"vllm-hybrid\", is expected",
                        scenario->residency.info->name);
    return KVT_OK;
}

kvt_status sim_check_hooks(const struct kvt_sim *sim, struct kvt_error *err)
{
    kvt_status status = check_watch(sim, err);

    if (status == KVT_OK)
        status = check_look_ahead(sim, err);
    return status == KVT_OK ? check_budgets(sim, err) : status;
}
