/* engine_facts.c -- what flags, rules and logs of engines can speak of. */
#include "kvt/engine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct kvt_engine_fact_doc docs[] = {
    /* What is run, and on what. */
    {"model", KVT_FACT_TEXT, "Our name of the model."},
    {"hardware", KVT_FACT_TEXT, "Our name of the GPU."},
    {"dense", KVT_FACT_BOOL, "The model has no indexer: a query reads its whole context."},
    {"compressed", KVT_FACT_BOOL, "Several tokens make one row in some of its layers."},
    {"blocks", KVT_FACT_BOOL, "Rows are selected and fetched in blocks (model.block_tokens)."},
    {"heads", KVT_FACT_NUMBER, "Attention heads of the model."},
    {"unaligned", KVT_FACT_BOOL, "A row is no multiple of 64 B, so that more of it crosses."},
    {"row_bytes", KVT_FACT_NUMBER, "Bytes of a payload row in one layer."},
    {"gpus", KVT_FACT_NUMBER, "GPUs in all."},
    {"tp", KVT_FACT_NUMBER, "GPUs that hold the same KV."},
    {"dp", KVT_FACT_NUMBER, "Replicas with KV of their own."},
    {"world_tp", KVT_FACT_NUMBER, "What the engine's own tensor-parallel flag says."},
    {"ep", KVT_FACT_NUMBER, "GPUs that share the experts."},
    {"expert_parallel", KVT_FACT_BOOL, "Experts are spread over all GPUs."},
    {"dp_attention", KVT_FACT_BOOL, "Replicas split the GPUs of the tensor-parallel group."},
    {"attention_dp", KVT_FACT_BOOL, "Each GPU of the tensor-parallel group is a replica."},
    {"pp", KVT_FACT_NUMBER, "Pipeline stages."},
    {"dcp", KVT_FACT_NUMBER, "GPUs that split a context while decoding."},
    {"nodes", KVT_FACT_NUMBER, "Nodes."},
    {"pools", KVT_FACT_NUMBER, "Kinds of decoding GPUs in the scenario."},
    /* Lengths and seats. */
    {"max_tokens", KVT_FACT_NUMBER, "Longest context that is taken."},
    {"max_tokens_fitted", KVT_FACT_BOOL, "It is to be what one request may have in the pool."},
    {"longest_fits", KVT_FACT_NUMBER, "Longest context of which one request fits a replica."},
    {"max_requests", KVT_FACT_NUMBER, "Most requests that run at once."},
    /* Memory. */
    {"memory_fraction", KVT_FACT_NUMBER, "Of a GPU's memory, what the engine takes."},
    {"pool_tokens", KVT_FACT_NUMBER, "Tokens that the KV pool of a GPU is to hold."},
    {"pool_blocks", KVT_FACT_NUMBER, "Blocks that it is to have."},
    {"pool_gib", KVT_FACT_NUMBER, "GiB that it is to have."},
    {"page_tokens", KVT_FACT_NUMBER, "Tokens of a page."},
    {"kv_dtype", KVT_FACT_TEXT, "Format of KV rows: bf16, fp8, or else the engine's word."},
    {"host_gib", KVT_FACT_NUMBER, "Host DRAM of a replica for rows, GiB."},
    {"host_ratio", KVT_FACT_NUMBER, "Host rows for each row of the device pool."},
    {"host_tokens", KVT_FACT_NUMBER, "Tokens that a replica's host DRAM holds, in whole pages."},
    {"host_least_tokens", KVT_FACT_NUMBER, "Tokens that it must hold for one longest request."},
    {"host_pinned_gib", KVT_FACT_NUMBER, "Host DRAM that a node's replicas pin, GiB."},
    {"host_node_gib", KVT_FACT_NUMBER, "Host DRAM of a node, GiB."},
    {"index_unbudgeted_gib", KVT_FACT_NUMBER, "Index rows of a GPU that its budget leaves out."},
    {"hbm_free_gib", KVT_FACT_NUMBER, "HBM of a GPU that weights and pool leave, GiB."},
    {"offload_gib", KVT_FACT_NUMBER, "Host DRAM for whole prefixes, GiB."},
    {"offload_ratio", KVT_FACT_NUMBER, "The same, as a multiple of the device pool."},
    /* The hierarchy. */
    {"hierarchy", KVT_FACT_BOOL, "Rows live on host and selected ones are fetched."},
    {"offload", KVT_FACT_BOOL, "Whole prefixes go to host and come back."},
    {"hot_tokens", KVT_FACT_NUMBER, "Rows of a request's hot cache."},
    {"hot_factor", KVT_FACT_NUMBER, "The same, as a multiple of what a query selects."},
    {"hot_least", KVT_FACT_NUMBER, "Rows that the queries of a round select together."},
    {"hot_most", KVT_FACT_NUMBER, "Largest hot cache that the engine's tables take."},
    {"top_k", KVT_FACT_NUMBER, "Rows that a query selects."},
    {"configured_top_k", KVT_FACT_NUMBER, "The same, as a flag says it."},
    {"swap_threads", KVT_FACT_NUMBER, "Threads of the kernel that fetches rows."},
    {"policy", KVT_FACT_TEXT, "Residency policy."},
    {"replacement", KVT_FACT_TEXT, "Replacement policy of hot caches."},
    {"prefetch", KVT_FACT_BOOL, "Missed rows are predicted and sent ahead."},
    {"read_depth", KVT_FACT_BOOL, "Rows are read at several precisions."},
    {"each_query", KVT_FACT_BOOL, "Queries of a round fetch one after the other."},
    {"staging", KVT_FACT_BOOL, "Rows without a hot slot are used from staging."},
    {"split_pools", KVT_FACT_BOOL, "Index rows and payload rows have pools of their own."},
    {"plugin", KVT_FACT_BOOL, "A policy of the scenario is no built-in one."},
    /* Speculation, prompts, the rest. */
    {"method", KVT_FACT_TEXT, "How drafts are made: none, or a speculation method."},
    {"queries", KVT_FACT_NUMBER, "Queries of a round, drafts and the anchor."},
    {"tree_width", KVT_FACT_NUMBER, "Branches of a tree of drafts."},
    {"speculates", KVT_FACT_BOOL, "Rounds have more than one query."},
    {"prefill", KVT_FACT_TEXT, "Where prompts are computed: colocated, decode or prefill only."},
    {"prefix_cache", KVT_FACT_BOOL, "Prompts find what earlier ones left."},
    {"graphs", KVT_FACT_TEXT, "CUDA graphs, in the engine's word."},
    {"hybrid_manager_off", KVT_FACT_BOOL, "The cache manager of several groups is off."},
    {"seed", KVT_FACT_NUMBER, "Of chance."},
    {"running", KVT_FACT_NUMBER, "Requests of the longest length that run at once on a replica."},
    /* What a log says of a start. */
    {"log_arguments", KVT_FACT_TEXT, "What it was started with."},
    {"log_pool_gib", KVT_FACT_NUMBER, "GiB that were left for KV on a GPU."},
    {"log_tokens", KVT_FACT_NUMBER, "Tokens that its pool holds."},
    {"log_blocks", KVT_FACT_NUMBER, "Blocks that it has."},
    {"log_host_blocks", KVT_FACT_NUMBER, "Blocks of the host pool."},
    {"log_host_gib", KVT_FACT_NUMBER, "GiB of it."},
    {"log_host_gb", KVT_FACT_NUMBER, "1e9 B of it."},
    {"log_max_tokens", KVT_FACT_NUMBER, "Longest context."},
    {"log_requests", KVT_FACT_NUMBER, "Requests that the engine says fit."},
    {"log_seats", KVT_FACT_NUMBER, "Most requests that it lets run."},
    {"log_weights_gib", KVT_FACT_NUMBER, "GiB of weights on a GPU."},
    {"log_free_gib", KVT_FACT_NUMBER, "GiB that nothing has taken in the end."},
    {"log_kv_gib", KVT_FACT_NUMBER, "GiB of rows in the pool."},
};
enum {
    DOCS = sizeof docs / sizeof docs[0]
};
_Static_assert(sizeof docs / sizeof docs[0] <= (size_t)KVT_ENGINE_FACTS_MAX,
               "facts have room for every name");

