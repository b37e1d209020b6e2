/* keys.c -- the table of keys: checking, defaults, `check --print`, the schema and the guide are
 * all made from it. Sections have theirs in files of their own: section_keys.h. */
#include "keys.h"

#include "kvt/policy.h"
#include "section_keys.h"

/* 2^53 - 1: from 2^53 on, a JSON number may stand for the whole number beside it. */
#define COUNT_MAX 9007199254740991.0

/* ---- What takes a key's effect away, in several sections -------------------------- */

const struct kvt_idle kvt_without_drafts[KVT_IDLE_MAX] = {WITHOUT_DRAFTS};
const struct kvt_idle kvt_without_hot_caches[KVT_IDLE_MAX] = {KVT_IDLE_WITHOUT_HOT_CACHES};
/* Mean values are of no single request, rank or second. */
const struct kvt_idle kvt_without_events[KVT_IDLE_MAX] = {
    {.beside = "run.fidelity",
     .values = "analytic",
     .cure = "run.fidelity \"exact\" or \"sampled\""},
};

/* ---- The whole --------------------------------------------------------------------- */

static const struct kvt_key top_keys[] = {
    {.name = "schema",
     .help = "What this file is.",
     .type = KVT_KEY_CHOICE,
     .choices = KVT_SCENARIO_SCHEMA,
     .required = true},
    {.name = "name",
     .help = "For reports; the file's name unless given. Not inherited.",
     .type = KVT_KEY_TEXT,
     .minimum = 1,
     .maximum = 200},
    {.name = "extends",
     .help = "Scenarios this one starts from: a shipped name or a path, or a list of them.",
     .type = KVT_KEY_EXTENDS},
    {.name = "seed",
     .help = "Where all chance comes from. No seed, no run.",
     .type = KVT_KEY_COUNT,
     .minimum = 0,
     .maximum = COUNT_MAX,
     .required = true},
    {.name = "model",
     .help = "The language model: a shipped name, a path, or {\"base\": one, ...changes}.",
     .type = KVT_KEY_FILE,
     .folder = "models/llm",
     .noun = "model",
     .required = true},
    {.name = "hardware",
     .help = "GPU and node: a shipped name, a path, or {\"base\": one, ...changes}.",
     .type = KVT_KEY_FILE,
     .folder = "models/hardware",
     .noun = "hardware",
     .required = true},
    {.name = "cluster",
     .help = "The machines, and how requests get to them.",
     .type = KVT_KEY_OBJECT,
     .members = kvt_cluster_keys},
    {.name = "residency",
     .help = "What of a request's history stays in HBM.",
     .type = KVT_KEY_PLUGIN,
     .kind = KVT_PLUGIN_RESIDENCY,
     .name_key = "policy",
     .dflt = "\"adaptive\"",
     .members = kvt_residency_keys},
    {.name = "replacement",
     .help = "Which slots of a hot cache are given up.",
     .type = KVT_KEY_PLUGIN,
     .kind = KVT_PLUGIN_REPLACEMENT,
     .name_key = "policy",
     .dflt = "\"lru\""},
    {.name = "speculation",
     .help = "Speculative decoding: who drafts, how much is verified, and how it is retrieved.",
     .type = KVT_KEY_PLUGIN,
     .kind = KVT_PLUGIN_SPECULATION,
     .name_key = "method",
     .dflt = "\"none\"",
     .members = kvt_speculation_keys},
    {.name = "selection",
     .help = "Which rows the indexer selects.",
     .type = KVT_KEY_PLUGIN,
     .kind = KVT_PLUGIN_LAW,
     .name_key = "law",
     .dflt = "\"tape\"",
     .idle = kvt_without_hot_caches},
    {.name = "timing",
     .help = "How long a decode step takes.",
     .type = KVT_KEY_PLUGIN,
     .kind = KVT_PLUGIN_TIMING,
     .name_key = "model",
     .dflt = "\"roofline\""},
    {.name = "workload",
     .help = "What arrives.",
     .type = KVT_KEY_PLUGIN,
     .kind = KVT_PLUGIN_ARRIVAL,
     .name_key = "arrival",
     .takes_shorthand = true,
     .dflt = "\"closed\"",
     .members = kvt_workload_keys},
    {.name = "slo",
     .help = "What requests are promised.",
     .type = KVT_KEY_OBJECT,
     .members = kvt_slo_keys},
    {.name = "run",
     .help = "How long, how finely, how exactly.",
     .type = KVT_KEY_OBJECT,
     .members = kvt_run_keys},
    {.name = "backend",
     .help = "What a decode step is done by.",
     .type = KVT_KEY_PLUGIN,
     .kind = KVT_PLUGIN_BACKEND,
     .name_key = "name",
     .dflt = "\"sim\""},
    {.name = NULL},
};

static const struct kvt_key root = {
    .name = "",
    .help = "A run of kvtide.",
    .type = KVT_KEY_OBJECT,
    .members = top_keys,
};

const struct kvt_key *kvt_keys_root(void)
{
    return &root;
}
