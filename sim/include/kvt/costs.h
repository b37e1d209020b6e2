/* kvt/costs.h -- measured step times of one replica, over the requests that draft and
 * the tokens that are verified: models/costs/NAME.json. */
#ifndef KVT_COSTS_H
#define KVT_COSTS_H

#include "kvt/error.h"

KVT_BEGIN_DECLS

enum {
    KVT_COSTS_POINTS_MAX = 128 /* of one list of a file */
};

/* A staircase, as engines that replay captured graphs have it: whatever is not a point
 * itself costs what the next larger point does. */
struct kvt_cost_curve {
    uint32_t count;
    uint32_t sizes[KVT_COSTS_POINTS_MAX]; /* [count] rising; requests or tokens */
    double ms[KVT_COSTS_POINTS_MAX];      /* [count] never falling */
};

/* Plain data without pointers. */
struct kvt_costs {
    struct kvt_cost_curve draft;  /* over requests */
    struct kvt_cost_curve verify; /* over tokens, up to the largest graph */
    struct kvt_cost_curve cliff;  /* over tokens beyond it, where no graph is replayed; may be
                                   * empty */
    uint32_t graph_limit_tokens;  /* of the largest graph */
};

/* Reads a file of schema "kvtide/costs/1". Each list of points rises in size; a time below
 * the one before it is raised to it, as noise of what was measured. */
KVT_CHECKED kvt_status kvt_costs_load(const char *path, struct kvt_costs *out,
                                      struct kvt_error *err);

/* What drafting for so many requests takes, and verifying so many tokens; 0 for none. Beyond the
 * last point: its time, in proportion to the size. */
double kvt_costs_draft_ms(const struct kvt_costs *costs, uint32_t requests);
double kvt_costs_verify_ms(const struct kvt_costs *costs, uint32_t tokens);

/* Whether a point of the file covers both. */
bool kvt_costs_in_range(const struct kvt_costs *costs, uint32_t requests, uint32_t tokens);

KVT_END_DECLS
#endif
