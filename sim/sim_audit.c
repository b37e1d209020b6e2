/* sim_audit.c -- what must hold between any two events of a run, for whoever wants to see it. */
#include "kvt/layout.h"
#include "sim_private.h"

static uint64_t held(const struct kvt_live *live, enum kvt_mem_class class_of)
{
    return live->holding.bytes[class_of] + live->holding.reserve_bytes[class_of] +
           live->shared.bytes[class_of];
}

/* Rows of the newest boundary at least; the room of the coming round may be there already. */
static kvt_status look_at(const struct kvt_rank *rank, const struct kvt_live *live, kvt_ns now_ns,
                          struct kvt_sim_audit *audit, struct kvt_error *err)
{
    struct kvt_session_bytes required;
    kvt_status status = kvt_rank_required(rank, live->pages.committed_tokens, live->max_tokens,
                                          live->hot_tokens, &required, err);

    if (status != KVT_OK)
        return status;
    const uint64_t *bytes = required.hbm_by_class;
    audit->requests++;
    audit->lent += held(live, KVT_MEM_INDEX) < bytes[KVT_MEM_INDEX] ||
                   held(live, KVT_MEM_HOT) != bytes[KVT_MEM_HOT] ||
                   held(live, KVT_MEM_TAIL) != bytes[KVT_MEM_TAIL];
    audit->homeless += !kvt_pages_have_homes(&live->pages, now_ns);
    audit->uncommitted += live->pages.committed_tokens != kvt_live_context(live);
    audit->wide_rings += held(live, KVT_MEM_RING) != bytes[KVT_MEM_RING];
    return KVT_OK;
}

kvt_status kvt_sim_audit(const struct kvt_sim *sim, struct kvt_sim_audit *audit,
                         struct kvt_error *err)
{
    struct kvt_sim_audit sum = *audit;

    sum.looks++;
    for (uint32_t r = 0; r < sim->rank_count; r++) {
        const struct kvt_rank *rank = &sim->ranks[r];
        sum.lent += !kvt_rank_is_sane(rank, sim->now_ns);
        sum.overstaged += sim->groups[sim->group_of[r]].stepping &&
                          sim->rank_steps[r].outcome.staging_peak_bytes >
                              rank->memory.used_by_class[KVT_MEM_STAGING];
        for (uint32_t i = 0; i < rank->running.count; i++) {
            kvt_status status = look_at(rank, rank->running.items[i], sim->now_ns, &sum, err);
            if (status != KVT_OK)
                return status;
        }
    }
    *audit = sum;
    return KVT_OK;
}
