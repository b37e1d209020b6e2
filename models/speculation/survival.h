/* survival.h -- drafts of many requests in falling order of their chance to survive.
 *
 * A draft survives where it and all before it of its request are accepted, so that a
 * request's drafts never rise along its chain, and taking the best of all of them takes
 * a prefix of each. A heap holds the next draft of every request. */
#ifndef KVT_MODELS_SPECULATION_SURVIVAL_H
#define KVT_MODELS_SPECULATION_SURVIVAL_H

#include <stdbool.h>
#include <stdint.h>

struct survivor {
    double survival;  /* of its next draft */
    uint32_t request; /* index in the view */
    uint32_t position;
};

struct survival_heap {
    struct survivor *items; /* [count] the caller's memory */
    uint32_t count;
};

/* Makes a heap of items in any order. */
void survival_heap_order(struct survival_heap *heap);

/* The best draft is items[0]; equal ones in order of request. Puts its request's next draft in
 * its place, or, with none left, takes the request out. */
void survival_heap_replace(struct survival_heap *heap, double next_survival);
void survival_heap_remove(struct survival_heap *heap);

#endif
