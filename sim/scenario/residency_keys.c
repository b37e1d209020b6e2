/* residency_keys.c -- the keys of `residency`, beside those of its policy. */
#include "kvt/policy.h"
#include "section_keys.h"

static const struct kvt_idle without_prefetch[KVT_IDLE_MAX] = {
    KVT_IDLE_WITHOUT_HOT_CACHES,
    {.beside = "recall", .from = 0, .to = 0, .cure = "a residency.prefetch.recall above 0"},
};
static const struct kvt_idle without_planes[KVT_IDLE_MAX] = {
    KVT_IDLE_WITHOUT_HOT_CACHES,
    {.beside = "shallow_share",
     .from = 0,
     .to = 0,
     .cure = "a residency.read_depth.shallow_share above 0"},
};

static const struct kvt_key prefetch_keys[] = {
    {.name = "recall",
     .help = "Of the rows that calls miss, the share that was predicted; 0: nothing is.",
     .type = KVT_KEY_REAL,
     .minimum = 0,
     .maximum = 1,
     .dflt = "0",
     .idle = kvt_without_hot_caches},
    {.name = "precision",
     .help = "Of the rows that were predicted, the share that is missed; the others cross in vain.",
     .type = KVT_KEY_REAL,
     .minimum = 0.001,
     .maximum = 1,
     .dflt = "1",
     .idle = without_prefetch},
    {.name = "lead",
     .help =
         "What runs while predicted rows are on their way: the call's own index scan, what lies "
         "between the selector before and this one, or a whole step.",
     .type = KVT_KEY_CHOICE,
     .choices = "scan|selector|step",
     .dflt = "\"selector\"",
     .idle = without_prefetch},
    {.name = NULL},
};

static const struct kvt_key read_depth_keys[] = {
    {.name = "shallow_share",
     .help = "Of the reads of a row, the share that needs its first plane alone; 0: rows are one "
             "piece.",
     .type = KVT_KEY_REAL,
     .minimum = 0,
     .maximum = 1,
     .dflt = "0",
     .idle = kvt_without_hot_caches},
    {.name = "shallow_fraction",
     .help = "Share of a row's bytes that lies in its first plane.",
     .type = KVT_KEY_REAL,
     .minimum = 0.001,
     .maximum = 0.999,
     .dflt = "0.5",
     .idle = without_planes},
    {.name = NULL},
};

const struct kvt_key kvt_residency_keys[] = {
    {.name = "hot_tokens",
     .help = "Tokens that a request's hot caches hold rows of; \"2k\" is twice top_k, auto is "
             "(widest round + 1) x top_k x the largest compress ratio.",
     .type = KVT_KEY_HOT,
     .minimum = 1,
     .maximum = 1e9,
     .word = "auto",
     .dflt = "\"auto\"",
     .idle = kvt_without_hot_caches},
    {.name = "prefetch",
     .help =
         "Rows predicted to be missed, and sent before they are. What is cached does not change.",
     .type = KVT_KEY_OBJECT,
     .idle = kvt_without_hot_caches,
     .members = prefetch_keys},
    {.name = "read_depth",
     .help = "Rows on host in two planes, of which a read fetches what it needs.",
     .type = KVT_KEY_OBJECT,
     .idle = kvt_without_hot_caches,
     .members = read_depth_keys},
    {.name = NULL},
};
