/* sim_step_time.c -- how long a decode step takes: as the timing model has it, and as a backend
 * measured it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim_private.h"

/* Every token of a prompt waits for the context before it. */
static double prefill_ns(const struct kvt_prefill *prefill, const struct kvt_rank_load *load)
{
    double tokens = load->prefill_tokens;

    if (load->prefill_tokens == 0)
        return 0;
    if (prefill->is_roofline)
        return load->prefill_ns;
    if (prefill->context_half_tokens > 0)
        tokens += load->prefill_context_tokens / prefill->context_half_tokens;
    return tokens / prefill->tokens_per_s * (double)KVT_NS_PER_S;
}

static double sum(const double parts[KVT_PARTS])
{
    double total = 0;

    for (int p = 0; p < KVT_PARTS; p++)
        total += parts[p];
    return total;
}

/* Each way to be out of range by itself, in order of the first step; past OUTSIDE_MAX of them new
 * ones are left out. */
static void note_outside(struct kvt_sim *sim, const struct group *group,
                         const struct kvt_rank_load *load)
{
    struct kvt_outside outside;
    uint32_t i = 0;

    if (!group->timing->find_outside ||
        !group->timing->find_outside(group->timing_state, load, &outside))
        return;
    while (i < sim->outside_count && (sim->outside[i].first.part != outside.part ||
                                      sim->outside[i].first.feature != outside.feature))
        i++;
    if (i == OUTSIDE_MAX)
        return;
    if (i == sim->outside_count)
        sim->outside[sim->outside_count++] = (struct outside_count){.first = outside};
    sim->outside[i].steps++;
}

static bool in_range(struct kvt_sim *sim, const struct group *group)
{
    if (!group->timing->in_range)
        return true;
    for (uint32_t r = group->first_rank; r < group->first_rank + group->rank_count; r++) {
        if (sim->loads[r].requests > 0 &&
            !group->timing->in_range(group->timing_state, &sim->loads[r])) {
            note_outside(sim, group, &sim->loads[r]);
            return false;
        }
    }
    return true;
}

struct kvt_group_load sim_group_load(const struct group *group, const struct kvt_rank_load *loads)
{
    struct kvt_group_load load = {.ranks = group->rank_count};

    for (uint32_t r = 0; r < group->rank_count; r++) {
        load.queries += loads[r].queries;
        load.requests += loads[r].requests;
        load.draft_tokens += loads[r].draft_tokens;
        if (loads[r].queries > load.queries_max)
            load.queries_max = loads[r].queries;
    }
    return load;
}

/* A rank's own parts as predicted, into parts[], which is all 0. */
static void predict_rank(const struct group *group, const struct kvt_rank_load *load,
                         double parts[KVT_PARTS])
{
    group->timing->rank_step(group->timing_state, load, parts);
    parts[KVT_PART_PREFILL] = prefill_ns(group->prefill, load);
}

/* What the step's time may be linear in, of one rank and of all. */
static void keep_features(const struct group *group, const struct kvt_group_load *all,
                          const struct kvt_rank_load *load, double features[KVT_FEATURES])
{
    double shared[KVT_FEATURES];

    kvt_profile_rank_features(&group->setting, load, features);
    kvt_profile_group_features(&group->setting, all, shared);
    for (int f = 0; f < KVT_FEATURE_GROUP_FEATURES; f++)
        features[f] = shared[f];
}

double sim_predict_of(const struct group *group, const struct kvt_group_load *all,
                      struct kvt_rank_load *loads, double parts[KVT_PARTS], double *waited_ns,
                      uint32_t *slowest)
{
    double shared[KVT_PARTS] = {0}, slowest_parts[KVT_PARTS] = {0}, slowest_ns = 0, all_ns = 0;

    *slowest = 0;
    group->timing->group_step(group->timing_state, all, shared);
    for (uint32_t r = 0; r < group->rank_count; r++) {
        double own[KVT_PARTS] = {0};
        loads[r].group_queries = all->queries;
        predict_rank(group, &loads[r], own);
        own[KVT_PART_FETCH] +=
            kvt_ahead_exposed_ns(group->timing, group->timing_state, group->prefetch->lead,
                                 group->selectors, &loads[r], shared, own);
        if (group->link_factor)
            own[KVT_PART_FETCH] /= group->link_factor[r];
        double rank_ns = sum(own);
        all_ns += rank_ns;
        if (rank_ns >= slowest_ns) {
            slowest_ns = rank_ns;
            *slowest = r;
            memcpy(slowest_parts, own, sizeof slowest_parts);
        }
    }
    if (all->queries == 0 && slowest_parts[KVT_PART_PREFILL] > 0)
        shared[KVT_PART_PREFILL] = group->prefill->lone_step_ns;
    for (int p = 0; p < KVT_PARTS; p++)
        parts[p] = round(shared[p] + slowest_parts[p]);
    *waited_ns = group->rank_count * slowest_ns - all_ns;
    double total_ns = sum(parts);
    return total_ns < 1 ? 1 : total_ns;
}