const struct kvt_engine_fact_doc *kvt_engine_facts(size_t *count)
{
    *count = DOCS;
    return docs;
}

int kvt_engine_fact_find(const char *name)
{
    for (int i = 0; i < DOCS; i++) {
        if (strcmp(docs[i].name, name) == 0)
            return i;
    }
    return -1;
}

#define COUNT_MOST 9007199254740992.0 /* 2^53 */

static const struct {
    const char *name;
    struct kvt_engine_range range;
} ranges[] = {
    {"world_tp", {1, 1024, true}},
    {"dp", {1, 4096, true}},
    {"ep", {1, 4096, true}},
    {"pp", {1, 1024, true}},
    {"dcp", {1, 1024, true}},
    {"nodes", {1, 4096, true}},
    {"max_tokens", {KVT_ENGINE_TOKENS_MIN, COUNT_MOST, true}},
    {"max_requests", {1, COUNT_MOST, true}},
    {"memory_fraction", {0.01, 1, false}},
    {"pool_tokens", {1, COUNT_MOST, true}},
    {"pool_blocks", {1, COUNT_MOST, true}},
    {"page_tokens", {1, COUNT_MOST, true}},
    {"hot_tokens", {1, COUNT_MOST, true}},
    {"configured_top_k", {1, COUNT_MOST, true}},
    {"swap_threads", {0, COUNT_MOST, true}},
    {"queries", {1, 32, true}}, /* as many as a round of a scenario can have */
    {"tree_width", {1, 32, true}},
    {"seed", {0, COUNT_MOST, true}},
};

struct kvt_engine_range kvt_engine_fact_range(int fact)
{
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (strcmp(ranges[i].name, docs[fact].name) == 0)
            return ranges[i].range;
    }
    return (struct kvt_engine_range){0, INFINITY, false};
}

