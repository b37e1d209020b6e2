/* bind_faults.c -- what fails, when, and for how long: checked against the cluster.
 *
 * A rank, node or link that is named fails once at a time; one that is drawn, or is the busiest,
 * may meet another fault. */
#include <stdio.h>

#include "bind.h"
#include "kvt/backend.h"
#include "kvt/clock.h"

/* ---- Ranks and nodes -------------------------------------------------------------- */

static uint32_t nodes_of(const struct kvt_decode_pool *pool)
{
    return (pool->gpus + pool->gpus_per_node - 1) / pool->gpus_per_node;
}

uint32_t kvt_scenario_rank_count(const struct kvt_scenario *scenario)
{
    uint32_t count = 0;

    for (uint32_t p = 0; p < scenario->pool_count; p++)
        count += scenario->pools[p].dp;
    return count;
}

uint32_t kvt_scenario_node_count(const struct kvt_scenario *scenario)
{
    uint32_t count = 0;

    for (uint32_t p = 0; p < scenario->pool_count; p++)
        count += nodes_of(&scenario->pools[p]);
    return count;
}

/* A rank's GPUs stand side by side, those of a node too. */
static bool stands_on(const struct kvt_decode_pool *pool, uint32_t rank, uint32_t node)
{
    return node >= rank * pool->tp / pool->gpus_per_node &&
           node <= ((rank + 1) * pool->tp - 1) / pool->gpus_per_node;
}

static bool stops_group(const struct kvt_decode_pool *pool, const struct kvt_fault *fault)
{
    return fault->group == KVT_FAULT_GROUP_STOPS ||
           (fault->group == KVT_FAULT_GROUP_AUTO && pool->ep > 1);
}

bool kvt_fault_hits(const struct kvt_scenario *scenario, const struct kvt_fault *fault,
                    uint32_t which, uint32_t rank)
{
    uint32_t first_rank = 0, first_node = 0, p = 0;

    if (fault->kind == KVT_FAULT_LINK)
        return which == rank;
    while (rank - first_rank >= scenario->pools[p].dp) {
        first_rank += scenario->pools[p].dp;
        first_node += nodes_of(&scenario->pools[p++]);
    }
    const struct kvt_decode_pool *pool = &scenario->pools[p];
    if (fault->kind == KVT_FAULT_RANK) {
        bool is_of_pool = which >= first_rank && which - first_rank < pool->dp;
        return which == rank || (is_of_pool && stops_group(pool, fault));
    }
    if (fault->kind != KVT_FAULT_NODE || which < first_node || which - first_node >= nodes_of(pool))
        return false;
    return stops_group(pool, fault) || stands_on(pool, rank - first_rank, which - first_node);
}

/* ---- One fault -------------------------------------------------------------------- */

/* A fault of the list, and where it stands. */
struct given {
    struct kvt_load *load;
    const struct kvt_scenario *scenario;
    uint32_t index;
};

/* Where a key of it stands; names: "a|b", without what leads to them. */
static const char *place_of(const struct given *given, const char *name,
                            char place[KVT_PLACE_BYTES])
{
    char path[KVT_DOTTED_BYTES];

    (void)snprintf(path, sizeof path, "cluster.faults.%u.%s", given->index, name);
    return kvt_load_place(given->load, path, place);
}

static kvt_status bind_times(const struct given *given, const cJSON *object, struct kvt_fault *out,
                             struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    double back_s = kvt_real_at(object, "back_after_s"),
           reload_s = kvt_real_or(object, "reload_s", 0);

    (void)kvt_ns_from_seconds(kvt_real_at(object, "at_s"), &out->at_ns); /* the key's range fits */
    out->back_ns = KVT_NS_NEVER;
    if (back_s > 0)
        (void)kvt_ns_from_seconds(back_s + reload_s, &out->back_ns);
    else if (reload_s > 0)
        return kvt_fail(err, KVT_ERR_INVALID, place_of(given, "reload_s", place),
                        "reload_s has no effect while back_after_s is 0; it takes a back_after_s "
                        "above 0");
    return KVT_OK;
}

static kvt_status bind_which(const struct given *given, const cJSON *object, struct kvt_fault *out,
                             struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    const cJSON *node = kvt_tree_find(object, "which");
    const char *noun = out->kind == KVT_FAULT_NODE ? "node" : "rank";
    uint32_t count = out->kind == KVT_FAULT_NODE ? kvt_scenario_node_count(given->scenario)
                                                 : kvt_scenario_rank_count(given->scenario);

    if (cJSON_IsString(node)) {
        bool is_busiest = strcmp(node->valuestring, "busiest") == 0;
        out->target = is_busiest ? KVT_FAULT_BUSIEST : KVT_FAULT_RANDOM;
        return KVT_OK;
    }
    out->which = kvt_count_at(object, "which");
    if (out->which < count)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, place_of(given, "which", place),
                    "there is no %s %u: cluster.decode has %u; 0 to %u, \"busiest\" or \"random\" "
                    "are expected",
                    noun, out->which, count, count - 1);
}