double sim_predict(const struct group *group, struct kvt_rank_load *loads, double parts[KVT_PARTS],
                   double features[KVT_FEATURES], double *waited_ns)
{
    const struct kvt_group_load load = sim_group_load(group, loads);
    uint32_t slowest;
    double total_ns = sim_predict_of(group, &load, loads, parts, waited_ns, &slowest);

    if (features)
        keep_features(group, &load, &loads[slowest], features);
    return total_ns;
}

/* Whether the clock can add them up; what is no number is not. */
static bool is_step(const double parts[KVT_PARTS], double total_ns, double waited_ns)
{
    bool all_fit = total_ns <= KVT_STEP_NS_MAX && isfinite(waited_ns);

    for (int p = 0; p < KVT_PARTS; p++)
        all_fit = all_fit && fabs(parts[p]) <= KVT_STEP_NS_MAX;
    return all_fit;
}

static kvt_status refuse_step(const struct group *group, const double parts[KVT_PARTS],
                              double total_ns, struct kvt_error *err)
{
    char where[96];
    int most = 0;

    (void)snprintf(where, sizeof where, "timing \"%s\"", group->timing->info.name);
    for (int p = 1; p < KVT_PARTS; p++) {
        if (isnan(parts[p]) || fabs(parts[p]) > fabs(parts[most]))
            most = p;
    }
    return kvt_fail(err, KVT_ERR_INVALID, where,
                    "%s predicts a step of %.4g s, %.4g s of them %s; at most %lld s are expected: "
                    "is a constant in another unit?",
                    group->timing->info.name, total_ns * 1e-9, parts[most] * 1e-9,
                    kvt_step_part_name((enum kvt_step_part)most),
                    (long long)(KVT_STEP_NS_MAX / KVT_NS_PER_S));
}

/* As the timing model has it. */
static kvt_status predict(struct kvt_sim *sim, const struct group *group,
                          struct kvt_step_times *times, double *waited_ns, struct kvt_error *err)
{
    double parts[KVT_PARTS];
    double total_ns =
        sim_predict(group, &sim->loads[group->first_rank], parts, times->features, waited_ns);

    if (!is_step(parts, total_ns, *waited_ns))
        return refuse_step(group, parts, total_ns, err);
    times->predicted_ns = (kvt_ns)total_ns;
    for (int p = 0; p < KVT_PARTS; p++)
        times->predicted_parts_ns[p] = (kvt_ns)parts[p];
    times->in_range = in_range(sim, group);
    sim_book_what_ifs(sim, group, times->requests, times->predicted_ns);
    return KVT_OK;
}

/* Whether what ranks do is still a sum that fits: of steps that take an hour there are not many. */
static kvt_status check_sum(const struct kvt_sim *sim, const struct group *group, kvt_ns step_ns,
                            struct kvt_error *err)
{
    kvt_ns left_ns = INT64_MAX / 2 - sim->run.total.rank_ns - sim->tally.rank_ns;

    if (step_ns <= left_ns / group->rank_count)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_UNSUPPORTED, sim->scenario->name,
                    "steps of all ranks add up to more than 2^62 ns (146 years)");
}

/* Of predicted parts those that the backend does not run, in whole ns; returns their sum. */
static kvt_ns keep_unrun(bool runs_drafts, const double parts[KVT_PARTS],
                         kvt_ns unrun_ns[KVT_PARTS])
{
    kvt_ns total = 0;

    for (int p = 0; p < KVT_PARTS; p++) {
        bool is_run = kvt_step_part_is_run((enum kvt_step_part)p, runs_drafts);
        unrun_ns[p] = is_run ? 0 : (kvt_ns)llround(parts[p]);
        total += unrun_ns[p];
    }
    return total;
}

/* What a rank measured. Parts that were not told apart are "other". */
static void keep_measured(const struct kvt_step_outcome *outcome, struct kvt_step_times *times)
{
    kvt_ns told_ns = 0;

    times->measured_ns = outcome->measured_ns;
    times->timing = outcome->timing;
    times->launch_ns = outcome->launch_ns;
    memcpy(times->part_marks, outcome->part_marks, sizeof times->part_marks);
    for (int p = 0; p < KVT_PARTS; p++) {
        bool is_run = kvt_step_part_is_run((enum kvt_step_part)p, times->runs_drafts);
        times->measured_parts_ns[p] = is_run ? (kvt_ns)llround(outcome->measured_parts_ns[p]) : 0;
        told_ns += times->measured_parts_ns[p];
    }
    times->measured_parts_ns[KVT_PART_OTHER] += outcome->measured_ns - told_ns;
}

