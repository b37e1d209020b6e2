/* explain_worth.c -- what a change would bring, to first order.
 *
 *     TPOT     a tenth more link: as the timing model takes the same loads on such a link
 *              one more rank:     as it takes R/(R+1) of each rank's load
 *              more who decode:   as it takes half of each rank's load, in proportion
 *     slots    bytes over bytes
 *     output   somebody waits for the memory that grows:  as many more decode
 *              a closed loop that waits for none:         its requests take less time each
 *              an open one:                               what arrives, as before
 *
 * Batches, misses and queues stay what they are. To know, run it. */
#include <math.h>
#include <string.h>

#include "explain_private.h"
#include "kvt/json.h"
#include "metrics_table.h"

struct change {
    const char *name, *assumes;
    double tpot_factor;     /* NaN: not known without a run */
    double more_slots;      /* NaN: slots have nothing to do with it */
    double decoding_factor; /* how many more decode at once */
};

static double part_share(const struct kvt_tally *tally, enum kvt_step_part part)
{
    kvt_ns all_ns = tally->step_ns + tally->backup_stall_ns;
    return all_ns > 0 ? (double)tally->parts_ns[part] / (double)all_ns : 0;
}

/* By how much steps are shorter, as a share of them. */
static double link_gain(const struct explain_of *of, const cJSON *tpot)
{
    const struct kvt_tally *tally = of->tally;

    if (of->run->times_read_hardware && tally->token_ns > 0)
        return 1 - tally->if_ns[KVT_IF_FASTER_LINK] / tally->token_ns;
    double fetch_ms = explain_number(kvt_json_find(tpot, "parts_ms"), "fetch");
    return fetch_ms / explain_number(tpot, "ms") * (1 - 1 / KVT_IF_LINK_FACTOR);
}

/* What of a step grows with a rank's requests, where nobody was asked: all that is not shared. */
static double own_share(const struct kvt_tally *tally)
{
    return 1 - part_share(tally, KVT_PART_DENSE) - part_share(tally, KVT_PART_HOST) -
           part_share(tally, KVT_PART_SAMPLE);
}

static double growing_share(const struct kvt_tally *tally)
{
    if (tally->if_ns[KVT_IF_HALF_LOAD] > 0 && tally->token_ns > 0)
        return 2 * (1 - tally->if_ns[KVT_IF_HALF_LOAD] / tally->token_ns);
    return own_share(tally);
}

/* How TPOT changes as each rank has `load` times the requests it has. */
static double with_load(const struct explain_of *of, double load)
{
    return growing_share(of->tally) * (load - 1);
}

/* By how many times more the slowest rank has, where `times` as many decode: those who come go
 * first where there are fewest, as far as that shows in how long ranks wait for the slowest. */
static double slowest_load(const struct explain_of *of, double times)
{
    double grows = growing_share(of->tally);
    double waits = metric_ratio((double)of->tally->barrier_wait_ns, (double)of->tally->rank_ns);
    double mean_over_slowest = grows > waits ? (grows - waits) / grows : 0;

    return fmax(1, times * mean_over_slowest);
}

/* Were the same requests spread over one more rank, TPOT's share of what it is. */
static double with_rank(const struct explain_of *of)
{
    const struct kvt_tally *tally = of->tally;

    if (tally->if_ns[KVT_IF_MORE_RANKS] > 0 && tally->token_ns > 0)
        return tally->if_ns[KVT_IF_MORE_RANKS] / tally->token_ns;
    return 1 - own_share(tally) / (of->run->ranks + 1);
}

static double decoding(const struct explain_of *of)
{
    return of->tally->running_ns;
}

/* Of those that wait as many come in as there is more room for. */
static double fill_slots(const struct explain_of *of, double more_slots)
{
    double ns = (double)(of->tally->to_ns - of->tally->from_ns);
    double more_ns = fmin(fmax(more_slots, 0) * ns, of->tally->waiting_ns);

    return decoding(of) > 0 ? 1 + more_ns / decoding(of) : 1;
}

static struct change more_link(const struct explain_of *of, const cJSON *tpot)
{
    return (struct change){.name = "link_10_percent",
                           .assumes =
                               of->run->times_read_hardware
                                   ? "the same batches and misses, timed with that link"
                                   : "all of the exposed fetch is the link's: at most so much",
                           .tpot_factor = 1 - link_gain(of, tpot),
                           .more_slots = NAN,
                           .decoding_factor = 1};
}

static double times(uint64_t slots, double factor)
{
    return slots == UINT64_MAX ? (double)INFINITY : (double)slots * factor;
}

