/* explain_binds.c -- what keeps more requests from decoding at once, and what would next.
 *
 *     now:  somebody waits while all ranks are down, mostly -> that
 *           somebody waits, or was put aside   -> the memory that is short
 *           those in prefill, or being imported, are a good part of all -> that
 *           else                               -> the load
 *     next: of everything else what is fullest: were there x times as many requests, all of it
 *           would be x times as full */
#include <math.h>
#include <string.h>

#include "explain_private.h"
#include "kvt/json.h"

/* Means over the stretch, in requests. */
struct means {
    double decoding, waiting, prefilling, importing, held;
};

static struct means means_of(const struct kvt_tally *tally)
{
    double ns = tally->to_ns > tally->from_ns ? (double)(tally->to_ns - tally->from_ns) : 1;

    return (struct means){.decoding = tally->running_ns / ns,
                          .waiting = tally->waiting_ns / ns,
                          .prefilling = tally->prefilling_ns / ns,
                          .importing = tally->importing_ns / ns,
                          .held = tally->held_ns / ns};
}

static enum explain_bind shorter_pool(const struct kvt_run *run)
{
    return run->slots_by.pool[1] < run->slots_by.pool[0] ? EXPLAIN_ROW_POOL : EXPLAIN_POOL;
}

enum explain_bind explain_bind_of(const struct explain_of *of)
{
    const struct kvt_tally *total = of->tally;
    struct means means = means_of(total);

    if (kvt_run_arrived(of->run) == 0)
        return EXPLAIN_NOTHING_ARRIVED;
    if (kvt_run_count_requests(of->run).unservable == kvt_run_arrived(of->run))
        return EXPLAIN_NEVER_FITS;
    if (total->no_rank_ns > 0.5 * total->waiting_ns &&
        means.waiting > 0.05 * (means.decoding + means.waiting))
        return EXPLAIN_NO_RANK;
    if (means.waiting >= 1 || total->preemptions > 0)
        return total->host_short_ns > 0.5 * total->waiting_ns ? EXPLAIN_HOST
                                                              : shorter_pool(of->run);
    if (means.prefilling > means.importing &&
        means.prefilling > 0.05 * (means.decoding + means.prefilling))
        return EXPLAIN_PREFILL;
    if (means.importing >= 0.5 && means.importing > 0.05 * (means.decoding + means.importing))
        return EXPLAIN_IMPORT;
    return EXPLAIN_LOAD;
}

static const char *name_of(enum explain_bind bind, bool has_two_pools)
{
    static const char *const names[EXPLAIN_BINDS] = {
        [EXPLAIN_NOTHING_ARRIVED] = "nothing",
        [EXPLAIN_NEVER_FITS] = "memory",
        [EXPLAIN_NO_RANK] = "no_rank",
        [EXPLAIN_POOL] = "hbm",
        [EXPLAIN_ROW_POOL] = "row_pool",
        [EXPLAIN_HOST] = "host_dram",
        [EXPLAIN_PREFILL] = "prefill",
        [EXPLAIN_IMPORT] = "import",
        [EXPLAIN_LOAD] = "load",
        [EXPLAIN_LINK] = "link",
        [EXPLAIN_DRAM] = "dram_bandwidth",
    };

    return bind == EXPLAIN_POOL && has_two_pools ? "index_pool" : names[bind];
}

static const char *sentence_of(enum explain_bind bind)
{
    static const char *const sentences[EXPLAIN_BINDS] = {
        [EXPLAIN_NOTHING_ARRIVED] = "nothing arrived",
        [EXPLAIN_NEVER_FITS] = "memory: not one request can ever fit",
        [EXPLAIN_NO_RANK] = "no rank left: all are down while requests wait",
        [EXPLAIN_POOL] = "HBM: requests wait for room",
        [EXPLAIN_ROW_POOL] = "HBM: requests wait for room",
        [EXPLAIN_HOST] = "host DRAM: requests wait for room",
        [EXPLAIN_PREFILL] = "prefill: requests wait for it or are in it",
        [EXPLAIN_IMPORT] = "import: requests that fit wait for their history",
        [EXPLAIN_LOAD] = "the load: every request that arrives is served at once",
    };

    return sentences[bind];
}

static double over(double used, double there)
{
    return there > 0 ? used / there : (double)NAN;
}

static double slots(uint64_t count)
{
    return count == UINT64_MAX ? (double)NAN : (double)count;
}

/* Prompts that ranks compute themselves take a part of their steps. */
static double prefill_use(const struct explain_of *of, double ns)
{
    const struct kvt_scenario *scenario = of->run->scenario;
    const struct kvt_tally *tally = of->tally;

    if (scenario->prefill.mode == KVT_PREFILL_SEPARATE)
        return over(tally->prefill_busy_ns, ns * scenario->prefill.servers);
    if (scenario->prefill.mode == KVT_PREFILL_COLOCATED)
        return over((double)tally->parts_ns[KVT_PART_PREFILL], (double)tally->step_ns);
    return NAN;
}

