/* speculation_keys.c -- the keys of `speculation`, beside those of its method. */
#include "kvt/policy.h"
#include "section_keys.h"

#define RETRIEVED_ONE_BY_ONE                                                                       \
    {                                                                                              \
        .beside = "speculation.retrieval", .values = "each_query",                                 \
        .cure = "speculation.retrieval \"shared\""                                                 \
    }

static const struct kvt_idle without_retrieval[KVT_IDLE_MAX] = {WITHOUT_DRAFTS,
                                                                KVT_IDLE_WITHOUT_HOT_CACHES};
static const struct kvt_idle without_overflow[KVT_IDLE_MAX] = {
    WITHOUT_DRAFTS, KVT_IDLE_WITHOUT_HOT_CACHES, RETRIEVED_ONE_BY_ONE};
static const struct kvt_idle without_staging[KVT_IDLE_MAX] = {
    WITHOUT_DRAFTS,
    KVT_IDLE_WITHOUT_HOT_CACHES,
    RETRIEVED_ONE_BY_ONE,
    {.beside = "speculation.overflow",
     .values = "none",
     .cure = "speculation.overflow \"staging\""},
};

const struct kvt_key kvt_speculation_keys[] = {
    {.name = "retrieval",
     .help = "One resolve for all queries of a round, or one for each in turn.",
     .type = KVT_KEY_CHOICE,
     .choices = "shared|each_query",
     .dflt = "\"shared\"",
     .idle = without_retrieval},
    {.name = "overflow",
     .help = "Where a shared resolve puts rows that find no hot slot; none: every row must find "
             "one, and hot_tokens is refused below queries x top_k (vLLM's rule).",
     .type = KVT_KEY_CHOICE,
     .choices = "staging|none",
     .dflt = "\"staging\"",
     .idle = without_overflow},
    {.name = "staging_fraction",
     .help = "Share of its widest call's rows that each session adds to its rank's staging; below "
             "1 calls of a step may have to take turns.",
     .type = KVT_KEY_REAL,
     .minimum = 0.001,
     .maximum = 1,
     .dflt = "1",
     .idle = without_staging},
    {.name = "promotion",
     .help = "Which staged rows stay in the hot cache: none, or those that more queries select "
             "than the rows they replace.",
     .type = KVT_KEY_CHOICE,
     .choices = "none|by_count",
     .dflt = "\"none\"",
     .idle = without_staging},
    {.name = NULL},
};