static kvt_status bind_servers(const struct given *given, const cJSON *object,
                               struct kvt_fault *out, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    const struct kvt_prefill *prefill = &given->scenario->prefill;

    out->servers = kvt_count_at(object, "servers");
    if (prefill->mode != KVT_PREFILL_SEPARATE)
        return kvt_fail(err, KVT_ERR_INVALID, place_of(given, "kind", place),
                        "kind \"prefill\" takes servers of their own: cluster.prefill.mode "
                        "\"separate\" is expected");
    if (out->servers <= prefill->servers)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, place_of(given, "servers", place),
                    "%u servers fail, and cluster.prefill has %u", out->servers, prefill->servers);
}

static kvt_status bind_fault(const struct given *given, const cJSON *object, struct kvt_fault *out,
                             struct kvt_error *err)
{
    static const char *const groups = "auto|goes_on|stops";
    const char *kind = kvt_text_at(object, "kind");

    *out = (struct kvt_fault){.bandwidth_factor = 1};
    while (strcmp(kvt_fault_kind_name(out->kind), kind) != 0)
        out->kind++;
    kvt_status status = bind_times(given, object, out, err);
    if (status != KVT_OK || out->kind == KVT_FAULT_PREFILL)
        return status == KVT_OK ? bind_servers(given, object, out, err) : status;
    if (out->kind == KVT_FAULT_LINK) {
        out->bandwidth_factor = kvt_real_at(object, "bandwidth_factor");
        return bind_which(given, object, out, err);
    }
    out->group = (enum kvt_fault_group)kvt_choice_index(groups, kvt_text_at(object, "group"));
    if (out->kind == KVT_FAULT_RANK) {
        const char *copy = kvt_text_at(object, "host_copy");
        out->keeps_host = strcmp(copy, "lost") != 0;
        out->keeps_index = strcmp(copy, "kept_with_index") == 0;
    }
    return bind_which(given, object, out, err);
}

/* ---- Several ---------------------------------------------------------------------- */

static bool overlap_in_time(const struct kvt_fault *a, const struct kvt_fault *b)
{
    bool a_over = a->back_ns != KVT_NS_NEVER && a->at_ns + a->back_ns <= b->at_ns;
    bool b_over = b->back_ns != KVT_NS_NEVER && b->at_ns + b->back_ns <= a->at_ns;
    return !a_over && !b_over;
}

/* A rank that both take down, or whose link both slow; UINT32_MAX: none. */
static uint32_t find_common(const struct kvt_scenario *scenario, const struct kvt_fault *a,
                            const struct kvt_fault *b)
{
    if (a->target != KVT_FAULT_NAMED || b->target != KVT_FAULT_NAMED ||
        (a->kind == KVT_FAULT_LINK) != (b->kind == KVT_FAULT_LINK))
        return UINT32_MAX;
    /* Those that the list names before those that only stop along with them. */
    const uint32_t named[] = {b->which, a->which};
    for (uint32_t i = 0; i < kvt_scenario_rank_count(scenario) + 2; i++) {
        const struct kvt_fault *by = i == 0 ? b : a;
        uint32_t r = i < 2 ? named[i] : i - 2;
        if (i < 2 && by->kind == KVT_FAULT_NODE)
            continue;
        if (kvt_fault_hits(scenario, a, a->which, r) && kvt_fault_hits(scenario, b, b->which, r))
            return r;
    }
    return UINT32_MAX;
}

/* ", which stops along with rank 2," (or whatever before and behind says) of a rank that a fault
 * takes down without naming it; else "". */
static const char *along_with(const struct kvt_fault *fault, uint32_t rank, const char *before,
                              const char *behind, char out[48])
{
    out[0] = '\0';
    if (fault->kind == KVT_FAULT_NODE || fault->which != rank)
        (void)snprintf(out, 48, "%salong with %s %u%s", before, kvt_fault_kind_name(fault->kind),
                       fault->which, behind);
    return out;
}

/* When the run ends whatever happens; KVT_NS_NEVER: that is not known. *key: what says so. */
static kvt_ns end_of(const struct kvt_scenario *scenario, const char **key)
{
    const struct kvt_param_value *phases = kvt_param_of(&scenario->arrival, "phases");
    double phases_s = 0, end_s = scenario->duration_s;
    kvt_ns end_ns = KVT_NS_NEVER;

    *key = "run.duration_s";
    for (size_t i = 1; phases != NULL && i < phases->list_length; i += 2)
        phases_s += phases->list[i]; /* {concurrency, seconds} */
    if (phases_s > 0 && !(end_s > 0 && end_s < phases_s)) {
        *key = "workload.phases";
        end_s = phases_s;
    }
    if (!(end_s > 0) || !kvt_ns_from_seconds(end_s, &end_ns))
        return KVT_NS_NEVER;
    return end_ns;
}