/* The nodes' DRAM grows where the rank needs a node of its own. */
static struct change more_ranks(const struct explain_of *of, enum explain_bind now)
{
    const struct kvt_run *run = of->run;
    const struct kvt_decode_pool *pool = &run->scenario->pools[0];
    double nodes = ceil((double)pool->gpus / pool->gpus_per_node);
    double more_nodes = ceil((double)(pool->gpus + pool->tp) / pool->gpus_per_node);
    double factor = (run->ranks + 1.0) / run->ranks;
    double pools = fmin(times(run->slots_by.pool[0], factor), times(run->slots_by.pool[1], factor));
    double more =
        floor(fmin(pools, times(run->slots_by.host, more_nodes / nodes))) - (double)run->slots;
    bool is_short = now == EXPLAIN_POOL || now == EXPLAIN_ROW_POOL || now == EXPLAIN_HOST;
    double more_decode = is_short ? fill_slots(of, more) : 1;

    return (struct change){.name = "one_more_rank",
                           .assumes = run->times_read_hardware
                                          ? "the same misses a request; experts spread over it too"
                                          : "the same misses a request, and the same shared part",
                           .tpot_factor =
                               with_rank(of) + with_load(of, 1 + (more_decode - 1) / factor),
                           .more_slots = more,
                           .decoding_factor = more_decode};
}

static struct change more_dram(const struct explain_of *of, enum explain_bind now)
{
    const struct kvt_run *run = of->run;
    double pools = fmin(times(run->slots_by.pool[0], 1), times(run->slots_by.pool[1], 1));
    double more = floor(fmin(pools, times(run->slots_by.host, 2))) - (double)run->slots;
    double more_decode = now == EXPLAIN_HOST ? fill_slots(of, more) : 1;

    return (struct change){.name = "twice_host_dram",
                           .assumes = "the same misses a request; its bandwidth stays",
                           .tpot_factor = 1 + with_load(of, slowest_load(of, more_decode)),
                           .more_slots = more,
                           .decoding_factor = more_decode};
}

static struct change more_hot(const struct explain_of *of)
{
    return (struct change){.name = "twice_hot_tokens",
                           .assumes = "what they would save is the law's to say: run it",
                           .tpot_factor = NAN,
                           .more_slots =
                               (double)of->run->slots_of_twice_hot - (double)of->run->slots,
                           .decoding_factor = NAN};
}

/* Of a request's time the part in which it decodes. */
static double decoding_share(const struct kvt_tally *tally)
{
    double all = tally->running_ns + tally->waiting_ns + tally->prefilling_ns + tally->importing_ns;
    return all > 0 ? tally->running_ns / all : 0;
}

static double output_factor(const struct explain_of *of, const struct change *change,
                            enum explain_bind now)
{
    switch (now) {
    case EXPLAIN_POOL:
    case EXPLAIN_ROW_POOL:
    case EXPLAIN_HOST:
        return change->decoding_factor / change->tpot_factor;
    case EXPLAIN_LOAD:
        if (!of->run->closed_loop)
            return isnan(change->tpot_factor) ? (double)NAN : 1;
        return 1 / (1 + decoding_share(of->tally) * (change->tpot_factor - 1));
    default:
        return NAN; /* what comes in says how much goes out */
    }
}

static bool add_change(cJSON *list, const struct explain_of *of, const struct change *change,
                       enum explain_bind now)
{
    double tpot_ms = explain_number(of->metrics, "mean_tpot_ms");
    double output = explain_number(of->metrics, "output_throughput");
    cJSON *item = kvt_json_add_element(list);

    return item && kvt_json_add_text(item, "change", change->name) &&
           kvt_json_add_number(item, "tpot_ms", tpot_ms * change->tpot_factor) &&
           kvt_json_add_number(item, "tpot_change", change->tpot_factor - 1) &&
           kvt_json_add_number(item, "more_slots", change->more_slots) &&
           kvt_json_add_number(item, "output_tokens_per_s",
                               output * output_factor(of, change, now)) &&
           kvt_json_add_text(item, "assumes", change->assumes);
}

bool explain_add_worth(cJSON *tree, const struct explain_of *of)
{
    const struct kvt_run *run = of->run;
    enum explain_bind now = explain_bind_of(of);
    cJSON *list = cJSON_AddArrayToObject(tree, "worth");

    if (!list)
        return false;
    /* Of ranks that are all down no step says what more of anything would bring. */
    if (run->ranks == 0 || of->tally->decode_steps == 0 || now == EXPLAIN_NO_RANK)
        return true;
    const struct change link = more_link(of, kvt_json_find(tree, "tpot")),
                        ranks = more_ranks(of, now);
    bool ok = add_change(list, of, &link, now) && add_change(list, of, &ranks, now);
    if (ok && run->slots_by.host != UINT64_MAX && run->slots_by.host > 0) {
        const struct change dram = more_dram(of, now);
        ok = add_change(list, of, &dram, now);
    }
    if (ok && run->slots_of_twice_hot > 0) {
        const struct change hot = more_hot(of);
        ok = add_change(list, of, &hot, now);
    }
    return ok;
}