/* How full everything is on average; NaN: there is none of it, or nobody knows. */
static void uses_of(const cJSON *tree, const struct explain_of *of, double uses[EXPLAIN_BINDS])
{
    const struct kvt_run *run = of->run;
    const struct kvt_tally *tally = of->tally;
    double ns = tally->to_ns > tally->from_ns ? (double)(tally->to_ns - tally->from_ns) : 1;
    double held = means_of(tally).held;
    const cJSON *bytes = kvt_json_find(tree, "bytes");

    for (int b = 0; b < EXPLAIN_BINDS; b++)
        uses[b] = NAN;
    uses[EXPLAIN_POOL] = over(held, slots(run->slots_by.pool[0]));
    uses[EXPLAIN_ROW_POOL] = over(held, slots(run->slots_by.pool[1]));
    uses[EXPLAIN_HOST] = over(held, slots(run->slots_by.host));
    uses[EXPLAIN_LINK] = explain_number(kvt_json_find(bytes, "link_in"), "utilisation");
    uses[EXPLAIN_DRAM] = explain_number(kvt_json_find(bytes, "dram"), "utilisation");
    if (run->analytic)
        return; /* marched as flows, without servers to be busy */
    uses[EXPLAIN_PREFILL] = prefill_use(of, ns);
    if (tally->import_hbm_bytes + tally->import_host_bytes > 0)
        uses[EXPLAIN_IMPORT] = over(tally->import_busy_ns, ns * (double)run->import_servers);
}

static double capacity_of(const struct kvt_run *run, enum explain_bind bind)
{
    switch (bind) {
    case EXPLAIN_POOL:
        return slots(run->slots_by.pool[0]);
    case EXPLAIN_ROW_POOL:
        return slots(run->slots_by.pool[1]);
    case EXPLAIN_HOST:
        return slots(run->slots_by.host);
    case EXPLAIN_PREFILL:
        return run->scenario->prefill.mode == KVT_PREFILL_SEPARATE
                   ? (double)run->scenario->prefill.servers
                   : (double)NAN;
    case EXPLAIN_IMPORT:
        return (double)run->import_servers;
    default:
        return NAN;
    }
}

static bool add_uses(cJSON *batch, const struct explain_of *of, const double uses[EXPLAIN_BINDS],
                     bool has_two_pools)
{
    cJSON *list = cJSON_AddArrayToObject(batch, "uses");
    bool ok = list != NULL;

    for (int b = 0; b < EXPLAIN_BINDS && ok; b++) {
        if (!isfinite(uses[b]))
            continue;
        cJSON *item = kvt_json_add_element(list);
        ok = item &&
             kvt_json_add_text(item, "what", name_of((enum explain_bind)b, has_two_pools)) &&
             kvt_json_add_number(item, "capacity", capacity_of(of->run, (enum explain_bind)b)) &&
             kvt_json_add_number(item, "utilisation", uses[b]);
    }
    return ok;
}

/* The fullest of what does not bind now; at how many times the requests it would. */
static bool add_next(cJSON *batch, const double uses[EXPLAIN_BINDS], enum explain_bind now,
                     bool has_two_pools)
{
    int next = EXPLAIN_BINDS;

    /* With no rank there is nothing that could fill up. */
    for (int b = 0; b < EXPLAIN_BINDS && now != EXPLAIN_NO_RANK; b++) {
        if (b != (int)now && isfinite(uses[b]) && uses[b] > 0 &&
            (next == EXPLAIN_BINDS || uses[b] > uses[next]))
            next = b;
    }
    if (next == EXPLAIN_BINDS)
        return kvt_json_add_text(batch, "next", NULL) &&
               kvt_json_add_number(batch, "next_at_times", (double)NAN);
    return kvt_json_add_text(batch, "next", name_of((enum explain_bind)next, has_two_pools)) &&
           kvt_json_add_number(batch, "next_at_times", 1 / uses[next]);
}

bool explain_add_batch(cJSON *tree, const struct explain_of *of)
{
    enum explain_bind now = explain_bind_of(of);
    struct means means = means_of(of->tally);
    bool has_two_pools = of->run->slots_by.pool[1] != UINT64_MAX;
    double uses[EXPLAIN_BINDS];
    cJSON *batch = kvt_json_add_object(tree, "batch");

    uses_of(tree, of, uses);
    return batch && kvt_json_add_text(batch, "now", name_of(now, has_two_pools)) &&
           kvt_json_add_text(batch, "says", sentence_of(now)) &&
           add_next(batch, uses, now, has_two_pools) &&
           kvt_json_add_number(batch, "decoding_mean", means.decoding) &&
           kvt_json_add_number(batch, "prefilling_mean", means.prefilling) &&
           kvt_json_add_number(batch, "importing_mean", means.importing) &&
           kvt_json_add_number(batch, "waiting_mean", means.waiting) &&
           kvt_json_add_number(batch, "slots", (double)of->run->slots) &&
           add_uses(batch, of, uses, has_two_pools);
}