static kvt_status check_end(const struct given *given, const struct kvt_fault *fault,
                            struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    const char *key = NULL;
    kvt_ns end_ns = end_of(given->scenario, &key);

    if (end_ns == KVT_NS_NEVER || fault->at_ns <= end_ns)
        return KVT_OK;
    return kvt_fail(err, KVT_ERR_INVALID, place_of(given, "at_s", place),
                    "found %g s, and the run is over at %g s (%s): the fault would never strike",
                    (double)fault->at_ns / (double)KVT_NS_PER_S,
                    (double)end_ns / (double)KVT_NS_PER_S, key);
}

/* Servers that have failed when the fault strikes, its own among them. */
static uint64_t servers_lost(const struct kvt_fault *faults, uint32_t count, uint32_t at)
{
    uint64_t servers = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct kvt_fault *other = &faults[i];
        bool has_begun = other->at_ns <= faults[at].at_ns;
        if (other->kind == KVT_FAULT_PREFILL && has_begun && overlap_in_time(other, &faults[at]))
            servers += other->servers;
    }
    return servers;
}

static kvt_status check_overlaps(const struct given *given, const struct kvt_fault *faults,
                                 uint32_t count, struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];
    const struct kvt_fault *fault = &faults[given->index];

    if (fault->kind == KVT_FAULT_PREFILL) {
        uint64_t servers = servers_lost(faults, count, given->index);
        if (servers <= given->scenario->prefill.servers)
            return KVT_OK;
        return kvt_fail(err, KVT_ERR_INVALID, place_of(given, "servers", place),
                        "%llu servers will have failed by then, and cluster.prefill has %u",
                        (unsigned long long)servers, given->scenario->prefill.servers);
    }
    for (uint32_t i = 0; i < given->index; i++) {
        char by_this[48], by_other[48];
        uint32_t rank = find_common(given->scenario, &faults[i], fault);
        if (rank == UINT32_MAX || faults[i].kind == KVT_FAULT_PREFILL ||
            !overlap_in_time(&faults[i], fault))
            continue;
        return kvt_fail(err, KVT_ERR_INVALID, place_of(given, "at_s", place),
                        "%s %u%s has failed already at %g s%s, by fault %u of the list, and is not "
                        "back by then",
                        fault->kind == KVT_FAULT_LINK ? "the link of rank" : "rank", rank,
                        along_with(fault, rank, ", which stops ", ",", by_this),
                        (double)faults[i].at_ns / (double)KVT_NS_PER_S,
                        along_with(&faults[i], rank, " ", "", by_other), i);
    }
    return KVT_OK;
}

/* Mean values know no instants, and lanes on a GPU are not given up in the middle of a step. */
static kvt_status check_run(struct kvt_load *load, const struct kvt_scenario *scenario,
                            struct kvt_error *err)
{
    char place[KVT_PLACE_BYTES];

    if (scenario->fidelity == KVT_FIDELITY_ANALYTIC)
        return kvt_fail(err, KVT_ERR_UNSUPPORTED, kvt_load_place(load, "run.fidelity", place),
                        "cluster.faults strike at instants, of which mean values know none; "
                        "run.fidelity \"sampled\" or \"exact\", or cluster.faults=[], is expected");
    if (kvt_backend_runs(&scenario->backend))
        return kvt_fail(err, KVT_ERR_UNSUPPORTED,
                        kvt_load_place(load, "cluster.faults|backend.name", place),
                        "cluster.faults are simulated only, and backend \"%s\" runs every step; "
                        "backend \"sim\", or cluster.faults=[], is expected",
                        scenario->backend.info->name);
    return KVT_OK;
}

kvt_status kvt_bind_faults(struct kvt_load *load, struct kvt_scenario *out, struct kvt_error *err)
{
    const cJSON *list = kvt_tree_at(load->tree, "cluster.faults"), *item = NULL;
    uint32_t count = (uint32_t)cJSON_GetArraySize(list);
    struct given given = {.load = load, .scenario = out};

    if (count == 0)
        return KVT_OK;
    struct kvt_fault *faults =
        kvt_arena_array(load->arena, count, sizeof *faults, _Alignof(struct kvt_fault));
    if (faults == NULL)
        return kvt_fail_nomem(err, "the faults of a scenario");
    kvt_status status = check_run(load, out, err);
    cJSON_ArrayForEach(item, list)
    {
        if (status == KVT_OK)
            status = bind_fault(&given, item, &faults[given.index], err);
        given.index++;
    }
    for (given.index = 0; status == KVT_OK && given.index < count; given.index++)
        status = check_end(&given, &faults[given.index], err);
    for (given.index = 0; status == KVT_OK && given.index < count; given.index++)
        status = check_overlaps(&given, faults, count, err);
    out->faults = faults;
    out->fault_count = count;
    return status;
}
