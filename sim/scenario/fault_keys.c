/* fault_keys.c -- the keys of one fault in cluster.faults, and names of its kinds. */
#include "kvt/faults.h"
#include "kvt/scenario.h"
#include "section_keys.h"

const char *kvt_fault_kind_name(enum kvt_fault_kind kind)
{
    static const char *const names[KVT_FAULT_KINDS] = {"rank", "node", "link", "prefill"};
    return kind < KVT_FAULT_KINDS ? names[kind] : "unknown";
}

const struct kvt_key kvt_fault_keys[] = {
    {.name = "kind",
     .help = "What fails: a rank, which is a replica of tp GPUs; a node, with its DRAM and every "
             "rank on it; a rank's link to host, which gets slower; servers of the prefill pool.",
     .type = KVT_KEY_CHOICE,
     .choices = "rank|node|link|prefill",
     .required = true,
     .is_switch = true},
    {.name = "at_s",
     .help = "When, simulated seconds. What ends at that instant has ended.",
     .type = KVT_KEY_REAL,
     .minimum = 0,
     .maximum = 1e9,
     .required = true},
    {.name = "which",
     .help = "Rank, node, or rank whose link it is, counted from 0 through all decode pools; or of "
             "those that are up the one with most requests, or any.",
     .type = KVT_KEY_COUNT,
     .minimum = 0,
     .maximum = 1e6,
     .word = "busiest|random",
     .dflt = "\"busiest\"",
     .when_key = "kind",
     .when = "rank|node|link"},
    {.name = "back_after_s",
     .help = "Seconds until it is repaired; 0: never. A rank comes back empty.",
     .type = KVT_KEY_REAL,
     .minimum = 0,
     .maximum = 1e9,
     .dflt = "0"},
    {.name = "reload_s",
     .help = "Seconds more until it serves: weights are loaded again.",
     .type = KVT_KEY_REAL,
     .minimum = 0,
     .maximum = 1e6,
     .dflt = "0",
     .when_key = "kind",
     .when = "rank|node"},
    {.name = "group",
     .help = "The pool's other ranks: they go on, or stop and start anew with it; auto: they stop "
             "where ep is above 1, for then experts are missing.",
     .type = KVT_KEY_CHOICE,
     .choices = "auto|goes_on|stops",
     .dflt = "\"auto\"",
     .when_key = "kind",
     .when = "rank|node"},
    {.name = "host_copy",
     .help = "Rows on host of those who were served there: lost; payload kept, which takes memory "
             "that another process holds as well; or kept with index rows, which takes an engine "
             "that writes these to host too.",
     .type = KVT_KEY_CHOICE,
     .choices = "lost|kept|kept_with_index",
     .dflt = "\"lost\"",
     .when_key = "kind",
     .when = "rank"},
    {.name = "bandwidth_factor",
     .help = "Share of the link's rate that is left.",
     .type = KVT_KEY_REAL,
     .minimum = 0.001,
     .maximum = 0.999,
     .required = true,
     .when_key = "kind",
     .when = "link"},
    {.name = "servers",
     .help = "How many servers of the prefill pool.",
     .type = KVT_KEY_COUNT,
     .minimum = 1,
     .maximum = 4096,
     .dflt = "1",
     .when_key = "kind",
     .when = "prefill"},
    {.name = NULL},
};
