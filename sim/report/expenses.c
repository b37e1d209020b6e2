/* expenses.c -- what a run took of machines, energy and money.
 *
 *     busy    = a decode GPU, while a step of its rank is under way, waits in it included;
 *               a prefill GPU, while its server computes a prompt
 *     energy  = pue x sum of (gpus x (idle W x time + (busy - idle) W x busy time)
 *                             + nodes x W x time)
 *     USD/h   = sum of (gpus x price + nodes x GiB of host DRAM x price) + mean power x price
 *
 * A collective that waits for the slowest rank spins: at a barrier a GPU is busy. */
#include "expenses.h"

/* W, over s seconds in which all ranks (or servers) together were busy for busy_s. */
static double pool_watts(const struct kvt_expenses *expenses, double gpus, double nodes,
                         double ranks, double seconds, double busy_s)
{
    double busy_share = metric_ratio(busy_s, ranks * seconds);

    return gpus * (expenses->idle_watts_per_gpu +
                   busy_share * (expenses->busy_watts_per_gpu - expenses->idle_watts_per_gpu)) +
           nodes * expenses->watts_per_node;
}

static double pool_usd_per_hour(const struct kvt_decode_pool *pool)
{
    double host_gib = pool->host_dram_gib_per_node + pool->index_offload_gib_per_node;

    return pool->gpus * pool->expenses.usd_per_gpu_hour +
           kvt_pool_nodes(pool) * host_gib * pool->expenses.usd_per_host_gib_hour;
}

void expenses_compute(const struct kvt_scenario *scenario, const struct kvt_tally *tally,
                      struct metric_values *out)
{
    const struct kvt_prefill *prefill = &scenario->prefill;
    double seconds = (double)(tally->to_ns - tally->from_ns) / 1e9;
    double prefill_busy_s = tally->prefill_busy_ns / 1e9;
    double watts = 0, usd_per_hour = 0, gpus = 0, busy_gpu_s = 0;

    for (uint32_t p = 0; p < scenario->pool_count; p++) {
        const struct kvt_decode_pool *pool = &scenario->pools[p];
        double busy_s = tally->pool_busy_ns[p] / 1e9;
        gpus += pool->gpus;
        busy_gpu_s += busy_s * pool->tp;
        watts += pool_watts(&pool->expenses, pool->gpus, kvt_pool_nodes(pool), pool->dp, seconds,
                            busy_s);
        usd_per_hour += pool_usd_per_hour(pool);
    }
    out->gpu_busy_share = metric_ratio(busy_gpu_s, gpus * seconds);
    out->prefill_busy_share = NAN;
    if (prefill->mode == KVT_PREFILL_SEPARATE) {
        out->prefill_busy_share = metric_ratio(prefill_busy_s, prefill->servers * seconds);
        watts += pool_watts(&prefill->expenses, prefill->gpus, 0, prefill->servers, seconds,
                            prefill_busy_s);
        usd_per_hour += prefill->gpus * prefill->expenses.usd_per_gpu_hour;
    }
    watts = scenario->has_watts ? scenario->pue * watts : NAN;
    if (scenario->usd_per_kwh > 0)
        usd_per_hour += watts / 1e3 * scenario->usd_per_kwh;
    out->mean_power_watts = watts;
    out->energy_kwh = watts * seconds / 3.6e6;
    out->joules_per_output_token = metric_ratio(watts * seconds, (double)tally->output_tokens);
    out->usd_per_hour = scenario->has_usd ? usd_per_hour : NAN;
    out->usd_per_million_output_tokens =
        metric_ratio(out->usd_per_hour * seconds / 3600 * 1e6, (double)tally->output_tokens);
}
