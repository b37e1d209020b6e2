/* roofline.h -- the roofline model's state, between its two halves: data sheets
 * to costs (roofline.c), costs to a step's time (roofline_step.c). */
#ifndef KVT_MODELS_TIMING_ROOFLINE_H
#define KVT_MODELS_TIMING_ROOFLINE_H

#include "kvt/timing.h"

enum fetch_order {
    FETCH_GROUP = 0,
    FETCH_LEADER_FIRST
};

/* Everything as ns per unit of a load, so that a step is sums and maxima. */
struct roofline {
    double host_ns, sampling_ns;
    double eager_ns;                                  /* of all layers, without a graph */
    uint32_t graph_step_tokens, graph_largest_tokens; /* what graphs are captured for */

    double dense_read_ns;     /* all dense weights of one GPU */
    double expert_read_ns;    /* all experts of one GPU */
    double untouched;         /* share of experts that one query leaves alone */
    double dense_math_ns;     /* of one query, on the GPUs of its replica */
    double layers_ns;         /* overhead and collective latency of all layers */
    double exchange_ns;       /* collectives of one query */
    uint64_t expert_replicas; /* replicas whose queries meet at one set of experts */

    double scan_read_ns;     /* index rows of one token, over the selectors */
    double scan_query_share; /* of that, what each further query of a request adds */
    double scan_math_ns;     /* of one token and one query */
    double topk_ns;          /* fixed part, over the selectors */
    double topk_score_ns;    /* scores of one token and one query */
    double resolve_ns;       /* one call for each of a rank's requests, in one launch */
    double resolve_row_ns;
    double attend_launch_ns; /* of one layer */
    double attend_ns;        /* of all of them */
    double attend_read_ns;   /* of one row in one layer */
    double attend_math_ns;
    bool reads_are_shared; /* a dense model's: queries of a request read its rows once */
    double rebuild_ns;     /* of one fetched row in one layer, beside the transfer */

    double draft_passes; /* of a round; 0: nothing drafts. The rest is of one pass */
    double draft_fixed_ns;
    double draft_read_ns;     /* the drafter's own weights */
    double draft_model_share; /* and this share of what the model reads for as many queries */
    double draft_math_ns;     /* of one token */
    double draft_request_ns;  /* a request's rows */

    double link_byte_ns;   /* host to device */
    double duplex_byte_ns; /* what a byte of backup under way adds to it */
    double dram_byte_ns;   /* 0: never the limit */
    double granule_ns;     /* 0: never the limit */
    double latency_ns;
    double selectors;
    double follower_share; /* of the layers, those that are not the first of a store */
    enum fetch_order fetch_order;
};

static inline double larger(double a, double b)
{
    return a > b ? a : b;
}

static inline double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* Stands it up with every parameter at its default, whatever the env's are. */
KVT_CHECKED kvt_status kvt_roofline_init_default(struct roofline *roofline,
                                                 const struct kvt_timing_env *env,
                                                 struct kvt_error *err);

/* The table's members of these names. */
void kvt_roofline_group_step(const void *state, const struct kvt_group_load *load,
                             double parts[KVT_PARTS]);
void kvt_roofline_rank_step(const void *state, const struct kvt_rank_load *load,
                            double parts[KVT_PARTS]);
double kvt_roofline_link_ns(const void *state, const struct kvt_rank_load *load);

#endif