void kvt_engine_set_number(struct kvt_engine_facts *facts, const char *name, double value)
{
    int fact = kvt_engine_fact_find(name);

    if (fact < 0)
        return;
    facts->of[fact].is_known = true;
    facts->of[fact].number = value;
}

void kvt_engine_set_text(struct kvt_engine_facts *facts, const char *name, const char *value)
{
    int fact = kvt_engine_fact_find(name);

    if (fact < 0)
        return;
    facts->of[fact].is_known = true;
    facts->of[fact].text = value;
}

bool kvt_engine_knows(const struct kvt_engine_facts *facts, const char *name)
{
    int fact = kvt_engine_fact_find(name);

    return fact >= 0 && facts->of[fact].is_known;
}

double kvt_engine_number(const struct kvt_engine_facts *facts, const char *name, double otherwise)
{
    int fact = kvt_engine_fact_find(name);

    return fact >= 0 && facts->of[fact].is_known ? facts->of[fact].number : otherwise;
}

bool kvt_engine_is(const struct kvt_engine_facts *facts, const char *name)
{
    return kvt_engine_number(facts, name, 0) != 0;
}

const char *kvt_engine_text(const struct kvt_engine_facts *facts, const char *name)
{
    int fact = kvt_engine_fact_find(name);

    return fact >= 0 && facts->of[fact].is_known ? facts->of[fact].text : NULL;
}

/* ---- Rules ------------------------------------------------------------------------------- */

const char *kvt_engine_effect_name(enum kvt_engine_effect effect)
{
    static const char *const names[KVT_ENGINE_EFFECTS] = {"refuses", "cannot", "off", "warns"};

    return (unsigned)effect < KVT_ENGINE_EFFECTS ? names[effect] : "unknown";
}

static bool is_among(const struct kvt_engine_condition *condition, const char *text)
{
    for (uint32_t i = 0; text != NULL && i < condition->text_count; i++) {
        if (strcmp(condition->texts[i], text) == 0)
            return true;
    }
    return false;
}

static bool holds(const struct kvt_engine_condition *condition,
                  const struct kvt_engine_facts *facts)
{
    bool is_known = facts->of[condition->fact].is_known;
    double value = facts->of[condition->fact].number;
    double bound = condition->number;

    if (condition->op == KVT_ENGINE_UNKNOWN)
        return !is_known;
    if (!is_known)
        return false;
    if (condition->other >= 0) {
        if (!facts->of[condition->other].is_known)
            return false;
        bound *= facts->of[condition->other].number;
    }
    bool is_text = docs[condition->fact].kind == KVT_FACT_TEXT;
    bool equal = is_text ? is_among(condition, facts->of[condition->fact].text) : value == bound;
    switch (condition->op) {
    case KVT_ENGINE_IS:
    case KVT_ENGINE_IN:
        return equal;
    case KVT_ENGINE_IS_NOT:
    case KVT_ENGINE_NOT_IN:
        return !equal;
    case KVT_ENGINE_BELOW:
        return value < bound;
    case KVT_ENGINE_ABOVE:
        return value > bound;
    case KVT_ENGINE_NOT_MULTIPLE:
        return !(fmod(value, bound) == 0);
    default:
        return true; /* it is known */
    }
}

bool kvt_engine_applies(const struct kvt_engine_rule *rule, const struct kvt_engine_facts *facts)
{
    for (uint32_t i = 0; i < rule->when_count; i++) {
        if (!holds(&rule->when[i], facts))
            return false;
    }
    return true;
}

/* A fact's value as a sentence has it; a number below 1000 with two digits, where it has any. */
static void print_fact(const struct kvt_engine_facts *facts, int fact, char out[64])
{
    double number = facts->of[fact].number;

    if (!facts->of[fact].is_known)
        (void)snprintf(out, 64, "unknown");
    else if (docs[fact].kind == KVT_FACT_TEXT)
        (void)snprintf(out, 64, "%s", facts->of[fact].text);
    else if (number == (double)(long long)number)
        (void)snprintf(out, 64, "%lld", (long long)number);
    else
        (void)snprintf(out, 64, number < 10 ? "%.2f" : "%.1f", number);
}

const char *kvt_engine_sentence(const char *text, const struct kvt_engine_facts *facts,
                                struct kvt_arena *arena)
{
    const char *out = kvt_arena_strdup(arena, "");

    while (out != NULL && *text != '\0') {
        size_t literal = strcspn(text, "{");
        const char *end = strchr(text + literal, '}');
        char name[64] = "", value[64] = "";

        if (text[literal] == '\0' || end == NULL)
            return kvt_arena_printf(arena, "%s%s", out, text);
        (void)snprintf(name, sizeof name, "%.*s", (int)(end - text - (ptrdiff_t)literal - 1),
                       text + literal + 1);
        int fact = kvt_engine_fact_find(name);
        if (fact >= 0)
            print_fact(facts, fact, value);
        out = kvt_arena_printf(arena, "%s%.*s%s", out, (int)literal, text, value);
        text = end + 1;
    }
    return out;
}