/* The load that a backend's time is of: with the traffic beside fetches that it was given. */
static struct kvt_rank_load load_as_run(const struct kvt_rank_load *load,
                                        const struct kvt_step_outcome *outcome)
{
    struct kvt_rank_load run = *load;

    run.import_bytes = outcome->beside_inbound_bytes;
    run.fill_bytes = 0;
    run.backup_bytes = outcome->beside_outbound_bytes;
    return run;
}

/* As the slowest rank has it: what it measured, and what the timing model says of its parts that
 * the backend does not run; those that the group shares once. */
static void measure(const struct kvt_sim *sim, const struct group *group,
                    struct kvt_step_times *times, double *waited_ns)
{
    const struct kvt_rank_load *loads = &sim->loads[group->first_rank];
    kvt_ns all_ns = 0, slowest_ns = -1, shared_ns[KVT_PARTS];
    double shared[KVT_PARTS] = {0};
    uint32_t slowest = 0;

    times->measured_ns = KVT_NS_NEVER;
    for (uint32_t r = 0; r < group->rank_count; r++) {
        const struct kvt_rank_step *step = &sim->rank_steps[group->first_rank + r];
        double parts[KVT_PARTS] = {0};
        kvt_ns unrun_ns[KVT_PARTS];
        if (step->item_count == 0 || step->outcome.measured_ns == KVT_NS_NEVER)
            continue;
        predict_rank(group, &loads[r], parts);
        kvt_ns rank_ns =
            step->outcome.measured_ns + keep_unrun(times->runs_drafts, parts, unrun_ns);
        all_ns += rank_ns;
        if (rank_ns <= slowest_ns)
            continue;
        slowest_ns = rank_ns;
        slowest = r;
        keep_measured(&step->outcome, times);
        memcpy(times->added_parts_ns, unrun_ns, sizeof unrun_ns);
    }
    if (times->measured_ns == KVT_NS_NEVER)
        return;
    const struct kvt_group_load load = sim_group_load(group, loads);
    const struct kvt_rank_load run =
        load_as_run(&loads[slowest], &sim->rank_steps[group->first_rank + slowest].outcome);
    keep_features(group, &load, &run, times->features);
    group->timing->group_step(group->timing_state, &load, shared);
    (void)keep_unrun(times->runs_drafts, shared, shared_ns);
    for (int p = 0; p < KVT_PARTS; p++)
        times->added_parts_ns[p] += shared_ns[p];
    *waited_ns = (double)(group->rank_count * slowest_ns - all_ns);
}

kvt_status sim_time_step(struct kvt_sim *sim, struct group *group, uint32_t requests, kvt_ns *out,
                         struct kvt_error *err)
{
    struct kvt_step_times times = {.first_rank = group->first_rank,
                                   .rank_count = group->rank_count,
                                   .requests = requests,
                                   .runs_drafts = kvt_backend_runs_drafts(sim->backend)};
    double waited_ns = 0, measured_waited_ns = 0;
    struct kvt_tally *tally = &sim->tally;

    kvt_status status = predict(sim, group, &times, &waited_ns, err);
    if (status != KVT_OK)
        return status;
    measure(sim, group, &times, &measured_waited_ns);
    bool is_measured = times.measured_ns != KVT_NS_NEVER;
    bool by_measured = is_measured && sim->scenario->clock == KVT_CLOCK_MEASURED;
    kvt_ns step_ns = 0;
    tally->extrapolated_steps += !times.in_range;
    tally->measured_steps += is_measured;
    tally->measured_ns += is_measured ? times.measured_ns : 0;
    for (int p = 0; p < KVT_PARTS; p++) {
        kvt_ns measured_ns = times.measured_parts_ns[p], added_ns = times.added_parts_ns[p];
        kvt_ns part_ns = by_measured ? measured_ns + added_ns : times.predicted_parts_ns[p];
        tally->parts_ns[p] += part_ns;
        group->parts_ns[p] = part_ns;
        tally->measured_parts_ns[p] += measured_ns;
        tally->added_parts_ns[p] += added_ns;
        step_ns += part_ns;
    }
    step_ns = step_ns > 0 ? step_ns : 1;
    status = check_sum(sim, group, step_ns, err);
    if (status != KVT_OK)
        return status;
    tally->rank_ns += group->rank_count * step_ns;
    tally->barrier_wait_ns += (kvt_ns)llround(by_measured ? measured_waited_ns : waited_ns);
    for (uint32_t r = group->first_rank; r < group->first_rank + group->rank_count; r++) {
        times.queries += sim->loads[r].queries;
        sim->ranks[r].last_fetch_ns = group->parts_ns[KVT_PART_FETCH];
    }
    if (sim->options.on_step && requests > 0)
        sim->options.on_step(sim->options.step_context, &times);
    *out = step_ns;
    return KVT_OK;
}
