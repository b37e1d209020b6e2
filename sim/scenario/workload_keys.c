/* workload_keys.c -- the keys of `workload`, beside those of its arrival. */
#include "kvt/workload.h"
#include "section_keys.h"

/* Each kind of requests has its own. */
static const struct kvt_idle with_kinds[KVT_IDLE_MAX] = {
    {.beside = "classes", .from = 1, .to = KVT_KINDS_MAX, .cure = "an empty list of classes"},
};

static bool takes_lengths(const struct kvt_plugin_info *info)
{
    return ((const struct kvt_arrival *)(const void *)info)->uses_lengths;
}

static const struct kvt_key lengths_keys[] = {
    {.name = "input",
     .help = "Tokens of a prompt.",
     .type = KVT_KEY_PLUGIN,
     .kind = KVT_PLUGIN_LENGTH,
     .name_key = "law",
     .dflt = "\"fixed\""},
    {.name = "output",
     .help = "Tokens of an answer.",
     .type = KVT_KEY_PLUGIN,
     .kind = KVT_PLUGIN_LENGTH,
     .name_key = "law",
     .dflt = "\"lognormal\""},
    {.name = NULL},
};

static const struct kvt_key kind_keys[] = {
    {.name = "name",
     .help = "Name of the kind, for reports.",
     .type = KVT_KEY_TEXT,
     .minimum = 1,
     .maximum = KVT_CLASS_NAME_BYTES - 1,
     .required = true},
    {.name = "share",
     .help = "Share of the requests; shares sum to 1.",
     .type = KVT_KEY_REAL,
     .minimum = 0,
     .maximum = 1,
     .required = true},
    {.name = "lengths",
     .help = "How long requests of this kind are.",
     .type = KVT_KEY_OBJECT,
     .required = true,
     .members = lengths_keys},
    {.name = "task",
     .help = "What they are about: a list in speculation.acceptance; workload.task unless given.",
     .type = KVT_KEY_TEXT,
     .minimum = 1,
     .maximum = KVT_TASK_NAME_BYTES - 1,
     .idle = kvt_without_drafts},
    {.name = "slo_class",
     .help = "Which of slo.classes they belong to; drawn by the shares there unless given.",
     .type = KVT_KEY_TEXT,
     .minimum = 1,
     .maximum = KVT_CLASS_NAME_BYTES - 1,
     .idle = kvt_without_events},
    {.name = "shared_prefix_tokens",
     .help =
         "The first tokens of every prompt of this kind, or all of one that is shorter, are the "
         "same, and found again where they were kept; 0: none.",
     .type = KVT_KEY_COUNT,
     .minimum = 0,
     .maximum = 1e9,
     .dflt = "0",
     .idle = kvt_without_events},
    {.name = NULL},
};

const struct kvt_key kvt_workload_keys[] = {
    {.name = "lengths",
     .help = "How long requests are, where the arrival does not say.",
     .type = KVT_KEY_OBJECT,
     .belongs = takes_lengths,
     .belongs_why = "its requests bring their own lengths",
     .idle = with_kinds,
     .members = lengths_keys},
    {.name = "classes",
     .help = "Kinds of requests with lengths of their own, drawn by share.",
     .type = KVT_KEY_LIST,
     .maximum = KVT_KINDS_MAX,
     .belongs = takes_lengths,
     .belongs_why = "its requests bring their own lengths",
     .members = kind_keys},
    {.name = "task",
     .help = "What requests are about that do not say so: a list in speculation.acceptance.",
     .type = KVT_KEY_TEXT,
     .minimum = 1,
     .maximum = KVT_TASK_NAME_BYTES - 1,
     .dflt = "\"default\"",
     .idle = kvt_without_drafts},
    {.name = NULL},
};
