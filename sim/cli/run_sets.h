/* run_sets.h -- the options of a run that choose its scenario, as settings from left to right. */
#ifndef KVT_CLI_RUN_SETS_H
#define KVT_CLI_RUN_SETS_H

#include "cli.h"

struct run_sets {
    struct cli_texts sets;
    const char *seed, *backend, *fidelity; /* NULL: not given */
};

/* Rows of an option table for them. */
#define RUN_SETS_OPTIONS(target)                                                                   \
    {"--set", "PATH=VALUE", "changes one key of the scenario; repeatable", CLI_TEXTS,              \
     &(target).sets},                                                                              \
        {"--seed", "N", "the run's seed", CLI_TEXT, &(target).seed},                               \
        {"--backend", "sim|cuda", "what a decode step is done by; before any --set", CLI_TEXT,     \
         &(target).backend},                                                                       \
    {                                                                                              \
        "--fidelity", "exact|sampled|analytic",                                                    \
            "every call, some with the rest estimated, or mean values", CLI_TEXT,                  \
            &(target).fidelity                                                                     \
    }

enum {
    RUN_SETS_MORE = 4, /* options that are --set by another name */
    RUN_SETS_BYTES = 128
};

/* Every call is run on a GPU, whatever a scenario says of fidelity that was made for none; who says
 * so on the command line is taken at his word. */
bool run_sets_take_exact(const struct run_sets *options);

/* --backend comes first, so that --set changes its parameters; --seed and --fidelity last.
 * sets[options->sets.count + RUN_SETS_MORE], which point into texts and options. False where a
 * value is too long. */
bool run_sets_gather(const struct run_sets *options, char texts[RUN_SETS_MORE][RUN_SETS_BYTES],
                     const char **sets, size_t *count);

#endif
