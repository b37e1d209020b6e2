/* run_sets.c -- options that are --set by another name. */
#include "run_sets.h"

#include <stdio.h>
#include <string.h>

bool run_sets_take_exact(const struct run_sets *options)
{
    static const char fidelity[] = "run.fidelity=", run[] = "run=";

    if (!options->backend || strcmp(options->backend, "sim") == 0 || options->fidelity)
        return false;
    for (size_t i = 0; i < options->sets.count; i++) {
        const char *set = options->sets.items[i];
        if (strncmp(set, fidelity, sizeof fidelity - 1) == 0 ||
            strncmp(set, run, sizeof run - 1) == 0)
            return false;
    }
    return true;
}

static bool add_set(char texts[RUN_SETS_MORE][RUN_SETS_BYTES], size_t *used, const char *name,
                    const char *value, const char **sets, size_t *count)
{
    if (!value)
        return true;
    char *text = texts[(*used)++];
    sets[(*count)++] = text;
    return snprintf(text, RUN_SETS_BYTES, "%s=%s", name, value) < RUN_SETS_BYTES;
}

bool run_sets_gather(const struct run_sets *options, char texts[RUN_SETS_MORE][RUN_SETS_BYTES],
                     const char **sets, size_t *count)
{
    size_t used = 0;
    const char *fidelity = run_sets_take_exact(options) ? "exact" : options->fidelity;

    *count = 0;
    if (!add_set(texts, &used, "backend", options->backend, sets, count))
        return false;
    for (size_t i = 0; i < options->sets.count; i++)
        sets[(*count)++] = options->sets.items[i];
    return add_set(texts, &used, "seed", options->seed, sets, count) &&
           add_set(texts, &used, "run.fidelity", fidelity, sets, count);
}
