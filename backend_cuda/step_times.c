/* step_times.c -- what of a step is timed, and what its families took.
 *
 *     decisions apart from copies first, and now and then: resolver and exposed copies are one
 *         launch, and are told apart by what the former takes by itself
 *     by family in one step of FAMILY_STEPS: events between the families
 *     as a whole else: what it took is shared out as the newest step that was timed by family */
#include "step.h"

enum {
    FAMILY_STEPS = 16
};

enum kvt_step_timing step_choose_timing(const struct rank *rank, const struct step_key *key)
{
    /* Steps whose requests take turns are not timed so; then the first is timed by family. */
    if (rank->step_count % rank->cuda->apart_steps == 0 &&
        rank->cuda->decider == DECIDE_ON_DEVICE && !key->takes_turns)
        return KVT_TIMED_APART;
    return rank->step_count % FAMILY_STEPS == 1 || !rank->has_shares ? KVT_TIMED_FAMILIES
                                                                     : KVT_TIMED_WHOLE;
}

/* Of a step that was timed by family: its parts as they were, and as shares for the next ones. */
static void take_families(struct rank *rank, double *parts_ns, double step_ns)
{
    /* Resolver and exposed copies are one launch; the former's time by itself is known. */
    if (rank->decisions_ns > 0 && rank->decisions_ns < parts_ns[KVT_PART_RESOLVE]) {
        parts_ns[KVT_PART_FETCH] += parts_ns[KVT_PART_RESOLVE] - rank->decisions_ns;
        parts_ns[KVT_PART_RESOLVE] = rank->decisions_ns;
    }
    for (int p = 0; p < KVT_PARTS; p++)
        rank->part_shares[p] = parts_ns[p] / step_ns;
    rank->has_shares = true;
}

kvt_status step_read_times(struct rank *rank, double wall_s, struct kvt_step_outcome *outcome,
                           struct kvt_error *err)
{
    double parts_ns[KVT_PARTS], step_ns;
    float ms = 0;
    kvt_status status =
        rank_check(rank, cudaEventElapsedTime(&ms, rank->begin, rank->end), "a step's time", err);

    if (status == KVT_OK && rank->key.timing != KVT_TIMED_WHOLE)
        status = graph_read_parts(rank, parts_ns, err);
    if (status != KVT_OK)
        return status;
    step_ns = 1e6 * (double)ms;
    if (rank->key.timing == KVT_TIMED_APART)
        rank->decisions_ns = parts_ns[KVT_PART_RESOLVE];
    if (rank->key.timing == KVT_TIMED_FAMILIES)
        take_families(rank, parts_ns, step_ns);
    double all_ns = step_ns; /* and what layers that are not run would add */
    for (int p = 0; p < KVT_PARTS; p++) {
        double part_ns =
            rank->key.timing == KVT_TIMED_WHOLE ? rank->part_shares[p] * step_ns : parts_ns[p];
        outcome->measured_parts_ns[p] = rank->cuda->part_scales[p] * part_ns;
        all_ns += outcome->measured_parts_ns[p] - part_ns;
    }
    outcome->timing = rank->key.timing;
    outcome->launch_ns = wall_s * 1e9 > step_ns ? wall_s * 1e9 - step_ns : 0;
    for (uint32_t m = 0; m < rank->graph->mark_count; m++)
        outcome->part_marks[rank->graph->mark_parts[m]]++;
    outcome->measured_ns = (kvt_ns)(all_ns + 0.5) > 0 ? (kvt_ns)(all_ns + 0.5) : 1;
    return KVT_OK;
}
