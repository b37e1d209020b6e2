/* crossing.c -- rows that are sent ahead of the calls that will miss them, in time.
 *
 *     ahead   = link(demanded and sent ahead) - link(demanded)
 *     window  = what runs while they are on their way - what hides demanded rows already
 *     exposed = max(0, ahead - window)
 *
 * Over a step, as if its selectors were alike: where one has a wide window and few rows and the
 * next the other way round, what the first leaves helps the second. */
#include "kvt/crossing.h"

const char *kvt_prefetch_lead_name(enum kvt_prefetch_lead lead)
{
    switch (lead) {
    case KVT_LEAD_SCAN:
        return "scan";
    case KVT_LEAD_SELECTOR:
        return "selector";
    case KVT_LEAD_STEP:
        return "step";
    case KVT_LEADS:
        break;
    }
    return "unknown";
}

/* How long the link is busy with a load's rows. */
static double link_ns(const struct kvt_timing_model *timing, const void *state,
                      const struct kvt_rank_load *load)
{
    double parts[KVT_PARTS] = {0};

    if (timing->link_ns)
        return timing->link_ns(state, load);
    timing->rank_step(state, load, parts);
    return parts[KVT_PART_FETCH];
}

/* As if everything that was sent ahead were demanded. */
static struct kvt_rank_load all_demanded(const struct kvt_rank_load *load)
{
    const struct kvt_ahead_load *ahead = &load->ahead;
    struct kvt_rank_load all = *load;

    all.missed_rows += ahead->rows;
    all.missed_layer_rows += ahead->layer_rows;
    all.leader_layer_rows += ahead->rows;
    all.wire_bytes += ahead->wire_bytes;
    all.granules += ahead->granules;
    all.calls_with_misses += ahead->calls;
    return all;
}

static bool runs_meanwhile(enum kvt_prefetch_lead lead, enum kvt_step_part part)
{
    switch (lead) {
    case KVT_LEAD_SCAN:
        return part == KVT_PART_INDEX;
    case KVT_LEAD_SELECTOR:
        return part == KVT_PART_DENSE || part == KVT_PART_INDEX || part == KVT_PART_RESOLVE ||
               part == KVT_PART_ATTEND || part == KVT_PART_OTHER;
    case KVT_LEAD_STEP:
        return part != KVT_PART_FETCH;
    case KVT_LEADS:
        break;
    }
    return false;
}

/* Before its first selector a step has computed nothing that tells of one. */
static double window_ns(enum kvt_prefetch_lead lead, uint32_t selectors,
                        const double shared[KVT_PARTS], const double own[KVT_PARTS])
{
    double ns = 0;

    for (int p = 0; p < KVT_PARTS; p++) {
        if (runs_meanwhile(lead, (enum kvt_step_part)p))
            ns += shared[p] + own[p];
    }
    return lead == KVT_LEAD_SELECTOR ? ns * (selectors - 1) / selectors : ns;
}

double kvt_ahead_exposed_ns(const struct kvt_timing_model *timing, const void *timing_state,
                            enum kvt_prefetch_lead lead, uint32_t selectors,
                            const struct kvt_rank_load *load, const double shared[KVT_PARTS],
                            const double own[KVT_PARTS])
{
    if (load->ahead.rows <= 0)
        return 0;
    const struct kvt_rank_load all = all_demanded(load);
    double demanded_ns = link_ns(timing, timing_state, load);
    double ahead_ns = link_ns(timing, timing_state, &all) - demanded_ns;
    double hidden_ns = demanded_ns - own[KVT_PART_FETCH];
    double left_ns = window_ns(lead, selectors, shared, own) - (hidden_ns > 0 ? hidden_ns : 0);

    if (left_ns < 0)
        left_ns = 0;
    return ahead_ns > left_ns ? ahead_ns - left_ns : 0;
}

double kvt_link_busy_ns(const struct kvt_timing_model *timing, const void *timing_state,
                        const struct kvt_rank_load *load)
{
    const struct kvt_rank_load all = all_demanded(load);

    return link_ns(timing, timing_state, &all);
}
