/* nearest_law.h -- which set and preset of the law `score` recorded selections are nearest to. */
#ifndef KVT_CLI_NEAREST_LAW_H
#define KVT_CLI_NEAREST_LAW_H

#include "figures.h"

enum {
    NEAREST_LAWS = 9,     /* sets A, B, C by presets flat, clustered, skewed (docs/laws.md) */
    NEAREST_STREAMS = 3,  /* compared, at most, */
    NEAREST_TOKENS = 512, /* from their beginning, so many of each at most */
    NEAREST_TOKENS_MIN = 64
};

/* Which streams stand for a recording, and how they are asked. */
struct nearest_sample {
    uint32_t top_k, selector_count;
    uint32_t tokens; /* of each */
    size_t stream_count;
    struct {
        uint32_t request, selector, first_rows, tokens_per_row;
    } streams[NEAREST_STREAMS];
};

struct nearest_law {
    const char *set, *preset;
    double distance; /* figures_distance(); NaN: the law cannot have such a k */
};

/* found[NEAREST_LAWS], the nearest first. `figures` are those of the sample. tell() may be NULL. */
KVT_CHECKED kvt_status nearest_laws(const struct nearest_sample *sample,
                                    const struct figures *figures,
                                    bool (*tell)(void *context, double fraction), void *context,
                                    struct nearest_law *found, struct kvt_error *err);

#endif
