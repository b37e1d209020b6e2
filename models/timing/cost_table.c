/* cost_table.c -- whole steps of one replica as somebody measured them.
 *
 *     rank:  draft(requests), where anything was drafted + verify(queries)
 *
 * A measured step holds everything that a replica without a hierarchy does, at the
 * contexts it was measured with; what fetching rows would add is not in it, so that
 * a policy that fetches is refused. Ranks in lockstep wait for the slowest. */
#include "kvt/costs.h"
#include "kvt/timing.h"

#include <assert.h>

enum {
    PARAM_COSTS,
    PARAM_COUNT
};

static const struct kvt_param_spec cost_table_params[PARAM_COUNT] = {
    [PARAM_COSTS] = {.name = "costs",
                     .help = "Measured draft and verify times: a shipped table or the path of a "
                             "file.",
                     .type = KVT_PARAM_TEXT,
                     .minimum = 1,
                     .maximum = 4096,
                     .default_text = "deepseek-v4-flash-b300"},
};

static const double NS_PER_MS = 1e6;

static size_t cost_table_state_bytes(const struct kvt_timing_env *env)
{
    (void)env;
    return sizeof(struct kvt_costs);
}

static kvt_status cost_table_init(void *state, const struct kvt_timing_env *env,
                                  struct kvt_error *err)
{
    assert(env->params.count == PARAM_COUNT);
    if (!env->history_in_hbm)
        return kvt_fail(err, KVT_ERR_INVALID, "timing \"cost-table\"",
                        "tables of measured steps know nothing of rows that cross the link, which "
                        "residency \"%s\" fetches; expected \"resident\", or another timing model",
                        env->residency);
    return kvt_costs_load(env->params.values[PARAM_COSTS].text, state, err);
}

/* A replica's step is all its own: nothing is shared between ranks. */
static void cost_table_group_step(const void *state, const struct kvt_group_load *load,
                                  double parts[KVT_PARTS])
{
    (void)state;
    (void)load;
    (void)parts;
}

static void cost_table_rank_step(const void *state, const struct kvt_rank_load *load,
                                 double parts[KVT_PARTS])
{
    const struct kvt_costs *costs = state;
    if (load->draft_tokens > 0)
        parts[KVT_PART_DRAFT] += kvt_costs_draft_ms(costs, load->requests) * NS_PER_MS;
    parts[KVT_PART_OTHER] += kvt_costs_verify_ms(costs, load->queries) * NS_PER_MS;
}

static bool cost_table_in_range(const void *state, const struct kvt_rank_load *load)
{
    uint32_t drafting = load->draft_tokens > 0 ? load->requests : 0;
    return kvt_costs_in_range(state, drafting, load->queries);
}

const struct kvt_timing_model kvt_timing_cost_table = {
    .info = {.abi = KVT_ABI_VERSION,
             .struct_bytes = sizeof kvt_timing_cost_table,
             .name = "cost-table",
             .summary = "measured steps over requests drafting and tokens verified, all in HBM",
             .params = cost_table_params,
             .param_count = PARAM_COUNT},
    .basis = KVT_BASIS_PROFILE,
    .state_bytes = cost_table_state_bytes,
    .init = cost_table_init,
    .group_step = cost_table_group_step,
    .rank_step = cost_table_rank_step,
    .in_range = cost_table_in_range,
};
